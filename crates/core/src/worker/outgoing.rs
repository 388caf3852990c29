//! The outgoing transaction: routed pages and input offsets, committed together or not at all (law L2).
//!
//! It carries what [`BatchLimit`] allows. Pages of a transaction that was aborted, and that certainly nobody sees, go
//! back to their queues with their verdicts and are sent again, fewer at once. They are read again from the committed
//! offsets only if their place in the group, their verdicts or the outcome of the commit are in doubt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::events::{Failure, Output, Page, PageOutcome, ProducerCall};
use crate::record::{PartitionId, Reject, Source};
use crate::transaction::{BatchLimit, Call, CallError, Delivery, TransactionMachine, TxnStep};

/// Bytes of pages in the first transaction. What follows doubles as long as brokers are fast.
const FIRST_BYTES: usize = 256 * 1024;

/// Bytes of pages that are always tried at once.
const MIN_BYTES: usize = 16 * 1024;

/// Most bytes of pages in one transaction.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Longest pause before the next transaction while one after the other fails, in commit intervals.
const MAX_PAUSE: u32 = 32;

/// What goes out, one transaction after another, and what no broker has taken.
#[derive(Debug)]
pub(super) struct Outgoing<P> {
    delivery: Delivery,
    txn: TransactionMachine,
    /// The transactional id is ours.
    initialised: bool,
    batch: Batch<P>,
    /// Partitions that were lost while the transaction was under way: the next owner reads their pages.
    lost: BTreeSet<PartitionId>,
    /// Whether pages are read again if the transaction is aborted: see [`Outgoing::doubt`].
    in_doubt: bool,
    /// Pages that no broker takes: to be withdrawn when they are read again.
    refused: BTreeMap<Source, Reject>,
    limit: BatchLimit,
    /// The last partition of the last transaction, if that had no room for all pages that could have gone out.
    left_behind: Option<PartitionId>,
    /// Transactions that failed since the last commit.
    failures: u32,
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
    /// No transaction is open any more, and nobody sees these pages: they are sent again. Those of partitions that were
    /// lost are not among them.
    Aborted(Vec<Arc<Output<P>>>),
    /// No transaction is open any more, and nothing of it is seen that was not committed: pages are read again from the
    /// committed offsets.
    Rewind,
    /// The producer cannot continue.
    Failed(Failure),
}

impl<P> Default for Batch<P> {
    fn default() -> Self {
        Self { outputs: Vec::new(), offsets: BTreeMap::new(), bytes: 0 }
    }
}

impl<P> Batch<P> {
    /// Adds a page; the offset after it goes with it.
    pub(super) fn push(&mut self, page: Page<P>, outcome: PageOutcome) {
        self.bytes += page.bytes;
        self.offset(page.source.partition.clone(), page.source.offset.saturating_add(1));
        self.outputs.push(Arc::new(Output { page, outcome }));
    }

    /// Adds an offset to commit.
    pub(super) fn offset(&mut self, partition: PartitionId, offset: i64) {
        self.offsets.insert(partition, offset);
    }

    /// Returns the pages.
    pub(super) fn outputs(&self) -> &[Arc<Output<P>>] {
        &self.outputs
    }

    /// Returns whether there is nothing to commit.
    pub(super) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Returns the pages and the offsets.
    pub(super) fn into_parts(self) -> (Vec<Arc<Output<P>>>, BTreeMap<PartitionId, i64>) {
        (self.outputs, self.offsets)
    }
}

impl<P> Outgoing<P> {
    /// Nothing is under way. A transaction is meant to be committed well within its `timeout`.
    pub(super) fn new(delivery: Delivery, timeout: Duration) -> Self {
        Self {
            delivery,
            txn: TransactionMachine::new(delivery),
            initialised: delivery == Delivery::AtLeastOnce,
            batch: Batch::default(),
            lost: BTreeSet::new(),
            in_doubt: false,
            refused: BTreeMap::new(),
            limit: BatchLimit::new(FIRST_BYTES, MIN_BYTES, MAX_BYTES, timeout),
            left_behind: None,
            failures: 0,
            begun_at: Duration::ZERO,
        }
    }

    /// Takes over the transactional id, where there is one.
    pub(super) fn take_over(&mut self) -> Option<ProducerCall<P>> {
        if self.delivery == Delivery::AtLeastOnce {
            return None;
        }
        self.initialised = false;
        let call = self.txn.init();
        Some(self.call(call))
    }

    /// Returns whether the transactional id is ours.
    pub(super) fn is_initialised(&self) -> bool {
        self.initialised
    }

