//! What a worker knows of one verdict log, and what it waits for from there.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::verdict_cache::{OutOfPlace, VerdictCache, VerdictUpdate};
use super::verdict_scan::{ScanStep, VerdictScan};
use crate::protocol::{RequestId, RequestOffset, Verdict, VerdictOffset, VerdictRecord};
use crate::record::{PartitionId, Source};

/// One verdict log: what was followed, what is read back, and the requests that its judge has not passed.
#[derive(Debug)]
pub(super) struct FollowedLog {
    cache: VerdictCache,
    scan: Option<VerdictScan>,
    /// Pages wait for a verdict to be read back, and no scan has begun for them.
    scan_wanted: bool,
    /// Requests by their offset: the judge must have answered them when it has passed it.
    asked: BTreeMap<RequestOffset, Vec<RequestId>>,
}

/// The next step of a scan of old verdicts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScanEnd {
    /// It has not found where to begin: from the beginning of the log.
    FromBeginning,
    /// Everything was read.
    Done,
}

impl FollowedLog {
    /// Knows nothing yet; will remember at most `limit` verdicts.
    pub(super) fn new(limit: usize) -> Self {
        Self { cache: VerdictCache::new(limit), scan: None, scan_wanted: false, asked: BTreeMap::new() }
    }

    // ---- following

    /// The log is going to be read from where its latest checkpoint is said to be.
    pub(super) fn begin_at_checkpoint(&mut self) {
        self.cache.begin_at_checkpoint();
    }

    /// The end of the log was reached.
    pub(super) fn learned(&mut self) {
        self.cache.learned();
    }

    /// Returns whether the end of the log was reached since it was begun.
    pub(super) fn is_learned(&self) -> bool {
        self.cache.is_learned()
    }

    /// Follows a record, and tells what is new to the pages that wait.
    pub(super) fn follow(
        &mut self,
        offset: VerdictOffset,
        record: &VerdictRecord,
    ) -> Result<Vec<VerdictUpdate>, OutOfPlace> {
        let updates = self.cache.follow(offset, record)?;
        for update in &updates {
            match update {
                VerdictUpdate::Judged(verdict) => self.supersede(verdict),
                VerdictUpdate::Reopened { partition, from, to } => self.reopened(partition, *from, *to),
                VerdictUpdate::Passed(_) | VerdictUpdate::RequestsLost => {}
            }
        }
        Ok(updates)
    }

    /// What is read back of this position is older.
    fn supersede(&mut self, verdict: &Arc<Verdict>) {
        if let (Some(scan), Some(source)) = (&mut self.scan, verdict.answer.judged_source()) {
            scan.superseded(source, verdict);
        }
    }

    fn reopened(&mut self, partition: &PartitionId, from: i64, to: i64) {
        let Some(scan) = &mut self.scan else { return };
        scan.reopened(partition, from, to);
        if scan.is_scanning() && scan.wants_any(partition, from, to) {
            // It may end before the reopening and find what is void now: it begins again.
            self.scan = None;
            self.scan_wanted = true;
        }
    }

    /// Returns the last verdict of a position, if it is remembered or was read back.
    pub(super) fn verdict(&self, source: &Source) -> Option<&Arc<Verdict>> {
        self.cache.verdict(source).or_else(|| self.scan.as_ref()?.found(source))
    }

    /// Returns whether the position is judged.
    pub(super) fn is_judged(&self, source: &Source) -> bool {
        self.cache.is_judged(source)
    }

    /// Returns whether any position of the partition is judged.
    pub(super) fn has_judged(&self, partition: &PartitionId) -> bool {
        self.cache.has_judged(partition)
    }

    // ---- requests

    /// A request has this offset. Returns whether the judge has yet to pass it.
    pub(super) fn asked(&mut self, request: RequestId, offset: RequestOffset) -> bool {
        let is_ahead = offset >= self.cache.next_request();
        if is_ahead {
            self.asked.entry(offset).or_default().push(request);
        }
        is_ahead
    }

