//! The judge driver: the thread that owns a [`Judge`] and connects it to the cluster.
//!
//! An instance has one driver for each log partition that it serves. The judges of one log partition, on all instances,
//! form a consumer group of their own, which subscribes to the whole fingerprint log. The member that is assigned that
//! partition is the active judge; the assignment of the other partitions has no meaning in this group.

pub(crate) mod report;
pub(crate) mod requests;
pub(crate) mod snapshot_store;

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use dupgate_core::judge::{Effect, Event, InputOffsets, Judge, JudgeSettings, ProducerCall, SharedSnapshot};

use self::report::JudgeReport;
use self::snapshot_store::{SnapshotStore, load_alive, save_newest};
use crate::clock::{Clock, random_id};
use crate::config::settings::Settings;
use crate::context::{REVOKE_GRACE, ServiceContext, heartbeat};
use crate::error::{Fatal, Reason};
use crate::fatal::{denied_call, ended, failure};
use crate::fingerprint::SketchForm;
use crate::judge::requests::{Fetched, FetchedRequests, RequestQueue, STEP_REQUESTS, TIME_SLICE, run_time_slice};
use crate::kafka::admin::Admin;
use crate::kafka::budget::{ByteBudget, Permit};
use crate::kafka::client::{FOLLOWER_QUEUE_BYTES, JUDGE_QUEUE_BYTES, ProducerSettings};
use crate::kafka::errors::{Denied, denied_in};
use crate::kafka::fingerprint_log::MAX_REQUESTS;
use crate::kafka::group_consumer::{
    Command, ConsumedRecord, ConsumerEvent, GroupConsumer, GroupConsumerSettings, Start,
};
use crate::kafka::offsets::Offsets;
use crate::kafka::producer::{Answer, EncodedBatch, OffsetAndMetadata, ProducerCommand, TransactionalProducer};
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, Follower};
use crate::protocol::{
    BARRIER, DualPeriod, LogIdentity, LogPartition, RequestOffset, Rules, VerdictOffset, decode_requests,
    encode_verdict, max_verdict_bytes,
};
use crate::telemetry::labels::{Component, ErrorKind};
use crate::threads::{BackgroundTasks, Driver, GroupMember, QUERY_TIMEOUT, Work, drive, sink, wait_until_left};
use crate::transaction::{CallError, Delivery};

/// Interval of updates of metrics and health.
pub(crate) const HOUSEKEEPING_INTERVAL: Duration = Duration::from_millis(250);

/// How long a stopping judge waits until it has left the group and written its last snapshot.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(4);

/// Time-out of a query to the judge.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum number of verdicts in one record of the verdict log.
const BATCH_VERDICTS: usize = 2_000;

/// Bytes of verdicts that are read and not yet followed.
const FOLLOWED_BYTES: usize = 64 << 20;

/// Bytes of requests that are read and not yet judged.
const REQUEST_BYTES: usize = 32 << 20;

/// Maximum bytes in the buffers of a judge.
pub(crate) const JUDGE_BUFFERS: usize = FOLLOWED_BYTES + REQUEST_BYTES + FOLLOWER_QUEUE_BYTES + JUDGE_QUEUE_BYTES;

/// A judge's thread.
pub struct JudgeDriver {
    context: Arc<ServiceContext>,
    log: LogPartition,
    clock: Clock,
    judge: Judge,
    messages: Receiver<Message>,
    sender: Sender<Message>,
    follower: Follower,
    member: GroupMember,
    leaving: Option<GroupConsumer>,
    /// Serial number of the current command to the follower; 0 if the verdict log is not followed.
    following: u64,
    /// Serial number of the current seek in the fingerprint log; 0 if no requests are read.
    reading: u64,
    serials: u64,
    requests: RequestQueue,
    producer: TransactionalProducer,
    background_tasks: BackgroundTasks,
    input: Arc<Offsets>,
    snapshot_store: Option<Arc<dyn SnapshotStore>>,
    snapshot_tasks: BackgroundTasks,
    /// The snapshot that is written next. It pins originals that expire meanwhile, so only the newest waits.
    next_snapshot: Arc<Mutex<Option<SharedSnapshot>>>,
    /// Runs the maintenance tasks of the index.
    maintenance: BackgroundTasks,
    budget: Arc<ByteBudget>,
    report: JudgeReport,
    last_check: Duration,
    stopped: bool,
}

