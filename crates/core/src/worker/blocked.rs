//! Blocked partitions: a partition that cannot make progress is reported and rechecked periodically; the others continue.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::events::{Effect, ReadFrom};
use super::machine::Worker;
use super::queue::PartitionQueue;
use crate::record::PartitionId;

/// How often the group's offset of a blocked partition is asked for: somebody may have set it.
const RECHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Why a partition cannot be read on. Shown with the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// A position is judged, and its verdict cannot be read back any more.
    VerdictLost,
    /// The verdict of this offset is about another page.
    ForeignPage(i64),
    /// The group has no offset, although positions are judged.
    NoOffset,
    /// The partition does not hold the offset that comes next.
    OutOfRange {
        /// The offset.
        offset: i64,
        /// First offset that the partition holds.
        first: i64,
        /// Behind the last one.
        end: i64,
    },
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VerdictLost => {
                f.write_str("its verdicts are gone for good: `dupgate verdicts reopen` has a range judged anew")
            }
            Self::ForeignPage(offset) => write!(
                f,
                "offset {offset} is not the page that was judged there: if the topic was deleted and created again, stop all \
                 workers, delete the group's offsets of the topic, and let `dupgate verdicts reopen` have the range judged again"
            ),
            Self::NoOffset => f.write_str(
                "it has judged positions but no committed offset: stop all workers and set the group's offset, or, if the topic \
                 was deleted and created again, let `dupgate verdicts reopen` have the range judged again",
            ),
            Self::OutOfRange { offset, first, end } => write!(
                f,
                "offset {offset} comes next and the partition holds {first} to {end}: going on elsewhere would skip \
                 records; to accept that, stop all workers and set the group's offset; if the topic was deleted and created \
                 again, delete the group's offsets of it and let `dupgate verdicts reopen` have the range judged again"
            ),
        }
    }
}

impl<P> PartitionQueue<P> {
    /// Nothing more is read here. Pages that were read before still go out.
    pub(super) fn block(&mut self, why: Blocked) {
        self.blocked = Some(why);
        self.retrying = false;
    }

    /// Says whether pages may be read.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.is_some() && !self.retrying
    }

    /// The partition gives pages again, or says that it has no more.
    pub(super) fn answers(&mut self) {
        if std::mem::take(&mut self.retrying) {
            self.blocked = None;
        }
    }
}

impl<P> Worker<P> {
    /// Returns the partitions that cannot be read on, and why.
    #[must_use]
    pub fn blocked(&self) -> BTreeMap<PartitionId, Blocked> {
        let blocked =
            self.queues.iter().filter_map(|(partition, queue)| Some((partition.clone(), queue.blocked.clone()?)));
        blocked.collect()
    }

    /// The partition does not hold the offset that comes next.
    pub(super) fn out_of_range(&mut self, partition: &PartitionId, offset: i64, first: i64, end: i64) {
        if let Some(queue) = self.queues.get_mut(partition).filter(|queue| !queue.seeking) {
            queue.block(Blocked::OutOfRange { offset, first, end });
        }
    }

    /// A range is to be judged anew: a partition without an offset may have nothing judged any more.
    pub(super) fn ask_for_offset_again(&mut self, partition: &PartitionId) {
        if self.queues.get(partition).is_some_and(|queue| queue.blocked == Some(Blocked::NoOffset)) {
            self.fetch_committed();
        }
    }

    /// Asks for the offsets of blocked partitions when it is time to.
    pub(super) fn recheck_blocked(&mut self, now: Duration) {
        let mut due = false;
        for queue in self.queues.values_mut() {
            if queue.blocked.is_none() {
                queue.recheck_at = None;
                continue;
            }
            let at = *queue.recheck_at.get_or_insert(now + RECHECK_INTERVAL);
            if now >= at && !queue.leaving {
                queue.recheck_at = Some(now + RECHECK_INTERVAL);
                queue.checking = true;
                due = true;
            }
        }
        if due {
            self.fetch_committed();
        }
    }

