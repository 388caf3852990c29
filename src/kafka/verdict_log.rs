//! A reader that follows partitions of the verdict log, on a separate thread.
//!
//! The reader assigns its partitions manually, reads only committed records, and hands over whole records in order. It
//! serves one purpose at a time: a new [`FollowCommand::From`] replaces the previous one of its partition, and every event
//! carries the serial number of its command, so that the owner recognises late events. Requests for the end are numbered
//! for the same reason.
//!
//! All partitions share one client, since each client costs threads, connections and buffers. Each has a queue of its own
//! there, so what arrives, and every error, belongs to one partition, and is limited apart from the others. Nothing here
//! waits for a broker on behalf of one partition while others are read, except to find a lost client, and to report a
//! judge's missing barrier.
//!
//! Records that dupgate has not written are skipped. A record that dupgate has written and that cannot be read stops
//! the reader, because it may hold verdicts. Only an operator can let readers pass it ([`Passing`]): they continue at the
//! next checkpoint, which holds all that is judged.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, after, select, tick, unbounded};
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{ClientConfig, Offset};

use super::budget::{ByteBudget, Permit};
use super::client::LoggingContext;
use super::offsets::Offsets;
use super::partition_list::{list_at, list_of};
use super::renewed_client::{Positions, RenewedClient, known_end};
use crate::protocol::{BARRIER, CodecError, VerdictOffset, VerdictReader, VerdictRecord, is_ours};
use crate::record::{PartitionId, Timestamp};

const POLL: Duration = Duration::from_millis(20);
const IDLE: Duration = Duration::from_secs(1);
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of log lines while waiting for a barrier.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// Interval of log lines about skipped records of other producers.
const FOREIGN_WARN_INTERVAL: Duration = Duration::from_mins(1);

/// Commands of the owner to a reader.
#[derive(Clone, Copy, Debug)]
pub enum FollowCommand {
    /// Hand over records from this offset on, or from the beginning for `None`.
    From(Option<VerdictOffset>, u64),
    /// Report when everything committed so far was handed over. The answer carries the number.
    ToEnd(u64),
    /// Report when the barrier at this offset was read, and everything before it handed over. The answer carries the
    /// number.
    ToBarrier(u64, VerdictOffset),
    /// Stop handing over records.
    Stop,
}

/// An event of a reader, with the serial number of its [`FollowCommand::From`].
#[derive(Debug)]
pub struct FollowEvent {
    /// The serial number of the command.
    pub serial: u64,
    pub kind: FollowEventKind,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every event is a record")]
pub enum FollowEventKind {
    Record {
        /// Offset of its first part.
        offset: VerdictOffset,
        /// The offset after its last part.
        next: VerdictOffset,
        record: VerdictRecord,
        /// When it was written.
        time: Option<Timestamp>,
        /// Reserves its bytes in the budget until this is dropped.
        permit: Permit,
    },
    /// Everything that the [`FollowCommand::ToEnd`] or [`FollowCommand::ToBarrier`] with this number asked for was
    /// handed over.
    End(u64),
    /// The log does not hold the requested offset, or cannot be read there; the reason.
    Moved(String),
}

/// How a reader passes the one record that an operator lets it pass if it cannot be read. After it, other records that
/// cannot be read are skipped up to the next checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// The reader begins anew at the next checkpoint. Its owner hears that the log has moved.
    ToCheckpoint(VerdictOffset),
    /// The reader goes on, for an owner that follows no state.
    GoOn(VerdictOffset),
}

impl Passing {
    const fn offset(self) -> VerdictOffset {
        match self {
            Self::ToCheckpoint(offset) | Self::GoOn(offset) => offset,
        }
    }
}

/// A partition to follow.
pub struct FollowSettings {
    partition: PartitionId,
    sink: Box<dyn Fn(FollowEvent) + Send>,
    passing: Option<Passing>,
    skipped: Box<dyn Fn() + Send>,
}

