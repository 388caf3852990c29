//! The pages of one input partition, in offset order, from the moment they are read until they are delivered.

use std::collections::VecDeque;
use std::time::Duration;

use super::blocked::Blocked;
use super::events::{Disposition, LogPartition, Page};
use super::pace::RecentTimes;
use crate::log::RequestId;

/// One input partition that is ours.
#[derive(Debug)]
pub(super) struct Lane<P> {
    /// Pages that are not in a transaction yet.
    waiting: VecDeque<Waiting<P>>,
    /// What they hold.
    bytes: usize,
    /// The committed offset is being fetched: no page may come in.
    pub(super) seeking: bool,
    /// The group has no offset here yet: this one is to be committed before anything is asked.
    pub(super) anchor: Anchor,
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
    /// It is too far ahead of another one.
    pub(super) leads: bool,
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
pub(super) enum Anchor {
    /// It has one.
    Held,
    /// It has none, and where reading begins is not known yet.
    Missing,
    /// It has none; this is where reading begins.
    Wanted(i64),
}

/// One page and how far it has come.
#[derive(Debug)]
pub(super) struct Waiting<P> {
    pub(super) page: Page<P>,
    pub(super) stage: Stage,
}

/// How far a page has come.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// Nothing was done about it yet.
    New,
    /// Asked. The offset of the entry is known once its delivery is.
    Asked { log: LogPartition, request: RequestId, offset: Option<i64> },
    /// Judged, but its ruling must be read back from this log.
    Recalling(LogPartition),
    /// Judged, and its ruling cannot be read any more, or is about another page.
    Blocked(LogPartition),
    /// Its end is known.
    Ready(Disposition),
}

impl<P> Lane<P> {
    /// A partition just assigned: nothing is read before its committed offset is known.
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            seeking: true,
            anchor: Anchor::Held,
            start: None,
            leaving: false,
            at_end: false,
            times: RecentTimes::default(),
            last_read: Duration::ZERO,
            leads: false,
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
        let Self { leaving, paused, start, .. } = *self;
        // What stands where lost records stood is no reason to read on.
        let is_cut = |why: &Blocked| matches!(why, Blocked::OutOfRange { offset, end, .. } if offset > end);
        let blocked = self.blocked.take().filter(is_cut);
        *self = Self { start, leaving, blocked, paused, ..Self::new() };
    }

    /// Returns the page at an offset.
    pub(super) fn page_mut(&mut self, offset: i64) -> Option<&mut Waiting<P>> {
        let at = self.waiting.binary_search_by_key(&offset, |waiting| waiting.page.source.offset).ok()?;
        self.waiting.get_mut(at)
    }

    /// Says whether the first page has a known end.
    pub(super) fn is_ready(&self) -> bool {
        self.waiting.front().is_some_and(|waiting| matches!(waiting.stage, Stage::Ready(_)))
    }

    /// Says whether nothing waits but a page that has no ruling of its own.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.front().is_none_or(|waiting| matches!(waiting.stage, Stage::Blocked(_)))
    }

    /// Returns how many pages wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
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

    /// Adds the next page.
    pub(super) fn push(&mut self, now: Duration, page: Page<P>) {
        self.next = page.source.offset.saturating_add(1);
        self.times.push(page.paced_by);
        self.last_read = now;
        self.at_end = false;
        self.bytes += page.bytes;
        self.waiting.push_back(Waiting { page, stage: Stage::New });
    }

    /// Takes the first page out if its end is known.
    pub(super) fn pop_ready(&mut self) -> Option<(Page<P>, Disposition)> {
        if !matches!(self.waiting.front()?.stage, Stage::Ready(_)) {
            return None;
        }
        let Waiting { page, stage } = self.waiting.pop_front()?;
        self.bytes = self.bytes.saturating_sub(page.bytes);
        match stage {
            Stage::Ready(disposition) => Some((page, disposition)),
            Stage::New | Stage::Asked { .. } | Stage::Recalling(_) | Stage::Blocked(_) => None,
        }
    }

    /// This page has no ruling that is its own: everything behind it is dropped and will be read again when it has.
    pub(super) fn block_at(&mut self, offset: i64, why: Blocked) {
        while self.waiting.back().is_some_and(|waiting| waiting.page.source.offset > offset) {
            let dropped = self.waiting.pop_back().map_or(0, |waiting| waiting.page.bytes);
            self.bytes = self.bytes.saturating_sub(dropped);
        }
        self.next = offset.saturating_add(1);
        self.block(why);
    }
}
