//! Metrics and health checks of the worker; the state machine itself reports nothing.
//!
//! Reports which records get no verdict, and why: periodically in the log, and in the status.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::worker::{Blocked, Output, Page, PageAction, PageOutcome, Status, Worker};

use crate::clock::{Clock, wall_time};
use crate::context::ServiceContext;
use crate::error::Fatal;
use crate::fingerprint::SketchForm;
use crate::kafka::output::{Outputs, PagePayload, Sent};
use crate::protocol::{
    Answer, Decision, LogPartition, Match, MatchedBy, PageVerdict, RequestId, Verdict, VerdictRecord,
};
use crate::record::{PartitionId, Reject, Source, Timestamp};
use crate::telemetry::health::VerdictWatch;
use crate::telemetry::labels::{
    Blocked as BlockedLabel, BypassReason, CommitResult, Component, Duplicate, ErrorKind, LabelValue, Pause, Queue,
    Step, TransactionResult,
};
use crate::telemetry::overview::VERDICTS_CHECK;
use crate::telemetry::pairs::{Clusters, DeliveredDuplicate, PairRecorder};
use crate::telemetry::{Check, Heartbeat, Metrics};
use crate::threads::{FailedTransactions, kind_of, next_step};
use crate::transaction::{Call, CallError};
use crate::worker::tracer::Tracer;

/// Maximum number of requests whose times are kept: enough for the pages in flight.
const MAX_REQUESTS: usize = 1 << 20;

/// A call that takes longer than this makes the worker unready.
const SLOW_CALL: Duration = Duration::from_mins(1);

/// Pending requests of one log.
#[derive(Debug, Default)]
struct Pending {
    requests: VecDeque<(Duration, RequestId)>,
    watch: VerdictWatch,
}

pub(crate) struct WorkerReport {
    metrics: Metrics,
    clock: Clock,
    outputs: Arc<Outputs>,
    /// Records duplicates for operators; absent if the admin API is off.
    pair_recorder: Option<PairRecorder>,
    /// Creates spans of sampled records; absent if tracing is off.
    tracer: Option<Tracer>,
    /// Converts a distance of the minhash stage to a similarity.
    form: Option<SketchForm>,
    clusters: Clusters,
    heartbeat: Heartbeat,
    ready: Check,
    consumed: BTreeMap<Arc<str>, (u64, u64)>,
    newest: BTreeMap<Arc<str>, Timestamp>,
    /// When each pending request was sent.
    requested_at: HashMap<RequestId, Duration>,
    /// The same for each log partition, in the order of the requests. A request whose page no longer waits is dropped
    /// once it is the first one.
    pending: Vec<Pending>,
    /// The call whose success commits the transaction.
    last_call: Call,
    verdicts: Check,
    brokers: Check,
    /// Whether it was reported that no verdicts arrive.
    is_silent: bool,
    dead: DeadLetterReport,
    /// The pending call, its start, and its pages.
    call: Option<(Call, Duration, usize)>,
    begun: Option<Duration>,
    failed: FailedTransactions,
    /// The records of the current transaction that the producer has received.
    sent: Arc<Sent>,
    tripped: bool,
    /// Whether it was logged that the judge passes requests without verdicts.
    is_unanswered: bool,
    /// Partitions that were logged as blocked.
    blocked: BTreeMap<PartitionId, Blocked>,
    /// Input topics that were logged as missing.
    missing_topics: BTreeSet<String>,
}

