//! The place where a setting was written.

use std::fmt;
use std::sync::Arc;

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
