//! A consumer that belongs to a group, on its own polling thread.
//!
//! Records, assignments, revocations, ends of partitions and failures leave in one order, through one sink. The
//! owner answers with [`Command`]s. A partition that is assigned is not read before the owner names an offset
//! ([`Command::Seek`]); a partition that is revoked leaves only after [`Command::RevokeDone`]: the callback waits for
//! it on the polling thread, so that what the owner commits meanwhile still counts for this member's generation.
//!
//! Partitions are added to the client's own assignment at their first seek and removed only inside the revocation
//! callback: removing them at any other moment could answer a revocation that the owner has not seen yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, select, unbounded};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, Offset, Timestamp as KafkaTimestamp, TopicPartitionList};

use super::client::{log_error, log_line};
use super::gate::{Gate, Held};
use crate::panics::shielded;
use crate::record::{PartitionId, Timestamp};
use crate::worker::Header;

/// How long one poll waits: also how long a command may wait for the polling thread.
const POLL: Duration = Duration::from_millis(20);

/// How long a seek may take before it is tried again.
const SEEK: Duration = Duration::from_millis(500);

/// How long a revocation waits for the owner at the most. The group's own limit is `max.poll.interval.ms` (5 min).
const REVOKE_PATIENCE: Duration = Duration::from_mins(1);

/// One record as it came, with all that must leave as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Key bytes; absent is not the same as empty.
    pub key: Option<Box<[u8]>>,
    /// Value bytes; absent means a tombstone.
    pub value: Option<Box<[u8]>>,
    /// All headers, in order, repeats kept.
    pub headers: Vec<Header>,
    /// The headers could not be read, because a name is not UTF-8: the record cannot be passed on as it came.
    pub headers_unreadable: bool,
    /// The record's timestamp, if it has one.
    pub timestamp: Option<Timestamp>,
}

impl Arrived {
    /// Returns what the record takes, in bytes: key, value, headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(Header::bytes).sum::<usize>();
        self.key.as_ref().map_or(0, |key| key.len()) + self.value.as_ref().map_or(0, |value| value.len()) + headers
    }
}

/// What a member reports.
#[derive(Debug)]
pub enum MemberEvent {
    /// A record of a partition that was sought.
    Record {
        /// Its partition.
        partition: PartitionId,
        /// Its offset.
        offset: i64,
        /// The serial number of the seek that it follows.
        serial: u64,
        /// The record.
        record: Arrived,
        /// Counts it until it is taken in.
        held: Held,
    },
    /// The partition holds nothing more for now.
    AtEnd {
        /// Which.
        partition: PartitionId,
        /// The serial number of the seek that it follows.
        serial: u64,
    },
    /// The group gave these to us.
    Assigned(BTreeSet<PartitionId>),
    /// The group takes these away and waits for [`Command::RevokeDone`].
    Revoked(BTreeSet<PartitionId>),
    /// The group took these away some time ago.
    Lost(BTreeSet<PartitionId>),
    /// The group is left and the thread at its end.
    Left,
    /// The consumer is beyond repair, or would have to jump over records.
    Failed(String),
}

/// Where to begin reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this offset.
    Offset(i64),
    /// At this offset, or at the oldest record if that is later.
    NotBefore(i64),
    /// At the oldest record.
    Earliest,
    /// Behind the newest record.
    Latest,
    /// At the first record with this timestamp or a later one; behind the newest when there is none.
    At(Timestamp),
}

/// What the owner wants of its member.
#[derive(Debug)]
pub enum Command {
    /// Hand over records of an assigned partition from here on. What follows carries the serial number.
    Seek(PartitionId, Start, u64),
    /// Hand over nothing of this partition until it is sought again.
    Close(PartitionId),
    /// Hand over nothing of these until they are resumed.
    Pause(BTreeSet<PartitionId>),
    /// Go on with these.
    Resume(BTreeSet<PartitionId>),
    /// What was revoked last may go.
    RevokeDone,
    /// Leave the group and end the thread.
    Leave,
}

/// What to join, and how.
pub struct MemberSettings {
    /// Settings of the consumer.
    pub config: ClientConfig,
    /// Topics, or one pattern that starts with `^`.
    pub topics: Vec<String>,
    /// Name of the polling thread.
    pub thread: String,
    /// Shuts when too much is on its way to the owner.
    pub gate: Arc<Gate>,
}

