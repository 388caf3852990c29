//! One client of librdkafka: its calls, what their errors mean, and the delivery reports of what it has sent.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header as KafkaHeader, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::{Answer, OffsetAndMetadata, OutgoingRecord, REQUEST_TIMEOUT, RecordSource};
use crate::kafka::budget::{InFlight, InFlightGuard};
use crate::kafka::client::LoggingContext;
use crate::kafka::errors;
use crate::kafka::group_consumer::Membership;
use crate::kafka::renewed_client::has_brokers;
use crate::record::Reject;
use crate::transaction::{Call, CallError};

/// How long to wait for space in the client's queue before trying again.
const QUEUE_FULL_WAIT: Duration = Duration::from_millis(50);

/// How long to wait for the metadata of a topic that has grown.
const METADATA_TIMEOUT: Duration = Duration::from_secs(5);

/// One client and the delivery reports of what it sent. A new session replaces it when only a new client can continue.
pub(super) struct ProducerSession {
    producer: ThreadedProducer<LoggingContext<ReportSink>>,
    in_flight: Arc<InFlight>,
    reports: Receiver<Report>,
}

impl ProducerSession {
    /// Creates the client. With transactions it still has to initialise its id: [`ProducerSession::init_transactions`].
    pub(super) fn connect(config: &ClientConfig, in_flight: Arc<InFlight>) -> Result<Self, CallError> {
        let (sink, reports) = ReportSink::new();
        let producer =
            config.create_with_context(LoggingContext(sink)).map_err(|error| CallError::Fatal(error.to_string()))?;
        Ok(Self { producer, in_flight, reports })
    }

    /// Initialises the transactional id: fences its previous owner and aborts the transaction that this one left open.
    pub(super) fn init_transactions(&self) -> Result<(), CallError> {
        // Not classified: without a broker, a new client would get no further than this one.
        self.producer.init_transactions(REQUEST_TIMEOUT).map_err(|error| errors::of_call(Call::Init, &error))
    }

    pub(super) fn begin(&self) -> Answer {
        self.answer(Call::Begin, self.producer.begin_transaction())
    }

    pub(super) fn commit(&self) -> Answer {
        self.answer(Call::Commit, self.producer.commit_transaction(REQUEST_TIMEOUT))
    }

    pub(super) fn abort(&self) -> Answer {
        self.answer(Call::Abort, self.producer.abort_transaction(REQUEST_TIMEOUT))
    }

    /// Adds these offsets to the transaction.
    pub(super) fn send_offsets(&self, offsets: &[OffsetAndMetadata], membership: &Membership) -> Answer {
        self.with_offsets(offsets, |list| {
            let Some(metadata) = membership.metadata() else {
                return Err(CallError::Abortable("the member has left the group".to_owned()));
            };
            let sent = self.producer.send_offsets_to_transaction(list, &metadata, REQUEST_TIMEOUT);
            sent.map_err(|error| errors::of_call(Call::SendOffsets, &error))
        })
    }

    /// Commits these offsets without a transaction.
    pub(super) fn commit_offsets(&self, offsets: &[OffsetAndMetadata], membership: &Membership) -> Answer {
        self.with_offsets(offsets, |list| {
            membership.commit(list).map_err(|error| errors::of_call(Call::SendOffsets, &error))
        })
    }

    fn with_offsets(
        &self,
        offsets: &[OffsetAndMetadata],
        send: impl FnOnce(&TopicPartitionList) -> Result<(), CallError>,
    ) -> Answer {
        if offsets.is_empty() {
            return Ok(Vec::new());
        }
        let list = list_of(offsets).map_err(|error| errors::of_call(Call::SendOffsets, &error));
        list.and_then(|list| send(&list)).map(|()| Vec::new()).map_err(|error| self.classify(error))
    }

    fn answer(&self, call: Call, done: Result<(), KafkaError>) -> Answer {
        done.map(|()| Vec::new()).map_err(|error| self.classify(errors::of_call(call, &error)))
    }

