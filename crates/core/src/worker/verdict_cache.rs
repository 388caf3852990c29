//! What a worker knows of one verdict log: every judged position, and the latest verdicts.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::partitions::JudgedPartitions;
use crate::protocol::{
    Answer, Checkpoint, Judged, LogIdentity, PageVerdict, RequestId, RequestOffset, Verdict, VerdictBatch,
    VerdictOffset, VerdictRecord,
};
use crate::record::{PartitionId, Source};

/// Knowledge gathered from a checkpoint and all that follows it.
#[derive(Debug)]
pub(super) struct VerdictCache {
    log: Option<LogIdentity>,
    judged: JudgedPartitions,
    remembered: HashMap<Source, Arc<Verdict>>,
    order: VecDeque<Source>,
    limit: usize,
    latest_checkpoint: Option<VerdictOffset>,
    next_request: RequestOffset,
    /// The last request other than a page that was applied.
    last_applied: Option<RequestId>,
    /// The first record must be a checkpoint: without one it would not be known what was judged before.
    expects_checkpoint: bool,
    /// Followed to the end at least once since the last time it was begun.
    learned: bool,
}

/// What a followed record tells the pages that wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum VerdictUpdate {
    /// A page has a new verdict: judged, or withdrawn.
    Judged(Arc<Verdict>),
    /// Verdicts of this range are void.
    Reopened { partition: PartitionId, from: i64, to: i64 },
    /// The judge has passed every request before this offset.
    Passed(RequestOffset),
    /// The judge has gone back in the fingerprint log, which has lost its end or was recreated. Every request that waits
    /// may be lost.
    RequestsLost,
}

/// The record belongs to another log of the same name, or is no checkpoint where one was promised.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutOfPlace;

