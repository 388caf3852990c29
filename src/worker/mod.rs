//! The worker driver: the thread that owns a [`Worker`] and connects it to the cluster.
//!
//! All events arrive through one channel, in order. Each seek has a serial number, and the driver drops events with an
//! older one, so a record that was read before a seek never reaches the machine after it.

mod commit_check;
mod effects;
mod inbox;
mod remaining_input;
mod reorder_buffer;
mod report;
mod settled_offsets;
mod tracer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use dupgate_core::worker::{Backlog, Event, Page, Worker, WorkerSettings};

use self::inbox::MissingTopics;
use self::settled_offsets::{SettledOffsets, lags, unsettled};
use crate::error::{Fatal, Reason};
use crate::kafka::budget::{ByteBudget, Permit};
use crate::kafka::fingerprint_log::{Appended, RequestLog};
use crate::kafka::group_consumer::{ConsumerEvent, Start};
use crate::kafka::offsets::Offsets;
use crate::kafka::output::{Outputs, PagePayload};
use crate::kafka::producer::{Answer, ProducerCommand, TransactionalProducer};
use crate::kafka::unassigned::UnassignedPartitions;
use crate::kafka::verdict_log::{FollowEvent, Follower};
use crate::processing::record_processor::RecordProcessor;
use crate::processing::text_pool::{CHECK_INTERVAL, Done, TextPool};
use crate::protocol::{LogPartition, VerdictOffset};
use crate::record::PartitionId;
use crate::runtime::clock::Clock;
use crate::runtime::context::ServiceContext;
use crate::runtime::driver::{Driver, GroupMember, QUERY_TIMEOUT, TICK_INTERVAL, drive, sink, wait_until_left};
use crate::runtime::fatal::failure;
use crate::runtime::threads::BackgroundTasks;
use crate::runtime::time_slice::Work;
use crate::telemetry::labels::Log;
use crate::transaction::{Call, CallError};
use crate::worker::remaining_input::RemainingInput;
use crate::worker::reorder_buffer::ReorderBuffer;
use crate::worker::report::WorkerReport;

/// How long requests are batched before they are sent.
const LINGER: Duration = Duration::from_millis(3);

/// Time limit of the text work on one page.
const TEXT_LIMIT: Duration = Duration::from_secs(20);

/// Interval between lag queries.
const LAG_INTERVAL: Duration = Duration::from_secs(1);

/// How often the group is checked for unassigned partitions, and the input for missing topics.
const GROUP_INTERVAL: Duration = Duration::from_secs(10);

/// How often the group and the input are checked while an input topic is missing.
const MISSING_TOPIC_INTERVAL: Duration = Duration::from_secs(3);

/// Maximum number of messages in one turn, so that a busy driver still sends requests and does its housekeeping.
const MAX_MESSAGES: usize = 513;

/// Messages of the driver.
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
    /// The partitions of the input (`None` if the query failed), and those of each member (`None` unless the group is
    /// stable).
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

/// One partition of the input, as the driver sees it.
#[derive(Default)]
struct InputState {
    serial: u64,
    order: ReorderBuffer<Ready>,
}

enum Ready {
    Page(Box<Page<PagePayload>>, Permit),
    End,
    OutOfRange { offset: i64, first: i64, end: i64 },
    Denied,
}

/// A reader of one verdict log, and the serial number of its current command.
struct Reader {
    follower: Follower,
    serial: u64,
    /// Next offset to follow, `None` before the first record. Only the lag needs it.
    next: Option<VerdictOffset>,
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
    scan_readers: Vec<Option<Reader>>,
    requests: RequestLog,
    requests_since: Option<Duration>,
    producer: TransactionalProducer,
    background_tasks: BackgroundTasks,
    lag_tasks: BackgroundTasks,
    offsets: Arc<Offsets>,
    backlogs: Arc<RemainingInput>,
    judge_offsets: Vec<Arc<Offsets>>,
    pool: TextPool,
    budget: Arc<ByteBudget>,
    log_budget: Arc<ByteBudget>,
    /// When the group revoked partitions, while it waits until the machine has released them.
    revoked_at: Option<Duration>,
    revoked: BTreeSet<PartitionId>,
    report: WorkerReport,
    last_check: Duration,
    lags_requested_at: Duration,
    /// Whether a lag query is pending.
    is_lag_query_pending: Arc<AtomicBool>,
    group_requested_at: Duration,
    /// The pending call of the producer.
    calling: Option<Call>,
    /// The offsets that the current transaction commits.
    sent_offsets: BTreeMap<PartitionId, i64>,
    /// The command that sends these offsets, while the group's committed offsets are checked.
    unchecked: Option<ProducerCommand>,
    commit_checks: BackgroundTasks,
    /// Whether a query of the group is pending.
    is_group_query_pending: bool,
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
        let logs = settings.logs;
        let outputs = Arc::clone(&processor.outputs);

