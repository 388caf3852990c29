//! Permissions: the documented ones are sufficient, and `check` finds each missing one by probes that leave nothing in
//! the cluster.

use std::io::{Read, Seek};

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
use super::messages::marks;
use super::process::Process;
use super::run::text;
use super::run::topics::{committed, page, produce};
use super::secured::{SECRET, cli, sasl};

/// A permission: resource, prefix, operations.
pub(super) type Permit = (Resource, String, Vec<Operation>);

/// The permissions of a worker and judge, read from the table in `docs/OPERATIONS.md`.
pub(super) fn documented(cli: &CliRunner) -> Vec<Permit> {
    let document = include_str!("../../docs/OPERATIONS.md");
    let (_, section) = document.split_once("\n## Permissions\n").expect("a section about permissions");
    let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let mut permits = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, resources, operations, ..] = cells[..] else { panic!("a row of three: {row}") };
        let operations: Vec<Operation> = operations.split(", ").map(operation).collect();
        // `group.verdicts.` and the like stand for themselves.
        let prefixes = || {
            let named = resources.split(" (prefixed").next().unwrap_or_default();
            let quoted = named.split('`').skip(1).step_by(2);
            quoted.map(|prefix| prefix.replacen("group", &cli.group, 1)).collect::<Vec<_>>()
        };
        let (resource, names) = match resources.split_whitespace().next() {
            Some("topics") if resources.starts_with("topics of the input") => (TOPIC, vec![cli.input.clone()]),
            Some("each") => (TOPIC, cli.outputs.to_vec()),
            Some("topics") => (TOPIC, prefixes()),
            Some("groups") => (GROUP, prefixes()),
            Some("transactional") => (ID, prefixes()),
            _ => panic!("an unknown resource: {row}"),
        };
        permits.extend(names.into_iter().map(|name| (resource, name, operations.clone())));
    }
    assert_eq!(permits.len(), 9, "{permits:?}");
    permits
}

fn operation(name: &str) -> Operation {
    match name {
        "Read" => READ,
        "Write" => WRITE,
        "Create" => CREATE,
        "Delete" => DELETE,
        "DescribeConfigs" => CONFIGS,
        _ => panic!("an unknown operation: {name}"),
    }
}

/// Grants bob these permissions, and runs `check` as bob.
fn check(broker: &Broker, cli: &CliRunner, permits: &[Permit]) -> CliOutput {
    for (resource, prefix, operations) in permits {
        allow(broker, "bob", *resource, prefix, operations);
    }
    let bob = sasl(broker, "SASL_SSL", "scram-sha-512", "bob", SECRET);
    cli.ask_with(broker.way("SASL_SSL"), &bob, &["check", "-o", "table"])
}

/// Grants bob everything except one permission; he may still describe that resource.
fn check_without(
    broker: &Broker,
    cli: &CliRunner,
    resource: Resource,
    prefix: &str,
    operation: Operation,
) -> CliOutput {
    let mut permits = documented(cli);
    for (of, under, operations) in &mut permits {
        if *of == resource && under == prefix {
            operations.retain(|permitted| *permitted != operation);
            operations.push(DESCRIBE);
        }
    }
    check(broker, cli, &permits)
}

#[test]
fn the_documented_permissions_are_sufficient() {
    let Some(broker) = Broker::secured() else { return };
    let cli = CliRunner::new(broker);
    let topics = cli.create_topics(broker.address(), "", &[]);
    let output = check(broker, &cli, &documented(&cli));
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    assert!(!output.out.contains("warn"), "{}", output.out);
    // Nothing is left in the cluster: no record, no marker, no member.
    for topic in topics {
        assert_eq!(marks(broker, &topic, "read_uncommitted"), (0, 0), "{topic}");
    }
    let bob = sasl(broker, "SASL_SSL", "scram-sha-512", "bob", SECRET);
    let mut service = Process::start(
        std::process::Command::new(env!("CARGO_BIN_EXE_dupgate"))
            .args(["run", "-q", "-c", &cli.files(broker.way("SASL_SSL"), &bob)])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null()),
    );
    produce(broker, &cli.input, 0, &[page(&text(1)), page(&text(1))]);
    assert_eq!(committed(broker, &cli.outputs[0], 1).len(), 1);
    // A check does not disturb a running service: it adds no group member, which would move its partitions.
    let beside = cli.ask_with(broker.way("SASL_SSL"), &bob, &["check"]);
    assert_eq!(beside.code, Some(0), "{}{}", beside.out, beside.err);
    produce(broker, &cli.input, 0, &[page(&text(2))]);
    assert_eq!(committed(broker, &cli.outputs[0], 2).len(), 2);
    assert!(service.try_wait().expect("the service").is_none(), "it still runs");
}

