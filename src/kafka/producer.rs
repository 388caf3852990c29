//! One producer and its transactions, on a thread of its own.
//!
//! The owner submits one [`ProducerCommand`] at a time and receives one answer for each; `crate::transaction` decides which call
//! comes next. A call that takes longer than [`REQUEST_TIMEOUT`] answers as retriable; the client goes on with
//! it in the background and takes it up where it stood when the same call comes again. With
//! [`Delivery::AtLeastOnce`] the same commands mean: send and wait, then commit the offsets.

mod age;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, unbounded};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header as KafkaHeader, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use self::age::TransactionAge;
use super::backlog::{Backlog, InFlightGuard};
use super::client::{log_error, log_line};
use super::errors;
use super::group_consumer::Membership;
use super::watchdog::{close_in_background, has_brokers};
use crate::record::{PartitionId, Reject};
use crate::transaction::{Call, CallError, Delivery};

/// How long one call may take before it answers as retriable.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long one call may be made again and again, while brokers answer, before only a new producer can finish it: a client
/// may have forgotten the coordinator of its transactions (confluentinc/librdkafka issue 5511).
const RETRY_LIMIT: Duration = Duration::from_mins(2);

/// How long to wait for room in the client's queue before looking again.
const QUEUE_FULL_WAIT: Duration = Duration::from_millis(50);

/// Name and value of a header; a value may be null.
pub type HeaderField<'a> = (Cow<'a, str>, Option<Cow<'a, [u8]>>);

/// One record on its way out. Borrowed: the client copies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Topic.
    pub topic: &'a str,
    /// Partition; `None` leaves it to the key (murmur2, as Java clients have it).
    pub partition: Option<i32>,
    /// Key bytes.
    pub key: Option<&'a [u8]>,
    /// Value bytes; `None` is a tombstone.
    pub value: Option<Cow<'a, [u8]>>,
    /// Headers, in order.
    pub headers: Vec<HeaderField<'a>>,
    /// Timestamp in milliseconds; `None` means the moment of sending.
    pub timestamp: Option<i64>,
    /// How far the timestamp stands from the wall clock: tells which record of a refused batch is to blame for it.
    pub skew_ms: u64,
}

impl Outgoing<'_> {
    /// Returns what the record takes, in bytes: key, value, headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let header = |(name, value): &HeaderField<'_>| name.len() + value.as_ref().map_or(0, |value| value.len());
        let headers = self.headers.iter().map(header).sum::<usize>();
        self.key.map_or(0, <[u8]>::len) + self.value.as_ref().map_or(0, |value| value.len()) + headers
    }
}

/// Takes one record of a cargo: the owner's index, and the record.
pub type RecordSink<'a> = dyn FnMut(usize, Outgoing<'_>) -> Result<(), CallError> + 'a;

/// What one `Produce` carries.
pub trait RecordSource: Send {
    /// Number of things the owner handed over. One may become any number of records, or none.
    fn len(&self) -> usize;

    /// Says whether nothing was handed over.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands every record to `load`, in order, with the index of the thing that it belongs to.
    ///
    /// # Errors
    ///
    /// The first error that `load` gives.
    fn write_records(&self, load: &mut RecordSink<'_>) -> Result<(), CallError>;
}

/// An offset to commit, with what stands beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetAndMetadata {
    /// Which partition.
    pub partition: PartitionId,
    /// The next offset to read.
    pub offset: i64,
    /// Metadata of the commit.
    pub metadata: String,
}

/// One call, with what it carries.
pub enum ProducerCommand {
    /// A call that carries nothing.
    Plain(Call),
    /// [`Call::Produce`].
    Produce(Box<dyn RecordSource>),
    /// [`Call::SendOffsets`], under this membership.
    SendOffsets(Vec<OffsetAndMetadata>, Membership),
}

impl ProducerCommand {
    const fn call(&self) -> Call {
        match self {
            Self::Plain(call) => *call,
            Self::Produce(_) => Call::Produce,
            Self::SendOffsets(..) => Call::SendOffsets,
        }
    }
}

/// The answer to an [`ProducerCommand`]: of a `Produce`, the offset of the first record of each thing handed over.
pub type Answer = Result<Vec<i64>, CallError>;

/// The owner's end of a transactional producer. Dropping it ends the thread after the call under way.
pub struct TransactionalProducer {
    orders: Sender<ProducerCommand>,
}

