//! `dupgate run` against a real broker: pages in; unique, duplicate and dead letters out.

mod compressible;
mod crashes;
pub(super) mod instance;
mod delivery_modes;
mod log_limits;
mod log_partitions;
mod deleted_logs;
pub(super) mod partitions;
mod quotas;
mod stalls;
mod starts;
pub(super) mod topics;

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::json;

use self::instance::Site;
use self::topics::{Given, committed, count, page, produce};
use super::broker::{Broker, wait};

/// A text of forty words without anything in common with texts of other seeds.
pub(super) fn text(seed: u32) -> String {
    (0..40).map(|word| format!("w{seed}x{word}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn pages_are_routed_unchanged_with_their_verdicts() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 2);
    let first = Given { key: Some("a"), headers: &[("trace", Some("1")), ("trace", None)], ..page(&text(1)) };
    let forged = Given { headers: &[("dupgate.verdict", Some("near")), ("x", Some("y"))], ..page(&text(2)) };
    produce(broker, &site.input, 0, &[first.clone(), forged]);
    produce(broker, &site.input, 1, &[Given::value("{\"url\": \"cut off"), Given::tombstone("gone")]);
    let instance = site.start("one");
    let unique = committed(broker, &site.unique, 3);
    let dead = committed(broker, &site.dead, 1);
    // Its original is judged by now.
    produce(broker, &site.input, 1, &[Given { key: Some("b"), ..first.clone() }]);
    let duplicate = committed(broker, &site.duplicate, 2);
    instance.stop();

    let original = unique.iter().find(|record| record.key.as_deref() == Some(b"a")).expect("the first page");
    assert_eq!(original.value.as_deref(), first.value.as_deref().map(str::as_bytes));
    assert_eq!((original.partition, original.timestamp), (0, first.timestamp));
    assert_eq!(original.headers[..2], [("trace".to_owned(), Some("1".to_owned())), ("trace".to_owned(), None)]);
    assert_eq!(original.header("dupgate.verdict"), ["unique"]);
    assert_eq!(original.header("dupgate.source"), [format!("{}:0:0", site.input)]);

    let replaced = unique.iter().find(|record| record.header("x") == ["y"]).expect("the second page");
    assert_eq!(replaced.header("dupgate.verdict"), ["unique"]);

    let copy = duplicate.iter().find(|record| record.value.is_some()).expect("the copy");
    assert_eq!(copy.key.as_deref(), Some(&b"b"[..]));
    assert_eq!(copy.value.as_deref(), first.value.as_deref().map(str::as_bytes));
    assert_eq!(copy.header("dupgate.verdict"), ["exact"]);
    assert_eq!(copy.header("dupgate.match"), [format!("{}:0:0", site.input)]);

    for stones in [&unique, &duplicate] {
        let stone = stones.iter().find(|record| record.value.is_none()).expect("the tombstone");
        assert_eq!((stone.key.as_deref(), stone.headers.len(), stone.partition), (Some(&b"gone"[..]), 0, 1));
    }
    assert_eq!(dead[0].header("dupgate.error.reason"), ["undecodable"]);
    assert_eq!(dead[0].header("dupgate.error.offset"), ["0"]);
    assert_eq!(dead[0].value.as_deref(), Some(&b"{\"url\": \"cut off"[..]));
}

#[test]
fn a_restart_resumes_where_the_last_run_stopped_and_remembers_its_verdicts() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let pages: Vec<Given> = (0..20).map(|seed| page(&text(seed))).collect();
    produce(broker, &site.input, 0, &pages);
    let mut first = site.start("one");
    committed(broker, &site.unique, 20);
    first.kill();
    produce(broker, &site.input, 0, &pages);
    let second = site.start("one");
    let duplicates = committed(broker, &site.duplicate, 20);
    second.stop();
    let unique = committed(broker, &site.unique, 20);
    assert_eq!(unique.len(), 20);
    assert_eq!(duplicates.len(), 20);
    for (offset, duplicate) in duplicates.iter().enumerate() {
        assert_eq!(duplicate.header("dupgate.match"), [format!("{}:0:{offset}", site.input)]);
    }
}

#[test]
fn a_stopped_instance_leaves_the_judges_group_and_writes_its_state() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    // A successor would wait this long for a member that has not left.
    let patient = || json!({ "judge": { "session_timeout": "2m" } });
    let first = site.start_with("one", patient());
    produce(broker, &site.input, 0, &[page(&text(1))]);
    committed(broker, &site.unique, 1);
    first.stop();

    let client: BaseConsumer = broker.client().create().expect("a client");
    let groups = client.fetch_group_list(None, wait::LIMIT).expect("the groups");
    let judges = format!("{}.judge.", site.group);
    let of_judges: Vec<_> = groups.groups().iter().filter(|group| group.name().starts_with(&judges)).collect();
    assert!(of_judges.iter().all(|group| group.members().is_empty()), "{judges} has members still");

    let second = site.start_with("one", patient());
    wait::within(Duration::from_mins(1), "the judge to judge again", || second.judges().then_some(()));
    assert!(site.log("one").contains("snapshot restored"), "no snapshot was written at the end");
    second.stop();
}

