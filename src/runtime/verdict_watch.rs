//! Detects that no verdicts arrive although requests are pending.
//!
//! A worker that is slow to get one verdict is not alone: a judge may have a backlog. What this looks for is silence: requests
//! wait, and for some time not one verdict was read. Then no instance judges, or none can be reached.

use std::time::Duration;

/// How long silence may last before it is reported.
const LIMIT: Duration = Duration::from_secs(2);

/// How often a standby asks where the fingerprint log ends: whether a request waits.
pub(super) const END_LOOK: Duration = Duration::from_millis(500);

/// Watches one partition of the verdict log.
#[derive(Debug, Default)]
pub(super) struct VerdictWatch {
    /// When a verdict was read last.
    heard: Duration,
    /// Since when requests have waited without a break.
    waiting: Option<Duration>,
}

impl VerdictWatch {
    /// A verdict was read, for any request.
    pub(super) fn heard(&mut self, now: Duration) {
        self.heard = now;
    }

    /// Returns for how long verdicts have been missing, if that is too long; `waits` says whether a request waits now.
    pub(super) fn silence(&mut self, now: Duration, waits: bool) -> Option<Duration> {
        if !waits {
            self.waiting = None;
            return None;
        }
        let since = *self.waiting.get_or_insert(now);
        Some(now.saturating_sub(since.max(self.heard))).filter(|silence| *silence >= LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_last_verdict_or_from_the_first_request_that_waits() {
        let second = Duration::from_secs;
        let mut watch = VerdictWatch::default();
        assert_eq!(watch.silence(second(100), false), None, "nobody waits");
        assert_eq!(watch.silence(second(100), true), None);
        assert_eq!(watch.silence(second(101), true), None);
        assert_eq!(watch.silence(second(102), true), Some(second(2)), "counts from the first look that saw one wait");
        watch.heard(second(102));
        assert_eq!(watch.silence(second(103), true), None, "a verdict came, and the others are on their way");
        assert_eq!(watch.silence(second(106), true), Some(second(4)));
        assert_eq!(watch.silence(second(107), false), None);
        assert_eq!(watch.silence(second(108), true), None, "waits again, for a moment");
    }
}
