//! Where reading begins: partitions that the group has no offset of.

use std::collections::BTreeSet;

use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::json;

use super::super::broker::{Broker, wait};
use super::instance::Site;
use super::partitions::committed_offset;
use super::text;
use super::topics::{Given, Got, committed, page, produce};

/// The time of the first page, 2025-10-09T08:53:20Z, in milliseconds.
const START: i64 = 1_760_000_000_000;

/// Pages of these numbers; each is a second later than the one before it.
fn dated(numbers: std::ops::Range<u32>) -> Vec<Given> {
    let page = |number| Given { timestamp: Some(START + 1000 * i64::from(number)), ..page(&text(number)) };
    numbers.map(page).collect()
}

fn sources(records: &[Got]) -> BTreeSet<String> {
    records.iter().map(|record| record.header("dupgate.source").concat()).collect()
}

fn expected(topic: &str, partition: i32, offsets: std::ops::Range<i64>) -> impl Iterator<Item = String> {
    offsets.map(move |offset| format!("{topic}:{partition}:{offset}"))
}

/// The first offset of the verdict log.
fn first_verdict(site: &Site) -> i64 {
    let prefix = format!("{}.verdicts.", site.group);
    let log = site.topics().into_iter().find(|topic| topic.starts_with(&prefix)).expect("a verdict log");
    let client: BaseConsumer = site.broker.client().create().expect("a client");
    client.fetch_watermarks(&log, 0, wait::LIMIT).expect("watermarks").0
}

#[test]
fn topics_of_a_pattern_come_and_go_without_losing_pages_or_stopping_the_trimming() {
    /// Pages between two looks at the log: more than a window, and more than a checkpoint.
    const STRIDE: u32 = 100;
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let [first, second] = ["day1", "day2"].map(|day| format!("{}.{day}", site.input));
    broker.create_topic(&first, 1, &[]);
    produce(broker, &first, 0, &dated(0..3));
    let config = json!({
        "kafka": { "consumer_properties": { "topic.metadata.refresh.interval.ms": "200" } },
        "input": { "topics": [format!(r"^{}\.day[0-9]$", site.input)], "start": "latest" },
        "window": { "size": "20s", "allowed_lateness": "5s" },
        "judge": { "checkpoint_interval_records": 50 },
    });
    let mut instance = site.start_with("one", config);
    let offset = |topic: &str| committed_offset(broker, &site.group, topic, 0);
    wait::until("the end of the first topic to be committed", || (offset(&first) == Some(3)).then_some(()));
    produce(broker, &first, 0, &dated(3..6));
    committed(broker, &site.unique, 3);

    // The topic of the next day has pages before the group knows it.
    broker.create_topic(&second, 1, &[]);
    produce(broker, &second, 0, &dated(6..10));
    let unique = sources(&committed(broker, &site.unique, 7));
    assert_eq!(unique, expected(&first, 0, 3..6).chain(expected(&second, 0, 0..4)).collect());

    // The group's offsets of the first topic go with it: nothing shows any more that its verdicts were delivered.
    assert_eq!(first_verdict(&site), 0);
    broker.delete_topic(&first);
    let mut written = 10;
    while first_verdict(&site) == 0 {
        assert!(written < 20 * STRIDE, "{written} pages, and the log was never trimmed");
        produce(broker, &second, 0, &dated(written..written + STRIDE));
        written += STRIDE;
        committed(broker, &site.unique, usize::try_from(written).expect("few pages") - 3);
    }
    wait::until("readiness", || instance.is_ready().then_some(()));
    assert_eq!(instance.has_ended(), None);
    instance.stop();
}

#[test]
fn a_start_at_a_time_is_committed_at_once_and_never_resolved_again() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 2);
    // Two seconds after the first page; all pages of the other partition are older.
    let start = json!({ "input": { "start": "2025-10-09T08:53:22Z" } });
    produce(broker, &site.input, 0, &dated(0..4));
    produce(broker, &site.input, 1, &dated(0..2));
    // No judge: no page is delivered.
    let mut worker = site.start_with("one", json!({ "roles": ["worker"], "input": &start["input"] }));
    let offsets = || [0, 1].map(|partition| committed_offset(broker, &site.group, &site.input, partition));
    wait::until("the places to be committed", || (offsets() == [Some(2), Some(2)]).then_some(()));
    worker.kill();

    // Older than the time, too: from the time on, the partition holds nothing still.
    produce(
        broker,
        &site.input,
        1,
        &[page(&text(8)), page(&text(9))].map(|page| Given { timestamp: Some(START), ..page }),
    );
    let instance = site.start_with("one", start);
    let unique = committed(broker, &site.unique, 4);
    instance.stop();
    assert_eq!(sources(&unique), [0, 1].into_iter().flat_map(|number| expected(&site.input, number, 2..4)).collect());
}

#[test]
fn a_start_under_a_new_scheme_is_refused_unless_an_empty_index_is_accepted_once() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let pages = |numbers: std::ops::Range<u32>| produce(broker, &site.input, 0, &dated(numbers));
    let other = |cold_start| {
        json!({
            "match": { "simhash": { "bits": 128 } },
            "index": { "cold_start": cold_start },
        })
    };
    pages(0..3);
    let instance = site.start_with("one", json!({ "index": { "cold_start": "stop" } }));
    committed(broker, &site.unique, 3);
    instance.stop();

    let mut refused = site.start_with("refused", other("stop"));
    let code = wait::until("the start to be refused", || refused.has_ended()).code();
    let log = site.log("refused");
    assert_eq!(code, Some(74), "{log}");
    assert!(log.contains("nothing is judged under scheme sh128-") && log.contains("judged under sh64-"), "{log}");

    pages(3..5);
    let accepted = site.start_with("one", other("proceed"));
    committed(broker, &site.unique, 5);
    accepted.stop();
    assert!(site.log("one").contains("the index starts empty"), "{}", site.log("one"));

    let again = site.start_with("one", other("stop"));
    wait::until("readiness", || again.is_ready().then_some(()));
    again.stop();
}

/// `top -H` tells them apart. Those of the client library have names of its own.
#[test]
fn each_thread_has_a_name_of_its_own() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let mut instance =
        site.start_with("one", json!({ "judge": { "partitions": 2 }, "input": { "fields": { "scope": "/tenant" } } }));
    instance.wait_ready();
    let of_library = |name: &String| ["rdk:", "producer", "admin client"].iter().any(|start| name.starts_with(start));
    let mut names: Vec<String> = instance.threads().into_iter().filter(|name| !of_library(name)).collect();
    names.sort();
    let distinct: BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
    for name in ["judge-0", "judge-1", "worker", "text-0"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    instance.stop();
}
