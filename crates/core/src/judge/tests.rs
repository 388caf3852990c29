//! Compares the judge's state with a list and two loops, and checks that followers from any start reach the same state.

mod renderings;
mod roles;
pub(super) mod similar_pages;
mod test_judge;
mod titles;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::fingerprint::{ExactHash, Fingerprints, IdHash, Numbers, PageDigest, PerMille, ScopeHash, SimHash, Width};
use crate::index::run_sequential;
use crate::protocol::{
    Answer, Checkpoint, Decision, Delivered, ForgetTarget, LogIdentity, PageRequest, PageVerdict, PerStage, Request,
    RequestBody, RequestId, RequestOffset, Rules, SameId, Stage, Verdict, VerdictOffset,
};
use crate::record::{PartitionId, Reject, Source, Timestamp};

const WINDOW: i64 = 20;
const LATENESS: i64 = 5;
const SKEW: i64 = 4;

fn millis(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}

pub(super) fn rules(max_entries: u64) -> Rules {
    Rules {
        stages: Stage::ALL.to_vec(),
        max_distance: 2,
        windows: PerStage { exact: millis(WINDOW), simhash: millis(WINDOW / 2), minhash: millis(WINDOW / 3) },
        lateness: millis(LATENESS),
        max_future_skew: millis(SKEW),
        max_entries,
        same_id: SameId::Update,
        minhash: None,
        number_guard: Some(PerMille(501)),
        simhash_similarity: None,
        same_site: None,
        dual: None,
    }
}

/// The texts of three in a row have the same numbers, then come three with others; every third has none.
fn numbers(value: u32) -> &'static [u16] {
    match (value % 3, value / 3 % 2) {
        (2, _) => &[],
        (_, 0) => &[10, 20],
        (_, _) => &[20, 30, 40, 50],
    }
}

fn page(width: Width) -> impl Strategy<Value = RequestBody> {
    // The exact hash decides the SimHash, as text does; near values differ in few bits.
    let value = 0_u32..12;
    let id = proptest::option::of(0_u64..3);
    let scope = proptest::option::of(0_u64..2);
    (0_i32..2, 0_i64..60, 0_i64..120, value, id, scope).prop_map(move |(number, offset, time, value, id, scope)| {
        RequestBody::Page(PageRequest {
            source: PartitionId::new("pages", number).at(offset),
            event_time: Timestamp::from_millis(time),
            id: id.map(IdHash),
            scope: scope.map(ScopeHash),
            site: None,
            address: None,
            title: None,
            is_variant: false,
            fingerprints: Fingerprints {
                exact: ExactHash(u128::from(value)),
                // Across the words of a wide one.
                simhash: (value > 0)
                    .then_some(SimHash::from_low_bits(width, u128::from(value) << (width.bits() / 2 - 2))),
                sketch: None,
                numbers: Numbers::from_hashes(numbers(value)).unwrap(),
            },
            digest: PageDigest(value),
            earlier: None,
        })
    })
}

fn body(width: Width) -> impl Strategy<Value = RequestBody> {
    let source = || (0_i32..2, 0_i64..60).prop_map(|(number, offset)| PartitionId::new("pages", number).at(offset));
    prop_oneof![
        20 => page(width),
        1 => source().prop_map(|source| RequestBody::Withdraw { source, reason: Reject::Refused }),
        1 => source().prop_map(|source| RequestBody::Forget(ForgetTarget::Source(source))),
        1 => (0_u64..3).prop_map(|id| RequestBody::Forget(ForgetTarget::Id(IdHash(id)))),
        1 => (source(), 0_i64..8).prop_map(|(Source { partition, offset }, length)| {
            RequestBody::Reopen { partition, from: offset, to: offset + length }
        }),
        1 => (0_i64..120).prop_map(|time| RequestBody::SetTime(Timestamp::from_millis(time))),
    ]
}

