//! The events of a group member, and the commands of its owner.

use std::collections::BTreeSet;

use super::{ConsumedRecord, Membership};
use crate::kafka::budget::Permit;
use crate::record::{PartitionId, Timestamp};

/// Events of a group member.
#[derive(Debug)]
pub enum ConsumerEvent {
    /// Whether any broker answers; sent when this changes.
    Reaches(bool),
    /// A record of a partition with an open seek.
    Record {
        /// Its partition.
        partition: PartitionId,
        /// Its offset.
        offset: i64,
        /// The serial number of its seek.
        serial: u64,
        /// The record.
        record: ConsumedRecord,
        /// Reserves its bytes in the budget until this is dropped.
        permit: Permit,
    },
    /// Reading starts at this offset. This event precedes the first record that carries its serial number.
    Started {
        /// The partition.
        partition: PartitionId,
        /// The serial number of the seek.
        serial: u64,
        /// The first offset that may come.
        offset: i64,
    },
    /// The partition does not hold the next offset to read: no record follows until the next [`Command::Seek`].
    OutOfRange {
        /// The partition.
        partition: PartitionId,
        /// The serial number of its seek.
        serial: u64,
        /// The next offset to read.
        offset: i64,
        /// The first offset of the partition.
        first: i64,
        /// The end of the partition.
        end: i64,
    },
    /// We may not read the partition's topic, which is one of several: no record follows until the next [`Command::Seek`].
    Denied {
        /// The partition.
        partition: PartitionId,
        /// The serial number of its seek.
        serial: u64,
    },
    /// The partition holds nothing more for now.
    AtEnd {
        /// The partition.
        partition: PartitionId,
        /// The serial number of its seek.
        serial: u64,
        /// The offset after everything that was handed over, including transaction markers and aborted records.
        offset: i64,
    },
    /// The group assigned these partitions.
    Assigned(BTreeSet<PartitionId>),
    /// The group revokes these partitions and waits for [`Command::RevokeDone`].
    Revoked(BTreeSet<PartitionId>),
    /// The member has lost these partitions: the group may already have given them to others.
    Lost(BTreeSet<PartitionId>),
    /// The group membership for sending offsets from now on.
    Renewed(Membership),
    /// [`Command::Pause`] was carried out: no record of its partitions follows.
    Paused,
    /// The member has left the group and its thread has ended.
    Left,
    /// The consumer failed for good.
    Failed(String),
    /// Another process with the same instance id has taken this member's place in the group; the error that shows it.
    Fenced(String),
}

/// Where to start reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this offset.
    Offset(i64),
    /// At the oldest record.
    Earliest,
    /// After the newest record.
    Latest,
    /// At the first record with this timestamp or a later one; after the newest if there is none.
    At(Timestamp),
}

/// Commands of the owner to its member.
#[derive(Debug)]
pub enum Command {
    /// Hand over records of an assigned partition from here on. Its events carry the serial number.
    Seek(PartitionId, Start, u64),
    /// Hand over no records of this partition until the next [`Command::Seek`].
    Close(PartitionId),
    /// Pause these partitions until they are resumed.
    Pause(BTreeSet<PartitionId>),
    /// Resume these partitions.
    Resume(BTreeSet<PartitionId>),
    /// The last revocation may complete.
    RevokeDone,
    /// Leave the group and rejoin, so that it reassigns the partitions.
    Rejoin,
    /// Leave the group and end the thread.
    Leave,
}
