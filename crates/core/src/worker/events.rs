//! Inputs (events) and outputs (effects) of the worker; why a partition of the input is blocked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::fingerprint::PerMille;
use crate::protocol::{
    LogPartition, PageRequest, Request, RequestBody, RequestId, RequestOffset, Verdict, VerdictOffset, VerdictRecord,
};
use crate::record::{PartitionId, Reject, Source, Timestamp};
use crate::transaction::{Call, CallError, Delivery};

/// One page read from the input, its text work done. `P` is the record itself, which only the edge looks into.
#[derive(Clone, Debug)]
pub struct Page<P> {
    /// Its position.
    pub source: Source,
    /// What it costs to hold it, in bytes.
    pub bytes: usize,
    /// Its event time.
    pub event_time: Timestamp,
    /// The time that partitions are paced by: its event time, at most the moment at which it was read. The queue replaces
    /// a time of the future by that of the page before it. No verdict depends on it.
    pub paced_by: Timestamp,
    /// What is to be done with it.
    pub action: PageAction,
    /// What the judge of an earlier scheme is asked first, in the dual period of the log that `action` names.
    pub earlier: Option<Box<Earlier>>,
    /// The record.
    pub payload: P,
}

/// What is to be done with a page.
#[derive(Clone, Debug)]
pub enum PageAction {
    /// Ask the judge of this partition of the logs.
    Ask(LogPartition, PageRequest),
    /// Nothing to ask: a tombstone, or a dead letter for a reason of the page itself.
    Settled(PageOutcome),
    /// It cannot be delivered as judged: withdraw it, then dead-letter it.
    Withdraw(LogPartition, Reject),
}

/// A question about a page to the judge of an earlier scheme, which decides in the dual period.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// The log of the earlier scheme.
    log: LogPartition,
    /// The page by that scheme; absent if it is to be withdrawn.
    request: Option<PageRequest>,
    is_answered: bool,
}

impl Earlier {
    /// Asks the judge of this log about the page, or to withdraw it.
    #[must_use]
    pub const fn new(log: LogPartition, request: Option<PageRequest>) -> Self {
        Self { log, request, is_answered: false }
    }
}

impl<P> Page<P> {
    /// Returns the log of the scheme that has the last word on it, unless its end is known without.
    #[must_use]
    pub(super) const fn log(&self) -> Option<LogPartition> {
        match self.action {
            PageAction::Ask(log, _) | PageAction::Withdraw(log, _) => Some(log),
            PageAction::Settled(_) => None,
        }
    }

    /// Returns the log of the earlier scheme, if that is concerned.
    #[must_use]
    pub(super) fn earlier_log(&self) -> Option<LogPartition> {
        self.earlier.as_ref().map(|earlier| earlier.log)
    }

    /// Returns the log of the earlier scheme, if that has not answered.
    #[must_use]
    pub(super) fn unanswered_earlier_log(&self) -> Option<LogPartition> {
        self.earlier.as_ref().filter(|earlier| !earlier.is_answered).map(|earlier| earlier.log)
    }

    /// Returns what a log is asked about it; nothing if the log is not concerned.
    pub(super) fn question(&self, log: LogPartition) -> Option<RequestBody> {
        let earlier = self.earlier.as_ref().filter(|earlier| earlier.log == log);
        match (&self.action, earlier) {
            (PageAction::Ask(_, _), Some(earlier)) => earlier.request.clone().map(RequestBody::Page),
            (PageAction::Ask(_, request), None) => Some(RequestBody::Page(request.clone())),
            (PageAction::Withdraw(_, reason), _) => {
                Some(RequestBody::Withdraw { source: self.source.clone(), reason: *reason })
            }
            (PageAction::Settled(_), _) => None,
        }
    }

    /// Takes the end that the earlier scheme gives the page; `None`, if the log does not say it any more.
    pub(super) fn take_earlier(&mut self, end: Option<&PageOutcome>) {
        if let Some(earlier) = &mut self.earlier {
            earlier.is_answered = true;
        }
        let PageAction::Ask(log, request) = &mut self.action else { return };
        match end {
            Some(PageOutcome::Judged(verdict)) => {
                let page = verdict.answer.page();
                request.earlier = page.map(|page| Box::new(page.decision.without_original()));
            }
            Some(PageOutcome::DeadLetter(reason)) => self.action = PageAction::Withdraw(*log, *reason),
            Some(PageOutcome::Tombstone) | None => {}
        }
    }

    /// Asks the earlier scheme anew.
    pub(super) fn ask_earlier_again(&mut self) {
        if let Some(earlier) = &mut self.earlier {
            earlier.is_answered = false;
        }
        if let PageAction::Ask(_, request) = &mut self.action {
            request.earlier = None;
        }
    }
}

