//! A verdict log as an iterator of records.
//!
//! The part of a range that a verdict log still holds: the running service trims it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use dupgate_core::replay::{InputRange, LogRange, Marks, Plan};

use crate::error::{Fatal, Reason};
use crate::fatal::failure;
use crate::kafka::budget::ByteBudget;
use crate::kafka::client::ClientSettings;
use crate::kafka::offsets::Offsets;
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, Follower};
use crate::protocol::{Checkpoint, LogPartition, VerdictOffset, VerdictRecord};
use crate::record::PartitionId;

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
        let follower =
            Follower::start(config, partition.clone(), ByteBudget::new(AHEAD), thread, sink).map_err(failure)?;
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
            let why = anyhow::anyhow!(
                "no record arrived within {} s: is a broker of {} down?",
                IDLE_TIMEOUT.as_secs(),
                self.partition
            );
            return Err(Reason::Unavailable.because(why));
        };
        match event.kind {
            FollowEventKind::Record { offset, next, record, .. } if offset < self.end => {
                Ok(Some(LogRecord { next, record }))
            }
            FollowEventKind::Record { .. } | FollowEventKind::End(_) => {
                self.is_over = true;
                Ok(None)
            }
            FollowEventKind::Moved(why) => Err(Reason::State.because(anyhow::anyhow!("{}: {why}", self.partition))),
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
        let kept = offsets.range(&partition).map_err(|error| Reason::Unavailable.because(error))?;
        let first = VerdictOffset(kept.start);
        if first <= *planned || planned >= end {
            continue;
        }
        let gone = |of: &InputRange| {
            Reason::State.because(anyhow::anyhow!(
                "{partition} begins at offset {first}, and began at {planned} when the plan was made: verdicts on pages of {} are \
                 trimmed since; make a new plan",
                of.id()
            ))
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
