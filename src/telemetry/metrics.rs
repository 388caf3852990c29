//! The recorder, and one typed function for each metric of the [`catalog`].
//!
//! Every series of a closed label set exists from the start, at 0: a rate over a counter that appears with its
//! first increment would miss that increment. Gauges without a label appear when they are first set. Nothing is global:
//! two instances in one process have two recorders. Cost: an atomic operation for closed labels, a lookup by hash for
//! topics and partitions.

mod exposition;
mod indexes;
mod recorder;
mod replays;
mod series;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

pub use self::indexes::IndexTotals;
use self::recorder::ReadableRecorder;
pub use self::replays::ReplayProgress;
use self::series::Series;
pub use self::values::{Buckets, MetricValues, whole};
use super::catalog::{self, Kind, TABLE};
use super::labels::{
    Blocked, BypassReason, ColdStart, CommitResult, Component, Duplicate, Encoding, ErrorKind, Eviction, Extraction,
    LabelValue, LimitedQueue, Log, MemoryPart, Pause, Queue, Rebalance, RestoreSource, Segmenter, SnapshotOperation,
    Step, TransactionResult, VerdictLabel,
};
use crate::config::settings;
use crate::fingerprint::PerMille;
use crate::protocol::LogPartition;
use crate::record::{PartitionId, Reject, Source, Timestamp};
use crate::worker::OutputKind;

/// Records metrics. Clones share one recorder.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

/// Labels of `dupgate_build_info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// Version of the program.
    pub version: String,
    /// Commit it was built from; empty if unknown.
    pub revision: String,
    /// Version of the client library.
    pub librdkafka: String,
}

struct Inner {
    recorder: ReadableRecorder,
    handle: PrometheusHandle,
    process: metrics_process::Collector,
    partition_labels: bool,
    series: Series,
    busy_micros: AtomicU64,
    lags_shown: Mutex<BTreeSet<(String, String)>>,
    topics_shown: Mutex<BTreeSet<String>>,
    /// The last record without a verdict, by reason: position and message.
    examples: Mutex<BTreeMap<&'static str, (String, String)>>,
    /// By partition of the fingerprint log.
    indexes: Mutex<BTreeMap<LogPartition, IndexTotals>>,
}

impl Metrics {
    /// Starts with every series of a closed label set at 0.
    ///
    /// # Errors
    ///
    /// None in practice: the buckets of the [`catalog`] are never empty, which a test checks.
    pub fn new(settings: &settings::Metrics) -> Result<Self, BuildError> {
        let mut builder = PrometheusBuilder::new();
        for spec in TABLE {
            if let Kind::Histogram(buckets) = spec.kind {
                builder = builder.set_buckets_for_metric(Matcher::Full(spec.name.to_owned()), buckets)?;
            }
        }
        for (name, value) in &settings.labels {
            builder = builder.add_global_label(name, value);
        }
        let recorder = ReadableRecorder::new(builder.build_recorder());
        let process = metrics_process::Collector::default();
        metrics::with_local_recorder(&recorder, || {
            process.describe();
            process.collect();
        });
        let series = Series::register(&recorder);
        let handle = recorder.handle();
        Ok(Self {
            inner: Arc::new(Inner {
                recorder,
                handle,
                process,
                partition_labels: settings.partition_labels,
                series,
                busy_micros: AtomicU64::new(0),
                lags_shown: Mutex::default(),
                topics_shown: Mutex::default(),
                examples: Mutex::default(),
                indexes: Mutex::default(),
            }),
        })
    }

    /// Returns the text that Prometheus scrapes, with `process_*` as of the current time.
    #[must_use]
    pub fn render(&self) -> String {
        metrics::with_local_recorder(&self.inner.recorder, || self.inner.process.collect());
        self.inner.recorder.export();
        exposition::ordered(&self.inner.handle.render())
    }

    /// Reads the values of the metrics now. `process_*` has the values of the last [`Metrics::render`], or of the start.
    #[must_use]
    pub fn values(&self) -> MetricValues {
        self.inner.recorder.values()
    }

    /// Moves samples into their buckets. Needed every few seconds: without it memory grows while metrics are not
    /// scraped.
    pub fn upkeep(&self) {
        self.inner.handle.run_upkeep();
    }

