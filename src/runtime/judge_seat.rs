//! The thread of one judge: the only owner of a [`Judge`], between the cluster and the machine.
//!
//! One seat for each partition of the logs that this instance serves. The judges of a partition form a group of their
//! own that subscribes to the whole fingerprint log; whoever is given that partition is the active one, and the other
//! partitions mean nothing in this group.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use super::clock::Clock;
use super::errands::Errands;
use super::judge_report::JudgeReport;
use super::judge_turn::{EntryQueue, FetchedEntries, Work, take_turn};
use super::ruling_watch::END_LOOK;
use super::wiring::{Plan, ended, failure, moves};
use crate::error::{Fatal, Reason};
use crate::judge::{Effect, Event, InputOffsets, Judge, JudgeSettings, Request, Restored, Role, SharedSnapshot};
use crate::kafka::admin::Admin;
use crate::kafka::client::ProducerSettings;
use crate::kafka::gate::{Gate, Held};
use crate::kafka::member::{Arrived, Command, Member, MemberEvent, MemberSettings, Membership, Start};
use crate::kafka::offsets::Offsets;
use crate::kafka::transactor::{Answer, Delivery, Mark, Order, Parcel, Transactor};
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowNews, Follower};
use crate::log::{DEFAULT_PART_BYTES, decode_entries, encode_verdict};
use crate::telemetry::labels::{Component, ErrorKind};
use crate::worker::LogPartition;

/// How long the seat waits for news before it says that time passed.
const TICK: Duration = Duration::from_millis(10);

/// How often metrics and health are looked after.
const LOOK: Duration = Duration::from_millis(250);

/// How long one question to the cluster may take.
const QUESTION: Duration = Duration::from_secs(15);

/// How long the end waits for the group to be left and for a snapshot to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(4);

/// Where a judge keeps its state besides the log.
pub trait Shelf: Send + Sync {
    /// Turns the newest usable snapshot back into a state.
    fn newest(&self) -> Option<Box<Restored>>;

    /// Keeps a snapshot.
    fn keep(&self, snapshot: SharedSnapshot);
}

/// What reaches the seat.
enum News {
    /// From the fingerprint log's group, with the number of the membership.
    Member(u64, MemberEvent),
    Followed(FollowEvent),
    Called(Answer),
    InputCommitted(InputOffsets),
    /// What the verdict log held when the reader of this number began.
    LogRange(u64, i64, i64),
    /// Where the fingerprint log ends; `None` when nobody answered.
    EntriesEnd(Option<i64>),
    Asked(Question),
    SnapshotWanted,
    Stop,
}

/// Looks at the judge on its own thread, between two events.
type Question = Box<dyn FnOnce(&Judge) + Send>;

/// Tells a judge to commit what is judged and leave, or asks it.
#[derive(Clone)]
pub struct Stopper(Sender<News>);

impl Stopper {
    /// Asks for a clean stop.
    pub fn stop(&self) {
        // A seat that has ended is stopped already.
        let _ = self.0.send(News::Stop);
    }

    /// Asks the judge; `None` when it has ended or does not answer in time. The judge waits meanwhile.
    pub(super) fn ask<T: Send + 'static>(&self, look: impl FnOnce(&Judge) -> T + Send + 'static) -> Option<T> {
        let (sender, answer) = bounded(1);
        let question: Question = Box::new(move |judge| drop(sender.send(look(judge))));
        self.0.send(News::Asked(question)).ok()?;
        answer.recv_timeout(QUESTION).ok()
    }

    /// Has a snapshot written as soon as everything judged is committed.
    pub(super) fn snapshot(&self) {
        // A seat that has ended wrote its last one.
        let _ = self.0.send(News::SnapshotWanted);
    }
}

/// A judge's thread.
pub struct JudgeSeat {
    plan: Arc<Plan>,
    log: LogPartition,
    clock: Clock,
    judge: Judge,
    news: Receiver<News>,
    sender: Sender<News>,
    follower: Follower,
    member: Option<Member>,
    /// Leaves the group, and is over when it has.
    leaving: Option<Member>,
    memberships: u64,
    /// What offsets are sent under.
    membership: Membership,
    /// Number of the command that news of a reader must carry; 0 when nothing is read.
    following: u64,
    reading: u64,
    serials: u64,
    entries: EntryQueue,
    transactor: Transactor,
    errands: Errands,
    input: Arc<Offsets>,
    shelf: Option<Arc<dyn Shelf>>,
    shelf_errands: Errands,
    /// Does the index's chores.
    chores: Errands,
    gate: Arc<Gate>,
    report: JudgeReport,
    looked: Duration,
    asked_end: Duration,
    /// Whether the answer about the end of the fingerprint log is on its way.
    asks_end: bool,
    stopped: bool,
}