#[test]
fn a_standby_takes_over_and_finds_its_predecessors_verdicts() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 2);
    let pages: Vec<Given> = (0..10).map(|seed| page(&text(seed))).collect();
    let one = site.start("one");
    produce(broker, &site.input, 0, &pages);
    committed(broker, &site.unique, 10);
    let two = site.start("two");
    one.stop();
    produce(broker, &site.input, 1, &pages);
    let duplicates = committed(broker, &site.duplicate, 10);
    two.stop();
    assert_eq!(duplicates.len(), 10);
    assert_eq!(committed(broker, &site.unique, 10).len(), 10);
}

#[test]
fn an_operator_forgets_an_original_and_reopens_a_range() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let instance = site.start("one");
    produce(broker, &site.input, 0, &[page(&text(1)), page(&text(1))]);
    committed(broker, &site.duplicate, 1);
    let source = format!("{}:0:0", site.input);
    let output = site.ask(&["index", "forget", "--source", &source, "--execute"]);
    assert!(output.contains(&format!("\"forget\":\"{source}\"")), "{output}");
    produce(broker, &site.input, 0, &[page(&text(1))]);
    assert_eq!(committed(broker, &site.unique, 2).len(), 2);
    let range = format!("{}:0:0-3", site.input);
    let output = site.ask(&["verdicts", "reopen", &range, "--execute"]);
    assert!(output.contains(&format!("\"reopen\":\"{range}\"")), "{output}");
    instance.stop();
}

#[test]
fn observed_pages_are_judged_again_in_route_mode() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    produce(broker, &site.input, 0, &[page(&text(1)), page(&text(2))]);
    let observer = site.start_with("one", json!({ "mode": "observe" }));
    wait::until("both pages to be judged", || {
        (observer.metric("dupgate_documents_total", &["unique"]) > 1.5).then_some(())
    });
    observer.stop();
    assert_eq!(count(broker, &site.unique), 0, "observe mode writes nothing");

    // Both are copies of observed pages, which were never delivered.
    produce(broker, &site.input, 0, &[page(&text(1)), page(&text(2))]);
    let router = site.start("one");
    let unique = committed(broker, &site.unique, 2);
    let duplicates = committed(broker, &site.duplicate, 2);
    router.stop();
    let sources = |pages: &[topics::Got]| -> Vec<String> {
        pages.iter().map(|page| page.header("dupgate.source").concat()).collect()
    };
    assert_eq!(sources(&unique), [0, 1].map(|offset| format!("{}:0:{offset}", site.input)));
    assert_eq!(sources(&duplicates), [2, 3].map(|offset| format!("{}:0:{offset}", site.input)));
}
