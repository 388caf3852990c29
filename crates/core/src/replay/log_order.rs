//! The order of the log: pages are judged where the live verdict log has their verdicts.
//!
//! With the live rules the state before the range is followed, never judged, and so is what the log says of other pages:
//! the state is the live one at every verdict, and so are the verdicts (law L5). A page whose live verdict names an original
//! that is older than the kept log keeps that verdict: nobody can judge it anew. With other settings ([`LogOrder::what_if`])
//! pages outside of the range are nobody's, and those of the warm-up are judged like all others.
//!
//! What operators and workers asked for (originals forgotten, pages withdrawn, ranges reopened) is followed where it
//! stands. A page that was ruled twice, because its range was reopened, is delivered with its first verdict.

use std::collections::VecDeque;

use super::plan::{Part, Ranges};
use super::rejudge::{Rejudge, page_of};
use crate::judge::Diverged;
use crate::protocol::{Answer, LogIdentity, PageRequest, PageVerdict, Rules, Verdict, VerdictBatch, VerdictRecord};
use crate::record::{Reject, Source};

/// Walks one partition of the live verdict log.
#[derive(Debug)]
pub struct LogOrder {
    /// The judge; with other settings one for each variant.
    judges: Vec<Rejudge>,
    ranges: Ranges,
    is_what_if: bool,
    batch: Option<VerdictBatch>,
    verdicts: VecDeque<Verdict>,
}

/// What comes next in the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// A page of the replay, with its live verdict.
    Page(Box<Verdict>, Part),
    /// A page of the replay was withdrawn.
    Withdrawn(Source, Reject),
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
        Self { judges, ranges, is_what_if, batch: None, verdicts: VecDeque::new() }
    }

    /// Returns the judges: one for each variant of the rules.
    pub fn judges(&mut self) -> &mut [Rejudge] {
        &mut self.judges
    }

    /// Says whether this position was judged.
    #[must_use]
    pub fn has_judged(&self, source: &Source) -> bool {
        self.judges.first().is_some_and(|judge| judge.state().is_judged(source))
    }

    /// Says whether nothing was followed yet: the log is trimmed, and its first checkpoint is still to come.
    fn is_without_facts(&self) -> bool {
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
                // Verdicts without the facts before them are skipped up to the first checkpoint, as judges do.
                if self.is_without_facts() {
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
                if self.is_without_facts() && matches!(record, VerdictRecord::Rules(_)) {
                    return Ok(());
                }
                self.judges.iter_mut().try_for_each(|judge| judge.follow_record(&record))
            }
        }
    }

    /// Goes on to the next page of the replay in this record; `None` behind the last.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when a verdict cannot follow on those before.
    pub fn advance(&mut self) -> Result<Option<Next>, Diverged> {
        while let Some(verdict) = self.verdicts.pop_front() {
            let part = verdict.answer.ruled_source().map_or(Part::Outside, |source| self.ranges.part(source));
            match &verdict.answer {
                Answer::Page(_) if part == Part::Range || (part == Part::WarmUp && self.is_what_if) => {
                    return Ok(Some(Next::Page(Box::new(verdict), part)));
                }
                Answer::Page(_) if self.is_what_if => {}
                Answer::Withdrawn { source, reason } if part == Part::Range => {
                    return Ok(Some(Next::Withdrawn(source.clone(), *reason)));
                }
                Answer::Page(_) | Answer::Withdrawn { .. } | Answer::Forgotten(_) | Answer::Reopened { .. } => {
                    self.follow(&verdict)?;
                }
            }
        }
        if let (Some(batch), false) = (self.batch.take(), self.is_what_if) {
            self.judges.iter_mut().for_each(|judge| judge.end_batch(&batch));
        }
        Ok(None)
    }

    /// Judges a page of the replay: `request` is what was read of it, `None` when the input does not hold it any more.
    /// Returns its verdict by each variant, and whether it was taken over from the live log; `None` where it cannot be judged.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when a state does not take the verdict.
    pub fn judge(
        &mut self,
        live: &Verdict,
        request: Option<&PageRequest>,
    ) -> Result<Vec<Option<(Verdict, bool)>>, Diverged> {
        let Some(page) = page_of(live) else { return Ok(vec![None; self.judges.len()]) };
        let is_what_if = self.is_what_if;
        let judge = |judge: &mut Rejudge| {
            // Bounded by the brokers' clock when it was judged.
            let request = request.map(|request| PageRequest { event_time: page.event_time, ..request.clone() });
            if is_what_if {
                let Some(request) = request else { return Ok(None) };
                return Ok(judge.judge(request, page.event_time)?.map(|verdict| (verdict, false)));
            }
            if judge.state().is_judged(&page.source) {
                return Ok(None);
            }
            let anew = request.and_then(|request| judge.decide(request, page.event_time));
            let (verdict, is_taken_over) = match anew {
                Some(anew) if !is_older_than_the_log(judge, page, &anew) => (anew, false),
                Some(_) | None => (live.clone(), true),
            };
            judge.take(verdict.clone())?;
            Ok(Some((verdict, is_taken_over)))
        };
        self.judges.iter_mut().map(judge).collect()
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

    /// Goes on writing where an interrupted run has stopped, after so many requests.
    pub fn resume(&mut self, requests: u64) {
        self.judges.iter_mut().for_each(|judge| judge.go_on(requests));
    }
}

