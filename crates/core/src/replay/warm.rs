//! Selects the pages that fill the index of a new scheme: those the running scheme delivered, in verdict order.
//!
//! Only a page that goes to the unique topic may become an original of the new scheme (law L8), so duplicates of the
//! running scheme are left out. Whatever removes an original from the running index removes it from the new one, too:
//! withdrawals, forgotten originals and reopened ranges are asked for at their place in the log.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use crate::protocol::{
    Answer, Decision, ForgetTarget, Judged, LogPartition, PageVerdict, RequestBody, RequestId, Verdict, VerdictBatch,
    VerdictRecord,
};
use crate::record::{PartitionId, Source, Timestamp};

/// Selects the verdicts of the running scheme that are passed on to the new one.
#[derive(Clone, Debug)]
pub struct WarmUp {
    from: Timestamp,
    /// What the new scheme had judged before anything was asked.
    known: BTreeMap<PartitionId, Judged>,
    /// Positions passed on, up to this place of the log: by this run or by one before.
    asked: BTreeMap<PartitionId, Judged>,
    counts: WarmCounts,
}

/// One thing to be asked of the new scheme.
#[derive(Clone, Debug, PartialEq)]
pub struct WarmStep {
    /// The request of the running scheme. It names the one of the new scheme, too, so that a second run asks nothing
    /// twice.
    pub request: RequestId,
    /// What is asked.
    pub what: WarmAsk,
}

/// What is asked of the new scheme.
#[derive(Clone, Debug, PartialEq)]
pub enum WarmAsk {
    /// To judge this page, which has to be read from the input; its verdict by the running scheme.
    Page(PageVerdict),
    /// To remove originals, to open a range, or to set the stream time back.
    Change(RequestBody),
}

/// Verdicts of the running scheme by what was made of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WarmCounts {
    /// Pages to be asked about.
    pub pages: u64,
    /// Withdrawals, forgotten originals, reopened ranges and times set back that were passed on.
    pub changes: u64,
    /// Duplicates, left out.
    pub duplicates: u64,
    /// Pages before the wanted time, left out.
    pub older: u64,
    /// Pages that the new scheme knows already.
    pub known: u64,
}

impl WarmUp {
    /// Passes on pages of this event time or a later one.
    #[must_use]
    pub fn new(from: Timestamp) -> Self {
        Self { from, known: BTreeMap::new(), asked: BTreeMap::new(), counts: WarmCounts::default() }
    }

    /// Takes a record of the new scheme's verdict log, before anything is asked: what it has judged is not asked again.
    pub fn know(&mut self, record: &VerdictRecord) {
        match record {
            VerdictRecord::Checkpoint(checkpoint) => {
                for (partition, said) in &checkpoint.partitions {
                    let known = self.known.entry(partition.clone()).or_insert_with(|| said.judged.clone());
                    known.raise_low_watermark(said.low_watermark);
                }
            }
            VerdictRecord::Verdicts(batch) => batch.verdicts.iter().for_each(|verdict| match &verdict.answer {
                Answer::Reopened { partition, from, to } => {
                    self.known.entry(partition.clone()).or_default().reopen(*from, *to);
                }
                answer @ (Answer::Page(_)
                | Answer::Withdrawn { .. }
                | Answer::Forgotten(_)
                | Answer::TimeSet { .. }) => {
                    if let Some(source) = answer.judged_source() {
                        self.known.entry(source.partition.clone()).or_default().insert(source.offset);
                    }
                }
            }),
            VerdictRecord::Rules(_) => {}
        }
    }

    /// Takes the next verdict of the running scheme, and returns what the new scheme is to be asked.
    pub fn take(&mut self, verdict: &Verdict) -> Option<WarmStep> {
        let what = match &verdict.answer {
            Answer::Page(page) => WarmAsk::Page(self.page(page)?),
            Answer::Withdrawn { source, reason } => self
                .is_asked(&source.partition, source.offset)
                .then(|| WarmAsk::Change(RequestBody::Withdraw { source: source.clone(), reason: *reason }))?,
            Answer::Forgotten(target) => {
                let is_here = match target {
                    ForgetTarget::Source(source) => self.is_asked(&source.partition, source.offset),
                    ForgetTarget::Id(_) => true,
                };
                is_here.then(|| WarmAsk::Change(RequestBody::Forget(target.clone())))?
            }
            Answer::Reopened { partition, from, to } => {
                // A range that nothing was asked of is open.
                self.asked.get(partition).filter(|asked| asked.contains_any(*from, *to))?;
                self.positions(partition).reopen(*from, *to);
                self.opened(partition, *from, *to);
                WarmAsk::Change(RequestBody::Reopen { partition: partition.clone(), from: *from, to: *to })
            }
            Answer::TimeSet { before, after } => {
                (after < before).then_some(WarmAsk::Change(RequestBody::SetTime(*after)))?
            }
        };
        match &what {
            WarmAsk::Page(_) => self.counts.pages += 1,
            WarmAsk::Change(_) => self.counts.changes += 1,
        }
        Some(WarmStep { request: verdict.request, what })
    }

