//! Requests in, verdicts out, committed with the position in the fingerprint log (law L2).

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use roaring::RoaringTreemap;

use super::InputOffsets;
use super::decide::decide_observed;
use super::events::{Effect, Failure, OperatorOutcome};
use super::machine::{Judge, RequestRecord, Role};
use super::pending::Committed;
use crate::protocol::{Answer, Request, RequestBody, RequestOffset, Verdict, VerdictOffset};
use crate::record::{PartitionId, Timestamp};
use crate::transaction::{CallError, TxnStep};

impl Judge {
    // ---- judging

    pub(super) fn judge(&mut self, offset: RequestOffset, append_time: Timestamp, requests: Vec<Request>) {
        if self.role == Role::Active && offset >= self.log.state().next_request() && self.record.is_none() {
            let mut record = RequestRecord::new(offset, append_time, requests);
            let waits = self.reopens_beyond_delivered(&record);
            if waits {
                record.wait();
            }
            self.record = Some(record);
            if waits {
                self.ask_for_input_again();
                self.ask_for_input();
            } else {
                self.judge_on();
            }
        }
    }

    /// Continues where the fingerprint log has records: at its end if it ends before the next request, because it was
    /// recreated or has lost its tail, and at its beginning if it begins after it. The next batch says so: workers make
    /// the requests again that were lost (law L4: none is judged twice).
    ///
    /// A client may read nothing more of a topic that was recreated (librdkafka 2.12 and before). So once the batch is
    /// committed, the judge leaves the group and joins it with a new one.
    pub(super) fn requests_out_of_range(&mut self, first: RequestOffset, end: RequestOffset) {
        if self.role != Role::Active || self.record.is_some() {
            return;
        }
        let next = self.log.state().next_request();
        let from = next.min(end).max(first);
        if from != next {
            self.pending.close_batch(&self.log);
            self.log.pass_requests(from);
            // In a batch of its own: a later one may end after the offset from which it went back.
            self.pending.pass(&self.log, 0);
        }
        self.rejoins = from < next;
        if !self.rejoins {
            self.effects.push_back(Effect::ReadRequests { from });
        }
    }

    /// Judges the next requests of the current record. The batch may end after the last one.
    pub(super) fn judge_on(&mut self) {
        let Some(mut record) = self.record.take_if(|record| !record.waits()) else { return };
        let append_time = record.append_time();
        for _ in 0..self.settings.step_requests.max(1) {
            record.prefetch_upcoming(self.log.state().index());
            let Some(request) = record.next() else { break };
            let probe_stats = &mut self.probe_stats;
            let Some(verdict) = decide_observed(self.log.state(), request, append_time, |seen| probe_stats.push(seen))
            else {
                self.repeats += 1;
                continue;
            };
            self.clamped += u64::from(is_clamped(request, &verdict));
            let forgotten = self.log.state().counts().forgotten;
            if let Err(why) = self.log.judged(&verdict) {
                let failure = Failure::Unreadable { offset: self.log.position(), why: why.to_string() };
                self.effects.push_back(Effect::Fail(failure));
                return;
            }
            let is_reopened = matches!(verdict.answer, Answer::Reopened { .. });
            if is_reopened || matches!(verdict.answer, Answer::Forgotten(_) | Answer::TimeSet { .. }) {
                let forgotten = self.log.state().counts().forgotten - forgotten;
                self.operator_outcomes.push(OperatorOutcome { answer: verdict.answer.clone(), forgotten });
            }
            self.pending.push(self.now, verdict);
            if is_reopened {
                self.ask_for_input_again();
            }
        }
        if !record.is_done() {
            self.record = Some(record);
            return;
        }
        self.log.pass_requests(record.offset().next());
        self.pending.pass(&self.log, self.settings.batch_verdicts);
        if let Some(input) = self.pending.take_input() {
            self.write_checkpoint(&input);
        }
    }

    /// Returns whether the record would reopen more than the log shows as delivered. The input group may have committed
    /// more since.
    fn reopens_beyond_delivered(&self, record: &RequestRecord) -> bool {
        let state = self.log.state();
        let is_cut = |partition, range: Range<i64>| state.delivered_to(partition, range.start, range.end) < range.end;
        record
            .reopens()
            .is_some_and(|(request, partition, range)| is_cut(partition, range) && !state.is_applied(request))
    }

    // ---- checkpoints

    /// Takes the input group's offsets for a checkpoint. If a record of requests is judged in part, the checkpoint is
    /// written at its end.
    pub(super) fn input_committed(&mut self, question: u64, input: InputOffsets) {
        if !self.pending.is_answered(question) {
            return;
        }
        if self.is_within_record() {
            self.pending.keep_input(input);
        } else {
            self.write_checkpoint(&input);
            if let Some(record) = &mut self.record {
                record.go_on();
            }
        }
    }

    /// Asks for the offsets that a checkpoint needs, unless a checkpoint is under way.
    pub(super) fn ask_for_input(&mut self) {
        let question = self.pending.begin_checkpoint();
        self.effects.extend(question.map(|question| Effect::FetchInputCommitted { question }));
    }

    /// Asks again if a question is outstanding when a range is reopened: what the input group had committed before says
    /// nothing about what is judged in the range afterwards.
    fn ask_for_input_again(&mut self) {
        let question = self.pending.ask_again();
        self.effects.extend(question.map(|question| Effect::FetchInputCommitted { question }));
    }