/// The outcome of a page (law L1).
#[derive(Clone, Debug, PartialEq)]
pub enum PageOutcome {
    /// With the judge's verdict.
    Judged(Arc<Verdict>),
    /// To the dead letter topic.
    DeadLetter(Reject),
    /// A null value: forwarded or dropped, as configured, without a look at it.
    Tombstone,
}

/// One page with its end, as handed to the producer.
#[derive(Clone, Debug)]
pub struct Output<P> {
    /// The page.
    pub page: Page<P>,
    /// Its end.
    pub outcome: PageOutcome,
}

/// An event from the driver.
#[derive(Clone, Debug)]
pub enum Event<P> {
    /// Answers [`Effect::FetchCheckpoint`]: the metadata of the judge's committed offset.
    Checkpoint(LogPartition, Option<VerdictOffset>),
    /// A committed record of a verdict log, in order.
    Followed {
        /// Which log.
        log: LogPartition,
        /// Its offset.
        offset: VerdictOffset,
        /// The record.
        record: VerdictRecord,
    },
    /// Answers [`Effect::FollowToEnd`].
    FollowedToEnd(LogPartition),
    /// The verdict log does not reach back to where [`Effect::Follow`] asked.
    LogMoved(LogPartition),
    /// The group gave these partitions to us.
    Assigned(BTreeSet<PartitionId>),
    /// The group takes these away, and waits until [`Effect::RevokeDone`].
    Revoked(BTreeSet<PartitionId>),
    /// The group took these away some time ago.
    Lost(BTreeSet<PartitionId>),
    /// Answers [`Effect::FetchNewToGroup`].
    NewToGroup(BTreeSet<PartitionId>),
    /// Answers [`Effect::FetchCommitted`].
    Committed(BTreeMap<PartitionId, Option<i64>>),
    /// Answers [`Effect::FetchBacklog`].
    Backlog(BTreeMap<PartitionId, Backlog>),
    /// Reading of this partition begins at this offset: comes before its first page where [`Effect::Seek`] did not name
    /// the offset.
    Started(PartitionId, i64),
    /// The next page of its partition.
    Page(Page<P>),
    /// The partition has nothing more for now; pages come again later without notice.
    AtEnd(PartitionId),
    /// The brokers do not let us read the partition's topic: nothing more comes until it is sought again.
    Denied(PartitionId),
    /// The partition does not hold the offset that comes next: nothing more comes until it is sought again.
    OutOfRange {
        /// Which partition.
        partition: PartitionId,
        /// The offset that comes next.
        offset: i64,
        /// First offset that it holds.
        first: i64,
        /// After the last one.
        end: i64,
    },
    /// Answers [`Effect::Append`]: the offset in the fingerprint log, or that delivery is not certain.
    Appended(RequestId, Result<RequestOffset, ()>),
    /// A record of a verdict log that was asked for by the latest [`Effect::ScanVerdicts`] of that log; what a replaced
    /// one still brings is not handed over.
    Scanned {
        /// Which log.
        log: LogPartition,
        /// Its offset.
        offset: VerdictOffset,
        /// The record.
        record: VerdictRecord,
    },
    /// The scan reached the end of what was committed when it began; no record follows until the next one.
    ScannedToEnd(LogPartition),
    /// The scan asked for an offset that the log does not hold any more.
    ScanMoved(LogPartition),
    /// Answers [`Effect::Call`].
    Called(Result<(), CallError>),
    /// Time passed.
    Tick,
    /// Deliver what can be delivered and leave.
    Stop,
    /// The same, once every page of this partition that was read has had its turn: none comes after them.
    StopAfter(PartitionId),
}

