//! What was judged about every page, in the order of the logs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use dupgate_core::protocol::{Answer, Decision, LogPartition, Verdict};
use dupgate_core::record::{PartitionId, Source};
use dupgate_core::worker::Mode;

use super::deliveries::Deliveries;
use super::{Law, Notes};
use crate::world::{GROUP, Given, World};

/// A page and a verdict that was reached about it.
#[derive(Clone)]
pub(super) struct JudgedPage {
    pub(super) source: Source,
    pub(super) verdict: Arc<Verdict>,
}

/// What happened to one position.
enum Event {
    /// A verdict, at this offset of a log. A worker waits for it, unless it came after the input group had committed the
    /// position, or after a worker that had not followed the reopening before it gave the page the verdict of before.
    Judged {
        log: LogPartition,
        at: i64,
        verdict: Arc<Verdict>,
        is_awaited: bool,
    },
    Reopened {
        log: LogPartition,
        at: i64,
    },
}

/// The verdicts of all logs, by position of the input.
#[derive(Default)]
pub(super) struct VerdictHistory {
    events: BTreeMap<Source, Vec<Event>>,
    /// Duplicates, each with its original.
    duplicates: Vec<(JudgedPage, JudgedPage)>,
    reopened: BTreeSet<Source>,
    withdrawn: BTreeSet<Source>,
    /// Positions that were given a verdict after it was reopened, and were not judged again yet.
    overtaken: BTreeSet<Source>,
}

impl VerdictHistory {
    /// Checks a verdict at this place of a log, and takes it over.
    pub(super) fn take(
        &mut self,
        world: &World,
        (log, at): (LogPartition, i64),
        verdict: &Verdict,
        earlier: Option<&Self>,
        deliveries: &Deliveries,
        notes: &mut Notes,
    ) -> Law {
        match &verdict.answer {
            Answer::Page(page) => {
                if matches!(self.of(&page.source).last(), Some(Event::Judged { .. })) {
                    return Err(format!("L4 a second verdict of {}", page.source));
                }
                if let Some(of) = page.decision.matched() {
                    let is_duplicate = matches!(page.decision, Decision::Duplicate { .. });
                    self.match_with(&page.source, &of.source, verdict, is_duplicate, earlier)?;
                }
            }
            Answer::Withdrawn { source, .. } => drop(self.withdrawn.insert(source.clone())),
            Answer::Forgotten(_) => {}
            Answer::TimeSet { before, after } => {
                notes.count(if after < before { "times set back" } else { "times left" });
            }
            Answer::Reopened { partition, from, to } => {
                self.reopen(world, (log, at), partition, *from..*to, deliveries)?;
            }
        }
        if let Some(source) = verdict.answer.judged_source() {
            let committed = world.bus.committed(GROUP, &source.partition);
            let is_overtaken = self.overtaken.remove(source);
            let is_awaited = !is_overtaken && committed.is_none_or(|committed| source.offset >= committed.offset);
            if !is_awaited {
                notes.count("verdicts that no worker waits for");
            }
            let verdict = Arc::new(verdict.clone());
            self.events.entry(source.clone()).or_default().push(Event::Judged { log, at, verdict, is_awaited });
        }
        Ok(())
    }

    /// Checks that a page is matched with an original, perhaps one of the earlier scheme.
    fn match_with(
        &mut self,
        page: &Source,
        original: &Source,
        verdict: &Verdict,
        is_duplicate: bool,
        earlier: Option<&Self>,
    ) -> Law {
        if original == page {
            return Err(format!("L8 {page} is its own duplicate"));
        }
        let own = self.of(original).iter().rev().find_map(made_original);
        let made = own.or_else(|| earlier?.of(original).iter().rev().find_map(made_original));
        let Some((made, is_awaited)) = made else {
            return Err(format!("L3 {page} has the original {original}, which is none"));
        };
        if is_duplicate && is_awaited {
            let made = JudgedPage { source: original.clone(), verdict: Arc::clone(made) };
            let copy = JudgedPage { source: page.clone(), verdict: Arc::new(verdict.clone()) };
            self.duplicates.push((copy, made));
        }
        Ok(())
    }

