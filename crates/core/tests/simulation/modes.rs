//! A day of observing, a day of tagging, then the pages are routed.

use dupgate_core::worker::Mode;

use crate::schedule::Schedule;

const STEPS: u64 = 900;

#[test]
fn pages_of_any_mode_that_came_before_are_originals_only_if_they_were_delivered() {
    let (mut observed, mut found) = (0, 0);
    for seed in 0..30 {
        let mut schedule = Schedule::random(seed);
        schedule.world.mode = Mode::Observe;
        for mode in [Mode::Observe, Mode::Tag, Mode::Route] {
            if mode != Mode::Observe {
                schedule.change_mode(mode);
            }
            schedule.run(STEPS);
            if mode == Mode::Observe {
                observed += schedule.laws.statistics().get("verdicts").copied().unwrap_or(0);
            }
        }
        if schedule.world.violation.is_none() {
            schedule.finish();
        }
        let trace: Vec<&str> = schedule.world.trace.iter().map(String::as_str).collect();
        let broken = &schedule.world.violation;
        assert!(broken.is_none(), "{}\nseed {seed}: {broken:?}", trace.join("\n"));
        found += schedule.laws.statistics().get("delivered").copied().unwrap_or(0);
    }
    assert!(
        observed > 300 && found > 1000,
        "{observed} verdicts while observing, {found} pages delivered: shows too little"
    );
}
