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

/// The age of the current transaction.
pub(super) struct TransactionAge {
    limit: Duration,
    /// Fires when the coordinator may have ended the transaction; `None` outside a transaction.
    over: Option<Receiver<Instant>>,
}

impl TransactionAge {
    pub(super) fn new(config: &ClientConfig) -> Self {
        let millis = config.get("transaction.timeout.ms").and_then(|millis| millis.parse().ok());
        Self { limit: millis.map_or(Duration::MAX, Duration::from_millis), over: None }
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
