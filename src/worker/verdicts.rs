//! Requests to the judge and its verdicts: appends to the fingerprint log, and readers of the verdict log.
//!
//! One reader follows all partitions of the verdict logs; another one, created on demand, reads old verdicts back.

use std::collections::BTreeSet;
use std::sync::Arc;

use dupgate_core::worker::Event;

use super::{LINGER, Message, QUERY_TIMEOUT, WorkerDriver};
use crate::context::SCAN;
use crate::error::Fatal;
use crate::fatal::append_denied;
use crate::kafka::fingerprint_log::{Appended, NotAppended, RequestLog};
use crate::kafka::offsets::Offsets;
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, Follower};
use crate::protocol::{LogPartition, Request, VerdictOffset};
use crate::threads::sink;

/// How many clients ask at once for what the judges' groups have committed; as many are being closed meanwhile.
const CHECKPOINT_CLIENTS: usize = 4;

/// The reader of one verdict log, and the serial number of its current command.
pub(super) struct Reader {
    pub(super) follower: Follower,
    pub(super) serial: u64,
    /// Next offset to follow, `None` before the first record. Only the lag needs it.
    pub(super) next: Option<VerdictOffset>,
}

impl Reader {
    /// Pairs followers with what they have been told: nothing.
    pub(super) fn of(followers: Vec<Follower>) -> Vec<Self> {
        followers.into_iter().map(|follower| Self { follower, serial: 0, next: None }).collect()
    }
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

    /// Asks for the checkpoints that the machine wants to know. A client asks on behalf of one group, and there is a group
    /// for each log, so only some of them exist at once; they connect while the first of them is asked.
    pub(super) fn fetch_checkpoints(&mut self) {
        let mut wanted = std::mem::take(&mut self.wanted_checkpoints);
        if wanted.is_empty() {
            return;
        }
        let (context, sender) = (Arc::clone(&self.context), self.sender.clone());
        self.background_tasks.run(move || {
            while !wanted.is_empty() {
                let query = |log| Offsets::new(&context.connection.query(&context.judge_group(log)), QUERY_TIMEOUT);
                let next = wanted.iter().take(CHECKPOINT_CLIENTS).map(|log| query(*log).map(|offsets| (*log, offsets)));
                for (log, offsets) in next.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())? {
                    let partition = BTreeSet::from([context.fingerprints(log)]);
                    let committed = offsets.committed(&partition).map_err(|error| error.to_string())?;
                    offsets.close_idle();
                    let metadata = committed.into_values().flatten().next().map(|committed| committed.metadata);
                    let checkpoint = metadata.and_then(|offset| offset.parse().ok()).map(VerdictOffset);
                    drop(sender.send(Message::Checkpoint(log, checkpoint)));
                    wanted.retain(|known| *known != log);
                }
            }
            Ok(())
        });
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
        if self.scan_readers.is_empty() {
            let sink = |log| sink(&self.sender, move |event| Message::Scanned(log, event));
            self.scan_readers = Reader::of(self.context.follow_all(SCAN, &self.log_budget, sink)?);
        }
        let Some(reader) = self.scan_readers.get_mut(log.index()) else { return Ok(()) };
        reader.serial = serial;
        reader.follower.command(FollowCommand::From(from, serial));
        reader.follower.command(FollowCommand::ToEnd(serial));
        Ok(())
    }

    pub(super) fn end_scan(&mut self, log: LogPartition) {
        self.serials += 1;
        if let Some(reader) = self.scan_readers.get_mut(log.index()) {
            // Records that the reader has read ahead carry the old serial number and are dropped.
            reader.serial = self.serials;
            reader.follower.command(FollowCommand::Stop);
        }
    }

    pub(super) fn scanned(&mut self, log: LogPartition, event: FollowEvent) -> Result<(), Fatal> {
        let Some(reader) = self.scan_readers.get(log.index()) else { return Ok(()) };
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
