//! The judge's state, and `follow`: the only way it changes.
//!
//! Stream time is how far event time has come. Originals expire by it, so it must not follow a clock that is wrong for
//! a moment. The time of a page is bounded by the time at which a broker appended its request, but brokers have clocks,
//! too: one that is three days ahead for a second would end the window.
//!
//! Stream time follows a page at once as long as it *steps* no further than the rules allow partitions to lag: after
//! such a step, every original within the window of a page of the present is still held. A longer *leap* needs proof:
//! [`PROOF_PAGES`] pages more that are ahead of the largest step than pages that are not, and their times must span
//! `window.max_future_skew`. A crawl that goes on after a pause proves it within that span, and a clock that is wrong
//! for a second spans a second. Until then only expiry waits: a page that is ahead is compared with what precedes it by
//! its own time, so its verdict does not depend on the proof, and memory stays bounded by the capacity. A replay in the
//! order of event time leaps at each gap in the same way. With one page a day, stream time is up to eight pages behind.
//!
//! Sites cannot do much about it. They may write any time into their pages, but none that is later than the record's
//! own timestamp or the append time of the request, by more than the allowed skew. So they cannot have stream time leap
//! to a time that the crawler or the brokers have not reached; at most, eight pages of theirs prove a true leap a
//! little earlier. Pages with old times refute a leap, so a source of at least half of all pages can delay one; while
//! it does, originals stay longer than the window, up to the capacity.
//!
//! It moves back only when an operator says so ([`RequestBody::SetTime`](crate::protocol::RequestBody::SetTime)).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use roaring::RoaringTreemap;
use xxhash_rust::xxh3::Xxh3;

use crate::index::{Index, Original, Probe, Task};
use crate::protocol::{
    Answer, Checkpoint, Decision, Delivered, ExpiryWatermarks, ForgetTarget, Judged, Leap, LogIdentity, MinHashRules,
    NewOriginal, PageRequest, PageVerdict, PartitionCheckpoint, PerStage, RequestId, RequestOffset, Rules, RulesNumber,
    RulesRecord, Stage, Verdict, VerdictBatch, VerdictOffset, VerdictRecord,
};
use crate::record::{PartitionId, Source, Timestamp};

/// How many applied requests are remembered. A request is repeated within seconds; this many withdrawals, forgets
/// and reopened ranges covers far more than that.
const APPLIED_REMEMBERED: usize = 65_536;

/// Everything that decides the next verdict. Two states that followed the same verdict log are equal (law L5).
#[derive(Debug)]
pub struct State {
    log: Option<LogIdentity>,
    rules_number: RulesNumber,
    rules: Option<Rules>,
    stream_time: StreamTime,
    watermarks: ExpiryWatermarks,
    next_sequence: u64,
    next_request: RequestOffset,
    partitions: BTreeMap<PartitionId, PartitionHistory>,
    applied: Applied,
    index: Index,
    counts: Counts,
    /// Position of the latest second verdict, for the process log.
    second_verdict: Option<Source>,
}

/// The latest applied requests, oldest first.
#[derive(Clone, Debug, Default)]
struct Applied {
    order: VecDeque<RequestId>,
    known: BTreeSet<RequestId>,
}

/// Why a record of the verdict log cannot be applied to this state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Diverged {
    /// The record was written to another log of the same name.
    #[error("the log was replaced: expected identity {expected:x}, found {found:x}")]
    AnotherLog {
        /// Identity of the log followed so far.
        expected: u64,
        /// Identity in the record.
        found: u64,
    },
    /// There is no checkpoint to begin with.
    #[error("the log does not begin with a checkpoint")]
    NoCheckpoint,
    /// The verdicts were made under rules that the log did not announce.
    #[error("verdicts under rules {found}, but rules {expected} are in force")]
    UnknownRules {
        /// Number in force.
        expected: u32,
        /// Number cited.
        found: u32,
    },
    /// A second verdict for a judged position (law L4).
    #[error("a second verdict for {0}")]
    SecondVerdict(Source),
}

