//! A model of a replay in the order of several logs that is interrupted after any step.

use proptest::prelude::*;

use super::*;
use crate::fingerprint::{ExactHash, Fingerprints, Numbers, PageDigest};
use crate::protocol::{Decision, LogPartition, PageRequest, PageVerdict, RequestId};
use crate::record::{Reject, Timestamp};
use crate::replay::InputRange;

const PARTITIONS: i32 = 2;
const LOGS: usize = 3;

/// What a page of the model is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// The log of this number has a verdict on it.
    Judged(usize),
    /// No log knows it.
    Unknown,
    /// It never asks a judge.
    Settled,
    /// It was deleted from the input.
    Gone(usize),
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        12 => (0..LOGS).prop_map(Kind::Judged),
        1 => Just(Kind::Unknown),
        2 => Just(Kind::Settled),
        1 => (0..LOGS).prop_map(Kind::Gone),
    ]
}

fn source(partition: i32, offset: usize) -> Source {
    PartitionId::new("pages", partition).at(i64::try_from(offset).unwrap())
}

fn page(source: &Source, kind: Kind) -> Page<()> {
    let event_time = Timestamp::default();
    let request = PageRequest {
        source: source.clone(),
        event_time,
        id: None,
        scope: None,
        site: None,
        address: None,
        title: None,
        is_variant: false,
        fingerprints: Fingerprints { exact: ExactHash(1), simhash: None, sketch: None, numbers: Numbers::of("") },
        digest: PageDigest(7),
        earlier: None,
    };
    let action = match kind {
        Kind::Settled => PageAction::Settled(PageOutcome::Tombstone),
        Kind::Judged(_) | Kind::Unknown | Kind::Gone(_) => PageAction::Ask(LogPartition(0), request),
    };
    Page { source: source.clone(), bytes: 1, event_time, paced_by: event_time, action, earlier: None, payload: () }
}

/// The verdict of a page: which one tells that it came out as this page's.
fn reason(source: &Source) -> Reject {
    if source.offset % 2 == 0 { Reject::Refused } else { Reject::TooLargeForOutput }
}

fn verdict(source: &Source) -> (Next, Verdict) {
    let reason = reason(source);
    let answer = Answer::Withdrawn { source: source.clone(), reason };
    (Next::Withdrawn(source.clone(), reason), Verdict { request: RequestId(1), answer })
}

fn ranges(from: usize, to: usize) -> Ranges {
    let (from, to) = (i64::try_from(from).unwrap(), i64::try_from(to).unwrap());
    let range = |partition| InputRange { topic: "pages".to_owned(), partition, warm_from: 0, from, to };
    (0..PARTITIONS).map(range).collect()
}

/// The input, and the verdicts in the order of the walk.
#[derive(Clone, Debug)]
struct World {
    pages: Vec<Vec<Kind>>,
    from: usize,
    walk: Vec<Source>,
}

impl World {
    /// The walk takes records of the logs in any order; within a log the pages of a partition are in order.
    fn new(pages: Vec<Vec<Kind>>, from: usize, order: &[usize]) -> Self {
        let mut logs: Vec<Vec<Source>> = vec![Vec::new(); LOGS];
        let longest = pages.iter().map(Vec::len).max().unwrap_or(0);
        for offset in 0..longest {
            for (partition, kinds) in pages.iter().enumerate() {
                if let Some(Kind::Judged(log) | Kind::Gone(log)) = kinds.get(offset) {
                    logs[*log].push(source(i32::try_from(partition).unwrap(), offset));
                }
            }
        }
        logs.iter_mut().for_each(|log| log.reverse());
        let mut walk = Vec::new();
        let left = logs.iter().map(Vec::len).sum::<usize>();
        for step in 0..left {
            let wanted = order[step % order.len()];
            let log = (0..LOGS).map(|more| (wanted + more) % LOGS).find(|&log| !logs[log].is_empty()).unwrap();
            walk.extend(logs[log].pop());
        }
        Self { pages, from, walk }
    }

    fn kind(&self, source: &Source) -> Kind {
        self.pages[usize::try_from(source.partition.number).unwrap()][usize::try_from(source.offset).unwrap()]
    }

    fn ranges(&self) -> Ranges {
        ranges(self.from, self.pages.iter().map(Vec::len).max().unwrap_or(0))
    }

    /// The next page of a partition that the input holds, from this offset on.
    fn next(&self, partition: i32, offset: i64) -> Option<Page<()>> {
        let kinds = &self.pages[usize::try_from(partition).unwrap()];
        let held = (usize::try_from(offset).unwrap()..kinds.len()).find(|&at| !matches!(kinds[at], Kind::Gone(_)))?;
        Some(page(&source(partition, held), kinds[held]))
    }
}

/// The progress of a replay: what was delivered, and which verdicts found their page.
#[derive(Clone, Debug, Default, PartialEq)]
struct Done {
    delivered: Vec<(Source, PageOutcome)>,
    judged: Vec<Source>,
}

struct Replay<'w> {
    world: &'w World,
    pages: LogPages<()>,
    done: Done,
}

