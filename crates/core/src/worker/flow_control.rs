//! Flow control: how much may be in flight, and which partitions are read first.
//!
//! The judge forgets by event time, and its stream time is that of the newest page it has judged. So pages are asked
//! about in the order of their times, over all partitions of the input: a page that is much later than those of a slower
//! partition waits, read but not asked about, whichever worker reads the slower one. Copies are then judged before their
//! originals are forgotten.
//!
//! Times come with the records and may be wrong: one that is never moves a partition, because only what all of the next
//! pages agree on counts. Nothing waits for a partition that has no pages left, or does not move, or is so far behind that
//! waiting would be of no use.

use std::collections::BTreeSet;
use std::time::Duration;

use super::events::{Effect, ReadFrom};
use super::machine::Worker;
use super::progress::Backlog;
use super::queue::PartitionQueue;
use crate::record::{PartitionId, Timestamp};

/// Parts of the lead after which our own progress has the slowest partition looked for again.
const CHECKS_PER_LEAD: u32 = 4;

/// When a partition waits for another one.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// How far, in event time, a partition may be ahead of the slowest one. It goes on when it leads by half of that.
    pub lead: Duration,
    /// How far behind the newest page judged a partition may be to be waited for: nothing that is found for its pages is
    /// remembered beyond.
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
    /// Says whether a page of time `foremost` may be waiting for a partition at `time`: one that waits does so until half of
    /// the lead is left.
    pub(super) fn is_behind(&self, time: Timestamp, foremost: Option<Timestamp>) -> bool {
        foremost.is_some_and(|foremost| time.plus(self.lead / 2) < foremost)
    }

    /// Says whether waiting for a partition at `time` keeps anything from being forgotten too early. A page without a
    /// time of its own tells nothing.
    pub(super) fn is_of_use(&self, time: Timestamp, newest: Option<Timestamp>) -> bool {
        let is_known = time == Timestamp::MIN || time > Timestamp::default();
        is_known && newest.is_none_or(|newest| time >= newest.minus(self.reach))
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

    /// The partition is at least here: no page of the last ones is earlier. `None` while too few were seen.
    pub(super) fn at_least(&self) -> Option<Timestamp> {
        self.times.iter().min().copied().filter(|_| self.seen == Backlog::PAGES)
    }

    /// The partition is at most here.
    pub(super) fn at_most(&self) -> Option<Timestamp> {
        self.times.iter().take(self.seen).max().copied()
    }
}

impl<P> Worker<P> {
    /// Pauses what must not be read now, and resumes what may.
    pub(super) fn pace(&mut self, now: Duration) {
        if now >= self.paced_at + self.settings.pacing.interval {
            self.find_slowest(now);
            self.admit_all();
        }
        self.full = self.is_full();
        if self.full {
            // The slowest partition must find room.
            self.queues.values_mut().for_each(PartitionQueue::drop_held);
            self.full = self.is_full();
        }
        let all = self.full || self.stop_by.is_some() || self.breaker.tripped().is_some();
        let (mut begin, mut end) = (BTreeSet::new(), BTreeSet::new());
        for (partition, queue) in &mut self.queues {
            let wanted = all || queue.is_blocked() || queue.leaving || queue.waits();
            if wanted != queue.paused {
                queue.paused = wanted;
                let changed = if wanted { &mut begin } else { &mut end };
                changed.insert(partition.clone());
                // Silent because it was paused: it has its time to begin again.
                queue.last_read = now;
            }
        }
        if !begin.is_empty() {
            self.effects.push_back(Effect::Pause(begin));
        }
        if !end.is_empty() {
            self.effects.push_back(Effect::Resume(end));
        }
    }

    /// Half empty before reading goes on, so that it does not flutter.
    fn is_full(&self) -> bool {
        let (bytes, limit) = (self.in_flight_bytes(), self.settings.in_flight_bytes);
        if self.full { bytes > limit / 2 } else { bytes > limit }
    }

    /// Finds the time of the slowest partition that has pages, and asks for what has to be known of the others.
    pub(super) fn find_slowest(&mut self, now: Duration) {
        self.paced_at = now;
        let pacing = self.settings.pacing;
        let newest = self.progress.newest();
        let has_pages = |queue: &&PartitionQueue<P>| {
            let is_silent = !queue.paused && now.saturating_sub(queue.last_read) > pacing.idle_after;
            let may_come = !(queue.at_end || is_silent || queue.seeking);
            (queue.holds_back() || may_come) && !queue.leaving && queue.blocked.is_none()
        };
        let own = self.queues.values().filter(has_pages).filter_map(PartitionQueue::time);
        let own = own.filter(|time| pacing.is_of_use(*time, newest)).min();
        let foremost = self.queues.values().filter_map(PartitionQueue::foremost).max();
        let held_back = self.queues.values().filter_map(PartitionQueue::held_back_at).max();
        let unsure = self.progress.unsure(now, &pacing, held_back);
        let queues = &self.queues;
        let ours = |partition: &PartitionId| queues.get(partition).is_some_and(PartitionQueue::is_known);
        let others = self.progress.slowest(now, &pacing, foremost, ours);
        self.slowest = [own, others, unsure].into_iter().flatten().min();
        self.checked_up_to = foremost;
        if let Some(heads) = self.progress.ask(now, &pacing, foremost, ours) {
            self.effects.push_back(Effect::FetchBacklog(heads));
        }
    }

    /// A page of this time was read: says whether the slowest partition is to be looked for before anything is done
    /// about it.
    pub(super) fn is_unchecked(&self, now: Duration, time: Timestamp) -> bool {
        let lead = self.settings.pacing.lead;
        let step = lead / CHECKS_PER_LEAD;
        let is_later = self.checked_up_to.is_none_or(|checked| time > checked.plus(step));
        let is_earlier = self.slowest.is_some_and(|slowest| time < slowest.minus(step));
        let has_to_wait = self.slowest.is_some_and(|slowest| time > slowest.plus(lead)) && self.paced_at < now;
        is_later || is_earlier || has_to_wait
    }

    /// Takes in the pages of all partitions that need not wait any longer.
    pub(super) fn admit_all(&mut self) {
        if self.stop_by.is_some() {
            return;
        }
        let waiting: Vec<PartitionId> =
            self.queues.iter().filter(|(_, queue)| queue.ahead.is_some()).map(|(id, _)| id.clone()).collect();
        waiting.iter().for_each(|partition| self.admit(partition));
    }

    /// Takes in the pages of a partition that need not wait for a slower one.
    pub(super) fn admit(&mut self, partition: &PartitionId) {
        let Some(queue) = self.queues.get_mut(partition) else { return };
        if queue.read_dropped_again(self.slowest, self.settings.pacing.lead) && !queue.is_blocked() {
            let from = ReadFrom::Offset(queue.next);
            self.effects.push_back(Effect::Seek { partition: partition.clone(), from });
        }
        while let Some(queue) = self.queues.get_mut(partition) {
            let Some((source, time)) = queue.admit(self.slowest, self.settings.pacing.lead) else { return };
            self.progress.admitted(time);
            self.resolve(&source);
        }
    }
}

#[cfg(test)]
mod tests;
