//! The few reasons to stop, each with its exit code.

use std::fmt;
use std::process::ExitCode;

/// The reasons for which the process ends with an error. The exit codes follow `sysexits.h` where it defines one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// A check found something wrong, or the command failed for a reason that has no exit code of its own.
    Failure = 1,
    /// Wrong usage of the command line.
    Usage = 2,
    /// An input file cannot be read.
    Input = 66,
    /// Brokers, or the requested instance, cannot be reached.
    Unavailable = 69,
    /// A bug: a thread panicked.
    Bug = 70,
    /// The operating system refused a request: the address to listen on is in use or not available.
    System = 71,
    /// State cannot be read or written, or state is lost and `index.cold_start` forbids starting with an empty index.
    State = 74,
    /// The process stopped before its work was complete; the same command continues it.
    Unfinished = 75,
    /// Not authorized.
    Denied = 77,
    /// The configuration is refused.
    Config = 78,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 10] = [
        Self::Failure,
        Self::Usage,
        Self::Input,
        Self::Unavailable,
        Self::Bug,
        Self::System,
        Self::State,
        Self::Unfinished,
        Self::Denied,
        Self::Config,
    ];

    /// Returns the exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns what the exit code means, as in `dupgate --help` and docs/TROUBLESHOOTING.md.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Failure => {
                "a check of another command found something wrong (status --ready, test, ...), or another failure"
            }
            Self::Usage => "wrong usage of the command line",
            Self::Input => "an input file is missing or cannot be used",
            Self::Unavailable => {
                "brokers, or the requested instance, cannot be reached, or `dupgate check` reports a failure"
            }
            Self::Bug => "a bug: a thread panicked",
            Self::System => "an address to listen on is in use or not available",
            Self::State => "state cannot be read or written, or is lost and index.cold_start is stop",
            Self::Unfinished => "stopped before everything was committed (processing.shutdown_grace)",
            Self::Denied => "not authorized; the message names the ACL to add",
            Self::Config => "the configuration is refused, or two processes share an input.instance_id",
        }
    }

    /// Creates the error that ends the process for this reason.
    #[must_use]
    pub fn because(self, cause: impl Into<anyhow::Error>) -> Fatal {
        Fatal { reason: self, cause: cause.into() }
    }
}

/// Creates the error that ends the process from a reason and a message: `fatal!(Usage, "{name} is no file")`.
macro_rules! fatal {
    ($reason:ident, $($message:tt)+) => { $crate::error::Reason::$reason.because(anyhow::anyhow!($($message)+)) };
}
pub(crate) use fatal;

/// Converts an error into the one that ends the process.
pub(crate) trait OrFatal<T> {
    /// Adds the reason.
    fn or_fatal(self, reason: Reason) -> Result<T, Fatal>;
}

impl<T, E: Into<anyhow::Error>> OrFatal<T> for Result<T, E> {
    fn or_fatal(self, reason: Reason) -> Result<T, Fatal> {
        self.map_err(|error| reason.because(error))
    }
}

/// Meaning of exit code 0.
pub const DONE: &str = "done, or stopped by SIGTERM, SIGINT or SIGHUP with everything committed";

/// An error that ends the process, with its exit code. Only `main` shows it, so it is shown once.
#[derive(Debug)]
pub struct Fatal {
    /// Decides the exit code.
    pub reason: Reason,
    /// The error with its causes.
    pub cause: anyhow::Error,
}

impl Fatal {
    /// Adds the name of the part of the program in which the error happened.
    #[must_use]
    pub fn in_part(self, name: &str) -> Self {
        Self { cause: self.cause.context(name.to_owned()), ..self }
    }

    /// Returns the exit code.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.reason.code())
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.cause)
    }
}

impl std::error::Error for Fatal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_documented() {
        assert_eq!(Reason::ALL.map(Reason::code), [1, 2, 66, 69, 70, 71, 74, 75, 77, 78]);
    }

    #[test]
    fn the_causes_are_shown_with_the_error() {
        let cause = anyhow::anyhow!("no such file").context("cannot read the manifest");
        let fatal = Reason::State.because(cause);
        assert_eq!(fatal.to_string(), "cannot read the manifest: no such file");
        assert_eq!(fatal.exit_code(), ExitCode::from(74));
    }
}
