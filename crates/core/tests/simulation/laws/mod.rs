//! The laws, checked after every step against the test's own copy of everything that was ever written.
//!
//! [`LogCopy`] holds one log partition and what must be in it, [`VerdictHistory`] what was judged about every page, and
//! [`Deliveries`] what the workers' transactions delivered. [`Laws`] reads what became visible and passes it to them.

mod deliveries;
mod history;
mod log_copy;

use std::collections::BTreeMap;

use dupgate_core::judge::Judge;
use dupgate_core::protocol::{Answer, LogPartition, Verdict, VerdictBatch, VerdictRecord};
use dupgate_core::record::{PartitionId, Source};
use dupgate_core::worker::PageOutcome;

use crate::bus::SlotState;
use crate::world::{GROUP, Given, World, verdicts_of};
use deliveries::Deliveries;
use history::VerdictHistory;
use log_copy::LogCopy;

/// What a check returns: why a law is broken, beginning with its number.
type Law = Result<(), String>;

/// The state of all checks.
pub(crate) struct Laws {
    logs: Vec<LogCopy>,
    history: Histories,
    deliveries: Deliveries,
    notes: Notes,
}

/// What was judged by each scheme.
#[derive(Default)]
struct Histories {
    /// Number of logs of the current scheme; after them come those of the earlier one.
    current_logs: usize,
    current: VerdictHistory,
    earlier: VerdictHistory,
}

impl Histories {
    fn of(&mut self, log: LogPartition) -> &mut VerdictHistory {
        if self.is_current(log) { &mut self.current } else { &mut self.earlier }
    }

    fn is_current(&self, log: LogPartition) -> bool {
        log.index() < self.current_logs
    }

    /// Returns whether one of the verdicts of a page is this one.
    fn has_verdict(&self, source: &Source, wanted: impl Fn(&Verdict) -> bool) -> bool {
        self.current.has_verdict(source, &wanted) || self.earlier.has_verdict(source, wanted)
    }

    fn is_reopened(&self, source: &Source) -> bool {
        self.current.is_reopened(source) || self.earlier.is_reopened(source)
    }

    fn is_withdrawn(&self, source: &Source) -> bool {
        self.current.is_withdrawn(source) || self.earlier.is_withdrawn(source)
    }

    /// Checks a verdict that a worker gave a page.
    fn check_given(&mut self, given: &Given) -> Law {
        let is_given = |verdict: &Verdict| verdict.without_original() == *given.verdict;
        let source = given.verdict.answer.judged_source();
        let is_of_earlier = source.is_some_and(|source| self.earlier.has_verdict(source, is_given));
        if is_of_earlier { self.earlier.check_given(given) } else { self.current.check_given(given) }
    }
}

/// What the checks report besides violations.
#[derive(Default)]
struct Notes {
    statistics: BTreeMap<&'static str, u64>,
    /// Lines for the trace.
    lines: Vec<String>,
}

impl Notes {
    fn count(&mut self, what: &'static str) {
        *self.statistics.entry(what).or_default() += 1;
    }
}

impl Laws {
    pub(crate) fn new(logs: usize, has_earlier: bool) -> Self {
        let all = logs * if has_earlier { 2 } else { 1 };
        Self {
            logs: LogPartition::first(all).map(LogCopy::new).collect(),
            history: Histories { current_logs: logs, ..Histories::default() },
            deliveries: Deliveries::new(has_earlier),
            notes: Notes::default(),
        }
    }

    /// Starts again with empty logs, and keeps the statistics.
    pub(crate) fn restart(&mut self) {
        let statistics = std::mem::take(&mut self.notes.statistics);
        *self = Self::new(self.logs.len(), false);
        self.notes.statistics = statistics;
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        self.notes.count(what);
    }