    /// Returns what an error means for this client. One that has lost all brokers never finishes a call: only a new
    /// one, created by [`Call::Init`], learns the outcome of the transaction.
    fn classify(&self, error: CallError) -> CallError {
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

    /// Sends these records and waits until all of them are acknowledged.
    pub(super) fn produce(&self, batch: u64, records: &dyn RecordSource) -> Answer {
        let answer = self.produce_batch(batch, records).map_err(|error| match error {
            CallError::Abortable(why) => self.abort_cause().unwrap_or(CallError::Abortable(why)),
            error @ (CallError::Retriable(_)
            | CallError::Undeliverable { .. }
            | CallError::Fenced(_)
            | CallError::Fatal(_)
            | CallError::Unknown(_)) => error,
        });
        answer.map_err(|error| self.classify(error))
    }

    /// Returns why the client has given up the transaction. Its delivery reports show that records were purged, but not
    /// why; a call that is out of place fails with the cause. Without transactions there is no cause to find.
    fn abort_cause(&self) -> Option<CallError> {
        let error = self.producer.begin_transaction().err()?;
        let KafkaError::Transaction(cause) = &error else { return None };
        (cause.txn_requires_abort() || cause.is_fatal()).then(|| errors::of_call(Call::Produce, &error))
    }

    fn produce_batch(&self, batch: u64, records: &dyn RecordSource) -> Answer {
        while self.reports.try_recv().is_ok() {}
        let mut outcome = BatchOutcome::new(batch, records.len());
        records.write_records(&mut |index, outgoing| self.send(&mut outcome, index, &outgoing))?;
        // The client's own way to wait, `flush`, looks only every tenth of a second.
        while !outcome.is_complete() {
            match self.reports.recv_timeout(REQUEST_TIMEOUT) {
                Ok(report) => outcome.note(&report),
                Err(_) => return Err(CallError::Abortable("records are not acknowledged".to_owned())),
            }
        }
        outcome.into_answer()
    }

    fn send(&self, outcome: &mut BatchOutcome, index: usize, outgoing: &OutgoingRecord<'_>) -> Result<(), CallError> {
        let mut headers = OwnedHeaders::new_with_capacity(outgoing.headers.len());
        let bytes = outgoing.bytes();
        for (name, value) in &outgoing.headers {
            headers = headers.insert(KafkaHeader { key: name, value: value.as_deref() });
        }
        let clues = RefusalClues { bytes, skew_ms: outgoing.skew_ms, keyed: outgoing.key.is_some() };
        let context =
            Box::new(DeliveryContext { batch: outcome.batch, index, clues, in_flight: self.in_flight.add(bytes) });
        let mut record = BaseRecord::<[u8], [u8], _>::with_opaque_to(outgoing.topic, context);
        record.partition = outgoing.partition;
        record.key = outgoing.key;
        record.payload = outgoing.value.as_deref();
        record.timestamp = outgoing.timestamp;
        record.headers = (!outgoing.headers.is_empty()).then_some(headers);
        let mut has_asked = false;
        loop {
            match self.producer.send(record) {
                Ok(()) => {
                    outcome.sent += 1;
                    return Ok(());
                }
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                    record = again;
                    if let Ok(report) = self.reports.recv_timeout(QUEUE_FULL_WAIT) {
                        outcome.note(&report);
                    }
                }
                // The client asks for the partitions of a topic every five minutes; the topic has grown since.
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::UnknownPartition), again)) if !has_asked => {
                    record = again;
                    has_asked = true;
                    // If no broker answers, the second attempt fails as the first.
                    let _ = self.producer.client().fetch_metadata(Some(outgoing.topic), METADATA_TIMEOUT);
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

fn list_of(offsets: &[OffsetAndMetadata]) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for offset in offsets {
        let mut element = list.add_partition(&offset.partition.topic, offset.partition.number);
        element.set_offset(Offset::Offset(offset.offset))?;
        element.set_metadata(&offset.metadata);
    }
    Ok(list)
}

struct Report {
    batch: u64,
    index: usize,
    clues: RefusalClues,
    result: Result<i64, NotWritten>,
}

/// Why a record was not written, and to which topic.
#[derive(Debug)]
struct NotWritten {
    topic: String,
    code: RDKafkaErrorCode,
}

/// Passes the delivery reports of one client on to its session.
struct ReportSink(Sender<Report>);

impl ReportSink {
    /// Returns the sink and the session's receiver.
    fn new() -> (Self, Receiver<Report>) {
        let (sender, reports) = unbounded();
        (Self(sender), reports)
    }
}

/// The properties of a record that a broker may refuse it for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RefusalClues {
    bytes: usize,
    skew_ms: u64,
    keyed: bool,
}

