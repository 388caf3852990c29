//! Detects that no verdicts arrive although requests are pending.
//!
//! A worker that is slow to get one verdict is not alone: a judge may have a backlog. What this looks for is silence:
//! requests wait, and for some time not one verdict was read. Then no instance judges, or none can be reached.

use std::time::Duration;

use crate::protocol::RequestOffset;

/// How long silence may last before it is reported.
const LIMIT: Duration = Duration::from_secs(2);

/// How often a standby asks where the fingerprint log ends: whether a request waits.
const END_LOOK: Duration = Duration::from_millis(500);

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

/// Watches for a judge that is gone, as a standby does: requests are in the fingerprint log, and no verdict of them
/// comes.
#[derive(Debug, Default)]
pub(super) struct StandbyWatch {
    watch: VerdictWatch,
    /// The end of the fingerprint log, as of recently.
    end: RequestOffset,
    /// When it was asked for, and whether the answer is on its way.
    asked: Duration,
    is_asked: bool,
}

impl StandbyWatch {
    /// A verdict was read.
    pub(super) fn heard(&mut self, now: Duration) {
        self.watch.heard(now);
    }

    /// Says whether the end of the fingerprint log is to be asked for now; then it is answered.
    pub(super) fn asks_for_end(&mut self, now: Duration) -> bool {
        if self.is_asked || now.saturating_sub(self.asked) < END_LOOK {
            return false;
        }
        (self.asked, self.is_asked) = (now, true);
        true
    }

    /// The fingerprint log ends there, if that is known.
    pub(super) fn end_answered(&mut self, end: Option<RequestOffset>) {
        self.is_asked = false;
        self.end = self.end.max(end.unwrap_or_default());
    }

    /// Returns how many requests wait.
    pub(super) fn requests(&self, next_request: RequestOffset) -> u64 {
        self.end.since(next_request)
    }

    /// Returns for how long requests have waited without any verdict, if that is too long.
    pub(super) fn silence(&mut self, now: Duration, next_request: RequestOffset) -> Option<Duration> {
        self.watch.silence(now, self.requests(next_request) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::TICK_INTERVAL;
    use super::super::judge_driver::HOUSEKEEPING_INTERVAL;
    use super::*;

    #[test]
    fn a_standby_alone_says_within_three_seconds_that_nobody_judges() {
        // The brokers take their time to answer.
        let answers_after = Duration::from_millis(200);
        for comes_at in (0..1_000).step_by(10).map(Duration::from_millis) {
            let (mut watch, mut now, mut looked) = (StandbyWatch::default(), Duration::ZERO, Duration::ZERO);
            let mut question: Option<(Duration, RequestOffset)> = None;
            let said_at = loop {
                now += TICK_INTERVAL;
                if let Some((_, end)) = question.take_if(|(asked, _)| now >= *asked + answers_after) {
                    watch.end_answered(Some(end));
                }
                if now.saturating_sub(looked) < HOUSEKEEPING_INTERVAL {
                    continue;
                }
                looked = now;
                if watch.silence(now, RequestOffset(0)).is_some() {
                    break now;
                }
                if watch.asks_for_end(now) {
                    question = Some((now, RequestOffset(i64::from(now >= comes_at))));
                }
            };
            let after = said_at.saturating_sub(comes_at);
            assert!(
                (LIMIT..Duration::from_secs(3)).contains(&after),
                "a request at {comes_at:?}: said after {after:?}"
            );
        }
    }

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
