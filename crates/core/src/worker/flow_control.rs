//! Flow control: how much may be in flight, and which partitions are read first.
//!
//! The judge forgets by event time, and its stream time is that of the newest page it has judged. So pages are asked
//! about in the order of their times, over all partitions of the input: a page that is much later than those of a
//! slower partition waits, read but not asked about, whichever worker reads the slower one. Copies are then judged
//! before their originals are forgotten.
//!
//! Times come with the records and may be wrong: one that is never moves a partition, because only what all of the next
//! pages agree on counts. Nothing waits for a partition that has no pages left, or does not move, or is so far behind
//! that waiting would not help.
//!
//! A partition that cannot make progress at all is blocked: it is reported and rechecked periodically; the others
//! continue.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::events::{Blocked, Effect};
use super::machine::Worker;
use crate::record::PartitionId;

impl<P> Worker<P> {
    /// Pauses what must not be read now, and resumes what may.
    pub(super) fn pace(&mut self, now: Duration) {
        if self.pacer.is_due(now) {
            self.find_slowest(now);
            self.admit_all();
        }
        self.full = self.is_full();
        if self.full {
            // The slowest partition must not be held up.
            self.partitions.iter_mut().for_each(|(_, queue)| queue.drop_held());
            self.full = self.is_full();
        }
        let all = self.full || self.membership.is_stopping() || self.breaker.tripped().is_some();
        let (mut begin, mut end) = (BTreeSet::new(), BTreeSet::new());
        for (partition, queue) in self.partitions.iter_mut() {
            if queue.pause(now, all) {
                let changed = if queue.is_paused() { &mut begin } else { &mut end };
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

    /// Resumes reading at half of the limit, to avoid flapping.
    fn is_full(&self) -> bool {
        let (bytes, limit) = (self.in_flight_bytes(), self.settings.in_flight_bytes);
        if self.full { bytes > limit / 2 } else { bytes > limit }
    }

    /// Finds the slowest partition, and asks for what has to be known of the others.
    pub(super) fn find_slowest(&mut self, now: Duration) {
        if let Some(heads) = self.pacer.find_slowest(now, &self.partitions) {
            self.effects.push_back(Effect::FetchBacklog(heads));
        }
    }

    /// Takes in the pages of all partitions that need not wait any longer.
    pub(super) fn admit_all(&mut self) {
        if self.membership.is_stopping() {
            return;
        }
        let ahead = self.partitions.iter().filter(|(_, queue)| queue.is_ahead());
        let ahead: Vec<PartitionId> = ahead.map(|(partition, _)| partition.clone()).collect();
        ahead.iter().for_each(|partition| self.admit(partition));
    }

    /// Takes in the pages of a partition that need not wait for a slower one.
    pub(super) fn admit(&mut self, partition: &PartitionId) {
        let Some(queue) = self.partitions.get_mut(partition) else { return };
        if self.pacer.read_dropped_again(queue) {
            let from = queue.read_on();
            self.effects.push_back(Effect::Seek { partition: partition.clone(), from });
        }
        while let Some(queue) = self.partitions.get_mut(partition) {
            let Some(source) = self.pacer.admit(queue) else { return };
            self.resolve(&source);
        }
    }
}

impl<P> Worker<P> {
    /// Returns the partitions that cannot be read on, and why.
    #[must_use]
    pub fn blocked(&self) -> BTreeMap<PartitionId, Blocked> {
        let blocked =
            self.partitions.iter().filter_map(|(partition, queue)| Some((partition.clone(), queue.blocked()?.clone())));
        blocked.collect()
    }

    /// A range is to be judged again, or the earlier scheme decides no more: partitions without an offset may have nothing
    /// judged any more.
    pub(super) fn ask_for_offsets_again(&mut self) {
        if self.partitions.iter().any(|(_, queue)| queue.blocked() == Some(&Blocked::NoOffset)) {
            self.fetch_committed();
        }
    }

    /// Asks for the offsets of blocked partitions when it is time to.
    pub(super) fn recheck_blocked(&mut self, now: Duration) {
        let due = self.partitions.iter_mut().filter_map(|(_, queue)| queue.is_recheck_due(now).then_some(()));
        if due.count() > 0 {
            self.fetch_committed();
        }
    }

    /// The committed offset of a blocked partition is known. If an operator has set it, reading begins there.
    pub(super) fn rechecked(&mut self, partition: &PartitionId, offset: Option<i64>) {
        let in_transaction = self.outgoing.moves(partition);
        if let Some(from) = self.partitions.rechecked(partition, offset, in_transaction) {
            self.effects.push_back(Effect::Seek { partition: partition.clone(), from });
        }
    }
}

#[cfg(test)]
mod tests;
