//! The part of a range that a verdict log still holds: the running service trims it.

use std::ops::Range;

use dupgate_core::replay::{InputRange, LogRange, Marks, Plan};

use super::log_stream::LogStream;
use crate::error::{Fatal, Reason};
use crate::kafka::client::ClientSettings;
use crate::kafka::offsets::Offsets;
use crate::protocol::{Checkpoint, VerdictOffset, VerdictRecord};
use crate::record::PartitionId;

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
