//! Declares every metric once: its name, kind, labels, buckets and help text, and the handle of its series, which is what
//! records into it.

use std::marker::PhantomData;

use dupgate_core::worker::OutputKind;
use metrics::{Counter, Gauge, Histogram, Key, Level, Metadata, Recorder, Unit};

use super::labels::{
    Blocked, BypassReason, ColdStart, CommitResult, Component, Duplicate, Encoding, ErrorKind, Eviction, Extraction,
    Label, LabelValue, LimitedQueue, Log, MemoryPart, Pause, Queue, Rebalance, ReplayPhase, RestoreSource, Segmenter,
    SnapshotOperation, Step, TransactionResult, VerdictLabel,
};

#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Full name, with its unit and, for counters, `_total`.
    pub name: &'static str,
    pub kind: Kind,
    /// What it counts or measures.
    pub unit: Unit,
    pub labels: &'static [Label],
    /// One or two sentences for readers of dashboards.
    pub help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts in buckets; the upper bounds, ascending, inclusive.
    Histogram(&'static [f64]),
}

/// Stages and reasons of dead letters are those of [`crate::record::Reject`]; each reason has one stage.
const REJECT: &[Label] = &[Label::Open("stage"), Label::Open("reason")];

const PROCESS_SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
const STAGE_SECONDS: &[f64] = &[
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0,
];
const LATENCY_SECONDS: &[f64] =
    &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21_600.0, 86_400.0];
const BATCH_RECORDS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0];
const DISTANCE_BITS: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0];
const SIMILARITY_RATIO: &[f64] =
    &[0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1.0];
