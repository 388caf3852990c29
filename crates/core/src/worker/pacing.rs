//! When a partition of the input waits for another one.

use std::time::Duration;

use crate::record::Timestamp;

/// When a partition waits for another one.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// How far, in event time, a partition may be ahead of the slowest one. It resumes when it leads by half of that.
    pub lead: Duration,
    /// How far behind the newest page judged a partition may be to be waited for: nothing that is found for its pages
    /// is remembered beyond.
    pub reach: Duration,
    /// For how long one of our own partitions that gives no pages is waited for.
    pub idle_after: Duration,
    /// For how long a partition of another worker is waited for that does not move: that worker may be starting again.
    pub away_after: Duration,
    /// From one look for the slowest partition to the next.
    pub interval: Duration,
    /// From one question about what is left of the partitions to the next, while a slower one is waited for.
    pub look_interval: Duration,
}

impl Pacing {
    /// Returns whether a page of time `foremost` may be waiting for a partition at `time`: one that waits does so until
    /// half of the lead is left.
    pub(super) fn is_behind(&self, time: Timestamp, foremost: Option<Timestamp>) -> bool {
        foremost.is_some_and(|foremost| time.plus(self.lead / 2) < foremost)
    }

    /// Returns whether waiting for a partition at `time` keeps anything from being forgotten too early. A page without
    /// a time of its own tells nothing.
    pub(super) fn is_of_use(&self, time: Timestamp, newest: Option<Timestamp>) -> bool {
        let is_known = time == Timestamp::MIN || time > Timestamp::default();
        is_known && newest.is_none_or(|newest| time >= newest.minus(self.reach))
    }
}