impl JudgeDriver {
    /// Creates all clients of the judge. Nothing is read before [`JudgeDriver::run`].
    ///
    /// # Errors
    ///
    /// A client or a thread cannot be created.
    pub(crate) fn new(
        context: Arc<ServiceContext>,
        log: LogPartition,
        settings: JudgeSettings,
        snapshot_store: Option<Arc<dyn SnapshotStore>>,
    ) -> Result<Self, Fatal> {
        let (sender, messages) = unbounded();
        let (clock, session) = (context.clock, context.settings.judge.session_timeout);
        let shown = context.shown(log);
        let log_budget = ByteBudget::new(FOLLOWED_BYTES);
        let follower = context.follow(log, "standby", &log_budget, sink(&sender, Message::Followed))?;
        let config = context.judge_producer(log);
        let answered = sender.clone();
        let producer = TransactionalProducer::start(
            config,
            Delivery::ExactlyOnce,
            format!("verdicts-{shown}"),
            Arc::clone(&context.in_flight),
            move |_, answer| {
                drop(answered.send(Message::Called(answer)));
            },
        )
        .map_err(failure)?;
        let query = context.connection.query(&context.settings.input.group);
        Ok(Self {
            judge: Judge::new(settings),
            messages,
            follower,
            member: GroupMember::default(),
            leaving: None,
            following: 0,
            reading: 0,
            serials: 0,
            requests: RequestQueue::default(),
            producer,
            background_tasks: BackgroundTasks::start(format!("judge-tasks-{shown}")).map_err(failure)?,
            input: Arc::new(Offsets::new(&query, QUERY_TIMEOUT).map_err(failure)?),
            snapshot_store,
            snapshot_tasks: BackgroundTasks::start(format!("snapshots-{shown}")).map_err(failure)?,
            next_snapshot: Arc::default(),
            maintenance: BackgroundTasks::start(format!("maintenance-{shown}")).map_err(failure)?,
            budget: ByteBudget::new(REQUEST_BYTES),
            report: JudgeReport::new(context.metrics.clone(), &context.health, clock, shown, session),
            last_check: clock.now(),
            stopped: false,
            log,
            clock,
            sender,
            context,
        })
    }

    #[must_use]
    pub fn new_handle(&self) -> JudgeHandle {
        JudgeHandle::new(self.sender.clone())
    }

    /// Runs until the judge has stopped.
    ///
    /// # Errors
    ///
    /// Why the judge cannot continue.
    pub fn run(mut self) -> Result<(), Fatal> {
        let (messages, clock) = (self.messages.clone(), self.clock);
        drive(&mut self, &messages, clock)?;
        self.close();
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), Fatal> {
        self.judge.handle(self.clock.now(), event);
        self.perform_all()
    }

    /// Builds the error for a missing permission. It ends the process, since neither an abort nor another judge with
    /// the same principal would help.
    fn denied(&self, denied: Denied, why: &str) -> Fatal {
        let ours = self.context.verdicts(self.log);
        let denied = match denied.resource {
            "topic" => Denied { name: ours.topic.to_string(), ..denied.to("Write") },
            _ => denied,
        };
        denied_call(denied, &format!("judge of {ours}: {why}"), &self.context.settings.input.group)
    }

    // ---- messages to events

