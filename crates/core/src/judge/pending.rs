//! Verdicts from the moment they are made until they are committed with the position in the fingerprint log (law L2).
//!
//! A transaction carries as many of them as [`BatchLimit`] allows. What an aborted one has carried is the beginning of the
//! next, because verdicts are final.

use std::sync::Arc;
use std::time::Duration;

use super::InputOffsets;
use super::events::{JudgeSettings, ProducerCall};
use super::judged_log::JudgedLog;
use super::log_retention::TrimPoint;
use super::snapshot::SharedSnapshot;
use super::state::SourceSet;
use crate::protocol::{RequestOffset, Verdict, VerdictOffset, VerdictRecord};
use crate::transaction::{BatchLimit, Call, CallError, TransactionMachine, TxnStep};

/// What is judged and not committed, and the transaction that commits it.
#[derive(Debug)]
pub(super) struct Pending {
    txn: TransactionMachine,
    /// The verdicts that the next transaction may carry.
    limit: BatchLimit,
    /// Verdicts of the batch that is still open.
    open: Vec<Verdict>,
    /// Whether a record of requests was completed since the last batch was closed.
    passed: bool,
    /// Closed records, in order.
    closed: Vec<VerdictRecord>,
    /// What the transaction in progress carries.
    sent: Option<Sent>,
    /// When the oldest verdict that no transaction carries yet was made.
    oldest: Option<Duration>,
    /// When the last transaction began.
    begun_at: Duration,
    checkpoint: NextCheckpoint,
    /// How often the input group's offsets were asked for. [`Pending::reset`] keeps the number, so that no two
    /// questions share one.
    questions: u64,
    /// The pause before a refused transaction is sent again.
    pause: ResendPause,
    /// Offset of the barrier that the transaction in progress carries, once it has one.
    barrier: Option<VerdictOffset>,
}

/// What is known of the next checkpoint.
#[derive(Debug, Default)]
struct NextCheckpoint {
    /// Verdicts since the last one was written.
    verdicts_before: u64,
    /// Whether the input group's offsets were asked for, or the checkpoint is written but not committed.
    is_under_way: bool,
    /// Number of the question for the input group's offsets that has no answer yet.
    question: Option<u64>,
    /// The input group's offsets, kept while a record of requests is judged in part: the checkpoint is written at its
    /// end.
    input: Option<InputOffsets>,
    /// Positions whose verdicts were not committed when the question was asked: its answer says nothing about them.
    unsettled: SourceSet,
    /// Where the logs may be trimmed once the checkpoint is committed.
    trim: Option<TrimPoint>,
}

#[derive(Debug)]
struct Sent {
    records: Arc<Vec<VerdictRecord>>,
    offsets: Vec<VerdictOffset>,
    next_request: RequestOffset,
    /// A snapshot of the state after these records, if one was due.
    snapshot: Option<SharedSnapshot>,
}

/// What a transaction has committed.
#[derive(Debug)]
pub(super) struct Committed {
    /// Offset of its first record.
    pub(super) first: Option<VerdictOffset>,
    /// Offset of its last record.
    pub(super) last: Option<VerdictOffset>,
    /// Offset of the checkpoint it carried.
    pub(super) checkpoint: Option<VerdictOffset>,
    /// Where the logs may be trimmed now.
    pub(super) trim: Option<TrimPoint>,
    /// The snapshot of the state after its last record, if one was due when it began.
    pub(super) snapshot: Option<SharedSnapshot>,
}

impl Pending {
    /// Nothing is judged.
    pub(super) fn new(settings: &JudgeSettings) -> Self {
        let most = settings.pending_verdicts;
        Self::empty(BatchLimit::new(most / 16, (most / 256).max(1), most, settings.transaction_timeout))
    }

    fn empty(limit: BatchLimit) -> Self {
        Self {
            txn: TransactionMachine::default(),
            limit,
            open: Vec::new(),
            passed: false,
            closed: Vec::new(),
            sent: None,
            oldest: None,
            begun_at: Duration::ZERO,
            checkpoint: NextCheckpoint::default(),
            questions: 0,
            pause: ResendPause::default(),
            barrier: None,
        }
    }

