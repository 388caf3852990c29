//! The worker's life: learn what is judged, join, read, deliver, hand over, leave. A state machine without I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::blocked::Blocked;
use super::breaker::Breaker;
use super::events::{Effect, Event, LogPartition, Output, Page, PageAction, PageOutcome, ProducerCall, ReadFrom};
use super::progress::Progress;
use super::queue::{InitialOffset, PartitionQueue};
use super::settings::WorkerSettings;
use super::verdict_cache::VerdictCache;
use super::verdict_scan::VerdictScan;
use crate::protocol::{RequestId, RequestOffset, VerdictOffset};
use crate::record::{PartitionId, Reject, Source, Timestamp};
use crate::transaction::{Call, Manner, TransactionMachine};

/// One worker: pages in, verdicts in; routed pages and offsets out.
///
/// Give it events with [`Worker::handle`], take what it wants done with [`Worker::poll`] until there is nothing more.
/// `P` is the record itself, which nothing here looks into.
#[derive(Debug)]
pub struct Worker<P> {
    pub(super) settings: WorkerSettings,
    pub(super) queues: BTreeMap<PartitionId, PartitionQueue<P>>,
    pub(super) logs: Vec<Log>,
    /// Whose page a request is about, while it waits.
    pub(super) requests: HashMap<RequestId, Source>,
    pub(super) next_request: u64,
    /// Pages that no broker takes: to be withdrawn when they are read again.
    pub(super) undeliverable: BTreeMap<Source, Reject>,
    pub(super) txn: TransactionMachine,
    /// What the transaction in progress carries.
    pub(super) sent: Sent<P>,
    /// The transactional id is ours.
    pub(super) initialised: bool,
    pub(super) joined: bool,
    /// Partitions that begin at the configured start if the group has no offset for them; not known at first.
    pub(super) unread: Option<BTreeSet<PartitionId>>,
    pub(super) draining: Option<Draining>,
    /// When to leave at the latest.
    pub(super) stop_by: Option<Duration>,
    /// Leave when all pages that were read of this partition are taken in.
    pub(super) stop_behind: Option<PartitionId>,
    pub(super) stopped: bool,
    pub(super) last_commit: Duration,
    pub(super) breaker: Breaker,
    pub(super) full: bool,
    /// How far all partitions of the input have come.
    pub(super) progress: Progress,
    /// Time of the slowest partition that has pages: pages that are much later have to wait.
    pub(super) slowest: Option<Timestamp>,
    /// When that was looked for last.
    pub(super) paced_at: Duration,
    /// Time of our fastest partition then.
    pub(super) checked_up_to: Option<Timestamp>,
    /// Fetches of committed offsets that are not answered. Only the last one counts: it asks for all that is needed.
    pub(super) fetches: usize,
    pub(super) effects: VecDeque<Effect<P>>,
}

/// What is known of one verdict log.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) known: VerdictCache,
    pub(super) recall: Option<VerdictScan>,
    /// Requests by the offset of their request: those that the judge must have answered when it has passed it.
    pub(super) asked: BTreeMap<RequestOffset, Vec<RequestId>>,
    /// Pages wait for a verdict to be read back, and no reading has begun for them.
    pub(super) wants_recall: bool,
}

/// The pages and offsets of one transaction.
#[derive(Debug)]
pub(super) struct Sent<P> {
    pub(super) outputs: Vec<Arc<Output<P>>>,
    pub(super) offsets: BTreeMap<PartitionId, i64>,
    pub(super) bytes: usize,
}

/// Partitions that are being revoked.
#[derive(Debug)]
pub(super) struct Draining {
    pub(super) partitions: BTreeSet<PartitionId>,
    pub(super) until: Duration,
}

impl<P> Default for Sent<P> {
    fn default() -> Self {
        Self { outputs: Vec::new(), offsets: BTreeMap::new(), bytes: 0 }
    }
}

