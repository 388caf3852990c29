//! A consumer that belongs to a group, on its own polling thread.
//!
//! Records, assignments, revocations, ends of partitions and failures leave in one order, through one sink. The
//! owner answers with [`Command`]s. A partition that is assigned is not read before the owner names an offset
//! ([`Command::Seek`]); a partition that is revoked leaves only after [`Command::RevokeDone`]: the callback waits for
//! it on the polling thread, so that what the owner commits meanwhile still counts for this member's generation.
//!
//! Partitions are added to the client's own assignment at their first seek and removed only inside the revocation
//! callback: removing them at any other moment could answer a revocation that the owner has not seen yet.

mod arrived;
mod identity;
mod lanes;
mod membership;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, select, unbounded};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, TopicPartitionList};

pub use self::arrived::Arrived;
use self::arrived::TopicName;
pub(super) use self::arrived::detach;
use self::identity::member_id;
use self::lanes::{Lane, Lanes, list_of, partitions_of, report};
pub use self::membership::Membership;
use super::client::{log_error, log_line};
use super::gate::{Gate, Held};
use super::pulse::{Pulse, retire};
use crate::record::{PartitionId, Timestamp};

/// How long one poll waits: also how long a command may wait for the polling thread.
const POLL: Duration = Duration::from_millis(20);

/// How long a seek may take before it is tried again.
const SEEK: Duration = Duration::from_millis(500);

/// How long a revocation waits for the owner at the most. The group's own limit is `max.poll.interval.ms` (5 min).
const REVOKE_PATIENCE: Duration = Duration::from_mins(1);

/// What a member reports.
#[derive(Debug)]
pub enum MemberEvent {
    /// Whether any broker answers, when that changes.
    Reaches(bool),
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
    /// Reading begins here. Comes before the first record that carries this serial number.
    Started {
        /// Which partition.
        partition: PartitionId,
        /// The serial number of the seek.
        serial: u64,
        /// The first offset that may come.
        offset: i64,
    },
    /// The partition does not hold the offset that comes next: nothing comes until it is sought anew.
    OutOfRange {
        /// Which partition.
        partition: PartitionId,
        /// The serial number of the seek that it follows.
        serial: u64,
        /// The offset that comes next.
        offset: i64,
        /// First offset that it holds.
        first: i64,
        /// Behind the last one.
        end: i64,
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
    /// The place in the group that offsets are sent under from now on.
    Renewed(Membership),
    /// [`Command::Pause`] was carried out: of its partitions no record comes behind this.
    Paused,
    /// The group is left and the thread at its end.
    Left,
    /// The consumer is beyond repair.
    Failed(String),
    /// Another process of the same name has taken its place in the group, and why it is known.
    Fenced(String),
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
    /// Leave the group and join it again, so that it divides the partitions anew.
    Rejoin,
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
    /// Called whenever the polling thread has come round, brokers or not.
    pub moved: Box<dyn Fn() + Send>,
}

impl MemberSettings {
    fn topics(&self) -> Vec<&str> {
        self.topics.iter().map(String::as_str).collect()
    }
}

/// The owner's end of a member. Dropping it leaves the group without waiting.
pub struct Member {
    commands: Sender<Command>,
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
        let thread = settings.thread.clone();
        let shared = Arc::new(Shared {
            sink: Box::new(sink),
            commands,
            lanes: Mutex::new(Lanes::default()),
            gate: Arc::clone(&settings.gate),
        });
        let consumer = subscribe(&settings, &shared)?;
        let thread = std::thread::Builder::new()
            .name(thread)
            .spawn(move || run(&settings, &shared, consumer))
            .map_err(|error| KafkaError::ClientCreation(format!("no thread for the consumer: {error}")))?;
        Ok(Self { commands: sender, thread: Some(thread) })
    }

