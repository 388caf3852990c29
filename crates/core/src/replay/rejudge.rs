//! The judge of a replay: one partition of the logs, its state, and what it writes into its own verdict log.

use std::sync::Arc;

use crate::index::Task;
use crate::judge::{Diverged, State, decide_page};
use crate::protocol::{
    Answer, Checkpoint, DEFAULT_PART_BYTES, LogIdentity, PageRequest, RequestId, RequestOffset, Rules, RulesRecord,
    Verdict, VerdictBatch, VerdictRecord, max_verdict_bytes,
};
use crate::record::{Reject, Source, Timestamp};

/// Maximum number of verdicts in a record, if as many fit into a Kafka message, however many pages one transaction
/// holds.
const MAX_BATCH: usize = 1_000;

/// Judges pages, and keeps what is to be written.
#[derive(Debug)]
pub struct Rejudge {
    state: State,
    /// Names the replay's own log.
    log: LogIdentity,
    /// Whether the own log has its first checkpoint.
    has_begun: bool,
    requests: u64,
    /// Records that are to be written before `verdicts`.
    records: Vec<VerdictRecord>,
    verdicts: Vec<Verdict>,
    /// Whether what is judged is only counted.
    is_unwritten: bool,
}

impl Rejudge {
    /// Begins with nothing remembered, under these rules.
    #[must_use]
    pub fn begin(log: LogIdentity, rules: Rules) -> Self {
        Self::over(State::begin(log, rules, RequestOffset(0)), log)
    }

    /// Begins with a state that is still to follow a log.
    #[must_use]
    pub fn following(log: LogIdentity) -> Self {
        Self::over(State::default(), log)
    }

    const fn over(state: State, log: LogIdentity) -> Self {
        Self {
            state,
            log,
            has_begun: false,
            requests: 0,
            records: Vec::new(),
            verdicts: Vec::new(),
            is_unwritten: false,
        }
    }

    /// Writes nothing down from now on: [`Rejudge::records`] returns nothing.
    pub const fn write_nothing(&mut self) {
        self.is_unwritten = true;
    }

    /// Continues writing after `requests` requests, which the own log holds already.
    pub const fn go_on(&mut self, requests: u64) {
        self.has_begun = requests > 0;
        self.requests = requests;
    }

