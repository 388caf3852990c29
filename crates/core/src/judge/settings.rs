//! Settings of the judge.

use std::time::Duration;

use crate::protocol::{LogIdentity, Rules};

/// Settings of a judge.
#[derive(Clone, Debug)]
pub struct JudgeSettings {
    /// The rules to judge by. Written to the log when they are not in force.
    pub rules: Rules,
    /// Identity of the new log, if one has to begin. Drawn by the edge.
    pub new_log: LogIdentity,
    /// What to do when the log does not begin with a checkpoint.
    pub cold_start: ColdStart,
    /// How long verdicts may gather before they are committed.
    pub commit_interval: Duration,
    /// Verdicts after which a checkpoint is written.
    pub checkpoint_interval_records: u64,
    /// How long verdicts stay readable, in event time, at least window + lateness.
    pub keep: Duration,
    /// Verdicts after which a record of the verdict log is closed. It may hold more, because it ends where a record of
    /// requests ends.
    pub batch_verdicts: usize,
    /// Verdicts that may wait for their commit, at most: at what brokers commit at once, no more requests are read.
    pub pending_verdicts: usize,
    /// When the coordinator ends a transaction. No more requests are read while a verdict waits for a fifth of it.
    pub transaction_timeout: Duration,
    /// The most requests that are judged for one event.
    pub step_requests: usize,
    /// Time between snapshots. If absent, only those that an operator requests are taken.
    pub snapshot_interval: Option<Duration>,
    /// How long the judge may take to commit what is judged when its partition is revoked.
    pub revoke_grace: Duration,
}

/// What to do when verdicts needed for the index are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColdStart {
    /// Begin at the first checkpoint there is, or with an empty log: duplicates of older pages are missed.
    Proceed,
    /// Stop with [`super::Failure::VerdictsDeleted`]. Where no log is, a new one begins.
    Stop,
    /// As [`ColdStart::Stop`]; where no log is, stop with [`super::Failure::NewScheme`]. For a service that has judged
    /// under another scheme.
    StopOnNewScheme,
}

/// How often a judge began without the verdicts of a full window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ColdStarts {
    /// It began a new verdict log.
    pub new_log: u64,
    /// It found a log that does not begin with a checkpoint.
    pub log_truncated: u64,
}