impl VerdictCache {
    /// Knows nothing yet; will remember at most `limit` verdicts.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            log: None,
            judged: JudgedPartitions::default(),
            remembered: HashMap::new(),
            order: VecDeque::new(),
            limit,
            latest_checkpoint: None,
            next_request: RequestOffset(0),
            last_applied: None,
            expects_checkpoint: false,
            learned: false,
        }
    }

    /// The log is going to be read from where its latest checkpoint is said to be.
    pub(super) fn begin_at_checkpoint(&mut self) {
        self.expects_checkpoint = true;
    }

    /// Notes that the end of the log was reached.
    pub(super) fn learned(&mut self) {
        self.learned = true;
    }

    /// Returns whether the end of the log was reached since it was begun.
    pub(super) fn is_learned(&self) -> bool {
        self.learned
    }

    /// Follows a record, and tells what is new to the pages that wait.
    pub(super) fn follow(
        &mut self,
        offset: VerdictOffset,
        record: &VerdictRecord,
    ) -> Result<Vec<VerdictUpdate>, OutOfPlace> {
        if self.log.is_some_and(|log| log != record.log()) {
            // Nothing of the other log is before its first checkpoint, so reading everything again would lead here
            // again.
            if self.learned || !record.begins_log() {
                return Err(OutOfPlace);
            }
            *self = Self::new(self.limit);
        }
        let is_first = self.log.is_none();
        if is_first && !matches!(record, VerdictRecord::Checkpoint(_)) {
            // Without a checkpoint it is not known what was judged before: verdicts up to the first one are of no use.
            return if self.expects_checkpoint { Err(OutOfPlace) } else { Ok(Vec::new()) };
        }
        self.log = Some(record.log());
        match record {
            VerdictRecord::Verdicts(batch) => Ok(self.follow_batch(batch)),
            VerdictRecord::Rules(_) => Ok(Vec::new()),
            VerdictRecord::Checkpoint(checkpoint) => {
                self.latest_checkpoint = Some(offset);
                for (partition, said) in &checkpoint.partitions {
                    self.judged.follow_checkpoint(partition, said, is_first);
                }
                self.last_applied = checkpoint.applied.last().copied();
                Ok(vec![self.pass(checkpoint.next_request)])
            }
        }
    }

    fn follow_batch(&mut self, batch: &VerdictBatch) -> Vec<VerdictUpdate> {
        let mut news = Vec::with_capacity(batch.verdicts.len() + 1);
        for verdict in &batch.verdicts {
            if !matches!(verdict.answer, Answer::Page(_)) {
                self.last_applied = Some(verdict.request);
            }
            match &verdict.answer {
                Answer::Page(PageVerdict { source, .. }) | Answer::Withdrawn { source, .. } => {
                    if self.judged.follow_answer(source, &verdict.answer) {
                        let verdict = Arc::new(verdict.without_original());
                        self.remember(source, &verdict);
                        news.push(VerdictUpdate::Judged(verdict));
                    }
                }
                Answer::Reopened { partition, from, to } => {
                    self.judged.reopen(partition, *from, *to);
                    let void = |source: &Source| is_within(source, partition, *from, *to);
                    self.remembered.retain(|source, _| !void(source));
                    self.order.retain(|source| !void(source));
                    news.push(VerdictUpdate::Reopened { partition: partition.clone(), from: *from, to: *to });
                }
                Answer::Forgotten(_) | Answer::TimeSet { .. } => {}
            }
        }
        news.push(self.pass(batch.next_request));
        news
    }

    fn pass(&mut self, next_request: RequestOffset) -> VerdictUpdate {
        let before = std::mem::replace(&mut self.next_request, next_request);
        if next_request < before { VerdictUpdate::RequestsLost } else { VerdictUpdate::Passed(next_request) }
    }

    /// What was judged last about a position counts: a page that is judged may be withdrawn.
    fn remember(&mut self, source: &Source, verdict: &Arc<Verdict>) {
        if self.remembered.insert(source.clone(), Arc::clone(verdict)).is_none() {
            self.order.push_back(source.clone());
        }
        while self.order.len() > self.limit {
            if let Some(oldest) = self.order.pop_front() {
                self.remembered.remove(&oldest);
            }
        }
    }

    /// Returns the last verdict of a position, if it is remembered.
    pub(super) fn verdict(&self, source: &Source) -> Option<&Arc<Verdict>> {
        self.remembered.get(source)
    }

    /// Returns whether the position is judged.
    pub(super) fn is_judged(&self, source: &Source) -> bool {
        self.judged.get(&source.partition).is_some_and(|judged| judged.contains(source.offset))
    }

    /// Returns whether any position of the partition is judged. One that was reopened is not.
    pub(super) fn has_judged(&self, partition: &PartitionId) -> bool {
        self.judged.get(partition).is_some_and(|judged| judged.low_watermark() > 0 || !judged.above().is_empty())
    }

    /// Returns whether nothing was judged about these positions between a checkpoint and what is followed, whichever
    /// comes first: no request other than a page was applied, which could withdraw or reopen one, and as many of them
    /// are judged. Without a reopening the judged positions of the earlier place are among those of the later one (law
    /// L4), so as many are the same.
    pub(super) fn adds_nothing_to(
        &self,
        checkpoint: &Checkpoint,
        positions: &BTreeMap<PartitionId, Range<i64>>,
    ) -> bool {
        let is_same = |(partition, offsets): (&PartitionId, &Range<i64>)| {
            let count = |judged: &Judged| judged.count(offsets.start, offsets.end);
            let known = self.judged.get(partition).map_or(0, count);
            let said = checkpoint.partitions.get(partition).map_or(0, |said| count(&said.judged));
            known == said
        };
        self.log == Some(checkpoint.log)
            && self.last_applied == checkpoint.applied.last().copied()
            && positions.iter().all(is_same)
    }

    /// Returns the offset of the latest checkpoint followed.
    pub(super) fn latest_checkpoint(&self) -> Option<VerdictOffset> {
        self.latest_checkpoint
    }

    /// Returns the offset of the next request that the judge will look at.
    pub(super) fn next_request(&self) -> RequestOffset {
        self.next_request
    }
}

