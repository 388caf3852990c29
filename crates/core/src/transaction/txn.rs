//! Begin, produce, send offsets, commit; abort from anywhere.

use super::{Call, CallError};

/// What a crash may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Nothing: records and offsets are in one transaction.
    #[default]
    ExactlyOnce,
    /// Records come first and offsets afterwards: a crash between them sends the records again.
    AtLeastOnce,
}

impl Delivery {
    /// Returns the call whose success means that records and offsets are committed: the last one after
    /// [`TransactionMachine::begin`].
    #[must_use]
    pub const fn last_call(self) -> Call {
        match self {
            Self::ExactlyOnce => Call::Commit,
            Self::AtLeastOnce => Call::SendOffsets,
        }
    }
}

/// The state of one transaction. Holds no records and no offsets: those are the owner's.
#[derive(Debug, Default)]
pub struct TransactionMachine {
    delivery: Delivery,
    /// The call that is outstanding, if there is one.
    out: Option<Call>,
    /// Whether to abort as soon as the outstanding call is answered.
    abort_requested: bool,
    /// Whether a `Begin` succeeded, and no commit or abort since.
    open: bool,
    /// Whether the transaction carries only records, no offsets.
    without_offsets: bool,
}

/// What an answer means to the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnStep {
    /// Make this call next.
    Call(Call),
    /// This process owns the transactional id.
    Ready,
    /// The records and offsets are committed.
    Committed,
    /// Consumers will never see anything of the transaction. The owner sends it again, or reads its input again.
    Aborted,
    /// Another process owns the transactional id.
    Fenced(String),
    /// The producer is beyond repair.
    Fatal(String),
    /// Whether it was committed is unknown: only the log shows it.
    Unknown(String),
}

impl TransactionMachine {
    /// Creates a machine with this delivery guarantee.
    #[must_use]
    pub fn new(delivery: Delivery) -> Self {
        Self { delivery, ..Self::default() }
    }

    /// Returns whether a call is outstanding or a transaction is open.
    #[must_use]
    pub(crate) const fn is_busy(&self) -> bool {
        self.out.is_some() || self.open
    }

    /// Returns the call that is outstanding.
    #[must_use]
    pub(crate) const fn outstanding(&self) -> Option<Call> {
        self.out
    }

    /// Returns whether the commit is under way, so that its outcome can no longer be changed.
    #[must_use]
    pub(crate) fn is_committing(&self) -> bool {
        self.out == Some(Call::Commit)
    }

    /// Takes over the transactional id.
    pub fn init(&mut self) -> Call {
        *self = Self::new(self.delivery);
        self.make(Call::Init)
    }

    /// Opens a transaction. The machine must not be busy.
    pub fn begin(&mut self) -> Call {
        match self.delivery {
            Delivery::ExactlyOnce => self.make(Call::Begin),
            Delivery::AtLeastOnce => self.make(Call::Produce),
        }
    }

    /// Opens a transaction that carries no offsets. The machine must not be busy.
    pub(crate) fn begin_without_offsets(&mut self) -> Call {
        self.without_offsets = true;
        self.begin()
    }

    /// Requests an abort. Returns the call to make now, or `None` when a call is outstanding (its answer leads to the
    /// abort) or when nothing is open. A commit that is under way is not interrupted.
    pub(crate) fn abort(&mut self) -> Option<Call> {
        self.abort_requested = self.out.is_some();
        (self.open && self.out.is_none()).then(|| self.make(Call::Abort))
    }

    /// Takes the answer to the outstanding call.
    pub fn answered(&mut self, result: Result<(), CallError>) -> TxnStep {
        let Some(call) = self.out.take() else {
            return TxnStep::Fatal("an answer to a call that was not made".to_owned());
        };
        match result {
            Ok(()) => self.succeeded(call),
            Err(error) => self.failed(call, error),
        }
    }

