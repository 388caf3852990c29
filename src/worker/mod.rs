//! The worker driver: the thread that owns a [`Worker`] and connects it to the cluster.
//!
//! All events arrive through one channel, in order. Each seek has a serial number, and the driver drops events with an
//! older one, so a record that was read before a seek never reaches the machine after it.

mod input;
mod input_offsets;
mod output;
mod report;
mod tracer;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use dupgate_core::worker::{Backlog, Effect, Event, Failure, Worker, WorkerSettings};

use self::input::{InputState, MissingTopics};
use self::input_offsets::{RemainingInput, SettledOffsets};
use self::verdicts::Reader;
use crate::clock::Clock;
use crate::context::ServiceContext;
use crate::error::{Fatal, Reason, fatal};
use crate::fatal::{ended, failure};
use crate::kafka::admin::LogNames;
use crate::kafka::budget::ByteBudget;
use crate::kafka::fingerprint_log::{Appended, RequestLog};
use crate::kafka::group_consumer::{Command, ConsumerEvent, UnassignedPartitions};
use crate::kafka::offsets::Offsets;
use crate::kafka::output::PagePayload;
use crate::kafka::producer::{Answer, ProducerCommand, TransactionalProducer};
use crate::kafka::verdict_log::FollowEvent;
use crate::processing::text_pool::{CHECK_INTERVAL, Done, RecordProcessor, TextPool};
use crate::protocol::{LogPartition, VerdictOffset};
use crate::record::PartitionId;
use crate::threads::{
    BackgroundTasks, Driver, GroupMember, QUERY_TIMEOUT, TICK_INTERVAL, Work, drive, sink, wait_until_left,
};
use crate::transaction::{Call, CallError};
use crate::worker::report::WorkerReport;

/// How long requests are batched before they are sent.
const LINGER: Duration = Duration::from_millis(3);

/// Time limit of the text work on one page.
const TEXT_LIMIT: Duration = Duration::from_secs(20);

/// Interval between lag queries.
const LAG_INTERVAL: Duration = Duration::from_secs(1);

/// How often the group is checked for unassigned partitions, and the input for missing topics and output topics that
/// have grown.
const GROUP_INTERVAL: Duration = Duration::from_secs(10);

/// In a larger group than this, its members check it in turns: an answer names all members and partitions, so it would
/// cost brokers the square of their number if each one asked.
const ASKING_MEMBERS: usize = 16;

/// How often the group and the input are checked while an input topic is missing.
const MISSING_TOPIC_INTERVAL: Duration = Duration::from_secs(3);

/// Maximum number of messages in one turn, so that a busy driver still sends requests and does its housekeeping.
const MAX_MESSAGES: usize = 513;

pub(crate) enum Message {
    /// An event of the input, with the number of the membership.
    GroupConsumer(u64, ConsumerEvent),
    Read(Done),
    Followed(LogPartition, FollowEvent),
    Scanned(LogPartition, FollowEvent),
    Appended(Appended),
    Called(Answer),
    /// The outcome of the check that must succeed before the offsets of the transaction are sent.
    CommitChecked(Result<(), CallError>),
    Checkpoint(LogPartition, Option<VerdictOffset>),
    NewToGroup(BTreeSet<PartitionId>),
    Committed(BTreeMap<PartitionId, Option<i64>>),
    Backlog(BTreeMap<PartitionId, Backlog>),
    /// The partitions of the input (`None` if they were not asked for, or the query failed), and those of each member
    /// (`None` unless the group is stable).
    Group(Option<BTreeSet<PartitionId>>, Option<Vec<BTreeSet<PartitionId>>>),
    Hold(bool),
    Stop,
}

/// Stops a worker, which first delivers what it can, or pauses its input.
#[derive(Clone)]
pub struct WorkerHandle(Sender<Message>);

impl WorkerHandle {
    /// Asks for a clean stop.
    pub fn stop(&self) {
        // An ended thread has already stopped.
        let _ = self.0.send(Message::Stop);
    }

    /// Pauses or resumes the input.
    pub(crate) fn hold(&self, is_held: bool) {
        // An ended thread reads nothing.
        let _ = self.0.send(Message::Hold(is_held));
    }
}

