//! The judge's life: restore, stand by, take over, judge, commit, hand over. A state machine without I/O.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::decide::decide;
use super::events::{Effect, Event, Failure, Request};
use super::{Diverged, Snapshot, Spans, State};
use crate::log::{Entry, LogIdentity, Rules, RulesNumber, RulesRecord, Ruling, RulingBatch, VerdictRecord};
use crate::record::{PartitionId, Timestamp};
use crate::transaction::{Call, CallError, Ritual, Turn};

/// What a judge needs to know.
#[derive(Clone, Debug)]
pub struct JudgeSettings {
    /// The rules to judge by. Written to the log when they are not in force.
    pub rules: Rules,
    /// Identity to give to a log that has to be begun. Drawn by the edge.
    pub new_log: LogIdentity,
    /// What to do when the log does not begin with a checkpoint.
    pub cold_start: ColdStart,
    /// How long rulings may gather before they are committed.
    pub commit_interval: Duration,
    /// Rulings after which a checkpoint is written.
    pub checkpoint_rulings: u64,
    /// How long rulings stay readable, in event time, at least window + lateness.
    pub keep: Duration,
    /// Most rulings in one record of the verdict log, give or take one record of entries.
    pub batch_rulings: usize,
    /// Rulings that may wait for their commit; at this number no more entries are read.
    pub pending_rulings: usize,
    /// Time between snapshots; none are cut when absent.
    pub snapshot_interval: Option<Duration>,
    /// How long a revoked partition may take to commit what is judged.
    pub revoke_grace: Duration,
}

/// What to do when facts are gone for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColdStart {
    /// Begin at the first checkpoint there is, or anew: duplicates of older pages are missed.
    Proceed,
    /// Stop with [`Failure::FactsGone`].
    Stop,
}

/// How often a judge began without the facts of one window back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ColdStarts {
    /// It began a new verdict log.
    pub new_log: u64,
    /// It found a log that does not begin with a checkpoint.
    pub log_truncated: u64,
}

/// Where in its life a judge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Reads snapshot and log.
    Restoring,
    /// Follows the active judge, ready to take over.
    Standby,
    /// Fences the predecessor and follows its last rulings.
    TakingOver,
    /// Judges.
    Active,
    /// Commits what is judged before the partition goes to another.
    Draining,
    /// Has left.
    Stopped,
}

/// One judge of one partition of the fingerprint log.
///
/// Give it events with [`Judge::handle`], take what it wants done with [`Judge::poll`] until there is nothing more.
#[derive(Debug)]
pub struct Judge {
    settings: JudgeSettings,
    role: Role,
    state: State,
    spans: Spans,
    /// Offset of the next record of the verdict log to follow.
    position: i64,
    latest_checkpoint: Option<i64>,
    joined: bool,
    assigned: bool,
    stopping: bool,
    cold_starts: ColdStarts,
    output: Output,
    ritual: Ritual,
    /// When the partition is given up at the latest, while draining.
    drain_until: Option<Duration>,
    last_commit: Duration,
    last_snapshot: Duration,
    /// A snapshot is due as soon as everything judged is committed.
    snapshot_waits: bool,
    effects: VecDeque<Effect>,
}

/// What is judged and not committed.
#[derive(Debug, Default)]
struct Output {
    /// Rulings of the batch that is still open.
    open: Vec<Ruling>,
    /// Entries were passed since the last closed batch.
    passed: bool,
    /// Closed records, in order.
    closed: Vec<VerdictRecord>,
    /// How many rulings the closed records hold.
    closed_rulings: usize,
    /// What the transaction in progress carries.
    sent: Option<Sent>,
    /// Rulings since the last checkpoint was written.
    since_checkpoint: u64,
    /// The input group's offsets were asked for, or a checkpoint is on its way.
    checkpointing: bool,
    /// What may be trimmed once the checkpoint on its way is committed.
    trim: Option<(i64, i64)>,
}

#[derive(Clone, Debug)]
struct Sent {
    records: Arc<Vec<VerdictRecord>>,
    offsets: Vec<i64>,
    next_entry: i64,
}