    fn member_event(&mut self, event: ConsumerEvent) -> Result<(), Fatal> {
        let ours = self.context.fingerprints(self.log);
        match event {
            ConsumerEvent::Record { partition, offset, serial, record, permit } => {
                if partition == ours && serial == self.reading {
                    self.arrived(RequestOffset(offset), &record, permit);
                }
                Ok(())
            }
            ConsumerEvent::Assigned(partitions) if partitions.contains(&ours) => self.handle(Event::Assigned),
            ConsumerEvent::Revoked(partitions) if partitions.contains(&ours) => self.handle(Event::Revoked),
            ConsumerEvent::Revoked(_) => {
                self.member.command(Command::RevokeDone);
                Ok(())
            }
            ConsumerEvent::Lost(partitions) if partitions.contains(&ours) => self.handle(Event::Lost),
            ConsumerEvent::Renewed(membership) => {
                self.member.renew(membership);
                Ok(())
            }
            ConsumerEvent::OutOfRange { partition, serial, first, end, .. } => {
                if partition == ours && serial == self.reading {
                    self.requests.end_with(RequestOffset(first)..RequestOffset(end));
                }
                Ok(())
            }
            ConsumerEvent::Denied { partition, .. } => {
                self.member_event(ConsumerEvent::Failed(format!("the cluster does not let us read {partition}")))
            }
            ConsumerEvent::Reaches(_)
            | ConsumerEvent::Started { .. }
            | ConsumerEvent::AtEnd { .. }
            | ConsumerEvent::Paused
            | ConsumerEvent::Left
            | ConsumerEvent::Assigned(_)
            | ConsumerEvent::Lost(_) => Ok(()),
            ConsumerEvent::Failed(why) | ConsumerEvent::Fenced(why) => {
                self.report.metrics().error(Component::Consumer, ErrorKind::Fatal);
                let what = format!("judge of {ours}: {why}");
                Err(ended(Reason::Failure, what, &self.context.settings.input.group))
            }
        }
    }

    fn arrived(&mut self, offset: RequestOffset, record: &ConsumedRecord, permit: Permit) {
        let requests = decode_requests(record.value.as_deref().unwrap_or_default()).unwrap_or_else(|error| {
            // The worker repeats its requests once the judge has passed this offset without verdicts on them.
            tracing::error!(
                target: "dupgate::judge",
                log = self.log.0, offset = offset.0, %error, "failed to read a record of the fingerprint log"
            );
            self.report.metrics().error(Component::Log, ErrorKind::Corrupt);
            Vec::new()
        });
        let append_time = record.timestamp.unwrap_or_default();
        let fetched = self.clock.now();
        self.requests.push(FetchedRequests { offset, append_time, requests, fetched, _permit: permit });
    }

    /// Judges fetched requests for one time slice.
    fn judge_requests(&mut self) -> Result<Work, Fatal> {
        let clock = self.clock;
        run_time_slice(|| clock.now(), || self.judge_step())
    }

    fn judge_step(&mut self) -> Result<Work, Fatal> {
        let began = self.clock.now();
        let event = if self.judge.is_unfinished() {
            Event::Continue
        } else if self.judge.wants_requests() {
            match self.requests.pop() {
                Some(Fetched::Record(record)) => {
                    self.report.waited(record.requests.len(), record.waited(began));
                    record.into_event()
                }
                Some(Fetched::OutOfRange(range)) => {
                    self.report.requests_lost(self.judge.state().next_request(), &range);
                    Event::RequestsOutOfRange { first: range.start, end: range.end }
                }
                None => return Ok(Work::Done),
            }
        } else {
            return Ok(Work::Done);
        };
        self.judge.handle(began, event);
        self.report.judged(self.judge.probe_stats(), self.clock.now().saturating_sub(began));
        self.report.operators_requested(self.judge.operator_outcomes());
        self.perform_all()?;
        Ok(Work::More)
    }

    fn followed(&mut self, event: FollowEvent) -> Result<(), Fatal> {
        if event.serial != self.following {
            return Ok(());
        }
        match event.kind {
            FollowEventKind::Record { offset, next, record, permit: _permit, .. } => {
                self.report.follows(next);
                self.handle(Event::Followed { offset, next, record })
            }
            FollowEventKind::End(question) => self.handle(Event::FollowedToEnd { question }),
            FollowEventKind::Moved(why) => {
                tracing::warn!(target: "dupgate::judge", log = self.log.0, why, "rereading the verdict log");
                self.handle(Event::LogMoved)
            }
        }
    }

