//! What a worker knows of one verdict log, and what it waits for from there.
//!
//! It knows every judged position and the latest verdicts ([`VerdictCache`]), and reads old verdicts back from the log,
//! for instance after the input group was rewound ([`VerdictScan`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::partitions::JudgedPartitions;
use crate::protocol::{
    Answer, Checkpoint, Judged, LogIdentity, LogPartition, PageVerdict, PartitionCheckpoint, RequestId, RequestOffset,
    Rules, Verdict, VerdictBatch, VerdictOffset, VerdictRecord,
};
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
    /// Logs of the earlier scheme that are to be read to their ends before this one decides by itself.
    awaited_ends: BTreeSet<LogPartition>,
}

impl FollowedLog {
    /// Knows nothing yet; will remember at most `limit` verdicts.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            cache: VerdictCache::new(limit),
            scan: None,
            scan_wanted: false,
            asked: BTreeMap::new(),
            awaited_ends: BTreeSet::new(),
        }
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

    /// Returns whether the log of an earlier scheme decides, as far as is known.
    pub(super) fn is_dual(&self) -> bool {
        self.cache.is_dual
    }

    /// These logs of the earlier scheme are to be read to their ends first.
    pub(super) fn await_ends(&mut self, logs: BTreeSet<LogPartition>) {
        self.awaited_ends = logs;
    }

    /// The end of another log was reached.
    pub(super) fn reached_end_of(&mut self, log: LogPartition) {
        self.awaited_ends.remove(&log);
    }

    /// Returns whether the end of another log is still to be reached.
    pub(super) fn awaits_end_of(&self, log: LogPartition) -> bool {
        self.awaited_ends.contains(&log)
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
                VerdictUpdate::Passed(_) | VerdictUpdate::RequestsLost | VerdictUpdate::DualPeriodOver => {}
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

    /// Returns whether the position was reopened, and is not judged again.
    pub(super) fn is_reopened(&self, source: &Source) -> bool {
        self.cache.is_reopened(source)
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
        let search = self.scan.take().map(|scan| scan.search).unwrap_or_default();
        let scan = VerdictScan::new(first, positions, search.again(self.cache.latest_checkpoint()));
        let from = scan.search.position();
        self.scan = Some(scan);
        from
    }

    /// Takes a record that was read back.
    pub(super) fn scanned(&mut self, record: &VerdictRecord) -> ScanStep {
        let Some(scan) = &mut self.scan else { return ScanStep::Continue };
        if self.cache.log.is_some_and(|log| log != record.log()) {
            // A log begins after this record, so nobody counts it.
            return ScanStep::Continue;
        }
        if scan.ends_at(record, &self.cache) {
            scan.finish();
            return ScanStep::Done;
        }
        scan.read(record)
    }

    /// The log begins later than the position of the scan.
    pub(super) fn scan_moved(&mut self) -> ScanStep {
        self.scan.as_mut().map_or(ScanStep::Continue, |scan| ScanStep::RestartAt(scan.log_begins_later()))
    }

    /// The scan, if there is one, has reached the end of the log.
    pub(super) fn scanned_to_end(&mut self) -> ScanStep {
        let Some(scan) = &mut self.scan else { return ScanStep::Continue };
        if scan.is_seeking_checkpoint() {
            // There is no checkpoint where there should be one.
            return ScanStep::RestartAt(scan.log_begins_later());
        }
        scan.finish();
        ScanStep::Done
    }

    /// Returns whether the last scan looked for this position. If it did not, another one will.
    pub(super) fn was_scanned_for(&mut self, source: &Source) -> bool {
        let was_wanted = self.scan.as_ref().is_some_and(|scan| scan.wants(source));
        self.scan_wanted |= !was_wanted;
        was_wanted
    }
}