/// Returns whether a position lies in `from <= offset < to` of a partition.
pub(super) fn is_within(source: &Source, partition: &PartitionId, from: i64, to: i64) -> bool {
    source.partition == *partition && (from..to).contains(&source.offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::PageDigest;
    use crate::protocol::{Decision, ExpiryWatermarks, RequestId, RulesNumber};
    use crate::record::{Reject, Timestamp};
    use crate::worker::test_worker::{checkpoint, input};

    /// A withdrawal of the page at this offset.
    fn batch(log: u64, offset: i64) -> VerdictRecord {
        let answer = Answer::Withdrawn { source: input(0).at(offset), reason: Reject::Refused };
        VerdictRecord::Verdicts(VerdictBatch {
            log: LogIdentity(log),
            rules: RulesNumber(1),
            watermarks: ExpiryWatermarks::START,
            next_request: RequestOffset(offset + 1),
            verdicts: vec![Verdict { request: RequestId(0), answer }],
        })
    }

    #[test]
    fn verdicts_before_the_first_checkpoint_of_the_log_are_skipped() {
        let mut cache = VerdictCache::new(10);
        let records = [batch(1, 40), batch(1, 41), checkpoint(2, Some(1), 3), batch(2, 50)];
        for (offset, record) in (0..).zip(&records) {
            cache.follow(VerdictOffset(offset), record).unwrap();
        }
        assert!(cache.is_judged(&input(0).at(2)), "the checkpoint says so");
        assert!(cache.is_judged(&input(0).at(50)));
        assert!(!cache.is_judged(&input(0).at(40)), "a verdict of another log");
        assert_eq!(cache.next_request(), RequestOffset(51));
    }

    #[test]
    fn the_beginning_of_another_log_is_taken_over_while_the_log_is_learned() {
        let mut cache = VerdictCache::new(10);
        let records = [checkpoint(1, None, 3), batch(1, 40), checkpoint(2, None, 0), batch(2, 50)];
        for (offset, record) in (0..).zip(&records) {
            cache.follow(VerdictOffset(offset), record).unwrap();
        }
        let judged = [2, 40, 50].map(|offset| cache.is_judged(&input(0).at(offset)));
        assert_eq!(judged, [false, false, true]);
        assert_eq!(cache.latest_checkpoint(), Some(VerdictOffset(2)));
        // Pages may wait for its verdicts once it is learned: they are to be resolved again.
        cache.learned();
        assert_eq!(cache.follow(VerdictOffset(4), &checkpoint(3, None, 0)), Err(OutOfPlace));
    }

    #[test]
    fn the_first_verdict_of_a_page_counts_until_it_is_withdrawn_or_reopened() {
        let page = |digest| {
            let decision = Decision::Unique { original: None };
            let (source, event_time) = (input(0).at(40), Timestamp::default());
            Answer::Page(PageVerdict { source, event_time, digest: PageDigest(digest), decision })
        };
        let withdrawn = Answer::Withdrawn { source: input(0).at(40), reason: Reject::Refused };
        let reopened = Answer::Reopened { partition: input(0), from: 40, to: 41 };
        let mut cache = VerdictCache::new(10);
        cache.follow(VerdictOffset(0), &checkpoint(1, None, 0)).unwrap();
        let answers = [page(1), page(2), withdrawn, page(3), reopened, page(4)];
        let in_force: Vec<Option<Answer>> = answers
            .iter()
            .map(|answer| {
                let VerdictRecord::Verdicts(mut batch) = batch(1, 40) else { panic!() };
                batch.verdicts[0].answer = answer.clone();
                let news = cache.follow(VerdictOffset(1), &VerdictRecord::Verdicts(batch)).unwrap();
                let is_news = news.iter().any(|update| matches!(update, VerdictUpdate::Judged(_)));
                let held = cache.verdict(&input(0).at(40)).map(|verdict| verdict.answer.clone());
                assert_eq!(is_news, held.as_ref() == Some(answer), "pages that wait hear of what counts alone");
                held
            })
            .collect();
        let [one, _, gone, _, _, four] = answers;
        let expected = [Some(one.clone()), Some(one), Some(gone.clone()), Some(gone), None, Some(four)];
        assert_eq!(in_force, expected);
    }

    #[test]
    fn a_later_checkpoint_of_another_log_is_out_of_place() {
        let mut cache = VerdictCache::new(10);
        cache.follow(VerdictOffset(0), &checkpoint(1, None, 3)).unwrap();
        assert_eq!(cache.follow(VerdictOffset(1), &checkpoint(2, Some(0), 0)), Err(OutOfPlace));
    }
}