/// An effect that the worker asks for.
#[derive(Clone, Debug)]
pub enum Effect<P> {
    /// Look up the latest checkpoint of this log. Answered by [`Event::Checkpoint`].
    FetchCheckpoint(LogPartition),
    /// Hand over the verdict log from this offset on, from its beginning when there is none. What an earlier one has
    /// not handed over yet, and its unanswered [`Effect::FollowToEnd`], are forgotten.
    Follow {
        /// Which log.
        log: LogPartition,
        /// First offset wanted.
        from: Option<VerdictOffset>,
    },
    /// Say when all that is committed now was handed over. Answered by [`Event::FollowedToEnd`].
    FollowToEnd(LogPartition),
    /// Which partitions of the input are there that belong to no topic the group has an offset of (see
    /// [`new_to_group`](super::new_to_group))? Offsets that open transactions are about to move may be answered as they
    /// were before. Answered by [`Event::NewToGroup`].
    FetchNewToGroup,
    /// Join the input group.
    Join,
    /// Leave it.
    Leave,
    /// Ask for the group's stable committed offsets: of these partitions alone, because the answer waits for every
    /// transaction that is about to move one of them. Each is answered by one [`Event::Committed`], in order.
    FetchCommitted(BTreeSet<PartitionId>),
    /// What is left to read of all partitions of the input, as far as it can be determined without waiting? For these,
    /// the times of the pages from this offset on are wanted, too. Answered by one [`Event::Backlog`].
    FetchBacklog(BTreeMap<PartitionId, i64>),
    /// Deliver pages from this offset on. Pages read before the seek are never delivered after it, even if their text
    /// work finishes later.
    Seek {
        /// Which partition.
        partition: PartitionId,
        /// Where to begin.
        from: ReadFrom,
    },
    /// Hand over no pages of these partitions until they are resumed. A page already on its way may still come.
    Pause(BTreeSet<PartitionId>),
    /// Continue with these.
    Resume(BTreeSet<PartitionId>),
    /// Append this request to the fingerprint log. Answered by [`Event::Appended`].
    Append(LogPartition, Request),
    /// Read a verdict log a second time, beside the following: from this offset (from its beginning when there is
    /// none) to the end of what is committed now. Replaces an earlier scan of the same log.
    ScanVerdicts {
        /// Which log.
        log: LogPartition,
        /// First offset wanted.
        from: Option<VerdictOffset>,
    },
    /// Nothing more of the latest [`Effect::ScanVerdicts`] of this log is wanted, and nothing of it is handed over any
    /// more.
    EndScan(LogPartition),
    /// Make this call to the transactional producer. Answered by [`Event::Called`].
    Call(ProducerCall<P>),
    /// These pages have ended: their outputs and offsets are committed.
    Delivered(Vec<Arc<Output<P>>>),
    /// The revoked partitions may go to their next owner.
    RevokeDone,
    /// Everything deliverable is committed and the group is left.
    Stopped,
    /// Nothing more can be done here: end the process.
    Fail(Failure),
}

/// Where reading of a partition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// At this offset.
    Offset(i64),
    /// At its oldest record. Answered by [`Event::Started`].
    Beginning,
    /// Where the configuration says (`input.start`). Answered by [`Event::Started`].
    ConfiguredStart,
}

/// A call to the worker's producer, with what it carries.
#[derive(Clone, Debug)]
pub enum ProducerCall<P> {
    /// Send these pages to where they belong.
    Produce(Vec<Arc<Output<P>>>),
    /// Commit these positions of the input.
    SendOffsets(BTreeMap<PartitionId, i64>),
    /// A call that carries nothing.
    Plain(Call),
}

/// Why the worker gives up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Another process uses the same transactional id.
    #[error(
        "another process runs with the same input.group and input.instance_id, and has taken over the transactional id: give each \
         instance an instance_id of its own ({0})"
    )]
    Fenced(String),
    /// The producer is beyond repair.
    #[error("the producer cannot continue: {0}")]
    Producer(String),
    /// The verdict log says something that cannot be.
    #[error("verdict log {log}, offset {offset}: {why}")]
    Unreadable {
        /// Which log.
        log: LogPartition,
        /// Where.
        offset: VerdictOffset,
        /// What is wrong.
        why: String,
    },
}

/// What is left to read of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The next offset to read: the committed one, or where a group without one begins.
    pub next: i64,
    /// The offset after the last record.
    pub end: i64,
    /// Times of the first pages from the offset that was asked for, at most [`Backlog::PAGES`]; none when no page
    /// follows. Absent when it was not asked for, or is not known.
    pub head: Option<Vec<Timestamp>>,
}

impl Backlog {
    /// Pages that have to agree on the time of a partition.
    pub const PAGES: usize = 8;
}

/// Settings of a worker.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Partitions of the two logs.
    pub logs: usize,
    /// Partitions of the two logs of an earlier scheme, which come after those: asked first in the dual period.
    pub earlier_logs: usize,
    /// First request id; the following ones count up from it. Drawn by the edge, so that no two workers, and no two
    /// runs of one, share an id.
    pub first_request: u64,
    /// Verdicts remembered, of all logs together; older ones are read back when they are needed.
    pub remembered_verdicts: usize,
    /// Offsets that reading back keeps verdicts for, of all logs and partitions together.
    pub scanned_positions: i64,
    /// Bytes of pages that may wait for their verdict and their transaction.
    pub in_flight_bytes: usize,
    /// Most pages in one transaction.
    pub transaction_pages: usize,
    /// When the coordinator ends a transaction.
    pub transaction_timeout: Duration,
    /// Longest time between the beginnings of two transactions. It is shorter if the brokers commit quickly.
    pub commit_interval: Duration,
    /// How long a revoked partition may take to commit what is complete.
    pub revoke_grace: Duration,
    /// How long pages may still be answered and delivered after [`super::Event::Stop`].
    pub shutdown_grace: Duration,
    /// When a partition waits for another one.
    pub pacing: Pacing,
    /// Share of dead letters among the last 1000 records above which everything is paused; one never pauses.
    pub pause_above_dead_letters: PerMille,
    /// Exactly once, or at least once.
    pub delivery: Delivery,
}

