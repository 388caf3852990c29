//! Replays without all permissions, or with a full disk.

use rdkafka::bindings::rd_kafka_AclOperation_t::{
    self as Operation, RD_KAFKA_ACL_OPERATION_CREATE as CREATE, RD_KAFKA_ACL_OPERATION_DELETE as DELETE,
    RD_KAFKA_ACL_OPERATION_DESCRIBE as DESCRIBE, RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS as CONFIGS,
    RD_KAFKA_ACL_OPERATION_READ as READ, RD_KAFKA_ACL_OPERATION_WRITE as WRITE,
};
use rdkafka::bindings::rd_kafka_ResourceType_t::{
    self as Resource, RD_KAFKA_RESOURCE_GROUP as GROUP, RD_KAFKA_RESOURCE_TOPIC as TOPIC,
    RD_KAFKA_RESOURCE_TRANSACTIONAL_ID as ID,
};

use super::acl::allow;
use super::broker::{Broker, wait};
use super::first_start::{CliOutput, CliRunner};
use super::run::text;
use super::run::topics::{Given, committed, page, produce};
use super::secured::{SECRET, cli, sasl};

/// Writes pages that a replay can judge.
fn pages(broker: &Broker, input: &str) {
    produce(broker, input, 0, &[page(&text(1)), page(&text(1)), page(&text(2))]);
}

/// All permissions of a replay, as `docs/REPLAY.md` lists it.
fn all(cli: &CliRunner) -> Vec<(Resource, String, Vec<Operation>)> {
    let own = format!("{}.replay.", cli.group);
    let mut permits = vec![
        (TOPIC, cli.input.clone(), vec![READ, CONFIGS]),
        (GROUP, cli.group.clone(), vec![DESCRIBE]),
        (TOPIC, own.clone(), vec![CREATE, READ, WRITE, DELETE]),
        (GROUP, own.clone(), vec![READ, DELETE]),
        (ID, own, vec![WRITE]),
    ];
    for output in &cli.outputs {
        permits.push((TOPIC, output.clone(), vec![DESCRIBE, CONFIGS]));
        permits.push((TOPIC, format!("{output}.replay."), vec![CREATE, WRITE, DELETE]));
    }
    permits
}

fn grant(broker: &Broker, permits: &[(Resource, String, Vec<Operation>)]) {
    permits.iter().for_each(|(resource, prefix, operations)| allow(broker, "bob", *resource, prefix, operations));
}

fn ask(broker: &Broker, cli: &CliRunner, arguments: &[&str]) -> CliOutput {
    let bob = sasl(broker, "SASL_SSL", "scram-sha-512", "bob", SECRET);
    let output = cli.ask_with(broker.way("SASL_SSL"), &bob, arguments);
    assert!(!output.err.contains(SECRET), "the password is shown: {}", output.err);
    output
}

#[test]
fn a_replay_without_any_permission_names_the_acl_to_add() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    for arguments in [&RUN[..], &["replay", "plan", "--from", "start", "--order", "time", "--id", "x"]] {
        let refused = ask(broker, &cli, arguments);
        assert_eq!(refused.code, Some(77), "{arguments:?}: {}", refused.err);
        assert!(refused.err.contains("add the ACL: kafka-acls.sh"), "{}", refused.err);
        assert!(refused.err.contains(&format!("--topic '{}'", cli.input)), "{}", refused.err);
    }
}

const RUN: [&str; 9] = ["replay", "run", "--from", "start", "--order", "time", "--id", "x", "--execute"];

#[test]
fn the_documented_permissions_of_replays_are_sufficient() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    pages(broker, &cli.input);
    grant(broker, &all(&cli));
    let done = ask(broker, &cli, &RUN);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(committed(broker, &format!("{}.replay.x", cli.outputs[0]), 2).len(), 2);
    for command in [&["replay", "status", "x"][..], &["replay", "list"], &["replay", "clean", "x", "--execute"]] {
        let output = ask(broker, &cli, command);
        assert_eq!(output.code, Some(0), "{command:?}: {}", output.err);
    }
}

