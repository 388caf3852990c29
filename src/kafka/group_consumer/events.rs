//! What a member reports, and what its owner wants of it.

use std::collections::BTreeSet;

use super::{ConsumedRecord, Membership};
use crate::kafka::budget::Permit;
use crate::record::{PartitionId, Timestamp};

/// What a member reports.
#[derive(Debug)]
pub enum ConsumerEvent {
    /// Whether any broker answers, when that changes.
    Reaches(bool),
    /// A record of a partition that was sought.
    Record {
        /// Its partition.
        partition: PartitionId,
        /// Its offset.
        offset: i64,
        /// The serial number of the seek that it follows.
        serial: u64,
        /// The record.
        record: ConsumedRecord,
        /// Counts it until it is taken in.
        permit: Permit,
    },
    /// Reading begins here. Comes before the first record that carries this serial number.
    Started {
        /// Which partition.
        partition: PartitionId,
        /// The serial number of the seek.
        serial: u64,
        /// The first offset that may come.
        offset: i64,
    },
    /// The partition does not hold the offset that comes next: nothing comes until it is sought again.
    OutOfRange {
        /// Which partition.
        partition: PartitionId,
        /// The serial number of the seek that it follows.
        serial: u64,
        /// The offset that comes next.
        offset: i64,
        /// First offset that it holds.
        first: i64,
        /// After the last one.
        end: i64,
    },
    /// The partition holds nothing more for now.
    AtEnd {
        /// Which.
        partition: PartitionId,
        /// The serial number of the seek that it follows.
        serial: u64,
        /// Behind everything that was handed over, markers of transactions and aborted records included.
        offset: i64,
    },
    /// The group gave these to us.
    Assigned(BTreeSet<PartitionId>),
    /// The group takes these away and waits for [`Command::RevokeDone`].
    Revoked(BTreeSet<PartitionId>),
    /// The group took these away some time ago.
    Lost(BTreeSet<PartitionId>),
    /// The place in the group that offsets are sent under from now on.
    Renewed(Membership),
    /// [`Command::Pause`] was carried out: of its partitions no record comes after this.
    Paused,
    /// The group is left and the thread at its end.
    Left,
    /// The consumer is beyond repair.
    Failed(String),
    /// Another process of the same name has taken its place in the group, and why it is known.
    Fenced(String),
}

/// Where to begin reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this offset.
    Offset(i64),
    /// At this offset, or at the oldest record if that is later.
    NotBefore(i64),
    /// At the oldest record.
    Earliest,
    /// After the newest record.
    Latest,
    /// At the first record with this timestamp or a later one; after the newest when there is none.
    At(Timestamp),
}

/// What the owner wants of its member.
#[derive(Debug)]
pub enum Command {
    /// Hand over records of an assigned partition from here on. What follows carries the serial number.
    Seek(PartitionId, Start, u64),
    /// Hand over nothing of this partition until it is sought again.
    Close(PartitionId),
    /// Hand over nothing of these until they are resumed.
    Pause(BTreeSet<PartitionId>),
    /// Continue with these.
    Resume(BTreeSet<PartitionId>),
    /// What was revoked last may go.
    RevokeDone,
    /// Leave the group and join it again, so that it divides the partitions again.
    Rejoin,
    /// Leave the group and end the thread.
    Leave,
}
