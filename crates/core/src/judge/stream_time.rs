//! Stream time: how far event time has come. Originals expire by it.
//!
//! So it must not follow a clock that is wrong for a moment. The time of a page is bounded by the time at which a broker
//! appended its request, but brokers have clocks, too: one that is three days ahead for a second would end the window.
//!
//! Stream time follows a page at once as long as it *steps* no further than the rules allow partitions to lag: after such
//! a step, every original within the window of a page of the present is still held. A longer *leap* needs proof:
//! [`PROOF_PAGES`] pages more that are ahead of the largest step than pages that are not, and their times must span
//! `window.max_future_skew`. A crawl that goes on after a pause proves it within that span, and a clock that is wrong for
//! a second spans a second. Until then only expiry waits: a page that is ahead is compared with what precedes it by its own
//! time, so its verdict does not depend on the proof, and memory stays bounded by the capacity. A replay in the order of
//! event time leaps at each gap in the same way. With one page a day, stream time is up to eight pages behind.
//!
//! Sites cannot do much about it. They may write any time into their pages, but none that is later than the record's own
//! timestamp or the append time of the request, by more than the allowed skew. So they cannot have stream time leap to a
//! time that the crawler or the brokers have not reached; at most, eight pages of theirs prove a true leap a little
//! earlier. Pages with old times refute a leap, so a source of at least half of all pages can delay one; while it does,
//! originals stay longer than the window, up to the capacity.
//!
//! It moves back only when an operator says so ([`RequestBody::SetTime`](crate::protocol::RequestBody::SetTime)).

use crate::protocol::{Leap, Rules};
use crate::record::Timestamp;

/// Number of pages, beyond those that are not ahead, that must be ahead before stream time leaps.
pub(super) const PROOF_PAGES: u64 = 8;

/// The stream time, and the leap that it is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamTime {
    time: Timestamp,
    leap: Option<Leap>,
}

impl StreamTime {
    /// The stream time before the first page.
    pub const START: Self = Self { time: Timestamp::MIN, leap: None };

    /// Returns the stream time that a checkpoint names, with the leap that is under way.
    #[must_use]
    pub const fn new(time: Timestamp, leap: Option<Leap>) -> Self {
        Self { time, leap }
    }

    /// Returns the time.
    #[must_use]
    pub const fn get(self) -> Timestamp {
        self.time
    }

    /// Returns the leap that is under way.
    #[must_use]
    pub const fn leap(self) -> Option<Leap> {
        self.leap
    }

    /// Follows a page that was judged with this event time.
    pub fn follow(&mut self, event_time: Timestamp, rules: &Rules) {
        let step = rules.lateness.max(rules.max_future_skew);
        if self.time == Timestamp::MIN || event_time <= self.time.plus(step) {
            self.time = self.time.max(event_time);
            // Pages of the present refute the leap.
            self.leap = self.leap.and_then(Leap::refuted).filter(|leap| leap.from > self.time.plus(step));
            return;
        }
        let before = self.leap.unwrap_or(Leap { from: event_time, pages: 0 });
        let leap = Leap { from: before.from.min(event_time), pages: before.pages.saturating_add(1) };
        if leap.pages >= PROOF_PAGES && event_time >= leap.from.plus(rules.max_future_skew) {
            *self = Self { time: event_time, leap: None };
        } else {
            self.leap = Some(leap);
        }
    }