/// Requests with their append times; request ids repeat now and then. Their codes are of one width, as in every log.
pub(super) fn requests() -> impl Strategy<Value = Vec<(Request, Timestamp)>> {
    proptest::sample::select(&Width::ALL[..]).prop_flat_map(requests_of)
}

fn requests_of(width: Width) -> impl Strategy<Value = Vec<(Request, Timestamp)>> {
    proptest::collection::vec((body(width), 0_u64..400, 0_i64..3), 0..200).prop_map(|steps| {
        let mut clock = 0;
        let timed = steps.into_iter().map(|(body, request, later)| {
            clock += later;
            (Request { id: RequestId(request), body }, Timestamp::from_millis(clock))
        });
        timed.collect()
    })
}

/// Other numbers, another id, stage, distance, place.
type Rank = (bool, bool, u8, u32, usize);

/// Too simple to be wrong.
#[derive(Default)]
struct Oracle {
    judged: Vec<Source>,
    applied: Vec<RequestId>,
    originals: Vec<(Source, i64, PageRequest, bool)>,
    stream_time: Option<i64>,
    /// Smallest time and number of pages that are too far ahead of the stream time.
    ahead: Option<(i64, u64)>,
}

impl Oracle {
    /// Returns "unique", "late", "update", or the stage, with the original's position.
    fn ask(&mut self, request: &Request, append_time: i64, capacity: usize) -> Option<(String, Option<Source>)> {
        let answer = |verdict: &str, of: Option<Source>| Some((verdict.to_owned(), of));
        let page = match &request.body {
            RequestBody::Page(page) => page,
            RequestBody::Withdraw { .. }
            | RequestBody::Forget(_)
            | RequestBody::Reopen { .. }
            | RequestBody::SetTime(_) => {
                if self.applied.contains(&request.id) {
                    return None;
                }
                self.applied.push(request.id);
                self.apply(&request.body);
                return answer("applied", None);
            }
        };
        if self.judged.contains(&page.source) {
            return None;
        }
        self.judged.push(page.source.clone());
        let latest = append_time + SKEW;
        let newest = self.stream_time.unwrap_or(0).max(0).min(latest);
        let time = Some(page.event_time.millis()).filter(|time| *time <= latest).unwrap_or(newest);
        let stream_time = self.stream_time.map_or(time, |stream_time| stream_time.max(time));
        self.move_on(time);
        let kept_from = self.originals.len().saturating_sub(capacity);
        let mut best: Option<(Rank, usize)> = None;
        for (at, (_, held_time, held, alive)) in self.originals.iter().enumerate() {
            let distance = (held.digest.0 ^ page.digest.0).count_ones();
            let near = page.fingerprints.simhash.is_some() && held.fingerprints.simhash.is_some() && distance <= 2;
            for (stage, window, matches) in [(0, WINDOW, distance == 0), (1, WINDOW / 2, near)] {
                let in_window = (held_time - time).abs() <= window && *held_time >= stream_time - LATENESS - window;
                if *alive && at >= kept_from && matches && in_window && held.scope == page.scope {
                    let same_id = held.id.is_some() && held.id == page.id;
                    // Of two numbers and four, one is common: 20.
                    let (ours, theirs) = (numbers(page.digest.0), numbers(held.digest.0));
                    let others = stage == 1 && !same_id && !ours.is_empty() && !theirs.is_empty() && ours != theirs;
                    let rank = (others, !same_id, stage, if stage == 0 { 0 } else { distance }, at);
                    if best.as_ref().is_none_or(|(best, _)| rank < *best) {
                        best = Some((rank, at));
                    }
                }
            }
        }
        let Some(((others, other_id, stage, _, _), at)) = best else {
            let remembered = time >= stream_time - LATENESS - WINDOW;
            if remembered {
                self.originals.push((page.source.clone(), time, page.clone(), true));
            }
            return answer(if remembered { "unique" } else { "late" }, None);
        };
        let of = self.originals[at].0.clone();
        let returns = self.originals.iter().enumerate().skip(at + 1).any(|(later, (_, held_time, held, alive))| {
            let is_live = *alive && later >= kept_from && *held_time >= stream_time - LATENESS - WINDOW;
            is_live && held.id == page.id && held.scope == page.scope
        });
        if !other_id && (stage == 1 || returns) {
            if time >= self.originals[at].1 {
                self.originals[at].3 = false;
                self.originals.push((page.source.clone(), time, page.clone(), true));
            }
            return answer("update", Some(of));
        }
        if others {
            if time >= stream_time - LATENESS - WINDOW {
                self.originals.push((page.source.clone(), time, page.clone(), true));
            }
            return answer("template", Some(of));
        }
        answer(if stage == 0 { "exact" } else { "simhash" }, Some(of))
    }

