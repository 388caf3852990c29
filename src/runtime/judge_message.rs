//! Messages to the thread of a judge.

use std::ops::Range;

use crate::judge::{InputOffsets, Judge};
use crate::kafka::group_consumer::ConsumerEvent;
use crate::kafka::producer::Answer;
use crate::kafka::verdict_log::FollowEvent;
use crate::protocol::{RequestOffset, VerdictOffset};

/// A query that runs on the judge's thread, between two events.
pub(super) type Question = Box<dyn FnOnce(&Judge) + Send>;

/// Messages of the driver.
pub(super) enum Message {
    /// An event of the fingerprint log's group, with the number of the membership.
    GroupConsumer(u64, ConsumerEvent),
    Followed(FollowEvent),
    Called(Answer),
    /// The committed offsets of the input, with the number of the question that they answer.
    InputCommitted(u64, InputOffsets),
    /// The range of the verdict log to follow, for the follow command with this serial number.
    LogRange(u64, Range<VerdictOffset>),
    /// The end of the fingerprint log; `None` if the query failed.
    RequestsEnd(Option<RequestOffset>),
    /// The brokers have deleted the beginning of both logs.
    Trimmed,
    Asked(Question),
    SnapshotWanted,
    Stop,
}
