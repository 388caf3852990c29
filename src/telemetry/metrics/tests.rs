use super::super::catalog::Spec;
use super::super::labels::{
    ColdStart, Encoding, Eviction, Extraction, Label, RestoreSource, SnapshotOperation, Step, TransactionResult,
};
use proptest::prelude::*;

use super::*;
use crate::fingerprint::PerMille;

fn metrics() -> Metrics {
    with(true)
}

fn with(partition_labels: bool) -> Metrics {
    Metrics::new(&settings::Metrics { partition_labels, labels: [("env".to_owned(), "test".to_owned())].into() })
        .unwrap()
}

/// The value of the series whose line begins like this, labels in any order.
#[track_caller]
fn value(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let mut found = text.lines().filter(|line| {
        let series = line.split(['{', ' ']).next();
        series == Some(name) && labels.iter().all(|label| line.contains(label))
    });
    let line = found.next()?;
    assert_eq!(found.next(), None, "{name} {labels:?} is not one series");
    Some(line.rsplit(' ').next().unwrap().parse().unwrap())
}

/// Every combination of the closed labels.
fn combinations(spec: &Spec) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for label in spec.labels {
        if let Label::Closed(name, values) = label {
            let longer = |before: &Vec<String>| {
                let before = before.clone();
                values.iter().map(move |value| [before.clone(), vec![format!("{name}=\"{value}\"")]].concat())
            };
            all = all.iter().flat_map(longer).collect();
        }
    }
    all
}

#[test]
fn every_series_with_closed_labels_exists_from_the_start() {
    let text = metrics().render();
    for spec in TABLE {
        let open = spec.labels.iter().any(|label| matches!(label, Label::Open(_)));
        let plain_gauge = spec.kind == Kind::Gauge && spec.labels.is_empty();
        // It has only pairs that occur.
        if open || plain_gauge || spec.name == catalog::ERRORS.name {
            continue;
        }
        for labels in combinations(spec) {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            let name = match spec.kind {
                Kind::Histogram(_) => format!("{}_count", spec.name),
                Kind::Counter | Kind::Gauge => spec.name.to_owned(),
            };
            assert_eq!(value(&text, &name, &labels), Some(0.0), "{name} {labels:?}\n{text}");
        }
    }
    for reject in Reject::ALL {
        let reason = format!("reason=\"{}\"", reject.name());
        let stage = format!("stage=\"{}\"", reject.stage());
        assert_eq!(value(&text, "dupgate_dead_letters_total", &[&reason, &stage]), Some(0.0));
        assert_eq!(value(&text, "dupgate_withdrawn_documents_total", &[&reason]), Some(0.0));
    }
    for component in Component::ALL {
        for kind in component.kinds() {
            let labels = [format!("component=\"{}\"", component.name()), format!("kind=\"{}\"", kind.name())];
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            assert_eq!(value(&text, "dupgate_errors_total", &labels), Some(0.0), "{labels:?}");
        }
    }
    assert_eq!(value(&text, "dupgate_last_commit_timestamp_seconds", &[]), None, "1970 is not the last commit");
}

#[test]
fn errors_have_no_series_for_pairs_that_do_not_occur_before_they_do() {
    let metrics = metrics();
    let pairs = |text: &str| text.lines().filter(|line| line.starts_with("dupgate_errors_total{")).count();
    let impossible = &["component=\"traces\"", "kind=\"fenced\""];
    let text = metrics.render();
    assert_eq!(pairs(&text), Component::ALL.iter().map(|component| component.kinds().len()).sum::<usize>(), "{text}");
    assert_eq!(value(&text, "dupgate_errors_total", impossible), None);
    metrics.error(Component::Traces, ErrorKind::Fenced);
    assert_eq!(value(&metrics.render(), "dupgate_errors_total", impossible), Some(1.0));
}

