//! What a group consumer and its owner hand each other: events with records one way, commands the other.

use std::collections::BTreeSet;
use std::sync::Arc;

use dupgate_core::worker::Header;
use rdkafka::Timestamp as KafkaTimestamp;
use rdkafka::message::{BorrowedMessage, Headers, Message};

use super::Membership;
use crate::kafka::budget::Permit;
use crate::process::shielded;
use crate::record::{PartitionId, Rejection, Timestamp};

/// Events of a group member.
#[derive(Debug)]
pub enum ConsumerEvent {
    /// Whether any broker answers; sent when this changes.
    Reaches(bool),
    /// A record of a partition with an open seek.
    Record {
        partition: PartitionId,
        offset: i64,
        /// The serial number of its seek.
        serial: u64,
        record: ConsumedRecord,
        /// Reserves its bytes in the budget until this is dropped.
        permit: Permit,
    },
    /// Reading starts at this offset. This event precedes the first record that carries its serial number.
    Started {
        partition: PartitionId,
        /// The serial number of the seek.
        serial: u64,
        /// The first offset that may come.
        offset: i64,
    },
    /// The partition does not hold the next offset to read: no record follows until the next [`Command::Seek`].
    OutOfRange {
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
        partition: PartitionId,
        /// The serial number of its seek.
        serial: u64,
    },
    /// The partition holds nothing more for now.
    AtEnd {
        partition: PartitionId,
        /// The serial number of its seek.
        serial: u64,
        /// The offset after everything that was handed over, including transaction markers and aborted records.
        offset: i64,
    },
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
    Resume(BTreeSet<PartitionId>),
    /// The last revocation may complete.
    RevokeDone,
    /// Leave the group and rejoin, so that it reassigns the partitions.
    Rejoin,
    /// Leave the group and end the thread.
    Leave,
}

/// One record as it was consumed, with everything that must be produced unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumedRecord {
    /// Key bytes; absent is not the same as empty.
    pub key: Option<Box<[u8]>>,
    /// Value bytes; absent means a tombstone.
    pub value: Option<Box<[u8]>>,
    /// All headers, in order, including repeated names.
    pub headers: Vec<Header>,
    /// Whether the headers could not be read, because a name is not UTF-8: the record cannot be passed on unchanged.
    pub headers_unreadable: bool,
    /// The record's timestamp, if it has one.
    pub timestamp: Option<Timestamp>,
    /// Present if the value is only the beginning of one that is too long: a line of a file. Kafka delivers whole values.
    pub cut: Option<CutValue>,
}

/// A value of which only the beginning was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutValue {
    /// The length of the whole value in bytes.
    pub bytes: u64,
    /// Why the record cannot be read.
    pub rejection: Rejection,
}

impl ConsumedRecord {
    /// Returns the size of the record in bytes: key, value, headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(Header::bytes).sum::<usize>();
        self.key.as_ref().map_or(0, |key| key.len()) + self.value.as_ref().map_or(0, |value| value.len()) + headers
    }
}

/// The name of the last topic seen, shared by its records.
#[derive(Default)]
pub(super) struct TopicName(Option<Arc<str>>);

impl TopicName {
    pub(super) fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.as_ref().filter(|known| ***known == *name) {
            return Arc::clone(known);
        }
        let fresh: Arc<str> = Arc::from(name);
        self.0 = Some(Arc::clone(&fresh));
        fresh
    }
}

pub(in crate::kafka) fn detach(message: &BorrowedMessage<'_>) -> ConsumedRecord {
    let headers = match message.headers() {
        None => Some(Vec::new()),
        // The client library panics on a name that is not UTF-8, and a producer may send one.
        Some(headers) => shielded(|| {
            headers
                .iter()
                .map(|header| Header { name: header.key.to_owned(), value: header.value.map(<[u8]>::to_vec) })
                .collect()
        }),
    };
    let timestamp = match message.timestamp() {
        KafkaTimestamp::NotAvailable => None,
        KafkaTimestamp::CreateTime(millis) | KafkaTimestamp::LogAppendTime(millis) => {
            Some(Timestamp::from_millis(millis))
        }
    };
    ConsumedRecord {
        key: message.key().map(Box::from),
        value: message.payload().map(Box::from),
        headers_unreadable: headers.is_none(),
        headers: headers.unwrap_or_default(),
        timestamp,
        cut: None,
    }
}
