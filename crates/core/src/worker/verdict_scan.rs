//! Reads old verdicts back from the log, for instance after the input group was rewound.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::partitions::JudgedPartitions;
use super::verdict_cache::{VerdictCache, is_within};
use crate::protocol::{
    Answer, Checkpoint, Judged, PageVerdict, PartitionCheckpoint, Verdict, VerdictOffset, VerdictRecord,
};
use crate::record::{PartitionId, Source};

/// One scan of a verdict log, from the newest checkpoint in which none of the wanted positions is judged, to the one
/// after which nothing was judged about them, or to the end. All partitions that need it are read for at once; what is
/// found is kept for the pages that follow, up to a number of positions for each partition, so that memory stays
/// bounded however deep the rewind.
#[derive(Debug)]
pub(super) struct VerdictScan {
    wanted: BTreeMap<PartitionId, Range<i64>>,
    found: HashMap<Source, Arc<Verdict>>,
    /// What is judged as of the record read last, of the partitions that are read for; `None` before the first
    /// checkpoint.
    judged: Option<JudgedPartitions>,
    /// Verdicts that were followed since the scan began: newer than anything it finds.
    newer: HashMap<Source, Arc<Verdict>>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Going back from checkpoint to checkpoint.
    SeekingCheckpoint,
    /// Reading on to the end.
    Scanning,
    /// What was found serves the pages that follow.
    Done,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanStep {
    /// Read on.
    Continue,
    /// Begin again at this offset of the log, or at its beginning.
    RestartAt(Option<VerdictOffset>),
    /// Nothing more is to be found.
    Done,
}

impl VerdictScan {
    /// Wants `positions` offsets of all partitions together, of each from its first wanted one on. Begin reading at the
    /// latest checkpoint.
    pub(super) fn new(
        first: BTreeMap<PartitionId, i64>,
        positions: i64,
        latest_checkpoint: Option<VerdictOffset>,
    ) -> Self {
        let positions = positions.checked_div(i64::try_from(first.len()).unwrap_or(i64::MAX)).unwrap_or(0).max(1);
        let wanted =
            first.into_iter().map(|(partition, first)| (partition, first..first.saturating_add(positions))).collect();
        let phase = if latest_checkpoint.is_some() { Phase::SeekingCheckpoint } else { Phase::Scanning };
        Self { wanted, found: HashMap::new(), judged: None, newer: HashMap::new(), phase }
    }

    /// Returns whether the scan continues.
    pub(super) fn is_scanning(&self) -> bool {
        self.phase != Phase::Done
    }

    /// Returns whether it has not found yet where to begin.
    pub(super) fn is_seeking_checkpoint(&self) -> bool {
        self.phase == Phase::SeekingCheckpoint
    }

    /// Returns whether this is a checkpoint up to which everything was read that can be found, as far as the log is
    /// followed (`cache`). To be asked before the record is read.
    pub(super) fn ends_at(&self, record: &VerdictRecord, cache: &VerdictCache) -> bool {
        let VerdictRecord::Checkpoint(checkpoint) = record else { return false };
        self.phase == Phase::Scanning && cache.adds_nothing_to(checkpoint, &self.wanted)
    }

    /// Takes one record.
    pub(super) fn read(&mut self, record: &VerdictRecord) -> ScanStep {
        match (self.phase, record) {
            (Phase::SeekingCheckpoint, VerdictRecord::Checkpoint(checkpoint)) => {
                if self.is_ahead_of_all(checkpoint) {
                    self.phase = Phase::Scanning;
                    self.take_judged(checkpoint);
                    return ScanStep::Continue;
                }
                if checkpoint.previous.is_none() {
                    self.phase = Phase::Scanning;
                }
                ScanStep::RestartAt(checkpoint.previous)
            }
            (Phase::Scanning, VerdictRecord::Checkpoint(checkpoint)) => {
                self.take_judged(checkpoint);
                ScanStep::Continue
            }
            (Phase::Scanning, VerdictRecord::Verdicts(batch)) => {
                batch.verdicts.iter().for_each(|verdict| self.note(verdict));
                ScanStep::Continue
            }
            (Phase::SeekingCheckpoint | Phase::Scanning | Phase::Done, _) => ScanStep::Continue,
        }
    }

