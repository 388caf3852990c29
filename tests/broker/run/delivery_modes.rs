//! Effects of the configuration: modes, delivery, bad records, values, partitions; and their metrics.

use std::time::Instant;

use serde_json::json;

use super::super::broker::{Broker, wait};
use super::instance::Site;
use super::text;
use super::topics::{Given, committed, count, page, produce};

#[test]
fn tag_sends_every_page_to_one_topic_with_its_verdict() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    produce(broker, &site.input, 0, &[page(&text(1)), page(&text(1)), Given::tombstone("k")]);
    let instance = site.start_with("one", json!({ "mode": "tag" }));
    let unique = committed(broker, &site.unique, 3);
    instance.stop();
    let verdicts: Vec<String> = unique.iter().map(|record| record.header("dupgate.verdict").concat()).collect();
    assert_eq!(verdicts, ["unique", "exact", ""]);
    assert_eq!(count(broker, &site.duplicate), 0);
    let log = site.log("one");
    assert!(log.contains("stopped: everything is committed documents=3 dead_letters=0 produced=3"), "{log}");
}

#[test]
fn at_least_once_delivers_without_transactions_and_resumes() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let start = || site.start_with("one", json!({ "output": { "delivery": "at_least_once" } }));
    produce(broker, &site.input, 0, &[page(&text(1)), page(&text(1)), page(&text(2))]);
    let first = start();
    committed(broker, &site.unique, 2);
    committed(broker, &site.duplicate, 1);
    wait::until("the commit to be counted", || {
        let counted = |name, labels: &[&str]| first.metric(name, labels) > 0.0;
        let commits = counted("dupgate_offset_commits_total", &["ok"])
            && counted("dupgate_last_commit_timestamp_seconds", &[])
            && counted("dupgate_transaction_duration_seconds_count", &["committed"]);
        commits.then_some(())
    });
    first.stop();
    produce(broker, &site.input, 0, &[page(&text(2))]);
    let second = start();
    committed(broker, &site.duplicate, 2);
    second.stop();
    // No markers: every offset is a page.
    assert_eq!((count(broker, &site.unique), count(broker, &site.duplicate)), (2, 2));
}

#[test]
fn first_bad_record_stops_the_program_before_its_offset_with_on_bad_record_stop() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    produce(broker, &site.input, 0, &[page(&text(1)), Given::value("no json"), page(&text(2))]);
    let first = site.start_with("one", json!({ "processing": { "on_bad_record": "stop" } }));
    assert_eq!(first.end().code(), Some(1));
    assert!(site.log("one").contains(":0:1 cannot be judged (undecodable"), "{}", site.log("one"));
    assert_eq!(committed(broker, &site.unique, 1).len(), 1);
    // The page before it is committed, the bad one is not: with another setting it is read again.
    let second = site.start("one");
    assert_eq!(committed(broker, &site.unique, 2).len(), 2);
    assert_eq!(committed(broker, &site.dead, 1).len(), 1);
    second.stop();
}

#[test]
fn duplicates_may_carry_a_reference_instead_of_the_page() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let same = format!("{{\"url\": \"http://x/\", \"text\": \"{}\"}}", text(1));
    produce(broker, &site.input, 0, &[Given::value(&same), Given::value(&same)]);
    let instance = site.start_with("one", json!({ "output": { "duplicate": { "value": "reference" } } }));
    let duplicate = committed(broker, &site.duplicate, 1);
    instance.stop();
    let value = duplicate.iter().find_map(|record| record.value.clone()).expect("a value");
    let value: serde_json::Value = serde_json::from_slice(&value).expect("JSON");
    assert_eq!(value, serde_json::json!({ "ref": format!("{}:0:1", site.input), "id": "http://x/" }));
}

