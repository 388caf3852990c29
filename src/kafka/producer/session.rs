//! One client of librdkafka: its calls, and what their errors mean.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header as KafkaHeader, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::delivery::{BatchOutcome, DeliveryContext, RefusalClues, Report, ReportSink};
use super::records::{OutgoingRecord, RecordSource};
use super::{Answer, OffsetAndMetadata, REQUEST_TIMEOUT};
use crate::kafka::budget::InFlight;
use crate::kafka::client::LoggingContext;
use crate::kafka::errors;
use crate::kafka::group_consumer::Membership;
use crate::kafka::watchdog::has_brokers;
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

    /// Begins a transaction.
    pub(super) fn begin(&self) -> Answer {
        self.answer(Call::Begin, self.producer.begin_transaction())
    }

    /// Commits the transaction.
    pub(super) fn commit(&self) -> Answer {
        self.answer(Call::Commit, self.producer.commit_transaction(REQUEST_TIMEOUT))
    }

    /// Aborts the transaction.
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
