//! A record, detached from the client that read it.

use std::sync::Arc;

use dupgate_core::worker::Header;
use rdkafka::Timestamp as KafkaTimestamp;
use rdkafka::message::{BorrowedMessage, Headers, Message};

use crate::panics::shielded;
use crate::record::{Rejection, Timestamp};

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