impl JudgeSeat {
    /// Connects everything that the judge speaks to. Nothing is read before [`JudgeSeat::run`].
    ///
    /// # Errors
    ///
    /// When a client or a thread cannot be made.
    pub(super) fn new(
        plan: Arc<Plan>,
        log: LogPartition,
        settings: JudgeSettings,
        shelf: Option<Arc<dyn Shelf>>,
    ) -> Result<Self, Fatal> {
        let (sender, news) = unbounded();
        let (clock, session) = (plan.clock, plan.settings.judge.session_timeout);
        let log_gate = Gate::new(64 << 20);
        let told = sender.clone();
        let follower = plan.follow(log, "standby", &log_gate, move |event| drop(told.send(News::Followed(event))))?;
        let id = plan.judge_group(log);
        let config = plan.cluster.transactional_producer(&id, &ProducerSettings::of_judge());
        let answered = sender.clone();
        let transactor = Transactor::start(
            config,
            Delivery::ExactlyOnce,
            format!("rulings-{log}"),
            Arc::clone(&plan.backlog),
            move |_, answer| {
                drop(answered.send(News::Called(answer)));
            },
        )
        .map_err(failure)?;
        let query = plan.cluster.query(&plan.settings.input.group);
        Ok(Self {
            judge: Judge::new(settings),
            news,
            follower,
            member: None,
            leaving: None,
            memberships: 0,
            membership: Membership::default(),
            following: 0,
            reading: 0,
            serials: 0,
            entries: EntryQueue::default(),
            transactor,
            errands: Errands::start(format!("judge-errands-{log}")).map_err(failure)?,
            input: Arc::new(Offsets::new(&query, QUESTION).map_err(failure)?),
            shelf,
            shelf_errands: Errands::start(format!("snapshots-{log}")).map_err(failure)?,
            chores: Errands::start(format!("chores-{log}")).map_err(failure)?,
            gate: Gate::new(32 << 20),
            report: JudgeReport::new(plan.metrics.clone(), &plan.health, clock, log, session),
            looked: clock.now(),
            asked_end: Duration::ZERO,
            asks_end: false,
            stopped: false,
            log,
            clock,
            sender,
            plan,
        })
    }

    /// Returns what asks for a clean stop.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    /// Works until the judge has stopped.
    ///
    /// # Errors
    ///
    /// Why it cannot go on.
    pub fn run(mut self) -> Result<(), Fatal> {
        self.carry_out_all()?;
        let mut work = Work::Done;
        while !self.stopped {
            let wait = if work == Work::More { Duration::ZERO } else { TICK };
            match self.news.recv_timeout(wait) {
                Ok(news) => self.take_many(news)?,
                Err(RecvTimeoutError::Timeout) => self.handle(Event::Tick)?,
                Err(RecvTimeoutError::Disconnected) => break,
            }
            work = self.judge_entries()?;
            self.judge.chores(|task| self.chores.do_once(task));
            self.look_around();
        }
        self.close();
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), Fatal> {
        self.judge.handle(self.clock.now(), event);
        self.carry_out_all()
    }

    fn carry_out_all(&mut self) -> Result<(), Fatal> {
        while let Some(effect) = self.judge.poll() {
            self.carry_out(effect)?;
        }
        self.report.see(&self.judge);
        Ok(())
    }

    // ---- news to events

    /// Takes what has come, for one turn.
    fn take_many(&mut self, first: News) -> Result<(), Fatal> {
        let clock = self.clock;
        let mut next = Some(first);
        take_turn(
            || clock.now(),
            || {
                let Some(news) = next.take().or_else(|| self.news.try_recv().ok()) else { return Ok(Work::Done) };
                self.take(news).map(|()| Work::More)
            },
        )
        .map(drop)
    }

