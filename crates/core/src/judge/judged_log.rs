//! What a judge knows of the verdict log: the state that follows from it, which part of it is still needed, and where
//! it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use roaring::RoaringTreemap;

use super::log_retention::TrimPoint;
use super::{Diverged, InputOffsets, LogRetention, Restored, SharedSnapshot, State};
use crate::index::Task;
use crate::protocol::{
    DualPeriod, LogIdentity, RequestOffset, Rules, RulesNumber, RulesRecord, Verdict, VerdictBatch, VerdictOffset,
    VerdictRecord,
};
use crate::record::{PartitionId, Timestamp};

/// The verdict log up to the position that is followed, plus the verdicts that are judged but not committed.
#[derive(Debug, Default)]
pub(super) struct JudgedLog {
    state: State,
    retention: LogRetention,
    /// Offset of the next record to follow.
    position: VerdictOffset,
    /// Offset of the first record that was read, if no checkpoint was read before it.
    first_read: Option<VerdictOffset>,
    latest_checkpoint: Option<VerdictOffset>,
}

impl From<Restored> for JudgedLog {
    fn from(Restored { at, state, retention, latest_checkpoint }: Restored) -> Self {
        Self { state, retention, position: at, first_read: None, latest_checkpoint }
    }
}

impl JudgedLog {
    pub(super) const fn state(&self) -> &State {
        &self.state
    }

    /// Returns the offset of the next record to follow.
    pub(super) const fn position(&self) -> VerdictOffset {
        self.position
    }

    pub(super) const fn latest_checkpoint(&self) -> Option<VerdictOffset> {
        self.latest_checkpoint
    }

    /// Returns whether there is a log.
    pub(super) fn has_begun(&self) -> bool {
        self.state.log().is_some()
    }

    /// Returns how much event time the kept log spans.
    pub(super) fn kept(&self) -> Duration {
        let newest = self.state.stream_time();
        let reach = self.retention.oldest().filter(|oldest| *oldest < newest).map(|oldest| newest.gap_millis(oldest));
        Duration::from_millis(reach.unwrap_or(0))
    }

    /// Takes a snapshot of the state. It must not be kept before everything judged so far is committed.
    pub(super) fn snapshot(&self) -> Option<SharedSnapshot> {
        SharedSnapshot::take(&self.state, &self.retention, self.position, self.latest_checkpoint)
    }

