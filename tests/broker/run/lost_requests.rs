//! The fingerprint log loses requests while pages wait for their verdicts.

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

/// Deletes the fingerprint log and creates it again.
fn recreate(site: &Site) {
    let prefix = format!("{}.fingerprints.", site.group);
    let log = site.topics().into_iter().find(|topic| topic.starts_with(&prefix)).expect("a fingerprint log");
    site.broker.recreate_topic(&log, 1);
}

#[test]
fn pages_come_out_once_although_the_fingerprint_log_is_deleted_under_load() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 2);
    // Pages in flight are bounded to a few, so that requests are always on their way.
    let settings = json!({ "input": { "max_document": "64KiB" }, "processing": { "max_in_flight_bytes": "1MiB" } });
    let mut instances = ["one", "two"].map(|name| site.start_with(name, settings.clone()));
    produce(broker, &site.input, 0, &pages(0..2_000));
    wait::until("half of the pages", || (count(broker, &site.unique) > 1_000).then_some(()));
    produce(broker, &site.input, 1, &pages(2_000..4_000));
    recreate(&site);
    produce(broker, &site.input, 0, &pages(4_000..4_500));
    wait::within(LIMIT, "all pages", || {
        (count(broker, &site.unique) + count(broker, &site.duplicate) >= 4_503).then_some(())
    });
    let (unique, duplicate) = (committed(broker, &site.unique, 4_500), committed(broker, &site.duplicate, 3));
    let sources: BTreeSet<String> =
        unique.iter().chain(&duplicate).map(|record| record.header("dupgate.source").concat()).collect();
    assert_eq!((unique.len() + duplicate.len(), sources.len()), (4_503, 4_503), "each page once");
    for instance in &mut instances {
        assert_eq!(instance.has_ended(), None);
    }
    let logs: String = ["one", "two"].map(|name| site.log(name)).concat();
    assert!(logs.contains("does not hold the next request"), "{logs}");
    instances.into_iter().for_each(|instance| instance.stop());
}
