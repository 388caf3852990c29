//! Random schedules.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "seeds come from the environment and run on all cores"
)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::schedule::Schedule;

/// What a schedule came to.
type Statistics = BTreeMap<&'static str, u64>;

/// Runs one seed. A broken law comes back as the text to print.
fn run(seed: u64, steps: u64) -> Result<Statistics, String> {
    let mut schedule = Schedule::random(seed);
    if let Ok(lines) = std::env::var("DUPGATE_SIM_TRACE") {
        schedule.world.trace_lines = lines.parse().expect("DUPGATE_SIM_TRACE is a number of lines");
    }
    let done = schedule.run(steps);
    if schedule.world.violation.is_none() {
        schedule.finish();
    }
    let Some(broken) = &schedule.world.violation else {
        return Ok(schedule.laws.statistics().clone());
    };
    let trace: Vec<&str> = schedule.world.trace.iter().map(String::as_str).collect();
    let next = seed + 1;
    Err(format!(
        "{}\nseed {seed}, step {done} of {steps}: {broken}\nagain: DUPGATE_SIM_SEEDS={seed}..{next} \
         DUPGATE_SIM_STEPS={steps} cargo test -p dupgate-core --test simulation random_schedules\n",
        trace.join("\n")
    ))
}

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("DUPGATE_SIM_SEEDS") else { return 0..300 };
    let (from, to) = text.split_once("..").expect("DUPGATE_SIM_SEEDS is FROM..TO");
    from.parse().expect("the first seed")..to.parse().expect("the seed after the last")
}

fn steps() -> u64 {
    std::env::var("DUPGATE_SIM_STEPS").map_or(2000, |text| text.parse().expect("DUPGATE_SIM_STEPS is a number"))
}

#[test]
fn random_schedules_keep_all_laws() {
    let (seeds, steps) = (seeds(), steps());
    let next = AtomicU64::new(seeds.start);
    let sum: Mutex<(Statistics, Vec<String>)> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || sum.lock().unwrap().1.len() >= 3 {
                        return;
                    }
                    let outcome = run(seed, steps);
                    let mut sum = sum.lock().unwrap();
                    match outcome {
                        Ok(statistics) => {
                            statistics.into_iter().for_each(|(what, count)| *sum.0.entry(what).or_default() += count);
                        }
                        Err(report) => sum.1.push(report),
                    }
                }
            });
        }
    });
    let (statistics, reports) = sum.into_inner().unwrap();
    eprintln!("seeds {seeds:?}, {steps} steps each: {statistics:?}");
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}
