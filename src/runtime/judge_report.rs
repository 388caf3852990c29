//! What a judge's seat tells metrics and health.

use std::time::Duration;

use super::clock::Clock;
use super::worker_report::kind_of;
use crate::index::Seen;
use crate::judge::{ColdStarts, Counts, Judge, Role};
use crate::telemetry::labels::{ColdStart, Component, Eviction, RestoreSource, Step};
use crate::telemetry::{Beat, Check, Health, IndexFigures, Metrics};
use crate::transaction::CallError;
use crate::worker::LogPartition;

pub(super) struct JudgeReport {
    metrics: Metrics,
    clock: Clock,
    beat: Beat,
    ready: Check,
    log: LogPartition,
    role: Role,
    /// Originals that the newest snapshot held.
    from_snapshot: usize,
    cold_starts: ColdStarts,
    counts: Counts,
}

impl JudgeReport {
    pub(super) fn new(metrics: Metrics, health: &Health, clock: Clock, log: LogPartition) -> Self {
        let name = format!("judge {log}");
        Self {
            metrics,
            clock,
            beat: health.beat(&name, clock.instant()),
            ready: health.check(&name, "restoring the index"),
            log,
            role: Role::Restoring,
            from_snapshot: 0,
            cold_starts: ColdStarts::default(),
            counts: Counts::default(),
        }
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(super) fn failed(&self, error: &CallError) {
        tracing::warn!(log = self.log, %error, "judge: transaction");
        self.metrics.error(Component::Producer, kind_of(error));
    }

    /// A restore begins with a snapshot of so many originals.
    pub(super) fn restores(&mut self, originals: usize) {
        self.from_snapshot = originals;
    }

    /// So many entries were looked up and judged.
    pub(super) fn judged(&self, entries: usize, looks: &[Seen], elapsed: Duration) {
        looks.iter().for_each(|seen| self.metrics.lookup(seen.compared, seen.nearest));
        if let Ok(count) = u32::try_from(entries)
            && count > 0
        {
            self.metrics.stage_durations(Step::Lookup, elapsed / count, entries);
        }
    }

    /// Called whenever the judge may have changed its role.
    pub(super) fn see(&mut self, judge: &Judge) {
        let role = judge.role();
        if role == self.role {
            return;
        }
        if self.role == Role::Restoring {
            let from_log = judge.state().index().len().saturating_sub(self.from_snapshot);
            self.metrics.restored(RestoreSource::Log, from_log as u64);
        }
        tracing::info!(log = self.log, before = ?self.role, now = ?role, "judge");
        if role == Role::Active {
            self.metrics.judge_takeover();
        }
        self.metrics.judge_active(u32::try_from(self.log).unwrap_or(u32::MAX), role == Role::Active);
        match role {
            Role::Restoring => self.ready.fail("restoring the index"),
            Role::Standby | Role::TakingOver | Role::Active | Role::Draining | Role::Stopped => self.ready.pass(),
        }
        self.role = role;
    }

    /// Called a few times a second.
    pub(super) fn look(&mut self, judge: &Judge, waiting_entries: usize) {
        self.see(judge);
        self.beat.tick(self.clock.instant());
        let state = judge.state();
        let index = state.index();
        let held = index.stats();
        self.metrics.index(
            u32::try_from(self.log).unwrap_or(u32::MAX),
            IndexFigures {
                is_ready: self.role != Role::Restoring,
                entries: held.originals,
                oldest: index.live(&state.tails()).next().map(|oldest| oldest.event_time),
                fingerprint_bytes: held.fingerprint_bytes() as u64,
                bucket_bytes: held.bucket_bytes() as u64,
                ref_bytes: (held.id_bytes + held.source_bytes) as u64,
                exact_bytes: held.exact_bytes as u64,
                largest_bucket: held.largest_bucket(),
                waiting: if self.role == Role::Active { waiting_entries as u64 } else { 0 },
            },
        );
        let seen = judge.cold_starts();
        for _ in self.cold_starts.new_log..seen.new_log {
            self.metrics.cold_start(ColdStart::NewScheme);
        }
        for _ in self.cold_starts.log_truncated..seen.log_truncated {
            self.metrics.cold_start(ColdStart::LogTruncated);
        }
        self.cold_starts = seen;
        self.count(judge.counts());
    }

    /// Totals begin anew when a judge restores its state; counters only grow.
    fn count(&mut self, now: Counts) {
        let before = std::mem::replace(&mut self.counts, now);
        let since = |count: fn(&Counts) -> u64| match (count(&now), count(&before)) {
            (now, before) if now >= before => now - before,
            (now, _) => now,
        };
        self.metrics.repeats(since(|counts| counts.repeats));
        self.metrics.late_records(since(|counts| counts.late));
        self.metrics.clamped_timestamps(since(|counts| counts.clamped));
        self.metrics.evicted(Eviction::Expired, since(|counts| counts.expired));
        self.metrics.evicted(Eviction::Capacity, since(|counts| counts.evicted));
        self.metrics.evicted(Eviction::Forgotten, since(|counts| counts.forgotten));
    }
}
