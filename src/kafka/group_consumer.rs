//! A consumer that belongs to a group, on a separate polling thread.
//!
//! Records, assignments, revocations, ends of partitions and failures reach the owner in one order, through one sink.
//! The owner answers with [`Command`]s. An assigned partition is not read before the owner names an offset
//! ([`Command::Seek`]). A revoked partition is released only after [`Command::RevokeDone`]: the revocation callback
//! waits for it on the polling thread, so that what the owner commits meanwhile still counts for this member's
//! generation.
//!
//! A paused partition hands nothing over. What the client has fetched of it is held back until the partition is resumed,
//! because pausing the client drops all that: it would be fetched and unpacked again. The client is paused only when
//! [`HELD_BACK_BYTES`] are held back.
//!
//! Partitions are added to the client's own assignment at their first seek and removed only inside the revocation
//! callback: removing them at any other moment could acknowledge a revocation that the owner has not seen yet.

mod events;
mod fetch_states;
mod membership;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, select, unbounded};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, TopicPartitionList};

use self::events::TopicName;
pub(super) use self::events::detach;
pub use self::events::{Command, ConsumedRecord, ConsumerEvent, CutValue, Start};
use self::fetch_states::{FetchState, FetchStates, partitions_of, report};
use self::membership::member_id;
pub(super) use self::membership::share_of;
pub use self::membership::{Membership, UnassignedPartitions};
use super::budget::ByteBudget;
use super::client::LoggingContext;
use super::partition_list::list_of;
use super::renewed_client::{RenewedClient, known_end, read_up_to};
use crate::record::PartitionId;

/// How long one poll waits: also how long a command may wait for the polling thread.
const POLL: Duration = Duration::from_millis(20);

/// How long a seek may take before it is tried again.
const SEEK: Duration = Duration::from_millis(500);

/// Maximum time that a revocation waits for the owner. The group's own limit is `max.poll.interval.ms` (5 min).
const REVOKE_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes of records of paused partitions that are held back before the client is paused, too.
const HELD_BACK_BYTES: usize = 32 << 20;

/// The group to join, and the settings.
pub struct GroupConsumerSettings {
    pub config: ClientConfig,
    /// Topics, or one pattern that starts with `^`.
    pub topics: Vec<String>,
    /// Name of the polling thread.
    pub thread: String,
    /// Bounds the bytes in flight to the owner; the thread reads nothing while it is full.
    pub budget: Arc<ByteBudget>,
    /// Called at each round of the polling thread, with or without brokers.
    pub moved: Box<dyn Fn() + Send>,
}

/// The owner's handle of a group member. Dropping it leaves the group without waiting.
pub struct GroupConsumer {
    commands: Sender<Command>,
    thread: Option<JoinHandle<()>>,
}

impl GroupConsumer {
    /// Joins the group. All events go to `sink`, on the polling thread.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings, or the thread cannot be started.
    pub fn join(
        settings: GroupConsumerSettings,
        sink: impl Fn(ConsumerEvent) + Send + Sync + 'static,
    ) -> Result<Self, KafkaError> {
        let (sender, commands) = unbounded();
        let thread = settings.thread.clone();
        let shared = Arc::new(Shared {
            sink: Box::new(sink),
            commands,
            fetch_states: Mutex::new(FetchStates::default()),
            budget: Arc::clone(&settings.budget),
            held_back: ByteBudget::new(HELD_BACK_BYTES),
            has_one_topic: matches!(&settings.topics[..], [name] if !name.starts_with('^')),
            is_unreadable_logged: AtomicBool::new(false),
        });
        let create = {
            let (config, topics, shared) = (settings.config.clone(), settings.topics.clone(), Arc::clone(&shared));
            move || subscribed(&config, &topics, &shared)
        };
        let consumer = RenewedClient::new(settings.thread.clone(), create)?;
        let thread = std::thread::Builder::new()
            .name(thread)
            .spawn(move || run(&settings, &shared, consumer))
            .map_err(|error| KafkaError::ClientCreation(format!("failed to start the consumer's thread: {error}")))?;
        Ok(Self { commands: sender, thread: Some(thread) })
    }

