//! Translates messages of the worker thread into events of the state machine.

use std::collections::BTreeSet;
use std::sync::Arc;

use dupgate_core::worker::{BadRecords, Event, Page, PageAction, PageOutcome};

use super::{Message, Ready, WorkerDriver};
use crate::config::settings::Topics;
use crate::error::{Fatal, Reason};
use crate::kafka::fingerprint_log::{Appended, NotAppended};
use crate::kafka::group_consumer::{Command, ConsumerEvent};
use crate::kafka::output::PagePayload;
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind};
use crate::processing::text_pool::{Done, Job};
use crate::protocol::LogPartition;
use crate::record::PartitionId;
use crate::runtime::fatal::{append_denied, ended};
use crate::telemetry::labels::{Component, ErrorKind, Pause, Rebalance};
use crate::transaction::CallError;

impl WorkerDriver {
    pub(super) fn on_message(&mut self, message: Message) -> Result<(), Fatal> {
        match message {
            Message::GroupConsumer(membership, event) if self.member.is_current(membership) => self.member_event(event),
            Message::GroupConsumer(..) => Ok(()),
            Message::Read(done) => self.read(done),
            Message::Followed(log, event) => self.followed(log, event),
            Message::Scanned(log, event) => self.scanned(log, event),
            Message::Appended(Appended { offset: Err(NotAppended::Denied), .. }) => {
                Err(append_denied(&self.context.names.fingerprints))
            }
            Message::Appended(Appended { request, offset }) => {
                self.handle(Event::Appended(request, offset.map_err(|_| ())))
            }
            Message::Called(answer) => {
                if let Err(CallError::Undeliverable { index, reason }) = &answer
                    && let Some(output) = self.worker.in_transaction(*index)
                {
                    self.report.given_up(output, *reason);
                }
                self.report.called(&answer);
                self.note_commit(answer.is_ok());
                self.handle(Event::Called(answer.map(|_| ())))
            }
            Message::CommitChecked(answer) => self.commit_checked(answer),
            Message::Checkpoint(log, offset) => self.handle(Event::Checkpoint(log, offset)),
            Message::NewToGroup(partitions) => self.handle(Event::NewToGroup(partitions)),
            Message::Committed(offsets) => {
                self.settled.answered(&offsets);
                self.handle(Event::Committed(offsets))
            }
            Message::Backlog(backlogs) => self.handle(Event::Backlog(backlogs)),
            Message::Group(all, shares) => {
                self.group(all.as_ref(), shares.as_deref());
                Ok(())
            }
            Message::Hold(is_held) => {
                self.hold(is_held);
                Ok(())
            }
            Message::Stop => {
                tracing::info!(target: "dupgate::worker", "worker stopping");
                self.handle(Event::Stop)
            }
        }
    }

    /// Stores the offsets of the transaction as committed, if the pending call has committed them.
    fn note_commit(&mut self, is_done: bool) {
        if self.calling.take() == Some(self.context.settings.output.delivery.last_call()) && is_done {
            for (partition, offset) in std::mem::take(&mut self.sent_offsets) {
                self.settled.committed(&partition, offset);
            }
        }
    }

    /// Reports missing topics, and rejoins the group when there are unassigned partitions.
    fn group(&mut self, all: Option<&BTreeSet<PartitionId>>, shares: Option<&[BTreeSet<PartitionId>]>) {
        self.is_group_query_pending = false;
        let Some(all) = all else { return };
        self.report.missing_topics(self.missing_topics.look(&self.context.input_topics(), all));
        let own = self.inputs.keys().cloned().collect();
        let missing = self.unassigned.look(all, shares, &own);
        if !missing.is_empty() {
            tracing::warn!(
                target: "dupgate::worker",
                partitions = %names(&missing), "rejoining the group: partitions unassigned although the group is stable"
            );
            self.member.command(Command::Rejoin);
        }
    }

    /// Rejoins the group if it has assigned partitions of a topic that is not configured: a static member that comes back
    /// gets the partitions that it had, whatever it subscribes to now, until the group rebalances.
    fn leave_foreign(&self, partitions: &BTreeSet<PartitionId>) {
        let Topics::Names(topics) = &self.context.settings.input.topics else { return };
        let is_foreign = |partition: &&PartitionId| !topics.iter().any(|topic| **topic == *partition.topic);
        let foreign: BTreeSet<PartitionId> = partitions.iter().filter(is_foreign).cloned().collect();
        if !foreign.is_empty() {
            tracing::warn!(
                target: "dupgate::worker",
                partitions = %names(&foreign), "rejoining the group: partitions assigned of topics that are not configured"
            );
            self.member.command(Command::Rejoin);
        }
    }

