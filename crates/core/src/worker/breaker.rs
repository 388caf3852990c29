//! The breaker: a broken deploy must not drain the topic into the dead letters.

use std::collections::VecDeque;

use crate::fingerprint::PerMille;

/// Watches the share of dead letters among the last records.
#[derive(Debug)]
pub(super) struct Breaker {
    limit: PerMille,
    last: VecDeque<bool>,
    bad: usize,
    tripped: bool,
}

/// Over how many records the share is taken.
const RECORDS: usize = 1000;

impl Breaker {
    /// Trips when more than `limit` of the last 1000 records became dead letters. A limit of one never trips.
    pub(super) fn new(limit: PerMille) -> Self {
        Self { limit, last: VecDeque::with_capacity(RECORDS), bad: 0, tripped: false }
    }

    /// Notes how one record ended. Returns whether the breaker is tripped now; it stays so.
    pub(super) fn note(&mut self, is_dead_letter: bool) -> bool {
        if self.last.len() == RECORDS && self.last.pop_front() == Some(true) {
            self.bad -= 1;
        }
        self.last.push_back(is_dead_letter);
        self.bad += usize::from(is_dead_letter);
        let share = PerMille::of(self.bad as u64, RECORDS as u64);
        self.tripped |= self.last.len() == RECORDS && share > self.limit;
        self.tripped
    }

    /// Returns whether it has tripped, and with how many dead letters of the last 1000 records.
    pub(super) fn tripped(&self) -> Option<usize> {
        self.tripped.then_some(self.bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trips_above_the_limit_of_a_full_thousand_and_stays_tripped() {
        let mut breaker = Breaker::new(PerMille(500));
        (0..500).for_each(|_| assert!(!breaker.note(true)));
        (0..500).for_each(|_| assert!(!breaker.note(false)));
        // The oldest record, a dead letter, goes; another one comes: still exactly half.
        assert!(!breaker.note(true));
        assert_eq!(breaker.tripped(), None);
        let mut breaker = Breaker::new(PerMille(500));
        (0..499).for_each(|_| assert!(!breaker.note(false)));
        (0..500).for_each(|_| assert!(!breaker.note(true)));
        assert!(breaker.note(true));
        (0..2000).for_each(|_| assert!(breaker.note(false)));
    }
}
