//! Pace: how much may be in flight, and which partition is read first.
//!
//! A partition whose pages are much later than those of another one waits for it, so that copies are judged before their
//! originals are forgotten. Times come with the records and may be wrong: one that is never moves a partition, because
//! only what all of the last pages agree on counts. Nobody waits for a partition that has nothing to read, or gives
//! nothing, or is so far behind that waiting would be of no use.

use std::collections::BTreeSet;
use std::time::Duration;

use super::events::Effect;
use super::lane::Lane;
use super::life::Worker;
use crate::record::Timestamp;

/// When a partition waits for another one.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// How far, in event time, a partition may be read ahead of one that lags behind. It goes on when it leads by half of
    /// that.
    pub lead: Duration,
    /// How far behind a partition may be to be waited for: nothing that is found for its pages is remembered beyond.
    pub reach: Duration,
    /// For how long a partition that gives no pages is waited for.
    pub idle_after: Duration,
    /// From one look at who leads to the next.
    pub interval: Duration,
}

/// Pages that have to agree.
const PAGES: usize = 8;

/// The times of the pages read last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentTimes {
    times: [Timestamp; PAGES],
    /// Pages seen, as far as it matters.
    seen: usize,
    next: usize,
}

impl RecentTimes {
    pub(super) fn push(&mut self, time: Timestamp) {
        if let Some(place) = self.times.get_mut(self.next) {
            *place = time;
        }
        self.next = (self.next + 1) % PAGES;
        self.seen = PAGES.min(self.seen + 1);
    }

    /// The partition is at least here: no page of the last ones is earlier. `None` while too few were seen.
    fn at_least(&self) -> Option<Timestamp> {
        self.times.iter().min().copied().filter(|_| self.seen == PAGES)
    }

    /// The partition is at most here.
    fn at_most(&self) -> Option<Timestamp> {
        self.times.iter().max().copied().filter(|_| self.seen == PAGES)
    }
}

impl<P> Worker<P> {
    /// Pauses what must not be read now, and resumes what may.
    pub(super) fn pace(&mut self, now: Duration) {
        let bytes = self.in_flight_bytes();
        let limit = self.settings.in_flight_bytes;
        // Half empty before reading goes on, so that it does not flutter.
        self.full = if self.full { bytes > limit / 2 } else { bytes > limit };
        let all = self.full || self.stop_by.is_some() || self.breaker.tripped().is_some();
        if now >= self.paced_at + self.settings.pacing.interval {
            self.paced_at = now;
            self.find_leaders(now);
        }
        let (mut begin, mut end) = (BTreeSet::new(), BTreeSet::new());
        for (partition, lane) in &mut self.lanes {
            let wanted = all || lane.is_blocked() || lane.leaving || lane.leads;
            if wanted != lane.paused {
                lane.paused = wanted;
                let changed = if wanted { &mut begin } else { &mut end };
                changed.insert(partition.clone());
                // Silent because it was paused: it has its time to begin again.
                lane.last_read = now;
            }
        }
        if !begin.is_empty() {
            self.effects.push_back(Effect::Pause(begin));
        }
        if !end.is_empty() {
            self.effects.push_back(Effect::Resume(end));
        }
    }

