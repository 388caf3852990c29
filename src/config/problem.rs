//! Problems of a configuration, and where they were written.

use std::fmt;
use std::sync::Arc;

use super::excerpt::Excerpt;
use crate::error::{Fatal, Reason};

/// One problem. Shows as `dupgate.yaml:85:3: match.simhash.max_distance: 9 is above the limit of 8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Where the value came from; [`Origin::Default`] if it was not given.
    pub origin: Origin,
    /// The key, its levels joined by dots; empty if no single key is at fault.
    pub path: String,
    /// The problem, with the value and the limit. Never holds a secret.
    pub message: String,
    /// The lines of the file around it, with a mark below; absent if it is not in a file.
    pub excerpt: Option<Box<Excerpt>>,
}

impl Problem {
    /// Creates the problem of one key. The layers fill in its origin.
    pub(super) fn of(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), ..Self::default() }
    }

    /// Creates the problem of a value from this origin, and of its key if that is known.
    pub(super) fn at(origin: Origin, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { origin, ..Self::of(path, message) }
    }

    /// Returns the key by which problems are sorted: in the order of the files, with those without a place last.
    pub(super) fn place(&self) -> (bool, Arc<str>, u64, u64) {
        match &self.origin {
            Origin::File { name, line, column } => (false, Arc::clone(name), *line, *column),
            Origin::Default | Origin::Variable(_) | Origin::Set => (true, Arc::default(), 0, 0),
        }
    }

    /// Returns the name that was probably meant instead of one that does not exist.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.message.rsplit_once("did you mean `")?.1.strip_suffix("`?")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin != Origin::Default {
            write!(f, "{}: ", self.origin)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// A configuration that cannot be used: every problem found, and the warnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Every problem, in the order found. Never empty.
    pub problems: Vec<Problem>,
    /// The warnings.
    pub warnings: Vec<Problem>,
}

impl std::error::Error for Refused {}

impl From<Refused> for Fatal {
    fn from(refused: Refused) -> Self {
        Reason::Config.because(refused)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// Where a value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    #[default]
    Default,
    /// A place in a file; line and column count from 1.
    File {
        /// The file as named on the command line.
        name: Arc<str>,
        /// Its line, 0 when unknown.
        line: u64,
        /// The column in it, 0 when unknown.
        column: u64,
    },
    /// A variable of the environment.
    Variable(String),
    /// `--set`.
    Set,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { name, line: 0, .. } => f.write_str(name),
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::Variable(name) => f.write_str(name),
            Self::Set => f.write_str("--set"),
        }
    }
}
