//! Reads selected records of the input in partition order, skipping the others.
//!
//! A round names the wanted positions; each is handed over once, or reported as gone. Nothing is read outside rounds,
//! so the rounds limit how far the client reads ahead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crossbeam_channel::{Receiver, after, never};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::client::LoggingContext;
use super::errors::is_passing;
use super::group_consumer::{ConsumedRecord, detach};
use super::offsets::Offsets;
use super::renewed_client::RenewedClient;
use crate::record::{PartitionId, Source};

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(20);

/// Silence after which the reader queries the ranges of the partitions.
const SILENCE: Duration = Duration::from_secs(2);

/// Maximum kilobytes that the client fetches ahead: records that it fetches after a round are discarded.
const AHEAD_KILOBYTES: &str = "8192";

/// One answer of a round.
#[derive(Debug)]
pub enum PositionResult {
    /// A record.
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
                    let mut list = TopicPartitionList::new();
                    list.add_partition(&partition.topic, partition.number);
                    // Records that arrive nevertheless are skipped.
                    let _ = self.consumer.pause(&list);
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
        let mut list = TopicPartitionList::new();
        for (partition, offsets) in &self.wanted {
            let Some(first) = offsets.first() else { continue };
            list.add_partition_offset(&partition.topic, partition.number, Offset::Offset(*first))?;
        }
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
