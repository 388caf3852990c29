//! The queue of one input partition: pages in offset order from reading to delivery.

use std::collections::VecDeque;
use std::time::Duration;

use super::blocked::Blocked;
use super::events::{LogPartition, Page, PageOutcome};
use super::flow_control::RecentTimes;
use super::progress::Backlog;
use crate::protocol::{RequestId, RequestOffset};
use crate::record::{Source, Timestamp};

/// One input partition that is ours.
#[derive(Debug)]
pub(super) struct PartitionQueue<P> {
    /// Pages that are not in a transaction yet.
    waiting: VecDeque<Waiting<P>>,
    /// Pages behind these: nothing is done about them while they are too far ahead of another partition.
    held_back: VecDeque<Page<P>>,
    /// What they hold.
    bytes: usize,
    /// The committed offset is being fetched: no page may come in.
    pub(super) seeking: bool,
    /// The group has no offset here yet: this one is to be committed before anything is asked.
    pub(super) initial_offset: InitialOffset,
    /// Where reading began: kept until the group has an offset here, so that an abort does not move it.
    pub(super) start: Option<i64>,
    /// It is being revoked: nothing new is asked or read.
    pub(super) leaving: bool,
    /// There was nothing more to read.
    pub(super) at_end: bool,
    /// Of the pages read last.
    pub(super) times: RecentTimes,
    /// When a page was read last, or might have been.
    pub(super) last_read: Duration,
    /// Its next page is too far ahead of another partition, and of this time.
    pub(super) ahead: Option<Timestamp>,
    /// Pages from `next` on were read and dropped because the queue was full.
    dropped: bool,
    /// Why it cannot be read on.
    pub(super) blocked: Option<Blocked>,
    /// It is blocked, and reading is tried all the same.
    pub(super) retrying: bool,
    /// It is blocked, and its committed offset is being fetched.
    pub(super) checking: bool,
    /// When to look at it again.
    pub(super) recheck_at: Option<Duration>,
    /// The group's offset, as far as we know.
    pub(super) committed: Option<i64>,
    /// It is paused in the client.
    pub(super) paused: bool,
    /// The next page must not have a smaller offset.
    pub(super) next: i64,
}

/// Whether the group has a committed offset in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InitialOffset {
    /// It has one.
    Committed,
    /// It has none, and where reading begins is not known yet.
    Missing,
    /// It has none; this is where reading begins.
    Wanted(i64),
}

/// One page and how far it has come.
#[derive(Debug)]
pub(super) struct Waiting<P> {
    pub(super) page: Page<P>,
    pub(super) stage: PageState,
}

