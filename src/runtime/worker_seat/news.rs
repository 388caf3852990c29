//! What reaches the worker's seat, and the events that it means.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{News, Ready, WorkerSeat};
use crate::error::{Fatal, Reason};
use crate::kafka::fingerprint_log::{Appended, NotAppended};
use crate::kafka::member::{Command, MemberEvent};
use crate::kafka::output::Carried;
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowNews};
use crate::record::PartitionId;
use crate::runtime::text_pool::{Done, Job};
use crate::runtime::wiring::{append_denied, ended};
use crate::telemetry::labels::{Component, ErrorKind, Pause, Rebalance};
use crate::transaction::CallError;
use crate::worker::{BadRecords, Disposition, Errand, Event, LogPartition, Page};

impl WorkerSeat {
    pub(super) fn take(&mut self, news: News) -> Result<(), Fatal> {
        match news {
            News::Member(membership, event) if membership == self.memberships => self.member_event(event),
            News::Member(..) => Ok(()),
            News::Read(done) => self.read(done),
            News::Followed(log, event) => self.followed(log, event),
            News::Recalled(log, event) => self.recalled(log, event),
            News::Appended(Appended { offset: Err(NotAppended::Denied), .. }) => {
                Err(append_denied(&self.plan.names.fingerprints))
            }
            News::Appended(Appended { request, offset }) => {
                self.handle(Event::Appended(request, offset.map_err(|_| ())))
            }
            News::Called(answer) => {
                if let Err(CallError::Undeliverable { index, reason }) = &answer
                    && let Some(output) = self.worker.in_transaction(*index)
                {
                    self.report.given_up(output, *reason);
                }
                self.report.called(&answer);
                self.note_commit(answer.is_ok());
                self.handle(Event::Called(answer.map(|_| ())))
            }
            News::Checkpoint(log, offset) => self.handle(Event::Checkpoint(log, offset)),
            News::Unread(partitions) => self.handle(Event::Unread(partitions)),
            News::Committed(offsets) => self.handle(Event::Committed(offsets)),
            News::Backlog(backlogs) => self.handle(Event::Backlog(backlogs)),
            News::Group(all, shares) => {
                self.group(&all, shares.as_deref());
                Ok(())
            }
            News::Hold(is_held) => {
                self.hold(is_held);
                Ok(())
            }
            News::Stop => {
                tracing::info!("worker: stopping");
                self.handle(Event::Stop)
            }
        }
    }

    /// Notes the offsets that are committed now, when that is what the call that was out did.
    fn note_commit(&mut self, is_done: bool) {
        if self.calling.take() == Some(self.plan.manner().last_call()) && is_done {
            for (partition, offset) in std::mem::take(&mut self.sent_offsets) {
                if let Some(lane) = self.lanes.get_mut(&partition) {
                    lane.committed = Some(offset);
                }
            }
        }
    }

    /// Joins the group anew when there are partitions that nobody owns.
    fn group(&mut self, all: &BTreeSet<PartitionId>, shares: Option<&[BTreeSet<PartitionId>]>) {
        self.asks_group = false;
        let own = self.lanes.keys().cloned().collect();
        let missing = self.orphans.look(all, shares, &own);
        if !missing.is_empty() {
            tracing::warn!(partitions = %names(&missing), "nobody owns these, and the group is at rest: joining anew");
            self.command(Command::Rejoin);
        }
    }

    pub(super) fn member_event(&mut self, event: MemberEvent) -> Result<(), Fatal> {
        match event {
            MemberEvent::Record { partition, offset, serial, record, held } => {
                let Some(lane) = self.lanes.get_mut(&partition).filter(|lane| lane.serial == serial) else {
                    return Ok(());
                };
                lane.first.get_or_insert(offset);
                let place = lane.order.take();
                self.report.read(&partition, record.bytes());
                self.pool.read(Job { source: partition.at(offset), serial, place, record: Arc::new(record), held });
                Ok(())
            }
            MemberEvent::Started { partition, serial, offset } => {
                let Some(lane) = self.lanes.get_mut(&partition).filter(|lane| lane.serial == serial) else {
                    return Ok(());
                };
                lane.first.get_or_insert(offset);
                self.handle(Event::Started(partition, offset))
            }
            MemberEvent::AtEnd { partition, serial } => {
                if let Some(lane) = self.lanes.get_mut(&partition).filter(|lane| lane.serial == serial) {
                    lane.order.push(Ready::End);
                }
                self.hand_over(&partition)
            }
            MemberEvent::OutOfRange { partition, serial, offset, first, end } => {
                if let Some(lane) = self.lanes.get_mut(&partition).filter(|lane| lane.serial == serial) {
                    lane.order.push(Ready::OutOfRange { offset, first, end });
                }
                self.hand_over(&partition)
            }
            MemberEvent::Assigned(partitions) => {
                tracing::info!(partitions = %names(&partitions), "assigned");
                self.report.metrics().rebalanced(Rebalance::Assign, partitions.len());
                self.handle(Event::Assigned(partitions))
            }
            MemberEvent::Revoked(partitions) => {
                tracing::info!(partitions = %names(&partitions), "revoked");
                self.report.metrics().rebalanced(Rebalance::Revoke, partitions.len());
                self.forget(&partitions);
                self.revoked_at = Some(self.clock.now());
                self.handle(Event::Revoked(partitions))
            }
            MemberEvent::Lost(partitions) => {
                tracing::warn!(partitions = %names(&partitions), "lost");
                self.report.metrics().rebalanced(Rebalance::Lost, partitions.len());
                self.forget(&partitions);
                self.handle(Event::Lost(partitions))
            }
            MemberEvent::Renewed(membership) => {
                self.membership = membership;
                Ok(())
            }
            MemberEvent::Paused => {
                self.report.metrics().paused(Pause::Manual, self.held);
                Ok(())
            }
            MemberEvent::Reaches(reaches) => {
                self.report.reaches(reaches);
                Ok(())
            }
            MemberEvent::Left => Ok(()),
            MemberEvent::Failed(why) => Err(self.consumer_failed(Reason::Failure, &why)),
            MemberEvent::Fenced(why) => Err(self.consumer_failed(Reason::Config, &why)),
        }
    }

