//! Requests to the judge and its verdicts: appends to the fingerprint log, and readers of the verdict log.
//!
//! One reader follows each partition of the verdict log; another one, created on demand, reads old verdicts back.

use std::collections::BTreeSet;

use dupgate_core::worker::Event;

use super::{LINGER, Message, QUERY_TIMEOUT, WorkerDriver};
use crate::context::SCAN;
use crate::error::Fatal;
use crate::fatal::{append_denied, failure};
use crate::kafka::fingerprint_log::{Appended, NotAppended, RequestLog};
use crate::kafka::offsets::Offsets;
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, Follower};
use crate::protocol::{LogPartition, Request, VerdictOffset};
use crate::threads::sink;

/// A reader of one verdict log, and the serial number of its current command.
pub(super) struct Reader {
    pub(super) follower: Follower,
    pub(super) serial: u64,
    /// Next offset to follow, `None` before the first record. Only the lag needs it.
    pub(super) next: Option<VerdictOffset>,
}

impl WorkerDriver {
    pub(super) fn append(&mut self, log: LogPartition, request: Request) {
        self.report.requested(log, request.id);
        self.requests_since.get_or_insert_with(|| self.clock.now());
        match (self.context.number_of_earlier(log), &mut self.earlier_requests) {
            (Some(number), Some(requests)) => requests.append(number, request),
            _ => self.requests.append(log, request),
        }
    }

    /// Returns the logs that requests are sent to.
    pub(super) fn request_logs(&mut self) -> impl Iterator<Item = &mut RequestLog> {
        std::iter::once(&mut self.requests).chain(&mut self.earlier_requests)
    }

    pub(super) fn send_requests(&mut self) {
        let now = self.clock.now();
        if self.requests_since.is_some_and(|since| now.saturating_sub(since) >= LINGER) {
            self.request_logs().for_each(RequestLog::send);
            self.requests_since = None;
        }
    }

    pub(super) fn appended(&mut self, Appended { request, offset }: Appended) -> Result<(), Fatal> {
        if offset == Err(NotAppended::Denied) {
            return Err(append_denied(&self.context.names.fingerprints));
        }
        self.handle(Event::Appended(request, offset.map_err(|_| ())))
    }

    pub(super) fn fetch_checkpoint(&self, log: LogPartition) -> Result<(), Fatal> {
        let judges = self.context.connection.query(&self.context.judge_group(log));
        // A client asks on behalf of one group, and once. It connects while those of other partitions are asked.
        let offsets = Offsets::new(&judges, QUERY_TIMEOUT).map_err(failure)?;
        let (sender, partition) = (self.sender.clone(), self.context.fingerprints(log));
        self.background_tasks.run(move || {
            let committed =
                offsets.committed(&BTreeSet::from([partition.clone()])).map_err(|error| error.to_string())?;
            offsets.close_idle();
            let metadata = committed.into_values().flatten().next().map(|committed| committed.metadata);
            drop(
                sender
                    .send(Message::Checkpoint(log, metadata.and_then(|offset| offset.parse().ok()).map(VerdictOffset))),
            );
            Ok(())
        });
        Ok(())
    }

    pub(super) fn follow(&mut self, log: LogPartition, from: Option<VerdictOffset>) {
        self.serials += 1;
        if let Some(reader) = self.readers.get_mut(log.index()) {
            reader.serial = self.serials;
            reader.next = None;
            reader.follower.command(FollowCommand::From(from, self.serials));
        }
    }

    pub(super) fn follow_to_end(&self, log: LogPartition) {
        if let Some(reader) = self.readers.get(log.index()) {
            reader.follower.command(FollowCommand::ToEnd(reader.serial));
        }
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

    pub(super) fn scan(&mut self, log: LogPartition, from: Option<VerdictOffset>) -> Result<(), Fatal> {
        self.serials += 1;
        let serial = self.serials;
        let Some(place) = self.scan_readers.get_mut(log.index()) else { return Ok(()) };
        let reader = if let Some(reader) = place {
            reader
        } else {
            let sink = sink(&self.sender, move |event| Message::Scanned(log, event));
            let follower = self.context.follow(log, SCAN, &self.log_budget, sink)?;
            place.insert(Reader { follower, serial, next: None })
        };
        reader.serial = serial;
        reader.follower.command(FollowCommand::From(from, serial));
        reader.follower.command(FollowCommand::ToEnd(serial));
        Ok(())
    }

    pub(super) fn end_scan(&mut self, log: LogPartition) {
        self.serials += 1;
        if let Some(Some(reader)) = self.scan_readers.get_mut(log.index()) {
            // Records that the reader has read ahead carry the old serial number and are dropped.
            reader.serial = self.serials;
            reader.follower.command(FollowCommand::Stop);
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