    fn page(&mut self, page: &PageVerdict) -> Option<PageVerdict> {
        if matches!(page.decision, Decision::Duplicate { .. }) {
            self.counts.duplicates += 1;
            return None;
        }
        if page.event_time < self.from {
            self.counts.older += 1;
            return None;
        }
        let is_news = self.positions(&page.source.partition).insert(page.source.offset);
        if !is_news || self.is_known(&page.source) {
            self.counts.known += 1;
            return None;
        }
        let decision = page.decision.without_original();
        Some(PageVerdict { source: page.source.clone(), decision, ..*page })
    }

    /// Lets pages of a range be asked about that the new scheme has opened and not judged since.
    fn opened(&mut self, partition: &PartitionId, from: i64, to: i64) {
        if let Some(known) = self.known.get_mut(partition) {
            let mut waits = known.reopened().clone();
            waits.remove_range(u64::try_from(from).unwrap_or(0)..u64::try_from(to).unwrap_or(0));
            *known = Judged::from_parts(known.low_watermark(), known.above().clone(), waits);
        }
    }

    fn positions(&mut self, partition: &PartitionId) -> &mut Judged {
        self.asked.entry(partition.clone()).or_default()
    }

    /// Returns whether the new scheme had judged the position, even if it was reopened there.
    fn is_known(&self, source: &Source) -> bool {
        let is_open = |known: &Judged| u64::try_from(source.offset).is_ok_and(|at| known.reopened().contains(at));
        self.known.get(&source.partition).is_some_and(|known| known.contains(source.offset) || is_open(known))
    }

    fn is_asked(&self, partition: &PartitionId, offset: i64) -> bool {
        self.asked.get(partition).is_some_and(|asked| asked.contains(offset))
    }

    /// Returns what was made of the verdicts so far.
    #[must_use]
    pub const fn counts(&self) -> &WarmCounts {
        &self.counts
    }
}

/// The partitions of a verdict log as one sequence of batches: the earliest first, as far as that can be determined.
///
/// While a partition is read that has nothing at hand and has not reached its end, the others wait for it.
#[derive(Debug, Default)]
pub struct LogMerge {
    logs: Vec<OneLog>,
}

#[derive(Debug, Default)]
struct OneLog {
    batches: VecDeque<VerdictBatch>,
    /// When the batch before was judged, in event time: what a batch without a page counts as.
    key: Option<Timestamp>,
    is_at_end: bool,
}

impl LogMerge {
    /// Begins with this many partitions.
    #[must_use]
    pub fn new(logs: usize) -> Self {
        Self { logs: (0..logs).map(|_| OneLog::default()).collect() }
    }

    /// Takes the next batch of a partition.
    pub fn push(&mut self, log: LogPartition, batch: VerdictBatch) {
        let Some(one) = self.logs.get_mut(log.index()) else { return };
        one.is_at_end = false;
        one.batches.push_back(batch);
    }

    /// Notes that a partition has no more batches for now.
    pub fn at_end(&mut self, log: LogPartition) {
        if let Some(one) = self.logs.get_mut(log.index()) {
            one.is_at_end = true;
        }
    }

    /// Takes the batch that was judged first, with the number of its partition; `None` while that is not known.
    pub fn take(&mut self) -> Option<(LogPartition, VerdictBatch)> {
        if self.logs.iter().any(|log| log.batches.is_empty() && !log.is_at_end) {
            return None;
        }
        let with_batch = self.logs.iter_mut().enumerate().filter(|(_, log)| !log.batches.is_empty());
        let (number, first) = with_batch.min_by_key(|(_, log)| log.next_key())?;
        first.key = first.next_key();
        Some((LogPartition::at(number), first.batches.pop_front()?))
    }
}