impl RefusalClues {
    /// Returns a score: the record with the highest one is most likely the cause of the refusal of its batch.
    fn blame(self, reason: Reject) -> u64 {
        if reason == Reject::TimestampRefused {
            self.skew_ms
        } else if reason == Reject::Refused && !self.keyed {
            // A compacted topic refuses records without a key.
            u64::MAX
        } else {
            u64::try_from(self.bytes).unwrap_or(u64::MAX)
        }
    }
}

/// Identifies the record of a delivery report.
struct DeliveryContext {
    batch: u64,
    index: usize,
    clues: RefusalClues,
    in_flight: InFlightGuard,
}

impl ProducerContext for LoggingContext<ReportSink> {
    type DeliveryOpaque = Box<DeliveryContext>;

    fn delivery(&self, result: &DeliveryResult<'_>, context: Self::DeliveryOpaque) {
        let result = match result {
            Ok(message) => Ok(message.offset()),
            Err((error, message)) => Err(NotWritten {
                topic: message.topic().to_owned(),
                code: error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown),
            }),
        };
        let DeliveryContext { batch, index, clues, in_flight } = *context;
        drop(in_flight);
        // The session of a replaced producer reads no reports.
        let _ = self.0.0.send(Report { batch, index, clues, result });
    }
}

struct BatchOutcome {
    batch: u64,
    sent: usize,
    reported: usize,
    offsets: Vec<Option<i64>>,
    /// The record that the broker most likely refused for good, with its score.
    refused: Option<(u64, CallError)>,
    failed: Option<CallError>,
}

impl BatchOutcome {
    /// Starts a batch with this number of items.
    fn new(batch: u64, items: usize) -> Self {
        Self { batch, sent: 0, reported: 0, offsets: vec![None; items], refused: None, failed: None }
    }

    /// Returns whether every sent record has its report.
    const fn is_complete(&self) -> bool {
        self.reported >= self.sent
    }

    /// Counts a report, unless it is of another batch.
    fn note(&mut self, report: &Report) {
        if report.batch != self.batch {
            return;
        }
        self.reported += 1;
        match &report.result {
            // While brokers come back, a record may be sent twice and then be acknowledged without its offset.
            Ok(..0) => self.failed = Some(CallError::Abortable("a record was written at an unknown offset".to_owned())),
            Ok(offset) => {
                if let Some(first) = self.offsets.get_mut(report.index) {
                    *first = Some(first.map_or(*offset, |known| known.min(*offset)));
                }
            }
            Err(NotWritten { topic, code }) => {
                if let Some(reason) = errors::refusal(*code) {
                    // A batch is refused as a whole: the largest record is to blame for its size, the one farthest from
                    // the clock for its timestamp, one without a key for being invalid.
                    let blame = report.clues.blame(reason);
                    if self.refused.as_ref().is_none_or(|(max, _)| *max < blame) {
                        self.refused = Some((blame, CallError::Undeliverable { index: report.index, reason }));
                    }
                } else {
                    let why = format!("{}{topic}: {code}", errors::NOT_DELIVERED);
                    self.failed = Some(errors::of_code(Some(*code), why));
                }
            }
        }
    }