impl FollowSettings {
    /// Hands the events of this partition to `sink`, on the reader's thread.
    pub fn new(partition: PartitionId, sink: impl Fn(FollowEvent) + Send + 'static) -> Self {
        Self { partition, sink: Box::new(sink), passing: None, skipped: Box::new(|| {}) }
    }

    /// Passes a record that cannot be read.
    #[must_use]
    pub fn passing(self, passing: Option<Passing>) -> Self {
        Self { passing, ..self }
    }

    /// Calls `skipped` for each record that is skipped.
    #[must_use]
    pub fn counting(self, skipped: impl Fn() + Send + 'static) -> Self {
        Self { skipped: Box::new(skipped), ..self }
    }
}

/// The owner's handle of the reader of a partition. Dropping the last handle of a reader ends its thread.
pub struct Follower {
    commands: Sender<(usize, FollowCommand)>,
    /// The number of its partition among those of the reader.
    number: usize,
}

impl Follower {
    /// Starts a reader of one partition that waits for its first command.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings, or the thread cannot be started.
    pub fn start(
        config: &ClientConfig,
        partition: FollowSettings,
        budget: &Arc<ByteBudget>,
        thread: String,
    ) -> Result<Self, KafkaError> {
        Ok(Self { commands: Reader::start(config, vec![partition], budget, thread)?, number: 0 })
    }

    /// Starts a reader of many partitions by one client. Returns a handle for each of them, in their order.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings, or the thread cannot be started.
    pub fn start_all(
        config: &ClientConfig,
        partitions: Vec<FollowSettings>,
        budget: &Arc<ByteBudget>,
        thread: String,
    ) -> Result<Vec<Self>, KafkaError> {
        let numbers = 0..partitions.len();
        let commands = Reader::start(config, partitions, budget, thread)?;
        Ok(numbers.map(|number| Self { commands: commands.clone(), number }).collect())
    }

    /// Hands a command to the reader's thread.
    pub fn command(&self, command: FollowCommand) {
        // An ended thread has nothing left to do.
        let _ = self.commands.send((self.number, command));
    }
}

/// State of a request for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    NotRequested,
    /// Requested with this number. The partition is read from its next offset again since then, and nothing has arrived: a
    /// fetch that began before the request proves nothing about the end.
    Requested(u64),
    /// Waiting for a barrier that was not read yet. Only that record proves that nothing before it is missing: an
    /// isolated broker may report an earlier offset as the end.
    Barrier {
        /// The number of the request.
        question: u64,
        barrier: VerdictOffset,
    },
    /// The end of the partition by the first fetch since the request.
    At {
        /// The number of the request.
        question: u64,
        end: VerdictOffset,
    },
}

/// Counts records that dupgate has not written: those of a stray producer, or of a mirror.
struct Foreign {
    skipped: Box<dyn Fn() + Send>,
    /// Number of records skipped since the last log line.
    unreported: u64,
    /// Fires when the next line may be logged; `None` before the first line.
    again: Option<Receiver<Instant>>,
}

impl Foreign {
    /// Counts a record, and logs periodically.
    fn skip(&mut self, partition: &PartitionId, offset: i64) {
        (self.skipped)();
        self.unreported += 1;
        if self.again.as_ref().is_none_or(|again| again.try_recv().is_ok()) {
            tracing::warn!(
                target: "dupgate::kafka",
                %partition, offset, records = self.unreported,
                "skipping records of the verdict log that dupgate has not written: find out what writes to this topic"
            );
            (self.unreported, self.again) = (0, Some(after(FOREIGN_WARN_INTERVAL)));
        }
    }
}

fn offset_of(next: Option<VerdictOffset>) -> Offset {
    next.map_or(Offset::Beginning, |next| Offset::Offset(next.0))
}

fn place(next: Option<VerdictOffset>) -> String {
    next.map_or_else(|| "its beginning".to_owned(), |next| format!("offset {next}"))
}

