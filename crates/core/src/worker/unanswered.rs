//! Requests that the judge passes without a verdict, again and again, and when they are made again.
//!
//! One that was passed once was lost with a transaction, and is made again at once. One that is passed each time will
//! not be answered soon: the judge counts its page as judged, and no verdict says so. After an unclean election of a
//! leader of the verdict log that may be so for thousands of pages, and asking for all of them ten times a second would
//! keep the judge busy with nothing else.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

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
}
