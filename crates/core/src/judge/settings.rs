//! Settings of the judge.

use std::time::Duration;

use crate::protocol::{LogIdentity, Rules};

/// Settings of a judge.
#[derive(Clone, Debug)]
pub struct JudgeSettings {
    /// The rules to judge by. Written to the log when they are not in force.
    pub rules: Rules,
    /// Identity to give to a log that has to be begun. Drawn by the edge.
    pub new_log: LogIdentity,
    /// What to do when the log does not begin with a checkpoint.
    pub cold_start: ColdStart,
    /// How long verdicts may gather before they are committed.
    pub commit_interval: Duration,
    /// Verdicts after which a checkpoint is written.
    pub checkpoint_interval_records: u64,
    /// How long verdicts stay readable, in event time, at least window + lateness.
    pub keep: Duration,
    /// Most verdicts in one record of the verdict log, give or take one record of requests.
    pub batch_verdicts: usize,
    /// Verdicts that may wait for their commit; at this number no more requests are read.
    pub pending_verdicts: usize,
    /// How old a verdict may be that no transaction carries yet; from then on no more requests are read. Well below the
    /// time-out of a transaction.
    pub pending_time: Duration,
    /// Most requests that are judged for one event.
    pub step_requests: usize,
    /// Time between snapshots; none are taken when absent.
    pub snapshot_interval: Option<Duration>,
    /// How long a revoked partition may take to commit what is judged.
    pub revoke_grace: Duration,
}

/// What to do when verdicts needed for the index are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColdStart {
    /// Begin at the first checkpoint there is, or with an empty log: duplicates of older pages are missed.
    Proceed,
    /// Stop with [`super::Failure::VerdictsDeleted`].
    Stop,
}

/// How often a judge began without the verdicts of one window back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ColdStarts {
    /// It began a new verdict log.
    pub new_log: u64,
    /// It found a log that does not begin with a checkpoint.
    pub log_truncated: u64,
}
