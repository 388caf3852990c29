//! What the demo needs of Kafka: a broker inside this process, and a reader of the output topics.
//!
//! The broker is the mock cluster of the client library. It demonstrates judging, not delivery: its transactions end
//! without effect, it stores no offsets that come with them, and it keeps about 5 MB of each partition.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::client::LoggingContext;
use super::errors::is_passing;
use crate::record::PartitionId;

/// Time-out for the list of partitions.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The broker, which stops when this value is dropped.
pub struct InProcessBroker {
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl InProcessBroker {
    /// Starts a broker on a free port of the loopback interface.
    ///
    /// # Errors
    ///
    /// The client library cannot start the broker.
    pub fn start() -> Result<Self, KafkaError> {
        Ok(Self { cluster: MockCluster::new(1)? })
    }

    /// Returns its address for clients.
    #[must_use]
    pub fn address(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// The topic already exists.
    pub fn create_topic(&self, topic: &str, partitions: i32) -> Result<(), KafkaError> {
        self.cluster.create_topic(topic, partitions, 1)
    }
}

/// One committed record of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub partition: PartitionId,
    /// Its key, if it is text.
    pub key: Option<String>,
    /// Size of its value in bytes.
    pub value_bytes: usize,
    headers: Vec<(String, String)>,
}

impl Written {
    /// Returns the last header of this name, if its value is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// One step of a reader.
#[derive(Debug)]
pub enum Step {
    Record(Written),
    /// Nothing arrived in time.
    Nothing,
    /// Every partition was read to its end at least once. Only the reader of a single topic reports this, because the
    /// client names the partition that ended, but not its topic.
    End,
}

/// A reader of some topics.
pub struct Tail {
    consumer: BaseConsumer<LoggingContext>,
    unread: BTreeSet<i32>,
    is_single: bool,
}

impl Tail {
    /// Starts at the beginning of every partition. The settings must be those of a reader that reports ends of
    /// partitions ([`super::client::ConnectionSettings::follower`]).
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings, or no broker answers.
    pub fn open(config: &ClientConfig, topics: &[&str]) -> Result<Self, KafkaError> {
        let consumer: BaseConsumer<LoggingContext> = config.create_with_context(LoggingContext(()))?;
        let (mut list, mut unread) = (TopicPartitionList::new(), BTreeSet::new());
        for &topic in topics {
            let metadata = consumer.fetch_metadata(Some(topic), QUERY_TIMEOUT)?;
            for partition in metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions) {
                list.add_partition_offset(topic, partition.id(), Offset::Beginning)?;
                unread.insert(partition.id());
            }
        }
        consumer.assign(&list)?;
        Ok(Self { consumer, unread, is_single: topics.len() == 1 })
    }

    /// Returns the next record, in the order of each partition.
    ///
    /// # Errors
    ///
    /// An error that the client cannot recover from.
    pub fn next(&mut self, timeout: Duration) -> Result<Step, KafkaError> {
        match self.consumer.poll(timeout) {
            None => Ok(Step::Nothing),
            Some(Ok(message)) => {
                let headers = message.headers().into_iter().flat_map(Headers::iter);
                let text = |value: Option<&[u8]>| value.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
                Ok(Step::Record(Written {
                    partition: PartitionId::new(message.topic(), message.partition()),
                    key: text(message.key()),
                    value_bytes: message.payload().map_or(0, <[u8]>::len),
                    headers: headers.filter_map(|it| Some((it.key.to_owned(), text(it.value)?))).collect(),
                }))
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                self.unread.remove(&partition);
                Ok(if self.is_single && self.unread.is_empty() { Step::End } else { Step::Nothing })
            }
            Some(Err(error)) if error.rdkafka_error_code().is_some_and(is_passing) => Ok(Step::Nothing),
            Some(Err(error)) => Err(error),
        }
    }
}
