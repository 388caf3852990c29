//! Writes the pages, the own verdict log and the progress of a replay, in one transaction (law L2).
//!
//! One transaction is in flight while the next pages are judged. Batches are retried until they are committed, so
//! verdicts are never revoked. How many of them one transaction carries follows from how fast the brokers took the last
//! ones: after a failure, fewer are sent again. The committed offsets carry the hash of the plan and the totals.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use dupgate_core::replay::{CommitMetadata, Digest, Mark, Marks, Total, VerdictName, name_of};
use dupgate_core::worker::{Output, OutputKind, PageOutcome};

use crate::clock::Clock;
use crate::error::{Fatal, Reason, fatal};
use crate::fatal::{ended, failure, unavailable};
use crate::kafka::budget::InFlight;
use crate::kafka::client::ClientSettings;
use crate::kafka::errors::denied_in;
use crate::kafka::group_consumer::Membership;
use crate::kafka::offsets::Offsets;
use crate::kafka::output::{Outputs, PagePayload};
use crate::kafka::producer::{
    Answer, OffsetAndMetadata, OutgoingRecord, ProducerCommand, RecordSink, RecordSource, TransactionalProducer,
};
use crate::protocol::{DEFAULT_PART_BYTES, LogPartition, VerdictRecord, encode_verdict};
use crate::record::{PartitionId, Reject, Source};
use crate::threads::next_step;
use crate::transaction::{BatchLimit, Call, CallError, Delivery, TransactionMachine, TxnStep};

/// How long to wait for the answer to a call before doing other work.
const STEP: Duration = Duration::from_millis(100);

/// Maximum number of consecutive failed transactions.
const MAX_FAILURES: u32 = 20;

/// The smallest limit of a transaction, in bytes.
const MIN_BYTES: usize = 16 << 10;

/// Maximum size of a batch, in bytes, unless a single page is larger: the first transaction carries one.
pub(super) const BATCH_BYTES: usize = 256 << 10;

/// The limit of a transaction on the fastest brokers, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Maximum number of pages in a batch, and in a transaction.
pub(super) const MAX_PAGES: usize = 5000;

/// Longest time between the beginnings of two transactions, while there is something to commit.
const COMMIT: Duration = Duration::from_millis(500);

/// The least that is committed as a whole.
#[derive(Default)]
pub(super) struct Batch {
    /// Its size in bytes.
    pub(super) bytes: usize,
    /// Pages, in the order of writing.
    pub(super) pages: Vec<Arc<Output<PagePayload>>>,
    /// Records of the replay's own verdict log.
    pub(super) records: Vec<(LogPartition, Vec<VerdictRecord>)>,
    /// How far the replay is in each partition of the input and of the live verdict log.
    pub(super) marks: Marks,
    /// The totals, without the digest of the outputs.
    pub(super) total: Total,
}

/// Batches that are not committed yet, oldest first: those of the transaction in flight, then those that wait for it.
#[derive(Default)]
struct Uncommitted {
    batches: VecDeque<Batch>,
    /// How many of them are in flight.
    in_flight: usize,
}

impl Uncommitted {
    /// Starts a transaction with as many batches as stay within `max_bytes` and [`MAX_PAGES`], and with at least one.
    fn send(&mut self, max_bytes: usize) {
        let (mut bytes, mut pages) = (0, 0);
        let fits = self.batches.iter().take_while(|batch| {
            bytes += batch.bytes;
            pages += batch.pages.len();
            bytes <= max_bytes && pages <= MAX_PAGES
        });
        self.in_flight = fits.count().max(1).min(self.batches.len());
    }

    /// Removes the batches in flight, which are committed.
    fn committed(&mut self) -> Vec<Batch> {
        self.batches.drain(..mem::take(&mut self.in_flight)).collect()
    }

    fn in_flight(&self) -> impl Iterator<Item = &Batch> {
        self.batches.iter().take(self.in_flight)
    }

    /// The last batch in flight: its totals and places are those of the transaction.
    fn last_in_flight(&self) -> Option<&Batch> {
        self.batches.get(self.in_flight.checked_sub(1)?)
    }

