//! How far every partition of the input has come, whichever worker reads it.
//!
//! Workers know each other's progress by what all of them read: the verdict logs say which page of which partition is
//! judged, and of what time it is. What is left to read is not written there. The worker asks for it while it matters:
//! how far the group has committed, where partitions end, and of what times the next pages are.

use std::collections::BTreeMap;
use std::time::Duration;

use super::events::{Backlog, Pacing};
use crate::record::{PartitionId, Source, Timestamp};

/// Asks for the next pages of a partition are repeated this many times as often as those for offsets.
const HEADS_PER_LOOK: u32 = 8;

/// The progress of all partitions.
#[derive(Debug, Default)]
pub(super) struct Progress {
    partitions: BTreeMap<PartitionId, Position>,
    /// Largest time that the last verdicts agree on: about the stream time of the judge.
    newest: Option<Timestamp>,
    /// Times of the last verdicts, of whichever partition.
    last: RecentTimes,
    /// Times of the pages of ours that were asked about last, and the largest that they agree on.
    ours: RecentTimes,
    admitted: Option<Timestamp>,
    /// Since when our next page is much later than all that is judged, while the backlog of other partitions is
    /// unknown.
    uncertain_since: Option<Duration>,
    /// The question that is not answered yet: partitions whose next pages are wanted, and from which offset.
    asked: Option<BTreeMap<PartitionId, i64>>,
    answered_at: Option<Duration>,
}

/// The progress of one partition.
#[derive(Debug, Default)]
struct Position {
    /// The offset after the last page that is judged or committed.
    next: i64,
    /// Times of the pages judged last.
    times: RecentTimes,
    /// The offset whose pages were looked at last, and the latest of their times; none when no page follows.
    head: Option<(i64, Option<Timestamp>)>,
    /// The offset whose pages were asked for last.
    asked: Option<i64>,
    /// Where it ended according to the latest answer, and to the one before that.
    end: Option<i64>,
    end_before: Option<i64>,
    moved_at: Duration,
    /// Since when one of our partitions waits for this one, which does not move.
    waited_for_since: Option<Duration>,
    /// It did not move for too long: nothing waits for it until enough of its pages are judged.
    given_up: bool,
}

/// The time of the next page of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    At(Timestamp),
    Unknown,
    /// There is no page.
    Nothing,
}

impl Position {
    fn moved(&mut self, now: Duration, next: i64) {
        self.next = self.next.max(next);
        self.moved_at = now;
        self.waited_for_since = None;
    }

    /// Records that were there one answer ago are neither judged nor committed. What is merely on its way does not
    /// count.
    fn has_backlog(&self) -> bool {
        self.end_before.is_some_and(|end| self.next < end)
    }

    fn next_time(&self) -> Next {
        let judged = || self.times.at_most().map_or(Next::Unknown, Next::At);
        match self.head {
            Some((at, time)) if at == self.next => time.map_or(Next::Nothing, Next::At),
            Some(_) | None => judged(),
        }
    }

    /// Returns the time that others have to wait at; `unknown` for a partition of which nothing is known yet.
    fn time(&self, unknown: Timestamp) -> Option<Timestamp> {
        match self.next_time() {
            Next::At(time) => Some(time),
            Next::Unknown => Some(unknown),
            Next::Nothing => None,
        }
    }

    fn give_up(&mut self) {
        self.given_up = true;
        self.times = RecentTimes::default();
        self.waited_for_since = None;
    }
}

impl Progress {
    /// Notes a verdict; a withdrawn page has no time.
    pub(super) fn judged(&mut self, now: Duration, source: &Source, time: Option<Timestamp>) {
        if !self.partitions.contains_key(&source.partition) {
            self.partitions.insert(source.partition.clone(), Position::default());
        }
        let Some(position) = self.partitions.get_mut(&source.partition) else { return };
        position.moved(now, source.offset.saturating_add(1));
        let Some(time) = time else { return };
        position.times.push(time);
        let agreed = position.times.at_least();
        position.given_up &= agreed.is_none();
        self.last.push(time);
        self.newest = self.newest.max(agreed).max(self.last.at_least());
    }

    /// Notes that a page of ours need not wait.
    pub(super) fn admitted(&mut self, time: Timestamp) {
        self.ours.push(time);
        self.admitted = self.admitted.max(self.ours.at_least());
    }

    /// Takes the answer to the question.
    pub(super) fn answered(&mut self, now: Duration, backlogs: BTreeMap<PartitionId, Backlog>) {
        let asked = self.asked.take().unwrap_or_default();
        self.answered_at = Some(now);
        // Asked before a leap, all that is there counts.
        let was_uncertain = self.uncertain_since.take().is_some();
        for (partition, Backlog { next, end, head }) in backlogs {
            let offset = asked.get(&partition).copied();
            let position = self.partitions.entry(partition).or_default();
            if next > position.next {
                position.moved(now, next);
            }
            let before = position.end.filter(|_| !was_uncertain).unwrap_or(end);
            (position.end, position.end_before) = (Some(end), Some(before));
            if let (Some(offset), Some(times)) = (offset, head) {
                position.head = Some((offset, times.into_iter().max()));
            }
        }
    }

    /// Returns the largest time that is judged, if enough pages are.
    pub(super) fn newest(&self) -> Option<Timestamp> {
        self.newest
    }

