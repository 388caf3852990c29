//! A reader that follows one partition of the verdict log, on a separate thread.
//!
//! The reader assigns its partition manually, reads only committed records, and hands over whole records in order. It
//! serves one purpose at a time: a new [`FollowCommand::From`] replaces the previous one, and every event carries the
//! serial number of its command, so that the owner recognises late events. Requests for the end are numbered for the
//! same reason.
//!
//! Records that dupgate has not written are skipped. A record that dupgate has written and that cannot be read stops
//! the reader, because it may hold verdicts. Only an operator can let readers pass it ([`Passing`]): they continue at the
//! next checkpoint, which holds all that is judged.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, after, tick, unbounded};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::budget::{ByteBudget, Permit};
use super::client::LoggingContext;
use super::offsets::Offsets;
use super::renewed_client::{Positions, RenewedClient};
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

/// The owner's handle of a reader. Dropping it ends the thread.
pub struct Follower {
    commands: Sender<FollowCommand>,
}

impl Follower {
    /// Starts a reader of this partition that waits for its first command.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings, or the thread cannot be started.
    pub fn start(
        config: &ClientConfig,
        partition: PartitionId,
        budget: Arc<ByteBudget>,
        thread: String,
        sink: impl Fn(FollowEvent) + Send + 'static,
    ) -> Result<Self, KafkaError> {
        Self::start_counting(config, partition, budget, thread, sink, None, || {})
    }

    /// Like [`Follower::start`], but passes a record that cannot be read, and calls `skipped` for each record that is
    /// skipped.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings, or the thread cannot be started.
    pub fn start_counting(
        config: &ClientConfig,
        partition: PartitionId,
        budget: Arc<ByteBudget>,
        thread: String,
        sink: impl Fn(FollowEvent) + Send + 'static,
        passing: Option<Passing>,
        skipped: impl Fn() + Send + 'static,
    ) -> Result<Self, KafkaError> {
        let (sender, commands) = unbounded();
        let consumer = RenewedClient::consumer(config, format!("reader of {partition}"))?;
        let mut uncommitted = config.clone();
        uncommitted.set("isolation.level", "read_uncommitted");
        let reader = Reader {
            consumer,
            uncommitted,
            partition,
            budget,
            commands,
            sink: Box::new(sink),
            foreign: Foreign { skipped: Box::new(skipped), unreported: 0, again: None },
            passing,
            has_passed: false,
            seeks_checkpoint: false,
            assembly: VerdictReader::new(),
            serial: 0,
            next: None,
            active: false,
            rereading: Rereading::default(),
            begins: None,
            ends: Ends::NotRequested,
            newest_barrier: None,
            warn_tick: tick(WARN_INTERVAL),
        };
        std::thread::Builder::new()
            .name(thread)
            .spawn(move || reader.run())
            .map_err(|error| KafkaError::ClientCreation(format!("failed to start the reader's thread: {error}")))?;
        Ok(Self { commands: sender })
    }

    /// Hands a command to the reader's thread.
    pub fn command(&self, command: FollowCommand) {
        // An ended thread has nothing left to do.
        let _ = self.commands.send(command);
    }
}

/// State of a request for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    NotRequested,
    /// Requested with this number; the end is not known yet.
    Requested(u64),
    /// Waiting for a barrier that was not read yet. Only that record proves that nothing before it is missing: an
    /// isolated broker may report an earlier offset as the end.
    Barrier {
        /// The number of the request.
        question: u64,
        barrier: VerdictOffset,
    },
    /// The end is known, and no fetch that began after it was learned has reached the end of the partition yet.
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

/// Assigns the partition to a client from this offset on, or from its beginning for `None`.
fn assign(
    consumer: &BaseConsumer<LoggingContext>,
    partition: &PartitionId,
    next: Option<VerdictOffset>,
) -> Result<(), KafkaError> {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&partition.topic, partition.number, offset_of(next))?;
    consumer.assign(&list)
}

struct Reader {
    consumer: RenewedClient<BaseConsumer<LoggingContext>>,
    /// Settings of a client that queries the end of the records, committed or not.
    uncommitted: ClientConfig,
    partition: PartitionId,
    budget: Arc<ByteBudget>,
    commands: Receiver<FollowCommand>,
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
    active: bool,
    rereading: Rereading,
    /// Fires when a delayed reading begins; `None` if there is no delay.
    begins: Option<Receiver<Instant>>,
    ends: Ends,
    /// Offset of the last barrier read since reading began.
    newest_barrier: Option<VerdictOffset>,
    warn_tick: Receiver<Instant>,
}

impl Reader {
    fn run(mut self) {
        loop {
            let idle = if self.begins.is_some() { POLL } else { IDLE };
            let timeout = if self.active { Duration::ZERO } else { idle };
            match self.commands.recv_timeout(timeout) {
                Ok(command) => {
                    self.perform(command);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.begins.take_if(|begins| begins.try_recv().is_ok()).is_some() {
                self.active = true;
                self.assign();
            }
            // The new client continues at the same offset.
            self.consumer.replace_if_lost(
                || Some(self.partition.topic.to_string()),
                |_, fresh| if self.active { assign(fresh, &self.partition, self.next) } else { Ok(()) },
            );
            if self.active {
                self.consumer.replace_if_stalled(
                    || Positions::from([(self.partition.clone(), self.next.map(|next| next.0))]),
                    |_, fresh| assign(fresh, &self.partition, self.next),
                );
                self.look_for_end();
                if self.budget.wait_for_room(POLL) {
                    self.read();
                }
            } else {
                // Keeps the client's own events from piling up.
                let _ = self.consumer.poll(Duration::ZERO);
            }
        }
    }

    fn perform(&mut self, command: FollowCommand) {
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
                self.begin(pause);
            }
            FollowCommand::ToEnd(question) => self.ends = Ends::Requested(question),
            FollowCommand::ToBarrier(question, barrier) => {
                self.ends = Ends::Barrier { question, barrier };
                self.warn_tick = tick(WARN_INTERVAL);
                self.end_at_barrier();
            }
            FollowCommand::Stop => {
                self.active = false;
                self.begins = None;
                self.ends = Ends::NotRequested;
                self.unassign();
            }
        }
    }