    fn move_on(&mut self, time: i64) {
        let furthest = self.stream_time.map_or(i64::MAX, |stream_time| stream_time + LATENESS.max(SKEW));
        if time <= furthest {
            let stream_time = self.stream_time.map_or(time, |stream_time| stream_time.max(time));
            self.stream_time = Some(stream_time);
            let left = self.ahead.map(|(from, count)| (from, count - 1));
            self.ahead = left.filter(|(from, count)| *count > 0 && *from > stream_time + LATENESS.max(SKEW));
            return;
        }
        let (from, count) = self.ahead.map_or((time, 1), |(from, count)| (from.min(time), count + 1));
        let is_proved = count >= 8 && time - from >= SKEW;
        self.ahead = (!is_proved).then_some((from, count));
        if is_proved {
            self.stream_time = Some(time);
        }
    }

    fn apply(&mut self, body: &RequestBody) {
        let reopened = |source: &Source| match body {
            RequestBody::Reopen { partition, from, to } => {
                source.partition == *partition && (*from..*to).contains(&source.offset)
            }
            RequestBody::Page(_) | RequestBody::Withdraw { .. } | RequestBody::Forget(_) | RequestBody::SetTime(_) => {
                false
            }
        };
        self.judged.retain(|source| !reopened(source));
        if let RequestBody::Withdraw { source, .. } = body {
            self.judged.push(source.clone());
        }
        let mut set_back = None;
        if let (RequestBody::SetTime(time), Some(before)) = (body, self.stream_time)
            && time.millis() < before
        {
            set_back = Some(before);
            (self.stream_time, self.ahead) = (Some(time.millis()), None);
        }
        for (held, held_time, page, alive) in &mut self.originals {
            let forgotten = match body {
                // Those that have expired by then.
                RequestBody::SetTime(_) => set_back.is_some_and(|before| *held_time < before - LATENESS - WINDOW),
                RequestBody::Withdraw { source, .. } | RequestBody::Forget(ForgetTarget::Source(source)) => {
                    held == source
                }
                RequestBody::Forget(ForgetTarget::Id(id)) => page.id == Some(*id),
                RequestBody::Reopen { .. } => reopened(held),
                RequestBody::Page(_) => false,
            };
            *alive &= !forgotten;
        }
    }
}

