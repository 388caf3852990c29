//! Single pages of a topic: reads them by position, [`Pages`] a few at once and [`PositionReader`] many in partition
//! order; [`PageProducer`] writes them by key: those of the demo, and the plans of replays.
//!
//! A round of a [`PositionReader`] names the wanted positions; each is handed over once, or reported as gone. Nothing is
//! read outside rounds, so the rounds limit how far the client reads ahead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, after, never, tick};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Headers as _, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, Offset};

use super::client::LoggingContext;
use super::errors::is_passing;
use super::group_consumer::{ConsumedRecord, detach};
use super::offsets::Offsets;
use super::partition_list::{list_at, list_of};
use super::renewed_client::RenewedClient;
use crate::record::{Headers, PartitionId, RawRecord, Source};

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(20);

/// How often the brokers are asked whether what has not arrived exists, and it is fetched anew.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Time-out of that question.
const RANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Silence after which the reader queries the ranges of the partitions.
const SILENCE: Duration = Duration::from_secs(2);

/// Maximum kilobytes that the client fetches ahead: records that it fetches after a round are discarded.
const AHEAD_KILOBYTES: &str = "8192";

/// How long a full queue may stay full.
const FULL_QUEUE_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageBytes {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// Its headers with their values, in order.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl PageBytes {
    /// Returns the record in the form that the pure modules read.
    #[must_use]
    pub fn record(&self) -> RawRecord<'_> {
        let headers: &dyn Headers = &self.headers;
        RawRecord { key: self.key.as_deref(), value: self.value.as_deref(), headers }
    }
}

/// A reader of single records.
pub struct Pages {
    consumer: BaseConsumer<LoggingContext>,
    timeout: Duration,
}

impl Pages {
    /// Creates the client. The settings must be those of a reader that commits nothing
    /// ([`super::client::ConnectionSettings::follower`]); each fetch waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn open(config: &ClientConfig, timeout: Duration) -> Result<Self, KafkaError> {
        Ok(Self { consumer: config.create_with_context(LoggingContext(()))?, timeout })
    }

    /// Fetches these records. Those that are gone or do not arrive in time are missing from the result; a record
    /// before the start or after the end of its partition is not waited for.
    ///
    /// # Errors
    ///
    /// The client rejects the positions.
    pub fn fetch(&self, sources: &[&Source]) -> Result<BTreeMap<Source, PageBytes>, KafkaError> {
        let mut found = BTreeMap::new();
        let mut wanted: Vec<&Source> = sources.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        while !wanted.is_empty() {
            // Fetch one position of each partition at a time.
            let mut now: Vec<&Source> = Vec::new();
            wanted.retain(|source| {
                let taken = now.iter().any(|other| other.partition == source.partition);
                if !taken {
                    now.push(source);
                }
                taken
            });
            self.fetch_each(now, &mut found)?;
        }
        Ok(found)
    }

    fn fetch_each(&self, mut open: Vec<&Source>, found: &mut BTreeMap<Source, PageBytes>) -> Result<(), KafkaError> {
        self.assign(&open)?;
        let (late, recheck) = (after(self.timeout), tick(RECHECK_INTERVAL));
        while !open.is_empty() && late.try_recv().is_err() {
            let message = match self.consumer.poll(POLL) {
                Some(Ok(message)) => message,
                Some(Err(error)) => {
                    open.retain(|source| !may_concern(&error, source) || self.may_exist(source));
                    continue;
                }
                None => {
                    // The client reports an end once, and the broker may not have answered about it then. It may also have
                    // stopped for good, by an answer that is about the position before.
                    if recheck.try_recv().is_ok() {
                        open.retain(|source| self.may_exist(source));
                        self.assign(&open)?;
                    }
                    continue;
                }
            };
            let here = |source: &&Source| {
                *source.partition.topic == *message.topic() && source.partition.number == message.partition()
            };
            let Some(at) = open.iter().position(here) else { continue };
            let source = open.swap_remove(at);
            if source.offset == message.offset() {
                let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
                let headers =
                    headers.filter_map(|header| Some((header.key.to_owned(), header.value?.to_vec()))).collect();
                let (key, value) = (message.key().map(<[u8]>::to_vec), message.payload().map(<[u8]>::to_vec));
                found.insert(source.clone(), PageBytes { key, value, headers });
            }
        }
        self.consumer.unassign()
    }

    /// Reads from these positions on, and from no others.
    fn assign(&self, sources: &[&Source]) -> Result<(), KafkaError> {
        let at = |source: &Source| (source.partition.clone(), Offset::Offset(source.offset));
        self.consumer.assign(&list_at(sources.iter().copied().map(at))?)
    }

    /// Returns whether a position is between the start and the end of its partition, as far as the broker tells.
    fn may_exist(&self, source: &Source) -> bool {
        let partition = &source.partition;
        let range = self.consumer.fetch_watermarks(&partition.topic, partition.number, self.timeout.min(RANGE_TIMEOUT));
        range.map_or(true, |(start, end)| (start..end).contains(&source.offset))
    }
}

