//! Was a producer fenced by another process, or by the time-out of its own transaction?
//!
//! A coordinator ends a transaction that is older than its time-out, and takes the next epoch for that. The client
//! library tells this in the same words as that another process has taken over the id. A producer whose transaction was
//! younger has been fenced by another process; of an older one it is not known: it takes its id over again, and whether
//! the transaction was committed, the committed offsets tell. If there is another process, the next fence comes soon.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after};
use rdkafka::ClientConfig;

use super::Answer;
use crate::transaction::{Call, CallError};

/// The age of the transaction under way.
pub(super) struct TransactionAge {
    limit: Duration,
    /// Rings when the coordinator may have ended the transaction; none while there is none.
    over: Option<Receiver<Instant>>,
}

impl TransactionAge {
    pub(super) fn new(config: &ClientConfig) -> Self {
        let millis = config.get("transaction.timeout.ms").and_then(|millis| millis.parse().ok());
        Self { limit: millis.map_or(Duration::MAX, Duration::from_millis), over: None }
    }

    /// Looks at the answer to a call, and says what it means for a transaction of this age.
    pub(super) fn judge(&mut self, call: Call, answer: Answer) -> Answer {
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
        assert_eq!(young.judge(Call::Begin, Ok(vec![])), Ok(vec![]));
        assert_eq!(young.judge(Call::Produce, fenced()), fenced());
        for call in [Call::Produce, Call::SendOffsets, Call::Commit, Call::Abort] {
            // Over when it begins.
            let mut old = age("0");
            old.judge(Call::Begin, Ok(vec![])).unwrap();
            assert!(matches!(old.judge(call, fenced()), Err(CallError::Unknown(_))), "{call:?}");
            // Nothing was begun since: somebody else has the id.
            assert_eq!(old.judge(Call::Init, Ok(vec![])), Ok(vec![]));
            assert_eq!(old.judge(call, fenced()), fenced(), "{call:?}");
        }
    }

    #[test]
    fn a_transaction_that_has_ended_has_no_age() {
        for end in [Call::Commit, Call::Abort] {
            let mut old = age("0");
            old.judge(Call::Begin, Ok(vec![])).unwrap();
            old.judge(end, Ok(vec![])).unwrap();
            assert_eq!(old.judge(Call::Produce, fenced()), fenced(), "{end:?}");
        }
        assert_eq!(TransactionAge::new(&ClientConfig::new()).judge(Call::Produce, fenced()), fenced());
    }
}
