//! The order of the log: pages are judged where the live verdict log has their verdicts.
//!
//! With the live rules the state before the range is followed, never judged, and so is what the log says of other
//! pages: the state is the live one at every verdict, and so are the verdicts (law L5). A page whose live verdict names
//! an original that is older than the kept log keeps that verdict: it cannot be judged again. With other settings
//! ([`LogOrder::what_if`]) pages outside of the range belong to no part, and those of the warm-up are judged like all
//! others.
//!
//! What operators and workers asked for (originals forgotten, pages withdrawn, ranges reopened) is followed in log
//! order. A page that was judged twice, because its range was reopened, is delivered with its first verdict. A second
//! verdict without a reopening counts for nothing, as for every reader of the log.

use std::collections::VecDeque;
use std::sync::Arc;

use super::plan::{Part, Ranges};
use super::rejudge::Rejudge;
use crate::judge::Diverged;
use crate::protocol::{Answer, LogIdentity, PageRequest, PageVerdict, Rules, Verdict, VerdictBatch, VerdictRecord};
use crate::record::{Reject, Source};

/// How many verdicts ahead of its turn a verdict is prefetched: another thread wrote it.
const PREFETCH_DISTANCE: usize = 4;

/// Walks one partition of the live verdict log.
#[derive(Debug)]
pub struct LogOrder {
    /// The judge; with other settings one for each variant.
    judges: Vec<Rejudge>,
    ranges: Ranges,
    is_what_if: bool,
    batch: Option<VerdictBatch>,
    verdicts: VecDeque<Verdict>,
    /// Verdicts that were skipped, because their pages had one already.
    second_verdicts: u64,
}

/// What comes next in the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// A page of the replay, with its live verdict.
    Page(Box<Verdict>, Part),
    /// A page of the replay was withdrawn.
    Withdrawn(Source, Reject),
}

/// The verdict of a replay on a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The verdict.
    pub verdict: Arc<Verdict>,
    /// Whether it is that of the live log, because the page cannot be judged again.
    pub is_taken_over: bool,
}

impl LogOrder {
    /// Judges by the rules that the live log names.
    #[must_use]
    pub fn as_live(log: LogIdentity, ranges: Ranges) -> Self {
        Self::new(vec![Rejudge::following(log)], ranges, false)
    }

    /// Judges by other rules, by each of them in one pass.
    #[must_use]
    pub fn what_if(log: LogIdentity, rules: impl IntoIterator<Item = Rules>, ranges: Ranges) -> Self {
        Self::new(rules.into_iter().map(|rules| Rejudge::begin(log, rules)).collect(), ranges, true)
    }

    const fn new(judges: Vec<Rejudge>, ranges: Ranges, is_what_if: bool) -> Self {
        Self { judges, ranges, is_what_if, batch: None, verdicts: VecDeque::new(), second_verdicts: 0 }
    }

    /// Returns the judges: one for each variant of the rules.
    pub fn judges(&mut self) -> &mut [Rejudge] {
        &mut self.judges
    }

    /// Returns whether this position was judged.
    #[must_use]
    pub fn has_judged(&self, source: &Source) -> bool {
        self.judges.first().is_some_and(|judge| judge.state().is_judged(source))
    }

    /// Returns whether this position has a verdict from before its range was reopened, and none since.
    #[must_use]
    pub fn is_reopened(&self, source: &Source) -> bool {
        self.judges.first().is_some_and(|judge| judge.state().is_reopened(source))
    }

    /// Returns whether nothing was followed yet: the log is trimmed, and its first checkpoint is still to come.
    fn is_without_checkpoint(&self) -> bool {
        !self.is_what_if && self.judges.iter().any(|judge| judge.state().log().is_none())
    }

    fn follow(&mut self, verdict: &Verdict) -> Result<(), Diverged> {
        self.judges.iter_mut().try_for_each(|judge| judge.follow(verdict))
    }

    /// Takes the next record of the live log. [`LogOrder::advance`] must have returned `None`.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when the record cannot follow on those before.
    pub fn record(&mut self, record: VerdictRecord) -> Result<(), Diverged> {
        match record {
            VerdictRecord::Verdicts(mut batch) => {
                // Verdicts without those before them are skipped up to the first checkpoint, as judges do.
                if self.is_without_checkpoint() {
                    return Ok(());
                }
                if !self.is_what_if {
                    self.judges.iter().try_for_each(|judge| judge.begin_batch(&batch))?;
                }
                self.verdicts = std::mem::take(&mut batch.verdicts).into();
                self.batch = Some(batch);
                Ok(())
            }
            VerdictRecord::Checkpoint(_) | VerdictRecord::Rules(_) if self.is_what_if => Ok(()),
            record @ (VerdictRecord::Checkpoint(_) | VerdictRecord::Rules(_)) => {
                if self.is_without_checkpoint() && matches!(record, VerdictRecord::Rules(_)) {
                    return Ok(());
                }
                self.judges.iter_mut().try_for_each(|judge| judge.follow_record(&record))
            }
        }
    }