    /// Drops everything that is not committed. An outstanding call is still waited for.
    pub(super) fn reset(&mut self) {
        *self = Self {
            txn: std::mem::take(&mut self.txn),
            begun_at: self.begun_at,
            questions: self.questions,
            ..Self::empty(self.limit.clone())
        };
    }

    /// Keeps what is not known to be committed in one line, because only the log shows what of it is: see
    /// [`Pending::confirm`]. Aborts the transaction; an outstanding call is still waited for. Returns the call to make
    /// now.
    pub(super) fn suspend(&mut self, log: &JudgedLog) -> Option<ProducerCall> {
        self.close_batch(log);
        self.take_back();
        self.oldest = None;
        self.pause = ResendPause::default();
        self.barrier = None;
        self.txn.abort().map(ProducerCall::Plain)
    }

    /// Takes what a record of the log shows to be committed out of what is not known to be. Returns how many of the
    /// record's verdicts were judged here, counted from its first; `None` if the log holds something else instead.
    ///
    /// Another judge that has judged the same requests meanwhile has made the same verdicts (law L5), but its batches
    /// may begin and end elsewhere: where ours has passed more requests, which need no verdict, an empty one still says so.
    pub(super) fn confirm(&mut self, record: &VerdictRecord) -> Option<usize> {
        let verdicts = verdicts_of(record);
        let mut rest = verdicts;
        let mut passed = RequestOffset(0);
        if self.closed.first() == Some(record) {
            self.closed.remove(0);
            rest = &[];
        } else if let VerdictRecord::Verdicts(batch) = record {
            passed = batch.next_request;
        } else {
            return None;
        }
        while !rest.is_empty()
            && let Some(first) = self.closed.first_mut()
        {
            let VerdictRecord::Verdicts(own) = first else { return None };
            let (same, later) = rest.split_at_checked(own.verdicts.len().min(rest.len()))?;
            if !own.verdicts.starts_with(same) {
                return None;
            }
            own.verdicts.drain(..same.len());
            if own.verdicts.is_empty() && (!later.is_empty() || own.next_request <= passed) {
                self.closed.remove(0);
            }
            rest = later;
        }
        // Batches without verdicts say only how far requests are passed. So does the record, unless it holds rules: the
        // requests are passed again.
        let is_empty =
            |record: &VerdictRecord| matches!(record, VerdictRecord::Verdicts(batch) if batch.verdicts.is_empty());
        if !matches!(record, VerdictRecord::Rules(_)) && self.closed.iter().all(is_empty) {
            self.closed.clear();
        }
        Some(verdicts.len().saturating_sub(rest.len()))
    }

    /// Lets what comes before the next verdict pass the requests before `next` as well: another judge has passed them, and
    /// none of them needed a verdict.
    pub(super) fn pass_at_least(&mut self, next: RequestOffset) {
        for record in self.closed.iter_mut().take_while(|record| verdicts_of(record).is_empty()) {
            match record {
                VerdictRecord::Verdicts(batch) => batch.next_request = batch.next_request.max(next),
                VerdictRecord::Checkpoint(checkpoint) => checkpoint.next_request = checkpoint.next_request.max(next),
                VerdictRecord::Rules(_) => {}
            }
        }
    }

    /// Begins to judge, and drops what was asked about the input before: the answer may have come while no checkpoint
    /// could be written, and the input group may have committed much since.
    pub(super) fn activate(&mut self, now: Duration) {
        self.begun_at = now;
        self.checkpoint.is_under_way = false;
        self.checkpoint.question = None;
        self.checkpoint.input = None;
    }