/// Runs the service as bob with these permissions, until it ends. Returns its exit code and its log.
fn run_to_its_end(broker: &Broker, cli: &CliRunner, permits: &[Permit]) -> (Option<i32>, String) {
    for (resource, prefix, operations) in permits {
        allow(broker, "bob", *resource, prefix, operations);
    }
    produce(broker, &cli.input, 0, &[page(&text(1))]);
    let bob = sasl(broker, "SASL_SSL", "scram-sha-512", "bob", SECRET);
    let mut output = tempfile::tempfile().expect("a file");
    let mut service = Process::start(
        std::process::Command::new(env!("CARGO_BIN_EXE_dupgate"))
            .args(["run", "-q", "-c", &cli.files(broker.way("SASL_SSL"), &bob)])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(output.try_clone().expect("a file")),
    );
    let ended = wait::until("the service to end", || service.try_wait().expect("the service"));
    let mut text = String::new();
    output.rewind().and_then(|()| output.read_to_string(&mut text)).expect("its log");
    (ended.code(), text)
}

/// The documented permissions without Write under this prefix.
fn all_but_writing(cli: &CliRunner, prefix: &str) -> Vec<Permit> {
    let mut permits = documented(cli);
    for (_, under, operations) in &mut permits {
        if *under == prefix {
            operations.retain(|operation| *operation != WRITE);
            operations.push(DESCRIBE);
        }
    }
    permits
}

#[test]
fn a_service_without_write_on_an_output_ends_and_names_the_acl() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    let (code, text) = run_to_its_end(broker, &cli, &all_but_writing(&cli, &cli.outputs[0]));
    assert_eq!(code, Some(77), "{text}");
    assert!(text.contains("--operation Write --topic") && text.contains("`dupgate check`"), "{text}");
}

#[test]
fn a_judge_without_write_on_the_verdict_log_ends_and_names_the_acl() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    let log = format!("{}.verdicts.", cli.group);
    let (code, text) = run_to_its_end(broker, &cli, &all_but_writing(&cli, &log));
    assert_eq!(code, Some(77), "{text}");
    assert!(text.contains(&format!("--operation Write --topic '{log}")), "{text}");
}

#[test]
fn a_judge_without_write_on_its_transactional_id_ends_and_names_the_acl() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    let (code, text) = run_to_its_end(broker, &cli, &all_but_writing(&cli, &format!("{}.judge.", cli.group)));
    assert_eq!(code, Some(77), "{text}");
    let acl = format!("--operation Write --transactional-id '{}' --resource-pattern-type prefixed", cli.group);
    assert!(text.contains(&acl), "{text}");
}

#[test]
fn a_topic_of_a_pattern_that_may_not_be_read_does_not_stop_the_others() {
    let Some(broker) = Broker::secured() else { return };
    let mut cli = cli(broker);
    let prefix = broker.unique("sites");
    let [open, closed] = ["open", "closed"].map(|name| format!("{prefix}.{name}"));
    for topic in [&open, &closed] {
        broker.create_topic(topic, 1, &[]);
        produce(broker, topic, 0, &[page(&text(1)), page(&text(if topic == &open { 2 } else { 3 }))]);
    }
    // The documented permissions, but for the second topic.
    cli.input.clone_from(&open);
    for (resource, prefix, operations) in documented(&cli) {
        allow(broker, "bob", resource, &prefix, &operations);
    }
    allow(broker, "bob", TOPIC, &closed, &[DESCRIBE]);
    cli.input = format!("^{prefix}.*");
    let bob = sasl(broker, "SASL_SSL", "scram-sha-512", "bob", SECRET);
    let mut service = Process::start(
        std::process::Command::new(env!("CARGO_BIN_EXE_dupgate"))
            .args(["run", "-c", &cli.files(broker.way("SASL_SSL"), &bob)])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(cli.log_of("service")),
    );
    assert_eq!(committed(broker, &cli.outputs[0], 2).len(), 2);
    wait::until("the topic to be named", || cli.log("service").contains("do not let us read its topic").then_some(()));
    produce(broker, &open, 0, &[page(&text(4))]);
    committed(broker, &cli.outputs[0], 3);
    assert!(service.try_wait().expect("the service").is_none(), "it still runs");
    // Blocked partitions are tried again each minute.
    allow(broker, "bob", TOPIC, &closed, &[READ]);
    assert_eq!(committed(broker, &cli.outputs[0], 4).len(), 4);
}

