//! The order of the log: pages are judged where the live verdict log has their verdicts, and leave in the order of the input.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::sync::Arc;

use super::super::service_context;
use super::log_stream::LogStream;
use super::run::{Phase, Report, Run};
use super::walk::{Step, Walk, diverged};
use crate::error::{Fatal, Reason};
use crate::kafka::output::PagePayload;
use crate::protocol::{Answer, LogPartition, Verdict};
use crate::record::{PartitionId, Reject, Source, Timestamp};
use crate::replay::{InputRange, LogOrder, LogRange, Next, PageQueues, Part, Target, name_of};
use crate::worker::{Page, PageAction, PageOutcome, verdict_name};

impl<S: FnMut(&Report<'_>)> Run<'_, S> {
    pub(super) fn by_log(&mut self) -> Result<(), Fatal> {
        let mut walks = self.walks()?;
        let mut log = InLog { is_caught_up: self.marks.is_empty(), ..InLog::default() };
        while let Some(at) = next_walk(&walks) {
            if !log.is_caught_up && walks.get(at).is_some_and(|walk| !walk.is_done()) {
                self.catch_up(&mut walks, &mut log)?;
            }
            if let Some(walk) = walks.get_mut(at) {
                walk.take()?;
            }
            while let Some(step) = walks.get_mut(at).map(Walk::step).transpose()?.flatten() {
                match (step, walks.get_mut(at)) {
                    (Step::Done(next, verdict), _) => self.remember(&mut log, &next, *verdict),
                    (Step::Do(next), Some(walk)) => self.do_next(walk, &mut log, next)?,
                    (Step::Do(_), None) => {}
                }
                self.housekeeping()?;
            }
            if let Some(walk) = walks.get(at).filter(|_| log.is_caught_up) {
                self.mark(&walk.partition, walk.next, walk.next);
            }
            if self.is_full() && log.is_caught_up {
                self.flush_log(&mut walks, &log)?;
            }
        }
        if !log.is_caught_up {
            self.catch_up(&mut walks, &mut log)?;
        }
        self.read_the_rest(&mut walks, &mut log)?;
        self.flush_log(&mut walks, &log)
    }

    pub(super) fn walks(&mut self) -> Result<Vec<Walk>, Fatal> {
        let config = service_context::cluster(&self.live.kafka).follower(&self.plan.own_group());
        let mut walks = Vec::new();
        for range in self.plan.verdict_log.clone() {
            let LogRange { topic, partition: number, end, .. } = range;
            let partition = PartitionId::new(topic.as_str(), number);
            let order = if self.plan.is_what_if() {
                let rules = self.settings.iter().map(|settings| settings.rules.clone());
                LogOrder::what_if(self.identity(), rules, self.ranges.clone())
            } else {
                LogOrder::as_live(self.identity(), self.ranges.clone())
            };
            let live = LogStream::open(&config, partition.clone(), end)?;
            let committed = self.marks.get(&partition).map_or(0, |(offset, _)| *offset);
            let own = match LogPartition::numbered(number).filter(|_| !self.marks.is_empty()) {
                Some(log) => self.own_log(log)?,
                None => None,
            };
            walks.push(Walk::new(partition, order, live, own, committed)?);
        }
        Ok(walks)
    }

    /// Keeps what was ruled before the interruption for pages that are still to be delivered.
    fn remember(&mut self, log: &mut InLog, next: &Next, verdict: Verdict) {
        let Some(source) = verdict.answer.ruled_source().cloned() else { return };
        if self.marks.get(&source.partition).is_some_and(|(offset, _)| source.offset < *offset) {
            return;
        }
        let end = match &verdict.answer {
            Answer::Withdrawn { reason, .. } => PageOutcome::DeadLetter(*reason),
            Answer::Page(_) | Answer::Forgotten(_) | Answer::Reopened { .. } => PageOutcome::Ruled(Arc::new(verdict)),
        };
        if let Next::Page(live, _) = next
            && name_of(&end) != live_name(live)
        {
            log.differ.insert(source.clone());
        }
        log.known.insert(source, end);
    }

    /// Brings pages back that were read and not delivered when the replay was interrupted.
    fn catch_up(&mut self, walks: &mut [Walk], log: &mut InLog) -> Result<(), Fatal> {
        walks.iter_mut().for_each(Walk::go_on);
        log.is_caught_up = true;
        let mark = |range: &InputRange| Some((range.id(), *self.marks.get(&range.id())?));
        let marks: Vec<(PartitionId, (i64, i64))> = self.plan.input.iter().filter_map(mark).collect();
        for (partition, (delivered, read_to)) in marks {
            log.read_to.insert(partition.clone(), read_to);
            if delivered >= read_to {
                continue;
            }
            while let Some(page) = self.next_page(&partition)? {
                let source = page.source.clone();
                log.lanes.arrive(page);
                if let Some(end) = log.known.remove(&source) {
                    log.lanes.end(&source, end);
                }
                if source.offset + 1 >= read_to {
                    break;
                }
            }
        }
        log.known.clear();
        Ok(())
    }

    fn do_next(&mut self, walk: &mut Walk, log: &mut InLog, next: Next) -> Result<(), Fatal> {
        let (live, part) = match next {
            Next::Withdrawn(source, reason) => {
                self.read_up_to(log, &source)?;
                walk.order.withdraw(&source, reason).map_err(diverged)?;
                let bytes = log.lanes.get(&source).map(|page| page.payload.record.bytes());
                if log.lanes.end(&source, PageOutcome::DeadLetter(reason)) {
                    let ends = vec![PageOutcome::DeadLetter(reason); self.settings.len()];
                    self.note(Part::Range, &source, bytes.unwrap_or(0), &ends);
                }
                self.drain(log, &source.partition);
                return Ok(());
            }
            Next::Page(live, part) => (live, part),
        };
        self.phase = if part == Part::WarmUp { Phase::WarmUp } else { Phase::Range };
        let Answer::Page(ruled) = &live.answer else { return Ok(()) };
        let source = ruled.source.clone();
        self.read_up_to(log, &source)?;
        let page = log.lanes.get(&source);
        let bytes = page.map_or(0, |page| page.payload.record.bytes());
        self.hold(bytes)?;
        let request = match log.lanes.get(&source).map(|page| &page.action) {
            Some(PageAction::Ask(_, request)) if request.digest != ruled.digest => {
                let why = anyhow::anyhow!(
                    "{source}: the input holds another page than the one that was judged: the topic was made anew"
                );
                return Err(Reason::State.because(why));
            }
            Some(PageAction::Ask(_, request)) => Some(request),
            Some(PageAction::Withdraw(_, reason)) => {
                let reason = *reason;
                walk.order.withdraw(&source, reason).map_err(diverged)?;
                let ends = vec![PageOutcome::DeadLetter(reason); self.settings.len()];
                self.end(log, part, &live, &source, bytes, ends);
                return Ok(());
            }
            Some(PageAction::Settled(_)) => None,
            None => {
                if let (Some(counts), Part::Range) = (self.counts.first_mut(), part) {
                    counts.gone += 1;
                }
                None
            }
        };
        let judged = walk.order.judge(&live, request).map_err(diverged)?;
        let is_taken_over = judged.first().is_some_and(|first| matches!(first, Some((_, true))));
        if let (Some(counts), true) = (self.counts.first_mut(), is_taken_over && part == Part::Range) {
            counts.taken_over += 1;
        }
        let ends: Vec<PageOutcome> =
            judged.into_iter().flatten().map(|(verdict, _)| PageOutcome::Ruled(Arc::new(verdict))).collect();
        if !ends.is_empty() {
            self.end(log, part, &live, &source, bytes, ends);
        }
        Ok(())
    }

    /// Gives a page its end, and lets go what may leave now.
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
        if part == Part::Range && name_of(&first) != live_name(live) {
            if let Some(counts) = self.counts.first_mut() {
                counts.note_change(live_name(live), name_of(&first));
            }
            log.differ.insert(source.clone());
        }
        log.lanes.end(source, first);
        self.drain(log, &source.partition);
    }

    /// Reads a partition up to this page.
    fn read_up_to(&mut self, log: &mut InLog, source: &Source) -> Result<(), Fatal> {
        let partition = &source.partition;
        while log.read_to.get(partition).is_none_or(|read_to| *read_to <= source.offset) {
            let Some(page) = self.next_page(partition)? else { break };
            self.arrive(log, page);
        }
        Ok(())
    }

    fn arrive(&mut self, log: &mut InLog, page: Page<PagePayload>) {
        let (source, bytes) = (page.source.clone(), page.payload.record.bytes());
        let part = self.ranges.part(&source);
        log.read_to.insert(source.partition.clone(), source.offset + 1);
        if let (PageAction::Settled(outcome), Part::Range) = (&page.action, part) {
            let ends = vec![outcome.clone(); self.settings.len()];
            self.note(part, &source, bytes, &ends);
        }
        if part == Part::Range && !log.in_range.contains(&source.partition) {
            // Warm-up pages without a verdict in the log do not block others.
            log.in_range.insert(source.partition.clone());
            for open in log.lanes.open(&source.partition) {
                log.lanes.end(&open, PageOutcome::Tombstone);
            }
        }
        log.lanes.arrive(page);
        self.drain(log, &source.partition);
    }

    /// Waits for the next page of a partition; `None` at its end.
    pub(super) fn next_page(&mut self, partition: &PartitionId) -> Result<Option<Page<PagePayload>>, Fatal> {
        loop {
            if let Some(page) = self.feed.take(partition) {
                return Ok(Some(page));
            }
            if self.feed.is_over(partition) {
                return Ok(None);
            }
            self.feed.force_resume(partition);
            self.feed.wait()?;
            self.housekeeping()?;
        }
    }

    fn drain(&mut self, log: &mut InLog, partition: &PartitionId) {
        while let Some(output) = log.lanes.leave(partition) {
            let differs = log.differ.remove(&output.page.source);
            let is_wanted = self.plan.into != Target::Live || differs;
            if is_wanted && self.ranges.part(&output.page.source) == Part::Range {
                self.deliver(output);
            }
        }
    }

    /// Reads what stands behind the last page that the log has. A page without a verdict is judged last.
    fn read_the_rest(&mut self, walks: &mut [Walk], log: &mut InLog) -> Result<(), Fatal> {
        let bound = Timestamp::from_millis(self.plan.created_ms);
        for range in self.plan.input.clone() {
            let partition = range.id();
            while let Some(page) = self.next_page(&partition)? {
                self.arrive(log, page);
            }
            for source in log.lanes.open(&partition) {
                let Some(page) = log.lanes.get(&source) else { continue };
                let bytes = page.payload.record.bytes();
                let (number, ends) = match &page.action {
                    PageAction::Ask(number, request) => (*number, Some(request.clone())),
                    PageAction::Withdraw(number, _) => (*number, None),
                    PageAction::Settled(_) => continue,
                };
                let walk = walks.iter_mut().find(|walk| LogPartition::numbered(walk.partition.number) == Some(number));
                let Some(walk) = walk else { continue };
                let mut made = Vec::new();
                for judge in walk.order.judges() {
                    let verdict =
                        ends.clone().map(|request| judge.judge(request, bound)).transpose().map_err(diverged)?;
                    made.extend(verdict.flatten().map(|verdict| PageOutcome::Ruled(Arc::new(verdict))));
                }
                self.note(self.ranges.part(&source), &source, bytes, &made);
                let end = made.into_iter().next().unwrap_or(PageOutcome::DeadLetter(Reject::Gone));
                log.lanes.end(&source, end);
            }
            self.drain(log, &partition);
        }
        Ok(())
    }

    fn flush_log(&mut self, walks: &mut [Walk], log: &InLog) -> Result<(), Fatal> {
        for range in &self.plan.input {
            let partition = range.id();
            let Some(&read_to) = log.read_to.get(&partition) else { continue };
            let offset = log.lanes.first(&partition).unwrap_or(read_to);
            self.batch.marks.insert(partition, (offset, read_to));
        }
        let mut records = Vec::new();
        for walk in walks.iter_mut() {
            let number = LogPartition::numbered(walk.partition.number).unwrap_or_default();
            for (variant, judge) in walk.order.judges().iter_mut().enumerate() {
                let made = judge.records();
                if variant == 0 {
                    records.push((number, made));
                }
            }
        }
        self.flush(records)?;
        // Pages that the brokers refused are no originals any more.
        for (source, reason) in mem::take(&mut self.withdrawn) {
            for walk in walks.iter_mut().filter(|walk| walk.order.has_judged(&source)) {
                walk.order.withdraw(&source, reason).map_err(diverged)?;
            }
        }
        Ok(())
    }
}

/// What the order of the log keeps between two records.
#[derive(Default)]
struct InLog {
    lanes: PageQueues<PagePayload>,
    /// Pages of each partition before this offset were read.
    read_to: BTreeMap<PartitionId, i64>,
    /// Partitions whose range has begun.
    in_range: BTreeSet<PartitionId>,
    /// Pages whose verdict is another than the live one, until they are delivered.
    differ: BTreeSet<Source>,
    /// What was ruled before the interruption on pages that were not delivered.
    known: HashMap<Source, PageOutcome>,
    is_caught_up: bool,
}

/// Returns the partition of the log whose next record was judged first.
pub(super) fn next_walk(walks: &[Walk]) -> Option<usize> {
    let keyed = walks.iter().enumerate().filter_map(|(at, walk)| Some((walk.key()?, at)));
    keyed.min().map(|(_, at)| at)
}

/// Names the verdict of the live service.
pub(super) fn live_name(live: &Verdict) -> &'static str {
    match &live.answer {
        Answer::Page(page) => verdict_name(page),
        Answer::Withdrawn { .. } | Answer::Forgotten(_) | Answer::Reopened { .. } => "withdrawn",
    }
}
