//! What can be done with a replay in each of its states: planned, running, interrupted, done.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::broker::{Broker, wait};
use super::first_start::{CliOutput, CliRunner};
use super::process::Process;
use super::run::partitions::set_offset;
use super::run::text;
use super::run::topics::{page, produce};
use super::terminal::output_on_a_terminal;

const PAGES: u32 = 300;

/// A replay of some seconds, and a rate at which it takes five minutes.
const RUN: [&str; 9] = ["replay", "run", "--from", "start", "--order", "time", "--id", "x", "--execute"];
const SLOW: [&str; 2] = ["--rate", "1/s"];

/// Topics with pages that a replay can judge.
fn cli_with_pages(broker: &Broker) -> CliRunner {
    let mut cli = CliRunner::new(broker);
    cli.input = broker.topic("pages", 1);
    produce(broker, &cli.input, 0, &(0..PAGES).map(|number| page(&text(number))).collect::<Vec<_>>());
    cli
}

fn ask(broker: &Broker, cli: &CliRunner, arguments: &[&str]) -> CliOutput {
    cli.ask_with(broker.address(), "", arguments)
}

/// Starts a command that goes on.
fn start(broker: &Broker, cli: &CliRunner, arguments: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
    command.args(arguments).args(["-q", "-c", &cli.files(broker.address(), "")]);
    Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(cli.log_of("replay")))
}

/// The status of the replay `x`.
fn status(broker: &Broker, cli: &CliRunner) -> Option<Value> {
    let status = ask(broker, cli, &["replay", "status", "x", "-o", "jsonl"]);
    (status.code == Some(0)).then(|| serde_json::from_str(&status.out).expect("JSON"))
}

/// How many pages a replay has judged.
fn pages_of(status: &Value) -> Option<u64> {
    status.pointer("/counts/pages")?.as_u64()
}

/// Starts the replay `x`, and waits until it has committed pages.
fn start_slow(broker: &Broker, cli: &CliRunner) -> Process {
    let mut running = start(broker, cli, &[&RUN[..], &SLOW].concat());
    wait::until("the first commit", || {
        assert!(running.try_wait().expect("a status").is_none(), "it has ended: {}", cli.log("replay"));
        pages_of(&status(broker, cli)?).filter(|pages| *pages > 0)
    });
    running
}

