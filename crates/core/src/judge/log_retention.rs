//! Which part of the verdict log is still needed: how far it may be trimmed, and how high the low watermarks may be.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Range, RangeInclusive};

use crate::protocol::{Answer, RequestOffset, Verdict, VerdictOffset, VerdictRecord};
use crate::record::{PartitionId, Timestamp};

/// Maximum number of spans. The log is trimmed by whole spans, so about one thirtieth of it is kept for nothing.
const MAX_SPANS: usize = 32;

/// The stretch of the verdict log from one checkpoint to a later one.
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

impl LogSpan {
    /// Continues this span with the next one.
    fn join(&mut self, later: Self) {
        self.end_sequence = later.end_sequence;
        self.newest = self.newest.max(later.newest);
        for (partition, offsets) in later.judged {
            self.note(&partition, &offsets);
        }
    }

    /// Takes this range off the ends of the judged offsets of a partition.
    fn reopen(&mut self, partition: &PartitionId, range: &Range<i64>) {
        let Some(judged) = self.judged.get_mut(partition) else { return };
        let start = if range.contains(judged.start()) { range.end } else { *judged.start() };
        let end = if range.contains(judged.end()) { range.start.saturating_sub(1) } else { *judged.end() };
        *judged = start..=end;
        if judged.is_empty() {
            self.judged.remove(partition);
        }
    }

    /// Notes that these offsets of a partition are judged in it.
    fn note(&mut self, partition: &PartitionId, offsets: &RangeInclusive<i64>) {
        match self.judged.get_mut(partition) {
            Some(known) => *known = *known.start().min(offsets.start())..=*known.end().max(offsets.end()),
            None => {
                self.judged.insert(partition.clone(), offsets.clone());
            }
        }
    }
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

/// The spans of the kept log, oldest first. There are at most [`MAX_SPANS`], so that time and memory at a checkpoint do
/// not depend on the number of checkpoints that the log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRetention {
    spans: VecDeque<LogSpan>,
}

impl LogRetention {
    /// Rebuilds the list from a snapshot.
    #[must_use]
    pub(crate) fn from_parts(spans: Vec<LogSpan>) -> Self {
        let mut retention = Self { spans: spans.into() };
        while retention.join_shortest() {}
        retention
    }

    /// Returns the list for a snapshot.
    #[must_use]
    pub(crate) fn into_parts(self) -> Vec<LogSpan> {
        self.spans.into()
    }

    /// Returns the spans, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &LogSpan> {
        self.spans.iter()
    }

    /// Notes a followed record at `offset`; `next_sequence` is that of the state after it.
    pub(crate) fn follow(&mut self, offset: VerdictOffset, record: &VerdictRecord, next_sequence: u64) {
        match record {
            VerdictRecord::Checkpoint(_) => self.open(Some(offset), next_sequence),
            VerdictRecord::Verdicts(batch) => {
                batch.verdicts.iter().for_each(|verdict| self.note(verdict, next_sequence));
            }
            VerdictRecord::Rules(_) => {}
        }
    }

    /// Begins a span with a checkpoint.
    pub(crate) fn open(&mut self, checkpoint: Option<VerdictOffset>, next_sequence: u64) {
        self.spans.push_back(LogSpan {
            checkpoint,
            end_sequence: next_sequence,
            newest: Timestamp::MIN,
            judged: BTreeMap::new(),
        });
        self.join_shortest();
    }

    /// Joins the two neighbours that are shortest together, if there are too many spans. The newest span, which is
    /// still growing, stays by itself. Returns whether it joined any.
    fn join_shortest(&mut self) -> bool {
        if self.spans.len() <= MAX_SPANS {
            return false;
        }
        let checkpoints = || self.spans.iter().map(|span| span.checkpoint);
        let from_three = checkpoints().zip(checkpoints().skip(2)).enumerate();
        let lengths = from_three.filter_map(|(at, (first, after))| Some((after?.since(first?), at)));
        let Some((_, at)) = lengths.min() else { return false };
        let Some(later) = self.spans.remove(at + 1) else { return false };
        if let Some(span) = self.spans.get_mut(at) {
            span.join(later);
        }
        true
    }

    /// Sets the offset of the checkpoint that was written last.
    pub(crate) fn place(&mut self, checkpoint: VerdictOffset) {
        if let Some(span) = self.spans.back_mut() {
            span.checkpoint = Some(checkpoint);
        }
    }

    /// Notes a verdict in the newest span. A reopened range is taken off the ends of what the spans have judged: those
    /// verdicts are not read back any more, because the pages are judged again.
    pub(crate) fn note(&mut self, verdict: &Verdict, next_sequence: u64) {
        if let Answer::Reopened { partition, from, to } = &verdict.answer {
            self.spans.iter_mut().for_each(|span| span.reopen(partition, &(*from..*to)));
            return;
        }
        let (Some(span), Some(source)) = (self.spans.back_mut(), verdict.answer.judged_source()) else { return };
        span.end_sequence = next_sequence;
        if let Answer::Page(page) = &verdict.answer {
            span.newest = span.newest.max(page.event_time);
        }
        span.note(&source.partition, &(source.offset..=source.offset));
    }

    /// Returns the highest permitted low watermark of a partition. It is not above a verdict that can still be read
    /// back, nor above what the input group has committed: now, or, if the partition is no longer in the input, ever
    /// (`delivered`).
    #[must_use]
    pub(crate) fn low_watermark(&self, partition: &PartitionId, delivered: i64, input: &InputOffsets) -> i64 {
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
    pub(crate) fn trim_point(
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
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.spans.iter().map(|span| span.newest).find(|newest| *newest > Timestamp::MIN)
    }

    /// Forgets the spans before a checkpoint that the log was trimmed to.
    pub(crate) fn trimmed_to(&mut self, checkpoint: VerdictOffset) {
        while self.spans.front().is_some_and(|span| span.checkpoint.is_some_and(|offset| offset < checkpoint)) {
            self.spans.pop_front();
        }
    }
}