impl TransactionalProducer {
    /// Starts the thread. The producer itself is made by the first [`Call::Init`], and anew by each later one. What it
    /// has yet to deliver is counted in `backlog`.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn start(
        config: ClientConfig,
        delivery: Delivery,
        thread: String,
        backlog: Arc<Backlog>,
        sink: impl Fn(Call, Answer) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, orders) = unbounded::<ProducerCommand>();
        std::thread::Builder::new().name(thread).spawn(move || {
            let mut producer_loop = ProducerLoop { config, delivery, backlog, line: None, batch: 0 };
            let mut standstill = RetryDeadline::new(RETRY_LIMIT);
            let mut age = TransactionAge::new(&producer_loop.config);
            for order in orders {
                let call = order.call();
                let answer = standstill.judge(producer_loop.perform(order));
                sink(call, age.judge(call, answer));
            }
        })?;
        Ok(Self { orders: sender })
    }

    /// Hands over the next order. The one before must have been answered.
    pub fn order(&self, order: ProducerCommand) {
        // A thread that has ended answers nothing any more; the owner is ending too.
        let _ = self.orders.send(order);
    }
}

/// A delivery report.
struct Report {
    batch: u64,
    index: usize,
    size: Size,
    result: Result<i64, RDKafkaErrorCode>,
}

struct Context {
    reports: Sender<Report>,
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

/// What brokers may take offence at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    bytes: usize,
    skew_ms: u64,
    keyed: bool,
}

impl Size {
    /// How much speaks for this record being the one that a batch was refused for.
    fn offence(self, reason: Reject) -> u64 {
        if reason == Reject::TimestampRefused {
            self.skew_ms
        } else if reason == Reject::Refused && !self.keyed {
            // A compacted topic refuses what has no key.
            u64::MAX
        } else {
            u64::try_from(self.bytes).unwrap_or(u64::MAX)
        }
    }
}

/// Which record a delivery report is about.
struct DeliveryContext {
    batch: u64,
    index: usize,
    size: Size,
    on_its_way: InFlightGuard,
}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<DeliveryContext>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Self::DeliveryOpaque) {
        let result = match result {
            Ok(message) => Ok(message.offset()),
            Err((error, _)) => Err(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)),
        };
        let DeliveryContext { batch, index, size, on_its_way } = *ticket;
        drop(on_its_way);
        // Nobody waits for the reports of a producer that was replaced.
        let _ = self.reports.send(Report { batch, index, size, result });
    }
}

/// A producer and the reports of what it sent.
struct ProducerSession {
    producer: ThreadedProducer<Context>,
    backlog: Arc<Backlog>,
    reports: Receiver<Report>,
}

struct ProducerLoop {
    config: ClientConfig,
    delivery: Delivery,
    backlog: Arc<Backlog>,
    line: Option<ProducerSession>,
    batch: u64,
}

impl ProducerLoop {
    fn perform(&mut self, order: ProducerCommand) -> Answer {
        let call = order.call();
        if call == Call::Init {
            return self.init().map(|()| Vec::new());
        }
        if self.line.is_none() && self.delivery == Delivery::AtLeastOnce {
            // There is no id to take over, so nobody asked for it.
            self.init()?;
        }
        let Some(line) = &self.line else {
            return Err(CallError::Fatal(format!("{call:?} before the producer was made")));
        };
        let transactional = self.delivery == Delivery::ExactlyOnce;
        let done = match order {
            ProducerCommand::Produce(cargo) => {
                self.batch += 1;
                return line.produce(self.batch, &*cargo).map_err(|error| line.judge(error));
            }
            ProducerCommand::SendOffsets(marks, membership) => {
                let sent = send_offsets(line, transactional, &marks, &membership);
                return sent.map_err(|error| line.judge(error));
            }
            ProducerCommand::Plain(_) if !transactional => Ok(()),
            ProducerCommand::Plain(Call::Begin) => line.producer.begin_transaction(),
            ProducerCommand::Plain(Call::Commit) => line.producer.commit_transaction(REQUEST_TIMEOUT),
            ProducerCommand::Plain(Call::Abort) => line.producer.abort_transaction(REQUEST_TIMEOUT),
            ProducerCommand::Plain(Call::Init | Call::Produce | Call::SendOffsets) => {
                return Err(CallError::Fatal(format!("{call:?} carries something")));
            }
        };
        done.map(|()| Vec::new()).map_err(|error| line.judge(errors::of_call(call, &error)))
    }

