//! Metrics of a running replay.

use std::collections::BTreeMap;
use std::sync::Arc;

use dupgate_core::replay::{Counts, FilePlace, Plan};

use crate::telemetry::{Metrics, ReplayProgress};

/// Counts the work of this run: a resumed replay has totals of earlier runs.
#[derive(Debug)]
pub(super) struct Meter {
    followed: u64,
    /// Records and bytes by topic, since the metrics were set.
    consumed: BTreeMap<Arc<str>, (u64, u64)>,
    warmed_up_before: u64,
    of_range_before: u64,
}

impl Meter {
    /// Starts at the totals of the earlier runs.
    pub(super) fn start(counts: &Counts) -> Self {
        Self {
            followed: 0,
            consumed: BTreeMap::new(),
            warmed_up_before: counts.warm_up,
            of_range_before: counts.pages + counts.gone,
        }
    }

    /// Counts records whose committed verdicts were read again.
    pub(super) const fn follow(&mut self, records: usize) {
        self.followed += records as u64;
    }

    /// Counts a record of a topic.
    pub(super) fn consume(&mut self, topic: &Arc<str>, bytes: usize) {
        if let Some((records, total)) = self.consumed.get_mut(topic) {
            *records += 1;
            *total += bytes as u64;
        } else {
            self.consumed.insert(Arc::clone(topic), (1, bytes as u64));
        }
    }

    /// Sets the progress of a replay, and whether it waits for the service.
    pub(super) fn show(
        &mut self,
        metrics: &Metrics,
        plan: &Plan,
        counts: &Counts,
        place: Option<&FilePlace>,
        is_yielding: bool,
    ) {
        self.show_consumed(metrics, plan);
        let progress = self.progress(counts, plan.done(counts, place), plan.is_of_files());
        metrics.replay(&plan.id, &ReplayProgress { is_yielding, ..progress });
    }

    /// Sets that everything is committed.
    pub(super) fn show_end(&mut self, metrics: &Metrics, plan: &Plan, counts: &Counts) {
        self.show_consumed(metrics, plan);
        let progress = self.progress(counts, (1, 1), plan.is_of_files());
        metrics.replay(&plan.id, &ReplayProgress { share: 1.0, ..progress });
    }

    fn show_consumed(&mut self, metrics: &Metrics, plan: &Plan) {
        for (topic, (records, bytes)) in std::mem::take(&mut self.consumed) {
            // There may be thousands of files, and each name would become a series.
            metrics.consumed(if plan.is_of_files() { "files" } else { &topic }, records, bytes);
        }
    }

    /// Returns the displayed progress of a replay: done and total, in records or in bytes of files.
    fn progress(&self, counts: &Counts, (done, total): (u64, u64), is_of_files: bool) -> ReplayProgress {
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = done as f64 / total.max(1) as f64;
        ReplayProgress {
            followed: self.followed,
            warmed_up: counts.warm_up.saturating_sub(self.warmed_up_before),
            of_range: (counts.pages + counts.gone).saturating_sub(self.of_range_before),
            // It is not done before its end is committed.
            share: share.min(1.0_f64.next_down()),
            remaining: (!is_of_files).then(|| total.saturating_sub(done)),
            is_yielding: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_counts_its_own_records_and_the_share_is_that_of_all_runs() {
        let before = Counts { pages: 30, warm_up: 10, gone: 1, ..Counts::default() };
        let mut meter = Meter::start(&before);
        meter.follow(40);
        let now = Counts { pages: 45, warm_up: 12, gone: 2, ..Counts::default() };
        let shown = meter.progress(&now, (59, 100), false);
        assert_eq!((shown.followed, shown.warmed_up, shown.of_range), (40, 2, 16));
        assert!((shown.share - 0.59).abs() < 1e-9, "{shown:?}");
        assert_eq!(shown.remaining, Some(41));
    }

    #[test]
    fn a_replay_is_not_done_before_its_end_is_committed() {
        let meter = Meter::start(&Counts::default());
        for (done, total) in [(100, 100), (130, 100), (0, 0)] {
            let shown = meter.progress(&Counts::default(), (done, total), false);
            assert!(shown.share < 1.0 && shown.remaining == Some(0), "{done} of {total}: {shown:?}");
        }
        assert_eq!(meter.progress(&Counts::default(), (5, 10), true).remaining, None, "files are measured in bytes");
    }
}
