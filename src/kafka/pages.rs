//! Fetches single pages by their position.

use std::collections::BTreeMap;
use std::time::Duration;

use crossbeam_channel::{after, tick};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers as _, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::client::LoggingContext;
use crate::record::{Headers, RawRecord, Source};

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(20);

/// How often the brokers are asked whether what has not arrived exists.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time-out of that question.
const RANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// The bytes of one record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageBytes {
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers with their values, in order.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl PageBytes {
    /// Returns the record in the form that the pure modules read.
    #[must_use]
    pub fn record(&self) -> RawRecord<'_> {
        let headers: &dyn Headers = &self.headers;
        RawRecord { key: self.key.as_deref(), value: self.value.as_deref(), headers }
    }
}

/// A reader of single records.
pub struct Pages {
    consumer: BaseConsumer<LoggingContext>,
    timeout: Duration,
}

impl Pages {
    /// Creates the client. The settings must be those of a reader that commits nothing
    /// ([`super::client::ConnectionSettings::follower`]); each fetch waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn open(config: &ClientConfig, timeout: Duration) -> Result<Self, KafkaError> {
        Ok(Self { consumer: config.create_with_context(LoggingContext(()))?, timeout })
    }

    /// Fetches these records. Those that are gone or do not arrive in time are missing from the result; a record
    /// before the start or after the end of its partition is not waited for.
    ///
    /// # Errors
    ///
    /// The client rejects the positions.
    pub fn fetch(&self, sources: &[&Source]) -> Result<BTreeMap<Source, PageBytes>, KafkaError> {
        let mut found = BTreeMap::new();
        let mut wanted: Vec<&Source> = sources.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        while !wanted.is_empty() {
            // Fetch one position of each partition at a time.
            let mut now: Vec<&Source> = Vec::new();
            wanted.retain(|source| {
                let taken = now.iter().any(|other| other.partition == source.partition);
                if !taken {
                    now.push(source);
                }
                taken
            });
            self.fetch_each(now, &mut found)?;
        }
        Ok(found)
    }

    fn fetch_each(&self, mut open: Vec<&Source>, found: &mut BTreeMap<Source, PageBytes>) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::new();
        for source in &open {
            list.add_partition_offset(&source.partition.topic, source.partition.number, Offset::Offset(source.offset))?;
        }
        self.consumer.assign(&list)?;
        let (late, recheck) = (after(self.timeout), tick(RECHECK_INTERVAL));
        while !open.is_empty() && late.try_recv().is_err() {
            let message = match self.consumer.poll(POLL) {
                Some(Ok(message)) => message,
                Some(Err(error)) => {
                    open.retain(|source| !may_concern(&error, source) || self.may_exist(source));
                    continue;
                }
                None => {
                    // The client reports an end once, and the broker may not have answered about it then.
                    if recheck.try_recv().is_ok() {
                        open.retain(|source| self.may_exist(source));
                    }
                    continue;
                }
            };
            let here = |source: &&Source| {
                *source.partition.topic == *message.topic() && source.partition.number == message.partition()
            };
            let Some(at) = open.iter().position(here) else { continue };
            let source = open.swap_remove(at);
            if source.offset == message.offset() {
                let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
                let headers =
                    headers.filter_map(|header| Some((header.key.to_owned(), header.value?.to_vec()))).collect();
                let (key, value) = (message.key().map(<[u8]>::to_vec), message.payload().map(<[u8]>::to_vec));
                found.insert(source.clone(), PageBytes { key, value, headers });
            }
        }
        self.consumer.unassign()
    }

    /// Returns whether a position is between the start and the end of its partition, as far as the broker tells.
    fn may_exist(&self, source: &Source) -> bool {
        let partition = &source.partition;
        let range = self.consumer.fetch_watermarks(&partition.topic, partition.number, self.timeout.min(RANGE_TIMEOUT));
        range.map_or(true, |(start, end)| (start..end).contains(&source.offset))
    }
}

/// Returns whether an error may be about this position: that it is out of range, or at the end of its partition. The
/// error names no topic.
fn may_concern(error: &KafkaError, source: &Source) -> bool {
    *error == KafkaError::PartitionEOF(source.partition.number)
        || *error == KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset)
}
