//! What the topics of both logs are, on clusters with the settings that users have: as `run` creates them, and as it
//! finds them.

use std::process::{Command, Stdio};

use super::acl::allow;
use super::broker::{Broker, wait};
use super::first_start::CliRunner;
use super::messages::marks;
use super::permits::documented;
use super::process::Process;
use super::run::text;
use super::run::topics::{committed, page, produce};
use super::secured::{SECRET, sasl};

/// Starts the service with this configuration, and further settings.
fn start(cli: &CliRunner, address: &str, more: &str) -> Process {
    Process::start(
        Command::new(env!("CARGO_BIN_EXE_dupgate"))
            .args(["run", "-c", &cli.files(address, more)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(cli.log_of("service")),
    )
}

/// A configuration whose input and outputs exist, and whose logs do not.
fn without_logs(broker: &Broker) -> CliRunner {
    let mut cli = CliRunner::new(broker);
    cli.input = broker.topic("pages", 1);
    cli.outputs = ["unique", "duplicate", "dead"].map(|name| broker.topic(name, 1));
    cli
}

/// The names of both logs, the fingerprint log first.
fn logs(cli: &CliRunner, broker: &Broker) -> [String; 2] {
    let dry = cli.ask_with(broker.address(), "", &["topics", "create", "-o", "jsonl"]);
    assert_eq!(dry.code, Some(0), "{}", dry.err);
    let rows = dry.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let names: Vec<String> = rows.filter_map(|row| Some(row.get("topic")?.as_str()?.to_owned())).collect();
    super::first_start::logs_of(&names)
}

/// Settings of a topic by name, and its replicas.
fn of_topic<const N: usize>(broker: &Broker, topic: &str, names: [&str; N]) -> ([String; N], usize) {
    let (settings, replicas) = broker.describe(topic).expect("a topic");
    (names.map(|name| settings.get(name).cloned().unwrap_or_default()), replicas)
}

#[test]
fn run_creates_logs_that_keep_their_records_where_brokers_create_topics_by_themselves() {
    let Some(broker) = Broker::shared() else { return };
    let cli = without_logs(broker);
    let [fingerprints, verdicts] = logs(&cli, broker);
    assert!(
        broker.describe(&fingerprints).is_none() && broker.describe(&verdicts).is_none(),
        "no command creates them"
    );
    let _service = start(&cli, broker.address(), "");
    produce(broker, &cli.input, 0, &[page(&text(1))]);
    committed(broker, &cli.outputs[0], 1);
    for log in [&fingerprints, &verdicts] {
        let names = ["retention.ms", "retention.bytes", "cleanup.policy", "max.message.bytes"];
        assert_eq!(of_topic(broker, log, names).0, ["-1", "-1", "delete", "2097152"], "{log}");
    }
    assert_eq!(of_topic(broker, &fingerprints, ["message.timestamp.type"]).0, ["LogAppendTime"]);
}

#[test]
fn outputs_that_do_not_exist_are_missing_and_are_not_created() {
    let Some(broker) = Broker::shared() else { return };
    let mut cli = without_logs(broker);
    cli.outputs[1] = broker.unique("misspelt");
    let ran = cli.ask_with(broker.address(), "", &["run"]);
    assert_eq!(ran.code, Some(78), "{}", ran.err);
    assert!(ran.err.contains(&format!("missing topics: `{}`", cli.outputs[1])), "{}", ran.err);
    assert!(broker.describe(&cli.outputs[1]).is_none(), "a typo makes no topic");
}

#[test]
fn settings_of_a_log_that_would_lose_data_are_mended_where_that_is_allowed() {
    let Some(broker) = Broker::shared() else { return };
    let cli = without_logs(broker);
    let [fingerprints, verdicts] = logs(&cli, broker);
    // As brokers create topics for those who ask for them, but for a segment size that somebody has set.
    broker.create_topic(&fingerprints, 1, &[("segment.bytes", "104857600")]);
    broker.create_topic(&verdicts, 1, &[]);
    let _service = start(&cli, broker.address(), "");
    produce(broker, &cli.input, 0, &[page(&text(1))]);
    committed(broker, &cli.outputs[0], 1);
    let names = ["retention.ms", "message.timestamp.type", "segment.bytes"];
    assert_eq!(of_topic(broker, &fingerprints, names).0, ["-1", "LogAppendTime", "104857600"]);
    assert_eq!(of_topic(broker, &verdicts, ["retention.ms"]).0, ["-1"]);
    let log = cli.log("service");
    assert!(log.contains("changed settings of the log") && log.contains("retention.ms is 604800000"), "{log}");
}

#[test]
fn settings_of_a_log_that_would_lose_data_stop_the_start_where_they_cannot_be_mended() {
    let Some(broker) = Broker::secured() else { return };
    let cli = without_logs(broker);
    let [fingerprints, verdicts] = logs(&cli, broker);
    broker.create_topic(&fingerprints, 1, &[("retention.ms", "-1"), ("message.timestamp.type", "LogAppendTime")]);
    broker.create_topic(&verdicts, 1, &[("retention.ms", "3600000")]);
    for (resource, prefix, operations) in documented(&cli) {
        allow(broker, "bob", resource, &prefix, &operations);
    }
    let bob = sasl(broker, "SASL_SSL", "scram-sha-512", "bob", SECRET);
    let ran = cli.ask_with(broker.way("SASL_SSL"), &bob, &["run"]);
    assert_eq!(ran.code, Some(78), "{}", ran.err);
    for expected in [
        "retention.ms is 3600000, expected -1: records would be deleted",
        &format!("--entity-name {verdicts} --add-config retention.ms=-1"),
        "or allow AlterConfigs",
    ] {
        assert!(ran.err.contains(expected), "{expected}: {}", ran.err);
    }
    assert_eq!(marks(broker, &verdicts, "read_uncommitted"), (0, 0), "it has judged nothing");
}

#[test]
fn a_start_without_the_right_to_read_settings_says_so_once_and_goes_on() {
    use rdkafka::bindings::rd_kafka_AclOperation_t::{
        RD_KAFKA_ACL_OPERATION_DESCRIBE as DESCRIBE, RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS as DESCRIBE_CONFIGS,
    };
    let Some(broker) = Broker::secured() else { return };
    let cli = without_logs(broker);
    for (resource, prefix, mut operations) in documented(&cli) {
        operations.retain(|operation| *operation != DESCRIBE_CONFIGS);
        operations.push(DESCRIBE);
        allow(broker, "bob", resource, &prefix, &operations);
    }
    let bob = sasl(broker, "SASL_SSL", "scram-sha-512", "bob", SECRET);
    let _service = start(&cli, broker.way("SASL_SSL"), &bob);
    produce(broker, &cli.input, 0, &[page(&text(1))]);
    committed(broker, &cli.outputs[0], 1);
    let log = cli.log("service");
    assert_eq!(log.matches("do not show the settings of the log").count(), 2, "once for each log: {log}");
    assert!(log.contains("--operation DescribeConfigs --topic '"), "{log}");
}

#[test]
fn with_the_documented_permissions_both_logs_are_on_three_brokers() {
    let Some(cluster) = Broker::three_secured("") else { return };
    let cli = without_logs(&cluster);
    let logs = logs(&cli, &cluster);
    for (resource, prefix, operations) in documented(&cli) {
        allow(&cluster, "bob", resource, &prefix, &operations);
    }
    let bob = sasl(&cluster, "SASL_SSL", "scram-sha-512", "bob", SECRET);
    let service = start(&cli, cluster.way("SASL_SSL"), &bob);
    produce(&cluster, &cli.input, 0, &[page(&text(1))]);
    committed(&cluster, &cli.outputs[0], 1);
    drop(service);
    let names = ["min.insync.replicas", "retention.ms"];
    let planned = (["2".to_owned(), "-1".to_owned()], 3);
    for log in &logs {
        assert_eq!(of_topic(&cluster, log, names), planned, "{log}");
    }

    // The same for an operator who creates them beforehand.
    let other = without_logs(&cluster);
    let created = other.create_topics(cluster.address(), "", &[]);
    for log in super::first_start::logs_of(&created) {
        assert_eq!(of_topic(&cluster, &log, names), planned, "{log}");
    }

    // One replica is refused, unless somebody has asked for it.
    let single = without_logs(&cluster);
    let one = "logs: {replication_factor: 1}\n";
    for log in super::first_start::logs_of(&single.create_topics(cluster.address(), one, &[])) {
        assert_eq!(of_topic(&cluster, &log, names).1, 1, "{log}");
    }
    let ran = single.ask_with(cluster.address(), "", &["run"]);
    assert_eq!(ran.code, Some(78), "{}", ran.err);
    assert!(ran.err.contains("has one replica on 3 brokers") && ran.err.contains("kafka-reassign"), "{}", ran.err);
    let _service = start(&single, cluster.address(), one);
    produce(&cluster, &single.input, 0, &[page(&text(2))]);
    wait::until("a page of the service with one replica", || {
        (committed(&cluster, &single.outputs[0], 1).len() == 1).then_some(())
    });
}