/// Calls every recording function once.
fn record_everything(metrics: &Metrics) {
    let now = Timestamp::from_millis(1_000_500);
    let second = Duration::from_secs(1);
    metrics.consumed("t", 2, 30);
    metrics.document(VerdictLabel::Near);
    metrics.bypassed(BypassReason::Tombstone);
    metrics.series().duplicate_bytes.of(Duplicate::Near).increment(5);
    metrics.dead_letter(Reject::NoText);
    metrics.dead_letters_held(&BTreeMap::from([(Reject::NoText, 4)]));
    metrics.oldest_pending_verdict(second);
    metrics.produced(OutputKind::Unique, 3, 40);
    metrics.produce_failed(OutputKind::Unique, Reject::Refused);
    metrics.error(Component::Log, ErrorKind::Fatal);
    metrics.series().process_duration.record(second);
    metrics.series().stage_duration.of(Step::Decode).record(second);
    metrics.series().stage_duration.of(Step::Produce).record_many(second, 3);
    metrics.end_to_end_latency(Timestamp::from_millis(1_000_000), now);
    metrics.batch_size(7);
    metrics.match_distance(3);
    metrics.match_similarity(PerMille(953));
    metrics.match_containment(PerMille(812));
    metrics.largest_cluster(7);
    metrics.match_age(Duplicate::Exact, -7000);
    metrics.document_tokens(Segmenter::Jieba, 100);
    metrics.series().extracted.of(Extraction::Main).increment(1);
    metrics.series().decoded.of(Encoding::Gb18030).increment(1);
    metrics.series().without_id.increment(1);
    metrics.registry_answers(false);
    metrics.consumer_lags(&BTreeMap::from([(PartitionId::new("t", 1), 9)]));
    metrics.blocked_lag(4);
    metrics.last_record("t", now);
    metrics.polled(now);
    metrics.committed(CommitResult::Ok, now);
    metrics.series().transaction_duration.of(TransactionResult::Committed).record(second);
    metrics.assigned_partitions(&BTreeMap::from([("t".to_owned(), 2)]));
    metrics.blocked_partitions(Blocked::NoOffset, 1);
    metrics.rebalanced(Rebalance::Assign, 2);
    metrics.series().rebalance_pause.record(second);
    metrics.paused(Pause::Backpressure, true);
    metrics.producer_queue(1, 2);
    let totals = IndexTotals {
        is_ready: true,
        entries: 1,
        oldest: Some(now),
        stream_time: Some(now),
        exact_bytes: 2,
        largest_bucket: 1,
        ..IndexTotals::default()
    };
    metrics.index(LogPartition(0), totals);
    metrics.lookup(2, Some(5));
    metrics.index_limits(1, second, second);
    metrics.log_retention(second);
    metrics.series().index_evictions.of(Eviction::Capacity).increment(1);
    metrics.series().index_late_records.increment(1);
    metrics.series().index_full_keys.increment(1);
    metrics.series().index_family_members.increment(1);
    metrics.series().index_members_left_out.increment(1);
    metrics.withdrawn(Reject::TextPanic);
    metrics.series().cold_starts.of(ColdStart::NewScheme).increment(1);
    metrics.verdict(second);
    metrics.series().judge_wait.record_many(second, 1);
    metrics.log_lag(Log::Verdicts, 1);
    metrics.series().log_repeats.increment(1);
    metrics.log_kept(LogPartition(0), second);
    metrics.trimmed(LogPartition(0), now);
    metrics.series().second_verdicts.increment(1);
    metrics.series().clamped_timestamps.increment(1);
    metrics.judge_active(LogPartition(0), true);
    metrics.dual_period(LogPartition(0), second);
    metrics.series().judge_takeovers.increment(1);
    metrics.series().index_restores.increment(1);
    metrics.series().restored_entries.of(RestoreSource::Log).increment(1);
    metrics.series().snapshot_duration.of(SnapshotOperation::Write).record(second);
    metrics.snapshot_written(now, 1);
    metrics.series().snapshot_failures.of(SnapshotOperation::Write).increment(1);
    metrics.build_info(&Build { version: "1".into(), revision: "2".into(), librdkafka: "3".into() });
    metrics.config_info("g", "h", "s", "route", "simhash");
    metrics.workers(2);
    metrics.worker_busy(second);
    metrics.queue_records(Queue::Work, 1);
    metrics.transaction_limit(1);
    let replay = ReplayProgress { of_range: 3, share: 0.25, remaining: Some(9), is_yielding: true, ..replay_begun() };
    metrics.replay("7c1f", &replay);
}

