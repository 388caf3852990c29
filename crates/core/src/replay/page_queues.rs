//! Per-partition queues: pages leave in offset order once their outcome is known.
//!
//! In the order of the log a page may be judged before one that precedes it in its partition. Outputs keep the order
//! of the input: a page leaves when it has an end, and all before it have left.

use std::collections::{BTreeMap, VecDeque};

use crate::record::{PartitionId, Source};
use crate::worker::{Output, Page, PageAction, PageOutcome};

/// Pages that were read, by partition.
#[derive(Debug)]
pub(super) struct PageQueues<P> {
    queues: BTreeMap<PartitionId, VecDeque<Waiting<P>>>,
}

#[derive(Debug)]
struct Waiting<P> {
    page: Page<P>,
    outcome: Option<PageOutcome>,
}

impl<P> Default for PageQueues<P> {
    fn default() -> Self {
        Self { queues: BTreeMap::new() }
    }
}

impl<P> PageQueues<P> {
    /// Takes in the next page of a partition. One that needs no verdict has its end at once.
    pub(super) fn arrive(&mut self, page: Page<P>) {
        let outcome = match &page.action {
            PageAction::Settled(outcome) => Some(outcome.clone()),
            PageAction::Ask(..) | PageAction::Withdraw(..) => None,
        };
        self.queues.entry(page.source.partition.clone()).or_default().push_back(Waiting { page, outcome });
    }

    /// Returns a page that was read and has not left.
    #[must_use]
    pub(super) fn get(&self, source: &Source) -> Option<&Page<P>> {
        let queue = self.queues.get(&source.partition)?;
        queue.get(place(queue, source.offset)?).map(|waiting| &waiting.page)
    }

    /// Gives a page its end. Returns whether it waits here.
    pub(super) fn end(&mut self, source: &Source, outcome: PageOutcome) -> bool {
        let Some(queue) = self.queues.get_mut(&source.partition) else { return false };
        let Some(waiting) = place(queue, source.offset).and_then(|at| queue.get_mut(at)) else { return false };
        waiting.outcome = Some(outcome);
        true
    }

    /// Takes the next page of a partition that may leave.
    pub(super) fn leave(&mut self, partition: &PartitionId) -> Option<Output<P>> {
        let queue = self.queues.get_mut(partition)?;
        let outcome = queue.front_mut()?.outcome.take()?;
        let Waiting { page, .. } = queue.pop_front()?;
        Some(Output { page, outcome })
    }

    /// Returns how many pages of a partition have not left.
    #[must_use]
    pub(super) fn len(&self, partition: &PartitionId) -> usize {
        self.queues.get(partition).map_or(0, VecDeque::len)
    }

    /// Returns whether a page waits here without an end.
    #[must_use]
    pub(super) fn is_open(&self, source: &Source) -> bool {
        let Some(queue) = self.queues.get(&source.partition) else { return false };
        place(queue, source.offset).and_then(|at| queue.get(at)).is_some_and(|waiting| waiting.outcome.is_none())
    }

    /// Returns the offset of the first page of a partition that has not left.
    #[must_use]
    pub(super) fn first(&self, partition: &PartitionId) -> Option<i64> {
        self.queues.get(partition)?.front().map(|waiting| waiting.page.source.offset)
    }

    /// Lists the pages of a partition that still have no end.
    #[must_use]
    pub(super) fn open(&self, partition: &PartitionId) -> Vec<Source> {
        let queue = self.queues.get(partition).into_iter().flatten();
        queue.filter(|waiting| waiting.outcome.is_none()).map(|waiting| waiting.page.source.clone()).collect()
    }
}

fn place<P>(queue: &VecDeque<Waiting<P>>, offset: i64) -> Option<usize> {
    let at = queue.partition_point(|waiting| waiting.page.source.offset < offset);
    queue.get(at).filter(|waiting| waiting.page.source.offset == offset).map(|_| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Timestamp;

    fn page(offset: i64, action: PageAction) -> Page<()> {
        let source = PartitionId::new("pages", 0).at(offset);
        let event_time = Timestamp::default();
        Page { source, bytes: 1, event_time, paced_by: event_time, action, payload: () }
    }

    #[test]
    fn pages_leave_in_the_order_of_their_offsets() {
        let partition = PartitionId::new("pages", 0);
        let mut queues = PageQueues::default();
        let asked = || PageAction::Withdraw(crate::protocol::LogPartition(0), crate::record::Reject::Gone);
        queues.arrive(page(3, asked()));
        queues.arrive(page(5, PageAction::Settled(PageOutcome::Tombstone)));
        queues.arrive(page(9, asked()));
        assert!(queues.leave(&partition).is_none(), "the first has no end yet");
        assert!(queues.end(&partition.at(9), PageOutcome::Tombstone));
        assert!(!queues.end(&partition.at(4), PageOutcome::Tombstone), "there is no such page");
        assert_eq!(queues.open(&partition), [partition.at(3)]);
        assert!(queues.get(&partition.at(5)).is_some() && queues.get(&partition.at(6)).is_none());
        assert!(queues.end(&partition.at(3), PageOutcome::Tombstone));
        let left: Vec<i64> =
            std::iter::from_fn(|| queues.leave(&partition)).map(|out| out.page.source.offset).collect();
        assert_eq!(left, [3, 5, 9]);
        assert_eq!(queues.first(&partition), None);
    }
}