    fn succeeded(&mut self, call: Call) -> TxnStep {
        match call {
            Call::Init => self.end(TxnStep::Ready),
            Call::Begin => {
                self.open = true;
                self.go_on(Call::Produce)
            }
            Call::Produce if !self.without_offsets => self.go_on(Call::SendOffsets),
            Call::Produce | Call::SendOffsets => match self.delivery {
                Delivery::ExactlyOnce => self.go_on(Call::Commit),
                Delivery::AtLeastOnce => self.end(TxnStep::Committed),
            },
            Call::Commit => self.end(TxnStep::Committed),
            Call::Abort => self.end(TxnStep::Aborted),
        }
    }

    fn failed(&mut self, call: Call, error: CallError) -> TxnStep {
        match error {
            CallError::Retriable(_) if self.abort_requested && call != Call::Abort && call != Call::Commit => {
                self.give_up(call)
            }
            CallError::Retriable(_) => TxnStep::Call(self.make(call)),
            CallError::Abortable(_) | CallError::Undeliverable { .. } => self.give_up(call),
            CallError::Fenced(why) => self.end(TxnStep::Fenced(why)),
            CallError::Fatal(why) => self.end(TxnStep::Fatal(why)),
            CallError::Unknown(why) => self.end(TxnStep::Unknown(why)),
        }
    }

    fn go_on(&mut self, next: Call) -> TxnStep {
        if self.abort_requested && self.delivery == Delivery::AtLeastOnce {
            return self.end(TxnStep::Aborted);
        }
        let next = if self.abort_requested { Call::Abort } else { next };
        TxnStep::Call(self.make(next))
    }

    fn give_up(&mut self, call: Call) -> TxnStep {
        if self.delivery == Delivery::AtLeastOnce {
            return self.end(TxnStep::Aborted);
        }
        match call {
            // Nothing was opened, so there is nothing to abort.
            Call::Init | Call::Begin => self.end(TxnStep::Aborted),
            Call::Abort | Call::Produce | Call::SendOffsets | Call::Commit => TxnStep::Call(self.make(Call::Abort)),
        }
    }

    fn end(&mut self, turn: TxnStep) -> TxnStep {
        *self = Self::new(self.delivery);
        turn
    }

