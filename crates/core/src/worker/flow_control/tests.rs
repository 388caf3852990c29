use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::fingerprint::PageDigest;
use crate::protocol::{Answer, Decision, PageVerdict, RequestId, Verdict};
use crate::record::{PartitionId, Timestamp};
use crate::worker::tests::{TestWorker, input};
use crate::worker::{Backlog, Event, Page, PageAction, PageOutcome, ReadFrom};

const HOUR: i64 = 3_600_000;
const NOW: i64 = 1_000_000 * HOUR;
const YEAR_2100: i64 = 4_102_444_800_000;

/// The moment at which the pages are read.
const MOMENT: i64 = NOW + 1_000 * HOUR;

/// The partition of another worker.
const OTHER: i32 = 2;

/// Two partitions that are read from their beginning; tombstones, which need no judge. A third one is another worker's.
struct Reading {
    bench: TestWorker,
    next: [i64; 2],
    paused: BTreeSet<PartitionId>,
    seeks: Vec<(i32, i64)>,
    asked: Vec<BTreeMap<PartitionId, i64>>,
    /// No other worker has anything to read.
    alone: bool,
    /// Pages judged of the other worker's partition.
    judged: i64,
}

impl Reading {
    fn new() -> Self {
        Self { alone: true, ..Self::beside_another() }
    }

    /// The test answers what is asked.
    fn beside_another() -> Self {
        let mut bench = TestWorker::new(vec![]);
        bench.offsets([Some(0), Some(0)]);
        let (paused, seeks, asked) = (BTreeSet::new(), Vec::new(), Vec::new());
        Self { bench, next: [0, 0], paused, seeks, asked, alone: false, judged: 0 }
    }

    fn handle(&mut self, event: Event<()>) {
        for effect in self.bench.handle(event) {
            if let Effect::Pause(some) = effect {
                self.paused.extend(some);
            } else if let Effect::Resume(some) = effect {
                self.paused.retain(|partition| !some.contains(partition));
            } else if let Effect::Seek { partition, from: ReadFrom::Offset(offset) } = effect {
                self.seeks.push((partition.number, offset));
            } else if let Effect::FetchBacklog(heads) = effect {
                self.asked.push(heads);
            }
        }
        if self.alone && self.asked.pop().is_some() {
            self.handle(Event::Backlog(BTreeMap::new()));
        }
    }

    /// Two partitions of which twenty pages each were read in step.
    fn in_step() -> Self {
        let mut reading = Self::new();
        for step in 0..20 {
            (0..2).for_each(|partition| reading.page(partition, NOW + step));
            reading.a_moment();
        }
        reading
    }

    fn page(&mut self, partition: usize, time: i64) {
        self.sized_page(partition, time, 0);
    }

    fn sized_page(&mut self, partition: usize, time: i64, bytes: usize) {
        let number = i32::try_from(partition).unwrap();
        let source = input(number).at(self.next[partition]);
        self.next[partition] += 1;
        let [event_time, paced_by] = [time, time.min(MOMENT)].map(Timestamp::from_millis);
        let action = PageAction::Settled(PageOutcome::Tombstone);
        self.handle(Event::Page(Page { source, bytes, event_time, paced_by, action, earlier: None, payload: () }));
    }

    /// Pages of the other worker's partition are judged.
    fn verdicts(&mut self, times: impl IntoIterator<Item = i64>) {
        for time in times {
            self.verdict(OTHER, self.judged, time);
            self.judged += 1;
        }
    }

    fn verdict(&mut self, partition: i32, offset: i64, time: i64) {
        let page = PageVerdict {
            source: input(partition).at(offset),
            event_time: Timestamp::from_millis(time),
            digest: PageDigest(0),
            decision: Decision::Unique { original: None },
        };
        self.bench.follow(vec![Verdict { request: RequestId(u64::MAX), answer: Answer::Page(page) }]);
    }

    /// The question is answered: the other worker's partition has this many records, and its next pages are of these
    /// times where that was asked.
    fn answer(&mut self, end: i64, times: &[i64]) {
        let asked = self.asked.pop().expect("a question");
        self.asked.clear();
        let times = || times.iter().copied().map(Timestamp::from_millis).collect();
        let head = asked.contains_key(&input(OTHER)).then(times);
        let backlog = Backlog { next: self.judged, end, head };
        self.handle(Event::Backlog(BTreeMap::from([(input(OTHER), backlog)])));
    }

    fn wait(&mut self, span: Duration) {
        self.bench.now += span;
        self.handle(Event::Tick);
    }

