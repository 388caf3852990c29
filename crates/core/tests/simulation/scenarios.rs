//! Named situations, written in the language of `scenarios/README.md`, on the real judge and the real worker. The laws
//! are checked after every step, as everywhere here; a scenario adds its own expectations.

mod language;
mod stage;

use language::Line;
use stage::Stage;

/// The order in which the drivers move is by chance: each scenario has to hold for some of them.
const SEEDS: u64 = 20;

/// Plays a scenario. Returns what is wrong, and where.
fn play(lines: &[Line<'_>], seed: u64) -> Result<(), String> {
    let mut stage = Stage::new(seed);
    for line in lines {
        let taken = language::command(line.text).and_then(|command| stage.take(command));
        taken.map_err(|why| format!("line {}: {}: {why}\n{}", line.number, line.text, stage.trace()))?;
    }
    stage.finish().map_err(|why| format!("at the end: {why}\n{}", stage.trace()))
}

/// Plays all scenarios of a file.
fn play_all(name: &str, text: &str) {
    let scenarios = language::scenarios(text);
    assert!(!scenarios.is_empty(), "{name} has no scenario");
    let mut wrong = Vec::new();
    for (title, lines) in &scenarios {
        let failed = (0..SEEDS).find_map(|seed| play(lines, seed).err().map(|why| format!("seed {seed}, {why}")));
        wrong.extend(failed.map(|why| format!("{name}: {title}\n  {why}")));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), scenarios.len(), wrong.join("\n\n"));
}

#[test]
fn delivery() {
    play_all("delivery.txt", include_str!("scenarios/delivery.txt"));
}

#[test]
fn judging() {
    play_all("judging.txt", include_str!("scenarios/judging.txt"));
}

#[test]
fn partitions() {
    play_all("partitions.txt", include_str!("scenarios/partitions.txt"));
}

#[test]
fn operators() {
    play_all("operators.txt", include_str!("scenarios/operators.txt"));
}

#[test]
fn a_scenario_that_is_wrong_says_where() {
    let wrong = |text: &str| play(&language::scenarios(text)[0].1, 0).unwrap_err();
    assert!(wrong("# T\nwrite in:0: a\nstrat one\n").starts_with("line 3: strat one: no such command"));
    assert!(
        wrong("# T\nstart one\nwrite in:0: a a\nuntil delivered\nexpect in:0: unique, unique\n")
            .contains("duplicate of in:0:0")
    );
    assert!(wrong("# T\nwrite in:0: a\n").contains("at the end"), "no worker delivers it");
}