    /// Returns the state.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Passes deferred maintenance tasks of the index to `hand_over`.
    pub fn maintenance(&mut self, hand_over: &mut impl FnMut(Task<'static>)) {
        self.state.maintenance(hand_over);
    }

    /// Judges a page. Its event time counts as at most `bound`. `None` when its position was judged before.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when the state does not take its own verdict, which is a bug.
    pub fn judge(&mut self, page: &PageRequest, bound: Timestamp) -> Result<Option<Arc<Verdict>>, Diverged> {
        let Some(verdict) = self.decide(page, bound).map(Arc::new) else { return Ok(None) };
        self.take(&verdict)?;
        Ok(Some(verdict))
    }

    /// Finds the verdict of a page; changes nothing.
    #[must_use]
    pub fn decide(&self, page: &PageRequest, bound: Timestamp) -> Option<Verdict> {
        decide_page(&self.state, RequestId(self.requests + 1), page, bound, |_| {})
    }

    /// Follows a verdict and writes it down.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when the state does not take it.
    pub(crate) fn take(&mut self, verdict: &Verdict) -> Result<(), Diverged> {
        if self.is_unwritten {
            self.requests += 1;
            return self.state.follow(verdict);
        }
        self.begin_log();
        self.requests += 1;
        self.state.follow(verdict)?;
        self.verdicts.push(verdict.clone());
        if self.verdicts.len() >= self.max_batch() {
            self.close_batch();
        }
        Ok(())
    }

    /// Writes down that a page cannot be delivered as judged.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when the state does not take it.
    pub fn withdraw(&mut self, source: Source, reason: Reject) -> Result<(), Diverged> {
        let request = RequestId(self.requests + 1);
        self.take(&Verdict { request, answer: Answer::Withdrawn { source, reason } })
    }

    /// Follows a verdict of another log, without writing it down.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when the state does not take it.
    pub(crate) fn follow(&mut self, verdict: &Verdict) -> Result<(), Diverged> {
        self.state.follow(verdict)
    }

    /// Follows a whole record of another log. New rules are written down.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when the state does not take it.
    pub fn follow_record(&mut self, record: &VerdictRecord) -> Result<(), Diverged> {
        if let (VerdictRecord::Rules(rules), true) = (record, self.has_begun) {
            // What was judged so far was judged under the rules before.
            self.close_batch();
            self.records.push(VerdictRecord::Rules(RulesRecord { log: self.log, ..rules.clone() }));
        }
        self.state.follow_record(record)
    }

    /// Makes sure that a batch of another log was judged under the rules in force.
    ///
    /// # Errors
    ///
    /// [`Diverged::UnknownRules`].
    pub(crate) fn begin_batch(&self, batch: &VerdictBatch) -> Result<(), Diverged> {
        self.state.begin_batch(batch)
    }

    /// Takes over what a batch of another log says after its verdicts.
    pub(crate) fn end_batch(&mut self, batch: &VerdictBatch) {
        self.state.end_batch(batch);
    }

    /// Returns whether an original that this position made can still be matched.
    #[must_use]
    pub(crate) fn holds(&self, source: &Source) -> bool {
        !self.state.index().of_source(source, &self.state.watermarks()).is_empty()
    }

    /// Hands over what is to be written.
    pub fn records(&mut self) -> Vec<VerdictRecord> {
        self.close_batch();
        std::mem::take(&mut self.records)
    }

    fn max_batch(&self) -> usize {
        let form = self.state.rules().and_then(|rules| rules.minhash).map(|minhash| minhash.form);
        (DEFAULT_PART_BYTES / max_verdict_bytes(form)).min(MAX_BATCH)
    }

    /// The own log begins with the state before the first verdict.
    fn begin_log(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        if let Some(checkpoint) = self.state.checkpoint(None, |_| 0) {
            let checkpoint = Checkpoint { log: self.log, next_request: RequestOffset(0), ..checkpoint };
            self.records.push(VerdictRecord::Checkpoint(Box::new(checkpoint)));
        }
    }

    fn close_batch(&mut self) {
        if self.verdicts.is_empty() {
            return;
        }
        self.records.push(VerdictRecord::Verdicts(VerdictBatch {
            log: self.log,
            rules: self.state.rules_number(),
            watermarks: self.state.watermarks(),
            next_request: RequestOffset(i64::try_from(self.requests).unwrap_or(i64::MAX)),
            verdicts: std::mem::take(&mut self.verdicts),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{RulesNumber, encode_verdict};
    use crate::record::PartitionId;

    #[test]
    fn the_verdicts_of_a_large_transaction_are_written_in_records_that_fit() {
        let mut judge = Rejudge::begin(LogIdentity(1), Rules::default());
        let partition = PartitionId::new("pages", 0);
        for offset in 0..200_500 {
            judge.withdraw(partition.at(offset), Reject::Gone).unwrap();
        }
        let records = judge.records();
        let sizes = records.iter().filter_map(|record| match record {
            VerdictRecord::Verdicts(batch) => Some(batch.verdicts.len()),
            VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => None,
        });
        assert_eq!(sizes.sum::<usize>(), 200_500);
        let mut parts = records.iter().flat_map(|record| encode_verdict(record, DEFAULT_PART_BYTES));
        assert!(parts.all(|part| part.len() <= DEFAULT_PART_BYTES));
        let next = records.iter().rev().find_map(|record| match record {
            VerdictRecord::Verdicts(batch) => Some(batch.next_request),
            VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => None,
        });
        assert_eq!(next, Some(RequestOffset(200_500)));
        assert!(judge.records().is_empty());
    }

    #[test]
    fn a_judge_that_writes_nothing_follows_its_verdicts_and_hands_nothing_over() {
        let mut judge = Rejudge::begin(LogIdentity(1), Rules::default());
        judge.write_nothing();
        let partition = PartitionId::new("pages", 0);
        judge.withdraw(partition.at(0), Reject::Gone).unwrap();
        let rules = RulesRecord { log: LogIdentity(1), number: RulesNumber(2), rules: Rules::default() };
        judge.follow_record(&VerdictRecord::Rules(rules)).unwrap();
        judge.withdraw(partition.at(1), Reject::Gone).unwrap();
        assert_eq!((judge.requests, judge.state().rules_number()), (2, RulesNumber(2)));
        assert!(judge.state().is_judged(&partition.at(1)));
        assert!(judge.records().is_empty());
    }
}
