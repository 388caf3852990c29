//! Delivering: pages whose end is known, in offset order, with the input offsets, in one transaction (law L2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::events::{Effect, Output, PageOutcome, ProducerCall};
use super::machine::Worker;
use super::outgoing::Answered;
use crate::record::PartitionId;
use crate::transaction::CallError;

impl<P> Worker<P> {
    /// Begins a transaction when there is something to deliver and its time has come.
    pub(super) fn deliver(&mut self, now: Duration) {
        if !self.outgoing.is_idle() || self.breaker.tripped().is_some() {
            return;
        }
        let due = self.membership.hurries() || self.outgoing.is_due(now, self.settings.commit_interval);
        let late = self.membership.draining(now).is_some_and(|(_, late)| late);
        if !due || late {
            return;
        }
        self.compose();
        if self.outgoing.batch_mut().is_empty() || self.breaker.tripped().is_some() {
            return;
        }
        let call = self.outgoing.begin(now);
        self.effects.push_back(Effect::Call(call));
    }

    /// Takes the pages at the front of each queue whose end is known, and the positions after them.
    fn compose(&mut self) {
        let batch = self.outgoing.batch_mut();
        let mut room = self.settings.transaction_pages;
        for (partition, queue) in self.partitions.iter_mut() {
            if let Some(offset) = queue.start_to_commit() {
                // The offset where reading began is committed first: the next owner of the partition begins at the same
                // page.
                batch.offset(partition.clone(), offset);
                continue;
            }
            while room > 0 {
                let Some((page, outcome)) = queue.pop_ready() else { break };
                room -= 1;
                self.breaker.note(matches!(outcome, PageOutcome::DeadLetter(_)));
                batch.push(page, outcome);
            }
        }
    }

    /// Takes the answer to a call.
    pub(super) fn called(&mut self, result: Result<(), CallError>) {
        match self.outgoing.answered(result) {
            Answered::Call(call) => self.effects.push_back(Effect::Call(call)),
            Answered::Committed(batch) => {
                let (outputs, offsets) = batch.into_parts();
                self.committed(outputs, offsets);
            }
            Answered::Rewind => self.rewind_all(),
            Answered::Failed(why) => self.effects.push_back(Effect::Fail(why)),
        }
    }

    fn committed(&mut self, outputs: Vec<Arc<Output<P>>>, offsets: BTreeMap<PartitionId, i64>) {
        let mut may_ask = false;
        for (partition, offset) in offsets {
            self.membership.has_begun(&partition);
            if let Some(queue) = self.partitions.get_mut(&partition) {
                may_ask |= queue.committed(offset);
            }
        }
        if !outputs.is_empty() {
            self.effects.push_back(Effect::Delivered(outputs));
        }
        if may_ask {
            self.resolve_all();
        }
    }

    /// Gives up the transaction under way.
    pub(super) fn abort(&mut self) {
        let call = self.outgoing.abort();
        self.call(call);
    }

    /// Performs a call to the producer, if there is one.
    pub(super) fn call(&mut self, call: Option<ProducerCall<P>>) {
        self.effects.extend(call.map(Effect::Call));
    }

    /// Returns the bytes of pages that wait or are in a transaction.
    pub(super) fn in_flight_bytes(&self) -> usize {
        self.partitions.bytes() + self.outgoing.bytes()
    }
}
