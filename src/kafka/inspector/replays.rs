//! Requests of replays: names, waiting for topics, and deleting the topics and the group of a replay.

use std::collections::BTreeSet;
use std::time::Duration;

use crossbeam_channel::{after, tick};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use super::{ClusterError, ClusterInspector};
use crate::kafka::admin::options;
use crate::kafka::client::LoggingContext;
use crate::record::{PartitionId, Timestamp};

/// Time between two checks for a new topic.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(50);

impl ClusterInspector {
    /// Returns the name of the cluster; empty if it has none.
    #[must_use]
    pub fn cluster_id(&self) -> String {
        self.consumer.client().fetch_cluster_id(self.timeout).unwrap_or_default()
    }

    /// Lists all visible topics.
    ///
    /// # Errors
    ///
    /// No broker answers.
    pub fn topic_names(&self) -> Result<BTreeSet<String>, ClusterError> {
        let metadata =
            self.consumer.fetch_metadata(None, self.timeout).map_err(|error| ClusterError::of(&error, ""))?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
    }

    /// Waits until all partitions of a new topic have a leader.
    ///
    /// # Errors
    ///
    /// They have none in time.
    pub fn await_topic(&self, name: &str) -> Result<(), ClusterError> {
        let (late, checks) = (after(self.timeout), tick(POLL_INTERVAL));
        loop {
            let metadata = self.consumer.fetch_metadata(Some(name), self.timeout);
            let metadata = metadata.map_err(|error| ClusterError::of(&error, name))?;
            let mut topics = metadata.topics().iter().filter(|topic| topic.name() == name && topic.error().is_none());
            let is_led = |topic: &rdkafka::metadata::MetadataTopic| {
                !topic.partitions().is_empty() && topic.partitions().iter().all(|partition| partition.leader() >= 0)
            };
            if topics.any(is_led) {
                return Ok(());
            }
            if late.try_recv().is_ok() {
                return Err(ClusterError::Unavailable(format!("topic `{name}` has no leader yet")));
            }
            // The ticker lives as long as this channel.
            let _ = checks.recv();
        }
    }

    /// Deletes topics; a topic that is already gone is not an error.
    ///
    /// # Errors
    ///
    /// The first refusal of the brokers.
    pub fn delete_topics(&self, names: &[&str]) -> Result<(), ClusterError> {
        if names.is_empty() {
            return Ok(());
        }
        let options = options(self.timeout);
        let answer = self.runtime.block_on(self.admin.delete_topics(names, &options));
        for outcome in answer.map_err(|error| ClusterError::of(&error, ""))? {
            match outcome {
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic)) => {}
                Err((name, code)) => return Err(ClusterError::of_topic(&KafkaError::AdminOp(code), &name, "Delete")),
            }
        }
        Ok(())
    }

    /// Deletes a group with its offsets; a group that is already gone is not an error.
    ///
    /// # Errors
    ///
    /// The refusal of the coordinator.
    pub fn delete_group(&self, name: &str) -> Result<(), ClusterError> {
        let options = options(self.timeout);
        let answer = self.runtime.block_on(self.admin.delete_groups(&[name], &options));
        for outcome in answer.map_err(|error| ClusterError::of(&error, name))? {
            match outcome {
                Ok(_) | Err((_, RDKafkaErrorCode::GroupIdNotFound)) => {}
                Err((_, code)) => return Err(ClusterError::of(&KafkaError::AdminOp(code), name)),
            }
        }
        Ok(())
    }

    /// Returns the offset and time of the first record at this offset or after it; `None` if none arrives in time.
    ///
    /// # Errors
    ///
    /// The client cannot read there.
    pub fn first_at(
        &self,
        partition: &PartitionId,
        offset: i64,
    ) -> Result<Option<(i64, Option<Timestamp>)>, ClusterError> {
        let failed = |error: KafkaError| ClusterError::of(&error, &partition.topic);
        let config = self.connection.follower(&self.group);
        let consumer: BaseConsumer<LoggingContext> = config.create_with_context(LoggingContext(())).map_err(failed)?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&partition.topic, partition.number, Offset::Offset(offset)).map_err(failed)?;
        consumer.assign(&list).map_err(failed)?;
        let late = after(self.timeout);
        while late.try_recv().is_err() {
            match consumer.poll(POLL) {
                None => {}
                Some(Ok(message)) => {
                    let time = message.timestamp().to_millis().map(Timestamp::from_millis);
                    return Ok(Some((message.offset(), time)));
                }
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(None),
                Some(Err(error)) => {
                    let cluster_error = ClusterError::of_topic(&error, &partition.topic, "Read");
                    if matches!(cluster_error, ClusterError::Denied(_)) {
                        return Err(cluster_error);
                    }
                }
            }
        }
        Ok(None)
    }
}
