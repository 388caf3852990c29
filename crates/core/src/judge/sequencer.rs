//! Requests in, verdicts out, committed with the place in the fingerprint log (law L2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::decide::decide_watched;
use super::events::{Effect, Failure, ProducerCall};
use super::machine::{Judge, Role};
use super::{InputOffsets, State};
use crate::protocol::{
    Answer, Request, RequestBody, RequestOffset, Verdict, VerdictBatch, VerdictOffset, VerdictRecord,
};
use crate::record::{PartitionId, Timestamp};
use crate::transaction::{Call, CallError, TxnStep};

/// How many requests before its turn a request's cache lines are asked for.
const LINES_AHEAD: usize = 8;

/// How many requests before its turn what those lines lead to is asked for.
const RUNS_AHEAD: usize = 3;

/// What is judged and not committed.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Verdicts of the batch that is still open.
    pub(super) open: Vec<Verdict>,
    /// Requests were passed since the last closed batch.
    pub(super) passed: bool,
    /// Closed records, in order.
    pub(super) closed: Vec<VerdictRecord>,
    /// How many verdicts the closed records hold.
    pub(super) closed_verdicts: usize,
    /// What the transaction in progress carries.
    pub(super) sent: Option<Sent>,
    /// When the first of the verdicts was made that no transaction carries yet.
    pub(super) oldest: Option<Duration>,
    /// Verdicts since the last checkpoint was written.
    pub(super) since_checkpoint: u64,
    /// The input group's offsets were asked for, or a checkpoint is on its way.
    pub(super) checkpointing: bool,
    /// The input group's offsets, for the checkpoint that is written where the record of requests ends.
    pub(super) input: Option<InputOffsets>,
    /// What may be trimmed once the checkpoint on its way is committed.
    pub(super) trim: Option<(VerdictOffset, RequestOffset)>,
}

/// One record of the fingerprint log that is judged in steps.
#[derive(Debug)]
pub(super) struct Unfinished {
    offset: RequestOffset,
    append_time: Timestamp,
    requests: Vec<Request>,
    /// How many of them are judged.
    pub(super) judged: usize,
    /// A checkpoint comes before it: it depends on how far the input group has committed.
    pub(super) waits: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) records: Arc<Vec<VerdictRecord>>,
    pub(super) offsets: Vec<VerdictOffset>,
    pub(super) next_request: RequestOffset,
}
impl Judge {
    // ---- judging

    pub(super) fn judge(&mut self, offset: RequestOffset, append_time: Timestamp, requests: Vec<Request>) {
        if self.role == Role::Active && offset >= self.state.next_request() && self.unfinished.is_none() {
            let waits = asks_beyond_delivered(&self.state, requests.first());
            self.unfinished = Some(Unfinished { offset, append_time, requests, judged: 0, waits });
            if waits {
                self.ask_for_input();
            } else {
                self.judge_on();
            }
        }
    }

    /// Judges the next requests of the record at hand; the batch may end after the last.
    pub(super) fn judge_on(&mut self) {
        self.looks.clear();
        let Some(mut record) = self.unfinished.take_if(|record| !record.waits) else { return };
        let end = record.judged.saturating_add(self.settings.step_requests.max(1));
        while let Some(request) = record.requests.get(record.judged).filter(|_| record.judged < end) {
            self.fetch_ahead(&record.requests, record.judged);
            record.judged += 1;
            let looks = &mut self.looks;
            let Some(verdict) = decide_watched(&self.state, request, record.append_time, |seen| looks.push(seen))
            else {
                self.repeats += 1;
                continue;
            };
            self.clamped += u64::from(is_clamped(request, &verdict));
            if let Err(why) = self.state.follow(&verdict) {
                let failure = Failure::Unreadable { offset: self.position, why: why.to_string() };
                self.effects.push_back(Effect::Fail(failure));
                return;
            }
            self.spans.note(&verdict, self.state.next_sequence());
            self.output.oldest.get_or_insert(self.now);
            self.output.open.push(verdict);
            self.output.since_checkpoint += 1;
        }
        if record.judged < record.requests.len() {
            self.unfinished = Some(record);
            return;
        }
        self.state.pass_requests(record.offset.next());
        self.output.passed = true;
        if self.output.open.len() >= self.settings.batch_verdicts {
            self.close_batch();
        }
        if let Some(input) = self.output.input.take() {
            self.write_checkpoint(&input);
        }
    }

