//! When snapshots are taken.

use std::time::Duration;

use crate::protocol::VerdictOffset;

/// The interval between snapshots, and whether one is due.
#[derive(Debug)]
pub(super) struct SnapshotSchedule {
    /// If absent, only snapshots that an operator wants are taken.
    interval: Option<Duration>,
    last: Duration,
    /// Whether a snapshot is due.
    due: bool,
    /// Whether an operator wants a snapshot.
    wanted: bool,
    /// Offset of the newest snapshot that was taken or restored.
    at: Option<VerdictOffset>,
}

impl SnapshotSchedule {
    pub(super) fn new(interval: Option<Duration>) -> Self {
        Self { interval, last: Duration::ZERO, due: false, wanted: false, at: None }
    }

    /// Restarts the interval.
    pub(super) fn begin(&mut self, now: Duration) {
        self.last = now;
    }

    /// Notes that the state at this offset was restored.
    pub(super) fn restored(&mut self, at: VerdictOffset) {
        self.at = Some(at);
    }

    /// Notes that an operator wants a snapshot.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// Finds out whether a snapshot is due.
    pub(super) fn look(&mut self, now: Duration) {
        self.due = self.wanted || self.interval.is_some_and(|interval| now >= self.last + interval);
    }

    /// Returns whether a snapshot was due at the last look.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Notes that a snapshot that was due is taken, of the state at this offset.
    pub(super) fn taken(&mut self, now: Duration, at: VerdictOffset) {
        (self.due, self.wanted) = (false, false);
        self.last = now;
        self.at = Some(at);
    }

    /// Returns whether to take a last snapshot before the end, of the state at this offset, so that the next start has
    /// little to follow. Returns false if there is one already, or if snapshots are not taken at intervals.
    pub(super) fn takes_last(&mut self, at: VerdictOffset) -> bool {
        self.interval.is_some() && self.at.replace(at) != Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn due(schedule: &mut SnapshotSchedule, now: Duration) -> bool {
        schedule.look(now);
        schedule.is_due()
    }

    #[test]
    fn one_is_due_after_each_interval_and_when_an_operator_wants_it() {
        let mut schedule = SnapshotSchedule::new(Some(5 * MINUTE));
        schedule.begin(MINUTE);
        assert!(!due(&mut schedule, 5 * MINUTE));
        assert!(due(&mut schedule, 6 * MINUTE));
        schedule.taken(7 * MINUTE, VerdictOffset(3));
        assert!(!due(&mut schedule, 11 * MINUTE));
        schedule.want();
        assert!(due(&mut schedule, 11 * MINUTE));
        schedule.taken(11 * MINUTE, VerdictOffset(4));
        assert!(!due(&mut schedule, 12 * MINUTE));
    }

    #[test]
    fn the_last_one_is_taken_unless_it_is_there() {
        let mut schedule = SnapshotSchedule::new(Some(MINUTE));
        schedule.restored(VerdictOffset(3));
        assert!(!schedule.takes_last(VerdictOffset(3)));
        assert!(schedule.takes_last(VerdictOffset(4)));
        assert!(!schedule.takes_last(VerdictOffset(4)));
        assert!(!SnapshotSchedule::new(None).takes_last(VerdictOffset(9)), "none are taken");
    }
}