    /// See [`Index::maintenance`](crate::index::Index::maintenance).
    pub(super) fn maintenance(&mut self, hand_over: &mut impl FnMut(Task<'static>)) {
        self.state.maintenance(hand_over);
    }

    // ---- following

    /// Follows the record at `offset`; the one after it is at `next`.
    pub(super) fn follow(
        &mut self,
        offset: VerdictOffset,
        next: VerdictOffset,
        record: &VerdictRecord,
    ) -> Result<(), Diverged> {
        if !self.has_begun() && record.is_of_deleted_log(*self.first_read.get_or_insert(offset)) {
            return Err(Diverged::NoCheckpoint);
        }
        self.state.follow_record(record)?;
        self.retention.follow(offset, record, self.state.next_sequence());
        if matches!(record, VerdictRecord::Checkpoint(_)) {
            self.latest_checkpoint = Some(offset);
        }
        self.position = next;
        Ok(())
    }

    /// Returns whether a record may follow on what is judged here: it is of this log, and of the rules in force.
    pub(super) fn goes_on_with(&self, record: &VerdictRecord) -> bool {
        let has_rules = match record {
            VerdictRecord::Verdicts(batch) => batch.rules == self.state.rules_number(),
            VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => true,
        };
        has_rules && self.state.log() == Some(record.log())
    }

    /// Follows a record of which the state holds the first `known` verdicts, or whose rules or checkpoint it holds.
    /// `is_ahead`: the state holds more than this record and those before it.
    pub(super) fn confirm(
        &mut self,
        offset: VerdictOffset,
        next: VerdictOffset,
        record: &VerdictRecord,
        (known, is_ahead): (usize, bool),
    ) {
        match record {
            VerdictRecord::Verdicts(batch) => {
                for verdict in batch.verdicts.iter().skip(known) {
                    self.state.follow_written(verdict);
                    self.retention.note(verdict, self.state.next_sequence());
                }
                if !is_ahead {
                    self.state.end_batch(batch);
                }
            }
            VerdictRecord::Checkpoint(checkpoint) => {
                self.retention.place(offset);
                self.latest_checkpoint = Some(offset);
                if !is_ahead {
                    self.state.pass_requests(checkpoint.next_request);
                }
            }
            VerdictRecord::Rules(_) => {}
        }
        self.position = next;
    }

    /// Skips a record that depends on records that are not in the log.
    pub(super) fn skip_to(&mut self, next: VerdictOffset) {
        self.position = next;
    }

    /// Returns whether all that was read of the log was skipped.
    pub(super) fn has_skipped(&self) -> bool {
        !self.has_begun() && self.position > VerdictOffset(0)
    }

    // ---- judging

    /// Begins a new log.
    pub(super) fn begin(&mut self, log: LogIdentity, rules: Rules) {
        self.state = State::begin(log, rules, RequestOffset(0));
    }

    /// Puts rules in force, in the dual period as far as that has come; it does not begin in a log that exists. Returns
    /// their record, unless they are in force already.
    pub(super) fn change_rules(&mut self, rules: &Rules) -> Option<VerdictRecord> {
        let dual = rules.dual.and_then(|_| self.state.rules()?.dual);
        self.put_in_force(Rules { dual, ..rules.clone() })
    }

    /// Moves the dual period on, before a checkpoint: its end is known once the stream time is that of many pages, and
    /// after its end this log decides. Returns the record of the new rules, if there are any.
    pub(super) fn move_dual_period_on(&mut self) -> Option<VerdictRecord> {
        let rules = self.state.rules()?;
        let time = self.state.stream_time();
        let dual = match rules.dual? {
            DualPeriod::Begun if self.latest_checkpoint.is_some() && time > Timestamp::MIN => {
                Some(DualPeriod::Until(time.plus(DualPeriod::time_to_change(rules))))
            }
            DualPeriod::Until(end) if self.state.watermarks().times.min() >= end => None,
            unchanged @ (DualPeriod::Begun | DualPeriod::Until(_)) => Some(unchanged),
        };
        self.put_in_force(Rules { dual, ..rules.clone() })
    }

    fn put_in_force(&mut self, rules: Rules) -> Option<VerdictRecord> {
        let log = self.state.log().filter(|_| self.state.rules() != Some(&rules))?;
        let number = RulesNumber(self.state.rules_number().0.saturating_add(1));
        let record = RulesRecord { log, number, rules };
        self.state.follow_rules(&record);
        Some(VerdictRecord::Rules(record))
    }

    /// Applies a verdict that was just made.
    pub(super) fn judged(&mut self, verdict: &Verdict) -> Result<(), Diverged> {
        self.state.follow(verdict)?;
        self.retention.note(verdict, self.state.next_sequence());
        Ok(())
    }

    /// Notes that every request before this offset is judged.
    pub(super) fn pass_requests(&mut self, next: RequestOffset) {
        self.state.pass_requests(next);
    }

    /// Notes that every request before this offset is judged, as some after it may be.
    pub(super) fn pass_at_least(&mut self, next: RequestOffset) {
        self.state.pass_requests(self.state.next_request().max(next));
    }

    /// Creates a record of these verdicts, with the watermarks and the position as they are now.
    pub(super) fn batch(&self, verdicts: Vec<Verdict>) -> Option<VerdictRecord> {
        Some(VerdictRecord::Verdicts(VerdictBatch {
            log: self.state.log()?,
            rules: self.state.rules_number(),
            watermarks: self.state.watermarks(),
            next_request: self.state.next_request(),
            verdicts,
        }))
    }

    /// Creates a checkpoint after everything judged so far, and returns where the logs may be trimmed once it is
    /// committed. Verdicts are kept for `keep`, in event time. `commits` holds, for each partition, the position that
    /// the input group was seen to have committed, and the positions about which this says nothing.
    pub(super) fn checkpoint(
        &mut self,
        input: &InputOffsets,
        commits: BTreeMap<PartitionId, (i64, RoaringTreemap)>,
        keep: Duration,
    ) -> Option<(VerdictRecord, Option<TrimPoint>)> {
        let (state, retention) = (&self.state, &self.retention);
        let low_watermark =
            |partition: &PartitionId| retention.low_watermark(partition, state.delivered(partition), input);
        let mut checkpoint = state.checkpoint(self.latest_checkpoint, low_watermark)?;
        for (partition, (position, unsettled)) in commits {
            if let Some(said) = checkpoint.partitions.get_mut(&partition) {
                said.delivered.commit(position, unsettled);
            }
        }
        let keep_from: Timestamp = state.stream_time().minus(keep);
        let verdicts = retention.trim_point(state.first_live_sequence(), input, keep_from);
        let trim = verdicts.map(|verdicts| TrimPoint { verdicts, requests: state.next_request() });
        self.state.raise_low_watermarks(&checkpoint);
        self.retention.open(None, self.state.next_sequence());
        Some((VerdictRecord::Checkpoint(Box::new(checkpoint)), trim))
    }

    // ---- committing

    /// Notes that a transaction is committed: its last record is at offset `last`, its checkpoint at offset
    /// `checkpoint`.
    pub(super) fn committed(&mut self, last: Option<VerdictOffset>, checkpoint: Option<VerdictOffset>) {
        if let Some(last) = last {
            self.position = last.next();
        }
        if let Some(checkpoint) = checkpoint {
            self.retention.place(checkpoint);
            self.latest_checkpoint = Some(checkpoint);
        }
    }

    /// Notes that the log is trimmed to this point.
    pub(super) fn trimmed(&mut self, trim: TrimPoint) {
        self.retention.trimmed_to(trim.verdicts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::PageDigest;
    use crate::judge::tests::rules;
    use crate::protocol::{Answer, Decision, PageVerdict, PerStage, RequestId};

    const HOUR: Duration = Duration::from_hours(1);

    fn dual_rules() -> Rules {
        let windows = PerStage::all(8 * HOUR);
        Rules { windows, lateness: HOUR, dual: Some(DualPeriod::Begun), ..rules(100) }
    }

    /// A page at this hour, and then a checkpoint. Returns what the rules say of the dual period then.
    fn at(log: &mut JudgedLog, hour: i64) -> Option<DualPeriod> {
        let source = PartitionId::new("pages", 0).at(hour);
        let event_time = Timestamp::from_millis(hour * 3_600_000);
        let decision = Decision::Unique { original: None };
        let page = PageVerdict { source, event_time, digest: PageDigest(0), decision };
        log.judged(&Verdict { request: RequestId(0), answer: Answer::Page(page) }).unwrap();
        let number = log.state().rules_number();
        let changed = log.move_dual_period_on();
        assert_eq!(changed.is_some(), log.state().rules_number() != number, "a change is written down");
        log.committed(None, Some(VerdictOffset(hour)));
        log.state().rules().unwrap().dual
    }

    #[test]
    fn a_checkpoint_that_a_judge_has_written_after_its_log_was_deleted_is_skipped() {
        let mut deleted = JudgedLog::default();
        deleted.begin(LogIdentity(1), rules(100));
        let begins = deleted.checkpoint(&InputOffsets::default(), BTreeMap::new(), HOUR).unwrap().0;
        deleted.committed(None, Some(VerdictOffset(1)));
        let batch = deleted.batch(Vec::new()).unwrap();
        let of_deleted = deleted.checkpoint(&InputOffsets::default(), BTreeMap::new(), HOUR).unwrap().0;

        let follow =
            |log: &mut JudgedLog, offset, record| log.follow(VerdictOffset(offset), VerdictOffset(offset + 1), record);
        let mut log = JudgedLog::default();
        assert_eq!(follow(&mut log, 0, &batch), Err(Diverged::NoCheckpoint));
        assert_eq!(follow(&mut log, 2, &of_deleted), Err(Diverged::NoCheckpoint));
        assert_eq!(follow(&mut log, 3, &begins), Ok(()));
        // In a log that was trimmed, the checkpoint before the first one is gone.
        assert_eq!(follow(&mut JudgedLog::default(), 2, &of_deleted), Ok(()));
    }

    #[test]
    fn the_dual_period_lasts_for_a_window_and_a_quarter_after_the_second_checkpoint() {
        let mut log = JudgedLog::default();
        log.begin(LogIdentity(1), dual_rules());
        assert_eq!(at(&mut log, 0), Some(DualPeriod::Begun), "the log has just begun");
        let left = |log: &JudgedLog| log.state().rules().unwrap().left_of_dual_period(log.state().stream_time());
        assert_eq!(left(&log), 11 * HOUR);
        let end = Timestamp::from_millis(3 * 3_600_000);
        for hour in 1..12 {
            assert_eq!(at(&mut log, hour), Some(DualPeriod::Until(end)), "{hour}");
            assert_eq!(left(&log), HOUR * u32::try_from(12 - hour).unwrap());
        }
        // Eight hours of the window, two of its quarter, one of lateness, from the first hour on.
        assert_eq!(at(&mut log, 12), None);
        assert_eq!(left(&log), Duration::ZERO);
        assert_eq!(at(&mut log, 13), None);
    }

    #[test]
    fn the_dual_period_goes_on_under_other_rules_and_begins_in_no_log_that_exists() {
        let mut log = JudgedLog::default();
        log.begin(LogIdentity(1), dual_rules());
        assert!(log.change_rules(&dual_rules()).is_none());
        at(&mut log, 0);
        let until = at(&mut log, 1);
        let other = Rules { max_distance: 1, ..dual_rules() };
        assert!(log.change_rules(&other).is_some());
        assert_eq!(log.state().rules().unwrap().dual, until);
        // Without the earlier scheme in the configuration it is over.
        assert!(log.change_rules(&Rules { dual: None, ..dual_rules() }).is_some());
        assert!(log.change_rules(&Rules { dual: None, ..dual_rules() }).is_none());
        assert!(log.change_rules(&dual_rules()).is_none(), "it does not begin again");
    }
}