    fn a_moment(&mut self) {
        self.wait(Duration::from_millis(100));
    }

    fn is_paused(&self, partition: i32) -> bool {
        self.paused.contains(&input(partition))
    }

    fn held(&self) -> usize {
        self.bench.worker.status().ahead
    }
}

#[test]
fn a_page_of_the_year_2100_parks_no_partition() {
    let mut reading = Reading::in_step();
    reading.page(0, YEAR_2100);
    reading.a_moment();
    assert!(reading.paused.is_empty(), "{:?}", reading.paused);
    (0..2).for_each(|partition| reading.page(partition, NOW + 20));
    assert_eq!(reading.held(), 0);
}

#[test]
fn pages_of_the_future_come_in_with_the_page_before_them() {
    let mut reading = Reading::in_step();
    // More than decide how far a partition is.
    (0..2 * Backlog::PAGES).for_each(|_| reading.page(0, YEAR_2100));
    reading.a_moment();
    assert!(reading.paused.is_empty(), "{:?}", reading.paused);
    assert_eq!(reading.held(), 0);
    reading.page(0, NOW + 20);
    assert_eq!(reading.held(), 0);
}

/// Any time, or one that is near enough to be waited for.
fn wild_time() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), NOW - 90 * HOUR..NOW + 90 * HOUR]
}

proptest! {
    /// As many wild pages as it takes for all of the last ones to be wild are a partition of another time.
    #[test]
    fn wild_times_among_right_ones_park_no_partition(
        wild in prop::collection::vec((0..200_usize, 0..3_usize, wild_time()), 0..7)
    ) {
        let mut reading = Reading::beside_another();
        for step in 0..200 {
            let right = NOW + i64::try_from(step).unwrap();
            let found = |partition| wild.iter().find(|&&(at, of, _)| (at, of) == (step, partition));
            let time = |partition| found(partition).map_or(right, |&(_, _, time)| time);
            reading.verdicts([time(2)]);
            (0..2).for_each(|partition| reading.page(partition, time(partition)));
            while !reading.asked.is_empty() {
                reading.answer(1000, &[right; 8]);
            }
            reading.a_moment();
            while !reading.asked.is_empty() {
                reading.answer(1000, &[right; 8]);
            }
            prop_assert!(reading.paused.is_empty(), "{:?} at {step}", reading.paused);
        }
        (0..2).for_each(|partition| reading.page(partition, NOW + 200));
        prop_assert_eq!(reading.held(), 0);
    }
}

/// Partition 0 is two hours ahead of partition 1, which is behind.
fn ahead() -> Reading {
    let mut reading = Reading::new();
    for step in 0..20 {
        reading.page(0, NOW + step + 2 * HOUR);
        reading.page(1, NOW + step);
    }
    reading.a_moment();
    assert!(reading.is_paused(0) && !reading.is_paused(1));
    reading
}

#[test]
fn a_partition_far_ahead_waits_until_the_other_is_near() {
    let mut reading = ahead();
    for (minutes, paused) in [(70, true), (85, true), (95, false), (70, false)] {
        (0..8).for_each(|_| reading.page(1, NOW + minutes * HOUR / 60));
        reading.a_moment();
        assert_eq!(reading.is_paused(0), paused, "{minutes} min");
    }
}

#[test]
fn a_verdict_of_a_wild_time_does_not_end_the_pacing() {
    let mut reading = Reading::new();
    reading.verdicts([NOW; 8]);
    reading.verdicts([NOW + 1000 * HOUR]);
    for step in 0..20 {
        reading.page(0, NOW + step + 2 * HOUR);
        reading.page(1, NOW + step);
    }
    reading.a_moment();
    assert!(reading.is_paused(0) && !reading.is_paused(1), "{:?}", reading.paused);
}

#[test]
fn a_stop_after_a_partition_waits_for_its_pages_that_are_held_back() {
    let mut reading = ahead();
    reading.handle(Event::StopAfter(input(0)));
    reading.a_moment();
    assert!(!reading.is_paused(1), "the slower partition continues");
    (0..8).for_each(|_| reading.page(1, NOW + 2 * HOUR));
    reading.a_moment();
    assert_eq!(reading.held(), 0);
    reading.a_moment();
    assert!(reading.is_paused(0) && reading.is_paused(1), "it is stopping");
}