impl WorkerReport {
    pub(crate) fn new(context: &ServiceContext, clock: Clock, outputs: Arc<Outputs>) -> Result<Self, Fatal> {
        Ok(Self {
            metrics: context.metrics.clone(),
            clock,
            outputs,
            pair_recorder: context.pair_recorder.clone(),
            tracer: Tracer::start(context)?,
            form: context.settings.fingerprint.minhash.form,
            clusters: Clusters::default(),
            heartbeat: context.health.heartbeat("worker", clock.instant()),
            ready: context.health.check("worker", "starting"),
            consumed: BTreeMap::new(),
            newest: BTreeMap::new(),
            requested_at: HashMap::new(),
            last_call: context.settings.output.delivery.last_call(),
            pending: (0..context.all_logs()).map(|_| Pending::default()).collect(),
            verdicts: {
                let check = context.health.check(VERDICTS_CHECK, "starting");
                check.pass();
                check
            },
            brokers: {
                let check = context.health.check("brokers", "starting");
                check.pass();
                check
            },
            is_silent: false,
            dead: DeadLetterReport::new(context.metrics.clone()),
            call: None,
            begun: None,
            failed: FailedTransactions::default(),
            sent: Arc::default(),
            tripped: false,
            is_unanswered: false,
            blocked: BTreeMap::new(),
            missing_topics: BTreeSet::new(),
        })
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the counters for the producer.
    pub(crate) fn sent(&self) -> Arc<Sent> {
        Arc::clone(&self.sent)
    }

    pub(crate) fn read(&mut self, partition: &PartitionId, bytes: usize) {
        let (records, total) = self.consumed.entry(Arc::clone(&partition.topic)).or_default();
        *records += 1;
        *total += bytes as u64;
    }

    pub(crate) fn requested(&mut self, log: LogPartition, request: RequestId) {
        if self.requested_at.len() < MAX_REQUESTS
            && let Entry::Vacant(place) = self.requested_at.entry(request)
        {
            let now = self.clock.now();
            place.insert(now);
            if let Some(pending) = self.pending.get_mut(log.index()) {
                pending.requests.push_back((now, request));
            }
        }
    }

    pub(crate) fn followed(&mut self, log: LogPartition, record: &VerdictRecord) {
        let VerdictRecord::Verdicts(batch) = record else { return };
        if let Some(pending) = self.pending.get_mut(log.index()) {
            pending.watch.heard(self.clock.now());
        }
        if self.requested_at.is_empty() {
            return;
        }
        for verdict in &batch.verdicts {
            if let Some(since) = self.requested_at.remove(&verdict.request) {
                let now = self.clock.now();
                self.metrics.verdict(now.saturating_sub(since));
                if let Some(tracer) = &mut self.tracer {
                    tracer.judged(verdict, since, now);
                }
            }
        }
    }

    pub(crate) fn calls(&mut self, call: Call, pages: usize) {
        let now = self.clock.now();
        if call == Call::Produce {
            self.begun = Some(now);
            if let Some(tracer) = &mut self.tracer {
                tracer.sends(now);
            }
            self.metrics.batch_size(pages as u64);
        }
        self.call = Some((call, now, pages));
    }

    pub(crate) fn called(&mut self, result: &Result<Vec<i64>, CallError>) {
        let Some((call, since, pages)) = self.call.take() else { return };
        let wall = wall_time();
        match result {
            Ok(_) if call == self.last_call => {
                self.metrics.committed(CommitResult::Ok, wall);
                self.failed.committed();
                self.ended(TransactionResult::Committed);
            }
            Ok(_) if call == Call::Abort => self.ended(TransactionResult::Aborted),
            Ok(_) if call == Call::Produce => {
                self.metrics
                    .series()
                    .stage_duration
                    .of(Step::Produce)
                    .record_many(self.clock.now().saturating_sub(since), pages);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(target: "dupgate::worker", ?call, %error, "transactional call failed, {}", next_step(error));
                self.metrics.error(Component::Producer, kind_of(error));
                if matches!(error, CallError::Abortable(_)) {
                    self.failed.failed(error.to_string());
                }
                if matches!(call, Call::SendOffsets | Call::Commit) {
                    self.metrics.committed(CommitResult::Error, wall);
                }
                // At-least-once delivery has no abort call: the attempt ends here, and its pages are sent again.
                if self.last_call == Call::SendOffsets && !matches!(error, CallError::Retriable(_)) {
                    self.ended(TransactionResult::Aborted);
                }
            }
        }
    }

    /// Counts the records of a page that the brokers will never accept.
    pub(crate) fn given_up(&self, output: &Output<PagePayload>, reason: Reject) {
        for output_kind in self.outputs.routing.output_kinds(&output.outcome) {
            self.metrics.produce_failed(*output_kind, reason);
        }
    }

    fn ended(&mut self, result: TransactionResult) {
        if let Some(begun) = self.begun.take() {
            self.metrics.series().transaction_duration.of(result).record(self.clock.now().saturating_sub(begun));
        }
    }

    pub(crate) fn delivered(&mut self, outputs: &[Arc<Output<PagePayload>>]) {
        let (now, wall) = (self.clock.now(), wall_time());
        for (output_kind, records, bytes) in self.sent.take() {
            self.metrics.produced(output_kind, records, bytes);
        }
        for output in outputs {
            let page = &output.page;
            let record = &page.payload.record;
            let bytes = record.bytes();
            match &output.outcome {
                PageOutcome::Judged(verdict) => {
                    self.judged(verdict, bytes as u64);
                    self.log_verdict(verdict, page.payload.id.as_deref(), now, wall);
                }
                PageOutcome::DeadLetter(reason) => {
                    self.dead(*reason);
                    // Not every dead letter was reported when it was read: the brokers may have refused the page, or
                    // the verdict log says that it was withdrawn.
                    if !page.payload.is_reported {
                        self.report_dead_letter(page, *reason);
                    }
                }
                PageOutcome::Tombstone => self.metrics.bypassed(BypassReason::Tombstone),
            }
            self.metrics.series().process_duration.record(now.saturating_sub(page.payload.read_at));
            if let Some(tracer) = &mut self.tracer {
                tracer.delivered(output, &self.outputs, now);
            }
            if let Some(timestamp) = record.timestamp {
                self.metrics.end_to_end_latency(timestamp, wall);
            }
            let newest = self.newest.entry(Arc::clone(&page.source.partition.topic)).or_insert(page.event_time);
            *newest = page.event_time.max(*newest);
        }
    }

    fn judged(&mut self, verdict: &Verdict, bytes: u64) {
        let Answer::Page(PageVerdict { decision, .. }) = &verdict.answer else { return };
        self.metrics.judged(decision.kind());
        if let (Some(of), Some(found_by)) = (decision.matched(), Duplicate::of(decision.kind())) {
            self.matched(of);
            self.clusters.count(&of.cluster);
            self.metrics.series().duplicate_bytes.of(found_by).increment(bytes);
            self.metrics.match_age(found_by, of.age_ms);
        }
    }

    /// Observes the distance of a near match, in the measure of its stage.
    fn matched(&self, of: &Match) {
        match (of.by, self.form) {
            (MatchedBy::SimHash { bits }, _) => self.metrics.match_distance(bits),
            (MatchedBy::MinHash { contained: Some(contained), .. }, _) => self.metrics.match_containment(contained),
            (MatchedBy::MinHash { slots, contained: None }, Some(form)) => {
                self.metrics.match_similarity(form.similarity(slots));
            }
            (MatchedBy::Exact, _) | (MatchedBy::MinHash { contained: None, .. }, None) => {}
        }
    }

    /// Offers a duplicate to the pair store.
    fn log_verdict(&self, verdict: &Verdict, id: Option<&str>, now: Duration, wall: Timestamp) {
        let (Some(pair_recorder), Answer::Page(page)) = (&self.pair_recorder, &verdict.answer) else { return };
        let Decision::Duplicate { of } = &page.decision else { return };
        let seen = DeliveredDuplicate {
            source: page.source.clone(),
            original: of.source.clone(),
            cluster: of.cluster.clone(),
            verdict: page.decision.kind().name(),
            stage: of.by.stage().name(),
            distance: of.by.distance(),
            contained: of.by.contained(),
            age_ms: of.age_ms,
            id: id.map(str::to_owned),
            at: wall,
        };
        pair_recorder.offer(now, seen);
    }

    fn dead(&self, reason: Reject) {
        self.metrics.dead_letter(reason);
        if !reason.is_determined_by_page() {
            self.metrics.withdrawn(reason);
        }
    }

    /// Reports a page that gets no verdict, when it leaves the text work. Returns whether it did.
    pub(crate) fn page(&mut self, page: &Page<PagePayload>) -> bool {
        let reason = match &page.action {
            PageAction::Settled(PageOutcome::DeadLetter(reason)) | PageAction::Withdraw(_, reason) => *reason,
            PageAction::Settled(PageOutcome::Judged(_) | PageOutcome::Tombstone) | PageAction::Ask(..) => return false,
        };
        self.report_dead_letter(page, reason);
        true
    }

    fn report_dead_letter(&mut self, page: &Page<PagePayload>, reason: Reject) {
        let why = page.payload.message.as_deref().unwrap_or_else(|| dupgate_core::worker::message(reason));
        self.dead.found(self.clock.now(), &page.source, reason, why);
    }

    /// Sets whether any broker answers.
    pub(crate) fn reaches(&self, reaches: bool) {
        if reaches {
            tracing::info!(target: "dupgate::worker", "brokers answer again");
            self.brokers.pass();
        } else {
            tracing::warn!(target: "dupgate::worker", "no broker answers (kafka.brokers)");
            self.brokers.fail("no broker answers (kafka.brokers)");
        }
    }

    /// Logs input topics that have disappeared or exist again since the last call.
    pub(crate) fn missing_topics(&mut self, missing: BTreeSet<String>) {
        for topic in missing.difference(&self.missing_topics) {
            tracing::warn!(target: "dupgate::worker", "input topic {topic} does not exist (any more)");
            self.metrics.error(Component::Consumer, ErrorKind::Retriable);
        }
        for topic in self.missing_topics.difference(&missing) {
            tracing::info!(target: "dupgate::worker", "input topic {topic} exists again");
        }
        self.missing_topics = missing;
    }

    /// Updates metrics and health checks. The driver calls it a few times a second; `unread` is the number of records
    /// that wait for text work.
    pub(crate) fn look(&mut self, worker: &Worker<PagePayload>, unread: usize) {
        let status = &worker.status();
        self.heartbeat.tick(self.clock.instant());
        let silence = self.look_for_verdicts(worker);
        for (topic, (records, bytes)) in std::mem::take(&mut self.consumed) {
            self.metrics.consumed(&topic, records, bytes);
        }
        for (topic, newest) in &self.newest {
            self.metrics.last_record(topic, *newest);
        }
        let largest = self.clusters.largest(1).first().map(|(_, duplicates)| duplicates + 1);
        self.metrics.largest_cluster(largest.unwrap_or(0));
        for (queue, records) in
            [(Queue::Work, unread), (Queue::Produce, status.waiting), (Queue::Commit, status.in_transaction)]
        {
            self.metrics.queue_records(queue, records as u64);
        }
        self.metrics.paused(Pause::Backpressure, status.full);
        self.metrics.paused(Pause::Pacing, status.ahead > 0);
        self.metrics.paused(Pause::Restore, status.is_scanning);
        self.metrics.paused(Pause::Breaker, status.tripped.is_some());
        if let Some(bad) = status.tripped.filter(|_| !self.tripped) {
            self.tripped = true;
            let why = self.dead.summary();
            tracing::error!(
                target: "dupgate::worker",
                bad, of = 1000, why, "the input is paused: too many records became dead letters"
            );
        }
        self.log_blocked(status);
        self.log_unanswered(status.unanswered);
        if status.tripped.is_some() {
            self.metrics.dead_letters_held(&worker.dead_letters_held());
        }
        self.failed.has_to_deliver(status.waiting + status.in_transaction);
        self.update_readiness(status, silence);
    }

    fn log_unanswered(&mut self, requests: usize) {
        let is_unanswered = requests > 0;
        if is_unanswered && !self.is_unanswered {
            tracing::warn!(
                target: "dupgate::worker",
                requests,
                "the judge repeatedly passes requests without verdicts: either the fingerprint log was recreated or has \
                 lost records, and the judge will continue with what it holds; or the verdict log has lost records, and \
                 has no verdict on pages that the judge counts as judged. Requests are repeated at growing intervals. \
                 See DupgateNoVerdicts in the runbooks"
            );
        } else if self.is_unanswered && !is_unanswered {
            tracing::info!(target: "dupgate::worker", "the judge answers every request again");
        }
        self.is_unanswered = is_unanswered;
    }

    fn log_blocked(&mut self, status: &Status) {
        for (partition, why) in &status.blocked {
            if self.blocked.get(partition) != Some(why) {
                tracing::error!(
                    target: "dupgate::worker",
                    %partition, "partition blocked: {why}; other partitions continue"
                );
            }
        }
        for partition in self.blocked.keys().filter(|partition| !status.blocked.contains_key(partition)) {
            tracing::info!(target: "dupgate::worker", %partition, "partition unblocked");
        }
        self.blocked.clone_from(&status.blocked);
        for &reason in BlockedLabel::ALL {
            let count = self.blocked.values().filter(|why| blocked_label(why) == reason).count();
            self.metrics.blocked_partitions(reason, count);
        }
    }

    /// Updates how long pages have waited for their verdicts. Returns whether no verdicts arrive at all.
    fn look_for_verdicts(&mut self, worker: &Worker<PagePayload>) -> bool {
        let now = self.clock.now();
        let (mut oldest, mut silent): (Option<Duration>, Option<Duration>) = (None, None);
        for pending in &mut self.pending {
            while let Some((_, request)) = pending.requests.front().filter(|(_, request)| !worker.waits_for(*request)) {
                self.requested_at.remove(request);
                pending.requests.pop_front();
            }
            let first = pending.requests.front().map(|(since, _)| now.saturating_sub(*since));
            oldest = oldest.max(first);
            silent = silent.max(pending.watch.silence(now, first.is_some()));
        }
        self.metrics.oldest_pending_verdict(oldest.unwrap_or_default());
        match silent {
            None => self.verdicts.pass(),
            Some(silence) => {
                let pages = worker.status().asked;
                let text = format!("none for {} s ({pages} pages wait; no judge answers)", silence.as_secs());
                if !self.is_silent {
                    tracing::warn!(target: "dupgate::worker", "no verdicts: {text}");
                }
                self.verdicts.fail(text);
            }
        }
        if self.is_silent && silent.is_none() {
            tracing::info!(target: "dupgate::worker", "verdicts arrive again");
        }
        self.is_silent = silent.is_some();
        self.is_silent
    }

    fn update_readiness(&self, status: &Status, is_silent: bool) {
        let slow = self.call.filter(|(_, since, _)| self.clock.now().saturating_sub(*since) > SLOW_CALL);
        if let Some(bad) = status.tripped {
            self.ready.fail(format!(
                "{bad} of the last 1000 records became dead letters: the input is paused ({}); check input.fields and \
                 input.format (`dupgate explain` shows what is read in a page), then restart, or raise \
                 processing.pause_above_dead_letter_ratio",
                self.dead.summary()
            ));
        } else if !status.blocked.is_empty() || !self.missing_topics.is_empty() {
            let missing = self.missing_topics.iter().map(|topic| format!("input topic {topic} does not exist"));
            let blocked = status.blocked.iter().map(|(partition, why)| format!("{partition} is blocked: {why}"));
            self.ready.fail(missing.chain(blocked).collect::<Vec<_>>().join("; "));
        } else if let Some(why) = self.failed.why() {
            self.ready.fail(why);
        } else if let Some((call, ..)) = slow {
            self.ready.fail(format!("the brokers have not answered {call:?} for a minute"));
        } else if !status.learned {
            self.ready.fail("reading the verdict log");
        } else if !status.joined {
            self.ready.fail("not in the input group");
        } else if is_silent {
            self.ready.fail("waits for verdicts");
        } else {
            self.ready.pass();
        }
    }
}

const fn blocked_label(why: &Blocked) -> BlockedLabel {
    match why {
        Blocked::VerdictLost => BlockedLabel::VerdictLost,
        Blocked::ForeignPage(_) => BlockedLabel::ForeignPage,
        Blocked::NoOffset => BlockedLabel::NoOffset,
        Blocked::OutOfRange { .. } => BlockedLabel::OutOfRange,
        Blocked::Denied => BlockedLabel::Denied,
    }
}

/// Minimum interval between two log lines of the same reason.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// The records without a verdict that one worker has found.
#[derive(Debug)]
pub(crate) struct DeadLetterReport {
    metrics: Metrics,
    reasons: BTreeMap<Reject, Reason>,
}

#[derive(Debug)]
struct Reason {
    records: u64,
    first: Source,
    why: String,
    warned: Duration,
    /// Records since the last line in the log.
    left_out: u64,
}

impl DeadLetterReport {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { metrics, reasons: BTreeMap::new() }
    }

