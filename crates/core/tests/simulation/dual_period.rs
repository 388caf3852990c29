//! A change of the scheme, instance by instance, while pages are judged.

use crate::pages::Scheme;
use crate::schedule::Schedule;

/// Runs a seed: the earlier scheme, one instance after the other changed, and what `after` does. Returns how many
/// verdicts were taken over, and how many there were.
fn run(seed: u64, after: impl FnOnce(&mut Schedule)) -> (u64, u64) {
    let mut schedule = Schedule::before_upgrade(seed);
    schedule.run(400);
    for instance in 0..schedule.instances() {
        schedule.change_scheme(instance, Scheme::Dual);
        schedule.run(60);
    }
    after(&mut schedule);
    if schedule.world.violation.is_none() {
        schedule.finish();
    }
    let trace: Vec<&str> = schedule.world.trace.iter().map(String::as_str).collect();
    let broken = &schedule.world.violation;
    assert!(broken.is_none(), "{}\nseed {seed}: {broken:?}", trace.join("\n"));
    let count = |what| schedule.laws.statistics().get(what).copied().unwrap_or(0);
    (count("verdicts taken over"), count("verdicts"))
}

#[test]
fn the_earlier_scheme_decides_until_the_new_one_knows_a_window() {
    let (mut taken_over, mut all) = (0, 0);
    for seed in 0..60 {
        let counts = run(seed, |schedule| {
            schedule.run(900);
        });
        (taken_over, all) = (taken_over + counts.0, all + counts.1);
    }
    // Each page of the dual period has a verdict by the earlier scheme, too.
    assert!(taken_over > 1_000 && all > 2 * taken_over + 1_000, "{taken_over} of {all} verdicts: shows too little");
}

#[test]
fn a_change_may_be_taken_back_within_the_dual_period() {
    for seed in 0..60 {
        run(seed, |schedule| {
            for instance in 0..schedule.instances() {
                schedule.change_scheme(instance, Scheme::Earlier);
                schedule.run(60);
            }
            schedule.run(400);
        });
    }
}
