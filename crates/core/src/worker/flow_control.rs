//! Flow control: how much may be in flight, and which partitions are read first.
//!
//! The judge forgets by event time, and its stream time is that of the newest page it has judged. So pages are asked
//! about in the order of their times, over all partitions of the input: a page that is much later than those of a slower
//! partition waits, read but not asked about, whichever worker reads the slower one. Copies are then judged before their
//! originals are forgotten.
//!
//! Times come with the records and may be wrong: one that is never moves a partition, because only what all of the next
//! pages agree on counts. Nothing waits for a partition that has no pages left, or does not move, or is so far behind that
//! waiting would not help.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::events::Effect;
use super::machine::Worker;
use super::partitions::Partitions;
use super::progress::{Backlog, Progress};
use super::queue::PartitionQueue;
use crate::record::{PartitionId, Source, Timestamp};

/// Parts of the lead after which our own progress has the slowest partition looked for again.
const CHECKS_PER_LEAD: u32 = 4;

/// When a partition waits for another one.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// How far, in event time, a partition may be ahead of the slowest one. It resumes when it leads by half of that.
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
    /// Returns whether a page of time `foremost` may be waiting for a partition at `time`: one that waits does so until half of
    /// the lead is left.
    pub(super) fn is_behind(&self, time: Timestamp, foremost: Option<Timestamp>) -> bool {
        foremost.is_some_and(|foremost| time.plus(self.lead / 2) < foremost)
    }

    /// Returns whether waiting for a partition at `time` keeps anything from being forgotten too early. A page without a
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

/// Which time pages have to wait at.
#[derive(Debug)]
pub(super) struct Pacer {
    pacing: Pacing,
    /// How far all partitions of the input have come.
    progress: Progress,
    /// Time of the slowest partition that has pages: pages that are much later have to wait.
    slowest: Option<Timestamp>,
    /// When that was looked for last.
    looked_at: Duration,
    /// Time of our fastest partition then.
    checked_up_to: Option<Timestamp>,
}

impl Pacer {
    /// Knows nothing of any partition.
    pub(super) fn new(pacing: Pacing) -> Self {
        Self { pacing, progress: Progress::default(), slowest: None, looked_at: Duration::ZERO, checked_up_to: None }
    }

    /// Notes a verdict; a withdrawn page has no time.
    pub(super) fn judged(&mut self, now: Duration, source: &Source, time: Option<Timestamp>) {
        self.progress.judged(now, source, time);
    }

    /// Notes what is left to read of the partitions.
    pub(super) fn answered(&mut self, now: Duration, backlogs: BTreeMap<PartitionId, Backlog>) {
        self.progress.answered(now, backlogs);
    }