    // ---- effects to calls

    fn perform(&mut self, effect: Effect) -> Result<(), Fatal> {
        match effect {
            Effect::Restore => {
                let report = &self.report;
                let restored = self.snapshot_store.as_deref().and_then(|store| load_alive(store, || report.beat()));
                self.report.restores(restored.as_ref().map_or(0, |restored| restored.state.index().originals()));
                self.judge.handle(self.clock.now(), Event::Restored(restored));
            }
            Effect::Follow { from } => {
                self.serials += 1;
                self.following = self.serials;
                self.follower.command(FollowCommand::From(from, self.serials));
                self.fetch_log_range(from);
            }
            Effect::FollowToEnd { question } => self.follower.command(FollowCommand::ToEnd(question)),
            Effect::FollowToBarrier { question, barrier } => {
                self.follower.command(FollowCommand::ToBarrier(question, barrier));
            }
            Effect::Unfollow => {
                self.following = 0;
                self.follower.command(FollowCommand::Stop);
            }
            Effect::Join => self.join()?,
            Effect::Leave => self.leave(),
            Effect::Call(request) => self.call(request),
            Effect::ReadRequests { from } => {
                self.serials += 1;
                self.reading = self.serials;
                self.requests.clear();
                let ours = self.context.fingerprints(self.log);
                self.member.command(Command::Seek(ours, Start::Offset(from.0), self.serials));
            }
            Effect::StopReading => self.stop_reading(),
            Effect::FetchInputCommitted { question } => self.fetch_input_committed(question),
            Effect::Trim { verdicts, requests } => {
                self.report.trims(self.judge.kept());
                self.trim(verdicts, requests);
            }
            Effect::Snapshot => self.keep_snapshot(),
            Effect::RevokeDone => self.member.command(Command::RevokeDone),
            Effect::Stopped => self.stopped = true,
            Effect::Fail(why) => return Err(ended(Reason::State, why, &self.context.settings.input.group)),
        }
        Ok(())
    }

    fn stop_reading(&mut self) {
        self.reading = 0;
        self.requests.clear();
        self.member.command(Command::Close(self.context.fingerprints(self.log)));
    }

    fn join(&mut self) -> Result<(), Fatal> {
        let session = self.context.settings.judge.session_timeout;
        let settings = GroupConsumerSettings {
            config: self.context.connection.judge_consumer(&self.context.judge_group(self.log), session),
            topics: vec![self.context.names.fingerprints.to_string()],
            thread: format!("judge-poll-{}", self.context.shown(self.log)),
            budget: Arc::clone(&self.budget),
            moved: heartbeat(&self.context, &format!("judge {} poll", self.log)),
        };
        self.member.join(settings, &self.sender, Message::GroupConsumer)
    }

    fn leave(&mut self) {
        self.stop_reading();
        if let Some(consumer) = self.member.leave() {
            self.leaving = Some(consumer);
        }
    }

    fn call(&mut self, request: ProducerCall) {
        let command = match request {
            ProducerCall::Produce(records) => {
                self.produce(records.iter().map(|record| encode_verdict(record, self.context.part_bytes())).collect())
            }
            ProducerCall::ProduceBarrier => self.produce(vec![vec![BARRIER.to_vec()]]),
            ProducerCall::SendOffsets { next_request, checkpoint } => {
                let metadata = checkpoint.map_or_else(String::new, |offset| offset.to_string());
                let position = OffsetAndMetadata {
                    partition: self.context.fingerprints(self.log),
                    offset: next_request.0,
                    metadata,
                };
                ProducerCommand::SendOffsets(vec![position], self.member.membership())
            }
            ProducerCall::Plain(call) => ProducerCommand::Plain(call),
        };
        self.producer.submit(command);
    }