        let mut readers = Vec::new();
        let mut judge_offsets = Vec::new();
        for log in LogPartition::first(logs) {
            let follower = context.follow(
                log,
                "follow",
                &log_budget,
                sink(&sender, move |event| Message::Followed(log, event)),
            )?;
            readers.push(Reader { follower, serial: 0, next: None });
            let judges = context.connection.query(&context.judge_group(log));
            judge_offsets.push(Arc::new(Offsets::new(&judges, QUERY_TIMEOUT).map_err(failure)?));
        }
        let requests = RequestLog::open(
            &context.connection.request_producer(),
            context.names.fingerprints.to_string(),
            logs,
            Arc::clone(&context.in_flight),
            sink(&sender, Message::Appended),
        )
        .map_err(failure)?;
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
            scan_readers: (0..logs).map(|_| None).collect(),
            requests,
            requests_since: None,
            producer,
            background_tasks: BackgroundTasks::start("worker-tasks".to_owned()).map_err(failure)?,
            lag_tasks: BackgroundTasks::start("lags".to_owned()).map_err(failure)?,
            offsets,
            backlogs,
            judge_offsets,
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

    /// Returns the handle of the worker.
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

    // ---- housekeeping

    fn send_requests(&mut self) {
        let now = self.clock.now();
        if self.requests_since.is_some_and(|since| now.saturating_sub(since) >= LINGER) {
            self.requests.send();
            self.requests_since = None;
        }
    }

    fn housekeeping(&mut self) -> Result<(), Fatal> {
        let now = self.clock.now();
        if now.saturating_sub(self.last_check) < CHECK_INTERVAL {
            return Ok(());
        }
        self.last_check = now;
        self.requests.replace_if_lost();
        if self.pool.give_up_overdue(now, TEXT_LIMIT).map_err(failure)? {
            let why = anyhow::anyhow!("too many pages exceeded {TEXT_LIMIT:?} of text work: restart the process");
            return Err(Reason::Failure.because(why));
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

    fn ask_lags(&self) {
        // Skip if a query is pending: unanswered queries must not pile up.
        if self.is_lag_query_pending.swap(true, Ordering::AcqRel) {
            return;
        }
        // A blocked partition may not be among the inputs. Its lag counts from the committed offset, whatever was read.
        let blocked: BTreeSet<PartitionId> = self.worker.blocked().into_keys().collect();
        let mut positions = self.settled.of(self.inputs.keys().filter(|input| !blocked.contains(input)));
        positions.extend(blocked.iter().map(|input| (input.clone(), self.settled.committed_offset(input))));
        let asks = Arc::clone(&self.is_lag_query_pending);
        let verdicts = LogPartition::first(self.readers.len()).zip(&self.readers);
        let verdicts: Vec<(PartitionId, VerdictOffset)> =
            verdicts.filter_map(|(log, reader)| Some((self.context.verdicts(log), reader.next?))).collect();
        let (offsets, metrics) = (Arc::clone(&self.offsets), self.report.metrics().clone());
        self.lag_tasks.run(move || {
            let wanted = positions.iter().map(|(partition, _)| partition).chain(verdicts.iter().map(|(log, _)| log));
            // After an error, the next query is due in a second.
            if let Ok(ends) = offsets.ends(&wanted.cloned().collect()) {
                let starts = offsets.starts(&unsettled(&positions, &ends, &blocked), Start::Earliest);
                let lags = lags(&positions, &ends, &starts.unwrap_or_default());
                metrics.consumer_lags(&lags);
                metrics.blocked_lag(blocked.iter().filter_map(|partition| lags.get(partition)).sum());
                let unread = verdicts.iter().filter_map(|(partition, next)| {
                    // The offset after the last record holds the marker that ends its transaction, which is never
                    // handed over.
                    Some(VerdictOffset(*ends.get(partition)?).since(next.next()))
                });
                metrics.log_lag(Log::Verdicts, unread.sum());
            }
            asks.store(false, Ordering::Release);
            Ok(())
        });
    }

    fn ask_group(&mut self) {
        if self.member.consumer().is_none() || std::mem::replace(&mut self.is_group_query_pending, true) {
            return;
        }
        let (sender, offsets, topics) = (self.sender.clone(), Arc::clone(&self.offsets), self.context.input_topics());
        let outputs = Arc::clone(&self.context.outputs);
        self.lag_tasks.run(move || {
            learn_output_partitions(&outputs, &offsets);
            let failed = |error: &dyn std::fmt::Display| {
                tracing::debug!(
                    target: "dupgate::worker",
                    %error, "failed to describe the group; retrying at the next check"
                );
            };
            let all = offsets.partitions(&topics).inspect_err(|error| failed(error)).ok();
            // If the query fails, the shares are unknown, as they are during a rebalance.
            let shares = all.as_ref().and_then(|_| offsets.shares().inspect_err(|error| failed(error)).ok().flatten());
            drop(sender.send(Message::Group(all, shares)));
            Ok(())
        });
    }

    fn close(&mut self) {
        self.requests.send();
        self.requests.flush(Duration::from_secs(2));
        // Closing can block: limit the wait.
        let timeout = self.clock.now() + Duration::from_secs(5);
        wait_until_left(self.member.consumer(), &self.messages, self.clock, timeout);
    }
}

/// Asks how many partitions the output topics have. Without an answer, they keep their numbers until the next time.
fn learn_output_partitions(outputs: &Outputs, offsets: &Offsets) {
    for topic in outputs.topics.values() {
        let Ok(partitions) = offsets.partitions(std::slice::from_ref(&topic.name)) else { return };
        if !partitions.is_empty() {
            outputs.partition_counts.learn(Arc::from(topic.name.as_str()), partitions.len());
        }
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