    /// Reports a record that gets no verdict. It becomes a dead letter, unless the input is paused first.
    pub(crate) fn found(&mut self, now: Duration, source: &Source, reason: Reject, why: &str) {
        self.metrics.dead_letter_read(reason, source, why);
        let known = self.reasons.entry(reason).or_insert_with(|| Reason {
            records: 0,
            first: source.clone(),
            why: why.to_owned(),
            warned: Duration::ZERO,
            left_out: 0,
        });
        known.records += 1;
        if known.records > 1 && now.saturating_sub(known.warned) < WARN_INTERVAL {
            known.left_out += 1;
            return;
        }
        let more = std::mem::take(&mut known.left_out);
        known.warned = now;
        tracing::warn!(
            target: "dupgate::worker",
            position = %source, reason = reason.name(), why, more, "a record gets no verdict"
        );
    }

    /// Lists the reasons, most frequent first, each with its first record.
    pub(crate) fn summary(&self) -> String {
        let mut reasons: Vec<(&Reject, &Reason)> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, reason)| std::cmp::Reverse(reason.records));
        let tell = |(reject, reason): (&Reject, &Reason)| {
            let Reason { records, first, why, .. } = reason;
            format!("{} {records}: {why}, first at {first}", reject.name())
        };
        reasons.into_iter().map(tell).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings;
    use crate::record::PartitionId;

    #[test]
    fn reasons_are_listed_with_their_first_record_most_frequent_first() {
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let mut report = DeadLetterReport::new(metrics.clone());
        assert_eq!(report.summary(), "");
        let at = |offset| PartitionId::new("pages", 0).at(offset);
        report.found(Duration::ZERO, &at(1), Reject::Undecodable, "not JSON");
        report.found(Duration::ZERO, &at(2), Reject::MissingField, "no `/text`");
        report.found(Duration::ZERO, &at(3), Reject::MissingField, "no `/text`");
        assert_eq!(
            report.summary(),
            "missing_field 2: no `/text`, first at pages:0:2; undecodable 1: not JSON, first at pages:0:1"
        );
        let examples = metrics.dead_letter_examples();
        assert_eq!(examples.get("missing_field"), Some(&("pages:0:3".to_owned(), "no `/text`".to_owned())));
    }

    #[test]
    fn each_reason_is_logged_periodically_with_the_number_left_out() {
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let mut report = DeadLetterReport::new(metrics);
        let at = |offset| PartitionId::new("pages", 0).at(offset);
        let text = crate::telemetry::logging::captured::at(crate::config::settings::Level::Info, || {
            for millis in (0..=10_000).step_by(1000) {
                let offset = i64::try_from(millis).unwrap();
                report.found(Duration::from_millis(millis), &at(offset), Reject::NoText, "no text is left");
            }
            report.found(Duration::from_secs(10), &at(1), Reject::TooDeep, "nested");
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].contains("\"position\":\"pages:0:0\"") && lines[0].contains("no text is left"), "{text}");
        assert!(lines[1].contains("\"more\":9"), "{text}");
        assert!(lines[2].contains("\"reason\":\"too_deep\""), "{text}");
    }
}
