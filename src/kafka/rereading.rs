//! The pause before a log is read from its beginning again.

use std::time::Duration;

use crate::protocol::VerdictOffset;

/// The pause before the second reading in a row; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(64);

/// How often in a row a log was read from its beginning without coming to its end: something in it cannot be read, or
/// belongs to another log, and reading it all without a pause would load the brokers and never help.
#[derive(Debug, Default)]
pub(super) struct Rereading {
    readings: u32,
}

impl Rereading {
    /// The log is to be read from this offset, from its beginning when there is none. Returns how long to wait before.
    pub(super) fn begin(&mut self, from: Option<VerdictOffset>) -> Duration {
        if from.is_some() {
            return Duration::ZERO;
        }
        let before = self.readings;
        self.readings = before.saturating_add(1);
        if before == 0 { Duration::ZERO } else { (FIRST_PAUSE * (1 << (before - 1).min(6))).min(LONGEST_PAUSE) }
    }

    /// The end of the log was reached: all of it could be read.
    pub(super) fn ended(&mut self) {
        self.readings = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_from_the_beginning_wait_ever_longer_until_one_comes_to_the_end() {
        let (mut rereading, later) = (Rereading::default(), Some(VerdictOffset(7)));
        let mut pauses = |from: &[Option<VerdictOffset>]| -> Vec<u64> {
            from.iter().map(|&from| rereading.begin(from).as_secs()).collect()
        };
        assert_eq!(pauses(&[later, None, None, None, None]), [0, 0, 1, 2, 4], "a first reading is under no suspicion");
        assert_eq!(pauses(&[later, None]), [0, 8], "what begins elsewhere has not come to the end");
        assert_eq!(pauses(&[None; 40]).last(), Some(&64));
        rereading.ended();
        assert_eq!(rereading.begin(None), Duration::ZERO);
    }
}