    pub(super) fn member_event(&mut self, event: ConsumerEvent) -> Result<(), Fatal> {
        match event {
            ConsumerEvent::Record { partition, offset, serial, record, permit } => {
                let Some(input) = self.inputs.get_mut(&partition).filter(|input| input.serial == serial) else {
                    return Ok(());
                };
                let place = input.order.reserve();
                self.settled.read(&partition, offset);
                self.report.read(&partition, record.bytes());
                self.pool.read(Job { source: partition.at(offset), serial, place, record: Arc::new(record), permit });
                Ok(())
            }
            ConsumerEvent::Started { partition, serial, offset } => {
                if self.inputs.get(&partition).is_none_or(|input| input.serial != serial) {
                    return Ok(());
                }
                self.settled.started(&partition, offset);
                self.handle(Event::Started(partition, offset))
            }
            ConsumerEvent::AtEnd { partition, serial, offset } => {
                if let Some(input) = self.inputs.get_mut(&partition).filter(|input| input.serial == serial) {
                    input.order.push(Ready::End);
                    self.settled.ended(&partition, offset);
                }
                self.hand_over(&partition)
            }
            ConsumerEvent::OutOfRange { partition, serial, offset, first, end } => {
                if let Some(input) = self.inputs.get_mut(&partition).filter(|input| input.serial == serial) {
                    input.order.push(Ready::OutOfRange { offset, first, end });
                    self.settled.out_of_range(&partition);
                }
                self.hand_over(&partition)
            }
            ConsumerEvent::Denied { partition, serial } => {
                if let Some(input) = self.inputs.get_mut(&partition).filter(|input| input.serial == serial) {
                    input.order.push(Ready::Denied);
                    self.settled.out_of_range(&partition);
                }
                self.hand_over(&partition)
            }
            ConsumerEvent::Assigned(partitions) => {
                tracing::info!(target: "dupgate::worker", partitions = %names(&partitions), "partitions assigned");
                self.leave_foreign(&partitions);
                self.report.metrics().rebalanced(Rebalance::Assign, partitions.len());
                self.handle(Event::Assigned(partitions))
            }
            ConsumerEvent::Revoked(partitions) => {
                tracing::info!(target: "dupgate::worker", partitions = %names(&partitions), "partitions revoked");
                self.report.metrics().rebalanced(Rebalance::Revoke, partitions.len());
                self.stop_reading(&partitions);
                // `settled` keeps their offsets until the revocation is done: they are checked before the last commit.
                self.revoked.extend(partitions.iter().cloned());
                self.revoked_at = Some(self.clock.now());
                self.handle(Event::Revoked(partitions))
            }
            ConsumerEvent::Lost(partitions) => {
                tracing::warn!(target: "dupgate::worker", partitions = %names(&partitions), "partitions lost");
                self.report.metrics().rebalanced(Rebalance::Lost, partitions.len());
                self.forget(&partitions);
                self.handle(Event::Lost(partitions))
            }
            ConsumerEvent::Renewed(membership) => {
                self.member.renew(membership);
                Ok(())
            }
            ConsumerEvent::Paused => {
                self.report.metrics().paused(Pause::Manual, self.held);
                Ok(())
            }
            ConsumerEvent::Reaches(reaches) => {
                self.report.reaches(reaches);
                Ok(())
            }
            ConsumerEvent::Left => Ok(()),
            ConsumerEvent::Failed(why) => Err(self.consumer_failed(Reason::Failure, &why)),
            ConsumerEvent::Fenced(why) => Err(self.consumer_failed(Reason::Config, &why)),
        }
    }

    fn consumer_failed(&self, reason: Reason, why: &str) -> Fatal {
        self.report.metrics().error(Component::Consumer, ErrorKind::Fatal);
        ended(reason, why, &self.context.settings.input.group)
    }

    pub(super) fn forget(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.stop_reading(partitions);
        self.settled.forget(partitions);
    }

    fn stop_reading(&mut self, partitions: &BTreeSet<PartitionId>) {
        for partition in partitions {
            self.inputs.remove(partition);
            self.paused.remove(partition);
        }
    }

    pub(super) fn read(&mut self, done: Done) -> Result<(), Fatal> {
        let Done { serial, place, page, permit } = done;
        let partition = page.source.partition.clone();
        let Some(input) = self.inputs.get_mut(&partition).filter(|input| input.serial == serial) else { return Ok(()) };
        input.order.fill(place, Ready::Page(Box::new(page), permit));
        self.hand_over(&partition)
    }

