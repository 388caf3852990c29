//! Finds the slowest partition, and decides which pages wait for it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::events::{Backlog, Pacing};
use super::partitions::Partitions;
use super::progress::Progress;
use super::queue::PartitionQueue;
use crate::record::{PartitionId, Source, Timestamp};

/// Parts of the lead after which our own progress has the slowest partition looked for again.
const CHECKS_PER_LEAD: u32 = 4;

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
        let uncertain = self.progress.bound_while_uncertain(now, &pacing, held_back);
        let ours = |partition: &PartitionId| partitions.get(partition).is_some_and(PartitionQueue::is_known);
        let others = self.progress.slowest(now, &pacing, foremost, ours);
        self.slowest = [own, others, uncertain].into_iter().flatten().min();
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

    /// Returns whether pages of a partition that were dropped are to be read again, because they need not wait any
    /// longer.
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