    /// The log begins later than the position of the scan: it is read from its beginning.
    pub(super) fn log_begins_later(&mut self) {
        self.phase = Phase::Scanning;
        self.found.clear();
        self.judged = None;
    }

    /// Follows what a checkpoint says of the partitions that are read for.
    fn take_judged(&mut self, checkpoint: &Checkpoint) {
        let is_first = self.judged.is_none();
        let judged = self.judged.get_or_insert_default();
        for (partition, said) in &checkpoint.partitions {
            if self.wanted.contains_key(partition) {
                judged.follow_checkpoint(partition, said, is_first);
            }
        }
    }

    /// Everything was read.
    pub(super) fn finish(&mut self) {
        self.phase = Phase::Done;
    }

    fn is_ahead_of_all(&self, checkpoint: &Checkpoint) -> bool {
        // Positions are not judged in their own order: a later one may have been judged long before the first.
        self.wanted.iter().all(|(partition, &Range { start: first, end })| {
            let holds_none = |judged: &Judged| !judged.contains_any(first, end);
            let none = |said: &PartitionCheckpoint| first >= said.low_watermark && holds_none(&said.judged);
            checkpoint.partitions.get(partition).is_none_or(none)
        })
    }

    fn note(&mut self, verdict: &Verdict) {
        match &verdict.answer {
            Answer::Page(PageVerdict { source, .. }) | Answer::Withdrawn { source, .. } => {
                if self.wanted.contains_key(&source.partition)
                    && self.judged.get_or_insert_default().follow_answer(source, &verdict.answer)
                    && self.wants(source)
                {
                    self.found.insert(source.clone(), Arc::new(verdict.without_original()));
                }
            }
            // What is newer than anything that is read was judged after it.
            Answer::Reopened { partition, from, to } => {
                self.found.retain(|source, _| !is_within(source, partition, *from, *to));
                if let Some(judged) = self.judged.as_mut().filter(|_| self.wanted.contains_key(partition)) {
                    judged.reopen(partition, *from, *to);
                }
            }
            Answer::Forgotten(_) | Answer::TimeSet { .. } => {}
        }
    }

    /// Returns whether the position is one of those wanted.
    pub(super) fn wants(&self, source: &Source) -> bool {
        self.wanted.get(&source.partition).is_some_and(|wanted| wanted.contains(&source.offset))
    }

    /// Returns what was found for a position, once all is read.
    pub(super) fn found(&self, source: &Source) -> Option<&Arc<Verdict>> {
        if self.is_scanning() { None } else { self.newer.get(source).or_else(|| self.found.get(source)) }
    }

    /// A newer verdict came by while following: it counts, and what is remembered of it may be gone when it is needed.
    pub(super) fn superseded(&mut self, source: &Source, verdict: &Arc<Verdict>) {
        if self.wants(source) {
            self.newer.insert(source.clone(), Arc::clone(verdict));
        }
    }

    /// Returns whether the range holds a wanted position.
    pub(super) fn wants_any(&self, partition: &PartitionId, from: i64, to: i64) -> bool {
        self.wanted.get(partition).is_some_and(|wanted| wanted.start < to && from < wanted.end)
    }

