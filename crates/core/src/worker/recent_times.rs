//! The times of the last pages of a partition: one page with a wrong time moves nothing.

use super::backlog::Backlog;
use crate::record::Timestamp;

/// The times of the last pages of a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentTimes {
    times: [Timestamp; Backlog::PAGES],
    /// Pages seen, as far as it matters.
    seen: usize,
    next: usize,
}

impl RecentTimes {
    pub(super) fn push(&mut self, time: Timestamp) {
        if let Some(place) = self.times.get_mut(self.next) {
            *place = time;
        }
        self.next = (self.next + 1) % Backlog::PAGES;
        self.seen = Backlog::PAGES.min(self.seen + 1);
    }

    /// Returns the time of the last page.
    pub(super) fn last(&self) -> Option<Timestamp> {
        let place = self.next.checked_sub(1).unwrap_or(Backlog::PAGES - 1);
        self.times.get(place).copied().filter(|_| self.seen > 0)
    }

    /// The partition is at least here: no page of the last ones is earlier. `None` while too few were seen.
    pub(super) fn at_least(&self) -> Option<Timestamp> {
        self.times.iter().min().copied().filter(|_| self.seen == Backlog::PAGES)
    }

    /// The partition is at most here.
    pub(super) fn at_most(&self) -> Option<Timestamp> {
        self.times.iter().take(self.seen).max().copied()
    }
}