    /// Checks that a range that is reopened was delivered as judged.
    fn reopen(
        &mut self,
        world: &World,
        (log, at): (LogPartition, i64),
        partition: &PartitionId,
        range: Range<i64>,
        deliveries: &Deliveries,
    ) -> Law {
        for source in range.map(|offset| partition.at(offset)) {
            if let Some(Event::Judged { log: of, verdict, is_awaited: true, .. }) = self.of(&source).last()
                && *of == log
                && matches!(verdict.answer, Answer::Page(_))
                && world.mode != Mode::Observe
                && !deliveries.has_delivered(&JudgedPage { source: source.clone(), verdict: Arc::clone(verdict) })
            {
                return Err(format!("L8 {source} is reopened and was never delivered as {verdict:?}"));
            }
            self.events.entry(source.clone()).or_default().push(Event::Reopened { log, at });
            self.reopened.insert(source);
        }
        Ok(())
    }

    /// Checks a verdict that a worker gave a page: it exists, and the worker had followed no reopening after it.
    pub(super) fn check_given(&mut self, given: &Given) -> Law {
        let Some(source) = given.verdict.answer.judged_source() else { return Ok(()) };
        let events = self.events.entry(source.clone()).or_default();
        let is_given = |event: &Event| matches!(event, Event::Judged { verdict, .. } if verdict.without_original() == *given.verdict);
        let Some(place) = events.iter().rposition(is_given) else {
            return Err(format!("L4 {source} is given a verdict that no judge made"));
        };
        // Each log reopens for itself.
        let Event::Judged { log, .. } = events[place] else { return Ok(()) };
        let later = &mut events[place + 1..];
        let reopened = |event: &Event| match event {
            Event::Reopened { log: of, at } if *of == log => Some(*at),
            Event::Reopened { .. } | Event::Judged { .. } => None,
        };
        if later.iter().filter_map(reopened).any(|at| at < given.followed[log.index()]) {
            return Err(format!("L4 {source} is given a verdict from before its reopening"));
        }
        if later.iter().any(|event| reopened(event).is_some()) {
            let mut is_judged_again = false;
            for event in later {
                if let Event::Judged { is_awaited, .. } = event {
                    (is_judged_again, *is_awaited) = (true, false);
                }
            }
            if !is_judged_again {
                self.overtaken.insert(source.clone());
            }
            let is_of_given = |of: &Verdict| of.without_original() == *given.verdict;
            self.duplicates.retain(|(_, original)| original.source != *source || is_of_given(&original.verdict));
        }
        Ok(())
    }

    /// Returns whether one of the verdicts of a page is this one.
    pub(super) fn has_verdict(&self, source: &Source, wanted: impl Fn(&Verdict) -> bool) -> bool {
        self.of(source).iter().any(|event| matches!(event, Event::Judged { verdict, .. } if wanted(verdict)))
    }

    /// Returns where the last verdict of a page is, unless it was reopened since.
    pub(super) fn last_verdict_at(&self, source: &Source) -> Option<i64> {
        match self.of(source).last()? {
            Event::Judged { at, .. } => Some(*at),
            Event::Reopened { .. } => None,
        }
    }

    /// Returns whether a verdict log that begins at this offset holds a valid verdict of a page.
    pub(super) fn is_kept(&self, source: &Source, start: i64) -> bool {
        let valid = self.of(source).iter().rev().take_while(|event| !matches!(event, Event::Reopened { .. }));
        valid.into_iter().any(|event| matches!(event, Event::Judged { at, .. } if *at >= start))
    }

    /// Returns the pages that were judged duplicates, each with its original.
    pub(super) fn duplicates(&self) -> impl Iterator<Item = (&JudgedPage, &JudgedPage)> {
        self.duplicates.iter().map(|(copy, original)| (copy, original))
    }

    pub(super) fn is_reopened(&self, source: &Source) -> bool {
        self.reopened.contains(source)
    }

    pub(super) fn is_withdrawn(&self, source: &Source) -> bool {
        self.withdrawn.contains(source)
    }

    fn of(&self, source: &Source) -> &[Event] {
        self.events.get(source).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Returns the verdict that made a page an original, and whether a worker waited for it.
fn made_original(event: &Event) -> Option<(&Arc<Verdict>, bool)> {
    match event {
        Event::Reopened { .. } => None,
        Event::Judged { verdict, is_awaited, .. } => {
            let made = matches!(&verdict.answer, Answer::Page(page) if page.decision.original().is_some());
            made.then_some((verdict, *is_awaited))
        }
    }
}
