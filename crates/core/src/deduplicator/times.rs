//! The event times of the pages of a file. Lines have no timestamp besides what is in them.

use crate::record::{EventTime, Timestamp};

/// Event times of lines, in their order.
///
/// ```
/// # use dupgate_core::record::{EventTime, Timestamp};
/// # use dupgate_core::deduplicator::LineTimes;
/// let mut times = LineTimes::new(EventTime::Field, 0, Timestamp::from_millis(0));
/// times.page();
/// assert_eq!(times.of(Some(Timestamp::from_millis(7))), Timestamp::from_millis(7));
/// times.page();
/// assert_eq!(times.of(None), Timestamp::from_millis(7));
/// ```
#[derive(Clone, Debug)]
pub struct LineTimes {
    source: EventTime,
    pages: u64,
    latest: Timestamp,
}

impl LineTimes {
    /// Begins after `pages` pages, the last of which had the time `latest`.
    #[must_use]
    pub const fn new(source: EventTime, pages: u64, latest: Timestamp) -> Self {
        Self { source, pages, latest }
    }

    /// Continues to the next page.
    pub const fn page(&mut self) {
        self.pages += 1;
    }

    /// Returns the event time of this page, which names the time `own`, if any. Call it only for a page that can be
    /// judged.
    pub fn of(&mut self, own: Option<Timestamp>) -> Timestamp {
        self.latest = match self.source {
            EventTime::Record => Timestamp::from_millis(i64::try_from(self.pages).unwrap_or(i64::MAX)),
            EventTime::Field => own.unwrap_or(self.latest),
        };
        self.latest
    }

    /// Returns the number of pages up to this one.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the event time of the last page that could be judged.
    #[must_use]
    pub const fn latest(&self) -> Timestamp {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_a_field_of_time_are_a_millisecond_apart() {
        let mut times = LineTimes::new(EventTime::Record, 40, Timestamp::from_millis(40));
        times.page();
        // A page that cannot be judged takes its millisecond all the same.
        times.page();
        assert_eq!(times.of(Some(Timestamp::from_millis(7))), Timestamp::from_millis(42));
        assert_eq!((times.pages(), times.latest()), (42, Timestamp::from_millis(42)));
    }
}