/// The worker's thread.
pub struct WorkerDriver {
    context: Arc<ServiceContext>,
    clock: Clock,
    worker: Worker<PagePayload>,
    messages: Receiver<Message>,
    sender: Sender<Message>,
    member: GroupMember,
    inputs: BTreeMap<PartitionId, InputState>,
    settled: SettledOffsets,
    serials: u64,
    readers: Vec<Reader>,
    /// Empty before the first scan.
    scan_readers: Vec<Reader>,
    /// Logs whose judges' checkpoints are to be fetched.
    wanted_checkpoints: Vec<LogPartition>,
    requests: RequestLog,
    /// To the earlier scheme.
    earlier_requests: Option<RequestLog>,
    requests_since: Option<Duration>,
    producer: TransactionalProducer,
    background_tasks: BackgroundTasks,
    lag_tasks: BackgroundTasks,
    offsets: Arc<Offsets>,
    backlogs: Arc<RemainingInput>,
    pool: TextPool,
    budget: Arc<ByteBudget>,
    log_budget: Arc<ByteBudget>,
    /// When the group revoked partitions, while it waits until the machine has released them.
    revoked_at: Option<Duration>,
    revoked: BTreeSet<PartitionId>,
    report: WorkerReport,
    last_check: Duration,
    lags_requested_at: Duration,
    is_lag_query_pending: Arc<AtomicBool>,
    group_requested_at: Duration,
    /// The pending call of the producer.
    calling: Option<Call>,
    /// The offsets that the current transaction commits.
    sent_offsets: BTreeMap<PartitionId, i64>,
    /// The command that sends these offsets, while the group's committed offsets are checked.
    unchecked: Option<ProducerCommand>,
    commit_checks: BackgroundTasks,
    is_group_query_pending: bool,
    /// Members of the group according to the latest answer, and how often it was time to ask.
    members: usize,
    group_rounds: usize,
    unassigned: UnassignedPartitions,
    missing_topics: MissingTopics,
    /// Whether an operator has paused the input.
    held: bool,
    /// Partitions that the machine has paused.
    paused: BTreeSet<PartitionId>,
    /// The error that [`WorkerDriver::run`] returns if the worker stops because of a bad record.
    leaving_because: Option<Fatal>,
    stopped: bool,
}

