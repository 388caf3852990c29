//! Sends requests to the judges of the new scheme and tracks their progress.

use std::collections::BTreeMap;
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::Message;
use crate::context::ServiceContext;
use crate::error::{Fatal, Reason};
use crate::fatal::{self, failure};
use crate::kafka::budget::ByteBudget;
use crate::kafka::fingerprint_log::{Appended, NotAppended, RequestLog};
use crate::kafka::verdict_log::{FollowCommand, FollowEventKind, Follower};
use crate::protocol::{LogPartition, Request, RequestBody, RequestId, RequestOffset, VerdictRecord};

/// Bytes of verdicts that are read ahead.
const AHEAD: usize = 16 << 20;

/// Sends requests to the judges of all log partitions, and tracks which of them are pending.
pub(super) struct Asks {
    requests: RequestLog,
    topic: Arc<str>,
    followers: Vec<Follower>,
    /// Requests that were sent and are not known to be in the log.
    unacknowledged: BTreeMap<RequestId, (LogPartition, RequestBody)>,
    logs: Vec<LogRequests>,
    total: u64,
}

/// One partition of the logs.
#[derive(Debug, Default)]
struct LogRequests {
    /// Requests in the fingerprint log that no judge has passed, by offset.
    written: BTreeMap<RequestOffset, usize>,
    /// The judge has passed every request before this one.
    next_request: RequestOffset,
}

impl LogRequests {
    fn append(&mut self, offset: RequestOffset) {
        if offset >= self.next_request {
            *self.written.entry(offset).or_default() += 1;
        }
    }

    fn pass(&mut self, next_request: RequestOffset) {
        self.next_request = self.next_request.max(next_request);
        self.written = self.written.split_off(&self.next_request);
    }

    fn pending(&self) -> usize {
        self.written.values().sum()
    }
}

impl Asks {
    /// Connects to both logs of the new scheme, and reads its verdict log from the beginning.
    pub(super) fn open(plan: &ServiceContext, logs: usize, sender: &Sender<Message>) -> Result<Self, Fatal> {
        let budget = ByteBudget::new(AHEAD);
        let mut followers = Vec::new();
        for log in LogPartition::first(logs) {
            let sender_of_log = sender.clone();
            let follower =
                plan.follow(log, "warm", &budget, move |event| drop(sender_of_log.send(Message::New(log, event))))?;
            follower.command(FollowCommand::From(None, 1));
            follower.command(FollowCommand::ToEnd(1));
            followers.push(follower);
        }
        let (topic, sender_of_log) = (Arc::clone(&plan.names.fingerprints), sender.clone());
        let config = plan.connection.request_producer();
        let requests =
            RequestLog::open(&config, topic.to_string(), logs, Arc::clone(&plan.in_flight), move |appended| {
                drop(sender_of_log.send(Message::Appended(appended)));
            })
            .map_err(failure)?;
        let pending = (0..logs).map(|_| LogRequests::default()).collect();
        Ok(Self { requests, topic, followers, unacknowledged: BTreeMap::new(), logs: pending, total: 0 })
    }

    /// Returns the number of partitions of the logs.
    pub(super) fn logs(&self) -> usize {
        self.followers.len()
    }

    /// Adds a request to the judge of one partition. The next [`Asks::send`] sends it.
    pub(super) fn ask(&mut self, log: LogPartition, request: RequestId, body: RequestBody) {
        // The same change may go to every log partition; each copy needs an id of its own.
        let request = RequestId(request.0 ^ u64::from(log.0).rotate_right(16));
        self.unacknowledged.insert(request, (log, body.clone()));
        self.total += 1;
        self.requests.append(log, Request { id: request, body });
    }

    /// Hands all requests to the client.
    pub(super) fn send(&mut self) {
        self.requests.send();
        self.requests.replace_if_lost();
    }

    /// Returns the number of requests.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of requests that no judge has passed.
    pub(super) fn pending(&self) -> usize {
        self.unacknowledged.len() + self.logs.iter().map(LogRequests::pending).sum::<usize>()
    }

    /// Notes the offset of a request.
    pub(super) fn appended(&mut self, appended: Appended) -> Result<(), Fatal> {
        let Appended { request, offset } = appended;
        match offset {
            Ok(offset) => {
                if let Some((log, _)) = self.unacknowledged.remove(&request)
                    && let Some(pending) = self.logs.get_mut(log.index())
                {
                    pending.append(offset);
                }
                Ok(())
            }
            Err(NotAppended::Denied) => Err(fatal::append_denied(&self.topic)),
            // A request is applied once, even if the log holds it several times.
            Err(NotAppended::Uncertain) => {
                if let Some((log, body)) = self.unacknowledged.get(&request) {
                    self.requests.append(*log, Request { id: request, body: body.clone() });
                    self.requests.send();
                }
                Ok(())
            }
        }
    }

    /// Processes an event of the new verdict log. Returns whether it reports that the log was read to its end.
    pub(super) fn followed(&mut self, log: LogPartition, news: &FollowEventKind) -> Result<bool, Fatal> {
        match news {
            FollowEventKind::Record { record: VerdictRecord::Verdicts(batch), .. } => {
                if let Some(pending) = self.logs.get_mut(log.index()) {
                    pending.pass(batch.next_request);
                }
                Ok(false)
            }
            FollowEventKind::Record { record: VerdictRecord::Checkpoint(checkpoint), .. } => {
                if let Some(pending) = self.logs.get_mut(log.index()) {
                    pending.pass(checkpoint.next_request);
                }
                Ok(false)
            }
            FollowEventKind::Record { record: VerdictRecord::Rules(_), .. } => Ok(false),
            FollowEventKind::End(_) => Ok(true),
            FollowEventKind::Moved(why) => {
                Err(Reason::State.because(anyhow::anyhow!("verdict log {log} of the new scheme: {why}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_pending_until_the_judge_has_passed_its_record() {
        let mut pending = LogRequests::default();
        [4, 4, 5, 7].into_iter().for_each(|offset| pending.append(RequestOffset(offset)));
        assert_eq!(pending.pending(), 4);
        pending.pass(RequestOffset(5));
        assert_eq!(pending.pending(), 2, "the record at 4 is passed, that at 5 comes next");
        pending.append(RequestOffset(4));
        assert_eq!(pending.pending(), 2, "the report of a record may come after its verdicts");
        pending.pass(RequestOffset(3));
        pending.pass(RequestOffset(8));
        assert_eq!(pending.pending(), 0);
    }
}