fn replay_begun() -> ReplayProgress {
    ReplayProgress { remaining: Some(12), ..ReplayProgress::default() }
}

#[test]
fn every_metric_of_the_table_is_recorded_and_every_recorded_metric_is_in_the_table() {
    let metrics = metrics();
    record_everything(&metrics);
    let text = metrics.render();
    for spec in TABLE {
        let kind = match spec.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        assert!(text.contains(&format!("# TYPE {} {kind}\n", spec.name)), "{} is not a {kind}", spec.name);
        assert!(text.contains(&format!("# HELP {} {}\n", spec.name, spec.help)), "{} has no help", spec.name);
        let touched = text.lines().filter(|line| line.starts_with(spec.name) && !line.ends_with(" 0"));
        assert!(touched.count() > 0, "nothing was recorded for {}", spec.name);
        for label in spec.labels {
            let carries = |line: &str| line.starts_with(spec.name) && line.contains(&format!("{}=\"", label.name()));
            assert!(text.lines().any(carries), "{} has no label {}", spec.name, label.name());
        }
    }
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap();
        let known = TABLE.iter().any(|spec| spec.name == name) || name.starts_with("process_");
        assert!(known, "{name} is not in the table");
    }
    assert!(text.contains("process_resident_memory_bytes"), "the process is measured");
    assert!(text.lines().filter(|line| line.starts_with("dupgate_")).all(|line| line.contains("env=\"test\"")));
}

#[test]
fn units_are_those_of_the_names() {
    let metrics = metrics();
    record_everything(&metrics);
    metrics.worker_busy(Duration::from_millis(1500));
    metrics.worker_busy(Duration::from_millis(500));
    let text = metrics.render();
    assert_eq!(value(&text, "dupgate_end_to_end_latency_seconds_sum", &[]), Some(0.5));
    assert_eq!(value(&text, "dupgate_last_commit_timestamp_seconds", &[]), Some(1000.5));
    assert_eq!(value(&text, "dupgate_match_age_seconds_sum", &["exact"]), Some(7.0));
    assert_eq!(value(&text, "dupgate_text_thread_busy_seconds_total", &[]), Some(3.0));
    assert_eq!(value(&text, "dupgate_documents_total", &["bypass"]), Some(1.0));
    assert_eq!(value(&text, "dupgate_match_similarity_ratio_sum", &[]), Some(0.953));
    assert_eq!(value(&text, "dupgate_match_containment_ratio_sum", &[]), Some(0.812));
    assert_eq!(value(&text, "dupgate_largest_cluster_documents", &[]), Some(7.0));
    assert_eq!(value(&text, "dupgate_match_hamming_distance_bucket", &["le=\"2\""]), Some(0.0));
    assert_eq!(value(&text, "dupgate_match_hamming_distance_bucket", &["le=\"3\""]), Some(1.0), "bounds are inclusive");
}

#[test]
fn partitions_that_went_away_fall_to_zero() {
    let metrics = metrics();
    let lags = |list: &[(i32, u64)]| list.iter().map(|(number, lag)| (PartitionId::new("t", *number), *lag)).collect();
    metrics.consumer_lags(&lags(&[(0, 5), (1, 7)]));
    metrics.consumer_lags(&lags(&[(1, 6)]));
    let text = metrics.render();
    assert_eq!(value(&text, "dupgate_consumer_lag_records", &["partition=\"0\""]), Some(0.0));
    assert_eq!(value(&text, "dupgate_consumer_lag_records", &["partition=\"1\""]), Some(6.0));
    metrics.assigned_partitions(&BTreeMap::from([("t".to_owned(), 2)]));
    metrics.assigned_partitions(&BTreeMap::new());
    assert_eq!(value(&metrics.render(), "dupgate_assigned_partitions", &[]), Some(0.0));
}

