//! The fetch state of each partition of a group member.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::{Offset, TopicPartitionList};

use super::{ConsumerEvent, Context, SEEK, Start};
use crate::record::PartitionId;

/// Fetch state of one partition.
#[derive(Debug, Default)]
pub(super) struct FetchState {
    /// Whether the partition is part of the client's own assignment.
    pub(super) started: bool,
    /// The serial number of the seek whose records are handed over.
    pub(super) open: Option<u64>,
    /// Whether the owner has paused the partition.
    pub(super) is_paused: bool,
    /// Whether the client is paused, so that it has dropped what it had fetched and fetches nothing.
    pub(super) is_client_paused: bool,
    /// What has arrived since the owner paused the partition.
    pub(super) held_back: Vec<ConsumerEvent>,
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

    /// Ends the open seek: nothing of it is handed over any more.
    pub(super) fn close(&mut self) {
        self.open = None;
        self.held_back.clear();
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
    /// The search for partitions that are out of range.
    pub(super) sweep: Option<Sweep>,
    /// A partition of each topic that may be one that we may not read.
    pub(super) probes: BTreeMap<Arc<str>, i32>,
    /// Number of times that partitions were lost: only an owner that knows of all losses may send offsets.
    pub(super) loss_epoch: u64,
}

/// The search for partitions that do not hold their next offset, with the serial numbers of their seeks.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    pub(super) left: VecDeque<(PartitionId, u64)>,
    /// Those that are not out of range, or did not answer.
    pub(super) checked: Vec<(PartitionId, u64)>,
    /// Whether there was one that is.
    pub(super) found: bool,
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

    /// Forgets the seek and the pause of each partition, and returns the partitions that the client must pause.
    pub(super) fn close_all(&mut self) -> TopicPartitionList {
        let mut started = TopicPartitionList::new();
        for (partition, fetch_state) in &mut self.by_partition {
            let is_started = fetch_state.started;
            *fetch_state = FetchState { started: is_started, is_client_paused: is_started, ..FetchState::default() };
            if is_started {
                started.add_partition(&partition.topic, partition.number);
            }
        }
        started
    }

    /// Holds back what arrives of these partitions from now on.
    pub(super) fn pause(&mut self, partitions: &BTreeSet<PartitionId>) {
        for partition in partitions {
            self.by_partition.entry(partition.clone()).and_modify(|fetch_state| fetch_state.is_paused = true);
        }
    }

    /// Returns the partitions that are paused and that the client still reads: it must pause them.
    pub(super) fn pause_client(&mut self) -> TopicPartitionList {
        let mut read = TopicPartitionList::new();
        for (partition, fetch_state) in &mut self.by_partition {
            if fetch_state.is_paused && fetch_state.started && !fetch_state.is_client_paused {
                fetch_state.is_client_paused = true;
                read.add_partition(&partition.topic, partition.number);
            }
        }
        read
    }

    /// Returns what was held back of these partitions, and those that the client must resume.
    pub(super) fn resume(&mut self, partitions: &BTreeSet<PartitionId>) -> (Vec<ConsumerEvent>, TopicPartitionList) {
        let (mut held_back, mut paused) = (Vec::new(), TopicPartitionList::new());
        for partition in partitions {
            let Some(fetch_state) = self.by_partition.get_mut(partition) else { continue };
            fetch_state.is_paused = false;
            held_back.append(&mut fetch_state.held_back);
            let is_open = fetch_state.open.is_some() || fetch_state.wanted.is_some();
            // To resume a partition that is not paused would make the client read it again from its last seek.
            if fetch_state.started && fetch_state.is_client_paused && is_open {
                fetch_state.is_client_paused = false;
                paused.add_partition(&partition.topic, partition.number);
            }
        }
        (held_back, paused)
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
    if fetch_state.is_paused { consumer.pause(&list) } else { consumer.resume(&list) }?;
    fetch_state.is_client_paused = fetch_state.is_paused;
    Ok(offset)
}

fn resolve(consumer: &BaseConsumer<Context>, partition: &PartitionId, start: Start) -> Result<i64, KafkaError> {
    let range = || consumer.fetch_watermarks(&partition.topic, partition.number, SEEK);
    match start {
        Start::Offset(offset) => Ok(offset),
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
