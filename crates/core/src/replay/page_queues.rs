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
    lanes: BTreeMap<PartitionId, VecDeque<Waiting<P>>>,
}

#[derive(Debug)]
struct Waiting<P> {
    page: Page<P>,
    outcome: Option<PageOutcome>,
}

impl<P> Default for PageQueues<P> {
    fn default() -> Self {
        Self { lanes: BTreeMap::new() }
    }
}

impl<P> PageQueues<P> {
    /// Takes in the next page of a partition. One that needs no verdict has its end at once.
    pub(super) fn arrive(&mut self, page: Page<P>) {
        let outcome = match &page.action {
            PageAction::Settled(outcome) => Some(outcome.clone()),
            PageAction::Ask(..) | PageAction::Withdraw(..) => None,
        };
        self.lanes.entry(page.source.partition.clone()).or_default().push_back(Waiting { page, outcome });
    }

    /// Returns a page that was read and has not left.
    #[must_use]
    pub(super) fn get(&self, source: &Source) -> Option<&Page<P>> {
        let lane = self.lanes.get(&source.partition)?;
        lane.get(place(lane, source.offset)?).map(|waiting| &waiting.page)
    }

    /// Gives a page its end. Says whether it waits here.
    pub(super) fn end(&mut self, source: &Source, outcome: PageOutcome) -> bool {
        let Some(lane) = self.lanes.get_mut(&source.partition) else { return false };
        let Some(waiting) = place(lane, source.offset).and_then(|at| lane.get_mut(at)) else { return false };
        waiting.outcome = Some(outcome);
        true
    }

    /// Takes the next page of a partition that may leave.
    pub(super) fn leave(&mut self, partition: &PartitionId) -> Option<Output<P>> {
        let lane = self.lanes.get_mut(partition)?;
        let outcome = lane.front_mut()?.outcome.take()?;
        let Waiting { page, .. } = lane.pop_front()?;
        Some(Output { page, outcome })
    }

    /// Returns how many pages of a partition have not left.
    #[must_use]
    pub(super) fn len(&self, partition: &PartitionId) -> usize {
        self.lanes.get(partition).map_or(0, VecDeque::len)
    }

    /// Says whether a page waits here without an end.
    #[must_use]
    pub(super) fn is_open(&self, source: &Source) -> bool {
        let Some(lane) = self.lanes.get(&source.partition) else { return false };
        place(lane, source.offset).and_then(|at| lane.get(at)).is_some_and(|waiting| waiting.outcome.is_none())
    }

    /// Returns the offset of the first page of a partition that has not left.
    #[must_use]
    pub(super) fn first(&self, partition: &PartitionId) -> Option<i64> {
        self.lanes.get(partition)?.front().map(|waiting| waiting.page.source.offset)
    }

    /// Lists the pages of a partition that still have no end.
    #[must_use]
    pub(super) fn open(&self, partition: &PartitionId) -> Vec<Source> {
        let lane = self.lanes.get(partition).into_iter().flatten();
        lane.filter(|waiting| waiting.outcome.is_none()).map(|waiting| waiting.page.source.clone()).collect()
    }
}

fn place<P>(lane: &VecDeque<Waiting<P>>, offset: i64) -> Option<usize> {
    let at = lane.partition_point(|waiting| waiting.page.source.offset < offset);
    lane.get(at).filter(|waiting| waiting.page.source.offset == offset).map(|_| at)
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
        let mut lanes = PageQueues::default();
        let asked = || PageAction::Withdraw(crate::protocol::LogPartition(0), crate::record::Reject::Gone);
        lanes.arrive(page(3, asked()));
        lanes.arrive(page(5, PageAction::Settled(PageOutcome::Tombstone)));
        lanes.arrive(page(9, asked()));
        assert!(lanes.leave(&partition).is_none(), "the first has no end yet");
        assert!(lanes.end(&partition.at(9), PageOutcome::Tombstone));
        assert!(!lanes.end(&partition.at(4), PageOutcome::Tombstone), "there is no such page");
        assert_eq!(lanes.open(&partition), [partition.at(3)]);
        assert!(lanes.get(&partition.at(5)).is_some() && lanes.get(&partition.at(6)).is_none());
        assert!(lanes.end(&partition.at(3), PageOutcome::Tombstone));
        let left: Vec<i64> = std::iter::from_fn(|| lanes.leave(&partition)).map(|out| out.page.source.offset).collect();
        assert_eq!(left, [3, 5, 9]);
        assert_eq!(lanes.first(&partition), None);
    }
}
