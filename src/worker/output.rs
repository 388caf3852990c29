//! The transactions of the worker: calls to the producer, their answers, and the check before each commit.
//!
//! Brokers delete a group's offsets together with the topic. A consumer whose topic was deleted, created again and
//! filled beyond its position between two fetches does not notice, and continues at its old position in the new topic.
//! If its offsets were committed, the new topic's first records would never be read. So the driver queries the group's
//! offsets before each commit. If they are gone, or lower than those that we know, it aborts the transaction, and the
//! partitions start again from the offsets that the group has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::after;
use dupgate_core::worker::{Event, ProducerCall};

use super::{Message, WorkerDriver};
use crate::error::Fatal;
use crate::kafka::admin::Brokers;
use crate::kafka::offsets::Offsets;
use crate::kafka::output::{PagePayload, Pages};
use crate::kafka::producer::{Answer, OffsetAndMetadata, ProducerCommand};
use crate::record::PartitionId;
use crate::transaction::{Call, CallError};

/// Pause after a failed query.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Pause before the group is asked again because its offsets differ from those that we know. A commit is answered before
/// its offsets become visible.
const DIFFERENCE_DELAY: Duration = Duration::from_millis(100);

/// Number of answers in a row that must differ.
const DIFFERENT_ANSWERS: usize = 3;

impl WorkerDriver {
    pub(super) fn call(&mut self, request: ProducerCall<PagePayload>) {
        let (command, call, pages) = match request {
            ProducerCall::Produce(pages) => {
                let count = pages.len();
                let outputs = Arc::clone(&self.context.outputs);
                let records = Pages { outputs, pages, sent: self.report.sent() };
                (ProducerCommand::Produce(Box::new(records)), Call::Produce, count)
            }
            ProducerCall::SendOffsets(offsets) => {
                self.sent_offsets.clone_from(&offsets);
                let offset_of = |(partition, offset)| OffsetAndMetadata { partition, offset, metadata: String::new() };
                let offsets = offsets.into_iter().map(offset_of).collect();
                (ProducerCommand::SendOffsets(offsets, self.member.membership()), Call::SendOffsets, 0)
            }
            ProducerCall::Plain(call) => (ProducerCommand::Plain(call), call, 0),
        };
        self.calling = Some(call);
        self.report.calls(call, pages);
        if call == Call::SendOffsets {
            self.submit_checked(command);
        } else {
            self.producer.submit(command);
        }
    }

    pub(super) fn called(&mut self, answer: Answer) -> Result<(), Fatal> {
        if let Err(CallError::Undeliverable { index, reason }) = &answer
            && let Some(output) = self.worker.in_transaction(*index)
        {
            self.report.given_up(output, *reason);
        }
        self.report.called(&answer);
        self.note_commit(answer.is_ok());
        self.handle(Event::Called(answer.map(|_| ())))
    }

    /// Stores the offsets of the transaction as committed, if the pending call has committed them.
    fn note_commit(&mut self, is_done: bool) {
        if self.calling.take() == Some(self.context.settings.output.delivery.last_call()) && is_done {
            for (partition, offset) in std::mem::take(&mut self.sent_offsets) {
                self.settled.committed(&partition, offset);
            }
        }
    }

    /// Submits the command that sends the transaction's offsets, after checking that the group still has the committed
    /// offsets that we know.
    fn submit_checked(&mut self, command: ProducerCommand) {
        if self.context.brokers == Brokers::InProcess {
            // This broker does not report offsets that were committed in transactions, and its topics are never
            // deleted.
            return self.producer.submit(command);
        }
        let sent = self.sent_offsets.keys();
        let known = sent.filter_map(|partition| Some((partition.clone(), self.settled.committed_offset(partition)?)));
        let known: BTreeMap<PartitionId, i64> = known.collect();
        self.unchecked = Some(command);
        let (sender, offsets) = (self.sender.clone(), Arc::clone(&self.offsets));
        self.commit_checks.run(move || {
            let answer = confirm(
                || look(&offsets, &known),
                || {
                    let _ = after(DIFFERENCE_DELAY).recv();
                },
            );
            if matches!(answer, Err(CallError::Retriable(_))) {
                let _ = after(RETRY_DELAY).recv();
            }
            drop(sender.send(Message::CommitChecked(answer)));
            Ok(())
        });
    }