    fn consumer_failed(&self, reason: Reason, why: &str) -> Fatal {
        self.report.metrics().error(Component::Consumer, ErrorKind::Fatal);
        ended(reason, why, &self.plan.settings)
    }

    pub(super) fn forget(&mut self, partitions: &BTreeSet<PartitionId>) {
        for partition in partitions {
            self.lanes.remove(partition);
            self.paused.remove(partition);
        }
    }

    pub(super) fn read(&mut self, done: Done) -> Result<(), Fatal> {
        let Done { serial, place, page, held } = done;
        let partition = page.source.partition.clone();
        let Some(lane) = self.lanes.get_mut(&partition).filter(|lane| lane.serial == serial) else { return Ok(()) };
        lane.order.fill(place, Ready::Page(Box::new(page), held));
        self.hand_over(&partition)
    }

    /// Hands the machine what is done, in offset order.
    pub(super) fn hand_over(&mut self, partition: &PartitionId) -> Result<(), Fatal> {
        while let Some(ready) = self.lanes.get_mut(partition).and_then(|lane| lane.order.pop()) {
            match ready {
                Ready::End => self.handle(Event::AtEnd(partition.clone()))?,
                Ready::OutOfRange { offset, first, end } => {
                    let partition = partition.clone();
                    self.handle(Event::OutOfRange { partition, offset, first, end })?;
                }
                Ready::Page(page, _held) => {
                    if self.must_stop_at(&page) {
                        self.lanes.remove(partition);
                        return self.handle(Event::StopBehind(partition.clone()));
                    }
                    self.report.page(&page);
                    self.handle(Event::Page(*page))?;
                }
            }
        }
        Ok(())
    }

    /// With `on_bad_record: stop` the first bad record ends the program before its offset is committed.
    pub(super) fn must_stop_at(&mut self, page: &Page<Carried>) -> bool {
        if self.plan.outputs.routing.bad_records != BadRecords::Stop {
            return false;
        }
        let reason = match &page.errand {
            Errand::Settled(Disposition::DeadLetter(reason)) | Errand::Withdraw(_, reason) => *reason,
            Errand::Settled(Disposition::Ruled(_) | Disposition::Tombstone) | Errand::Ask(..) => return false,
        };
        if self.leaving_because.is_none() {
            let why = page.payload.message.clone().unwrap_or_else(|| crate::worker::message(reason).to_owned());
            self.leaving_because = Some(Reason::Failure.because(anyhow::anyhow!(
                "{} cannot be judged ({}: {why}), and processing.on_bad_record is stop",
                page.source,
                reason.name()
            )));
        }
        true
    }

    pub(super) fn followed(&mut self, log: LogPartition, event: FollowEvent) -> Result<(), Fatal> {
        let Some(reader) = self.readers.get_mut(log).filter(|reader| reader.serial == event.serial) else {
            return Ok(());
        };
        match event.news {
            FollowNews::Record { offset, next, record, held: _held } => {
                reader.next = Some(next);
                self.report.followed(log, &record);
                self.handle(Event::Followed { log, offset, record })
            }
            FollowNews::End => self.handle(Event::FollowedToEnd(log)),
            FollowNews::Moved(why) => {
                tracing::warn!(log, why, "the verdict log is read anew");
                self.handle(Event::LogMoved(log))
            }
        }
    }

    pub(super) fn recalled(&mut self, log: LogPartition, event: FollowEvent) -> Result<(), Fatal> {
        let Some(Some(reader)) = self.recalls.get(log) else { return Ok(()) };
        if reader.serial != event.serial {
            return Ok(());
        }
        match event.news {
            FollowNews::Record { offset, record, held: _held, .. } => {
                self.handle(Event::Recalled { log, offset, record })
            }
            FollowNews::End => {
                reader.follower.command(FollowCommand::Stop);
                self.handle(Event::RecalledToEnd(log))
            }
            FollowNews::Moved(why) => {
                tracing::warn!(log, why, "old verdicts cannot be read back");
                self.handle(Event::RecallMoved(log))
            }
        }
    }
}

fn names(partitions: &BTreeSet<PartitionId>) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