fn in_short(verdict: &Verdict) -> (String, Option<Source>) {
    let Answer::Page(page) = &verdict.answer else { return ("applied".to_owned(), None) };
    let of = page.decision.matched().map(|of| of.source.clone());
    let verdict = match &page.decision {
        Decision::Unique { original: Some(_) } => "unique",
        Decision::Unique { original: None } => "late",
        Decision::Update { .. } => "update",
        Decision::Template { .. } => "template",
        Decision::Duplicate { of } => of.by.stage().name(),
    };
    (verdict.to_owned(), of)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn verdicts_are_those_of_a_list_and_two_loops(requests in requests(), capacity in prop_oneof![Just(3), Just(1000)]) {
        let mut state = State::begin(LogIdentity(1), rules(capacity), RequestOffset(0));
        deliver_all(&mut state);
        let mut oracle = Oracle::default();
        for (request, append_time) in &requests {
            let verdict = decide(&state, request, *append_time);
            let expected = oracle.ask(request, append_time.millis(), usize::try_from(capacity).unwrap());
            prop_assert_eq!(verdict.as_ref().map(in_short), expected, "{:?}", request);
            if let Some(verdict) = verdict {
                state.follow(&verdict).unwrap();
                deliver_all(&mut state);
            }
        }
    }

    #[test]
    fn a_state_followed_from_a_snapshot_or_a_checkpoint_is_the_same(
        requests in requests(),
        at in 0_usize..200,
        low_watermark in 0_i64..60,
        capacity in prop_oneof![Just(3), Just(1000)],
    ) {
        let mut state = State::begin(LogIdentity(1), rules(capacity), RequestOffset(0));
        deliver_all(&mut state);
        let (mut checkpoint, mut snapshot): (Option<Checkpoint>, Option<Snapshot>) = (None, None);
        let mut later = Vec::new();
        for (number, (request, append_time)) in requests.iter().enumerate() {
            if number == at {
                checkpoint = state.checkpoint(None, |_| low_watermark);
                state.raise_low_watermarks(checkpoint.as_ref().unwrap());
                snapshot = SharedSnapshot::take(&state, &LogRetention::default(), VerdictOffset(0), None).map(SharedSnapshot::listed);
            }
            if let Some(verdict) = decide(&state, request, *append_time) {
                state.follow(&verdict).unwrap();
                if checkpoint.is_some() {
                    later.push(verdict);
                }
            }
        }
        let (Some(checkpoint), Some(snapshot)) = (checkpoint, snapshot) else { return Ok(()) };
        let mut from_snapshot = State::load(&snapshot.state, &snapshot.originals, run_sequential);
        let mut from_checkpoint = State::load(&checkpoint, &[], run_sequential);
        for verdict in &later {
            from_snapshot.follow(verdict).unwrap();
            from_checkpoint.follow(verdict).unwrap();
        }
        prop_assert_eq!(from_snapshot.digest(), state.digest());
        // The log is trimmed to a checkpoint only when it precedes the oldest original.
        if state.first_live_sequence() >= checkpoint.next_sequence {
            prop_assert_eq!(from_checkpoint.digest(), state.digest());
        }
    }
}

#[test]
fn the_floor_stays_below_what_can_be_read_back_and_what_is_committed() {
    let partition = PartitionId::new("pages", 0);
    let judged = |offset| Verdict {
        request: RequestId(0),
        answer: Answer::Withdrawn { source: partition.at(offset), reason: Reject::Refused },
    };
    let mut retention = LogRetention::default();
    retention.open(Some(VerdictOffset(0)), 0);
    retention.note(&judged(3), 0);
    retention.open(Some(VerdictOffset(100)), 0);
    retention.note(&judged(8), 0);
    let input = |committed| InputOffsets {
        committed: BTreeMap::from([(partition.clone(), committed)]),
        partitions: [partition.clone()].into(),
    };
    assert_eq!(retention.low_watermark(&partition, 0, &input(20)), 3);
    let trim = |retention: &LogRetention, committed| {
        retention.trim_point(0, &input(committed), Timestamp::MIN.plus(millis(1)))
    };
    assert_eq!(trim(&retention, 3), None, "the answer at 3 is not delivered");
    assert_eq!(trim(&retention, 4), Some(VerdictOffset(100)));
    retention.trimmed_to(VerdictOffset(100));
    assert_eq!(retention.low_watermark(&partition, 0, &input(20)), 8);
    assert_eq!(retention.low_watermark(&partition, 0, &input(5)), 5);
    assert_eq!(
        retention.low_watermark(&partition, 100, &input(5)),
        5,
        "what was delivered once is read again after a rewind"
    );
    assert_eq!(trim(&retention, 20), None, "the newest span stays");
}

