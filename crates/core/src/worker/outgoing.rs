//! The outgoing transaction: routed pages and input offsets, committed together or not at all (law L2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::events::{Failure, Output, Page, PageOutcome, ProducerCall};
use crate::record::{PartitionId, Reject, Source};
use crate::transaction::{Call, CallError, Manner, TransactionMachine, TxnStep};

/// What goes out, one transaction after another, and what no broker has taken.
#[derive(Debug)]
pub(super) struct Outgoing<P> {
    manner: Manner,
    txn: TransactionMachine,
    /// The transactional id is ours.
    initialised: bool,
    batch: Batch<P>,
    /// Pages that no broker takes: to be withdrawn when they are read again.
    refused: BTreeMap<Source, Reject>,
    /// When the last transaction began.
    begun_at: Duration,
}

/// The pages and offsets of one transaction.
#[derive(Debug)]
pub(super) struct Batch<P> {
    outputs: Vec<Arc<Output<P>>>,
    offsets: BTreeMap<PartitionId, i64>,
    bytes: usize,
}

/// What the answer to a call means.
#[derive(Debug)]
pub(super) enum Answered<P> {
    /// Make this call next.
    Call(ProducerCall<P>),
    /// Pages and offsets are committed.
    Committed(Batch<P>),
    /// No transaction is open any more, and nothing of it is seen that was not committed: pages are read again from the
    /// committed offsets.
    Rewind,
    /// The producer cannot go on.
    Failed(Failure),
}

impl<P> Default for Batch<P> {
    fn default() -> Self {
        Self { outputs: Vec::new(), offsets: BTreeMap::new(), bytes: 0 }
    }
}

impl<P> Batch<P> {
    /// Adds a page; the offset behind it goes with it.
    pub(super) fn push(&mut self, page: Page<P>, outcome: PageOutcome) {
        self.bytes += page.bytes;
        self.offset(page.source.partition.clone(), page.source.offset.saturating_add(1));
        self.outputs.push(Arc::new(Output { page, outcome }));
    }

    /// Adds an offset to commit.
    pub(super) fn offset(&mut self, partition: PartitionId, offset: i64) {
        self.offsets.insert(partition, offset);
    }

    /// Says whether there is nothing to commit.
    pub(super) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Returns the pages and the offsets.
    pub(super) fn into_parts(self) -> (Vec<Arc<Output<P>>>, BTreeMap<PartitionId, i64>) {
        (self.outputs, self.offsets)
    }
}

impl<P> Outgoing<P> {
    /// Nothing is under way.
    pub(super) fn new(manner: Manner) -> Self {
        Self {
            manner,
            txn: TransactionMachine::new(manner),
            initialised: manner == Manner::Plain,
            batch: Batch::default(),
            refused: BTreeMap::new(),
            begun_at: Duration::ZERO,
        }
    }

    /// Takes over the transactional id, where there is one.
    pub(super) fn take_over(&mut self) -> Option<ProducerCall<P>> {
        if self.manner == Manner::Plain {
            return None;
        }
        self.initialised = false;
        let call = self.txn.init();
        Some(self.call(call))
    }

    /// Says whether the transactional id is ours.
    pub(super) fn is_initialised(&self) -> bool {
        self.initialised
    }

    /// Says whether a transaction is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.txn.is_busy()
    }

    /// Says whether the next transaction may begin.
    pub(super) fn is_idle(&self) -> bool {
        self.initialised && !self.is_busy()
    }

    /// Says whether so much time has passed since the last transaction began.
    pub(super) fn is_due(&self, now: Duration, interval: Duration) -> bool {
        now >= self.begun_at + interval
    }

    /// Returns the next transaction, to be filled while none is under way.
    pub(super) fn batch_mut(&mut self) -> &mut Batch<P> {
        &mut self.batch
    }

    /// Begins a transaction with what was filled in.
    pub(super) fn begin(&mut self, now: Duration) -> ProducerCall<P> {
        self.begun_at = now;
        let call = self.txn.begin();
        self.call(call)
    }

    /// Gives up the transaction under way, unless its commit is out.
    pub(super) fn abort(&mut self) -> Option<ProducerCall<P>> {
        self.txn.abort().map(|call| self.call(call))
    }

    /// Gives up the transaction under way because it takes too long. A commit that is out runs its course.
    pub(super) fn abort_late(&mut self) -> Option<ProducerCall<P>> {
        if self.txn.is_committing() { None } else { self.abort() }
    }

    /// Takes the answer to the call that is out.
    pub(super) fn answered(&mut self, result: Result<(), CallError>) -> Answered<P> {
        if let Err(CallError::Undeliverable { index, reason }) = &result
            && let Some(output) = self.batch.outputs.get(*index)
        {
            self.refused.insert(output.page.source.clone(), *reason);
        }
        match self.txn.answered(result) {
            TxnStep::Call(call) => Answered::Call(self.call(call)),
            TxnStep::Ready => {
                // Whatever was open under the id has ended: the committed offsets tell how.
                self.initialised = true;
                Answered::Rewind
            }
            TxnStep::Committed => {
                let batch = std::mem::take(&mut self.batch);
                for output in &batch.outputs {
                    self.refused.remove(&output.page.source);
                }
                Answered::Committed(batch)
            }
            TxnStep::Aborted if self.initialised => Answered::Rewind,
            // Whether it was committed is known when the transactional id is taken over, or was taken over at last.
            TxnStep::Aborted | TxnStep::Unknown(_) => self.take_over().map_or(Answered::Rewind, Answered::Call),
            TxnStep::Fenced(why) => Answered::Failed(Failure::Fenced(why)),
            TxnStep::Fatal(why) => Answered::Failed(Failure::Producer(why)),
        }
    }

    /// Drops the pages and offsets of the transaction.
    pub(super) fn rewind(&mut self) {
        self.batch = Batch::default();
    }

    /// Returns why no broker takes this page, if none does.
    pub(super) fn refusal(&self, source: &Source) -> Option<Reject> {
        self.refused.get(source).copied()
    }

    /// Says whether the transaction under way moves the offset of any of these partitions.
    pub(super) fn moves_any(&self, partitions: &BTreeSet<PartitionId>) -> bool {
        self.batch.offsets.keys().any(|partition| partitions.contains(partition))
    }

    /// Says whether the transaction under way moves the offset of this partition.
    pub(super) fn moves(&self, partition: &PartitionId) -> bool {
        self.batch.offsets.contains_key(partition)
    }

    /// Returns the pages of the transaction under way.
    pub(super) fn outputs(&self) -> &[Arc<Output<P>>] {
        &self.batch.outputs
    }

    /// Returns what they hold, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.batch.bytes
    }

    fn call(&self, call: Call) -> ProducerCall<P> {
        match call {
            Call::Produce => ProducerCall::Produce(self.batch.outputs.clone()),
            Call::SendOffsets => ProducerCall::SendOffsets(self.batch.offsets.clone()),
            Call::Init | Call::Begin | Call::Commit | Call::Abort => ProducerCall::Plain(call),
        }
    }
}