    /// Returns whether a transaction is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.txn.is_busy()
    }

    /// Returns whether the next transaction may begin.
    pub(super) fn is_idle(&self) -> bool {
        self.initialised && !self.is_busy()
    }

    /// Returns whether enough time has passed since the last transaction began: at most `interval`, less if the brokers
    /// are quick, and none if that one was full or `hurries` is set. After a failure `interval` must pass, twice as long
    /// after each further one.
    pub(super) fn is_due(&self, now: Duration, interval: Duration, hurries: bool) -> bool {
        match self.failures.checked_sub(1) {
            None => hurries || self.left_behind.is_some() || now >= self.begun_at + self.limit.interval(interval),
            Some(doublings) => now >= self.begun_at + interval * 2_u32.saturating_pow(doublings).min(MAX_PAUSE),
        }
    }

    /// Returns the next transaction, to be filled while none is under way.
    pub(super) fn batch_mut(&mut self) -> &mut Batch<P> {
        &mut self.batch
    }

    /// Returns how many bytes of pages the next transaction may carry. One page may be larger.
    pub(super) fn max_bytes(&self) -> usize {
        self.limit.size()
    }

    /// Notes that the transaction that is filled leaves pages behind that could go out, and the last partition that it
    /// took pages of.
    pub(super) fn leave_behind(&mut self, last: Option<PartitionId>) {
        self.left_behind = last;
    }

    /// Takes the last partition of the last transaction, if that left pages behind.
    pub(super) fn left_behind(&mut self) -> Option<PartitionId> {
        self.left_behind.take()
    }

    /// Begins a transaction with what was filled in.
    pub(super) fn begin(&mut self, now: Duration) -> ProducerCall<P> {
        self.begun_at = now;
        self.lost.clear();
        self.in_doubt = false;
        let call = self.txn.begin();
        self.call(call)
    }

    /// Gives up the transaction under way because these partitions were lost.
    pub(super) fn lose(&mut self, partitions: &BTreeSet<PartitionId>) -> Option<ProducerCall<P>> {
        if !self.batch.offsets.keys().any(|partition| partitions.contains(partition)) {
            return None;
        }
        self.lost.extend(partitions.iter().cloned());
        self.abort()
    }

    /// The verdict on pages of this partition has changed from an offset on: if the transaction under way holds one of
    /// them and is aborted, its pages are read and matched with their verdicts again.
    pub(super) fn doubt(&mut self, partition: &PartitionId, from: i64) {
        self.in_doubt |= self.batch.offsets.get(partition).is_some_and(|next| from < *next);
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
    pub(super) fn answered(&mut self, now: Duration, result: Result<(), CallError>) -> Answered<P> {
        if let (Err(error), Some(call)) = (&result, self.txn.outstanding()) {
            self.note_failure(call, error);
        }
        match self.txn.answered(result) {
            TxnStep::Call(call) => Answered::Call(self.call(call)),
            TxnStep::Ready => {
                // Whatever was open under the id has ended. If it was to be committed, the committed offsets show how.
                self.initialised = true;
                self.aborted()
            }
            TxnStep::Committed => {
                let batch = std::mem::take(&mut self.batch);
                for output in &batch.outputs {
                    self.refused.remove(&output.page.source);
                }
                self.failures = 0;
                self.limit.committed(batch.bytes, now.saturating_sub(self.begun_at));
                Answered::Committed(batch)
            }
            TxnStep::Aborted if self.initialised => self.aborted(),
            // Whether it was committed is known when the transactional id is taken over, or was taken over at last.
            TxnStep::Aborted | TxnStep::Unknown(_) => self.take_over().map_or(Answered::Rewind, Answered::Call),
            TxnStep::Fenced(why) => Answered::Failed(Failure::Fenced(why)),
            TxnStep::Fatal(why) => Answered::Failed(Failure::Producer(why)),
        }
    }

    /// Notes what a failed call says about the next transaction.
    fn note_failure(&mut self, call: Call, error: &CallError) {
        let is_final = match error {
            CallError::Retriable(_) => return,
            CallError::Undeliverable { index, reason } => {
                if let Some(output) = self.batch.outputs.get(*index) {
                    self.refused.insert(output.page.source.clone(), *reason);
                }
                self.in_doubt = true;
                return;
            }
            CallError::Abortable(_) => false,
            CallError::Unknown(_) | CallError::Fenced(_) | CallError::Fatal(_) => true,
        };
        match call {
            Call::Init | Call::Begin | Call::Abort => {}
            Call::Produce => self.limit.failed(self.batch.bytes),
            // The group has other offsets than we know, or we are no member of it any more.
            Call::SendOffsets => self.in_doubt |= !is_final,
            Call::Commit => self.in_doubt |= is_final,
        }
        self.failures = self.failures.saturating_add(1);
    }

    /// Takes the pages of a transaction that nobody sees.
    fn aborted(&mut self) -> Answered<P> {
        if self.in_doubt || self.batch.is_empty() {
            return Answered::Rewind;
        }
        let Batch { mut outputs, .. } = std::mem::take(&mut self.batch);
        outputs.retain(|output| !self.lost.contains(&output.page.source.partition));
        Answered::Aborted(outputs)
    }

    /// Drops the pages and offsets of the transaction.
    pub(super) fn rewind(&mut self) {
        self.batch = Batch::default();
    }

    /// Returns why no broker takes this page, if none does.
    pub(super) fn refusal(&self, source: &Source) -> Option<Reject> {
        self.refused.get(source).copied()
    }

    /// Returns whether the transaction under way moves the offset of this partition.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::tests::{input, page};

    const BEGUN: Duration = Duration::from_secs(1);

    fn name(answered: &Answered<()>) -> &'static str {
        match answered {
            Answered::Call(ProducerCall::Produce(_)) => "produce",
            Answered::Call(ProducerCall::SendOffsets(_)) => "send offsets",
            Answered::Call(ProducerCall::Plain(Call::Init)) => "init",
            Answered::Call(ProducerCall::Plain(Call::Abort)) => "abort",
            Answered::Call(ProducerCall::Plain(Call::Commit)) => "commit",
            Answered::Call(ProducerCall::Plain(_)) => "another call",
            Answered::Committed(_) => "committed",
            Answered::Aborted(_) => "aborted",
            Answered::Rewind => "rewind",
            Answered::Failed(_) => "failed",
        }
    }

    /// A transaction with the page at offset 4 of partition 0, begun by the owner of the transactional id.
    fn begun(delivery: Delivery) -> Outgoing<()> {
        let mut outgoing = Outgoing::new(delivery, Duration::from_secs(10));
        if outgoing.take_over().is_some() {
            assert!(!outgoing.is_idle(), "the id is not ours yet");
            assert_eq!(name(&outgoing.answered(BEGUN, Ok(()))), "rewind");
        }
        outgoing.batch_mut().push(page(0, 4, 1), PageOutcome::DeadLetter(Reject::Refused));
        outgoing.begin(BEGUN);
        outgoing
    }

    fn answers(outgoing: &mut Outgoing<()>, results: Vec<Result<(), CallError>>) -> Vec<&'static str> {
        results.into_iter().map(|result| name(&outgoing.answered(BEGUN, result))).collect()
    }

    #[test]
    fn pages_and_offsets_go_out_in_one_transaction() {
        let mut outgoing = begun(Delivery::ExactlyOnce);
        assert!(outgoing.moves(&input(0)) && !outgoing.moves(&input(1)));
        let steps = answers(&mut outgoing, vec![Ok(()), Ok(()), Ok(())]);
        assert_eq!(steps, ["produce", "send offsets", "commit"]);
        let took = Duration::from_millis(100);
        let Answered::Committed(batch) = outgoing.answered(BEGUN + took, Ok(())) else { panic!("not committed") };
        let (outputs, offsets) = batch.into_parts();
        assert_eq!((outputs.len(), offsets), (1, BTreeMap::from([(input(0), 5)])));
        assert!(outgoing.is_idle() && outgoing.batch_mut().is_empty());
        let is_due = |after, longest, hurries| outgoing.is_due(BEGUN + after, longest, hurries);
        let (short, long) = (Duration::from_millis(200), Duration::from_millis(600));
        assert!(!is_due(took, short, false) && is_due(took, short, true) && is_due(short, short, false));
        assert!(!is_due(took * 3 / 2, long, false) && is_due(took * 2, long, false), "the brokers are quick");
    }

    #[test]
    fn a_page_that_no_broker_takes_is_remembered_until_its_dead_letter_is_committed() {
        let mut outgoing = begun(Delivery::ExactlyOnce);
        let refused = CallError::Undeliverable { index: 0, reason: Reject::Refused };
        assert_eq!(answers(&mut outgoing, vec![Ok(()), Err(refused), Ok(())]), ["produce", "abort", "rewind"]);
        outgoing.rewind();
        assert_eq!(outgoing.refusal(&input(0).at(4)), Some(Reject::Refused));
        outgoing.batch_mut().push(page(0, 4, 1), PageOutcome::DeadLetter(Reject::Refused));
        outgoing.begin(Duration::from_secs(2));
        answers(&mut outgoing, vec![Ok(()); 4]);
        assert_eq!(outgoing.refusal(&input(0).at(4)), None);
    }

    #[test]
    fn a_commit_with_an_unknown_end_is_settled_by_taking_the_id_over() {
        let mut outgoing = begun(Delivery::ExactlyOnce);
        answers(&mut outgoing, vec![Ok(()); 3]);
        assert!(outgoing.abort_late().is_none(), "a commit that is out runs its course");
        let unknown = CallError::Unknown("timed out".to_owned());
        assert_eq!(answers(&mut outgoing, vec![Err(unknown), Ok(())]), ["init", "rewind"]);
    }

    fn late() -> Result<(), CallError> {
        Err(CallError::Abortable("timed out".to_owned()))
    }

    #[test]
    fn pages_that_brokers_are_too_slow_for_are_sent_again_fewer_at_once_and_later() {
        let mut outgoing = begun(Delivery::ExactlyOnce);
        assert_eq!(outgoing.max_bytes(), FIRST_BYTES);
        assert_eq!(answers(&mut outgoing, vec![Ok(()), late()]), ["produce", "abort"]);
        let Answered::Aborted(outputs) = outgoing.answered(BEGUN, Ok(())) else { panic!("not aborted") };
        assert_eq!(outputs.len(), 1);
        assert!(outgoing.is_idle() && outgoing.batch_mut().is_empty());
        assert_eq!(outgoing.max_bytes(), MIN_BYTES, "the page is smaller than a quarter of the limit");
        let interval = Duration::from_secs(1);
        for pause in [1, 2, 4, 8, 16, 32, 32] {
            assert!(!outgoing.is_due(BEGUN + interval * (pause - 1), interval, true), "{pause}");
            assert!(outgoing.is_due(BEGUN + interval * pause, interval, false), "{pause}");
            outgoing.batch_mut().push(page(0, 4, 1), PageOutcome::DeadLetter(Reject::Refused));
            outgoing.begin(BEGUN);
            assert_eq!(answers(&mut outgoing, vec![Ok(()), late(), Ok(())]), ["produce", "abort", "aborted"]);
        }
        outgoing.batch_mut().push(page(0, 4, 1), PageOutcome::DeadLetter(Reject::Refused));
        outgoing.begin(BEGUN);
        answers(&mut outgoing, vec![Ok(()); 4]);
        assert!(outgoing.is_due(BEGUN + interval, interval, false), "a commit ends the pause");
    }

    #[test]
    fn pages_whose_place_or_verdict_is_in_doubt_are_read_again() {
        let unknown = || Err(CallError::Unknown("timed out".to_owned()));
        // A time-out before the commit cannot have committed anything.
        for calls in 1..3 {
            let mut outgoing = begun(Delivery::ExactlyOnce);
            answers(&mut outgoing, vec![Ok(()); calls]);
            assert_eq!(answers(&mut outgoing, vec![unknown(), Ok(())]), ["init", "aborted"], "{calls}");
        }
        // The group does not accept the offsets.
        let mut outgoing = begun(Delivery::ExactlyOnce);
        assert_eq!(answers(&mut outgoing, vec![Ok(()), Ok(()), late(), Ok(())])[2..], ["abort", "rewind"]);
        for (partition, from, end) in [(0, 4, "rewind"), (0, 5, "aborted"), (1, 4, "aborted")] {
            let mut outgoing = begun(Delivery::ExactlyOnce);
            outgoing.doubt(&input(partition), from);
            assert_eq!(answers(&mut outgoing, vec![Ok(()), late(), Ok(())]), ["produce", "abort", end], "{from}");
        }
    }

    #[test]
    fn pages_of_a_lost_partition_do_not_come_back() {
        let mut outgoing = begun(Delivery::ExactlyOnce);
        assert!(outgoing.lose(&BTreeSet::from([input(1)])).is_none());
        answers(&mut outgoing, vec![Ok(()); 2]);
        assert!(outgoing.lose(&BTreeSet::from([input(0)])).is_none(), "a call is out");
        assert_eq!(answers(&mut outgoing, vec![Ok(())]), ["abort"]);
        let Answered::Aborted(outputs) = outgoing.answered(BEGUN, Ok(())) else { panic!("not aborted") };
        assert!(outputs.is_empty());
    }

    #[test]
    fn without_transactions_nothing_is_taken_over() {
        let mut outgoing = begun(Delivery::AtLeastOnce);
        let lost = CallError::Unknown("timed out".to_owned());
        assert_eq!(answers(&mut outgoing, vec![Ok(()), Err(lost)]), ["send offsets", "rewind"]);
        assert!(outgoing.is_idle());
    }
}
