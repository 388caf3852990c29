//! The fingerprint log: appends requests to it, and reads them back.
//!
//! [`RequestLog`] gathers requests into Kafka records and reports the offset of each. [`Requests`] reads the log in step
//! with a reader of the verdict log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, after, tick};
use dupgate_core::judge::Asked;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, Offset};

use super::budget::{InFlight, InFlightGuard};
use super::client::LoggingContext;
use super::errors::{Denied, denied};
use super::partition_list::list_at;
use super::renewed_client::{Patience, RenewedClient};
use crate::protocol::{LogPartition, Request, RequestBody, RequestId, RequestOffset, decode_requests, encode_requests};
use crate::record::{PartitionId, Timestamp};

/// Maximum number of requests in one Kafka record.
pub const MAX_REQUESTS: usize = 512;

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(50);

/// The offset of a request, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The request's id.
    pub request: RequestId,
    /// Offset of the Kafka record that holds it.
    pub offset: Result<RequestOffset, NotAppended>,
}

/// Why the offset of a request is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAppended {
    /// It may or may not have been written; the owner must send it again.
    Uncertain,
    /// The brokers do not let us write, and retrying does not help.
    Denied,
}

/// Returns what is missing when an append to this topic is denied: the ACL to add.
#[must_use]
pub fn denied_append(topic: &str) -> Denied {
    Denied { operation: "Write", resource: "topic", name: topic.to_owned() }
}

/// Interval of looks at a producer that may be stuck.
const SILENCE_INTERVAL: Duration = Duration::from_secs(3);

/// Intervals without an acknowledgement after which a producer with records is replaced: longer than brokers stall. Each
/// replacement doubles them, up to [`MAX_PATIENCE`].
const PATIENCE: u32 = 5;

const MAX_PATIENCE: u32 = 20;

/// Finds a producer whose records are not acknowledged, although brokers answer.
struct Silence(Patience);

impl Silence {
    const fn new() -> Self {
        Self(Patience::new(PATIENCE, MAX_PATIENCE))
    }

    /// Notes that a record was acknowledged.
    const fn end(&mut self) {
        self.0.begin_again();
    }

    /// Notes that an interval has passed. Returns whether to replace the producer.
    fn passes(&mut self, has_records: bool, answers: bool) -> bool {
        if has_records && answers {
            return self.0.is_over(answers);
        }
        self.0.moves();
        false
    }
}

/// A writer of the fingerprint log.
pub struct RequestLog {
    producer: RenewedClient<ThreadedProducer<LoggingContext<Sink>>>,
    silence: Silence,
    looks: Receiver<std::time::Instant>,
    sink: Sink,
    in_flight: Arc<InFlight>,
    topic: String,
    /// Requests not handed to the client yet, by log partition.
    waiting: Vec<Vec<Request>>,
}

/// The records of a delivery report.
struct DeliveryContext {
    requests: Vec<RequestId>,
    in_flight: InFlightGuard,
}

/// Receives the answers.
#[derive(Clone)]
struct Sink {
    answers: Arc<dyn Fn(Appended) + Send + Sync>,
    /// Set by each acknowledged record.
    acknowledged: Arc<AtomicBool>,
}

impl ProducerContext for LoggingContext<Sink> {
    type DeliveryOpaque = Box<DeliveryContext>;

    fn delivery(&self, result: &DeliveryResult<'_>, context: Self::DeliveryOpaque) {
        let DeliveryContext { requests, in_flight } = *context;
        drop(in_flight);
        let offset = match result {
            Ok(message) => {
                self.0.acknowledged.store(true, Ordering::Relaxed);
                Ok(RequestOffset(message.offset()))
            }
            Err((error, _)) if denied(error, "").is_some() => Err(NotAppended::Denied),
            Err((error, _)) => {
                tracing::warn!(
                    target: "dupgate::kafka",
                    %error, requests = requests.len(), "delivery to the fingerprint log is uncertain: asking again"
                );
                Err(NotAppended::Uncertain)
            }
        };
        for request in requests {
            (self.0.answers)(Appended { request, offset });
        }
    }
}

