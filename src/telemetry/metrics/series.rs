//! Handles of all series whose labels are closed, registered at the start.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use dupgate_core::worker::OutputKind;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder};

use super::super::catalog::{self, Kind, Spec, TABLE};
use super::{
    Blocked, BypassReason, ColdStart, CommitResult, Component, Duplicate, Encoding, ErrorKind, Eviction, Extraction,
    LabelValue, LimitedQueue, Log, MemoryPart, Pause, Queue, Rebalance, RestoreSource, Segmenter, SnapshotOperation,
    Step, TransactionResult, VerdictLabel,
};
use crate::record::Reject;

pub(super) static METADATA: Metadata<'static> = Metadata::new("dupgate", Level::INFO, Some("dupgate"));

fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    Key::from_parts(
        name,
        labels.iter().map(|(label, value)| Label::new(*label, (*value).to_owned())).collect::<Vec<_>>(),
    )
}

pub(super) fn counter(recorder: &dyn Recorder, name: &'static str, labels: &[(&'static str, &str)]) -> Counter {
    recorder.register_counter(&key(name, labels), &METADATA)
}

pub(super) fn gauge(recorder: &dyn Recorder, name: &'static str, labels: &[(&'static str, &str)]) -> Gauge {
    recorder.register_gauge(&key(name, labels), &METADATA)
}

/// One series for each value of a closed label set.
pub(super) struct Family<L, H> {
    series: Vec<H>,
    nowhere: H,
    label: PhantomData<L>,
}

/// A handle of a series. `nowhere` creates one that records nothing, for an index past the end of a family; this does
/// not occur, because a family is created from the list that defines the indices.
pub(super) trait Handle {
    fn nowhere() -> Self;
}

impl Handle for Counter {
    fn nowhere() -> Self {
        Self::noop()
    }
}
impl Handle for Gauge {
    fn nowhere() -> Self {
        Self::noop()
    }
}
impl Handle for Histogram {
    fn nowhere() -> Self {
        Self::noop()
    }
}
impl<L, H: Handle> Handle for Family<L, H> {
    fn nowhere() -> Self {
        Self { series: Vec::new(), nowhere: H::nowhere(), label: PhantomData }
    }
}
impl Handle for Vec<(ErrorKind, Counter)> {
    fn nowhere() -> Self {
        Self::new()
    }
}
impl Handle for BTreeMap<Reject, Counter> {
    fn nowhere() -> Self {
        Self::new()
    }
}

impl<L: LabelValue, H: Handle> Family<L, H> {
    fn new(make: impl Fn((&'static str, &'static str)) -> H) -> Self {
        Self::of_each(|value| make(value.pair()))
    }

    fn of_each(make: impl Fn(L) -> H) -> Self {
        Self { series: L::ALL.iter().copied().map(make).collect(), nowhere: H::nowhere(), label: PhantomData }
    }

    /// Returns the series of one value.
    pub(super) fn of(&self, value: L) -> &H {
        self.series.get(value.index()).unwrap_or(&self.nowhere)
    }
}

