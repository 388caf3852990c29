//! Which positions of each input partition are judged and delivered.

use std::collections::BTreeMap;

use roaring::RoaringTreemap;

use crate::protocol::{Delivered, Judged, PartitionCheckpoint, Verdict};
use crate::record::{PartitionId, Source};

/// What is known of one input partition.
#[derive(Clone, Debug, Default)]
pub(super) struct PartitionHistory {
    pub(super) judged: Judged,
    pub(super) delivered: Delivered,
}

impl From<&PartitionCheckpoint> for PartitionHistory {
    fn from(checkpoint: &PartitionCheckpoint) -> Self {
        Self { judged: checkpoint.judged.clone(), delivered: checkpoint.delivered.clone() }
    }
}

impl PartitionHistory {
    /// Marks an offset as judged. Returns false, and changes nothing, if it already was.
    pub(super) fn judge(&mut self, offset: i64) -> bool {
        let is_first = self.judged.insert(offset);
        if is_first {
            self.delivered.judge(offset);
        }
        is_first
    }

    /// Marks an offset as judged, even if it already was. An earlier delivery no longer counts, because the page now
    /// may end differently.
    pub(super) fn withdraw(&mut self, offset: i64) {
        self.judged.insert(offset);
        self.delivered.judge(offset);
    }

    /// Clears a range. If no judged position is left, as when the topic was recreated, nothing counts as delivered
    /// either: pages that are judged from here on may not be delivered yet (law L8).
    pub(super) fn reopen(&mut self, from: i64, to: i64) {
        self.judged.reopen(from, to);
        self.delivered.reopen(from, to);
        if from < to && !self.judged.contains_any(0, i64::MAX) {
            self.delivered = Delivered::default();
        }
    }

    /// Applies a checkpoint at its place in the log.
    pub(super) fn follow_checkpoint(&mut self, checkpoint: &PartitionCheckpoint) {
        self.judged.raise_low_watermark(checkpoint.low_watermark);
        self.delivered = checkpoint.delivered.clone();
    }
}

/// Positions by input partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SourceSet(BTreeMap<PartitionId, RoaringTreemap>);

impl SourceSet {
    /// Collects the positions that these verdicts are about.
    pub(super) fn of<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Self {
        let mut positions = Self::default();
        verdicts.filter_map(|verdict| verdict.answer.judged_source()).for_each(|source| positions.insert(source));
        positions
    }

    /// Adds a position.
    pub(super) fn insert(&mut self, source: &Source) {
        let Ok(offset) = u64::try_from(source.offset) else { return };
        match self.0.get_mut(&source.partition) {
            Some(offsets) => drop(offsets.insert(offset)),
            None => drop(self.0.insert(source.partition.clone(), RoaringTreemap::from_iter([offset]))),
        }
    }

    /// Removes the positions of one partition, and returns them.
    pub(super) fn take(&mut self, partition: &PartitionId) -> RoaringTreemap {
        self.0.remove(partition).unwrap_or_default()
    }
}