    fn init(&mut self) -> Result<(), CallError> {
        // A producer takes its id over once, and ending one can take as long as the brokers are away.
        if let Some(old) = self.line.take() {
            close_in_background(old);
        }
        let (sender, reports) = unbounded();
        let producer: ThreadedProducer<Context> = self
            .config
            .create_with_context(Context { reports: sender })
            .map_err(|error| CallError::Fatal(error.to_string()))?;
        let line = self.line.insert(ProducerSession { producer, backlog: Arc::clone(&self.backlog), reports });
        match self.delivery {
            Delivery::ExactlyOnce => {
                line.producer.init_transactions(REQUEST_TIMEOUT).map_err(|error| errors::of_call(Call::Init, &error))
            }
            Delivery::AtLeastOnce => Ok(()),
        }
    }
}

/// Notices a call that is made again and again and never done.
struct RetryDeadline {
    limit: Duration,
    /// Rings when the limit is over; none while calls are done.
    over: Option<Receiver<Instant>>,
}

impl RetryDeadline {
    const fn new(limit: Duration) -> Self {
        Self { limit, over: None }
    }

    fn judge(&mut self, answer: Answer) -> Answer {
        let Err(CallError::Retriable(why)) = answer else {
            self.over = None;
            return answer;
        };
        if self.over.get_or_insert_with(|| after(self.limit)).try_recv().is_err() {
            return Err(CallError::Retriable(why));
        }
        self.over = None;
        Err(CallError::Unknown(format!("{why}; still failing after {:?}", self.limit)))
    }
}

fn send_offsets(
    line: &ProducerSession,
    transactional: bool,
    marks: &[OffsetAndMetadata],
    membership: &Membership,
) -> Answer {
    if marks.is_empty() {
        return Ok(Vec::new());
    }
    let call = Call::SendOffsets;
    let list = list_of(marks).map_err(|error| errors::of_call(call, &error))?;
    let sent = if transactional {
        let Some(metadata) = membership.metadata() else {
            return Err(CallError::Abortable("the group is left".to_owned()));
        };
        line.producer.send_offsets_to_transaction(&list, &metadata, REQUEST_TIMEOUT)
    } else {
        membership.commit(&list)
    };
    sent.map(|()| Vec::new()).map_err(|error| errors::of_call(call, &error))
}

fn list_of(marks: &[OffsetAndMetadata]) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for mark in marks {
        let mut element = list.add_partition(&mark.partition.topic, mark.partition.number);
        element.set_offset(Offset::Offset(mark.offset))?;
        element.set_metadata(&mark.metadata);
    }
    Ok(list)
}

/// What became of the records of one `Produce`.
struct BatchOutcome {
    batch: u64,
    sent: usize,
    reported: usize,
    offsets: Vec<Option<i64>>,
    /// The record that the broker will never take, most likely, with its offence.
    refused: Option<(u64, CallError)>,
    failed: Option<CallError>,
}

impl BatchOutcome {
    fn note(&mut self, report: &Report) {
        if report.batch != self.batch {
            return;
        }
        self.reported += 1;
        match &report.result {
            // A record that was sent twice, as brokers come back, may be acknowledged without its place.
            Ok(..0) => self.failed = Some(CallError::Abortable("a record was written at an unknown offset".to_owned())),
            Ok(offset) => {
                if let Some(first) = self.offsets.get_mut(report.index) {
                    *first = Some(first.map_or(*offset, |known| known.min(*offset)));
                }
            }
            Err(code) => {
                if let Some(reason) = errors::refusal(*code) {
                    // A batch is refused as a whole: the largest record is to blame for its size, the one farthest from
                    // the clock for its timestamp, one without a key for being no valid record.
                    let offence = report.size.offence(reason);
                    if self.refused.as_ref().is_none_or(|(most, _)| *most < offence) {
                        self.refused = Some((offence, CallError::Undeliverable { index: report.index, reason }));
                    }
                } else {
                    let why = format!("{}{code}", errors::NOT_DELIVERED);
                    self.failed = Some(errors::of_code(Some(*code), why));
                }
            }
        }
    }

    fn verdict(self) -> Answer {
        match (self.failed, self.refused) {
            (Some(error @ (CallError::Fenced(_) | CallError::Fatal(_))), _)
            | (_, Some((_, error)))
            | (Some(error), None) => Err(error),
            (None, None) => Ok(self.offsets.into_iter().map(|offset| offset.unwrap_or(-1)).collect()),
        }
    }
}