#[test]
fn no_partition_waits_for_one_that_gives_nothing() {
    let mut reading = ahead();
    reading.wait(Duration::from_secs(3));
    assert!(reading.is_paused(0));
    reading.wait(Duration::from_secs(3));
    assert!(!reading.is_paused(0), "its leader is away");

    let mut reading = ahead();
    reading.handle(Event::AtEnd(input(1)));
    reading.a_moment();
    assert!(!reading.is_paused(0), "there is nothing to read");
}

#[test]
fn no_partition_waits_for_one_that_is_beyond_all_that_is_remembered() {
    let mut reading = Reading::new();
    reading.verdicts([NOW; 8]);
    for step in 0..20 {
        reading.page(0, NOW + step);
        reading.page(1, step);
    }
    reading.a_moment();
    assert!(reading.paused.is_empty(), "records without a timestamp are of 1970");
}

#[test]
fn pages_that_are_too_far_ahead_make_room_and_are_read_again() {
    let mut reading = Reading::new();
    reading.page(1, NOW);
    reading.page(0, NOW);
    (0..3).for_each(|_| reading.sized_page(0, NOW + 2 * HOUR, 400));
    assert_eq!(reading.bench.worker.status().in_flight_bytes, 0, "they were dropped");
    assert!(reading.is_paused(0) && !reading.is_paused(1), "{:?}", reading.paused);
    // On its way when the partition was paused.
    reading.page(0, NOW + 2 * HOUR);
    assert_eq!(reading.bench.worker.status().waiting, 2, "the two of the same time");
    reading.seeks.clear();
    (0..8).for_each(|_| reading.page(1, NOW + 2 * HOUR));
    reading.a_moment();
    assert_eq!((&reading.seeks[..], reading.is_paused(0)), (&[(0, 1)][..], false));
}

/// The other worker's partition has a thousand pages, of which eight are judged; ours has pages up to two hours later.
fn ahead_of_the_other() -> Reading {
    let mut reading = Reading::beside_another();
    reading.verdicts([NOW; 8]);
    reading.page(0, NOW + 2 * HOUR);
    reading.answer(1000, &[]);
    (0..8).for_each(|_| reading.page(0, NOW + 2 * HOUR));
    assert!(reading.is_paused(0) && !reading.is_paused(1), "{:?}", reading.paused);
    reading
}

#[test]
fn a_partition_waits_for_a_slower_one_of_another_worker() {
    let mut reading = ahead_of_the_other();
    for (minutes, paused) in [(70, true), (95, false)] {
        reading.verdicts([NOW + minutes * HOUR / 60; 8]);
        reading.a_moment();
        assert_eq!(reading.is_paused(0), paused, "{minutes} min");
    }
}

#[test]
fn a_partition_goes_on_when_the_slower_one_has_nothing_left() {
    let mut reading = ahead_of_the_other();
    // Its end was seen; the rest are records without a page.
    reading.wait(Duration::from_millis(300));
    assert_eq!(reading.asked, [BTreeMap::from([(input(OTHER), 8)])]);
    reading.answer(1000, &[]);
    assert!(!reading.is_paused(0));
}

#[test]
fn a_gap_in_the_slower_partition_holds_no_other() {
    let mut reading = ahead_of_the_other();
    reading.wait(Duration::from_millis(300));
    reading.answer(1000, &[NOW + 3 * HOUR; 8]);
    assert!(!reading.is_paused(0), "its next page is later than ours");
}

#[test]
fn a_partition_whose_worker_is_away_holds_no_other_for_ever() {
    let mut reading = ahead_of_the_other();
    for second in 0..70 {
        reading.wait(Duration::from_secs(1));
        if !reading.asked.is_empty() {
            reading.answer(1000, &[NOW; 8]);
        }
        assert_eq!(reading.is_paused(0), second < 60, "second {second}");
    }
    // It is waited for again when it has shown that it moves.
    for (verdicts, paused) in [(7, false), (1, true)] {
        reading.verdicts(vec![NOW + 1; verdicts]);
        reading.a_moment();
        (0..8).for_each(|_| reading.page(0, NOW + 2 * HOUR));
        while !reading.asked.is_empty() {
            reading.answer(1000, &[NOW; 8]);
        }
        reading.a_moment();
        assert_eq!(reading.is_paused(0), paused);
    }
}

#[test]
fn a_partition_that_has_not_much_to_wait_for_does_not_wait_for_ever_either() {
    let mut reading = ahead_of_the_other();
    // Too near to begin to wait, and not near enough to continue.
    reading.verdicts([NOW + 70 * HOUR / 60; 8]);
    for second in 0..63 {
        reading.wait(Duration::from_secs(1));
        if !reading.asked.is_empty() {
            reading.answer(1000, &[NOW + 70 * HOUR / 60; 8]);
        }
        assert_eq!(reading.is_paused(0), second < 61, "second {second}");
    }
}