    fn series(&self) -> &Series {
        &self.inner.series
    }

    // Flow

    /// Input records of one topic were received, with the bytes of their keys and values.
    pub fn consumed(&self, topic: &str, records: u64, bytes: u64) {
        self.counter(catalog::RECORDS_CONSUMED.name, &[("topic", topic)]).increment(records);
        self.counter(catalog::CONSUMED_BYTES.name, &[("topic", topic)]).increment(bytes);
    }

    /// A document's verdict was acknowledged.
    pub fn document(&self, verdict: VerdictLabel) {
        self.series().documents.of(verdict).increment(1);
    }

    /// A record was passed on without being judged: counts as a document with verdict `bypass`, too.
    pub fn bypassed(&self, reason: BypassReason) {
        self.document(VerdictLabel::Bypass);
        self.series().bypassed.of(reason).increment(1);
    }

    /// A duplicate was not passed downstream.
    pub fn duplicate_bytes(&self, found_by: Duplicate, bytes: u64) {
        self.series().duplicate_bytes.of(found_by).increment(bytes);
    }

    /// A record ended as a dead letter.
    pub fn dead_letter(&self, reason: Reject) {
        if let Some(counter) = self.series().dead_letters.get(&reason) {
            counter.increment(1);
        }
    }

    /// A record was read that gets no verdict, for this reason.
    pub fn dead_letter_read(&self, reason: Reject, source: &Source, why: &str) {
        let mut examples = self.inner.examples.lock().unwrap_or_else(PoisonError::into_inner);
        let (position, message) = examples.entry(reason.name()).or_default();
        *position = source.to_string();
        if message != why {
            why.clone_into(message);
        }
    }

    /// Returns, for each reason, the last record that was read without a verdict: its position, and its problem.
    #[must_use]
    pub fn dead_letter_examples(&self) -> BTreeMap<&'static str, (String, String)> {
        self.inner.examples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records without a verdict that are held back, by reason.
    pub fn dead_letters_held(&self, held: &BTreeMap<Reject, u64>) {
        for (reason, gauge) in &self.series().dead_letters_held {
            gauge.set(float(held.get(reason).copied().unwrap_or(0)));
        }
    }

    /// Brokers acknowledged records of an output, with the bytes of keys, values and headers.
    pub fn produced(&self, output: OutputKind, records: u64, bytes: u64) {
        self.series().records_produced.of(output).increment(records);
        self.series().produced_bytes.of(output).increment(bytes);
    }

    /// A record was given up on after all retries.
    pub fn produce_failed(&self, output: OutputKind, reason: Reject) {
        if let Some(counter) = self.series().produce_failures.of(output).get(&reason) {
            counter.increment(1);
        }
    }

    /// An error occurred.
    pub fn error(&self, component: Component, kind: ErrorKind) {
        let known = self.series().errors.of(component).iter().find(|(of, _)| *of == kind);
        if let Some((_, counter)) = known {
            counter.increment(1);
        } else {
            // An unexpected pair is counted, too.
            self.counter(catalog::ERRORS.name, &[component.pair(), kind.pair()]).increment(1);
        }
    }

    // Latency

    /// A record was acknowledged this long after it was polled.
    pub fn process_duration(&self, elapsed: Duration) {
        self.series().process_duration.record(elapsed);
    }

    /// One step of the work on one document took this long.
    pub fn stage_duration(&self, step: Step, elapsed: Duration) {
        self.series().stage_duration.of(step).record(elapsed);
    }

    /// One step took this long for each of this many documents.
    pub fn stage_durations(&self, step: Step, each: Duration, documents: usize) {
        self.series().stage_duration.of(step).record_many(each, documents);
    }

    /// A record was acknowledged this long after its own timestamp; a timestamp in the future counts as 0.
    pub fn end_to_end_latency(&self, record: Timestamp, now: Timestamp) {
        let millis = if now > record { now.gap_millis(record) } else { 0 };
        self.series().end_to_end_latency.record(Duration::from_millis(millis));
    }

    /// A transaction held this many records.
    pub fn batch_size(&self, records: u64) {
        self.series().batch_size.record(float(records));
    }