    /// The page at this position of the transaction in flight.
    fn page_mut(&mut self, index: usize) -> Option<&mut Arc<Output<PagePayload>>> {
        self.batches.iter_mut().take(self.in_flight).flat_map(|batch| &mut batch.pages).nth(index)
    }

    fn bytes_in_flight(&self) -> usize {
        self.in_flight().map(|batch| batch.bytes).sum()
    }

    /// Whether what waits fills a transaction.
    fn is_full(&self, max_bytes: usize) -> bool {
        let waiting = || self.batches.iter().skip(self.in_flight);
        let bytes: usize = waiting().map(|batch| batch.bytes).sum();
        bytes >= max_bytes || waiting().map(|batch| batch.pages.len()).sum::<usize>() >= MAX_PAGES
    }
}

/// What a transaction has committed.
pub(super) struct Committed {
    /// The totals.
    pub(super) total: Arc<Total>,
    /// Pages that the brokers refused: they are dead letters.
    pub(super) withdrawn: Vec<RefusedPage>,
}

/// A page that the brokers refused.
pub(super) struct RefusedPage {
    pub(super) source: Source,
    /// Why it is a dead letter.
    pub(super) reason: Reject,
    /// The verdict that it would have had.
    pub(super) was: VerdictName,
}

/// Names and clients of a writer.
pub(super) struct WriterSettings {
    /// Of the transactional producer.
    pub(super) producer: ClientSettings,
    /// Of the group whose offsets hold the progress of the replay.
    pub(super) group: ClientSettings,
    /// Its name. The transactional id begins with it.
    pub(super) own_group: String,
    /// The output topics.
    pub(super) topics: Vec<String>,
    /// Converts pages to records.
    pub(super) outputs: Arc<Outputs>,
    /// The own verdict log.
    pub(super) verdicts: Arc<str>,
    /// Hash of the plan.
    pub(super) plan: String,
    /// The partition whose metadata holds the totals.
    pub(super) total_at: PartitionId,
}

/// Commits batch after batch.
pub(super) struct Writer {
    settings: WriterSettings,
    transactional: TransactionalProducer,
    answers: Receiver<(Call, Answer)>,
    txn: TransactionMachine,
    membership: Membership,
    offsets: Offsets,
    uncommitted: Uncommitted,
    withdrawn: Vec<RefusedPage>,
    /// Digest of the outputs up to the last commit, and with the transaction in flight.
    digest: Digest,
    next_digest: Arc<Mutex<Digest>>,
    failures: u32,
    is_ready: bool,
    limit: BatchLimit,
    clock: Clock,
    /// When the transaction in flight, or the last one, was first sent.
    begun_at: Duration,
}

impl Writer {
    /// Initialises the transactional id. Continues from the outputs with this `digest`.
    pub(super) fn start(settings: WriterSettings, digest: Digest, clock: Clock) -> Result<Self, Fatal> {
        let (sender, answers) = unbounded();
        let sink = move |call, answer| drop(sender.send((call, answer)));
        let transactional = TransactionalProducer::start(
            settings.producer.clone(),
            Delivery::ExactlyOnce,
            "replay writer".to_owned(),
            Arc::<InFlight>::default(),
            sink,
        );
        let mut writer = Self {
            transactional: transactional.map_err(failure)?,
            answers,
            txn: TransactionMachine::new(Delivery::ExactlyOnce),
            membership: Membership::outside(&settings.group).map_err(failure)?,
            offsets: Offsets::new(&settings.group, super::QUERY_TIMEOUT).map_err(failure)?,
            settings,
            uncommitted: Uncommitted::default(),
            withdrawn: Vec::new(),
            digest,
            next_digest: Arc::default(),
            failures: 0,
            is_ready: false,
            limit: BatchLimit::new(BATCH_BYTES, MIN_BYTES, MAX_BYTES, super::TRANSACTION),
            clock,
            begun_at: Duration::ZERO,
        };
        let call = writer.txn.init();
        writer.call(call);
        while !writer.is_ready {
            writer.step(true)?;
        }
        Ok(writer)
    }

