//! The live verdict log as the order of a replay: walks its partitions record by record, the earliest first. The service
//! trims the log, so only the part of a range that it still holds can be walked.
//!
//! After an interruption, a run walks the committed part again, without pages: its own verdict log has the verdicts, in
//! the same order.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use dupgate_core::judge::Diverged;
use dupgate_core::replay::{InputRange, LogOrder, LogRange, Mark, Marks, Next, Plan};

use crate::error::{Fatal, Reason, fatal};
use crate::fatal::{failure, unavailable};
use crate::kafka::budget::ByteBudget;
use crate::kafka::client::ClientSettings;
use crate::kafka::offsets::Offsets;
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, FollowSettings, Follower};
use crate::protocol::{Answer, Checkpoint, LogPartition, RequestOffset, Verdict, VerdictOffset, VerdictRecord};
use crate::record::{PartitionId, Source, Timestamp};

/// One partition of the live log.
pub(super) struct Walk {
    pub(super) partition: PartitionId,
    pub(super) order: LogOrder,
    live: LogStream,
    /// The replay's own verdicts up to where it was interrupted.
    own: Option<Own>,
    /// How far an earlier run has committed it.
    committed: Mark,
    /// How far it is: records before the offset are done, and as many steps of the next one as `read_to` is beyond it.
    mark: Mark,
    /// Steps of the record that was taken which its own log has.
    followed: i64,
    head: Option<(VerdictOffset, VerdictRecord)>,
    /// When the head was judged, in event time.
    key: Timestamp,
    /// Offset after the last record that was taken.
    next: VerdictOffset,
}

struct Own {
    stream: LogStream,
    verdicts: VecDeque<Verdict>,
    taken: u64,
}

/// The result of a step.
pub(super) enum Step {
    /// To do: a page, or a withdrawn page.
    Do(Next),
    /// Done before the interruption, with its verdict.
    Done(Next, Box<Verdict>),
}

impl Walk {
    /// Starts at the beginning of the log; what is before `committed` is done, and its verdicts are in `own`.
    pub(super) fn new(
        partition: PartitionId,
        order: LogOrder,
        live: LogStream,
        own: Option<LogStream>,
        committed: Mark,
    ) -> Result<Self, Fatal> {
        let own = own.map(|stream| Own { stream, verdicts: VecDeque::new(), taken: 0 });
        let (mark, next) = (Mark::at(committed.offset), VerdictOffset(committed.offset));
        let key = Timestamp::MIN;
        let mut walk = Self { partition, order, live, own, committed, mark, followed: 0, head: None, key, next };
        walk.advance()?;
        Ok(walk)
    }

    /// Returns when the next record was judged; `None` at the end of the log.
    pub(super) fn key(&self) -> Option<Timestamp> {
        self.head.as_ref().map(|_| self.key)
    }

    /// Returns whether the next record, or a part of it, was done before the interruption.
    pub(super) fn is_begun(&self) -> bool {
        self.head.as_ref().is_some_and(|&(next, _)| self.followed_of(next) > 0)
    }

    /// Returns how many steps of the record before this offset were done before the interruption.
    const fn followed_of(&self, next: VerdictOffset) -> i64 {
        if next.0 <= self.committed.offset {
            i64::MAX
        } else if self.next.0 <= self.committed.offset {
            self.committed.read_to - self.committed.offset
        } else {
            0
        }
    }

    /// Returns how far it is.
    pub(super) const fn mark(&self) -> Mark {
        self.mark
    }