/// Knowledge gathered from a checkpoint and all that follows it.
#[derive(Debug)]
pub(super) struct VerdictCache {
    log: Option<LogIdentity>,
    judged: JudgedPartitions,
    remembered: HashMap<Source, Arc<Verdict>>,
    order: VecDeque<Source>,
    limit: usize,
    /// Offset of the first record that was read.
    first_read: Option<VerdictOffset>,
    latest_checkpoint: Option<VerdictOffset>,
    next_request: RequestOffset,
    /// The last request other than a page that was applied.
    last_applied: Option<RequestId>,
    /// The first record must be a checkpoint: without one it would not be known what was judged before.
    expects_checkpoint: bool,
    /// Followed to the end at least once since the last time it was begun.
    learned: bool,
    /// The log of an earlier scheme decides. A log that has not begun may begin with a dual period.
    is_dual: bool,
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
    /// The log of the earlier scheme does not decide any more.
    DualPeriodOver,
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
            first_read: None,
            latest_checkpoint: None,
            next_request: RequestOffset(0),
            last_applied: None,
            expects_checkpoint: false,
            learned: false,
            is_dual: true,
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
        let first_read = *self.first_read.get_or_insert(offset);
        if is_first && (!matches!(record, VerdictRecord::Checkpoint(_)) || record.is_of_deleted_log(first_read)) {
            // Without a checkpoint it is not known what was judged before: verdicts up to the first one are of no use.
            return if self.expects_checkpoint { Err(OutOfPlace) } else { Ok(Vec::new()) };
        }
        self.log = Some(record.log());
        match record {
            VerdictRecord::Verdicts(batch) => Ok(self.follow_batch(batch)),
            VerdictRecord::Rules(record) => Ok(self.follow_rules(&record.rules).into_iter().collect()),
            VerdictRecord::Checkpoint(checkpoint) => {
                self.latest_checkpoint = Some(offset);
                for (partition, said) in &checkpoint.partitions {
                    self.judged.follow_checkpoint(partition, said, is_first);
                }
                self.last_applied = checkpoint.applied.last().copied();
                let over = self.follow_rules(&checkpoint.rules);
                Ok(over.into_iter().chain([self.pass(checkpoint.next_request)]).collect())
            }
        }
    }

    fn follow_rules(&mut self, rules: &Rules) -> Option<VerdictUpdate> {
        let was_dual = std::mem::replace(&mut self.is_dual, rules.dual.is_some());
        (was_dual && !self.is_dual).then_some(VerdictUpdate::DualPeriodOver)
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

    /// Returns whether the position was reopened, and is not judged again.
    pub(super) fn is_reopened(&self, source: &Source) -> bool {
        let reopened =
            |offset| self.judged.get(&source.partition).is_some_and(|judged| judged.reopened().contains(offset));
        u64::try_from(source.offset).is_ok_and(reopened)
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
    search: CheckpointSearch,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Going from checkpoint to checkpoint.
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

/// How many checkpoints a [`CheckpointSearch`] remembers at most.
const MAX_PASSED: usize = 1024;

/// The search for the newest checkpoint in which nothing that a scan wants is judged.
///
/// A checkpoint names the one before it, so the first search goes back from the latest one. A group that was rewound wants
/// later and later verdicts, a scan for every few thousand of them, and each way back from the latest checkpoint would be
/// nearly as long as the first. So a search remembers which checkpoints it has passed, and the next one begins where it
/// ended and goes forward: all scans of a rewind together read each checkpoint a few times.
#[derive(Debug, Default)]
struct CheckpointSearch {
    /// Newest first. The last one is to be read, or was the last to be read.
    passed: Vec<VerdictOffset>,
    latest: Option<VerdictOffset>,
    direction: Direction,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Direction {
    #[default]
    Back,
    Forward,
}

impl CheckpointSearch {
    fn back_from(latest: Option<VerdictOffset>) -> Self {
        Self { passed: latest.into_iter().collect(), latest, direction: Direction::Back }
    }

    /// Begins where the last search has ended, if there was one, and otherwise at the latest checkpoint.
    fn again(self, latest: Option<VerdictOffset>) -> Self {
        if self.passed.is_empty() {
            Self::back_from(latest)
        } else {
            Self { latest, direction: Direction::Forward, ..self }
        }
    }

    /// Returns which checkpoint is to be read.
    fn position(&self) -> Option<VerdictOffset> {
        self.passed.last().copied()
    }

    /// Takes the checkpoint at this position: the scan begins here, or reading restarts at another one.
    fn step(&mut self, is_early_enough: bool, previous: Option<VerdictOffset>) -> ScanStep {
        if !is_early_enough {
            self.direction = Direction::Back;
            if self.passed.len() >= MAX_PASSED {
                self.keep_half();
            }
            self.passed.extend(previous);
            return ScanStep::RestartAt(previous);
        }
        if self.direction == Direction::Back {
            return ScanStep::Continue;
        }
        self.passed.pop();
        if self.passed.is_empty() {
            *self = Self::back_from(self.latest);
        }
        ScanStep::RestartAt(self.position())
    }

    /// Forgets every second checkpoint: a search goes forward in larger steps, and back by what the checkpoints name.
    fn keep_half(&mut self) {
        let mut is_kept = false;
        self.passed.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
    }

    /// The log begins after this position, or ends before it. Returns where to read on; `None`: at its beginning.
    fn no_checkpoint_here(&mut self) -> Option<VerdictOffset> {
        if self.direction == Direction::Forward {
            *self = Self::back_from(self.latest);
            return self.position();
        }
        self.passed.pop();
        None
    }
}

impl VerdictScan {
    /// Wants `positions` offsets of all partitions together, of each from its first wanted one on. Begin reading where
    /// the search does.
    fn new(first: BTreeMap<PartitionId, i64>, positions: i64, search: CheckpointSearch) -> Self {
        let positions = positions.checked_div(i64::try_from(first.len()).unwrap_or(i64::MAX)).unwrap_or(0).max(1);
        let wanted =
            first.into_iter().map(|(partition, first)| (partition, first..first.saturating_add(positions))).collect();
        let phase = if search.position().is_some() { Phase::SeekingCheckpoint } else { Phase::Scanning };
        Self { wanted, found: HashMap::new(), judged: None, newer: HashMap::new(), search, phase }
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
                let step = self.search.step(self.is_ahead_of_all(checkpoint), checkpoint.previous);
                if step == ScanStep::Continue {
                    self.take_judged(checkpoint);
                }
                if matches!(step, ScanStep::Continue | ScanStep::RestartAt(None)) {
                    self.phase = Phase::Scanning;
                }
                step
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

    /// The log begins later than the position of the scan. Returns where it is read on; `None`: from its beginning.
    pub(super) fn log_begins_later(&mut self) -> Option<VerdictOffset> {
        self.found.clear();
        self.judged = None;
        let next = self.search.no_checkpoint_here();
        self.phase = if next.is_some() { Phase::SeekingCheckpoint } else { Phase::Scanning };
        next
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
    use crate::fingerprint::PageDigest;
    use crate::protocol::{
        Answer, Decision, Delivered, ExpiryWatermarks, Judged, LogIdentity, RequestId, RequestOffset, RulesNumber,
        VerdictBatch,
    };
    use crate::record::{Reject, Timestamp};
    use crate::worker::tests::{checkpoint, input, rules};

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
        assert_eq!(log.scanned_to_end(), ScanStep::Done);
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
    fn a_checkpoint_of_a_log_that_was_deleted_is_followed_neither_now_nor_in_a_scan() {
        // That log's last checkpoint was at 4.
        let (mut log, of_deleted) = (FollowedLog::new(1), checkpoint(2, Some(4), 3));
        assert_eq!(log.follow(VerdictOffset(0), &of_deleted), Ok(vec![]));
        assert!(!log.has_judged(&input(0)));
        let begins = checkpoint(1, None, 0);
        let verdicts = [1, 2].map(|offset| batch(vec![withdrawn(offset, Reject::TooLarge)], 0));
        for (offset, record) in [(5, &begins), (6, &verdicts[0]), (7, &verdicts[1])] {
            log.follow(VerdictOffset(offset), record).unwrap();
        }
        assert_eq!(reason(&log, 1), None, "it remembers one verdict");
        log.scan(BTreeMap::from([(input(0), 0)]), 10);
        for record in [&of_deleted, &begins, &verdicts[0], &verdicts[1]] {
            assert_eq!(log.scanned(record), ScanStep::Continue);
        }
        assert_eq!(log.scanned_to_end(), ScanStep::Done);
        assert_eq!(reason(&log, 1), Some(Reject::TooLarge));
        // In a log that was trimmed, the checkpoint before the first one is gone.
        let mut trimmed = FollowedLog::new(1);
        trimmed.follow(VerdictOffset(5), &of_deleted).unwrap();
        assert!(trimmed.has_judged(&input(0)));
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

    mod scans {
        //! A scan that ends early, and begins where another one has ended, finds what one of the whole log finds.

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
                joined in any::<prop::sample::Index>(),
                scans in proptest::collection::vec((any::<prop::sample::Index>(), 0..OFFSETS, 1..OFFSETS), 1..5),
                grows in proptest::collection::vec(any::<bool>(), 0..60),
            ) {
                let written = Written::of(&steps);
                let joined = joined.index(written.records.len()) + 1;
                let before: Vec<usize> = written.checkpoints.iter().copied().filter(|at| *at < joined).collect();
                let log = FollowedLog::new(1);
                let mut worker = Follower { written: &written, log, next: *before.last().unwrap() };
                while worker.next < joined {
                    worker.follow();
                }
                worker.log.learned();

                let mut grows = grows.into_iter();
                let mut first = 0;
                for (trimmed, wanted, positions) in scans {
                    first = first.max(before[trimmed.index(before.len())]);
                    worker.log.want_scan();
                    let (mut at, mut end) = (0, 0);
                    let from = |from: Option<VerdictOffset>| from.map_or(first, |from| usize::try_from(from.0).unwrap());
                    loop {
                        if worker.log.takes_scan() {
                            (at, end) = (from(worker.log.scan(BTreeMap::from([(input(0), wanted)]), positions)), worker.next);
                        }
                        if grows.next() == Some(true) {
                            worker.follow();
                            continue;
                        }
                        let step = if at < first {
                            worker.log.scan_moved()
                        } else if at >= end {
                            worker.log.scanned_to_end()
                        } else {
                            worker.log.scanned(&written.records[at])
                        };
                        match step {
                            ScanStep::Continue => {
                                prop_assert!(at < end, "nothing is read");
                                at += 1;
                            }
                            ScanStep::RestartAt(restart) => (at, end) = (from(restart), worker.next),
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

        /// Returns how often a worker places its reader in the log, which has a checkpoint before each page, to read the
        /// verdicts on all pages back, page by page.
        fn placements(pages: usize) -> usize {
            let mut written = Written::default();
            for offset in 0..i64::try_from(pages).unwrap() {
                written.checkpoint(offset);
                written.take(&Step::Page(offset));
            }
            let latest = *written.checkpoints.last().unwrap();
            let mut worker = Follower { written: &written, log: FollowedLog::new(1), next: latest };
            while worker.next < written.records.len() {
                worker.follow();
            }
            worker.log.learned();

            let mut placed = 0;
            for offset in 0..i64::try_from(pages).unwrap() {
                let from = worker.log.scan(BTreeMap::from([(input(0), offset)]), 1);
                let mut at = usize::try_from(from.unwrap().0).unwrap();
                placed += 1;
                while at < written.records.len() {
                    match worker.log.scanned(&written.records[at]) {
                        ScanStep::Continue => at += 1,
                        ScanStep::RestartAt(from) => {
                            at = usize::try_from(from.unwrap().0).unwrap();
                            placed += 1;
                        }
                        ScanStep::Done => break,
                    }
                }
                if at == written.records.len() {
                    assert_eq!(worker.log.scanned_to_end(), ScanStep::Done);
                }
                assert!(worker.log.verdict(&input(0).at(offset)).is_some(), "offset {offset}");
            }
            placed
        }

        #[test]
        fn of_a_deep_rewind_read_each_checkpoint_a_few_times() {
            for pages in [1, 2, 5, 50, 500, 3000] {
                let placed = placements(pages);
                assert!(placed <= 6 * pages, "{pages} pages: {placed} times");
            }
        }
    }

    /// A withdrawal of the page at this offset.
    fn withdrawal(log: u64, offset: i64) -> VerdictRecord {
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
        let records = [withdrawal(1, 40), withdrawal(1, 41), checkpoint(2, Some(1), 3), withdrawal(2, 50)];
        for (offset, record) in (2..).zip(&records) {
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
        let records = [checkpoint(1, None, 3), withdrawal(1, 40), checkpoint(2, None, 0), withdrawal(2, 50)];
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
                let VerdictRecord::Verdicts(mut batch) = withdrawal(1, 40) else { panic!() };
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

    const LOG: LogIdentity = LogIdentity(1);

    fn only_partition() -> PartitionId {
        PartitionId::new("pages", 0)
    }

    /// A checkpoint after another one at offset 3, in which these offsets are judged.
    fn checkpoint_judging(judged_offsets: &[i64]) -> VerdictRecord {
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
            partitions: BTreeMap::from([(only_partition(), said)]),
            applied: Vec::new(),
        }))
    }

    fn verdict(offset: i64, request: u64) -> Verdict {
        let answer = Answer::Withdrawn { source: only_partition().at(offset), reason: Reject::Refused };
        Verdict { request: RequestId(request), answer }
    }

    fn batch_of(verdicts: Vec<Verdict>) -> VerdictRecord {
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
        let search = CheckpointSearch::back_from(Some(VerdictOffset(9)));
        VerdictScan::new(BTreeMap::from([(only_partition(), first)]), positions, search)
    }

    #[test]
    fn reading_begins_where_no_wanted_position_is_judged_though_the_first_is_not() {
        assert_eq!(scan_of(5, 4).read(&checkpoint_judging(&[1, 7])), ScanStep::RestartAt(Some(VerdictOffset(3))));
        assert_eq!(scan_of(5, 4).read(&checkpoint_judging(&[1, 9])), ScanStep::Continue);
        assert_eq!(scan_of(1, 4).read(&checkpoint_judging(&[1])), ScanStep::RestartAt(Some(VerdictOffset(3))));
    }

    #[test]
    fn partitions_share_the_positions_that_are_kept() {
        let first: BTreeMap<PartitionId, i64> = (0..3).map(|number| (PartitionId::new("pages", number), 5)).collect();
        let wants = |positions: i64| {
            let scan = VerdictScan::new(first.clone(), positions, CheckpointSearch::default());
            first.keys().map(|part| (0..99).filter(|&offset| scan.wants(&part.at(offset))).count()).collect::<Vec<_>>()
        };
        assert_eq!(wants(12), [4, 4, 4]);
        assert_eq!(wants(2), [1, 1, 1], "each gets on");
    }

    #[test]
    fn verdict_followed_while_reading_is_newer_than_what_is_read() {
        let mut scan = scan_of(5, 4);
        scan.read(&checkpoint_judging(&[]));
        let (newer, not_wanted) = (Arc::new(verdict(6, 2)), Arc::new(verdict(9, 3)));
        scan.superseded(&only_partition().at(6), &newer);
        scan.superseded(&only_partition().at(9), &not_wanted);
        scan.read(&batch_of(vec![verdict(5, 0), verdict(6, 1)]));
        scan.finish();
        let found = |offset| scan.found(&only_partition().at(offset)).map(|verdict| verdict.request.0);
        assert_eq!([found(5), found(6), found(9)], [Some(0), Some(2), None]);
        scan.reopened(&only_partition(), 6, 7);
        assert_eq!(scan.found(&only_partition().at(6)), None);
    }

    #[test]
    fn a_reopening_that_is_read_back_voids_no_verdict_that_was_followed_meanwhile() {
        let mut scan = scan_of(5, 4);
        scan.read(&checkpoint_judging(&[]));
        scan.superseded(&only_partition().at(6), &Arc::new(verdict(6, 2)));
        let answer = Answer::Reopened { partition: only_partition(), from: 5, to: 9 };
        scan.read(&batch_of(vec![verdict(5, 0), verdict(6, 1), Verdict { request: RequestId(3), answer }]));
        scan.finish();
        let found = |offset| scan.found(&only_partition().at(offset)).map(|verdict| verdict.request.0);
        assert_eq!([found(5), found(6)], [None, Some(2)]);
    }
}
