//! The loop of a warm-up. It turns verdicts of the running scheme into requests to the new one, in the order of the log:
//! reads the pages by their positions, some thousands at a time, fingerprints them on all cores, asks the judges of the
//! new scheme, and follows what they answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, unbounded};
use dupgate_core::replay::{LogMerge, WarmAsk, WarmStep, WarmUp};
use dupgate_core::worker::PageAction;

use super::draft::{Draft, QUERY_TIMEOUT};
use super::{Filled, Judges, Message, Options, Outcome, Phase, Report, Until};
use crate::clock::Clock;
use crate::config::settings::Settings;
use crate::context::{self, ServiceContext};
use crate::error::{Fatal, Reason, fatal};
use crate::fatal::{self, failure, unavailable};
use crate::kafka::admin::LogNames;
use crate::kafka::budget::{ByteBudget, Permit};
use crate::kafka::client::ClientSettings;
use crate::kafka::fingerprint_log::{Appended, NotAppended, RequestLog};
use crate::kafka::offsets::Offsets;
use crate::kafka::pages::{PositionReader, PositionResult};
use crate::kafka::verdict_log::{FollowCommand, FollowEventKind, FollowSettings, Follower};
use crate::processing::text_pool::{Done, Job, RecordProcessor, TextPool};
use crate::protocol::{
    LogPartition, PageRequest, PageVerdict, Request, RequestBody, RequestId, RequestOffset, Verdict, VerdictOffset,
    VerdictRecord,
};
use crate::record::{EventTime, PartitionId, Source};
use crate::replay::pace::Pace;
use crate::replay::walk::partition;

/// Maximum number of requests in one round.
const ROUND: usize = 2_000;

/// Number of requests without a verdict above which reading pauses.
const MAX_PENDING: usize = 4_000;

/// Bytes of the running scheme's verdicts that are read ahead, for each partition.
const AHEAD: usize = 8 << 20;

/// How long a check waits for an event.
const STEP: Duration = Duration::from_millis(50);

/// Interval between two progress reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Interval of requests for the end of the running scheme's log.
const END_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of checks of the running service's lag.
const LAG_INTERVAL: Duration = Duration::from_secs(5);

/// How long no verdict of the running service must arrive before it counts as quiet.
const QUIET_TIME: Duration = Duration::from_secs(3);

/// How long requests may wait before that is logged.
const SILENCE: Duration = Duration::from_secs(10);

/// One partition of the running scheme's verdict log.
struct Log {
    follower: Follower,
    /// Reserve the bytes of the batches that were not taken yet.
    permits: VecDeque<Permit>,
    next: VerdictOffset,
    /// When the pending request for its end was sent.
    asks_end: Option<Duration>,
    end_requested_at: Duration,
    /// When the last answered request for its end was sent: everything that was committed by then was handed over.
    ended: Option<Duration>,
}

pub(super) struct Fill<'a, S> {
    context: &'a ServiceContext,
    options: &'a Options,
    signals: &'a Receiver<i32>,
    judges: &'a Judges,
    see: S,
    clock: Clock,
    messages: Receiver<Message>,
    asks: Asks,
    logs: Vec<Log>,
    merge: LogMerge,
    warm: WarmUp,
    /// Verdicts of the last batch.
    verdicts: VecDeque<Verdict>,
    draft: Draft,
    offsets: Offsets,
    input: BTreeSet<PartitionId>,
    /// Whether both schemes read event times from the same field.
    same_time: bool,
    pace: Pace,
    lag_seen: Option<Duration>,
    filled: Filled,
    phase: Phase,
    shown: Duration,
    /// Numbers of verdicts of the running scheme that arrived, that were taken into a round, and whose requests were
    /// sent.
    came: u64,
    taken: u64,
    dealt: u64,
    last_arrived: Duration,
    /// Number of verdicts that had arrived when all logs first reached their ends.
    first_end: Option<u64>,
    /// Number of requests sent when those verdicts were processed.
    last_request: Option<u64>,
    caught_up: bool,
    /// The number of requests without a verdict at the last check, and since when it has not decreased.
    waits: (usize, Duration),
    /// Partitions of the new verdict log that were read to their ends.
    known: BTreeSet<LogPartition>,
}