impl ProducerSession {
    /// A client that knows no broker any more does not finish what it is asked, however often: then only a new one,
    /// made by [`Call::Init`], can tell what became of the transaction.
    fn judge(&self, error: CallError) -> CallError {
        match error {
            CallError::Retriable(why) if !has_brokers(self.producer.client(), None) => {
                CallError::Unknown(format!("{why}; no broker answers"))
            }
            error @ (CallError::Retriable(_)
            | CallError::Abortable(_)
            | CallError::Undeliverable { .. }
            | CallError::Fenced(_)
            | CallError::Fatal(_)
            | CallError::Unknown(_)) => error,
        }
    }

    fn produce(&self, batch: u64, cargo: &dyn RecordSource) -> Answer {
        self.produce_batch(batch, cargo).map_err(|error| match error {
            CallError::Abortable(why) => self.abort_cause().unwrap_or(CallError::Abortable(why)),
            error @ (CallError::Retriable(_)
            | CallError::Undeliverable { .. }
            | CallError::Fenced(_)
            | CallError::Fatal(_)
            | CallError::Unknown(_)) => error,
        })
    }

    /// Returns why the client has given the transaction up. Its reports of delivery tell that records were purged and not
    /// why; a call that does not fit is told. A client without transactions has no cause.
    fn abort_cause(&self) -> Option<CallError> {
        let error = self.producer.begin_transaction().err()?;
        let KafkaError::Transaction(cause) = &error else { return None };
        (cause.txn_requires_abort() || cause.is_fatal()).then(|| errors::of_call(Call::Produce, &error))
    }

    fn produce_batch(&self, batch: u64, cargo: &dyn RecordSource) -> Answer {
        while self.reports.try_recv().is_ok() {}
        let mut tally =
            BatchOutcome { batch, sent: 0, reported: 0, offsets: vec![None; cargo.len()], refused: None, failed: None };
        cargo.write_records(&mut |index, outgoing| self.send(&mut tally, index, &outgoing))?;
        // Ends lingering; the reports themselves come through the channel.
        if let Err(error) = self.producer.flush(REQUEST_TIMEOUT) {
            return Err(errors::of_code(error.rdkafka_error_code(), format!("records are not acknowledged: {error}")));
        }
        while tally.reported < tally.sent {
            match self.reports.recv_timeout(REQUEST_TIMEOUT) {
                Ok(report) => tally.note(&report),
                Err(_) => return Err(CallError::Abortable("records are not acknowledged".to_owned())),
            }
        }
        tally.verdict()
    }

    fn send(&self, tally: &mut BatchOutcome, index: usize, outgoing: &Outgoing<'_>) -> Result<(), CallError> {
        let mut headers = OwnedHeaders::new_with_capacity(outgoing.headers.len());
        let bytes = outgoing.bytes();
        for (name, value) in &outgoing.headers {
            headers = headers.insert(KafkaHeader { key: name, value: value.as_deref() });
        }
        let size = Size { bytes, skew_ms: outgoing.skew_ms, keyed: outgoing.key.is_some() };
        let ticket = Box::new(DeliveryContext { batch: tally.batch, index, size, on_its_way: self.backlog.add(bytes) });
        let mut record = BaseRecord::<[u8], [u8], _>::with_opaque_to(outgoing.topic, ticket);
        record.partition = outgoing.partition;
        record.key = outgoing.key;
        record.payload = outgoing.value.as_deref();
        record.timestamp = outgoing.timestamp;
        record.headers = (!outgoing.headers.is_empty()).then_some(headers);
        loop {
            match self.producer.send(record) {
                Ok(()) => {
                    tally.sent += 1;
                    return Ok(());
                }
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                    record = again;
                    if let Ok(report) = self.reports.recv_timeout(QUEUE_FULL_WAIT) {
                        tally.note(&report);
                    }
                }
                Err((error, _)) => {
                    let code = error.rdkafka_error_code();
                    return Err(match code.and_then(errors::refusal) {
                        Some(reason) => CallError::Undeliverable { index, reason },
                        None => errors::of_code(code, format!("topic {}: {error}", outgoing.topic)),
                    });
                }
            }
        }
    }
}

/// A cargo that was put together beforehand.
pub struct EncodedBatch {
    /// Topic of all its records.
    pub topic: Arc<str>,
    /// Partition of all its records.
    pub partition: i32,
    /// Values by thing handed over.
    pub values: Vec<Vec<Vec<u8>>>,
}

impl RecordSource for EncodedBatch {
    fn len(&self) -> usize {
        self.values.len()
    }

