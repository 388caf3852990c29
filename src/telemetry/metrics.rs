//! The recorder. Metrics are recorded through their handles ([`Metrics::series`]); those with open labels, a conversion or
//! memory have functions.
//!
//! Every series of a closed label set exists from the start, at 0: a rate over a counter that appears with its
//! first increment would miss that increment. Gauges without a label appear when they are first set. There is no global
//! state: two instances in one process have two recorders. Recording costs an atomic operation for closed labels, and a
//! hash lookup for topics and partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dupgate_core::worker::OutputKind;
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use metrics_util::registry::{AtomicStorage, Registry};

use super::catalog::{self, Handle, Handles, Kind, METADATA, Spec, TABLE};
use super::labels::{
    Blocked, BypassReason, CommitResult, Component, Duplicate, ErrorKind, LabelValue, LimitedQueue, Log, MemoryPart,
    Pause, Queue, Rebalance, ReplayPhase, Segmenter, VerdictLabel,
};
use crate::config::settings;
use crate::fingerprint::PerMille;
use crate::protocol::{LogPartition, VerdictKind};
use crate::record::{PartitionId, Reject, Source, Timestamp};

/// The histograms whose buckets are read: they have no labels.
const READ: [&Spec; 2] = [&catalog::END_TO_END_LATENCY, &catalog::VERDICT_SECONDS];

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
        ordered(&self.inner.handle.render())
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

    /// Sets how much event time is left of the dual period of a log partition; 0 if there is none.
    pub fn dual_period(&self, log: LogPartition, left: Duration) {
        self.gauge(catalog::DUAL_PERIOD.name, &[("log_partition", &log.to_string())]).set(left.as_secs_f64());
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

/// Every series that is registered at the start: those of the catalog, and those whose label values depend on each other.
pub(crate) struct Series {
    handles: Handles,
    dead_letters: BTreeMap<Reject, Counter>,
    dead_letters_held: BTreeMap<Reject, Gauge>,
    produce_failures: BTreeMap<(&'static str, Reject), Counter>,
    /// For each component, only the kinds of errors that occur in it.
    errors: Vec<(Component, ErrorKind, Counter)>,
    withdrawn: BTreeMap<Reject, Counter>,
}

impl Deref for Series {
    type Target = Handles;

    fn deref(&self) -> &Handles {
        &self.handles
    }
}

impl Series {
    /// Describes all metrics of the table, and registers every series whose labels are closed.
    fn register(recorder: &dyn Recorder) -> Self {
        for spec in TABLE {
            let (name, unit) = (KeyName::from_const_str(spec.name), Some(spec.unit));
            match spec.kind {
                Kind::Counter => recorder.describe_counter(name, unit, spec.help.into()),
                Kind::Gauge => recorder.describe_gauge(name, unit, spec.help.into()),
                Kind::Histogram(_) => recorder.describe_histogram(name, unit, spec.help.into()),
            }
        }
        let counter = |spec: &Spec, labels: &[(&'static str, &str)]| Counter::register(recorder, spec.name, labels);
        let failures = OutputKind::ALL.iter().flat_map(|output| {
            let reasons = Reject::ALL.into_iter().filter(|reject| reject.stage() == "produce");
            reasons.map(|reject| {
                let labels = [output.pair(), ("reason", reject.name())];
                ((output.name(), reject), counter(&catalog::PRODUCE_FAILURES, &labels))
            })
        });
        let errors = Component::ALL.iter().flat_map(|component| {
            let kinds = component.kinds().iter();
            kinds.map(|kind| (*component, *kind, counter(&catalog::ERRORS, &[component.pair(), kind.pair()])))
        });
        Self {
            handles: Handles::register(recorder),
            dead_letters: rejects(|reject| {
                counter(&catalog::DEAD_LETTERS, &[("stage", reject.stage()), ("reason", reject.name())])
            }),
            dead_letters_held: rejects(|reject| {
                Gauge::register(recorder, catalog::DEAD_LETTERS_HELD.name, &[("reason", reject.name())])
            }),
            produce_failures: failures.collect(),
            errors: errors.collect(),
            withdrawn: rejects(|reject| counter(&catalog::WITHDRAWN, &[("reason", reject.name())])),
        }
    }
}

fn rejects<H>(make: impl Fn(Reject) -> H) -> BTreeMap<Reject, H> {
    Reject::ALL.into_iter().map(|reject| (reject, make(reject))).collect()
}

/// Cumulative counts of a histogram by upper bound, ascending; the last bound is infinite.
pub type Buckets = Vec<(f64, f64)>;

/// The value of every counter and gauge that was recorded, and the buckets that the overview reads. Labels that all
/// series carry (`metrics.labels`) are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricValues {
    series: BTreeMap<Key, f64>,
    buckets: BTreeMap<&'static str, Buckets>,
}

impl MetricValues {
    const fn new(series: BTreeMap<Key, f64>, buckets: BTreeMap<&'static str, Buckets>) -> Self {
        Self { series, buckets }
    }

    fn of<'v>(&'v self, spec: &Spec) -> impl Iterator<Item = (&'v Key, f64)> + use<'v> {
        let name = spec.name;
        self.series.iter().filter(move |(key, _)| key.name() == name).map(|(key, value)| (key, *value))
    }

    /// Sums the series of a counter or gauge.
    #[must_use]
    pub fn total(&self, spec: &Spec) -> f64 {
        self.total_of(spec, &[])
    }

    /// Sums the series that have these labels.
    #[must_use]
    pub fn total_of(&self, spec: &Spec, labels: &[(&str, &str)]) -> f64 {
        let fits = |key: &Key| labels.iter().all(|(name, value)| label(key, name) == Some(value));
        // The empty sum is -0.
        self.of(spec).filter(|(key, _)| fits(key)).map(|(_, value)| value).sum::<f64>() + 0.0
    }

    /// Sums the series as a whole number.
    #[must_use]
    pub fn count(&self, spec: &Spec) -> u64 {
        whole(self.total(spec))
    }

    /// Sums the series that have these labels, as a whole number.
    #[must_use]
    pub fn count_of(&self, spec: &Spec, labels: &[(&str, &str)]) -> u64 {
        whole(self.total_of(spec, labels))
    }

    #[must_use]
    pub fn largest(&self, spec: &Spec) -> Option<f64> {
        self.of(spec).map(|(_, value)| value).reduce(f64::max)
    }

    /// Returns the values of the series with this label.
    pub fn by_label<'v>(&'v self, spec: &Spec, name: &'static str) -> impl Iterator<Item = (&'v str, f64)> + use<'v> {
        self.of(spec).filter_map(move |(key, value)| Some((label(key, name)?, value)))
    }

    /// Returns the values by two labels; the second may be missing.
    pub fn by_two_labels<'v>(
        &'v self,
        spec: &Spec,
        first: &'static str,
        second: &'static str,
    ) -> impl Iterator<Item = (&'v str, Option<&'v str>, f64)> + use<'v> {
        self.of(spec).filter_map(move |(key, value)| Some((label(key, first)?, label(key, second), value)))
    }

    /// Returns the value of a label of any series.
    #[must_use]
    pub fn label(&self, spec: &Spec, name: &str) -> Option<&str> {
        self.of(spec).find_map(|(key, _)| label(key, name))
    }

    /// Returns the buckets of a histogram; none if they are not counted for reading.
    #[must_use]
    pub fn buckets(&self, spec: &Spec) -> &[(f64, f64)] {
        self.buckets.get(spec.name).map(Vec::as_slice).unwrap_or_default()
    }
}

