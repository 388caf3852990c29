//! Verdict logs with a small batch limit: created otherwise, or changed by an operator.

use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::json;

use super::super::broker::{Broker, wait};
use super::instance::Site;
use super::text;
use super::topics::{Given, committed, page, produce};

/// The verdict log of a site that has been in use.
fn verdict_log(site: &Site) -> String {
    let client: BaseConsumer = site.broker.client().create().expect("a client");
    let metadata = client.fetch_metadata(None, wait::LIMIT).expect("the topics");
    let prefix = format!("{}.verdicts.", site.group);
    let mut names = metadata.topics().iter().map(|topic| topic.name().to_owned());
    names.find(|name| name.starts_with(&prefix)).expect("a verdict log")
}

/// A site whose verdict log accepts batches of this many bytes.
fn limited(broker: &'static Broker, bytes: &str) -> (Site, String) {
    let site = Site::new(broker, 1);
    let first = site.start("one");
    produce(broker, &site.input, 0, &[page(&text(0))]);
    committed(broker, &site.unique, 1);
    first.stop();
    let log = verdict_log(&site);
    broker.alter(&log, &[("max.message.bytes", bytes)]);
    (site, log)
}

#[test]
fn a_verdict_log_with_a_small_limit_holds_all_verdicts() {
    let Some(broker) = Broker::shared() else { return };
    let (site, _) = limited(broker, "200000");
    // Some thousand verdicts come before the first commit, each with all fingerprints of an original.
    let pages: Vec<Given> = (1..3_000).map(|seed| page(&text(seed))).collect();
    produce(broker, &site.input, 0, &pages);
    // Among this many random texts some are near: all go to one topic.
    let second = site.start_with("one", json!({ "mode": "tag", "judge": { "commit_interval": "2s" } }));
    committed(broker, &site.unique, 3_000);
    second.stop();
    assert!(!site.log("one").contains("refuse a record"), "{}", site.log("one"));
}

#[test]
fn a_judge_whose_log_refuses_verdicts_reports_it_and_continues_once_it_accepts() {
    let Some(broker) = Broker::shared() else { return };
    let (site, log) = limited(broker, "100");
    let second = site.start("one");
    produce(broker, &site.input, 0, &[page(&text(1))]);
    wait::until("readiness to fail", || {
        let readiness_text = second.readiness();
        (!second.is_ready() && readiness_text.contains("raise max.message.bytes")).then_some(())
    });
    broker.alter(&log, &[("max.message.bytes", "2097152")]);
    committed(broker, &site.unique, 2);
    wait::until("readiness", || second.is_ready().then_some(()));
    second.stop();
    let log = site.log("one");
    let attempts = log.matches("refuse a record of the verdict log").count();
    assert!((1..20).contains(&attempts), "{attempts} attempts: {log}");
}
