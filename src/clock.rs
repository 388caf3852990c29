//! The only module that reads clocks and draws random numbers.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::record::Timestamp;

/// A monotonic clock that counts from its start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the only source of time")]
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// Returns the current instant, for code that compares instants.
    #[must_use]
    pub fn instant(&self) -> Instant {
        self.started + self.started.elapsed()
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Returns the wall clock, as the time since 1970.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the only source of time")]
pub fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the wall clock in the units of records.
#[must_use]
pub fn wall_time() -> Timestamp {
    Timestamp::from_millis(i64::try_from(wall_clock().as_millis()).unwrap_or(i64::MAX))
}

/// Returns a number from the system randomness that the standard library uses for its hash maps.
pub(crate) fn random_id() -> u64 {
    RandomState::new().hash_one((wall_clock(), std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_differ() {
        assert_ne!(random_id(), random_id());
    }
}