    fn write_records(&self, load: &mut RecordSink<'_>) -> Result<(), CallError> {
        for (index, parts) in self.values.iter().enumerate() {
            for part in parts {
                load(
                    index,
                    Outgoing {
                        topic: &self.topic,
                        partition: Some(self.partition),
                        value: Some(Cow::Borrowed(part)),
                        ..Outgoing::default()
                    },
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Reject;

    fn tally(len: usize) -> BatchOutcome {
        BatchOutcome { batch: 7, sent: len, reported: 0, offsets: vec![None; len], refused: None, failed: None }
    }

    fn report(index: usize, bytes: usize, result: Result<i64, RDKafkaErrorCode>) -> Report {
        Report { batch: 7, index, size: Size { bytes, skew_ms: 0, keyed: true }, result }
    }

    #[test]
    fn call_that_is_never_done_is_given_up_in_the_end() {
        let again = || Err(CallError::Retriable("busy".to_owned()));
        let mut patient = RetryDeadline::new(Duration::from_mins(1));
        for _ in 0..9 {
            assert_eq!(patient.judge(again()), again());
        }
        // A moment that is over when it begins.
        let mut unstable_asker = RetryDeadline::new(Duration::ZERO);
        assert!(
            matches!(unstable_asker.judge(again()), Err(CallError::Unknown(why)) if why == "busy; still failing after 0ns")
        );
        assert_eq!(unstable_asker.judge(Ok(vec![3])), Ok(vec![3]));
        // What is done in between begins the time anew.
        let mut busy = RetryDeadline { limit: Duration::from_mins(1), over: Some(after(Duration::ZERO)) };
        assert_eq!(busy.judge(Ok(vec![])), Ok(vec![]));
        assert_eq!(busy.judge(again()), again());
    }

    #[test]
    fn offset_of_a_thing_is_that_of_its_first_record() {
        let mut tally = tally(2);
        for (index, offset) in [(1, 14), (0, 12), (0, 11), (1, 13)] {
            tally.note(&report(index, 1, Ok(offset)));
        }
        assert_eq!(tally.verdict(), Ok(vec![11, 13]));
    }

    #[test]
    fn records_without_a_known_offset_are_written_again_in_another_transaction() {
        for unknown in [-1, -1001] {
            let mut tally = tally(2);
            tally.note(&report(0, 1, Ok(12)));
            tally.note(&report(1, 1, Ok(unknown)));
            let why = "a record was written at an unknown offset".to_owned();
            assert_eq!(tally.verdict(), Err(CallError::Abortable(why)));
        }
    }

    #[test]
    fn largest_refused_record_of_a_batch_is_to_blame() {
        let mut tally = tally(3);
        for (index, bytes) in [(0, 10), (1, 900), (2, 20)] {
            tally.note(&report(index, bytes, Err(RDKafkaErrorCode::MessageSizeTooLarge)));
        }
        assert_eq!(tally.verdict(), Err(CallError::Undeliverable { index: 1, reason: Reject::TooLargeForOutput }));
    }

    #[test]
    fn refused_record_farthest_from_the_clock_is_to_blame_for_its_timestamp() {
        let mut tally = tally(3);
        for (index, skew_ms) in [(0, 10), (1, 900), (2, 20)] {
            let size = Size { bytes: 1000 - index, skew_ms, keyed: true };
            tally.note(&Report { size, ..report(index, 0, Err(RDKafkaErrorCode::InvalidTimestamp)) });
        }
        assert_eq!(tally.verdict(), Err(CallError::Undeliverable { index: 1, reason: Reject::TimestampRefused }));
    }

    #[test]
    fn refused_record_without_a_key_is_to_blame_for_an_invalid_one() {
        let mut tally = tally(3);
        for (index, keyed) in [(0, true), (1, false), (2, true)] {
            let size = Size { bytes: 1000, skew_ms: 0, keyed };
            tally.note(&Report { size, ..report(index, 0, Err(RDKafkaErrorCode::InvalidRecord)) });
        }
        assert_eq!(tally.verdict(), Err(CallError::Undeliverable { index: 1, reason: Reject::Refused }));
    }

    #[test]
    fn fence_outranks_a_refusal() {
        let mut tally = tally(2);
        tally.note(&report(0, 1, Err(RDKafkaErrorCode::InvalidTimestamp)));
        tally.note(&report(1, 1, Err(RDKafkaErrorCode::Fenced)));
        assert!(matches!(tally.verdict(), Err(CallError::Fenced(_))));
    }

    #[test]
    fn late_report_of_an_earlier_transaction_is_not_counted() {
        let mut tally = tally(1);
        tally.note(&Report { batch: 6, ..report(0, 1, Ok(3)) });
        assert_eq!(tally.reported, 0);
    }
}