/// Says whether the live verdict names an original that stood in the part of the log that is gone.
fn is_older_than_the_log(judge: &Rejudge, live: &PageVerdict, anew: &Verdict) -> bool {
    if page_of(anew).is_some_and(|anew| anew.decision.matched() == live.decision.matched()) {
        return false;
    }
    live.decision.matched().is_some_and(|of| !judge.holds(&of.source))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use std::time::Duration;

    use crate::fingerprint::{ExactHash, Fingerprints, Numbers, PageDigest};
    use crate::protocol::{SameId, Stage, Windows};
    use crate::record::{PartitionId, Timestamp};
    use crate::replay::{InputRange, Plan};

    const LIVE: LogIdentity = LogIdentity(1);
    const OWN: LogIdentity = LogIdentity(2);

    fn rules() -> Rules {
        Rules {
            stages: vec![Stage::Exact],
            max_distance: 3,
            windows: Windows::all(Duration::from_hours(72)),
            lateness: Duration::from_hours(6),
            max_future_skew: Duration::from_hours(1),
            max_entries: 1_000_000,
            same_id: SameId::Update,
            number_guard: None,
            minhash: None,
            simhash_similarity: None,
            same_site: None,
        }
    }

    /// A page whose text is number `text`.
    fn page(partition: i32, offset: i64, text: u128) -> PageRequest {
        PageRequest {
            source: PartitionId::new("pages", partition).at(offset),
            event_time: Timestamp::from_millis(1000 * offset),
            id: None,
            scope: None,
            site: None,
            address: None,
            is_variant: false,
            fingerprints: Fingerprints {
                exact: ExactHash(text),
                simhash: None,
                sketch: None,
                numbers: Numbers::of(""),
            },
            digest: PageDigest(7),
        }
    }

    /// Two partitions, of which each has a warm-up of `from` pages and a range behind it.
    fn ranges(from: i64) -> Ranges {
        let range = |partition| InputRange { topic: "pages".to_owned(), partition, warm_from: 0, from, to: i64::MAX };
        let text = serde_json::json!({
            "version": 1, "id": "x", "created_ms": 0, "cluster": "", "group": "g", "logs": "g", "order": "log", "reads": "pages", "into": "none",
            "set": [], "live_scheme": "s", "scheme": "s", "rules": [], "input": [range(0), range(1)], "verdict_log": [],
            "output": {"unique": null, "duplicate": null, "dead_letter": null}, "records": 0, "warm_up_records": 0,
            "warnings": []
        });
        serde_json::from_value::<Plan>(text).unwrap().ranges()
    }

    /// Judges pages live, so many in a record, and returns the log and all verdicts.
    fn live(texts: &[u128], each: usize) -> (Vec<VerdictRecord>, Vec<Verdict>) {
        let mut judge = Rejudge::begin(LIVE, rules());
        let (mut log, mut verdicts) = (Vec::new(), Vec::new());
        for (at, text) in texts.iter().enumerate() {
            let offset = i64::try_from(at / 2).unwrap();
            let request = page(i32::try_from(at % 2).unwrap(), offset, *text);
            verdicts.extend(judge.judge(request, Timestamp::from_millis(i64::MAX)).unwrap());
            if (at + 1) % each == 0 {
                log.extend(judge.records());
            }
        }
        log.extend(judge.records());
        (log, verdicts)
    }

    /// Replays a log and returns what came out, with the live verdict of each page.
    fn replay(
        mut order: LogOrder,
        log: &[VerdictRecord],
        texts: &[u128],
        gone: bool,
    ) -> Vec<(Verdict, Option<Verdict>)> {
        let mut made = Vec::new();
        for record in log {
            order.record(record.clone()).unwrap();
            while let Some(next) = order.advance().unwrap() {
                let Next::Page(verdict, _) = next else { panic!("{next:?}") };
                let source = verdict.answer.ruled_source().unwrap().clone();
                let at = usize::try_from(source.offset * 2 + i64::from(source.partition.number)).unwrap();
                let request = page(source.partition.number, source.offset, texts[at]);
                let judged = order.judge(&verdict, Some(&request).filter(|_| !gone)).unwrap();
                made.push((*verdict, judged.into_iter().next().flatten().map(|(verdict, _)| verdict)));
            }
        }
        made
    }

    fn decided(verdict: &Verdict) -> String {
        format!("{:?}", page_of(verdict).unwrap())
    }

    proptest! {
        #[test]
        fn with_the_live_rules_the_live_verdicts_come_out(
            texts in prop::collection::vec(0_u128..6, 1..60), each in 1_usize..9, from in 0_i64..20, gone: bool,
        ) {
            let (log, verdicts) = live(&texts, each);
            let made = replay(LogOrder::as_live(OWN, ranges(from)), &log, &texts, gone);
            let in_range = verdicts.iter().filter(|verdict| page_of(verdict).unwrap().source.offset >= from);
            prop_assert_eq!(made.len(), in_range.count());
            for (live, again) in made {
                prop_assert_eq!(decided(&live), decided(&again.unwrap()));
            }
        }

        #[test]
        fn other_rules_judge_the_warm_up_as_well(texts in prop::collection::vec(0_u128..6, 1..60), from in 0_i64..20) {
            let (log, verdicts) = live(&texts, 4);
            let made = replay(LogOrder::what_if(OWN, [rules()], ranges(from)), &log, &texts, false);
            prop_assert_eq!(made.len(), verdicts.len());
            for (live, again) in made {
                prop_assert_eq!(decided(&live), decided(&again.unwrap()), "the rules are the live ones after all");
            }
        }
    }

    #[test]
    fn a_verdict_whose_original_is_older_than_the_log_is_taken_over() {
        let texts = [1, 2, 1, 3];
        let (log, verdicts) = live(&texts, 1);
        // A checkpoint, and what follows behind the original: as trimming leaves it.
        let kept = [&log[..1], &log[3..]].concat();
        let made = replay(LogOrder::as_live(OWN, ranges(1)), &kept, &texts, false);
        let again: Vec<String> = made.iter().map(|(_, again)| decided(again.as_ref().unwrap())).collect();
        assert_eq!(again, [decided(&verdicts[2]), decided(&verdicts[3])]);
        assert!(page_of(&verdicts[2]).unwrap().decision.matched().is_some(), "a duplicate of what is gone");
    }
}