/// The client of a reader. The queues of its partitions hold it, too.
type Client = Arc<BaseConsumer<LoggingContext>>;

/// A thread that reads partitions by one client.
struct Reader {
    /// Before the client: their queues end first.
    partitions: Vec<PartitionReader>,
    client: RenewedClient<Client>,
    /// Settings of a client that queries the end of the records, committed or not.
    uncommitted: ClientConfig,
    budget: Arc<ByteBudget>,
    commands: Receiver<(usize, FollowCommand)>,
    /// Receives the number of each partition whose queue is no longer empty, or has not been found empty.
    filled: Receiver<usize>,
}

impl Reader {
    fn start(
        config: &ClientConfig,
        partitions: Vec<FollowSettings>,
        budget: &Arc<ByteBudget>,
        thread: String,
    ) -> Result<Sender<(usize, FollowCommand)>, KafkaError> {
        let ((sender, commands), (fills, filled)) = (unbounded(), unbounded());
        let partitions = partitions.into_iter().enumerate().map(|(number, settings)| {
            let fills = fills.clone();
            PartitionReader::new(settings, Arc::clone(budget), move || {
                // An ended reader needs no more signs.
                let _ = fills.send(number);
            })
        });
        let mut uncommitted = config.clone();
        uncommitted.set("isolation.level", "read_uncommitted");
        let reader = Self {
            partitions: partitions.collect(),
            client: RenewedClient::shared_consumer(config, thread.clone())?,
            uncommitted,
            budget: Arc::clone(budget),
            commands,
            filled,
        };
        std::thread::Builder::new()
            .name(thread)
            .spawn(move || reader.run())
            .map_err(|error| KafkaError::ClientCreation(format!("failed to start the reader's thread: {error}")))?;
        Ok(sender)
    }

    fn run(mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(command) => {
                    self.perform(command);
                    continue;
                }
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {}
            }
            for partition in &mut self.partitions {
                partition.look_at_time(&self.client, &self.uncommitted);
            }
            self.replace_client();
            self.poll_client();
            if !self.budget.wait_for_room(POLL) {
                continue;
            }
            let is_busy = |partition: &PartitionReader| partition.queue.is_some() || partition.begins.is_some();
            let wait = if self.partitions.iter().any(is_busy) { POLL } else { IDLE };
            select! {
                recv(self.commands) -> command => match command {
                    Ok(command) => self.perform(command),
                    Err(_) => return,
                },
                recv(self.filled) -> number => number.into_iter().for_each(|number| self.read(number)),
                default(wait) => (0..self.partitions.len()).for_each(|number| self.read(number)),
            }
        }
    }

    fn perform(&mut self, (number, command): (usize, FollowCommand)) {
        if let Some(partition) = self.partitions.get_mut(number) {
            partition.perform(&self.client, command);
        }
    }

    /// Reads the next record of a partition, if its queue holds one.
    fn read(&mut self, number: usize) {
        let Some(partition) = self.partitions.get_mut(number) else { return };
        let Some(queue) = partition.queue.clone() else { return };
        match queue.poll(Duration::ZERO) {
            None => self.client.drained(),
            Some(polled) => {
                partition.arrived(&self.client, polled);
                (partition.fills)();
            }
        }
    }

    /// Serves the events of the client as a whole.
    fn poll_client(&mut self) {
        match self.client.poll(Duration::ZERO) {
            // The client has made a queue anew.
            Some(Ok(message)) => {
                let (topic, number) = (message.topic(), message.partition());
                let is_of = |partition: &PartitionId| *partition.topic == *topic && partition.number == number;
                if let Some(partition) = self.partitions.iter_mut().find(|reader| is_of(&reader.partition)) {
                    partition.arrived(&self.client, Ok(message));
                }
            }
            Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                for partition in self.partitions.iter_mut().filter(|partition| partition.queue.is_some()) {
                    partition.moved(&self.client, code.to_string());
                }
            }
            Some(Err(error)) => tracing::debug!(target: "dupgate::kafka", %error, "failed to poll the verdict log"),
            None => {}
        }
    }

    /// Replaces a client that has lost its brokers or stands still. The new one continues at the same offsets.
    fn replace_client(&mut self) {
        let partitions = RefCell::new(&mut self.partitions);
        let topic = || partitions.borrow().first().map(|reader| reader.partition.topic.to_string());
        let take_over = |_: &Client, fresh: &Client| {
            let mut partitions = partitions.borrow_mut();
            let open = |reader: &PartitionReader| reader.queue.as_ref().map(|_| reader.open(fresh)).transpose();
            let queues = partitions.iter().map(open).collect::<Result<Vec<_>, KafkaError>>()?;
            // The old queues end before the old client, which then closes on its own thread.
            partitions.iter_mut().zip(queues).for_each(|(reader, queue)| reader.queue = queue);
            Ok(())
        };
        let positions = || -> Positions {
            let partitions = partitions.borrow();
            let read = partitions.iter().filter(|reader| reader.queue.is_some());
            read.map(|reader| (reader.partition.clone(), reader.next.map(|next| next.0))).collect()
        };
        let _ = self.client.replace_if_lost(topic, take_over) || self.client.replace_if_stalled(positions, take_over);
    }
}