impl Judge {
    /// Makes a judge that begins by restoring its state.
    #[must_use]
    pub fn new(settings: JudgeSettings) -> Self {
        let mut judge = Self {
            settings,
            role: Role::Restoring,
            state: State::default(),
            spans: Spans::default(),
            position: 0,
            latest_checkpoint: None,
            joined: false,
            assigned: false,
            stopping: false,
            cold_starts: ColdStarts::default(),
            output: Output::default(),
            ritual: Ritual::default(),
            drain_until: None,
            last_commit: Duration::ZERO,
            last_snapshot: Duration::ZERO,
            snapshot_waits: false,
            effects: VecDeque::new(),
        };
        judge.restore();
        judge
    }

    /// Returns the next thing to do.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Takes one event. `now` counts from any fixed point and never goes back.
    pub fn handle(&mut self, now: Duration, event: Event) {
        match event {
            Event::Restored(snapshot) => self.restored(snapshot),
            Event::Followed { offset, next, record } => self.followed(offset, next, &record),
            Event::FollowedToEnd => self.followed_to_end(now),
            Event::LogMoved => self.log_moved(),
            Event::Assigned => self.assigned(),
            Event::Revoked => self.revoked(now),
            Event::Lost => self.lost(),
            Event::Entries { offset, append_time, entries } => self.judge(offset, append_time, &entries),
            Event::Called(result) => self.called(result),
            Event::InputCommitted(committed) => self.write_checkpoint(&committed),
            Event::Tick => {}
            Event::Stop => self.stop(now),
        }
        self.go_on(now);
    }

    /// Says whether entries are wanted: only then may [`Event::Entries`] be given.
    #[must_use]
    pub fn wants_entries(&self) -> bool {
        let waiting = self.output.open.len() + self.output.closed_rulings;
        self.role == Role::Active && !self.stopping && !self.snapshot_waits && waiting < self.settings.pending_rulings
    }

    /// Returns where in its life the judge is.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Returns the state, which may be ahead of what is committed.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Returns how often the judge began without all the facts.
    #[must_use]
    pub const fn cold_starts(&self) -> ColdStarts {
        self.cold_starts
    }

    /// Returns the offset of the verdict log whose state this is, while nothing is judged ahead of it.
    #[must_use]
    pub fn settled_at(&self) -> Option<i64> {
        (self.is_settled() && self.state.log().is_some()).then_some(self.position)
    }

