//! Checkpoints: the state, except the originals, written into the verdict log.

use std::collections::BTreeMap;

use super::{
    Delivered, ExpiryWatermarks, Judged, LogIdentity, RequestId, RequestOffset, Rules, RulesNumber, VerdictOffset,
};
use crate::record::{PartitionId, Timestamp};

/// The state at this place in the log, except the originals. A reader that begins here and follows on holds every
/// original that is still alive, because the log is trimmed only to a checkpoint before the oldest of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The log this was written to.
    pub log: LogIdentity,
    /// Number of the rules in force.
    pub rules_number: RulesNumber,
    /// The rules in force.
    pub rules: Rules,
    /// Largest event time judged.
    pub stream_time: Timestamp,
    /// Which originals are expired or evicted.
    pub watermarks: ExpiryWatermarks,
    /// Sequence number of the next original.
    pub next_sequence: u64,
    /// Offset of the next request to judge.
    pub next_request: RequestOffset,
    /// Offset of the previous checkpoint, if there is one.
    pub previous: Option<VerdictOffset>,
    /// What was judged, by input partition.
    pub partitions: BTreeMap<PartitionId, PartitionCheckpoint>,
    /// The latest requests other than pages that were applied, oldest first.
    pub applied: Vec<RequestId>,
}

/// What a checkpoint says about one input partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionCheckpoint {
    /// The judged positions, before the new low watermark applies.
    pub judged: Judged,
    /// From this checkpoint on, every offset below counts as judged. Never above the input group's committed offset.
    pub low_watermark: i64,
    /// The positions that the input group was seen to have committed since they were judged, and since the whole
    /// partition was last reopened: what may be reopened.
    pub delivered: Delivered,
}
