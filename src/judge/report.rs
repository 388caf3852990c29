//! Metrics and health checks of one judge.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use dupgate_core::judge::{ColdStarts, Counts, Judge, OperatorOutcome, Role};

use crate::clock::{Clock, wall_time};
use crate::index::ProbeStats;
use crate::protocol::{Answer, LogPartition, RequestOffset, VerdictOffset};
use crate::record::Timestamp;
use crate::telemetry::health::StandbyWatch;
use crate::telemetry::labels::{ColdStart, Component, ErrorKind, Eviction, RestoreSource, Step};
use crate::telemetry::overview::{NO_JUDGE, judge_check};
use crate::telemetry::{Check, Health, Heartbeat, IndexTotals, Metrics};
use crate::threads::{kind_of, next_step};
use crate::transaction::CallError;

#[derive(Debug, Default)]
struct Progress {
    /// The range to follow, once it is known.
    range: Option<Range<VerdictOffset>>,
    /// The offset after the last followed record.
    next: VerdictOffset,
}

/// The event time that the verdict log on the brokers spans. Records count until the brokers have confirmed their
/// deletion.
#[derive(Debug, Default)]
struct KeptTime {
    kept: Duration,
    not_deleted: Duration,
}

impl KeptTime {
    /// Updates the span that the judge keeps. Returns the span of the log.
    fn look(&mut self, kept: Duration) -> Duration {
        self.kept = kept;
        kept.saturating_add(self.not_deleted)
    }

    /// Notes that the log was asked to be trimmed to this span.
    fn trims(&mut self, kept: Duration) {
        self.not_deleted = self.not_deleted.saturating_add(self.kept.saturating_sub(kept));
        self.kept = kept;
    }

    /// Notes that the brokers have confirmed the deletion.
    fn trimmed(&mut self) {
        self.not_deleted = Duration::ZERO;
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("restoring the index")?;
        let Some(&Range { start, end }) = self.range.as_ref().filter(|range| !range.is_empty()) else { return Ok(()) };
        let done = self.next.clamp(start, end).since(start);
        write!(f, ", {} % of the verdict log", u128::from(done) * 100 / u128::from(end.since(start)))
    }
}

pub(crate) struct JudgeReport {
    metrics: Metrics,
    clock: Clock,
    heartbeat: Heartbeat,
    ready: Check,
    log: LogPartition,
    role: Role,
    /// When the judge took this role.
    since: Duration,
    /// How long the last restore took, until it is logged.
    restored_in: Option<Duration>,
    progress: Progress,
    /// Number of originals in the snapshot that the last restore began with.
    from_snapshot: usize,
    cold_starts: ColdStarts,
    counts: Counts,
    session: Duration,
    watch: StandbyWatch,
    kept_time: KeptTime,
    /// Whether it was reported that no instance judges.
    is_silent: bool,
    /// Whether the brokers refuse the verdicts.
    is_refused: bool,
}

