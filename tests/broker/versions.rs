//! The oldest and the newest Apache Kafka that `docs/OPERATIONS.md` names: a start on an empty cluster, pages in and out,
//! and a restart of the service. All other tests run on the version in `kafka.sh`.

use std::process::{Command, Stdio};

use super::broker::Broker;
use super::first_start::CliRunner;
use super::process::Process;
use super::run::text;
use super::run::topics::{committed, page, produce};

fn works_with(version: &str) {
    let named = include_str!("../../docs/OPERATIONS.md").lines().find(|line| line.starts_with("| Apache Kafka 3."));
    let short = version.rsplit_once('.').expect("a version").0;
    assert!(named.is_some_and(|row| row.contains(short)), "{version} is not the one of the documents: {named:?}");
    let Some(broker) = Broker::of_version(version) else { return };
    let mut cli = CliRunner::new(&broker);
    // The pages are old, and only newer brokers can be told to delete nothing for a while.
    cli.input = broker.topic_with("pages", 2, &[("retention.ms", "-1")]);
    cli.create_topics(broker.address(), "", &[]);
    let checked = cli.ask_with(broker.address(), "", &["check"]);
    assert_eq!(checked.code, Some(0), "{version}: {}{}", checked.out, checked.err);
    let start = |name: &str| {
        Process::start(
            Command::new(env!("CARGO_BIN_EXE_dupgate"))
                .args(["run", "-c", &cli.files(broker.address(), "")])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(cli.log_of(name)),
        )
    };
    let first = start("first");
    produce(&broker, &cli.input, 0, &[page(&text(1)), page(&text(2))]);
    produce(&broker, &cli.input, 1, &[page(&text(3))]);
    assert_eq!(committed(&broker, &cli.outputs[0], 3).len(), 3, "{version}");
    // Killed: the next one finds an open transaction at most, and all verdicts.
    drop(first);
    let _second = start("second");
    produce(&broker, &cli.input, 1, &[page(&text(1)), page(&text(4))]);
    assert_eq!(committed(&broker, &cli.outputs[1], 1).len(), 1, "{version}");
    assert_eq!(committed(&broker, &cli.outputs[0], 4).len(), 4, "{version}");
    for log in ["first", "second"] {
        assert!(!cli.log(log).contains("do not show the settings"), "{version}: {}", cli.log(log));
    }
}

#[test]
fn the_oldest_kafka_works() {
    works_with("3.3.2");
}

#[test]
fn the_newest_kafka_works() {
    works_with("4.4.0");
}