    /// Returns whether a transaction is in flight.
    pub(super) const fn is_busy(&self) -> bool {
        self.uncommitted.in_flight > 0
    }

    /// Returns whether anything is not committed.
    pub(super) fn has_uncommitted(&self) -> bool {
        !self.uncommitted.batches.is_empty()
    }

    /// Returns when the transaction in flight, or the last one, was first sent.
    pub(super) const fn begun_at(&self) -> Duration {
        self.begun_at
    }

    /// Adds a batch. It is sent with the next transactions.
    pub(super) fn add(&mut self, batch: Batch) {
        self.uncommitted.batches.push_back(batch);
    }

    /// Returns whether as much waits as one transaction may carry.
    pub(super) fn is_full(&self) -> bool {
        self.uncommitted.is_full(self.limit.size())
    }

    /// Returns how large the next batch may be, in bytes.
    pub(super) fn max_batch_bytes(&self) -> usize {
        self.limit.size().min(BATCH_BYTES)
    }

    /// Sends what waits, as far as it fits one transaction. None may be in flight.
    pub(super) fn send(&mut self) {
        if self.has_uncommitted() {
            self.begun_at = self.clock.now();
            self.begin();
        }
    }

    fn begin(&mut self) {
        self.uncommitted.send(self.limit.size());
        let call = self.txn.begin();
        self.call(call);
    }

    /// Continues with the transaction in flight, waiting briefly if `wait` is set; returns what was committed. Sends the
    /// next one if it is due.
    pub(super) fn step(&mut self, wait: bool) -> Result<Option<Committed>, Fatal> {
        if !self.is_busy() && self.clock.now().saturating_sub(self.begun_at) >= COMMIT {
            self.send();
        }
        let timeout = if wait { STEP } else { Duration::ZERO };
        let Ok((call, answer)) = self.answers.recv_timeout(timeout) else { return Ok(None) };
        let answer = answer.map(|_| ());
        if let Err(error) = &answer {
            tracing::warn!(target: "dupgate::replay", ?call, %error, "transactional call failed, {}", next_step(error));
        }
        match &answer {
            Err(CallError::Undeliverable { index, reason }) => self.withdraw(*index, *reason)?,
            Err(CallError::Abortable(_) | CallError::Unknown(_)) if call == Call::Produce => {
                self.limit.failed(self.uncommitted.bytes_in_flight());
            }
            Ok(()) | Err(_) => {}
        }
        match self.txn.answered(answer) {
            TxnStep::Call(call) => self.call(call),
            TxnStep::Ready => {
                self.is_ready = true;
                if self.was_committed()? {
                    return Ok(self.committed());
                }
                if self.is_busy() {
                    self.begin();
                }
            }
            TxnStep::Committed => return Ok(self.committed()),
            TxnStep::Aborted if self.is_ready => {
                self.count_failure()?;
                self.begin();
            }
            TxnStep::Aborted | TxnStep::Unknown(_) => {
                self.count_failure()?;
                // Until it succeeds, whether the transaction in flight was committed is unknown.
                self.is_ready = false;
                let call = self.txn.init();
                self.call(call);
            }
            TxnStep::Fenced(why) => {
                return Err(fatal!(Config, "another process has taken this replay over: {why}"));
            }
            TxnStep::Fatal(why) => {
                // The error does not name the topic.
                let is_topic = denied_in(&why).is_some_and(|denied| denied.resource == "topic");
                let to = if is_topic {
                    format!("; it writes to {}", self.settings.topics.join(", "))
                } else {
                    String::new()
                };
                let why = why + &to;
                return Err(ended(Reason::Failure, why, &self.settings.own_group));
            }
        }
        Ok(None)
    }

    /// Counts a failed transaction; ends the replay after too many consecutive ones.
    fn count_failure(&mut self) -> Result<(), Fatal> {
        self.failures += 1;
        if self.failures > MAX_FAILURES {
            return Err(fatal!(Unavailable, "{MAX_FAILURES} transactions failed one after the other: resume later"));
        }
        Ok(())
    }