/// Returns whether an error may be about this position: that it is out of range, or at the end of its partition. The
/// error names no topic.
fn may_concern(error: &KafkaError, source: &Source) -> bool {
    *error == KafkaError::PartitionEOF(source.partition.number)
        || *error == KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset)
}

/// One answer of a round.
#[derive(Debug)]
pub enum PositionResult {
    Record(Source, ConsumedRecord),
    /// The partition no longer holds this position, because of retention or compaction.
    Gone(Source),
    /// The partition ends before this position: the topic was recreated.
    Beyond(Source),
    /// No answer arrived within one poll.
    Nothing,
}

/// A reader of selected records.
pub struct PositionReader {
    consumer: RenewedClient<BaseConsumer<LoggingContext>>,
    offsets: Offsets,
    /// The wanted offsets of each partition that have no answer yet.
    wanted: BTreeMap<PartitionId, BTreeSet<i64>>,
    /// Answers that were found together with an earlier one.
    ready: VecDeque<PositionResult>,
    /// Fires when nothing has arrived for a while.
    silence: Receiver<std::time::Instant>,
}

impl PositionReader {
    /// Creates the client. The settings must be those of a reader that commits nothing
    /// ([`super::client::ConnectionSettings::follower`]).
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn open(config: &ClientConfig, offsets: Offsets) -> Result<Self, KafkaError> {
        let mut config = config.clone();
        config.set("queued.max.messages.kbytes", AHEAD_KILOBYTES);
        Ok(Self {
            consumer: RenewedClient::consumer(&config, "reader of the input".to_owned())?,
            offsets,
            wanted: BTreeMap::new(),
            ready: VecDeque::new(),
            silence: never(),
        })
    }

    /// Starts a round. The previous one must have been answered.
    ///
    /// # Errors
    ///
    /// The client rejects the positions.
    pub fn begin(&mut self, wanted: BTreeMap<PartitionId, BTreeSet<i64>>) -> Result<(), KafkaError> {
        self.wanted = wanted;
        self.wanted.retain(|_, offsets| !offsets.is_empty());
        self.assign()
    }

    /// Returns whether everything wanted was answered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.wanted.is_empty() && self.ready.is_empty()
    }

    /// Waits a moment for the next answer.
    ///
    /// # Errors
    ///
    /// An error that the client cannot recover from.
    pub fn answer(&mut self) -> Result<PositionResult, KafkaError> {
        if let Some(ready) = self.ready.pop_front() {
            return Ok(ready);
        }
        if self.silence.try_recv().is_ok() {
            self.look()?;
        }
        match self.consumer.poll(POLL) {
            None | Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(Ok(message)) => {
                let partition = PartitionId::new(message.topic(), message.partition());
                let found = passes(&mut self.wanted, &partition, message.offset());
                let is_over = !self.wanted.contains_key(&partition);
                self.ready.extend(found.gone);
                if found.is_wanted {
                    self.ready.push_back(PositionResult::Record(partition.at(message.offset()), detach(&message)));
                }
                self.silence = after(SILENCE);
                if is_over {
                    // Records that arrive nevertheless are skipped.
                    let _ = self.consumer.pause(&list_of([partition]));
                }
            }
            Some(Err(error)) => match error.rdkafka_error_code() {
                Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => self.look()?,
                Some(code) if is_passing(code) => {}
                _ => return Err(error),
            },
        }
        Ok(self.ready.pop_front().unwrap_or(PositionResult::Nothing))
    }

    fn assign(&mut self) -> Result<(), KafkaError> {
        let firsts = self.wanted.iter().filter_map(|(partition, offsets)| Some((partition, *offsets.first()?)));
        let list = list_at(firsts.map(|(partition, first)| (partition, Offset::Offset(first))))?;
        self.silence = after(SILENCE);
        self.consumer.assign(&list)?;
        // The client keeps a pause across assignments.
        if list.count() > 0 { self.consumer.resume(&list) } else { Ok(()) }
    }

    /// Queries the ranges of the partitions, and continues at the next wanted offset.
    fn look(&mut self) -> Result<(), KafkaError> {
        // The partitions are assigned below, to whichever client is in use.
        self.consumer.replace_if_lost(|| None, |_, _| Ok(()));
        for (partition, offsets) in &mut self.wanted {
            // An unavailable leader is queried again later.
            let Ok(kept) = self.offsets.range(partition) else { continue };
            let (gone, beyond): (Vec<i64>, Vec<i64>) =
                offsets.iter().copied().filter(|at| !kept.contains(at)).partition(|at| *at < kept.start);
            offsets.retain(|at| kept.contains(at));
            self.ready.extend(gone.into_iter().map(|at| PositionResult::Gone(partition.at(at))));
            self.ready.extend(beyond.into_iter().map(|at| PositionResult::Beyond(partition.at(at))));
        }
        self.wanted.retain(|_, offsets| !offsets.is_empty());
        self.assign()
    }
}