    /// Hands a command to the polling thread.
    pub fn command(&self, command: Command) {
        // An ended thread has nothing left to do.
        let _ = self.commands.send(command);
    }

    /// Returns whether the member has left the group and the thread has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for GroupConsumer {
    fn drop(&mut self) {
        self.command(Command::Leave);
    }
}

/// State that outlives a single client: how far each partition was read, and the channel to the owner.
struct Shared {
    sink: Box<dyn Fn(ConsumerEvent) + Send + Sync>,
    commands: Receiver<Command>,
    fetch_states: Mutex<FetchStates>,
    budget: Arc<ByteBudget>,
    /// Counts the bytes of records of paused partitions.
    held_back: Arc<ByteBudget>,
    /// Whether the group reads one named topic.
    has_one_topic: bool,
    /// Whether it was logged that a batch cannot be unpacked: the client tries again and again.
    is_unreadable_logged: AtomicBool,
}

/// Context of one client of the group.
type Context = LoggingContext<MemberContext>;

/// The event handler of one client; a replaced client's events are ignored.
struct MemberContext {
    shared: Arc<Shared>,
    retired: AtomicBool,
    /// The consumer whose context this is.
    this: OnceLock<Weak<BaseConsumer<Context>>>,
}

impl Deref for MemberContext {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl MemberContext {
    fn this(&self) -> Weak<BaseConsumer<Context>> {
        self.this.get().cloned().unwrap_or_default()
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
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
    fn fetch_states(&self) -> MutexGuard<'_, FetchStates> {
        self.fetch_states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn assigned(&self, consumer: &BaseConsumer<Context>, partitions: &BTreeSet<PartitionId>) {
        // Acknowledges the assignment; the partitions themselves follow at their first seek.
        if let Err(error) = consumer.incremental_assign(&TopicPartitionList::new()) {
            tracing::warn!(target: "dupgate::kafka", %error, "failed to acknowledge the assignment");
        }
        self.notice_expulsion(consumer, &BTreeSet::new());
        for partition in partitions {
            self.fetch_states().by_partition.insert(partition.clone(), FetchState::default());
        }
        if !partitions.is_empty() {
            (self.sink)(ConsumerEvent::Assigned(partitions.clone()));
        }
    }

    /// Detects that this member was expelled and has rejoined under another id. If so, reports the loss of all its
    /// partitions, then the assignment of those that it has again, without `going`, which are being revoked. Returns
    /// whether this was the case.
    ///
    /// librdkafka (2.12 and before) reports an expulsion when a heartbeat is refused, but not when it happens during a
    /// join. A static member then gets another id, and in the new generation it keeps claiming partitions that others
    /// may have read meanwhile.
    fn notice_expulsion(&self, consumer: &BaseConsumer<Context>, going: &BTreeSet<PartitionId>) -> bool {
        let id = member_id(consumer.client());
        let mut fetch_states = self.fetch_states();
        let before = std::mem::replace(&mut fetch_states.member, id);
        let held: BTreeSet<PartitionId> = fetch_states.by_partition.keys().cloned().collect();
        if before == fetch_states.member || held.is_empty() {
            return false;
        }
        // Under the same lock as the new id, so that no earlier membership is valid with it.
        fetch_states.loss_epoch += 1;
        let started = fetch_states.close_all();
        drop(fetch_states);
        tracing::warn!(target: "dupgate::kafka", "member id changed: treating all partitions as lost");
        report(consumer.pause(&started), "pause");
        self.report_loss(consumer, &held);
        let kept = &held - going;
        if !kept.is_empty() {
            (self.sink)(ConsumerEvent::Assigned(kept));
        }
        true
    }

    fn revoked(&self, consumer: &BaseConsumer<Context>, partitions: &BTreeSet<PartitionId>) {
        let leaving = self.fetch_states().leaving;
        if !partitions.is_empty() && !leaving {
            if consumer.assignment_lost() {
                self.lost(consumer, partitions);
            } else if !self.notice_expulsion(consumer, partitions) {
                // Perform earlier commands first: the owner sent them before it heard of this revocation, so they
                // cannot answer it.
                while let Ok(command) = self.commands.try_recv() {
                    self.perform(consumer, command);
                }
                (self.sink)(ConsumerEvent::Revoked(partitions.clone()));
                self.wait_for_owner(consumer, partitions);
            }
        }
        let mut fetch_states = self.fetch_states();
        let mut started = |partition| fetch_states.by_partition.remove(partition).is_some_and(|found| found.started);
        let gone = list_of(partitions.iter().filter(|partition| started(*partition)));
        drop(fetch_states);
        if let Err(error) = consumer.incremental_unassign(&gone) {
            tracing::warn!(target: "dupgate::kafka", %error, "failed to acknowledge the revocation");
        }
    }

    fn lost(&self, consumer: &BaseConsumer<Context>, partitions: &BTreeSet<PartitionId>) {
        self.fetch_states().loss_epoch += 1;
        self.report_loss(consumer, partitions);
    }

    /// Lets a new client take over from one that has lost its brokers, and reports all partitions as lost.
    fn replaced(&self, old: &BaseConsumer<Context>, fresh: &BaseConsumer<Context>) {
        old.context().retired.store(true, Ordering::Release);
        let owned = std::mem::take(&mut self.fetch_states().by_partition);
        self.lost(fresh, &owned.into_keys().collect());
    }

    fn report_loss(&self, consumer: &BaseConsumer<Context>, partitions: &BTreeSet<PartitionId>) {
        if !partitions.is_empty() {
            (self.sink)(ConsumerEvent::Lost(partitions.clone()));
        }
        self.renew(consumer);
    }

    /// Sends the current group membership to the owner.
    fn renew(&self, consumer: &BaseConsumer<Context>) {
        let loss_epoch = self.fetch_states().loss_epoch;
        (self.sink)(ConsumerEvent::Renewed(Membership {
            consumer: consumer.context().this(),
            loss_epoch,
            ..Membership::default()
        }));
    }

    /// Performs commands until the owner releases the revoked partitions, or for at most [`REVOKE_TIMEOUT`].
    fn wait_for_owner(&self, consumer: &BaseConsumer<Context>, partitions: &BTreeSet<PartitionId>) {
        let timeout = after(REVOKE_TIMEOUT);
        loop {
            let command = select! {
                recv(self.commands) -> command => command.unwrap_or(Command::Leave),
                recv(timeout) -> _ => {
                    tracing::error!(
                        target: "dupgate::kafka",
                        after = ?REVOKE_TIMEOUT, "the owner did not answer a revocation in time"
                    );
                    self.fetch_states().overdue += 1;
                    self.lost(consumer, partitions);
                    return;
                }
            };
            let done = matches!(command, Command::RevokeDone | Command::Leave);
            if self.perform(consumer, command) && done {
                return;
            }
        }
    }

    /// Performs a command. Returns `false` for an answer to an overdue revocation, which must not count as the answer
    /// to a later one.
    fn perform(&self, consumer: &BaseConsumer<Context>, command: Command) -> bool {
        let mut fetch_states = self.fetch_states();
        match command {
            Command::Seek(partition, start, serial) => {
                if let Some(fetch_state) = fetch_states.by_partition.get_mut(&partition) {
                    fetch_state.close();
                }
                fetch_states.want_seek(&partition, start, serial);
            }
            Command::Close(partition) => {
                if let Some(fetch_state) = fetch_states.by_partition.get_mut(&partition) {
                    fetch_state.close();
                    fetch_state.wanted = None;
                    if fetch_state.started {
                        fetch_state.is_client_paused = true;
                        report(consumer.pause(&list_of([partition])), "pause");
                    }
                }
            }
            Command::Pause(partitions) => {
                fetch_states.pause(&partitions);
                (self.sink)(ConsumerEvent::Paused);
            }
            Command::Resume(partitions) => {
                let (held_back, paused) = fetch_states.resume(&partitions);
                held_back.into_iter().for_each(&self.sink);
                report(consumer.resume(&paused), "resume");
            }
            Command::RevokeDone => {
                if fetch_states.overdue > 0 {
                    fetch_states.overdue -= 1;
                    return false;
                }
            }
            // The polling loop rejoins: this function may run inside a revocation callback.
            Command::Rejoin => fetch_states.rejoins = true,
            Command::Leave => fetch_states.leaving = true,
        }
        true
    }

    fn seek_what_is_wanted(&self, consumer: &BaseConsumer<Context>) {
        let started = self.fetch_states().seek_what_is_wanted(consumer);
        for (partition, serial, offset) in started {
            (self.sink)(ConsumerEvent::Started { partition, serial, offset });
        }
    }

    fn arrived(&self, consumer: &BaseConsumer<Context>, message: &BorrowedMessage<'_>, topic: &mut TopicName) {
        let partition = PartitionId::new(topic.shared(message.topic()), message.partition());
        let mut fetch_states = self.fetch_states();
        let Some(fetch_state) = fetch_states.by_partition.get_mut(&partition) else { return };
        let is_paused = fetch_state.is_paused;
        let Some(serial) = fetch_state.passed(message.offset()) else { return };
        drop(fetch_states);
        let record = detach(message);
        let budget = if is_paused { &self.held_back } else { &self.budget };
        let permit = budget.hold(record.bytes() + size_of::<ConsumedRecord>());
        let event =
            ConsumerEvent::Record { partition: partition.clone(), offset: message.offset(), serial, record, permit };
        self.hand_over(&partition, event);
        if is_paused && !self.held_back.wait_for_room(Duration::ZERO) {
            let paused = self.fetch_states().pause_client();
            report(consumer.pause(&paused), "pause");
        }
    }

    /// Hands an event of a partition over, or holds it back while the partition is paused.
    fn hand_over(&self, partition: &PartitionId, event: ConsumerEvent) {
        let mut fetch_states = self.fetch_states();
        match fetch_states.by_partition.get_mut(partition) {
            Some(fetch_state) if fetch_state.is_paused => fetch_state.held_back.push(event),
            Some(_) | None => {
                drop(fetch_states);
                (self.sink)(event);
            }
        }
    }

    /// Reports the end of a partition. The client names only the partition's number: if several topics have such a
    /// partition, those count that were handed over completely. A partition whose end is missed here becomes idle soon.
    fn at_end(&self, consumer: &BaseConsumer<Context>, number: i32) {
        let fetch_states = self.fetch_states();
        let is_sure = fetch_states.of_number(number).count() == 1;
        let open = |(partition, fetch_state): (&PartitionId, &FetchState)| {
            Some((partition.clone(), fetch_state.open?, fetch_state.next))
        };
        let open: Vec<(PartitionId, u64, i64)> = fetch_states.of_number(number).filter_map(open).collect();
        drop(fetch_states);
        for (partition, serial, next) in open {
            let offset = read_up_to(consumer.client(), &partition, next);
            if is_sure || known_end(consumer.client(), &partition).is_some_and(|end| offset >= end) {
                self.hand_over(&partition.clone(), ConsumerEvent::AtEnd { partition, serial, offset });
            }
        }
    }

    fn failed(&self, consumer: &BaseConsumer<Context>, error: &KafkaError) {
        let denied = [RDKafkaErrorCode::TopicAuthorizationFailed, RDKafkaErrorCode::GroupAuthorizationFailed];
        let code = error.rdkafka_error_code();
        let event = if matches!(error, KafkaError::MessageConsumptionFatal(_)) {
            let fatal = consumer.client().fatal_error().map(|(code, _)| code);
            if [code, fatal].contains(&Some(RDKafkaErrorCode::FencedInstanceId)) {
                ConsumerEvent::Fenced(format!(
                    "another process runs with the same input.group and input.instance_id, and has taken over this instance's place in the \
                     group: give each instance a separate instance_id ({error})"
                ))
            } else {
                ConsumerEvent::Failed(format!("the consumer failed for good: {error}"))
            }
        } else if code == Some(RDKafkaErrorCode::AutoOffsetReset) {
            return self.start_sweep();
        } else if code == Some(RDKafkaErrorCode::TopicAuthorizationFailed) && self.start_probes() {
            return;
        } else if code.is_some_and(|code| denied.contains(&code)) {
            ConsumerEvent::Failed(format!("the cluster does not let us read: {error}"))
        } else if matches!(code, Some(RDKafkaErrorCode::BadCompression | RDKafkaErrorCode::BadMessage))
            && !self.is_unreadable_logged.swap(true, Ordering::Relaxed)
        {
            tracing::error!(
                target: "dupgate::kafka",
                "failed to unpack a batch of the input: {error}; its partition stands still. The client reads no batch that \
                 unpacks to more than receive.message.max.bytes (kafka.consumer_properties), 100000000 by default: raise it, \
                 or let the writers of the input limit their batches"
            );
            return;
        } else {
            // The network or a leader election: the client continues by itself, and logs it.
            tracing::debug!(target: "dupgate::kafka", %error, "consumer error");
            return;
        };
        (self.sink)(event);
    }

    /// Hands over no more records of a partition.
    fn close(&self, partition: &PartitionId) {
        self.fetch_states().by_partition.entry(partition.clone()).and_modify(|fetch_state| fetch_state.open = None);
    }
}

/// A consumer that has subscribed.
type Subscribed = Arc<BaseConsumer<Context>>;

fn subscribed(config: &ClientConfig, topics: &[String], shared: &Arc<Shared>) -> Result<Subscribed, KafkaError> {
    let context = MemberContext { shared: Arc::clone(shared), retired: AtomicBool::new(false), this: OnceLock::new() };
    let consumer: Subscribed = Arc::new(config.create_with_context(LoggingContext(context))?);
    // The context was created one line above, so its consumer is not set yet.
    let _ = consumer.context().this.set(Arc::downgrade(&consumer));
    subscribe(&consumer, topics)?;
    Ok(consumer)
}

fn subscribe(consumer: &BaseConsumer<Context>, topics: &[String]) -> Result<(), KafkaError> {
    consumer.subscribe(&topics.iter().map(String::as_str).collect::<Vec<_>>())
}

fn run(settings: &GroupConsumerSettings, shared: &Shared, mut consumer: RenewedClient<Subscribed>) {
    let mut topic = TopicName::default();
    let named = settings.topics.first().filter(|topic| !topic.starts_with('^'));
    let mut reaches = true;
    let mut probe = None;
    shared.renew(&consumer);
    while !shared.fetch_states().leaving {
        (settings.moved)();
        while let Ok(command) = shared.commands.try_recv() {
            shared.perform(&consumer, command);
        }
        if std::mem::take(&mut shared.fetch_states().rejoins) {
            // Unsubscribing makes a member leave at once, even a static one; its partitions are revoked first.
            consumer.unsubscribe();
            report(subscribe(&consumer, &settings.topics), "rejoining");
        }
        shared.seek_what_is_wanted(&consumer);
        shared.sweep(&consumer);
        shared.probe(&settings.config, &mut probe);
        // Request one topic only: metadata of all topics of a large cluster would time out.
        let owned = || shared.fetch_states().by_partition.keys().next().map(|partition| partition.topic.to_string());
        let take_over = |old: &Subscribed, fresh: &Subscribed| {
            shared.replaced(old, fresh);
            Ok(())
        };
        let is_replaced = consumer.replace_if_lost(|| named.cloned().or_else(owned), take_over)
            || consumer.replace_if_stalled(|| shared.fetch_states().positions(), take_over);
        if !is_replaced && consumer.answers() != reaches {
            reaches = consumer.answers();
            (shared.sink)(ConsumerEvent::Reaches(reaches));
        }
        if !shared.budget.wait_for_room(POLL) {
            continue;
        }
        match consumer.poll(POLL) {
            None => consumer.drained(),
            Some(Ok(message)) => shared.arrived(&consumer, &message, &mut topic),
            Some(Err(KafkaError::PartitionEOF(number))) => shared.at_end(&consumer, number),
            Some(Err(error)) => shared.failed(&consumer, &error),
        }
    }
    // A static member stays, so that its next process finds its partitions. Closing does not make a dynamic member leave
    // that has no partitions (librdkafka 2.12 and before): the next rebalance would wait until its session has ended.
    if settings.config.get("group.instance.id").is_none() {
        consumer.unsubscribe();
    }
    // Closing serves the last revocation, and waits until the member has left.
    drop(consumer);
    (shared.sink)(ConsumerEvent::Left);
}

#[cfg(test)]
mod tests;
