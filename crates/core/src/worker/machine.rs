//! The worker's state machine (no I/O): learn what is judged, join, read, deliver, hand over, leave.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::events::{Blocked, Effect, Event, Output, Page, PageAction, PageOutcome, WorkerSettings};
use super::followed_log::FollowedLog;
use super::membership::Membership;
use super::outgoing::Outgoing;
use super::pacer::Pacer;
use super::partitions::Partitions;
use super::queue::PartitionQueue;
use super::unanswered::{Breaker, Unanswered};
use crate::protocol::{LogPartition, RequestId, VerdictOffset};
use crate::record::{PartitionId, Reject};

/// One worker: pages in, verdicts in; routed pages and offsets out.
///
/// Give it events with [`Worker::handle`], take what it wants done with [`Worker::poll`] until there is nothing more.
/// `P` is the record itself, which nothing here looks into.
///
/// Each part owns its state; what a page, a verdict or a moment means to several of them is said here and in the
/// modules that follow a page: `flow_control` (may it be asked about yet), `match_verdict` (what is its end), `deliver`
/// (its way out), `blocked` (what goes wrong with its partition).
#[derive(Debug)]
pub struct Worker<P> {
    pub(super) settings: WorkerSettings,
    pub(super) membership: Membership,
    pub(super) partitions: Partitions<P>,
    pub(super) logs: Vec<FollowedLog>,
    pub(super) unanswered: Unanswered,
    pub(super) pacer: Pacer,
    pub(super) outgoing: Outgoing<P>,
    pub(super) breaker: Breaker,
    /// Too many bytes are in flight: nothing is read.
    pub(super) full: bool,
    pub(super) effects: VecDeque<Effect<P>>,
}

impl<P> Worker<P> {
    /// Creates a worker that begins by taking over its transactional id and learning what is judged.
    #[must_use]
    pub fn new(settings: WorkerSettings) -> Self {
        let log = || FollowedLog::new(settings.remembered_of_each_log());
        let mut worker = Self {
            membership: Membership::default(),
            partitions: Partitions::new(settings.first_request),
            logs: std::iter::repeat_with(log).take(settings.all_logs()).collect(),
            unanswered: Unanswered::default(),
            pacer: Pacer::new(settings.pacing),
            outgoing: Outgoing::new(settings.delivery, settings.transaction_timeout),
            breaker: Breaker::new(settings.pause_above_dead_letters),
            full: false,
            effects: VecDeque::new(),
            settings,
        };
        let call = worker.outgoing.take_over();
        worker.call(call);
        worker.effects.extend(LogPartition::first(worker.logs.len()).map(Effect::FetchCheckpoint));
        worker.effects.push_back(Effect::FetchNewToGroup);
        worker
    }

    /// Returns the next effect.
    pub fn poll(&mut self) -> Option<Effect<P>> {
        self.effects.pop_front()
    }

    /// Takes one event. `now` counts from any fixed point and never goes back.
    ///
    /// What follows from pages, answers and records of the logs is done at the next [`Event::Tick`], once for all of
    /// them, because it takes a look at every partition: a caller handles the events at hand and then a tick.
    pub fn handle(&mut self, now: Duration, event: Event<P>) {
        let is_one_of_many = matches!(
            event,
            Event::Page(_)
                | Event::Followed { .. }
                | Event::Appended(..)
                | Event::Scanned { .. }
                | Event::Started(..)
                | Event::AtEnd(_)
        );
        match event {
            Event::Checkpoint(log, offset) => self.follow_from(log, offset),
            Event::Followed { log, offset, record } => self.followed(now, log, offset, &record),
            Event::FollowedToEnd(log) => self.followed_to_end(log),
            Event::LogMoved(log) => self.restart_following(log),
            Event::Assigned(partitions) => self.assigned(now, partitions),
            Event::Revoked(partitions) => self.revoked(now, partitions),
            Event::Lost(partitions) => self.lost(&partitions),
            Event::NewToGroup(partitions) => self.membership.learn_new_to_group(partitions),
            Event::Committed(offsets) => self.seek(offsets),
            Event::Backlog(backlogs) => {
                self.pacer.answered(now, backlogs);
                self.find_slowest(now);
                self.admit_all();
            }
            Event::Page(page) => self.read(now, page),
            Event::Started(partition, offset) => self.at(&partition, |queue| queue.started(offset)),
            Event::AtEnd(partition) => self.at(&partition, PartitionQueue::reached_end),
            Event::OutOfRange { partition, offset, first, end } => {
                self.at(&partition, |queue| queue.out_of_range(offset, first, end));
            }
            Event::Denied(partition) => self.at(&partition, PartitionQueue::denied),
            Event::Appended(request, result) => self.appended(now, request, result),
            Event::Scanned { log, record, .. } => self.scanned(log, &record),
            Event::ScannedToEnd(log) => self.scanned_to_end(log),
            Event::ScanMoved(log) => self.scan_moved(log),
            Event::Called(result) => self.called(now, result),
            Event::Tick => {}
            Event::Stop => self.stop(now),
            Event::StopAfter(partition) => self.membership.stop_after(partition),
        }
        if !is_one_of_many {
            self.go_on(now);
        }
    }

