//! Inputs (events) and outputs (effects) of the judge.

use std::sync::Arc;
use std::time::Duration;

use super::{InputOffsets, Restored};
use crate::protocol::{Answer, LogIdentity, Request, RequestOffset, Rules, VerdictOffset, VerdictRecord};
use crate::record::Timestamp;
use crate::transaction::{Call, CallError};

/// An event from the driver. Each call of [`super::Judge::handle`] takes one, with the current time.
#[derive(Debug)]
pub enum Event {
    /// Answers [`Effect::Restore`] with what the newest usable snapshot gave, or `None` if there is none.
    Restored(Option<Box<Restored>>),
    /// A committed record of the verdict log, in order.
    Followed {
        /// Its offset; that of its first part if it is in several.
        offset: VerdictOffset,
        /// The offset after its last part.
        next: VerdictOffset,
        /// The record.
        record: VerdictRecord,
    },
    /// Answers [`Effect::FollowToEnd`] or [`Effect::FollowToBarrier`]: every record that was asked for has been handed
    /// over. Ignored unless it answers the latest question.
    FollowedToEnd {
        /// The question's number.
        question: u64,
    },
    /// The verdict log begins after the offset that [`Effect::Follow`] asked for, ends before it, or cannot be read.
    LogMoved,
    /// The group assigned this partition of the fingerprint log to this judge.
    Assigned,
    /// The group revokes the partition and waits for [`Effect::RevokeDone`].
    Revoked,
    /// The partition was lost: the group may already have assigned it to another judge.
    Lost,
    /// One Kafka record of the fingerprint log, in order. Its first requests are judged at once.
    Requests {
        /// Its offset.
        offset: RequestOffset,
        /// When the broker appended it.
        append_time: Timestamp,
        /// The requests that it holds.
        requests: Vec<Request>,
    },
    /// The fingerprint log does not hold the offset that is to be read next, and every record before it was handed
    /// over. Expected while [`super::Judge::wants_requests`] returns true.
    RequestsOutOfRange {
        /// First offset that it holds.
        first: RequestOffset,
        /// The offset after its last record.
        end: RequestOffset,
    },
    /// Judge the next requests of the current record. Expected while [`super::Judge::is_unfinished`] returns true.
    Continue,
    /// Answers [`Effect::Call`]. A successful `Produce` gives the offset of each record (of its first part), or that of
    /// the barrier; other successful calls give none.
    Called(Result<Vec<VerdictOffset>, CallError>),
    /// Answers [`Effect::FetchInputCommitted`]. Ignored if the question was asked before the judge last became active.
    InputCommitted {
        /// The question's number.
        question: u64,
        /// The answer.
        input: InputOffsets,
    },
    /// Time passed.
    Tick,
    /// Commit what is judged and leave.
    Stop,
}