    fn take(&mut self, news: News) -> Result<(), Fatal> {
        match news {
            News::Member(membership, event) if membership == self.memberships => self.member_event(event),
            News::Member(..) => Ok(()),
            News::Followed(event) => self.followed(event),
            News::Called(answer) => {
                if let Err(error) = &answer {
                    self.report.failed(error);
                }
                self.handle(Event::Called(answer))
            }
            News::InputCommitted(input) => self.handle(Event::InputCommitted(input)),
            News::LogRange(serial, begin, end) => {
                if serial == self.following {
                    self.report.has_to_follow(begin, end);
                }
                Ok(())
            }
            News::EntriesEnd(end) => {
                self.asks_end = false;
                end.into_iter().for_each(|end| self.report.entries_end(end));
                Ok(())
            }
            News::Asked(question) => {
                question(&self.judge);
                Ok(())
            }
            News::SnapshotWanted => {
                self.judge.want_snapshot();
                self.handle(Event::Tick)
            }
            News::Stop => {
                tracing::info!(log = self.log, "judge: stopping");
                self.handle(Event::Stop)
            }
        }
    }

    fn member_event(&mut self, event: MemberEvent) -> Result<(), Fatal> {
        let ours = self.plan.fingerprints(self.log);
        match event {
            MemberEvent::Record { partition, offset, serial, record, held } => {
                if partition == ours && serial == self.reading {
                    self.arrived(offset, &record, held);
                }
                Ok(())
            }
            MemberEvent::Assigned(partitions) if partitions.contains(&ours) => self.handle(Event::Assigned),
            MemberEvent::Revoked(partitions) if partitions.contains(&ours) => self.handle(Event::Revoked),
            MemberEvent::Revoked(_) => {
                self.command(Command::RevokeDone);
                Ok(())
            }
            MemberEvent::Lost(partitions) if partitions.contains(&ours) => self.handle(Event::Lost),
            MemberEvent::Renewed(membership) => {
                self.membership = membership;
                Ok(())
            }
            MemberEvent::OutOfRange { partition, offset, first, end, .. } => {
                let why = format!("offset {offset} of {partition} comes next, and it holds {first} to {end}");
                self.member_event(MemberEvent::Failed(why))
            }
            MemberEvent::Reaches(_)
            | MemberEvent::Started { .. }
            | MemberEvent::AtEnd { .. }
            | MemberEvent::Paused
            | MemberEvent::Left
            | MemberEvent::Assigned(_)
            | MemberEvent::Lost(_) => Ok(()),
            MemberEvent::Failed(why) | MemberEvent::Fenced(why) => {
                self.report.metrics().error(Component::Consumer, ErrorKind::Fatal);
                let what = format!("judge of {ours}: {why}");
                Err(ended(Reason::Failure, what, &self.plan.settings))
            }
        }
    }

    fn arrived(&mut self, offset: i64, record: &Arrived, held: Held) {
        let entries = decode_entries(record.value.as_deref().unwrap_or_default()).unwrap_or_else(|error| {
            // Whoever asked asks again when the judge has passed this offset without a ruling.
            tracing::error!(log = self.log, offset, %error, "a record of the fingerprint log cannot be read");
            self.report.metrics().error(Component::Log, ErrorKind::Corrupt);
            Vec::new()
        });
        let append_time = record.timestamp.unwrap_or_default();
        let fetched = self.clock.now();
        self.entries.push(FetchedEntries { offset, append_time, entries, fetched, _held: held });
    }

    /// Judges for one turn.
    fn judge_entries(&mut self) -> Result<Work, Fatal> {
        let clock = self.clock;
        take_turn(|| clock.now(), || self.judge_step())
    }

    fn judge_step(&mut self) -> Result<Work, Fatal> {
        let began = self.clock.now();
        let event = if self.judge.is_unfinished() {
            Event::Continue
        } else if self.judge.wants_entries() {
            let Some(record) = self.entries.pop() else { return Ok(Work::Done) };
            self.report.waited(record.entries.len(), began.saturating_sub(record.fetched));
            record.into_event()
        } else {
            return Ok(Work::Done);
        };
        self.judge.handle(began, event);
        self.report.judged(self.judge.looks(), self.clock.now().saturating_sub(began));
        self.carry_out_all()?;
        Ok(Work::More)
    }

    fn followed(&mut self, event: FollowEvent) -> Result<(), Fatal> {
        if event.serial != self.following {
            return Ok(());
        }
        match event.news {
            FollowNews::Record { offset, next, record, held: _held } => {
                self.report.follows(next);
                self.handle(Event::Followed { offset, next, record })
            }
            FollowNews::End => self.handle(Event::FollowedToEnd),
            FollowNews::Moved(why) => {
                tracing::warn!(log = self.log, why, "the verdict log is read anew");
                self.handle(Event::LogMoved)
            }
        }
    }

