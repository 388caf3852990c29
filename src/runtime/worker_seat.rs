//! The worker's thread: the only owner of a [`Worker`], between the cluster and the machine.
//!
//! Everything that happens comes through one channel, in order. What was read before a seek never reaches the machine
//! after it: each seek has a serial number, and whatever carries an older one is dropped here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::clock::{Clock, wall_clock};
use super::errands::Errands;
use super::in_order::InOrder;
use super::reading::Reading;
use super::text_pool::{Done, Job, TextPool};
use super::wiring::{Plan, failure};
use super::worker_report::WorkerReport;
use crate::config::Start as ConfiguredStart;
use crate::error::{Fatal, Reason};
use crate::kafka::fingerprint_log::{Appended, EntryLog};
use crate::kafka::gate::{Gate, Held};
use crate::kafka::member::{Command, Member, MemberEvent, MemberSettings, Start};
use crate::kafka::offsets::Offsets;
use crate::kafka::output::{Carried, Pages};
use crate::kafka::transactor::{Answer, Mark, Order, Transactor};
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowNews, Follower};
use crate::record::{PartitionId, Timestamp};
use crate::telemetry::labels::Rebalance;
use crate::transaction::Call;
use crate::worker::{
    BadRecords, Disposition, Effect, Errand, Event, LogPartition, Page, Request, Worker, WorkerSettings,
};

/// How long the seat waits for news before it says that time passed.
const TICK: Duration = Duration::from_millis(10);

/// How long entries may gather before they are sent.
const LINGER: Duration = Duration::from_millis(3);

/// How long text work may take on one page.
const TEXT_LIMIT: Duration = Duration::from_secs(20);

/// How often metrics and health are looked after.
const LOOK: Duration = Duration::from_millis(250);

/// How often lags are asked for.
const LAGS: Duration = Duration::from_secs(10);

/// Most news taken before entries are sent and time is looked at.
const MOST_NEWS: usize = 512;

/// How long one question to the cluster may take.
const QUESTION: Duration = Duration::from_secs(15);

/// What reaches the seat.
enum News {
    /// From the input, with the number of the membership.
    Member(u64, MemberEvent),
    Read(Done),
    Followed(LogPartition, FollowEvent),
    Recalled(LogPartition, FollowEvent),
    Appended(Appended),
    Called(Answer),
    Checkpoint(LogPartition, Option<i64>),
    Committed(BTreeMap<PartitionId, Option<i64>>, BTreeSet<Arc<str>>),
    Stop,
}

/// Tells a worker to deliver what it can and leave.
#[derive(Clone)]
pub struct Stopper(Sender<News>);

impl Stopper {
    /// Asks for a clean stop.
    pub fn stop(&self) {
        // A seat that has ended is stopped already.
        let _ = self.0.send(News::Stop);
    }
}

/// One partition of the input, as the seat sees it.
#[derive(Default)]
struct Lane {
    serial: u64,
    order: InOrder<Ready>,
    /// Behind the last record handed over; for lags.
    next: i64,
}

enum Ready {
    Page(Box<Page<Carried>>, Held),
    End,
}

/// A reader of one verdict log, and the command that its news must carry.
struct Reader {
    follower: Follower,
    serial: u64,
}

/// The worker's thread.
pub struct WorkerSeat {
    plan: Arc<Plan>,
    clock: Clock,
    worker: Worker<Carried>,
    news: Receiver<News>,
    sender: Sender<News>,
    member: Option<Member>,
    memberships: u64,
    lanes: BTreeMap<PartitionId, Lane>,
    serials: u64,
    readers: Vec<Reader>,
    recalls: Vec<Option<Reader>>,
    entries: EntryLog,
    entries_since: Option<Duration>,
    transactor: Transactor,
    errands: Errands,
    lag_errands: Errands,
    offsets: Arc<Offsets>,
    judge_offsets: Vec<Arc<Offsets>>,
    pool: TextPool,
    gate: Arc<Gate>,
    log_gate: Arc<Gate>,
    begun_topics: BTreeSet<Arc<str>>,
    report: WorkerReport,
    looked: Duration,
    asked_lags: Duration,
    /// Why the worker leaves, when it is not asked to.
    leaving_because: Option<Fatal>,
    stopped: bool,
}