    /// Returns the offset in the fingerprint log after the requests that the next record answers, if it answers any.
    pub(super) fn requests_end(&self) -> Option<RequestOffset> {
        match &self.head {
            Some((_, VerdictRecord::Verdicts(batch))) => Some(batch.next_request),
            Some((_, VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_))) | None => None,
        }
    }

    /// Ends the committed part: from here on pages are judged. The replay's own log continues with withdrawals of pages
    /// that the brokers refused, and at the end of the live log with the verdicts on pages without a live verdict.
    pub(super) fn go_on(&mut self) -> Result<(), Fatal> {
        let Some(mut own) = self.own.take() else { return Ok(()) };
        while let Some(verdict) = own.next()? {
            if self.head.is_some() && matches!(verdict.answer, Answer::Page(_)) {
                return Err(fatal!(
                    State,
                    "{} no longer holds the verdicts that this replay has followed: it was trimmed since; \
                     `dupgate replay clean` removes the replay, a new plan begins with what is kept",
                    self.partition
                ));
            }
            self.order.take_committed(&verdict).map_err(diverged)?;
        }
        self.order.resume(own.taken);
        Ok(())
    }

    /// Takes the next record; its pages follow by [`Walk::step`].
    pub(super) fn take(&mut self) -> Result<(), Fatal> {
        let Some((next, record)) = self.head.take() else { return Ok(()) };
        self.followed = self.followed_of(next);
        self.next = next.max(self.next);
        self.order.record(record).map_err(diverged)?;
        self.advance()
    }

    fn advance(&mut self) -> Result<(), Fatal> {
        self.head = self.live.next()?.map(|request| (request.next, request.record));
        if let Some((_, VerdictRecord::Verdicts(batch))) = &self.head {
            let page = batch.verdicts.iter().find_map(|verdict| verdict.answer.page());
            self.key = page.map_or(self.key, |page| page.event_time);
        }
        Ok(())
    }

    /// Continues to the next page of the record that was taken; `None` after the last.
    pub(super) fn step(&mut self) -> Result<Option<Step>, Fatal> {
        loop {
            let Some(next) = self.order.advance().map_err(diverged)? else {
                self.mark = Mark::at(self.next.0);
                return Ok(None);
            };
            self.mark.read_to += 1;
            self.followed -= 1;
            let Some(own) = self.own.as_mut().filter(|_| self.followed >= 0) else { return Ok(Some(Step::Do(next))) };
            let source = match &next {
                Next::Page(live, _) => live.answer.judged_source().cloned(),
                Next::Withdrawn(source, _) => Some(source.clone()),
            };
            // Records that cannot be judged have no own verdict.
            if let Some(source) = source
                && let Some(verdict) = own.of(&source, &mut self.order)?
            {
                self.order.take_committed(&verdict).map_err(diverged)?;
                return Ok(Some(Step::Done(next, Box::new(verdict))));
            }
        }
    }
}

impl Own {
    /// Takes the own verdict on a page, if it is the next one. Skips withdrawals of pages that the brokers refused.
    fn of(&mut self, source: &Source, order: &mut LogOrder) -> Result<Option<Verdict>, Fatal> {
        loop {
            let Some(verdict) = self.peek()? else { return Ok(None) };
            let is_ours = verdict.answer.judged_source() == Some(source);
            let is_between = matches!(verdict.answer, Answer::Withdrawn { .. });
            if !is_ours && !is_between {
                return Ok(None);
            }
            let Some(verdict) = self.next()? else { return Ok(None) };
            if is_ours {
                return Ok(Some(verdict));
            }
            order.take_committed(&verdict).map_err(diverged)?;
        }
    }

    fn peek(&mut self) -> Result<Option<&Verdict>, Fatal> {
        while self.verdicts.is_empty() {
            match self.stream.next()? {
                None => return Ok(None),
                Some(request) => {
                    if let VerdictRecord::Verdicts(batch) = request.record {
                        self.verdicts = batch.verdicts.into();
                    }
                }
            }
        }
        Ok(self.verdicts.front())
    }

    fn next(&mut self) -> Result<Option<Verdict>, Fatal> {
        self.peek()?;
        let verdict = self.verdicts.pop_front();
        self.taken += u64::from(verdict.is_some());
        Ok(verdict)
    }
}

pub(super) fn diverged(error: Diverged) -> Fatal {
    Reason::State.because(anyhow::Error::new(error).context("the verdict log cannot be followed"))
}

/// How long the cluster may be silent while there is something to read.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes of records that are read ahead.
const AHEAD: usize = 8 << 20;

/// One record, and the offset after it.
pub(crate) struct LogRecord {
    pub(crate) next: VerdictOffset,
    pub(crate) record: VerdictRecord,
}

/// Reads one partition of a verdict log up to a fixed end.
pub(crate) struct LogStream {
    _follower: Follower,
    events: Receiver<FollowEvent>,
    partition: PartitionId,
    end: VerdictOffset,
    is_over: bool,
}

