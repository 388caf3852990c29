//! Parts of the partitions that a replay reads.

use serde::{Deserialize, Serialize};

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
}

/// The part of one partition of the live verdict log that gives the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRange {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// First offset.
    pub first: i64,
    /// After the last offset.
    pub end: i64,
}
