//! Parts of the partitions that a replay reads, and how far it is in them.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::protocol::VerdictOffset;
use crate::record::PartitionId;

/// The offsets of one input partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRange {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// First offset of the warm-up; `from` when there is none.
    pub warm_from: i64,
    /// First offset of the range.
    pub from: i64,
    /// After the last offset of the range.
    pub to: i64,
}

impl InputRange {
    /// Returns the partition.
    #[must_use]
    pub fn id(&self) -> PartitionId {
        PartitionId::new(self.topic.as_str(), self.partition)
    }

    /// Returns the offsets whose pages are judged and produced.
    #[must_use]
    pub const fn range(&self) -> Range<i64> {
        self.from..self.to
    }

    /// Returns the offsets before the range whose pages are judged and not produced.
    #[must_use]
    pub const fn warm_up(&self) -> Range<i64> {
        self.warm_from..self.from
    }
}

/// The part of one partition of the live verdict log that gives the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRange {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// First offset.
    pub first: VerdictOffset,
    /// After the last offset.
    pub end: VerdictOffset,
}

impl LogRange {
    /// Returns the partition.
    #[must_use]
    pub fn id(&self) -> PartitionId {
        PartitionId::new(self.topic.as_str(), self.partition)
    }
}

/// How far a replay is in a partition of the input, or of the live verdict log, as it is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Everything before this offset was judged and delivered.
    pub offset: i64,
    /// Everything before this offset was read. In a verdict log, whose records hold many verdicts: this is beyond `offset`
    /// by the number of verdicts of the next record that are done, too.
    pub read_to: i64,
}

impl Mark {
    /// Marks a place before which everything that was read has been delivered, too.
    #[must_use]
    pub const fn at(offset: i64) -> Self {
        Self { offset, read_to: offset }
    }
}

/// How far a replay is in each partition.
pub type Marks = BTreeMap<PartitionId, Mark>;