    /// Sets it back to a time, unless it is earlier.
    pub fn set_back(&mut self, time: Timestamp) {
        if time < self.time {
            *self = Self { time, leap: None };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::judge::tests;

    const SECOND: i64 = 1_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;

    fn rules() -> Rules {
        Rules { lateness: Duration::from_hours(6), max_future_skew: Duration::from_mins(10), ..tests::rules(1_000) }
    }

    /// Follows pages of these times. Returns the stream time after the last one.
    fn follow(stream: &mut StreamTime, times: impl IntoIterator<Item = i64>) -> i64 {
        let rules = rules();
        for time in times {
            stream.follow(Timestamp::from_millis(time), &rules);
        }
        stream.get().millis()
    }

    /// One page each second.
    fn seconds(from: i64, count: i64) -> impl Iterator<Item = i64> {
        (0..count).map(move |number| from + number * SECOND)
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_second_does_not_move_the_stream_time() {
        let mut stream = StreamTime::START;
        assert_eq!(follow(&mut stream, seconds(0, 100)), 99 * SECOND);
        // Two days ahead, for a second with a thousand pages.
        assert_eq!(follow(&mut stream, (0..1_000).map(|millis| 2 * DAY + millis)), 99 * SECOND);
        // A second time, an hour later.
        assert_eq!(follow(&mut stream, seconds(100 * SECOND, 3_600)), 3_699 * SECOND);
        assert_eq!(stream.leap(), None, "refuted");
        let again = (0..1_000).map(|millis| 2 * DAY + HOUR + millis);
        assert_eq!(follow(&mut stream, again), 3_699 * SECOND);
        // Two days later it is the present.
        let hourly = (1..60).map(|hour| hour * HOUR);
        assert_eq!(follow(&mut stream, hourly), 59 * HOUR);
        assert_eq!(stream.leap(), None);
    }

    #[test]
    fn after_a_pause_of_the_crawl_the_stream_time_follows_within_the_allowed_skew() {
        let mut stream = StreamTime::START;
        follow(&mut stream, seconds(0, 100));
        let after = seconds(2 * DAY, 10 * 60);
        assert_eq!(follow(&mut stream, after), 99 * SECOND, "not proved yet");
        assert_eq!(follow(&mut stream, [2 * DAY + 10 * MINUTE]), 2 * DAY + 10 * MINUTE);
        assert_eq!(stream.leap(), None);
    }

    #[test]
    fn a_partition_that_lags_delays_a_leap_only_while_most_pages_are_its_own() {
        let mut stream = StreamTime::START;
        follow(&mut stream, seconds(0, 100));
        let mixed = (0..1_000).flat_map(|number| [100 * SECOND + number, 2 * DAY + number * SECOND]);
        assert!(follow(&mut stream, mixed.clone()) < HOUR, "as many pages are of the present");
        let most = (0..1_000).flat_map(|number| {
            let ahead = 2 * DAY + number * 2 * SECOND;
            [100 * SECOND + number, ahead, ahead + SECOND]
        });
        assert!(follow(&mut stream, most) > 2 * DAY);
    }

    #[test]
    fn it_is_set_back_and_never_forward() {
        let mut stream = StreamTime::START;
        follow(&mut stream, [2 * DAY, 3 * DAY]);
        stream.set_back(Timestamp::from_millis(3 * DAY));
        assert_eq!((stream.get().millis(), stream.leap().is_some()), (2 * DAY, true), "it is no later");
        stream.set_back(Timestamp::from_millis(HOUR));
        assert_eq!((stream.get().millis(), stream.leap()), (HOUR, None));
        assert_eq!(follow(&mut stream, seconds(HOUR, 100)), HOUR + 99 * SECOND);
    }

    #[test]
    fn a_stream_with_few_pages_follows_after_eight_of_them() {
        let mut stream = StreamTime::START;
        let daily = |days: std::ops::Range<i64>| days.map(|day| day * DAY);
        assert_eq!(follow(&mut stream, daily(0..8)), 0);
        assert_eq!(follow(&mut stream, daily(8..9)), 8 * DAY);
    }

    #[test]
    fn the_first_page_and_steps_within_the_allowed_lateness_need_no_proof() {
        let mut stream = StreamTime::START;
        assert_eq!(follow(&mut stream, [5 * DAY]), 5 * DAY);
        assert_eq!(follow(&mut stream, [5 * DAY + 6 * HOUR]), 5 * DAY + 6 * HOUR);
        assert_eq!(follow(&mut stream, [5 * DAY + 12 * HOUR + 1]), 5 * DAY + 6 * HOUR);
        assert_eq!(follow(&mut stream, [0]), 5 * DAY + 6 * HOUR, "it does not move back");
    }
}
