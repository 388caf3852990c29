//! The logs lose requests or verdicts while pages wait.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use serde_json::json;

use super::super::broker::{Broker, wait};
use super::instance::Site;
use super::text;
use super::topics::{Given, committed, count, page, produce};

/// How long all pages may take to come out after the log was recreated.
const LIMIT: Duration = Duration::from_mins(1);

/// Pages that differ, and the first of all once more.
fn pages(numbers: Range<u32>) -> Vec<Given> {
    numbers.map(|number| page(&text(number))).chain([page(&text(0))]).collect()
}

/// The topic of one of the two logs.
fn log(site: &Site, log: &str) -> String {
    let prefix = format!("{}.{log}.", site.group);
    site.topics().into_iter().find(|topic| topic.starts_with(&prefix)).expect("a log")
}

/// Deletes one of the two logs and creates it again.
fn recreate(site: &Site, deleted: &str) {
    site.broker.recreate_topic(&log(site, deleted), 1);
}

/// Deletes a log while two instances have pages in flight. Each page comes out once, and the instances say this.
fn delete_under_load(deleted: &str, said: &str) {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 2);
    // Pages in flight are bounded to a few, so that requests are always on their way.
    let settings = json!({
        "mode": "tag",
        "input": { "max_document": "64KiB" },
        "processing": { "max_in_flight_bytes": "1MiB" },
    });
    let mut instances = ["one", "two"].map(|name| site.start_with(name, settings.clone()));
    // So many that most of them are not yet asked about when the first ones have come out.
    produce(broker, &site.input, 0, &pages(0..3_000));
    wait::until("the first pages", || (count(broker, &site.unique) > 300).then_some(()));
    produce(broker, &site.input, 1, &pages(3_000..3_200));
    recreate(&site, deleted);
    produce(broker, &site.input, 0, &pages(3_200..3_400));
    wait::within(LIMIT, "all pages", || (count(broker, &site.unique) >= 3_403).then_some(()));
    let records = committed(broker, &site.unique, 3_403);
    let sources: BTreeSet<String> = records.iter().map(|record| record.header("dupgate.source").concat()).collect();
    assert_eq!((records.len(), sources.len()), (3_403, 3_403), "each page once");
    for instance in &mut instances {
        assert_eq!(instance.has_ended(), None);
    }
    let logs: String = ["one", "two"].map(|name| site.log(name)).concat();
    assert!(logs.contains(said), "{logs}");
    for instance in instances {
        instance.stop();
    }
}

#[test]
fn pages_come_out_once_although_the_fingerprint_log_is_deleted_under_load() {
    delete_under_load("fingerprints", "does not hold the next request");
}

#[test]
fn pages_come_out_once_although_the_verdict_log_is_deleted_under_load() {
    delete_under_load("verdicts", "has lost what preceded its first record");
}

#[test]
fn pages_come_out_once_although_the_verdict_log_is_deleted_and_the_fingerprint_log_was_trimmed() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let instance = site.start("one");
    produce(broker, &site.input, 0, &pages(0..100));
    committed(broker, &site.unique, 100);
    broker.delete_before(&log(&site, "fingerprints"), 0, 1);
    recreate(&site, "verdicts");
    produce(broker, &site.input, 0, &pages(100..200));
    wait::within(LIMIT, "all pages", || (count(broker, &site.unique) >= 200).then_some(()));
    instance.stop();
}
