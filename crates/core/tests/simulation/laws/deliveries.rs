//! The pages that the workers' transactions delivered.

use std::collections::BTreeMap;
use std::sync::Arc;

use dupgate_core::protocol::{Answer, Decision, Verdict};
use dupgate_core::record::{PartitionId, Source};
use dupgate_core::worker::{Mode, PageOutcome};

use super::history::JudgedPage;
use super::{Histories, Law, Notes, visible};
use crate::bus::CommittedTransaction;
use crate::world::{Value, World, routed};

/// Outputs and committed offsets of the input group.
#[derive(Default)]
pub(super) struct Deliveries {
    delivered: BTreeMap<Source, Vec<PageOutcome>>,
    /// Highest committed position.
    high: BTreeMap<PartitionId, i64>,
    /// Where the group began to read.
    firsts: BTreeMap<PartitionId, i64>,
    /// A page may have verdicts of two schemes, which decide the same in the dual period.
    has_earlier: bool,
}

impl Deliveries {
    pub(super) fn new(has_earlier: bool) -> Self {
        Self { has_earlier, ..Self::default() }
    }

    /// Returns whether two ends are the same, by whichever scheme.
    fn are_same(&self, one: &PageOutcome, other: &PageOutcome) -> bool {
        let decision = |end: &PageOutcome| match end {
            PageOutcome::Judged(verdict) => verdict.answer.page().map(|page| page.decision.without_original()),
            PageOutcome::DeadLetter(_) | PageOutcome::Tombstone => None,
        };
        one == other || self.has_earlier && decision(one).is_some_and(|decided| Some(decided) == decision(other))
    }

    /// Checks that outputs and offsets of a worker's transaction belong together, page by page.
    pub(super) fn check(
        &mut self,
        world: &World,
        transaction: &CommittedTransaction,
        history: &Histories,
        notes: &mut Notes,
    ) -> Law {
        let mut outputs: BTreeMap<PartitionId, Vec<i64>> = BTreeMap::new();
        let mut ends = Vec::new();
        for (partition, offset) in &transaction.records {
            if *partition == routed()
                && let Some(Value::Routed { source, outcome }) =
                    &world.bus.slots(partition)[usize::try_from(*offset).unwrap()].value
            {
                outputs.entry(source.partition.clone()).or_default().push(source.offset);
                ends.push((source.clone(), outcome.clone()));
            }
        }
        for moved in &transaction.offsets {
            let (input, after, id) = (&moved.partition, moved.after, &transaction.id);
            let before = moved.before.unwrap_or_else(|| self.begin(world, input, after));
            // A worker that only observes moves on without outputs.
            let pages = if world.mode == Mode::Observe { Vec::new() } else { visible(world, input, before, after) };
            let given = outputs.remove(input).unwrap_or_default();
            if given != pages || after < before {
                return Err(format!("L1/L2 {id} moved {input} from {before} to {after} with outputs {given:?}"));
            }
            notes.lines.push(format!("{id}: {input} {before} -> {after}, outputs {given:?}"));
            let high = self.high.entry(input.clone()).or_default();
            *high = (*high).max(after);
        }
        if let Some((input, offsets)) = outputs.first_key_value() {
            return Err(format!("L2 outputs {offsets:?} of {input} committed without its offset"));
        }
        for (source, outcome) in ends {
            self.deliver(world, &source, outcome, history)?;
            notes.count("delivered");
        }
        Ok(())
    }

    /// Notes where the group begins to read a partition: at its first commit in a world that starts at the end.
    fn begin(&mut self, world: &World, partition: &PartitionId, committed: i64) -> i64 {
        let first = if world.starts_at_end { committed } else { 0 };
        *self.firsts.entry(partition.clone()).or_insert(first)
    }

    /// Checks that a page is delivered as it was judged, and always in the same way.
    fn deliver(&mut self, world: &World, source: &Source, outcome: PageOutcome, history: &Histories) -> Law {
        let slot = &world.bus.slots(&source.partition)[usize::try_from(source.offset).unwrap()];
        let Some(Value::Page(page)) = &slot.value else { return Err(format!("{source} is no page")) };
        let is_right = match &outcome {
            PageOutcome::Tombstone => page.tombstone,
            PageOutcome::DeadLetter(reason) if reason.is_determined_by_page() => page.reject == Some(*reason),
            PageOutcome::DeadLetter(reason) => {
                let is_withdrawal = |verdict: &Verdict| matches!(&verdict.answer, Answer::Withdrawn { reason: withdrawn, .. } if withdrawn == reason);
                history.has_verdict(source, is_withdrawal)
            }
            PageOutcome::Judged(given) => {
                matches!(given.answer, Answer::Page(_))
                    && history.has_verdict(source, |verdict| verdict.without_original() == **given)
            }
        };
        if !is_right {
            return Err(format!("L1/L4 {source} was delivered as {outcome:?}, which no judge decided"));
        }
        let before = self.delivered.entry(source.clone()).or_default();
        let is_exempt = history.is_reopened(source) || history.is_withdrawn(source);
        let before = before.clone();
        if !before.is_empty() && !before.iter().any(|before| self.are_same(before, &outcome)) && !is_exempt {
            return Err(format!("L4 {source} was delivered as {outcome:?}, before as {before:?}"));
        }
        self.delivered.entry(source.clone()).or_default().push(outcome);
        Ok(())
    }

    /// Returns how a page was delivered, each time.
    pub(super) fn of(&self, source: &Source) -> &[PageOutcome] {
        self.delivered.get(source).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns whether a page was delivered with this verdict.
    pub(super) fn has_delivered(&self, page: &JudgedPage) -> bool {
        let judged = PageOutcome::Judged(Arc::new(page.verdict.without_original()));
        self.of(&page.source).iter().any(|end| self.are_same(end, &judged))
    }

    /// Returns whether a page was delivered as the original that this verdict made it, or that another scheme did.
    pub(super) fn has_delivered_original(&self, page: &JudgedPage) -> bool {
        let is_original = |end: &PageOutcome| match end {
            PageOutcome::Judged(verdict) => {
                verdict.answer.page().is_some_and(|page| !matches!(page.decision, Decision::Duplicate { .. }))
            }
            PageOutcome::DeadLetter(_) | PageOutcome::Tombstone => false,
        };
        self.has_delivered(page) || self.has_earlier && self.of(&page.source).iter().any(is_original)
    }

    /// Returns the highest committed position of a partition.
    pub(super) fn high(&self, input: &PartitionId) -> i64 {
        self.high.get(input).copied().unwrap_or(0)
    }

    /// Returns where the group began to read a partition.
    pub(super) fn first(&self, input: &PartitionId) -> i64 {
        self.firsts.get(input).copied().unwrap_or(0)
    }
}