/// The owner's end of a member. Dropping it leaves the group without waiting.
pub struct Member {
    commands: Sender<Command>,
    consumer: Weak<BaseConsumer<Context>>,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    /// Joins the group. Everything that happens is handed to `sink`, on the polling thread.
    ///
    /// # Errors
    ///
    /// When the client cannot be made of these settings, or the thread not started.
    pub fn join(
        settings: MemberSettings,
        sink: impl Fn(MemberEvent) + Send + Sync + 'static,
    ) -> Result<Self, KafkaError> {
        let (sender, commands) = unbounded();
        let context =
            Context { sink: Box::new(sink), commands, lanes: Mutex::new(Lanes::default()), gate: settings.gate };
        let consumer: Arc<BaseConsumer<Context>> = Arc::new(settings.config.create_with_context(context)?);
        let topics: Vec<&str> = settings.topics.iter().map(String::as_str).collect();
        consumer.subscribe(&topics)?;
        let weak = Arc::downgrade(&consumer);
        let thread = std::thread::Builder::new()
            .name(settings.thread)
            .spawn(move || run(consumer))
            .map_err(|error| KafkaError::ClientCreation(format!("no thread for the consumer: {error}")))?;
        Ok(Self { commands: sender, consumer: weak, thread: Some(thread) })
    }

    /// Hands a command to the polling thread.
    pub fn command(&self, command: Command) {
        // A thread that has ended has nothing left to do.
        let _ = self.commands.send(command);
    }

    /// Returns the membership that a transaction's offsets are sent under.
    #[must_use]
    pub fn membership(&self) -> Membership {
        Membership(self.consumer.clone())
    }

    /// Says whether the group is left and the thread at its end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.command(Command::Leave);
    }
}

/// A member's place in its group, as sent with offsets.
#[derive(Clone, Default)]
pub struct Membership(Weak<BaseConsumer<Context>>);

impl Membership {
    /// Returns member and generation as they are now; `None` when the group is left.
    pub(super) fn metadata(&self) -> Option<ConsumerGroupMetadata> {
        self.0.upgrade()?.group_metadata()
    }

    /// Commits offsets outside of any transaction.
    pub(super) fn commit(&self, offsets: &TopicPartitionList) -> KafkaResult<()> {
        match self.0.upgrade() {
            Some(consumer) => consumer.commit(offsets, CommitMode::Sync),
            None => Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::UnknownMemberId)),
        }
    }
}

/// What is read of one partition.
#[derive(Debug, Default)]
struct Lane {
    /// Part of the client's own assignment.
    started: bool,
    /// The seek whose records are handed over.
    open: Option<u64>,
    /// Paused by the owner.
    paused: bool,
    /// A seek that has not succeeded yet.
    wanted: Option<(Start, u64)>,
}

#[derive(Debug, Default)]
struct Lanes {
    by_partition: BTreeMap<PartitionId, Lane>,
    /// Revocations that the owner has yet to answer although the group did not wait any longer.
    overdue: usize,
    leaving: bool,
}

struct Context {
    sink: Box<dyn Fn(MemberEvent) + Send + Sync>,
    commands: Receiver<Command>,
    lanes: Mutex<Lanes>,
    gate: Arc<Gate>,
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

impl ConsumerContext for Context {
    /// Replaces the default, which would start reading by itself.
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let partitions = partitions_of(list);
        if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assigned(consumer, &partitions);
        } else {
            self.revoked(consumer, &partitions);
        }
    }
}

impl Context {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn assigned(&self, consumer: &BaseConsumer<Self>, partitions: &BTreeSet<PartitionId>) {
        // Tells the client that the assignment is taken; the partitions themselves follow at their first seek.
        if let Err(error) = consumer.incremental_assign(&TopicPartitionList::new()) {
            tracing::warn!(%error, "assignment not taken");
        }
        for partition in partitions {
            self.lanes().by_partition.insert(partition.clone(), Lane::default());
        }
        if !partitions.is_empty() {
            (self.sink)(MemberEvent::Assigned(partitions.clone()));
        }
    }

    fn revoked(&self, consumer: &BaseConsumer<Self>, partitions: &BTreeSet<PartitionId>) {
        let leaving = self.lanes().leaving;
        if !partitions.is_empty() && !leaving {
            if consumer.assignment_lost() {
                (self.sink)(MemberEvent::Lost(partitions.clone()));
            } else {
                (self.sink)(MemberEvent::Revoked(partitions.clone()));
                self.wait_for_owner(consumer);
            }
        }
        let mut gone = TopicPartitionList::new();
        let mut lanes = self.lanes();
        for partition in partitions {
            if lanes.by_partition.remove(partition).is_some_and(|lane| lane.started) {
                gone.add_partition(&partition.topic, partition.number);
            }
        }
        drop(lanes);
        if let Err(error) = consumer.incremental_unassign(&gone) {
            tracing::warn!(%error, "revocation not taken");
        }
    }