#[test]
fn without_partition_labels_lags_are_summed_by_topic() {
    let metrics = with(false);
    metrics.consumer_lags(&BTreeMap::from([(PartitionId::new("t", 0), 5), (PartitionId::new("t", 1), 7)]));
    let text = metrics.render();
    assert_eq!(value(&text, "dupgate_consumer_lag_records", &["topic=\"t\""]), Some(12.0));
    assert!(!text.contains("partition="), "{text}");
}

#[test]
fn rebalances_that_move_nothing_are_not_counted() {
    let metrics = metrics();
    metrics.rebalanced(Rebalance::Revoke, 0);
    assert_eq!(value(&metrics.render(), "dupgate_rebalances_total", &["revoke"]), Some(0.0));
    metrics.rebalanced(Rebalance::Revoke, 1);
    assert_eq!(value(&metrics.render(), "dupgate_rebalances_total", &["revoke"]), Some(1.0));
}

#[test]
fn instances_of_one_process_do_not_share_a_recorder() {
    let (one, other) = (metrics(), metrics());
    one.document(VerdictLabel::Unique);
    assert_eq!(value(&one.render(), "dupgate_documents_total", &["unique"]), Some(1.0));
    assert_eq!(value(&other.render(), "dupgate_documents_total", &["unique"]), Some(0.0));
}

#[test]
fn the_judges_of_one_process_are_shown_as_one() {
    let metrics = metrics();
    let at = |millis| Some(Timestamp::from_millis(millis));
    let one = IndexTotals {
        is_ready: true,
        entries: 3,
        oldest: at(9_000),
        exact_bytes: 10,
        largest_bucket: 7,
        ..IndexTotals::default()
    };
    let other = IndexTotals {
        entries: 4,
        oldest: at(8_000),
        exact_bytes: 1,
        largest_bucket: 5,
        waiting: 6,
        ..IndexTotals::default()
    };
    metrics.index(LogPartition(0), IndexTotals { entries: 1_000, ..one });
    metrics.index(LogPartition(1), other);
    metrics.index(LogPartition(0), one);
    let text = metrics.render();
    assert_eq!(value(&text, "dupgate_index_entries", &[]), Some(7.0));
    assert_eq!(value(&text, "dupgate_index_ready", &[]), Some(0.0), "one of them restores");
    assert_eq!(value(&text, "dupgate_index_oldest_entry_timestamp_seconds", &[]), Some(8.0));
    assert_eq!(value(&text, "dupgate_index_memory_bytes", &["part=\"exact\""]), Some(11.0));
    assert_eq!(value(&text, "dupgate_index_memory_bytes", &["part=\"refs\""]), Some(0.0));
    assert_eq!(value(&text, "dupgate_index_largest_bucket_entries", &[]), Some(7.0));
    assert_eq!(value(&text, "dupgate_internal_log_lag_records", &["log=\"fingerprints\""]), Some(6.0));
}

