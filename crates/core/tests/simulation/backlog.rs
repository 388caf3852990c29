//! The first start on a long backlog: three workers of unequal speed find the same duplicates as a run in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::judge::{ColdStart, JudgeSettings, Snapshot};
use dupgate_core::protocol::{Answer, Decision, LogIdentity, LogPartition, PerStage, Rules, SameId, Stage};
use dupgate_core::worker::{Pacing, PageOutcome, WorkerSettings};

use crate::judge_driver::JudgeDriver;
use crate::pages::{Scheme, WorldPage};
use crate::settings::worker_settings;
use crate::worker_driver::WorkerDriver;
use crate::world::{GROUP, Moment, Step, Value, World, routed};
use dupgate_testkit::rng::Rng;

const PARTITIONS: usize = 24;
const PAGES: usize = 4_000;
/// Event time, in milliseconds.
const WINDOW: i64 = 10_000;
const BEGIN: i64 = 100_000;
const END: i64 = BEGIN + 7 * WINDOW;
const LATENESS: u64 = 2_000;
const MONTH: i64 = 30 * 86_400_000;

/// Moves that each worker makes in a millisecond: one is slow.
const SPEEDS: [usize; 3] = [3, 40, 40];

/// Moves of the judge and of the network in a millisecond.
const OTHER_MOVES: usize = 60;

/// The part of the backlog that a partition has: of unequal density, some begin late, some end early.
fn partition_at(rng: &mut Rng, time: i64) -> usize {
    loop {
        let at = rng.below(PARTITIONS);
        let is_there = match at % 6 {
            4 => time < BEGIN + 3 * WINDOW,
            5 => time >= BEGIN + 5 * WINDOW,
            _ => true,
        };
        if is_there && rng.below(8) <= at % 8 {
            return at;
        }
    }
}

/// Pages in the order of their times, with the number of their text, and how many of them are duplicates in that order.
fn backlog(rng: &mut Rng) -> (Vec<(i64, u64)>, usize) {
    let mut pages: Vec<(i64, u64)> = Vec::new();
    let (mut originals, mut duplicates) = (BTreeMap::new(), 0);
    let step = (END - BEGIN) / i64::try_from(PAGES).unwrap();
    for number in 0..PAGES {
        let time = BEGIN + i64::try_from(number).unwrap() * step;
        // A copy of a page of any age that the window holds.
        let age = usize::try_from(WINDOW / step).unwrap();
        let copied = number.checked_sub(1 + rng.below(age)).filter(|_| rng.chance(500));
        let text = copied.map_or(1_000 + number as u64, |copied| pages[copied].1);
        match originals.get(&text) {
            Some(original) if time - original <= WINDOW => duplicates += 1,
            _ => drop(originals.insert(text, time)),
        }
        pages.push((time, text));
    }
    (pages, duplicates)
}

fn rules() -> Rules {
    Rules {
        stages: vec![Stage::Exact],
        max_distance: 1,
        windows: PerStage::all(Duration::from_millis(WINDOW.unsigned_abs())),
        lateness: Duration::from_millis(LATENESS),
        max_future_skew: Duration::ZERO,
        max_entries: 100_000,
        same_id: SameId::Update,
        minhash: None,
        number_guard: None,
        simhash_similarity: None,
        same_site: None,
        dual: None,
    }
}

fn judge() -> JudgeDriver {
    let ms = Duration::from_millis;
    let settings = JudgeSettings {
        keep: ms(WINDOW.unsigned_abs() + LATENESS),
        rules: rules(),
        new_log: LogIdentity(1),
        cold_start: ColdStart::Stop,
        commit_interval: ms(1),
        checkpoint_interval_records: 2_000,
        batch_verdicts: 50,
        pending_verdicts: 100,
        transaction_timeout: ms(100),
        step_requests: 50,
        snapshot_interval: None,
        revoke_grace: ms(10),
    };
    JudgeDriver::new("judge", LogPartition(0), settings)
}

fn worker(world: &mut World, number: usize, lead: Duration) -> WorkerDriver {
    let ms = Duration::from_millis;
    let settings = WorkerSettings {
        remembered_verdicts: 10_000,
        scanned_positions: 10_000,
        in_flight_bytes: 300,
        pacing: Pacing {
            lead,
            reach: ms(2 * WINDOW.unsigned_abs() + LATENESS),
            idle_after: ms(500),
            away_after: ms(5_000),
            interval: ms(1),
            look_interval: ms(80),
        },
        ..worker_settings()
    };
    WorkerDriver::new(world, &format!("w{number}"), None, 2, &settings, Scheme::Current)
}

