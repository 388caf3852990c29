//! The group membership for sending offsets.

use std::sync::{Arc, Weak};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{ClientConfig, TopicPartitionList};

use super::Context;
use super::member_id::member_id;
use crate::kafka::client::LoggingContext;

/// A member's group membership, as sent with offsets.
///
/// Brokers check the member and its generation, but not whether the member owns the partition. So a membership is valid
/// only for an owner that has heard of every loss so far: after a loss the member has a new generation, and under it
/// brokers would accept offsets of partitions that now belong to another member. The owner gets the new membership
/// after the event of the loss. A membership is also valid only while the member id is that of the assignment: another
/// id means a loss that was not reported yet.
#[derive(Clone, Default)]
pub struct Membership {
    pub(super) consumer: Weak<BaseConsumer<Context>>,
    pub(super) loss_epoch: u64,
    /// The client of a process that commits offsets without having joined the group.
    pub(super) outside: Option<Arc<BaseConsumer<LoggingContext>>>,
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Membership").field("loss_epoch", &self.loss_epoch).finish_non_exhaustive()
    }
}

impl Membership {
    /// Creates the membership of a process that commits offsets for a group without joining it. Brokers accept them
    /// only while the group has no members.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn outside(config: &ClientConfig) -> KafkaResult<Self> {
        Ok(Self { outside: Some(Arc::new(config.create_with_context(LoggingContext(()))?)), ..Self::default() })
    }

    /// Returns the member and its generation; `None` after it has left the group, or after a loss that the owner has
    /// not heard of.
    pub(in super::super) fn metadata(&self) -> Option<ConsumerGroupMetadata> {
        if let Some(outside) = &self.outside {
            return outside.group_metadata();
        }
        let consumer = self.consumer.upgrade()?;
        let metadata = consumer.group_metadata();
        // Check only after the generation was read: a later loss makes that generation invalid.
        let known = !consumer.context().is_retired() && self.is_known_to(&consumer);
        metadata.filter(|_| known)
    }

    /// Returns whether the owner of this membership knows of every loss so far.
    fn is_known_to(&self, consumer: &BaseConsumer<Context>) -> bool {
        // Ids are never reused, so an equal id is also that of the generation that was read.
        let id = member_id(consumer.client());
        let fetch_states = consumer.context().fetch_states();
        fetch_states.loss_epoch == self.loss_epoch && fetch_states.member == id
    }

    /// Commits offsets without a transaction.
    pub(in super::super) fn commit(&self, offsets: &TopicPartitionList) -> KafkaResult<()> {
        match self.consumer.upgrade().filter(|consumer| self.is_known_to(consumer)) {
            Some(consumer) => consumer.commit(offsets, CommitMode::Sync),
            None => Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::UnknownMemberId)),
        }
    }
}