#[test]
fn a_replay_counts_records_from_zero_and_shows_the_remaining_ones() {
    let metrics = metrics();
    let id = "replay=\"7c1f\"";
    metrics.replay("7c1f", &replay_begun());
    let text = metrics.render();
    for phase in ["follow", "warm_up", "range"] {
        let phase = format!("phase=\"{phase}\"");
        assert_eq!(value(&text, "dupgate_replay_records_total", &[id, &phase]), Some(0.0), "{text}");
    }
    assert_eq!(value(&text, "dupgate_replay_progress_ratio", &[id]), Some(0.0));
    assert_eq!(value(&text, "dupgate_replay_yielding", &[id]), Some(0.0));

    let later = ReplayProgress { followed: 5, warmed_up: 1, of_range: 2, share: 0.75, ..replay_begun() };
    metrics.replay("7c1f", &ReplayProgress { remaining: Some(3), is_yielding: true, ..later });
    let text = metrics.render();
    for (phase, records) in [("follow", 5.0), ("warm_up", 1.0), ("range", 2.0)] {
        let phase = format!("phase=\"{phase}\"");
        assert_eq!(value(&text, "dupgate_replay_records_total", &[id, &phase]), Some(records), "{text}");
    }
    assert_eq!(value(&text, "dupgate_replay_progress_ratio", &[id]), Some(0.75));
    assert_eq!(value(&text, "dupgate_replay_remaining_records", &[id]), Some(3.0));
    assert_eq!(value(&text, "dupgate_replay_yielding", &[id]), Some(1.0));

    let of_files = ReplayProgress { remaining: None, ..later };
    let metrics = with(true);
    metrics.replay("files", &of_files);
    let text = metrics.render();
    assert_eq!(value(&text, "dupgate_replay_remaining_records", &[]), None, "the lines were not counted");
}

#[test]
fn the_replay_label_of_all_series_is_not_doubled() {
    let labels = std::collections::BTreeMap::from([("replay".to_owned(), "7c1f".to_owned())]);
    let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels }).unwrap();
    metrics.replay("7c1f", &replay_begun());
    let text = metrics.render();
    let line = text.lines().find(|line| line.starts_with("dupgate_replay_progress_ratio{")).unwrap();
    assert_eq!(line.matches("replay=").count(), 1, "{line}");
}

fn without_labels() -> Metrics {
    Metrics::new(&settings::Metrics::default()).unwrap()
}

#[test]
fn values_are_read_by_their_labels() {
    let metrics = without_labels();
    assert_eq!(metrics.values().largest(&catalog::LAST_COMMIT_TIMESTAMP), None, "nothing is committed");
    metrics.dead_letter(Reject::NoText);
    metrics.consumer_lags(&BTreeMap::from([(PartitionId::new("t", 1), 5), (PartitionId::new("u", 0), 7)]));
    metrics.config_info("g", "h\"1", "s", "route", "simhash");
    let values = metrics.values();
    assert_eq!((values.count(&catalog::CONSUMER_LAG), values.largest(&catalog::CONSUMER_LAG)), (12, Some(7.0)));
    assert_eq!(values.count_of(&catalog::CONSUMER_LAG, &[("topic", "t")]), 5);
    assert_eq!(values.count_of(&catalog::CONSUMER_LAG, &[("topic", "t"), ("partition", "0")]), 0);
    let by_topic: BTreeMap<_, _> = values.by_label(&catalog::CONSUMER_LAG, "topic").collect();
    assert_eq!(by_topic, BTreeMap::from([("t", 5.0), ("u", 7.0)]));
    let mut by_partition: Vec<_> = values.by_two_labels(&catalog::CONSUMER_LAG, "topic", "partition").collect();
    by_partition.sort_by(|one, other| one.0.cmp(other.0));
    assert_eq!(by_partition, [("t", Some("1"), 5.0), ("u", Some("0"), 7.0)]);
    assert_eq!(values.count_of(&catalog::DEAD_LETTERS, &[("reason", Reject::NoText.name())]), 1);
    assert_eq!(values.label(&catalog::CONFIG_INFO, "hash"), Some("h\"1"));
    assert!(values.largest(&catalog::PROCESS_START_TIME).is_some_and(|seconds| seconds > 1e9));
}

#[test]
fn buckets_are_cumulative_with_inclusive_bounds() {
    let metrics = without_labels();
    for millis in [100, 101, 250, 90_000_000] {
        metrics.end_to_end_latency(Timestamp::from_millis(0), Timestamp::from_millis(millis));
    }
    let values = metrics.values();
    let buckets = values.buckets(&catalog::END_TO_END_LATENCY);
    assert_eq!(buckets[..3], [(0.1, 1.0), (0.25, 3.0), (0.5, 3.0)]);
    assert_eq!(buckets[buckets.len() - 2..], [(86_400.0, 3.0), (f64::INFINITY, 4.0)]);
    assert_eq!(values.buckets(&catalog::STAGE_DURATION), [], "only Prometheus counts it");
}

