//! Compares a window of codes with a list and two loops, whatever the width, the plan, the backend, the place in the
//! ids and the skew.

use proptest::prelude::*;

use super::*;
use crate::Width;

/// Codes that a list holds, too.
trait Listed: Codeword {
    fn of(bits: u128) -> Self;
}

impl Listed for u64 {
    fn of(bits: u128) -> Self {
        Self::try_from(bits).unwrap()
    }
}

impl Listed for u128 {
    fn of(bits: u128) -> Self {
        bits
    }
}

/// The list.
#[derive(Default)]
struct List {
    codes: Vec<Option<u128>>,
    tail: usize,
}

impl List {
    fn found(&self, code: impl Into<u128>, reach: u8) -> Vec<(u64, u8)> {
        let (mut found, code) = (Vec::new(), code.into());
        for (at, held) in self.codes.iter().enumerate().skip(self.tail) {
            let bits = held.map_or(128, |held| (held ^ code).count_ones());
            if bits <= u32::from(reach) {
                found.push((at as u64, u8::try_from(bits).unwrap()));
            }
        }
        found
    }
}

fn found<W: Codeword>(near: &HammingIndex<W>, first: u64, code: W, reach: u8) -> Vec<(u64, u8)> {
    let mut found = Vec::new();
    near.probe(code, reach, |position, distance| found.push((position - first, distance)));
    found.sort_unstable();
    found
}

#[derive(Clone, Debug)]
enum Step {
    Push(Option<u128>, usize),
    Expire(usize),
    ExpireAll,
    Remove(usize),
    Probe(u128),
    ProbeAt(u128, u8),
    SetPlan(usize),
}

fn ones(width: Width) -> u128 {
    u128::MAX >> (128 - width.bits())
}

/// Few centres, and some flips away from them: in a wide code often in one word alone.
fn codes(width: Width) -> impl Strategy<Value = u128> {
    let bits = width.bits();
    let centre = prop_oneof![
        Just(0),
        Just(u128::MAX),
        Just(0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210_u128.rotate_left(64)),
        Just(1 << (bits - 1))
    ];
    let flips = |from: u32, to: u32| prop::collection::vec(from..to, 0..10);
    let flips = prop_oneof![flips(0, bits), flips(0, bits.min(64)), flips(bits / 2, bits)];
    (centre, flips).prop_map(move |(centre, flips)| {
        flips.into_iter().fold(centre & ones(width), |code: u128, bit| code ^ (1_u128 << bit))
    })
}

fn steps(width: Width) -> impl Strategy<Value = Vec<Step>> {
    let code = || codes(width);
    let step = prop_oneof![
        12 => (prop::option::weighted(0.9, code()), 1..12_usize).prop_map(|(code, times)| Step::Push(code, times)),
        4 => (0..40_usize).prop_map(Step::Expire),
        1 => Just(Step::ExpireAll),
        6 => (0..80_usize).prop_map(Step::Remove),
        10 => code().prop_map(Step::Probe),
        2 => (code(), 0..12_u8).prop_map(|(code, reach)| Step::ProbeAt(code, reach)),
        1 => (0..16_usize).prop_map(Step::SetPlan),
    ];
    prop::collection::vec(step, 1..120)
}

/// Widths, and what is done with codes of them.
fn width_and_steps() -> impl Strategy<Value = (Width, Vec<Step>)> {
    prop::sample::select(&Width::ALL[..]).prop_flat_map(|width| (Just(width), steps(width)))
}

/// Places to begin: ids come round in the second half.
fn firsts() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(77), ((1_u64 << 32) - 600)..(1_u64 << 32), Just((7_u64 << 32) - 64)]
}