    /// Returns the outcome of the batch. A fence or a fatal error outranks a refusal, and a refusal any other error.
    fn into_answer(self) -> Answer {
        match (self.failed, self.refused) {
            (Some(error @ (CallError::Fenced(_) | CallError::Fatal(_))), _)
            | (_, Some((_, error)))
            | (Some(error), None) => Err(error),
            (None, None) => Ok(self.offsets.into_iter().map(|offset| offset.unwrap_or(-1)).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(len: usize) -> BatchOutcome {
        BatchOutcome { sent: len, ..BatchOutcome::new(7, len) }
    }

    fn report(index: usize, bytes: usize, result: Result<i64, RDKafkaErrorCode>) -> Report {
        let result = result.map_err(|code| NotWritten { topic: "crawl.pages.dead".to_owned(), code });
        Report { batch: 7, index, clues: RefusalClues { bytes, skew_ms: 0, keyed: true }, result }
    }

    #[test]
    fn offset_of_an_item_is_that_of_its_first_record() {
        let mut outcome = outcome(2);
        for (index, offset) in [(1, 14), (0, 12), (0, 11), (1, 13)] {
            outcome.note(&report(index, 1, Ok(offset)));
        }
        assert_eq!(outcome.into_answer(), Ok(vec![11, 13]));
    }

    #[test]
    fn records_without_a_known_offset_are_written_again_in_another_transaction() {
        for unknown in [-1, -1001] {
            let mut outcome = outcome(2);
            outcome.note(&report(0, 1, Ok(12)));
            outcome.note(&report(1, 1, Ok(unknown)));
            let why = "a record was written at an unknown offset".to_owned();
            assert_eq!(outcome.into_answer(), Err(CallError::Abortable(why)));
        }
    }

    #[test]
    fn largest_refused_record_of_a_batch_is_to_blame() {
        let mut outcome = outcome(3);
        for (index, bytes) in [(0, 10), (1, 900), (2, 20)] {
            outcome.note(&report(index, bytes, Err(RDKafkaErrorCode::MessageSizeTooLarge)));
        }
        assert_eq!(
            outcome.into_answer(),
            Err(CallError::Undeliverable { index: 1, reason: Reject::TooLargeForOutput })
        );
    }

    #[test]
    fn refused_record_farthest_from_the_clock_is_to_blame_for_its_timestamp() {
        let mut outcome = outcome(3);
        for (index, skew_ms) in [(0, 10), (1, 900), (2, 20)] {
            let clues = RefusalClues { bytes: 1000 - index, skew_ms, keyed: true };
            outcome.note(&Report { clues, ..report(index, 0, Err(RDKafkaErrorCode::InvalidTimestamp)) });
        }
        assert_eq!(outcome.into_answer(), Err(CallError::Undeliverable { index: 1, reason: Reject::TimestampRefused }));
    }

    #[test]
    fn refused_record_without_a_key_is_to_blame_for_an_invalid_one() {
        let mut outcome = outcome(3);
        for (index, keyed) in [(0, true), (1, false), (2, true)] {
            let clues = RefusalClues { bytes: 1000, skew_ms: 0, keyed };
            outcome.note(&Report { clues, ..report(index, 0, Err(RDKafkaErrorCode::InvalidRecord)) });
        }
        assert_eq!(outcome.into_answer(), Err(CallError::Undeliverable { index: 1, reason: Reject::Refused }));
    }

    #[test]
    fn a_record_that_was_not_delivered_is_reported_with_its_topic() {
        let mut outcome = outcome(1);
        outcome.note(&report(0, 1, Err(RDKafkaErrorCode::MessageTimedOut)));
        let Err(CallError::Abortable(why)) = outcome.into_answer() else { panic!("not abortable") };
        assert!(why.starts_with("a record was not delivered: crawl.pages.dead: "), "{why}");
    }

    #[test]
    fn fence_outranks_a_refusal() {
        let mut outcome = outcome(2);
        outcome.note(&report(0, 1, Err(RDKafkaErrorCode::InvalidTimestamp)));
        outcome.note(&report(1, 1, Err(RDKafkaErrorCode::Fenced)));
        assert!(matches!(outcome.into_answer(), Err(CallError::Fenced(_))));
    }

    #[test]
    fn late_report_of_an_earlier_transaction_is_not_counted() {
        let mut outcome = outcome(1);
        outcome.note(&Report { batch: 6, ..report(0, 1, Ok(3)) });
        assert_eq!(outcome.reported, 0);
    }
}