fn label<'k>(key: &'k Key, name: &str) -> Option<&'k str> {
    key.labels().find(|label| label.key() == name).map(metrics::Label::value)
}

/// Rounds a count; below 0 it is 0.
#[must_use]
pub fn whole(count: f64) -> u64 {
    format!("{count:.0}").parse().unwrap_or(0)
}

/// Progress of one run of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReplayProgress {
    /// Records whose committed verdicts this run has read again.
    pub followed: u64,
    /// Records of the warm-up that this run has worked through.
    pub warmed_up: u64,
    /// Records of the range that this run has worked through.
    pub of_range: u64,
    /// Share of the replay that all of its runs together have done, from 0 to 1.
    pub share: f64,
    /// Remaining records; `None` if their number is unknown.
    pub remaining: Option<u64>,
    /// Whether it waits for the service.
    pub is_yielding: bool,
}

impl Metrics {
    /// Sets the progress of a replay. The numbers of records of one run must not decrease.
    pub fn replay(&self, id: &str, at: &ReplayProgress) {
        let label = ("replay", id);
        for phase in ReplayPhase::ALL {
            let records = match phase {
                ReplayPhase::Follow => at.followed,
                ReplayPhase::WarmUp => at.warmed_up,
                ReplayPhase::Range => at.of_range,
            };
            self.counter(catalog::REPLAY_RECORDS.name, &[label, phase.pair()]).absolute(records);
        }
        self.gauge(catalog::REPLAY_PROGRESS.name, &[label]).set(at.share);
        if let Some(remaining) = at.remaining {
            self.gauge(catalog::REPLAY_REMAINING.name, &[label]).set(float(remaining));
        }
        self.gauge(catalog::REPLAY_YIELDING.name, &[label]).set(flag(at.is_yielding));
    }
}