    // ---- effects to calls

    fn carry_out(&mut self, effect: Effect) -> Result<(), Fatal> {
        match effect {
            Effect::Restore => {
                let restored = self.shelf.as_ref().and_then(|shelf| shelf.newest());
                self.report.restores(restored.as_ref().map_or(0, |restored| restored.state().index().len()));
                self.judge.handle(self.clock.now(), Event::Restored(restored));
            }
            Effect::Follow { from } => {
                self.serials += 1;
                self.following = self.serials;
                self.follower.command(FollowCommand::From(from, self.serials));
                self.fetch_log_range(from);
            }
            Effect::FollowToEnd => self.follower.command(FollowCommand::ToEnd),
            Effect::FollowToLast => self.follower.command(FollowCommand::ToLast),
            Effect::Unfollow => {
                self.following = 0;
                self.follower.command(FollowCommand::Stop);
            }
            Effect::Join => self.join()?,
            Effect::Leave => self.leave(),
            Effect::Call(request) => self.call(request),
            Effect::ReadEntries { from } => {
                self.serials += 1;
                self.reading = self.serials;
                self.entries.clear();
                let ours = self.plan.fingerprints(self.log);
                self.command(Command::Seek(ours, Start::NotBefore(from), self.serials));
            }
            Effect::StopReading => self.stop_reading(),
            Effect::FetchInputCommitted => self.fetch_input_committed(),
            Effect::Trim { verdicts, entries } => self.trim(verdicts, entries),
            Effect::Snapshot => self.snapshot(),
            Effect::RevokeDone => self.command(Command::RevokeDone),
            Effect::Stopped => self.stopped = true,
            Effect::Fail(why) => return Err(ended(Reason::State, why, &self.plan.settings)),
        }
        Ok(())
    }

    fn command(&self, command: Command) {
        if let Some(member) = &self.member {
            member.command(command);
        }
    }

    fn stop_reading(&mut self) {
        self.reading = 0;
        self.entries.clear();
        self.command(Command::Close(self.plan.fingerprints(self.log)));
    }

    fn join(&mut self) -> Result<(), Fatal> {
        let session = self.plan.settings.judge.session_timeout;
        self.memberships += 1;
        self.membership = Membership::default();
        let membership = self.memberships;
        let settings = MemberSettings {
            config: self.plan.cluster.judge_consumer(&self.plan.judge_group(self.log), session),
            topics: vec![self.plan.names.fingerprints.to_string()],
            thread: format!("judge-{}", self.log),
            gate: Arc::clone(&self.gate),
            moved: moves(&self.plan, &format!("judge {} poll", self.log)),
        };
        let sender = self.sender.clone();
        let member = Member::join(settings, move |event| drop(sender.send(News::Member(membership, event))));
        self.member = Some(member.map_err(failure)?);
        Ok(())
    }

    fn leave(&mut self) {
        self.stop_reading();
        if let Some(member) = self.member.take() {
            member.command(Command::Leave);
            self.leaving = Some(member);
        }
        self.memberships += 1;
        self.membership = Membership::default();
    }

    fn call(&mut self, request: Request) {
        let order = match request {
            Request::Produce(records) => {
                self.report.writes(&records);
                let verdicts = self.plan.verdicts(self.log);
                let values = records.iter().map(|record| encode_verdict(record, DEFAULT_PART_BYTES)).collect();
                Order::Produce(Box::new(Parcel { topic: verdicts.topic, partition: verdicts.number, values }))
            }
            Request::SendOffsets { next_entry, checkpoint } => {
                let metadata = checkpoint.map_or_else(String::new, |offset| offset.to_string());
                let mark = Mark { partition: self.plan.fingerprints(self.log), offset: next_entry, metadata };
                Order::SendOffsets(vec![mark], self.membership.clone())
            }
            Request::Plain(call) => Order::Plain(call),
        };
        self.transactor.order(order);
    }

    fn fetch_input_committed(&self) {
        let (sender, offsets, topics) = (self.sender.clone(), Arc::clone(&self.input), self.plan.input_topics());
        self.errands.run(move || {
            let partitions = offsets.partitions(&topics).map_err(|error| error.to_string())?;
            // An offset that is about to move may be answered as it was, and one without an answer be left out: both hold
            // trimming back for a while, and nothing more.
            let committed = offsets.last_committed(&partitions).map_err(|error| error.to_string())?;
            let known = committed.into_iter().filter_map(|(partition, known)| Some((partition, known?.offset)));
            let committed = known.collect();
            drop(sender.send(News::InputCommitted(InputOffsets { committed, partitions })));
            Ok(())
        });
    }