    /// Returns the command that sends records to the verdict log. Each value is one record, as the list of its parts.
    fn produce(&self, values: Vec<Vec<Vec<u8>>>) -> ProducerCommand {
        let verdicts = self.context.verdicts(self.log);
        ProducerCommand::Produce(Box::new(EncodedBatch { topic: verdicts.topic, partition: verdicts.number, values }))
    }

    fn fetch_input_committed(&self, question: u64) {
        let (sender, offsets, topics) = (self.sender.clone(), Arc::clone(&self.input), self.context.input_topics());
        self.background_tasks.run(move || {
            let partitions = offsets.partitions(&topics).map_err(|error| error.to_string())?;
            // The answer may be out of date or lack an offset; both only delay trimming.
            let committed = offsets.last_committed(&partitions).map_err(|error| error.to_string())?;
            let known = committed.into_iter().filter_map(|(partition, known)| Some((partition, known?.offset)));
            let committed = known.collect();
            drop(sender.send(Message::InputCommitted(question, InputOffsets { committed, partitions })));
            Ok(())
        });
    }

    /// Queries the range of the verdict log to follow, so that readiness can show the progress of a restore.
    fn fetch_log_range(&self, from: Option<VerdictOffset>) {
        let (sender, offsets) = (self.sender.clone(), Arc::clone(&self.input));
        let (serial, verdicts) = (self.serials, self.context.verdicts(self.log));
        self.background_tasks.run(move || {
            // Only the progress display needs the range, so a failed query is not repeated.
            if let Ok(kept) = offsets.range(&verdicts) {
                let first = VerdictOffset(kept.start);
                let range = from.map_or(first, |from| from.max(first))..VerdictOffset(kept.end);
                drop(sender.send(Message::LogRange(serial, range)));
            }
            Ok(())
        });
    }

    fn trim(&self, verdicts: VerdictOffset, requests: RequestOffset) {
        let before = [(self.context.verdicts(self.log), verdicts.0), (self.context.fingerprints(self.log), requests.0)];
        let (config, brokers) = (self.context.connection.admin(), self.context.brokers);
        let (metrics, sender, log) = (self.report.metrics().clone(), self.sender.clone(), self.log);
        self.background_tasks.run(move || {
            tracing::info!(
                target: "dupgate::judge",
                log = log.0, verdicts = verdicts.0, requests = requests.0, "trimming both logs"
            );
            match Admin::of(&config, brokers).and_then(|admin| admin.delete_records(&before)) {
                Ok(()) => drop(sender.send(Message::Trimmed)),
                Err(error) => {
                    // The next trim covers these records, too.
                    tracing::warn!(target: "dupgate::judge", log = log.0, %error, "failed to trim the logs");
                    metrics.error(Component::Admin, ErrorKind::Retriable);
                }
            }
            Ok(())
        });
    }

    fn keep_snapshot(&mut self) {
        let Some(snapshot) = self.judge.take_snapshot() else { return };
        let Some(store) = self.snapshot_store.as_ref().map(Arc::clone) else { return };
        save_newest(&self.next_snapshot, snapshot, &self.snapshot_tasks, move |snapshot| store.save(snapshot));
    }

    // ---- housekeeping

    fn housekeeping(&mut self) {
        let now = self.clock.now();
        if now.saturating_sub(self.last_check) >= HOUSEKEEPING_INTERVAL {
            self.last_check = now;
            self.report.look(&self.judge, self.requests.requests());
            self.report.metrics().producer_queue(self.context.in_flight.records(), self.context.in_flight.bytes());
            self.ask_end();
            if let Some(rules) = self.judge.state().rules() {
                self.context.dual.note(self.context.shown(self.log), rules.dual.is_some());
            }
        }
    }

    fn ask_end(&mut self) {
        if !self.report.asks_for_end() {
            return;
        }
        let (sender, offsets, requests) =
            (self.sender.clone(), Arc::clone(&self.input), self.context.fingerprints(self.log));
        self.background_tasks.run(move || {
            let end = offsets.range(&requests).ok().map(|kept| RequestOffset(kept.end));
            drop(sender.send(Message::RequestsEnd(end)));
            Ok(())
        });
    }

