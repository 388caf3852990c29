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
    /// How far event time has come: the largest that was judged, except those that are further ahead without proof.
    pub stream_time: Timestamp,
    /// The pages that are further ahead than the stream time may step, if there are any.
    pub leap: Option<Leap>,
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

/// Pages that are so far ahead of the stream time that it does not follow them before they prove that time has moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leap {
    /// The smallest of their event times.
    pub from: Timestamp,
    /// Number of these pages, less one for each page since then that is not ahead. At least 1.
    pub pages: u64,
}

impl Leap {
    /// Returns what is left of it after a page that is not ahead.
    #[must_use]
    pub fn refuted(self) -> Option<Self> {
        let pages = self.pages.checked_sub(1).filter(|pages| *pages > 0)?;
        Some(Self { pages, ..self })
    }
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
