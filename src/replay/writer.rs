//! Writes the pages, the own verdict log and the progress of a replay, in one transaction (law L2).
//!
//! One transaction is in flight while the next pages are judged. A batch is retried until it is committed, so verdicts
//! are never revoked. How large the next one may be follows from how fast the brokers took the last ones. The committed
//! offsets carry the hash of the plan and the totals.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use dupgate_core::replay::{CommitMetadata, Digest, Mark, Marks, Total, VerdictName, name_of};
use dupgate_core::worker::{Output, OutputKind, PageOutcome};

use crate::error::{Fatal, Reason};
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
use crate::runtime::clock::Clock;
use crate::runtime::driver::next_step;
use crate::runtime::fatal::{ended, failure};
use crate::transaction::{BatchLimit, Call, CallError, Delivery, TransactionMachine, TxnStep};

/// How long to wait for the answer to a call before doing other work.
const STEP: Duration = Duration::from_millis(100);

/// Maximum number of consecutive failed transactions.
const MAX_FAILURES: u32 = 20;

/// Sizes of the first batch and of the smallest limit, in bytes.
const FIRST_BYTES: usize = 256 << 10;
const MIN_BYTES: usize = 16 << 10;

/// Size of a batch, in bytes, at which a transaction ends on the fastest brokers.
pub(super) const MAX_BATCH_BYTES: usize = 16 << 20;

/// The content of one transaction.
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