impl WorkerDriver {
    /// Creates all clients of the worker. Nothing is read before [`WorkerDriver::run`].
    ///
    /// # Errors
    ///
    /// A client or a thread cannot be created.
    pub(crate) fn new(
        context: Arc<ServiceContext>,
        processor: RecordProcessor,
        settings: WorkerSettings,
    ) -> Result<Self, Fatal> {
        let (sender, messages) = unbounded();
        let clock = context.clock;
        let budget = ByteBudget::new(context.settings.processing.max_in_flight_bytes / 4 + (1 << 20));
        let log_budget = ByteBudget::new(64 << 20);
        let group = &context.settings.input.group;
        let outputs = Arc::clone(&processor.outputs);

        let followed = |log| sink(&sender, move |event| Message::Followed(log, event));
        let readers = Reader::of(context.follow_all("follow", &log_budget, followed)?);
        let request_log = |names: &LogNames, logs| {
            RequestLog::open(
                &context.connection.request_producer(),
                names.fingerprints.to_string(),
                logs,
                Arc::clone(&context.in_flight),
                sink(&sender, Message::Appended),
            )
            .map_err(failure)
        };
        let requests = request_log(&context.names, settings.logs)?;
        let earlier = context.earlier.as_ref().map(|earlier| request_log(&earlier.names, settings.earlier_logs));
        let earlier_requests = earlier.transpose()?;
        let answered = sender.clone();
        let producer = TransactionalProducer::start(
            context.worker_producer(),
            context.settings.output.delivery,
            "transactions".to_owned(),
            Arc::clone(&context.in_flight),
            move |_, answer| drop(answered.send(Message::Called(answer))),
        )
        .map_err(failure)?;
        let offsets = Arc::new(Offsets::new(&context.connection.query(group), QUERY_TIMEOUT).map_err(failure)?);
        let backlogs = Arc::new(RemainingInput {
            offsets: Arc::clone(&offsets),
            client: context.connection.query(group),
            topics: context.input_topics(),
            fingerprinter: processor.fingerprinter.clone(),
            event_time: (context.settings.record.event_time, context.settings.rules.max_future_skew),
        });
        let pool =
            TextPool::start(context.text_threads(), processor, clock, sink(&sender, Message::Read)).map_err(failure)?;
        Ok(Self {
            worker: Worker::new(settings),
            messages,
            member: GroupMember::default(),
            inputs: BTreeMap::new(),
            settled: SettledOffsets::default(),
            serials: 0,
            readers,
            scan_readers: Vec::new(),
            wanted_checkpoints: Vec::new(),
            requests,
            earlier_requests,
            requests_since: None,
            producer,
            background_tasks: BackgroundTasks::start("worker-tasks".to_owned()).map_err(failure)?,
            lag_tasks: BackgroundTasks::start("lags".to_owned()).map_err(failure)?,
            offsets,
            backlogs,
            pool,
            budget,
            log_budget,
            revoked_at: None,
            revoked: BTreeSet::new(),
            report: WorkerReport::new(&context, clock, outputs)?,
            last_check: clock.now(),
            lags_requested_at: clock.now(),
            is_lag_query_pending: Arc::default(),
            group_requested_at: clock.now(),
            calling: None,
            sent_offsets: BTreeMap::new(),
            unchecked: None,
            commit_checks: BackgroundTasks::start("commit-checks".to_owned()).map_err(failure)?,
            is_group_query_pending: false,
            members: 0,
            group_rounds: 0,
            unassigned: UnassignedPartitions::default(),
            missing_topics: MissingTopics::default(),
            held: false,
            paused: BTreeSet::new(),
            leaving_because: None,
            stopped: false,
            sender,
            clock,
            context,
        })
    }

    #[must_use]
    pub fn new_handle(&self) -> WorkerHandle {
        WorkerHandle(self.sender.clone())
    }

    /// Runs until the worker has stopped.
    ///
    /// # Errors
    ///
    /// Why the worker cannot continue.
    pub fn run(mut self) -> Result<(), Fatal> {
        let (messages, clock) = (self.messages.clone(), self.clock);
        drive(&mut self, &messages, clock)?;
        self.close();
        self.leaving_because.take().map_or(Ok(()), Err)
    }

    fn handle(&mut self, event: Event<PagePayload>) -> Result<(), Fatal> {
        self.worker.handle(self.clock.now(), event);
        self.perform_all()
    }

    fn on_message(&mut self, message: Message) -> Result<(), Fatal> {
        match message {
            Message::GroupConsumer(membership, event) if self.member.is_current(membership) => self.member_event(event),
            Message::GroupConsumer(..) => Ok(()),
            Message::Read(done) => self.read(done),
            Message::Followed(log, event) => self.followed(log, event),
            Message::Scanned(log, event) => self.scanned(log, event),
            Message::Appended(appended) => self.appended(appended),
            Message::Called(answer) => self.called(answer),
            Message::CommitChecked(answer) => self.commit_checked(answer),
            Message::Checkpoint(log, offset) => self.handle(Event::Checkpoint(log, offset)),
            Message::NewToGroup(partitions) => self.handle(Event::NewToGroup(partitions)),
            Message::Committed(offsets) => self.committed(offsets),
            Message::Backlog(backlogs) => self.handle(Event::Backlog(backlogs)),
            Message::Group(all, shares) => {
                self.group(all.as_ref(), shares.as_deref());
                Ok(())
            }
            Message::Hold(is_held) => {
                self.hold(is_held);
                Ok(())
            }
            Message::Stop => {
                tracing::info!(target: "dupgate::worker", "worker stopping");
                self.handle(Event::Stop)
            }
        }
    }