    const fn make(&mut self, call: Call) -> Call {
        self.out = Some(call);
        call
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Reject;

    /// Answers each call as `answer` says and returns the calls that were made, and how it ended.
    fn run(delivery: Delivery, mut answer: impl FnMut(Call) -> Result<(), CallError>) -> (Vec<Call>, TxnStep) {
        let mut txn = TransactionMachine::new(delivery);
        let mut calls = vec![txn.begin()];
        loop {
            let result = answer(*calls.last().unwrap());
            match txn.answered(result) {
                TxnStep::Call(call) => calls.push(call),
                end @ (TxnStep::Ready
                | TxnStep::Committed
                | TxnStep::Aborted
                | TxnStep::Fenced(_)
                | TxnStep::Fatal(_)
                | TxnStep::Unknown(_)) => {
                    assert!(!txn.is_busy());
                    return (calls, end);
                }
            }
        }
    }

    fn failing_once(at: Call, error: CallError) -> impl FnMut(Call) -> Result<(), CallError> {
        let mut error = Some(error);
        move |call| if call == at { error.take().map_or(Ok(()), Err) } else { Ok(()) }
    }

    const ALL: [Call; 4] = [Call::Begin, Call::Produce, Call::SendOffsets, Call::Commit];

    #[test]
    fn records_stand_before_offsets_and_offsets_before_the_commit() {
        assert_eq!(run(Delivery::ExactlyOnce, |_| Ok(())), (ALL.to_vec(), TxnStep::Committed));
        assert_eq!(
            run(Delivery::AtLeastOnce, |_| Ok(())),
            (vec![Call::Produce, Call::SendOffsets], TxnStep::Committed)
        );
        for delivery in [Delivery::ExactlyOnce, Delivery::AtLeastOnce] {
            assert_eq!(run(delivery, |_| Ok(())).0.last(), Some(&delivery.last_call()));
        }
    }

    #[test]
    fn a_transaction_without_offsets_is_committed_once_its_records_are_there() {
        for (delivery, calls) in [
            (Delivery::ExactlyOnce, [Call::Begin, Call::Produce, Call::Commit].as_slice()),
            (Delivery::AtLeastOnce, &[Call::Produce]),
        ] {
            let mut txn = TransactionMachine::new(delivery);
            assert_eq!(txn.begin_without_offsets(), calls[0]);
            for &call in &calls[1..] {
                assert_eq!(txn.answered(Ok(())), TxnStep::Call(call));
            }
            assert_eq!(txn.answered(Ok(())), TxnStep::Committed);
            txn.begin();
            (2..ALL.len()).for_each(|_| drop(txn.answered(Ok(()))));
            let sends =
                matches!(delivery, Delivery::AtLeastOnce) || txn.answered(Ok(())) == TxnStep::Call(Call::Commit);
            assert!(sends, "the next transaction carries offsets");
        }
    }

    #[test]
    fn a_retriable_error_repeats_the_same_call() {
        for at in ALL {
            let (calls, end) = run(Delivery::ExactlyOnce, failing_once(at, CallError::Retriable(String::new())));
            let twice: Vec<Call> = ALL.into_iter().flat_map(|call| vec![call; 1 + usize::from(call == at)]).collect();
            assert_eq!((calls, end), (twice, TxnStep::Committed), "{at:?}");
        }
    }

    #[test]
    fn an_abortable_error_aborts_what_was_opened() {
        let undeliverable = CallError::Undeliverable { index: 0, reason: Reject::Refused };
        for error in [CallError::Abortable(String::new()), undeliverable] {
            let (calls, end) = run(Delivery::ExactlyOnce, failing_once(Call::Begin, error.clone()));
            assert_eq!((calls, end), (vec![Call::Begin], TxnStep::Aborted));
            for at in [Call::Produce, Call::SendOffsets, Call::Commit] {
                let (calls, end) = run(Delivery::ExactlyOnce, failing_once(at, error.clone()));
                assert_eq!((*calls.last().unwrap(), end), (Call::Abort, TxnStep::Aborted), "{at:?}");
            }
            let (_, end) = run(Delivery::AtLeastOnce, failing_once(Call::SendOffsets, error.clone()));
            assert_eq!(end, TxnStep::Aborted);
        }
    }

    #[test]
    fn an_abort_asked_for_while_a_call_is_out_follows_its_answer() {
        for stop_at in [Call::Begin, Call::Produce, Call::SendOffsets] {
            let mut txn = TransactionMachine::default();
            let mut call = txn.begin();
            while call != stop_at {
                let TxnStep::Call(next) = txn.answered(Ok(())) else { panic!("ended before {stop_at:?}") };
                call = next;
            }
            assert_eq!(txn.abort(), None);
            assert_eq!(txn.answered(Ok(())), TxnStep::Call(Call::Abort), "{stop_at:?}");
            assert_eq!(txn.answered(Ok(())), TxnStep::Aborted);
            assert_eq!(txn.begin(), Call::Begin);
            assert_eq!(txn.answered(Ok(())), TxnStep::Call(Call::Produce), "the next transaction is not aborted");
        }
    }

    #[test]
    fn a_commit_that_is_out_runs_its_course() {
        let mut txn = TransactionMachine::default();
        txn.begin();
        (0..3).for_each(|_| assert!(matches!(txn.answered(Ok(())), TxnStep::Call(_))));
        assert!(txn.is_committing());
        assert_eq!(txn.abort(), None);
        assert_eq!(txn.answered(Err(CallError::Retriable(String::new()))), TxnStep::Call(Call::Commit));
        assert_eq!(txn.answered(Ok(())), TxnStep::Committed);
    }

    #[test]
    fn taking_over_clears_what_was_asked_of_the_former_life() {
        let mut txn = TransactionMachine::default();
        assert_eq!(txn.init(), Call::Init);
        assert_eq!(txn.abort(), None);
        assert_eq!(txn.answered(Ok(())), TxnStep::Ready);
        txn.begin();
        assert_eq!(txn.answered(Ok(())), TxnStep::Call(Call::Produce));
    }
}
