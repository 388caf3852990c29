//! Named situations, told in the language of `scenarios/README.md`, on the real judge and the real worker. The laws are
//! checked after every step, as everywhere here; what a scenario expects comes on top.

mod language;
mod stage;

use language::Line;
use stage::Stage;

/// The order in which the drivers move is by chance: each scenario has to hold for some of them.
const SEEDS: u64 = 20;

/// Tells a scenario. Returns what is wrong, and where.
fn tell(lines: &[Line<'_>], seed: u64) -> Result<(), String> {
    let mut stage = Stage::new(seed);
    for line in lines {
        let told = language::command(line.text).and_then(|command| stage.take(command));
        told.map_err(|why| format!("line {}: {}: {why}\n{}", line.number, line.text, stage.trace()))?;
    }
    stage.finish().map_err(|why| format!("at the end: {why}\n{}", stage.trace()))
}

/// Tells all scenarios of a file.
fn tell_all(name: &str, text: &str) {
    let scenarios = language::scenarios(text);
    assert!(!scenarios.is_empty(), "{name} has no scenario");
    let mut wrong = Vec::new();
    for (title, lines) in &scenarios {
        let told = (0..SEEDS).find_map(|seed| tell(lines, seed).err().map(|why| format!("seed {seed}, {why}")));
        wrong.extend(told.map(|why| format!("{name}: {title}\n  {why}")));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), scenarios.len(), wrong.join("\n\n"));
}

#[test]
fn delivery() {
    tell_all("delivery.txt", include_str!("scenarios/delivery.txt"));
}

#[test]
fn judging() {
    tell_all("judging.txt", include_str!("scenarios/judging.txt"));
}

#[test]
fn partitions() {
    tell_all("partitions.txt", include_str!("scenarios/partitions.txt"));
}

#[test]
fn operators() {
    tell_all("operators.txt", include_str!("scenarios/operators.txt"));
}

#[test]
fn a_scenario_that_is_wrong_says_where() {
    let wrong = |text: &str| tell(&language::scenarios(text)[0].1, 0).unwrap_err();
    assert!(wrong("# T\nwrite in:0: a\nstrat one\n").starts_with("line 3: strat one: no such command"));
    assert!(
        wrong("# T\nstart one\nwrite in:0: a a\nuntil delivered\nexpect in:0: unique, unique\n")
            .contains("duplicate of in:0:0")
    );
    assert!(wrong("# T\nwrite in:0: a\n").contains("at the end"), "nobody delivers it");
}