/// The answers to wanted positions that follow from an arriving record.
struct Passed {
    /// The wanted positions before the record: they are gone.
    gone: Vec<PositionResult>,
    is_wanted: bool,
}

fn passes(wanted: &mut BTreeMap<PartitionId, BTreeSet<i64>>, partition: &PartitionId, offset: i64) -> Passed {
    let Some(offsets) = wanted.get_mut(partition) else { return Passed { gone: Vec::new(), is_wanted: false } };
    let mut left = offsets.split_off(&offset);
    std::mem::swap(offsets, &mut left);
    let gone = left.into_iter().map(|at| PositionResult::Gone(partition.at(at))).collect();
    let is_wanted = offsets.remove(&offset);
    if offsets.is_empty() {
        wanted.remove(partition);
    }
    Passed { gone, is_wanted }
}

/// One page to write. The client chooses the partition by the key; the timestamp is the time of sending.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    pub topic: &'a str,
    /// The record's key.
    pub key: &'a str,
    /// The record's value.
    pub value: &'a [u8],
    /// A header: its name and value.
    pub header: (&'a str, &'a str),
}

pub struct PageProducer {
    producer: ThreadedProducer<LoggingContext<Sink>>,
}

/// The result of writing a page: its key, and its position.
pub type Delivered = (String, Result<Source, KafkaError>);

type Sink = Arc<dyn Fn(Delivered) + Send + Sync>;

impl ProducerContext for LoggingContext<Sink> {
    type DeliveryOpaque = Box<String>;

    fn delivery(&self, result: &DeliveryResult<'_>, key: Self::DeliveryOpaque) {
        let place = match result {
            Ok(message) => Ok(PartitionId::new(message.topic(), message.partition()).at(message.offset())),
            Err((error, _)) => Err(error.clone()),
        };
        (self.0)((*key, place));
    }
}

impl PageProducer {
    /// Creates the producer. The result of each page goes to `sink`, on a thread of the client.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn open(config: &ClientConfig, sink: impl Fn(Delivered) + Send + Sync + 'static) -> Result<Self, KafkaError> {
        Ok(Self { producer: config.create_with_context(LoggingContext(Arc::new(sink) as Sink))? })
    }

    /// Hands a page to the client; waits while its queue is full.
    ///
    /// # Errors
    ///
    /// The client rejects it.
    pub fn write(&self, page: Page<'_>) -> Result<(), KafkaError> {
        let (name, value) = page.header;
        let mut record = BaseRecord::with_opaque_to(page.topic, Box::new(page.key.to_owned()))
            .key(page.key)
            .payload(page.value)
            .headers(OwnedHeaders::new().insert(Header { key: name, value: Some(value) }));
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    self.producer.flush(FULL_QUEUE_TIMEOUT)?;
                    record = back;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    /// Waits until every page is acknowledged or given up.
    ///
    /// # Errors
    ///
    /// Some are still in flight after half a minute.
    pub fn flush(&self) -> Result<(), KafkaError> {
        self.producer.flush(FULL_QUEUE_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_answers_for_itself_and_for_missing_ones_before_it() {
        let partition = PartitionId::new("pages", 0);
        let mut wanted = BTreeMap::from([(partition.clone(), BTreeSet::from([3, 5, 9]))]);
        let mut seen = Vec::new();
        for offset in [3, 4, 7, 9, 10] {
            let passed = passes(&mut wanted, &partition, offset);
            let gone: Vec<i64> = passed
                .gone
                .iter()
                .map(|picked| if let PositionResult::Gone(source) = picked { source.offset } else { -1 })
                .collect();
            seen.push((offset, passed.is_wanted, gone));
        }
        let none = Vec::new;
        assert_eq!(
            seen,
            [(3, true, none()), (4, false, none()), (7, false, vec![5]), (9, true, none()), (10, false, none())]
        );
        assert!(wanted.is_empty());
    }
}