/// A batch that is committed.
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
    /// The batch that is being committed.
    current: Option<Batch>,
    withdrawn: Vec<RefusedPage>,
    /// Digest of the outputs up to the last commit, and with the current batch.
    digest: Digest,
    next_digest: Arc<Mutex<Digest>>,
    failures: u32,
    is_ready: bool,
    limit: BatchLimit,
    clock: Clock,
    /// When the current batch was first sent.
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
            current: None,
            withdrawn: Vec::new(),
            digest,
            next_digest: Arc::default(),
            failures: 0,
            is_ready: false,
            limit: BatchLimit::new(FIRST_BYTES, MIN_BYTES, MAX_BATCH_BYTES, super::TRANSACTION),
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

    /// Returns whether a batch is in flight.
    pub(super) const fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// Starts committing a batch. None may be in flight.
    pub(super) fn commit(&mut self, batch: Batch) {
        self.current = Some(batch);
        self.begun_at = self.clock.now();
        let call = self.txn.begin();
        self.call(call);
    }

    /// Returns how large the next batch may be, in bytes.
    pub(super) const fn max_bytes(&self) -> usize {
        self.limit.size()
    }

    /// Continues with the batch in flight, waiting briefly if `wait` is set; returns what was committed.
    pub(super) fn step(&mut self, wait: bool) -> Result<Option<Committed>, Fatal> {
        let timeout = if wait { STEP } else { Duration::ZERO };
        let Ok((call, answer)) = self.answers.recv_timeout(timeout) else { return Ok(None) };
        let answer = answer.map(|_| ());
        if let Err(error) = &answer {
            tracing::warn!(target: "dupgate::replay", ?call, %error, "transactional call failed, {}", next_step(error));
        }
        match &answer {
            Err(CallError::Undeliverable { index, reason }) => self.withdraw(*index, *reason)?,
            Err(CallError::Abortable(_) | CallError::Unknown(_)) if call == Call::Produce => {
                self.limit.failed(self.current.as_ref().map_or(0, |batch| batch.bytes));
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
                self.resend();
            }
            TxnStep::Committed => return Ok(self.committed()),
            TxnStep::Aborted if self.is_ready => {
                self.count_failure()?;
                self.resend();
            }
            TxnStep::Aborted | TxnStep::Unknown(_) => {
                self.count_failure()?;
                // Until it succeeds, whether the batch in flight was committed is unknown.
                self.is_ready = false;
                let call = self.txn.init();
                self.call(call);
            }
            TxnStep::Fenced(why) => {
                let why = anyhow::anyhow!("another process has taken this replay over: {why}");
                return Err(Reason::Config.because(why));
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
            let why = anyhow::anyhow!("{MAX_FAILURES} transactions failed one after the other: resume later");
            return Err(Reason::Unavailable.because(why));
        }
        Ok(())
    }

    /// Digest of all outputs that are committed.
    pub(super) const fn digest(&self) -> Digest {
        self.digest
    }

    fn resend(&mut self) {
        if self.current.is_some() {
            let call = self.txn.begin();
            self.call(call);
        }
    }

    /// Checks whether the batch in flight was committed before the producer was recreated.
    fn was_committed(&self) -> Result<bool, Fatal> {
        let Some(batch) = &self.current else { return Ok(false) };
        let at = &self.settings.total_at;
        let known = self.offsets.committed(&[at.clone()].into());
        let known = known.map_err(|error| Reason::Unavailable.because(error))?;
        let total =
            known.get(at).and_then(Option::as_ref).and_then(|known| CommitMetadata::read(&known.metadata).total);
        Ok(total.is_some_and(|total| total.batches == batch.total.batches))
    }

    fn committed(&mut self) -> Option<Committed> {
        self.failures = 0;
        self.digest = *self.next_digest.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = self.current.take()?;
        self.limit.committed(batch.bytes, self.clock.now().saturating_sub(self.begun_at));
        let total = Total { outputs: self.digest.to_string(), ..batch.total };
        Some(Committed { total: Arc::new(total), withdrawn: mem::take(&mut self.withdrawn) })
    }

    fn withdraw(&mut self, index: usize, reason: Reject) -> Result<(), Fatal> {
        let page = self.current.as_mut().and_then(|batch| batch.pages.get_mut(index));
        let is_dead = |page: &Arc<Output<PagePayload>>| matches!(page.outcome, PageOutcome::DeadLetter(_));
        let Some(page) = page.filter(|page| !is_dead(page)) else {
            let why = anyhow::anyhow!("the brokers refuse what the replay writes: {}", reason.name());
            return Err(Reason::Failure.because(why));
        };
        let read = page.page.clone();
        self.withdrawn.push(RefusedPage { source: read.source.clone(), reason, was: name_of(&page.outcome) });
        *page = Arc::new(Output { page: read, outcome: PageOutcome::DeadLetter(reason) });
        Ok(())
    }

    fn call(&self, call: Call) {
        let empty = Batch::default();
        let batch = self.current.as_ref().unwrap_or(&empty);
        self.transactional.submit(match call {
            Call::Produce => ProducerCommand::Produce(Box::new(BatchRecords {
                outputs: Arc::clone(&self.settings.outputs),
                pages: batch.pages.clone(),
                verdicts: Arc::clone(&self.settings.verdicts),
                values: encoded(&batch.records),
                before: self.digest,
                after: Arc::clone(&self.next_digest),
            })),
            Call::SendOffsets => ProducerCommand::SendOffsets(self.offsets(batch), self.membership.clone()),
            call @ (Call::Init | Call::Begin | Call::Commit | Call::Abort) => ProducerCommand::Plain(call),
        });
    }

    fn offsets(&self, batch: &Batch) -> Vec<OffsetAndMetadata> {
        let outputs = self.next_digest.lock().unwrap_or_else(PoisonError::into_inner).to_string();
        let total = Arc::new(Total { outputs, ..batch.total.clone() });
        let offset_of = |(partition, &Mark { offset, read_to }): (&PartitionId, &Mark)| {
            let total = (*partition == self.settings.total_at).then(|| Arc::clone(&total));
            let metadata = CommitMetadata { plan: self.settings.plan.clone(), read_to, total }.text();
            OffsetAndMetadata { partition: partition.clone(), offset, metadata }
        };
        batch.marks.iter().map(offset_of).collect()
    }
}

type Values = Vec<(i32, Vec<Vec<u8>>)>;

fn encoded(records: &[(LogPartition, Vec<VerdictRecord>)]) -> Values {
    let of = |(log, records): &(LogPartition, Vec<VerdictRecord>)| {
        let values = records.iter().flat_map(|record| encode_verdict(record, DEFAULT_PART_BYTES)).collect();
        (log.number(), values)
    };
    records.iter().map(of).collect()
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