#[test]
fn a_replay_names_a_missing_permission_and_continues_once_it_is_granted() {
    let Some(broker) = Broker::secured() else { return };
    let without =
        |resource: Resource, prefix: &dyn Fn(&CliRunner) -> String, operation: Operation, message: &[&str]| {
            let cli = cli(broker);
            pages(broker, &cli.input);
            let (permits, prefix) = (all(&cli), prefix(&cli));
            let mut fewer = permits.clone();
            for (of, under, operations) in &mut fewer {
                if *of == resource && *under == prefix {
                    operations.retain(|permitted| *permitted != operation);
                    operations.push(DESCRIBE);
                }
            }
            grant(broker, &fewer);
            // A broker learns of permissions some time after they were granted.
            wait::until(&format!("{message:?} to be reported"), || {
                let refused = ask(broker, &cli, &RUN);
                assert_ne!(refused.code, Some(0), "{message:?}");
                (refused.code == Some(77) && message.iter().all(|message| refused.err.contains(message))).then_some(())
            });
            grant(broker, &permits);
            wait::until(&format!("the replay to end once {message:?} is granted"), || {
                let run = ask(broker, &cli, &RUN);
                let done = if run.code == Some(0) { run } else { ask(broker, &cli, &["replay", "resume", "x"]) };
                (done.code == Some(0)).then_some(())
            });
            assert_eq!(committed(broker, &format!("{}.replay.x", cli.outputs[0]), 2).len(), 2, "{message:?}");
        };
    let own = |cli: &CliRunner| format!("{}.replay.", cli.group);
    without(TOPIC, &|cli| cli.input.clone(), READ, &["--operation Read --topic"]);
    without(TOPIC, &own, CREATE, &["--operation Create --topic"]);
    without(TOPIC, &|cli| format!("{}.replay.", cli.outputs[0]), CREATE, &["--operation Create --topic"]);
    without(TOPIC, &|cli| format!("{}.replay.", cli.outputs[0]), WRITE, &["--operation Write --topic", "unique-"]);
    without(ID, &own, WRITE, &["Write --transactional-id"]);
    without(GROUP, &own, READ, &["Read --group"]);
}

