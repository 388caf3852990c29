//! Compares the index with a list and a loop.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::fingerprint::{
    Banding, ExactHash, Fingerprints, LowConfidence, Numbers, PerMille, SameSite, ScopeHash, SimHash, SiteHash, Sketch,
    SketchForm, SlotBits, TitleHash, Width,
};
use crate::protocol::{MinHashRules, PerStage, Placement, Stage};
use crate::record::Timestamp;

impl Index {
    /// Returns every original within this many bits of a code, with its distance, by the tables where there are no scopes.
    fn near_code(&self, code: SimHash, max_distance: u8, watermarks: &ExpiryWatermarks) -> Vec<(u8, Original)> {
        let is_near = |position: u64| {
            let distance = self.bits_to(masked(code, self.ring.scope(position)), position)?;
            (distance <= max_distance && !self.is_expired(position, watermarks)).then_some((distance, position))
        };
        // The tables hold other codes of originals with scopes, and none of the members of families.
        let positions = || self.ring.positions();
        let has_scopes = positions().any(|position| self.ring.scope(position).is_some());
        let is_apart = |position: &u64| has_scopes || self.ring.member_code(*position).is_some();
        let mut near: Vec<(u8, u64)> = positions().filter(is_apart).filter_map(is_near).collect();
        if !has_scopes {
            self.codes.probe(code, max_distance, |position, _| near.extend(is_near(position)));
        }
        near.into_iter().filter_map(|(distance, position)| Some((distance, self.original(position)?))).collect()
    }
}

/// Window of both stages where a test says nothing else, in milliseconds.
const WINDOW: u64 = 100;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn original(sequence: u64, exact: u128, simhash: Option<u64>, time: i64) -> Original {
    let source = PartitionId::new("pages", 0).at(i64::try_from(sequence).unwrap());
    Original {
        sequence,
        cluster: source.clone(),
        source,
        event_time: at(time),
        fingerprints: prints(exact, simhash),
        id: None,
        scope: None,
        site: None,
        address: None,
        title: None,
        placement: Placement::EVERYWHERE,
    }
}

fn coded(sequence: u64, code: SimHash) -> Original {
    Original { fingerprints: prints_of(u128::from(sequence), Some(code)), ..original(sequence, 0, None, 0) }
}

/// Codes that have nothing in common.
const fn spread(sequence: u64) -> u64 {
    sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Equal texts have equal numbers; 0 and 1 have none in common, 2 and 3 half, 4 has one and 5 none.
fn prints(exact: u128, simhash: Option<u64>) -> Fingerprints {
    prints_of(exact, simhash.map(SimHash::B64))
}

fn prints_of(exact: u128, simhash: Option<SimHash>) -> Fingerprints {
    let numbers: &[u16] = match exact % 6 {
        0 => &[1, 2, 3],
        1 => &[4, 5],
        2 => &[1, 2, 4],
        3 => &[1, 4, 9, 10],
        4 => &[9],
        _ => &[],
    };
    let numbers = Numbers::from_hashes(numbers).unwrap();
    Fingerprints { exact: ExactHash(exact), simhash, sketch: None, numbers }
}

fn probe(fingerprints: &Fingerprints, time: i64, max_distance: u8) -> Probe<'_> {
    Probe {
        fingerprints,
        id: None,
        scope: None,
        site: None,
        address: None,
        title: None,
        is_variant: false,
        event_time: at(time),
        watermarks: ExpiryWatermarks::START,
        windows: PerStage::all(Duration::from_millis(WINDOW)),
        stages: &Stage::ALL,
        max_distance,
        number_guard: None,
        simhash_similarity: None,
        same_site: None,
    }
}

/// Sequence, stage, distance, whether the id is the same, whether the numbers are others, whether the title is.
type Shown = (u64, Stage, u8, bool, bool, bool);

fn found(index: &Index, probe: &Probe<'_>) -> Vec<Shown> {
    let mut found = Vec::new();
    index.candidates(probe, |c| {
        let is_known = c.relation != Relation::Unrelated;
        let other_title = c.refused_by == Some(Refusal::Titles);
        found.push((c.sequence, c.by.stage(), c.by.distance(), is_known, c.other_numbers, other_title));
    });
    found.sort_unstable();
    found
}

