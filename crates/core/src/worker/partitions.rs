//! The partitions that are ours, and the requests that their pages wait for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::events::{Blocked, ReadFrom};
use super::queue::{PageState, PartitionQueue, Recheck, Waiting};
use crate::protocol::{Answer, Judged, LogPartition, PartitionCheckpoint, RequestId, RequestOffset};
use crate::record::{PartitionId, Source};

/// The queues of all partitions that are ours. A request is known exactly as long as a page waits for its answer.
#[derive(Debug)]
pub(super) struct Partitions<P> {
    queues: BTreeMap<PartitionId, PartitionQueue<P>>,
    /// Whose page a request is about: those in [`PageState::Asked`], and no other.
    requests: HashMap<RequestId, Source>,
    next_request: u64,
}

impl<P> Partitions<P> {
    /// Owns nothing; requests are numbered from `first_request` on.
    pub(super) fn new(first_request: u64) -> Self {
        Self { queues: BTreeMap::new(), requests: HashMap::new(), next_request: first_request }
    }

    // ---- queues

    /// These are ours now: nothing is read before their committed offsets are known.
    pub(super) fn assign(&mut self, now: Duration, partitions: &BTreeSet<PartitionId>) {
        self.queues.extend(partitions.iter().map(|partition| (partition.clone(), PartitionQueue::new(now))));
    }

    /// These are not ours any more.
    pub(super) fn drop(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.queues.retain(|partition, _| !partitions.contains(partition));
        self.requests.retain(|_, source| !partitions.contains(&source.partition));
    }

    /// Drops every page; they are read again from the committed offsets.
    pub(super) fn rewind(&mut self) {
        self.requests.clear();
        self.queues.values_mut().for_each(PartitionQueue::rewind);
    }

    pub(super) fn get(&self, partition: &PartitionId) -> Option<&PartitionQueue<P>> {
        self.queues.get(partition)
    }

