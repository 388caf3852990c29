//! Delivering: pages whose end is known, in offset order, with the input offsets, in one transaction (law L2).

use std::sync::Arc;
use std::time::Duration;

use super::events::{Effect, Failure, Output, PageOutcome};
use super::machine::{Sent, Worker};
use super::queue::{InitialOffset, PartitionQueue};
use crate::transaction::{CallError, TxnStep};

impl<P> Worker<P> {
    /// Begins a transaction when there is something to deliver and its time has come.
    pub(super) fn deliver(&mut self, now: Duration) {
        if !self.initialised || self.txn.is_busy() || self.breaker.tripped().is_some() {
            return;
        }
        let hurry = self.draining.is_some() || self.stop_by.is_some();
        let due = now >= self.last_commit + self.settings.commit_interval;
        let late = self.draining.as_ref().is_some_and(|draining| now >= draining.until);
        if !(due || hurry) || late {
            return;
        }
        self.compose();
        if self.sent.offsets.is_empty() || self.breaker.tripped().is_some() {
            return;
        }
        self.last_commit = now;
        let call = self.txn.begin();
        self.call(call);
    }

    /// Takes the pages at the front of each queue whose end is known, and the positions behind them.
    fn compose(&mut self) {
        let mut room = self.settings.transaction_pages;
        for (partition, queue) in &mut self.queues {
            if let InitialOffset::Wanted(offset) = queue.initial_offset {
                // The place where reading began comes first: whoever reads here next begins at the same page.
                self.sent.offsets.insert(partition.clone(), offset);
                continue;
            }
            while room > 0 {
                let Some((page, outcome)) = queue.pop_ready() else { break };
                room -= 1;
                self.breaker.note(matches!(outcome, PageOutcome::DeadLetter(_)));
                self.sent.bytes += page.bytes;
                self.sent.offsets.insert(partition.clone(), page.source.offset.saturating_add(1));
                self.sent.outputs.push(Arc::new(Output { page, outcome }));
            }
        }
    }

    /// Takes the answer to a call.
    pub(super) fn called(&mut self, result: Result<(), CallError>) {
        if let Err(CallError::Undeliverable { index, reason }) = &result
            && let Some(output) = self.sent.outputs.get(*index)
        {
            self.undeliverable.insert(output.page.source.clone(), *reason);
        }
        match self.txn.answered(result) {
            TxnStep::Call(call) => self.call(call),
            TxnStep::Ready => self.ready(),
            TxnStep::Committed => self.committed(),
            TxnStep::Aborted if self.initialised => self.rewind_all(),
            // Taking over the transactional id did not work out: again.
            TxnStep::Aborted | TxnStep::Unknown(_) => {
                self.take_over();
                if self.initialised {
                    self.rewind_all();
                }
            }
            TxnStep::Fenced(why) => self.effects.push_back(Effect::Fail(Failure::Fenced(why))),
            TxnStep::Fatal(why) => self.effects.push_back(Effect::Fail(Failure::Producer(why))),
        }
    }

    /// The transactional id is ours, and whatever was open under it has ended: the committed offsets tell how.
    fn ready(&mut self) {
        self.initialised = true;
        self.rewind_all();
    }

    fn committed(&mut self) {
        let Sent { outputs, offsets, .. } = std::mem::take(&mut self.sent);
        for output in &outputs {
            self.undeliverable.remove(&output.page.source);
        }
        let mut anchored = false;
        for (partition, offset) in offsets {
            let Some(queue) = self.queues.get_mut(&partition) else { continue };
            queue.committed = Some(offset);
            if queue.initial_offset != InitialOffset::Committed {
                queue.initial_offset = InitialOffset::Committed;
                queue.start = None;
                anchored = true;
            }
        }
        if !outputs.is_empty() {
            self.effects.push_back(Effect::Delivered(outputs));
        }
        if anchored {
            self.resolve_all();
        }
    }

    /// Returns the bytes of pages that wait or are in a transaction.
    pub(super) fn in_flight_bytes(&self) -> usize {
        self.queues.values().map(PartitionQueue::bytes).sum::<usize>() + self.sent.bytes
    }
}