/// An effect that the judge asks its driver for. Where an [`Event`] answers it, the description says so.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Look for a snapshot. Answered by [`Event::Restored`].
    Restore,
    /// Hand over the verdict log from this offset on, or from its beginning if there is none. This cancels an earlier
    /// `Follow` and its unanswered [`Effect::FollowToEnd`].
    Follow {
        /// First offset wanted.
        from: Option<VerdictOffset>,
    },
    /// Report when everything that is committed now, as far as the brokers know, has been handed over. Answered by
    /// [`Event::FollowedToEnd`]. This cancels an earlier unanswered question.
    FollowToEnd {
        /// Unique number of the question.
        question: u64,
    },
    /// Report when this barrier has been read and everything before it has been handed over. The barrier was written
    /// after every other writer was fenced, so nothing is missing then, even if a broker that has lost touch with the
    /// others knows only an earlier end of the log; and every transaction that was open before the barrier has ended.
    /// Answered by [`Event::FollowedToEnd`]. This cancels an earlier unanswered question.
    FollowToBarrier {
        /// Unique number of the question.
        question: u64,
        /// Offset of the barrier.
        barrier: VerdictOffset,
    },
    /// Stop handing over the verdict log: from now on the judge writes it, or starts over.
    Unfollow,
    /// Join the group that assigns this partition of the fingerprint log.
    Join,
    /// Leave that group.
    Leave,
    /// Make this call to the transactional producer. Answered by [`Event::Called`].
    Call(ProducerCall),
    /// Hand over the fingerprint log from this offset on. Answered by [`Event::RequestsOutOfRange`] if the log does not
    /// hold it.
    ReadRequests {
        /// First offset wanted.
        from: RequestOffset,
    },
    /// Stop handing over the fingerprint log.
    StopReading,
    /// Ask for the partitions of the input and the input group's committed offsets. Answered by
    /// [`Event::InputCommitted`].
    FetchInputCommitted {
        /// Unique number of the question.
        question: u64,
    },
    /// Delete the records of both logs before these offsets. Not answered: a later trim makes up for one that fails.
    Trim {
        /// First offset of the verdict log to keep: that of a checkpoint.
        verdicts: VerdictOffset,
        /// First offset of the fingerprint log to keep.
        requests: RequestOffset,
    },
    /// Write the snapshot that [`super::Judge::take_snapshot`] returns to a file.
    Snapshot,
    /// The partition may go to its next owner. Ignored when it is not being revoked.
    RevokeDone,
    /// The judge has left the group. Everything judged is committed, unless the time to drain ran out.
    Stopped,
    /// Unrecoverable failure: end the process.
    Fail(Failure),
}

/// A call to the judge's producer, with what it carries.
#[derive(Clone, Debug, PartialEq)]
pub enum ProducerCall {
    /// Send these records to the verdict log.
    Produce(Arc<Vec<VerdictRecord>>),
    /// Send [`BARRIER`](crate::protocol::BARRIER) to the verdict log.
    ProduceBarrier,
    /// Commit the position in the fingerprint log.
    SendOffsets {
        /// Offset of the next request.
        next_request: RequestOffset,
        /// Offset of the latest checkpoint, for the metadata: where a worker begins to read.
        checkpoint: Option<VerdictOffset>,
    },
    /// A call that carries nothing.
    Plain(Call),
}

/// Why the judge gives up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The log holds a record that cannot be followed.
    #[error("the verdict log cannot be followed at offset {offset}: {why}")]
    Unreadable {
        /// Where.
        offset: VerdictOffset,
        /// What is wrong.
        why: String,
    },
    /// The log was cut off or replaced, and `index.cold_start: stop` forbids starting over.
    #[error(
        "the verdict log does not start with a checkpoint: verdicts were deleted (index.cold_start: proceed starts with an empty index)"
    )]
    VerdictsDeleted,
    /// Nothing is judged under this scheme yet, and [`super::ColdStart::StopOnNewScheme`] forbids a new log.
    #[error(
        "nothing is judged under this scheme yet, and the service has judged under another one (index.cold_start: proceed \
         starts with an empty index; `dupgate index warm` fills it)"
    )]
    NewScheme,
}

/// An operator's request to forget originals, to reopen a range or to set the stream time back, after the judge applied
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorOutcome {
    /// The answer in the verdict log: [`Answer::Forgotten`], [`Answer::Reopened`] or [`Answer::TimeSet`].
    pub answer: Answer,
    /// Number of originals that the index held before and does not hold any more.
    pub forgotten: u64,
}

/// Settings of a judge.
#[derive(Clone, Debug)]
pub struct JudgeSettings {
    /// The rules to judge by. Written to the log when they are not in force.
    pub rules: Rules,
    /// Identity of the new log, if one has to begin. Drawn by the edge.
    pub new_log: LogIdentity,
    /// What to do when the log does not begin with a checkpoint.
    pub cold_start: ColdStart,
    /// How long verdicts may gather before they are committed. It is shorter if the brokers commit quickly.
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
