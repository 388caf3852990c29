//! The demo over a real broker, fed and scored by its own commands.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use dupgate::crawl::{Crawl, CrawlSettings};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

use crate::broker::Broker;
use crate::messages::committed_payloads;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DUPGATE_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command with standard error on a terminal of this many columns; returns what it shows there.
fn on_a_terminal(columns: u16, arguments: &[&str]) -> String {
    let owner = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&owner).and_then(|()| unlockpt(&owner)).expect("it can be opened");
    tcsetwinsize(&owner, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).expect("it has a size");
    let path = ptsname(&owner, Vec::new()).expect("it has a name").into_string().expect("a path");
    let screen = OpenOptions::new().read(true).write(true).open(Path::new(&path)).expect("it is opened");
    let mut command = command(arguments);
    command.env("TERM", "xterm").stdout(Stdio::null()).stderr(screen);
    let mut child = command.spawn().expect("the binary runs");
    // Now only the program holds the terminal open.
    drop(command);
    let mut shown = Vec::new();
    // Reading fails once nothing holds it open.
    let _ = File::from(owner).read_to_end(&mut shown);
    let status = child.wait().expect("it ends");
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(status.success(), "{arguments:?}: {status:?}\n{shown}");
    shown
}

fn dupgate(arguments: &[&str]) -> Output {
    let output = command(arguments).output().expect("the binary runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {:?}\n{errors}", output.status);
    output
}

#[test]
fn score_reads_back_what_the_demo_saw() {
    let Some(broker) = Broker::shared() else { return };
    let address = broker.address();
    let outputs = ["unique", "duplicate", "dead_letter"].map(|output| {
        let topic = broker.topic(&format!("demo.{output}"), 2);
        format!("output.{output}.topic={topic}")
    });
    let [unique, duplicate, dead] = outputs.each_ref().map(String::as_str);
    let http = ["-s", "http.listen=127.0.0.1:0", "-s", "http.admin.listen=null"];
    let settings = [["-s", unique, "-s", duplicate].as_slice(), &["-s", dead], &http].concat();
    let demo = dupgate(&[&["demo", "--for", "15s", "--brokers", address], settings.as_slice()].concat());
    let seen = String::from_utf8_lossy(&demo.stdout).into_owned();
    assert!(!seen.contains("cannot show"), "a real broker proves delivery: {seen}");

    let input = broker.unique("demo.none");
    let named = format!("input.topics={input}");
    let score =
        dupgate(&[&["demo", "score", "-o", "jsonl", "--brokers", address, "-s", &named], settings.as_slice()].concat());
    let score: Value = serde_json::from_slice(&score.stdout).expect("one JSON object");
    // The same table, from the same outputs: its rows are the same numbers.
    let row = |name: &str| {
        let line = seen.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_default();
        line.split_whitespace().filter_map(|word| word.parse().ok()).take(3).collect::<Vec<u64>>()
    };
    let numbers = |pointer: &str, names: [&str; 3]| {
        let found = score.pointer(pointer).expect("a row");
        names.map(|name| found.get(name).and_then(Value::as_u64).expect("a number")).to_vec()
    };
    assert_eq!(row("exact"), numbers("/copies/exact", ["planted", "found", "missed"]), "{seen}\n{score}");
    assert_eq!(row("unique"), numbers("/unique", ["planted", "kept", "behind_their_copy"]), "{seen}\n{score}");
    assert!(numbers("/copies/exact", ["planted", "found", "missed"])[0] > 5, "{score}");
}

#[test]
fn produce_writes_the_crawl_of_its_arguments() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("demo.produce", 1);
    let arguments =
        ["demo", "produce", "--topic", &topic, "--count", "300", "--rate", "0", "--seed", "7", "--broken", "0"];
    dupgate(&[arguments.as_slice(), &["--brokers", broker.address()]].concat());
    let settings = CrawlSettings { seed: 7, near: 0.2, broken: 0.0, topics: 1, ..CrawlSettings::default() };
    let crawl = Crawl::new(settings).expect("settings of the demo").take(300);
    let mut expected: Vec<String> = crawl.map(|page| String::from_utf8_lossy(&page.value).into_owned()).collect();
    let mut written = committed_payloads(broker, &topic);
    expected.sort();
    written.sort();
    assert!(written == expected, "{} pages written, {} expected", written.len(), expected.len());
}

#[test]
fn produce_shows_its_progress_on_a_terminal() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("demo.shown", 1);
    let arguments = ["demo", "produce", "--topic", &topic, "--rate", "200/s", "--count", "300", "-v"];
    let shown = on_a_terminal(80, &[arguments.as_slice(), &["--brokers", broker.address()]].concat());
    let rows: Vec<&str> = shown.split(['\r', '\n']).filter(|row| row.contains("produce ")).collect();
    let pages: std::collections::BTreeSet<&str> =
        rows.iter().filter_map(|row| row.split(" pages").next()?.split_whitespace().next_back()).collect();
    assert!(pages.len() > 3, "it moves: {pages:?}\n{shown:?}");
    assert!(rows.iter().all(|row| row.contains('%') && row.contains("/s") && row.contains("left ")), "{shown:?}");
    let wide = rows.iter().find(|row| printed(row) > 80);
    assert_eq!(wide, None, "it is wider than the terminal");
    assert!(rows.iter().all(|row| !row.contains("dupgate::") && !row.contains("librdkafka")), "{shown:?}");
    assert!(shown.contains("crawl written"), "{shown:?}");
}

/// Returns how many columns a row takes, without escape sequences.
fn printed(row: &str) -> usize {
    let mut parts = row.split('\x1b');
    let first = parts.next().unwrap_or_default().chars().count();
    let after =
        |part: &str| part.split_once(|c: char| c.is_ascii_alphabetic()).map_or(0, |(_, text)| text.chars().count());
    first + parts.map(after).sum::<usize>()
}