/// Every line of the exported text, except those of histograms that are not read.
fn exported(metrics: &Metrics) -> BTreeSet<String> {
    let unread = |line: &str| {
        let mut histograms = TABLE.iter().filter(|spec| matches!(spec.kind, Kind::Histogram(_)));
        let read = [catalog::END_TO_END_LATENCY.name, catalog::VERDICT_SECONDS.name];
        histograms.any(|spec| {
            let is_bucket = read.contains(&spec.name) && line.starts_with(&format!("{}_bucket", spec.name));
            line.starts_with(spec.name) && !is_bucket
        })
    };
    let text = metrics.render();
    let lines = text.lines().filter(|line| line.starts_with("dupgate_") && !unread(line));
    lines.map(str::to_owned).collect()
}

/// The same lines, from the values.
fn readings(values: &MetricValues) -> BTreeSet<String> {
    let ours = values.series.iter().filter(|(key, _)| key.name().starts_with("dupgate_"));
    let mut lines: BTreeSet<String> = ours
        .map(|(key, value)| {
            let labels: Vec<String> =
                key.labels().map(|label| format!("{}=\"{}\"", label.key(), label.value())).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            format!("{}{labels} {value}", key.name())
        })
        .collect();
    for (name, buckets) in &values.buckets {
        lines.extend(buckets.iter().map(|(bound, count)| {
            let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
            format!("{name}_bucket{{le=\"{bound}\"}} {count}")
        }));
    }
    lines
}

proptest! {
    #[test]
    fn what_is_read_is_what_is_exported(
        events in prop::collection::vec((0_u8..8, 0_i32..3, 0_u64..100_000), 0..60), scrapes in 1_usize..4,
    ) {
        let metrics = without_labels();
        for _ in 0..scrapes {
            for (event, place, number) in &events {
                let topic = format!("t{place}");
                match event {
                    0 => metrics.consumed(&topic, *number, number * 7),
                    1 => metrics.document(VerdictLabel::ALL[usize::try_from(*place).unwrap()]),
                    2 => metrics.consumer_lags(&BTreeMap::from([(PartitionId::new(topic.as_str(), *place), *number)])),
                    // Times on the bounds of buckets, among others.
                    3 => metrics.verdict(Duration::from_millis(number % 50 * 250)),
                    4 => metrics.series().judge_wait.record_many(Duration::from_millis(*number), 3),
                    5 => metrics.worker_busy(Duration::from_millis(*number)),
                    6 => metrics.replay(&topic, &ReplayProgress { share: 0.25, of_range: *number, ..ReplayProgress::default() }),
                    _ => metrics.end_to_end_latency(
                        Timestamp::from_millis(0), Timestamp::from_millis(i64::try_from(*number).unwrap() * 1000),
                    ),
                }
            }
            prop_assert_eq!(readings(&metrics.values()), exported(&metrics));
        }
    }
}

#[test]
fn families_are_in_the_order_of_their_names() {
    let text =
        "# HELP b Second.\n# TYPE b counter\nb{x=\"1\"} 2\nb{x=\"0\"} 1\n\n# HELP a First.\n# TYPE a gauge\na 3\n\n";
    let expected =
        "# HELP a First.\n# TYPE a gauge\na 3\n\n# HELP b Second.\n# TYPE b counter\nb{x=\"1\"} 2\nb{x=\"0\"} 1\n\n";
    assert_eq!(ordered(text), expected);
}

#[test]
fn every_scrape_has_the_same_families_in_the_same_order() {
    let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
    metrics.consumed("pages", 1, 1);
    let names = || -> Vec<String> {
        let text = metrics.render();
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(str::to_owned).collect()
    };
    let first = names();
    assert!(first.len() > 20 && first.is_sorted(), "{first:?}");
    assert_eq!(names(), first);
}