    /// Cuts a snapshot. `None` unless the state is that of a committed offset.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let at = self.settled_at()?;
        Snapshot::cut(&self.state, &self.spans, at, self.latest_checkpoint)
    }

    // ---- restore and follow

    /// Drops the state and begins again from what is written.
    fn restore(&mut self) {
        self.role = Role::Restoring;
        self.reset(State::default(), Spans::default(), 0, None);
        // What is still followed from the place we had come to means nothing to an empty state.
        self.effects.push_back(Effect::Unfollow);
        self.effects.push_back(Effect::Restore);
    }

    fn reset(&mut self, state: State, spans: Spans, position: i64, latest_checkpoint: Option<i64>) {
        self.state = state;
        self.spans = spans;
        self.position = position;
        self.latest_checkpoint = latest_checkpoint;
        self.output = Output::default();
        self.drain_until = None;
    }

    fn restored(&mut self, snapshot: Option<Box<Snapshot>>) {
        let from = snapshot.map(|snapshot| {
            let state = State::load(&snapshot.state, snapshot.originals);
            self.reset(state, Spans::from_parts(snapshot.spans), snapshot.at, snapshot.latest_checkpoint);
            snapshot.at
        });
        self.effects.push_back(Effect::Follow { from });
        self.effects.push_back(Effect::FollowToEnd);
    }

    fn followed(&mut self, offset: i64, next: i64, record: &VerdictRecord) {
        match self.role {
            Role::Restoring | Role::Standby | Role::TakingOver => {}
            Role::Active | Role::Draining | Role::Stopped => return,
        }
        match self.state.follow_record(record) {
            Ok(()) => {
                self.spans.follow(offset, record, self.state.next_sequence());
                if is_checkpoint(record) {
                    self.latest_checkpoint = Some(offset);
                }
                self.position = next;
            }
            Err(Diverged::NoCheckpoint) => match self.settings.cold_start {
                // Rulings without the facts before them are skipped up to the next checkpoint.
                ColdStart::Proceed => {
                    self.cold_starts.log_truncated += u64::from(self.position == 0);
                    self.position = next;
                }
                ColdStart::Stop => self.effects.push_back(Effect::Fail(Failure::FactsGone)),
            },
            Err(Diverged::AnotherLog { .. }) => self.log_moved(),
            Err(why @ (Diverged::UnknownRules { .. } | Diverged::SecondRuling(_))) => {
                let failure = Failure::Unreadable { offset, why: why.to_string() };
                self.effects.push_back(Effect::Fail(failure));
            }
        }
    }

    fn log_moved(&mut self) {
        match self.role {
            Role::Restoring | Role::Standby | Role::TakingOver => {}
            Role::Active | Role::Draining | Role::Stopped => return,
        }
        self.role = Role::Restoring;
        self.reset(State::default(), Spans::default(), 0, None);
        self.effects.push_back(Effect::Follow { from: None });
        self.effects.push_back(Effect::FollowToEnd);
    }

    fn followed_to_end(&mut self, now: Duration) {
        match self.role {
            Role::Restoring => {
                self.role = Role::Standby;
                self.last_snapshot = now;
                if !self.joined && !self.stopping {
                    self.joined = true;
                    self.effects.push_back(Effect::Join);
                }
                self.seize();
            }
            Role::TakingOver if !self.ritual.is_busy() => self.activate(now),
            Role::TakingOver | Role::Standby | Role::Active | Role::Draining | Role::Stopped => {}
        }
    }

    // ---- the seat

    fn assigned(&mut self) {
        // What comes after we left is about a membership that is over.
        self.assigned = self.joined;
        self.seize();
    }

    /// Takes over, if the partition is ours and the state is warm. A call that is still out is waited for.
    fn seize(&mut self) {
        if self.assigned && self.role == Role::Standby && !self.ritual.is_busy() && !self.stopping {
            self.role = Role::TakingOver;
            let call = self.ritual.init();
            self.effects.push_back(Effect::Call(Request::Plain(call)));
        }
    }

    fn activate(&mut self, now: Duration) {
        self.role = Role::Active;
        self.last_commit = now;
        self.effects.push_back(Effect::Unfollow);
        if let Some(log) = self.state.log() {
            if self.state.rules() != Some(&self.settings.rules) {
                let number = RulesNumber(self.state.rules_number().0.saturating_add(1));
                let record = RulesRecord { log, number, rules: self.settings.rules.clone() };
                self.state.follow_rules(&record);
                self.output.closed.push(VerdictRecord::Rules(record));
            }
        } else {
            // Nothing is there to follow: a new log begins, with a checkpoint as every log does. An entry judged by
            // nobody who left a trace is judged now.
            self.cold_starts.new_log += 1;
            self.state = State::begin(self.settings.new_log, self.settings.rules.clone(), 0);
            self.write_checkpoint(&BTreeMap::new());
        }
        self.effects.push_back(Effect::ReadEntries { from: self.state.next_entry() });
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
            // It drains already, and says when it is done.
            Role::Draining => {}
        }
    }

    fn lost(&mut self) {
        self.assigned = false;
        match self.role {
            Role::Active => {
                self.effects.push_back(Effect::StopReading);
                self.step_down();
            }
            Role::Draining => {
                self.step_down();
                self.effects.push_back(Effect::RevokeDone);
            }
            Role::TakingOver => self.role = Role::Standby,
            Role::Restoring | Role::Standby | Role::Stopped => {}
        }
    }

    /// Becomes a standby again: with the state it has, when that is committed; else from what is written.
    fn step_down(&mut self) {
        if self.is_settled() && self.state.log().is_some() {
            self.role = Role::Standby;
            self.drain_until = None;
            self.effects.push_back(Effect::Follow { from: Some(self.position) });
        } else {
            if let Some(call) = self.ritual.abort() {
                self.effects.push_back(Effect::Call(Request::Plain(call)));
            }
            self.restore();
        }
    }

    /// Fenced, or nobody knows what was committed: the log alone can tell. The group must not count on us.
    fn leave_and_restore(&mut self) {
        if self.role == Role::Draining {
            self.effects.push_back(Effect::RevokeDone);
        } else if self.role == Role::Active {
            self.effects.push_back(Effect::StopReading);
        }
        if self.joined {
            self.effects.push_back(Effect::Leave);
        }
        self.joined = false;
        self.assigned = false;
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

    // ---- judging

    fn judge(&mut self, offset: i64, append_time: Timestamp, entries: &[Entry]) {
        if self.role != Role::Active || offset < self.state.next_entry() {
            return;
        }
        for entry in entries {
            let Some(ruling) = decide(&self.state, entry, append_time) else { continue };
            if let Err(why) = self.state.follow(&ruling) {
                let failure = Failure::Unreadable { offset: self.position, why: why.to_string() };
                self.effects.push_back(Effect::Fail(failure));
                return;
            }
            self.spans.note(&ruling, self.state.next_sequence());
            self.output.open.push(ruling);
            self.output.since_checkpoint += 1;
        }
        self.state.pass_entries(offset.saturating_add(1));
        self.output.passed = true;
        if self.output.open.len() >= self.settings.batch_rulings {
            self.close_batch();
        }
    }

    fn close_batch(&mut self) {
        let Some(log) = self.state.log() else { return };
        if !self.output.passed {
            return;
        }
        self.output.passed = false;
        let rulings = std::mem::take(&mut self.output.open);
        self.output.closed_rulings += rulings.len();
        self.output.closed.push(VerdictRecord::Rulings(RulingBatch {
            log,
            rules: self.state.rules_number(),
            tails: self.state.tails(),
            next_entry: self.state.next_entry(),
            rulings,
        }));
    }

    /// Writes a checkpoint behind everything judged so far.
    fn write_checkpoint(&mut self, committed: &BTreeMap<PartitionId, i64>) {
        let on_its_way = |records: &[VerdictRecord]| records.iter().any(is_checkpoint);
        let sent = self.output.sent.as_ref().is_some_and(|sent| on_its_way(&sent.records));
        if self.role != Role::Active || sent || on_its_way(&self.output.closed) {
            return;
        }
        self.close_batch();
        let spans = &self.spans;
        let floor = |partition: &PartitionId| spans.floor(partition, committed);
        let Some(checkpoint) = self.state.checkpoint(self.latest_checkpoint, floor, committed) else { return };
        let keep_from = self.state.newest().minus(self.keep());
        self.output.trim = self
            .spans
            .trim_point(self.state.first_live_sequence(), committed, keep_from)
            .map(|verdicts| (verdicts, self.state.next_entry()));
        self.state.raise_floors(&checkpoint);
        self.spans.open(None, self.state.next_sequence());
        self.output.since_checkpoint = 0;
        self.output.checkpointing = true;
        self.output.closed.push(VerdictRecord::Checkpoint(Box::new(checkpoint)));
    }

    /// How long rulings are kept: as configured, and never less than an original can be matched.
    fn keep(&self) -> Duration {
        let rules = self.state.rules().unwrap_or(&self.settings.rules);
        self.settings.keep.max(rules.windows.max() + rules.lateness)
    }

    // ---- committing

    fn called(&mut self, result: Result<Vec<i64>, CallError>) {
        let outcome = match result {
            Ok(offsets) => {
                if let Some(sent) = self.output.sent.as_mut().filter(|_| !offsets.is_empty()) {
                    sent.offsets = offsets;
                }
                Ok(())
            }
            Err(error) => Err(error),
        };
        match self.ritual.answered(outcome) {
            Turn::Call(call) => self.call(call),
            Turn::Ready if self.role == Role::TakingOver => self.effects.push_back(Effect::FollowToEnd),
            Turn::Committed if matches!(self.role, Role::Active | Role::Draining) => self.committed(),
            // The same rulings again, in a new transaction: they are final.
            Turn::Aborted if matches!(self.role, Role::Active | Role::Draining) => self.send_again(),
            // What a former life had in flight has ended.
            Turn::Aborted if self.role == Role::TakingOver => {
                self.role = Role::Standby;
                self.seize();
            }
            Turn::Ready | Turn::Committed | Turn::Aborted => self.seize(),
            Turn::Fenced(_) | Turn::Fatal(_) | Turn::Unknown(_) => match self.role {
                Role::Active | Role::Draining | Role::TakingOver => self.leave_and_restore(),
                Role::Restoring | Role::Standby => self.seize(),
                Role::Stopped => {}
            },
        }
    }

    fn call(&mut self, call: Call) {
        let request = match (call, &self.output.sent) {
            (Call::Produce, Some(sent)) => Request::Produce(Arc::clone(&sent.records)),
            (Call::SendOffsets, Some(sent)) => {
                Request::SendOffsets { next_entry: sent.next_entry, checkpoint: self.checkpoint_with(sent) }
            }
            _ => Request::Plain(call),
        };
        self.effects.push_back(Effect::Call(request));
    }

    fn checkpoint_with(&self, sent: &Sent) -> Option<i64> {
        checkpoint_in(sent).or(self.latest_checkpoint)
    }

    fn begin(&mut self, now: Duration) {
        self.close_batch();
        let records = std::mem::take(&mut self.output.closed);
        self.output.closed_rulings = 0;
        let next_entry = self.state.next_entry();
        self.output.sent = Some(Sent { records: Arc::new(records), offsets: Vec::new(), next_entry });
        self.last_commit = now;
        let call = self.ritual.begin();
        self.call(call);
    }

    fn send_again(&mut self) {
        if self.output.sent.is_some() {
            let call = self.ritual.begin();
            self.call(call);
        }
    }

    fn committed(&mut self) {
        let Some(sent) = self.output.sent.take() else { return };
        if let Some(&last) = sent.offsets.last() {
            self.position = last.saturating_add(1);
        }
        if let Some(checkpoint) = checkpoint_in(&sent) {
            self.spans.place(checkpoint);
            self.latest_checkpoint = Some(checkpoint);
            self.output.checkpointing = false;
            if let Some((verdicts, entries)) = self.output.trim.take() {
                self.spans.trimmed_to(verdicts);
                self.effects.push_back(Effect::Trim { verdicts, entries });
            }
        }
    }

    fn is_settled(&self) -> bool {
        let output = &self.output;
        output.open.is_empty() && !output.passed && output.closed.is_empty() && output.sent.is_none()
    }

    // ---- what time brings

    fn go_on(&mut self, now: Duration) {
        self.snapshot_waits = self.snapshot_due(now);
        match self.role {
            Role::Active => self.go_on_judging(now),
            Role::Draining => self.go_on_draining(now),
            Role::Standby if self.stopping => self.leave_for_good(),
            Role::Restoring | Role::TakingOver if self.stopping && !self.ritual.is_busy() => self.leave_for_good(),
            Role::Standby => self.snapshot_if_due(now),
            Role::Restoring | Role::TakingOver | Role::Stopped => {}
        }
    }

    fn go_on_judging(&mut self, now: Duration) {
        if self.output.since_checkpoint >= self.settings.checkpoint_rulings && !self.output.checkpointing {
            self.output.checkpointing = true;
            self.effects.push_back(Effect::FetchInputCommitted);
        }
        if self.ritual.is_busy() {
            return;
        }
        if self.is_settled() {
            self.snapshot_if_due(now);
        } else if now >= self.last_commit + self.settings.commit_interval
            || self.output.closed_rulings >= self.settings.batch_rulings
        {
            self.begin(now);
        }
    }

    fn go_on_draining(&mut self, now: Duration) {
        let late = self.drain_until.is_some_and(|until| now >= until);
        if !self.ritual.is_busy() && !self.is_settled() && !late {
            self.begin(now);
        }
        if self.is_settled() && !self.ritual.is_busy() || late {
            self.step_down();
            self.effects.push_back(Effect::RevokeDone);
            if self.stopping {
                self.go_on(now);
            }
        }
    }

    fn leave_for_good(&mut self) {
        if self.joined {
            self.effects.push_back(Effect::Leave);
        }
        self.role = Role::Stopped;
        self.effects.push_back(Effect::Stopped);
    }

    fn snapshot_if_due(&mut self, now: Duration) {
        if self.snapshot_waits && self.state.log().is_some() {
            self.last_snapshot = now;
            self.snapshot_waits = false;
            self.effects.push_back(Effect::Snapshot);
        }
    }

    fn snapshot_due(&self, now: Duration) -> bool {
        self.settings.snapshot_interval.is_some_and(|interval| now >= self.last_snapshot + interval)
    }
}

/// Returns the offset of the checkpoint that a transaction carries, once its records have offsets.
fn checkpoint_in(sent: &Sent) -> Option<i64> {
    let last = sent.records.iter().zip(&sent.offsets).rfind(|(record, _)| is_checkpoint(record));
    last.map(|(_, &offset)| offset)
}

const fn is_checkpoint(record: &VerdictRecord) -> bool {
    matches!(record, VerdictRecord::Checkpoint(_))
}
