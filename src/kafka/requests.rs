//! Reads the fingerprint log in step with a reader of the verdict log.

use std::time::Duration;

use crossbeam_channel::after;
use dupgate_core::judge::Asked;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::client::LoggingContext;
use crate::protocol::{RequestOffset, decode_requests};
use crate::record::{PartitionId, Timestamp};

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(50);

/// Why requests cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RequestsError {
    /// The requests do not arrive in time.
    #[error("timed out after {timeout:?} reading requests of {partition} up to offset {end}")]
    Late {
        /// The partition of the log.
        partition: PartitionId,
        /// The wanted end.
        end: RequestOffset,
        /// The time-out.
        timeout: Duration,
    },
    /// The client rejects the position, or no broker answers.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
}

/// A reader of one partition of the fingerprint log.
pub struct Requests {
    consumer: BaseConsumer<LoggingContext>,
    partition: PartitionId,
    timeout: Duration,
    /// The next offset to return; `None` before the first call.
    next: Option<RequestOffset>,
    /// A record that was read, but is at or after the end that was asked for.
    ahead: Option<Asked>,
}

impl Requests {
    /// Creates the client; each request waits at most `timeout`. The settings must be those of a reader that commits
    /// nothing ([`super::client::ConnectionSettings::follower`]).
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn open(config: &ClientConfig, partition: PartitionId, timeout: Duration) -> Result<Self, KafkaError> {
        Ok(Self {
            consumer: config.create_with_context(LoggingContext(()))?,
            partition,
            timeout,
            next: None,
            ahead: None,
        })
    }

    /// Returns the first offset that the log still holds.
    ///
    /// # Errors
    ///
    /// No broker answers.
    pub fn first(&self) -> Result<RequestOffset, KafkaError> {
        let range = self.consumer.fetch_watermarks(&self.partition.topic, self.partition.number, self.timeout);
        Ok(RequestOffset(range?.0))
    }

    /// Returns the records at `from <= offset < to`. Later calls continue where this one ended.
    ///
    /// # Errors
    ///
    /// The records do not arrive in time.
    pub fn between(&mut self, from: RequestOffset, to: RequestOffset) -> Result<Vec<Asked>, RequestsError> {
        let mut next = if let Some(next) = self.next {
            next.max(from)
        } else {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&self.partition.topic, self.partition.number, Offset::Offset(from.0))?;
            self.consumer.assign(&list)?;
            from
        };
        let mut found = Vec::new();
        let late = after(self.timeout);
        while next < to {
            let appended = match self.ahead.take() {
                Some(appended) => appended,
                None => match self.consumer.poll(POLL) {
                    Some(Ok(message)) => Asked {
                        offset: RequestOffset(message.offset()),
                        append_time: message.timestamp().to_millis().map(Timestamp::from_millis).unwrap_or_default(),
                        // An unreadable record counts as empty, as it does for the judge.
                        requests: decode_requests(message.payload().unwrap_or_default()).unwrap_or_default(),
                    },
                    Some(Err(KafkaError::PartitionEOF(_))) | None if late.try_recv().is_err() => continue,
                    Some(Err(error)) if late.try_recv().is_err() => {
                        tracing::debug!(
                            target: "dupgate::kafka",
                            partition = %self.partition, %error, "reader of requests"
                        );
                        continue;
                    }
                    Some(Err(_)) | None => {
                        let (partition, timeout) = (self.partition.clone(), self.timeout);
                        return Err(RequestsError::Late { partition, end: to, timeout });
                    }
                },
            };
            if appended.offset < next {
                // A client may repeat records after its broker has returned.
                continue;
            }
            if appended.offset >= to {
                self.ahead = Some(appended);
                next = to;
            } else {
                next = appended.offset.next();
                found.push(appended);
            }
        }
        self.next = Some(next);
        Ok(found)
    }
}