/// Some pages, also many in a row in one partition, say that they are of a month in the future. Returns the time that a
/// page says, and its partition.
fn as_wrong_clocks_say(number: usize, (time, partition): (i64, usize)) -> (i64, usize) {
    match number {
        900..930 => (END + MONTH, 3),
        _ if number % 300 == 7 => (END + MONTH, partition),
        _ => (time, partition),
    }
}

/// Runs the backlog to its end; `said` changes the time and the partition of a page. Returns how many duplicates were
/// found, how many a run in order finds, and the time it took.
fn run(seed: u64, lead: Duration, said: fn(usize, (i64, usize)) -> (i64, usize)) -> (usize, usize, Duration) {
    let mut rng = Rng::new(seed);
    let mut world = World::new(seed, i32::try_from(PARTITIONS).unwrap(), 1);
    (world.faults, world.crash_at, world.clock) = (false, Some((u64::MAX, Moment::Before)), END);
    let inputs = world.inputs.clone();
    let (pages, expected) = backlog(&mut rng);
    for (number, (time, text)) in pages.into_iter().enumerate() {
        let (time, partition) = said(number, (time, partition_at(&mut rng, time)));
        let (page, now) = (WorldPage::copy_of(text, world.width, time), world.now());
        world.bus.append(&inputs[partition], now, Value::Page(Arc::new(page)));
    }
    let (mut judge, mut disk): (_, Option<Snapshot>) = (judge(), None);
    let mut workers: Vec<WorkerDriver> = (0..SPEEDS.len()).map(|number| worker(&mut world, number, lead)).collect();
    let is_done = |world: &World| {
        let committed = |input| world.bus.committed(GROUP, input).map_or(0, |committed| committed.offset);
        inputs.iter().all(|input| committed(input) == world.bus.end(input))
    };
    while !is_done(&world) {
        assert!(world.elapsed < Duration::from_mins(2), "pages wait for ever");
        world.elapsed += Duration::from_millis(1);
        world.clock += 1;
        for (worker, moves) in workers.iter_mut().zip(SPEEDS) {
            (0..moves).for_each(|_| assert_eq!(worker.step(&mut world), Step::Went, "{}", worker.name));
        }
        for _ in 0..OTHER_MOVES {
            world.carry();
            assert_eq!(judge.step(&mut world, &mut disk), Step::Went);
        }
        assert_eq!(world.violation, None);
    }
    let is_duplicate = |value: &Value| {
        let Value::Routed { outcome: PageOutcome::Judged(verdict), .. } = value else { return false };
        matches!(&verdict.answer, Answer::Page(page) if matches!(page.decision, Decision::Duplicate { .. }))
    };
    let found =
        world.bus.slots(&routed()).iter().filter_map(|slot| slot.value.as_ref()).filter(|value| is_duplicate(value));
    (found.count(), expected, world.elapsed)
}

#[test]
fn a_slow_worker_and_two_fast_ones_find_the_duplicates_that_a_run_in_order_finds() {
    for seed in 1..=3 {
        let (found, expected, took) = run(seed, Duration::from_millis(LATENESS / 2), |_, said| said);
        let (unpaced, _, least) = run(seed, Duration::from_hours(1), |_, said| said);
        eprintln!(
            "seed {seed}: {found} of {expected} duplicates in {took:?}; each at its own pace {unpaced} in {least:?}"
        );
        assert!(expected > 1_000, "too few to show anything: {expected}");
        assert!(found * 100 >= expected * 99, "seed {seed}: {found} of {expected}");
        assert!(unpaced * 100 < expected * 80, "seed {seed}: {unpaced} of {expected} without waiting: shows nothing");
    }
}

#[test]
fn clocks_of_the_future_cost_no_duplicates_and_no_time() {
    for seed in 1..=3 {
        let lead = Duration::from_millis(LATENESS / 2);
        let (_, _, usual) = run(seed, lead, |_, said| said);
        let (found, expected, took) = run(seed, lead, as_wrong_clocks_say);
        eprintln!("seed {seed}: {found} of {expected} duplicates in {took:?}; {usual:?} with right clocks");
        assert!(found * 100 >= expected * 99, "seed {seed}: {found} of {expected}");
        assert!(took < usual * 5 / 4, "seed {seed}: {took:?} instead of {usual:?}");
    }
}