impl<'w> Replay<'w> {
    fn begin(world: &'w World, max_held_for_warm_up: usize) -> Self {
        let pages = LogPages { max_held_for_warm_up, ..LogPages::new(world.ranges()) };
        Self { world, pages, done: Done::default() }
    }

    /// Continues after a crash, with what was committed.
    fn resume(world: &'w World, max_held_for_warm_up: usize, steps: usize, marks: &Marks, done: Done) -> Self {
        let pages = LogPages { max_held_for_warm_up, ..LogPages::resumed(world.ranges(), marks) };
        let mut replay = Self { world, pages, done };
        for source in &world.walk[..steps] {
            // A verdict on a page that was not there is of the live log alone.
            if replay.done.judged.contains(source) {
                let (next, verdict) = verdict(source);
                replay.pages.remember(&next, verdict);
            }
        }
        for (partition, mark) in marks {
            let mut at = mark.offset;
            while let Some(page) = replay.pages.held_before(partition).and_then(|_| world.next(partition.number, at)) {
                if !replay.pages.was_held(&page.source) {
                    break;
                }
                at = page.source.offset + 1;
                replay.pages.put_back(page);
            }
        }
        replay.pages.caught_up();
        replay
    }

    fn read_up_to(&mut self, source: &Source) {
        while !self.pages.is_read(source) {
            let marks: Marks = self.pages.marks().collect();
            let at = marks.get(&source.partition).map_or(0, |mark| mark.read_to);
            let Some(page) = self.world.next(source.partition.number, at) else { return };
            self.pages.arrive(page);
            self.drain(&source.partition);
        }
    }

    fn drain(&mut self, partition: &PartitionId) {
        while let Some(Leaving { output, .. }) = self.pages.leave(partition) {
            self.done.delivered.push((output.page.source, output.outcome));
        }
    }

    fn step(&mut self, step: usize) {
        let source = self.world.walk[step].clone();
        self.read_up_to(&source);
        if self.pages.get(&source).is_some() {
            self.done.judged.push(source.clone());
        }
        self.pages.end(&source, PageOutcome::DeadLetter(reason(&source)));
        self.drain(&source.partition);
    }

    fn finish(mut self) -> Done {
        for partition in 0..PARTITIONS {
            let partition = PartitionId::new("pages", partition);
            self.read_up_to(&partition.at(i64::MAX));
            for open in self.pages.open(&partition) {
                self.pages.end(&open, PageOutcome::DeadLetter(Reject::Gone));
            }
            self.drain(&partition);
        }
        self.done
    }
}

fn by_partition(done: &Done) -> Vec<Vec<(Source, PageOutcome)>> {
    let of = |number| done.delivered.iter().filter(move |(source, _)| source.partition.number == number);
    (0..PARTITIONS).map(|number| of(number).cloned().collect()).collect()
}

/// Pages that come out, with what becomes of them.
fn expected(world: &World) -> Vec<Vec<(Source, PageOutcome)>> {
    let outcome = |source: &Source| match world.kind(source) {
        Kind::Judged(_) => Some(PageOutcome::DeadLetter(reason(source))),
        Kind::Unknown => Some(PageOutcome::DeadLetter(Reject::Gone)),
        Kind::Settled => Some(PageOutcome::Tombstone),
        Kind::Gone(_) => None,
    };
    let of = |(number, kinds): (usize, &Vec<Kind>)| {
        let sources = (world.from..kinds.len()).map(|offset| source(i32::try_from(number).unwrap(), offset));
        sources.filter_map(|source| Some((source.clone(), outcome(&source)?))).collect()
    };
    world.pages.iter().enumerate().map(of).collect()
}

fn world() -> impl Strategy<Value = World> {
    let pages = prop::collection::vec(prop::collection::vec(kind(), 1..40), 2);
    (pages, 0_usize..25, prop::collection::vec(0..LOGS, 1..30))
        .prop_map(|(pages, from, order)| World::new(pages, from, &order))
}

proptest! {
    /// Every page of the range comes out once, in the order of the input, with its own verdict, and so does no other;
    /// every page of the warm-up that the input holds is judged, whichever log is ahead.
    #[test]
    fn every_page_leaves_in_the_order_of_the_input_with_its_own_verdict(world in world()) {
        let mut replay = Replay::begin(&world, MAX_HELD_FOR_WARM_UP);
        (0..world.walk.len()).for_each(|step| replay.step(step));
        let done = replay.finish();
        prop_assert_eq!(by_partition(&done), expected(&world));
        let judged = world.walk.iter().filter(|source| matches!(world.kind(source), Kind::Judged(_)));
        prop_assert_eq!(&done.judged, &judged.cloned().collect::<Vec<_>>());
    }

    /// A replay that falls after any step, and once more after a later one, comes to what one came to that was not
    /// interrupted, also where warm-up pages are given up.
    #[test]
    fn an_interrupted_replay_comes_to_the_same(
        world in world(), falls in prop::collection::vec(any::<prop::sample::Index>(), 1..4), patience in 0_usize..50,
    ) {
        let mut replay = Replay::begin(&world, patience);
        (0..world.walk.len()).for_each(|step| replay.step(step));
        let whole = replay.finish();

        let mut falls: Vec<usize> = falls.iter().map(|fall| fall.index(world.walk.len() + 1)).collect();
        falls.sort_unstable();
        let mut replay = Replay::begin(&world, patience);
        let mut steps = 0;
        for fall in falls {
            (steps..fall).for_each(|step| replay.step(step));
            steps = fall;
            let marks = replay.pages.marks().collect();
            replay = Replay::resume(&world, patience, steps, &marks, replay.done);
        }
        (steps..world.walk.len()).for_each(|step| replay.step(step));
        let torn = replay.finish();
        prop_assert_eq!(by_partition(&torn), by_partition(&whole));
        prop_assert_eq!(torn.judged, whole.judged);
    }
}