    /// Returns what the worker is doing, for health and metrics.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            learned: self.has_learned(),
            joined: self.membership.is_joined(),
            is_scanning: self.logs.iter().any(FollowedLog::is_scanning),
            blocked: self.blocked(),
            asked: self.partitions.requests(),
            unanswered: self.unanswered.count(|request| self.partitions.waits_for(request)),
            tripped: self.breaker.tripped(),
            waiting: self.partitions.queues().map(PartitionQueue::len).sum(),
            in_transaction: self.outgoing.outputs().len(),
            in_flight_bytes: self.in_flight_bytes(),
            full: self.full,
            ahead: self.partitions.queues().filter(|queue| queue.is_ahead()).count(),
            partitions: self.partitions.len(),
        }
    }

    /// Returns whether a page waits for the answer to this request.
    #[must_use]
    pub fn waits_for(&self, request: RequestId) -> bool {
        self.partitions.waits_for(request)
    }

    /// Counts the pages that will be dead letters and are not delivered yet, by reason. Looks at all of them.
    #[must_use]
    pub fn dead_letters_held(&self) -> BTreeMap<Reject, u64> {
        let mut held = BTreeMap::new();
        let waiting = self.partitions.queues().flat_map(PartitionQueue::pages);
        for page in waiting.chain(self.outgoing.outputs().iter().map(|output| &output.page)) {
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
        self.outgoing.outputs().get(index).map(AsRef::as_ref)
    }

    // ---- start

    pub(super) fn follow_from(&mut self, log: LogPartition, offset: Option<VerdictOffset>) {
        if let Some(followed) = self.logs.get_mut(log.index()).filter(|_| offset.is_some()) {
            followed.begin_at_checkpoint();
        }
        self.effects.push_back(Effect::Follow { log, from: offset });
        self.effects.push_back(Effect::FollowToEnd(log));
    }

    fn followed_to_end(&mut self, log: LogPartition) {
        if let Some(followed) = self.logs.get_mut(log.index()) {
            followed.learned();
        }
        if self.settings.is_earlier(log) {
            self.earlier_log_ended(log);
        }
        self.resolve_all();
    }

    fn has_learned(&self) -> bool {
        self.logs.iter().all(FollowedLog::is_learned)
    }

    fn join_if_ready(&mut self) {
        let is_ready = self.outgoing.is_initialised() && self.has_learned();
        if self.membership.join(is_ready) {
            self.effects.push_back(Effect::Join);
        }
    }

    // ---- the group

    fn assigned(&mut self, now: Duration, partitions: BTreeSet<PartitionId>) {
        self.partitions.assign(now, &partitions);
        // A pause survives in the client; it is set again where it is still wanted.
        self.effects.push_back(Effect::Resume(partitions));
        self.fetch_committed();
    }

    pub(super) fn fetch_committed(&mut self) {
        let wanted = self.partitions.iter().filter(|(_, queue)| queue.wants_committed());
        let wanted: BTreeSet<PartitionId> = wanted.map(|(partition, _)| partition.clone()).collect();
        if !wanted.is_empty() {
            self.membership.fetches();
            self.effects.push_back(Effect::FetchCommitted(wanted));
        }
    }

    fn seek(&mut self, offsets: BTreeMap<PartitionId, Option<i64>>) {
        if !self.membership.fetched() {
            return;
        }
        for (partition, offset) in offsets {
            self.rechecked(&partition, offset);
            let is_judged = self.has_judged(&partition);
            if offset.is_some() || is_judged {
                self.membership.has_begun(&partition);
            }
            let is_new_to_group = self.membership.is_new_to_group(&partition);
            let Some(queue) = self.partitions.get_mut(&partition) else { continue };
            if let Some(from) = queue.seek(offset, is_judged, is_new_to_group) {
                self.effects.push_back(Effect::Seek { partition, from });
            }
        }
    }

    /// Returns whether positions of a partition are judged in a log that decides: those of the earlier scheme, as long as the
    /// dual period lasts.
    fn has_judged(&self, partition: &PartitionId) -> bool {
        let (own, earlier) = self.logs.split_at_checked(self.settings.logs).unwrap_or((&self.logs, &[]));
        let is_dual = own.iter().any(FollowedLog::is_dual);
        own.iter().chain(earlier.iter().filter(|_| is_dual)).any(|log| log.has_judged(partition))
    }

    fn revoked(&mut self, now: Duration, partitions: BTreeSet<PartitionId>) {
        partitions.iter().for_each(|partition| self.at(partition, PartitionQueue::leave));
        self.membership.drain(partitions, now + self.settings.revoke_grace);
    }

    fn lost(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.partitions.drop(partitions);
        if self.membership.drained().is_some() {
            self.effects.push_back(Effect::RevokeDone);
        }
        // What the transaction holds of them may be routed by the next owner already: none of it may be committed.
        let call = self.outgoing.lose(partitions);
        self.call(call);
    }

    /// Drops every page that was read and is not committed; they are read again from the committed offsets.
    pub(super) fn rewind_all(&mut self) {
        self.outgoing.rewind();
        self.partitions.rewind();
        self.logs.iter_mut().for_each(FollowedLog::forget_requests);
        self.fetch_committed();
    }

    // ---- pages

    fn read(&mut self, now: Duration, page: Page<P>) {
        let Some(queue) = self.partitions.get_mut(&page.source.partition) else { return };
        if !queue.takes(page.source.offset) {
            return;
        }
        let (partition, time) = (page.source.partition.clone(), page.paced_by);
        queue.push(now, page);
        if self.pacer.is_unchecked(now, time) {
            self.find_slowest(now);
        }
        self.admit(&partition);
    }

    /// Does something with the queue of a partition, if that is ours.
    fn at(&mut self, partition: &PartitionId, act: impl FnOnce(&mut PartitionQueue<P>)) {
        if let Some(queue) = self.partitions.get_mut(partition) {
            act(queue);
        }
    }

    // ---- what time brings

    fn go_on(&mut self, now: Duration) {
        if self.membership.is_stopped() {
            return;
        }
        self.join_if_ready();
        self.scan_unknown_verdicts();
        self.ask_unanswered_again(now);
        self.recheck_blocked(now);
        self.pace(now);
        self.stop_if_taken_in(now);
        self.deliver(now);
        self.finish_draining(now);
        self.leave_if_done(now);
    }

    fn stop(&mut self, now: Duration) {
        self.membership.stop(now + self.settings.shutdown_grace);
    }

    /// Pages that are held back were read and have not had their turn.
    fn stop_if_taken_in(&mut self, now: Duration) {
        let partitions = &self.partitions;
        let is_taken_in = |partition: &PartitionId| !partitions.get(partition).is_some_and(PartitionQueue::holds_back);
        if self.membership.takes_stop_after(is_taken_in) {
            self.stop(now);
        }
    }

    fn finish_draining(&mut self, now: Duration) {
        let Some((draining, late)) = self.membership.draining(now) else { return };
        if self.outgoing.is_busy() {
            self.abort_if(late);
            return;
        }
        let is_complete = |partition| self.partitions.get(partition).is_some_and(PartitionQueue::is_ready);
        if !late && draining.iter().any(is_complete) && self.breaker.tripped().is_none() {
            return;
        }
        if let Some(drained) = self.membership.drained() {
            self.partitions.drop(&drained);
            self.effects.push_back(Effect::RevokeDone);
        }
    }

    fn leave_if_done(&mut self, now: Duration) {
        let Some(late) = self.membership.stopping(now) else { return };
        if self.outgoing.is_busy() {
            self.abort_if(late);
            return;
        }
        if late || self.partitions.queues().all(PartitionQueue::is_done) {
            self.membership.stopped();
            if self.membership.is_joined() {
                self.effects.push_back(Effect::Leave);
            }
            self.effects.push_back(Effect::Stopped);
        }
    }

    /// Gives up the transaction under way if there is no more time for it. A commit that is out runs its course.
    fn abort_if(&mut self, late: bool) {
        if late {
            let call = self.outgoing.abort_late();
            self.call(call);
        }
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
    pub is_scanning: bool,
    /// Partitions that cannot be read on, and why.
    pub blocked: BTreeMap<PartitionId, Blocked>,
    /// Pages that wait for an answer.
    pub asked: usize,
    /// Requests that the judge passed without a verdict more than once: they are made again ever more rarely.
    pub unanswered: usize,
    /// The breaker has tripped, with this many dead letters among the last 1000 records.
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
