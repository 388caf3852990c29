//! The identity of a verdict log.

/// Drawn once when a verdict log is created; distinguishes it from another log under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogIdentity(pub u64);