/// What a reader knows of one of its partitions.
struct PartitionReader {
    partition: PartitionId,
    budget: Arc<ByteBudget>,
    sink: Box<dyn Fn(FollowEvent) + Send>,
    foreign: Foreign,
    passing: Option<Passing>,
    /// Whether the record of `passing` was found, and could not be read.
    has_passed: bool,
    /// Whether no checkpoint was read since then.
    seeks_checkpoint: bool,
    assembly: VerdictReader,
    serial: u64,
    /// Next offset to read; `None` at the beginning of the log.
    next: Option<VerdictOffset>,
    /// Present while the partition is read.
    queue: Option<Arc<PartitionQueue<LoggingContext>>>,
    /// Tells the reader that the queue may hold a record.
    fills: Arc<dyn Fn() + Send + Sync>,
    rereading: Rereading,
    /// Fires when a delayed reading begins; `None` if there is no delay.
    begins: Option<Receiver<Instant>>,
    ends: Ends,
    /// Offset of the last barrier read since reading began.
    newest_barrier: Option<VerdictOffset>,
    warn_tick: Receiver<Instant>,
}

impl PartitionReader {
    fn new(settings: FollowSettings, budget: Arc<ByteBudget>, fills: impl Fn() + Send + Sync + 'static) -> Self {
        let FollowSettings { partition, sink, passing, skipped } = settings;
        Self {
            partition,
            budget,
            sink,
            foreign: Foreign { skipped, unreported: 0, again: None },
            passing,
            has_passed: false,
            seeks_checkpoint: false,
            assembly: VerdictReader::new(),
            serial: 0,
            next: None,
            queue: None,
            fills: Arc::new(fills),
            rereading: Rereading::default(),
            begins: None,
            ends: Ends::NotRequested,
            newest_barrier: None,
            warn_tick: tick(WARN_INTERVAL),
        }
    }

    /// Begins a reading whose pause is over, and warns of a barrier that is missing for long.
    fn look_at_time(&mut self, client: &Client, uncommitted: &ClientConfig) {
        if self.begins.take_if(|begins| begins.try_recv().is_ok()).is_some() {
            self.assign(client);
        }
        if let Ends::Barrier { barrier, .. } = self.ends
            && self.queue.is_some()
            && self.warn_tick.try_recv().is_ok()
        {
            self.warn_waiting(client, uncommitted, barrier);
        }
    }