    /// Writes a checkpoint after everything judged so far.
    pub(super) fn write_checkpoint(&mut self, input: &InputOffsets) {
        if self.role != Role::Active || self.pending.has_checkpoint() {
            return;
        }
        self.pending.close_batch(&self.log);
        if let Some(rules) = self.log.move_dual_period_on() {
            self.pending.push_rules(rules);
        }
        let (commits, keep) = (self.commits(input), self.keep());
        self.pending.push_checkpoint(&mut self.log, |log| log.checkpoint(input, commits, keep));
    }

    /// Returns what the input group had committed, and the positions about which this says nothing, because their
    /// verdicts were not in the log when the group was asked.
    ///
    /// A group has no offset for a recreated topic, because brokers delete offsets with their topic. If a range of such
    /// a partition waits to be reopened, everything judged in the partition counts as delivered: no worker continues
    /// there before that.
    fn commits(&mut self, input: &InputOffsets) -> BTreeMap<PartitionId, (i64, RoaringTreemap)> {
        let mut unsettled = self.pending.take_unsettled();
        let said = input.committed.iter();
        let said = said.map(|(partition, &position)| (partition.clone(), (position, unsettled.take(partition))));
        let mut commits: BTreeMap<_, _> = said.collect();
        let waiting = self.record.as_ref().filter(|record| record.waits());
        if let Some((_, partition, _)) = waiting.and_then(RequestRecord::reopens)
            && input.partitions.contains(partition)
        {
            let all = || (self.log.state().judged_end(partition), RoaringTreemap::new());
            commits.entry(partition.clone()).or_insert_with(all);
        }
        commits
    }

    /// Returns how long verdicts are kept: as configured, and at least as long as an original can be matched.
    fn keep(&self) -> Duration {
        let rules = self.log.state().rules().unwrap_or(&self.settings.rules);
        self.settings.keep.max(rules.windows.max() + rules.lateness)
    }

    // ---- committing

    pub(super) fn begin(&mut self, now: Duration) {
        let call = self.pending.begin(now, &self.log, self.snapshots.is_due());
        self.effects.push_back(Effect::Call(call));
    }

    pub(super) fn called(&mut self, result: Result<Vec<VerdictOffset>, CallError>) {
        match self.pending.answered(result) {
            TxnStep::Call(call) => {
                let call = self.pending.call(call, &self.log);
                self.effects.push_back(Effect::Call(call));
            }
            TxnStep::Ready if self.role == Role::TakingOver => {
                let call = self.pending.begin_barrier();
                self.effects.push_back(Effect::Call(call));
            }
            TxnStep::Committed if self.role == Role::TakingOver => self.follow_to_barrier(),
            TxnStep::Committed if matches!(self.role, Role::Active | Role::Draining) => self.committed(),
            TxnStep::Aborted if matches!(self.role, Role::Active | Role::Draining) => self.pending.aborted(self.now),
            // Either a transaction from before this judge stepped down has ended, or the barrier was not written.
            TxnStep::Aborted if self.role == Role::TakingOver => {
                self.pending.barrier_aborted(self.now);
                self.role = Role::Standby;
                self.try_take_over();
            }
            TxnStep::Ready | TxnStep::Committed | TxnStep::Aborted => self.try_take_over(),
            TxnStep::Unknown(_) if matches!(self.role, Role::Active | Role::Draining) => self.step_down(),
            TxnStep::Fenced(_) | TxnStep::Fatal(_) | TxnStep::Unknown(_) => match self.role {
                Role::Active | Role::Draining | Role::TakingOver => self.step_down_and_leave(),
                Role::Restoring | Role::Standby => self.try_take_over(),
                Role::Stopped => {}
            },
        }
    }

    /// Follows the log up to the barrier. No other judge writes to the log any more.
    fn follow_to_barrier(&mut self) {
        let Some(barrier) = self.pending.barrier_committed() else {
            self.role = Role::Standby;
            return self.try_take_over();
        };
        let question = self.ask_for_end();
        self.effects.push_back(Effect::FollowToBarrier { question, barrier });
    }

    fn committed(&mut self) {
        let Some(Committed { first, last, checkpoint, trim, snapshot }) = self.pending.committed(self.now) else {
            return;
        };
        if first.is_some_and(|first| first < self.log.position()) {
            return self.step_down_to_another_log();
        }
        self.log.committed(last, checkpoint);
        if checkpoint.is_some() && self.record.as_ref().is_some_and(RequestRecord::waits) {
            self.ask_for_input();
        }
        if let Some(trim) = trim {
            self.log.trimmed(trim);
            self.effects.push_back(Effect::Trim { verdicts: trim.verdicts, requests: trim.requests });
        }
        if let Some(snapshot) = snapshot {
            self.hand_over_snapshot(snapshot);
        }
    }
}

/// Returns whether the page's clock ran too far ahead of the brokers'.
fn is_clamped(request: &Request, verdict: &Verdict) -> bool {
    match (&request.body, &verdict.answer) {
        (RequestBody::Page(asked), Answer::Page(judged)) => judged.event_time < asked.event_time,
        _ => false,
    }
}