fn agrees_with_the_list<W: Listed>(plans: &[Plan], plan: usize, backend: Backend, first: u64, steps: Vec<Step>) {
    let plan_of = |number: usize| plans[number % plans.len()].clone();
    let distance = plan_of(0).max_distance();
    let mut near: HammingIndex<W> = HammingIndex::starting_at(plan_of(plan), 60, backend, first);
    let mut list = List::default();
    for step in steps {
        match step {
            Step::Push(code, times) => {
                for _ in 0..times {
                    assert_eq!(near.push(code.map(W::of)) - first, list.codes.len() as u64);
                    list.codes.push(code);
                }
            }
            Step::Expire(positions) => list.tail = list.codes.len().min(list.tail + positions),
            Step::ExpireAll => list.tail = list.codes.len(),
            Step::Remove(back) => {
                if let Some(at) = list.codes.len().checked_sub(back + 1) {
                    near.remove(first + at as u64);
                    list.codes[at] = None;
                }
            }
            Step::Probe(code) => {
                let expected = list.found(code, distance);
                let best = expected.iter().map(|&(position, distance)| (distance, position + first)).min();
                assert_eq!(near.nearest(W::of(code), distance), best);
                assert_eq!(found(&near, first, W::of(code), distance), expected);
            }
            Step::ProbeAt(code, reach) => {
                assert_eq!(found(&near, first, W::of(code), reach), list.found(code, reach));
            }
            Step::SetPlan(plan) => near.set_plan(plan_of(plan)),
        }
        near.expire_to(first + list.tail as u64);
        assert_eq!(near.held(), list.codes[list.tail..].iter().flatten().count() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(900))]

    #[test]
    fn every_answer_is_that_of_a_list_and_two_loops(
        distance in 0..=8_u8, plan in 0..16_usize, portable in any::<bool>(), first in firsts(),
        (width, steps) in width_and_steps(),
    ) {
        let plans = Plan::all(width, distance);
        let backend = if portable { Backend::PORTABLE } else { Backend::detect() };
        match width {
            Width::B32 | Width::B64 => agrees_with_the_list::<u64>(&plans, plan, backend, first, steps),
            Width::B128 => agrees_with_the_list::<u128>(&plans, plan, backend, first, steps),
        }
    }

    #[test]
    fn a_pair_at_the_bound_is_found_by_every_plan_and_one_bit_more_is_not(
        code in any::<u128>(), order in Just((0..128).collect::<Vec<u32>>()).prop_shuffle(),
    ) {
        for width in Width::ALL {
            let order: Vec<u32> = order.iter().copied().filter(|bit| *bit < width.bits()).collect();
            for distance in 0..=8_u8 {
                for plan in Plan::all(width, distance) {
                    let planted = |bits: u8| {
                        order[..usize::from(bits)].iter().fold(code & ones(width), |code, bit| code ^ (1 << bit))
                    };
                    let expected: Vec<(u64, u8)> = (0..=distance).map(|bits| (u64::from(bits), bits)).collect();
                    let name = plan.to_string();
                    let found = match width {
                        Width::B32 | Width::B64 => among::<u64>(plan, (0..=distance + 1).map(planted), planted(0)),
                        Width::B128 => among::<u128>(plan, (0..=distance + 1).map(planted), planted(0)),
                    };
                    prop_assert_eq!(found, expected, "{:?}, {}", width, name);
                }
            }
        }
    }
}

/// What a probe finds among these codes.
fn among<W: Listed>(plan: Plan, codes: impl Iterator<Item = u128>, asked: u128) -> Vec<(u64, u8)> {
    let reach = plan.max_distance();
    let mut near: HammingIndex<W> = HammingIndex::with_plan(plan, 10);
    codes.for_each(|code| {
        near.push(Some(W::of(code)));
    });
    found(&near, 0, W::of(asked), reach)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn flips(&mut self, bits: u32) -> u64 {
        let mut flips = 0_u64;
        while flips.count_ones() < bits {
            flips |= 1 << (self.next() % 64);
        }
        flips
    }
}

#[test]
fn all_flips_of_at_most_three_bits_are_found_by_every_plan() {
    for width in Width::ALL {
        for plan in Plan::all(width, 3) {
            let tried = match width {
                Width::B32 | Width::B64 => all_flips_are_found::<u64>(plan),
                Width::B128 => all_flips_are_found::<u128>(plan),
            };
            assert_eq!(tried, width.differences(3));
        }
    }
}

