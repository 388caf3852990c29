//! A crash before and after every single call of a short run.

use crate::schedule::Schedule;
use crate::world::Moment;

const STEPS: u64 = 120;

/// Pages come and are delivered; then the group is set back, and old verdicts are read again.
fn script(schedule: &mut Schedule) {
    schedule.run(STEPS);
    schedule.rewind();
    schedule.run(STEPS / 3);
}

fn run(seed: u64, crash_at: (u64, Moment)) -> Schedule {
    let mut schedule = Schedule::scripted(seed);
    schedule.world.crash_at = Some(crash_at);
    script(&mut schedule);
    if schedule.world.violation.is_none() {
        schedule.finish();
    }
    schedule
}

#[test]
fn a_crash_before_and_after_every_call_breaks_no_law() {
    let calls = {
        let mut schedule = Schedule::scripted(1);
        script(&mut schedule);
        schedule.world.calls
    };
    assert!(calls > 300, "only {calls} calls: the run shows too little");
    for call in 0..calls {
        for moment in [Moment::Before, Moment::After] {
            let schedule = run(1, (call, moment));
            let trace: Vec<&str> = schedule.world.trace.iter().map(String::as_str).collect();
            let broken = &schedule.world.violation;
            assert!(broken.is_none(), "{}\na crash {moment:?} call {call}: {broken:?}", trace.join("\n"));
        }
    }
    eprintln!("{calls} calls, a crash before and after each");
}