    /// Verdicts of this range are void.
    pub(super) fn reopened(&mut self, partition: &PartitionId, from: i64, to: i64) {
        self.found.retain(|source, _| !is_within(source, partition, from, to));
        self.newer.retain(|source, _| !is_within(source, partition, from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{
        Delivered, ExpiryWatermarks, Judged, LogIdentity, RequestId, RequestOffset, RulesNumber, VerdictBatch,
    };
    use crate::record::{Reject, Timestamp};
    use crate::worker::test_worker::rules;

    const LOG: LogIdentity = LogIdentity(1);

    fn input() -> PartitionId {
        PartitionId::new("pages", 0)
    }

    /// A checkpoint after another one at offset 3, in which these offsets are judged.
    fn checkpoint(judged_offsets: &[i64]) -> VerdictRecord {
        let mut judged = Judged::default();
        judged_offsets.iter().for_each(|&offset| assert!(judged.insert(offset)));
        let said = PartitionCheckpoint { judged, low_watermark: 0, delivered: Delivered::default() };
        VerdictRecord::Checkpoint(Box::new(Checkpoint {
            log: LOG,
            rules_number: RulesNumber(1),
            rules: rules(),
            stream_time: Timestamp::MIN,
            leap: None,
            watermarks: ExpiryWatermarks::START,
            next_sequence: 0,
            next_request: RequestOffset(0),
            previous: Some(VerdictOffset(3)),
            partitions: BTreeMap::from([(input(), said)]),
            applied: Vec::new(),
        }))
    }

    fn verdict(offset: i64, request: u64) -> Verdict {
        let answer = Answer::Withdrawn { source: input().at(offset), reason: Reject::Refused };
        Verdict { request: RequestId(request), answer }
    }

    fn batch(verdicts: Vec<Verdict>) -> VerdictRecord {
        let rules = RulesNumber(1);
        VerdictRecord::Verdicts(VerdictBatch {
            log: LOG,
            rules,
            watermarks: ExpiryWatermarks::START,
            next_request: RequestOffset(0),
            verdicts,
        })
    }

    fn scan_of(first: i64, positions: i64) -> VerdictScan {
        VerdictScan::new(BTreeMap::from([(input(), first)]), positions, Some(VerdictOffset(9)))
    }

    #[test]
    fn reading_begins_where_no_wanted_position_is_judged_though_the_first_is_not() {
        assert_eq!(scan_of(5, 4).read(&checkpoint(&[1, 7])), ScanStep::RestartAt(Some(VerdictOffset(3))));
        assert_eq!(scan_of(5, 4).read(&checkpoint(&[1, 9])), ScanStep::Continue);
        assert_eq!(scan_of(1, 4).read(&checkpoint(&[1])), ScanStep::RestartAt(Some(VerdictOffset(3))));
    }

    #[test]
    fn partitions_share_the_positions_that_are_kept() {
        let first: BTreeMap<PartitionId, i64> = (0..3).map(|number| (PartitionId::new("pages", number), 5)).collect();
        let wants = |positions: i64| {
            let scan = VerdictScan::new(first.clone(), positions, None);
            first.keys().map(|part| (0..99).filter(|&offset| scan.wants(&part.at(offset))).count()).collect::<Vec<_>>()
        };
        assert_eq!(wants(12), [4, 4, 4]);
        assert_eq!(wants(2), [1, 1, 1], "each gets on");
    }

    #[test]
    fn verdict_followed_while_reading_is_newer_than_what_is_read() {
        let mut scan = scan_of(5, 4);
        scan.read(&checkpoint(&[]));
        let (newer, not_wanted) = (Arc::new(verdict(6, 2)), Arc::new(verdict(9, 3)));
        scan.superseded(&input().at(6), &newer);
        scan.superseded(&input().at(9), &not_wanted);
        scan.read(&batch(vec![verdict(5, 0), verdict(6, 1)]));
        scan.finish();
        let found = |offset| scan.found(&input().at(offset)).map(|verdict| verdict.request.0);
        assert_eq!([found(5), found(6), found(9)], [Some(0), Some(2), None]);
        scan.reopened(&input(), 6, 7);
        assert_eq!(scan.found(&input().at(6)), None);
    }

    #[test]
    fn a_reopening_that_is_read_back_voids_no_verdict_that_was_followed_meanwhile() {
        let mut scan = scan_of(5, 4);
        scan.read(&checkpoint(&[]));
        scan.superseded(&input().at(6), &Arc::new(verdict(6, 2)));
        let answer = Answer::Reopened { partition: input(), from: 5, to: 9 };
        scan.read(&batch(vec![verdict(5, 0), verdict(6, 1), Verdict { request: RequestId(3), answer }]));
        scan.finish();
        let found = |offset| scan.found(&input().at(offset)).map(|verdict| verdict.request.0);
        assert_eq!([found(5), found(6)], [None, Some(2)]);
    }
}
