//! The recorder. Metrics are recorded through their handles ([`Metrics::series`]); those with open labels, a conversion or
//! memory have functions.
//!
//! Every series of a closed label set exists from the start, at 0: a rate over a counter that appears with its
//! first increment would miss that increment. Gauges without a label appear when they are first set. There is no global
//! state: two instances in one process have two recorders. Recording costs an atomic operation for closed labels, and a
//! hash lookup for topics and partitions.

mod recorder;
mod series;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dupgate_core::worker::OutputKind;
use metrics::{Counter, Gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use self::recorder::ReadableRecorder;
use self::series::Series;
use super::catalog::{self, Kind, TABLE};
use super::handles::Handle;
use super::labels::{
    Blocked, BypassReason, CommitResult, Component, Duplicate, ErrorKind, LabelValue, LimitedQueue, Log, Pause, Queue,
    Rebalance, Segmenter, VerdictLabel,
};
use crate::config::settings;
use crate::fingerprint::PerMille;
use crate::protocol::{LogPartition, VerdictKind};
use crate::record::{PartitionId, Reject, Source, Timestamp};

pub use self::values::{Buckets, IndexTotals, MetricValues, ReplayProgress, whole};

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
    /// The totals of each index, by log partition.
    indexes: Mutex<BTreeMap<LogPartition, IndexTotals>>,
}

