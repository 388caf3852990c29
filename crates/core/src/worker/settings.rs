//! Settings of the worker.

use std::time::Duration;

use super::pacing::Pacing;
use crate::fingerprint::PerMille;
use crate::transaction::Delivery;

/// Settings of a worker.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Partitions of the two logs.
    pub logs: usize,
    /// First request id; the following ones count up from it. Drawn by the edge, so that no two workers, and no two
    /// runs of one, share an id.
    pub first_request: u64,
    /// Verdicts remembered, of all logs together; older ones are read back when they are needed.
    pub remembered_verdicts: usize,
    /// Offsets that reading back keeps verdicts for, of all logs and partitions together.
    pub scanned_positions: i64,
    /// Bytes of pages that may wait for their verdict and their transaction.
    pub in_flight_bytes: usize,
    /// Most pages in one transaction.
    pub transaction_pages: usize,
    /// When the coordinator ends a transaction.
    pub transaction_timeout: Duration,
    /// Time between the beginnings of two transactions.
    pub commit_interval: Duration,
    /// How long a revoked partition may take to commit what is complete.
    pub revoke_grace: Duration,
    /// How long pages may still be answered and delivered after [`super::Event::Stop`].
    pub shutdown_grace: Duration,
    /// When a partition waits for another one.
    pub pacing: Pacing,
    /// Share of dead letters among the last 1000 records above which everything is paused; one never pauses.
    pub pause_above_dead_letters: PerMille,
    /// Exactly once, or at least once.
    pub delivery: Delivery,
}

impl WorkerSettings {
    /// Returns how many verdicts of each log are remembered.
    pub(super) fn remembered_of_each_log(&self) -> usize {
        self.remembered_verdicts.checked_div(self.logs).unwrap_or(0).max(1)
    }

    /// Returns for how many offsets verdicts of each log are kept that were read back.
    pub(super) fn scanned_of_each_log(&self) -> i64 {
        self.scanned_positions.checked_div(i64::try_from(self.logs).unwrap_or(i64::MAX)).unwrap_or(0).max(1)
    }
}