    fn perform(&mut self, effect: Effect<PagePayload>) -> Result<(), Fatal> {
        match effect {
            Effect::FetchCheckpoint(log) => self.wanted_checkpoints.push(log),
            Effect::Follow { log, from } => self.follow(log, from),
            Effect::FollowToEnd(log) => self.follow_to_end(log),
            Effect::Join => self.join()?,
            Effect::Leave => self.member.command(Command::Leave),
            Effect::FetchCommitted(partitions) => self.fetch_committed(partitions),
            Effect::FetchBacklog(heads) => self.fetch_backlog(heads),
            Effect::FetchNewToGroup => self.fetch_new_to_group(),
            Effect::Seek { partition, from } => self.seek(partition, from),
            Effect::Pause(partitions) => self.pause(partitions),
            Effect::Resume(partitions) => self.resume(partitions),
            Effect::Append(log, request) => self.append(log, request),
            Effect::ScanVerdicts { log, from } => self.scan(log, from)?,
            Effect::EndScan(log) => self.end_scan(log),
            Effect::Call(request) => self.call(request),
            Effect::Delivered(outputs) => self.report.delivered(&outputs),
            Effect::RevokeDone => self.revoke_done(),
            Effect::Stopped => self.stopped = true,
            Effect::Fail(why) => {
                let reason = if matches!(why, Failure::Fenced(_)) { Reason::Config } else { Reason::Failure };
                return Err(ended(reason, why, &self.context.settings.input.group));
            }
        }
        Ok(())
    }

    fn housekeeping(&mut self) -> Result<(), Fatal> {
        let now = self.clock.now();
        if now.saturating_sub(self.last_check) < CHECK_INTERVAL {
            return Ok(());
        }
        self.last_check = now;
        self.request_logs().for_each(RequestLog::replace_if_lost);
        if self.pool.give_up_overdue(now, TEXT_LIMIT).map_err(failure)? {
            return Err(fatal!(Failure, "too many pages exceeded {TEXT_LIMIT:?} of text work: restart the process"));
        }
        self.report.look(&self.worker, self.pool.waiting());
        self.report.metrics().producer_queue(self.context.in_flight.records(), self.context.in_flight.bytes());
        let mut by_topic: BTreeMap<String, u64> = BTreeMap::new();
        for partition in self.inputs.keys() {
            *by_topic.entry(partition.topic.to_string()).or_default() += 1;
        }
        self.report.metrics().assigned_partitions(&by_topic);
        if now.saturating_sub(self.lags_requested_at) >= LAG_INTERVAL {
            self.lags_requested_at = now;
            self.ask_lags();
        }
        let interval = if self.missing_topics.is_any() { MISSING_TOPIC_INTERVAL } else { GROUP_INTERVAL };
        if now.saturating_sub(self.group_requested_at) >= interval {
            self.group_requested_at = now;
            self.ask_group();
        }
        Ok(())
    }

    fn close(&mut self) {
        self.request_logs().for_each(RequestLog::send);
        self.request_logs().for_each(|requests| requests.flush(Duration::from_secs(2)));
        // Closing can block: limit the wait.
        let timeout = self.clock.now() + Duration::from_secs(5);
        wait_until_left(self.member.consumer(), &self.messages, self.clock, timeout);
    }
}

impl Driver for WorkerDriver {
    type Message = Message;

    fn is_stopped(&self) -> bool {
        self.stopped
    }

    fn wait(&self) -> Duration {
        if self.requests_since.is_some() { LINGER } else { TICK_INTERVAL }
    }

    fn has_taken_enough(&self, taken: usize, _: Duration) -> bool {
        taken >= MAX_MESSAGES
    }

    fn perform_all(&mut self) -> Result<(), Fatal> {
        while let Some(effect) = self.worker.poll() {
            self.perform(effect)?;
        }
        self.fetch_checkpoints();
        Ok(())
    }

    fn take(&mut self, message: Message) -> Result<(), Fatal> {
        self.on_message(message)
    }

    fn tick(&mut self) -> Result<(), Fatal> {
        self.handle(Event::Tick)
    }

    fn work(&mut self) -> Result<Work, Fatal> {
        self.send_requests();
        self.housekeeping()?;
        Ok(Work::Done)
    }
}
