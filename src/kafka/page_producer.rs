//! Produces pages by key: those of the demo, and the plans of replays.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};

use super::client::LoggingContext;
use crate::record::{PartitionId, Source};

/// How long a full queue may stay full.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// One page to write. The client chooses the partition by the key; the timestamp is the time of sending.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The record's key.
    pub key: &'a str,
    /// The record's value.
    pub value: &'a [u8],
    /// A header: its name and value.
    pub header: (&'a str, &'a str),
}

/// The producer of the pages.
pub struct PageProducer {
    producer: ThreadedProducer<LoggingContext<Sink>>,
}

/// The result of writing a page: its key, and its position.
pub type Delivered = (String, Result<Source, KafkaError>);

type Sink = Arc<dyn Fn(Delivered) + Send + Sync>;

impl ProducerContext for LoggingContext<Sink> {
    type DeliveryOpaque = Box<String>;

    fn delivery(&self, result: &DeliveryResult<'_>, key: Self::DeliveryOpaque) {
        let place = match result {
            Ok(message) => Ok(PartitionId::new(message.topic(), message.partition()).at(message.offset())),
            Err((error, _)) => Err(error.clone()),
        };
        (self.0)((*key, place));
    }
}

impl PageProducer {
    /// Creates the producer. The result of each page goes to `sink`, on a thread of the client.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn open(config: &ClientConfig, sink: impl Fn(Delivered) + Send + Sync + 'static) -> Result<Self, KafkaError> {
        Ok(Self { producer: config.create_with_context(LoggingContext(Arc::new(sink) as Sink))? })
    }

    /// Hands a page to the client; waits while its queue is full.
    ///
    /// # Errors
    ///
    /// The client rejects it.
    pub fn write(&self, page: Page<'_>) -> Result<(), KafkaError> {
        let (name, value) = page.header;
        let mut record = BaseRecord::with_opaque_to(page.topic, Box::new(page.key.to_owned()))
            .key(page.key)
            .payload(page.value)
            .headers(OwnedHeaders::new().insert(Header { key: name, value: Some(value) }));
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    self.producer.flush(REQUEST_TIMEOUT)?;
                    record = back;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    /// Waits until every page is acknowledged or given up.
    ///
    /// # Errors
    ///
    /// Some are still in flight after half a minute.
    pub fn flush(&self) -> Result<(), KafkaError> {
        self.producer.flush(REQUEST_TIMEOUT)
    }
}