    /// Returns whether everything judged is committed.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && !self.passed && self.closed.is_empty() && self.sent.is_none()
    }

    /// Returns whether more may be judged before something is committed.
    pub(super) fn has_room(&self, now: Duration) -> bool {
        let is_old = self.oldest.is_some_and(|oldest| now >= oldest + self.limit.aim());
        self.open.len() + count(&self.closed) < self.limit.size() && !is_old
    }

    // ---- verdicts

    /// Adds a verdict.
    pub(super) fn push(&mut self, now: Duration, verdict: Verdict) {
        self.oldest.get_or_insert(now);
        if (self.checkpoint.question.is_some() || self.checkpoint.input.is_some())
            && let Some(source) = verdict.answer.judged_source()
        {
            self.checkpoint.unsettled.insert(source);
        }
        self.open.push(verdict);
        self.checkpoint.verdicts_before += 1;
    }

    /// Notes that a record of requests is judged, so that its position is committed with its verdicts.
    pub(super) fn pass(&mut self, log: &JudgedLog, batch_verdicts: usize) {
        self.passed = true;
        if self.open.len() >= batch_verdicts {
            self.close_batch(log);
        }
    }

    /// Adds rules that are in force from here on.
    pub(super) fn push_rules(&mut self, record: VerdictRecord) {
        self.closed.push(record);
    }

    /// Closes the open batch, if a record of requests was completed since the last one was closed.
    pub(super) fn close_batch(&mut self, log: &JudgedLog) {
        if !self.passed || !log.has_begun() {
            return;
        }
        self.passed = false;
        let verdicts = std::mem::take(&mut self.open);
        self.closed.extend(log.batch(verdicts));
    }

    // ---- checkpoints

    /// Returns whether it is time for a checkpoint.
    pub(super) fn wants_checkpoint(&self, interval: u64) -> bool {
        self.checkpoint.verdicts_before >= interval
    }

    /// Begins a checkpoint. Returns the number of the question for the input group's offsets; `None` while a checkpoint
    /// is under way.
    pub(super) fn begin_checkpoint(&mut self) -> Option<u64> {
        if std::mem::replace(&mut self.checkpoint.is_under_way, true) {
            return None;
        }
        self.next_question()
    }

    /// Drops the input group's offsets that are waited for or kept, because they may be older than the reopening of a
    /// range. If there were any, returns the number of the next question.
    pub(super) fn ask_again(&mut self) -> Option<u64> {
        let is_kept = self.checkpoint.input.take().is_some();
        if is_kept || self.checkpoint.question.is_some() { self.next_question() } else { None }
    }

    fn next_question(&mut self) -> Option<u64> {
        self.questions += 1;
        let records = self.sent.iter().flat_map(|sent| sent.records.iter()).chain(&self.closed);
        let verdicts = records.flat_map(verdicts_of);
        self.checkpoint.unsettled = SourceSet::of(verdicts.chain(&self.open));
        self.checkpoint.question = Some(self.questions);
        self.checkpoint.question
    }

    /// Returns true, once, if this is the question whose answer is waited for.
    pub(super) fn is_answered(&mut self, question: u64) -> bool {
        self.checkpoint.question.take_if(|asked| *asked == question).is_some()
    }

    /// Keeps the input group's offsets until the record of requests ends.
    pub(super) fn keep_input(&mut self, input: InputOffsets) {
        self.checkpoint.input = Some(input);
    }

    /// Takes the kept offsets of the input group.
    pub(super) fn take_input(&mut self) -> Option<InputOffsets> {
        self.checkpoint.input.take()
    }

    /// Takes the positions that the latest answer about the input group's offsets says nothing about.
    pub(super) fn take_unsettled(&mut self) -> SourceSet {
        std::mem::take(&mut self.checkpoint.unsettled)
    }

    /// Returns whether a checkpoint is written but not committed.
    pub(super) fn has_checkpoint(&self) -> bool {
        let sent = self.sent.iter().flat_map(|sent| sent.records.iter());
        sent.chain(&self.closed).any(is_checkpoint)
    }

    /// Adds the checkpoint that `write` makes after everything judged so far.
    pub(super) fn push_checkpoint(
        &mut self,
        log: &mut JudgedLog,
        write: impl FnOnce(&mut JudgedLog) -> Option<(VerdictRecord, Option<TrimPoint>)>,
    ) {
        self.close_batch(log);
        let Some((record, trim)) = write(log) else { return };
        self.checkpoint.trim = trim;
        self.checkpoint.verdicts_before = 0;
        self.checkpoint.is_under_way = true;
        self.closed.push(record);
    }

    // ---- the transaction

    /// Returns whether a call is outstanding, a transaction is open, or a refused one waits to begin again.
    pub(super) const fn is_busy(&self) -> bool {
        self.txn.is_busy() || self.pause.is_waiting()
    }

    /// Takes over the transactional id.
    pub(super) fn init(&mut self) -> ProducerCall {
        ProducerCall::Plain(self.txn.init())
    }

    /// Begins the transaction of the barrier that ends a take-over.
    pub(super) fn begin_barrier(&mut self) -> ProducerCall {
        self.barrier = None;
        ProducerCall::Plain(self.txn.begin_without_offsets())
    }

    /// Notes that the barrier is committed, and returns its offset.
    pub(super) fn barrier_committed(&mut self) -> Option<VerdictOffset> {
        self.pause = ResendPause::default();
        self.barrier.take()
    }

    /// Notes that the barrier's transaction is aborted. If the brokers refused it, the barrier is not written again
    /// before [`Pending::pause_is_over`].
    pub(super) fn barrier_aborted(&mut self, now: Duration) {
        self.pause.aborted(now);
    }

    /// Returns true, once, when what the brokers refused may be written again.
    pub(super) fn pause_is_over(&mut self, now: Duration) -> bool {
        self.pause.is_over(now)
    }

    /// Returns whether it is time to commit.
    pub(super) fn is_due(&self, now: Duration, settings: &JudgeSettings) -> bool {
        now >= self.begun_at + self.limit.interval(settings.commit_interval)
            || count(&self.closed) >= settings.batch_verdicts
    }

    /// Begins a transaction with what is judged, as far as it has room. If that is everything and a snapshot is due, it is
    /// taken here, where the state is that of the transaction's last record, so that the judge can go on before the
    /// transaction is committed.
    pub(super) fn begin(&mut self, now: Duration, log: &JudgedLog, is_snapshot_due: bool) -> ProducerCall {
        self.close_batch(log);
        let later = self.closed.split_off(self.first_records());
        let records = std::mem::replace(&mut self.closed, later);
        let has_all = self.closed.is_empty();
        self.oldest = (!has_all).then_some(now);
        let next_request = records.iter().rev().find_map(next_request).unwrap_or_else(|| log.state().next_request());
        let snapshot = if is_snapshot_due && has_all { log.snapshot() } else { None };
        self.sent = Some(Sent { records: Arc::new(records), offsets: Vec::new(), next_request, snapshot });
        self.begun_at = now;
        let call = self.txn.begin();
        self.call(call, log)
    }

    /// Returns how many closed records the next transaction has room for. Among them is at least one that says which
    /// request is the next.
    fn first_records(&self) -> usize {
        let (mut verdicts, mut says_next) = (0, false);
        for (records, record) in self.closed.iter().enumerate() {
            verdicts += verdicts_of(record).len();
            if verdicts > self.limit.size() && says_next {
                return records;
            }
            says_next |= next_request(record).is_some();
        }
        self.closed.len()
    }

    /// Notes that the transaction is aborted: the next one begins with the same verdicts, because they are final. If the
    /// brokers refused it, it waits until [`Pending::pause_is_over`].
    pub(super) fn aborted(&mut self, now: Duration) {
        if self.sent.is_some() {
            self.take_back();
            self.oldest = Some(now);
            self.pause.aborted(now);
        }
    }

    /// Puts what the transaction has carried before what is judged since.
    fn take_back(&mut self) {
        if let Some(sent) = self.sent.take() {
            self.closed.splice(0..0, Arc::unwrap_or_clone(sent.records));
        }
    }

    /// Returns how many times in a row the brokers refused the transaction that is to be committed.
    pub(super) const fn refusals(&self) -> u32 {
        self.pause.refusals()
    }

    /// Takes the answer to a call. A successful `Produce` gives the offsets of the records.
    pub(super) fn answered(&mut self, result: Result<Vec<VerdictOffset>, CallError>) -> TxnStep {
        if let Err(error) = &result {
            self.pause.failed(error);
            if self.txn.outstanding() == Some(Call::Produce)
                && matches!(error, CallError::Abortable(_) | CallError::Unknown(_))
            {
                self.limit.failed(self.sent.as_ref().map_or(0, |sent| count(&sent.records)));
            }
        }
        let outcome = result.map(|offsets| match &mut self.sent {
            Some(sent) if !offsets.is_empty() => sent.offsets = offsets,
            Some(_) => {}
            None => self.barrier = offsets.first().copied().or(self.barrier),
        });
        self.txn.answered(outcome)
    }

    /// Returns a call with what it carries.
    pub(super) fn call(&self, call: Call, log: &JudgedLog) -> ProducerCall {
        match (call, &self.sent) {
            (Call::Produce, Some(sent)) => ProducerCall::Produce(Arc::clone(&sent.records)),
            (Call::Produce, None) => ProducerCall::ProduceBarrier,
            (Call::SendOffsets, Some(sent)) => ProducerCall::SendOffsets {
                next_request: sent.next_request,
                checkpoint: sent.checkpoint().or(log.latest_checkpoint()),
            },
            _ => ProducerCall::Plain(call),
        }
    }

    /// Notes that the transaction is committed. Returns `None` if there was none.
    pub(super) fn committed(&mut self, now: Duration) -> Option<Committed> {
        let sent = self.sent.take()?;
        self.limit.committed(count(&sent.records), now.saturating_sub(self.begun_at));
        self.pause = ResendPause::default();
        let checkpoint = sent.checkpoint();
        let trim = checkpoint.and_then(|_| self.checkpoint.trim.take());
        self.checkpoint.is_under_way &= checkpoint.is_none();
        let (first, last) = (sent.offsets.first().copied(), sent.offsets.last().copied());
        let snapshot = sent.snapshot.map(|snapshot| snapshot.committed(last, checkpoint, trim));
        Some(Committed { first, last, checkpoint, trim, snapshot })
    }
}

