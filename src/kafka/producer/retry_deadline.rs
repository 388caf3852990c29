//! Limits how long a call may fail as retriable. After that, only a new producer can finish it.
//!
//! Distinguishes fencing by another process from the time-out of a producer's own transaction.
//!
//! A coordinator aborts a transaction that is older than its time-out, and raises the producer's epoch to do so. The
//! client library reports this in the same way as fencing by another process. If the transaction was younger, another
//! process has fenced the producer. If it was older, the cause is unknown: the producer initialises its id again, and
//! the committed offsets show whether the transaction was committed. If there is another process, it soon fences again.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after};
use rdkafka::ClientConfig;

use super::Answer;
use crate::transaction::{Call, CallError};

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

/// Returns the time-out of transactions; without one, the longest time there is.
pub(super) fn transaction_timeout(config: &ClientConfig) -> Duration {
    let millis = config.get("transaction.timeout.ms").and_then(|millis| millis.parse().ok());
    millis.map_or(Duration::MAX, Duration::from_millis)
}

/// The age of the current transaction.
pub(super) struct TransactionAge {
    limit: Duration,
    /// Fires when the coordinator may have ended the transaction; `None` outside a transaction.
    over: Option<Receiver<Instant>>,
}

impl TransactionAge {
    pub(super) fn new(config: &ClientConfig) -> Self {
        Self { limit: transaction_timeout(config), over: None }
    }

    /// Corrects the answer to a call by the age of the transaction.
    pub(super) fn reclassify(&mut self, call: Call, answer: Answer) -> Answer {
        if let Err(CallError::Fenced(why)) = answer {
            let is_old = self.over.take().is_some_and(|over| over.try_recv().is_ok());
            return Err(if is_old {
                CallError::Unknown(format!("{why}; the transaction was older than its time-out"))
            } else {
                CallError::Fenced(why)
            });
        }
        match call {
            Call::Begin if answer.is_ok() => self.over = Some(after(self.limit)),
            Call::Init => self.over = None,
            Call::Commit | Call::Abort if answer.is_ok() => self.over = None,
            Call::Begin | Call::Produce | Call::SendOffsets | Call::Commit | Call::Abort => {}
        }
        answer
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

    fn fenced() -> Answer {
        Err(CallError::Fenced("epoch".to_owned()))
    }

    fn age(millis: &str) -> TransactionAge {
        let mut config = ClientConfig::new();
        config.set("transaction.timeout.ms", millis);
        TransactionAge::new(&config)
    }

    #[test]
    fn only_a_fence_of_a_young_transaction_is_by_another_process() {
        let mut young = age("60000");
        assert_eq!(young.reclassify(Call::Begin, Ok(vec![])), Ok(vec![]));
        assert_eq!(young.reclassify(Call::Produce, fenced()), fenced());
        for call in [Call::Produce, Call::SendOffsets, Call::Commit, Call::Abort] {
            // It expires at once.
            let mut old = age("0");
            old.reclassify(Call::Begin, Ok(vec![])).unwrap();
            assert!(matches!(old.reclassify(call, fenced()), Err(CallError::Unknown(_))), "{call:?}");
            // No transaction has begun since: another process has the id.
            assert_eq!(old.reclassify(Call::Init, Ok(vec![])), Ok(vec![]));
            assert_eq!(old.reclassify(call, fenced()), fenced(), "{call:?}");
        }
    }

    #[test]
    fn a_transaction_that_has_ended_has_no_age() {
        for end in [Call::Commit, Call::Abort] {
            let mut old = age("0");
            old.reclassify(Call::Begin, Ok(vec![])).unwrap();
            old.reclassify(end, Ok(vec![])).unwrap();
            assert_eq!(old.reclassify(Call::Produce, fenced()), fenced(), "{end:?}");
        }
        assert_eq!(TransactionAge::new(&ClientConfig::new()).reclassify(Call::Produce, fenced()), fenced());
    }
}