    /// Asks the memory for what the requests after this one will read.
    fn fetch_ahead(&self, requests: &[Request], number: usize) {
        let index = self.state.index();
        if let Some(RequestBody::Page(page)) = requests.get(number + LINES_AHEAD).map(|request| &request.body) {
            index.prefetch(&page.fingerprints, page.scope);
        }
        if let Some(RequestBody::Page(page)) = requests.get(number + RUNS_AHEAD).map(|request| &request.body) {
            index.prefetch_runs(&page.fingerprints, page.scope);
        }
    }

    fn close_batch(&mut self) {
        let Some(log) = self.state.log() else { return };
        if !self.output.passed {
            return;
        }
        self.output.passed = false;
        let verdicts = std::mem::take(&mut self.output.open);
        self.output.closed_verdicts += verdicts.len();
        self.output.closed.push(VerdictRecord::Verdicts(VerdictBatch {
            log,
            rules: self.state.rules_number(),
            watermarks: self.state.watermarks(),
            next_request: self.state.next_request(),
            verdicts,
        }));
    }

    /// The offsets for a checkpoint are there. One that comes within a record of requests is written at its end.
    pub(super) fn input_committed(&mut self, input: InputOffsets) {
        if self.is_within_record() {
            self.output.input = Some(input);
        } else {
            self.write_checkpoint(&input);
            if let Some(record) = &mut self.unfinished {
                record.waits = false;
            }
        }
    }

    /// Asks for what a checkpoint needs, unless that is on its way.
    pub(super) fn ask_for_input(&mut self) {
        if !self.output.checkpointing {
            self.output.checkpointing = true;
            self.effects.push_back(Effect::FetchInputCommitted);
        }
    }

    /// Writes a checkpoint behind everything judged so far.
    pub(super) fn write_checkpoint(&mut self, input: &InputOffsets) {
        let on_its_way = |records: &[VerdictRecord]| records.iter().any(is_checkpoint);
        let sent = self.output.sent.as_ref().is_some_and(|sent| on_its_way(&sent.records));
        if self.role != Role::Active || sent || on_its_way(&self.output.closed) {
            return;
        }
        self.close_batch();
        let (state, spans) = (&self.state, &self.spans);
        let low_watermark = |partition: &PartitionId| spans.low_watermark(partition, state.delivered(partition), input);
        let delivered = self.delivered(input);
        let Some(checkpoint) = state.checkpoint(self.latest_checkpoint, low_watermark, &delivered) else { return };
        let keep_from = self.state.stream_time().minus(self.keep());
        self.output.trim = self
            .spans
            .trim_point(self.state.first_live_sequence(), input, keep_from)
            .map(|verdicts| (verdicts, self.state.next_request()));
        self.state.raise_floors(&checkpoint);
        self.spans.open(None, self.state.next_sequence());
        self.output.since_checkpoint = 0;
        self.output.checkpointing = true;
        self.output.closed.push(VerdictRecord::Checkpoint(Box::new(checkpoint)));
    }

    /// Returns how far each partition was delivered, as far as the input group says. A group has no offset of a topic that was
    /// made anew, because brokers delete offsets with their topic: where a range of such a partition is to be reopened, all
    /// that was judged of it counts as delivered, because nobody goes on there before.
    fn delivered(&self, input: &InputOffsets) -> BTreeMap<PartitionId, i64> {
        let mut delivered = input.committed.clone();
        let waiting = self.unfinished.as_ref().filter(|record| record.waits);
        if let Some(RequestBody::Reopen { partition, .. }) =
            waiting.and_then(|record| record.requests.first()).map(|request| &request.body)
            && input.partitions.contains(partition)
        {
            delivered.entry(partition.clone()).or_insert_with(|| self.state.judged_end(partition));
        }
        delivered
    }

    /// How long verdicts are kept: as configured, and never less than an original can be matched.
    fn keep(&self) -> Duration {
        let rules = self.state.rules().unwrap_or(&self.settings.rules);
        self.settings.keep.max(rules.windows.max() + rules.lateness)
    }

    // ---- committing

