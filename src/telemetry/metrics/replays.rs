//! Metrics of a replay: the progress of this run.

use super::{LabelValue, Metrics, catalog, flag, float};
use crate::telemetry::labels::ReplayPhase;

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