impl<P> Worker<P> {
    /// Makes a worker that begins by taking over its transactional id and learning what is judged.
    #[must_use]
    pub fn new(settings: WorkerSettings) -> Self {
        let log = || Log {
            known: VerdictCache::new(settings.remembered_of_each_log()),
            recall: None,
            asked: BTreeMap::new(),
            wants_recall: false,
        };
        let mut worker = Self {
            queues: BTreeMap::new(),
            logs: (0..settings.logs).map(|_| log()).collect(),
            requests: HashMap::new(),
            next_request: settings.first_request,
            undeliverable: BTreeMap::new(),
            txn: TransactionMachine::new(settings.manner),
            sent: Sent::default(),
            initialised: settings.manner == Manner::Plain,
            joined: false,
            unread: None,
            draining: None,
            stop_by: None,
            stop_behind: None,
            stopped: false,
            last_commit: Duration::ZERO,
            breaker: Breaker::new(settings.pause_above_dead_letter_ratio),
            full: false,
            progress: Progress::default(),
            slowest: None,
            paced_at: Duration::ZERO,
            checked_up_to: None,
            fetches: 0,
            effects: VecDeque::new(),
            settings,
        };
        worker.take_over();
        (0..worker.logs.len()).for_each(|log| worker.effects.push_back(Effect::FetchCheckpoint(log)));
        worker.effects.push_back(Effect::FetchUnread);
        worker
    }

    /// Returns the next thing to do.
    pub fn poll(&mut self) -> Option<Effect<P>> {
        self.effects.pop_front()
    }

    /// Takes one event. `now` counts from any fixed point and never goes back.
    pub fn handle(&mut self, now: Duration, event: Event<P>) {
        match event {
            Event::Checkpoint(log, offset) => self.follow_from(log, offset),
            Event::Followed { log, offset, record } => self.followed(now, log, offset, &record),
            Event::FollowedToEnd(log) => self.followed_to_end(log),
            Event::LogMoved(log) => self.restart_following(log),
            Event::Assigned(partitions) => self.assigned(now, partitions),
            Event::Revoked(partitions) => self.revoked(now, partitions),
            Event::Lost(partitions) => self.lost(&partitions),
            Event::Unread(partitions) => self.unread = Some(partitions),
            Event::Committed(offsets) => self.seek(offsets),
            Event::Backlog(backlogs) => {
                self.progress.answered(now, backlogs);
                self.find_slowest(now);
                self.admit_all();
            }
            Event::Started(partition, offset) => self.started(&partition, offset),
            Event::Page(page) => self.read(now, page),
            Event::AtEnd(partition) => {
                if let Some(queue) = self.queues.get_mut(&partition) {
                    queue.answers();
                    queue.at_end = true;
                }
            }
            Event::OutOfRange { partition, offset, first, end } => self.out_of_range(&partition, offset, first, end),
            Event::Appended(request, result) => self.appended(request, result),
            Event::Recalled { log, record, .. } => self.recalled(log, &record),
            Event::RecalledToEnd(log) => self.recalled_to_end(log),
            Event::RecallMoved(log) => self.recall_moved(log),
            Event::Called(result) => self.called(result),
            Event::Tick => {}
            Event::Stop => self.stop(now),
            Event::StopBehind(partition) => self.stop_behind = Some(partition),
        }
        self.go_on(now);
    }

