//! Pages that go wrong in numbers: requests that the judge passes without a verdict, and dead letters.
//!
//! A request that was passed once was lost with a transaction, and is made again at once. One that is passed each time
//! will not be answered soon: the judge counts its page as judged, and no verdict says so. After an unclean election of
//! a leader of the verdict log that may be so for thousands of pages, and asking for all of them ten times a second
//! would keep the judge busy with nothing else.
//!
//! A broken deploy must not drain the topic into the dead letters: the [`Breaker`] stops the input before.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use crate::fingerprint::PerMille;
use crate::protocol::RequestId;

/// From the second time that a request was passed to the next time that it is made; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest time to the next one.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Requests that were passed, until they are answered or no page waits for them any more.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    /// How often each was passed.
    passes: HashMap<RequestId, u32>,
    due: BTreeSet<(Duration, RequestId)>,
}

impl Unanswered {
    /// The judge has passed this request. Returns whether it is to be made again at once.
    pub(super) fn passed(&mut self, now: Duration, request: RequestId) -> bool {
        let passes = self.passes.entry(request).or_default();
        *passes = passes.saturating_add(1);
        let Some(doublings) = passes.checked_sub(2) else { return true };
        let pause = 2_u32.checked_pow(doublings).map_or(LONGEST_PAUSE, |factor| FIRST_PAUSE.saturating_mul(factor));
        self.due.insert((now.saturating_add(pause.min(LONGEST_PAUSE)), request));
        false
    }

    /// Returns the requests that are to be made again by now.
    pub(super) fn take_due(&mut self, now: Duration) -> impl Iterator<Item = RequestId> + use<> {
        let later = self.due.split_off(&(now.saturating_add(Duration::from_nanos(1)), RequestId(0)));
        std::mem::replace(&mut self.due, later).into_iter().map(|(_, request)| request)
    }

    /// Keeps only the requests that somebody waits for.
    pub(super) fn retain(&mut self, is_waited_for: impl Fn(RequestId) -> bool) {
        self.passes.retain(|request, _| is_waited_for(*request));
        self.due.retain(|(_, request)| is_waited_for(*request));
    }

    /// Returns how many of the requests that somebody waits for were passed more than once.
    pub(super) fn count(&self, is_waited_for: impl Fn(RequestId) -> bool) -> usize {
        self.passes.iter().filter(|(request, passes)| **passes > 1 && is_waited_for(**request)).count()
    }

    /// Returns how many requests are remembered, answered ones included.
    pub(super) fn remembered(&self) -> usize {
        self.passes.len()
    }
}

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

    const SECOND: Duration = Duration::from_secs(1);

    fn due(unanswered: &mut Unanswered, now: Duration) -> Vec<RequestId> {
        unanswered.take_due(now).collect()
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let mut unanswered = Unanswered::default();
        let (mut now, request) = (Duration::ZERO, RequestId(7));
        assert!(unanswered.passed(now, request), "once is at once");
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert!(!unanswered.passed(now, request));
            now += seconds * SECOND;
            assert_eq!(due(&mut unanswered, now.saturating_sub(Duration::from_millis(1))), []);
            assert_eq!(due(&mut unanswered, now), [request]);
        }
    }

    #[test]
    fn an_answered_request_is_forgotten() {
        let mut unanswered = Unanswered::default();
        for request in [RequestId(1), RequestId(2)] {
            assert!(unanswered.passed(Duration::ZERO, request) && !unanswered.passed(Duration::ZERO, request));
        }
        unanswered.retain(|request| request == RequestId(2));
        assert_eq!((unanswered.count(|_| true), unanswered.remembered()), (1, 1));
        assert_eq!(unanswered.count(|_| false), 0);
        assert_eq!(due(&mut unanswered, SECOND), [RequestId(2)]);
    }

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
