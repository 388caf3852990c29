//! Blocked partitions: a partition that cannot make progress is reported and rechecked periodically; the others
//! continue.

use std::collections::BTreeMap;
use std::time::Duration;

use super::blocked_reason::Blocked;
use super::events::Effect;
use super::machine::Worker;
use super::queue::PartitionQueue;
use crate::record::PartitionId;

impl<P> Worker<P> {
    /// Returns the partitions that cannot be read on, and why.
    #[must_use]
    pub fn blocked(&self) -> BTreeMap<PartitionId, Blocked> {
        let blocked =
            self.partitions.iter().filter_map(|(partition, queue)| Some((partition.clone(), queue.blocked()?.clone())));
        blocked.collect()
    }

    /// A range is to be judged again: a partition without an offset may have nothing judged any more.
    pub(super) fn ask_for_offset_again(&mut self, partition: &PartitionId) {
        let has_no_offset = |queue: &PartitionQueue<P>| queue.blocked() == Some(&Blocked::NoOffset);
        if self.partitions.get(partition).is_some_and(has_no_offset) {
            self.fetch_committed();
        }
    }

    /// Asks for the offsets of blocked partitions when it is time to.
    pub(super) fn recheck_blocked(&mut self, now: Duration) {
        let due = self.partitions.iter_mut().filter_map(|(_, queue)| queue.is_recheck_due(now).then_some(()));
        if due.count() > 0 {
            self.fetch_committed();
        }
    }

    /// The committed offset of a blocked partition is known. If an operator has set it, reading begins there.
    pub(super) fn rechecked(&mut self, partition: &PartitionId, offset: Option<i64>) {
        let in_transaction = self.outgoing.moves(partition);
        if let Some(from) = self.partitions.rechecked(partition, offset, in_transaction) {
            self.effects.push_back(Effect::Seek { partition: partition.clone(), from });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fingerprint::PageDigest;
    use crate::protocol::{Answer, Decision, PageVerdict, RequestId, Verdict};
    use crate::record::Timestamp;
    use crate::worker::test_worker::{TestWorker, input};
    use crate::worker::{Event, ReadFrom};

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
        assert_eq!(asks(&bench.page(0, 6, 3)), 0, "nothing after it is asked about");
        assert_eq!(asks(&bench.page(1, 0, 4)), 1, "the other partition continues");
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
    fn nothing_waits_for_the_answer_about_a_page_that_is_dropped_after_a_blocked_one() {
        let mut bench = TestWorker::new(vec![]);
        bench.offsets([Some(5), Some(0)]);
        bench.page(0, 5, 2);
        bench.page(0, 6, 3);
        bench.page(1, 0, 4);
        assert_eq!(bench.worker.waits(), 3);
        bench.follow(vec![verdict_of(0, 5, 1)]);
        assert_eq!(bench.worker.waits(), 1, "that of the other partition");
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
        assert_eq!(asks(&bench.page(1, 3, 4)), 1, "the other partition continues");
        bench.a_minute_later();
        let same = bench.handle(Event::Committed(BTreeMap::from([(input(0), Some(5))])));
        assert_eq!((seeks(&same), bench.why()), (vec![(0, ReadFrom::Offset(5))], why.to_vec()));
        bench.handle(lost());
        bench.a_minute_later();
        let set = bench.handle(Event::Committed(BTreeMap::from([(input(0), Some(8))])));
        assert_eq!((seeks(&set), bench.why()), (vec![(0, ReadFrom::Offset(8))], vec![]));
    }

    #[test]
    fn a_topic_that_may_not_be_read_blocks_its_partition_until_it_may() {
        let mut bench = TestWorker::new(vec![]);
        bench.offsets([Some(5), Some(3)]);
        bench.handle(Event::Denied(input(0)));
        assert_eq!(bench.why(), [Blocked::Denied]);
        assert_eq!(asks(&bench.page(1, 3, 4)), 1, "the other partition continues");
        bench.a_minute_later();
        let same = bench.handle(Event::Committed(BTreeMap::from([(input(0), Some(5))])));
        assert_eq!((seeks(&same), bench.why()), (vec![(0, ReadFrom::Offset(5))], vec![Blocked::Denied]));
        bench.handle(Event::Denied(input(0)));
        bench.a_minute_later();
        let same = bench.handle(Event::Committed(BTreeMap::from([(input(0), Some(5))])));
        assert_eq!(seeks(&same), [(0, ReadFrom::Offset(5))]);
        assert_eq!(asks(&bench.page(0, 5, 5)), 1);
        assert_eq!(bench.why(), []);
    }

    #[test]
    fn records_at_the_offsets_of_lost_ones_are_never_read_unasked() {
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

    #[test]
    fn a_topic_that_is_created_again_begins_at_its_beginning_wherever_it_was_to_start_at_first() {
        let starts_at_end =
            |bench: &mut TestWorker| bench.handle(Event::NewToGroup(BTreeSet::from([input(0), input(1)])));
        let none = || Event::Committed(BTreeMap::from([(input(0), None)]));
        // Committed by this worker, by another one, and nothing but judged.
        let mut own = TestWorker::new(vec![]);
        starts_at_end(&mut own);
        assert_eq!(seeks(&own.offsets([None, Some(3)])), [(0, ReadFrom::ConfiguredStart), (1, ReadFrom::Offset(3))]);
        own.now += Duration::from_secs(1);
        assert!(!own.handle(Event::Started(input(0), 7)).iter().any(|effect| matches!(effect, Effect::Call(_))));
        let mut effects = own.handle(Event::AtEnd(input(0)));
        while effects.iter().any(|effect| matches!(effect, Effect::Call(_))) {
            effects = own.handle(Event::Called(Ok(())));
        }
        let mut others = TestWorker::new(vec![]);
        starts_at_end(&mut others);
        others.offsets([Some(7), Some(3)]);
        let mut judged = TestWorker::new(vec![verdict_of(0, 5, 1)]);
        starts_at_end(&mut judged);
        judged.offsets([None, Some(3)]);
        assert_eq!(judged.why(), [Blocked::NoOffset]);
        judged.follow(vec![reopened(0, 0, 9)]);
        assert_eq!(seeks(&judged.handle(none())), [(0, ReadFrom::Beginning)]);
        for mut bench in [own, others] {
            bench.handle(Event::Lost(BTreeSet::from([input(0)])));
            bench.handle(Event::Assigned(BTreeSet::from([input(0)])));
            assert_eq!(seeks(&bench.handle(none())), [(0, ReadFrom::Beginning)]);
        }
    }
}