impl<'a, S: FnMut(&Report<'_>)> Fill<'a, S> {
    pub(super) fn new(
        running: &Settings,
        context: &'a ServiceContext,
        options: &'a Options,
        draft: Draft,
        signals: &'a Receiver<i32>,
        judges: &'a Judges,
        see: S,
    ) -> Result<Self, Fatal> {
        let (sender, messages) = unbounded();
        let (clock, group) = (context.clock, &running.input.group);
        let connection = context::connection(&running.kafka);
        let names = LogNames::new(&running.logs.prefix, &draft.running);
        let mut logs = Vec::new();
        for number in LogPartition::first(running.log_partitions().get()) {
            let sender_of_log = sender.clone();
            let log = partition(&names.verdicts, number);
            let next = draft.log.get(&log).map_or(VerdictOffset(0), |range| range.start);
            let thread = format!("running-{number}");
            let sink = move |event| drop(sender_of_log.send(Message::Running(number, event)));
            let (config, log) = (connection.follower(group), FollowSettings::new(log, sink));
            let follower = Follower::start(&config, log, &ByteBudget::new(AHEAD), thread).map_err(failure)?;
            let end_requested_at = Duration::ZERO;
            logs.push(Log { follower, permits: VecDeque::new(), next, asks_end: None, end_requested_at, ended: None });
        }
        let offsets = Offsets::new(&connection.query(group), QUERY_TIMEOUT).map_err(failure)?;
        let input = offsets.partitions(&context.input_topics());
        let input = input.map_err(unavailable)?;
        let (was, will) = (&running.record, &context.settings.record);
        let same_time = was.event_time == will.event_time
            && (will.event_time == EventTime::Record || was.fields.fetched_at == will.fields.fetched_at);
        Ok(Self {
            asks: Asks::open(context, context.settings.log_partitions().get(), &sender)?,
            context,
            options,
            signals,
            judges,
            see,
            clock,
            messages,
            merge: LogMerge::new(logs.len()),
            logs,
            warm: WarmUp::new(draft.from),
            verdicts: VecDeque::new(),
            draft,
            offsets,
            input,
            same_time,
            pace: Pace::new(options.rate, clock.now()),
            lag_seen: None,
            filled: Filled::default(),
            phase: Phase::Starting,
            shown: Duration::ZERO,
            came: 0,
            taken: 0,
            dealt: 0,
            last_arrived: Duration::ZERO,
            first_end: None,
            last_request: None,
            caught_up: false,
            waits: (0, Duration::ZERO),
            known: BTreeSet::new(),
        })
    }

    /// Runs the warm-up until it ends.
    pub(super) fn run(&mut self, pages: &mut Pages) -> Result<Outcome, Fatal> {
        if self.work(pages)?.is_continue() {
            tracing::info!(target: "dupgate::replay", "caught up");
        }
        self.show();
        Ok(Outcome {
            filled: self.filled.clone(),
            caught_up: self.caught_up,
            waiting: self.waiting(),
            elapsed_ms: u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Does the work of the warm-up. Breaks if it was stopped, continues if it has caught up and should end then.
    fn work(&mut self, pages: &mut Pages) -> Result<ControlFlow<()>, Fatal> {
        // First read which pages the new scheme has judged, because they are not requested again.
        while self.known.len() < self.asks.logs() {
            if self.housekeeping(STEP)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        for log in &self.logs {
            log.follower.command(FollowCommand::From(Some(log.next), 1));
        }
        self.phase = Phase::CatchingUp;
        loop {
            let steps = self.steps();
            let wait = if steps.is_empty() { STEP } else { Duration::ZERO };
            if self.housekeeping(wait)?.is_break() || self.fill(pages, &steps)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if self.caught_up && self.options.until == Until::CaughtUp {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }

    /// Takes the next requests from the arrived verdicts.
    fn steps(&mut self) -> Vec<WarmStep> {
        let mut steps = Vec::new();
        while steps.len() < ROUND {
            if let Some(verdict) = self.verdicts.pop_front() {
                self.taken += 1;
                steps.extend(self.warm.take(&verdict));
            } else if let Some((log, batch)) = self.merge.take() {
                self.verdicts = batch.verdicts.into();
                if let Some(log) = self.logs.get_mut(log.index()) {
                    log.permits.pop_front();
                }
            } else {
                break;
            }
        }
        self.filled.verdicts.clone_from(self.warm.counts());
        steps
    }

    fn fill(&mut self, pages: &mut Pages, steps: &[WarmStep]) -> Result<ControlFlow<()>, Fatal> {
        if steps.is_empty() {
            self.dealt = self.taken;
            return Ok(ControlFlow::Continue(()));
        }
        if self.hold()?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut wanted: BTreeMap<PartitionId, BTreeSet<i64>> = BTreeMap::new();
        for step in steps {
            if let WarmAsk::Page(page) = &step.what {
                wanted.entry(page.source.partition.clone()).or_default().insert(page.source.offset);
            }
        }
        let mut stopped = false;
        let read = pages.read(wanted, || {
            let flow = self.housekeeping(Duration::ZERO)?;
            stopped = flow.is_break();
            Ok(flow)
        })?;
        if stopped {
            return Ok(ControlFlow::Break(()));
        }
        for step in steps {
            match &step.what {
                WarmAsk::Page(judged) => self.ask_page(step, judged, read.get(&judged.source))?,
                WarmAsk::Change(body) => {
                    for log in LogPartition::first(self.asks.logs()) {
                        self.asks.ask(log, step.request, body.clone());
                    }
                }
            }
        }
        self.asks.send();
        self.dealt = self.taken;
        Ok(ControlFlow::Continue(()))
    }

    fn ask_page(&mut self, step: &WarmStep, judged: &PageVerdict, found: Option<&Read>) -> Result<(), Fatal> {
        match found {
            None | Some(Read::Gone) => self.filled.gone += 1,
            Some(Read::Refused) => self.filled.refused += 1,
            Some(Read::Page(_, request, _)) if request.digest != judged.digest => {
                let source = &judged.source;
                return Err(fatal!(
                    State,
                    "{source}: the input holds another page than the one that was judged: the topic was recreated; \
                     fill in only what was judged since then (--from)"
                ));
            }
            Some(Read::Page(log, request, bytes)) => {
                // The judge has already limited this event time by the brokers' clock.
                let event_time = if self.same_time { judged.event_time } else { request.event_time };
                let request = PageRequest { event_time, ..(**request).clone() };
                self.asks.ask(*log, step.request, RequestBody::Page(request));
                self.pace.note(*bytes, self.clock.now());
                self.filled.asked += 1;
            }
        }
        Ok(())
    }

    /// Waits as long as the rate, the judges and the running service require.
    fn hold(&mut self) -> Result<ControlFlow<()>, Fatal> {
        loop {
            let wait = self.pace.wait(self.clock.now());
            if wait.is_zero() && self.asks.pending() < MAX_PENDING && !self.yields()? {
                return Ok(ControlFlow::Continue(()));
            }
            if self.housekeeping(STEP)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    /// Returns whether the running service lags by more than the limit.
    fn yields(&mut self) -> Result<bool, Fatal> {
        let Some(limit) = self.options.yield_to_lag.filter(|_| !self.caught_up) else { return Ok(false) };
        let now = self.clock.now();
        if self.lag_seen.is_none_or(|seen| now.saturating_sub(seen) >= LAG_INTERVAL) {
            match self.offsets.lag(&self.input) {
                Ok(lag) => self.phase = if lag > limit { Phase::Yielding(lag) } else { Phase::CatchingUp },
                // The lag was readable before, so the brokers may come back.
                Err(error) if self.lag_seen.is_some() => {
                    tracing::warn!(target: "dupgate::replay", %error, "lag of the service is unknown");
                }
                Err(error) => return Err(unavailable(error)),
            }
            self.lag_seen = Some(now);
        }
        Ok(matches!(self.phase, Phase::Yielding(_)))
    }

    /// Processes arrived events, and does periodic work. Breaks on a stop.
    fn housekeeping(&mut self, wait: Duration) -> Result<ControlFlow<()>, Fatal> {
        let mut next = if wait.is_zero() { None } else { self.messages.recv_timeout(wait).ok() };
        let enough = after(STEP);
        while let Some(message) = next.take().or_else(|| self.messages.try_recv().ok()) {
            self.take(message)?;
            if enough.try_recv().is_ok() {
                break;
            }
        }
        self.judges.look()?;
        self.ask_ends();
        self.settle();
        let now = self.clock.now();
        if now.saturating_sub(self.shown) >= REPORT_INTERVAL {
            self.shown = now;
            self.context.metrics.upkeep();
            self.show();
        }
        Ok(if self.signals.try_recv().is_ok() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn show(&mut self) {
        let read: i64 = self.logs.iter().map(|log| log.next.0).sum();
        let began: i64 = self.draft.log.values().map(|range| range.start.0).sum();
        let read = u64::try_from(read.saturating_sub(began)).unwrap_or(0);
        let waiting = self.waiting();
        (self.see)(&Report { phase: self.phase, filled: &self.filled, read: (read, self.draft.offsets()), waiting });
    }

    /// Returns the number of verdicts that have arrived and are not filled in yet.
    fn waiting(&self) -> u64 {
        self.came - self.dealt + self.asks.pending() as u64
    }

    fn take(&mut self, message: Message) -> Result<(), Fatal> {
        match message {
            Message::Appended(appended) => self.asks.appended(appended),
            Message::New(log, event) => {
                if let (FollowEventKind::Record { record, .. }, false) = (&event.kind, self.known.contains(&log)) {
                    self.warm.know(record);
                }
                if self.asks.followed(log, &event.kind)? {
                    self.known.insert(log);
                }
                Ok(())
            }
            Message::Running(number, event) => self.of_running(number, event.kind),
        }
    }

    fn of_running(&mut self, number: LogPartition, kind: FollowEventKind) -> Result<(), Fatal> {
        let Some(log) = self.logs.get_mut(number.index()) else { return Ok(()) };
        match kind {
            FollowEventKind::Record { next, record, permit, .. } => {
                log.next = next;
                if let VerdictRecord::Verdicts(batch) = record
                    && !batch.verdicts.is_empty()
                {
                    self.came += batch.verdicts.len() as u64;
                    self.last_arrived = self.clock.now();
                    log.permits.push_back(permit);
                    self.merge.push(number, batch);
                }
                Ok(())
            }
            FollowEventKind::End(_) => {
                log.ended = log.asks_end.take();
                self.merge.at_end(number);
                Ok(())
            }
            FollowEventKind::Moved(why) => Err(fatal!(State, "verdict log {number} of the running scheme: {why}")),
        }
    }

    fn ask_ends(&mut self) {
        if self.phase == Phase::Starting {
            return;
        }
        let now = self.clock.now();
        for log in &mut self.logs {
            let is_due = log.ended.is_none() || now.saturating_sub(log.end_requested_at) >= END_INTERVAL;
            if log.asks_end.is_none() && is_due {
                (log.asks_end, log.end_requested_at) = (Some(now), now);
                log.follower.command(FollowCommand::ToEnd(1));
            }
        }
    }

    /// Updates the progress.
    fn settle(&mut self) {
        let now = self.clock.now();
        if self.first_end.is_none() && !self.logs.is_empty() && self.logs.iter().all(|log| log.ended.is_some()) {
            self.first_end = Some(self.came);
        }
        let pending = self.asks.pending();
        if pending < self.waits.0.max(1) {
            self.waits = (pending, now);
        } else if now.saturating_sub(self.waits.1) >= SILENCE {
            tracing::warn!(
                target: "dupgate::replay",
                pending, "requests are waiting and no judge of the new scheme responds"
            );
            self.waits.1 = now;
        }
        self.waits.0 = pending;
        if self.last_request.is_none() && self.first_end.is_some_and(|end| self.dealt >= end) {
            self.last_request = Some(self.asks.total());
        }
        let answered = self.asks.total() - pending as u64;
        self.caught_up = self.caught_up || self.last_request.is_some_and(|last| answered >= last);
        if self.caught_up {
            let since = self.last_arrived + QUIET_TIME;
            let is_quiet =
                self.dealt == self.came && pending == 0 && self.logs.iter().all(|log| log.ended >= Some(since));
            self.phase = if is_quiet { Phase::Quiet } else { Phase::Following };
        }
    }
}

/// Bytes of the new scheme's answers that are read ahead.
const ANSWERS_AHEAD: usize = 16 << 20;

/// Sends requests to the judges of all log partitions, and tracks which of them are pending.
pub(super) struct Asks {
    requests: RequestLog,
    topic: Arc<str>,
    followers: Vec<Follower>,
    /// Requests that were sent and are not known to be in the log.
    unacknowledged: BTreeMap<RequestId, (LogPartition, RequestBody)>,
    logs: Vec<LogRequests>,
    total: u64,
}

/// One partition of the logs.
#[derive(Debug, Default)]
struct LogRequests {
    /// Requests in the fingerprint log that no judge has passed, by offset.
    written: BTreeMap<RequestOffset, usize>,
    /// The judge has passed every request before this one.
    next_request: RequestOffset,
}

impl LogRequests {
    fn append(&mut self, offset: RequestOffset) {
        if offset >= self.next_request {
            *self.written.entry(offset).or_default() += 1;
        }
    }

    fn pass(&mut self, next_request: RequestOffset) {
        self.next_request = self.next_request.max(next_request);
        self.written = self.written.split_off(&self.next_request);
    }

    fn pending(&self) -> usize {
        self.written.values().sum()
    }
}

impl Asks {
    /// Connects to both logs of the new scheme, and reads its verdict log from the beginning.
    pub(super) fn open(plan: &ServiceContext, logs: usize, sender: &Sender<Message>) -> Result<Self, Fatal> {
        let budget = ByteBudget::new(ANSWERS_AHEAD);
        let mut followers = Vec::new();
        for log in LogPartition::first(logs) {
            let sender_of_log = sender.clone();
            let follower =
                plan.follow(log, "warm", &budget, move |event| drop(sender_of_log.send(Message::New(log, event))))?;
            follower.command(FollowCommand::From(None, 1));
            follower.command(FollowCommand::ToEnd(1));
            followers.push(follower);
        }
        let (topic, sender_of_log) = (Arc::clone(&plan.names.fingerprints), sender.clone());
        let config = plan.connection.request_producer();
        let requests =
            RequestLog::open(&config, topic.to_string(), logs, Arc::clone(&plan.in_flight), move |appended| {
                drop(sender_of_log.send(Message::Appended(appended)));
            })
            .map_err(failure)?;
        let pending = (0..logs).map(|_| LogRequests::default()).collect();
        Ok(Self { requests, topic, followers, unacknowledged: BTreeMap::new(), logs: pending, total: 0 })
    }

    /// Returns the number of partitions of the logs.
    pub(super) fn logs(&self) -> usize {
        self.followers.len()
    }

    /// Adds a request to the judge of one partition. The next [`Asks::send`] sends it.
    pub(super) fn ask(&mut self, log: LogPartition, request: RequestId, body: RequestBody) {
        // The same change may go to every log partition; each copy needs an id of its own.
        let request = RequestId(request.0 ^ u64::from(log.0).rotate_right(16));
        self.unacknowledged.insert(request, (log, body.clone()));
        self.total += 1;
        self.requests.append(log, Request { id: request, body });
    }

    /// Hands all requests to the client.
    pub(super) fn send(&mut self) {
        self.requests.send();
        self.requests.replace_if_lost();
    }

    /// Returns the number of requests.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of requests that no judge has passed.
    pub(super) fn pending(&self) -> usize {
        self.unacknowledged.len() + self.logs.iter().map(LogRequests::pending).sum::<usize>()
    }

    /// Notes the offset of a request.
    pub(super) fn appended(&mut self, appended: Appended) -> Result<(), Fatal> {
        let Appended { request, offset } = appended;
        match offset {
            Ok(offset) => {
                if let Some((log, _)) = self.unacknowledged.remove(&request)
                    && let Some(pending) = self.logs.get_mut(log.index())
                {
                    pending.append(offset);
                }
                Ok(())
            }
            Err(NotAppended::Denied) => Err(fatal::append_denied(&self.topic)),
            // A request is applied once, even if the log holds it several times.
            Err(NotAppended::Uncertain) => {
                if let Some((log, body)) = self.unacknowledged.get(&request) {
                    self.requests.append(*log, Request { id: request, body: body.clone() });
                    self.requests.send();
                }
                Ok(())
            }
        }
    }

    /// Processes an event of the new verdict log. Returns whether it reports that the log was read to its end.
    pub(super) fn followed(&mut self, log: LogPartition, news: &FollowEventKind) -> Result<bool, Fatal> {
        match news {
            FollowEventKind::Record { record: VerdictRecord::Verdicts(batch), .. } => {
                if let Some(pending) = self.logs.get_mut(log.index()) {
                    pending.pass(batch.next_request);
                }
                Ok(false)
            }
            FollowEventKind::Record { record: VerdictRecord::Checkpoint(checkpoint), .. } => {
                if let Some(pending) = self.logs.get_mut(log.index()) {
                    pending.pass(checkpoint.next_request);
                }
                Ok(false)
            }
            FollowEventKind::Record { record: VerdictRecord::Rules(_), .. } => Ok(false),
            FollowEventKind::End(_) => Ok(true),
            FollowEventKind::Moved(why) => Err(fatal!(State, "verdict log {log} of the new scheme: {why}")),
        }
    }
}

/// Time limit of the text work on one page.
const TEXT_LIMIT: Duration = Duration::from_secs(20);

/// How long the cluster may be silent while pages are wanted.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);

/// What was found at a wanted position.
pub(super) enum Read {
    /// The request for the judge of this log partition, and the size of the page's record in bytes.
    Page(LogPartition, Box<PageRequest>, usize),
    /// The new scheme has no request for the page, because it is undecodable, too large or too slow.
    Refused,
    /// The input no longer holds it.
    Gone,
}

/// Reads pages.
pub(super) struct Pages {
    picker: PositionReader,
    pool: TextPool,
    done: Receiver<Done>,
    budget: Arc<ByteBudget>,
    clock: Clock,
}

impl Pages {
    /// Starts the threads. At most `memory` bytes of pages are in flight.
    pub(super) fn start(
        config: &ClientSettings,
        offsets: Offsets,
        processor: RecordProcessor,
        threads: usize,
        memory: usize,
        clock: Clock,
    ) -> Result<Self, Fatal> {
        let (sender, done) = unbounded();
        let pool = TextPool::start(threads, processor, clock, move |one| drop(sender.send(one))).map_err(failure)?;
        let picker = PositionReader::open(config, offsets).map_err(failure)?;
        Ok(Self { picker, pool, done, budget: ByteBudget::new(memory), clock })
    }

    /// Reads these pages. Calls `meanwhile` repeatedly; if it breaks, the pages read so far are returned.
    pub(super) fn read(
        &mut self,
        wanted: BTreeMap<PartitionId, BTreeSet<i64>>,
        mut meanwhile: impl FnMut() -> Result<ControlFlow<()>, Fatal>,
    ) -> Result<BTreeMap<Source, Read>, Fatal> {
        let total: usize = wanted.values().map(BTreeSet::len).sum();
        let mut read = BTreeMap::new();
        self.picker.begin(wanted).map_err(unreadable)?;
        let mut last = self.clock.now();
        while read.len() < total {
            let before = read.len();
            if !self.picker.is_done() && self.budget.wait_for_room(Duration::from_millis(20)) {
                self.pick(&mut read)?;
            }
            let wait = if self.picker.is_done() { Duration::from_millis(20) } else { Duration::ZERO };
            let mut next = self.done.recv_timeout(wait).ok();
            while let Some(done) = next.take().or_else(|| self.done.try_recv().ok()) {
                let (source, found) = found(done);
                read.insert(source, found);
            }
            let now = self.clock.now();
            if self.pool.give_up_overdue(now, TEXT_LIMIT).map_err(failure)? {
                return Err(fatal!(
                    Failure,
                    "too many pages took longer than {TEXT_LIMIT:?} of text work: start it again"
                ));
            }
            // Pages that were read may wait for their schema.
            if read.len() > before || self.budget.held() > 0 {
                last = now;
            } else if now.saturating_sub(last) > IDLE_TIMEOUT {
                return Err(fatal!(Unavailable, "no page of the input came for {IDLE_TIMEOUT:?}"));
            }
            if meanwhile()?.is_break() {
                break;
            }
        }
        Ok(read)
    }

    fn pick(&mut self, read: &mut BTreeMap<Source, Read>) -> Result<(), Fatal> {
        match self.picker.answer().map_err(unreadable)? {
            PositionResult::Record(source, record) => {
                let permit = self.budget.hold(record.bytes());
                self.pool.read(Job { source, serial: 0, place: 0, record: Arc::new(record), permit });
            }
            PositionResult::Gone(source) => drop(read.insert(source, Read::Gone)),
            PositionResult::Beyond(source) => {
                return Err(fatal!(
                    State,
                    "{source} was judged, but its partition ends before it: the topic was recreated"
                ));
            }
            PositionResult::Nothing => {}
        }
        Ok(())
    }
}

fn found(done: Done) -> (Source, Read) {
    let page = done.page;
    let bytes = page.payload.record.bytes();
    let read = match page.action {
        PageAction::Ask(log, request) => Read::Page(log, Box::new(request), bytes),
        PageAction::Settled(_) | PageAction::Withdraw(..) => Read::Refused,
    };
    (page.source, read)
}

fn unreadable(error: impl Into<anyhow::Error>) -> Fatal {
    Reason::Unavailable.because(error.into().context("the input cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_pending_until_the_judge_has_passed_its_record() {
        let mut pending = LogRequests::default();
        [4, 4, 5, 7].into_iter().for_each(|offset| pending.append(RequestOffset(offset)));
        assert_eq!(pending.pending(), 4);
        pending.pass(RequestOffset(5));
        assert_eq!(pending.pending(), 2, "the record at 4 is passed, that at 5 comes next");
        pending.append(RequestOffset(4));
        assert_eq!(pending.pending(), 2, "the report of a record may come after its verdicts");
        pending.pass(RequestOffset(3));
        pending.pass(RequestOffset(8));
        assert_eq!(pending.pending(), 0);
    }
}