    /// The group's offset of a blocked partition is known. Where somebody has set it, reading begins there.
    pub(super) fn rechecked(&mut self, partition: &PartitionId, offset: Option<i64>) {
        let in_transaction = self.sent.offsets.contains_key(partition);
        let Some(queue) = self.queues.get_mut(partition) else { return };
        if !std::mem::take(&mut queue.checking) {
            return;
        }
        if offset != queue.committed && offset.is_some() && !in_transaction {
            queue.rewind();
            self.requests.retain(|_, source| source.partition != *partition);
            return;
        }
        // Records that are gone do not come back, but a broker may have been wrong about them. Behind the end, others
        // may have taken the place of those that the partition has lost: they are not what comes next.
        if let Some(Blocked::OutOfRange { offset, first, .. }) = queue.blocked
            && offset < first
        {
            queue.retrying = true;
            let from = ReadFrom::Offset(queue.next);
            self.effects.push_back(Effect::Seek { partition: partition.clone(), from });
        }
    }

    /// Partitions whose committed offset is wanted: to begin there, or to see whether somebody has set it.
    pub(super) fn offsets_wanted(&self) -> BTreeSet<PartitionId> {
        let wanted = self.queues.iter().filter(|(_, queue)| (queue.seeking || queue.checking) && !queue.leaving);
        wanted.map(|(partition, _)| partition.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::PageDigest;
    use crate::protocol::{Answer, Decision, PageVerdict, RequestId, Verdict};
    use crate::record::Timestamp;
    use crate::worker::Event;
    use crate::worker::test_worker::{TestWorker, input};

    fn verdict_of(partition: i32, offset: i64, digest: u32) -> Verdict {
        let page = PageVerdict {
            source: input(partition).at(offset),
            event_time: Timestamp::default(),
            digest: PageDigest(digest),
            decision: Decision::Unique { original: None },
        };
        Verdict { request: RequestId(9), answer: Answer::Page(page) }
    }

    fn reopened(partition: i32, from: i64, to: i64) -> Verdict {
        Verdict { request: RequestId(10), answer: Answer::Reopened { partition: input(partition), from, to } }
    }

    fn seeks(effects: &[Effect<()>]) -> Vec<(i32, ReadFrom)> {
        let seek = |effect: &Effect<()>| {
            assert!(!matches!(effect, Effect::Fail(_)), "{effect:?}");
            if let Effect::Seek { partition, from } = effect { Some((partition.number, *from)) } else { None }
        };
        effects.iter().filter_map(seek).collect()
    }

    fn fetches(effects: &[Effect<()>]) -> Vec<&BTreeSet<PartitionId>> {
        effects
            .iter()
            .filter_map(|effect| if let Effect::FetchCommitted(wanted) = effect { Some(wanted) } else { None })
            .collect()
    }

    fn asks(effects: &[Effect<()>]) -> usize {
        effects.iter().filter(|effect| matches!(effect, Effect::Append(..))).count()
    }

    #[test]
    fn a_page_that_is_not_the_one_judged_there_holds_up_its_partition_until_the_range_is_reopened() {
        let mut bench = TestWorker::new(vec![verdict_of(0, 5, 1)]);
        bench.offsets([Some(5), Some(0)]);
        assert_eq!(seeks(&bench.page(0, 5, 2)), []);
        assert_eq!(bench.why(), [Blocked::ForeignPage(5)]);
        assert_eq!(asks(&bench.page(0, 6, 3)), 0, "nothing behind it is asked about");
        assert_eq!(asks(&bench.page(1, 0, 4)), 1, "the other partition goes on");
        let effects = bench.follow(vec![reopened(0, 5, 6)]);
        assert_eq!((seeks(&effects), asks(&effects)), (vec![(0, ReadFrom::Offset(6))], 1));
        assert_eq!(bench.why(), []);
    }

    #[test]
    fn a_verdict_of_another_page_that_comes_later_blocks_the_partition_as_well() {
        let mut bench = TestWorker::new(vec![]);
        bench.offsets([Some(5), Some(0)]);
        bench.page(0, 5, 2);
        bench.follow(vec![verdict_of(0, 5, 1)]);
        assert_eq!(bench.why(), [Blocked::ForeignPage(5)]);
    }

    #[test]
    fn a_missing_offset_holds_up_its_partition_until_somebody_sets_it() {
        let mut bench = TestWorker::new(vec![verdict_of(0, 5, 1)]);
        assert_eq!(seeks(&bench.offsets([None, Some(3)])), [(1, ReadFrom::Offset(3))]);
        assert_eq!(bench.why(), [Blocked::NoOffset]);
        assert_eq!(fetches(&bench.handle(Event::Tick)), Vec::<&BTreeSet<PartitionId>>::new());
        assert_eq!(fetches(&bench.a_minute_later()), [&BTreeSet::from([input(0)])]);
        let none = bench.handle(Event::Committed(BTreeMap::from([(input(0), None)])));
        assert_eq!((seeks(&none), bench.why()), (vec![], vec![Blocked::NoOffset]));
        bench.a_minute_later();
        let set = bench.handle(Event::Committed(BTreeMap::from([(input(0), Some(6))])));
        assert_eq!((seeks(&set), bench.why()), (vec![(0, ReadFrom::Offset(6))], vec![]));
    }

    #[test]
    fn a_missing_offset_is_no_matter_when_nothing_is_judged_any_more() {
        let mut bench = TestWorker::new(vec![verdict_of(0, 5, 1)]);
        bench.offsets([None, Some(3)]);
        let effects = bench.follow(vec![reopened(0, 0, 9)]);
        assert_eq!(fetches(&effects), [&BTreeSet::from([input(0)])]);
        let none = bench.handle(Event::Committed(BTreeMap::from([(input(0), None)])));
        assert_eq!((seeks(&none), bench.why()), (vec![(0, ReadFrom::Beginning)], vec![]));
    }

    #[test]
    fn an_offset_that_is_gone_is_tried_again_each_minute_and_a_set_one_is_taken() {
        let mut bench = TestWorker::new(vec![]);
        bench.offsets([Some(5), Some(3)]);
        let lost = || Event::OutOfRange { partition: input(0), offset: 5, first: 8, end: 9 };
        let why = [Blocked::OutOfRange { offset: 5, first: 8, end: 9 }];
        bench.handle(lost());
        assert_eq!(bench.why(), why);
        assert_eq!(asks(&bench.page(1, 3, 4)), 1, "the other partition goes on");
        bench.a_minute_later();
        let same = bench.handle(Event::Committed(BTreeMap::from([(input(0), Some(5))])));
        assert_eq!((seeks(&same), bench.why()), (vec![(0, ReadFrom::Offset(5))], why.to_vec()));
        bench.handle(lost());
        bench.a_minute_later();
        let set = bench.handle(Event::Committed(BTreeMap::from([(input(0), Some(8))])));
        assert_eq!((seeks(&set), bench.why()), (vec![(0, ReadFrom::Offset(8))], vec![]));
    }

    #[test]
    fn what_stands_where_lost_records_stood_is_never_read_unasked() {
        let mut bench = TestWorker::new(vec![]);
        bench.offsets([Some(50), Some(3)]);
        bench.handle(Event::OutOfRange { partition: input(0), offset: 50, first: 0, end: 9 });
        bench.a_minute_later();
        let same = bench.handle(Event::Committed(BTreeMap::from([(input(0), Some(50))])));
        assert_eq!((seeks(&same), bench.why().len()), (vec![], 1));
        bench.a_minute_later();
        let set = bench.handle(Event::Committed(BTreeMap::from([(input(0), Some(0))])));
        assert_eq!((seeks(&set), bench.why()), (vec![(0, ReadFrom::Offset(0))], vec![]));
    }
}