impl RequestLog {
    /// Opens the log for appending. Answers go to `sink`, on a thread of the client. `in_flight` counts the records in
    /// flight.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn open(
        config: &ClientConfig,
        topic: String,
        partitions: usize,
        in_flight: Arc<InFlight>,
        sink: impl Fn(Appended) + Send + Sync + 'static,
    ) -> Result<Self, KafkaError> {
        let sink = Sink { answers: Arc::new(sink), acknowledged: Arc::default() };
        let (config, reports) = (config.clone(), sink.clone());
        let create = move || config.create_with_context(LoggingContext(reports.clone()));
        let producer = RenewedClient::new(format!("producer of {topic}"), create)?;
        let (silence, looks) = (Silence::new(), tick(SILENCE_INTERVAL));
        Ok(Self { producer, silence, looks, sink, in_flight, topic, waiting: vec![Vec::new(); partitions] })
    }

    /// Takes a request, and sends it with the next [`RequestLog::send`], or as soon as a record is full. A request to
    /// reopen a range is alone in its record: before it, the judge asks how far that partition is delivered.
    pub fn append(&mut self, log: LogPartition, request: Request) {
        let is_alone = matches!(request.body, RequestBody::Reopen { .. });
        if is_alone {
            self.send_partition(log);
        }
        let Some(waiting) = self.waiting.get_mut(log.index()) else {
            (self.sink.answers)(Appended { request: request.id, offset: Err(NotAppended::Uncertain) });
            return;
        };
        waiting.push(request);
        if is_alone || waiting.len() >= MAX_REQUESTS {
            self.send_partition(log);
        }
    }

    /// Returns whether requests wait for [`RequestLog::send`].
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.iter().any(|requests| !requests.is_empty())
    }

    /// Hands all waiting requests to the client.
    pub fn send(&mut self) {
        for log in LogPartition::first(self.waiting.len()) {
            self.send_partition(log);
        }
    }

    /// Replaces a client that has lost its brokers, or that asks a former leader of a topic that was created again. Call
    /// it periodically; it may take a second and a half while no broker answers.
    pub fn replace_if_lost(&mut self) {
        if self.sink.acknowledged.swap(false, Ordering::Relaxed) {
            self.producer.answered();
            self.silence.end();
        }
        // When the old client closes, it reports the records that it still holds as uncertain.
        self.producer.replace_if_lost(|| Some(self.topic.clone()), |_, _| Ok(()));
        let has_records = self.producer.in_flight_count() > 0;
        if self.looks.try_recv().is_ok() && self.silence.passes(has_records, self.producer.answers()) {
            self.producer.replace_stuck("no record is acknowledged");
        }
    }

    /// Waits until the client has delivered or given up everything that it was handed, but at most `timeout`.
    pub fn flush(&self, timeout: Duration) {
        if let Err(error) = self.producer.flush(timeout) {
            tracing::debug!(target: "dupgate::kafka", %error, "requests were still in flight");
        }
    }

    fn send_partition(&mut self, log: LogPartition) {
        let Some(waiting) = self.waiting.get_mut(log.index()).filter(|requests| !requests.is_empty()) else { return };
        let sent = std::mem::take(waiting);
        let requests = sent.iter().map(|request| request.id).collect();
        let mut payload = Vec::new();
        encode_requests(&sent, &mut payload);
        let context = Box::new(DeliveryContext { requests, in_flight: self.in_flight.add(payload.len()) });
        let record =
            BaseRecord::<(), [u8], _>::with_opaque_to(&self.topic, context).partition(log.number()).payload(&payload);
        if let Err((error, record)) = self.producer.send(record) {
            tracing::warn!(target: "dupgate::kafka", %error, "failed to send requests, sending them again");
            for request in record.delivery_opaque.requests {
                (self.sink.answers)(Appended { request, offset: Err(NotAppended::Uncertain) });
            }
        }
    }
}

/// Why requests cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RequestsError {
    /// The requests do not arrive in time.
    #[error("timed out after {timeout:?} reading requests of {partition} up to offset {end}")]
    Late {
        partition: PartitionId,
        end: RequestOffset,
        /// The time-out.
        timeout: Duration,
    },
    /// The client rejects the position, or no broker answers.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
}

/// A reader of one partition of the fingerprint log.
pub struct Requests {
    consumer: BaseConsumer<LoggingContext>,
    partition: PartitionId,
    timeout: Duration,
    /// The next offset to return; `None` before the first call.
    next: Option<RequestOffset>,
    /// A record that was read, but is at or after the end that was asked for.
    ahead: Option<Asked>,
}

impl Requests {
    /// Creates the client; each request waits at most `timeout`. The settings must be those of a reader that commits
    /// nothing ([`super::client::ConnectionSettings::follower`]).
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn open(config: &ClientConfig, partition: PartitionId, timeout: Duration) -> Result<Self, KafkaError> {
        Ok(Self {
            consumer: config.create_with_context(LoggingContext(()))?,
            partition,
            timeout,
            next: None,
            ahead: None,
        })
    }

    /// Returns the first offset that the log still holds.
    ///
    /// # Errors
    ///
    /// No broker answers.
    pub fn first(&self) -> Result<RequestOffset, KafkaError> {
        let range = self.consumer.fetch_watermarks(&self.partition.topic, self.partition.number, self.timeout);
        Ok(RequestOffset(range?.0))
    }

