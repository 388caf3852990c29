//! A reader of fixed ranges of one topic's partitions, on a separate thread, without joining a group.
//!
//! The reader reads each partition from its first offset to its last and then reports that it has ended. Partitions are
//! paused and resumed one by one, so that none has to wait for the pages of another.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset};

use super::budget::{ByteBudget, Permit};
use super::client::LoggingContext;
use super::errors::is_passing;
use super::group_consumer::{ConsumedRecord, detach};
use super::partition_list::{list_at, list_of};
use super::renewed_client::RenewedClient;
use crate::record::PartitionId;

/// How long one poll waits, and so the longest time that a command waits.
const POLL: Duration = Duration::from_millis(20);

/// Commands of the owner to a reader.
#[derive(Clone, Debug)]
enum Command {
    Pause(i32),
    Resume(i32),
}

#[derive(Debug)]
pub enum RangeEvent {
    /// The next record of a partition.
    Record {
        partition: PartitionId,
        offset: i64,
        record: ConsumedRecord,
        /// Reserves its bytes in the budget until this is dropped.
        permit: Permit,
    },
    Ended(PartitionId),
    /// The reader failed; the reason.
    Failed(String),
}

/// The owner's handle of a reader. Dropping it ends the thread.
pub struct RangeReader {
    topic: Arc<str>,
    commands: Sender<Command>,
}

struct Reader {
    consumer: RenewedClient<BaseConsumer<LoggingContext>>,
    topic: Arc<str>,
    /// The ranges that have not ended, by partition number.
    open: BTreeMap<i32, RangeState>,
    budget: Arc<ByteBudget>,
    commands: Receiver<Command>,
    sink: Box<dyn Fn(RangeEvent) + Send>,
}

struct RangeState {
    next: i64,
    end: i64,
    is_paused: bool,
}

impl RangeReader {
    /// Starts reading these offsets of each partition. No record is read while `budget` is full.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings, or the thread cannot be started.
    pub fn start(
        config: &ClientConfig,
        topic: &Arc<str>,
        ranges: &BTreeMap<i32, Range<i64>>,
        budget: Arc<ByteBudget>,
        sink: impl Fn(RangeEvent) + Send + 'static,
    ) -> Result<Self, KafkaError> {
        let (sender, commands) = unbounded();
        let state = |(&number, range): (&i32, &Range<i64>)| {
            (number, RangeState { next: range.start, end: range.end, is_paused: false })
        };
        let mut reader = Reader {
            consumer: RenewedClient::consumer(config, format!("reader of {topic}"))?,
            topic: Arc::clone(topic),
            open: ranges.iter().map(state).collect(),
            budget,
            commands,
            sink: Box::new(sink),
        };
        reader.end_empty();
        assign(&reader.consumer, topic, &reader.open)?;
        std::thread::Builder::new()
            .name("replay".to_owned())
            .spawn(move || reader.run())
            .map_err(|error| KafkaError::ClientCreation(format!("failed to start the reader's thread: {error}")))?;
        Ok(Self { topic: Arc::clone(topic), commands: sender })
    }

    #[must_use]
    pub const fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    pub fn pause(&self, partition: i32) {
        // An ended thread reads nothing.
        let _ = self.commands.send(Command::Pause(partition));
    }

    pub fn resume(&self, partition: i32) {
        let _ = self.commands.send(Command::Resume(partition));
    }
}

/// Assigns every partition that has not ended to a client, each at its next offset, and pauses the paused ones.
fn assign(
    consumer: &BaseConsumer<LoggingContext>,
    topic: &str,
    open: &BTreeMap<i32, RangeState>,
) -> Result<(), KafkaError> {
    let list_of = |wanted: fn(&RangeState) -> bool| {
        let wanted = open.iter().filter(|(_, range)| wanted(range));
        list_at(wanted.map(|(number, range)| (PartitionId::new(topic, *number), Offset::Offset(range.next))))
    };
    consumer.assign(&list_of(|_| true)?)?;
    let paused = list_of(|range| range.is_paused)?;
    if paused.count() > 0 { consumer.pause(&paused) } else { Ok(()) }
}

