//! What a judge's seat tells metrics and health.

use std::fmt;
use std::time::Duration;

use super::clock::Clock;
use super::worker_report::kind_of;
use crate::index::Seen;
use crate::judge::{ColdStarts, Counts, Judge, Role};
use crate::telemetry::labels::{ColdStart, Component, Eviction, RestoreSource, Step};
use crate::telemetry::{Beat, Check, Health, IndexFigures, Metrics};
use crate::transaction::CallError;
use crate::worker::LogPartition;

/// How far a restore has come.
#[derive(Debug, Default)]
struct Progress {
    /// What is to be followed, once it is known.
    range: Option<(i64, i64)>,
    /// Behind the last record that was followed.
    next: i64,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("restoring the index")?;
        let Some((begin, end)) = self.range.filter(|(begin, end)| begin < end) else { return Ok(()) };
        let done = self.next.clamp(begin, end) - begin;
        write!(f, ", {} % of the verdict log", i128::from(done) * 100 / i128::from(end - begin))
    }
}

pub(super) struct JudgeReport {
    metrics: Metrics,
    clock: Clock,
    beat: Beat,
    ready: Check,
    log: LogPartition,
    role: Role,
    progress: Progress,
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
            progress: Progress::default(),
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
        self.progress = Progress::default();
    }

    /// The verdict log reaches from `begin` to `end`: so much is to be followed.
    pub(super) fn has_to_follow(&mut self, begin: i64, end: i64) {
        self.progress.range = Some((begin, end));
        self.say_progress();
    }

    /// The verdict log is followed up to `next`.
    pub(super) fn follows(&mut self, next: i64) {
        self.progress.next = self.progress.next.max(next);
    }

    fn say_progress(&self) {
        if self.role == Role::Restoring {
            self.ready.fail(self.progress.to_string());
        }
    }

    /// Pages were looked up and judged.
    pub(super) fn judged(&self, looks: &[Seen], elapsed: Duration) {
        looks.iter().for_each(|seen| self.metrics.lookup(seen.compared, seen.nearest));
        if let Ok(count) = u32::try_from(looks.len())
            && count > 0
        {
            self.metrics.stage_durations(Step::Lookup, elapsed / count, looks.len());
        }
    }

    /// Entries waited so long from when they were fetched to when the first of them was judged.
    pub(super) fn waited(&self, entries: usize, elapsed: Duration) {
        self.metrics.judge_wait(elapsed, entries);
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
            Role::Restoring => self.ready.fail(self.progress.to_string()),
            Role::Standby | Role::TakingOver | Role::Active | Role::Draining | Role::Stopped => self.ready.pass(),
        }
        self.role = role;
    }

    /// Called a few times a second.
    pub(super) fn look(&mut self, judge: &Judge, waiting_entries: usize) {
        self.see(judge);
        self.say_progress();
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
        if self.role != Role::Restoring {
            self.metrics.log_kept(u32::try_from(self.log).unwrap_or(u32::MAX), judge.kept());
        }
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
        self.metrics.full_keys(since(|counts| counts.full_keys));
        self.metrics.family_members(since(|counts| counts.family_members));
        self.metrics.evicted(Eviction::Expired, since(|counts| counts.expired));
        self.metrics.evicted(Eviction::Capacity, since(|counts| counts.evicted));
        self.metrics.evicted(Eviction::Forgotten, since(|counts| counts.forgotten));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings;

    #[test]
    fn readiness_tells_how_far_a_restore_has_come() {
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
        let health = Health::new(Duration::from_secs(1));
        let mut report = JudgeReport::new(metrics, &health, Clock::start(), 0);
        let said = || health.readiness().remove(0).1.unwrap_err();
        assert_eq!(said(), "restoring the index");
        report.has_to_follow(100, 300);
        assert_eq!(said(), "restoring the index, 0 % of the verdict log");
        for (next, percent) in [(180, 40), (299, 99), (90, 99), (300, 100), (400, 100)] {
            report.follows(next);
            report.say_progress();
            assert_eq!(said(), format!("restoring the index, {percent} % of the verdict log"));
        }
        // Begun anew: nothing is known of the next range yet, and an empty log has no share.
        report.restores(0);
        report.has_to_follow(400, 400);
        assert_eq!(said(), "restoring the index");
    }
}