    /// Waits, for a limited time, until the member has left the group and the last snapshot is written.
    fn close(&mut self) {
        self.leave();
        let (written, is_written) = bounded(1);
        self.snapshot_tasks.run(move || {
            // The receiver is gone if the wait below has timed out.
            let _ = written.try_send(());
            Ok(())
        });
        let until = self.clock.now() + CLOSE_TIMEOUT;
        // A dynamic member leaves the group when it closes. If the process ended before that, its successor would have
        // to wait for the session timeout.
        if !wait_until_left(self.leaving.as_ref(), &self.messages, self.clock, until) {
            let group = self.context.judge_group(self.log);
            tracing::warn!(
                target: "dupgate::judge",
                log = self.log.0,
                group,
                "failed to leave the group in time: standbys take over only after the session timeout"
            );
        }
        if is_written.recv_timeout(until.saturating_sub(self.clock.now())).is_err() {
            tracing::warn!(
                target: "dupgate::judge",
                log = self.log.0,
                "the last snapshot was not written in time: a restart has to read more of the verdict log"
            );
        }
    }
}

impl Driver for JudgeDriver {
    type Message = Message;

    fn is_stopped(&self) -> bool {
        self.stopped
    }

    fn has_taken_enough(&self, _: usize, began: Duration) -> bool {
        self.clock.now() >= began + TIME_SLICE
    }

    fn perform_all(&mut self) -> Result<(), Fatal> {
        while let Some(effect) = self.judge.poll() {
            self.perform(effect)?;
        }
        self.report.see(&self.judge);
        Ok(())
    }

    fn take(&mut self, message: Message) -> Result<(), Fatal> {
        match message {
            Message::GroupConsumer(membership, event) if self.member.is_current(membership) => self.member_event(event),
            Message::GroupConsumer(..) => Ok(()),
            Message::Followed(event) => self.followed(event),
            Message::Called(answer) => {
                if let Err(error) = &answer {
                    self.report.failed(error);
                    if let CallError::Fatal(why) = error
                        && let Some(denied) = denied_in(why)
                    {
                        return Err(self.denied(denied, why));
                    }
                }
                let answer = answer.map(|offsets| offsets.into_iter().map(VerdictOffset).collect());
                self.handle(Event::Called(answer))
            }
            Message::InputCommitted(question, input) => self.handle(Event::InputCommitted { question, input }),
            Message::LogRange(serial, range) => {
                if serial == self.following {
                    self.report.has_to_follow(range);
                }
                Ok(())
            }
            Message::RequestsEnd(end) => {
                self.report.end_answered(end);
                Ok(())
            }
            Message::Trimmed => {
                self.report.trimmed();
                Ok(())
            }
            Message::Asked(question) => {
                question(&self.judge);
                Ok(())
            }
            Message::SnapshotWanted => {
                self.judge.want_snapshot();
                Ok(())
            }
            Message::Stop => {
                tracing::info!(target: "dupgate::judge", log = self.log.0, "judge: stopping");
                self.handle(Event::Stop)
            }
        }
    }

    fn tick(&mut self) -> Result<(), Fatal> {
        self.handle(Event::Tick)
    }

    fn work(&mut self) -> Result<Work, Fatal> {
        let work = self.judge_requests()?;
        self.judge.maintenance(|task| self.maintenance.run_once(task));
        self.housekeeping();
        Ok(work)
    }
}

/// Stops a judge, or queries it.
#[derive(Clone)]
pub struct JudgeHandle(Sender<Message>);

impl JudgeHandle {
    /// Creates a handle for the receiver of these messages.
    pub(crate) const fn new(messages: Sender<Message>) -> Self {
        Self(messages)
    }

    /// Asks for a clean stop.
    pub fn stop(&self) {
        // An ended thread has already stopped.
        let _ = self.0.send(Message::Stop);
    }

