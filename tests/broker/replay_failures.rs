//! Replays of those who may not do all of it, or whose disk is full.

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
use super::first_start::{CliRunner, Said};
use super::run::text;
use super::run::topics::{committed, page, produce};
use super::secured::{SECRET, desk, sasl};

/// Writes pages that a replay can judge.
fn pages(broker: &Broker, input: &str) {
    produce(broker, input, 0, &[page(&text(1)), page(&text(1)), page(&text(2))]);
}

/// All that a replay needs, as `docs/REPLAY.md` lists it.
fn all(desk: &CliRunner) -> Vec<(Resource, String, Vec<Operation>)> {
    let own = format!("{}.replay.", desk.group);
    let mut permits = vec![
        (TOPIC, desk.input.clone(), vec![READ, CONFIGS]),
        (GROUP, desk.group.clone(), vec![DESCRIBE]),
        (TOPIC, own.clone(), vec![CREATE, READ, WRITE, DELETE]),
        (GROUP, own.clone(), vec![READ, DELETE]),
        (ID, own, vec![WRITE]),
    ];
    for output in &desk.outputs {
        permits.push((TOPIC, output.clone(), vec![DESCRIBE, CONFIGS]));
        permits.push((TOPIC, format!("{output}.replay."), vec![CREATE, WRITE, DELETE]));
    }
    permits
}

fn grant(broker: &Broker, permits: &[(Resource, String, Vec<Operation>)]) {
    permits.iter().for_each(|(resource, prefix, operations)| allow(broker, "bob", *resource, prefix, operations));
}

fn ask(broker: &Broker, desk: &CliRunner, arguments: &[&str]) -> Said {
    let bob = sasl(broker, "SASL_SSL", "scram-sha-512", "bob", SECRET);
    let said = desk.ask_with(broker.way("SASL_SSL"), &bob, arguments);
    assert!(!said.err.contains(SECRET), "the password is told: {}", said.err);
    said
}

const RUN: [&str; 9] = ["replay", "run", "--from", "start", "--order", "time", "--id", "x", "--execute"];

#[test]
fn the_permissions_that_are_documented_for_replays_are_enough() {
    let Some(broker) = Broker::secured() else { return };
    let desk = desk(broker);
    pages(broker, &desk.input);
    grant(broker, &all(&desk));
    let done = ask(broker, &desk, &RUN);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(committed(broker, &format!("{}.replay.x", desk.outputs[0]), 2).len(), 2);
    for command in [&["replay", "status", "x"][..], &["replay", "list"], &["replay", "clean", "x", "--execute"]] {
        let said = ask(broker, &desk, command);
        assert_eq!(said.code, Some(0), "{command:?}: {}", said.err);
    }
}

#[test]
fn a_permission_that_a_replay_lacks_is_told_and_it_goes_on_once_that_is_given() {
    let Some(broker) = Broker::secured() else { return };
    let without = |resource: Resource, prefix: &dyn Fn(&CliRunner) -> String, operation: Operation, told: &[&str]| {
        let desk = desk(broker);
        pages(broker, &desk.input);
        let (permits, prefix) = (all(&desk), prefix(&desk));
        let mut fewer = permits.clone();
        for (of, under, operations) in &mut fewer {
            if *of == resource && *under == prefix {
                operations.retain(|permitted| *permitted != operation);
                operations.push(DESCRIBE);
            }
        }
        grant(broker, &fewer);
        // A broker learns of permissions some time after they were given.
        wait::until(&format!("{told:?} to be told"), || {
            let refused = ask(broker, &desk, &RUN);
            assert_ne!(refused.code, Some(0), "{told:?}");
            (refused.code == Some(77) && told.iter().all(|told| refused.err.contains(told))).then_some(())
        });
        grant(broker, &permits);
        wait::until(&format!("the replay to end once {told:?} is given"), || {
            let run = ask(broker, &desk, &RUN);
            let done = if run.code == Some(0) { run } else { ask(broker, &desk, &["replay", "resume", "x"]) };
            (done.code == Some(0)).then_some(())
        });
        assert_eq!(committed(broker, &format!("{}.replay.x", desk.outputs[0]), 2).len(), 2, "{told:?}");
    };
    let own = |desk: &CliRunner| format!("{}.replay.", desk.group);
    without(TOPIC, &|desk| desk.input.clone(), READ, &["--operation Read --topic"]);
    without(TOPIC, &own, CREATE, &["--operation Create --topic"]);
    without(TOPIC, &|desk| format!("{}.replay.", desk.outputs[0]), CREATE, &["--operation Create --topic"]);
    without(TOPIC, &|desk| format!("{}.replay.", desk.outputs[0]), WRITE, &["--operation Write --topic", "unique-"]);
    without(ID, &own, WRITE, &["Write --transactional-id"]);
    without(GROUP, &own, READ, &["Read --group"]);
}

#[test]
fn a_full_disk_loses_the_file_that_was_asked_for_and_nothing_of_the_replay() {
    let Some(broker) = Broker::shared() else { return };
    let desk = desk(broker);
    pages(broker, &desk.input);
    let ask = |arguments: &[&str]| desk.ask_with(broker.address(), "", arguments);
    let full = |arguments: &[&str]| {
        let said = ask(arguments);
        assert_eq!(said.code, Some(74), "{arguments:?}: {}", said.err);
        assert!(said.err.contains("/dev/full") && said.err.contains("No space left on device"), "{}", said.err);
    };
    full(&["replay", "plan", "--from", "start", "--order", "time", "--id", "x", "--plan-out", "/dev/full"]);
    full(&[&RUN[..], &["--report", "/dev/full"]].concat());
    let status = ask(&["replay", "status", "x", "-o", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status.out).expect("JSON");
    assert_eq!((&status[0]["state"], &status[0]["counts"]["pages"]), (&"done".into(), &3.into()), "{status}");
    assert_eq!(committed(broker, &format!("{}.replay.x", desk.outputs[0]), 2).len(), 2);
}