#[test]
fn a_replay_that_exists_is_not_planned_again() {
    let Some(broker) = Broker::shared() else { return };
    let cli = cli_with_pages(broker);
    let folder = cli.folder("plans");
    std::fs::create_dir(&folder).expect("a folder");
    let plan = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
        command.args(["replay", "plan", "--from", "start", "--order", "time", "--id", "x", "--no-sample"]).args(more);
        let output = command.args(["-q", "-c", &cli.files(broker.address(), "")]).current_dir(&folder).output();
        let output = output.expect("the program");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let read = || std::fs::read_to_string(folder.join("replay-x.json")).expect("the plan");

    // Planned: a file that was not named is not overwritten.
    assert_eq!(plan(&[]).0, Some(0));
    let planned = read();
    let (code, message) = plan(&[]);
    assert!(code == Some(2) && message.contains("replay-x.json: it exists; name a file by --plan-out"), "{message}");
    assert_eq!(plan(&["--plan-out", "replay-x.json"]).0, Some(0));
    assert_ne!(read(), planned);

    let planned = read();
    let file = folder.join("replay-x.json");
    let refused = |state: &str| {
        let (code, message) = plan(&["--plan-out", "replay-x.json"]);
        let run = |run: &[&str]| ask(broker, &cli, run);
        let without_plan = run(&RUN[..RUN.len() - 1]);
        let with_plan = run(&["replay", "run", file.to_str().expect("a path")]);
        let refused = [(code, message), (without_plan.code, without_plan.err), (with_plan.code, with_plan.err)];
        for (code, message) in refused {
            assert_eq!(code, Some(78), "{state}: {message}");
            for way_on in ["`dupgate replay resume x`", "`dupgate replay clean x --execute`", "another --id"] {
                assert!(message.contains(way_on), "{state}: {message}");
            }
        }
        assert_eq!(read(), planned, "{state}");
    };
    let mut running = start_slow(broker, &cli);
    refused("running");
    running.kill().expect("a running replay");
    running.wait().expect("its end");
    refused("interrupted");
    let resumed = ask(broker, &cli, &["replay", "resume", "x"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.err);
    refused("done");

    let none = plan(&["--plan-out", "none.json", "--into", "none"]);
    assert_eq!(none.0, Some(0), "a replay that leaves nothing needs no name of its own: {}", none.1);
    assert_eq!(ask(broker, &cli, &["replay", "clean", "x", "--execute"]).code, Some(0));
    assert_eq!(plan(&["--plan-out", "replay-x.json"]).0, Some(0));
}

#[test]
fn a_running_an_interrupted_and_a_finished_replay_are_told_apart() {
    let Some(broker) = Broker::shared() else { return };
    let cli = cli_with_pages(broker);
    let table = || ask(broker, &cli, &["replay", "list", "-o", "table"]);
    let mut running = start_slow(broker, &cli);
    let seen = status(broker, &cli).expect("the replay");
    assert_eq!((&seen["state"], &seen["process"]), (&"running".into(), &running.id().into()), "{seen}");
    assert_eq!(seen["next"], Value::Null);
    let listed = table();
    assert!(listed.out.contains("x       running "), "{}", listed.out);
    assert!(!listed.err.contains("resume"), "{}", listed.err);
    let second = ask(broker, &cli, &["replay", "resume", "x"]);
    assert_eq!(second.code, Some(78), "{}", second.err);
    let named = format!("replay `x` is already running on this machine as process {}", running.id());
    assert!(second.err.contains(&named) && second.err.contains("dupgate replay status x --watch"), "{}", second.err);

    // On another machine, nothing is known but what is committed.
    let elsewhere = format!("index.path={}", cli.folder("elsewhere").display());
    let seen = ask(broker, &cli, &["replay", "status", "x", "-o", "jsonl", "-s", &elsewhere]);
    let seen: Value = serde_json::from_str(&seen.out).expect("JSON");
    assert_eq!(seen["state"], "begun", "{seen}");

    running.kill().expect("a running replay");
    running.wait().expect("its end");
    let seen = status(broker, &cli).expect("the replay");
    assert_eq!((&seen["state"], &seen["process"]), (&"interrupted".into(), &Value::Null), "{seen}");
    assert_eq!(seen["next"], "dupgate replay resume x");
    let pages = pages_of(&seen).expect("a number of pages");
    assert_eq!(seen["percent"], pages * 100 / u64::from(PAGES));
    let listed = table();
    assert!(listed.out.contains(&format!("x       interrupted  {} %", seen["percent"])), "{}", listed.out);
    assert!(listed.err.contains("x is interrupted: `dupgate replay resume x` continues it"), "{}", listed.err);

    assert_eq!(ask(broker, &cli, &["replay", "resume", "x"]).code, Some(0));
    assert_eq!(status(broker, &cli).expect("the replay")["state"], "done");
}

/// A replay that has committed nothing is not the same as one that was only planned: its topics exist.
#[test]
fn a_replay_that_was_killed_before_its_first_commit_is_interrupted() {
    let Some(broker) = Broker::shared() else { return };
    let cli = cli_with_pages(broker);
    // It waits for a service that has read nothing, and never will.
    set_offset(broker, &cli.group, &cli.input, 0, 0);
    let mut running = start(broker, &cli, &[&RUN[..], &["--yield-to-lag", "0"]].concat());
    let waits = || status(broker, &cli).filter(|seen| seen["state"] == "running" && seen["counts"]["pages"] == 0);
    wait::until("it runs", waits);
    running.kill().expect("a running replay");
    running.wait().expect("its end");
    let seen = ask(broker, &cli, &["replay", "status", "x", "-o", "jsonl"]);
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    let seen: Value = serde_json::from_str(&seen.out).expect("JSON");
    assert_eq!((&seen["state"], &seen["counts"]["pages"]), (&"interrupted".into(), &0.into()), "{seen}");
}

#[test]
fn all_replays_are_watched_until_none_runs() {
    let Some(broker) = Broker::shared() else { return };
    let cli = cli_with_pages(broker);
    let files = cli.files(broker.address(), "");
    let none = ask(broker, &cli, &["replay", "status", "--watch"]);
    assert_eq!(none.code, Some(0), "{}", none.err);

    let mut running = start_slow(broker, &cli);
    let (lines, screen) = std::thread::scope(|scope| {
        let lines = scope.spawn(|| ask(broker, &cli, &["replay", "status", "--watch", "-o", "jsonl"]));
        let screen = scope.spawn(|| output_on_a_terminal(&["replay", "status", "--watch", "-c", &files]));
        // Both end with it, so it is stopped once they have begun.
        let begun = status(broker, &cli).as_ref().and_then(pages_of).expect("a number of pages");
        wait::until("some more commits", || pages_of(&status(broker, &cli)?).filter(|pages| *pages > begun + 5));
        running.kill().expect("a running replay");
        (lines.join().expect("the watch"), screen.join().expect("the watch"))
    });
    assert_eq!(lines.code, Some(0), "{}", lines.err);
    let seen: Vec<Value> = lines.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let states: Vec<&str> = seen.iter().filter_map(|seen| seen["state"].as_str()).collect();
    assert!(states.len() > 2 && states.first() == Some(&"running"), "{states:?}");
    assert_eq!(states.iter().position(|state| *state == "interrupted"), Some(states.len() - 1), "{states:?}");
    // Each table begins on an empty screen.
    assert_eq!(screen.matches("\x1b[H\x1b[2J").count(), screen.matches("REPLAY").count(), "{screen:?}");
    assert!(screen.contains("running") && screen.contains("interrupted"), "{screen:?}");
}