    /// Returns whether it is time to look for the slowest partition again.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        now >= self.looked_at + self.pacing.interval
    }

    /// Finds the time of the slowest partition that has pages. Returns what has to be asked to know it better: the
    /// partitions whose next pages are wanted, and from which offset.
    pub(super) fn find_slowest<P>(
        &mut self,
        now: Duration,
        partitions: &Partitions<P>,
    ) -> Option<BTreeMap<PartitionId, i64>> {
        self.looked_at = now;
        let pacing = self.pacing;
        let newest = self.progress.newest();
        let own = partitions.queues().filter(|queue| queue.is_waited_for(now, pacing.idle_after));
        let own = own.filter_map(PartitionQueue::time).filter(|time| pacing.is_of_use(*time, newest)).min();
        let foremost = partitions.queues().filter_map(PartitionQueue::foremost).max();
        let held_back = partitions.queues().filter_map(PartitionQueue::held_back_at).max();
        let unsure = self.progress.unsure(now, &pacing, held_back);
        let ours = |partition: &PartitionId| partitions.get(partition).is_some_and(PartitionQueue::is_known);
        let others = self.progress.slowest(now, &pacing, foremost, ours);
        self.slowest = [own, others, unsure].into_iter().flatten().min();
        self.checked_up_to = foremost;
        self.progress.ask(now, &pacing, foremost, ours)
    }

    /// A page of this time was read: says whether the slowest partition is to be looked for before anything is done
    /// about it.
    pub(super) fn is_unchecked(&self, now: Duration, time: Timestamp) -> bool {
        let lead = self.pacing.lead;
        let step = lead / CHECKS_PER_LEAD;
        let is_later = self.checked_up_to.is_none_or(|checked| time > checked.plus(step));
        let is_earlier = self.slowest.is_some_and(|slowest| time < slowest.minus(step));
        let has_to_wait = self.slowest.is_some_and(|slowest| time > slowest.plus(lead)) && self.looked_at < now;
        is_later || is_earlier || has_to_wait
    }

    /// Returns whether pages of a partition that were dropped are to be read again, because they need not wait any longer.
    pub(super) fn read_dropped_again<P>(&self, queue: &mut PartitionQueue<P>) -> bool {
        queue.read_dropped_again(self.slowest, self.pacing.lead) && !queue.is_blocked()
    }

    /// Takes in the next page of a partition, if it need not wait for a slower one.
    pub(super) fn admit<P>(&mut self, queue: &mut PartitionQueue<P>) -> Option<Source> {
        let (source, time) = queue.admit(self.slowest, self.pacing.lead)?;
        self.progress.admitted(time);
        Some(source)
    }
}

impl<P> Worker<P> {
    /// Pauses what must not be read now, and resumes what may.
    pub(super) fn pace(&mut self, now: Duration) {
        if self.pacer.is_due(now) {
            self.find_slowest(now);
            self.admit_all();
        }
        self.full = self.is_full();
        if self.full {
            // The slowest partition must not be held up.
            self.partitions.iter_mut().for_each(|(_, queue)| queue.drop_held());
            self.full = self.is_full();
        }
        let all = self.full || self.membership.is_stopping() || self.breaker.tripped().is_some();
        let (mut begin, mut end) = (BTreeSet::new(), BTreeSet::new());
        for (partition, queue) in self.partitions.iter_mut() {
            if queue.pause(now, all) {
                let changed = if queue.is_paused() { &mut begin } else { &mut end };
                changed.insert(partition.clone());
            }
        }
        if !begin.is_empty() {
            self.effects.push_back(Effect::Pause(begin));
        }
        if !end.is_empty() {
            self.effects.push_back(Effect::Resume(end));
        }
    }

    /// Resumes reading at half of the limit, to avoid flapping.
    fn is_full(&self) -> bool {
        let (bytes, limit) = (self.in_flight_bytes(), self.settings.in_flight_bytes);
        if self.full { bytes > limit / 2 } else { bytes > limit }
    }

    /// Finds the slowest partition, and asks for what has to be known of the others.
    pub(super) fn find_slowest(&mut self, now: Duration) {
        if let Some(heads) = self.pacer.find_slowest(now, &self.partitions) {
            self.effects.push_back(Effect::FetchBacklog(heads));
        }
    }

    /// Takes in the pages of all partitions that need not wait any longer.
    pub(super) fn admit_all(&mut self) {
        if self.membership.is_stopping() {
            return;
        }
        let ahead = self.partitions.iter().filter(|(_, queue)| queue.is_ahead());
        let ahead: Vec<PartitionId> = ahead.map(|(partition, _)| partition.clone()).collect();
        ahead.iter().for_each(|partition| self.admit(partition));
    }

    /// Takes in the pages of a partition that need not wait for a slower one.
    pub(super) fn admit(&mut self, partition: &PartitionId) {
        let Some(queue) = self.partitions.get_mut(partition) else { return };
        if self.pacer.read_dropped_again(queue) {
            let from = queue.read_on();
            self.effects.push_back(Effect::Seek { partition: partition.clone(), from });
        }
        while let Some(queue) = self.partitions.get_mut(partition) {
            let Some(source) = self.pacer.admit(queue) else { return };
            self.resolve(&source);
        }
    }
}

#[cfg(test)]
mod tests;