#[test]
fn a_warm_up_page_that_the_log_says_nothing_of_holds_others_for_a_while() {
    let partition = PartitionId::new("pages", 0);
    let mut pages = LogPages { max_held_for_warm_up: 3, ..LogPages::new(ranges(1, 9)) };
    pages.arrive(page(&partition.at(0), Kind::Unknown));
    for offset in 1..4 {
        assert!(pages.leave(&partition).is_none(), "it waits for the page before the range");
        pages.arrive(page(&partition.at(offset), Kind::Settled));
    }
    let left: Vec<i64> =
        std::iter::from_fn(|| pages.leave(&partition)).map(|it| it.output.page.source.offset).collect();
    assert_eq!(left, [1, 2, 3]);
    // A page of the range waits for its verdict, however long.
    (4..20).for_each(|offset| pages.arrive(page(&partition.at(offset), Kind::Unknown)));
    assert!(pages.leave(&partition).is_none());
    assert_eq!(pages.marks().collect::<Vec<_>>(), [(partition, Mark { offset: 4, read_to: 20 })]);
}

#[test]
fn a_page_before_the_range_that_no_judge_can_rule_on_holds_no_other() {
    let partition = PartitionId::new("pages", 0);
    let mut pages = LogPages::new(ranges(1, 9));
    let withdrawn = PageAction::Withdraw(LogPartition(0), Reject::TooLargeForOutput);
    pages.arrive(Page { action: withdrawn, ..page(&partition.at(0), Kind::Unknown) });
    pages.arrive(page(&partition.at(1), Kind::Settled));
    assert_eq!(pages.leave(&partition).map(|it| it.output.page.source.offset), Some(1));
}

#[test]
fn a_page_that_was_judged_again_keeps_its_first_outcome_after_an_interruption() {
    let source = source(0, 3);
    let unique = |event_time| {
        let decision = Decision::Unique { original: None };
        let page = PageVerdict { source: source.clone(), event_time, digest: PageDigest(7), decision };
        Verdict { request: RequestId(1), answer: Answer::Page(page) }
    };
    let [first, second] = [1, 2].map(|time| unique(Timestamp::from_millis(time)));
    let marks = Marks::from([(source.partition.clone(), Mark { offset: 3, read_to: 4 })]);
    let mut pages: LogPages<()> = LogPages::resumed(ranges(0, 9), &marks);
    for verdict in [&first, &second] {
        pages.remember(&Next::Page(Box::new(verdict.clone()), Part::Range), verdict.clone());
    }
    pages.put_back(page(&source, Kind::Judged(0)));
    let left = pages.leave(&source.partition).unwrap();
    assert_eq!(left.output.outcome, PageOutcome::Judged(Arc::new(first)));
}

fn queued_page(offset: i64, action: PageAction) -> Page<()> {
    let source = PartitionId::new("pages", 0).at(offset);
    let event_time = Timestamp::default();
    Page { source, bytes: 1, event_time, paced_by: event_time, action, earlier: None, payload: () }
}

#[test]
fn pages_leave_in_the_order_of_their_offsets() {
    let partition = PartitionId::new("pages", 0);
    let mut queues = PageQueues::default();
    let asked = || PageAction::Withdraw(crate::protocol::LogPartition(0), crate::record::Reject::Gone);
    queues.arrive(queued_page(3, asked()));
    queues.arrive(queued_page(5, PageAction::Settled(PageOutcome::Tombstone)));
    queues.arrive(queued_page(9, asked()));
    assert!(queues.leave(&partition).is_none(), "the first has no end yet");
    assert!(queues.end(&partition.at(9), PageOutcome::Tombstone));
    assert!(!queues.end(&partition.at(4), PageOutcome::Tombstone), "there is no such page");
    assert_eq!(queues.open(&partition), [partition.at(3)]);
    assert!(queues.get(&partition.at(5)).is_some() && queues.get(&partition.at(6)).is_none());
    assert!(queues.end(&partition.at(3), PageOutcome::Tombstone));
    let left: Vec<i64> = std::iter::from_fn(|| queues.leave(&partition)).map(|out| out.page.source.offset).collect();
    assert_eq!(left, [3, 5, 9]);
    assert_eq!(queues.first(&partition), None);
}