    fn perform(&mut self, client: &Client, command: FollowCommand) {
        match command {
            FollowCommand::From(from, serial) => {
                self.serial = serial;
                self.next = from;
                self.seeks_checkpoint = false;
                if let Some(Passing::ToCheckpoint(offset)) = self.passing
                    && self.has_passed
                    && from.is_none_or(|from| from <= offset)
                {
                    self.next = Some(offset.next());
                    self.seeks_checkpoint = true;
                }
                self.assembly = VerdictReader::new();
                self.ends = Ends::NotRequested;
                self.newest_barrier = None;
                let pause = self.rereading.begin(from);
                self.begin(client, pause);
            }
            FollowCommand::ToEnd(question) => {
                self.ends = Ends::Requested(question);
                if self.queue.is_some() {
                    self.assign(client);
                }
            }
            FollowCommand::ToBarrier(question, barrier) => {
                self.ends = Ends::Barrier { question, barrier };
                self.warn_tick = tick(WARN_INTERVAL);
                self.end_at_barrier(client);
            }
            FollowCommand::Stop => {
                self.begins = None;
                self.ends = Ends::NotRequested;
                self.unassign(client);
            }
        }
    }

    /// Starts reading after this pause.
    fn begin(&mut self, client: &Client, pause: Duration) {
        if pause.is_zero() {
            self.begins = None;
            self.assign(client);
            return;
        }
        tracing::warn!(
            target: "dupgate::kafka",
            partition = %self.partition,
            "the log could not be read to its end: reading it from its beginning again in {} s", pause.as_secs()
        );
        self.unassign(client);
        self.begins = Some(after(pause));
    }

    /// Reads from the next offset on, by a new fetch.
    fn assign(&mut self, client: &Client) {
        self.unassign(client);
        match self.open(client) {
            Ok(queue) => self.queue = Some(queue),
            Err(error) => self.moved(client, format!("cannot be read from {}: {error}", place(self.next))),
        }
    }

    /// Assigns the partition to a client that does not read it, from the next offset on.
    fn open(&self, client: &Client) -> Result<Arc<PartitionQueue<LoggingContext>>, KafkaError> {
        let PartitionId { topic, number } = &self.partition;
        let list = list_at([(&self.partition, offset_of(self.next))])?;
        let queue = client.split_partition_queue(topic, *number);
        let mut queue = queue.ok_or_else(|| KafkaError::Subscription(format!("{} has no queue", self.partition)))?;
        let fills = Arc::clone(&self.fills);
        queue.set_nonempty_callback(move || fills());
        client.incremental_assign(&list)?;
        // What an earlier fetch has left in the queue keeps it from becoming filled.
        (self.fills)();
        Ok(Arc::new(queue))
    }

    fn unassign(&mut self, client: &Client) {
        // The queue ends before another one for the same partition begins.
        if self.queue.take().is_none() {
            return;
        }
        if let Err(error) = client.incremental_unassign(&list_of([&self.partition])) {
            tracing::warn!(target: "dupgate::kafka", partition = %self.partition, %error, "failed to unassign");
        }
    }

    /// Logs why a barrier is not read: a transaction before it is open, or the broker does not know it.
    fn warn_waiting(&self, client: &Client, uncommitted: &ClientConfig, barrier: VerdictOffset) {
        let stable = client.fetch_watermarks(&self.partition.topic, self.partition.number, QUERY_TIMEOUT);
        // It is seldom asked for: a client for each reader would cost its threads and connections all the time.
        let all = Offsets::new(uncommitted, QUERY_TIMEOUT).and_then(|offsets| offsets.range(&self.partition));
        match (stable, all) {
            (Ok((_, stable)), Ok(Range { end: written, .. })) if stable <= barrier.0 && barrier.0 < written => {
                tracing::error!(
                    target: "dupgate::kafka",
                    partition = %self.partition, stable, written,
                    "a transaction of a former judge hangs in the verdict log; judging waits until it ends: find it by \
                     kafka-transactions.sh find-hanging, and end it by kafka-transactions.sh abort"
                );
            }
            (Ok((_, stable)), Ok(Range { end: written, .. })) => tracing::warn!(
                target: "dupgate::kafka",
                partition = %self.partition, barrier = barrier.0, stable, written,
                "judging waits until this judge has read back the barrier that it has written"
            ),
            (Err(error), _) | (_, Err(error)) => tracing::warn!(
                target: "dupgate::kafka",
                partition = %self.partition, %error, "failed to query the end, retrying"
            ),
        }
    }