    /// Asks how much there is to follow, for those who wait for it.
    fn fetch_log_range(&self, from: Option<i64>) {
        let (sender, offsets) = (self.sender.clone(), Arc::clone(&self.input));
        let (serial, verdicts) = (self.serials, self.plan.verdicts(self.log));
        self.errands.run(move || {
            // Nothing depends on it: who does not answer now is not asked again.
            if let Ok((first, end)) = offsets.range(&verdicts) {
                drop(sender.send(News::LogRange(serial, from.map_or(first, |from| from.max(first)), end)));
            }
            Ok(())
        });
    }

    fn trim(&self, verdicts: i64, entries: i64) {
        let before = [(self.plan.verdicts(self.log), verdicts), (self.plan.fingerprints(self.log), entries)];
        let (config, brokers) = (self.plan.cluster.admin(), self.plan.brokers);
        let (metrics, log) = (self.report.metrics().clone(), self.log);
        self.errands.run(move || {
            tracing::info!(log, verdicts, entries, "trimming both logs");
            if let Err(error) = Admin::of(&config, brokers).and_then(|admin| admin.delete_records(&before)) {
                // It is asked again later, for more.
                tracing::warn!(log, %error, "the logs are not trimmed");
                metrics.error(Component::Admin, ErrorKind::Retriable);
            }
            Ok(())
        });
    }

    fn snapshot(&self) {
        let Some(snapshots) = self.shelf.as_ref().map(Arc::clone) else { return };
        let mut cut = self.judge.snapshot();
        self.shelf_errands.run(move || {
            if let Some(snapshot) = cut.take() {
                snapshots.keep(snapshot);
            }
            Ok(())
        });
    }

    // ---- housekeeping

    fn look_around(&mut self) {
        let now = self.clock.now();
        if now.saturating_sub(self.looked) >= LOOK {
            self.looked = now;
            self.report.look(&self.judge, self.entries.entries());
            self.report.metrics().producer_queue(self.plan.backlog.records(), self.plan.backlog.bytes());
            self.ask_end();
        }
    }

    /// Asks where the fingerprint log ends: a standby tells by it whether somebody judges.
    fn ask_end(&mut self) {
        let now = self.clock.now();
        let is_due = self.judge.role() == Role::Standby && now.saturating_sub(self.asked_end) >= END_LOOK;
        if !is_due || std::mem::replace(&mut self.asks_end, true) {
            return;
        }
        self.asked_end = now;
        let (sender, offsets, entries) =
            (self.sender.clone(), Arc::clone(&self.input), self.plan.fingerprints(self.log));
        self.errands.run(move || {
            drop(sender.send(News::EntriesEnd(offsets.range(&entries).ok().map(|(_, end)| end))));
            Ok(())
        });
    }

    /// Waits until the group is left and the last snapshot is written, but only for so long.
    fn close(&mut self) {
        self.leave();
        let (written, is_written) = bounded(1);
        self.shelf_errands.run(move || {
            // Nobody waits any more when it is too late.
            let _ = written.try_send(());
            Ok(())
        });
        let until = self.clock.now() + CLOSE_TIMEOUT;
        // Dynamic members leave when they close. A process that ends before that is a member until its session times
        // out, and whoever comes next waits for it.
        while self.leaving.as_ref().is_some_and(|member| !member.is_over()) && self.clock.now() < until {
            drop(self.news.recv_timeout(TICK));
        }
        if self.leaving.as_ref().is_some_and(|member| !member.is_over()) {
            let group = self.plan.judge_group(self.log);
            tracing::warn!(
                log = self.log,
                group,
                "the group was not left in time: others wait for the session time-out"
            );
        }
        if is_written.recv_timeout(until.saturating_sub(self.clock.now())).is_err() {
            tracing::warn!(
                log = self.log,
                "the last snapshot was not written in time: a restart follows more of the log"
            );
        }
    }
}

/// Returns the partitions to serve that exist.
pub(super) fn served(serve: &[u32], logs: usize) -> BTreeSet<LogPartition> {
    serve.iter().filter_map(|&log| LogPartition::try_from(log).ok()).filter(|&log| log < logs).collect()
}