/// State of the index of one judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexTotals {
    /// Whether the judge or standby holds the whole state.
    pub is_ready: bool,
    /// Originals held.
    pub entries: u64,
    /// Event time of the oldest of them.
    pub oldest: Option<Timestamp>,
    pub stream_time: Option<Timestamp>,
    /// Bytes for the originals.
    pub fingerprint_bytes: u64,
    /// Bytes for the tables of codes and bands.
    pub bucket_bytes: u64,
    /// Bytes for the tables by id and by source.
    pub ref_bytes: u64,
    /// Bytes for the table of exact hashes.
    pub exact_bytes: u64,
    /// Entries in the fullest bucket.
    pub largest_bucket: u32,
    /// Requests of the fingerprint log that were read and wait for a verdict.
    pub waiting: u64,
}

impl Metrics {
    /// Sets the index of the judge of a partition of the fingerprint log. The metrics show the sum over all judges of
    /// this process, or the worst of them where a sum has no meaning.
    pub fn index(&self, log: LogPartition, totals: IndexTotals) {
        let mut all = self.inner.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(log, totals);
        let sum = |part: fn(&IndexTotals) -> u64| float(all.values().map(part).sum());
        let part = |name: MemoryPart, bytes: f64| self.series().index_memory.of(name).set(bytes);
        self.set(&catalog::INDEX_READY, flag(all.values().all(|index| index.is_ready)));
        self.set(&catalog::INDEX_ENTRIES, sum(|index| index.entries));
        if let Some(oldest) = all.values().filter_map(|index| index.oldest).min() {
            self.set(&catalog::INDEX_OLDEST_ENTRY, seconds(oldest));
        }
        if let Some(stream_time) = all.values().filter_map(|index| index.stream_time).max() {
            self.set(&catalog::INDEX_STREAM_TIME, seconds(stream_time));
        }
        part(MemoryPart::Fingerprints, sum(|index| index.fingerprint_bytes));
        part(MemoryPart::Buckets, sum(|index| index.bucket_bytes));
        part(MemoryPart::Refs, sum(|index| index.ref_bytes));
        part(MemoryPart::Exact, sum(|index| index.exact_bytes));
        let largest = all.values().map(|index| index.largest_bucket).max().unwrap_or(0);
        self.set(&catalog::INDEX_LARGEST_BUCKET, f64::from(largest));
        self.series().log_lag.of(Log::Fingerprints).set(sum(|index| index.waiting));
    }

    /// Observes the lookup of a page: how many originals were compared, and the distance of the nearest one in bits.
    pub fn lookup(&self, compared: u32, nearest: Option<u8>) {
        self.series().lookup_candidates.record(f64::from(compared));
        if let Some(bits) = nearest {
            self.series().nearest_distance.record(f64::from(bits));
        }
    }
}

