//! The judge's state machine (no I/O): restore, stand by, take over, judge, commit, hand over.
//!
//! A record of the fingerprint log is judged in steps ([`RequestRecord`]), so that the driver can look at messages and
//! the clock in between.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::events::{ColdStart, ColdStarts, Effect, Event, Failure, JudgeSettings, OperatorOutcome};
use super::judged_log::JudgedLog;
use super::pending::{Pending, SnapshotSchedule};
use super::{Counts, Diverged, InputOffsets, Restored, SharedSnapshot, State};
use crate::index::{Index, ProbeStats, Task};
use crate::protocol::{LogIdentity, Request, RequestBody, RequestId, RequestOffset, VerdictOffset, VerdictRecord};
use crate::record::{PartitionId, Timestamp};

/// The role of a judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Reads snapshot and log.
    Restoring,
    /// Follows the active judge, ready to take over.
    Standby,
    /// Fences the predecessor, writes a barrier and follows the last verdicts before it.
    TakingOver,
    /// Judges.
    Active,
    /// Commits what is judged before the partition goes to another.
    Draining,
    /// Has left the group for good.
    Stopped,
}

/// One judge of one partition of the fingerprint log.
///
/// Give it events with [`Judge::handle`], then take its effects from [`Judge::poll`] until there are none left.
///
/// Each part owns its state: what is known of the log, the current record of requests, the verdicts that are not
/// committed, when snapshots are due. This file holds the judge's life cycle; `sequencer` holds what it does while it
/// is active.
#[derive(Debug)]
pub struct Judge {
    pub(super) settings: JudgeSettings,
    pub(super) role: Role,
    pub(super) log: JudgedLog,
    /// The record of requests that is judged in steps, until its last request is judged.
    pub(super) record: Option<RequestRecord>,
    pub(super) pending: Pending,
    pub(super) snapshots: SnapshotSchedule,
    /// The snapshot that [`Effect::Snapshot`] asks the driver to write.
    snapshot: Option<SharedSnapshot>,
    joined: bool,
    assigned: bool,
    /// Whether the judge leaves the group once everything is committed, to join it with another client.
    pub(super) rejoins: bool,
    stopping: bool,
    /// While draining, the time at which the partition is given up at the latest.
    drain_until: Option<Duration>,
    cold_starts: ColdStarts,
    /// How often the judge has asked for the end of the log.
    end_questions: u64,
    /// Number of the question for the end of the log that has no answer yet.
    end_question: Option<u64>,
    pub(super) repeats: u64,
    pub(super) clamped: u64,
    /// Statistics of the lookups on the newest event.
    pub(super) probe_stats: Vec<ProbeStats>,
    /// What operators' requests have done on the newest event.
    pub(super) operator_outcomes: Vec<OperatorOutcome>,
    /// Time of the newest event.
    pub(super) now: Duration,
    pub(super) effects: VecDeque<Effect>,
}

impl Judge {
    /// Creates a judge that begins by restoring its state.
    #[must_use]
    pub fn new(settings: JudgeSettings) -> Self {
        let mut judge = Self {
            role: Role::Restoring,
            log: JudgedLog::default(),
            record: None,
            pending: Pending::new(&settings),
            snapshots: SnapshotSchedule::new(settings.snapshot_interval),
            snapshot: None,
            joined: false,
            assigned: false,
            rejoins: false,
            stopping: false,
            drain_until: None,
            cold_starts: ColdStarts::default(),
            end_questions: 0,
            end_question: None,
            repeats: 0,
            clamped: 0,
            probe_stats: Vec::new(),
            operator_outcomes: Vec::new(),
            now: Duration::ZERO,
            effects: VecDeque::new(),
            settings,
        };
        judge.restore();
        judge
    }

    /// Returns the next effect.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Takes one event. `now` counts from any fixed point and never goes back.
    pub fn handle(&mut self, now: Duration, event: Event) {
        self.now = now;
        self.probe_stats.clear();
        self.operator_outcomes.clear();
        match event {
            Event::Restored(restored) => self.restored(restored),
            Event::Followed { offset, next, record } => self.followed(offset, next, &record),
            Event::FollowedToEnd { question } => self.followed_to_end(now, question),
            Event::LogMoved => self.log_moved(),
            Event::Assigned => self.assigned(),
            Event::Revoked => self.revoked(now),
            Event::Lost => self.lost(),
            Event::Requests { offset, append_time, requests } => self.judge(offset, append_time, requests),
            Event::RequestsOutOfRange { first, end } => self.requests_out_of_range(first, end),
            Event::Continue => self.judge_on(),
            Event::Called(result) => self.called(result),
            Event::InputCommitted { question, input } => self.input_committed(question, input),
            Event::Tick => {}
            Event::Stop => self.stop(now),
        }
        self.go_on(now);
    }

