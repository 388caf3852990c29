//! The overview of a process whose metrics and checks are set by hand.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::config::settings;
use crate::record::{PartitionId, Reject};
use crate::telemetry::IndexTotals;
use crate::telemetry::labels::{Blocked, Eviction, VerdictLabel};

/// An overview whose clock continues by five seconds each time it is read.
fn overview() -> (Overview, Metrics, Health) {
    let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
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
    let metrics = Metrics::new(&settings::Metrics { partition_labels: false, ..settings::Metrics::default() }).unwrap();
    metrics.consumer_lags(&BTreeMap::from([(PartitionId::new("t", 0), 5), (PartitionId::new("t", 1), 7)]));
    assert_eq!(lags(&metrics.values()), json!([{"topic": "t", "partition": null, "lag": 12.0}]));
}

const BOUNDS: [f64; 5] = [0.1, 0.5, 1.0, 10.0, f64::INFINITY];

/// Cumulative counts of these times.
fn buckets(times: &[f64]) -> Buckets {
    let count = |bound: f64| times.iter().map(|time| f64::from(u8::from(*time <= bound))).sum();
    BOUNDS.into_iter().map(|bound| (bound, count(bound))).collect()
}

fn is(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() < 1e-9)
}

#[test]
fn quantiles_are_spread_evenly_within_a_bucket() {
    let times = buckets(&[0.2, 0.3, 0.4, 0.4]);
    assert!(is(quantile(0.5, &[], &times), 0.3));
    assert!(is(quantile(1.0, &[], &times), 0.5));
    assert!(is(quantile(0.5, &[], &buckets(&[0.05, 20.0, 30.0])), 10.0), "above the last bound");
    assert_eq!(quantile(0.5, &times, &times), None, "nothing was counted");
    assert_eq!(quantile(0.5, &[], &[]), None);
}

proptest! {
    #[test]
    fn a_quantile_lies_in_the_bucket_of_the_time_that_it_estimates(
        old in prop::collection::vec(0.0_f64..20.0, 0..40),
        new in prop::collection::vec(0.0_f64..20.0, 1..40),
        rank in 0.01_f64..1.0,
    ) {
        let all: Vec<f64> = old.iter().chain(&new).copied().collect();
        let found = quantile(rank, &buckets(&old), &buckets(&all)).unwrap();
        let mut sorted = new.clone();
        sorted.sort_by(f64::total_cmp);
        // The oracle: the time at that place of the sorted list.
        let places = (1..=sorted.len()).map(|place| f64::from(u32::try_from(place).unwrap()));
        let count = f64::from(u32::try_from(sorted.len()).unwrap());
        let place = places.take_while(|place| *place < rank * count).count();
        let time = sorted[place.min(sorted.len() - 1)];
        let above = BOUNDS.into_iter().find(|bound| time <= *bound).unwrap();
        let below = BOUNDS.into_iter().take_while(|bound| *bound < time).last().unwrap_or(0.0);
        prop_assert!(found >= below - 1e-9 && found <= above + 1e-9, "{found} for {time}: {below} to {above}");
    }

    #[test]
    fn a_higher_rank_gives_no_lower_quantile(
        times in prop::collection::vec(0.0_f64..20.0, 1..40), one in 0.0_f64..1.0, other in 0.0_f64..1.0,
    ) {
        let times = buckets(&times);
        let (low, high) = (one.min(other), one.max(other));
        prop_assert!(quantile(low, &[], &times).unwrap() <= quantile(high, &[], &times).unwrap() + 1e-9);
    }
}