impl Sent {
    /// Returns the offset of the checkpoint it carries, once its records have offsets.
    fn checkpoint(&self) -> Option<VerdictOffset> {
        let last = self.records.iter().zip(&self.offsets).rfind(|(record, _)| is_checkpoint(record));
        last.map(|(_, &offset)| offset)
    }
}

fn verdicts_of(record: &VerdictRecord) -> &[Verdict] {
    match record {
        VerdictRecord::Verdicts(batch) => &batch.verdicts,
        VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => &[],
    }
}

fn count(records: &[VerdictRecord]) -> usize {
    records.iter().map(|record| verdicts_of(record).len()).sum()
}

/// Returns the next request to judge after a record that says so.
fn next_request(record: &VerdictRecord) -> Option<RequestOffset> {
    match record {
        VerdictRecord::Verdicts(batch) => Some(batch.next_request),
        VerdictRecord::Checkpoint(checkpoint) => Some(checkpoint.next_request),
        VerdictRecord::Rules(_) => None,
    }
}

const fn is_checkpoint(record: &VerdictRecord) -> bool {
    matches!(record, VerdictRecord::Checkpoint(_))
}

/// The interval between snapshots, and whether one is due.
#[derive(Debug)]
pub(super) struct SnapshotSchedule {
    /// If absent, only snapshots that an operator wants are taken.
    interval: Option<Duration>,
    last: Duration,
    /// Whether a snapshot is due.
    due: bool,
    /// Whether an operator wants a snapshot.
    wanted: bool,
    /// Offset of the newest snapshot that was taken or restored.
    at: Option<VerdictOffset>,
}