#[test]
fn page_too_large_for_the_output_is_withdrawn_and_its_neighbours_are_judged() {
    let Some(broker) = Broker::shared() else { return };
    let mut site = Site::new(broker, 1);
    site.unique = broker.topic_with("small", 1, &[("max.message.bytes", "20000")]);
    let long: Vec<String> = (0..200).map(text).collect();
    produce(broker, &site.input, 0, &[page(&text(1)), page(&long.join(" ")), page(&text(1))]);
    let instance = site.start("one");
    let dead = committed(broker, &site.dead, 1);
    let duplicate = committed(broker, &site.duplicate, 1);
    instance.stop();
    let reasons: Vec<String> = dead.iter().flat_map(|record| record.header("dupgate.error.reason")).collect();
    assert_eq!(reasons, ["too_large_for_output"]);
    assert_eq!(duplicate.len(), 1);
    assert_eq!(committed(broker, &site.unique, 1).len(), 1);
}

#[test]
fn page_that_only_the_broker_refuses_is_withdrawn_and_counted() {
    let Some(broker) = Broker::shared() else { return };
    let mut site = Site::new(broker, 1);
    // Such a topic refuses records without a key, which no client can know.
    site.unique = broker.topic_with("compacted", 1, &[("cleanup.policy", "compact")]);
    let keyed = Given { key: Some("k"), ..page(&text(2)) };
    produce(broker, &site.input, 0, &[page(&text(1)), keyed]);
    let instance = site.start("one");
    let dead = committed(broker, &site.dead, 1);
    assert_eq!(committed(broker, &site.unique, 1).len(), 1);
    let reasons: Vec<String> = dead.iter().flat_map(|record| record.header("dupgate.error.reason")).collect();
    assert_eq!(reasons, ["refused"]);
    for (metric, labels) in [
        ("dupgate_produce_failures_total", ["output=\"unique\"", "reason=\"refused\""].as_slice()),
        ("dupgate_withdrawn_documents_total", &["reason=\"refused\""]),
        ("dupgate_errors_total", &["component=\"producer\"", "kind=\"abortable\""]),
        ("dupgate_transaction_duration_seconds_count", &["result=\"aborted\""]),
    ] {
        wait::until(metric, || (instance.metric(metric, labels) > 0.0).then_some(()));
    }
    instance.stop();
    // It was found after the page was read, and is still logged.
    let log = site.log("one");
    let line = log.lines().find(|line| line.contains("a record gets no verdict")).unwrap_or_default();
    assert!(line.contains(&format!("{}:0:0", site.input)) && line.contains("refused"), "{log}");
}

#[test]
fn an_input_of_other_records_is_paused_with_the_reason() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let others: Vec<Given> = (0..1000).map(|number| Given::value(&json!({ "other": number }).to_string())).collect();
    produce(broker, &site.input, 0, &others);
    let instance = site.start("one");
    let what = "1000 of the last 1000 records became dead letters: the input is paused (missing_field 1000: ";
    let text = wait::until("the breaker", || Some(instance.readiness()).filter(|text| text.contains(what)));
    let first = format!("first at {}:0:0", site.input);
    for part in
        [first.as_str(), "input.fields", "dupgate explain", "restart", "processing.pause_above_dead_letter_ratio"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    wait::until("the log", || site.log("one").contains("the input is paused: too many records").then_some(()));
    assert_eq!(instance.metric("dupgate_consumer_paused", &["breaker"]).to_bits(), 1.0_f64.to_bits());
    instance.stop();
}

#[test]
fn pages_wait_in_their_queue_while_no_instance_judges() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let pages: Vec<Given> = (0..30).map(|seed| page(&text(seed))).collect();
    produce(broker, &site.input, 0, &pages);
    let worker = site.start_with("worker", json!({ "roles": ["worker"] }));
    let waiting = || worker.metric("dupgate_queue_records", &["queue=\"produce\""]);
    wait::until("every page to wait for its verdict", || (waiting() > 29.5).then_some(()));
    let judge = site.start_with("judge", json!({ "roles": ["judge"] }));
    assert_eq!(committed(broker, &site.unique, 30).len(), 30);
    wait::until("an empty queue", || (waiting() < 0.5).then_some(()));
    worker.stop();
    judge.stop();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the count is compared with the elapsed time")]