    /// Returns the statistics of the lookups of requests that were judged on the last event.
    #[must_use]
    pub fn probe_stats(&self) -> &[ProbeStats] {
        &self.probe_stats
    }

    /// Returns what operators' requests have done that were judged on the last event.
    #[must_use]
    pub fn operator_outcomes(&self) -> &[OperatorOutcome] {
        &self.operator_outcomes
    }

    /// Returns whether the judge accepts requests; otherwise do not send [`Event::Requests`].
    #[must_use]
    pub fn wants_requests(&self) -> bool {
        self.role == Role::Active && !self.stopping && self.record.is_none() && self.pending.has_room(self.now)
    }

    /// Returns whether the current record of requests can be judged further. If so, send [`Event::Continue`].
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        let is_wanted = |record: &RequestRecord| !record.waits() && (self.role == Role::Active || record.is_begun());
        self.record.as_ref().is_some_and(is_wanted)
    }

    /// Returns whether a record of requests is judged in part. No batch can end then.
    pub(super) fn is_within_record(&self) -> bool {
        self.record.as_ref().is_some_and(RequestRecord::is_begun)
    }

    /// Returns whether everything judged is committed.
    fn is_settled(&self) -> bool {
        self.pending.is_empty() && !self.is_unfinished()
    }

    /// Passes deferred maintenance tasks to `hand_over`, so that no request has to wait for them: see
    /// [`Index::maintenance`](crate::index::Index::maintenance). Whether and when it is done changes no verdict.
    pub fn maintenance(&mut self, mut hand_over: impl FnMut(Task<'static>)) {
        self.log.maintenance(&mut hand_over);
    }

    /// Returns the judge's role.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Returns the state, which may be ahead of what is committed.
    #[must_use]
    pub const fn state(&self) -> &State {
        self.log.state()
    }

    /// Returns how often the judge began without all the verdicts.
    #[must_use]
    pub const fn cold_starts(&self) -> ColdStarts {
        self.cold_starts
    }

    /// Returns the counters, for metrics.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        Counts { repeats: self.repeats, clamped: self.clamped, ..self.state().counts() }
    }

    /// Returns how much event time the kept verdict log spans.
    #[must_use]
    pub fn kept(&self) -> Duration {
        self.log.kept()
    }

    /// Returns how many times in a row the brokers refused a record of the transaction that is to be committed.
    #[must_use]
    pub const fn refusals(&self) -> u32 {
        self.pending.refusals()
    }

    /// Returns the position in the verdict log that the state belongs to, or `None` if the state is ahead of what is
    /// committed or there is no log.
    #[must_use]
    pub fn settled_at(&self) -> Option<VerdictOffset> {
        (self.is_settled() && self.log.has_begun()).then_some(self.log.position())
    }

    /// Requests a snapshot of the state that the next transaction commits.
    pub fn want_snapshot(&mut self) {
        self.snapshots.want();
    }

    /// Takes the snapshot that [`Effect::Snapshot`] asks the driver to write. It is the state at a committed offset,
    /// whatever was judged since.
    #[must_use]
    pub const fn take_snapshot(&mut self) -> Option<SharedSnapshot> {
        self.snapshot.take()
    }

    // ---- restore and follow

    /// Drops the state and restores it from the snapshot and the log.
    fn restore(&mut self) {
        self.role = Role::Restoring;
        self.reset(JudgedLog::default());
        // Records that still arrive from the old position mean nothing to an empty state.
        self.effects.push_back(Effect::Unfollow);
        self.effects.push_back(Effect::Restore);
    }

    fn reset(&mut self, log: JudgedLog) {
        self.log = log;
        self.pending.reset();
        self.record = None;
        self.drain_until = None;
    }

    fn restored(&mut self, restored: Option<Box<Restored>>) {
        let from = restored.map(|restored| {
            let at = restored.at;
            self.reset(JudgedLog::from(*restored));
            self.snapshots.restored(at);
            at
        });
        self.follow_to_end(from);
    }

    fn follow_to_end(&mut self, from: Option<VerdictOffset>) {
        self.effects.push_back(Effect::Follow { from });
        let question = self.ask_for_end();
        self.effects.push_back(Effect::FollowToEnd { question });
    }

    /// Returns the number of the next question for the end of the log. Answers to earlier questions are ignored from
    /// now on, because the log may have grown since.
    pub(super) fn ask_for_end(&mut self) -> u64 {
        self.end_questions += 1;
        self.end_question = Some(self.end_questions);
        self.end_questions
    }

    fn followed(&mut self, offset: VerdictOffset, next: VerdictOffset, record: &VerdictRecord) {
        match self.role {
            Role::Restoring | Role::Standby | Role::TakingOver => {}
            Role::Active | Role::Draining | Role::Stopped => return,
        }
        if !self.pending.is_empty() {
            return self.confirm(offset, next, record);
        }
        match self.log.follow(offset, next, record) {
            Ok(()) => {}
            Err(Diverged::NoCheckpoint) => match self.settings.cold_start {
                // Verdicts whose predecessors are missing are skipped up to the next checkpoint.
                ColdStart::Proceed => {
                    self.cold_starts.log_truncated += u64::from(!self.log.has_skipped());
                    self.log.skip_to(next);
                }
                ColdStart::Stop | ColdStart::StopOnNewScheme => {
                    self.effects.push_back(Effect::Fail(Failure::VerdictsDeleted));
                }
            },
            // This record begins the other log, so nothing before it is missing.
            Err(Diverged::AnotherLog { .. }) if record.begins_log() => {
                self.reset(JudgedLog::default());
                if self.log.follow(offset, next, record).is_err() {
                    self.log_moved();
                }
            }
            Err(Diverged::AnotherLog { .. }) => self.log_moved(),
            Err(why @ (Diverged::UnknownRules { .. } | Diverged::SecondVerdict(_))) => {
                let failure = Failure::Unreadable { offset, why: why.to_string() };
                self.effects.push_back(Effect::Fail(failure));
            }
        }
    }

    /// Follows a record while the state holds what is not known to be committed. Only if the log holds something else
    /// is the state restored.
    fn confirm(&mut self, offset: VerdictOffset, next: VerdictOffset, record: &VerdictRecord) {
        if self.log.goes_on_with(record)
            && let Some(known) = self.pending.confirm(record)
        {
            self.log.confirm(offset, next, record, (known, !self.pending.is_empty()));
            // Unless the fingerprint log has lost requests, and what is not committed goes back.
            if let VerdictRecord::Verdicts(batch) = record
                && !self.rejoins
            {
                self.pending.pass_at_least(batch.next_request);
                self.log.pass_at_least(batch.next_request);
            }
        } else {
            self.leave_and_restore();
        }
    }

    fn log_moved(&mut self) {
        match self.role {
            Role::Restoring | Role::Standby | Role::TakingOver => {}
            Role::Active | Role::Draining | Role::Stopped => return,
        }
        self.leave();
        self.role = Role::Restoring;
        self.reset(JudgedLog::default());
        self.follow_to_end(None);
    }

    fn followed_to_end(&mut self, now: Duration, question: u64) {
        if self.end_question.take_if(|asked| *asked == question).is_none() {
            return;
        }
        match self.role {
            Role::Restoring => {
                self.role = Role::Standby;
                self.snapshots.begin(now);
                self.join();
                self.try_take_over();
            }
            Role::Standby => self.join(),
            Role::TakingOver if !self.pending.is_busy() => self.activate(now),
            Role::TakingOver | Role::Active | Role::Draining | Role::Stopped => {}
        }
    }

    fn join(&mut self) {
        if !self.joined && !self.stopping {
            self.joined = true;
            self.effects.push_back(Effect::Join);
        }
    }

    fn leave(&mut self) {
        if std::mem::take(&mut self.joined) {
            self.effects.push_back(Effect::Leave);
        }
        self.assigned = false;
        self.rejoins = false;
    }

    // ---- assignment

    fn assigned(&mut self) {
        // An assignment that arrives after the judge has left belongs to a membership that is over.
        self.assigned = self.joined;
        self.try_take_over();
    }

    /// Takes over if the partition is assigned to this judge and its state is warm. Waits until an outstanding call is
    /// answered.
    pub(super) fn try_take_over(&mut self) {
        if self.assigned && self.role == Role::Standby && !self.pending.is_busy() && !self.stopping {
            self.role = Role::TakingOver;
            let call = self.pending.init();
            self.effects.push_back(Effect::Call(call));
        }
    }

    fn activate(&mut self, now: Duration) {
        self.role = Role::Active;
        self.pending.activate(now);
        self.effects.push_back(Effect::Unfollow);
        if self.log.has_begun() {
            if let Some(record) = self.log.change_rules(&self.settings.rules) {
                self.pending.push_rules(record);
            }
        } else if self.settings.cold_start == ColdStart::StopOnNewScheme && self.settings.rules.dual.is_none() {
            self.effects.push_back(Effect::Fail(Failure::NewScheme));
            return;
        } else {
            // There is no log to follow, so a new one begins, with a checkpoint as every log does. Requests without a
            // recorded verdict are judged now.
            let is_cold = !self.log.has_skipped() && self.settings.rules.dual.is_none();
            self.cold_starts.new_log += u64::from(is_cold);
            self.log.begin(self.settings.new_log, self.settings.rules.clone());
            // A log that begins in its place is another one.
            self.settings.new_log = LogIdentity(self.settings.new_log.0.wrapping_add(1));
            self.write_checkpoint(&InputOffsets::default());
        }
        self.effects.push_back(Effect::ReadRequests { from: self.log.state().next_request() });
    }

    fn revoked(&mut self, now: Duration) {
        self.assigned = false;
        match self.role {
            Role::Active => {
                self.role = Role::Draining;
                self.drain_until = Some(now + self.settings.revoke_grace);
                self.effects.push_back(Effect::StopReading);
            }
            Role::TakingOver => {
                self.role = Role::Standby;
                self.effects.push_back(Effect::RevokeDone);
            }
            Role::Restoring | Role::Standby | Role::Stopped => self.effects.push_back(Effect::RevokeDone),
            // The judge is draining already and reports when it is done.
            Role::Draining => {}
        }
    }

    fn lost(&mut self) {
        self.assigned = false;
        match self.role {
            Role::Active => {
                self.effects.push_back(Effect::StopReading);
                self.become_standby();
            }
            Role::Draining => {
                self.become_standby();
                self.effects.push_back(Effect::RevokeDone);
            }
            Role::TakingOver => self.role = Role::Standby,
            Role::Restoring | Role::Standby | Role::Stopped => {}
        }
    }

    /// Becomes a standby, which keeps its state. What is not known to be committed is compared with the log, and what
    /// the log does not hold is sent once this judge has taken over again. Only whole records of requests are sent, so
    /// the current one is judged to its end.
    fn become_standby(&mut self) {
        self.role = Role::Standby;
        self.drain_until = None;
        while self.is_within_record() && self.is_unfinished() {
            self.judge_on();
        }
        self.record = None;
        let call = self.pending.suspend(&self.log);
        self.effects.extend(call.map(Effect::Call));
        let from = self.log.has_begun().then_some(self.log.position());
        self.effects.push_back(Effect::Follow { from });
    }

    /// Steps down after a commit of unknown outcome. Takes the transactional id anew if the partition is still assigned
    /// to this judge: only the log shows what is committed.
    pub(super) fn step_down(&mut self) {
        let was = self.role;
        self.become_standby();
        self.ends_judging(was);
        self.try_take_over();
    }

    /// Says that a judge in this role judges no more.
    fn ends_judging(&mut self, was: Role) {
        match was {
            Role::Active => self.effects.push_back(Effect::StopReading),
            Role::Draining => self.effects.push_back(Effect::RevokeDone),
            Role::Restoring | Role::Standby | Role::TakingOver | Role::Stopped => {}
        }
    }

    /// Steps down after another judge took the transactional id, or the producer failed. The group would count on a
    /// member that stays, so it leaves, and joins again.
    pub(super) fn step_down_and_leave(&mut self) {
        self.leave();
        self.step_down();
        let question = self.ask_for_end();
        self.effects.push_back(Effect::FollowToEnd { question });
    }

    /// Steps down because the log, recreated or without its tail, holds what was just committed at an offset that was
    /// passed before. No reader can follow the state from such a log, so it is dropped, and this judge follows what the
    /// log holds. If that begins without a checkpoint, the next judge begins a new log.
    pub(super) fn step_down_to_another_log(&mut self) {
        self.ends_judging(self.role);
        self.role = Role::Standby;
        self.log_moved();
    }

    /// Drops a state that differs from the log and restores it. Leaves the group first, so that it does not wait for
    /// this judge.
    fn leave_and_restore(&mut self) {
        self.leave();
        self.restore();
    }

    fn stop(&mut self, now: Duration) {
        self.stopping = true;
        if self.role == Role::Active {
            self.role = Role::Draining;
            self.drain_until = Some(now + self.settings.revoke_grace);
            self.effects.push_back(Effect::StopReading);
        }
    }

    // ---- what is due after each event

    fn go_on(&mut self, now: Duration) {
        self.snapshots.look(now);
        match self.role {
            Role::Active => self.go_on_judging(now),
            Role::Draining => self.go_on_draining(now),
            Role::Standby if self.stopping => {
                self.take_last_snapshot();
                self.leave_and_stop();
            }
            Role::Restoring | Role::TakingOver if self.stopping && !self.pending.is_busy() => self.leave_and_stop(),
            Role::Standby => {
                self.snapshot_if_due();
                if self.pending.pause_is_over(now) {
                    self.try_take_over();
                }
            }
            Role::Restoring | Role::TakingOver | Role::Stopped => {}
        }
    }

    fn go_on_judging(&mut self, now: Duration) {
        self.pending.pause_is_over(now);
        if self.pending.wants_checkpoint(self.settings.checkpoint_interval_records) {
            self.ask_for_input();
        }
        // A batch can only end where a record of requests ends.
        if self.pending.is_busy() || self.is_within_record() {
            return;
        }
        if self.is_settled() && self.rejoins {
            self.step_down_and_leave();
        } else if self.is_settled() {
            self.snapshot_if_due();
        } else if self.pending.is_due(now, &self.settings) {
            self.begin(now);
        }
    }

    fn go_on_draining(&mut self, now: Duration) {
        self.pending.pause_is_over(now);
        let late = self.drain_until.is_some_and(|until| now >= until);
        if !self.pending.is_busy() && !self.is_settled() && !self.is_within_record() && !late {
            self.begin(now);
        }
        if self.is_settled() && !self.pending.is_busy() || late {
            self.become_standby();
            self.effects.push_back(Effect::RevokeDone);
            if self.stopping {
                self.go_on(now);
            }
        }
    }

    fn leave_and_stop(&mut self) {
        self.leave();
        self.role = Role::Stopped;
        self.effects.push_back(Effect::Stopped);
    }

    /// Takes a snapshot if one is due. Only for a state that is committed: while it is ahead, the next transaction
    /// takes the snapshot.
    fn snapshot_if_due(&mut self) {
        if self.snapshots.is_due()
            && self.is_settled()
            && let Some(snapshot) = self.log.snapshot()
        {
            self.hand_over_snapshot(snapshot);
        }
    }

    /// Asks the driver to write a snapshot that was due. It has to be the state at a committed offset.
    pub(super) fn hand_over_snapshot(&mut self, snapshot: SharedSnapshot) {
        self.snapshots.taken(self.now, snapshot.at);
        self.snapshot = Some(snapshot);
        self.effects.push_back(Effect::Snapshot);
    }

    /// Takes a last snapshot, so that the next start has little to follow, unless there already is one of this very
    /// state.
    fn take_last_snapshot(&mut self) {
        if self.settled_at().is_some_and(|at| self.snapshots.takes_last(at)) {
            self.snapshot = self.log.snapshot();
            self.effects.push_back(Effect::Snapshot);
        }
    }
}