#[test]
fn a_reading_has_the_values_of_the_metrics() {
    let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
    assert_eq!(Reading::of(&metrics.values()).window_reached, None, "before anything was seen");
    for (verdict, count) in [(VerdictLabel::Unique, 3), (VerdictLabel::Near, 2), (VerdictLabel::Bypass, 1)] {
        (0..count).for_each(|_| metrics.document(verdict));
    }
    metrics.consumer_lags(&BTreeMap::from([(PartitionId::new("t", 1), 9), (PartitionId::new("u", 0), 4)]));
    metrics.index_limits(400, Duration::from_secs(100), Duration::from_secs(5));
    let oldest = Some(Timestamp::from_millis(50_000));
    let stream_time = Some(Timestamp::from_millis(75_000));
    metrics.index(LogPartition(0), IndexTotals { oldest, stream_time, exact_bytes: 100, ..IndexTotals::default() });
    metrics.verdict(Duration::from_millis(20));
    let reading = Reading::of(&metrics.values());
    let expected: [f64; VERDICTS] = [3.0, 0.0, 0.0, 2.0, 0.0, 1.0];
    assert!(reading.documents.iter().zip(expected).all(|(found, expected)| is(Some(*found), expected)));
    assert!(is(Some(reading.lag), 13.0));
    assert!(is(reading.index_fill, 0.25) && is(reading.window_reached, 0.25), "{reading:?}");
    let wait = quantile(0.5, &[], &reading.verdict_wait).unwrap();
    assert!((0.01..=0.025).contains(&wait), "{wait}");
    assert_eq!(quantile(0.5, &[], &reading.end_to_end), None);
}

fn reading(unique: f64) -> Reading {
    let mut documents = [0.0; VERDICTS];
    documents[0] = unique;
    Reading { documents, lag: 7.0, ..Reading::default() }
}