    /// Hands finished pages to the machine, in offset order.
    pub(super) fn hand_over(&mut self, partition: &PartitionId) -> Result<(), Fatal> {
        while let Some(ready) = self.inputs.get_mut(partition).and_then(|input| input.order.pop()) {
            match ready {
                Ready::End => self.handle(Event::AtEnd(partition.clone()))?,
                Ready::Denied => self.handle(Event::Denied(partition.clone()))?,
                Ready::OutOfRange { offset, first, end } => {
                    let partition = partition.clone();
                    self.handle(Event::OutOfRange { partition, offset, first, end })?;
                }
                Ready::Page(mut page, _held) => {
                    if self.must_stop_at(&page) {
                        self.inputs.remove(partition);
                        return self.handle(Event::StopAfter(partition.clone()));
                    }
                    page.payload.is_reported = self.report.page(&page);
                    self.handle(Event::Page(*page))?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether the worker must stop at this page: with `on_bad_record: stop`, the first bad record ends the
    /// process before its offset is committed.
    pub(super) fn must_stop_at(&mut self, page: &Page<PagePayload>) -> bool {
        if self.context.outputs.routing.bad_records != BadRecords::Stop {
            return false;
        }
        let reason = match &page.action {
            PageAction::Settled(PageOutcome::DeadLetter(reason)) | PageAction::Withdraw(_, reason) => *reason,
            PageAction::Settled(PageOutcome::Judged(_) | PageOutcome::Tombstone) | PageAction::Ask(..) => return false,
        };
        if self.leaving_because.is_none() {
            let why = page.payload.message.clone().unwrap_or_else(|| dupgate_core::worker::message(reason).to_owned());
            self.leaving_because = Some(Reason::Failure.because(anyhow::anyhow!(
                "{} cannot be judged ({}: {why}), and processing.on_bad_record is stop",
                page.source,
                reason.name()
            )));
        }
        true
    }

    pub(super) fn followed(&mut self, log: LogPartition, event: FollowEvent) -> Result<(), Fatal> {
        let Some(reader) = self.readers.get_mut(log.index()).filter(|reader| reader.serial == event.serial) else {
            return Ok(());
        };
        match event.kind {
            FollowEventKind::Record { offset, next, record, permit: _permit, .. } => {
                reader.next = Some(next);
                self.report.followed(log, &record);
                self.handle(Event::Followed { log, offset, record })
            }
            FollowEventKind::End(_) => self.handle(Event::FollowedToEnd(log)),
            FollowEventKind::Moved(why) => {
                tracing::warn!(target: "dupgate::worker", log = log.0, why, "rereading the verdict log");
                self.handle(Event::LogMoved(log))
            }
        }
    }

    pub(super) fn scanned(&mut self, log: LogPartition, event: FollowEvent) -> Result<(), Fatal> {
        let Some(Some(reader)) = self.scan_readers.get(log.index()) else { return Ok(()) };
        if reader.serial != event.serial {
            return Ok(());
        }
        match event.kind {
            FollowEventKind::Record { offset, record, permit: _permit, .. } => {
                self.handle(Event::Scanned { log, offset, record })
            }
            FollowEventKind::End(_) => {
                reader.follower.command(FollowCommand::Stop);
                self.handle(Event::ScannedToEnd(log))
            }
            FollowEventKind::Moved(why) => {
                tracing::warn!(target: "dupgate::worker", log = log.0, why, "failed to read old verdicts back");
                self.handle(Event::ScanMoved(log))
            }
        }
    }
}

fn names(partitions: &BTreeSet<PartitionId>) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The named topics that had no partitions at the last look.
#[derive(Debug, Default)]
pub(super) struct MissingTopics(BTreeSet<String>);

impl MissingTopics {
    /// Compares the configured topics, names or a pattern, with all partitions that exist. Returns the named topics
    /// that are missing now and were missing at the last look: a single answer may come from a broker whose metadata is
    /// out of date.
    pub(super) fn look(&mut self, topics: &[String], all: &BTreeSet<PartitionId>) -> BTreeSet<String> {
        let is_known = |topic: &str| all.iter().any(|partition| *partition.topic == *topic);
        let named = topics.iter().filter(|topic| !topic.starts_with('^'));
        let missing: BTreeSet<String> = named.filter(|topic| !is_known(topic)).cloned().collect();
        let before = std::mem::replace(&mut self.0, missing);
        before.intersection(&self.0).cloned().collect()
    }

    /// Returns whether any topic was missing at the last look.
    pub(super) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_topic_is_missing_after_two_looks_without_its_partitions() {
        let topics = ["a", "b", "^c.*"].map(str::to_owned);
        let partitions = |names: &[&str]| names.iter().map(|name| PartitionId::new(*name, 0)).collect();
        let mut missing = MissingTopics::default();
        assert_eq!(missing.look(&topics, &partitions(&["a", "b", "cc"])), BTreeSet::new());
        assert!(!missing.is_any());
        assert_eq!(missing.look(&topics, &partitions(&["a"])), BTreeSet::new(), "by the answer of one broker");
        assert!(missing.is_any());
        assert_eq!(missing.look(&topics, &partitions(&["a"])), BTreeSet::from(["b".to_owned()]));
        assert_eq!(missing.look(&topics, &partitions(&["b"])), BTreeSet::new());
    }
}