    pub(super) fn called(&mut self, result: Result<Vec<VerdictOffset>, CallError>) {
        let outcome = match result {
            Ok(offsets) => {
                if let Some(sent) = self.output.sent.as_mut().filter(|_| !offsets.is_empty()) {
                    sent.offsets = offsets;
                }
                Ok(())
            }
            Err(error) => Err(error),
        };
        match self.txn.answered(outcome) {
            TxnStep::Call(call) => self.call(call),
            TxnStep::Ready if self.role == Role::TakingOver => self.effects.push_back(Effect::FollowToLast),
            TxnStep::Committed if matches!(self.role, Role::Active | Role::Draining) => self.committed(),
            // The same verdicts again, in a new transaction: they are final.
            TxnStep::Aborted if matches!(self.role, Role::Active | Role::Draining) => self.resend(),
            // What a former life had in flight has ended.
            TxnStep::Aborted if self.role == Role::TakingOver => {
                self.role = Role::Standby;
                self.try_take_over();
            }
            TxnStep::Ready | TxnStep::Committed | TxnStep::Aborted => self.try_take_over(),
            TxnStep::Fenced(_) | TxnStep::Fatal(_) | TxnStep::Unknown(_) => match self.role {
                Role::Active | Role::Draining | Role::TakingOver => self.leave_and_restore(),
                Role::Restoring | Role::Standby => self.try_take_over(),
                Role::Stopped => {}
            },
        }
    }

    fn call(&mut self, call: Call) {
        let request = match (call, &self.output.sent) {
            (Call::Produce, Some(sent)) => ProducerCall::Produce(Arc::clone(&sent.records)),
            (Call::SendOffsets, Some(sent)) => {
                ProducerCall::SendOffsets { next_request: sent.next_request, checkpoint: self.checkpoint_with(sent) }
            }
            _ => ProducerCall::Plain(call),
        };
        self.effects.push_back(Effect::Call(request));
    }

    fn checkpoint_with(&self, sent: &Sent) -> Option<VerdictOffset> {
        checkpoint_in(sent).or(self.latest_checkpoint)
    }

    pub(super) fn begin(&mut self, now: Duration) {
        self.close_batch();
        let records = std::mem::take(&mut self.output.closed);
        self.output.closed_verdicts = 0;
        self.output.oldest = None;
        let next_request = self.state.next_request();
        self.output.sent = Some(Sent { records: Arc::new(records), offsets: Vec::new(), next_request });
        self.last_commit = now;
        let call = self.txn.begin();
        self.call(call);
    }

    fn resend(&mut self) {
        if self.output.sent.is_some() {
            let call = self.txn.begin();
            self.call(call);
        }
    }

    fn committed(&mut self) {
        let Some(sent) = self.output.sent.take() else { return };
        if let Some(&last) = sent.offsets.last() {
            self.position = last.next();
        }
        if let Some(checkpoint) = checkpoint_in(&sent) {
            self.spans.place(checkpoint);
            self.latest_checkpoint = Some(checkpoint);
            self.output.checkpointing = false;
            if self.unfinished.as_ref().is_some_and(|record| record.waits) {
                self.ask_for_input();
            }
            if let Some((verdicts, requests)) = self.output.trim.take() {
                self.spans.trimmed_to(verdicts);
                self.effects.push_back(Effect::Trim { verdicts, requests });
            }
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        let output = &self.output;
        output.open.is_empty()
            && !output.passed
            && output.closed.is_empty()
            && output.sent.is_none()
            && !self.is_unfinished()
    }
}

/// Says whether this request reopens more than the log says was delivered: the input group may have committed more since.
fn asks_beyond_delivered(state: &State, request: Option<&Request>) -> bool {
    let Some(RequestBody::Reopen { partition, to, .. }) = request.map(|request| &request.body) else { return false };
    *to > state.delivered(partition) && request.is_some_and(|request| !state.is_applied(request.id))
}

/// Says whether the page's clock ran too far ahead of the brokers'.
fn is_clamped(request: &Request, verdict: &Verdict) -> bool {
    match (&request.body, &verdict.answer) {
        (RequestBody::Page(asked), Answer::Page(ruled)) => ruled.event_time < asked.event_time,
        _ => false,
    }
}

/// Returns the offset of the checkpoint that a transaction carries, once its records have offsets.
fn checkpoint_in(sent: &Sent) -> Option<VerdictOffset> {
    let last = sent.records.iter().zip(&sent.offsets).rfind(|(record, _)| is_checkpoint(record));
    last.map(|(_, &offset)| offset)
}

pub(super) const fn is_checkpoint(record: &VerdictRecord) -> bool {
    matches!(record, VerdictRecord::Checkpoint(_))
}
