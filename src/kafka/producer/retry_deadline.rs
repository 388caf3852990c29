//! Limits how long a call may fail as retriable. After that, only a new producer can finish it.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after};

use super::Answer;
use crate::transaction::CallError;

/// Detects a call that is retried and never succeeds.
pub(super) struct RetryDeadline {
    limit: Duration,
    /// Fires at the limit; `None` while calls succeed.
    over: Option<Receiver<Instant>>,
}

impl RetryDeadline {
    pub(super) const fn new(limit: Duration) -> Self {
        Self { limit, over: None }
    }

    /// Turns a retriable answer into one of unknown outcome when calls have been retriable for longer than the limit.
    pub(super) fn reclassify(&mut self, answer: Answer) -> Answer {
        let Err(CallError::Retriable(why)) = answer else {
            self.over = None;
            return answer;
        };
        if self.over.get_or_insert_with(|| after(self.limit)).try_recv().is_err() {
            return Err(CallError::Retriable(why));
        }
        self.over = None;
        Err(CallError::Unknown(format!("{why}; still failing after {:?}", self.limit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_never_succeeds_is_given_up() {
        let again = || Err(CallError::Retriable("busy".to_owned()));
        let mut lasting = RetryDeadline::new(Duration::from_mins(1));
        for _ in 0..9 {
            assert_eq!(lasting.reclassify(again()), again());
        }
        // A deadline that has passed at once.
        let mut expired = RetryDeadline::new(Duration::ZERO);
        assert!(
            matches!(expired.reclassify(again()), Err(CallError::Unknown(why)) if why == "busy; still failing after 0ns")
        );
        assert_eq!(expired.reclassify(Ok(vec![3])), Ok(vec![3]));
        // A call that succeeds in between resets the time.
        let mut busy = RetryDeadline { limit: Duration::from_mins(1), over: Some(after(Duration::ZERO)) };
        assert_eq!(busy.reclassify(Ok(vec![])), Ok(vec![]));
        assert_eq!(busy.reclassify(again()), again());
    }
}