#[test]
fn verdicts_of_a_reopened_range_hold_nothing_back() {
    let partition = PartitionId::new("pages", 0);
    let verdict = |answer| Verdict { request: RequestId(0), answer };
    let judged = |offset| verdict(Answer::Withdrawn { source: partition.at(offset), reason: Reject::Refused });
    let reopened = |from, to| verdict(Answer::Reopened { partition: partition.clone(), from, to });
    let mut retention = LogRetention::default();
    for (number, offset) in [3, 700, 8].into_iter().enumerate() {
        retention.open(Some(VerdictOffset(i64::try_from(number).unwrap() * 100)), 0);
        retention.note(&judged(offset), 0);
    }
    // The topic was recreated: the group has committed little of it.
    let input = InputOffsets { committed: [(partition.clone(), 5)].into(), partitions: [partition.clone()].into() };
    let trim = |retention: &LogRetention| retention.trim_point(0, &input, Timestamp::MIN.plus(millis(1)));
    assert_eq!(trim(&retention), Some(VerdictOffset(100)), "the answer at 700 is not delivered");
    retention.note(&reopened(100, 700), 0);
    assert_eq!(trim(&retention), Some(VerdictOffset(100)), "700 is not reopened");
    retention.note(&reopened(100, 701), 0);
    assert_eq!(trim(&retention), Some(VerdictOffset(200)));
    assert_eq!(retention.low_watermark(&partition, 0, &input), 3, "what is not reopened can still be read back");
}

#[test]
fn a_reopened_range_is_taken_off_the_ends_of_a_span() {
    let partition = PartitionId::new("pages", 0);
    let verdict = |answer| Verdict { request: RequestId(0), answer };
    let left = |from, to| {
        let mut retention = LogRetention::default();
        retention.open(Some(VerdictOffset(0)), 0);
        for offset in [3, 700] {
            let source = partition.at(offset);
            retention.note(&verdict(Answer::Withdrawn { source, reason: Reject::Refused }), 0);
        }
        retention.note(&verdict(Answer::Reopened { partition: partition.clone(), from, to }), 0);
        retention.iter().next().unwrap().judged.get(&partition).cloned()
    };
    assert_eq!(left(4, 700), Some(3..=700), "both ends can still be read back");
    assert_eq!(left(700, 700), Some(3..=700), "nothing is reopened");
    assert_eq!(left(5, 701), Some(3..=4));
    assert_eq!(left(0, 700), Some(700..=700));
    assert_eq!(left(3, 701), None);
}

/// What was judged, by number of the checkpoint before it: partition, offset, event time, next sequence number.
type JudgedPages = Vec<(usize, PartitionId, i64, i64, u64)>;