fn near(index: &Index, simhash: u64, max_distance: u8) -> Vec<u64> {
    let fingerprints = prints(u128::MAX, Some(simhash));
    found(index, &probe(&fingerprints, 0, max_distance)).into_iter().map(|candidate| candidate.0).collect()
}

/// What the index should do: a list, nothing leaves it.
#[derive(Default)]
struct List {
    originals: Vec<(Original, bool)>,
}

impl List {
    fn found(&self, probe: &Probe<'_>) -> Vec<Shown> {
        let mut found = Vec::new();
        for (original, forgotten) in &self.originals {
            if *forgotten || original.scope != probe.scope || original.sequence < probe.watermarks.first_sequence {
                continue;
            }
            let gap = u128::from(original.event_time.gap_millis(probe.event_time));
            let same_id = original.id.is_some() && original.id == probe.id;
            let same_site = original.site.is_some() && original.site == probe.site;
            let same_title = original.title.is_some() && original.title == probe.title;
            let both_titles = original.title.is_some() && probe.title.is_some();
            let other_title = probe.same_site.is_some() && same_site && both_titles && !same_title && !same_id;
            // Its text alone does not find it.
            let is_by_title = original.placement.by_title && original.site.is_some() && original.title.is_some();
            let same_text = original.fingerprints.exact == probe.fingerprints.exact;
            if same_text && is_by_title && !same_id && !(same_site && same_title) {
                continue;
            }
            for stage in Stage::ALL {
                let distance = match stage {
                    Stage::Exact => (original.fingerprints.exact == probe.fingerprints.exact).then_some(0),
                    Stage::SimHash => match (original.fingerprints.simhash, probe.fingerprints.simhash) {
                        (Some(one), Some(other)) => one.distance(other),
                        _ => None,
                    },
                    // None of them has a sketch.
                    Stage::MinHash => None,
                };
                let in_time = original.event_time >= probe.watermarks.times.of(stage)
                    && gap <= probe.windows.of(stage).as_millis();
                if let Some(distance) = distance.filter(|&distance| distance <= u32::from(probe.max_distance))
                    && in_time
                    && probe.stages.contains(&stage)
                {
                    let [ours, theirs] = [probe.fingerprints, &original.fingerprints].map(|page| page.numbers.hashes());
                    let (fewer, more) = (ours.len().min(theirs.len()), ours.len().max(theirs.len()));
                    let shared = ours.iter().filter(|number| theirs.contains(number)).count();
                    let others = fewer > 0
                        && more > 1
                        && shared * 1000 < usize::from(probe.number_guard.unwrap_or_default().0) * fewer;
                    let others = others && stage != Stage::Exact;
                    found.push((
                        original.sequence,
                        stage,
                        u8::try_from(distance).unwrap(),
                        same_id,
                        others,
                        other_title,
                    ));
                    break;
                }
            }
        }
        found
    }

    fn forget(&mut self, mut meant: impl FnMut(&Original) -> bool) -> u64 {
        let mut forgotten = 0;
        for (original, gone) in &mut self.originals {
            if !*gone && meant(original) {
                *gone = true;
                forgotten += 1;
            }
        }
        forgotten
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Page),
    Probe { page: Page, stages: usize, max_distance: u8 },
    Advance { newest: i64, capacity: u64 },
    ForgetSource(i64),
    ForgetId(u64),
    ForgetRange(i64, i64),
    SetMaxDistance(u8),
}

#[derive(Clone, Debug)]
struct Page {
    offset: i64,
    exact: u128,
    simhash: Option<u128>,
    time: i64,
    id: Option<u64>,
    scope: Option<u64>,
    gap: u64,
    /// Site, title, and whether it is found by the title.
    titled: (Option<u32>, Option<u32>, bool),
}

/// Codes lie a few flips from one of three centres, so that distances around every bound are common.
fn codes() -> impl Strategy<Value = u128> {
    let centre = prop_oneof![Just(0), Just(u128::MAX), Just(0x89AB_CDEF_0123_4567_0123_4567_89AB_CDEF)];
    let bits = prop_oneof![0..32, 0..64, 0..128];
    (centre, prop::collection::vec(bits, 0..6))
        .prop_map(|(centre, flips)| flips.into_iter().fold(centre, |code: u128, bit| code ^ (1_u128 << bit)))
}