fn text_work_is_counted_in_whole_seconds_within_the_elapsed_time() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let begun = Instant::now();
    let instance = site.start_with("one", json!({ "processing": { "threads": 1 } }));
    let busy = || instance.metric("dupgate_text_thread_busy_seconds_total", &[]);
    // Whatever the speed of the machine, pages are written until one second is counted.
    let mut written = 0;
    while busy() < 1.0 {
        let book: Vec<String> = (0..1_000).map(|place| text(written * 1_000 + place)).collect();
        produce(broker, &site.input, 0, &[page(&book.join(" "))]);
        written += 1;
        wait::until("the book to be judged", || {
            (instance.metric("dupgate_documents_total", &[]) >= f64::from(written)).then_some(())
        });
        assert!(written < 2_000, "{written} books are less than a second of work");
    }
    assert!(busy() <= begun.elapsed().as_secs_f64(), "one thread works no longer than time passes");
    instance.stop();
}

#[test]
fn missing_output_topic_is_named() {
    let Some(broker) = Broker::shared() else { return };
    let mut site = Site::new(broker, 1);
    site.duplicate = "nowhere".to_owned();
    assert_eq!(site.start("one").end().code(), Some(78));
    assert!(site.log("one").contains("missing topics: `nowhere`"), "{}", site.log("one"));
    let topics = site.topics();
    assert!(topics.contains(&site.input), "{topics:?}");
    let logs: Vec<&String> = topics.iter().filter(|name| name.starts_with(&site.group)).collect();
    assert!(logs.is_empty(), "a refused instance creates no logs: {logs:?}");
}

#[test]
fn the_older_of_two_instances_with_one_name_ends_with_advice() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let mut older = site.start("one");
    older.wait_ready();
    let mut newer = site.start_with("other", json!({ "input": { "instance_id": "one" } }));
    assert_eq!(older.end().code(), Some(78), "{}", site.log("one"));
    let text = site.log("one");
    assert!(text.contains("input.instance_id"), "{text}");
    newer.wait_ready();
    newer.stop();
}

#[test]
fn an_output_topic_created_during_the_start_is_found() {
    let Some(broker) = Broker::shared() else { return };
    let mut site = Site::new(broker, 1);
    site.duplicate = broker.unique("late");
    let launched = site.start("one");
    let missing = format!("missing topics: `{}`; retrying for another", site.duplicate);
    wait::until("a log line about the missing topic", || site.log("one").contains(&missing).then_some(()));
    broker.create_topic(&site.duplicate, 1, &[]);
    produce(broker, &site.input, 0, &[page(&text(1)), page(&text(1))]);
    assert_eq!(committed(broker, &site.duplicate, 1).len(), 1);
    launched.stop();
}

#[test]
fn pages_wait_while_the_broker_is_down_and_end_once_when_it_is_back() {
    let Some(broker) = Broker::private() else { return };
    let broker: &'static Broker = Box::leak(Box::new(broker));
    let site = Site::new(broker, 2);
    let pages: Vec<Given> = (0..500).map(|seed| page(&text(seed))).collect();
    let instance = site.start("one");
    produce(broker, &site.input, 0, &pages);
    wait::until("some pages", || (count(broker, &site.unique) > 0).then_some(()));
    broker.stop();
    broker.start();
    produce(broker, &site.input, 1, &pages);
    assert_eq!(committed(broker, &site.unique, 500).len(), 500);
    assert_eq!(committed(broker, &site.duplicate, 500).len(), 500);
    instance.stop();
    broker.stop();
}

#[test]
fn a_start_without_a_broker_waits_for_it_or_for_a_signal() {
    let Some(broker) = Broker::private() else { return };
    let broker: &'static Broker = Box::leak(Box::new(broker));
    let site = Site::new(broker, 1);
    produce(broker, &site.input, 0, &[page(&text(1))]);
    broker.stop();
    let (mut one, two) = (site.start("one"), site.start("two"));
    for instance in [&one, &two] {
        wait::until("a reason about the broker", || instance.readiness().contains("no broker answers").then_some(()));
        assert!(!instance.is_ready());
    }
    two.stop();
    broker.start();
    // An instance waits a minute for a broker, and a slow machine may need longer to start one.
    if one.has_ended().is_some() {
        one = site.start("one");
    }
    assert_eq!(committed(broker, &site.unique, 1).len(), 1);
    one.stop();
    broker.stop();
}
