//! Questions about offsets that have one answer: what a group has committed, where a partition begins and ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::client::Plain;
use super::orphans::share_of;
use super::pulse::retire;
use crate::record::PartitionId;

/// A client that asks on behalf of one group without joining it.
pub struct Offsets {
    config: ClientConfig,
    /// Taken out by whoever asks, put back when the answer came: one that failed may have lost its brokers for good.
    idle: Mutex<Option<BaseConsumer<Plain>>>,
    patience: Duration,
}

/// What a group committed for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The next offset to read.
    pub offset: i64,
    /// What the committer wrote beside it.
    pub metadata: String,
}

impl Offsets {
    /// Makes the client. Each question waits at most `patience`.
    ///
    /// # Errors
    ///
    /// When the client cannot be made of these settings.
    pub fn new(config: &ClientConfig, patience: Duration) -> Result<Self, KafkaError> {
        let idle = Mutex::new(Some(config.create_with_context(Plain)?));
        Ok(Self { config: config.clone(), idle, patience })
    }

    fn ask<T>(&self, question: impl FnOnce(&BaseConsumer<Plain>) -> Result<T, KafkaError>) -> Result<T, KafkaError> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let consumer = match idle.take() {
            Some(consumer) => consumer,
            None => self.config.create_with_context(Plain)?,
        };
        match question(&consumer) {
            Ok(answer) => {
                *idle = Some(consumer);
                Ok(answer)
            }
            Err(error) => {
                retire(consumer);
                Err(error)
            }
        }
    }

    /// Returns what the group has committed for these partitions. Waits for open transactions that hold offsets of
    /// them, so that the answer is final.
    ///
    /// # Errors
    ///
    /// When the coordinator gave no answer in time, or not for each of them.
    pub fn committed(
        &self,
        partitions: &BTreeSet<PartitionId>,
    ) -> Result<BTreeMap<PartitionId, Option<Committed>>, KafkaError> {
        if partitions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(&partition.topic, partition.number);
        }
        let answer = self.ask(|consumer| consumer.committed_offsets(list, self.patience))?;
        let mut committed = BTreeMap::new();
        for element in answer.elements() {
            element.error()?;
            let known = match element.offset() {
                Offset::Offset(offset) => Some(Committed { offset, metadata: element.metadata().to_owned() }),
                Offset::Beginning | Offset::End | Offset::Stored | Offset::Invalid | Offset::OffsetTail(_) => None,
            };
            committed.insert(PartitionId::new(element.topic(), element.partition()), known);
        }
        Ok(committed)
    }

    /// Returns the first offset held and the end of what is committed: a reader of committed records sees nothing at
    /// or behind the end.
    ///
    /// # Errors
    ///
    /// When the partition's leader gave no answer in time.
    pub fn range(&self, partition: &PartitionId) -> Result<(i64, i64), KafkaError> {
        self.ask(|consumer| consumer.fetch_watermarks(&partition.topic, partition.number, self.patience))
    }

    /// Returns what each member of the group owns; `None` while the group is not at rest.
    ///
    /// # Errors
    ///
    /// When a broker gave no answer in time.
    pub fn shares(&self) -> Result<Option<Vec<BTreeSet<PartitionId>>>, KafkaError> {
        let name = self.config.get("group.id").unwrap_or_default();
        let list = self.ask(|consumer| consumer.fetch_group_list(Some(name), self.patience))?;
        let group = list.groups().iter().find(|group| group.name() == name && group.state() == "Stable");
        Ok(group.and_then(|group| {
            group.members().iter().map(|member| share_of(member.assignment().unwrap_or_default())).collect()
        }))
    }

    /// Returns every partition of the topics that exist; a pattern (`^...`) stands for all topics it matches.
    ///
    /// # Errors
    ///
    /// When no broker answered in time, or the pattern is not one.
    pub fn partitions(&self, topics: &[String]) -> Result<BTreeSet<PartitionId>, KafkaError> {
        // Only one topic can be asked for by name; for several, and for a pattern, all are.
        let one =
            if let [topic] = topics { Some(topic.as_str()).filter(|topic| !topic.starts_with('^')) } else { None };
        let metadata = self.ask(|consumer| consumer.fetch_metadata(one, self.patience))?;
        let patterns = topics.iter().filter(|topic| topic.starts_with('^')).map(|pattern| regex::Regex::new(pattern));
        let patterns =
            patterns.collect::<Result<Vec<_>, _>>().map_err(|error| KafkaError::Subscription(error.to_string()))?;
        let wanted = |name: &str| {
            topics.iter().any(|topic| topic == name) || patterns.iter().any(|pattern| pattern.is_match(name))
        };
        let mut found = BTreeSet::new();
        for topic in metadata.topics() {
            if topic.error().is_none() && wanted(topic.name()) {
                found.extend(topic.partitions().iter().map(|part| PartitionId::new(topic.name(), part.id())));
            }
        }
        Ok(found)
    }
}