    /// Returns a queue, for what leaves alone how far its pages have come.
    pub(super) fn get_mut(&mut self, partition: &PartitionId) -> Option<&mut PartitionQueue<P>> {
        self.queues.get_mut(partition)
    }

    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&PartitionId, &PartitionQueue<P>)> {
        self.queues.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&PartitionId, &mut PartitionQueue<P>)> {
        self.queues.iter_mut()
    }

    pub(super) fn queues(&self) -> impl Iterator<Item = &PartitionQueue<P>> {
        self.queues.values()
    }

    /// Returns what the pages of all partitions hold, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.queues().map(PartitionQueue::bytes).sum()
    }

    // ---- pages and their requests

    /// Returns the page at a position.
    pub(super) fn page(&self, source: &Source) -> Option<&Waiting<P>> {
        self.queues.get(&source.partition)?.page(source.offset)
    }

    /// Returns the positions of all pages that have come so far, in offset order of each partition.
    pub(super) fn pages_in(&self, is_wanted: impl Fn(&PageState) -> bool) -> Vec<Source> {
        self.pages_where(|waiting| is_wanted(waiting.state()))
    }

    /// Returns the positions of these pages.
    pub(super) fn pages_where(&self, is_wanted: impl Fn(&Waiting<P>) -> bool) -> Vec<Source> {
        let pages = self.queues().flat_map(PartitionQueue::waiting).filter(|waiting| is_wanted(waiting));
        pages.map(|waiting| waiting.page().source.clone()).collect()
    }

    /// Sets how far a page has come, and returns how far it had. A request that it waited for is forgotten.
    pub(super) fn set_state(&mut self, source: &Source, state: PageState) -> Option<PageState> {
        let before = self.queues.get_mut(&source.partition)?.set_state(source.offset, state)?;
        self.forget_request(&before);
        Some(before)
    }

    /// Creates the request of a page, which waits for its answer from now on.
    pub(super) fn ask(&mut self, source: &Source, log: LogPartition) -> RequestId {
        let request = RequestId(self.next_request);
        self.next_request = self.next_request.wrapping_add(1);
        if self.set_state(source, PageState::Asked { log, request, offset: None }).is_some() {
            self.requests.insert(request, source.clone());
        }
        request
    }

    /// Notes the offset of a page's request in the log, or that it was not written. Returns the page and the log, if
    /// one waits for the request.
    pub(super) fn asked_at(
        &mut self,
        request: RequestId,
        offset: Option<RequestOffset>,
    ) -> Option<(Source, LogPartition)> {
        let source = self.requests.get(&request)?;
        let queue = self.queues.get_mut(&source.partition)?;
        let &PageState::Asked { log, .. } = queue.page(source.offset)?.state() else { return None };
        queue.set_state(source.offset, PageState::Asked { log, request, offset });
        Some((source.clone(), log))
    }

    /// Returns the requests that were written to this log and wait for their answer.
    pub(super) fn written_requests(&self, log: LogPartition) -> Vec<RequestId> {
        let request = |waiting: &Waiting<P>| match waiting.state() {
            PageState::Asked { log: of, request, offset: Some(_) } if *of == log => Some(*request),
            PageState::New
            | PageState::Asked { .. }
            | PageState::AwaitingScan(_)
            | PageState::Blocked(_)
            | PageState::Ready(_) => None,
        };
        self.queues().flat_map(PartitionQueue::waiting).filter_map(request).collect()
    }

    /// The page has no verdict that is its own: its partition is read up to here.
    pub(super) fn block_at(&mut self, source: &Source, log: LogPartition, why: Blocked) {
        self.set_state(source, PageState::Blocked(log));
        let queue = self.queues.get_mut(&source.partition);
        let dropped = queue.map(|queue| queue.block_at(source.offset, why)).unwrap_or_default();
        dropped.iter().for_each(|state| self.forget_request(state));
    }

    /// Takes the committed offset of a blocked partition.
    pub(super) fn rechecked(
        &mut self,
        partition: &PartitionId,
        committed: Option<i64>,
        in_transaction: bool,
    ) -> Option<ReadFrom> {
        match self.queues.get_mut(partition)?.rechecked(committed, in_transaction) {
            Recheck::Same => None,
            Recheck::Retry(from) => Some(from),
            Recheck::Rewound => {
                self.requests.retain(|_, source| source.partition != *partition);
                None
            }
        }
    }

    /// Returns whether a page waits for the answer to this request.
    pub(super) fn waits_for(&self, request: RequestId) -> bool {
        self.requests.contains_key(&request)
    }

    /// Returns how many pages wait for an answer.
    pub(super) fn requests(&self) -> usize {
        self.requests.len()
    }

    fn forget_request(&mut self, state: &PageState) {
        if let PageState::Asked { request, .. } = state {
            self.requests.remove(request);
        }
    }
}

/// The judged positions of each input partition, gathered from a checkpoint and what follows it.
#[derive(Debug, Default)]
pub(super) struct JudgedPartitions(BTreeMap<PartitionId, Judged>);

impl JudgedPartitions {
    /// Follows what a checkpoint says of a partition: what is judged, from the first checkpoint that is read, and the low
    /// watermark, from each.
    pub(super) fn follow_checkpoint(&mut self, partition: &PartitionId, said: &PartitionCheckpoint, is_first: bool) {
        let judged = self.of(partition);
        if is_first {
            *judged = said.judged.clone();
        }
        judged.raise_low_watermark(said.low_watermark);
    }

    /// Follows a verdict or a withdrawal of this page. Returns whether it is in force: of the verdicts of a page the
    /// first one is, as for judges (law L4), and each withdrawal.
    pub(super) fn follow_answer(&mut self, source: &Source, answer: &Answer) -> bool {
        let is_first = self.of(&source.partition).insert(source.offset);
        is_first || matches!(answer, Answer::Withdrawn { .. })
    }