    /// Returns the time that pages have to wait at while it is not known what other workers have to read. So it is
    /// before our next page moves the stream time of the judge far ahead.
    pub(super) fn bound_while_uncertain(
        &mut self,
        now: Duration,
        pacing: &Pacing,
        next: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let reached = self.newest.max(self.admitted);
        let is_far = |time: &Timestamp| reached.is_none_or(|reached| pacing.is_behind(reached, Some(*time)));
        let leaps = next.filter(|time| *time > Timestamp::default()).is_some_and(|time| is_far(&time));
        if !leaps || !self.is_outdated(now, pacing) {
            return None;
        }
        let since = *self.uncertain_since.get_or_insert(now);
        (now.saturating_sub(since) <= pacing.idle_after).then(|| self.unknown())
    }

    /// Where nothing is known of a partition, the stream time of the judge is.
    fn unknown(&self) -> Timestamp {
        self.newest.unwrap_or(Timestamp::MIN)
    }

    /// Returns the time of the slowest partition that is to be waited for, of those that are not `ours`. `foremost` is
    /// the time of our fastest partition.
    pub(super) fn slowest(
        &mut self,
        now: Duration,
        pacing: &Pacing,
        foremost: Option<Timestamp>,
        ours: impl Fn(&PartitionId) -> bool,
    ) -> Option<Timestamp> {
        let unknown = self.unknown();
        let mut slowest: Option<Timestamp> = None;
        for (partition, position) in &mut self.partitions {
            let is_open = position.has_backlog() && !position.given_up;
            let time = if is_open { position.time(unknown) } else { None };
            let time = time.filter(|time| pacing.is_of_use(*time, self.newest) && !ours(partition));
            let is_waited_for = time.is_some_and(|time| pacing.is_behind(time, foremost));
            position.waited_for_since = position.waited_for_since.or(Some(now)).filter(|_| is_waited_for);
            if position.waited_for_since.is_some_and(|since| now.saturating_sub(since) > pacing.away_after) {
                position.give_up();
                continue;
            }
            slowest = [slowest, time].into_iter().flatten().min();
        }
        slowest
    }

    /// Returns whether the latest answer is old.
    fn is_outdated(&self, now: Duration, pacing: &Pacing) -> bool {
        self.answered_at.is_none_or(|at| now.saturating_sub(at) >= pacing.look_interval)
    }

    /// Returns the partitions whose next pages are wanted, and from which offset, when it is time to ask.
    pub(super) fn ask(
        &mut self,
        now: Duration,
        pacing: &Pacing,
        foremost: Option<Timestamp>,
        ours: impl Fn(&PartitionId) -> bool,
    ) -> Option<BTreeMap<PartitionId, i64>> {
        if self.asked.is_some() {
            return None;
        }
        let is_outdated = self.is_outdated(now, pacing);
        let pause = pacing.look_interval / HEADS_PER_LOOK;
        let has_paused = self.answered_at.is_none_or(|at| now.saturating_sub(at) >= pause);
        let mut is_due = self.uncertain_since.is_some();
        let mut heads = BTreeMap::new();
        for (partition, position) in &mut self.partitions {
            let has_moved = now.saturating_sub(position.moved_at) <= pacing.idle_after;
            if position.given_up || !(position.has_backlog() || has_moved && is_outdated) {
                continue;
            }
            let next = position.next_time();
            let is_behind = match next {
                Next::At(time) => pacing.is_behind(time, foremost) && pacing.is_of_use(time, self.newest),
                Next::Unknown => position.has_backlog(),
                Next::Nothing => false,
            };
            if !is_behind || ours(partition) {
                continue;
            }
            is_due |= is_outdated;
            let stands_still = position.waited_for_since.is_some_and(|at| now.saturating_sub(at) >= pause);
            let is_new = next == Next::Unknown && position.asked != Some(position.next);
            let is_known = position.head.is_some_and(|(at, _)| at == position.next);
            if is_new || stands_still && !is_known && has_paused {
                position.asked = Some(position.next);
                heads.insert(partition.clone(), position.next);
            }
        }
        if heads.is_empty() && !is_due {
            return None;
        }
        self.asked = Some(heads);
        self.asked.clone()
    }
}

/// The times of the last pages of a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentTimes {
    times: [Timestamp; Backlog::PAGES],
    /// Pages seen, as far as it matters.
    seen: usize,
    next: usize,
}

impl RecentTimes {
    pub(super) fn push(&mut self, time: Timestamp) {
        if let Some(place) = self.times.get_mut(self.next) {
            *place = time;
        }
        self.next = (self.next + 1) % Backlog::PAGES;
        self.seen = Backlog::PAGES.min(self.seen + 1);
    }

    /// Returns the time of the last page.
    pub(super) fn last(&self) -> Option<Timestamp> {
        let place = self.next.checked_sub(1).unwrap_or(Backlog::PAGES - 1);
        self.times.get(place).copied().filter(|_| self.seen > 0)
    }

    /// The partition is at least here: no page of the last ones is earlier. `None` while too few were seen.
    pub(super) fn at_least(&self) -> Option<Timestamp> {
        self.times.iter().min().copied().filter(|_| self.seen == Backlog::PAGES)
    }

    /// The partition is at most here.
    pub(super) fn at_most(&self) -> Option<Timestamp> {
        self.times.iter().take(self.seen).max().copied()
    }
}