impl WorkerSeat {
    /// Connects everything that the worker speaks to. Nothing is read before [`WorkerSeat::run`].
    ///
    /// # Errors
    ///
    /// When a client or a thread cannot be made.
    pub(super) fn new(plan: Arc<Plan>, reading: Reading, settings: WorkerSettings) -> Result<Self, Fatal> {
        let (sender, news) = unbounded();
        let clock = plan.clock;
        let gate = Gate::new(plan.settings.processing.max_in_flight_bytes / 4 + (1 << 20));
        let log_gate = Gate::new(64 << 20);
        let group = &plan.settings.input.group;
        let logs = settings.logs;
        let outputs = Arc::clone(&reading.outputs);

        let mut readers = Vec::new();
        let mut judge_offsets = Vec::new();
        for log in 0..logs {
            let follower =
                plan.follow(log, "follow", &log_gate, sink(&sender, move |event| News::Followed(log, event)))?;
            readers.push(Reader { follower, serial: 0 });
            let judges = plan.cluster.query(&plan.judge_group(log));
            judge_offsets.push(Arc::new(Offsets::new(&judges, QUESTION).map_err(failure)?));
        }
        let entries = EntryLog::open(
            &plan.cluster.entry_producer(),
            plan.names.fingerprints.to_string(),
            logs,
            sink(&sender, News::Appended),
        )
        .map_err(failure)?;
        let answered = sender.clone();
        let transactor = Transactor::start(plan.worker_producer(), plan.delivery(), "transactions".to_owned(), {
            move |_, answer| drop(answered.send(News::Called(answer)))
        })
        .map_err(failure)?;
        let pool = TextPool::start(plan.text_threads(), reading, clock, sink(&sender, News::Read)).map_err(failure)?;
        Ok(Self {
            worker: Worker::new(settings),
            news,
            member: None,
            memberships: 0,
            lanes: BTreeMap::new(),
            serials: 0,
            readers,
            recalls: (0..logs).map(|_| None).collect(),
            entries,
            entries_since: None,
            transactor,
            errands: Errands::start("worker-errands".to_owned()).map_err(failure)?,
            lag_errands: Errands::start("lags".to_owned()).map_err(failure)?,
            offsets: Arc::new(Offsets::new(&plan.cluster.query(group), QUESTION).map_err(failure)?),
            judge_offsets,
            pool,
            gate,
            log_gate,
            begun_topics: BTreeSet::new(),
            report: WorkerReport::new(plan.metrics.clone(), &plan.health, clock, outputs),
            looked: clock.now(),
            asked_lags: clock.now(),
            leaving_because: None,
            stopped: false,
            sender,
            clock,
            plan,
        })
    }