    /// Lets these positions be judged again.
    pub(super) fn reopen(&mut self, partition: &PartitionId, from: i64, to: i64) {
        self.of(partition).reopen(from, to);
    }

    /// Returns what is judged of a partition, if anything was said of it.
    pub(super) fn get(&self, partition: &PartitionId) -> Option<&Judged> {
        self.0.get(partition)
    }

    fn of(&mut self, partition: &PartitionId) -> &mut Judged {
        self.0.entry(partition.clone()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::worker::tests::{LOG, input, page};

    /// What can happen to the pages of two partitions.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Read(i32, u32),
        Ask(usize),
        Settle(usize),
        Appended(usize, i64),
        Block(usize),
        Drop(i32),
        Rewind,
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..2, 1_u32..4).prop_map(|(partition, gap)| Step::Read(partition, gap)),
            4 => any::<usize>().prop_map(Step::Ask),
            2 => any::<usize>().prop_map(Step::Settle),
            1 => (any::<usize>(), 0_i64..9).prop_map(|(page, offset)| Step::Appended(page, offset)),
            1 => any::<usize>().prop_map(Step::Block),
            1 => (0..2).prop_map(Step::Drop),
            1 => Just(Step::Rewind),
        ]
    }

    fn picked(partitions: &Partitions<()>, number: usize) -> Option<Source> {
        let pages = partitions.pages_in(|_| true);
        pages.get(number.checked_rem(pages.len())?).cloned()
    }

    fn take(partitions: &mut Partitions<()>, step: Step, next: &mut i64) {
        let all = BTreeSet::from([input(0), input(1)]);
        match step {
            Step::Read(partition, gap) => {
                *next += i64::from(gap);
                let Some(queue) = partitions.get_mut(&input(partition)) else { return };
                queue.push(Duration::ZERO, page(partition, *next, 1));
                queue.admit(None, Duration::ZERO);
            }
            Step::Ask(page) => drop(picked(partitions, page).map(|source| partitions.ask(&source, LOG))),
            Step::Settle(page) => {
                drop(picked(partitions, page).and_then(|source| partitions.set_state(&source, PageState::New)));
            }
            Step::Appended(page, offset) => {
                let request = picked(partitions, page).and_then(|source| asked(partitions, &source));
                drop(request.and_then(|request| partitions.asked_at(request, Some(RequestOffset(offset)))));
            }
            Step::Block(page) => {
                if let Some(source) = picked(partitions, page) {
                    partitions.block_at(&source, LOG, Blocked::VerdictLost);
                }
            }
            Step::Drop(partition) => {
                partitions.drop(&BTreeSet::from([input(partition)]));
                let gone = all.into_iter().filter(|partition| partitions.get(partition).is_none()).collect();
                partitions.assign(Duration::ZERO, &gone);
            }
            Step::Rewind => partitions.rewind(),
        }
    }

    fn asked(partitions: &Partitions<()>, source: &Source) -> Option<RequestId> {
        match partitions.page(source)?.state() {
            PageState::Asked { request, .. } => Some(*request),
            PageState::New | PageState::AwaitingScan(_) | PageState::Blocked(_) | PageState::Ready(_) => None,
        }
    }

    proptest! {
        #[test]
        fn a_request_is_known_exactly_while_its_page_waits_for_the_answer(steps in prop::collection::vec(steps(), 1..80)) {
            let mut partitions: Partitions<()> = Partitions::new(7);
            partitions.assign(Duration::ZERO, &BTreeSet::from([input(0), input(1)]));
            let mut next = 0;
            for step in steps {
                take(&mut partitions, step, &mut next);
                let waiting = partitions.pages_in(|_| true);
                let expected: BTreeMap<RequestId, Source> =
                    waiting.into_iter().filter_map(|source| Some((asked(&partitions, &source)?, source))).collect();
                let known: BTreeMap<RequestId, Source> = partitions.requests.clone().into_iter().collect();
                prop_assert_eq!(known, expected);
            }
        }
    }
}
