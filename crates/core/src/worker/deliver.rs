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
        let due = self.outgoing.is_due(now, self.settings.commit_interval, self.membership.hurries());
        let is_late = self.membership.draining(now).is_some_and(|(_, late)| late)
            || self.membership.stopping(now).is_some_and(|late| late);
        if !due || is_late {
            return;
        }
        self.compose();
        if self.outgoing.batch_mut().is_empty() || self.breaker.tripped().is_some() {
            return;
        }
        let call = self.outgoing.begin(now);
        self.effects.push_back(Effect::Call(call));
    }

    /// Takes the pages at the front of each queue whose end is known, and the positions after them. If not all of them
    /// have room, the next transaction begins with the partition after the last one that this one took pages of.
    fn compose(&mut self) {
        let (mut pages, mut bytes) = (self.settings.transaction_pages, self.outgoing.max_bytes());
        let after = self.outgoing.left_behind();
        let is_first = |partition: &PartitionId| after.as_ref().is_none_or(|after| partition > after);
        let (batch, mut last, mut leaves) = (self.outgoing.batch_mut(), None, false);
        for first in [true, false] {
            for (partition, queue) in self.partitions.iter_mut().filter(|(partition, _)| is_first(partition) == first) {
                if let Some(offset) = queue.start_to_commit() {
                    // The offset where reading began is committed first: the next owner of the partition begins at the
                    // same page.
                    batch.offset(partition.clone(), offset);
                    continue;
                }
                let before = batch.outputs().len();
                while let Some(size) = queue.ready_bytes() {
                    if pages == 0 || (size > bytes && !batch.outputs().is_empty()) {
                        leaves = true;
                        break;
                    }
                    let Some((page, outcome)) = queue.pop_ready() else { break };
                    (pages, bytes) = (pages - 1, bytes.saturating_sub(size));
                    self.breaker.note(matches!(outcome, PageOutcome::DeadLetter(_)));
                    batch.push(page, outcome);
                }
                if batch.outputs().len() > before {
                    last = Some(partition.clone());
                }
            }
        }
        self.outgoing.leave_behind(last.filter(|_| leaves));
    }

    /// Takes the answer to a call.
    pub(super) fn called(&mut self, now: Duration, result: Result<(), CallError>) {
        match self.outgoing.answered(now, result) {
            Answered::Call(call) => self.effects.push_back(Effect::Call(call)),
            Answered::Committed(batch) => {
                let (outputs, offsets) = batch.into_parts();
                self.committed(outputs, offsets);
            }
            Answered::Aborted(outputs) => self.send_again(outputs),
            Answered::Rewind => self.rewind_all(),
            Answered::Failed(why) => self.effects.push_back(Effect::Fail(why)),
        }
    }

    /// Puts pages back at the front of their queues, with their verdicts.
    fn send_again(&mut self, outputs: Vec<Arc<Output<P>>>) {
        for output in outputs.into_iter().rev() {
            // The producer has answered, so it holds none of them any more.
            let Some(Output { page, outcome }) = Arc::into_inner(output) else { return self.rewind_all() };
            if let Some(queue) = self.partitions.get_mut(&page.source.partition) {
                queue.put_back(page, outcome);
            }
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

    /// Performs a call to the producer, if there is one.
    pub(super) fn call(&mut self, call: Option<ProducerCall<P>>) {
        self.effects.extend(call.map(Effect::Call));
    }

    /// Returns the bytes of pages that wait or are in a transaction.
    pub(super) fn in_flight_bytes(&self) -> usize {
        self.partitions.bytes() + self.outgoing.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Reject;
    use crate::worker::tests::{TestWorker, page};
    use crate::worker::{Event, PageAction};

    /// A worker that has begun to send the page at offset 0 of partition 0.
    fn sending() -> TestWorker {
        let mut bench = TestWorker::new(vec![]);
        bench.offsets([Some(0), Some(0)]);
        bench.now = Duration::from_secs(1);
        let mut page = page(0, 0, 1);
        page.action = PageAction::Settled(PageOutcome::DeadLetter(Reject::Refused));
        assert_eq!(calls(&bench.handle(Event::Page(page))), ["Begin"]);
        assert_eq!(calls(&bench.handle(Event::Called(Ok(())))), ["Produce 0"]);
        bench
    }

    /// What is asked for, without pauses.
    fn calls(effects: &[Effect<()>]) -> Vec<String> {
        let name = |effect: &Effect<()>| {
            let Effect::Call(call) = effect else { return format!("{effect:?}") };
            match call {
                ProducerCall::Produce(outputs) => {
                    let offsets = outputs.iter().map(|output| format!(" {}", output.page.source.offset));
                    "Produce".to_owned() + &offsets.collect::<String>()
                }
                ProducerCall::SendOffsets(offsets) => format!("SendOffsets {:?}", offsets.values()),
                ProducerCall::Plain(call) => format!("{call:?}"),
            }
        };
        effects.iter().filter(|effect| !matches!(effect, Effect::Pause(_))).map(name).collect()
    }

    #[test]
    fn pages_of_an_aborted_transaction_are_sent_again_and_not_read_again() {
        let mut bench = sending();
        assert_eq!(calls(&bench.handle(Event::Called(Err(CallError::Abortable("timed out".to_owned()))))), ["Abort"]);
        assert_eq!(calls(&bench.handle(Event::Called(Ok(())))), [""; 0], "it waits first");
        assert_eq!(bench.worker.status().waiting, 1);
        bench.now += Duration::from_secs(1);
        assert_eq!(calls(&bench.handle(Event::Tick)), ["Begin"]);
        assert_eq!(calls(&bench.handle(Event::Called(Ok(())))), ["Produce 0"]);
        assert_eq!(calls(&bench.handle(Event::Called(Ok(())))), ["SendOffsets [1]"]);
    }

    #[test]
    fn nothing_is_sent_again_after_the_time_that_a_stop_may_take() {
        let mut bench = sending();
        assert_eq!(calls(&bench.handle(Event::Stop)), [""; 0]);
        bench.now += Duration::from_secs(1);
        assert_eq!(calls(&bench.handle(Event::Tick)), [""; 0], "a call is out");
        assert_eq!(calls(&bench.handle(Event::Called(Ok(())))), ["Abort"]);
        assert_eq!(calls(&bench.handle(Event::Called(Ok(())))), ["Leave", "Stopped"]);
        assert_eq!(bench.worker.status().waiting, 1, "it stays uncommitted");
    }
}
