//! The overview of a process whose metrics and checks are set by hand.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::config::settings;
use crate::protocol::LogPartition;
use crate::record::{PartitionId, Reject};
use crate::telemetry::labels::{Blocked, Eviction, VerdictLabel};

/// An overview whose clock continues by five seconds each time it is read.
fn overview() -> (Overview, Metrics, Health) {
    let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
    let health = Health::new(Duration::from_secs(10));
    let about = About {
        build: Build { version: "1.2.3".into(), revision: "abc".into(), librdkafka: "2.12.1".into() },
        instance: "one".into(),
        group: "g".into(),
        roles: vec!["worker", "judge"],
        log_partitions: 1,
        started: Timestamp::from_millis(1000),
    };
    let reads = AtomicU64::new(0);
    let clock: Clock = Arc::new(move || INTERVAL * u32::try_from(reads.fetch_add(1, Ordering::Relaxed)).unwrap());
    let wall = || Timestamp::from_millis(9000);
    (Overview::new(about, metrics.clone(), health.clone(), clock, wall), metrics, health)
}

#[test]
fn the_answer_shows_the_state_of_the_instance_and_its_history() {
    let (overview, metrics, health) = overview();
    let judge = health.check(&judge_check(LogPartition(0)), "restoring the index, 40 %");
    let worker = health.check("worker", "starting");
    worker.pass();
    overview.sample();
    for _ in 0..10 {
        metrics.document(VerdictLabel::Near);
    }
    metrics.dead_letter(Reject::NoText);
    metrics.dead_letter_read(Reject::NoText, &PartitionId::new("t", 0).at(4), "no text is left");
    metrics.blocked_partitions(Blocked::NoOffset, 2);
    metrics.series().index_evictions.of(Eviction::Capacity).increment(3);
    metrics.index_limits(100, Duration::from_mins(1), Duration::from_mins(5));
    let lag = |number: i32, lag: u64| (PartitionId::new("t", number), lag);
    metrics.consumer_lags(&(0..12).map(|number| lag(number, u64::try_from(number).unwrap() * 10)).collect());
    overview.sample();
    let answer = overview.answer(0);
    for (key, expected) in [
        ("instance", json!("one")),
        ("version", json!("1.2.3")),
        ("started_ms", json!(1000)),
        ("at_ms", json!(9000)),
        ("roles", json!(["worker", "judge"])),
        ("ready", json!(false)),
        (
            "checks",
            json!([
                {"name": "judge 0", "ok": false, "why": "restoring the index, 40 %"},
                {"name": "worker", "ok": true, "why": null},
            ]),
        ),
        (
            "judges",
            json!([{
                "log_partition": 0, "state": "not_ready", "since_ms": 9000, "why": "restoring the index, 40 %",
            }]),
        ),
        ("no_judge", json!(null)),
        ("lag", json!(660)),
        ("blocked", json!({"no_offset": 2.0})),
        ("evicted_for_capacity", json!(3.0)),
        ("snapshot_interval_ms", json!(300_000.0)),
        ("snapshot_age_ms", json!(null)),
        ("sample_interval_ms", json!(5000)),
        ("samples_kept", json!(720)),
        ("last_sample", json!(1)),
    ] {
        assert_eq!(answer[key], expected, "{key} of {answer:#}");
    }
    assert_eq!(answer["dead_letter_reasons"][0]["example"], "t:0:4");
    let lags = answer["lags"].as_array().unwrap();
    assert_eq!((lags.len(), &lags[0]), (8, &json!({"topic": "t", "partition": "11", "lag": 110.0})));
    let samples = &answer["samples"];
    assert_eq!((&samples["number"], &samples["near"], &samples["unique"]), (&json!([1]), &json!([2.0]), &json!([0.0])));
    assert_eq!(samples["dead_letters"], json!([0.2]));
    assert_eq!(overview.answer(1)["samples"]["near"], json!([]), "nothing new");

    judge.pass();
    metrics.judge_active(LogPartition(0), true);
    let answer = overview.answer(1);
    assert_eq!((&answer["ready"], &answer["judges"][0]["state"]), (&json!(true), &json!("judge")));
}

#[test]
fn a_lost_judge_is_shown_in_the_next_answer() {
    let (overview, _, health) = overview();
    let verdicts = health.check(VERDICTS_CHECK, "starting");
    verdicts.pass();
    assert_eq!(overview.answer(0)["no_judge"], json!(null));
    let why = "none for 2 s (12 pages wait; no judge answers)";
    verdicts.fail(why);
    let answer = overview.answer(0);
    assert_eq!(answer["no_judge"], json!({"since_ms": 9000, "why": why}));
    assert_eq!(answer["judges"][0]["state"], "no_judge");
}

#[test]
fn lags_are_listed_by_topic_without_partition_labels() {
    let metrics = Metrics::new(&settings::Metrics { partition_labels: false, labels: Vec::new() }).unwrap();
    metrics.consumer_lags(&BTreeMap::from([(PartitionId::new("t", 0), 5), (PartitionId::new("t", 1), 7)]));
    assert_eq!(lags(&metrics.values()), json!([{"topic": "t", "partition": null, "lag": 12.0}]));
}