    /// Runs a query on the judge's thread, which judges nothing meanwhile. Returns `None` if the thread has ended or
    /// does not answer in time.
    pub(crate) fn ask<T: Send + 'static>(&self, look: impl FnOnce(&Judge) -> T + Send + 'static) -> Option<T> {
        let (sender, answer) = bounded(1);
        let question: Question = Box::new(move |judge| drop(sender.send(look(judge))));
        self.0.send(Message::Asked(question)).ok()?;
        answer.recv_timeout(ANSWER_TIMEOUT).ok()
    }

    /// Requests a snapshot, taken with the next commit of verdicts.
    pub(crate) fn snapshot(&self) {
        // A thread that has ended has already written its last snapshot.
        let _ = self.0.send(Message::SnapshotWanted);
    }
}

/// A query that runs on the judge's thread, between two events.
pub(crate) type Question = Box<dyn FnOnce(&Judge) + Send>;

pub(crate) enum Message {
    /// An event of the fingerprint log's group, with the number of the membership.
    GroupConsumer(u64, ConsumerEvent),
    Followed(FollowEvent),
    Called(Answer),
    /// The committed offsets of the input, with the number of the question that they answer.
    InputCommitted(u64, InputOffsets),
    /// The range of the verdict log to follow, for the follow command with this serial number.
    LogRange(u64, Range<VerdictOffset>),
    /// The end of the fingerprint log; `None` if the query failed.
    RequestsEnd(Option<RequestOffset>),
    /// The brokers have deleted the beginning of both logs.
    Trimmed,
    Asked(Question),
    SnapshotWanted,
    Stop,
}

/// Returns the settings of a judge whose verdict log accepts batches of this many bytes. A new log gets a new identity.
pub(crate) fn judge_settings(settings: &Settings, verdict_log_bytes: usize) -> JudgeSettings {
    let producer = ProducerSettings::of_judge();
    JudgeSettings {
        rules: Rules { dual: settings.previous.as_ref().map(|_| DualPeriod::Begun), ..settings.rules.clone() },
        new_log: LogIdentity(random_id()),
        // Of a service that runs, `scheme_change` decides whether a new log may begin.
        cold_start: settings.index.cold_start.into(),
        commit_interval: settings.judge.commit_interval,
        checkpoint_interval_records: settings.judge.checkpoint_interval_records,
        keep: settings.logs.retention,
        batch_verdicts: batch_verdicts(
            verdict_log_bytes.min(producer.max_record_bytes),
            settings.rules.minhash.map(|minhash| minhash.form),
        ),
        pending_verdicts: 50_000,
        transaction_timeout: producer.transaction_timeout,
        step_requests: STEP_REQUESTS,
        snapshot_interval: Some(settings.index.snapshot_interval),
        revoke_grace: REVOKE_GRACE,
    }
}

/// Returns the number of verdicts from which on a record of the verdict log ends. It can end only where a record of
/// requests ends, so there is space left for the verdicts on one more such record within `max_bytes`.
fn batch_verdicts(max_bytes: usize, form: Option<SketchForm>) -> usize {
    (max_bytes / max_verdict_bytes(form)).saturating_sub(MAX_REQUESTS).clamp(1, BATCH_VERDICTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::SlotBits;

    #[test]
    fn a_record_of_verdicts_is_within_the_limit_of_the_log() {
        let usual = SketchForm::new(128, SlotBits::B8).unwrap().with_count();
        let large = SketchForm::new(255, SlotBits::B16).unwrap().with_count().with_bottom(255).unwrap();
        for (form, smallest) in [(None, 300_000), (Some(usual), 300_000), (Some(large), 1_000_000)] {
            for limit in [smallest, 1_048_588, 2_000_000, 2_097_152, 100_000_000] {
                let max = batch_verdicts(limit, form) - 1 + MAX_REQUESTS;
                assert!(max * max_verdict_bytes(form) <= limit, "{limit}: {max} verdicts");
            }
        }
        assert_eq!(batch_verdicts(2_000_000, Some(usual)), BATCH_VERDICTS);
    }
}
