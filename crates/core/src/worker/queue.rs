//! The queue of one input partition: pages in offset order from reading to delivery.

use std::collections::VecDeque;
use std::time::Duration;

use super::events::{Backlog, Blocked, Page, PageAction, PageOutcome, ReadFrom};
use super::progress::RecentTimes;
use crate::protocol::{LogPartition, RequestId, RequestOffset};
use crate::record::{Reject, Source, Timestamp};

/// How often the committed offset of a blocked partition is fetched: an operator may have set it.
const RECHECK_INTERVAL: Duration = Duration::from_mins(1);

/// One input partition that is ours.
#[derive(Debug)]
pub(super) struct PartitionQueue<P> {
    /// Pages that are not in a transaction yet.
    waiting: VecDeque<Waiting<P>>,
    /// Pages after these: nothing is done about them while they are too far ahead of another partition.
    held_back: VecDeque<Page<P>>,
    /// What they hold.
    bytes: usize,
    beginning: Beginning,
    /// Where reading began: kept until the group has an offset here, so that an abort does not move it.
    start: Option<i64>,
    /// It has given a page, or said that it has none: we may read it.
    answered: bool,
    /// It is being revoked: nothing new is asked or read.
    leaving: bool,
    /// There was nothing more to read.
    at_end: bool,
    /// Of the pages read last.
    times: RecentTimes,
    /// When a page was read last, or might have been.
    last_read: Duration,
    lead: Lead,
    blockage: Option<Blockage>,
    /// The group's offset, as far as we know.
    committed: Option<i64>,
    /// It is paused in the client.
    paused: bool,
    /// The next page must not have a smaller offset.
    next: i64,
}

/// Where reading begins, and whether the group has committed that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beginning {
    /// The committed offset is being fetched: no page may come in.
    Seeking,
    /// The group has none, and where reading begins is not known yet.
    Unknown,
    /// The group has none; this is where reading begins, and is to be committed before anything is asked.
    Uncommitted(i64),
    /// The group has a committed offset.
    Committed,
}

/// How the next page stands to the slowest partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    /// It need not wait.
    Within,
    /// It is of this time, too far ahead of another partition.
    Ahead(Timestamp),
    /// The same; the pages from `next` on were read and dropped, because the queues were full.
    Dropped(Timestamp),
}

/// A partition that cannot be read on.
#[derive(Debug)]
struct Blockage {
    why: Blocked,
    /// Reading is tried all the same.
    is_retried: bool,
    /// The committed offset is being fetched.
    is_checked: bool,
    /// When to look at it again, once that was decided.
    recheck_at: Option<Duration>,
}

/// One page and how far it has come.
#[derive(Debug)]
pub(super) struct Waiting<P> {
    page: Page<P>,
    state: PageState,
}

impl<P> Waiting<P> {
    pub(super) fn page(&self) -> &Page<P> {
        &self.page
    }

    pub(super) fn state(&self) -> &PageState {
        &self.state
    }
}

/// What the answer about the committed offset of a blocked partition means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recheck {
    /// It was not set: the partition stays blocked.
    Same,
    /// An operator has set it: what was read is dropped, and reading begins there.
    Rewound,
    /// Reading is tried again from here on: the broker may have been wrong about what it holds.
    Retry(ReadFrom),
}

/// How far a page has come.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PageState {
    /// Nothing was done about it yet.
    New,
    /// Asked. The offset of the request is known once its delivery is.
    Asked { log: LogPartition, request: RequestId, offset: Option<RequestOffset> },
    /// Judged, but its verdict must be read back from this log.
    AwaitingScan(LogPartition),
    /// Judged, and its verdict cannot be read any more, or is about another page.
    Blocked(LogPartition),
    /// Its end is known.
    Ready(PageOutcome),
}