impl LogStream {
    /// Starts reading at the first record that is kept.
    pub(super) fn open(config: &ClientSettings, partition: PartitionId, end: VerdictOffset) -> Result<Self, Fatal> {
        Self::open_at(config, partition, None, end)
    }

    /// Starts reading at this offset.
    pub(crate) fn open_at(
        config: &ClientSettings,
        partition: PartitionId,
        from: Option<VerdictOffset>,
        end: VerdictOffset,
    ) -> Result<Self, Fatal> {
        let (sender, events) = unbounded();
        let thread = format!("log-{}", partition.number);
        let sink = move |event| drop(sender.send(event));
        let log = FollowSettings::new(partition.clone(), sink);
        let follower = Follower::start(config, log, &ByteBudget::new(AHEAD), thread).map_err(failure)?;
        follower.command(FollowCommand::From(from, 1));
        follower.command(FollowCommand::ToEnd(1));
        Ok(Self { _follower: follower, events, partition, end, is_over: false })
    }

    /// Returns the next record; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<LogRecord>, Fatal> {
        if self.is_over {
            return Ok(None);
        }
        let Ok(event) = self.events.recv_timeout(IDLE_TIMEOUT) else {
            return Err(fatal!(
                Unavailable,
                "no record arrived within {} s: is a broker of {} down?",
                IDLE_TIMEOUT.as_secs(),
                self.partition
            ));
        };
        match event.kind {
            FollowEventKind::Record { offset, next, record, .. } if offset < self.end => {
                Ok(Some(LogRecord { next, record }))
            }
            FollowEventKind::Record { .. } | FollowEventKind::End(_) => {
                self.is_over = true;
                Ok(None)
            }
            FollowEventKind::Moved(why) => Err(fatal!(State, "{}: {why}", self.partition)),
        }
    }
}

/// Names a partition of a log.
pub(crate) fn partition(topic: &Arc<str>, log: LogPartition) -> PartitionId {
    PartitionId::new(Arc::clone(topic), log.number())
}

/// Returns the checkpoint that a partition of a verdict log begins with; `None` if nothing is kept before `end`.
pub(super) fn first_checkpoint(
    config: &ClientSettings,
    partition: PartitionId,
    end: VerdictOffset,
) -> Result<Option<Checkpoint>, Fatal> {
    let mut stream = LogStream::open(config, partition, end)?;
    while let Some(request) = stream.next()? {
        if let VerdictRecord::Checkpoint(checkpoint) = request.record {
            return Ok(Some(*checkpoint));
        }
    }
    Ok(None)
}

/// Returns whether pages of a partition at these offsets were judged before the log begins: their verdicts are not in
/// it.
pub(super) fn is_judged_before(checkpoint: &Checkpoint, partition: &PartitionId, offsets: Range<i64>) -> bool {
    checkpoint.partitions.get(partition).is_some_and(|state| {
        let mut judged = state.judged.clone();
        judged.raise_low_watermark(state.low_watermark);
        judged.contains_any(offsets.start, offsets.end)
    })
}

/// Checks that the live verdict log still holds all verdicts of the plan's range that it held when the plan was made.
/// The warm-up that an interrupted replay has judged is in its own log; `marks` shows where it stopped.
///
/// # Errors
///
/// [`Reason::State`] if verdicts are gone.
pub(super) fn expect_kept(plan: &Plan, offsets: &Offsets, config: &ClientSettings, marks: &Marks) -> Result<(), Fatal> {
    for range in &plan.verdict_log {
        let (partition, LogRange { first: planned, end, .. }) = (range.id(), range);
        let kept = offsets.range(&partition).map_err(unavailable)?;
        let first = VerdictOffset(kept.start);
        if first <= *planned || planned >= end {
            continue;
        }
        let gone = |of: &InputRange| {
            fatal!(
                State,
                "{partition} begins at offset {first}, and began at {planned} when the plan was made: verdicts on pages of {} are \
                 trimmed since; make a new plan",
                of.id()
            )
        };
        let begins = if first < *end { first_checkpoint(config, partition.clone(), *end)? } else { None };
        for input in &plan.input {
            let from = if marks.is_empty() { input.warm_from } else { input.from };
            let is_gone = begins.as_ref().is_none_or(|begins| is_judged_before(begins, &input.id(), from..input.to));
            if is_gone {
                return Err(gone(input));
            }
        }
    }
    Ok(())
}
