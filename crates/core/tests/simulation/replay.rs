//! A schedule whose steps can be made again, all of them or some: a failure is shrunk to the steps that it needs.
//!
//! Each step begins with the chance that it had when the seed was drawn, so leaving out one does not change what is
//! drawn in the others.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dupgate_testkit::rng::Rng;

use crate::schedule::Schedule;

/// The schedule of a seed, as it was drawn.
pub(crate) struct Recording {
    seed: u64,
    /// Chance before each step, and before the fair phase.
    chances: Vec<Rng>,
}

/// Some steps of a recording, by number, and those in which harm is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) steps: Vec<usize>,
    pub(crate) harmful: Vec<usize>,
}

impl Part {
    /// Reads what [`Part::to_string`] has written.
    pub(crate) fn parse(text: &str) -> Self {
        let number = |word: &str| word.trim_end_matches('*').parse().expect("numbers of steps, * after harmful ones");
        let words = || text.split_whitespace();
        Self {
            steps: words().map(number).collect(),
            harmful: words().filter(|word| word.ends_with('*')).map(number).collect(),
        }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            let (space, star) = (if at > 0 { " " } else { "" }, if self.harmful.contains(step) { "*" } else { "" });
            write!(f, "{space}{step}{star}")?;
        }
        Ok(())
    }
}

impl Recording {
    /// Runs a seed: this many steps and the fair phase, as far as the laws hold.
    pub(crate) fn run(seed: u64, steps: usize, trace_lines: usize) -> (Self, Schedule) {
        let mut schedule = begin(seed, trace_lines);
        let mut chances = Vec::new();
        guard(&mut schedule, |schedule| {
            while chances.len() < steps && schedule.world.violation.is_none() {
                chances.push(schedule.world.rng.clone());
                schedule.step();
            }
        });
        chances.push(schedule.world.rng.clone());
        guard(&mut schedule, Schedule::finish);
        (Self { seed, chances }, schedule)
    }

    /// All steps that were made.
    pub(crate) fn whole(&self) -> Part {
        let steps: Vec<usize> = (0..self.chances.len() - 1).collect();
        Part { harmful: steps.clone(), steps }
    }

    /// Makes these steps again, and the fair phase.
    pub(crate) fn replay(&self, part: &Part, trace_lines: usize) -> Schedule {
        let mut schedule = begin(self.seed, trace_lines);
        guard(&mut schedule, |schedule| {
            for step in &part.steps {
                let Some(chance) = self.chances.get(*step) else { continue };
                schedule.world.rng = chance.clone();
                schedule.world.is_spared = part.harmful.binary_search(step).is_err();
                schedule.step();
                if schedule.world.violation.is_some() {
                    return;
                }
            }
        });
        schedule.world.rng.clone_from(self.chances.last().expect("the chance of the fair phase"));
        guard(&mut schedule, Schedule::finish);
        schedule
    }

    /// Leaves out steps and faults without which a law is broken all the same. It takes at most this many replays.
    pub(crate) fn shrink(&self, most: u32) -> Part {
        let mut tries = 0;
        let mut fails = |part: &Part| {
            tries += 1;
            tries <= most && self.replay(part, 0).world.violation.is_some()
        };
        let mut part = self.whole();
        loop {
            let before = part.clone();
            part.harmful = shrink(part.harmful, |harmful| fails(&Part { harmful: harmful.to_vec(), ..before.clone() }));
            let harmful = part.harmful.clone();
            part.steps = shrink(part.steps, |steps| fails(&Part { steps: steps.to_vec(), harmful: harmful.clone() }));
            part.harmful.retain(|step| part.steps.contains(step));
            if part == before {
                return part;
            }
        }
    }
}

fn begin(seed: u64, trace_lines: usize) -> Schedule {
    let mut schedule = Schedule::random(seed);
    schedule.world.trace_lines = trace_lines;
    schedule
}

/// Lets a schedule go on if no law is broken. A panic is a broken law.
fn guard(schedule: &mut Schedule, go_on: impl FnOnce(&mut Schedule)) {
    if schedule.world.violation.is_none()
        && let Err(why) = catch_unwind(AssertUnwindSafe(|| go_on(schedule)))
    {
        schedule.world.violate(format!("panic: {}", message(why.as_ref())));
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// Leaves out what is not needed to fail: first all, then halves, then quarters, and at last one by one, until none can
/// go. It begins at the end: what is left out there changes least of the rest.
fn shrink(mut kept: Vec<usize>, mut fails: impl FnMut(&[usize]) -> bool) -> Vec<usize> {
    let mut size = kept.len();
    while size > 0 {
        let before = kept.len();
        let mut end = before;
        while end > 0 {
            let start = end.saturating_sub(size);
            let mut fewer = kept.clone();
            fewer.drain(start..end);
            if fails(&fewer) {
                kept = fewer;
            }
            end = start;
        }
        if size > 1 || kept.len() == before {
            size /= 2;
        }
    }
    kept
}

#[test]
fn what_is_left_is_what_fails_and_no_step_of_it_can_go() {
    for needed in [&[][..], &[0], &[999], &[3, 17, 400], &[500, 501, 502, 503]] {
        let mut tries = 0;
        let kept = shrink((0..1000).collect(), |steps| {
            tries += 1;
            needed.iter().all(|step| steps.contains(step))
        });
        assert_eq!(kept, needed);
        assert!(tries < 150, "{tries} tries for {needed:?}");
    }
    // Either of two is enough.
    let kept = shrink((0..1000).collect(), |steps| {
        let has = |step| steps.contains(&step);
        has(7) && (has(300) || has(800))
    });
    assert!(kept == [7, 300] || kept == [7, 800], "{kept:?}");
}

#[test]
fn a_whole_replay_is_the_schedule_itself() {
    let (recording, schedule) = Recording::run(7, 500, usize::MAX);
    let again = recording.replay(&recording.whole(), usize::MAX);
    assert_eq!(again.world.trace, schedule.world.trace);
    assert!(schedule.world.trace.len() > 100);
}

#[test]
fn a_part_is_read_as_it_was_written() {
    let part = Part { steps: vec![3, 17, 400], harmful: vec![17] };
    assert_eq!((part.to_string().as_str(), Part::parse("3 17* 400")), ("3 17* 400", part));
}