    /// Digest of all outputs that are committed.
    pub(super) const fn digest(&self) -> Digest {
        self.digest
    }

    /// Checks whether the transaction in flight was committed before the producer was recreated.
    fn was_committed(&self) -> Result<bool, Fatal> {
        let Some(last) = self.uncommitted.last_in_flight() else { return Ok(false) };
        let at = &self.settings.total_at;
        let known = self.offsets.committed(&[at.clone()].into());
        let known = known.map_err(unavailable)?;
        let total =
            known.get(at).and_then(Option::as_ref).and_then(|known| CommitMetadata::read(&known.metadata).total);
        Ok(total.is_some_and(|total| total.batches == last.total.batches))
    }

    fn committed(&mut self) -> Option<Committed> {
        self.failures = 0;
        self.digest = *self.next_digest.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = self.uncommitted.bytes_in_flight();
        let last = self.uncommitted.committed().pop()?;
        self.limit.committed(bytes, self.clock.now().saturating_sub(self.begun_at));
        let total = Total { outputs: self.digest.to_string(), ..last.total };
        Some(Committed { total: Arc::new(total), withdrawn: mem::take(&mut self.withdrawn) })
    }

    fn withdraw(&mut self, index: usize, reason: Reject) -> Result<(), Fatal> {
        let is_dead = |page: &Arc<Output<PagePayload>>| matches!(page.outcome, PageOutcome::DeadLetter(_));
        let Some(page) = self.uncommitted.page_mut(index).filter(|page| !is_dead(page)) else {
            return Err(fatal!(Failure, "the brokers refuse what the replay writes: {}", reason.name()));
        };
        let read = page.page.clone();
        self.withdrawn.push(RefusedPage { source: read.source.clone(), reason, was: name_of(&page.outcome) });
        *page = Arc::new(Output { page: read, outcome: PageOutcome::DeadLetter(reason) });
        Ok(())
    }

    fn call(&self, call: Call) {
        let batches = || self.uncommitted.in_flight();
        self.transactional.submit(match call {
            Call::Produce => ProducerCommand::Produce(Box::new(BatchRecords {
                outputs: Arc::clone(&self.settings.outputs),
                pages: batches().flat_map(|batch| &batch.pages).cloned().collect(),
                verdicts: Arc::clone(&self.settings.verdicts),
                values: batches().flat_map(|batch| &batch.records).map(encoded).collect(),
                before: self.digest,
                after: Arc::clone(&self.next_digest),
            })),
            Call::SendOffsets => ProducerCommand::SendOffsets(self.offsets(), self.membership.clone()),
            call @ (Call::Init | Call::Begin | Call::Commit | Call::Abort) => ProducerCommand::Plain(call),
        });
    }

    fn offsets(&self) -> Vec<OffsetAndMetadata> {
        let Some(last) = self.uncommitted.last_in_flight() else { return Vec::new() };
        let outputs = self.next_digest.lock().unwrap_or_else(PoisonError::into_inner).to_string();
        let total = Arc::new(Total { outputs, ..last.total.clone() });
        let offset_of = |(partition, &Mark { offset, read_to }): (&PartitionId, &Mark)| {
            let total = (*partition == self.settings.total_at).then(|| Arc::clone(&total));
            let metadata = CommitMetadata { plan: self.settings.plan.clone(), read_to, total }.text();
            OffsetAndMetadata { partition: partition.clone(), offset, metadata }
        };
        last.marks.iter().map(offset_of).collect()
    }
}

type Values = Vec<(i32, Vec<Vec<u8>>)>;

fn encoded((log, records): &(LogPartition, Vec<VerdictRecord>)) -> (i32, Vec<Vec<u8>>) {
    let values = records.iter().flat_map(|record| encode_verdict(record, DEFAULT_PART_BYTES)).collect();
    (log.number(), values)
}