    /// Returns how many verdicts were skipped since the last time, because their pages had one already.
    pub const fn take_second_verdicts(&mut self) -> u64 {
        std::mem::replace(&mut self.second_verdicts, 0)
    }

    /// Continues to the next page of the replay in this record; `None` after the last.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when a verdict cannot follow on those before.
    pub fn advance(&mut self) -> Result<Option<Next>, Diverged> {
        while let Some(verdict) = self.verdicts.pop_front() {
            if let Some(upcoming) = self.verdicts.get(PREFETCH_DISTANCE) {
                dupgate_index::prefetch_lines(upcoming);
            }
            if matches!(&verdict.answer, Answer::Page(page) if self.has_judged(&page.source)) {
                self.second_verdicts += 1;
                continue;
            }
            let part = verdict.answer.judged_source().map_or(Part::Outside, |source| self.ranges.part(source));
            match &verdict.answer {
                Answer::Page(_) if part == Part::Range || (part == Part::WarmUp && self.is_what_if) => {
                    return Ok(Some(Next::Page(Box::new(verdict), part)));
                }
                Answer::Page(_) if self.is_what_if => {}
                Answer::Withdrawn { source, reason } if part == Part::Range => {
                    return Ok(Some(Next::Withdrawn(source.clone(), *reason)));
                }
                Answer::Page(_)
                | Answer::Withdrawn { .. }
                | Answer::Forgotten(_)
                | Answer::Reopened { .. }
                | Answer::TimeSet { .. } => {
                    self.follow(&verdict)?;
                }
            }
        }
        if let (Some(batch), false) = (self.batch.take(), self.is_what_if) {
            self.judges.iter_mut().for_each(|judge| judge.end_batch(&batch));
        }
        Ok(None)
    }

    /// Judges the page that [`LogOrder::advance`] returned: `request` is what was read of it, `None` when the input does
    /// not hold it any more. Sets its event time to that of the live verdict. Passes its verdict by each variant to
    /// `take`; nothing where it cannot be judged.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when a state does not take the verdict.
    pub fn judge(
        &mut self,
        live: &Verdict,
        mut request: Option<&mut PageRequest>,
        mut take: impl FnMut(Replayed),
    ) -> Result<(), Diverged> {
        let Some(page) = live.answer.page() else { return Ok(()) };
        // Bounded by the brokers' clock when it was judged.
        request.iter_mut().for_each(|request| request.event_time = page.event_time);
        let request = request.as_deref();
        for judge in &mut self.judges {
            if self.is_what_if {
                let verdict = request.map(|request| judge.judge(request, page.event_time)).transpose()?.flatten();
                verdict.into_iter().for_each(|verdict| take(Replayed { verdict, is_taken_over: false }));
                continue;
            }
            let again = request.and_then(|request| judge.decide(request, page.event_time));
            let (verdict, is_taken_over) = match again {
                Some(again) if !is_older_than_the_log(judge, page, &again) => (again, false),
                Some(_) | None => (live.clone(), true),
            };
            judge.take(&verdict)?;
            take(Replayed { verdict: Arc::new(verdict), is_taken_over });
        }
        Ok(())
    }

    /// Notes that a page cannot be delivered as judged.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when a state does not take it.
    pub fn withdraw(&mut self, source: &Source, reason: Reject) -> Result<(), Diverged> {
        self.judges.iter_mut().try_for_each(|judge| judge.withdraw(source.clone(), reason))
    }

    /// Takes a verdict that this replay has committed before it was interrupted.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when the state does not take it.
    pub fn take_committed(&mut self, verdict: &Verdict) -> Result<(), Diverged> {
        self.follow(verdict)
    }

    /// Continues writing where an interrupted run stopped, after `requests` requests.
    pub fn resume(&mut self, requests: u64) {
        self.judges.iter_mut().for_each(|judge| judge.go_on(requests));
    }
}

/// Returns whether the live verdict names an original that was in the part of the log that is gone.
fn is_older_than_the_log(judge: &Rejudge, live: &PageVerdict, again: &Verdict) -> bool {
    if again.answer.page().is_some_and(|again| again.decision.matched() == live.decision.matched()) {
        return false;
    }
    live.decision.matched().is_some_and(|of| !judge.holds(&of.source))
}

#[cfg(test)]
mod tests;