impl Default for State {
    fn default() -> Self {
        Self {
            log: None,
            rules_number: RulesNumber::default(),
            rules: None,
            stream_time: StreamTime::START,
            watermarks: ExpiryWatermarks::START,
            next_sequence: 0,
            next_request: RequestOffset::default(),
            partitions: BTreeMap::new(),
            applied: Applied::default(),
            index: Index::new(0),
            counts: Counts::default(),
            second_verdict: None,
        }
    }
}

impl State {
    /// Begins a new log under these rules. Requests are judged from `next_request` on.
    #[must_use]
    pub fn begin(log: LogIdentity, rules: Rules, next_request: RequestOffset) -> Self {
        let index = index_for(&rules);
        Self {
            log: Some(log),
            rules_number: RulesNumber(1),
            rules: Some(rules),
            next_request,
            index,
            ..Self::default()
        }
    }

    /// Restores the state from a checkpoint and these originals; `run` does the tasks that build their tables
    /// ([`Index::build`]).
    #[must_use]
    pub fn load(checkpoint: &Checkpoint, originals: &[Original], mut run: impl FnMut(Vec<Task<'_>>)) -> Self {
        let mut state = Self::without_originals(checkpoint);
        state.fill_index(originals, &mut run);
        state.build_index(run);
        state
    }

    /// Adds these originals: [`Index::fill`].
    pub(super) fn fill_index(&mut self, originals: &[Original], run: impl FnMut(Vec<Task<'_>>)) {
        self.index.fill(originals, run);
    }

    /// Builds the tables over all originals held: [`Index::build`].
    pub(super) fn build_index(&mut self, run: impl FnMut(Vec<Task<'_>>)) {
        self.index.build(run);
    }

    /// Restores the state from a checkpoint. The originals come with the verdicts after it, or from a snapshot.
    pub(super) fn without_originals(checkpoint: &Checkpoint) -> Self {
        let partitions = checkpoint.partitions.iter();
        let partitions =
            partitions.map(|(partition, said)| (partition.clone(), PartitionHistory::from(said))).collect();
        let mut state = Self {
            log: Some(checkpoint.log),
            rules_number: checkpoint.rules_number,
            rules: Some(checkpoint.rules.clone()),
            stream_time: StreamTime::new(checkpoint.stream_time, checkpoint.leap),
            watermarks: checkpoint.watermarks,
            next_sequence: checkpoint.next_sequence,
            next_request: checkpoint.next_request,
            partitions,
            applied: Applied::default(),
            index: index_for(&checkpoint.rules),
            counts: Counts::default(),
            second_verdict: None,
        };
        checkpoint.applied.iter().for_each(|&request| state.applied.note(request));
        state.raise_low_watermarks(checkpoint);
        state
    }

    /// Returns the state as a checkpoint, without the originals. `low_watermark` returns the low watermark that each
    /// partition is to have from here on. Returns `None` before the state has begun or followed a log.
    #[must_use]
    pub fn checkpoint(
        &self,
        previous: Option<VerdictOffset>,
        mut low_watermark: impl FnMut(&PartitionId) -> i64,
    ) -> Option<Checkpoint> {
        let partitions = self
            .partitions
            .iter()
            .map(|(partition, seen)| {
                let said = PartitionCheckpoint {
                    judged: seen.judged.clone(),
                    low_watermark: low_watermark(partition),
                    delivered: seen.delivered.clone(),
                };
                (partition.clone(), said)
            })
            .collect();
        Some(Checkpoint {
            log: self.log?,
            rules_number: self.rules_number,
            rules: self.rules.clone()?,
            stream_time: self.stream_time.get(),
            leap: self.stream_time.leap(),
            watermarks: self.watermarks,
            next_sequence: self.next_sequence,
            next_request: self.next_request,
            previous,
            partitions,
            applied: self.applied.order.iter().copied().collect(),
        })
    }

    /// Follows one record of the verdict log.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when the record does not fit what this state has followed. The state is unusable then.
    pub fn follow_record(&mut self, record: &VerdictRecord) -> Result<(), Diverged> {
        match (self.log, record) {
            (None, VerdictRecord::Checkpoint(checkpoint)) => {
                *self = Self::without_originals(checkpoint);
                Ok(())
            }
            (None, VerdictRecord::Verdicts(_) | VerdictRecord::Rules(_)) => Err(Diverged::NoCheckpoint),
            (Some(log), _) if log != record.log() => {
                Err(Diverged::AnotherLog { expected: log.0, found: record.log().0 })
            }
            (Some(_), VerdictRecord::Checkpoint(checkpoint)) => {
                self.raise_low_watermarks(checkpoint);
                Ok(())
            }
            (Some(_), VerdictRecord::Rules(record)) => {
                self.follow_rules(record);
                Ok(())
            }
            (Some(_), VerdictRecord::Verdicts(batch)) => self.follow_batch(batch),
        }
    }

    fn follow_batch(&mut self, batch: &VerdictBatch) -> Result<(), Diverged> {
        self.begin_batch(batch)?;
        for verdict in &batch.verdicts {
            self.follow_written(verdict);
        }
        self.end_batch(batch);
        Ok(())
    }

    /// Checks that the verdicts of a batch were made under the rules in force.
    ///
    /// # Errors
    ///
    /// [`Diverged::UnknownRules`].
    pub(crate) fn begin_batch(&self, batch: &VerdictBatch) -> Result<(), Diverged> {
        if batch.rules == self.rules_number {
            return Ok(());
        }
        Err(Diverged::UnknownRules { expected: self.rules_number.0, found: batch.rules.0 })
    }

    /// Applies the watermarks and the position of a batch whose verdicts were followed.
    pub fn end_batch(&mut self, batch: &VerdictBatch) {
        self.advance_watermarks(batch.watermarks);
        self.next_request = batch.next_request;
    }

    /// Puts new rules in force.
    pub(crate) fn follow_rules(&mut self, record: &RulesRecord) {
        self.rules_number = record.number;
        self.index.set_max_distance(record.rules.max_distance);
        self.index.expect(record.rules.max_entries);
        self.index.set_minhash(minhash_of(&record.rules));
        self.rules = Some(record.rules.clone());
    }

    /// Follows one verdict. References to originals that are not held are ignored: the log may be trimmed.
    ///
    /// # Errors
    ///
    /// [`Diverged::SecondVerdict`] for a page whose position was judged and not reopened since.
    pub fn follow(&mut self, verdict: &Verdict) -> Result<(), Diverged> {
        match &verdict.answer {
            Answer::Page(page) => return self.follow_page(page),
            Answer::Withdrawn { source, .. } => {
                self.seen(&source.partition).withdraw(source.offset);
                self.counts.forgotten += self.index.forget_source(source);
            }
            Answer::Forgotten(ForgetTarget::Source(source)) => {
                self.counts.forgotten += self.index.forget_source(source);
            }
            Answer::Forgotten(ForgetTarget::Id(id)) => {
                self.counts.forgotten += self.index.forget_id(*id, &self.watermarks);
            }
            Answer::Reopened { partition, from, to } => {
                self.seen(partition).reopen(*from, *to);
                self.counts.forgotten += self.index.forget_range(partition, *from, *to);
            }
            Answer::TimeSet { after, .. } => self.set_time_back(*after),
        }
        self.applied.note(verdict.request);
        Ok(())
    }

    /// Follows one verdict of the log. A second verdict for a page whose position was judged and not reopened since
    /// changes nothing: for every reader, the first one in the order of the log counts. Counts a second verdict, and
    /// returns false for it.
    pub(crate) fn follow_written(&mut self, verdict: &Verdict) -> bool {
        let Err(Diverged::SecondVerdict(source)) = self.follow(verdict) else { return true };
        self.counts.second_verdicts += 1;
        self.second_verdict = Some(source);
        false
    }

    fn follow_page(&mut self, page: &PageVerdict) -> Result<(), Diverged> {
        if !self.seen(&page.source.partition).judge(page.source.offset) {
            return Err(Diverged::SecondVerdict(page.source.clone()));
        }
        if let Some(rules) = &self.rules {
            self.stream_time.follow(page.event_time, rules);
        }
        let mut watermarks = self.watermarks_with(self.stream_time());
        self.counts.late += u64::from(page.event_time < watermarks.times.min());
        if let Decision::Update { of, original: Some(_) } = &page.decision {
            self.counts.forgotten += self.index.forget_source(&of.source);
        }
        if let Some(original) = page.decision.original() {
            self.counts.full_keys += u64::from(original.placement.skipped.count_ones());
            self.counts.family_members += u64::from(original.placement.family.is_some());
            self.remember(page, original);
            let capacity = self.rules.as_ref().map_or(u64::MAX, |rules| rules.max_entries);
            watermarks.first_sequence = watermarks.first_sequence.max(self.next_sequence.saturating_sub(capacity));
        }
        self.advance_watermarks(watermarks);
        Ok(())
    }

    fn remember(&mut self, page: &PageVerdict, original: &NewOriginal) {
        self.index.insert(&Original {
            sequence: self.next_sequence,
            source: page.source.clone(),
            event_time: page.event_time,
            fingerprints: original.fingerprints.clone(),
            id: original.id,
            scope: original.scope,
            site: original.site,
            address: original.address,
            title: original.title,
            placement: original.placement,
            cluster: original.cluster.clone().unwrap_or_else(|| page.source.clone()),
        });
        self.next_sequence += 1;
    }

    /// Returns the index probe for a page under these rules; `event_time` is the page's event time as judged.
    #[must_use]
    pub(crate) fn probe<'a>(&self, rules: &'a Rules, page: &'a PageRequest, event_time: Timestamp) -> Probe<'a> {
        Probe {
            fingerprints: &page.fingerprints,
            id: page.id,
            scope: page.scope,
            site: page.site,
            address: page.address,
            title: page.title,
            is_variant: page.is_variant,
            event_time,
            watermarks: self.watermarks_with(event_time),
            windows: rules.windows,
            stages: &rules.stages,
            max_distance: rules.max_distance,
            number_guard: rules.number_guard,
            simhash_similarity: rules.simhash_similarity,
            same_site: rules.same_site,
        }
    }

    /// Returns the watermarks that a page of this event time is compared under: those of its own time, if it is ahead
    /// of the stream time.
    #[must_use]
    pub(crate) fn watermarks_with(&self, event_time: Timestamp) -> ExpiryWatermarks {
        let Some(rules) = &self.rules else { return self.watermarks };
        let times = expiry_times(rules, self.stream_time().max(event_time));
        self.watermarks.later(ExpiryWatermarks { times, first_sequence: 0 })
    }

    /// Sets the stream time back, and the watermarks with it. What has expired stays gone: followers that began later
    /// never had it.
    fn set_time_back(&mut self, time: Timestamp) {
        let Some(rules) = self.rules.as_ref().filter(|_| time < self.stream_time()) else { return };
        let times = expiry_times(rules, time);
        self.stream_time.set_back(time);
        self.counts.expired += self.index.readmit(&self.watermarks);
        self.watermarks = self.watermarks.not_after(times);
    }

    /// Notes that every request before `next_request` is judged.
    pub(crate) fn pass_requests(&mut self, next_request: RequestOffset) {
        self.next_request = next_request;
    }

    /// Applies a checkpoint's low watermarks and delivered positions. Every follower does so at the same place in the
    /// log.
    pub(crate) fn raise_low_watermarks(&mut self, checkpoint: &Checkpoint) {
        checkpoint.partitions.iter().for_each(|(partition, said)| self.seen(partition).follow_checkpoint(said));
    }

    fn advance_watermarks(&mut self, watermarks: ExpiryWatermarks) {
        self.watermarks = self.watermarks.later(watermarks);
        let gone = self.index.advance(&self.watermarks);
        self.counts.expired += gone.expired;
        self.counts.evicted += gone.evicted;
    }

    fn seen(&mut self, partition: &PartitionId) -> &mut PartitionHistory {
        self.partitions.entry(partition.clone()).or_default()
    }

    /// Returns whether the position was judged and not reopened since.
    #[must_use]
    pub fn is_judged(&self, source: &Source) -> bool {
        self.partitions.get(&source.partition).is_some_and(|seen| seen.judged.contains(source.offset))
    }

    /// Returns whether this position was judged, then reopened, and not judged again since.
    #[must_use]
    pub(crate) fn is_reopened(&self, source: &Source) -> bool {
        let Ok(offset) = u64::try_from(source.offset) else { return false };
        self.partitions.get(&source.partition).is_some_and(|seen| seen.judged.reopened().contains(offset))
    }

    /// Returns the highest position of a partition that the input group has committed, as far as checkpoints say, since
    /// all of the partition was last reopened.
    #[must_use]
    pub(crate) fn delivered(&self, partition: &PartitionId) -> i64 {
        self.partitions.get(partition).map_or(0, |seen| seen.delivered.end)
    }

    /// Returns the end of the range from `from`, up to `to` at most, that may be reopened (law L8): everything judged
    /// in it was delivered since, as far as checkpoints say.
    #[must_use]
    pub(crate) fn delivered_to(&self, partition: &PartitionId, from: i64, to: i64) -> i64 {
        self.partitions.get(partition).map_or(from, |seen| seen.delivered.cut(from, to))
    }

    /// Returns the offset after the last one of a partition that was judged.
    #[must_use]
    pub(crate) fn judged_end(&self, partition: &PartitionId) -> i64 {
        self.partitions.get(partition).map_or(0, |seen| seen.judged.end())
    }

    /// Returns whether a request other than a page was applied.
    #[must_use]
    pub(crate) fn is_applied(&self, request: RequestId) -> bool {
        self.applied.known.contains(&request)
    }

    /// Returns the identity of the log that is followed.
    #[must_use]
    pub const fn log(&self) -> Option<LogIdentity> {
        self.log
    }

    /// Returns the rules in force.
    #[must_use]
    pub const fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }

    /// Returns the number of the rules in force.
    #[must_use]
    pub const fn rules_number(&self) -> RulesNumber {
        self.rules_number
    }

    /// Returns how far event time has come: the largest that was judged, except those that are further ahead without
    /// proof. [`Timestamp::MIN`] before the first.
    #[must_use]
    pub const fn stream_time(&self) -> Timestamp {
        self.stream_time.get()
    }

    /// Returns the pages that are far ahead of the stream time, if there are any.
    #[must_use]
    pub(crate) const fn leap(&self) -> Option<Leap> {
        self.stream_time.leap()
    }

    /// Returns the expiry watermarks.
    #[must_use]
    pub const fn watermarks(&self) -> ExpiryWatermarks {
        self.watermarks
    }

    /// Returns the offset of the next request to judge.
    #[must_use]
    pub const fn next_request(&self) -> RequestOffset {
        self.next_request
    }

    /// Returns the originals held.
    #[must_use]
    pub const fn index(&self) -> &Index {
        &self.index
    }

    /// Passes deferred maintenance tasks of the index to `hand_over`: see [`Index::maintenance`]. They do not change
    /// the state.
    pub(crate) fn maintenance(&mut self, hand_over: &mut impl FnMut(Task<'static>)) {
        self.index.maintenance(hand_over);
    }

    /// Returns the counters since the state was restored.
    #[must_use]
    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the position of the latest verdict that was ignored because its page already had one.
    #[must_use]
    pub const fn second_verdict(&self) -> Option<&Source> {
        self.second_verdict.as_ref()
    }

    /// Returns the sequence number of the oldest original that can still be matched; if there is none, that of the next
    /// original.
    #[must_use]
    pub(crate) fn first_live_sequence(&self) -> u64 {
        self.index.live(&self.watermarks).next().map_or(self.next_sequence, |original| original.sequence)
    }

    /// Returns the sequence number of the next original.
    #[must_use]
    pub const fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Returns a hash of everything that decides the next verdict: equal for all followers at the same place of the
    /// log.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hash = Xxh3::new();
        let mut write = |text: &str| hash.update(text.as_bytes());
        write(&format!("{:?} {:?} {:?}", self.log, self.rules_number, self.rules));
        write(&format!(
            "{:?} {:?} {:?} {:?}",
            self.stream_time, self.watermarks, self.next_sequence, self.next_request.0
        ));
        write(&format!("{:?}", self.applied.order));
        for (partition, seen) in &self.partitions {
            if seen.delivered.end > 0 {
                let pending: Vec<u64> = seen.delivered.pending.iter().collect();
                write(&format!("{partition} delivered {} {pending:?}", seen.delivered.end));
            }
            if !seen.judged.is_empty() {
                let above: Vec<u64> = seen.judged.above().iter().collect();
                let reopened: Vec<u64> = seen.judged.reopened().iter().collect();
                write(&format!("{partition} {} {above:?} {reopened:?}", seen.judged.low_watermark()));
            }
        }
        for original in self.index.live(&self.watermarks) {
            write(&format!("{original:?}"));
        }
        hash.digest()
    }
}

/// Returns the event times before which originals expire, by stage, at this stream time.
fn expiry_times(rules: &Rules, stream_time: Timestamp) -> PerStage<Timestamp> {
    rules.windows.map(|window| stream_time.minus(rules.lateness).minus(window))
}

/// Creates an empty index with the tables that these rules need.
fn index_for(rules: &Rules) -> Index {
    let mut index = Index::sized(rules.max_distance, rules.max_entries);
    index.set_minhash(minhash_of(rules));
    index
}

/// Returns how sketches are compared, if the `MinHash` stage is in use.
fn minhash_of(rules: &Rules) -> Option<MinHashRules> {
    rules.minhash.filter(|_| rules.stages.contains(&Stage::MinHash))
}

impl Applied {
    fn note(&mut self, request: RequestId) {
        if self.known.insert(request) {
            self.order.push_back(request);
        }
        while self.order.len() > APPLIED_REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

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

/// Totals since the state was restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were already answered: their page was judged, or they were applied.
    pub repeats: u64,
    /// Pages that were before every expiry watermark when they were judged. They are delivered; a unique one is not
    /// remembered.
    pub late: u64,
    /// Pages whose event time was too far ahead of the brokers' clock and was capped.
    pub clamped: u64,
    /// Originals that expired.
    pub expired: u64,
    /// Originals that were evicted because there were too many.
    pub evicted: u64,
    /// Keys under which a new original was not stored, because each already finds as many originals as it may.
    pub full_keys: u64,
    /// Originals that are found through the head of their family.
    pub family_members: u64,
    /// Originals that were withdrawn, replaced, forgotten on request, or reopened.
    pub forgotten: u64,
    /// Verdicts in the log whose page already had one; they are ignored.
    pub second_verdicts: u64,
}

/// Number of pages, beyond those that are not ahead, that must be ahead before stream time leaps.
pub(super) const PROOF_PAGES: u64 = 8;

/// The stream time, and the leap that it is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamTime {
    time: Timestamp,
    leap: Option<Leap>,
}

impl StreamTime {
    /// The stream time before the first page.
    pub const START: Self = Self { time: Timestamp::MIN, leap: None };

    /// Returns the stream time that a checkpoint names, with the leap that is under way.
    #[must_use]
    pub const fn new(time: Timestamp, leap: Option<Leap>) -> Self {
        Self { time, leap }
    }

    /// Returns the time.
    #[must_use]
    pub const fn get(self) -> Timestamp {
        self.time
    }

    /// Returns the leap that is under way.
    #[must_use]
    pub(crate) const fn leap(self) -> Option<Leap> {
        self.leap
    }

    /// Follows a page that was judged with this event time.
    pub fn follow(&mut self, event_time: Timestamp, rules: &Rules) {
        let step = rules.lateness.max(rules.max_future_skew);
        if self.time == Timestamp::MIN || event_time <= self.time.plus(step) {
            self.time = self.time.max(event_time);
            // Pages of the present refute the leap.
            self.leap = self.leap.and_then(Leap::refuted).filter(|leap| leap.from > self.time.plus(step));
            return;
        }
        let before = self.leap.unwrap_or(Leap { from: event_time, pages: 0 });
        let leap = Leap { from: before.from.min(event_time), pages: before.pages.saturating_add(1) };
        if leap.pages >= PROOF_PAGES && event_time >= leap.from.plus(rules.max_future_skew) {
            *self = Self { time: event_time, leap: None };
        } else {
            self.leap = Some(leap);
        }
    }

    /// Sets it back to a time, unless it is earlier.
    pub fn set_back(&mut self, time: Timestamp) {
        if time < self.time {
            *self = Self { time, leap: None };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::judge::tests;

    const SECOND: i64 = 1_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;

    fn rules() -> Rules {
        Rules { lateness: Duration::from_hours(6), max_future_skew: Duration::from_mins(10), ..tests::rules(1_000) }
    }

    /// Follows pages of these times. Returns the stream time after the last one.
    fn follow(stream: &mut StreamTime, times: impl IntoIterator<Item = i64>) -> i64 {
        let rules = rules();
        for time in times {
            stream.follow(Timestamp::from_millis(time), &rules);
        }
        stream.get().millis()
    }

    /// One page each second.
    fn seconds(from: i64, count: i64) -> impl Iterator<Item = i64> {
        (0..count).map(move |number| from + number * SECOND)
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_second_does_not_move_the_stream_time() {
        let mut stream = StreamTime::START;
        assert_eq!(follow(&mut stream, seconds(0, 100)), 99 * SECOND);
        // Two days ahead, for a second with a thousand pages.
        assert_eq!(follow(&mut stream, (0..1_000).map(|millis| 2 * DAY + millis)), 99 * SECOND);
        // A second time, an hour later.
        assert_eq!(follow(&mut stream, seconds(100 * SECOND, 3_600)), 3_699 * SECOND);
        assert_eq!(stream.leap(), None, "refuted");
        let again = (0..1_000).map(|millis| 2 * DAY + HOUR + millis);
        assert_eq!(follow(&mut stream, again), 3_699 * SECOND);
        // Two days later it is the present.
        let hourly = (1..60).map(|hour| hour * HOUR);
        assert_eq!(follow(&mut stream, hourly), 59 * HOUR);
        assert_eq!(stream.leap(), None);
    }

    #[test]
    fn after_a_pause_of_the_crawl_the_stream_time_follows_within_the_allowed_skew() {
        let mut stream = StreamTime::START;
        follow(&mut stream, seconds(0, 100));
        let after = seconds(2 * DAY, 10 * 60);
        assert_eq!(follow(&mut stream, after), 99 * SECOND, "not proved yet");
        assert_eq!(follow(&mut stream, [2 * DAY + 10 * MINUTE]), 2 * DAY + 10 * MINUTE);
        assert_eq!(stream.leap(), None);
    }

    #[test]
    fn a_partition_that_lags_delays_a_leap_only_while_most_pages_are_its_own() {
        let mut stream = StreamTime::START;
        follow(&mut stream, seconds(0, 100));
        let mixed = (0..1_000).flat_map(|number| [100 * SECOND + number, 2 * DAY + number * SECOND]);
        assert!(follow(&mut stream, mixed.clone()) < HOUR, "as many pages are of the present");
        let most = (0..1_000).flat_map(|number| {
            let ahead = 2 * DAY + number * 2 * SECOND;
            [100 * SECOND + number, ahead, ahead + SECOND]
        });
        assert!(follow(&mut stream, most) > 2 * DAY);
    }

    #[test]
    fn it_is_set_back_and_never_forward() {
        let mut stream = StreamTime::START;
        follow(&mut stream, [2 * DAY, 3 * DAY]);
        stream.set_back(Timestamp::from_millis(3 * DAY));
        assert_eq!((stream.get().millis(), stream.leap().is_some()), (2 * DAY, true), "it is no later");
        stream.set_back(Timestamp::from_millis(HOUR));
        assert_eq!((stream.get().millis(), stream.leap()), (HOUR, None));
        assert_eq!(follow(&mut stream, seconds(HOUR, 100)), HOUR + 99 * SECOND);
    }

    #[test]
    fn a_stream_with_few_pages_follows_after_eight_of_them() {
        let mut stream = StreamTime::START;
        let daily = |days: std::ops::Range<i64>| days.map(|day| day * DAY);
        assert_eq!(follow(&mut stream, daily(0..8)), 0);
        assert_eq!(follow(&mut stream, daily(8..9)), 8 * DAY);
    }

    #[test]
    fn the_first_page_and_steps_within_the_allowed_lateness_need_no_proof() {
        let mut stream = StreamTime::START;
        assert_eq!(follow(&mut stream, [5 * DAY]), 5 * DAY);
        assert_eq!(follow(&mut stream, [5 * DAY + 6 * HOUR]), 5 * DAY + 6 * HOUR);
        assert_eq!(follow(&mut stream, [5 * DAY + 12 * HOUR + 1]), 5 * DAY + 6 * HOUR);
        assert_eq!(follow(&mut stream, [0]), 5 * DAY + 6 * HOUR, "it does not move back");
    }
}