impl JudgeReport {
    /// Creates the report of a judge whose group membership has this session time-out.
    pub(crate) fn new(metrics: Metrics, health: &Health, clock: Clock, log: LogPartition, session: Duration) -> Self {
        let name = judge_check(log);
        Self {
            since: clock.now(),
            restored_in: None,
            metrics,
            clock,
            heartbeat: health.heartbeat(&name, clock.instant()),
            ready: health.check(&name, "restoring the index"),
            log,
            role: Role::Restoring,
            progress: Progress::default(),
            from_snapshot: 0,
            cold_starts: ColdStarts::default(),
            counts: Counts::default(),
            session,
            watch: StandbyWatch::default(),
            kept_time: KeptTime::default(),
            is_silent: false,
            is_refused: false,
        }
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn failed(&self, error: &CallError) {
        if let CallError::Undeliverable { reason, .. } = error {
            tracing::error!(
                target: "dupgate::judge",
                log = self.log.0,
                reason = reason.name(),
                "the brokers refuse a record of the verdict log, which will be retried: raise max.message.bytes of \
                 that topic to 2097152"
            );
        } else {
            tracing::warn!(target: "dupgate::judge", log = self.log.0, %error, "transactional call failed, {}", next_step(error));
        }
        self.metrics.error(Component::Judge, kind_of(error));
    }

    /// Notes that the deletion of the beginning of the verdict log was requested; the rest spans `kept`.
    pub(crate) fn trims(&mut self, kept: Duration) {
        self.kept_time.trims(kept);
    }

    /// Notes that the brokers have confirmed the deletion.
    pub(crate) fn trimmed(&mut self) {
        self.metrics.trimmed(self.log, wall_time());
        self.kept_time.trimmed();
    }

    /// Notes that a restore begins, with a snapshot of this many originals.
    pub(crate) fn restores(&mut self, originals: usize) {
        self.from_snapshot = originals;
        self.progress = Progress::default();
    }

    /// Sets the range of the verdict log that a restore has to follow.
    pub(crate) fn has_to_follow(&mut self, range: Range<VerdictOffset>) {
        self.progress.range = Some(range);
        self.log_progress();
    }

    /// Notes that the verdict log was followed up to `next`.
    pub(crate) fn follows(&mut self, next: VerdictOffset) {
        self.watch.heard(self.clock.now());
        self.progress.next = self.progress.next.max(next);
    }

    /// Returns whether to query the end of the fingerprint log now. A standby needs it to detect that no instance
    /// judges.
    pub(crate) fn asks_for_end(&mut self) -> bool {
        self.role == Role::Standby && self.watch.asks_for_end(self.clock.now())
    }

    /// Stores the end of the fingerprint log, if known.
    pub(crate) fn end_answered(&mut self, end: Option<RequestOffset>) {
        self.watch.end_answered(end);
    }

    /// Sets the readiness of a standby: it is ready while an instance judges, as far as it can know. If requests wait
    /// and no verdicts arrive, no instance does, and the group reassigns the partition when the session of its former
    /// owner times out.
    fn look_for_predecessor(&mut self, now: Duration, next_request: RequestOffset) {
        let silence = self.watch.silence(now, next_request);
        match silence {
            None => match self.watch.unsure_for(now, self.session) {
                None => self.ready.pass(),
                Some(left) => self.ready.fail(format!(
                    "waits to take over, or for a verdict of another instance (at most {} s)",
                    left.as_secs() + 1
                )),
            },
            Some(silence) => {
                let left = self.session.saturating_sub(silence).as_secs();
                let requests = self.watch.requests(next_request);
                let when = if left > 0 { format!(" (at most {left} s)") } else { String::new() };
                if !self.is_silent {
                    tracing::warn!(
                        target: "dupgate::judge",
                        log = self.log.0, requests, "no instance judges: waiting to take over{when}"
                    );
                }
                self.ready.fail(format!("waits to take over{when}: {NO_JUDGE}"));
            }
        }
        self.is_silent = silence.is_some();
    }

    /// Makes the judge unready while the brokers refuse its verdicts: it judges nothing until they accept them.
    fn look_for_refusals(&mut self, refusals: u32) {
        if refusals > 0 {
            self.ready.fail(format!(
                "the brokers refused a record of the verdict log {refusals} times in a row, and nothing is judged: raise \
                 max.message.bytes of that topic"
            ));
        } else if self.is_refused {
            self.ready.pass();
        }
        self.is_refused = refusals > 0;
    }

    fn log_progress(&self) {
        if self.role == Role::Restoring {
            self.ready.fail(self.progress.to_string());
        }
    }

    /// Logs that the fingerprint log does not hold the next request. Nothing depends on the requests that it has lost.
    pub(crate) fn requests_lost(&self, next_request: RequestOffset, held: &Range<RequestOffset>) {
        tracing::warn!(
            target: "dupgate::judge",
            log = self.log.0, next_request = next_request.0, first = held.start.0, end = held.end.0,
            "the fingerprint log does not hold the next request: it was recreated, or has lost records; judging goes on \
             with what it holds, and workers make the requests again that were lost"
        );
        self.metrics.error(Component::Log, ErrorKind::Lost);
    }

    /// Logs what operators' requests have done.
    pub(crate) fn operators_requested(&self, outcomes: &[OperatorOutcome]) {
        for OperatorOutcome { answer, forgotten } in outcomes {
            let (log, originals) = (self.log.0, forgotten);
            match answer {
                Answer::Page(_) | Answer::Withdrawn { .. } => {}
                Answer::TimeSet { before, after } if before == after => {
                    tracing::info!(
                        target: "dupgate::judge",
                        log, stream_time = in_words(*before), "an operator request found no later stream time to set back"
                    );
                }
                Answer::TimeSet { before, after } => {
                    tracing::info!(
                        target: "dupgate::judge",
                        log, before = in_words(*before), after = in_words(*after),
                        "an operator request set the stream time back"
                    );
                }
                Answer::Forgotten(target) if *forgotten == 0 => {
                    tracing::info!(target: "dupgate::judge", log, %target, "an operator request found nothing to forget");
                }
                Answer::Forgotten(target) => {
                    tracing::info!(target: "dupgate::judge", log, %target, originals, "an operator request forgot originals");
                }
                Answer::Reopened { partition, from, to } if to <= from => {
                    tracing::info!(
                        target: "dupgate::judge",
                        log, %partition, from, "an operator request found nothing to reopen: no page from there on was delivered"
                    );
                }
                Answer::Reopened { partition, from, to } => {
                    tracing::info!(
                        target: "dupgate::judge",
                        log, %partition, from, to, originals, "an operator request reopened a range"
                    );
                }
            }
        }
    }

    /// Observes the lookups of judged pages, and the time that they took together.
    pub(crate) fn judged(&self, lookups: &[ProbeStats], elapsed: Duration) {
        for seen in lookups {
            self.metrics.lookup(seen.compared, seen.nearest);
            self.metrics.series().index_members_left_out.increment(seen.left_out.into());
        }
        if let Ok(count) = u32::try_from(lookups.len())
            && count > 0
        {
            self.metrics.series().stage_duration.of(Step::Lookup).record_many(elapsed / count, lookups.len());
        }
    }

    /// Observes the time from the fetch of requests until the first of them was judged.
    pub(crate) fn waited(&self, requests: usize, elapsed: Duration) {
        self.metrics.series().judge_wait.record_many(elapsed, requests);
    }

    /// Reports a change of the role. The driver calls it whenever the role may have changed.
    pub(crate) fn see(&mut self, judge: &Judge) {
        let role = judge.role();
        if role == self.role {
            return;
        }
        if self.role == Role::Restoring {
            let from_log = judge.state().index().originals().saturating_sub(self.from_snapshot);
            self.metrics.series().restored_entries.of(RestoreSource::Log).increment(from_log as u64);
        }
        let now = self.clock.now();
        let elapsed = now.saturating_sub(std::mem::replace(&mut self.since, now));
        if self.role == Role::Restoring {
            self.restored_in = Some(elapsed);
        }
        let restored_in = if role == Role::TakingOver { None } else { self.restored_in.take() };
        tracing::info!(
            target: "dupgate::judge",
            log = self.log.0, "{}", role_change(self.log, (self.role, elapsed), role, restored_in)
        );
        if role == Role::Active {
            self.metrics.series().judge_takeovers.increment(1);
        }
        if role == Role::Restoring {
            self.metrics.series().index_restores.increment(1);
        }
        self.metrics.judge_active(self.log, role == Role::Active);
        match role {
            Role::Restoring => self.ready.fail(self.progress.to_string()),
            Role::TakingOver => self.ready.fail("taking over"),
            Role::Standby => self.watch.stands_by(now),
            Role::Active | Role::Draining | Role::Stopped => self.ready.pass(),
        }
        self.role = role;
    }

    /// Notes that the judge is alive.
    pub(crate) fn beat(&self) {
        self.heartbeat.tick(self.clock.instant());
    }

    /// Updates metrics and health checks. The driver calls it a few times a second.
    pub(crate) fn look(&mut self, judge: &Judge, waiting_requests: usize) {
        self.see(judge);
        self.log_progress();
        if self.role == Role::Standby {
            self.look_for_predecessor(self.clock.now(), judge.state().next_request());
        }
        if self.role == Role::Active {
            self.look_for_refusals(judge.refusals());
        }
        self.beat();
        let state = judge.state();
        let index = state.index();
        let held = index.stats();
        self.metrics.index(
            self.log,
            IndexTotals {
                is_ready: self.role != Role::Restoring,
                entries: held.originals,
                oldest: index.live(&state.watermarks()).next().map(|oldest| oldest.event_time),
                stream_time: Some(state.stream_time()).filter(|time| *time != Timestamp::MIN),
                fingerprint_bytes: held.fingerprint_bytes as u64,
                bucket_bytes: held.bucket_bytes as u64,
                ref_bytes: held.ref_bytes as u64,
                exact_bytes: held.exact_bytes as u64,
                largest_bucket: held.largest_bucket,
                waiting: if self.role == Role::Active { waiting_requests as u64 } else { 0 },
            },
        );
        if self.role != Role::Restoring {
            let left = state.rules().map(|rules| rules.left_of_dual_period(state.stream_time()));
            self.metrics.dual_period(self.log, left.unwrap_or_default());
            self.metrics.log_kept(self.log, self.kept_time.look(judge.kept()));
        }
        let seen = judge.cold_starts();
        for _ in self.cold_starts.new_log..seen.new_log {
            self.metrics.series().cold_starts.of(ColdStart::NewScheme).increment(1);
        }
        for _ in self.cold_starts.log_truncated..seen.log_truncated {
            self.metrics.series().cold_starts.of(ColdStart::LogTruncated).increment(1);
            tracing::warn!(
                target: "dupgate::judge",
                log = self.log.0,
                "the verdict log has lost what preceded its first record: pages are compared with those that its next \
                 checkpoint knows, or whose requests the fingerprint log still holds"
            );
        }
        self.cold_starts = seen;
        let second_verdicts = self.count(judge.counts());
        if let Some(source) = state.second_verdict().filter(|_| second_verdicts > 0) {
            tracing::error!(
                target: "dupgate::judge",
                log = self.log.0, pages = second_verdicts, last = %source,
                "pages have a second verdict in the verdict log; the first one counts: find out what else writes to this log \
                 (another service with the same logs.prefix?), or whether brokers lost records; `dupgate verdicts show` lists both"
            );
        }
    }

    /// Adds the growth of the judge's totals to the counters: totals restart with a restore, and counters must not
    /// fall. Returns the number of second verdicts that were read since the last call.
    fn count(&mut self, now: Counts) -> u64 {
        let before = std::mem::replace(&mut self.counts, now);
        let since = |count: fn(&Counts) -> u64| match (count(&now), count(&before)) {
            (now, before) if now >= before => now - before,
            (now, _) => now,
        };
        self.metrics.series().log_repeats.increment(since(|counts| counts.repeats));
        self.metrics.series().index_late_records.increment(since(|counts| counts.late));
        self.metrics.series().clamped_timestamps.increment(since(|counts| counts.clamped));
        self.metrics.series().index_full_keys.increment(since(|counts| counts.full_keys));
        self.metrics.series().index_family_members.increment(since(|counts| counts.family_members));
        self.metrics.series().index_evictions.of(Eviction::Expired).increment(since(|counts| counts.expired));
        self.metrics.series().index_evictions.of(Eviction::Capacity).increment(since(|counts| counts.evicted));
        self.metrics.series().index_evictions.of(Eviction::Forgotten).increment(since(|counts| counts.forgotten));
        let second_verdicts = since(|counts| counts.second_verdicts);
        self.metrics.series().second_verdicts.increment(second_verdicts);
        second_verdicts
    }
}

/// Describes a change of role for the log. `before` is the previous role and how long it lasted; `restored_in` is the
/// duration of a restore that was not logged yet.
fn role_change(log: LogPartition, before: (Role, Duration), now: Role, restored_in: Option<Duration>) -> String {
    let seconds = |span: Duration| format!("{:.1} s", span.as_secs_f64());
    let restored = restored_in.map(|span| format!("restored in {}", seconds(span)));
    let (what, more) = match (before, now) {
        (_, Role::Restoring) => ("restoring the index of", None),
        ((Role::Active | Role::Draining, _), Role::Standby) => ("stopped judging, standing by for", None),
        (_, Role::Standby) => ("standing by for", None),
        (_, Role::TakingOver) => ("taking over", None),
        ((Role::TakingOver, span), Role::Active) => ("judging", Some(format!("took over in {}", seconds(span)))),
        (_, Role::Active) => ("judging", None),
        (_, Role::Draining) => ("stopped judging, handing over", None),
        (_, Role::Stopped) => ("left", None),
    };
    let more: Vec<String> = more.into_iter().chain(restored).collect();
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
    format!("{what} partition {log}{more}")
}

fn in_words(time: Timestamp) -> String {
    time.rfc3339().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings;

    #[test]
    fn the_log_names_the_role_and_partition_of_a_judge() {
        let logged = |before, now, restored: Option<u64>| {
            role_change(
                LogPartition(3),
                (before, Duration::from_millis(1320)),
                now,
                restored.map(Duration::from_millis),
            )
        };
        for (before, now, restored, expected) in [
            (Role::Restoring, Role::Standby, Some(480), "standing by for partition 3 (restored in 0.5 s)"),
            (Role::Standby, Role::TakingOver, None, "taking over partition 3"),
            (Role::TakingOver, Role::Active, None, "judging partition 3 (took over in 1.3 s)"),
            (Role::TakingOver, Role::Active, Some(480), "judging partition 3 (took over in 1.3 s, restored in 0.5 s)"),
            (Role::Active, Role::Draining, None, "stopped judging, handing over partition 3"),
            (Role::Draining, Role::Standby, None, "stopped judging, standing by for partition 3"),
            (Role::Active, Role::Restoring, None, "restoring the index of partition 3"),
            (Role::Standby, Role::Stopped, None, "left partition 3"),
        ] {
            assert_eq!(logged(before, now, restored), expected);
        }
    }

    #[test]
    fn the_span_of_the_verdict_log_includes_records_not_yet_deleted() {
        let mut span = KeptTime::default();
        let hours = |hours: u32| hours * Duration::from_hours(1);
        assert_eq!(span.look(hours(90)), hours(90));
        span.trims(hours(80));
        assert_eq!(span.look(hours(81)), hours(91), "the brokers have not answered, or refused");
        span.trims(hours(79));
        assert_eq!(span.look(hours(79)), hours(91));
        span.trimmed();
        assert_eq!(span.look(hours(80)), hours(80));
    }

    #[test]
    fn a_judge_whose_verdicts_are_refused_is_not_ready_until_they_are_accepted() {
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let health = Health::new(Duration::from_secs(1));
        let mut report = JudgeReport::new(metrics, &health, Clock::start(), LogPartition(0), Duration::from_secs(10));
        let readiness = || health.readiness().remove(0).1;
        report.ready.pass();
        report.look_for_refusals(0);
        assert_eq!(readiness(), Ok(()));
        report.look_for_refusals(3);
        let why = readiness().unwrap_err();
        assert!(why.contains("3 times") && why.contains("max.message.bytes"), "{why}");
        report.look_for_refusals(0);
        assert_eq!(readiness(), Ok(()));
    }

    #[test]
    fn readiness_shows_the_progress_of_a_restore() {
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let health = Health::new(Duration::from_secs(1));
        let mut report = JudgeReport::new(metrics, &health, Clock::start(), LogPartition(0), Duration::from_secs(10));
        let readiness = || health.readiness().remove(0).1.unwrap_err();
        assert_eq!(readiness(), "restoring the index");
        report.has_to_follow(VerdictOffset(100)..VerdictOffset(300));
        assert_eq!(readiness(), "restoring the index, 0 % of the verdict log");
        for (next, percent) in [(180, 40), (299, 99), (90, 99), (300, 100), (400, 100)] {
            report.follows(VerdictOffset(next));
            report.log_progress();
            assert_eq!(readiness(), format!("restoring the index, {percent} % of the verdict log"));
        }
        // Restarted: the next range is not known yet, and an empty log has no percentage.
        report.restores(0);
        report.has_to_follow(VerdictOffset(400)..VerdictOffset(400));
        assert_eq!(readiness(), "restoring the index");
    }

    #[test]
    fn a_standby_is_ready_while_an_instance_judges_and_not_while_requests_wait_without_a_judge() {
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let health = Health::new(Duration::from_secs(1));
        let mut report = JudgeReport::new(metrics, &health, Clock::start(), LogPartition(0), Duration::from_secs(10));
        let readiness_at = |seconds, report: &mut JudgeReport, next_request| {
            report.look_for_predecessor(Duration::from_secs(seconds), RequestOffset(next_request));
            health.readiness().remove(0).1
        };
        assert_eq!(readiness_at(100, &mut report, 0), Ok(()), "nothing waits");
        report.watch.end_answered(Some(RequestOffset(7)));
        assert_eq!(readiness_at(101, &mut report, 7), Ok(()), "everything is judged");
        assert_eq!(readiness_at(102, &mut report, 5), Ok(()), "two requests came just now");
        let waits = |text: &str| Err(format!("waits to take over{text}: no instance judges"));
        assert_eq!(readiness_at(106, &mut report, 5), waits(" (at most 6 s)"));
        assert_eq!(readiness_at(120, &mut report, 5), waits(""));
        report.watch.heard(Duration::from_mins(2));
        assert_eq!(readiness_at(121, &mut report, 6), Ok(()), "a verdict came");
    }

    #[test]
    fn a_new_standby_is_ready_after_a_verdict_or_a_session() {
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let health = Health::new(Duration::from_secs(1));
        let mut report = JudgeReport::new(metrics, &health, Clock::start(), LogPartition(0), Duration::from_secs(10));
        let readiness_at = |seconds, report: &mut JudgeReport| {
            report.look_for_predecessor(Duration::from_secs(seconds), RequestOffset(0));
            health.readiness().remove(0).1
        };
        let unsure = |left| Err(format!("waits to take over, or for a verdict of another instance (at most {left} s)"));
        report.watch.stands_by(Duration::from_secs(100));
        assert_eq!(readiness_at(100, &mut report), unsure(11));
        assert_eq!(readiness_at(109, &mut report), unsure(2));
        assert_eq!(readiness_at(110, &mut report), Ok(()), "the session of a dead judge would have ended");
        report.watch.stands_by(Duration::from_secs(200));
        assert_eq!(readiness_at(201, &mut report), unsure(10));
        report.watch.heard(Duration::from_secs(202));
        assert_eq!(readiness_at(202, &mut report), Ok(()), "an instance judges");
    }
}