/// Every series whose labels are closed, except gauges without a label: a time of 1970 or a window of 0 s would be
/// wrong, so these appear when they are first set.
pub(super) struct Series {
    pub(super) documents: Family<VerdictLabel, Counter>,
    pub(super) bypassed: Family<BypassReason, Counter>,
    pub(super) duplicate_bytes: Family<Duplicate, Counter>,
    pub(super) dead_letters: BTreeMap<Reject, Counter>,
    pub(super) dead_letters_held: BTreeMap<Reject, Gauge>,
    pub(super) records_produced: Family<OutputKind, Counter>,
    pub(super) produced_bytes: Family<OutputKind, Counter>,
    pub(super) produce_failures: Family<OutputKind, BTreeMap<Reject, Counter>>,
    /// For each component, only the kinds of errors that occur in it.
    pub(super) errors: Family<Component, Vec<(ErrorKind, Counter)>>,
    pub(super) process_duration: Histogram,
    pub(super) stage_duration: Family<Step, Histogram>,
    pub(super) end_to_end_latency: Histogram,
    pub(super) batch_size: Histogram,
    pub(super) match_distance: Histogram,
    pub(super) match_similarity: Histogram,
    pub(super) match_containment: Histogram,
    pub(super) nearest_distance: Histogram,
    pub(super) lookup_candidates: Histogram,
    pub(super) match_age: Family<Duplicate, Histogram>,
    pub(super) document_tokens: Family<Segmenter, Histogram>,
    pub(super) extracted: Family<Extraction, Counter>,
    pub(super) decoded: Family<Encoding, Counter>,
    pub(super) without_id: Counter,
    pub(super) registry_failures: Counter,
    pub(super) offset_commits: Family<CommitResult, Counter>,
    pub(super) transaction_duration: Family<TransactionResult, Histogram>,
    pub(super) blocked: Family<Blocked, Gauge>,
    pub(super) rebalances: Family<Rebalance, Counter>,
    pub(super) rebalance_pause: Histogram,
    pub(super) paused: Family<Pause, Gauge>,
    pub(super) index_memory: Family<MemoryPart, Gauge>,
    pub(super) index_evictions: Family<Eviction, Counter>,
    pub(super) index_late_records: Counter,
    pub(super) index_full_keys: Counter,
    pub(super) index_family_members: Counter,
    pub(super) index_members_left_out: Counter,
    pub(super) withdrawn: BTreeMap<Reject, Counter>,
    pub(super) cold_starts: Family<ColdStart, Counter>,
    pub(super) verdict_seconds: Histogram,
    pub(super) judge_wait: Histogram,
    pub(super) log_lag: Family<Log, Gauge>,
    pub(super) log_repeats: Counter,
    pub(super) second_verdicts: Counter,
    pub(super) clamped_timestamps: Counter,
    pub(super) judge_takeovers: Counter,
    pub(super) index_restores: Counter,
    pub(super) restored_entries: Family<RestoreSource, Counter>,
    pub(super) snapshot_duration: Family<SnapshotOperation, Histogram>,
    pub(super) snapshot_failures: Family<SnapshotOperation, Counter>,
    pub(super) worker_busy: Counter,
    pub(super) queue_records: Family<Queue, Gauge>,
    pub(super) queue_limit: Family<LimitedQueue, Gauge>,
}