fn pages() -> impl Strategy<Value = Page> {
    let small = || prop::option::weighted(0.3, 0..3u64);
    let titled = (prop::option::of(0..2u32), prop::option::of(0..3u32), any::<bool>());
    (0..40i64, 0..6u128, prop::option::weighted(0.8, codes()), 0..400i64, small(), small(), 1..3u64, titled).prop_map(
        |(offset, exact, simhash, time, id, scope, gap, titled)| Page {
            offset,
            exact,
            simhash,
            time,
            id,
            scope,
            gap,
            titled,
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => pages().prop_map(Step::Insert),
        10 => (pages(), 0..4usize, 0..=9u8).prop_map(|(page, stages, max_distance)| Step::Probe { page, stages, max_distance }),
        2 => (0..500i64, 5..60u64).prop_map(|(newest, capacity)| Step::Advance { newest, capacity }),
        1 => (0..40i64).prop_map(Step::ForgetSource),
        1 => (0..3u64).prop_map(Step::ForgetId),
        1 => (0..40i64, 0..45i64).prop_map(|(from, to)| Step::ForgetRange(from, to)),
        1 => (0..=8u8).prop_map(Step::SetMaxDistance),
    ];
    prop::collection::vec(step, 1..200)
}

const STAGES: [&[Stage]; 4] = [&Stage::ALL, &[Stage::Exact], &[Stage::SimHash], &[]];

fn agrees_with_the_list(width: Width, max_distance: u8, windows: PerStage<u64>, steps: Vec<Step>) {
    let prints = |page: &Page| prints_of(page.exact, page.simhash.map(|bits| SimHash::from_low_bits(width, bits)));
    let mut index = Index::new(max_distance);
    let mut list = List::default();
    let windows = windows.map(Duration::from_millis);
    let partition = PartitionId::new("pages", 3);
    let (mut next, mut watermarks, mut bound) = (0, ExpiryWatermarks::START, max_distance);
    for step in steps {
        match step {
            Step::Insert(page) => {
                let made = Original {
                    source: partition.at(page.offset),
                    id: page.id.map(IdHash),
                    scope: page.scope.map(ScopeHash),
                    site: page.titled.0.map(SiteHash),
                    address: None,
                    title: page.titled.1.map(TitleHash),
                    placement: Placement { by_title: page.titled.2, ..Placement::EVERYWHERE },
                    fingerprints: prints(&page),
                    ..original(next, page.exact, None, page.time)
                };
                next += page.gap;
                index.insert(&made);
                list.originals.push((made, false));
            }
            Step::Probe { page, stages, max_distance } => {
                let fingerprints = prints(&page);
                let probe = Probe {
                    fingerprints: &fingerprints,
                    id: page.id.map(IdHash),
                    scope: page.scope.map(ScopeHash),
                    site: page.titled.0.map(SiteHash),
                    address: None,
                    title: page.titled.1.map(TitleHash),
                    is_variant: false,
                    event_time: at(page.time),
                    watermarks,
                    windows,
                    stages: STAGES[stages],
                    // Mostly what the tables were built for.
                    max_distance: if max_distance == 9 { bound } else { max_distance },
                    number_guard: [None, Some(PerMille(500)), Some(PerMille::ONE)]
                        [usize::try_from(page.offset).unwrap() % 3],
                    simhash_similarity: None,
                    same_site: page.titled.2.then_some(SameSite { containment: PerMille(950) }),
                };
                assert_eq!(found(&index, &probe), list.found(&probe));
            }
            Step::Advance { newest, capacity } => {
                watermarks = watermarks.later(ExpiryWatermarks {
                    times: windows.map(|window| at(newest - 50).minus(window)),
                    first_sequence: next.saturating_sub(capacity),
                });
                let before = index.originals();
                let gone = index.advance(&watermarks);
                assert!(gone.expired + gone.evicted <= u64::try_from(before - index.originals()).unwrap());
            }
            Step::ForgetSource(offset) => {
                let source = partition.at(offset);
                // What left the memory cannot be counted; both forget it.
                assert!(index.forget_source(&source) <= list.forget(|original| original.source == source));
            }
            Step::ForgetId(id) => {
                let id = IdHash(id);
                let live = |original: &Original| {
                    original.sequence >= watermarks.first_sequence && original.event_time >= watermarks.times.min()
                };
                let expected = list.forget(|original| original.id == Some(id) && live(original));
                assert_eq!(index.forget_id(id, &watermarks), expected);
            }
            Step::ForgetRange(from, to) => {
                let expected = list.forget(|original| original.source.offset >= from && original.source.offset < to);
                assert!(index.forget_range(&partition, from, to) <= expected);
            }
            Step::SetMaxDistance(distance) => {
                bound = distance;
                index.set_max_distance(distance);
            }
        }
        let live: Vec<Original> = index.live(&watermarks).collect();
        let expected: Vec<Original> = list
            .originals
            .iter()
            .filter(|(original, forgotten)| {
                !forgotten
                    && original.sequence >= watermarks.first_sequence
                    && original.event_time >= watermarks.times.min()
            })
            .map(|(original, _)| original.clone())
            .collect();
        assert_eq!(live, expected);
        for original in expected {
            assert_eq!(index.get(original.sequence).as_ref(), Some(&original));
        }
        for (forgotten, _) in list.originals.iter().filter(|(_, forgotten)| *forgotten) {
            assert_eq!(index.get(forgotten.sequence), None);
        }
        assert_eq!(index.get(next), None);
    }
}

proptest! {
    #[test]
    fn every_answer_is_that_of_a_list_and_a_loop(
        width in prop::sample::select(&Width::ALL[..]), max_distance in 0..=8u8, exact in 50..200u64,
        simhash in 50..200u64, steps in steps(),
    ) {
        agrees_with_the_list(width, max_distance, PerStage { exact, simhash, minhash: simhash }, steps);
    }

    #[test]
    fn a_pair_at_the_bound_is_found_and_one_bit_more_is_not(
        code in any::<u128>(), order in Just((0..128).collect::<Vec<u32>>()).prop_shuffle(),
    ) {
        for width in Width::ALL {
            let order: Vec<u32> = order.iter().copied().filter(|bit| *bit < width.bits()).collect();
            for max_distance in 0..=8 {
                let mut index = Index::new(max_distance);
                for (sequence, distance) in (0..=usize::from(max_distance) + 1).enumerate() {
                    let planted = order[..distance].iter().fold(code, |code, bit| code ^ (1 << bit));
                    index.insert(&coded(sequence as u64, SimHash::from_low_bits(width, planted)));
                }
                let fingerprints = prints_of(u128::MAX, Some(SimHash::from_low_bits(width, code)));
                let found: Vec<(u64, u8)> = found(&index, &probe(&fingerprints, 0, max_distance))
                    .into_iter()
                    .map(|candidate| (candidate.0, candidate.2))
                    .collect();
                let expected: Vec<_> = (0..=max_distance).map(|bits| (u64::from(bits), bits)).collect();
                prop_assert_eq!(found, expected, "{:?}, {}", width, max_distance);
            }
        }
    }
}

#[test]
fn all_flips_of_at_most_three_bits_are_found() {
    let code = 0xD1B5_4A32_D192_ED03_u64;
    let mut index = Index::new(3);
    index.insert(&original(0, 0, Some(code), 0));
    let mut tried = 0;
    let mut check = |flipped: u64| {
        tried += 1;
        assert_eq!(near(&index, flipped, 3), [0], "{:064b}", flipped ^ code);
    };
    check(code);
    for a in 0..64 {
        check(code ^ (1 << a));
        for b in 0..a {
            check(code ^ (1 << a) ^ (1 << b));
            for c in 0..b {
                check(code ^ (1 << a) ^ (1 << b) ^ (1 << c));
            }
        }
    }
    assert_eq!(tried, 43_745);
}

#[test]
fn equal_zero_and_one_codes_are_all_found_once() {
    for width in Width::ALL {
        for code in [0, u128::MAX, 1 << 127, 1 << 63, 1 << 31, 0xFFFF, 0xFFFF << 64] {
            let code = SimHash::from_low_bits(width, code);
            for max_distance in 0..=8 {
                let mut index = Index::new(max_distance);
                (0..500).for_each(|sequence| index.insert(&coded(sequence, code)));
                let fingerprints = prints_of(u128::MAX, Some(code));
                let found = found(&index, &probe(&fingerprints, 0, max_distance));
                assert_eq!(found.iter().map(|found| found.0).collect::<Vec<_>>(), (0..500).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn tables_that_are_rebuilt_are_those_that_suit_the_codes_held() {
    let held = |mask: u64| {
        let code = |sequence| SimHash::B64(spread(sequence + 1) & mask);
        let originals: Vec<Original> = (0..20_000).map(|sequence| coded(sequence, code(sequence))).collect();
        let mut index = Index::sized(3, 10_000_000);
        let before = index.codes.plan().clone();
        index.fill(&originals, run_sequential);
        index.build(run_sequential);
        for original in originals.iter().step_by(1_000) {
            let SimHash::B64(code) = original.fingerprints.simhash.unwrap() else { panic!("another width") };
            let near = index.near_code(SimHash::B64(code ^ 0x8000_0000_0010_0001), 3, &ExpiryWatermarks::START);
            assert!(near.iter().any(|(bits, found)| *bits == 3 && found.sequence == original.sequence));
        }
        (before, index.codes.plan().clone())
    };
    let (uniform, still_uniform) = held(u64::MAX);
    assert_eq!(uniform, still_uniform);
    let (_, crowded) = held(!0x0000_FFFF_0000_0000);
    assert_ne!(crowded, uniform, "{crowded}");
}

#[test]
fn the_first_code_tells_the_width_and_originals_come_back_with_it() {
    for width in Width::ALL {
        let code = |bits: u128| SimHash::from_low_bits(width, bits << (width.bits() - 8));
        // The first ones have no code.
        let mut originals: Vec<Original> = (0..70).map(|sequence| original(sequence, 0, None, 0)).collect();
        originals.extend((70..90).map(|sequence| coded(sequence, code(u128::from(sequence)))));
        let mut index = Index::sized(3, 1_000);
        originals.iter().for_each(|original| index.insert(original));
        let mut restored = Index::sized(3, 1_000);
        restored.fill(&originals, run_sequential);
        restored.build(run_sequential);
        for index in [index, restored] {
            assert_eq!(index.codes.plan().width(), width);
            assert_eq!(index.live(&ExpiryWatermarks::START).collect::<Vec<_>>(), originals);
            let near: Vec<(u8, u64)> = index
                .near_code(code(0b100_0110), 0, &ExpiryWatermarks::START)
                .iter()
                .map(|(bits, original)| (*bits, original.sequence))
                .collect();
            assert_eq!(near, [(0, 70)]);
            for another in Width::ALL.into_iter().filter(|another| *another != width) {
                let same_bits = SimHash::from_low_bits(another, code(70).bits());
                assert!(index.near_code(same_bits, 8, &ExpiryWatermarks::START).is_empty());
                let fingerprints = prints_of(999, Some(same_bits));
                assert_eq!(index.candidates(&probe(&fingerprints, 0, 8), |_| {}), ProbeStats::default());
            }
        }
    }
}

#[test]
fn codes_of_another_width_are_forgotten_when_one_of_a_new_width_comes() {
    let mut index = Index::new(3);
    index.insert(&coded(0, SimHash::B64(5)));
    index.insert(&coded(1, SimHash::B128(5)));
    index.insert(&coded(2, SimHash::B128(7)));
    let codes: Vec<_> = index.live(&ExpiryWatermarks::START).map(|original| original.fingerprints.simhash).collect();
    assert_eq!(codes, [None, Some(SimHash::B128(5)), Some(SimHash::B128(7))]);
    assert_eq!(index.near_code(SimHash::B128(5), 3, &ExpiryWatermarks::START).len(), 2);
    index.advance(&ExpiryWatermarks { first_sequence: 2, ..ExpiryWatermarks::START });
    assert_eq!(index.near_code(SimHash::B128(5), 3, &ExpiryWatermarks::START).len(), 1);
}

#[test]
fn the_window_is_inclusive_on_both_sides() {
    let mut index = Index::new(3);
    let width = i64::try_from(WINDOW).unwrap();
    for (sequence, time) in [-width - 1, -width, width, width + 1].into_iter().enumerate() {
        index.insert(&original(sequence as u64, 7, None, time));
    }
    let fingerprints = prints(7, None);
    let sequences: Vec<u64> = found(&index, &probe(&fingerprints, 0, 3)).into_iter().map(|found| found.0).collect();
    assert_eq!(sequences, [1, 2]);
}

#[test]
fn an_original_at_the_tail_is_live_and_one_before_it_is_not() {
    let mut index = Index::new(3);
    index.insert(&original(0, 0, None, 9));
    index.insert(&original(1, 1, None, 10));
    let watermarks =
        ExpiryWatermarks { times: PerStage { exact: at(10), simhash: at(50), minhash: at(50) }, first_sequence: 0 };
    assert_eq!(index.live(&watermarks).map(|original| original.sequence).collect::<Vec<_>>(), [1]);
    assert_eq!(index.advance(&watermarks), Removed { expired: 1, evicted: 0 });
    assert_eq!(
        index.advance(&ExpiryWatermarks { first_sequence: 2, ..watermarks }),
        Removed { expired: 0, evicted: 1 }
    );
    assert_eq!(index.originals(), 0);
}

#[test]
fn a_dead_original_after_a_live_one_is_no_candidate() {
    let mut index = Index::new(3);
    index.insert(&original(0, 0, None, 50));
    index.insert(&original(1, 7, None, 5));
    let watermarks = ExpiryWatermarks { times: PerStage::all(at(10)), first_sequence: 0 };
    assert_eq!(index.advance(&watermarks), Removed::default());
    assert_eq!(index.originals(), 2);
    let fingerprints = prints(7, None);
    assert_eq!(found(&index, &Probe { watermarks, ..probe(&fingerprints, 10, 3) }), []);
}

#[test]
fn an_original_out_of_order_changes_nothing() {
    let mut index = Index::new(3);
    index.insert(&original(5, 1, None, 0));
    index.insert(&original(5, 2, None, 0));
    index.insert(&original(4, 3, None, 0));
    assert_eq!(index.originals(), 1);
    index.advance(&ExpiryWatermarks { first_sequence: 6, ..ExpiryWatermarks::START });
    index.insert(&original(5, 2, None, 0));
    assert_eq!(index.originals(), 0);
}

#[test]
fn topic_names_are_held_once() {
    let mut index = Index::new(3);
    (0..10).for_each(|sequence| index.insert(&original(sequence, 0, None, 0)));
    let topic = index.get(0).unwrap().source.partition.topic;
    assert!((1..10).all(|sequence| Arc::ptr_eq(&topic, &index.get(sequence).unwrap().cluster.partition.topic)));
}

#[test]
fn memory_after_one_and_after_five_turnovers_is_the_same() {
    const WINDOW: u64 = 20_000;
    let mut index = Index::new(3);
    let turnover = |index: &mut Index, number: u64| {
        for sequence in number * WINDOW..(number + 1) * WINDOW {
            let code = spread(sequence);
            index.insert(&original(sequence, u128::from(code), Some(code.rotate_left(29)), 0));
            index.advance(&ExpiryWatermarks {
                first_sequence: sequence.saturating_sub(WINDOW),
                ..ExpiryWatermarks::START
            });
        }
        (index.originals(), index.stats().memory_bytes)
    };
    turnover(&mut index, 0);
    let (length, bytes) = turnover(&mut index, 1);
    let last = (2..6).map(|number| turnover(&mut index, number)).last().unwrap();
    let close = |one: usize, other: usize| one.abs_diff(other) * 20 <= one;
    assert!(close(length, last.0) && close(bytes, last.1), "{length}, {bytes} B became {last:?}");
    assert!(bytes / length < 600, "{} bytes an original", bytes / length);
}

#[test]
fn memory_is_given_back_when_the_window_empties() {
    let mut index = Index::new(3);
    for sequence in 0..200_000_u64 {
        let code = spread(sequence);
        index.insert(&original(sequence, u128::from(code), Some(code), 0));
    }
    let full = index.stats().memory_bytes;
    index.advance(&ExpiryWatermarks { first_sequence: 199_990, ..ExpiryWatermarks::START });
    assert!(index.stats().memory_bytes < full / 40, "{} of {full} bytes", index.stats().memory_bytes);
    assert_eq!(near(&index, spread(199_995), 0), [199_995]);
}

#[test]
fn the_nearest_of_all_candidates_is_reported_whether_it_matches_or_not() {
    let form = SketchForm::new(16, SlotBits::B8).unwrap();
    let banding = Banding::new(4, 4, form).unwrap();
    let mut index = Index::new(3);
    index.set_minhash(Some(MinHashRules {
        form,
        banding,
        min_shared_bands: 1,
        one_band_below: 0,
        min_similarity: PerMille(500),
        containment: None,
        low_confidence: LowConfidence::DISABLED,
        max_bucket: 0,
    }));
    let mut by_sketch = original(0, 1, Some(0b11_1111), 0);
    by_sketch.fingerprints.sketch = Some(Sketch::from_bytes(&[7; 16]));
    index.insert(&by_sketch);
    let seen = |index: &Index, simhash| {
        let sketch = Some(Sketch::from_bytes(&[7; 16]));
        let fingerprints = Fingerprints { sketch, ..prints(9, Some(simhash)) };
        index.candidates(&probe(&fingerprints, 0, 3), |_| {})
    };
    assert_eq!(
        seen(&index, 0),
        ProbeStats { compared: 1, nearest: Some(6), ..ProbeStats::default() },
        "by the sketch alone"
    );
    index.insert(&original(1, 2, Some(0b11), 5_000));
    assert_eq!(seen(&index, 0).nearest, Some(2), "outside of the window, and the nearest");
    assert_eq!(seen(&Index::new(3), 0), ProbeStats::default());
}

#[test]
fn originals_are_found_by_position_id_and_code_until_they_are_forgotten() {
    let mut index = Index::new(3);
    let with = |sequence: u64, code: u64, id: u64, time: i64| Original {
        id: Some(IdHash(id)),
        scope: sequence.is_multiple_of(2).then_some(ScopeHash(9)),
        site: None,
        address: None,
        title: None,
        placement: Placement::EVERYWHERE,
        ..original(sequence, u128::from(sequence), Some(code), time)
    };
    let held = [with(1, 0b0000, 7, 10), with(2, 0b0011, 7, 50), with(3, u64::MAX, 8, 60)];
    held.iter().for_each(|original| index.insert(original));
    let watermarks = |time: i64| ExpiryWatermarks { times: PerStage::all(at(time)), first_sequence: 0 };
    let sequences = |found: Vec<Original>| found.iter().map(|original| original.sequence).collect::<Vec<_>>();
    let near = |index: &Index, reach: u8, watermarks: &ExpiryWatermarks| {
        let mut found: Vec<(u8, u64)> = index
            .near_code(SimHash::B64(0), reach, watermarks)
            .iter()
            .map(|(bits, original)| (*bits, original.sequence))
            .collect();
        found.sort_unstable();
        found
    };
    assert_eq!(index.of_source(&held[1].source, &watermarks(0)), [held[1].clone()]);
    assert_eq!(sequences(index.of_id(IdHash(7), &watermarks(0))), [1, 2]);
    // Whatever their scope, and farther than the tables reach.
    assert_eq!(near(&index, 2, &watermarks(0)), [(0, 1), (2, 2)]);
    assert_eq!(near(&index, 64, &watermarks(0)), [(0, 1), (2, 2), (64, 3)]);
    // After the watermarks is not there.
    assert!(index.of_source(&held[0].source, &watermarks(11)).is_empty());
    assert_eq!(sequences(index.of_id(IdHash(7), &watermarks(11))), [2]);
    assert_eq!(near(&index, 2, &watermarks(11)), [(2, 2)]);
    assert_eq!(index.forget_id(IdHash(7), &watermarks(0)), 2);
    assert!(index.of_source(&held[1].source, &watermarks(0)).is_empty() && near(&index, 2, &watermarks(0)).is_empty());
}

#[test]
fn a_range_is_looked_up_offset_by_offset_only_where_that_is_cheaper_than_a_scan() {
    // A lookup by source takes as long as some dozens of comparisons in a row.
    assert!(is_short(10, 1_000) && is_short(0, 0));
    assert!(!is_short(200, 1_000) && !is_short(1_000, 1_000), "as many lookups as there are originals");
    assert!(!is_short(usize::MAX, 10_000_000));
}

#[test]
fn near_codes_are_found_in_steps() {
    let mut index = Index::new(1);
    (0..1_000).for_each(|sequence| index.insert(&coded(sequence, SimHash::B64(sequence))));
    let code = SimHash::B64(0);
    for distance in [1, 8] {
        let near = |positions| index.near_code_at(positions, code, distance, &ExpiryWatermarks::START);
        let mut all = index.near_code(code, distance, &ExpiryWatermarks::START);
        all.sort_by_key(|(_, original)| original.sequence);
        let steps: Vec<_> = (0..1_100).step_by(130).flat_map(|from| near(from..from + 130)).collect();
        assert_eq!(steps, all, "within {distance}");
        assert!(near(1_000..u64::MAX).is_empty());
    }
}
