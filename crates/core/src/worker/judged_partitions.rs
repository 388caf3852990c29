//! What is judged, as far as a reader of the verdict log knows.

use std::collections::BTreeMap;

use crate::protocol::{Answer, Judged, PartitionCheckpoint};
use crate::record::{PartitionId, Source};

/// The judged positions of each input partition, gathered from a checkpoint and what follows it.
#[derive(Debug, Default)]
pub(super) struct JudgedPartitions(BTreeMap<PartitionId, Judged>);

impl JudgedPartitions {
    /// Follows what a checkpoint says of a partition: what is judged, from the first checkpoint that is read, and the low
    /// watermark, from each.
    pub(super) fn follow_checkpoint(&mut self, partition: &PartitionId, said: &PartitionCheckpoint, is_first: bool) {
        let judged = self.of(partition);
        if is_first {
            *judged = said.judged.clone();
        }
        judged.raise_low_watermark(said.low_watermark);
    }

    /// Follows a verdict or a withdrawal of this page. Returns whether it is in force: of the verdicts of a page the
    /// first one is, as for judges (law L4), and each withdrawal.
    pub(super) fn follow_answer(&mut self, source: &Source, answer: &Answer) -> bool {
        let is_first = self.of(&source.partition).insert(source.offset);
        is_first || matches!(answer, Answer::Withdrawn { .. })
    }

    /// Lets these positions be judged again.
    pub(super) fn reopen(&mut self, partition: &PartitionId, from: i64, to: i64) {
        self.of(partition).reopen(from, to);
    }

    /// Returns what is judged of a partition, if anything was said of it.
    pub(super) fn get(&self, partition: &PartitionId) -> Option<&Judged> {
        self.0.get(partition)
    }

    fn of(&mut self, partition: &PartitionId) -> &mut Judged {
        self.0.entry(partition.clone()).or_default()
    }
}