#[test]
fn each_missing_permission_is_found_with_the_acl_to_add() {
    let Some(broker) = Broker::secured() else { return };
    let one = |resource: Resource, prefix: &dyn Fn(&CliRunner) -> String, operation: Operation, message: &str| {
        let cli = cli(broker);
        let prefix = prefix(&cli);
        let printed = check_without(broker, &cli, resource, &prefix, operation);
        assert_eq!(printed.code, Some(77), "{message}: {}{}", printed.out, printed.err);
        let fixes: Vec<&str> =
            printed.out.lines().filter_map(|line| line.split_once("fix: ")).map(|(_, fix)| fix).collect();
        assert_eq!(fixes.len(), 1, "{message}: {}", printed.out);
        let command =
            format!("kafka-acls.sh --bootstrap-server BROKER --add --allow-principal User:USER {message} '{prefix}");
        assert!(fixes[0].starts_with(&command), "{command}: {}", printed.out);
    };
    for output in 0..3 {
        one(TOPIC, &|cli| cli.outputs[output].clone(), WRITE, "--operation Write --topic");
    }
    for (operation, message) in [(WRITE, "--operation Write --topic"), (READ, "--operation Read --topic")] {
        for log in ["fingerprints", "verdicts"] {
            one(TOPIC, &|cli| format!("{}.{log}.", cli.group), operation, message);
        }
    }
    one(TOPIC, &|cli| cli.input.clone(), READ, "--operation Read --topic");
    for id in ["worker", "judge"] {
        one(ID, &|cli| format!("{}.{id}.", cli.group), WRITE, "--operation Write --transactional-id");
    }
}

#[test]
fn a_group_without_read_is_found() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    let output = check_without(broker, &cli, GROUP, &cli.group, READ);
    assert_eq!(output.code, Some(77), "{}{}", output.out, output.err);
    let of_input = format!("--operation Read --group '{}'\n", cli.group);
    let of_judges = format!("--operation Read --group '{}.judge.' --resource-pattern-type prefixed\n", cli.group);
    assert!(output.out.contains(&of_input) && output.out.contains(&of_judges), "{}", output.out);
}

#[test]
fn missing_permissions_to_create_or_trim_logs_are_reported() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    let log = format!("{}.verdicts.", cli.group);
    let output = check_without(broker, &cli, TOPIC, &log, DELETE);
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    assert!(output.out.contains(&format!("--operation Delete --topic '{log}")), "{}", output.out);
    assert!(output.out.contains("the log is never trimmed"), "{}", output.out);

    // A service that has never run: its logs are still to be created.
    let mut cli = CliRunner::new(broker);
    cli.input = broker.topic("pages", 1);
    cli.outputs = ["unique", "duplicate", "dead"].map(|name| broker.topic(name, 1));
    let log = format!("{}.fingerprints.", cli.group);
    let output = check_without(broker, &cli, TOPIC, &log, CREATE);
    assert_eq!(output.code, Some(77), "{}{}", output.out, output.err);
    assert!(output.out.contains(&format!("--operation Create --topic '{log}")), "{}", output.out);
    assert!(output.out.contains("or let an authorized user run `dupgate topics create -c "), "{}", output.out);
    assert!(output.out.contains(" --execute`"), "{}", output.out);
}