    /// Submits the checked command, or answers it with the error of the check.
    pub(super) fn commit_checked(&mut self, answer: Result<(), CallError>) -> Result<(), Fatal> {
        let Some(command) = self.unchecked.take() else { return Ok(()) };
        match answer {
            Ok(()) => {
                self.producer.submit(command);
                Ok(())
            }
            Err(error) => self.called(Err(error)),
        }
    }
}

/// Looks until the offsets are as we know them, at most [`DIFFERENT_ANSWERS`] times.
fn confirm(mut look: impl FnMut() -> Result<(), CallError>, pause: impl Fn()) -> Result<(), CallError> {
    let mut answer = look();
    for _ in 1..DIFFERENT_ANSWERS {
        if !matches!(answer, Err(CallError::Abortable(_))) {
            break;
        }
        pause();
        answer = look();
    }
    answer
}

fn look(offsets: &Offsets, known: &BTreeMap<PartitionId, i64>) -> Result<(), CallError> {
    let partitions: BTreeSet<PartitionId> = known.keys().cloned().collect();
    let unknown = |why: String| CallError::Retriable(format!("the group's committed offsets are not known: {why}"));
    // This query does not wait for open transactions: ours may already hold offsets, and it ends only after this check.
    let found = offsets.last_committed(&partitions).map_err(|error| unknown(error.to_string()))?;
    let found: BTreeMap<PartitionId, Option<i64>> =
        found.into_iter().map(|(partition, committed)| (partition, committed.map(|known| known.offset))).collect();
    if let Some(partition) = partitions.iter().find(|partition| !found.contains_key(partition)) {
        return Err(unknown(format!("no answer for {partition}")));
    }
    compare(known, &found).map_or(Ok(()), |why| Err(CallError::Abortable(why)))
}

/// Returns the first offset of the group that is gone or lower than the one that we know, as a message.
fn compare(known: &BTreeMap<PartitionId, i64>, found: &BTreeMap<PartitionId, Option<i64>>) -> Option<String> {
    known.iter().find_map(|(partition, known)| match found.get(partition)? {
        None => Some(format!(
            "the group's committed offset of {partition}, {known}, is gone: was the topic deleted and created again?"
        )),
        Some(found) if found < known => {
            Some(format!("the group's committed offset of {partition} is {found}, and was {known}"))
        }
        Some(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn offsets_that_are_gone_or_lower_than_known_prevent_a_commit() {
        let pages = PartitionId::new("pages", 0);
        let known = BTreeMap::from([(pages.clone(), 300)]);
        let difference = |found| compare(&known, &BTreeMap::from([(pages.clone(), found)]));
        assert_eq!(difference(Some(300)), None);
        assert_eq!(difference(Some(301)), None, "our last commit, before its answer");
        assert!(difference(None).unwrap().contains("pages:0, 300, is gone"));
        assert!(difference(Some(7)).unwrap().contains("is 7, and was 300"));
        assert_eq!(compare(&BTreeMap::new(), &BTreeMap::new()), None, "a group without an offset has none to lose");
    }

    #[test]
    fn offsets_that_become_visible_late_are_not_a_difference() {
        let differs = || Err(CallError::Abortable("is 299, and was 300".to_owned()));
        let looks = |answers: Vec<Result<(), CallError>>| {
            let (mut left, pauses) = (answers.into_iter(), Cell::new(0));
            let answer = confirm(|| left.next().unwrap(), || pauses.set(pauses.get() + 1));
            (answer, left.len(), pauses.get())
        };
        assert_eq!(looks(vec![differs(), differs(), Ok(())]), (Ok(()), 0, 2));
        assert_eq!(looks(vec![differs(), differs(), differs(), Ok(())]), (differs(), 1, 2));
        assert_eq!(looks(vec![Ok(()), differs()]), (Ok(()), 1, 0));
        let unknown = || Err(CallError::Retriable("no answer".to_owned()));
        assert_eq!(looks(vec![differs(), unknown(), Ok(())]), (unknown(), 1, 1));
    }
}