/// How far a page has come.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PageState {
    /// Nothing was done about it yet.
    New,
    /// Asked. The offset of the request is known once its delivery is.
    Asked { log: LogPartition, request: RequestId, offset: Option<RequestOffset> },
    /// Judged, but its verdict must be read back from this log.
    Recalling(LogPartition),
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
            seeking: true,
            initial_offset: InitialOffset::Committed,
            start: None,
            leaving: false,
            at_end: false,
            times: RecentTimes::default(),
            last_read: now,
            ahead: None,
            dropped: false,
            blocked: None,
            retrying: false,
            checking: false,
            recheck_at: None,
            committed: None,
            paused: false,
            next: 0,
        }
    }

    /// Drops what was read; it will be read again from the committed offset.
    pub(super) fn rewind(&mut self) {
        let Self { leaving, paused, start, times, last_read, .. } = *self;
        // What stands where lost records stood is no reason to read on.
        let is_cut = |why: &Blocked| matches!(why, Blocked::OutOfRange { offset, end, .. } if offset > end);
        let blocked = self.blocked.take().filter(is_cut);
        *self = Self { start, leaving, times, blocked, paused, ..Self::new(last_read) };
    }

    /// Returns the page at an offset.
    pub(super) fn page_mut(&mut self, offset: i64) -> Option<&mut Waiting<P>> {
        let at = self.waiting.binary_search_by_key(&offset, |waiting| waiting.page.source.offset).ok()?;
        self.waiting.get_mut(at)
    }

    /// Says whether the first page has a known end.
    pub(super) fn is_ready(&self) -> bool {
        self.waiting.front().is_some_and(|waiting| matches!(waiting.stage, PageState::Ready(_)))
    }

    /// Says whether nothing waits but a page that has no verdict of its own.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.front().is_none_or(|waiting| matches!(waiting.stage, PageState::Blocked(_)))
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

    /// Returns the waiting pages, in offset order.
    pub(super) fn waiting_mut(&mut self) -> impl Iterator<Item = &mut Waiting<P>> {
        self.waiting.iter_mut()
    }

    /// Returns all pages that wait, held back or not, in offset order.
    pub(super) fn pages(&self) -> impl Iterator<Item = &Page<P>> {
        self.waiting.iter().map(|waiting| &waiting.page).chain(&self.held_back)
    }

    /// Adds the next page; nothing is done about it before [`PartitionQueue::admit`].
    pub(super) fn push(&mut self, now: Duration, page: Page<P>) {
        self.next = page.source.offset.saturating_add(1);
        self.times.push(page.paced_by);
        self.last_read = now;
        self.at_end = false;
        self.bytes += page.bytes;
        self.held_back.push_back(page);
    }

    /// Takes in the next page, unless it is too far ahead of the slowest partition by what the next pages agree on.
    /// Returns its source and time.
    pub(super) fn admit(&mut self, slowest: Option<Timestamp>, lead: Duration) -> Option<(Source, Timestamp)> {
        let time = self.next_times().min()?;
        if self.must_wait(time, slowest, lead) {
            self.ahead = Some(time);
            return None;
        }
        self.ahead = None;
        let page = self.held_back.pop_front()?;
        let admitted = (page.source.clone(), page.paced_by);
        self.waiting.push_back(Waiting { page, stage: PageState::New });
        Some(admitted)
    }

    /// Begins to wait above the lead, and ends below half of it.
    fn must_wait(&self, time: Timestamp, slowest: Option<Timestamp>, lead: Duration) -> bool {
        let lead = if self.ahead.is_some() { lead / 2 } else { lead };
        slowest.is_some_and(|slowest| time > slowest.plus(lead))
    }

    /// Says whether pages that were dropped are to be read again from the next offset on, because they need not wait any
    /// longer.
    pub(super) fn read_dropped_again(&mut self, slowest: Option<Timestamp>, lead: Duration) -> bool {
        if !self.dropped || self.ahead.is_some_and(|time| self.must_wait(time, slowest, lead)) {
            return false;
        }
        (self.ahead, self.dropped, self.at_end) = (None, false, false);
        true
    }

    /// Drops the pages that are held back because they are too far ahead; they are read again when they need not wait.
    pub(super) fn drop_held(&mut self) {
        if self.ahead.is_some()
            && let Some(first) = self.held_back.front()
        {
            self.next = first.source.offset;
            self.dropped = true;
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

    /// Says whether pages were read that nothing is done about yet.
    pub(super) fn holds_back(&self) -> bool {
        self.dropped || !self.held_back.is_empty()
    }

    /// Says whether no more pages are wanted for now: enough are held back to know that they are too far ahead.
    pub(super) fn waits(&self) -> bool {
        self.dropped || self.ahead.is_some() && self.held_back.len() >= Backlog::PAGES
    }

    /// Says whether a page may be read.
    pub(super) fn takes(&self, offset: i64) -> bool {
        !(self.seeking || self.leaving || self.dropped || self.is_blocked() || offset < self.next)
    }

    /// Says whether enough is known of the partition by reading it.
    pub(super) fn is_known(&self) -> bool {
        self.at_end || self.blocked.is_some() || self.holds_back() || self.times.at_most().is_some()
    }

    /// Returns the time that the partition is at, at most.
    pub(super) fn time(&self) -> Option<Timestamp> {
        let next = if self.dropped { self.ahead } else { self.next_times().max() };
        next.or_else(|| self.times.at_most())
    }

    /// Returns the time of the next page that nothing is done about yet, by what the next pages agree on.
    pub(super) fn held_back_at(&self) -> Option<Timestamp> {
        if self.dropped { self.ahead } else { self.next_times().min() }
    }

    /// Returns the time that the partition is at, at least, as far as it was read.
    pub(super) fn foremost(&self) -> Option<Timestamp> {
        self.held_back_at().or_else(|| self.times.at_least())
    }

    /// Takes the first page out if its end is known.
    pub(super) fn pop_ready(&mut self) -> Option<(Page<P>, PageOutcome)> {
        if !matches!(self.waiting.front()?.stage, PageState::Ready(_)) {
            return None;
        }
        let Waiting { page, stage } = self.waiting.pop_front()?;
        self.bytes = self.bytes.saturating_sub(page.bytes);
        match stage {
            PageState::Ready(outcome) => Some((page, outcome)),
            PageState::New | PageState::Asked { .. } | PageState::Recalling(_) | PageState::Blocked(_) => None,
        }
    }

    /// This page has no verdict that is its own: everything behind it is dropped and will be read again when it has.
    pub(super) fn block_at(&mut self, offset: i64, why: Blocked) {
        self.forget_held();
        (self.ahead, self.dropped) = (None, false);
        while self.waiting.back().is_some_and(|waiting| waiting.page.source.offset > offset) {
            let dropped = self.waiting.pop_back().map_or(0, |waiting| waiting.page.bytes);
            self.bytes = self.bytes.saturating_sub(dropped);
        }
        self.next = offset.saturating_add(1);
        self.block(why);
    }
}
