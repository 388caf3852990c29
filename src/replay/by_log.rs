//! The order of the log: pages are judged in the order of their verdicts in the live verdict log, and leave in the
//! order of the input.

use std::mem;

use dupgate_core::replay::{
    Leaving, LogOrder, LogPages, Next, Part, Rejudge, Replayed, Target, name_of, name_of_verdict,
};
use dupgate_core::worker::{Page, PageAction, PageOutcome};

use super::run::{Phase, Report, Run};
use super::walk;
use super::walk::LogStream;
use super::walk::{Step, Walk, diverged};
use crate::context;
use crate::error::{Fatal, fatal};
use crate::kafka::output::PagePayload;
use crate::protocol::{Answer, LogPartition, PageRequest, Verdict};
use crate::record::{PartitionId, Source, Timestamp};

impl<S: FnMut(&Report<'_>)> Run<'_, S> {
    pub(super) fn by_log(&mut self) -> Result<(), Fatal> {
        let mut walks = self.walks()?;
        let pages = LogPages::resumed(self.ranges.clone(), &self.marks);
        let mut log = InLog { pages, is_caught_up: self.marks.is_empty() };
        while let Some(at) = next_walk(&walks) {
            if walks.get(at).is_some_and(|walk| !walk.is_begun()) {
                self.catch_up(&mut walks, &mut log)?;
            }
            if let Some(walk) = walks.get_mut(at) {
                walk.take()?;
            }
            while let Some(step) = walks.get_mut(at).map(Walk::step).transpose()?.flatten() {
                match step {
                    Step::Done(next, verdict) => {
                        self.meter.follow(1);
                        log.pages.remember(&next, *verdict);
                        // Those before the interruption are counted.
                        if let Some(walk) = walks.get_mut(at) {
                            walk.order.take_second_verdicts();
                        }
                    }
                    Step::Do(next) => {
                        self.catch_up(&mut walks, &mut log)?;
                        if let Some(walk) = walks.get_mut(at) {
                            self.do_next(walk, &mut log, next)?;
                        }
                        // A record may hold the verdicts on more pages than slow brokers take in one transaction.
                        if self.is_full() {
                            self.flush_log(&mut walks, &log)?;
                        }
                    }
                }
                self.housekeeping()?;
            }
            self.maintain(walks.get_mut(at).into_iter().flat_map(|walk| walk.order.judges()));
            if self.is_full() && log.is_caught_up {
                self.flush_log(&mut walks, &log)?;
            }
        }
        self.catch_up(&mut walks, &mut log)?;
        self.read_the_rest(&mut walks, &mut log)?;
        self.flush_log(&mut walks, &log)
    }

    pub(super) fn walks(&mut self) -> Result<Vec<Walk>, Fatal> {
        let config = context::connection(&self.live.kafka).bounded_follower(&self.plan.own_group());
        walk::expect_kept(&self.plan, &self.offsets, &config, &self.marks)?;
        let mut walks = Vec::new();
        for range in self.plan.verdict_log.clone() {
            let partition = range.id();
            let mut order = if self.plan.is_what_if() {
                let rules = self.settings.iter().map(|settings| settings.rules.clone());
                LogOrder::what_if(self.identity(), rules, self.ranges.clone())
            } else {
                LogOrder::as_live(self.identity(), self.ranges.clone())
            };
            order.judges().iter_mut().skip(self.written_variants()).for_each(Rejudge::write_nothing);
            let live = LogStream::open(&config, partition.clone(), range.end)?;
            let committed = self.marks.get(&partition).copied().unwrap_or_default();
            let own = match LogPartition::numbered(range.partition).filter(|_| !self.marks.is_empty()) {
                Some(log) => self.own_log(log)?,
                None => None,
            };
            walks.push(Walk::new(partition, order, live, own, committed)?);
        }
        Ok(walks)
    }

    /// Once all that was done before an interruption is followed: restores pages that were read and not delivered then.
    fn catch_up(&mut self, walks: &mut [Walk], log: &mut InLog) -> Result<(), Fatal> {
        if std::mem::replace(&mut log.is_caught_up, true) {
            return Ok(());
        }
        walks.iter_mut().try_for_each(Walk::go_on)?;
        for range in self.plan.input.clone() {
            let partition = range.id();
            let Some(end) = log.pages.held_before(&partition) else { continue };
            while let Some(page) = self.next_page(&partition)? {
                let source = page.source.clone();
                if !log.pages.was_held(&source) {
                    // The last page that was held is gone from the input.
                    self.arrive(log, page);
                    break;
                }
                log.pages.put_back(page);
                if source.offset + 1 >= end {
                    break;
                }
            }
        }
        log.pages.caught_up();
        Ok(())
    }

    fn do_next(&mut self, walk: &mut Walk, log: &mut InLog, next: Next) -> Result<(), Fatal> {
        let (live, part) = match next {
            Next::Withdrawn(source, reason) => {
                self.read_up_to(log, &source)?;
                walk.order.withdraw(&source, reason).map_err(diverged)?;
                let bytes = log.pages.get(&source).map(|page| page.payload.record.bytes());
                if log.pages.end(&source, PageOutcome::DeadLetter(reason)) {
                    let ends = vec![PageOutcome::DeadLetter(reason); self.settings.len()];
                    self.note(Part::Range, &source, bytes.unwrap_or(0), &ends);
                }
                self.drain(log, &source.partition);
                return Ok(());
            }
            Next::Page(live, part) => (live, part),
        };
        self.phase = if part == Part::WarmUp { Phase::WarmUp } else { Phase::Range };
        let Answer::Page(judged) = &live.answer else { return Ok(()) };
        let source = judged.source.clone();
        let is_reopened = walk.order.is_reopened(&source);
        self.read_up_to(log, &source)?;
        let page = log.pages.get(&source);
        let bytes = page.map_or(0, |page| page.payload.record.bytes());
        self.hold(bytes)?;
        let request = match log.pages.get(&source).map(|page| &page.action) {
            Some(PageAction::Ask(_, request)) if request.digest != judged.digest => {
                return Err(fatal!(
                    State,
                    "{source}: the input holds another page than the one that was judged: the topic was recreated; \
                     replay by event time (--order time), which does not need the old pages"
                ));
            }
            Some(PageAction::Ask(_, request)) => Some(request),
            Some(PageAction::Withdraw(_, reason)) => {
                let reason = *reason;
                walk.order.withdraw(&source, reason).map_err(diverged)?;
                let ends = vec![PageOutcome::DeadLetter(reason); self.settings.len()];
                if is_reopened {
                    self.note_reopened(part, &source, &ends);
                } else {
                    self.end(log, part, &live, &source, bytes, ends);
                }
                return Ok(());
            }
            Some(PageAction::Settled(_)) => None,
            None => {
                // One that is judged again has left.
                if let (Some(counts), Part::Range, false) = (self.counts.first_mut(), part, is_reopened) {
                    counts.gone += 1;
                }
                None
            }
        };
        let mut request = request.cloned();
        let ends = self.judge_live(walk, &live, part, request.as_mut(), is_reopened)?;
        if !ends.is_empty() {
            self.end(log, part, &live, &source, bytes, ends);
        }
        Ok(())
    }

    /// Judges the page of a live verdict, and returns its outcome by each variant; none if it is only counted, because it
    /// was judged again (`is_reopened`).
    pub(super) fn judge_live(
        &mut self,
        walk: &mut Walk,
        live: &Verdict,
        part: Part,
        request: Option<&mut PageRequest>,
        is_reopened: bool,
    ) -> Result<Vec<PageOutcome>, Fatal> {
        let (mut ends, mut is_taken_over) = (Vec::with_capacity(self.settings.len()), false);
        let take = |Replayed { verdict, is_taken_over: is_of_live }| {
            is_taken_over |= is_of_live;
            ends.push(PageOutcome::Judged(verdict));
        };
        walk.order.judge(live, request, take).map_err(diverged)?;
        if let (Some(source), true) = (live.answer.judged_source(), is_reopened) {
            self.note_reopened(part, source, &ends);
            return Ok(Vec::new());
        }
        if let (Some(counts), true) = (self.counts.first_mut(), is_taken_over && part == Part::Range) {
            counts.taken_over += 1;
        }
        Ok(ends)
    }

    /// Decides a page, and releases what may leave now.
    fn end(
        &mut self,
        log: &mut InLog,
        part: Part,
        live: &Verdict,
        source: &Source,
        bytes: usize,
        ends: Vec<PageOutcome>,
    ) {
        self.note(part, source, bytes, &ends);
        let Some(first) = ends.into_iter().next() else { return };
        if part == Part::Range && name_of(&first) != name_of_verdict(live) {
            if let Some(counts) = self.counts.first_mut() {
                counts.note_change(name_of_verdict(live), name_of(&first));
            }
            log.pages.note_difference(source);
        }
        log.pages.end(source, first);
        self.drain(log, &source.partition);
    }

    /// Reads a partition up to this page.
    fn read_up_to(&mut self, log: &mut InLog, source: &Source) -> Result<(), Fatal> {
        let partition = &source.partition;
        while !log.pages.is_read(source) {
            let Some(page) = self.next_page(partition)? else { break };
            self.arrive(log, page);
        }
        Ok(())
    }

    fn arrive(&mut self, log: &mut InLog, page: Page<PagePayload>) {
        let (source, bytes) = (page.source.clone(), page.payload.record.bytes());
        let part = self.ranges.part(&source);
        if let (PageAction::Settled(outcome), Part::Range) = (&page.action, part) {
            let ends = vec![outcome.clone(); self.settings.len()];
            self.note(part, &source, bytes, &ends);
        }
        log.pages.arrive(page);
        self.drain(log, &source.partition);
    }

    /// Waits for the next page of a partition; `None` at its end.
    pub(super) fn next_page(&mut self, partition: &PartitionId) -> Result<Option<Page<PagePayload>>, Fatal> {
        loop {
            if let Some(page) = self.feed()?.next(partition)? {
                return Ok(Some(page));
            }
            if self.feed()?.is_over(partition) {
                return Ok(None);
            }
            self.feed()?.wait()?;
            self.housekeeping()?;
        }
    }

    /// Delivers the pages of a partition that may leave.
    fn drain(&mut self, log: &mut InLog, partition: &PartitionId) {
        while let Some(Leaving { output, differs }) = log.pages.leave(partition) {
            if self.plan.into != Target::Live || differs {
                self.deliver(output);
            }
        }
    }

    /// Reads the pages after the last one in the log. A page without a verdict is judged last.
    fn read_the_rest(&mut self, walks: &mut [Walk], log: &mut InLog) -> Result<(), Fatal> {
        let bound = Timestamp::from_millis(self.plan.created_ms);
        for range in self.plan.input.clone() {
            let partition = range.id();
            while let Some(page) = self.next_page(&partition)? {
                self.arrive(log, page);
                if self.is_full() {
                    self.flush_log(walks, log)?;
                }
            }
            for source in log.pages.open(&partition) {
                let Some(page) = log.pages.get(&source) else { continue };
                let bytes = page.payload.record.bytes();
                let (number, requested) = match &page.action {
                    PageAction::Ask(number, request) => (*number, Ok(request.clone())),
                    PageAction::Withdraw(number, reason) => (*number, Err(*reason)),
                    PageAction::Settled(_) => continue,
                };
                let walk = walks.iter_mut().find(|walk| LogPartition::numbered(walk.partition.number) == Some(number));
                let Some(walk) = walk else { return Err(lost(&source)) };
                let mut ends = Vec::new();
                for judge in walk.order.judges() {
                    ends.push(match &requested {
                        Ok(request) => {
                            let verdict = judge.judge(request, bound).map_err(diverged)?;
                            PageOutcome::Judged(verdict.ok_or_else(|| lost(&source))?)
                        }
                        Err(reason) => {
                            judge.withdraw(source.clone(), *reason).map_err(diverged)?;
                            PageOutcome::DeadLetter(*reason)
                        }
                    });
                }
                let part = self.ranges.part(&source);
                self.note(part, &source, bytes, &ends);
                let Some(end) = ends.into_iter().next() else { continue };
                if let (Some(counts), Part::Range) = (self.counts.first_mut(), part) {
                    counts.note_change(UNJUDGED, name_of(&end));
                }
                log.pages.end(&source, end);
                self.maintain(walk.order.judges());
                self.drain(log, &partition);
                if self.is_full() {
                    self.flush_log(walks, log)?;
                }
            }
        }
        Ok(())
    }

    /// Starts committing what was judged, with all pages that may leave.
    fn flush_log(&mut self, walks: &mut [Walk], log: &InLog) -> Result<(), Fatal> {
        self.batch.marks.extend(log.pages.marks());
        let mut records = Vec::new();
        for walk in walks.iter_mut() {
            let number = LogPartition::numbered(walk.partition.number).unwrap_or_default();
            records.extend(walk.order.judges().first_mut().map(|judge| (number, judge.records())));
            self.batch.marks.insert(walk.partition.clone(), walk.mark());
            let second_verdicts = walk.order.take_second_verdicts();
            if let Some(counts) = self.counts.first_mut() {
                counts.second_verdicts += second_verdicts;
            }
        }
        self.flush(records)?;
        // Pages that the brokers refused are no longer originals.
        for (source, reason) in mem::take(&mut self.withdrawn) {
            for walk in walks.iter_mut().filter(|walk| walk.order.has_judged(&source)) {
                walk.order.withdraw(&source, reason).map_err(diverged)?;
            }
        }
        Ok(())
    }
}

/// The live verdict of a page without one in the live log.
const UNJUDGED: &str = "none";

/// A page of the range was judged live, and its verdict is not in the log.
fn lost(source: &Source) -> Fatal {
    fatal!(
        State,
        "the live verdict log no longer has a verdict on {source}: it was trimmed since the plan was made; make a new plan"
    )
}

/// State of the order of the log between two records.
struct InLog {
    pages: LogPages<PagePayload>,
    is_caught_up: bool,
}

/// Returns the partition of the log whose next record was judged first.
pub(super) fn next_walk(walks: &[Walk]) -> Option<usize> {
    let keyed = walks.iter().enumerate().filter_map(|(at, walk)| Some((walk.key()?, at)));
    keyed.min().map(|(_, at)| at)
}
