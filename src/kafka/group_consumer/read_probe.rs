//! Finds out whether a topic may be read.
//!
//! A consumer of a group learns that it may not read one of its topics, and not which: the client library's binding drops
//! the name. Metadata and offsets need another permission. So a second client, which joins no group, reads one partition
//! of one topic: its first answer is about this topic.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, after};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::Shared;
use super::events::ConsumerEvent;
use crate::kafka::client::LoggingContext;
use crate::record::PartitionId;

/// How long a probe waits for an answer. A topic whose brokers are away counts as readable: the client tells again if
/// it is not.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A client that tries to read one topic.
pub(super) struct ReadProbe {
    topic: Arc<str>,
    consumer: BaseConsumer<LoggingContext>,
    late: Receiver<std::time::Instant>,
}

impl ReadProbe {
    /// Starts to read the end of a partition, with the settings of the group's member. `None` if the client cannot be
    /// created.
    fn start(config: &ClientConfig, topic: Arc<str>, number: i32) -> Option<Self> {
        let mut config = config.clone();
        config.remove("group.instance.id");
        let started = config.create_with_context(LoggingContext(())).and_then(|consumer: BaseConsumer<_>| {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&topic, number, Offset::End)?;
            consumer.assign(&list)?;
            Ok(consumer)
        });
        match started {
            Ok(consumer) => Some(Self { topic, consumer, late: after(TIMEOUT) }),
            Err(error) => {
                tracing::warn!(target: "dupgate::kafka", %topic, %error, "failed to check whether the topic may be read");
                None
            }
        }
    }

    /// Returns whether the topic may not be read, once that is known. Does not wait.
    fn is_denied(&self) -> Option<bool> {
        match self.consumer.poll(Duration::ZERO) {
            Some(Err(error)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                Some(true)
            }
            Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => Some(false),
            Some(Err(_)) | None => self.late.try_recv().is_ok().then_some(false),
        }
    }
}

impl Shared {
    /// Begins to look for the topics that we may not read: the client library reports that there is one without naming
    /// it. Returns whether there are topics to ask for: if the group has only one, nothing goes on without it.
    pub(super) fn start_probes(&self) -> bool {
        if self.has_one_topic {
            return false;
        }
        let mut fetch_states = self.fetch_states();
        let open = fetch_states.by_partition.iter().filter(|(_, fetch_state)| fetch_state.open.is_some());
        let topics = open.map(|(partition, _)| (Arc::clone(&partition.topic), partition.number)).collect();
        fetch_states.probes = topics;
        !fetch_states.probes.is_empty()
    }

    /// Asks for one topic after another whether we may read it, without waiting, and closes the partitions of those
    /// that we may not.
    pub(super) fn probe(&self, config: &ClientConfig, current: &mut Option<ReadProbe>) {
        if current.is_none() {
            let next = self.fetch_states().probes.pop_first();
            *current = next.and_then(|(topic, number)| ReadProbe::start(config, topic, number));
        }
        let Some(is_denied) = current.as_ref().and_then(ReadProbe::is_denied) else { return };
        let Some(probe) = current.take().filter(|_| is_denied) else { return };
        let fetch_states = self.fetch_states();
        let open = fetch_states.by_partition.iter().filter(|(partition, _)| partition.topic == probe.topic);
        let open = open.filter_map(|(partition, found)| Some((partition.clone(), found.open?)));
        let denied: Vec<(PartitionId, u64)> = open.collect();
        drop(fetch_states);
        for (partition, serial) in denied {
            self.close(&partition);
            self.hand_over(&partition, ConsumerEvent::Denied { partition: partition.clone(), serial });
        }
    }
}
