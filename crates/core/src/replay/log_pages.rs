//! Pages of a replay in the order of the log, from when they are read until they leave in the order of the input.
//!
//! Several partitions of the log are walked side by side, so that a page may be judged long before one that is
//! before it in its input partition. Warm-up pages wait like all others, because their verdict may come after the range
//! has begun in their input partition; they leave without being delivered.
//!
//! A replay that was interrupted holds the same pages again before it continues ([`LogPages::resumed`]): what it has
//! read and not delivered is put back, with the outcome that was committed for it.
//!
//! Pages wait in a queue for each input partition and leave it in offset order once their outcome is known: in the
//! order of the log a page may be judged before one that precedes it in its partition. Outputs keep the order of the
//! input: a page leaves when it has an end, and all before it have left.

#[cfg(test)]
mod tests;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::counts::{name_of, name_of_verdict};
use super::log_order::Next;
use super::plan::{Mark, Marks, Part, Ranges};
use crate::protocol::{Answer, Verdict};
use crate::record::{PartitionId, Source};
use crate::worker::{Output, Page, PageAction, PageOutcome};

/// Pages of a partition that wait at most for a warm-up page of which the log says nothing.
const MAX_HELD_FOR_WARM_UP: usize = 5_000;

/// Pages that were read and have not left.
#[derive(Debug)]
pub struct LogPages<P> {
    ranges: Ranges,
    queues: PageQueues<P>,
    /// Pages of each partition before this offset were read.
    read_to: BTreeMap<PartitionId, i64>,
    /// Pages whose verdict is another than the live one, until they leave.
    differ: BTreeSet<Source>,
    /// Pages before these offsets had left when the replay was interrupted.
    left_before: BTreeMap<PartitionId, i64>,
    /// What was judged before the interruption on pages that had not left.
    known: HashMap<Source, PageOutcome>,
    max_held_for_warm_up: usize,
}

/// A page that leaves, and whether its verdict is another than the live one.
#[derive(Debug)]
pub struct Leaving<P> {
    /// The page and its outcome.
    pub output: Output<P>,
    /// Whether its verdict is another than the live one.
    pub differs: bool,
}

impl<P> LogPages<P> {
    /// Begins with no page.
    #[must_use]
    pub(crate) fn new(ranges: Ranges) -> Self {
        Self {
            ranges,
            queues: PageQueues::default(),
            read_to: BTreeMap::new(),
            differ: BTreeSet::new(),
            left_before: BTreeMap::new(),
            known: HashMap::new(),
            max_held_for_warm_up: MAX_HELD_FOR_WARM_UP,
        }
    }

    /// Begins where an interrupted replay has committed: `marks` are those of [`LogPages::marks`]. Next, what it judged
    /// is remembered ([`LogPages::remember`]), then the pages that it held are put back ([`LogPages::put_back`]).
    #[must_use]
    pub fn resumed(ranges: Ranges, marks: &Marks) -> Self {
        let input = || ranges.iter().filter_map(|(partition, _)| Some((partition.clone(), *marks.get(partition)?)));
        let read_to = input().map(|(partition, mark)| (partition, mark.read_to)).collect();
        let left_before = input().map(|(partition, mark)| (partition, mark.offset)).collect();
        Self { read_to, left_before, ..Self::new(ranges) }
    }