fn all_flips_are_found<W: Listed>(plan: Plan) -> u64 {
    let (width, mut tried) = (plan.width(), 0);
    let code = 0xD1B5_4A32_D192_ED03_0123_4567_89AB_CDEF & ones(width);
    let mut near: HammingIndex<W> = HammingIndex::with_plan(plan, 1);
    near.push(Some(W::of(code)));
    let mut check = |flips: u128| {
        tried += 1;
        let bits = u8::try_from(flips.count_ones()).unwrap();
        assert_eq!(near.nearest(W::of(code ^ flips), 3), Some((bits, 0)), "{flips:0128b} by {}", near.plan());
    };
    check(0);
    for a in 0..width.bits() {
        check(1 << a);
        for b in 0..a {
            check(1 << a | 1 << b);
            for c in 0..b {
                check(1 << a | 1 << b | 1 << c);
            }
        }
    }
    tried
}

/// A stream of codes that crowd some keys, and how.
type Skew = (&'static str, Box<dyn Fn(&mut Random) -> u64>);

fn skews() -> Vec<Skew> {
    let sharing = |mask: u64| move |random: &mut Random| random.next() & !mask | 0x5555_5555_5555_5555 & mask;
    vec![
        ("uniform", Box::new(Random::next)),
        ("16 lower bits shared", Box::new(sharing(0xFFFF))),
        ("24 upper bits shared", Box::new(sharing(!0 << 40))),
        ("32 lower bits shared", Box::new(sharing(0xFFFF_FFFF))),
        ("32 upper bits shared", Box::new(sharing(!0 << 32))),
        ("48 bits shared", Box::new(sharing(!0 << 16))),
        ("every second bit shared", Box::new(sharing(0xAAAA_AAAA_AAAA_AAAA))),
        ("all equal", Box::new(|_| 0x1234_5678_9ABC_DEF0)),
        ("all zero", Box::new(|_| 0)),
        ("all one", Box::new(|_| u64::MAX)),
        ("bit 63", Box::new(|random| random.next() & 1 << 63)),
        (
            "families",
            Box::new(|random| {
                let family = Random(random.next() % 20).next();
                let bits = 3 + u32::try_from(random.next() % 8).unwrap();
                family ^ random.flips(bits)
            }),
        ),
    ]
}

#[test]
fn no_skew_loses_a_pair_or_costs_more_than_comparing_all() {
    const WINDOW: usize = 3_000;
    for (name, draw) in skews() {
        for (distance, which) in [(3, 0), (3, 4), (5, 0)] {
            let plan = Plan::all(Width::B64, distance)[which].clone();
            let reach = plan.max_distance();
            let mut random = Random(5);
            let (mut near, mut list) = (HammingIndex::with_plan(plan, WINDOW as u64), List::default());
            for number in 0..9_000_usize {
                let code = draw(&mut random);
                if number % 499 == 0 {
                    // Planted from 0 to one more than the reach.
                    let bits = u32::try_from(number / 499 % (usize::from(reach) + 2)).unwrap();
                    let asked = code ^ random.flips(bits);
                    assert_eq!(found(&near, 0, asked, reach), list.found(asked, reach), "{name}, {}", near.plan());
                    let compared = u64::from(near.probe(asked, reach, |_, _| {}));
                    assert!(
                        compared <= near.held().max(MIN_CODES_FOR_FULL_SCAN) * 2,
                        "{name}, {}: {compared} compared",
                        near.plan()
                    );
                }
                near.push(Some(code));
                list.codes.push(Some(code.into()));
                list.tail = list.codes.len().saturating_sub(WINDOW);
                near.expire_to(list.tail as u64);
            }
        }
    }
}

#[test]
fn memory_after_one_and_after_five_turnovers_is_the_same() {
    const WINDOW: u64 = 60_000;
    for (name, draw) in skews().into_iter().filter(|(name, _)| ["uniform", "families", "all equal"].contains(name)) {
        let mut random = Random(1);
        let mut near = HammingIndex::new(3, WINDOW);
        let mut bytes = Vec::new();
        for number in 0..6 * WINDOW {
            near.push(Some(draw(&mut random)));
            near.expire_to((number + 1).saturating_sub(WINDOW));
            if number % WINDOW == WINDOW - 1 {
                bytes.push(near.memory_bytes());
            }
        }
        // The first turnover ends with the second window.
        assert!(bytes[5].abs_diff(bytes[1]) * 20 <= bytes[1], "{name}: {bytes:?}");
    }
}

#[test]
fn a_jump_past_the_whole_window_leaves_nothing_and_goes_on() {
    let mut near = HammingIndex::new(3, 1_000);
    let mut random = Random(2);
    for _ in 0..5_000 {
        near.push(Some(random.next()));
    }
    let full = near.memory_bytes();
    near.expire_to(5_000);
    near.shrink_if_idle();
    assert_eq!((near.held(), near.positions()), (0, 5_000..5_000));
    assert!(near.memory_bytes() < full / 2, "{} of {full}", near.memory_bytes());
    let position = near.push(Some(7));
    assert_eq!(near.nearest(6, 1), Some((1, position)));
}

#[test]
fn expired_codes_that_are_kept_are_found_again_once_they_are_readmitted() {
    let mut near = HammingIndex::new(3, 1_000);
    let mut random = Random(3);
    let codes: Vec<u64> = (0..30_000).map(|_| random.next()).collect();
    for (&code, length) in codes.iter().zip(1..) {
        near.push(Some(code));
        if length == 3_000 {
            near.remove(1_500);
            near.expire_keeping(2_000, 1_000);
        }
    }
    let finds = |near: &HammingIndex, position: usize| near.nearest(codes[position] ^ 1, 1).is_some();
    assert!(!finds(&near, 1_200) && finds(&near, 2_200));
    near.readmit(1_000);
    assert_eq!((near.held(), near.positions()), (28_999, 1_000..30_000));
    for position in (0..30_000).step_by(100) {
        assert_eq!(finds(&near, position), position >= 1_000 && position != 1_500, "{position}");
    }
}

/// A stream with near pairs at every gap, also within one batch.
fn stream(length: usize) -> Vec<u64> {
    let mut random = Random(3);
    let mut codes = Vec::new();
    for number in 0..length {
        let back = usize::try_from(random.next() % 700).unwrap() + 1;
        if number > back && random.next().is_multiple_of(4) {
            let bits = u32::try_from(random.next() % 5).unwrap();
            codes.push(codes[number - back] ^ random.flips(bits));
        } else {
            codes.push(random.next());
        }
    }
    codes
}

const STREAM_WINDOW: u64 = 500;

/// What a judge would do: what is near is not kept.
fn judge(near: &mut HammingIndex, code: u64, nearest: Option<(u8, u64)>) {
    let position = near.push(nearest.is_none().then_some(code));
    near.expire_to((position + 1).saturating_sub(STREAM_WINDOW));
}

fn one_by_one(codes: &[u64], near: &mut HammingIndex) -> Vec<Option<(u8, u64)>> {
    let each = codes.iter().map(|&code| {
        let nearest = near.nearest(code, 3);
        judge(near, code, nearest);
        nearest
    });
    each.collect()
}

#[test]
fn batches_of_any_size_answer_as_one_by_one() {
    let codes = stream(12_000);
    let expected = one_by_one(&codes, &mut HammingIndex::new(3, STREAM_WINDOW));
    assert!(expected.iter().flatten().count() > 1_000);
    for batch_size in [1, 64, 4_096] {
        let mut near = HammingIndex::new(3, STREAM_WINDOW);
        let mut found = Vec::new();
        for batch in codes.chunks(batch_size) {
            near.in_order(
                batch,
                |&code| Some(code),
                |near, &code| {
                    let nearest = near.nearest(code, 3);
                    judge(near, code, nearest);
                    found.push(nearest);
                },
            );
        }
        assert!(found == expected, "in order by {batch_size}");
    }
}

#[test]
fn plans_backends_and_a_restore_change_no_answer() {
    let codes = stream(8_000);
    let expected = one_by_one(&codes, &mut HammingIndex::new(3, STREAM_WINDOW));
    for plan in Plan::all(Width::B64, 3).into_iter().chain(Plan::all(Width::B64, 6)) {
        for backend in Backend::available() {
            let mut near = HammingIndex::starting_at(plan.clone(), STREAM_WINDOW, backend, 0);
            let found = one_by_one(&codes[..4_000], &mut near);
            // Restored from what is held, at the same positions.
            let held = near.positions();
            let mut restored = HammingIndex::starting_at(plan.clone(), STREAM_WINDOW, backend, held.start);
            restored.restore(held.map(|position| near.code(position)));
            let rest = one_by_one(&codes[4_000..], &mut restored);
            assert!([found, rest].concat() == expected, "{plan}, {}", backend.name());
        }
    }
}

#[test]
fn tables_that_grow_and_shrink_lose_nothing() {
    // The window swells to twenty times its size and back, twice.
    for which in [0, 4] {
        let plan = Plan::all(Width::B64, 3)[which].clone();
        let mut near = HammingIndex::with_plan(plan, 0);
        let (mut random, mut list, mut grown) = (Random(8), List::default(), 0);
        for number in 0..24_000_usize {
            let window = if number % 12_000 < 6_000 { 6_000 } else { 300 };
            let code = random.next();
            near.push(Some(code));
            list.codes.push(Some(code.into()));
            list.tail = list.tail.max(list.codes.len().saturating_sub(window));
            near.expire_to(list.tail as u64);
            grown += usize::from(near.stats().is_growing);
            if number % 97 == 0 {
                let held = list.codes.len() - list.tail;
                let of = list.tail + usize::try_from(random.next()).unwrap_or(0) % held;
                let asked = u64::of(list.codes[of].unwrap()) ^ random.flips(u32::try_from(number % 5).unwrap());
                assert_eq!(found(&near, 0, asked, 3), list.found(asked, 3), "at {number}, {}", near.plan());
            }
        }
        assert!(grown > 1_000, "{grown}");
    }
}

#[test]
fn tables_grow_when_their_memory_is_made_ready_elsewhere_and_answers_are_the_same_until_then() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Helper {
        Diligent,
        Late,
        Unwilling,
        Asleep,
    }
    let plan = Plan::choose(&PlanRequirements {
        width: Width::B64,
        max_distance: 3,
        entries: 100_000,
        bytes_per_entry: 40.0,
        sample: &[],
    });
    let code = |number: u64| {
        (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    };
    for helper in [Helper::Diligent, Helper::Late, Helper::Unwilling, Helper::Asleep] {
        let mut near = <HammingIndex>::with_plan(plan.clone(), 0);
        let mut waiting: Vec<Task<'static>> = Vec::new();
        let mut handed_over = 0;
        for number in 0..300_000 {
            near.push(Some(code(number)));
            near.expire_to(number.saturating_sub(200_000));
            if number % 500 == 0 {
                if helper == Helper::Late {
                    run_sequential(std::mem::take(&mut waiting));
                }
                near.maintenance(&mut |task| {
                    handed_over += 1;
                    match helper {
                        Helper::Diligent => task(),
                        Helper::Late | Helper::Asleep => waiting.push(task),
                        Helper::Unwilling => drop(task),
                    }
                });
            }
            if number % 10_007 == 0 {
                let tail = near.positions().start;
                assert_eq!(near.nearest(code(number) ^ 0b111, 3), Some((3, number)));
                assert_eq!(near.nearest(code(tail), 3), Some((0, tail)));
                assert!(tail == 0 || near.nearest(code(tail - 1), 3).is_none());
            }
        }
        let lines = |near: &HammingIndex| near.stats().tables.iter().map(|table| table.lines).min();
        assert_eq!(lines(&near) > Some(30_000), helper != Helper::Asleep, "{handed_over}");
        assert!((1..100).contains(&handed_over), "{handed_over}");
        run_sequential(waiting);
        // Time for three growths of 200,000 entries, 16 at a time: what a table waited for may be too small by now.
        for number in 300_000..345_000 {
            near.push(Some(code(number)));
            near.expire_to(number - 200_000);
            near.maintenance(&mut |task| task());
        }
        assert!(lines(&near) > Some(30_000), "{helper:?}");
    }
}