impl Metrics {
    /// Creates the recorder, with every series of a closed label set at 0.
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
        values::ordered(&self.inner.handle.render())
    }

    /// Returns the current values of the metrics. `process_*` has the values of the last [`Metrics::render`], or of the
    /// start.
    #[must_use]
    pub fn values(&self) -> MetricValues {
        self.inner.recorder.values()
    }

    /// Moves samples into their buckets. Call it every few seconds: otherwise memory grows while metrics are not
    /// scraped.
    pub fn upkeep(&self) {
        self.inner.handle.run_upkeep();
    }

    /// Returns the handles of all series whose labels are closed.
    pub(crate) fn series(&self) -> &Series {
        &self.inner.series
    }

    // Flow

    /// Counts received input records of one topic, and the bytes of their keys and values.
    pub fn consumed(&self, topic: &str, records: u64, bytes: u64) {
        self.counter(catalog::RECORDS_CONSUMED.name, &[("topic", topic)]).increment(records);
        self.counter(catalog::CONSUMED_BYTES.name, &[("topic", topic)]).increment(bytes);
    }

    /// Counts a page that was delivered with this verdict. One that was withdrawn is counted as a dead letter instead.
    pub fn judged(&self, kind: VerdictKind) {
        if let Some(verdict) = VerdictLabel::of(kind) {
            self.document(verdict);
        }
    }

    /// Counts a document with this verdict, once its outputs are acknowledged.
    pub fn document(&self, verdict: VerdictLabel) {
        self.series().documents.of(verdict).increment(1);
    }

    /// Counts a record that was passed on without being judged. It also counts as a document with verdict `bypass`.
    pub fn bypassed(&self, reason: BypassReason) {
        self.document(VerdictLabel::Bypass);
        self.series().bypassed.of(reason).increment(1);
    }

    /// Counts a record that became a dead letter.
    pub fn dead_letter(&self, reason: Reject) {
        if let Some(counter) = self.series().dead_letters.get(&reason) {
            counter.increment(1);
        }
    }

    /// Stores a record that was read and gets no verdict, as the latest example of this reason.
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

    /// Sets the numbers of records without a verdict that are held back, by reason.
    pub fn dead_letters_held(&self, held: &BTreeMap<Reject, u64>) {
        for (reason, gauge) in &self.series().dead_letters_held {
            gauge.set(float(held.get(reason).copied().unwrap_or(0)));
        }
    }

    /// Counts acknowledged records of an output, and the bytes of their keys, values and headers.
    pub fn produced(&self, output: OutputKind, records: u64, bytes: u64) {
        self.series().records_produced.of(output).increment(records);
        self.series().produced_bytes.of(output).increment(bytes);
    }

    /// Counts a record that was given up because the brokers will never accept it.
    pub fn produce_failed(&self, output: OutputKind, reason: Reject) {
        if let Some(counter) = self.series().produce_failures.get(&(output.name(), reason)) {
            counter.increment(1);
        }
    }

    /// Counts an error.
    pub fn error(&self, component: Component, kind: ErrorKind) {
        let known = self.series().errors.iter().find(|(of, occurs, _)| (*of, *occurs) == (component, kind));
        if let Some((.., counter)) = known {
            counter.increment(1);
        } else {
            // An unexpected pair is counted, too.
            self.counter(catalog::ERRORS.name, &[component.pair(), kind.pair()]).increment(1);
        }
    }

    // Latency

    /// Observes the time from a record's own timestamp to its acknowledgement; a timestamp in the future counts as 0.
    pub fn end_to_end_latency(&self, record: Timestamp, now: Timestamp) {
        let millis = if now > record { now.gap_millis(record) } else { 0 };
        self.series().end_to_end_latency.record(Duration::from_millis(millis));
    }

    /// Observes the number of records of a transaction.
    pub fn batch_size(&self, records: u64) {
        self.series().batch_size.record(float(records));
    }

    // Match quality

    /// Observes the distance of an accepted near match, in bits.
    pub fn match_distance(&self, bits: u8) {
        self.series().match_distance.record(f64::from(bits));
    }

    /// Observes the similarity of an accepted near match.
    pub fn match_similarity(&self, similarity: PerMille) {
        self.series().match_similarity.record(similarity.share());
    }

    /// Observes the share of one page that the other contains, of a match that was accepted for it.
    pub fn match_containment(&self, contained: PerMille) {
        self.series().match_containment.record(contained.share());
    }

    /// Sets the number of documents in the largest cluster.
    pub fn largest_cluster(&self, documents: u64) {
        self.set(&catalog::LARGEST_CLUSTER, float(documents));
    }

    /// Observes the difference of the event times of a duplicate and its original.
    pub fn match_age(&self, found_by: Duplicate, age_ms: i64) {
        self.series().match_age.of(found_by).record(Duration::from_millis(age_ms.unsigned_abs()));
    }

    /// Notes whether the Schema Registry answers. If not, records wait for it.
    pub fn registry_answers(&self, answers: bool) {
        self.series().registry_failures.increment(u64::from(!answers));
        self.set(&catalog::SCHEMAS_AWAITED, f64::from(u8::from(!answers)));
    }

    /// Observes the number of tokens of a document, after filtering.
    pub fn document_tokens(&self, segmenter: Segmenter, tokens: u64) {
        self.series().document_tokens.of(segmenter).record(float(tokens));
    }

    // Kafka client

    /// Sets the lags of all our partitions, and 0 for partitions that are no longer ours.
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

    /// Sets the event time of the newest processed record of a topic.
    pub fn last_record(&self, topic: &str, event_time: Timestamp) {
        self.gauge(catalog::LAST_RECORD_TIMESTAMP.name, &[("topic", topic)]).set(seconds(event_time));
    }

    /// Sets the time of the last poll.
    pub fn polled(&self, now: Timestamp) {
        self.set(&catalog::LAST_POLL_TIMESTAMP, seconds(now));
    }

    /// Counts a commit, and sets the time of the last one that succeeded.
    pub fn committed(&self, result: CommitResult, now: Timestamp) {
        self.series().offset_commits.of(result).increment(1);
        if result == CommitResult::Ok {
            self.set(&catalog::LAST_COMMIT_TIMESTAMP, seconds(now));
        }
    }

    /// Sets the numbers of our partitions by topic, and 0 for topics that are no longer among them.
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

    /// Counts a rebalance, unless it moves no partition.
    pub fn rebalanced(&self, kind: Rebalance, partitions: usize) {
        if partitions > 0 {
            self.series().rebalances.of(kind).increment(1);
        }
    }

    /// Sets whether consumption is paused for this reason.
    pub fn paused(&self, reason: Pause, is_paused: bool) {
        self.series().paused.of(reason).set(flag(is_paused));
    }

    /// Sets the records and bytes in the queues of the producers.
    pub fn producer_queue(&self, records: u64, bytes: u64) {
        self.set(&catalog::PRODUCER_QUEUE_RECORDS, float(records));
        self.set(&catalog::PRODUCER_QUEUE_BYTES, float(bytes));
    }

    // Index and state

    /// Sets the configured memory limit, longest window, and interval of snapshots.
    pub fn index_limits(&self, max_bytes: u64, window: Duration, snapshot_interval: Duration) {
        self.set(&catalog::INDEX_MEMORY_LIMIT, float(max_bytes));
        self.set(&catalog::INDEX_WINDOW, window.as_secs_f64());
        self.set(&catalog::SNAPSHOT_INTERVAL, snapshot_interval.as_secs_f64());
    }

    /// Sets the span of event time to which the verdict log is trimmed.
    pub fn log_retention(&self, retention: Duration) {
        self.set(&catalog::LOG_RETENTION, retention.as_secs_f64());
    }

    /// Counts a page that was withdrawn after its verdict was requested.
    pub fn withdrawn(&self, reason: Reject) {
        if let Some(counter) = self.series().withdrawn.get(&reason) {
            counter.increment(1);
        }
    }

    /// Observes the time from a request to reading its verdict.
    pub fn verdict(&self, elapsed: Duration) {
        self.series().verdict_seconds.record(elapsed);
    }

    /// Sets the longest wait for a verdict; zero if no page waits.
    pub fn oldest_pending_verdict(&self, age: Duration) {
        self.set(&catalog::OLDEST_PENDING_VERDICT, age.as_secs_f64());
    }

    /// Sets the number of unread records of a log.
    pub fn log_lag(&self, log: Log, entries: u64) {
        self.series().log_lag.of(log).set(float(entries));
    }

    /// Sets the span of event time that the verdict log of a partition still holds.
    pub fn log_kept(&self, log: LogPartition, span: Duration) {
        self.gauge(catalog::LOG_SPAN.name, &[("log_partition", &log.to_string())]).set(span.as_secs_f64());
    }

    /// Sets the time when the beginning of both logs of a partition was last deleted.
    pub fn trimmed(&self, log: LogPartition, now: Timestamp) {
        let gauge = self.gauge(catalog::LAST_TRIM_TIMESTAMP.name, &[("log_partition", &log.to_string())]);
        gauge.set(seconds(now));
    }

    /// Sets whether this instance judges a partition of the fingerprint log.
    pub fn judge_active(&self, log: LogPartition, is_active: bool) {
        self.gauge(catalog::JUDGE_ACTIVE.name, &[("log_partition", &log.to_string())]).set(flag(is_active));
    }

    /// Sets the time and size of the last complete snapshot.
    pub fn snapshot_written(&self, now: Timestamp, bytes: u64) {
        self.set(&catalog::SNAPSHOT_LAST_SUCCESS, seconds(now));
        self.set(&catalog::SNAPSHOT_SIZE, float(bytes));
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

    /// Adds the busy time of a text thread.
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
        Counter::register(&self.inner.recorder, name, labels)
    }

    fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Gauge {
        Gauge::register(&self.inner.recorder, name, labels)
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