    /// Returns what asks for a clean stop.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    /// Works until the worker has stopped.
    ///
    /// # Errors
    ///
    /// Why it cannot go on.
    pub fn run(mut self) -> Result<(), Fatal> {
        self.carry_out_all()?;
        while !self.stopped {
            let patience = if self.entries_since.is_some() { LINGER } else { TICK };
            match self.news.recv_timeout(patience) {
                Ok(news) => {
                    self.take(news)?;
                    for _ in 0..MOST_NEWS {
                        let Ok(news) = self.news.try_recv() else { break };
                        self.take(news)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.handle(Event::Tick)?,
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.send_entries();
            self.look_around()?;
        }
        self.close();
        self.leaving_because.take().map_or(Ok(()), Err)
    }

    fn handle(&mut self, event: Event<Carried>) -> Result<(), Fatal> {
        self.worker.handle(self.clock.now(), event);
        self.carry_out_all()
    }

    fn carry_out_all(&mut self) -> Result<(), Fatal> {
        while let Some(effect) = self.worker.poll() {
            self.carry_out(effect)?;
        }
        Ok(())
    }

    // ---- news to events

    fn take(&mut self, news: News) -> Result<(), Fatal> {
        match news {
            News::Member(membership, event) if membership == self.memberships => self.member_event(event),
            News::Member(..) => Ok(()),
            News::Read(done) => self.read(done),
            News::Followed(log, event) => self.followed(log, event),
            News::Recalled(log, event) => self.recalled(log, event),
            News::Appended(Appended { request, offset }) => self.handle(Event::Appended(request, offset)),
            News::Called(answer) => {
                self.report.called(&answer);
                self.handle(Event::Called(answer.map(|_| ())))
            }
            News::Checkpoint(log, offset) => self.handle(Event::Checkpoint(log, offset)),
            News::Committed(offsets, begun) => {
                self.begun_topics = begun;
                self.handle(Event::Committed(offsets))
            }
            News::Stop => {
                tracing::info!("worker: stopping");
                self.handle(Event::Stop)
            }
        }
    }

    fn member_event(&mut self, event: MemberEvent) -> Result<(), Fatal> {
        match event {
            MemberEvent::Record { partition, offset, serial, record, held } => {
                let Some(lane) = self.lanes.get_mut(&partition).filter(|lane| lane.serial == serial) else {
                    return Ok(());
                };
                lane.next = offset + 1;
                let place = lane.order.take();
                self.report.read(&partition, record.bytes());
                self.pool.read(Job { source: partition.at(offset), serial, place, record: Arc::new(record), held });
                Ok(())
            }
            MemberEvent::AtEnd { partition, serial } => {
                if let Some(lane) = self.lanes.get_mut(&partition).filter(|lane| lane.serial == serial) {
                    lane.order.push(Ready::End);
                }
                self.hand_over(&partition)
            }
            MemberEvent::Assigned(partitions) => {
                tracing::info!(partitions = %names(&partitions), "assigned");
                self.report.metrics().rebalanced(Rebalance::Assign, partitions.len());
                self.handle(Event::Assigned(partitions))
            }
            MemberEvent::Revoked(partitions) => {
                tracing::info!(partitions = %names(&partitions), "revoked");
                self.report.metrics().rebalanced(Rebalance::Revoke, partitions.len());
                self.forget(&partitions);
                self.handle(Event::Revoked(partitions))
            }
            MemberEvent::Lost(partitions) => {
                tracing::warn!(partitions = %names(&partitions), "lost");
                self.report.metrics().rebalanced(Rebalance::Lost, partitions.len());
                self.forget(&partitions);
                self.handle(Event::Lost(partitions))
            }
            MemberEvent::Left => Ok(()),
            MemberEvent::Failed(why) => Err(Reason::Failure.because(anyhow::anyhow!(why))),
        }
    }

    fn forget(&mut self, partitions: &BTreeSet<PartitionId>) {
        for partition in partitions {
            self.lanes.remove(partition);
        }
    }

    fn read(&mut self, done: Done) -> Result<(), Fatal> {
        let Done { serial, place, page, held } = done;
        let partition = page.source.partition.clone();
        let Some(lane) = self.lanes.get_mut(&partition).filter(|lane| lane.serial == serial) else { return Ok(()) };
        lane.order.fill(place, Ready::Page(Box::new(page), held));
        self.hand_over(&partition)
    }

    /// Hands the machine what is done, in offset order.
    fn hand_over(&mut self, partition: &PartitionId) -> Result<(), Fatal> {
        while let Some(ready) = self.lanes.get_mut(partition).and_then(|lane| lane.order.pop()) {
            match ready {
                Ready::End => self.handle(Event::AtEnd(partition.clone()))?,
                Ready::Page(page, _held) => {
                    if self.must_stop_at(&page) {
                        self.lanes.remove(partition);
                        return self.handle(Event::Stop);
                    }
                    self.handle(Event::Page(*page))?;
                }
            }
        }
        Ok(())
    }

    /// With `on_bad_record: stop` the first bad record ends the program before its offset is committed.
    fn must_stop_at(&mut self, page: &Page<Carried>) -> bool {
        if self.plan.outputs.routing.bad_records != BadRecords::Stop {
            return false;
        }
        let reason = match &page.errand {
            Errand::Settled(Disposition::DeadLetter(reason)) | Errand::Withdraw(_, reason) => *reason,
            Errand::Settled(Disposition::Ruled(_) | Disposition::Tombstone) | Errand::Ask(..) => return false,
        };
        if self.leaving_because.is_none() {
            let why = page.payload.message.clone().unwrap_or_else(|| crate::worker::message(reason).to_owned());
            self.leaving_because = Some(Reason::Failure.because(anyhow::anyhow!(
                "{} cannot be judged ({}: {why}), and processing.on_bad_record is stop",
                page.source,
                reason.name()
            )));
        }
        true
    }

    fn followed(&mut self, log: LogPartition, event: FollowEvent) -> Result<(), Fatal> {
        if self.readers.get(log).is_none_or(|reader| reader.serial != event.serial) {
            return Ok(());
        }
        match event.news {
            FollowNews::Record { offset, record, held: _held, .. } => {
                self.report.followed(&record);
                self.handle(Event::Followed { log, offset, record })
            }
            FollowNews::End => self.handle(Event::FollowedToEnd(log)),
            FollowNews::Moved(why) => {
                tracing::warn!(log, why, "the verdict log is read anew");
                self.handle(Event::LogMoved(log))
            }
        }
    }

    fn recalled(&mut self, log: LogPartition, event: FollowEvent) -> Result<(), Fatal> {
        let Some(Some(reader)) = self.recalls.get(log) else { return Ok(()) };
        if reader.serial != event.serial {
            return Ok(());
        }
        match event.news {
            FollowNews::Record { offset, record, held: _held, .. } => {
                self.handle(Event::Recalled { log, offset, record })
            }
            FollowNews::End => {
                reader.follower.command(FollowCommand::Stop);
                self.handle(Event::RecalledToEnd(log))
            }
            FollowNews::Moved(why) => {
                tracing::warn!(log, why, "old rulings cannot be read back");
                self.handle(Event::RecallMoved(log))
            }
        }
    }

    // ---- effects to calls

    fn carry_out(&mut self, effect: Effect<Carried>) -> Result<(), Fatal> {
        match effect {
            Effect::FetchCheckpoint(log) => self.fetch_checkpoint(log),
            Effect::Follow { log, from } => {
                self.serials += 1;
                if let Some(reader) = self.readers.get_mut(log) {
                    reader.serial = self.serials;
                    reader.follower.command(FollowCommand::From(from, self.serials));
                }
            }
            Effect::FollowToEnd(log) => {
                if let Some(reader) = self.readers.get(log) {
                    reader.follower.command(FollowCommand::ToEnd);
                }
            }
            Effect::Join => self.join()?,
            Effect::Leave => self.command(Command::Leave),
            Effect::FetchCommitted(partitions) => self.fetch_committed(partitions),
            Effect::Seek { partition, offset } => self.seek(partition, offset),
            Effect::Pause(partitions) => self.command(Command::Pause(partitions)),
            Effect::Resume(partitions) => self.command(Command::Resume(partitions)),
            Effect::Append(log, entry) => {
                self.report.asked(entry.request);
                self.entries_since.get_or_insert_with(|| self.clock.now());
                self.entries.append(log, entry);
            }
            Effect::Recall { log, from } => self.recall(log, from)?,
            Effect::Call(request) => self.call(request),
            Effect::Delivered(outputs) => self.report.delivered(&outputs),
            Effect::RevokeDone => self.command(Command::RevokeDone),
            Effect::Stopped => self.stopped = true,
            Effect::Fail(why) => return Err(Reason::Failure.because(why)),
        }
        Ok(())
    }

    fn command(&self, command: Command) {
        if let Some(member) = &self.member {
            member.command(command);
        }
    }

    fn fetch_checkpoint(&self, log: LogPartition) {
        let Some(offsets) = self.judge_offsets.get(log).map(Arc::clone) else { return };
        let (sender, partition) = (self.sender.clone(), self.plan.fingerprints(log));
        self.errands.run(move || {
            let committed =
                offsets.committed(&BTreeSet::from([partition.clone()])).map_err(|error| error.to_string())?;
            let metadata = committed.into_values().flatten().next().map(|committed| committed.metadata);
            drop(sender.send(News::Checkpoint(log, metadata.and_then(|offset| offset.parse().ok()))));
            Ok(())
        });
    }

    fn fetch_committed(&self, partitions: BTreeSet<PartitionId>) {
        let (sender, offsets) = (self.sender.clone(), Arc::clone(&self.offsets));
        let outputs = Arc::clone(&self.plan.outputs);
        self.errands.run(move || {
            // The whole topics are asked for: where the group has an offset anywhere, a new partition begins at its
            // beginning.
            let topics: BTreeSet<String> = partitions.iter().map(|partition| partition.topic.to_string()).collect();
            let topics: Vec<String> = topics.into_iter().collect();
            let mut all = offsets.partitions(&topics).map_err(|error| error.to_string())?;
            for topic in &topics {
                let count = all.iter().filter(|partition| *partition.topic == **topic).count();
                outputs.input_partitions.learn(Arc::from(topic.as_str()), count);
            }
            all.extend(partitions.iter().cloned());
            let committed = offsets.committed(&all).map_err(|error| error.to_string())?;
            let begun = committed.iter().filter(|(_, known)| known.is_some()).map(|(part, _)| Arc::clone(&part.topic));
            let begun = begun.collect();
            let wanted = committed
                .into_iter()
                .filter(|(partition, _)| partitions.contains(partition))
                .map(|(partition, known)| (partition, known.map(|known| known.offset)))
                .collect();
            drop(sender.send(News::Committed(wanted, begun)));
            Ok(())
        });
    }

    fn join(&mut self) -> Result<(), Fatal> {
        self.memberships += 1;
        let membership = self.memberships;
        let settings = MemberSettings {
            config: self.plan.input_consumer(),
            topics: self.plan.input_topics(),
            thread: "input".to_owned(),
            gate: Arc::clone(&self.gate),
        };
        let sender = self.sender.clone();
        let member = Member::join(settings, move |event| drop(sender.send(News::Member(membership, event))));
        self.member = Some(member.map_err(failure)?);
        Ok(())
    }

    fn seek(&mut self, partition: PartitionId, offset: Option<i64>) {
        self.serials += 1;
        let lane = Lane { serial: self.serials, order: InOrder::default(), next: offset.unwrap_or(0) };
        let start = match offset {
            Some(offset) => Start::Offset(offset),
            None if self.begun_topics.contains(&partition.topic) => Start::Earliest,
            None => start_of(self.plan.settings.input.start),
        };
        self.lanes.insert(partition.clone(), lane);
        self.command(Command::Seek(partition, start, self.serials));
    }

    fn recall(&mut self, log: LogPartition, from: Option<i64>) -> Result<(), Fatal> {
        self.serials += 1;
        let serial = self.serials;
        let Some(place) = self.recalls.get_mut(log) else { return Ok(()) };
        let reader = if let Some(reader) = place {
            reader
        } else {
            let sink = sink(&self.sender, move |event| News::Recalled(log, event));
            let follower = self.plan.follow(log, "recall", &self.log_gate, sink)?;
            place.insert(Reader { follower, serial })
        };
        reader.serial = serial;
        reader.follower.command(FollowCommand::From(from, serial));
        reader.follower.command(FollowCommand::ToEnd);
        Ok(())
    }

    fn call(&mut self, request: Request<Carried>) {
        let (order, call, pages) = match request {
            Request::Produce(pages) => {
                let count = pages.len();
                let cargo = Pages { outputs: Arc::clone(&self.plan.outputs), pages };
                (Order::Produce(Box::new(cargo)), Call::Produce, count)
            }
            Request::SendOffsets(offsets) => {
                let mark = |(partition, offset)| Mark { partition, offset, metadata: String::new() };
                let Some(member) = &self.member else { return };
                let marks = offsets.into_iter().map(mark).collect();
                (Order::SendOffsets(marks, member.membership()), Call::SendOffsets, 0)
            }
            Request::Plain(call) => (Order::Plain(call), call, 0),
        };
        self.report.calls(call, pages);
        self.transactor.order(order);
    }

    // ---- housekeeping

    fn send_entries(&mut self) {
        let now = self.clock.now();
        if self.entries_since.is_some_and(|since| now.saturating_sub(since) >= LINGER) {
            self.entries.send();
            self.entries_since = None;
        }
    }

    fn look_around(&mut self) -> Result<(), Fatal> {
        let now = self.clock.now();
        if now.saturating_sub(self.looked) < LOOK {
            return Ok(());
        }
        self.looked = now;
        if self.pool.give_up_overdue(TEXT_LIMIT).map_err(failure)? {
            let why = anyhow::anyhow!("too many pages took longer than {TEXT_LIMIT:?} of text work: begin anew");
            return Err(Reason::Failure.because(why));
        }
        let status = self.worker.status();
        self.report.look(&status);
        let mut by_topic: BTreeMap<String, u64> = BTreeMap::new();
        for partition in self.lanes.keys() {
            *by_topic.entry(partition.topic.to_string()).or_default() += 1;
        }
        self.report.metrics().assigned_partitions(&by_topic);
        if now.saturating_sub(self.asked_lags) >= LAGS {
            self.asked_lags = now;
            self.ask_lags();
        }
        Ok(())
    }

    fn ask_lags(&self) {
        let positions: Vec<(PartitionId, i64)> =
            self.lanes.iter().map(|(partition, lane)| (partition.clone(), lane.next)).collect();
        let (offsets, metrics) = (Arc::clone(&self.offsets), self.report.metrics().clone());
        self.lag_errands.run(move || {
            let mut lags = BTreeMap::new();
            for (partition, next) in &positions {
                // A partition that does not answer now is asked again next time.
                if let Ok((_, end)) = offsets.range(partition) {
                    lags.insert(partition.clone(), u64::try_from(end - next).unwrap_or(0));
                }
            }
            metrics.consumer_lags(&lags);
            Ok(())
        });
    }

    fn close(&mut self) {
        self.entries.send();
        self.entries.flush(Duration::from_secs(2));
        // Closing can block: the process does not wait for it longer than this.
        let patience = self.clock.now() + Duration::from_secs(5);
        while self.member.as_ref().is_some_and(|member| !member.is_over()) && self.clock.now() < patience {
            drop(self.news.recv_timeout(TICK));
        }
    }
}

fn sink<T>(
    sender: &Sender<News>,
    wrap: impl Fn(T) -> News + Send + Sync + 'static,
) -> impl Fn(T) + Send + Sync + 'static {
    let sender = sender.clone();
    // A seat that has ended hears nothing any more.
    move |value| drop(sender.send(wrap(value)))
}

fn start_of(configured: ConfiguredStart) -> Start {
    match configured {
        ConfiguredStart::Earliest => Start::Earliest,
        ConfiguredStart::Latest => Start::Latest,
        ConfiguredStart::At(time) => Start::At(time),
        ConfiguredStart::Ago(span) => {
            let since = wall_clock().saturating_sub(span);
            Start::At(Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
        }
    }
}

fn names(partitions: &BTreeSet<PartitionId>) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