/// The checkpoint that a list of all verdicts allows the log to be trimmed to, by its number; 0 if it allows none.
fn trim_by_list(pages: &JudgedPages, checkpoints: usize, first_live: u64, input: &InputOffsets, keep: i64) -> usize {
    let is_needed = |(_, partition, offset, time, sequence): &&(usize, PartitionId, i64, i64, u64)| {
        *sequence > first_live || *time >= keep || input.committed.get(partition).is_none_or(|at| *offset >= *at)
    };
    let oldest = pages.iter().filter(is_needed).map(|page| page.0).min();
    oldest.unwrap_or(checkpoints).min(checkpoints - 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn joined_spans_never_trim_what_is_needed(
        steps in proptest::collection::vec((0_u64..3, 1_i64..50, 0_usize..6), 1..300),
        live in 0_u64..500,
        span in 0_i64..500,
        backlog in 0_i64..200,
    ) {
        let partitions: Vec<PartitionId> = (0..2).map(|number| PartitionId::new("pages", number)).collect();
        let (mut retention, mut pages, mut starts) = (LogRetention::default(), JudgedPages::new(), Vec::new());
        let (mut at, mut time, mut sequence, mut next) = (0, 0, 0, [0; 2]);
        for (originals, length, count) in steps {
            retention.open(Some(VerdictOffset(at)), sequence);
            starts.push(at);
            at += length;
            for page in 0..count {
                let number = page % 2;
                sequence += originals;
                (time, next[number]) = (time + 1, next[number] + 1);
                let source = partitions[number].at(next[number]);
                let event_time = Timestamp::from_millis(time);
                let decision = Decision::Unique { original: None };
                let verdict = PageVerdict { source, event_time, digest: PageDigest(0), decision };
                retention.note(&Verdict { request: RequestId(0), answer: Answer::Page(verdict) }, sequence);
                pages.push((starts.len() - 1, partitions[number].clone(), next[number], time, sequence));
            }
            let committed = partitions.iter().cloned().zip(next.map(|next| next - backlog)).collect();
            let input = InputOffsets { committed, partitions: partitions.iter().cloned().collect() };
            let (first_live, keep) = (sequence.saturating_sub(live), time - span);
            prop_assert!(retention.iter().count() <= 32);
            let needed = starts[trim_by_list(&pages, starts.len(), first_live, &input, keep)];
            let trim = retention.trim_point(first_live, &input, Timestamp::from_millis(keep));
            prop_assert!(trim.is_none_or(|trim| trim.0 <= needed && starts.contains(&trim.0)), "{trim:?}, {needed}");
            if let Some(trim) = trim {
                retention.trimmed_to(trim);
                let kept = starts.iter().position(|start| *start == trim.0).unwrap();
                pages.retain(|page| page.0 >= kept);
            }
            for partition in &partitions {
                let can_be_read = pages.iter().filter(|page| page.1 == *partition).map(|page| page.2).min();
                let floor = can_be_read.unwrap_or(i64::MAX).min(input.committed[partition]);
                prop_assert_eq!(retention.low_watermark(partition, 0, &input), floor, "{}", partition);
            }
        }
    }
}

#[test]
fn a_log_of_thousands_of_checkpoints_is_trimmed_to_little_more_than_its_window() {
    const WINDOW_CHECKPOINTS: i64 = 3_250;
    let partition = PartitionId::new("pages", 0);
    let mut retention = LogRetention::default();
    let (mut first, mut most_kept) = (0, 0);
    for now in 0..4 * WINDOW_CHECKPOINTS {
        retention.open(Some(VerdictOffset(now)), 0);
        let event_time = Timestamp::from_millis(now);
        let decision = Decision::Unique { original: None };
        let verdict = PageVerdict { source: partition.at(now), event_time, digest: PageDigest(0), decision };
        retention.note(&Verdict { request: RequestId(0), answer: Answer::Page(verdict) }, 0);
        let input =
            InputOffsets { committed: [(partition.clone(), now + 1)].into(), partitions: [partition.clone()].into() };
        let keep_from = Timestamp::from_millis(now - WINDOW_CHECKPOINTS);
        if let Some(trim) = retention.trim_point(0, &input, keep_from) {
            retention.trimmed_to(trim);
            first = trim.0;
        }
        most_kept = most_kept.max(now - first);
    }
    assert!((WINDOW_CHECKPOINTS..WINDOW_CHECKPOINTS * 11 / 10).contains(&most_kept), "{most_kept}");
}

#[test]
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the time is measured")]
fn the_low_watermarks_of_thousands_of_partitions_and_checkpoints_take_milliseconds() {
    const CHECKPOINTS: i64 = 3_250;
    let partitions: Vec<PartitionId> = (0..3_000).map(|number| PartitionId::new("pages", number)).collect();
    let mut retention = LogRetention::default();
    for now in 0..CHECKPOINTS {
        retention.open(Some(VerdictOffset(now)), 0);
        for partition in partitions.iter().skip(usize::try_from(now % 50).unwrap()).step_by(50) {
            let (event_time, decision) = (Timestamp::from_millis(now), Decision::Unique { original: None });
            let verdict = PageVerdict { source: partition.at(now), event_time, digest: PageDigest(0), decision };
            retention.note(&Verdict { request: RequestId(0), answer: Answer::Page(verdict) }, 0);
        }
    }
    let committed = partitions.iter().map(|partition| (partition.clone(), CHECKPOINTS)).collect();
    let input = InputOffsets { committed, partitions: partitions.iter().cloned().collect() };
    let start = std::time::Instant::now();
    let sum: i64 = partitions.iter().map(|partition| retention.low_watermark(partition, 0, &input)).sum();
    let took = start.elapsed();
    assert_eq!(sum, (0..50).sum::<i64>() * 60, "the first verdict on each can still be read back");
    // Without optimisation, it takes ten times as long.
    eprintln!("low watermarks of 3,000 partitions after {CHECKPOINTS} checkpoints: {took:?}");
    assert!(took < Duration::from_millis(500), "{took:?}");
}

#[test]
fn a_partition_that_left_the_input_holds_nothing_back() {
    let (stays, leaves) = (PartitionId::new("pages", 0), PartitionId::new("dropped", 0));
    let page = |partition: &PartitionId, offset, time| Verdict {
        request: RequestId(0),
        answer: Answer::Page(PageVerdict {
            source: partition.at(offset),
            event_time: Timestamp::from_millis(time),
            digest: PageDigest(0),
            decision: Decision::Unique { original: None },
        }),
    };
    let mut retention = LogRetention::default();
    for span in 0..10 {
        retention.open(Some(VerdictOffset(100 * span)), 0);
        retention.note(&page(&stays, span, 10 * span), 0);
        if span < 3 {
            retention.note(&page(&leaves, span, 10 * span), 0);
        }
    }
    // The last page of the dropped topic was judged, and its worker stopped before it was delivered.
    let mut input = InputOffsets {
        committed: [(stays.clone(), 10), (leaves.clone(), 2)].into(),
        partitions: [stays.clone(), leaves.clone()].into(),
    };
    let keep_from = Timestamp::from_millis(55);
    assert_eq!(retention.trim_point(0, &input, keep_from), Some(VerdictOffset(200)), "its worker may come back");
    assert_eq!(retention.low_watermark(&leaves, 2, &input), 0);
    input.partitions.remove(&leaves);
    input.committed.remove(&leaves);
    assert_eq!(
        retention.trim_point(0, &input, Timestamp::from_millis(15)),
        Some(VerdictOffset(200)),
        "what is young stays"
    );
    assert_eq!(retention.trim_point(0, &input, keep_from), Some(VerdictOffset(600)));
    assert_eq!(retention.oldest(), Some(Timestamp::from_millis(0)));
    retention.trimmed_to(VerdictOffset(600));
    assert_eq!(retention.low_watermark(&leaves, 2, &input), 2, "its judged set becomes a low watermark");
    assert_eq!(retention.low_watermark(&stays, 0, &input), 6);
    assert_eq!(retention.oldest(), Some(Timestamp::from_millis(60)));
}

#[test]
fn only_what_was_delivered_is_reopened() {
    let partition = PartitionId::new("pages", 0);
    let mut state = State::begin(LogIdentity(1), rules(1000), RequestOffset(0));
    let reopen =
        |to| Request { id: RequestId(9), body: RequestBody::Reopen { partition: partition.clone(), from: 3, to } };
    let decided = |state: &State, to| {
        let answer = decide(state, &reopen(to), Timestamp::MIN).unwrap().answer;
        let Answer::Reopened { from, to, .. } = answer else { panic!("{answer:?}") };
        (from, to)
    };
    assert_eq!(decided(&state, i64::MAX), (3, 3));
    deliver(&mut state, &partition, 40);
    assert_eq!(decided(&state, i64::MAX), (3, 40));
    assert_eq!(decided(&state, 7), (3, 7));
}

/// Lets a checkpoint say that the input group has committed so far.
pub(super) fn deliver(state: &mut State, partition: &PartitionId, position: i64) {
    let mut checkpoint = state.checkpoint(None, |_| 0).unwrap();
    checkpoint.partitions.entry(partition.clone()).or_default().delivered =
        Delivered { end: position, ..Delivered::default() };
    state.raise_low_watermarks(&checkpoint);
}

/// All that [`requests`] ask about is delivered.
pub(super) fn deliver_all(state: &mut State) {
    (0..2).for_each(|number| deliver(state, &PartitionId::new("pages", number), 100));
}