impl Series {
    /// Describes all metrics of the table, and registers every series whose labels are closed.
    pub(super) fn register(recorder: &dyn Recorder) -> Self {
        for spec in TABLE {
            let (name, unit) = (KeyName::from_const_str(spec.name), Some(spec.unit));
            match spec.kind {
                Kind::Counter => recorder.describe_counter(name, unit, spec.help.into()),
                Kind::Gauge => recorder.describe_gauge(name, unit, spec.help.into()),
                Kind::Histogram(_) => recorder.describe_histogram(name, unit, spec.help.into()),
            }
        }
        let registrar = Registrar(recorder);
        Self {
            documents: registrar.counters(&catalog::DOCUMENTS),
            bypassed: registrar.counters(&catalog::BYPASSED_DOCUMENTS),
            duplicate_bytes: registrar.counters(&catalog::DUPLICATE_BYTES),
            dead_letters: rejects(|reject| {
                counter(recorder, catalog::DEAD_LETTERS.name, &[("stage", reject.stage()), ("reason", reject.name())])
            }),
            dead_letters_held: rejects(|reject| {
                gauge(recorder, catalog::DEAD_LETTERS_HELD.name, &[("reason", reject.name())])
            }),
            records_produced: registrar.counters(&catalog::RECORDS_PRODUCED),
            produced_bytes: registrar.counters(&catalog::PRODUCED_BYTES),
            produce_failures: Family::new(|output| {
                let of_production = |reject: Reject| {
                    counter(recorder, catalog::PRODUCE_FAILURES.name, &[output, ("reason", reject.name())])
                };
                let mut rejects = BTreeMap::new();
                for reject in Reject::ALL.into_iter().filter(|reject| reject.stage() == "produce") {
                    rejects.insert(reject, of_production(reject));
                }
                rejects
            }),
            errors: Family::of_each(|component: Component| {
                let counted = |kind: &ErrorKind| {
                    (*kind, counter(recorder, catalog::ERRORS.name, &[component.pair(), kind.pair()]))
                };
                component.kinds().iter().map(counted).collect()
            }),
            process_duration: registrar.histogram(&catalog::PROCESS_DURATION),
            stage_duration: registrar.histograms(&catalog::STAGE_DURATION),
            end_to_end_latency: registrar.histogram(&catalog::END_TO_END_LATENCY),
            batch_size: registrar.histogram(&catalog::BATCH_SIZE),
            match_distance: registrar.histogram(&catalog::MATCH_DISTANCE),
            match_similarity: registrar.histogram(&catalog::MATCH_SIMILARITY),
            match_containment: registrar.histogram(&catalog::MATCH_CONTAINMENT),
            nearest_distance: registrar.histogram(&catalog::NEAREST_DISTANCE),
            lookup_candidates: registrar.histogram(&catalog::LOOKUP_CANDIDATES),
            match_age: registrar.histograms(&catalog::MATCH_AGE),
            document_tokens: registrar.histograms(&catalog::DOCUMENT_TOKENS),
            extracted: registrar.counters(&catalog::EXTRACTED),
            decoded: registrar.counters(&catalog::DECODED),
            without_id: registrar.counter(&catalog::WITHOUT_ID),
            registry_failures: registrar.counter(&catalog::REGISTRY_FAILURES),
            offset_commits: registrar.counters(&catalog::OFFSET_COMMITS),
            transaction_duration: registrar.histograms(&catalog::TRANSACTION_DURATION),
            blocked: registrar.gauges(&catalog::BLOCKED_PARTITIONS),
            rebalances: registrar.counters(&catalog::REBALANCES),
            rebalance_pause: registrar.histogram(&catalog::REBALANCE_PAUSE),
            paused: registrar.gauges(&catalog::CONSUMER_PAUSED),
            index_memory: registrar.gauges(&catalog::INDEX_MEMORY),
            index_evictions: registrar.counters(&catalog::INDEX_EVICTIONS),
            index_late_records: registrar.counter(&catalog::INDEX_LATE_RECORDS),
            index_full_keys: registrar.counter(&catalog::INDEX_FULL_KEYS),
            index_family_members: registrar.counter(&catalog::INDEX_FAMILY_MEMBERS),
            index_members_left_out: registrar.counter(&catalog::INDEX_MEMBERS_LEFT_OUT),
            withdrawn: rejects(|reject| counter(recorder, catalog::WITHDRAWN.name, &[("reason", reject.name())])),
            cold_starts: registrar.counters(&catalog::COLD_STARTS),
            verdict_seconds: registrar.histogram(&catalog::VERDICT_SECONDS),
            judge_wait: registrar.histogram(&catalog::JUDGE_WAIT),
            log_lag: registrar.gauges(&catalog::LOG_LAG),
            log_repeats: registrar.counter(&catalog::LOG_REPEATS),
            second_verdicts: registrar.counter(&catalog::SECOND_VERDICTS),
            clamped_timestamps: registrar.counter(&catalog::CLAMPED_TIMESTAMPS),
            judge_takeovers: registrar.counter(&catalog::JUDGE_TAKEOVERS),
            index_restores: registrar.counter(&catalog::INDEX_RESTORES),
            restored_entries: registrar.counters(&catalog::RESTORED_ENTRIES),
            snapshot_duration: registrar.histograms(&catalog::SNAPSHOT_DURATION),
            snapshot_failures: registrar.counters(&catalog::SNAPSHOT_FAILURES),
            worker_busy: registrar.counter(&catalog::WORKER_BUSY),
            queue_records: registrar.gauges(&catalog::QUEUE_RECORDS),
            queue_limit: registrar.gauges(&catalog::QUEUE_LIMIT),
        }
    }
}

fn rejects<H>(make: impl Fn(Reject) -> H) -> BTreeMap<Reject, H> {
    Reject::ALL.into_iter().map(|reject| (reject, make(reject))).collect()
}

struct Registrar<'a>(&'a dyn Recorder);

impl Registrar<'_> {
    fn counter(&self, spec: &Spec) -> Counter {
        counter(self.0, spec.name, &[])
    }

    fn counters<L: LabelValue>(&self, spec: &Spec) -> Family<L, Counter> {
        Family::new(|label| counter(self.0, spec.name, &[label]))
    }

    fn gauges<L: LabelValue>(&self, spec: &Spec) -> Family<L, Gauge> {
        Family::new(|label| gauge(self.0, spec.name, &[label]))
    }

    fn histogram(&self, spec: &Spec) -> Histogram {
        self.0.register_histogram(&key(spec.name, &[]), &METADATA)
    }

    fn histograms<L: LabelValue>(&self, spec: &Spec) -> Family<L, Histogram> {
        Family::new(|label| self.0.register_histogram(&key(spec.name, &[label]), &METADATA))
    }
}