    /// Starts reading after this pause.
    fn begin(&mut self, pause: Duration) {
        if pause.is_zero() {
            self.begins = None;
            self.active = true;
            self.assign();
            return;
        }
        tracing::warn!(
            target: "dupgate::kafka",
            partition = %self.partition,
            "the log could not be read to its end: reading it from its beginning again in {} s", pause.as_secs()
        );
        self.active = false;
        self.unassign();
        self.begins = Some(after(pause));
    }

    fn assign(&mut self) {
        if let Err(error) = assign(&self.consumer, &self.partition, self.next) {
            self.moved(format!("cannot be read from {}: {error}", place(self.next)));
        }
    }

    fn unassign(&self) {
        if let Err(error) = self.consumer.unassign() {
            tracing::warn!(target: "dupgate::kafka", partition = %self.partition, %error, "failed to unassign");
        }
    }

    /// Queries the end of the committed records. A fetch that began before the answer proves nothing about that end, so
    /// reading restarts at the current offset: the next end of the partition is then reported by a later fetch.
    fn look_for_end(&mut self) {
        let question = match self.ends {
            Ends::Requested(question) => question,
            Ends::Barrier { barrier, .. } => return self.warn_waiting(barrier),
            Ends::NotRequested | Ends::At { .. } => return,
        };
        match self.consumer.fetch_watermarks(&self.partition.topic, self.partition.number, QUERY_TIMEOUT) {
            Ok((low, end)) => {
                let (next, end) = (self.next.unwrap_or(VerdictOffset(low)), VerdictOffset(end));
                if next >= end {
                    // If the next offset is after the end, the log was truncated or recreated: the next fetch reports
                    // it.
                    if next > end { self.reread(question, end) } else { self.ended(question) }
                } else {
                    self.reread(question, end);
                }
            }
            Err(error) => self.end_unknown(&error),
        }
    }

    /// Logs periodically why a barrier is not read: a transaction before it is open, or the broker does not know it.
    fn warn_waiting(&self, barrier: VerdictOffset) {
        if self.warn_tick.try_recv().is_err() {
            return;
        }
        let stable = self.consumer.fetch_watermarks(&self.partition.topic, self.partition.number, QUERY_TIMEOUT);
        // It is seldom asked for: a client for each reader would cost its threads and connections all the time.
        let all = Offsets::new(&self.uncommitted, QUERY_TIMEOUT).and_then(|offsets| offsets.range(&self.partition));
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
            (Err(error), _) | (_, Err(error)) => self.end_unknown(&error),
        }
    }

    fn end_unknown(&self, error: &KafkaError) {
        tracing::warn!(target: "dupgate::kafka", partition = %self.partition, %error, "failed to query the end, retrying");
    }

    /// Reports the end if the requested barrier was read.
    fn end_at_barrier(&mut self) {
        let Ends::Barrier { question, barrier } = self.ends else { return };
        if self.newest_barrier == Some(barrier) {
            self.ended(question);
        } else if self.next.is_some_and(|next| next > barrier) {
            self.moved(format!("does not hold offset {barrier} before {}", place(self.next)));
        }
    }

    fn reread(&mut self, question: u64, end: VerdictOffset) {
        self.ends = Ends::At { question, end };
        self.assign();
    }

    fn read(&mut self) {
        let kind = match self.consumer.poll(POLL) {
            None => return self.consumer.drained(),
            // A client may repeat records after its broker has returned.
            Some(Ok(message)) if self.next.is_some_and(|next| VerdictOffset(message.offset()) < next) => {
                tracing::debug!(
                    target: "dupgate::kafka",
                    partition = %self.partition, offset = message.offset(), "read before"
                );
                return;
            }
            Some(Ok(message)) => {
                let payload = message.payload().unwrap_or_default();
                let next = VerdictOffset(message.offset()).next();
                self.next = Some(next);
                if payload == BARRIER {
                    self.newest_barrier = Some(VerdictOffset(message.offset()));
                }
                if !is_ours(payload) {
                    self.foreign.skip(&self.partition, message.offset());
                    self.end_here();
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
            Some(Err(KafkaError::PartitionEOF(_))) => {
                if let Ends::At { question, .. } = self.ends {
                    self.ended(question);
                }
                return;
            }
            Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset))) => {
                // The record that was passed is gone, too.
                self.has_passed = false;
                Some(FollowEventKind::Moved(format!("does not hold {}", place(self.next))))
            }
            Some(Err(KafkaError::MessageConsumptionFatal(code))) => Some(FollowEventKind::Moved(code.to_string())),
            Some(Err(error)) => {
                tracing::debug!(target: "dupgate::kafka", partition = %self.partition, %error, "failed to poll the verdict log");
                return;
            }
        };
        match kind {
            Some(FollowEventKind::Moved(why)) => self.moved(why),
            Some(kind) => self.report(kind),
            None => {}
        }
        self.end_here();
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
    fn end_here(&mut self) {
        self.end_at_barrier();
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

    fn moved(&mut self, why: String) {
        self.active = false;
        self.ends = Ends::NotRequested;
        self.unassign();
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