    /// Reports the end if the requested barrier was read.
    fn end_at_barrier(&mut self, client: &Client) {
        let Ends::Barrier { question, barrier } = self.ends else { return };
        if self.newest_barrier == Some(barrier) {
            self.ended(question);
        } else if self.next.is_some_and(|next| next > barrier) {
            self.moved(client, format!("does not hold offset {barrier} before {}", place(self.next)));
        }
    }

    fn arrived(&mut self, client: &Client, polled: Result<BorrowedMessage<'_>, KafkaError>) {
        let kind = match polled {
            // A client may repeat records after its broker has returned.
            Ok(message) if self.next.is_some_and(|next| VerdictOffset(message.offset()) < next) => {
                tracing::debug!(
                    target: "dupgate::kafka",
                    partition = %self.partition, offset = message.offset(), "read before"
                );
                return;
            }
            Ok(message) => {
                let payload = message.payload().unwrap_or_default();
                let next = VerdictOffset(message.offset()).next();
                self.next = Some(next);
                if let Ends::Requested(question) = self.ends
                    && let Some(end) = known_end(client.client(), &self.partition)
                {
                    self.ends = Ends::At { question, end: VerdictOffset(end) };
                }
                if payload == BARRIER {
                    self.newest_barrier = Some(VerdictOffset(message.offset()));
                }
                if !is_ours(payload) {
                    self.foreign.skip(&self.partition, message.offset());
                    self.end_here(client);
                    return;
                }
                let (at, bytes) = (VerdictOffset(message.offset()), payload.len());
                let time = message.timestamp().to_millis().map(Timestamp::from_millis);
                let pushed = self.assembly.push(at.0, payload);
                drop(message);
                match pushed {
                    Ok(None) => None,
                    Ok(Some((_, record))) if self.is_passed_over(&record) => None,
                    Ok(Some((offset, record))) => Some(FollowEventKind::Record {
                        offset: VerdictOffset(offset),
                        next,
                        record,
                        time,
                        permit: self.budget.hold(bytes * 4 + 256),
                    }),
                    Err(error) => self.unreadable(at, &error).map(FollowEventKind::Moved),
                }
            }
            Err(KafkaError::PartitionEOF(_)) => {
                if let Ends::Requested(question) | Ends::At { question, .. } = self.ends {
                    self.ended(question);
                }
                return;
            }
            Err(KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset)) => {
                // The record that was passed is gone, too.
                self.has_passed = false;
                Some(FollowEventKind::Moved(format!("does not hold {}", place(self.next))))
            }
            Err(KafkaError::MessageConsumptionFatal(code)) => Some(FollowEventKind::Moved(code.to_string())),
            Err(error) => {
                tracing::debug!(target: "dupgate::kafka", partition = %self.partition, %error, "failed to poll the verdict log");
                return;
            }
        };
        match kind {
            Some(FollowEventKind::Moved(why)) => self.moved(client, why),
            Some(kind) => self.report(kind),
            None => {}
        }
        self.end_here(client);
    }

    /// Returns whether a record is skipped because what precedes it was not read. A checkpoint ends that.
    fn is_passed_over(&mut self, record: &VerdictRecord) -> bool {
        if matches!(record, VerdictRecord::Checkpoint(_)) {
            self.seeks_checkpoint = false;
        }
        self.seeks_checkpoint && matches!(self.passing, Some(Passing::ToCheckpoint(_)))
    }

    /// Returns why the record at this offset stops the reader, unless it is skipped.
    fn unreadable(&mut self, offset: VerdictOffset, error: &CodecError) -> Option<String> {
        if self.seeks_checkpoint {
            (self.foreign.skipped)();
            tracing::warn!(
                target: "dupgate::kafka",
                partition = %self.partition, offset = offset.0, %error,
                "skipping a record of the verdict log that cannot be read, before the next checkpoint"
            );
            return None;
        }
        let Some(passing) = self.passing.filter(|passing| passing.offset() == offset) else {
            return Some(format!(
                "failed to read offset {offset}: {error}; run the release that has written it, or set \
                 kafka.skip_corrupt_verdict to {}:{offset}: then reading continues at the next checkpoint, and pages are \
                 not compared with those that were judged before",
                self.partition.number
            ));
        };
        (self.foreign.skipped)();
        tracing::warn!(
            target: "dupgate::kafka",
            partition = %self.partition, offset = offset.0, %error,
            "passing a record of the verdict log that cannot be read, as kafka.skip_corrupt_verdict says"
        );
        match passing {
            Passing::ToCheckpoint(_) => {
                self.has_passed = true;
                Some(format!("offset {offset} is passed: continuing at the next checkpoint"))
            }
            Passing::GoOn(_) => {
                self.seeks_checkpoint = true;
                None
            }
        }
    }

    /// Reports the end if this is the requested one.
    fn end_here(&mut self, client: &Client) {
        self.end_at_barrier(client);
        if let Ends::At { question, end } = self.ends
            && self.next.is_some_and(|next| next >= end)
        {
            self.ended(question);
        }
    }

    fn ended(&mut self, question: u64) {
        self.ends = Ends::NotRequested;
        self.rereading.ended();
        self.report(FollowEventKind::End(question));
    }

    fn moved(&mut self, client: &Client, why: String) {
        self.ends = Ends::NotRequested;
        self.unassign(client);
        self.report(FollowEventKind::Moved(why));
    }

    fn report(&self, kind: FollowEventKind) {
        (self.sink)(FollowEvent { serial: self.serial, kind });
    }
}