    // Match quality

    /// A near match was accepted at this distance.
    pub fn match_distance(&self, bits: u8) {
        self.series().match_distance.record(f64::from(bits));
    }

    /// A near match was accepted at this similarity.
    pub fn match_similarity(&self, similarity: PerMille) {
        self.series().match_similarity.record(similarity.share());
    }

    /// A match was accepted because one page contains this share of the other.
    pub fn match_containment(&self, contained: PerMille) {
        self.series().match_containment.record(contained.share());
    }

    /// The largest cluster has this many documents.
    pub fn largest_cluster(&self, documents: u64) {
        self.set(&catalog::LARGEST_CLUSTER, float(documents));
    }

    /// A duplicate is this much older or younger than its original.
    pub fn match_age(&self, found_by: Duplicate, age_ms: i64) {
        self.series().match_age.of(found_by).record(Duration::from_millis(age_ms.unsigned_abs()));
    }

    /// A document was extracted in this way.
    pub fn document_extracted(&self, extraction: Extraction) {
        self.series().extracted.of(extraction).increment(1);
    }

    /// A document had this encoding.
    pub fn document_decoded(&self, encoding: Encoding) {
        self.series().decoded.of(encoding).increment(1);
    }

    /// A document had this many tokens after filtering.
    pub fn document_tokens(&self, segmenter: Segmenter, tokens: u64) {
        self.series().document_tokens.of(segmenter).record(float(tokens));
    }

    // Kafka client

    /// Sets the lags of all our partitions. Partitions that went away fall to 0.
    pub fn consumer_lags(&self, lags: &BTreeMap<PartitionId, u64>) {
        let mut shown: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (partition, lag) in lags {
            let number = if self.inner.partition_labels { partition.number.to_string() } else { String::new() };
            *shown.entry((partition.topic.to_string(), number)).or_default() += lag;
        }
        let mut before = self.inner.lags_shown.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in before.iter().filter(|key| !shown.contains_key(*key)) {
            self.lag_gauge(gone).set(0.0);
        }
        for (key, lag) in &shown {
            self.lag_gauge(key).set(float(*lag));
        }
        *before = shown.into_keys().collect();
    }