fn column(history: &History, after: u64, name: &str) -> Vec<f64> {
    let columns = history.columns(after);
    columns[name].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn the_first_reading_is_the_base_of_the_second() {
    let mut history = History::default();
    history.note(Duration::from_secs(100), Timestamp::from_millis(1000), reading(50.0));
    assert_eq!((history.last(), column(&history, 0, "number").len()), (0, 0));
    history.note(Duration::from_secs(105), Timestamp::from_millis(6000), reading(80.0));
    // The next one is late: the process was suspended for a while.
    history.note(Duration::from_secs(205), Timestamp::from_millis(106_000), reading(180.0));
    history.note(Duration::from_secs(205), Timestamp::from_millis(106_001), reading(190.0));
    assert_eq!(column(&history, 0, "unique"), [6.0, 1.0]);
    assert_eq!(column(&history, 0, "at_ms"), [6000.0, 106_000.0]);
    assert_eq!(column(&history, 1, "number"), [2.0]);
    assert_eq!(column(&history, 0, "lag"), [7.0, 7.0]);
    assert_eq!(history.columns(0)["end_to_end_p50"], serde_json::json!([null, null]), "nothing was counted");
    assert!(column(&history, 9, "number").is_empty(), "a number of an earlier start");
}

#[test]
fn an_index_that_was_full_long_ago_is_full_no_longer() {
    let mut history = History::default();
    let evicted = [0.0, 0.0, 3.0, 5.0].into_iter().chain(std::iter::repeat_n(5.0, RECENT));
    let mut recent = Vec::new();
    for (seconds, evicted_for_capacity) in (0..).step_by(5).zip(evicted) {
        let reading = Reading { evicted_for_capacity, ..Reading::default() };
        history.note(Duration::from_secs(seconds), Timestamp::from_millis(0), reading);
        recent.push(history.evicted_for_capacity());
    }
    assert_eq!(recent[..4], [0.0, 0.0, 3.0, 5.0]);
    assert_eq!(recent[RECENT..], [5.0, 5.0, 2.0, 0.0], "five minutes later");
}

#[test]
fn numbers_are_shortened_to_four_digits() {
    assert_eq!(short(Some(1234.567)), 1235.0);
    assert_eq!(short(Some(0.001_234_56)), 0.001_235);
    assert_eq!(short(Some(f64::INFINITY)), Value::Null);
    assert_eq!(short(None), Value::Null);
}

proptest! {
    #[test]
    fn the_ring_keeps_the_newest_samples_in_order_and_never_grows(
        steps in prop::collection::vec((1_u64..9_000, 0_u32..1_000), 0..1_600), after in 0_u64..1_700,
    ) {
        let mut history = History::default();
        let capacity = history.samples.capacity();
        let (mut now, mut total) = (Duration::ZERO, 0.0);
        history.note(now, Timestamp::from_millis(0), reading(0.0));
        let mut expected = Vec::new();
        for (millis, pages) in &steps {
            let step = Duration::from_millis(*millis);
            now += step;
            total += f64::from(*pages);
            history.note(now, Timestamp::from_millis(0), reading(total));
            expected.push(f64::from(*pages) / step.as_secs_f64());
        }
        prop_assert_eq!(history.samples.capacity(), capacity);
        prop_assert_eq!(history.last(), steps.len() as u64);
        let first = steps.len().saturating_sub(KEPT).max(usize::try_from(after).unwrap()).min(steps.len());
        let numbers: Vec<u64> = history.after(after).map(|sample| sample.number).collect();
        prop_assert_eq!(numbers, (first as u64 + 1..=steps.len() as u64).collect::<Vec<_>>());
        for (sample, rate) in history.after(after).zip(&expected[first..]) {
            prop_assert!((sample.documents[0] - rate).abs() <= 1e-6 * rate.max(1.0));
        }
    }
}

/// Names of checks, with the reason of each failing one.
type Known = [(&'static str, Option<&'static str>)];

/// Whether this instance judges partition 0, if that is known, and the checks.
type Seen = (Option<bool>, &'static Known);

fn checks(list: &Known) -> Vec<(String, Result<(), String>)> {
    let state = |why: Option<&str>| why.map_or(Ok(()), |why| Err(why.to_owned()));
    list.iter().map(|(name, why)| ((*name).to_owned(), state(*why))).collect()
}

/// Applies these states one after the other, a second apart; returns state and time of partition 0, and since when
/// no instance judges.
fn noted(partitions: u32, states: &[Seen]) -> Vec<(String, i64, Option<i64>)> {
    let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
    let mut judges = Judges::default();
    let one = |(second, (is_judge, known)): (usize, &Seen)| {
        is_judge.iter().for_each(|is_judge| metrics.judge_active(LogPartition(0), *is_judge));
        let at = Timestamp::from_millis(i64::try_from(second).unwrap() * 1000);
        judges.note(at, &metrics.values(), &checks(known), partitions);
        let json = judges.json();
        assert_eq!(json.as_array().unwrap().len(), usize::try_from(partitions).unwrap());
        let state = json[0]["state"].as_str().unwrap().to_owned();
        (state, json[0]["since_ms"].as_i64().unwrap(), judges.silence()["since_ms"].as_i64())
    };
    states.iter().enumerate().map(one).collect()
}

#[test]
fn the_state_of_a_partition_is_shown_with_its_age() {
    let (active, idle) = (Some(true), Some(false));
    let found = noted(
        1,
        &[
            (None, &[("judge 0", Some("restoring the index"))]),
            (None, &[("judge 0", Some("restoring the index, 40 % of the verdict log"))]),
            (idle, &[("judge 0", None)]),
            (idle, &[("judge 0", Some("waits to take over (at most 6 s): no instance judges"))]),
            (idle, &[("judge 0", Some("waits to take over (at most 5 s): no instance judges"))]),
            (active, &[("judge 0", None), ("verdicts", None)]),
            (active, &[("judge 0", None), ("verdicts", None)]),
        ],
    );
    let expected = [
        ("not_ready", 0, None),
        ("not_ready", 0, None),
        ("standby", 2000, None),
        ("no_judge", 3000, Some(3000)),
        ("no_judge", 3000, Some(3000)),
        ("judge", 5000, None),
        ("judge", 5000, None),
    ];
    assert_eq!(found, expected.map(|(state, since, silence)| (state.to_owned(), since, silence)));
}

#[test]
fn a_worker_without_a_judge_reports_that_no_instance_judges() {
    const WAITS: Option<&str> = Some("none for 4 s (3306 pages wait; no judge answers)");
    let states: [Seen; 3] =
        [(None, &[("verdicts", None)]), (None, &[("verdicts", WAITS)]), (None, &[("verdicts", None)])];
    let one = noted(1, &states);
    assert_eq!(one[0], ("elsewhere".to_owned(), 0, None));
    assert_eq!(one[1], ("no_judge".to_owned(), 1000, Some(1000)));
    assert_eq!(one[2], ("elsewhere".to_owned(), 2000, None));
    let several = noted(2, &states);
    assert_eq!(several[1], ("elsewhere".to_owned(), 0, Some(1000)), "which of them is not known");
}
