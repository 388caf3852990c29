//! The fetch state of each partition of a group member.

use std::collections::{BTreeMap, BTreeSet};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::{Offset, TopicPartitionList};

use super::{Context, SEEK, Start};
use crate::record::PartitionId;

/// Fetch state of one partition.
#[derive(Debug, Default)]
pub(super) struct FetchState {
    /// Whether the partition is part of the client's own assignment.
    pub(super) started: bool,
    /// The serial number of the seek whose records are handed over.
    pub(super) open: Option<u64>,
    /// Whether the owner has paused the partition.
    pub(super) paused: bool,
    /// A seek that has not succeeded yet.
    pub(super) wanted: Option<(Start, u64)>,
    /// The offset after the last record that arrived, or of the last seek.
    pub(super) next: i64,
}

impl FetchState {
    /// Notes that the record at this offset has arrived. Returns the serial number of the open seek, if there is one:
    /// only then does the record go to the owner.
    pub(super) fn passed(&mut self, offset: i64) -> Option<u64> {
        self.next = offset.saturating_add(1);
        self.open
    }
}

#[derive(Debug, Default)]
pub(super) struct FetchStates {
    pub(super) by_partition: BTreeMap<PartitionId, FetchState>,
    /// Number of overdue revocations that the owner has yet to answer.
    pub(super) overdue: usize,
    pub(super) leaving: bool,
    /// The member id under which the partitions were assigned.
    pub(super) member: Option<Box<str>>,
    /// Whether to leave the group and rejoin.
    pub(super) rejoins: bool,
    /// Number of times that partitions were lost: only an owner that knows of all losses may send offsets.
    pub(super) loss_epoch: u64,
}

impl FetchStates {
    /// Tries every seek that has not succeeded yet: a partition that has just been assigned refuses it for a moment.
    /// Returns those that succeeded, with their serial numbers and start offsets.
    pub(super) fn seek_what_is_wanted(&mut self, consumer: &BaseConsumer<Context>) -> Vec<(PartitionId, u64, i64)> {
        let mut started = Vec::new();
        for (partition, fetch_state) in &mut self.by_partition {
            let Some((start, serial)) = fetch_state.wanted else { continue };
            match seek(consumer, partition, start, fetch_state) {
                Ok(offset) => {
                    fetch_state.wanted = None;
                    fetch_state.open = Some(serial);
                    fetch_state.next = offset;
                    started.push((partition.clone(), serial, offset));
                }
                Err(error) => tracing::debug!(target: "dupgate::kafka", %partition, %error, "seek failed, retrying"),
            }
        }
        started
    }

    /// Forgets the seek and the pause of each partition, and returns the partitions that the client reads.
    pub(super) fn close_all(&mut self) -> TopicPartitionList {
        let mut started = TopicPartitionList::new();
        for (partition, fetch_state) in &mut self.by_partition {
            *fetch_state = FetchState { started: fetch_state.started, ..FetchState::default() };
            if fetch_state.started {
                started.add_partition(&partition.topic, partition.number);
            }
        }
        started
    }

    /// Stores whether these partitions are paused, and returns those that the client must pause or resume.
    pub(super) fn set_paused(&mut self, partitions: &BTreeSet<PartitionId>, paused: bool) -> TopicPartitionList {
        let mut started = TopicPartitionList::new();
        for partition in partitions {
            if let Some(fetch_state) = self.by_partition.get_mut(partition) {
                fetch_state.paused = paused;
                if fetch_state.started && (paused || fetch_state.open.is_some() || fetch_state.wanted.is_some()) {
                    started.add_partition(&partition.topic, partition.number);
                }
            }
        }
        started
    }
}

fn seek(
    consumer: &BaseConsumer<Context>,
    partition: &PartitionId,
    start: Start,
    fetch_state: &mut FetchState,
) -> Result<i64, KafkaError> {
    let offset = resolve(consumer, partition, start)?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&partition.topic, partition.number, Offset::Offset(offset))?;
    if fetch_state.started {
        let done = consumer.seek_partitions(list.clone(), SEEK)?;
        for element in done.elements() {
            element.error()?;
        }
    } else {
        consumer.incremental_assign(&list)?;
        fetch_state.started = true;
    }
    // The client keeps a pause across assignments, so it is set or cleared explicitly.
    if fetch_state.paused { consumer.pause(&list) } else { consumer.resume(&list) }?;
    Ok(offset)
}

fn resolve(consumer: &BaseConsumer<Context>, partition: &PartitionId, start: Start) -> Result<i64, KafkaError> {
    let range = || consumer.fetch_watermarks(&partition.topic, partition.number, SEEK);
    match start {
        Start::Offset(offset) => Ok(offset),
        Start::NotBefore(offset) => Ok(offset.max(range()?.0)),
        Start::Earliest => Ok(range()?.0),
        Start::Latest => Ok(range()?.1),
        Start::At(time) => {
            let mut times = TopicPartitionList::new();
            times.add_partition_offset(&partition.topic, partition.number, Offset::Offset(time.millis()))?;
            let found = consumer.offsets_for_times(times, SEEK)?;
            match found.elements().first().map(rdkafka::topic_partition_list::TopicPartitionListElem::offset) {
                Some(Offset::Offset(offset)) => Ok(offset),
                _ => resolve(consumer, partition, Start::Latest),
            }
        }
    }
}

pub(super) fn partitions_of(list: &TopicPartitionList) -> BTreeSet<PartitionId> {
    list.elements().iter().map(|element| PartitionId::new(element.topic(), element.partition())).collect()
}

pub(super) fn list_of(partitions: &BTreeSet<PartitionId>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition(&partition.topic, partition.number);
    }
    list
}

pub(super) fn report(result: KafkaResult<()>, what: &str) {
    if let Err(error) = result {
        tracing::warn!(target: "dupgate::kafka", %error, "{what}");
    }
}