/// The pause before the second consecutive reading; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

const LONGEST_PAUSE: Duration = Duration::from_secs(64);

/// Counts consecutive readings from the beginning that did not reach the end: some record cannot be read or belongs to
/// another log, and reading without pauses would load the brokers for nothing.
#[derive(Debug, Default)]
pub(super) struct Rereading {
    readings: u32,
}

impl Rereading {
    /// Returns the pause before reading the log from this offset, or from its beginning for `None`.
    pub(super) fn begin(&mut self, from: Option<VerdictOffset>) -> Duration {
        if from.is_some() {
            return Duration::ZERO;
        }
        let before = self.readings;
        self.readings = before.saturating_add(1);
        if before == 0 { Duration::ZERO } else { (FIRST_PAUSE * (1 << (before - 1).min(6))).min(LONGEST_PAUSE) }
    }

    /// Notes that the end of the log was reached, so that all of it could be read.
    pub(super) fn ended(&mut self) {
        self.readings = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_from_the_beginning_back_off_until_one_reaches_the_end() {
        let (mut rereading, later) = (Rereading::default(), Some(VerdictOffset(7)));
        let mut pauses = |from: &[Option<VerdictOffset>]| -> Vec<u64> {
            from.iter().map(|&from| rereading.begin(from).as_secs()).collect()
        };
        assert_eq!(pauses(&[later, None, None, None, None]), [0, 0, 1, 2, 4], "no pause before a first reading");
        assert_eq!(pauses(&[later, None]), [0, 8], "one that begins elsewhere has not reached the end");
        assert_eq!(pauses(&[None; 40]).last(), Some(&64));
        rereading.ended();
        assert_eq!(rereading.begin(None), Duration::ZERO);
    }
}
