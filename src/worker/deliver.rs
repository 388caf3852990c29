//! Delivering: pages whose end is known, in offset order, with the input offsets, in one transaction (law L2).

use std::sync::Arc;
use std::time::Duration;

use super::events::{Disposition, Effect, Failure, Output};
use super::lane::{Anchor, Lane};
use super::life::{Sent, Worker};
use crate::transaction::{CallError, Turn};

impl<P> Worker<P> {
    /// Begins a transaction when there is something to deliver and its time has come.
    pub(super) fn deliver(&mut self, now: Duration) {
        if !self.initialised || self.ritual.is_busy() || self.breaker.tripped().is_some() {
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
        let call = self.ritual.begin();
        self.call(call);
    }

    /// Takes the pages at the front of each lane whose end is known, and the positions behind them.
    fn compose(&mut self) {
        let mut room = self.settings.transaction_pages;
        for (partition, lane) in &mut self.lanes {
            if let Anchor::Wanted(offset) = lane.anchor {
                // The place where reading began comes first: whoever reads here next begins at the same page.
                self.sent.offsets.insert(partition.clone(), offset);
                continue;
            }
            while room > 0 {
                let Some((page, disposition)) = lane.pop_ready() else { break };
                room -= 1;
                self.breaker.note(matches!(disposition, Disposition::DeadLetter(_)));
                self.sent.bytes += page.bytes;
                self.sent.offsets.insert(partition.clone(), page.source.offset.saturating_add(1));
                self.sent.outputs.push(Arc::new(Output { page, disposition }));
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
        match self.ritual.answered(result) {
            Turn::Call(call) => self.call(call),
            Turn::Ready => self.ready(),
            Turn::Committed => self.committed(),
            Turn::Aborted if self.initialised => self.rewind_all(),
            // Taking over the transactional id did not work out: again.
            Turn::Aborted | Turn::Unknown(_) => {
                self.take_over();
                if self.initialised {
                    self.rewind_all();
                }
            }
            Turn::Fenced(why) => self.effects.push_back(Effect::Fail(Failure::Fenced(why))),
            Turn::Fatal(why) => self.effects.push_back(Effect::Fail(Failure::Producer(why))),
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
            let Some(lane) = self.lanes.get_mut(&partition) else { continue };
            lane.committed = Some(offset);
            if lane.anchor != Anchor::Held {
                lane.anchor = Anchor::Held;
                lane.start = None;
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
        self.lanes.values().map(Lane::bytes).sum::<usize>() + self.sent.bytes
    }
}