impl SnapshotSchedule {
    pub(super) fn new(interval: Option<Duration>) -> Self {
        Self { interval, last: Duration::ZERO, due: false, wanted: false, at: None }
    }

    /// Restarts the interval.
    pub(super) fn begin(&mut self, now: Duration) {
        self.last = now;
    }

    /// Notes that the state at this offset was restored.
    pub(super) fn restored(&mut self, at: VerdictOffset) {
        self.at = Some(at);
    }

    /// Notes that an operator wants a snapshot.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// Finds out whether a snapshot is due.
    pub(super) fn look(&mut self, now: Duration) {
        self.due = self.wanted || self.interval.is_some_and(|interval| now >= self.last + interval);
    }

    /// Returns whether a snapshot was due at the last look.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Notes that a snapshot that was due is taken, of the state at this offset.
    pub(super) fn taken(&mut self, now: Duration, at: VerdictOffset) {
        (self.due, self.wanted) = (false, false);
        self.last = now;
        self.at = Some(at);
    }

    /// Returns whether to take a last snapshot before the end, of the state at this offset, so that the next start has
    /// little to follow. Returns false if there is one already, or if snapshots are not taken at intervals.
    pub(super) fn takes_last(&mut self, at: VerdictOffset) -> bool {
        self.interval.is_some() && self.at.replace(at) != Some(at)
    }
}