    fn lag_gauge(&self, (topic, number): &(String, String)) -> Gauge {
        let labels: &[(&'static str, &str)] = &[("topic", topic), ("partition", number)];
        let labels = if number.is_empty() { labels.get(..1).unwrap_or_default() } else { labels };
        self.gauge(catalog::CONSUMER_LAG.name, labels)
    }

    /// Sets the part of the lag that is in blocked partitions.
    pub fn blocked_lag(&self, records: u64) {
        self.set(&catalog::BLOCKED_LAG, float(records));
    }

    /// The newest record of a topic that was processed has this event time.
    pub fn last_record(&self, topic: &str, event_time: Timestamp) {
        self.gauge(catalog::LAST_RECORD_TIMESTAMP.name, &[("topic", topic)]).set(seconds(event_time));
    }

    /// A poll returned.
    pub fn polled(&self, now: Timestamp) {
        self.set(&catalog::LAST_POLL_TIMESTAMP, seconds(now));
    }

    /// A commit succeeded or failed.
    pub fn committed(&self, result: CommitResult, now: Timestamp) {
        self.series().offset_commits.of(result).increment(1);
        if result == CommitResult::Ok {
            self.set(&catalog::LAST_COMMIT_TIMESTAMP, seconds(now));
        }
    }

    /// A transaction ended after this time.
    pub fn transaction(&self, result: TransactionResult, elapsed: Duration) {
        self.series().transaction_duration.of(result).record(elapsed);
    }

    /// Sets the numbers of our partitions by topic. Topics that went away fall to 0.
    pub fn assigned_partitions(&self, by_topic: &BTreeMap<String, u64>) {
        let mut before = self.inner.topics_shown.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in before.iter().filter(|topic| !by_topic.contains_key(*topic)) {
            self.gauge(catalog::ASSIGNED_PARTITIONS.name, &[("topic", gone)]).set(0.0);
        }
        for (topic, partitions) in by_topic {
            self.gauge(catalog::ASSIGNED_PARTITIONS.name, &[("topic", topic)]).set(float(*partitions));
        }
        *before = by_topic.keys().cloned().collect();
    }

    /// Sets the number of partitions that are blocked for this reason.
    pub fn blocked_partitions(&self, reason: Blocked, partitions: usize) {
        self.series().blocked.of(reason).set(float(partitions as u64));
    }

    /// A rebalance moved this many partitions. One that moves none is not counted.
    pub fn rebalanced(&self, kind: Rebalance, partitions: usize) {
        if partitions > 0 {
            self.series().rebalances.of(kind).increment(1);
        }
    }

    /// A rebalance callback waited this long.
    pub fn rebalance_pause(&self, elapsed: Duration) {
        self.series().rebalance_pause.record(elapsed);
    }

    /// Consumption is paused for this reason, or no longer.
    pub fn paused(&self, reason: Pause, is_paused: bool) {
        self.series().paused.of(reason).set(flag(is_paused));
    }

    /// Sets the content of the producers' queues.
    pub fn producer_queue(&self, records: u64, bytes: u64) {
        self.set(&catalog::PRODUCER_QUEUE_RECORDS, float(records));
        self.set(&catalog::PRODUCER_QUEUE_BYTES, float(bytes));
    }

    // Index and state

    /// The memory ceiling, the longest window and the time between snapshots are configured.
    pub fn index_limits(&self, max_bytes: u64, window: Duration, snapshot_interval: Duration) {
        self.set(&catalog::INDEX_MEMORY_LIMIT, float(max_bytes));
        self.set(&catalog::INDEX_WINDOW, window.as_secs_f64());
        self.set(&catalog::SNAPSHOT_INTERVAL, snapshot_interval.as_secs_f64());
    }

    /// The verdict log is trimmed to this much event time.
    pub fn log_retention(&self, retention: Duration) {
        self.set(&catalog::LOG_RETENTION, retention.as_secs_f64());
    }

    /// Originals were removed.
    pub fn evicted(&self, reason: Eviction, entries: u64) {
        self.series().index_evictions.of(reason).increment(entries);
    }

    /// Records were before the expiry watermark when they were judged.
    pub fn late_records(&self, records: u64) {
        self.series().index_late_records.increment(records);
    }

    /// This many keys of originals were left out, because enough others have the same key.
    pub fn full_keys(&self, keys: u64) {
        self.series().index_full_keys.increment(keys);
    }

    /// Originals became members of families.
    pub fn family_members(&self, originals: u64) {
        self.series().index_family_members.increment(originals);
    }

    /// Members of a page's family were not compared with it.
    pub fn members_left_out(&self, members: u64) {
        self.series().index_members_left_out.increment(members);
    }

    /// A page was withdrawn after its verdict was requested.
    pub fn withdrawn(&self, reason: Reject) {
        if let Some(counter) = self.series().withdrawn.get(&reason) {
            counter.increment(1);
        }
    }

    /// An index started without the history of one window.
    pub fn cold_start(&self, reason: ColdStart) {
        self.series().cold_starts.of(reason).increment(1);
    }

    /// A verdict was read this long after its request.
    pub fn verdict(&self, elapsed: Duration) {
        self.series().verdict_seconds.record(elapsed);
    }

    /// Requests waited this long for the judge.
    pub fn judge_wait(&self, elapsed: Duration, entries: usize) {
        self.series().judge_wait.record_many(elapsed, entries);
    }

    /// Sets the longest wait for a verdict; zero if no page waits.
    pub fn oldest_pending_verdict(&self, age: Duration) {
        self.set(&catalog::OLDEST_PENDING_VERDICT, age.as_secs_f64());
    }

    /// Sets the number of unread records of a log.
    pub fn log_lag(&self, log: Log, entries: u64) {
        self.series().log_lag.of(log).set(float(entries));
    }

    /// Sets the event time that the kept verdict log of a partition spans.
    pub fn log_kept(&self, log: LogPartition, span: Duration) {
        self.gauge(catalog::LOG_SPAN.name, &[("log_partition", &log.to_string())]).set(span.as_secs_f64());
    }

    /// The beginning of both logs of a partition was deleted.
    pub fn trimmed(&self, log: LogPartition, now: Timestamp) {
        let gauge = self.gauge(catalog::LAST_TRIM_TIMESTAMP.name, &[("log_partition", &log.to_string())]);
        gauge.set(seconds(now));
    }

    /// Requests were for positions already judged.
    pub fn repeats(&self, entries: u64) {
        self.series().log_repeats.increment(entries);
    }

    /// Verdicts of the log were for pages that had one.
    pub fn second_verdicts(&self, verdicts: u64) {
        self.series().second_verdicts.increment(verdicts);
    }

    /// Event times were bounded by the brokers' clock.
    pub fn clamped_timestamps(&self, records: u64) {
        self.series().clamped_timestamps.increment(records);
    }

    /// Sets whether this instance judges a partition of the fingerprint log.
    pub fn judge_active(&self, log: LogPartition, is_active: bool) {
        self.gauge(catalog::JUDGE_ACTIVE.name, &[("log_partition", &log.to_string())]).set(flag(is_active));
    }

    /// This instance became the judge of a partition.
    pub fn judge_takeover(&self) {
        self.series().judge_takeovers.increment(1);
    }

    /// Originals were restored.
    pub fn restored(&self, source: RestoreSource, entries: u64) {
        self.series().restored_entries.of(source).increment(entries);
    }

    /// A snapshot was written or read in this time.
    pub fn snapshot_duration(&self, operation: SnapshotOperation, elapsed: Duration) {
        self.series().snapshot_duration.of(operation).record(elapsed);
    }

    /// A snapshot of this many bytes is complete.
    pub fn snapshot_written(&self, now: Timestamp, bytes: u64) {
        self.set(&catalog::SNAPSHOT_LAST_SUCCESS, seconds(now));
        self.set(&catalog::SNAPSHOT_SIZE, float(bytes));
    }

    /// A snapshot could not be written or read.
    pub fn snapshot_failed(&self, operation: SnapshotOperation) {
        self.series().snapshot_failures.of(operation).increment(1);
    }

    // Process

    /// Sets the build information.
    pub fn build_info(&self, build: &Build) {
        let labels: &[(&'static str, &str)] =
            &[("version", &build.version), ("revision", &build.revision), ("librdkafka", &build.librdkafka)];
        self.gauge(catalog::BUILD_INFO.name, labels).set(1.0);
    }

    /// Sets the configuration information.
    pub fn config_info(&self, group: &str, hash: &str, scheme: &str, mode: &str, algorithm: &str) {
        let labels = &[("group", group), ("hash", hash), ("scheme", scheme), ("mode", mode), ("algorithm", algorithm)];
        self.gauge(catalog::CONFIG_INFO.name, labels).set(1.0);
    }

    /// Sets the number of threads for text work.
    pub fn workers(&self, threads: u64) {
        self.set(&catalog::WORKERS, float(threads));
    }

    /// A thread worked for this long.
    pub fn worker_busy(&self, elapsed: Duration) {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let total = self.inner.busy_micros.fetch_add(micros, Ordering::Relaxed).saturating_add(micros);
        self.series().worker_busy.absolute(total / 1_000_000);
    }

    /// Sets the number of records in a queue.
    pub fn queue_records(&self, queue: Queue, records: u64) {
        self.series().queue_records.of(queue).set(float(records));
    }

    /// Sets the capacity of a transaction.
    pub fn transaction_limit(&self, records: u64) {
        self.series().queue_limit.of(LimitedQueue::Commit).set(float(records));
    }

    fn set(&self, spec: &catalog::Spec, value: f64) {
        self.gauge(spec.name, &[]).set(value);
    }

    fn counter(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Counter {
        series::counter(&self.inner.recorder, name, labels)
    }

    fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Gauge {
        series::gauge(&self.inner.recorder, name, labels)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a double; above 2^53 the last digits do not matter")]
const fn float(number: u64) -> f64 {
    number as f64
}

const fn flag(is_set: bool) -> f64 {
    if is_set { 1.0 } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are below 2^53 for the next 280,000 years")]
const fn seconds(time: Timestamp) -> f64 {
    time.millis() as f64 / 1000.0
}

#[cfg(test)]
mod tests;
