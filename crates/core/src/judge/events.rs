//! Inputs (events) and outputs (effects) of the judge.

use std::sync::Arc;

use crate::protocol::{Request, RequestOffset, VerdictOffset, VerdictRecord};
use crate::record::Timestamp;
use crate::transaction::{Call, CallError};

use super::{InputOffsets, Restored};

/// An event from the driver. Each call of [`super::Judge::handle`] takes one, with the current time.
#[derive(Debug)]
pub enum Event {
    /// Answers [`Effect::Restore`]: what the newest usable snapshot gave, if there is one.
    Restored(Option<Box<Restored>>),
    /// A committed record of the verdict log, in order.
    Followed {
        /// Its offset (of its first part, when it is in several).
        offset: VerdictOffset,
        /// The offset after its last part.
        next: VerdictOffset,
        /// The record.
        record: VerdictRecord,
    },
    /// Answers [`Effect::FollowToEnd`] or [`Effect::FollowToBarrier`]: every record that was asked for has been handed
    /// over. An answer to an earlier question than the last one means nothing.
    FollowedToEnd {
        /// The question's number.
        question: u64,
    },
    /// The verdict log does not reach back to where [`Effect::Follow`] asked, or ends before it, or cannot be read.
    LogMoved,
    /// The group gave this partition of the fingerprint log to us.
    Assigned,
    /// The group takes it away; the group waits until [`Effect::RevokeDone`].
    Revoked,
    /// The group took it away some time ago.
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
    /// Judge some more of the record at hand: while [`super::Judge::is_unfinished`] says so.
    Continue,
    /// Answers [`Effect::Call`]. A successful `Produce` gives the offset of each record handed over (of its first
    /// part), or of the barrier; every other success gives none.
    Called(Result<Vec<VerdictOffset>, CallError>),
    /// Answers [`Effect::FetchInputCommitted`]. An answer to a question from before it last became active means nothing.
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

/// An effect that the judge asks for. Answered by an [`Event`] where the text says so.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Look for a snapshot. Answered by [`Event::Restored`].
    Restore,
    /// Hand over the verdict log from this offset on, from its beginning when there is none. What an earlier one has
    /// not handed over yet, and its unanswered [`Effect::FollowToEnd`], are forgotten.
    Follow {
        /// First offset wanted.
        from: Option<VerdictOffset>,
    },
    /// Say when all that is committed now, as far as brokers know, was handed over. Answered by
    /// [`Event::FollowedToEnd`]; an earlier one that is not answered yet is forgotten.
    FollowToEnd {
        /// Number of the question: no two have the same.
        question: u64,
    },
    /// Say when this barrier was read, and all before it was handed over. It was written after every other writer was
    /// fenced, so nothing is missing then, whatever a broker that has lost touch with the others takes for the end of
    /// the log; and a transaction that is open before it has ended. Answered by [`Event::FollowedToEnd`]; an earlier
    /// question that is not answered yet is forgotten.
    FollowToBarrier {
        /// Number of the question: no two have the same.
        question: u64,
        /// Offset of the barrier.
        barrier: VerdictOffset,
    },
    /// Hand over nothing of the verdict log any more: from now on we write it, or start over.
    Unfollow,
    /// Join the group of this partition of the fingerprint log.
    Join,
    /// Leave it.
    Leave,
    /// Make this call to the transactional producer. Answered by [`Event::Called`].
    Call(ProducerCall),
    /// Hand over the fingerprint log from this offset on, or from its beginning if that is later.
    ReadRequests {
        /// First offset wanted.
        from: RequestOffset,
    },
    /// Stop handing it over.
    StopReading,
    /// Ask for the partitions of the input and the input group's committed offsets. Answered by
    /// [`Event::InputCommitted`].
    FetchInputCommitted {
        /// Number of the question: no two have the same.
        question: u64,
    },
    /// Delete the records of both logs before these offsets. Not answered: it is asked again later.
    Trim {
        /// First offset of the verdict log to keep: that of a checkpoint.
        verdicts: VerdictOffset,
        /// First offset of the fingerprint log to keep.
        requests: RequestOffset,
    },
    /// Write [`super::Judge::take_snapshot`] to a file.
    Snapshot,
    /// The partition may go to its next owner. Means nothing when none is being revoked.
    RevokeDone,
    /// Everything is committed and the group is left.
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
    /// Commit the place in the fingerprint log.
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
    /// The log was cut off or replaced, and `index.cold_start: stop` forbids to start over.
    #[error(
        "the verdict log does not start with a checkpoint: verdicts were deleted (index.cold_start: proceed starts with an empty index)"
    )]
    VerdictsDeleted,
}