/// The first pause; each further one in a row is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// Whether, and until when, a refused transaction waits before it is begun again.
#[derive(Debug, Default)]
pub(super) struct ResendPause {
    /// Refusals since the last commit.
    refusals: u32,
    /// Whether the transaction that is being aborted was refused.
    is_refused: bool,
    /// When the refused transaction begins again.
    until: Option<Duration>,
}

impl ResendPause {
    /// Notes why a call failed.
    pub(super) fn failed(&mut self, error: &CallError) {
        if matches!(error, CallError::Undeliverable { .. }) {
            self.is_refused = true;
            self.refusals = self.refusals.saturating_add(1);
        }
    }

    /// Notes that the transaction is aborted. If it was refused, the pause begins.
    pub(super) fn aborted(&mut self, now: Duration) {
        if std::mem::take(&mut self.is_refused) {
            let doublings = self.refusals.saturating_sub(1).min(5);
            self.until = Some(now + (FIRST_PAUSE * (1 << doublings)).min(LONGEST_PAUSE));
        }
    }

    /// Returns true, once, when the pause is over.
    pub(super) fn is_over(&mut self, now: Duration) -> bool {
        self.until.take_if(|until| now >= *until).is_some()
    }

    /// Returns whether a transaction waits.
    pub(super) const fn is_waiting(&self) -> bool {
        self.until.is_some()
    }

    /// Returns how many times in a row the brokers refused the transaction that is to be committed.
    pub(super) const fn refusals(&self) -> u32 {
        self.refusals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn due(schedule: &mut SnapshotSchedule, now: Duration) -> bool {
        schedule.look(now);
        schedule.is_due()
    }

    #[test]
    fn one_is_due_after_each_interval_and_when_an_operator_wants_it() {
        let mut schedule = SnapshotSchedule::new(Some(5 * MINUTE));
        schedule.begin(MINUTE);
        assert!(!due(&mut schedule, 5 * MINUTE));
        assert!(due(&mut schedule, 6 * MINUTE));
        schedule.taken(7 * MINUTE, VerdictOffset(3));
        assert!(!due(&mut schedule, 11 * MINUTE));
        schedule.want();
        assert!(due(&mut schedule, 11 * MINUTE));
        schedule.taken(11 * MINUTE, VerdictOffset(4));
        assert!(!due(&mut schedule, 12 * MINUTE));
    }

    #[test]
    fn the_last_one_is_taken_unless_it_is_there() {
        let mut schedule = SnapshotSchedule::new(Some(MINUTE));
        schedule.restored(VerdictOffset(3));
        assert!(!schedule.takes_last(VerdictOffset(3)));
        assert!(schedule.takes_last(VerdictOffset(4)));
        assert!(!schedule.takes_last(VerdictOffset(4)));
        assert!(!SnapshotSchedule::new(None).takes_last(VerdictOffset(9)), "none are taken");
    }
}