/// Puts the families in the order of their names, because that of the exporter changes from scrape to scrape. A blank
/// line ends each family.
fn ordered(text: &str) -> String {
    let mut families: Vec<&str> = text.split_inclusive("\n\n").collect();
    families.sort_unstable();
    families.concat()
}

struct ReadableRecorder {
    /// Counters and gauges.
    registry: Registry<Key, AtomicStorage>,
    /// Each of [`READ`], by name.
    histograms: BTreeMap<&'static str, Arc<CountedHistogram>>,
    prometheus: PrometheusRecorder,
}

impl ReadableRecorder {
    fn new(prometheus: PrometheusRecorder) -> Self {
        let counted = |spec: &'static Spec| {
            let bounds = match spec.kind {
                Kind::Histogram(bounds) => bounds,
                Kind::Counter | Kind::Gauge => &[],
            };
            let exported = prometheus.register_histogram(&Key::from_static_name(spec.name), &METADATA);
            (spec.name, Arc::new(CountedHistogram::new(bounds, exported)))
        };
        let histograms = READ.into_iter().map(counted).collect();
        Self { registry: Registry::atomic(), histograms, prometheus }
    }

    fn handle(&self) -> PrometheusHandle {
        self.prometheus.handle()
    }

    /// Copies counters and gauges to Prometheus.
    fn export(&self) {
        self.registry.visit_counters(|key, total| {
            self.prometheus.register_counter(key, &METADATA).absolute(total.load(Ordering::Relaxed));
        });
        self.registry.visit_gauges(|key, level| {
            self.prometheus.register_gauge(key, &METADATA).set(f64::from_bits(level.load(Ordering::Relaxed)));
        });
    }

    /// Reads all counters, gauges and counted buckets.
    fn values(&self) -> MetricValues {
        let mut series = BTreeMap::new();
        self.registry.visit_counters(|key, total| {
            series.insert(key.clone(), float(total.load(Ordering::Relaxed)));
        });
        self.registry.visit_gauges(|key, level| {
            series.insert(key.clone(), f64::from_bits(level.load(Ordering::Relaxed)));
        });
        let buckets = self.histograms.iter().map(|(name, histogram)| (*name, histogram.buckets())).collect();
        MetricValues::new(series, buckets)
    }
}

impl Recorder for ReadableRecorder {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.prometheus.describe_counter(name, unit, help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.prometheus.describe_gauge(name, unit, help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.prometheus.describe_histogram(name, unit, help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.registry.get_or_create_counter(key, |total| Counter::from_arc(Arc::clone(total)))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.registry.get_or_create_gauge(key, |level| Gauge::from_arc(Arc::clone(level)))
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        match self.histograms.get(key.name()) {
            Some(counted) => Histogram::from_arc(Arc::clone(counted)),
            None => self.prometheus.register_histogram(key, metadata),
        }
    }
}

/// Counts in the buckets of the catalog, and records to Prometheus.
struct CountedHistogram {
    /// Upper bounds, ascending, inclusive.
    bounds: &'static [f64],
    /// The number of values in each bucket; the last bucket holds those above the last bound.
    counts: Vec<AtomicU64>,
    exported: Histogram,
}

impl CountedHistogram {
    fn new(bounds: &'static [f64], exported: Histogram) -> Self {
        Self { bounds, counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), exported }
    }

    /// Returns the cumulative counts by upper bound, ascending; the last bound is infinite.
    fn buckets(&self) -> Buckets {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let totals = self.counts.iter().scan(0, |total, count| {
            *total += count.load(Ordering::Relaxed);
            Some(float(*total))
        });
        bounds.zip(totals).collect()
    }
}

impl HistogramFn for CountedHistogram {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, times: usize) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(times as u64, Ordering::Relaxed);
        }
        self.exported.record_many(value, times);
    }
}

#[cfg(test)]
mod tests;