    /// Keeps what was judged before the interruption on a page that had not left.
    pub fn remember(&mut self, next: &Next, verdict: Verdict) {
        let Some(source) = verdict.answer.judged_source().cloned() else { return };
        if self.left_before.get(&source.partition).is_some_and(|offset| source.offset < *offset) {
            return;
        }
        let outcome = match &verdict.answer {
            Answer::Withdrawn { reason, .. } => PageOutcome::DeadLetter(*reason),
            // A verdict after a reopening changes nothing about the page.
            Answer::Page(_) if self.known.contains_key(&source) => return,
            Answer::Page(_) | Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. } => {
                PageOutcome::Judged(Arc::new(verdict))
            }
        };
        if let Next::Page(live, Part::Range) = next
            && name_of(&outcome) != name_of_verdict(live)
        {
            self.differ.insert(source.clone());
        }
        self.known.insert(source, outcome);
    }

    /// Returns up to where pages of a partition are to be put back, if any are.
    #[must_use]
    pub fn held_before(&self, partition: &PartitionId) -> Option<i64> {
        let (left, read) = (self.left_before.get(partition)?, self.read_to.get(partition)?);
        (left < read).then_some(*read)
    }

    /// Returns whether a page was held when the replay was interrupted. What it held may be gone from the input since.
    #[must_use]
    pub fn was_held(&self, source: &Source) -> bool {
        self.held_before(&source.partition).is_some_and(|end| source.offset < end)
    }

    /// Takes in a page that was held when the replay was interrupted, with the outcome that it had then.
    pub fn put_back(&mut self, page: Page<P>) {
        let source = page.source.clone();
        self.take_in(page);
        if let Some(outcome) = self.known.remove(&source) {
            self.queues.end(&source, outcome);
        }
    }

    /// Ends putting back.
    pub fn caught_up(&mut self) {
        self.known = HashMap::new();
    }

    /// Takes in the next page of a partition.
    pub fn arrive(&mut self, page: Page<P>) {
        self.read_to.insert(page.source.partition.clone(), page.source.offset + 1);
        self.take_in(page);
    }

    fn take_in(&mut self, page: Page<P>) {
        // It makes no original, and no page waits for its verdict.
        let is_nothing =
            matches!(page.action, PageAction::Withdraw(..)) && self.ranges.part(&page.source) == Part::WarmUp;
        let source = page.source.clone();
        self.queues.arrive(page);
        if is_nothing {
            self.queues.end(&source, PageOutcome::Tombstone);
        }
    }

    /// Returns whether a page was read, if the input holds it.
    #[must_use]
    pub fn is_read(&self, source: &Source) -> bool {
        self.read_to.get(&source.partition).is_some_and(|read_to| source.offset < *read_to)
    }

    /// Returns a page that was read and has not left.
    #[must_use]
    pub fn get(&self, source: &Source) -> Option<&Page<P>> {
        self.queues.get(source)
    }

    /// Gives a page its outcome. Returns whether it waits here.
    pub fn end(&mut self, source: &Source, outcome: PageOutcome) -> bool {
        self.queues.end(source, outcome)
    }

    /// Notes that the verdict of a page is another than the live one.
    pub fn note_difference(&mut self, source: &Source) {
        self.differ.insert(source.clone());
    }

    /// Takes the next page of the range of a partition that may leave. Warm-up pages leave on the way.
    pub fn leave(&mut self, partition: &PartitionId) -> Option<Leaving<P>> {
        loop {
            self.give_up(partition);
            let output = self.queues.leave(partition)?;
            let differs = self.differ.remove(&output.page.source);
            if self.ranges.part(&output.page.source) == Part::Range {
                return Some(Leaving { output, differs });
            }
        }
    }

    /// A warm-up page that the log says nothing of holds others for a while only.
    fn give_up(&mut self, partition: &PartitionId) {
        if self.queues.len(partition) <= self.max_held_for_warm_up {
            return;
        }
        let Some(first) = self.queues.first(partition).map(|offset| partition.at(offset)) else { return };
        if self.ranges.part(&first) == Part::WarmUp && self.queues.is_open(&first) {
            self.queues.end(&first, PageOutcome::Tombstone);
        }
    }

    /// Lists the pages of a partition that still have no outcome.
    #[must_use]
    pub fn open(&self, partition: &PartitionId) -> Vec<Source> {
        self.queues.open(partition)
    }

    /// Returns how far each partition is that was read: all pages before the offset of its mark have left.
    pub fn marks(&self) -> impl Iterator<Item = (PartitionId, Mark)> {
        self.read_to.iter().map(|(partition, &read_to)| {
            let offset = self.queues.first(partition).unwrap_or(read_to);
            (partition.clone(), Mark { offset, read_to })
        })
    }
}

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