#[test]
fn pages_that_come_late_and_are_judged_at_once_hold_no_partition() {
    let mut reading = Reading::beside_another();
    (0..8).for_each(|offset| reading.verdict(0, offset, NOW));
    for step in 0..100 {
        reading.verdicts([NOW - 10 * HOUR + step]);
        reading.page(0, NOW + step);
        assert_eq!(reading.held(), 0, "step {step}");
        reading.a_moment();
        if !reading.asked.is_empty() {
            // The next page is always on its way.
            reading.answer(reading.judged + 1, &[NOW - 10 * HOUR; 8]);
        }
    }
}

#[test]
fn a_service_without_a_backlog_asks_nothing() {
    let mut reading = Reading::beside_another();
    reading.verdicts([NOW; 8]);
    for step in 0..1000 {
        reading.verdicts([NOW + step]);
        (0..2).for_each(|partition| reading.page(partition, NOW + step));
        reading.a_moment();
        assert!(reading.asked.is_empty() && reading.held() == 0, "step {step}");
    }
}

#[test]
fn nothing_is_asked_about_before_the_times_of_all_partitions_are_known() {
    let mut reading = Reading::beside_another();
    (0..2).for_each(|partition| reading.page(partition, NOW + 2 * HOUR));
    assert_eq!((reading.held(), &reading.asked[..]), (2, &[BTreeMap::new()][..]));
    reading.answer(1000, &[]);
    assert_eq!((reading.held(), &reading.asked[..]), (2, &[BTreeMap::from([(input(OTHER), 0)])][..]));
    reading.answer(1000, &[NOW; 8]);
    assert_eq!(reading.held(), 2, "the other one begins earlier");
    (0..2).for_each(|partition| reading.page(partition, NOW + 2 * HOUR));
    reading.verdicts([NOW + 2 * HOUR; 8]);
    reading.a_moment();
    assert_eq!(reading.held(), 0);
}

#[test]
fn no_partition_waits_for_ever_for_an_answer() {
    let mut reading = Reading::beside_another();
    reading.page(0, NOW);
    reading.wait(Duration::from_secs(4));
    assert_eq!(reading.held(), 1);
    reading.wait(Duration::from_secs(2));
    assert_eq!(reading.held(), 0);

    // Nor for the times of a partition that cannot be read.
    let mut reading = Reading::beside_another();
    reading.page(0, NOW);
    for second in 0..62 {
        if !reading.asked.is_empty() {
            reading.asked.clear();
            reading.handle(Event::Backlog(BTreeMap::from([(input(OTHER), Backlog { next: 0, end: 9, head: None })])));
        }
        assert_eq!(reading.held(), usize::from(second < 61), "second {second}");
        reading.wait(Duration::from_secs(1));
    }
}

#[test]
fn a_worker_that_starts_beside_a_live_service_reads_at_once() {
    let mut reading = Reading::beside_another();
    (0..8).for_each(|offset| reading.verdict(0, offset, NOW));
    reading.page(1, NOW + HOUR / 2);
    assert_eq!((reading.held(), reading.asked.len()), (0, 0), "the judge has come as far as that");
}

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
    assert_eq!(bench.worker.status().asked, 3);
    bench.follow(vec![verdict_of(0, 5, 1)]);
    assert_eq!(bench.worker.status().asked, 1, "that of the other partition");
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
fn what_the_earlier_scheme_has_judged_is_no_matter_once_the_dual_period_is_over() {
    let mut bench = TestWorker::after_earlier(vec![verdict_of(0, 5, 1)]);
    bench.offsets([None, Some(3)]);
    assert_eq!(bench.why(), [Blocked::NoOffset]);
    // No judge of it would have the range judged again.
    assert_eq!(fetches(&bench.end_dual_period()), [&BTreeSet::from([input(0)])]);
    let none = bench.handle(Event::Committed(BTreeMap::from([(input(0), None)])));
    assert_eq!((seeks(&none), bench.why()), (vec![(0, ReadFrom::Beginning)], vec![]));
}

#[test]
fn a_topic_that_is_created_again_begins_at_its_beginning_wherever_it_was_to_start_at_first() {
    let starts_at_end = |bench: &mut TestWorker| bench.handle(Event::NewToGroup(BTreeSet::from([input(0), input(1)])));
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