    /// Says what the worker is doing, for health and metrics.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            learned: self.logs.iter().all(|log| log.known.is_learned()),
            joined: self.joined,
            recalling: self.logs.iter().any(|log| log.recall.as_ref().is_some_and(VerdictScan::is_reading)),
            blocked: self.blocked(),
            tripped: self.breaker.tripped(),
            waiting: self.queues.values().map(PartitionQueue::len).sum(),
            in_transaction: self.sent.outputs.len(),
            in_flight_bytes: self.in_flight_bytes(),
            full: self.full,
            ahead: self.queues.values().filter(|queue| queue.ahead.is_some()).count(),
            partitions: self.queues.len(),
        }
    }

    /// Says whether a page waits for the answer to this request.
    #[must_use]
    pub fn waits_for(&self, request: RequestId) -> bool {
        self.requests.contains_key(&request)
    }

    /// Returns how many pages wait for an answer.
    #[must_use]
    pub fn waits(&self) -> usize {
        self.requests.len()
    }

    /// Counts the pages that will be dead letters and are not delivered yet, by reason. Looks at all of them.
    #[must_use]
    pub fn dead_letters_held(&self) -> BTreeMap<Reject, u64> {
        let mut held = BTreeMap::new();
        let waiting = self.queues.values().flat_map(PartitionQueue::pages);
        for page in waiting.chain(self.sent.outputs.iter().map(|output| &output.page)) {
            if let PageAction::Settled(PageOutcome::DeadLetter(reason)) | PageAction::Withdraw(_, reason) = &page.action
            {
                *held.entry(*reason).or_default() += 1;
            }
        }
        held
    }

    /// Returns one page of the transaction under way, by its index there.
    #[must_use]
    pub fn in_transaction(&self, index: usize) -> Option<&Output<P>> {
        self.sent.outputs.get(index).map(AsRef::as_ref)
    }

    // ---- start

    pub(super) fn take_over(&mut self) {
        if self.settings.manner == Manner::Transaction {
            self.initialised = false;
            let call = self.txn.init();
            self.effects.push_back(Effect::Call(ProducerCall::Plain(call)));
        }
    }

    pub(super) fn follow_from(&mut self, log: LogPartition, offset: Option<VerdictOffset>) {
        if let Some(log) = self.logs.get_mut(log).filter(|_| offset.is_some()) {
            log.known.begin_at_checkpoint();
        }
        self.effects.push_back(Effect::Follow { log, from: offset });
        self.effects.push_back(Effect::FollowToEnd(log));
    }

    fn followed_to_end(&mut self, log: LogPartition) {
        if let Some(log) = self.logs.get_mut(log) {
            log.known.learned();
        }
        self.resolve_all();
    }

    fn join_if_ready(&mut self) {
        let learned = self.logs.iter().all(|log| log.known.is_learned());
        let ready = self.initialised && learned && self.unread.is_some();
        if ready && !self.joined && self.stop_by.is_none() {
            self.joined = true;
            self.effects.push_back(Effect::Join);
        }
    }

    // ---- the group

    fn assigned(&mut self, now: Duration, partitions: BTreeSet<PartitionId>) {
        for partition in &partitions {
            self.queues.insert(partition.clone(), PartitionQueue::new(now));
        }
        // A pause survives in the client; it is set anew where it is still wanted.
        self.effects.push_back(Effect::Resume(partitions));
        self.fetch_committed();
    }

    fn seek(&mut self, offsets: BTreeMap<PartitionId, Option<i64>>) {
        self.fetches = self.fetches.saturating_sub(1);
        if self.fetches > 0 {
            return;
        }
        for (partition, offset) in offsets {
            let judged = self.logs.iter().any(|log| log.known.has_judged(&partition));
            self.rechecked(&partition, offset);
            let Some(queue) = self.queues.get_mut(&partition).filter(|queue| queue.seeking) else { continue };
            if offset.is_none() && judged {
                queue.block(Blocked::NoOffset);
                continue;
            }
            if let (Some(Blocked::OutOfRange { end, .. }), Some(offset)) = (&queue.blocked, offset)
                && offset > *end
            {
                continue;
            }
            queue.blocked = None;
            queue.seeking = false;
            queue.committed = offset;
            let is_unread = self.unread.as_ref().is_some_and(|unread| unread.contains(&partition));
            let (from, initial_offset) = match (offset, queue.start) {
                (Some(offset), _) => (ReadFrom::Offset(offset), InitialOffset::Committed),
                (None, Some(start)) => (ReadFrom::Offset(start), InitialOffset::Wanted(start)),
                (None, None) if is_unread => (ReadFrom::ConfiguredStart, InitialOffset::Missing),
                (None, None) => (ReadFrom::Beginning, InitialOffset::Missing),
            };
            queue.initial_offset = initial_offset;
            queue.next = if let ReadFrom::Offset(offset) = from { offset } else { 0 };
            self.effects.push_back(Effect::Seek { partition, from });
        }
    }

    /// Reading begins here: the place is committed at once, so that whoever reads this partition next begins here, too,
    /// although no page may come for a long time.
    fn started(&mut self, partition: &PartitionId, offset: i64) {
        if let Some(queue) =
            self.queues.get_mut(partition).filter(|queue| queue.initial_offset == InitialOffset::Missing)
        {
            queue.initial_offset = InitialOffset::Wanted(offset);
            queue.start = Some(offset);
            queue.next = offset;
        }
    }

    fn revoked(&mut self, now: Duration, partitions: BTreeSet<PartitionId>) {
        for partition in &partitions {
            if let Some(queue) = self.queues.get_mut(partition) {
                queue.leaving = true;
            }
        }
        self.draining = Some(Draining { partitions, until: now + self.settings.revoke_grace });
    }

    fn lost(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.drop_lanes(partitions);
        if self.draining.take().is_some() {
            self.effects.push_back(Effect::RevokeDone);
        }
        // What the transaction holds of them may be routed by the next owner already: none of it may be committed.
        if self.sent.offsets.keys().any(|partition| partitions.contains(partition)) {
            self.abort();
        }
    }

    pub(super) fn drop_lanes(&mut self, partitions: &BTreeSet<PartitionId>) {
        for partition in partitions {
            self.queues.remove(partition);
        }
        let queues = &self.queues;
        self.requests.retain(|_, source| queues.contains_key(&source.partition));
    }

    /// Drops every page that was read and is not committed; they are read again from the committed offsets.
    pub(super) fn rewind_all(&mut self) {
        self.sent = Sent::default();
        self.requests.clear();
        self.logs.iter_mut().for_each(|log| log.asked.clear());
        self.queues.values_mut().for_each(PartitionQueue::rewind);
        self.fetch_committed();
    }

    pub(super) fn fetch_committed(&mut self) {
        let wanted = self.offsets_wanted();
        if !wanted.is_empty() {
            self.fetches += 1;
            self.effects.push_back(Effect::FetchCommitted(wanted));
        }
    }

    // ---- pages

    fn read(&mut self, now: Duration, page: Page<P>) {
        let Some(queue) = self.queues.get_mut(&page.source.partition) else { return };
        if !queue.takes(page.source.offset) {
            return;
        }
        queue.answers();
        let (partition, time) = (page.source.partition.clone(), page.paced_by);
        queue.push(now, page);
        if self.is_unchecked(now, time) {
            self.find_slowest(now);
        }
        self.admit(&partition);
    }

    // ---- what time brings

    fn go_on(&mut self, now: Duration) {
        if self.stopped {
            return;
        }
        self.join_if_ready();
        self.recall_what_is_missing();
        self.recheck_blocked(now);
        self.pace(now);
        self.stop_if_behind(now);
        self.deliver(now);
        self.finish_draining(now);
        self.leave_if_done(now);
    }

    fn stop(&mut self, now: Duration) {
        self.stop_by = self.stop_by.or(Some(now + self.settings.shutdown_grace));
    }

    /// Pages that are held back were read and have not had their turn.
    fn stop_if_behind(&mut self, now: Duration) {
        let is_held_back = |partition: &PartitionId| self.queues.get(partition).is_some_and(PartitionQueue::holds_back);
        if self.stop_behind.take_if(|partition| !is_held_back(partition)).is_some() {
            self.stop(now);
        }
    }

    fn finish_draining(&mut self, now: Duration) {
        let Some(draining) = &self.draining else { return };
        let late = now >= draining.until;
        if self.txn.is_busy() {
            if late && !self.txn.is_committing() {
                self.abort();
            }
            return;
        }
        let complete = |partition: &PartitionId| self.queues.get(partition).is_some_and(PartitionQueue::is_ready);
        if !late && draining.partitions.iter().any(complete) && self.breaker.tripped().is_none() {
            return;
        }
        if let Some(draining) = self.draining.take() {
            self.drop_lanes(&draining.partitions);
            self.effects.push_back(Effect::RevokeDone);
        }
    }

    fn leave_if_done(&mut self, now: Duration) {
        let Some(until) = self.stop_by else { return };
        let late = now >= until;
        if self.txn.is_busy() {
            if late && !self.txn.is_committing() {
                self.abort();
            }
            return;
        }
        if late || self.queues.values().all(PartitionQueue::is_done) {
            self.stopped = true;
            if self.joined {
                self.effects.push_back(Effect::Leave);
            }
            self.effects.push_back(Effect::Stopped);
        }
    }

    pub(super) fn abort(&mut self) {
        if let Some(call) = self.txn.abort() {
            self.call(call);
        }
    }

    pub(super) fn call(&mut self, call: Call) {
        let request = match call {
            Call::Produce => ProducerCall::Produce(self.sent.outputs.clone()),
            Call::SendOffsets => ProducerCall::SendOffsets(self.sent.offsets.clone()),
            Call::Init | Call::Begin | Call::Commit | Call::Abort => ProducerCall::Plain(call),
        };
        self.effects.push_back(Effect::Call(request));
    }
}

/// What a worker is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Every verdict log was followed to its end.
    pub learned: bool,
    /// It is in the input group.
    pub joined: bool,
    /// It reads old verdicts back.
    pub recalling: bool,
    /// Partitions that cannot be read on, and why.
    pub blocked: BTreeMap<PartitionId, Blocked>,
    /// The breaker has tripped, with so many dead letters among the last 1000 records.
    pub tripped: Option<usize>,
    /// Pages that are in no transaction yet.
    pub waiting: usize,
    /// Pages of the transaction under way.
    pub in_transaction: usize,
    /// Bytes of pages that wait or are in a transaction.
    pub in_flight_bytes: usize,
    /// Reading is paused because that is too many.
    pub full: bool,
    /// Partitions whose next pages wait for a slower partition.
    pub ahead: usize,
    /// Partitions owned.
    pub partitions: usize,
}
