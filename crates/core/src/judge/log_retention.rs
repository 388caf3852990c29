//! Which part of the verdict log is still needed: how far it may be trimmed, and how high the low watermarks may be.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use crate::protocol::{Answer, RequestOffset, Verdict, VerdictOffset, VerdictRecord};
use crate::record::{PartitionId, Timestamp};

/// The stretch of the verdict log from one checkpoint to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSpan {
    /// Offset of the checkpoint it begins with; `None` until that is committed.
    pub checkpoint: Option<VerdictOffset>,
    /// The originals that its verdicts created have smaller sequence numbers than this.
    pub end_sequence: u64,
    /// Largest event time judged in it.
    pub newest: Timestamp,
    /// From the first to the last offset judged in it, by input partition.
    pub judged: BTreeMap<PartitionId, RangeInclusive<i64>>,
}

/// Where both logs may be trimmed. The fields are named, because swapped offsets would delete what is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrimPoint {
    /// First record of the verdict log to keep.
    pub(super) verdicts: VerdictOffset,
    /// First record of the fingerprint log to keep.
    pub(super) requests: RequestOffset,
}

/// What is known of the input when a checkpoint is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputOffsets {
    /// What the input group has committed, for every partition that has an offset.
    pub committed: BTreeMap<PartitionId, i64>,
    /// Every partition of the input that exists. Partitions that were dropped from the input or deleted are not among
    /// them.
    pub partitions: BTreeSet<PartitionId>,
}

impl InputOffsets {
    fn committed(&self, partition: &PartitionId) -> Option<i64> {
        self.committed.get(partition).copied()
    }
}

/// The spans of the kept log, oldest first. Their size is bounded by the checkpoints kept times the input partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRetention {
    spans: VecDeque<LogSpan>,
}

impl LogRetention {
    /// Rebuilds the list from a snapshot.
    #[must_use]
    pub fn from_parts(spans: Vec<LogSpan>) -> Self {
        Self { spans: spans.into() }
    }

    /// Returns the list for a snapshot.
    #[must_use]
    pub fn into_parts(self) -> Vec<LogSpan> {
        self.spans.into()
    }

    /// Returns the spans, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &LogSpan> {
        self.spans.iter()
    }

    /// Notes a followed record at `offset`; `next_sequence` is that of the state after it.
    pub fn follow(&mut self, offset: VerdictOffset, record: &VerdictRecord, next_sequence: u64) {
        match record {
            VerdictRecord::Checkpoint(_) => self.open(Some(offset), next_sequence),
            VerdictRecord::Verdicts(batch) => {
                batch.verdicts.iter().for_each(|verdict| self.note(verdict, next_sequence));
            }
            VerdictRecord::Rules(_) => {}
        }
    }

    /// Begins a span with a checkpoint.
    pub fn open(&mut self, checkpoint: Option<VerdictOffset>, next_sequence: u64) {
        self.spans.push_back(LogSpan {
            checkpoint,
            end_sequence: next_sequence,
            newest: Timestamp::MIN,
            judged: BTreeMap::new(),
        });
    }

    /// Sets the offset of the checkpoint that was written last.
    pub fn place(&mut self, checkpoint: VerdictOffset) {
        if let Some(span) = self.spans.back_mut() {
            span.checkpoint = Some(checkpoint);
        }
    }

    /// Notes a verdict in the newest span. A reopened range removes the partition from the spans that judged only
    /// offsets within it: their verdicts are not read back any more, because the pages are judged again.
    pub fn note(&mut self, verdict: &Verdict, next_sequence: u64) {
        if let Answer::Reopened { partition, from, to } = &verdict.answer {
            for span in &mut self.spans {
                let is_within = |offsets: &RangeInclusive<i64>| from <= offsets.start() && offsets.end() < to;
                if span.judged.get(partition).is_some_and(is_within) {
                    span.judged.remove(partition);
                }
            }
            return;
        }
        let (Some(span), Some(source)) = (self.spans.back_mut(), verdict.answer.judged_source()) else { return };
        span.end_sequence = next_sequence;
        if let Answer::Page(page) = &verdict.answer {
            span.newest = span.newest.max(page.event_time);
        }
        match span.judged.get_mut(&source.partition) {
            Some(offsets) => {
                *offsets = source.offset.min(*offsets.start())..=source.offset.max(*offsets.end());
            }
            None => {
                span.judged.insert(source.partition.clone(), source.offset..=source.offset);
            }
        }
    }

    /// Returns the highest permitted low watermark of a partition. It is not above a verdict that can still be read
    /// back, nor above what the input group has committed: now, or, if the partition is no longer in the input, ever
    /// (`delivered`).
    #[must_use]
    pub fn low_watermark(&self, partition: &PartitionId, delivered: i64, input: &InputOffsets) -> i64 {
        let committed = input.committed(partition).unwrap_or(0);
        let committed = if input.partitions.contains(partition) { committed } else { committed.max(delivered) };
        self.spans
            .iter()
            .filter_map(|span| span.judged.get(partition))
            .map(|offsets| *offsets.start())
            .fold(committed, i64::min)
    }

    /// Returns the offset of the checkpoint before which the log is not needed any more, or `None` if nothing can be
    /// trimmed. Everything before it is older than the oldest original held, than every verdict on a page that the
    /// input group has not committed, and than `keep_from`. Verdicts on a partition that is no longer in the input wait
    /// for no commit, because no worker will ask for them.
    #[must_use]
    pub fn trim_point(
        &self,
        first_live_sequence: u64,
        input: &InputOffsets,
        keep_from: Timestamp,
    ) -> Option<VerdictOffset> {
        let is_delivered = |(partition, offsets): (&PartitionId, &RangeInclusive<i64>)| {
            !input.partitions.contains(partition)
                || input.committed(partition).is_some_and(|position| *offsets.end() < position)
        };
        let spent = |span: &LogSpan| {
            span.end_sequence <= first_live_sequence && span.newest < keep_from && span.judged.iter().all(is_delivered)
        };
        let spent_spans =
            self.spans.iter().take(self.spans.len().saturating_sub(1)).take_while(|span| spent(span)).count();
        self.spans.get(spent_spans).filter(|_| spent_spans > 0)?.checkpoint
    }

    /// Returns the largest event time of the oldest span with a judged page: how far back the kept log reaches.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        self.spans.iter().map(|span| span.newest).find(|newest| *newest > Timestamp::MIN)
    }

    /// Forgets the spans before a checkpoint that the log was trimmed to.
    pub fn trimmed_to(&mut self, checkpoint: VerdictOffset) {
        while self.spans.front().is_some_and(|span| span.checkpoint.is_some_and(|offset| offset < checkpoint)) {
            self.spans.pop_front();
        }
    }
}
