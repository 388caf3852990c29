//! The pause before a log is read again from its beginning.

use std::time::Duration;

use crate::protocol::VerdictOffset;

/// The pause before the second consecutive reading; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(64);

/// Counts consecutive readings from the beginning that did not reach the end: some record cannot be read or belongs to
/// another log, and reading without pauses would load the brokers for nothing.
#[derive(Debug, Default)]
pub(super) struct Rereading {
    readings: u32,
}

impl Rereading {
    /// Returns the pause before reading the log from this offset, or from its beginning for `None`.
    pub(super) fn begin(&mut self, from: Option<VerdictOffset>) -> Duration {
        if from.is_some() {
            return Duration::ZERO;
        }
        let before = self.readings;
        self.readings = before.saturating_add(1);
        if before == 0 { Duration::ZERO } else { (FIRST_PAUSE * (1 << (before - 1).min(6))).min(LONGEST_PAUSE) }
    }

    /// Notes that the end of the log was reached, so that all of it could be read.
    pub(super) fn ended(&mut self) {
        self.readings = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_from_the_beginning_back_off_until_one_reaches_the_end() {
        let (mut rereading, later) = (Rereading::default(), Some(VerdictOffset(7)));
        let mut pauses = |from: &[Option<VerdictOffset>]| -> Vec<u64> {
            from.iter().map(|&from| rereading.begin(from).as_secs()).collect()
        };
        assert_eq!(pauses(&[later, None, None, None, None]), [0, 0, 1, 2, 4], "no pause before a first reading");
        assert_eq!(pauses(&[later, None]), [0, 8], "one that begins elsewhere has not reached the end");
        assert_eq!(pauses(&[None; 40]).last(), Some(&64));
        rereading.ended();
        assert_eq!(rereading.begin(None), Duration::ZERO);
    }
}