    /// Finds the partitions that are too far ahead of another one that still has pages.
    fn find_leaders(&mut self, now: Duration) {
        let Pacing { lead, reach, idle_after, .. } = self.settings.pacing;
        let has_pages = |lane: &&Lane<P>| {
            let is_silent = !lane.paused && now.saturating_sub(lane.last_read) > idle_after;
            !(lane.at_end || is_silent || lane.seeking || lane.leaving || lane.blocked.is_some())
        };
        let mut behind: Vec<Timestamp> =
            self.lanes.values().filter(has_pages).filter_map(|lane| lane.times.at_most()).collect();
        behind.sort_unstable();
        for lane in self.lanes.values_mut() {
            lane.leads = lane.times.at_least().is_some_and(|time| {
                let lead = if lane.leads { lead / 2 } else { lead };
                let reached = behind.partition_point(|other| *other < time.minus(reach));
                behind.get(reached).is_some_and(|other| *other < time.minus(lead))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::PartitionId;
    use crate::worker::bench::{Bench, input};
    use crate::worker::{Disposition, Errand, Event, Page};

    const HOUR: i64 = 3_600_000;
    const NOW: i64 = 1_000_000 * HOUR;
    const YEAR_2100: i64 = 4_102_444_800_000;

    /// Two partitions that are read from their beginning; tombstones, which need no judge.
    struct Reading {
        bench: Bench,
        next: [i64; 2],
        paused: BTreeSet<PartitionId>,
    }

    impl Reading {
        fn new() -> Self {
            let mut bench = Bench::new(vec![]);
            bench.offsets([Some(0), Some(0)]);
            Self { bench, next: [0, 0], paused: BTreeSet::new() }
        }

        fn note(&mut self, effects: Vec<Effect<()>>) {
            for effect in effects {
                if let Effect::Pause(some) = effect {
                    self.paused.extend(some);
                } else if let Effect::Resume(some) = effect {
                    self.paused.retain(|partition| !some.contains(partition));
                }
            }
        }

        fn page(&mut self, partition: usize, time: i64) {
            let number = i32::try_from(partition).unwrap();
            let source = input(number).at(self.next[partition]);
            self.next[partition] += 1;
            let time = Timestamp::from_millis(time);
            let errand = Errand::Settled(Disposition::Tombstone);
            let page = Page { source, bytes: 0, event_time: time, paced_by: time, errand, payload: () };
            let effects = self.bench.handle(Event::Page(page));
            self.note(effects);
        }

        fn wait(&mut self, span: Duration) {
            self.bench.now += span;
            let effects = self.bench.handle(Event::Tick);
            self.note(effects);
        }

        fn is_paused(&self, partition: i32) -> bool {
            self.paused.contains(&input(partition))
        }
    }

    #[test]
    fn a_page_of_the_year_2100_parks_no_partition() {
        let mut reading = Reading::new();
        for step in 0..20 {
            (0..2).for_each(|partition| reading.page(partition, NOW + step));
            reading.wait(Duration::from_millis(100));
        }
        reading.page(0, YEAR_2100);
        reading.wait(Duration::from_millis(100));
        assert!(reading.paused.is_empty(), "{:?}", reading.paused);
    }

    proptest! {
        /// As many wild pages as it takes for all of the last ones to be wild are a partition of another time.
        #[test]
        fn wild_times_among_right_ones_park_nobody(
            wild in prop::collection::vec((0..200_usize, 0..2_usize, any::<i64>()), 0..7)
        ) {
            let mut reading = Reading::new();
            for step in 0..200 {
                for partition in 0..2 {
                    let found = wild.iter().find(|&&(at, of, _)| (at, of) == (step, partition));
                    let time = found.map_or(NOW + i64::try_from(step).unwrap(), |&(_, _, time)| time);
                    reading.page(partition, time);
                }
                reading.wait(Duration::from_millis(100));
                prop_assert!(reading.paused.is_empty(), "{:?} at {step}", reading.paused);
            }
        }
    }

    /// Partition 0 is two hours ahead of partition 1, which is behind.
    fn ahead() -> Reading {
        let mut reading = Reading::new();
        for step in 0..20 {
            reading.page(0, NOW + step + 2 * HOUR);
            reading.page(1, NOW + step);
        }
        reading.wait(Duration::from_millis(100));
        assert!(reading.is_paused(0) && !reading.is_paused(1));
        reading
    }

    #[test]
    fn a_partition_far_ahead_waits_until_the_other_is_near() {
        let mut reading = ahead();
        for (minutes, paused) in [(70, true), (85, true), (95, false), (70, false)] {
            (0..8).for_each(|_| reading.page(1, NOW + minutes * HOUR / 60));
            reading.wait(Duration::from_millis(100));
            assert_eq!(reading.is_paused(0), paused, "{minutes} min");
        }
    }

    #[test]
    fn nobody_waits_for_a_partition_that_gives_nothing() {
        let mut reading = ahead();
        reading.wait(Duration::from_secs(3));
        assert!(reading.is_paused(0));
        reading.wait(Duration::from_secs(3));
        assert!(!reading.is_paused(0), "its leader is away");

        let mut reading = ahead();
        let effects = reading.bench.handle(Event::AtEnd(input(1)));
        reading.note(effects);
        reading.wait(Duration::from_millis(100));
        assert!(!reading.is_paused(0), "there is nothing to read");
    }

    #[test]
    fn nobody_waits_for_a_partition_that_is_beyond_all_that_is_remembered() {
        let mut reading = Reading::new();
        for step in 0..20 {
            reading.page(0, NOW + step);
            reading.page(1, step);
        }
        reading.wait(Duration::from_millis(100));
        assert!(reading.paused.is_empty(), "records without a timestamp are of 1970");
    }
}
