//! The fetch state of each partition of a group member, how far the client has read it, and the search for partitions that
//! cannot be read: the client library reports that there is one without naming it.
//!
//! One that does not hold its next offset is found among all that are read by their first and last offsets.
//!
//! A topic that we may not read needs more, because metadata and offsets need another permission: a second client,
//! which joins no group, reads one partition of one topic, so that its first answer is about this topic.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, after};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::{ConsumerEvent, Context, SEEK, Shared, Start};
use crate::kafka::client::LoggingContext;
use crate::kafka::partition_list::{fetch_begins, list_at, list_of};
use crate::kafka::renewed_client::Positions;
use crate::record::PartitionId;

/// How long a probe waits for an answer. A topic whose brokers are away counts as readable: the client tells again if
/// it is not.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the polling thread looks for partitions that are out of range before it polls again.
const SWEEP_TIME: Duration = Duration::from_secs(1);

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
    /// Whether a seek of any partition may be wanted.
    may_seek: bool,
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
    /// Notes that the client is to read this partition, if it is assigned, from here on.
    pub(super) fn want_seek(&mut self, partition: &PartitionId, start: Start, serial: u64) {
        if let Some(found) = self.by_partition.get_mut(partition) {
            found.wanted = Some((start, serial));
            self.may_seek = true;
        }
    }

    /// Returns the partitions of this number of all topics, without a look at each partition.
    pub(super) fn of_number(&self, number: i32) -> impl Iterator<Item = (&PartitionId, &FetchState)> {
        let first = self.by_partition.keys().next();
        let topics = std::iter::successors(first, |partition| {
            let last = PartitionId { topic: partition.topic.clone(), number: i32::MAX };
            self.by_partition.range((Bound::Excluded(last), Bound::Unbounded)).next().map(|(next, _)| next)
        });
        topics.filter_map(move |first| {
            self.by_partition.get_key_value(&PartitionId { topic: first.topic.clone(), number })
        })
    }

    /// Tries every seek that has not succeeded yet, all by the same requests: a partition that has just been assigned
    /// refuses it for a moment. Returns those that succeeded, with their serial numbers and start offsets.
    pub(super) fn seek_what_is_wanted(&mut self, consumer: &BaseConsumer<Context>) -> Vec<(PartitionId, u64, i64)> {
        if !self.may_seek {
            return Vec::new();
        }
        let wanted = self.by_partition.iter();
        let wanted = wanted.filter_map(|(partition, found)| Some((partition.clone(), found.wanted?.0))).collect();
        let mut offsets = resolve_each(consumer, &wanted);
        self.may_seek = !wanted.is_empty();
        if offsets.is_empty() {
            return Vec::new();
        }
        if let Err(error) = self.seek(consumer, &mut offsets) {
            tracing::debug!(target: "dupgate::kafka", %error, "seeks failed, retrying");
            return Vec::new();
        }
        let sought = |(partition, offset): (PartitionId, i64)| {
            let found = self.by_partition.get_mut(&partition)?;
            let (_, serial) = found.wanted.take()?;
            found.open = Some(serial);
            found.next = offset;
            Some((partition, serial, offset))
        };
        offsets.into_iter().filter_map(sought).collect()
    }

    /// Moves the client to these offsets. Removes the partitions that refuse it.
    fn seek(
        &mut self,
        consumer: &BaseConsumer<Context>,
        offsets: &mut BTreeMap<PartitionId, i64>,
    ) -> Result<(), KafkaError> {
        let stopped = move_started(consumer, offsets, |partition| self.is_started(partition))?;
        if !stopped.is_empty() {
            consumer.incremental_unassign(&list_of(&stopped))?;
            self.set_started(&stopped, false);
        }
        let new: BTreeSet<_> = offsets.keys().filter(|partition| !self.is_started(partition)).cloned().collect();
        if !new.is_empty() {
            let at = |partition| (partition, Offset::Offset(offsets[partition]));
            consumer.incremental_assign(&list_at(new.iter().map(at))?)?;
            self.set_started(&new, true);
        }
        // The client keeps a pause across assignments, so it is set or cleared explicitly.
        let is_paused =
            |partition: &&PartitionId| self.by_partition.get(*partition).is_some_and(|found| found.is_paused);
        let (paused, read): (Vec<_>, Vec<_>) = offsets.keys().partition(is_paused);
        consumer.pause(&list_of(paused))?;
        consumer.resume(&list_of(read))?;
        for partition in offsets.keys() {
            if let Some(found) = self.by_partition.get_mut(partition) {
                found.is_client_paused = found.is_paused;
            }
        }
        Ok(())
    }

    fn is_started(&self, partition: &PartitionId) -> bool {
        self.by_partition.get(partition).is_some_and(|found| found.started)
    }

    fn set_started(&mut self, partitions: &BTreeSet<PartitionId>, started: bool) {
        for partition in partitions {
            if let Some(found) = self.by_partition.get_mut(partition) {
                found.started = started;
            }
        }
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

    /// Returns the next offsets of the partitions that are read, without paused ones.
    pub(super) fn positions(&self) -> Positions {
        let is_read = |found: &FetchState| found.open.is_some() && !found.is_paused && !found.is_client_paused;
        let read = self.by_partition.iter().filter(|(_, found)| is_read(found));
        read.map(|(partition, found)| (partition.clone(), Some(found.next))).collect()
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

/// Moves the client to another offset of each partition that it reads. Returns those that it does not read any more: it
/// stops for good where a partition does not hold the next offset, and then refuses to move. Removes those that do not
/// answer.
fn move_started(
    consumer: &BaseConsumer<Context>,
    offsets: &mut BTreeMap<PartitionId, i64>,
    is_started: impl Fn(&PartitionId) -> bool,
) -> Result<BTreeSet<PartitionId>, KafkaError> {
    let started = offsets.iter().filter(|(partition, _)| is_started(partition));
    let started = list_at(started.map(|(partition, offset)| (partition, Offset::Offset(*offset))))?;
    let mut stopped = BTreeSet::new();
    if started.count() == 0 {
        return Ok(stopped);
    }
    for element in consumer.seek_partitions(started, SEEK)?.elements() {
        let partition = PartitionId::new(element.topic(), element.partition());
        match element.error() {
            Ok(()) => {}
            Err(error) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::State) => {
                stopped.insert(partition);
            }
            Err(error) => {
                tracing::debug!(target: "dupgate::kafka", %partition, %error, "seek failed, retrying");
                offsets.remove(&partition);
            }
        }
    }
    Ok(stopped)
}

/// Returns the offsets of these starts, without the partitions whose leaders do not answer.
fn resolve_each(consumer: &BaseConsumer<Context>, wanted: &BTreeMap<PartitionId, Start>) -> BTreeMap<PartitionId, i64> {
    resolve(consumer, wanted).unwrap_or_else(|_| {
        // One broker that does not answer fails the question about all.
        let alone = wanted.iter().map(|(partition, start)| BTreeMap::from([(partition.clone(), *start)]));
        alone.filter_map(|one| resolve(consumer, &one).ok()).flatten().collect()
    })
}

/// Returns the offsets of these starts. Leaves out partitions whose leader has an error.
fn resolve(
    consumer: &BaseConsumer<Context>,
    wanted: &BTreeMap<PartitionId, Start>,
) -> Result<BTreeMap<PartitionId, i64>, KafkaError> {
    let (mut known, mut ends) = (BTreeMap::new(), BTreeMap::new());
    let ask = |list| consumer.offsets_for_times(list, SEEK);
    for (partition, answer) in fetch_begins(wanted.iter().map(|(partition, start)| (partition, *start)), ask)? {
        match answer {
            Ok(Some(offset)) => {
                known.insert(partition, offset);
            }
            // No record is as new as the time asked for.
            Ok(None) if matches!(wanted.get(&partition), Some(Start::At(_))) => {
                ends.insert(partition, Start::Latest);
            }
            Ok(None) | Err(_) => {
                tracing::debug!(target: "dupgate::kafka", %partition, ?answer, "the start is unknown, asking again");
            }
        }
    }
    if !ends.is_empty() {
        known.extend(resolve(consumer, &ends)?);
    }
    Ok(known)
}

pub(super) fn partitions_of(list: &TopicPartitionList) -> BTreeSet<PartitionId> {
    list.elements().iter().map(|element| PartitionId::new(element.topic(), element.partition())).collect()
}

pub(super) fn report(result: KafkaResult<()>, what: &str) {
    if let Err(error) = result {
        tracing::warn!(target: "dupgate::kafka", %error, "{what}");
    }
}

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
            consumer.assign(&list_at([(PartitionId::new(Arc::clone(&topic), number), Offset::End)])?)?;
            Ok(consumer)
        });
        match started {
            Ok(consumer) => Some(Self { topic, consumer, late: after(PROBE_TIMEOUT) }),
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

impl Shared {
    /// Begins to look for the partitions that do not hold the next offset, among all that are read.
    pub(super) fn start_sweep(&self) {
        let mut fetch_states = self.fetch_states();
        let open = fetch_states.by_partition.iter();
        let open = open.filter_map(|(partition, fetch_state)| Some((partition.clone(), fetch_state.open?)));
        fetch_states.sweep = Some(Sweep { left: open.collect(), ..Sweep::default() });
    }

    /// Looks for partitions that do not hold the next offset, and closes them; the others continue. Brokers that are
    /// away let each question wait, so this ends after a while, and goes on after the next poll.
    pub(super) fn sweep(&self, consumer: &BaseConsumer<Context>) {
        let Some(mut sweep) = self.fetch_states().sweep.take() else { return };
        let late = after(SWEEP_TIME);
        while late.try_recv().is_err() {
            let Some((partition, serial)) = sweep.left.pop_front() else { return self.swept(sweep) };
            let is_open = |fetch_state: &FetchState| fetch_state.open == Some(serial);
            let fetch_states = self.fetch_states();
            let next = fetch_states.by_partition.get(&partition).filter(|found| is_open(found)).map(|found| found.next);
            drop(fetch_states);
            let Some(offset) = next else { continue };
            match consumer.fetch_watermarks(&partition.topic, partition.number, SEEK) {
                Ok((first, end)) if offset < first || end < offset => {
                    sweep.found = true;
                    self.close(&partition);
                    let event = ConsumerEvent::OutOfRange { partition: partition.clone(), serial, offset, first, end };
                    self.hand_over(&partition, event);
                }
                Ok(_) => sweep.checked.push((partition, serial)),
                Err(error) => {
                    tracing::debug!(
                        target: "dupgate::kafka",
                        %partition, %error, "failed to check whether the partition is out of range"
                    );
                    sweep.checked.push((partition, serial));
                }
            }
        }
        self.fetch_states().sweep.get_or_insert(sweep);
    }

    /// All partitions were checked. If none was out of range, one has changed since, or does not answer: seeks each
    /// partition to its current offset.
    fn swept(&self, sweep: Sweep) {
        if sweep.found {
            return;
        }
        tracing::warn!(
            target: "dupgate::kafka",
            "out-of-range error without an out-of-range partition: seeking again"
        );
        for (partition, serial) in sweep.checked {
            let mut fetch_states = self.fetch_states();
            let open = fetch_states.by_partition.get(&partition).filter(|found| found.open == Some(serial));
            if let Some(next) = open.map(|found| found.next) {
                fetch_states.want_seek(&partition, Start::Offset(next), serial);
            }
        }
    }
}