    /// Returns the records at `from <= offset < to`. Later calls continue where this one ended.
    ///
    /// # Errors
    ///
    /// The records do not arrive in time.
    pub fn between(&mut self, from: RequestOffset, to: RequestOffset) -> Result<Vec<Asked>, RequestsError> {
        let mut next = if let Some(next) = self.next {
            next.max(from)
        } else {
            self.consumer.assign(&list_at([(&self.partition, Offset::Offset(from.0))])?)?;
            from
        };
        let mut found = Vec::new();
        let late = after(self.timeout);
        while next < to {
            let appended = match self.ahead.take() {
                Some(appended) => appended,
                None => match self.consumer.poll(POLL) {
                    Some(Ok(message)) => Asked {
                        offset: RequestOffset(message.offset()),
                        append_time: message.timestamp().to_millis().map(Timestamp::from_millis).unwrap_or_default(),
                        // An unreadable record counts as empty, as it does for the judge.
                        requests: decode_requests(message.payload().unwrap_or_default()).unwrap_or_default(),
                    },
                    Some(Err(KafkaError::PartitionEOF(_))) | None if late.try_recv().is_err() => continue,
                    Some(Err(error)) if late.try_recv().is_err() => {
                        tracing::debug!(
                            target: "dupgate::kafka",
                            partition = %self.partition, %error, "reader of requests"
                        );
                        continue;
                    }
                    Some(Err(_)) | None => {
                        let (partition, timeout) = (self.partition.clone(), self.timeout);
                        return Err(RequestsError::Late { partition, end: to, timeout });
                    }
                },
            };
            if appended.offset < next {
                // A client may repeat records after its broker has returned.
                continue;
            }
            if appended.offset >= to {
                self.ahead = Some(appended);
                next = to;
            } else {
                next = appended.offset.next();
                found.push(appended);
            }
        }
        self.next = Some(next);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{PartitionId, Reject};

    #[test]
    fn a_producer_is_stuck_if_brokers_answer_and_acknowledge_nothing_for_a_while() {
        let mut silence = Silence::new();
        let after = |silence: &mut Silence| (1..100).find(|_| silence.passes(true, true));
        assert_eq!((after(&mut silence), after(&mut silence), after(&mut silence)), (Some(5), Some(10), Some(20)));
        assert_eq!(after(&mut silence), Some(20));
        silence.end();
        assert_eq!(after(&mut silence), Some(5));
        for (has_records, answers) in [(false, true), (true, false)] {
            assert!((0..3).all(|_| !silence.passes(true, true)));
            assert!(!silence.passes(has_records, answers));
        }
    }

    #[test]
    fn requests_count_as_backlog_until_they_are_given_up() {
        let mut config = ClientConfig::new();
        // Nothing listens there.
        config.set("bootstrap.servers", "127.0.0.1:1").set("message.timeout.ms", "5000");
        let in_flight = Arc::new(InFlight::default());
        let (sender, answers) = crossbeam_channel::unbounded();
        let sink = move |appended| sender.send(appended).unwrap();
        let mut log = RequestLog::open(&config, "t".to_owned(), 1, Arc::clone(&in_flight), sink).unwrap();
        let source = PartitionId::new("pages", 0).at(7);
        let withdraw = RequestBody::Withdraw { source, reason: Reject::Refused };
        log.append(LogPartition(0), Request { id: RequestId(1), body: withdraw });
        assert_eq!(in_flight.records(), 0, "nothing is handed over yet");
        log.send();
        assert!(in_flight.records() == 1 && in_flight.bytes() > 0);
        let answer = answers.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(answer, Appended { request: RequestId(1), offset: Err(NotAppended::Uncertain) });
        assert_eq!((in_flight.records(), in_flight.bytes()), (0, 0));
    }

    #[test]
    fn a_request_to_reopen_a_range_is_alone_in_its_record() {
        let mut config = ClientConfig::new();
        // Nothing listens there.
        config.set("bootstrap.servers", "127.0.0.1:1").set("message.timeout.ms", "1000");
        let in_flight = Arc::new(InFlight::default());
        let mut log = RequestLog::open(&config, "t".to_owned(), 1, Arc::clone(&in_flight), drop).unwrap();
        let partition = PartitionId::new("pages", 0);
        let withdraw = || RequestBody::Withdraw { source: partition.at(7), reason: Reject::Refused };
        let reopen = |from: i64| RequestBody::Reopen { partition: partition.clone(), from, to: from + 1 };
        for (body, records) in [(withdraw(), 0), (withdraw(), 0), (reopen(1), 2), (reopen(2), 3), (withdraw(), 3)] {
            log.append(LogPartition(0), Request { id: RequestId(1), body });
            assert_eq!(in_flight.records(), records);
        }
        assert!(log.is_waiting(), "pages and other requests share records");
    }
}