    /// Hands a command to the polling thread.
    pub fn command(&self, command: Command) {
        // A thread that has ended has nothing left to do.
        let _ = self.commands.send(command);
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

/// What outlives a single client: the lanes, and the way to the owner.
struct Shared {
    sink: Box<dyn Fn(MemberEvent) + Send + Sync>,
    commands: Receiver<Command>,
    lanes: Mutex<Lanes>,
    gate: Arc<Gate>,
}

/// Of one client. A client that was replaced says nothing any more.
struct Context {
    shared: Arc<Shared>,
    retired: AtomicBool,
    /// The consumer whose context this is.
    this: OnceLock<Weak<BaseConsumer<Context>>>,
}

impl Deref for Context {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Context {
    fn this(&self) -> Weak<BaseConsumer<Self>> {
        self.this.get().cloned().unwrap_or_default()
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }
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
        if self.is_retired() {
            report(consumer.incremental_unassign(&list_of(&partitions)), "unassign");
        } else if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assigned(consumer, &partitions);
        } else {
            self.revoked(consumer, &partitions);
        }
    }
}

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn assigned(&self, consumer: &BaseConsumer<Context>, partitions: &BTreeSet<PartitionId>) {
        // Tells the client that the assignment is taken; the partitions themselves follow at their first seek.
        if let Err(error) = consumer.incremental_assign(&TopicPartitionList::new()) {
            tracing::warn!(%error, "assignment not taken");
        }
        self.notice_expulsion(consumer, &BTreeSet::new());
        for partition in partitions {
            self.lanes().by_partition.insert(partition.clone(), Lane::default());
        }
        if !partitions.is_empty() {
            (self.sink)(MemberEvent::Assigned(partitions.clone()));
        }
    }

    /// Reports the loss of everything where we were expelled and came back as somebody else, and what we have again, but
    /// for the partitions that go now. Says whether it was so.
    ///
    /// librdkafka (2.12 and before) notices when a heartbeat is refused, and tells us; but not when we are expelled while we
    /// ask to join. A static member then gets another id, and claims what others may have read meanwhile, in their
    /// generation.
    fn notice_expulsion(&self, consumer: &BaseConsumer<Context>, going: &BTreeSet<PartitionId>) -> bool {
        let id = member_id(consumer.client());
        let mut lanes = self.lanes();
        let before = std::mem::replace(&mut lanes.member, id);
        let held: BTreeSet<PartitionId> = lanes.by_partition.keys().cloned().collect();
        if before == lanes.member || held.is_empty() {
            return false;
        }
        // At once with the id: no place of before is good under it.
        lanes.losses += 1;
        let started = lanes.close_all();
        drop(lanes);
        tracing::warn!("the group has expelled this member and taken it in again: it begins anew where others stopped");
        report(consumer.pause(&started), "pause");
        self.tell_of_loss(consumer, &held);
        let kept = &held - going;
        if !kept.is_empty() {
            (self.sink)(MemberEvent::Assigned(kept));
        }
        true
    }