impl<P> PartitionQueue<P> {
    /// A partition just assigned: nothing is read before its committed offset is known.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            waiting: VecDeque::new(),
            held_back: VecDeque::new(),
            bytes: 0,
            beginning: Beginning::Seeking,
            start: None,
            answered: false,
            leaving: false,
            at_end: false,
            times: RecentTimes::default(),
            last_read: now,
            lead: Lead::Within,
            blockage: None,
            committed: None,
            paused: false,
            next: 0,
        }
    }

    /// Drops what was read; it will be read again from the committed offset.
    pub(super) fn rewind(&mut self) {
        let Self { leaving, paused, start, times, last_read, .. } = *self;
        // Records that took the offsets of lost ones are no reason to continue.
        let is_cut = |why: &Blocked| matches!(why, Blocked::OutOfRange { offset, end, .. } if offset > end);
        let cut = self.blockage.take().map(|blockage| blockage.why).filter(is_cut);
        *self = Self { start, leaving, times, paused, ..Self::new(last_read) };
        if let Some(why) = cut {
            self.block(why);
        }
    }

    // ---- offsets

    /// Returns whether the committed offset is wanted: to begin there, or to see whether an operator has set it.
    pub(super) fn wants_committed(&self) -> bool {
        (self.is_seeking() || self.blockage.as_ref().is_some_and(|blockage| blockage.is_checked)) && !self.leaving
    }

    /// Takes the committed offset, and returns where reading begins; `None` when it does not, or has begun.
    ///
    /// `is_judged`: positions of the partition are judged. `is_new_to_group`: without an offset it begins at the configured
    /// start, not at its first record.
    pub(super) fn seek(&mut self, committed: Option<i64>, is_judged: bool, is_new_to_group: bool) -> Option<ReadFrom> {
        if !self.is_seeking() {
            return None;
        }
        if committed.is_none() && is_judged {
            self.block(Blocked::NoOffset);
            return None;
        }
        if let (Some(Blocked::OutOfRange { end, .. }), Some(offset)) = (self.blocked(), committed)
            && offset > *end
        {
            return None;
        }
        self.blockage = None;
        self.committed = committed;
        let (from, beginning) = match (committed, self.start) {
            (Some(offset), _) => (ReadFrom::Offset(offset), Beginning::Committed),
            (None, Some(start)) => (ReadFrom::Offset(start), Beginning::Uncommitted(start)),
            (None, None) if is_new_to_group => (ReadFrom::ConfiguredStart, Beginning::Unknown),
            (None, None) => (ReadFrom::Beginning, Beginning::Unknown),
        };
        self.beginning = beginning;
        self.next = if let ReadFrom::Offset(offset) = from { offset } else { 0 };
        Some(from)
    }

    /// Reading begins here: the offset is committed at once, so that the next owner of this partition begins here, too,
    /// although no page may come for a long time.
    pub(super) fn started(&mut self, offset: i64) {
        if self.beginning == Beginning::Unknown {
            self.beginning = Beginning::Uncommitted(offset);
            self.start = Some(offset);
            self.next = offset;
        }
    }

    /// Returns the place where reading began, as long as the group has no offset here: it is committed before any page.
    /// Brokers take no offset of a topic that we may not read, and a transaction with it would fail for all topics.
    pub(super) fn start_to_commit(&self) -> Option<i64> {
        match self.beginning {
            Beginning::Uncommitted(offset) if self.answered => Some(offset),
            Beginning::Uncommitted(_) | Beginning::Seeking | Beginning::Unknown | Beginning::Committed => None,
        }
    }

    /// Notes what was committed. Returns whether the group had no offset here before: pages may be asked about now.
    pub(super) fn committed(&mut self, offset: i64) -> bool {
        self.committed = Some(offset);
        let is_first = matches!(self.beginning, Beginning::Unknown | Beginning::Uncommitted(_));
        if is_first {
            self.beginning = Beginning::Committed;
            self.start = None;
        }
        is_first
    }

    /// Returns whether pages may be asked about.
    pub(super) fn may_ask(&self) -> bool {
        self.beginning == Beginning::Committed && !self.leaving
    }

    fn is_seeking(&self) -> bool {
        self.beginning == Beginning::Seeking
    }

    /// It is being revoked: nothing new is asked or read.
    pub(super) fn leave(&mut self) {
        self.leaving = true;
    }

    /// Returns where reading continues.
    pub(super) fn read_on(&self) -> ReadFrom {
        ReadFrom::Offset(self.next)
    }

    // ---- blocked

    /// Returns why it cannot be read on.
    pub(super) fn blocked(&self) -> Option<&Blocked> {
        self.blockage.as_ref().map(|blockage| &blockage.why)
    }

    /// Returns whether pages may not be read.
    pub(super) fn is_blocked(&self) -> bool {
        self.blockage.as_ref().is_some_and(|blockage| !blockage.is_retried)
    }

    /// Nothing more is read here. Pages that were read before still go out.
    fn block(&mut self, why: Blocked) {
        let earlier = self.blockage.take();
        let (is_checked, recheck_at) =
            earlier.map_or((false, None), |earlier| (earlier.is_checked, earlier.recheck_at));
        self.blockage = Some(Blockage { why, is_retried: false, is_checked, recheck_at });
    }

    /// The page at this offset has no verdict that is its own: everything after it is dropped and will be read again
    /// when it has. Returns how far the dropped pages had come.
    pub(super) fn block_at(&mut self, offset: i64, why: Blocked) -> Vec<PageState> {
        self.forget_held();
        self.lead = Lead::Within;
        let kept = self.waiting.partition_point(|waiting| waiting.page.source.offset <= offset);
        let dropped: Vec<Waiting<P>> = self.waiting.drain(kept..).collect();
        self.bytes = self.bytes.saturating_sub(dropped.iter().map(|waiting| waiting.page.bytes).sum());
        self.next = offset.saturating_add(1);
        self.block(why);
        dropped.into_iter().map(|waiting| waiting.state).collect()
    }

    /// The page that held it up has a verdict, or may be asked about. Returns where reading continues.
    pub(super) fn unblock(&mut self) -> ReadFrom {
        self.blockage = None;
        self.read_on()
    }

    /// The partition holds `first` to `end`, and not the offset that comes next.
    pub(super) fn out_of_range(&mut self, offset: i64, first: i64, end: i64) {
        if !self.is_seeking() {
            self.block(Blocked::OutOfRange { offset, first, end });
        }
    }

    /// The brokers do not let us read the partition's topic.
    pub(super) fn denied(&mut self) {
        if !self.is_seeking() {
            self.block(Blocked::Denied);
        }
    }

    /// The partition gives pages again, or says that it has no more.
    fn answers(&mut self) {
        self.answered = true;
        self.blockage.take_if(|blockage| blockage.is_retried);
    }

    /// Returns whether it is blocked and its committed offset is to be fetched: an operator may have set it.
    pub(super) fn is_recheck_due(&mut self, now: Duration) -> bool {
        let Some(blockage) = &mut self.blockage else { return false };
        let is_due = now >= *blockage.recheck_at.get_or_insert(now + RECHECK_INTERVAL) && !self.leaving;
        if is_due {
            blockage.recheck_at = Some(now + RECHECK_INTERVAL);
            blockage.is_checked = true;
        }
        is_due
    }

    /// Takes the committed offset of a blocked partition. `in_transaction`: the transaction under way moves it.
    pub(super) fn rechecked(&mut self, committed: Option<i64>, in_transaction: bool) -> Recheck {
        if !self.blockage.as_mut().is_some_and(|blockage| std::mem::take(&mut blockage.is_checked)) {
            return Recheck::Same;
        }
        if committed != self.committed && committed.is_some() && !in_transaction {
            self.rewind();
            return Recheck::Rewound;
        }
        // Records that are gone do not come back, but a broker may have been wrong about them. After the end, others
        // may have taken the place of those that the partition has lost: they are not what comes next.
        let Some(Blockage { why, is_retried, .. }) = &mut self.blockage else { return Recheck::Same };
        let may_pass = match why {
            Blocked::OutOfRange { offset, first, .. } => offset < first,
            // An operator may have added the permission.
            Blocked::Denied => true,
            Blocked::VerdictLost | Blocked::ForeignPage(_) | Blocked::NoOffset => false,
        };
        if may_pass {
            *is_retried = true;
            return Recheck::Retry(self.read_on());
        }
        Recheck::Same
    }

    // ---- pages

    /// Returns the page at an offset.
    pub(super) fn page(&self, offset: i64) -> Option<&Waiting<P>> {
        self.waiting.get(self.index(offset)?)
    }

    /// Sets how far the page at an offset has come, and returns how far it had.
    pub(super) fn set_state(&mut self, offset: i64, state: PageState) -> Option<PageState> {
        let at = self.index(offset)?;
        Some(std::mem::replace(&mut self.waiting.get_mut(at)?.state, state))
    }

    /// The page at an offset is to be withdrawn, whatever was to be done with it.
    pub(super) fn withdraw(&mut self, offset: i64, log: LogPartition, reason: Reject) {
        let at = self.index(offset);
        if let Some(waiting) = at.and_then(|at| self.waiting.get_mut(at)) {
            waiting.page.action = PageAction::Withdraw(log, reason);
        }
    }

    /// Changes what is to be done with the page at an offset.
    pub(super) fn change(&mut self, offset: i64, change: impl FnOnce(&mut Page<P>)) {
        let at = self.index(offset);
        if let Some(waiting) = at.and_then(|at| self.waiting.get_mut(at)) {
            change(&mut waiting.page);
        }
    }

    fn index(&self, offset: i64) -> Option<usize> {
        self.waiting.binary_search_by_key(&offset, |waiting| waiting.page.source.offset).ok()
    }

    /// Returns whether the first page has a known end.
    pub(super) fn is_ready(&self) -> bool {
        self.ready_bytes().is_some()
    }

    /// Returns whether nothing waits but a page that has no verdict of its own.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.front().is_none_or(|waiting| matches!(waiting.state, PageState::Blocked(_)))
    }

    /// Returns how many pages wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.held_back.len()
    }

    /// Returns what the waiting pages hold, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the waiting pages, in offset order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Waiting<P>> {
        self.waiting.iter()
    }

    /// Returns all pages that wait, held back or not, in offset order.
    pub(super) fn pages(&self) -> impl Iterator<Item = &Page<P>> {
        self.waiting.iter().map(|waiting| &waiting.page).chain(&self.held_back)
    }

    /// Adds the next page; nothing is done about it before [`PartitionQueue::admit`].
    pub(super) fn push(&mut self, now: Duration, mut page: Page<P>) {
        self.answers();
        if page.event_time > page.paced_by {
            // A time of the future does not say when the page was written.
            page.paced_by = self.times.last().unwrap_or(page.paced_by);
        }
        self.next = page.source.offset.saturating_add(1);
        self.times.push(page.paced_by);
        self.last_read = now;
        self.at_end = false;
        self.bytes += page.bytes;
        self.held_back.push_back(page);
    }

    /// There is nothing more to read for now.
    pub(super) fn reached_end(&mut self) {
        self.answers();
        self.at_end = true;
    }

    // ---- pacing

    /// Takes in the next page, unless it is too far ahead of the slowest partition by what the next pages agree on.
    /// Returns its source and time.
    pub(super) fn admit(&mut self, slowest: Option<Timestamp>, lead: Duration) -> Option<(Source, Timestamp)> {
        let time = self.next_times().min()?;
        if self.must_wait(time, slowest, lead) {
            self.lead = Lead::Ahead(time);
            return None;
        }
        self.lead = Lead::Within;
        let page = self.held_back.pop_front()?;
        let admitted = (page.source.clone(), page.paced_by);
        self.waiting.push_back(Waiting { page, state: PageState::New });
        Some(admitted)
    }

    /// Begins to wait above the lead, and ends below half of it.
    fn must_wait(&self, time: Timestamp, slowest: Option<Timestamp>, lead: Duration) -> bool {
        let lead = if self.is_ahead() { lead / 2 } else { lead };
        slowest.is_some_and(|slowest| time > slowest.plus(lead))
    }

    /// Returns whether pages that were dropped are to be read again from the next offset on, because they need not wait
    /// any longer.
    pub(super) fn read_dropped_again(&mut self, slowest: Option<Timestamp>, lead: Duration) -> bool {
        let Lead::Dropped(time) = self.lead else { return false };
        if self.must_wait(time, slowest, lead) {
            return false;
        }
        (self.lead, self.at_end) = (Lead::Within, false);
        true
    }

    /// Drops the pages that are held back because they are too far ahead; they are read again when they need not wait.
    pub(super) fn drop_held(&mut self) {
        if let (Lead::Ahead(time), Some(first)) = (self.lead, self.held_back.front()) {
            self.next = first.source.offset;
            self.lead = Lead::Dropped(time);
            self.forget_held();
        }
    }

    fn forget_held(&mut self) {
        let dropped: usize = self.held_back.drain(..).map(|page| page.bytes).sum();
        self.bytes = self.bytes.saturating_sub(dropped);
    }

    fn next_times(&self) -> impl Iterator<Item = Timestamp> {
        self.held_back.iter().take(Backlog::PAGES).map(|page| page.paced_by)
    }

    /// Returns whether pages were read that nothing is done about yet.
    pub(super) fn holds_back(&self) -> bool {
        self.is_dropped() || !self.held_back.is_empty()
    }

    /// Returns whether its next page is too far ahead of another partition.
    pub(super) fn is_ahead(&self) -> bool {
        self.lead != Lead::Within
    }

    fn is_dropped(&self) -> bool {
        matches!(self.lead, Lead::Dropped(_))
    }

    /// Returns whether others have to wait for it: it has pages, or may soon have some.
    pub(super) fn is_waited_for(&self, now: Duration, idle_after: Duration) -> bool {
        let is_silent = !self.paused && now.saturating_sub(self.last_read) > idle_after;
        let may_come = !(self.at_end || is_silent || self.is_seeking());
        (self.holds_back() || may_come) && !self.leaving && self.blockage.is_none()
    }

    /// Pauses or resumes it. Returns whether that is a change to be made in the client.
    pub(super) fn pause(&mut self, now: Duration, is_wanted: bool) -> bool {
        let is_paused = is_wanted || self.is_blocked() || self.leaving || self.waits();
        let is_change = self.paused != is_paused;
        if is_change {
            self.paused = is_paused;
            // Silent because it was paused: it has its time to begin again.
            self.last_read = now;
        }
        is_change
    }

    /// Returns whether it is paused in the client.
    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns whether no more pages are wanted for now: enough are held back to know that they are too far ahead.
    fn waits(&self) -> bool {
        self.is_dropped() || self.is_ahead() && self.held_back.len() >= Backlog::PAGES
    }

    /// Returns whether a page may be read.
    pub(super) fn takes(&self, offset: i64) -> bool {
        !(self.is_seeking() || self.leaving || self.is_dropped() || self.is_blocked() || offset < self.next)
    }

    /// Returns whether enough is known of the partition by reading it.
    pub(super) fn is_known(&self) -> bool {
        self.at_end || self.blockage.is_some() || self.holds_back() || self.times.at_most().is_some()
    }

    /// Returns the time that the partition is at, at most.
    pub(super) fn time(&self) -> Option<Timestamp> {
        let next = match self.lead {
            Lead::Dropped(time) => Some(time),
            Lead::Within | Lead::Ahead(_) => self.next_times().max(),
        };
        next.or_else(|| self.times.at_most())
    }

    /// Returns the time of the next page that nothing is done about yet, by what the next pages agree on.
    pub(super) fn held_back_at(&self) -> Option<Timestamp> {
        match self.lead {
            Lead::Dropped(time) => Some(time),
            Lead::Within | Lead::Ahead(_) => self.next_times().min(),
        }
    }

    /// Returns the time that the partition is at, at least, as far as it was read.
    pub(super) fn foremost(&self) -> Option<Timestamp> {
        self.held_back_at().or_else(|| self.times.at_least())
    }

    /// Returns the size of the first page in bytes, if its end is known.
    pub(super) fn ready_bytes(&self) -> Option<usize> {
        self.waiting.front().filter(|first| matches!(first.state, PageState::Ready(_))).map(|first| first.page.bytes)
    }

    /// Puts a page back that was taken out and is not committed.
    pub(super) fn put_back(&mut self, page: Page<P>, outcome: PageOutcome) {
        self.bytes += page.bytes;
        self.waiting.push_front(Waiting { page, state: PageState::Ready(outcome) });
    }

    /// Takes the first page out if its end is known.
    pub(super) fn pop_ready(&mut self) -> Option<(Page<P>, PageOutcome)> {
        self.ready_bytes()?;
        let Waiting { page, state } = self.waiting.pop_front()?;
        self.bytes = self.bytes.saturating_sub(page.bytes);
        match state {
            PageState::Ready(outcome) => Some((page, outcome)),
            PageState::New | PageState::Asked { .. } | PageState::AwaitingScan(_) | PageState::Blocked(_) => None,
        }
    }
}