/// A record of requests and how far it is judged.
#[derive(Debug)]
pub(super) struct RequestRecord {
    offset: RequestOffset,
    append_time: Timestamp,
    requests: Vec<Request>,
    judged: usize,
    /// Whether a checkpoint has to come first, because the verdict depends on how far the input group has committed.
    waits: bool,
}

impl RequestRecord {
    pub(super) fn new(offset: RequestOffset, append_time: Timestamp, requests: Vec<Request>) -> Self {
        Self { offset, append_time, requests, judged: 0, waits: false }
    }

    pub(super) fn offset(&self) -> RequestOffset {
        self.offset
    }

    pub(super) fn append_time(&self) -> Timestamp {
        self.append_time
    }

    /// Takes the next request.
    pub(super) fn next(&mut self) -> Option<&Request> {
        let request = self.requests.get(self.judged)?;
        self.judged += 1;
        Some(request)
    }

    /// Returns whether some of its requests are judged.
    pub(super) fn is_begun(&self) -> bool {
        self.judged > 0
    }

    /// Returns whether all of its requests are judged.
    pub(super) fn is_done(&self) -> bool {
        self.judged >= self.requests.len()
    }

    // ---- waiting

    /// Holds the record back until a checkpoint is written.
    pub(super) fn wait(&mut self) {
        self.waits = true;
    }

    /// Releases the record: the checkpoint is written.
    pub(super) fn go_on(&mut self) {
        self.waits = false;
    }

    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// Returns the request, the partition and the range if the record reopens one. Such a request is alone in its
    /// record.
    pub(super) fn reopens(&self) -> Option<(RequestId, &PartitionId, Range<i64>)> {
        let request = self.requests.first()?;
        if let RequestBody::Reopen { partition, from, to } = &request.body {
            Some((request.id, partition, *from..*to))
        } else {
            None
        }
    }

    // ---- memory

    /// Prefetches what the requests after the next one will read.
    pub(super) fn prefetch_upcoming(&self, index: &Index) {
        index.prefetch_upcoming(|ahead| self.requests.get(self.judged.saturating_add(ahead)));
    }
}
