//! The order of time: partitions merged by event time, then partition, then offset.
//!
//! A clock that is wrong on one page must not hold a whole partition back, or let it run ahead: the time of a partition
//! is the earliest of its next [`LOOKAHEAD`] pages. So every page that is merged needs this many after it, or the end
//! of its partition: what the order depends on is the pages alone, not when they come.
//!
//! A time that cannot be true, because it is after the making of the plan, is no time: such a page decides nothing, and
//! follows on the page before it if none of the next pages has a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::record::{PartitionId, Timestamp};

/// Pages of a partition that together decide its time.
pub const LOOKAHEAD: usize = 8;

/// Merges the partitions of a replay.
#[derive(Debug, Default)]
pub struct TimeOrder {
    inputs: BTreeMap<PartitionId, MergeInput>,
    /// Partitions that can be merged, the next one first.
    ready: BTreeSet<(Timestamp, PartitionId)>,
    /// Partitions whose next pages have to come first.
    waiting: usize,
}

#[derive(Debug, Default)]
struct MergeInput {
    times: VecDeque<Option<Timestamp>>,
    has_ended: bool,
    /// What is in `ready`.
    key: Option<Timestamp>,
    waits: bool,
}

impl MergeInput {
    fn place(&self) -> Option<Timestamp> {
        let is_known = !self.times.is_empty() && (self.has_ended || self.times.len() >= LOOKAHEAD);
        let earliest = || self.times.iter().take(LOOKAHEAD).flatten().min().copied();
        is_known.then(|| earliest().unwrap_or(Timestamp::MIN))
    }
}

impl TimeOrder {
    /// Merges these partitions. Each has pages to come until [`TimeOrder::ended`].
    #[must_use]
    pub fn new(partitions: impl IntoIterator<Item = PartitionId>) -> Self {
        let inputs: BTreeMap<PartitionId, MergeInput> = partitions
            .into_iter()
            .map(|partition| (partition, MergeInput { waits: true, ..MergeInput::default() }))
            .collect();
        let waiting = inputs.len();
        Self { inputs, ready: BTreeSet::new(), waiting }
    }

    /// Notes the next page of a partition. Without an event time, it is merged with its neighbours.
    pub fn page(&mut self, partition: &PartitionId, event_time: Option<Timestamp>) {
        self.change(partition, |input| input.times.push_back(event_time));
    }

    /// Notes that a partition has no more pages.
    pub fn ended(&mut self, partition: &PartitionId) {
        self.change(partition, |input| input.has_ended = true);
    }

    /// Takes the next page and returns its partition; `None` while pages have to come first, and when all were taken.
    pub fn take(&mut self) -> Option<PartitionId> {
        if self.waiting > 0 {
            return None;
        }
        let (_, partition) = self.ready.first()?.clone();
        self.change(&partition, |input| {
            input.times.pop_front();
        });
        Some(partition)
    }

    /// Returns whether every page was taken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.waiting == 0 && self.ready.is_empty()
    }

    fn change(&mut self, partition: &PartitionId, change: impl FnOnce(&mut MergeInput)) {
        let Some(input) = self.inputs.get_mut(partition) else { return };
        change(input);
        let place = input.place();
        if place != input.key {
            if let Some(old) = input.key {
                self.ready.remove(&(old, partition.clone()));
            }
            if let Some(new) = place {
                self.ready.insert((new, partition.clone()));
            }
            input.key = place;
        }
        let waits = place.is_none() && !(input.has_ended && input.times.is_empty());
        if waits != input.waits {
            input.waits = waits;
            if waits { self.waiting += 1 } else { self.waiting -= 1 }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn partition(number: usize) -> PartitionId {
        PartitionId::new("pages", i32::try_from(number).unwrap())
    }

    /// Hands the pages over in an order that `turns` chooses, and returns the order in which they are taken.
    fn merged(pages: &[Vec<i64>], turns: &[usize]) -> Vec<(usize, i64)> {
        let mut order = TimeOrder::new((0..pages.len()).map(partition));
        let mut left: Vec<VecDeque<i64>> = pages.iter().map(|times| times.iter().copied().collect()).collect();
        let mut untaken = left.clone();
        // Each partition hands over its pages and then its end; whose turn it is when it has nothing left passes on.
        let mut open: Vec<usize> = (0..pages.len()).collect();
        let mut turns = turns.iter().copied().cycle();
        let mut taken = Vec::new();
        while !order.is_over() {
            let at = turns.next().unwrap() % open.len();
            let turn = open[at];
            if let Some(time) = left[turn].pop_front() {
                order.page(&partition(turn), Some(time).filter(|time| *time >= 0).map(Timestamp::from_millis));
            } else {
                order.ended(&partition(turn));
                open.remove(at);
            }
            while let Some(next) = order.take() {
                let number = usize::try_from(next.number).unwrap();
                taken.push((number, untaken[number].pop_front().unwrap()));
            }
        }
        taken
    }

    #[test]
    fn partitions_in_order_are_merged_by_time_and_then_by_number() {
        let taken = merged(&[vec![1, 4, 4], vec![2, 3, 4]], &[0, 1]);
        assert_eq!(taken, [(0, 1), (1, 2), (1, 3), (0, 4), (0, 4), (1, 4)]);
    }

    #[test]
    fn one_wrong_clock_holds_no_partition() {
        let honest: Vec<i64> = (0..40).collect();
        let mut wrong = honest.clone();
        wrong[5] = i64::MAX;
        let taken = merged(&[wrong, honest], &[0, 1]);
        for (at, (_, time)) in taken.iter().enumerate().filter(|(_, (_, time))| *time != i64::MAX) {
            let here = i64::try_from(at / 2).unwrap();
            assert!((time - here).abs() <= 8, "time {time} at place {at}");
        }
    }

    /// The model's sign for a page without a time.
    const UNTIMED: i64 = -1;

    #[test]
    fn pages_without_a_time_hold_no_partition() {
        // More than decide together: the first ones are merged at once, the last ones with the page after them.
        let untimed = [vec![0, 1], vec![UNTIMED; 20], vec![10, 11]].concat();
        let honest: Vec<i64> = (0..20).collect();
        let taken = merged(&[untimed.clone(), honest.clone()], &[0, 1]);
        let at = |page: (usize, i64)| taken.iter().position(|taken| *taken == page).unwrap();
        assert!(at((1, 9)) < at((0, 10)) && at((0, 10)) < at((1, 11)), "{taken:?}");
        let only = vec![UNTIMED; 20];
        let taken = merged(&[only, honest], &[0, 1]);
        assert!(taken[..20].iter().all(|(of, _)| *of == 0), "{taken:?}");
    }

    proptest! {
        #[test]
        fn the_order_depends_on_the_pages_alone(
            pages in prop::collection::vec(prop::collection::vec(UNTIMED..50, 0..30), 1..5),
            turns in prop::collection::vec(0_usize..5, 1..20),
        ) {
            let taken = merged(&pages, &turns);
            prop_assert_eq!(taken.len(), pages.iter().map(Vec::len).sum::<usize>());
            prop_assert_eq!(&taken, &merged(&pages, &[0, 1, 2, 3, 4]));
            for (number, times) in pages.iter().enumerate() {
                let own: Vec<i64> = taken.iter().filter(|(of, _)| *of == number).map(|(_, time)| *time).collect();
                prop_assert_eq!(&own, times, "a partition keeps its order");
            }
        }
    }
}