    /// Serves commands until the owner lets the revoked partitions go.
    fn wait_for_owner(&self, consumer: &BaseConsumer<Self>) {
        let patience = after(REVOKE_PATIENCE);
        loop {
            let command = select! {
                recv(self.commands) -> command => command.unwrap_or(Command::Leave),
                recv(patience) -> _ => {
                    tracing::error!(after = ?REVOKE_PATIENCE, "a revocation was not answered in time");
                    self.lanes().overdue += 1;
                    return;
                }
            };
            let done = matches!(command, Command::RevokeDone | Command::Leave);
            if self.carry_out(consumer, command) && done {
                return;
            }
        }
    }

    /// Says whether the command was about the present (an answer to an overdue revocation is not).
    fn carry_out(&self, consumer: &BaseConsumer<Self>, command: Command) -> bool {
        let mut lanes = self.lanes();
        match command {
            Command::Seek(partition, start, serial) => {
                if let Some(lane) = lanes.by_partition.get_mut(&partition) {
                    lane.open = None;
                    lane.wanted = Some((start, serial));
                }
                lanes.seek_what_is_wanted(consumer);
            }
            Command::Close(partition) => {
                if let Some(lane) = lanes.by_partition.get_mut(&partition) {
                    lane.open = None;
                    lane.wanted = None;
                    if lane.started {
                        report(consumer.pause(&list_of(&BTreeSet::from([partition]))), "pause");
                    }
                }
            }
            Command::Pause(partitions) => {
                let started = lanes.set_paused(&partitions, true);
                report(consumer.pause(&started), "pause");
            }
            Command::Resume(partitions) => {
                let started = lanes.set_paused(&partitions, false);
                report(consumer.resume(&started), "resume");
            }
            Command::RevokeDone => {
                if lanes.overdue > 0 {
                    lanes.overdue -= 1;
                    return false;
                }
            }
            Command::Leave => lanes.leaving = true,
        }
        true
    }

    fn arrived(&self, message: &BorrowedMessage<'_>, topic: &mut TopicName) {
        let partition = PartitionId::new(topic.shared(message.topic()), message.partition());
        let serial = self.lanes().by_partition.get(&partition).and_then(|lane| lane.open);
        let Some(serial) = serial else { return };
        let record = detach(message);
        let held = self.gate.hold(record.bytes() + size_of::<Arrived>());
        (self.sink)(MemberEvent::Record { partition, offset: message.offset(), serial, record, held });
    }

    /// The client names only the partition's number. An end reported for too many topics does no harm: it only says
    /// that nothing is known to follow.
    fn at_end(&self, number: i32) {
        let ended: Vec<(PartitionId, u64)> = self
            .lanes()
            .by_partition
            .iter()
            .filter(|(partition, _)| partition.number == number)
            .filter_map(|(partition, lane)| Some((partition.clone(), lane.open?)))
            .collect();
        for (partition, serial) in ended {
            (self.sink)(MemberEvent::AtEnd { partition, serial });
        }
    }

    fn failed(&self, consumer: &BaseConsumer<Self>, error: &KafkaError) {
        let denied = [RDKafkaErrorCode::TopicAuthorizationFailed, RDKafkaErrorCode::GroupAuthorizationFailed];
        let code = error.rdkafka_error_code();
        let fatal = if matches!(error, KafkaError::MessageConsumptionFatal(_)) {
            format!("the consumer is beyond repair: {error}")
        } else if code == Some(RDKafkaErrorCode::AutoOffsetReset) {
            self.out_of_range(consumer)
        } else if code.is_some_and(|code| denied.contains(&code)) {
            format!("the cluster does not let us read: {error}")
        } else {
            // The network, a leader on the move: the client goes on by itself.
            tracing::warn!(%error, "consumer");
            return;
        };
        (self.sink)(MemberEvent::Failed(fatal));
    }

    fn out_of_range(&self, consumer: &BaseConsumer<Self>) -> String {
        let open: Vec<PartitionId> = self
            .lanes()
            .by_partition
            .iter()
            .filter(|(_, lane)| lane.open.is_some())
            .map(|(partition, _)| partition.clone())
            .collect();
        let mut ranges = Vec::new();
        for partition in open {
            if let Ok((low, high)) = consumer.fetch_watermarks(&partition.topic, partition.number, SEEK) {
                ranges.push(format!("{partition} holds {low} to {high}"));
            }
        }
        format!(
            "an input offset is out of range, and records would be lost by going on elsewhere ({}): set the group's \
             offsets",
            ranges.join(", ")
        )
    }
}

impl Lanes {
    /// Tries every seek that has not succeeded yet: a partition that has just been assigned refuses it for a moment.
    fn seek_what_is_wanted(&mut self, consumer: &BaseConsumer<Context>) {
        for (partition, lane) in &mut self.by_partition {
            let Some((start, serial)) = lane.wanted else { continue };
            match seek(consumer, partition, start, lane) {
                Ok(()) => {
                    lane.wanted = None;
                    lane.open = Some(serial);
                }
                Err(error) => tracing::debug!(%partition, %error, "seek is tried again"),
            }
        }
    }