#[test]
fn a_full_disk_loses_the_report_and_nothing_of_the_replay() {
    let Some(broker) = Broker::shared() else { return };
    let cli = cli(broker);
    pages(broker, &cli.input);
    let ask = |arguments: &[&str]| cli.ask_with(broker.address(), "", arguments);
    let full = |arguments: &[&str]| {
        let output = ask(arguments);
        assert_eq!(output.code, Some(74), "{arguments:?}: {}", output.err);
        assert!(output.err.contains("/dev/full") && output.err.contains("No space left on device"), "{}", output.err);
    };
    full(&["replay", "plan", "--from", "start", "--order", "time", "--id", "x", "--plan-out", "/dev/full"]);
    full(&[&RUN[..], &["--report", "/dev/full"]].concat());
    let status = ask(&["replay", "status", "x", "-o", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status.out).expect("JSON");
    assert_eq!((&status[0]["state"], &status[0]["counts"]["pages"]), (&"done".into(), &3.into()), "{status}");
    assert_eq!(committed(broker, &format!("{}.replay.x", cli.outputs[0]), 2).len(), 2);
    let report = cli.folder("report.json");
    let again = ask(&["replay", "resume", "x", "-o", "json", "--report", report.to_str().expect("a path")]);
    assert_eq!(again.code, Some(0), "{}", again.err);
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let (written, shown) = (read(&std::fs::read_to_string(&report).expect("the report")), read(&again.out));
    assert_eq!(written["variants"][0]["counts"]["pages"], 3, "{written}");
    assert_eq!(written, shown);
}

#[test]
fn a_report_that_cannot_be_written_stops_the_replay_before_it_begins() {
    let Some(broker) = Broker::shared() else { return };
    let cli = cli(broker);
    pages(broker, &cli.input);
    let ask = |arguments: &[&str]| cli.ask_with(broker.address(), "", arguments);
    let refused = ask(&[&RUN[..], &["--report", "/nowhere/report.json"]].concat());
    assert_eq!(refused.code, Some(74), "{}", refused.err);
    assert!(refused.err.contains("/nowhere/report.json") && refused.err.contains("--report"), "{}", refused.err);
    let status = ask(&["replay", "status", "x"]);
    assert_eq!(status.code, Some(66), "{} {}", status.out, status.err);
}

#[test]
fn a_replay_of_another_group_with_the_same_id_and_outputs_is_left_alone() {
    let Some(broker) = Broker::shared() else { return };
    let cli = cli(broker);
    pages(broker, &cli.input);
    let mut other = CliRunner::new(broker);
    (other.input, other.outputs) = (cli.input.clone(), cli.outputs.clone());
    let done = cli.ask_with(broker.address(), "", &RUN);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let shadow = format!("{}.replay.x", cli.outputs[0]);
    for arguments in [&RUN[..], &["replay", "clean", "x", "--execute"]] {
        let refused = other.ask_with(broker.address(), "", arguments);
        assert_ne!(refused.code, Some(0), "{arguments:?}: {}", refused.out);
        assert_eq!(committed(broker, &shadow, 2).len(), 2, "{arguments:?}");
    }
    let refused = other.ask_with(broker.address(), "", &RUN);
    assert_eq!(refused.code, Some(78), "{}", refused.err);
    assert!(refused.err.contains(&shadow) && refused.err.contains("choose another --id"), "{}", refused.err);
    // What belongs to a replay goes with it.
    let clean = cli.ask_with(broker.address(), "", &["replay", "clean", "x", "--execute"]);
    assert!(clean.code == Some(0) && clean.out.contains(&shadow), "{} {}", clean.out, clean.err);
}

#[test]
fn one_page_with_a_wrong_clock_does_not_end_the_window_of_all_others() {
    const HOUR: i64 = 3_600_000;
    const BEGIN: i64 = 1_760_000_000_000;
    let Some(broker) = Broker::shared() else { return };
    let cli = cli(broker);
    let fetched = |number: u32, written: i64, fetched_at: i64| {
        let value = serde_json::json!({ "text": text(number), "fetched_at": fetched_at });
        Given { timestamp: Some(written), ..Given::value(&value.to_string()) }
    };
    // Ten pages and their copies, half an hour apart. After the first one comes a page of next month.
    let mut pages: Vec<Given> = (0..10)
        .flat_map(|number| {
            let time = BEGIN + i64::from(number) * HOUR;
            [fetched(number, time, time), fetched(number, time + HOUR / 2, time + HOUR / 2)]
        })
        .collect();
    pages.insert(1, fetched(99, BEGIN, BEGIN + 30 * 24 * HOUR));
    produce(broker, &cli.input, 0, &pages);
    let field = "window: {size: 3h, allowed_lateness: 1h, timestamp_source: field}\ninput: {fields: {fetched_at: /fetched_at}}\n";
    let run = cli.ask_with(broker.address(), field, &[&RUN[..], &["--into", "none", "-o", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&run.out).expect(&run.err);
    let verdicts = &report["variants"][0]["counts"]["verdicts"];
    assert_eq!((&verdicts["exact"], &verdicts["unique"]), (&10.into(), &11.into()), "{report}");
}

/// Brokers accept timestamps of the future if their topic says so, or if they are old.
#[test]
fn records_of_the_future_end_no_window_and_hold_no_partition() {
    const HOUR: i64 = 3_600_000;
    const BEGIN: i64 = 1_760_000_000_000;
    const FUTURE: i64 = 4_000_000_000_000;
    let Some(broker) = Broker::shared() else { return };
    let mut cli = CliRunner::new(broker);
    cli.input = broker.topic_with("pages", 2, &[("message.timestamp.after.max.ms", "9223372036854775807")]);
    let written = |number: u32, time: i64| Given { timestamp: Some(time), ..page(&text(number)) };
    // Ten pages and their copies, half an hour apart. After the first one comes a page of the future.
    let mut pages: Vec<Given> = (0..10)
        .flat_map(|number| {
            let time = BEGIN + i64::from(number) * HOUR;
            [written(number, time), written(number, time + HOUR / 2)]
        })
        .collect();
    pages.insert(1, written(99, FUTURE));
    produce(broker, &cli.input, 0, &pages);
    // More of them than decide the time of a partition together, before another copy of the sixth page.
    let mut others: Vec<Given> = (100..112).map(|number| written(number, FUTURE)).collect();
    others.push(written(5, BEGIN + 6 * HOUR));
    produce(broker, &cli.input, 1, &others);
    let field = "window: {size: 3h, allowed_lateness: 1h}\n";
    let run = |more: &[&str]| {
        let run = cli.ask_with(broker.address(), field, &[&RUN[..], more, &["-o", "json"]].concat());
        let report: serde_json::Value = serde_json::from_str(&run.out).expect(&run.err);
        let counts = &report["variants"][0]["counts"];
        assert_eq!(counts["verdicts"], serde_json::json!({"exact": 11, "unique": 23}), "{report}");
        report["digests"]["verdicts"].clone()
    };
    let none = run(&["--into", "none"]);
    assert_eq!(run(&[]), none, "the same verdicts each time");
}