    pub(crate) const fn statistics(&self) -> &BTreeMap<&'static str, u64> {
        &self.notes.statistics
    }

    /// Checks everything that became visible since the last time.
    pub(crate) fn observe(&mut self, world: &mut World) {
        let checked = self.check(world);
        self.notes.lines.drain(..).for_each(|line| world.log(|| line));
        if let Err(broken) = checked {
            world.violate(broken);
        }
    }

    fn check(&mut self, world: &mut World) -> Law {
        let journal = world.bus.take_journal();
        for log in LogPartition::first(self.logs.len()) {
            let mut is_changed = !journal.is_empty();
            while let Some((first, next, record)) = self.logs[log.index()].read(world)? {
                self.check_record(world, log, (first, next), record)?;
                is_changed = true;
            }
            let own = &mut self.logs[log.index()];
            if own.check_trim(world, self.history.of(log))? {
                self.notes.count("trims");
            }
            if is_changed {
                own.forget_delivered(world);
            }
        }
        for given in std::mem::take(&mut world.given) {
            self.history.check_given(&given)?;
        }
        for transaction in journal {
            if transaction.offsets.iter().any(|moved| moved.group == GROUP) || transaction.id.starts_with("worker") {
                self.deliveries.check(world, &transaction, &self.history, &mut self.notes)?;
            } else {
                for moved in &transaction.offsets {
                    let log = usize::try_from(moved.partition.number).unwrap();
                    self.logs[log].check_commit(world, moved)?;
                }
            }
        }
        Ok(())
    }

    /// Checks a committed record of a verdict log; `next` is the offset after its last part.
    fn check_record(
        &mut self,
        world: &World,
        log: LogPartition,
        (first, next): (i64, i64),
        record: VerdictRecord,
    ) -> Law {
        let at = |why: String| format!("verdicts:{log}@{first}: {why}");
        let own = &mut self.logs[log.index()];
        match &record {
            VerdictRecord::Rules(rules) => own.check_rules(rules).map_err(at)?,
            VerdictRecord::Checkpoint(checkpoint) => {
                self.notes.lines.push(format!("verdicts:{log}@{first}: checkpoint"));
                own.check_checkpoint(first, checkpoint, &self.deliveries).map_err(at)?;
            }
            VerdictRecord::Verdicts(batch) => self.check_batch(world, log, first, batch).map_err(at)?,
        }
        self.logs[log.index()].append((first, next), record).map_err(at)
    }

    fn check_batch(&mut self, world: &World, log: LogPartition, offset: i64, batch: &VerdictBatch) -> Law {
        let own = &mut self.logs[log.index()];
        own.begin_batch(batch)?;
        for verdict in &batch.verdicts {
            let judged_by = own.check_verdict(world, verdict)?;
            self.notes.count(judged_by);
            self.notes.lines.push(format!("verdicts:{log}@{offset}: {}", describe_answer(&verdict.answer)));
            if let Answer::Reopened { partition, from, to } = &verdict.answer {
                own.check_reopening(partition, *from..*to)?;
            }
            let histories = &mut self.history;
            if histories.is_current(log) {
                *self.notes.statistics.entry("verdicts taken over").or_default() +=
                    u64::from(own.check_taken_over(verdict, &histories.earlier)?);
                histories.current.take(
                    world,
                    (log, offset),
                    verdict,
                    Some(&histories.earlier),
                    &self.deliveries,
                    &mut self.notes,
                )?;
            } else {
                histories.earlier.take(world, (log, offset), verdict, None, &self.deliveries, &mut self.notes)?;
            }
            own.follow(verdict)?;
            self.notes.count("verdicts");
        }
        let repeats = own.end_batch(world, batch)?;
        (0..repeats).for_each(|_| self.notes.count("repeats"));
        Ok(())
    }

    /// Checks that the state of a judge is that of the reference at the same place of the log.
    pub(crate) fn compare(&mut self, world: &mut World, name: &str, log: LogPartition, judge: &Judge) {
        match self.logs[log.index()].compare(name, judge) {
            Ok(true) => self.count("states compared"),
            Ok(false) => {}
            Err(broken) => world.violate(broken),
        }
    }

    // ---- at the end

    /// Checks that every duplicate has an original that was delivered as unique.
    pub(crate) fn check_originals(&mut self, world: &mut World) {
        let mut exempt = 0;
        for (copy, original) in self.history.current.duplicates().chain(self.history.earlier.duplicates()) {
            if !self.deliveries.has_delivered(copy) || self.deliveries.has_delivered_original(original) {
                continue;
            }
            if self.history.is_withdrawn(&original.source) {
                exempt += 1;
            } else {
                world.violate(format!(
                    "L8 {} is a duplicate of {}, which was never delivered as {:?}",
                    copy.source, original.source, original.verdict
                ));
            }
        }
        *self.notes.statistics.entry("duplicates of withdrawn pages").or_default() += exempt;
    }

    /// Checks that every page has an end.
    pub(crate) fn check_ends(&self, world: &mut World) {
        for input in world.inputs.clone() {
            for offset in visible(world, &input, self.deliveries.first(&input), world.bus.end(&input)) {
                if self.ends(&input.at(offset)).is_empty() {
                    world.violate(format!("L1 {input}:{offset} has no end"));
                }
            }
        }
    }

    /// Checks that a worker that waits because a verdict cannot be read back does so for the reason that the design
    /// gives: the log was trimmed after the page was delivered.
    pub(crate) fn check_unreadable(&self, world: &World, log: LogPartition, source: &Source) -> Law {
        let history = if self.history.is_current(log) { &self.history.current } else { &self.history.earlier };
        if history.is_kept(source, world.bus.start(&verdicts_of(log))) {
            Err(format!("{source} waits although the verdict log holds its verdict"))
        } else if source.offset >= self.high(&source.partition) {
            Err(format!("swallowed: {source} counts as judged, was never delivered, and no verdict is left"))
        } else {
            Ok(())
        }
    }

    /// Returns how often and how a page was delivered.
    pub(crate) fn ends(&self, source: &Source) -> &[PageOutcome] {
        self.deliveries.of(source)
    }

    /// Returns the highest position that the input group ever committed.
    pub(crate) fn high(&self, input: &PartitionId) -> i64 {
        self.deliveries.high(input)
    }

    pub(crate) fn is_judged(&self, log: LogPartition, source: &Source) -> bool {
        self.logs[log.index()].is_judged(source)
    }

    /// Returns the pages that made the live originals of a log.
    pub(crate) fn live(&self, log: LogPartition) -> Vec<Source> {
        self.logs[log.index()].live()
    }
}

fn describe_answer(answer: &Answer) -> String {
    match answer {
        Answer::Page(page) => {
            let matched = page.decision.matched().map(|of| format!(" of {}", of.source)).unwrap_or_default();
            let made = if page.decision.original().is_some() { ", an original" } else { "" };
            format!("{} {}{matched}{made}, at {}", page.source, page.decision.kind().name(), page.event_time)
        }
        Answer::Withdrawn { source, reason } => format!("{source} withdrawn, {}", reason.name()),
        Answer::Forgotten(target) => format!("forgotten {target:?}"),
        Answer::Reopened { partition, from, to } => format!("reopened {partition} {from}..{to}"),
        Answer::TimeSet { before, after } => format!("time set from {before} to {after}"),
    }
}

/// Returns the offsets of an input partition that hold a visible record.
fn visible(world: &World, input: &PartitionId, from: i64, to: i64) -> Vec<i64> {
    let slots = world.bus.slots(input);
    let is_page = |offset: &i64| {
        let slot = &slots[usize::try_from(*offset).unwrap()];
        slot.value.is_some() && slot.state == SlotState::Committed
    };
    (from..to.min(world.bus.end(input))).filter(is_page).collect()
}