    fn revoked(&self, consumer: &BaseConsumer<Context>, partitions: &BTreeSet<PartitionId>) {
        let leaving = self.lanes().leaving;
        if !partitions.is_empty() && !leaving {
            if consumer.assignment_lost() {
                self.lost(consumer, partitions);
            } else if !self.notice_expulsion(consumer, partitions) {
                // What the owner said before it hears of this answers nothing.
                while let Ok(command) = self.commands.try_recv() {
                    self.carry_out(consumer, command);
                }
                (self.sink)(MemberEvent::Revoked(partitions.clone()));
                self.wait_for_owner(consumer, partitions);
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

    fn lost(&self, consumer: &BaseConsumer<Context>, partitions: &BTreeSet<PartitionId>) {
        self.lanes().losses += 1;
        self.tell_of_loss(consumer, partitions);
    }

    fn tell_of_loss(&self, consumer: &BaseConsumer<Context>, partitions: &BTreeSet<PartitionId>) {
        if !partitions.is_empty() {
            (self.sink)(MemberEvent::Lost(partitions.clone()));
        }
        self.renew(consumer);
    }

    /// Hands over the place in the group as it is now.
    fn renew(&self, consumer: &BaseConsumer<Context>) {
        let losses = self.lanes().losses;
        (self.sink)(MemberEvent::Renewed(Membership {
            consumer: consumer.context().this(),
            losses,
            ..Membership::default()
        }));
    }

    /// Serves commands until the owner lets the revoked partitions go.
    fn wait_for_owner(&self, consumer: &BaseConsumer<Context>, partitions: &BTreeSet<PartitionId>) {
        let patience = after(REVOKE_PATIENCE);
        loop {
            let command = select! {
                recv(self.commands) -> command => command.unwrap_or(Command::Leave),
                recv(patience) -> _ => {
                    tracing::error!(after = ?REVOKE_PATIENCE, "a revocation was not answered in time");
                    self.lanes().overdue += 1;
                    self.lost(consumer, partitions);
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
    fn carry_out(&self, consumer: &BaseConsumer<Context>, command: Command) -> bool {
        let mut lanes = self.lanes();
        match command {
            Command::Seek(partition, start, serial) => {
                if let Some(lane) = lanes.by_partition.get_mut(&partition) {
                    lane.open = None;
                    lane.wanted = Some((start, serial));
                }
                drop(lanes);
                self.seek_what_is_wanted(consumer);
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
                (self.sink)(MemberEvent::Paused);
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
            // Not here: this may be the answer to a revocation.
            Command::Rejoin => lanes.rejoins = true,
            Command::Leave => lanes.leaving = true,
        }
        true
    }

    fn seek_what_is_wanted(&self, consumer: &BaseConsumer<Context>) {
        let started = self.lanes().seek_what_is_wanted(consumer);
        for (partition, serial, offset) in started {
            (self.sink)(MemberEvent::Started { partition, serial, offset });
        }
    }

    fn arrived(&self, message: &BorrowedMessage<'_>, topic: &mut TopicName) {
        let partition = PartitionId::new(topic.shared(message.topic()), message.partition());
        let serial = self.lanes().by_partition.get_mut(&partition).and_then(|lane| lane.passed(message.offset()));
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

    fn failed(&self, consumer: &BaseConsumer<Context>, error: &KafkaError) {
        let denied = [RDKafkaErrorCode::TopicAuthorizationFailed, RDKafkaErrorCode::GroupAuthorizationFailed];
        let code = error.rdkafka_error_code();
        let event = if matches!(error, KafkaError::MessageConsumptionFatal(_)) {
            let fatal = consumer.client().fatal_error().map(|(code, _)| code);
            if [code, fatal].contains(&Some(RDKafkaErrorCode::FencedInstanceId)) {
                MemberEvent::Fenced(format!(
                    "another process runs with the same input.group and input.instance_id, and has taken over the place in the \
                     group: give each instance an instance_id of its own ({error})"
                ))
            } else {
                MemberEvent::Failed(format!("the consumer is beyond repair: {error}"))
            }
        } else if code == Some(RDKafkaErrorCode::AutoOffsetReset) {
            return self.out_of_range(consumer);
        } else if code.is_some_and(|code| denied.contains(&code)) {
            MemberEvent::Failed(format!("the cluster does not let us read: {error}"))
        } else {
            // The network, a leader on the move: the client goes on by itself, and logs it.
            tracing::debug!(%error, "consumer");
            return;
        };
        (self.sink)(event);
    }

    /// Some partition does not hold the offset that comes next. The client library does not say which: those are found
    /// that do not. The others go on.
    fn out_of_range(&self, consumer: &BaseConsumer<Context>) {
        let open = |(partition, lane): (&PartitionId, &Lane)| Some((partition.clone(), lane.open?, lane.next));
        let open: Vec<(PartitionId, u64, i64)> = self.lanes().by_partition.iter().filter_map(open).collect();
        let mut found = false;
        for (partition, serial, offset) in &open {
            match consumer.fetch_watermarks(&partition.topic, partition.number, SEEK) {
                Ok((first, end)) if *offset < first || end < *offset => {
                    found = true;
                    self.lanes().by_partition.entry(partition.clone()).and_modify(|lane| lane.open = None);
                    let (partition, serial, offset) = (partition.clone(), *serial, *offset);
                    (self.sink)(MemberEvent::OutOfRange { partition, serial, offset, first, end });
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%partition, %error, "whether it is out of range is not known"),
            }
        }
        if !found {
            // The partition has changed since, or does not answer: each is read again from where it stands.
            tracing::warn!("the client library found an offset out of range, and no partition's is: sought anew");
            for (partition, serial, offset) in open {
                let again = |lane: &mut Lane| lane.wanted = Some((Start::Offset(offset), serial));
                self.lanes().by_partition.entry(partition).and_modify(again);
            }
        }
    }
}

fn subscribe(settings: &MemberSettings, shared: &Arc<Shared>) -> Result<Arc<BaseConsumer<Context>>, KafkaError> {
    let context = Context { shared: Arc::clone(shared), retired: AtomicBool::new(false), this: OnceLock::new() };
    let consumer: Arc<BaseConsumer<Context>> = Arc::new(settings.config.create_with_context(context)?);
    // A consumer has one context, made one line above.
    let _ = consumer.context().this.set(Arc::downgrade(&consumer));
    consumer.subscribe(&settings.topics())?;
    Ok(consumer)
}

fn run(settings: &MemberSettings, shared: &Arc<Shared>, mut consumer: Arc<BaseConsumer<Context>>) {
    let mut topic = TopicName::default();
    let named = settings.topics.first().filter(|topic| !topic.starts_with('^'));
    let (mut pulse, mut reaches) = (Pulse::new(), true);
    shared.renew(&consumer);
    while !shared.lanes().leaving {
        (settings.moved)();
        while let Ok(command) = shared.commands.try_recv() {
            shared.carry_out(&consumer, command);
        }
        if std::mem::take(&mut shared.lanes().rejoins) {
            // A member that ends its subscription leaves at once, a static one too: what it owns is revoked first.
            consumer.unsubscribe();
            report(consumer.subscribe(&settings.topics()), "joining anew");
        }
        shared.seek_what_is_wanted(&consumer);
        // Asked for one topic: the metadata of all topics of a large cluster takes longer than an answer may.
        let owned = || shared.lanes().by_partition.keys().next().map(|partition| partition.topic.to_string());
        if pulse.is_lost(consumer.client(), || named.cloned().or_else(owned)) {
            pulse.begin_anew();
            consumer = replace(settings, shared, consumer);
        } else if pulse.answers() != reaches {
            reaches = pulse.answers();
            (shared.sink)(MemberEvent::Reaches(reaches));
        }
        if !shared.gate.wait_open(POLL) {
            continue;
        }
        match consumer.poll(POLL) {
            None => {}
            Some(Ok(message)) => shared.arrived(&message, &mut topic),
            Some(Err(KafkaError::PartitionEOF(number))) => shared.at_end(number),
            Some(Err(error)) => shared.failed(&consumer, &error),
        }
    }
    // Closing serves the last revocation and leaves the group.
    drop(consumer);
    (shared.sink)(MemberEvent::Left);
}

/// Puts a new client in the place of one that has lost its brokers. What it owned is lost.
fn replace(
    settings: &MemberSettings,
    shared: &Arc<Shared>,
    old: Arc<BaseConsumer<Context>>,
) -> Arc<BaseConsumer<Context>> {
    tracing::warn!(thread = settings.thread, "no broker answers this consumer: a new one takes its place");
    let fresh = match subscribe(settings, shared) {
        Ok(fresh) => fresh,
        Err(error) => {
            tracing::error!(%error, "no new consumer");
            return old;
        }
    };
    old.context().retired.store(true, Ordering::Release);
    let owned = std::mem::take(&mut shared.lanes().by_partition);
    shared.lost(&fresh, &owned.into_keys().collect());
    retire(old);
    fresh
}

#[cfg(test)]
mod tests;
