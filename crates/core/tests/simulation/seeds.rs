//! Random schedules.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "seeds come from the environment and run on all cores; progress needs a clock"
)]

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::coverage::Coverage;
use crate::replay::{Part, Recording};
use crate::schedule::Schedule;

/// From this number of schedules on, every possible fault must have happened to every call.
const COVERED: u64 = 100_000;

/// What all schedules came to.
#[derive(Default)]
struct Sum {
    done: u64,
    statistics: BTreeMap<&'static str, u64>,
    coverage: Coverage,
    /// Seeds that break a law.
    broken: Vec<u64>,
}

fn number<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().map_err(|_| text).expect(name))
}

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("DUPGATE_SIM_SEEDS") else { return 0..300 };
    let (from, to) = text.split_once("..").expect("DUPGATE_SIM_SEEDS is FROM..TO");
    from.parse().expect("the first seed")..to.parse().expect("the seed after the last")
}

/// Past the harness, which would show it at the end.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Says what is wrong with a schedule, and how to run it again.
fn report(schedule: &Schedule, seed: u64, steps: usize, made: usize, part: Option<&Part>) -> String {
    let trace: Vec<&str> = schedule.world.trace.iter().map(String::as_str).collect();
    let broken = schedule.world.violation.as_deref().unwrap_or("no law is broken");
    let part = part.map(|part| format!("DUPGATE_SIM_PART='{part}' ")).unwrap_or_default();
    let next = seed + 1;
    format!(
        "{}\nseed {seed}, step {made} of {steps}: {broken}\nagain: DUPGATE_SIM_SEEDS={seed}..{next} \
         DUPGATE_SIM_STEPS={steps} {part}cargo test -p dupgate-core --test simulation random_schedules\n",
        trace.join("\n")
    )
}

/// Shrinks a schedule that breaks a law.
fn shrunk(seed: u64, steps: usize, trace_lines: usize) -> String {
    let (recording, whole) = Recording::run(seed, steps, trace_lines);
    let made = recording.whole().steps.len();
    let unshrunk = report(&whole, seed, steps, made, None);
    let tries = number("DUPGATE_SIM_TRIES").unwrap_or(10_000);
    if tries == 0 {
        return unshrunk;
    }
    say(&format!("shrinking seed {seed} by at most {tries} replays"));
    // Every try may panic, and nobody wants to read that.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let part = recording.shrink(tries);
    std::panic::set_hook(hook);
    let (kept, harmful) = (part.steps.len(), part.harmful.len());
    format!(
        "{unshrunk}\nof these, {kept} steps are enough, {harmful} of them with faults:\n{}",
        report(&recording.replay(&part, trace_lines), seed, steps, kept, Some(&part))
    )
}

#[test]
fn random_schedules_keep_all_laws() {
    let (seeds, steps) = (seeds(), number("DUPGATE_SIM_STEPS").unwrap_or(2000));
    let trace_lines = number("DUPGATE_SIM_TRACE").unwrap_or(80);
    if let Ok(part) = std::env::var("DUPGATE_SIM_PART") {
        let (recording, _) = Recording::run(seeds.start, steps, 0);
        let part = Part::parse(&part);
        let schedule = recording.replay(&part, trace_lines);
        let kept = part.steps.len();
        let report = report(&schedule, seeds.start, steps, kept, Some(&part));
        assert!(schedule.world.violation.is_none(), "{report}");
        return;
    }
    let (next, began) = (AtomicU64::new(seeds.start), Instant::now());
    let sum: Mutex<Sum> = Mutex::default();
    let said = Mutex::new(began);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || sum.lock().unwrap().broken.len() >= 3 {
                        return;
                    }
                    let (_, schedule) = Recording::run(seed, steps, 0);
                    let mut sum = sum.lock().unwrap();
                    sum.done += 1;
                    if let Some(broken) = &schedule.world.violation {
                        say(&format!("seed {seed} breaks a law: {broken}"));
                        sum.broken.push(seed);
                    }
                    for (what, count) in schedule.laws.statistics() {
                        *sum.statistics.entry(what).or_default() += count;
                    }
                    sum.coverage.add(&schedule.world.coverage);
                    let mut said = said.lock().unwrap();
                    if said.elapsed() > Duration::from_secs(10) {
                        *said = Instant::now();
                        let seconds = began.elapsed().as_secs();
                        say(&format!("{} of {} schedules in {seconds} s", sum.done, seeds.end - seeds.start));
                    }
                }
            });
        }
    });
    let Sum { done, statistics, coverage, broken } = sum.into_inner().unwrap();
    let missing = coverage.missing();
    eprintln!("seeds {seeds:?}, {steps} steps each: {statistics:?}");
    if let Some(first) = broken.iter().min() {
        panic!("seeds {broken:?} break laws\n{}", shrunk(*first, steps, trace_lines));
    }
    if done >= 1000 {
        let seconds = began.elapsed().as_secs();
        say(&format!("{}\nseeds {seeds:?}: {done} schedules in {seconds} s", coverage.table()));
    }
    assert!(done < COVERED || missing.is_empty(), "these faults never happened: {missing:?}");
}