impl WorkerSettings {
    /// Returns the number of partitions of all logs.
    pub(super) const fn all_logs(&self) -> usize {
        self.logs.saturating_add(self.earlier_logs)
    }

    /// Returns the logs of the earlier scheme.
    pub(super) fn earlier(&self) -> impl Iterator<Item = LogPartition> + use<> {
        LogPartition::first(self.all_logs()).skip(self.logs)
    }

    /// Returns whether a log is one of the earlier scheme.
    pub(super) const fn is_earlier(&self, log: LogPartition) -> bool {
        log.index() >= self.logs
    }

    /// Returns how many verdicts of each log are remembered.
    pub(super) fn remembered_of_each_log(&self) -> usize {
        self.remembered_verdicts.checked_div(self.all_logs()).unwrap_or(0).max(1)
    }

    /// Returns for how many offsets verdicts of each log are kept that were read back.
    pub(super) fn scanned_of_each_log(&self) -> i64 {
        self.scanned_positions.checked_div(i64::try_from(self.all_logs()).unwrap_or(i64::MAX)).unwrap_or(0).max(1)
    }
}

/// When a partition waits for another one.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// How far, in event time, a partition may be ahead of the slowest one. It resumes when it leads by half of that.
    pub lead: Duration,
    /// How far behind the newest page judged a partition may be to be waited for: nothing that is found for its pages
    /// is remembered beyond.
    pub reach: Duration,
    /// For how long one of our own partitions that gives no pages is waited for.
    pub idle_after: Duration,
    /// For how long a partition of another worker is waited for that does not move: that worker may be starting again.
    pub away_after: Duration,
    /// From one look for the slowest partition to the next.
    pub interval: Duration,
    /// From one question about what is left of the partitions to the next, while a slower one is waited for.
    pub look_interval: Duration,
}

impl Pacing {
    /// Returns whether a page of time `foremost` may be waiting for a partition at `time`: one that waits does so until
    /// half of the lead is left.
    pub(super) fn is_behind(&self, time: Timestamp, foremost: Option<Timestamp>) -> bool {
        foremost.is_some_and(|foremost| time.plus(self.lead / 2) < foremost)
    }

    /// Returns whether waiting for a partition at `time` keeps anything from being forgotten too early. A page without
    /// a time of its own tells nothing.
    pub(super) fn is_of_use(&self, time: Timestamp, newest: Option<Timestamp>) -> bool {
        let is_known = time == Timestamp::MIN || time > Timestamp::default();
        is_known && newest.is_none_or(|newest| time >= newest.minus(self.reach))
    }
}

/// Why a partition cannot be read on. Shown with the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// A position is judged, and its verdict cannot be read back any more.
    VerdictLost,
    /// The verdict of this offset is about another page.
    ForeignPage(i64),
    /// The group has no offset, although positions are judged.
    NoOffset,
    /// The partition does not hold the offset that comes next.
    OutOfRange {
        /// The offset.
        offset: i64,
        /// First offset that the partition holds.
        first: i64,
        /// After the last one.
        end: i64,
    },
    /// The brokers do not let us read the topic.
    Denied,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VerdictLost => {
                f.write_str("its verdicts are gone for good: `dupgate verdicts reopen` has a range judged again")
            }
            Self::ForeignPage(offset) => write!(
                f,
                "offset {offset} is not the page that was judged there: if the topic was deleted and created again, stop all \
                 workers, delete the group's offsets of the topic, let `dupgate verdicts reopen` have the range judged again, and \
                 start the workers"
            ),
            Self::NoOffset => f.write_str(
                "it has judged positions but no committed offset: stop all workers and set the group's offset, or, if the topic \
                 was deleted and created again, let `dupgate verdicts reopen` have the range judged again; then start the workers",
            ),
            Self::Denied => f.write_str(
                "the brokers do not let us read its topic: add an ACL with Read, or exclude the topic from input.topics",
            ),
            Self::OutOfRange { offset, first, end } => write!(
                f,
                "offset {offset} comes next and the partition holds {first} to {end}: going on elsewhere would skip \
                 records; to accept that, stop all workers and set the group's offset; if the topic was deleted and created \
                 again, delete the group's offsets of it, let `dupgate verdicts reopen` have the range judged again, and start \
                 the workers"
            ),
        }
    }
}
