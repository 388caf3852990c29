//! A replay: how far this run of it is.

use super::{LabelValue, Metrics, catalog, flag, float};
use crate::telemetry::labels::ReplayPhase;

/// How far one run of a replay is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReplayProgress {
    /// Records whose committed verdicts this run has read again.
    pub followed: u64,
    /// Records of the warm-up that this run has worked through.
    pub warmed_up: u64,
    /// Records of the range that this run has worked through.
    pub of_range: u64,
    /// Share of the replay that is done, 0 to 1: by all of its runs.
    pub share: f64,
    /// Records that are left; `None` where nobody has counted them.
    pub remaining: Option<u64>,
    /// Whether it waits for the service.
    pub is_yielding: bool,
}

impl Metrics {
    /// A replay is so far. The records of one run never become fewer.
    pub fn replay(&self, id: &str, at: &ReplayProgress) {
        let label = ("replay", id);
        for phase in ReplayPhase::ALL {
            let records = match phase {
                ReplayPhase::Follow => at.followed,
                ReplayPhase::WarmUp => at.warmed_up,
                ReplayPhase::Range => at.of_range,
            };
            let labels = &[label, (ReplayPhase::LABEL, phase.name())];
            self.counter(catalog::REPLAY_RECORDS.name, labels).absolute(records);
        }
        self.gauge(catalog::REPLAY_PROGRESS.name, &[label]).set(at.share);
        if let Some(remaining) = at.remaining {
            self.gauge(catalog::REPLAY_REMAINING.name, &[label]).set(float(remaining));
        }
        self.gauge(catalog::REPLAY_YIELDING.name, &[label]).set(flag(at.is_yielding));
    }
}
