//! The few reasons to stop, each with its exit code.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use crate::config::Refused;

/// Why the process ends before its work is done. The numbers are those of `sysexits.h` where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// It ran and found a failure.
    Failure = 1,
    /// Wrong usage of the command line.
    Usage = 2,
    /// Brokers cannot be reached.
    Unavailable = 69,
    /// A bug: a thread panicked.
    Bug = 70,
    /// State cannot be read or written, or facts are gone and `index.cold_start` forbids to begin anew.
    State = 74,
    /// Stopped before the end; the same command goes on from there.
    Unfinished = 75,
    /// Not authorized.
    Denied = 77,
    /// The configuration is refused.
    Config = 78,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::Failure,
        Self::Usage,
        Self::Unavailable,
        Self::Bug,
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

    /// Makes the error that ends the process for this reason.
    #[must_use]
    pub fn because(self, cause: impl Into<anyhow::Error>) -> Fatal {
        Fatal { reason: self, cause: cause.into() }
    }
}

/// Ends the process: what happened, and with which exit code. Shown once, by `main`.
#[derive(Debug)]
pub struct Fatal {
    /// Decides the exit code.
    pub reason: Reason,
    /// What happened, with its causes.
    pub cause: anyhow::Error,
}

impl Fatal {
    /// Says in which part of the program it happened.
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

impl From<Refused> for Fatal {
    fn from(refused: Refused) -> Self {
        Reason::Config.because(refused)
    }
}

/// Does the work of a thread. A panic in it ends the whole process with [`Reason::Bug`], so that no thread is
/// missed silently. Work that may panic on a hostile page catches that itself, further in.
pub fn exit_on_panic<T>(work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| std::process::exit(i32::from(Reason::Bug.code())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_that_are_documented() {
        assert_eq!(Reason::ALL.map(Reason::code), [1, 2, 69, 70, 74, 75, 77, 78]);
    }

    #[test]
    fn a_panic_on_a_thread_ends_the_process_with_its_own_code() {
        const CHILD: &str = "DUPGATE_TEST_PANICS";
        if std::env::var_os(CHILD).is_some() {
            let thread = std::thread::spawn(|| exit_on_panic(|| panic!("a bug")));
            thread.join().unwrap();
        }
        let name = "error::tests::a_panic_on_a_thread_ends_the_process_with_its_own_code";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = child.args([name, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
        assert_eq!(ended.status.code(), Some(70), "{ended:?}");
    }

    #[test]
    fn the_causes_are_told_with_the_error() {
        let cause = anyhow::anyhow!("no such file").context("cannot read the manifest");
        let fatal = Reason::State.because(cause);
        assert_eq!(fatal.to_string(), "cannot read the manifest: no such file");
        assert_eq!(fatal.exit_code(), ExitCode::from(74));
    }
}