    /// Notes the wish for all and returns those that the client knows of.
    fn set_paused(&mut self, partitions: &BTreeSet<PartitionId>, paused: bool) -> TopicPartitionList {
        let mut started = TopicPartitionList::new();
        for partition in partitions {
            if let Some(lane) = self.by_partition.get_mut(partition) {
                lane.paused = paused;
                if lane.started && (paused || lane.open.is_some() || lane.wanted.is_some()) {
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
    lane: &mut Lane,
) -> Result<(), KafkaError> {
    let offset = resolve(consumer, partition, start)?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&partition.topic, partition.number, offset)?;
    if lane.started {
        let done = consumer.seek_partitions(list.clone(), SEEK)?;
        for element in done.elements() {
            element.error()?;
        }
    } else {
        consumer.incremental_assign(&list)?;
        lane.started = true;
    }
    // A pause survives being assigned anew.
    if lane.paused { consumer.pause(&list) } else { consumer.resume(&list) }
}

fn resolve(consumer: &BaseConsumer<Context>, partition: &PartitionId, start: Start) -> Result<Offset, KafkaError> {
    match start {
        Start::Offset(offset) => Ok(Offset::Offset(offset)),
        Start::NotBefore(offset) => {
            let (oldest, _) = consumer.fetch_watermarks(&partition.topic, partition.number, SEEK)?;
            Ok(Offset::Offset(offset.max(oldest)))
        }
        Start::Earliest => Ok(Offset::Beginning),
        Start::Latest => {
            let (_, end) = consumer.fetch_watermarks(&partition.topic, partition.number, SEEK)?;
            Ok(Offset::Offset(end))
        }
        Start::At(time) => {
            let mut times = TopicPartitionList::new();
            times.add_partition_offset(&partition.topic, partition.number, Offset::Offset(time.millis()))?;
            let found = consumer.offsets_for_times(times, SEEK)?;
            match found.elements().first().map(rdkafka::topic_partition_list::TopicPartitionListElem::offset) {
                Some(offset @ Offset::Offset(_)) => Ok(offset),
                _ => resolve(consumer, partition, Start::Latest),
            }
        }
    }
}

fn run(consumer: Arc<BaseConsumer<Context>>) {
    let context = Arc::clone(consumer.context());
    let mut topic = TopicName::default();
    while !context.lanes().leaving {
        while let Ok(command) = context.commands.try_recv() {
            context.carry_out(&consumer, command);
        }
        context.lanes().seek_what_is_wanted(&consumer);
        if !context.gate.wait_open(POLL) {
            continue;
        }
        match consumer.poll(POLL) {
            None => {}
            Some(Ok(message)) => context.arrived(&message, &mut topic),
            Some(Err(KafkaError::PartitionEOF(number))) => context.at_end(number),
            Some(Err(error)) => context.failed(&consumer, &error),
        }
    }
    // Closing serves the last revocation and leaves the group.
    drop(consumer);
    (context.sink)(MemberEvent::Left);
}

/// The name of the topic seen last, shared by all that came from it.
#[derive(Default)]
struct TopicName(Option<Arc<str>>);

impl TopicName {
    fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.as_ref().filter(|known| ***known == *name) {
            return Arc::clone(known);
        }
        let fresh: Arc<str> = Arc::from(name);
        self.0 = Some(Arc::clone(&fresh));
        fresh
    }
}

fn detach(message: &BorrowedMessage<'_>) -> Arrived {
    let headers = match message.headers() {
        None => Some(Vec::new()),
        // The client library panics on a name that is not UTF-8, and nothing keeps a producer from sending one.
        Some(headers) => shielded(|| {
            headers
                .iter()
                .map(|header| Header { name: header.key.to_owned(), value: header.value.map(<[u8]>::to_vec) })
                .collect()
        }),
    };
    let timestamp = match message.timestamp() {
        KafkaTimestamp::NotAvailable => None,
        KafkaTimestamp::CreateTime(millis) | KafkaTimestamp::LogAppendTime(millis) => {
            Some(Timestamp::from_millis(millis))
        }
    };
    Arrived {
        key: message.key().map(Box::from),
        value: message.payload().map(Box::from),
        headers_unreadable: headers.is_none(),
        headers: headers.unwrap_or_default(),
        timestamp,
    }
}

fn partitions_of(list: &TopicPartitionList) -> BTreeSet<PartitionId> {
    list.elements().iter().map(|element| PartitionId::new(element.topic(), element.partition())).collect()
}

fn list_of(partitions: &BTreeSet<PartitionId>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition(&partition.topic, partition.number);
    }
    list
}

fn report(result: KafkaResult<()>, what: &str) {
    if let Err(error) = result {
        tracing::warn!(%error, "{what}");
    }
}