    /// The judge has passed every request before this offset. Returns those.
    pub(super) fn passed(&mut self, next_request: RequestOffset) -> impl Iterator<Item = RequestId> + use<> {
        let later = self.asked.split_off(&next_request);
        std::mem::replace(&mut self.asked, later).into_values().flatten()
    }

    /// No page waits for any request.
    pub(super) fn forget_requests(&mut self) {
        self.asked.clear();
    }

    // ---- reading back

    /// A page waits for a verdict that is not remembered.
    pub(super) fn want_scan(&mut self) {
        self.scan_wanted = true;
    }

    /// Returns whether a scan is to begin: pages wait for one, and none is under way.
    pub(super) fn takes_scan(&mut self) -> bool {
        !self.is_scanning() && std::mem::take(&mut self.scan_wanted)
    }

    /// Returns whether old verdicts are being read back.
    pub(super) fn is_scanning(&self) -> bool {
        self.scan.as_ref().is_some_and(VerdictScan::is_scanning)
    }

    /// Begins to read back `positions` verdicts from the first wanted position of each partition on. Returns where in
    /// the log reading begins.
    pub(super) fn scan(&mut self, first: BTreeMap<PartitionId, i64>, positions: i64) -> Option<VerdictOffset> {
        let from = self.cache.latest_checkpoint();
        self.scan = Some(VerdictScan::new(first, positions, from));
        from
    }

    /// Takes a record that was read back.
    pub(super) fn scanned(&mut self, record: &VerdictRecord) -> ScanStep {
        let Some(scan) = &mut self.scan else { return ScanStep::Continue };
        if scan.ends_at(record, &self.cache) {
            scan.finish();
            return ScanStep::Done;
        }
        scan.read(record)
    }

    /// The log begins later than the position of the scan. Returns whether it is to be read from its beginning.
    pub(super) fn scan_from_beginning(&mut self) -> bool {
        self.scan.as_mut().map(VerdictScan::log_begins_later).is_some()
    }

    /// The scan has reached the end of the log. `None`: there is none.
    pub(super) fn scanned_to_end(&mut self) -> Option<ScanEnd> {
        let scan = self.scan.as_mut()?;
        if scan.is_seeking_checkpoint() {
            // There is no checkpoint where there should be one.
            scan.log_begins_later();
            return Some(ScanEnd::FromBeginning);
        }
        scan.finish();
        Some(ScanEnd::Done)
    }

    /// Returns whether the last scan looked for this position. If it did not, another one will.
    pub(super) fn was_scanned_for(&mut self, source: &Source) -> bool {
        let was_wanted = self.scan.as_ref().is_some_and(|scan| scan.wants(source));
        self.scan_wanted |= !was_wanted;
        was_wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Answer, ExpiryWatermarks, LogIdentity, RulesNumber, VerdictBatch};
    use crate::record::Reject;
    use crate::worker::test_worker::{checkpoint, input};

    fn batch(answers: Vec<Answer>, next_request: i64) -> VerdictRecord {
        let verdict = |(request, answer)| Verdict { request: RequestId(request), answer };
        VerdictRecord::Verdicts(VerdictBatch {
            log: LogIdentity(1),
            rules: RulesNumber(1),
            watermarks: ExpiryWatermarks::START,
            next_request: RequestOffset(next_request),
            verdicts: (0..).zip(answers).map(verdict).collect(),
        })
    }

    fn withdrawn(offset: i64, reason: Reject) -> Answer {
        Answer::Withdrawn { source: input(0).at(offset), reason }
    }

    fn reopened(from: i64, to: i64) -> Answer {
        Answer::Reopened { partition: input(0), from, to }
    }