impl Reader {
    fn run(mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(command) => {
                    self.perform(&command);
                    continue;
                }
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {}
            }
            self.consumer
                .replace_if_lost(|| Some(self.topic.to_string()), |_, fresh| assign(fresh, &self.topic, &self.open));
            self.consumer.replace_if_stalled(
                || {
                    let read = self.open.iter().filter(|(_, range)| !range.is_paused);
                    read.map(|(number, range)| (PartitionId::new(Arc::clone(&self.topic), *number), Some(range.next)))
                        .collect()
                },
                |_, fresh| assign(fresh, &self.topic, &self.open),
            );
            if self.budget.wait_for_room(POLL) && !self.read() {
                return;
            }
        }
    }

    /// Ends the ranges that are empty from the start.
    fn end_empty(&mut self) {
        let empty: Vec<i32> =
            self.open.iter().filter(|(_, range)| range.next >= range.end).map(|(number, _)| *number).collect();
        for number in empty {
            self.open.remove(&number);
            (self.sink)(RangeEvent::Ended(self.partition(number)));
        }
    }

    fn perform(&mut self, command: &Command) {
        let (number, pause) = match command {
            Command::Pause(number) => (*number, true),
            Command::Resume(number) => (*number, false),
        };
        let Some(range) = self.open.get_mut(&number) else { return };
        range.is_paused = pause;
        let list = list_of([self.partition(number)]);
        self.log_failure(number, if pause { self.consumer.pause(&list) } else { self.consumer.resume(&list) });
    }

    fn partition(&self, number: i32) -> PartitionId {
        PartitionId::new(Arc::clone(&self.topic), number)
    }

    fn log_failure(&self, number: i32, done: Result<(), KafkaError>) {
        if let Err(error) = done {
            tracing::debug!(target: "dupgate::kafka", topic = %self.topic, number, %error, "reader");
        }
    }

    /// Reads the next event. Returns whether there is more to do.
    fn read(&mut self) -> bool {
        let (number, offset, event) = match self.consumer.poll(POLL) {
            None => {
                self.consumer.drained();
                return true;
            }
            // A client may repeat records after its broker has returned.
            Some(Ok(message))
                if self.open.get(&message.partition()).is_some_and(|range| message.offset() < range.next) =>
            {
                return true;
            }
            Some(Ok(message)) => {
                let (number, offset) = (message.partition(), message.offset());
                let partition = self.partition(number);
                let record = detach(&message);
                let permit = self.budget.hold(record.bytes() + 256);
                (number, offset, RangeEvent::Record { partition, offset, record, permit })
            }
            // The records existed when the range was chosen, so the end of the partition is also the end of the range.
            Some(Err(KafkaError::PartitionEOF(number))) => {
                self.end(number);
                return true;
            }
            Some(Err(error)) => return self.failed(&error),
        };
        let Some(range) = self.open.get_mut(&number) else { return true };
        if offset >= range.end {
            self.end(number);
            return true;
        }
        range.next = offset + 1;
        let is_last = range.next >= range.end;
        (self.sink)(event);
        if is_last {
            self.end(number);
        }
        true
    }

    fn end(&mut self, number: i32) {
        if self.open.remove(&number).is_some() {
            self.log_failure(number, self.consumer.pause(&list_of([self.partition(number)])));
            (self.sink)(RangeEvent::Ended(self.partition(number)));
        }
    }

    fn failed(&self, error: &KafkaError) -> bool {
        let code = error.rdkafka_error_code();
        let why = match code {
            Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => {
                "a partition no longer holds the next offset of the range (retention, or the topic was recreated)"
                    .to_owned()
            }
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                "the topic, or a partition of it, no longer exists".to_owned()
            }
            Some(RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::GroupAuthorizationFailed) => {
                format!("the cluster does not let us read: {error}")
            }
            Some(code) if is_passing(code) => return true,
            _ => {
                tracing::debug!(target: "dupgate::kafka", topic = %self.topic, %error, "reader");
                return true;
            }
        };
        (self.sink)(RangeEvent::Failed(format!("topic `{}`: {why}", self.topic)));
        false
    }
}
