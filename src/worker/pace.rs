//! Pace: how much may be in flight, and which partition is read first.

use std::collections::BTreeSet;

use super::events::Effect;
use super::lane::Lane;
use super::life::Worker;

impl<P> Worker<P> {
    /// Pauses what must not be read now, and resumes what may.
    pub(super) fn pace(&mut self) {
        let bytes = self.in_flight_bytes();
        let limit = self.settings.in_flight_bytes;
        // Half empty before reading goes on, so that it does not flutter.
        self.full = if self.full { bytes > limit / 2 } else { bytes > limit };
        let all = self.full || self.stop_by.is_some() || self.breaker.tripped().is_some();
        let ahead_of = self.slowest();
        let pause = |lane: &Lane<P>| {
            let leads = lane.last_time.zip(ahead_of).is_some_and(|(time, limit)| time > limit);
            all || lane.is_blocked() || lane.leaving || leads
        };
        let (mut begin, mut end) = (BTreeSet::new(), BTreeSet::new());
        for (partition, lane) in &mut self.lanes {
            let wanted = pause(lane);
            if wanted != lane.paused {
                lane.paused = wanted;
                let changed = if wanted { &mut begin } else { &mut end };
                changed.insert(partition.clone());
            }
        }
        if !begin.is_empty() {
            self.effects.push_back(Effect::Pause(begin));
        }
        if !end.is_empty() {
            self.effects.push_back(Effect::Resume(end));
        }
    }

    /// Returns the event time beyond which a partition is too far ahead of the slowest one that still has pages.
    fn slowest(&self) -> Option<crate::record::Timestamp> {
        let behind = self.lanes.values().filter(|lane| !lane.at_end && lane.blocked.is_none() && !lane.leaving);
        behind.filter_map(|lane| lane.last_time).min().map(|time| time.plus(self.settings.lead))
    }
}