    fn reason(log: &FollowedLog, offset: i64) -> Option<Reject> {
        match log.verdict(&input(0).at(offset))?.answer {
            Answer::Withdrawn { reason, .. } => Some(reason),
            Answer::Page(_) | Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. } => None,
        }
    }

    /// A log that remembers one verdict, and has begun.
    fn begun() -> FollowedLog {
        let mut log = FollowedLog::new(1);
        log.follow(VerdictOffset(0), &checkpoint(1, None, 0)).unwrap();
        log
    }

    /// It reads back those from offset 0 on.
    fn scanning() -> FollowedLog {
        let mut log = begun();
        log.want_scan();
        assert!(log.takes_scan());
        log.scan(BTreeMap::from([(input(0), 0)]), 10);
        assert_eq!(log.scanned(&checkpoint(1, None, 0)), ScanStep::Continue);
        log
    }

    #[test]
    fn what_is_read_back_counts_less_than_what_is_followed_meanwhile() {
        let mut log = scanning();
        log.follow(VerdictOffset(9), &batch(vec![withdrawn(1, Reject::TooLarge), withdrawn(2, Reject::TooLarge)], 0))
            .unwrap();
        assert_eq!(
            log.scanned(&batch(vec![withdrawn(0, Reject::NoText), withdrawn(1, Reject::NoText)], 0)),
            ScanStep::Continue
        );
        assert_eq!(reason(&log, 0), None, "not before all is read");
        assert_eq!(log.scanned_to_end(), Some(ScanEnd::Done));
        assert_eq!(
            [0, 1, 2].map(|offset| reason(&log, offset)),
            [Some(Reject::NoText), Some(Reject::TooLarge), Some(Reject::TooLarge)]
        );
    }

    #[test]
    fn a_reading_begins_again_when_a_range_that_it_looks_for_is_reopened() {
        let mut log = scanning();
        log.scanned(&batch(vec![withdrawn(3, Reject::NoText)], 0));
        assert!(!log.takes_scan(), "one is under way");
        log.follow(VerdictOffset(9), &batch(vec![reopened(50, 60)], 0)).unwrap();
        assert!(log.is_scanning(), "that range is not looked for");
        log.follow(VerdictOffset(10), &batch(vec![reopened(3, 4)], 0)).unwrap();
        assert!(!log.is_scanning());
        assert!(log.takes_scan());
        assert_eq!(reason(&log, 3), None);
    }

    #[test]
    fn a_position_that_was_not_looked_for_is_looked_for_next() {
        let mut log = scanning();
        log.scanned_to_end();
        assert!(log.was_scanned_for(&input(0).at(9)));
        assert!(!log.takes_scan());
        assert!(!log.was_scanned_for(&input(0).at(10)));
        assert!(log.takes_scan());
    }

    #[test]
    fn requests_come_back_once_the_judge_has_passed_them() {
        let mut log = begun();
        log.follow(VerdictOffset(1), &batch(vec![], 5)).unwrap();
        assert!(!log.asked(RequestId(1), RequestOffset(4)), "passed already");
        assert!(log.asked(RequestId(2), RequestOffset(5)));
        assert!(log.asked(RequestId(3), RequestOffset(7)));
        assert_eq!(log.passed(RequestOffset(6)).collect::<Vec<_>>(), [RequestId(2)]);
        log.forget_requests();
        assert_eq!(log.passed(RequestOffset(9)).count(), 0);
    }

    #[test]
    fn a_reading_ends_at_the_checkpoint_after_which_none_of_its_positions_was_judged() {
        let at_checkpoint = |judged: i64, applied: u64| {
            let VerdictRecord::Checkpoint(mut checkpoint) = checkpoint(1, Some(0), judged) else { panic!() };
            checkpoint.applied = vec![RequestId(applied)];
            VerdictRecord::Checkpoint(checkpoint)
        };
        let mut log = FollowedLog::new(1);
        log.follow(VerdictOffset(9), &at_checkpoint(8, 7)).unwrap();
        log.scan(BTreeMap::from([(input(0), 2)]), 3);
        assert_eq!(
            log.scanned(&at_checkpoint(8, 7)),
            ScanStep::RestartAt(Some(VerdictOffset(0))),
            "it seeks where to begin"
        );
        assert_eq!(log.scanned(&at_checkpoint(2, 5)), ScanStep::Continue);
        log.scanned(&batch(vec![withdrawn(2, Reject::NoText), withdrawn(3, Reject::NoText)], 0));
        assert_eq!(log.scanned(&at_checkpoint(4, 7)), ScanStep::Continue, "one of three is missing");
        log.scanned(&batch(vec![withdrawn(4, Reject::NoText)], 0));
        assert_eq!(log.scanned(&at_checkpoint(5, 6)), ScanStep::Continue, "a request was applied later, of any kind");
        assert_eq!(log.scanned(&at_checkpoint(6, 7)), ScanStep::Done);
        assert!(!log.is_scanning());
        assert_eq!([2, 3, 4, 5].map(|offset| reason(&log, offset).is_some()), [true, true, true, false]);
    }

    mod readings {
        //! A scan that ends early finds what one to the end of the log finds.

        use std::collections::BTreeMap;

        use proptest::prelude::*;

        use super::*;
        use crate::fingerprint::PageDigest;
        use crate::protocol::{Checkpoint, Decision, ForgetTarget, Judged, PageVerdict};
        use crate::record::Timestamp;

        /// Offsets of the one partition.
        const OFFSETS: i64 = 24;

        #[derive(Clone, Debug)]
        enum Step {
            Page(i64),
            /// Judged, though it may have a verdict.
            Again(i64),
            Withdraw(i64),
            Forget,
            Reopen(i64, i64),
            /// With this low watermark, as far as everything before is judged.
            Checkpoint(i64),
        }

        fn steps() -> impl Strategy<Value = Vec<Step>> {
            let at = || 0..OFFSETS;
            let step = prop_oneof![
                20 => at().prop_map(Step::Page),
                2 => at().prop_map(Step::Again),
                1 => at().prop_map(Step::Withdraw),
                1 => Just(Step::Forget),
                1 => (at(), 1..6_i64).prop_map(|(from, length)| Step::Reopen(from, from + length)),
                4 => at().prop_map(Step::Checkpoint),
            ];
            proptest::collection::vec(step, 0..120)
        }

        /// A log as a judge writes it: each position is judged once, unless reopened (law L4). Now and then another
        /// judge that knows nothing of the last verdicts wrote as well.
        #[derive(Default)]
        struct Written {
            records: Vec<VerdictRecord>,
            judged: Judged,
            applied: Vec<RequestId>,
            checkpoints: Vec<usize>,
        }

        impl Written {
            fn of(steps: &[Step]) -> Self {
                let mut log = Self::default();
                log.checkpoint(0);
                steps.iter().for_each(|step| log.take(step));
                log
            }

            fn take(&mut self, step: &Step) {
                let answer = match *step {
                    Step::Page(offset) | Step::Again(offset) => {
                        if !self.judged.insert(offset) && matches!(step, Step::Page(_)) {
                            return;
                        }
                        Answer::Page(PageVerdict {
                            source: input(0).at(offset),
                            event_time: Timestamp::default(),
                            digest: PageDigest(0),
                            decision: Decision::Unique { original: None },
                        })
                    }
                    Step::Withdraw(offset) => {
                        self.judged.insert(offset);
                        withdrawn(offset, Reject::Refused)
                    }
                    Step::Forget => Answer::Forgotten(ForgetTarget::Source(input(0).at(0))),
                    Step::Reopen(from, to) => {
                        self.judged.reopen(from, to);
                        reopened(from, to)
                    }
                    Step::Checkpoint(low_watermark) => return self.checkpoint(low_watermark),
                };
                let request = RequestId(u64::try_from(self.records.len()).unwrap());
                if !matches!(answer, Answer::Page(_)) {
                    self.applied.push(request);
                }
                let VerdictRecord::Verdicts(mut batch) = batch(vec![answer], 0) else { panic!() };
                batch.verdicts[0].request = request;
                self.records.push(VerdictRecord::Verdicts(batch));
            }

            fn checkpoint(&mut self, low_watermark: i64) {
                let previous = self.checkpoints.last().map(|&at| i64::try_from(at).unwrap());
                let VerdictRecord::Checkpoint(checkpoint) = checkpoint(1, previous, 0) else { panic!() };
                let mut written = Checkpoint { applied: self.applied.clone(), ..*checkpoint };
                let said = written.partitions.get_mut(&input(0)).unwrap();
                said.judged = self.judged.clone();
                said.low_watermark = low_watermark;
                self.judged.raise_low_watermark(low_watermark);
                self.checkpoints.push(self.records.len());
                self.records.push(VerdictRecord::Checkpoint(Box::new(written)));
            }

            /// The request of the verdict of each position that is in force, in a log that begins at `first`: of the
            /// first one since it was reopened, or of the last withdrawal.
            fn in_force(&self, first: usize, end: usize) -> BTreeMap<i64, RequestId> {
                let VerdictRecord::Checkpoint(begins) = &self.records[first] else { panic!("a checkpoint") };
                let mut judged = begins.partitions[&input(0)].judged.clone();
                let mut found = BTreeMap::new();
                for record in &self.records[first..end] {
                    if let VerdictRecord::Checkpoint(checkpoint) = record {
                        judged.raise_low_watermark(checkpoint.partitions[&input(0)].low_watermark);
                    }
                    let VerdictRecord::Verdicts(batch) = record else { continue };
                    for verdict in &batch.verdicts {
                        if let Answer::Reopened { from, to, .. } = verdict.answer {
                            judged.reopen(from, to);
                            found.retain(|offset, _| !(from..to).contains(offset));
                        } else if let Some(source) = verdict.answer.judged_source() {
                            let is_first = judged.insert(source.offset);
                            if is_first || matches!(verdict.answer, Answer::Withdrawn { .. }) {
                                found.insert(source.offset, verdict.request);
                            }
                        }
                    }
                }
                found
            }
        }

        /// A worker's knowledge of a log that grows while it reads back.
        struct Follower<'l> {
            written: &'l Written,
            log: FollowedLog,
            next: usize,
        }

        impl Follower<'_> {
            fn follow(&mut self) {
                if let Some(record) = self.written.records.get(self.next) {
                    self.log.follow(VerdictOffset(i64::try_from(self.next).unwrap()), record).unwrap();
                    self.next += 1;
                }
            }
        }

        proptest! {
            #![proptest_config(ProptestConfig::with_cases(3000))]

            #[test]
            fn find_what_is_in_force(
                steps in steps(),
                (joined, trimmed) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
                (wanted, positions) in (0..OFFSETS, 1..OFFSETS),
                grows in proptest::collection::vec(any::<bool>(), 0..60),
            ) {
                let written = Written::of(&steps);
                let joined = joined.index(written.records.len()) + 1;
                let before: Vec<usize> = written.checkpoints.iter().copied().filter(|at| *at < joined).collect();
                let first = before[trimmed.index(before.len())];
                let log = FollowedLog::new(1);
                let mut worker = Follower { written: &written, log, next: *before.last().unwrap() };
                while worker.next < joined {
                    worker.follow();
                }
                worker.log.learned();
                worker.log.want_scan();

                let mut grows = grows.into_iter();
                let (mut at, mut end) = (0, 0);
                loop {
                    if worker.log.takes_scan() {
                        let from = worker.log.scan(BTreeMap::from([(input(0), wanted)]), positions);
                        (at, end) = (usize::try_from(from.unwrap().0).unwrap(), worker.next);
                    }
                    if grows.next() == Some(true) {
                        worker.follow();
                        continue;
                    }
                    if at < first {
                        prop_assert!(worker.log.scan_from_beginning());
                        at = first;
                    }
                    if at >= end {
                        match worker.log.scanned_to_end() {
                            Some(ScanEnd::FromBeginning) => at = first,
                            Some(ScanEnd::Done) => break,
                            None => prop_assert!(false, "nothing is read"),
                        }
                        continue;
                    }
                    match worker.log.scanned(&written.records[at]) {
                        ScanStep::Continue => at += 1,
                        ScanStep::RestartAt(from) => (at, end) = (from.map_or(first, |from| usize::try_from(from.0).unwrap()), worker.next),
                        ScanStep::Done => break,
                    }
                }
                let in_force = written.in_force(first, worker.next);
                for offset in wanted..wanted + positions {
                    let source = input(0).at(offset);
                    if worker.log.is_judged(&source) {
                        let found = worker.log.verdict(&source).map(|verdict| verdict.request);
                        prop_assert_eq!(found, in_force.get(&offset).copied(), "offset {}", offset);
                    }
                }
            }
        }
    }
}