impl OneLog {
    fn next_key(&self) -> Option<Timestamp> {
        let page = self.batches.front()?.verdicts.iter().find_map(|verdict| verdict.answer.page());
        page.map(|page| page.event_time).or(self.key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::fingerprint::{IdHash, PageDigest};
    use crate::protocol::{ExpiryWatermarks, LogIdentity, Match, MatchedBy, RequestOffset, RulesNumber};
    use crate::record::Reject;

    const FROM: i64 = 20;

    fn source(offset: i64) -> Source {
        PartitionId::new("pages", 0).at(offset)
    }

    fn matched() -> Match {
        let of = source(1000);
        Match { by: MatchedBy::Exact, source: of.clone(), age_ms: 0, cluster: of }
    }

    fn page(offset: i64, time: i64, decision: Decision) -> Answer {
        let event_time = Timestamp::from_millis(time);
        Answer::Page(PageVerdict { source: source(offset), event_time, digest: PageDigest(7), decision })
    }

    fn answer() -> impl Strategy<Value = Answer> {
        let decision = prop_oneof![
            2 => Just(Decision::Unique { original: None }),
            1 => Just(Decision::Update { of: matched(), original: None }),
            1 => Just(Decision::Template { of: matched(), original: None }),
            2 => Just(Decision::Duplicate { of: matched() }),
        ];
        prop_oneof![
            8 => (0_i64..12, 0_i64..60, decision).prop_map(|(offset, time, decision)| page(offset, time, decision)),
            2 => (0_i64..12).prop_map(|at| Answer::Withdrawn { source: source(at), reason: Reject::Refused }),
            1 => (0_i64..12).prop_map(|at| Answer::Forgotten(ForgetTarget::Source(source(at)))),
            1 => Just(Answer::Forgotten(ForgetTarget::Id(IdHash(3)))),
            2 => (0_i64..12, 0_i64..12).prop_map(|(from, to)| {
                Answer::Reopened { partition: source(0).partition, from: from.min(to), to: from.max(to) }
            }),
            1 => (0_i64..50, 0_i64..50).prop_map(|(one, other)| {
                let [before, after] = [one.max(other), one.min(other)].map(Timestamp::from_millis);
                Answer::TimeSet { before, after }
            }),
        ]
    }

    fn log() -> impl Strategy<Value = Vec<Verdict>> {
        prop::collection::vec(answer(), 0..40).prop_map(|answers| {
            let number = |(at, answer)| Verdict { request: RequestId(at as u64), answer };
            answers.into_iter().enumerate().map(number).collect()
        })
    }

    fn warm(up: &mut WarmUp, log: &[Verdict]) -> Vec<WarmStep> {
        log.iter().filter_map(|verdict| up.take(verdict)).collect()
    }

    /// A list of positions, looked through again and again.
    fn oracle(log: &[Verdict]) -> Vec<u64> {
        let (mut there, mut requests): (Vec<i64>, Vec<u64>) = (Vec::new(), Vec::new());
        for verdict in log {
            let is_passed = match &verdict.answer {
                Answer::Page(page) => {
                    let is_delivered = !matches!(page.decision, Decision::Duplicate { .. });
                    let is_new = !there.contains(&page.source.offset);
                    let is_asked = is_delivered && page.event_time.millis() >= FROM && is_new;
                    there.extend(is_asked.then_some(page.source.offset));
                    is_asked
                }
                Answer::Withdrawn { source, .. } | Answer::Forgotten(ForgetTarget::Source(source)) => {
                    there.contains(&source.offset)
                }
                Answer::Forgotten(ForgetTarget::Id(_)) => true,
                Answer::Reopened { from, to, .. } => {
                    let before = there.len();
                    there.retain(|at| at < from || at >= to);
                    there.len() < before
                }
                Answer::TimeSet { before, after } => after < before,
            };
            requests.extend(is_passed.then_some(verdict.request.0));
        }
        requests
    }

    /// The originals that a log leaves, with the new scheme's own verdicts taken to be like those of the running one.
    fn originals(steps: &[WarmStep]) -> BTreeSet<i64> {
        let mut held = BTreeSet::new();
        for step in steps {
            match &step.what {
                WarmAsk::Page(page) => drop(held.insert(page.source.offset)),
                WarmAsk::Change(
                    RequestBody::Withdraw { source, .. } | RequestBody::Forget(ForgetTarget::Source(source)),
                ) => drop(held.remove(&source.offset)),
                WarmAsk::Change(RequestBody::Reopen { from, to, .. }) => held.retain(|at| at < from || at >= to),
                WarmAsk::Change(
                    RequestBody::Forget(ForgetTarget::Id(_)) | RequestBody::Page(_) | RequestBody::SetTime(_),
                ) => {}
            }
        }
        held
    }

    fn batch(verdicts: Vec<Verdict>) -> VerdictBatch {
        VerdictBatch {
            log: LogIdentity(1),
            rules: RulesNumber(1),
            watermarks: ExpiryWatermarks::START,
            next_request: RequestOffset(0),
            verdicts,
        }
    }

    proptest! {
        #[test]
        fn what_is_delivered_is_passed_on_once_and_in_the_order_of_the_log(log in log()) {
            let mut up = WarmUp::new(Timestamp::from_millis(FROM));
            let passed: Vec<u64> = warm(&mut up, &log).iter().map(|step| step.request.0).collect();
            prop_assert_eq!(passed, oracle(&log));
            let counts = up.counts();
            let pages = log.iter().filter(|verdict| matches!(verdict.answer, Answer::Page(_))).count() as u64;
            prop_assert_eq!(counts.pages + counts.duplicates + counts.older + counts.known, pages);
        }

        #[test]
        fn nothing_becomes_an_original_that_the_running_scheme_does_not_deliver(log in log()) {
            let held = originals(&warm(&mut WarmUp::new(Timestamp::MIN), &log));
            for at in held {
                let last = log.iter().rfind(|verdict| match &verdict.answer {
                    Answer::Page(page) => page.source.offset == at && !matches!(page.decision, Decision::Duplicate { .. }),
                    Answer::Withdrawn { source, .. } => source.offset == at,
                    Answer::Reopened { from, to, .. } => (from..to).contains(&&at),
                    Answer::Forgotten(_) | Answer::TimeSet { .. } => false,
                });
                prop_assert!(last.is_some_and(|verdict| matches!(verdict.answer, Answer::Page(_))), "{at}: {last:?}");
            }
        }

        #[test]
        fn a_second_run_asks_about_no_page_that_the_first_one_entered(log in log(), split in 0_usize..40) {
            // Up to where the first run came, the new scheme holds its verdicts.
            let first = warm(&mut WarmUp::new(Timestamp::MIN), &log[..split.min(log.len())]);
            let judged = |step: &WarmStep| {
                let answer = match &step.what {
                    WarmAsk::Page(page) => Answer::Page(page.clone()),
                    WarmAsk::Change(RequestBody::Withdraw { source, reason }) => {
                        Answer::Withdrawn { source: source.clone(), reason: *reason }
                    }
                    WarmAsk::Change(RequestBody::Forget(target)) => Answer::Forgotten(target.clone()),
                    WarmAsk::Change(RequestBody::Reopen { partition, from, to }) => {
                        Answer::Reopened { partition: partition.clone(), from: *from, to: *to }
                    }
                    WarmAsk::Change(RequestBody::SetTime(time)) => Answer::TimeSet { before: *time, after: *time },
                    WarmAsk::Change(RequestBody::Page(_)) => unreachable!("pages are read first"),
                };
                Verdict { request: step.request, answer }
            };
            let mut again = WarmUp::new(Timestamp::MIN);
            again.know(&VerdictRecord::Verdicts(batch(first.iter().map(judged).collect())));
            let whole = warm(&mut WarmUp::new(Timestamp::MIN), &log);
            let second = warm(&mut again, &log);
            let is_reopened = log.iter().any(|verdict| matches!(verdict.answer, Answer::Reopened { .. }));
            let pages = |steps: &[WarmStep]| {
                let of = |step: &&WarmStep| matches!(step.what, WarmAsk::Page(_));
                steps.iter().filter(of).map(|step| step.request).collect::<Vec<_>>()
            };
            let changes = |steps: &[WarmStep]| {
                let of = |step: &&WarmStep| matches!(step.what, WarmAsk::Change(_));
                steps.iter().filter(of).map(|step| step.request).collect::<Vec<_>>()
            };
            // The same requests again, which are applied once.
            prop_assert_eq!(changes(&second), changes(&whole));
            if !is_reopened {
                prop_assert_eq!([pages(&first), pages(&second)].concat(), pages(&whole));
            }
        }

        #[test]
        fn partitions_are_merged_by_time_and_each_in_its_order(
            times in prop::collection::vec((0_usize..3, 0_i64..50), 1..40),
        ) {
            let mut merge = LogMerge::new(3);
            let mut logs: Vec<Vec<i64>> = vec![Vec::new(); 3];
            for (log, time) in &times {
                logs[*log].push(*time);
            }
            // Each partition was judged in order of time, as far as this goes.
            logs.iter_mut().for_each(|log| log.sort_unstable());
            for (number, log) in LogPartition::first(3).zip(&logs) {
                prop_assert!(merge.take().is_none(), "one is still to come");
                for (at, time) in (0..).zip(log) {
                    let answer = page(at, *time, Decision::Unique { original: None });
                    merge.push(number, batch(vec![Verdict { request: RequestId(0), answer }]));
                }
                merge.at_end(number);
            }
            let mut taken = Vec::new();
            while let Some((_, batch)) = merge.take() {
                let Answer::Page(page) = &batch.verdicts[0].answer else { panic!("a page") };
                taken.push(page.event_time.millis());
            }
            let mut sorted: Vec<i64> = logs.concat();
            sorted.sort_unstable();
            prop_assert_eq!(taken, sorted);
        }
    }
}