/// The records of one transaction.
struct BatchRecords {
    outputs: Arc<Outputs>,
    pages: Vec<Arc<Output<PagePayload>>>,
    verdicts: Arc<str>,
    values: Values,
    before: Digest,
    after: Arc<Mutex<Digest>>,
}

impl RecordSource for BatchRecords {
    fn len(&self) -> usize {
        self.pages.len() + 1
    }

    fn write_records(&self, load: &mut RecordSink<'_>) -> Result<(), CallError> {
        let mut digest = self.before;
        for (index, page) in self.pages.iter().enumerate() {
            self.outputs.write_page_records(page, &mut |output_kind, outgoing| {
                digest = with_record(digest, output_kind, &outgoing);
                load(index, outgoing)
            })?;
        }
        *self.after.lock().unwrap_or_else(PoisonError::into_inner) = digest;
        for (partition, values) in &self.values {
            for value in values {
                let value = Some(value.as_slice().into());
                let record = OutgoingRecord {
                    topic: &self.verdicts,
                    partition: Some(*partition),
                    value,
                    ..OutgoingRecord::default()
                };
                load(self.pages.len(), record)?;
            }
        }
        Ok(())
    }
}

/// All of a record except the name of its topic, which differs for each replay.
fn with_record(digest: Digest, output_kind: OutputKind, record: &OutgoingRecord<'_>) -> Digest {
    let partition = record.partition.unwrap_or(-1).to_le_bytes();
    let time = record.timestamp.unwrap_or(-1).to_le_bytes();
    let mut fields = vec![
        Some(output_kind.name().as_bytes()),
        Some(&partition[..]),
        record.key,
        record.value.as_deref(),
        Some(&time[..]),
    ];
    for (name, value) in &record.headers {
        fields.push(Some(name.as_bytes()));
        fields.push(value.as_deref());
    }
    digest.with(&fields)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(number: u64, bytes: usize) -> Batch {
        Batch { bytes, total: Total { batches: number, ..Total::default() }, ..Batch::default() }
    }

    /// The numbers of the batches in flight.
    fn in_flight(uncommitted: &Uncommitted) -> Vec<u64> {
        uncommitted.in_flight().map(|batch| batch.total.batches).collect()
    }

    #[test]
    fn fewer_batches_are_sent_again_after_a_failure() {
        let mut uncommitted = Uncommitted::default();
        uncommitted.batches.extend((1..=4).map(|number| batch(number, 100)));
        uncommitted.send(400);
        assert_eq!(in_flight(&uncommitted), [1, 2, 3, 4]);
        uncommitted.send(250);
        assert_eq!(in_flight(&uncommitted), [1, 2]);
        assert_eq!(uncommitted.bytes_in_flight(), 200);
        assert_eq!(uncommitted.last_in_flight().map(|batch| batch.total.batches), Some(2), "its totals are committed");
        assert!(uncommitted.is_full(200) && !uncommitted.is_full(201), "the others wait");
    }

    proptest! {
        #[test]
        fn each_batch_is_committed_once_and_in_order(
            sizes in prop::collection::vec(0_usize..100, 1..20),
            limits in prop::collection::vec(1_usize..300, 60),
            commits in prop::collection::vec(any::<bool>(), 60),
        ) {
            let mut uncommitted = Uncommitted::default();
            uncommitted.batches.extend((0..).zip(&sizes).map(|(number, bytes)| batch(number, *bytes)));
            let mut committed = Vec::new();
            for (limit, is_committed) in limits.into_iter().zip(commits).chain([(usize::MAX, true)]) {
                uncommitted.send(limit);
                prop_assert_eq!(in_flight(&uncommitted).is_empty(), uncommitted.batches.is_empty());
                prop_assert!(uncommitted.bytes_in_flight() <= limit || uncommitted.in_flight == 1);
                if is_committed {
                    committed.extend(uncommitted.committed().into_iter().map(|batch| batch.total.batches));
                }
            }
            prop_assert_eq!(committed, (0..sizes.len() as u64).collect::<Vec<_>>());
        }
    }
}