const AGE_SECONDS: &[f64] = &[
    60.0,
    600.0,
    3600.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    259_200.0,
    345_600.0,
    604_800.0,
    1_209_600.0,
];
const TOKENS: &[f64] = &[5.0, 10.0, 20.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 10_000.0];
const CANDIDATES: &[f64] = &[0.0, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1000.0];
const LONG_SECONDS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Creates a constant for each metric, the table of all of them, and the handles of their series. A row with a handle
/// (`=> field: type`) has the labels of its type; others name them, if there are any (`by labels`).
macro_rules! table {
    ($($id:ident: $name:literal, $kind:ident $(($buckets:ident))?, $unit:ident $(by $labels:expr)?
        $(=> $field:ident: $handle:ty)?, $help:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`: see its help.")]
            pub const $id: Spec = Spec {
                name: $name,
                kind: Kind::$kind $(($buckets))?,
                unit: Unit::$unit,
                labels: table!(@labels $($labels)? $(<$handle as Handle>::LABELS)?),
                help: $help,
            };
        )*
        /// Every metric of the program, except `process_*`.
        pub const TABLE: &[&Spec] = &[$(&$id,)*];

        /// The handles of series whose labels are closed, except gauges without a label: a time of 1970 or a window of 0 s
        /// would be wrong, so these appear when they are first set.
        pub(crate) struct Handles {
            $($(pub(crate) $field: $handle,)?)*
        }

        impl Handles {
            /// Registers the series.
            pub(super) fn register(recorder: &dyn Recorder) -> Self {
                Self { $($($field: <$handle as Handle>::register(recorder, $id.name, &[]),)?)* }
            }
        }
    };
    (@labels) => { &[] };
    (@labels $labels:expr) => { $labels };
}

table! {
    // Flow
    RECORDS_CONSUMED: "dupgate_records_consumed_total", Counter, Count by &[Label::Open("topic")],
        "Input records received from Kafka, including redeliveries.";
    CONSUMED_BYTES: "dupgate_consumed_bytes_total", Counter, Bytes by &[Label::Open("topic")],
        "Key plus value bytes of the input records received.";
    DOCUMENTS: "dupgate_documents_total", Counter, Count => documents: Family<VerdictLabel, Counter>,
        "Documents that got a verdict, counted at acknowledgement. Every record ends here or in dead letters once; redeliveries are not counted again.";
    BYPASSED_DOCUMENTS: "dupgate_bypassed_documents_total", Counter, Count => bypassed: Family<BypassReason, Counter>,
        "Documents passed on without a lookup, by reason (a split of verdict=bypass).";
    DUPLICATE_BYTES: "dupgate_duplicate_bytes_total", Counter, Bytes => duplicate_bytes: Family<Duplicate, Counter>,
        "Input bytes of documents judged duplicate: not processed downstream.";
    DEAD_LETTERS: "dupgate_dead_letters_total", Counter, Count by REJECT,
        "Records that got no verdict, by the step that failed and the reason, counted at acknowledgement.";
    DEAD_LETTERS_HELD: "dupgate_dead_letters_held", Gauge, Count by &[Label::Open("reason")],
        "Records without a verdict that are held back because the circuit breaker has paused the input (dupgate_consumer_paused): neither delivered nor counted in dupgate_dead_letters_total.";
    RECORDS_PRODUCED: "dupgate_records_produced_total", Counter, Count => records_produced: Family<OutputKind, Counter>,
        "Records acknowledged by the brokers.";
    PRODUCED_BYTES: "dupgate_produced_bytes_total", Counter, Bytes => produced_bytes: Family<OutputKind, Counter>,
        "Key, value and header bytes acknowledged by the brokers.";
    PRODUCE_FAILURES: "dupgate_produce_failures_total", Counter, Count by &[Label::of::<OutputKind>(), Label::Open("reason")],
        "Records given up on after all producer retries.";
    ERRORS: "dupgate_errors_total", Counter, Count by &[Label::of::<Component>(), Label::of::<ErrorKind>()],
        "Errors by component, of the kinds that arise in it; the log line carries the detail.";

    // Latency
    PROCESS_DURATION: "dupgate_record_duration_seconds", Histogram(PROCESS_SECONDS), Seconds => process_duration: Histogram,
        "Time from poll to broker acknowledgement of the routed record.";
    STAGE_DURATION: "dupgate_stage_duration_seconds", Histogram(STAGE_SECONDS), Seconds => stage_duration: Family<Step, Histogram>,
        "Time per document and stage: of one thread for decode to fingerprint, of the judge for lookup; for produce until the brokers acknowledge.";
    END_TO_END_LATENCY: "dupgate_end_to_end_latency_seconds", Histogram(LATENCY_SECONDS), Seconds => end_to_end_latency: Histogram,
        "Wall clock at acknowledgement minus the record's own timestamp.";
    BATCH_SIZE: "dupgate_transaction_records", Histogram(BATCH_RECORDS), Count => batch_size: Histogram,
        "Records committed per transaction.";

    // Match quality
    MATCH_DISTANCE: "dupgate_match_hamming_distance", Histogram(DISTANCE_BITS), Count => match_distance: Histogram,
        "Hamming distance of near matches that were accepted by it (stage simhash).";
    MATCH_SIMILARITY: "dupgate_match_similarity_ratio", Histogram(SIMILARITY_RATIO), Count => match_similarity: Histogram,
        "Estimated Jaccard index of near matches that were accepted by it (stage minhash).";
    MATCH_CONTAINMENT: "dupgate_match_containment_ratio", Histogram(SIMILARITY_RATIO), Count => match_containment: Histogram,
        "Estimated share of the smaller page in the other, of matches that were accepted by it (match.minhash.containment).";
    LARGEST_CLUSTER: "dupgate_largest_cluster_documents", Gauge, Count,
        "Minimum number of documents in the largest duplicate cluster, counting those this instance has delivered since its start and the original; 0 when no cluster stands out. Error pages and login walls show up here.";
    MATCH_AGE: "dupgate_match_age_seconds", Histogram(AGE_SECONDS), Seconds => match_age: Family<Duplicate, Histogram>,
        "Event-time gap between a duplicate and the document it matched: mass at the right edge means the window is too short.";
    NEAREST_DISTANCE: "dupgate_nearest_hamming_distance", Histogram(DISTANCE_BITS), Count => nearest_distance: Histogram,
        "Hamming distance of the nearest candidate that a stage found, accepted or not: shows whether the threshold sits in a valley.";
    LOOKUP_CANDIDATES: "dupgate_lookup_candidates", Histogram(CANDIDATES), Count => lookup_candidates: Histogram,
        "Candidates compared per lookup.";
    DOCUMENT_TOKENS: "dupgate_document_tokens", Histogram(TOKENS), Count => document_tokens: Family<Segmenter, Histogram>,
        "Tokens per document after filtering.";
    EXTRACTED: "dupgate_extracted_documents_total", Counter, Count => extracted: Family<Extraction, Counter>,
        "Documents read, by the text that was extracted. A large share of all_fallback or stripped means that pages are compared together with their navigation.";
    DECODED: "dupgate_decoded_documents_total", Counter, Count => decoded: Family<Encoding, Counter>,
        "Documents read, by character encoding.";
    WITHOUT_ID: "dupgate_documents_without_id_total", Counter, Count => without_id: Counter,
        "Documents read in which nothing was found at input.fields.id: they are never recognised as the same page crawled again.";

    REGISTRY_FAILURES: "dupgate_schema_registry_failures_total", Counter, Count => registry_failures: Counter,
        "Requests that the Schema Registry did not answer, or not usefully. Each is repeated; records wait for it and are not lost.";
    SCHEMAS_AWAITED: "dupgate_schemas_awaited", Gauge, Count,
        "Whether records wait for a schema because the Schema Registry does not answer: 1 or 0.";

    // Kafka client
    CONSUMER_LAG: "dupgate_consumer_lag_records", Gauge, Count by &[Label::Open("topic"), Label::Open("partition")],
        "Last stable offset minus committed offset, for partitions assigned to this instance, at most two seconds old. Without a committed offset it counts from the first record that was read; in a blocked partition whose committed offset is missing or past the end, from the first record there. Transaction markers count, so 1 may remain at rest.";
    BLOCKED_LAG: "dupgate_blocked_lag_records", Gauge, Count,
        "Part of the lag that is in blocked partitions, all topics together: it does not shrink before they are unblocked.";
    LAST_RECORD_TIMESTAMP: "dupgate_last_record_timestamp_seconds", Gauge, Seconds by &[Label::Open("topic")],
        "Event timestamp of the newest record processed; time() minus this is the time lag.";
    LAST_POLL_TIMESTAMP: "dupgate_last_poll_timestamp_seconds", Gauge, Seconds,
        "Unix time of the last consumer poll that returned; stalls when the loop is stuck.";
    LAST_COMMIT_TIMESTAMP: "dupgate_last_commit_timestamp_seconds", Gauge, Seconds,
        "Unix time of the last successful offset commit or transaction.";
    OFFSET_COMMITS: "dupgate_offset_commits_total", Counter, Count => offset_commits: Family<CommitResult, Counter>,
        "Offset commits, or transactions that carry offsets.";
    TRANSACTION_DURATION: "dupgate_transaction_duration_seconds", Histogram(PROCESS_SECONDS), Seconds => transaction_duration: Family<TransactionResult, Histogram>,
        "Duration of producer transactions, from begin to the end of commit or abort.";
    ASSIGNED_PARTITIONS: "dupgate_assigned_partitions", Gauge, Count by &[Label::Open("topic")],
        "Input partitions assigned to this instance.";
    BLOCKED_PARTITIONS: "dupgate_blocked_partitions", Gauge, Count => blocked: Family<Blocked, Gauge>,
        "Partitions of this instance that are blocked, by reason; /readyz names each one and how to unblock it. The other partitions are processed normally.";
    REBALANCES: "dupgate_rebalances_total", Counter, Count => rebalances: Family<Rebalance, Counter>,
        "Rebalance callbacks with a non-empty partition list.";
    REBALANCE_PAUSE: "dupgate_rebalance_pause_seconds", Histogram(LONG_SECONDS), Seconds => rebalance_pause: Histogram,
        "Time the group waited for this worker to commit or drop what it held of revoked partitions.";
    CONSUMER_PAUSED: "dupgate_consumer_paused", Gauge, Count => paused: Family<Pause, Gauge>,
        "1 while consumption is paused for the reason.";
    PRODUCER_QUEUE_RECORDS: "dupgate_producer_queue_records", Gauge, Count,
        "Records handed to the producers and not acknowledged yet.";
    PRODUCER_QUEUE_BYTES: "dupgate_producer_queue_bytes", Gauge, Bytes,
        "Bytes handed to the producers and not acknowledged yet.";

    // Index and state
    INDEX_ENTRIES: "dupgate_index_entries", Gauge, Count,
        "Fingerprints held in the window.";
    INDEX_MEMORY: "dupgate_index_memory_bytes", Gauge, Bytes => index_memory: Family<MemoryPart, Gauge>,
        "Memory held by the index, for all partitions of the log that this instance serves.";
    INDEX_MEMORY_LIMIT: "dupgate_index_memory_limit_bytes", Gauge, Bytes,
        "Configured memory ceiling of the index, for all partitions of the log that this instance serves.";
    INDEX_LARGEST_BUCKET: "dupgate_index_largest_bucket_entries", Gauge, Count,
        "Entries in the largest lookup bucket seen recently. Skewed buckets make lookups slow.";
    INDEX_EVICTIONS: "dupgate_index_evictions_total", Counter, Count => index_evictions: Family<Eviction, Counter>,
        "Entries removed. reason=capacity means the effective window is shorter than configured.";
    INDEX_WINDOW: "dupgate_index_window_seconds", Gauge, Seconds,
        "Configured window.";
    INDEX_OLDEST_ENTRY: "dupgate_index_oldest_entry_timestamp_seconds", Gauge, Seconds,
        "Event timestamp of the oldest entry held.";
    INDEX_STREAM_TIME: "dupgate_index_stream_timestamp_seconds", Gauge, Seconds,
        "Stream time: the largest event timestamp judged, without leaps that lack proof. The index reaches back from here to its oldest entry.";
    INDEX_LATE_RECORDS: "dupgate_index_late_records_total", Counter, Count => index_late_records: Counter,
        "Records later than window.allowed_lateness when they were judged: delivered, and not remembered if unique.";
    INDEX_FULL_KEYS: "dupgate_index_full_keys_total", Counter, Count => index_full_keys: Counter,
        "Band keys by which an original is not found, because match.minhash.max_bucket others already have the same key.";
    INDEX_FAMILY_MEMBERS: "dupgate_index_family_members_total", Counter, Count => index_family_members: Counter,
        "Originals that are found through the first page of their template or site, by what differs.";
    INDEX_MEMBERS_LEFT_OUT: "dupgate_index_members_left_out_total", Counter, Count => index_members_left_out: Counter,
        "Members of a page's family that were not compared with it, because match.minhash.max_bucket others have more in common with it.";
    WITHDRAWN: "dupgate_withdrawn_documents_total", Counter, Count by &[Label::Open("reason")],
        "Pages that became dead letters after their verdict was requested, by reason.";
    INDEX_READY: "dupgate_index_ready", Gauge, Count,
        "1 when this judge or standby has restored its index completely.";
    COLD_STARTS: "dupgate_cold_starts_total", Counter, Count => cold_starts: Family<ColdStart, Counter>,
        "Starts with an index that does not reach back one window: duplicates will be missed until it refills.";
    DUAL_PERIOD: "dupgate_dual_period_remaining_seconds", Gauge, Seconds by &[Label::Open("log_partition")],
        "Event time until the index of the earlier scheme (previous) decides no more and is dropped; 0 outside of a dual period.";
    VERDICT_SECONDS: "dupgate_verdict_wait_seconds", Histogram(PROCESS_SECONDS), Seconds => verdict_seconds: Histogram,
        "Worker: time from the request about a page to its verdict.";
    JUDGE_WAIT: "dupgate_judge_wait_seconds", Histogram(PROCESS_SECONDS), Seconds => judge_wait: Histogram,
        "Judge: time from fetching a page's request to judging it. Grows when lookups of other pages or commits are slow.";
    OLDEST_PENDING_VERDICT: "dupgate_oldest_pending_verdict_seconds", Gauge, Seconds,
        "Worker: age of the oldest request that has no verdict yet; 0 when none is pending. Grows while no instance judges.";
    LOG_LAG: "dupgate_internal_log_lag_records", Gauge, Count => log_lag: Family<Log, Gauge>,
        "fingerprints: requests that the judge has fetched and not judged. verdicts: records of the verdict log that the worker has not read.";
    LOG_SPAN: "dupgate_verdict_log_span_seconds", Gauge, Seconds by &[Label::Open("log_partition")],
        "Event time that the retained verdict log spans, as of the last checkpoint. If it is well above window + allowed lateness and logs.retention, something holds back trimming, such as an input partition that no worker reads.";
    LOG_RETENTION: "dupgate_verdict_log_retention_seconds", Gauge, Seconds,
        "Event time that the verdict log is to span: window + allowed lateness, or logs.retention where that is longer.";
    LAST_TRIM_TIMESTAMP: "dupgate_last_trim_timestamp_seconds", Gauge, Seconds by &[Label::Open("log_partition")],
        "Unix time at which the brokers last deleted the beginning of both logs for this judge; absent before the first time. If it is hours ago while pages are judged, trimming is held back or refused.";
    LOG_REPEATS: "dupgate_repeated_requests_total", Counter, Count => log_repeats: Counter,
        "Requests for positions that were judged already; their verdict is kept.";
    SECOND_VERDICTS: "dupgate_second_verdicts_total", Counter, Count => second_verdicts: Counter,
        "Verdicts read from the verdict log whose page had one already. The first one counts; no judge writes a second one.";
    CLAMPED_TIMESTAMPS: "dupgate_clamped_timestamps_total", Counter, Count => clamped_timestamps: Counter,
        "Event times that were ahead of the brokers' clock, of the record's timestamp or of the plan of a replay by more than window.max_future_skew, and were replaced by earlier ones.";
    JUDGE_ACTIVE: "dupgate_judge_active", Gauge, Count by &[Label::Open("log_partition")],
        "1 on the instance that judges this partition of the fingerprint log. 0 on every instance means that no instance judges and every worker waits.";
    JUDGE_TAKEOVERS: "dupgate_judge_takeovers_total", Counter, Count => judge_takeovers: Counter,
        "Times this instance became the judge of a partition.";
    INDEX_RESTORES: "dupgate_index_restores_total", Counter, Count => index_restores: Counter,
        "Times this process dropped an index and restored it, because the verdict log did not go on as the index did. A restore at the start does not count.";
    RESTORED_ENTRIES: "dupgate_restored_entries_total", Counter, Count => restored_entries: Family<RestoreSource, Counter>,
        "Entries restored at start or after a rebalance.";
    SNAPSHOT_DURATION: "dupgate_snapshot_duration_seconds", Histogram(LONG_SECONDS), Seconds => snapshot_duration: Family<SnapshotOperation, Histogram>,
        "Duration of snapshot operations.";
    SNAPSHOT_LAST_SUCCESS: "dupgate_snapshot_last_success_timestamp_seconds", Gauge, Seconds,
        "Unix time of the last complete snapshot.";
    SNAPSHOT_INTERVAL: "dupgate_snapshot_interval_seconds", Gauge, Seconds,
        "Configured snapshot interval.";
    SNAPSHOT_SIZE: "dupgate_snapshot_size_bytes", Gauge, Bytes,
        "Size of the last complete snapshot: that of all its files.";
    SNAPSHOT_FAILURES: "dupgate_snapshot_failures_total", Counter, Count => snapshot_failures: Family<SnapshotOperation, Counter>,
        "Failed snapshot operations.";

    // Process
    BUILD_INFO: "dupgate_build_info", Gauge, Count
        by &[Label::Open("version"), Label::Open("revision"), Label::Open("librdkafka")],
        "Always 1.";
    CONFIG_INFO: "dupgate_config_info", Gauge, Count
        by &[
            Label::Open("group"),
            Label::Open("hash"),
            Label::Open("scheme"),
            Label::Open("mode"),
            Label::Open("algorithm"),
        ],
        "Always 1. Differing hashes of one input group mean a partial rollout; differing groups within one job, that two deployments are scraped as one.";
    WORKERS: "dupgate_text_threads", Gauge, Count,
        "Threads that read text and compute fingerprints.";
    WORKER_BUSY: "dupgate_text_thread_busy_seconds_total", Counter, Seconds => worker_busy: Counter,
        "Seconds that these threads spent on documents, in whole seconds; its rate divided by dupgate_text_threads is their utilization.";
    QUEUE_RECORDS: "dupgate_queue_records", Gauge, Count => queue_records: Family<Queue, Gauge>,
        "Records in an internal queue: waiting for a text thread, for verdict and transaction, in the open transaction.";
    QUEUE_LIMIT: "dupgate_queue_limit_records", Gauge, Count => queue_limit: Family<LimitedQueue, Gauge>,
        "Capacity of an internal queue. The others are bounded in bytes, by processing.max_in_flight_bytes.";

    // Replay
    REPLAY_RECORDS: "dupgate_replay_records_total", Counter, Count by &[Label::Open("replay"), Label::of::<ReplayPhase>()],
        "Records that this process has worked through for a replay. range: those of the replayed range. warm_up: those before it, which are judged and not produced. follow: those that were committed before an interruption, whose verdicts are read again.";
    REPLAY_REMAINING: "dupgate_replay_remaining_records", Gauge, Count by &[Label::Open("replay")],
        "Records of the warm-up and the range that a replay has not worked through. Counted by offsets, as in the plan: it may end above 0 if the input was written in transactions. Absent when files are replayed, whose lines are not counted beforehand.";
    REPLAY_PROGRESS: "dupgate_replay_progress_ratio", Gauge, Count by &[Label::Open("replay")],
        "Share of the warm-up and the range that a replay has worked through: by records, or by bytes when files are replayed. 1 only once everything is committed.";
    REPLAY_YIELDING: "dupgate_replay_yielding", Gauge, Count by &[Label::Open("replay")],
        "1 while a replay waits because the service lags by more records than --yield-to-lag.";
}

/// The start of the process. Recorded with the rest of `process_*`, and so not in [`TABLE`].
pub const PROCESS_START_TIME: Spec = Spec {
    name: "process_start_time_seconds",
    kind: Kind::Gauge,
    unit: Unit::Seconds,
    labels: &[],
    help: "Start time of the process since unix epoch in seconds.",
};

pub(crate) static METADATA: Metadata<'static> = Metadata::new("dupgate", Level::INFO, Some("dupgate"));

fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    Key::from_parts(
        name,
        labels.iter().map(|(label, value)| metrics::Label::new(*label, (*value).to_owned())).collect::<Vec<_>>(),
    )
}

/// What records into the series of one metric.
pub(crate) trait Handle {
    /// The labels that tell the series apart.
    const LABELS: &'static [Label];

    /// Registers the series of a metric, which have these labels, too.
    fn register(recorder: &dyn Recorder, name: &'static str, labels: &[(&'static str, &str)]) -> Self;

    /// Creates a handle that records nothing, for an index past the end of a family. This does not occur, because a family
    /// is created from the list that defines the indices.
    fn nowhere() -> Self;
}

/// Implements [`Handle`] for the handle of a single series, by a function of the recorder.
macro_rules! single {
    ($($handle:ident, $register:ident;)*) => {$(
        impl Handle for $handle {
            const LABELS: &'static [Label] = &[];

            fn register(recorder: &dyn Recorder, name: &'static str, labels: &[(&'static str, &str)]) -> Self {
                recorder.$register(&key(name, labels), &METADATA)
            }

            fn nowhere() -> Self {
                Self::noop()
            }
        }
    )*};
}

single! {
    Counter, register_counter;
    Gauge, register_gauge;
    Histogram, register_histogram;
}

/// One series for each value of a closed label set.
pub(crate) struct Family<L, H> {
    series: Vec<H>,
    nowhere: H,
    label: PhantomData<L>,
}

impl<L: LabelValue, H: Handle> Handle for Family<L, H> {
    const LABELS: &'static [Label] = &[Label::of::<L>()];

    fn register(recorder: &dyn Recorder, name: &'static str, labels: &[(&'static str, &str)]) -> Self {
        let of_value = |value: L| H::register(recorder, name, &[labels, &[value.pair()]].concat());
        Self { series: L::ALL.iter().copied().map(of_value).collect(), ..Self::nowhere() }
    }

    fn nowhere() -> Self {
        Self { series: Vec::new(), nowhere: H::nowhere(), label: PhantomData }
    }
}

impl<L: LabelValue, H> Family<L, H> {
    /// Returns the series of one value.
    pub(crate) fn of(&self, value: L) -> &H {
        self.series.get(value.index()).unwrap_or(&self.nowhere)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The naming rules of Prometheus, as in promtool and its style guide.
    fn breach(spec: &Spec) -> Option<&'static str> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let name = spec.name;
        let stem = name.strip_suffix("_total").unwrap_or(name);
        if !name.starts_with("dupgate_") || !name.chars().all(legal) || name.contains("__") {
            return Some("characters");
        }
        if (spec.kind == Kind::Counter) != name.ends_with("_total") {
            return Some("counters, and only counters, end in _total");
        }
        if name.ends_with("_bucket") || name.ends_with("_count") || name.ends_with("_sum") {
            return Some("reserved suffix");
        }
        let unit = [(Unit::Seconds, "_seconds"), (Unit::Bytes, "_bytes")];
        let unit =
            unit.into_iter().find_map(|(unit, suffix)| (unit == spec.unit).then_some(suffix)).unwrap_or_default();
        if !stem.ends_with(unit) {
            return Some("the unit ends the name");
        }
        if ["_ms", "_milliseconds", "_minutes", "_kib", "_percent"].iter().any(|unit| stem.ends_with(unit)) {
            return Some("not a base unit");
        }
        if spec.help.is_empty() || !spec.help.ends_with('.') {
            return Some("help is a sentence");
        }
        None
    }

    #[test]
    fn names_obey_the_rules_of_prometheus() {
        for spec in TABLE {
            assert_eq!(breach(spec), None, "{}", spec.name);
        }
        let wrong = Spec { name: "dupgate_things_ms", ..INDEX_ENTRIES };
        assert!(breach(&wrong).is_some(), "the check finds a breach");
        assert!(breach(&Spec { name: "dupgate_things_total", ..INDEX_ENTRIES }).is_some());
        assert!(breach(&Spec { name: "dupgate_things", ..SNAPSHOT_SIZE }).is_some());
    }

    #[test]
    fn every_name_and_every_label_is_unique() {
        let names: BTreeSet<_> = TABLE.iter().map(|spec| spec.name).collect();
        assert_eq!(names.len(), TABLE.len());
        for spec in TABLE {
            let labels: BTreeSet<_> = spec.labels.iter().map(Label::name).collect();
            assert_eq!(labels.len(), spec.labels.len(), "{}", spec.name);
            for label in labels {
                let reserved = crate::config::RESERVED_LABELS.contains(&label);
                assert!(reserved, "{label} of {} could be hidden by metrics.labels", spec.name);
            }
        }
    }

    #[test]
    fn buckets_ascend() {
        for spec in TABLE {
            if let Kind::Histogram(buckets) = spec.kind {
                assert!(!buckets.is_empty() && buckets.is_sorted_by(|a, b| a < b), "{}", spec.name);
            }
        }
    }
}
