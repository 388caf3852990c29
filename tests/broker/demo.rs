//! The demo over a real broker, fed and scored by its own commands.

use std::process::{Command, Output, Stdio};

use dupgate::crawl::{Crawl, CrawlSettings};
use serde_json::Value;

use crate::broker::Broker;
use crate::messages::committed_payloads;

pub(super) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DUPGATE_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
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
