//! The order of time: partitions are merged, and each page is judged when its turn comes. Files are judged in the same
//! way, one after the other, line by line.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::replay::{FilePlace, InputRange, Part, Rejudge, TimeOrder};
use dupgate_core::worker::{Output, Page, PageAction, PageOutcome};

use super::UNTIMED;
use super::feed::FeedEvent;
use super::run::{Phase, Report, Run};
use super::walk::diverged;
use crate::config::settings::Settings;
use crate::deduplicator::LineTimes;
use crate::error::{Fatal, fatal};
use crate::kafka::output::PagePayload;
use crate::protocol::{LogPartition, VerdictRecord};
use crate::record::{EventTime, Timestamp};

impl<S: FnMut(&Report<'_>)> Run<'_, S> {
    pub(super) fn by_time(&mut self) -> Result<(), Fatal> {
        let mut judges = self.judges()?;
        let mut order = TimeOrder::new(self.plan.input.iter().map(InputRange::id));
        let bound = Timestamp::from_millis(self.plan.created_ms);
        let latest = bound.plus(self.settings.first().map_or(Duration::ZERO, |first| first.rules.max_future_skew));
        while !order.is_over() {
            match self.feed()?.wait()? {
                FeedEvent::Page(partition, time) => order.page(&partition, Some(time).filter(|time| *time <= latest)),
                FeedEvent::Ended(partition) => order.ended(&partition),
                FeedEvent::Nothing => {}
            }
            while let Some(partition) = order.take() {
                let Some(page) = self.feed()?.take(&partition) else {
                    return Err(fatal!(Bug, "{partition}: a page that was read is missing"));
                };
                if matches!(&page.action, PageAction::Ask(_, request) if request.event_time > latest) {
                    // Its judge gives it another time.
                    self.metrics.series().clamped_timestamps.increment(1);
                }
                self.hold(page.payload.record.bytes())?;
                let place = page.source.clone();
                self.judge_page(&mut judges, page, bound)?;
                self.mark(&place.partition, place.offset + 1);
                if self.is_full() {
                    self.flush_judges(&mut judges)?;
                }
            }
            self.housekeeping()?;
        }
        self.flush_judges(&mut judges)
    }

    /// Starts committing the verdicts, those of the first settings.
    pub(super) fn flush_judges(&mut self, judges: &mut [Vec<Rejudge>]) -> Result<(), Fatal> {
        let firsts = judges.iter_mut().filter_map(|variants| variants.first_mut());
        let records = firsts.enumerate().map(|(log, judge)| (LogPartition::at(log), judge.records())).collect();
        self.flush(records)?;
        self.withdraw_refused(judges)
    }

    /// Returns a judge for each log partition and variant. After an interruption they follow the replay's own log.
    pub(super) fn judges(&mut self) -> Result<Vec<Vec<Rejudge>>, Fatal> {
        let logs = self.logs();
        let identity = self.identity();
        let fresh = |settings: &Settings| Rejudge::begin(identity, settings.rules.clone());
        let mut judges: Vec<Vec<Rejudge>> = (0..logs).map(|_| self.settings.iter().map(fresh).collect()).collect();
        let written = self.written_variants();
        judges.iter_mut().flat_map(|variants| variants.iter_mut().skip(written)).for_each(Rejudge::write_nothing);
        if self.marks.is_empty() {
            return Ok(judges);
        }
        for (log, variants) in judges.iter_mut().enumerate() {
            let Some(mut own) = self.own_log(LogPartition::at(log))? else { continue };
            let Some(judge) = variants.first_mut() else { continue };
            *judge = Rejudge::following(identity);
            let mut taken = 0;
            while let Some(request) = own.next()? {
                if let VerdictRecord::Verdicts(batch) = &request.record {
                    taken += batch.verdicts.len() as u64;
                    self.meter.follow(batch.verdicts.len());
                }
                judge.follow_record(&request.record).map_err(diverged)?;
                self.housekeeping()?;
            }
            if judge.state().log().is_none() {
                *judge = fresh(self.settings.first().unwrap_or(self.live));
            }
            judge.go_on(taken);
        }
        Ok(judges)
    }

    /// Judges a page by all settings and hands it to the open transaction.
    pub(super) fn judge_page(
        &mut self,
        judges: &mut [Vec<Rejudge>],
        page: Page<PagePayload>,
        bound: Timestamp,
    ) -> Result<(), Fatal> {
        let part = self.ranges.part(&page.source);
        self.phase = if part == Part::WarmUp { Phase::WarmUp } else { Phase::Range };
        let mut ends: Vec<PageOutcome> = Vec::with_capacity(self.settings.len());
        match &page.action {
            PageAction::Settled(outcome) => ends.resize(self.settings.len(), outcome.clone()),
            PageAction::Withdraw(log, reason) => {
                for judge in judges.get_mut(log.index()).into_iter().flatten() {
                    judge.withdraw(page.source.clone(), *reason).map_err(diverged)?;
                    ends.push(PageOutcome::DeadLetter(*reason));
                }
            }
            PageAction::Ask(log, request) => {
                for judge in judges.get_mut(log.index()).into_iter().flatten() {
                    let verdict = judge.judge(request, bound).map_err(diverged)?;
                    let Some(verdict) = verdict else {
                        return Err(fatal!(Bug, "{} was judged before", page.source));
                    };
                    ends.push(PageOutcome::Judged(verdict));
                }
            }
        }
        self.maintain(judges.iter_mut().flatten());
        let place = page.source.clone();
        self.note(part, &place, page.payload.record.bytes(), &ends);
        if let Some(outcome) = ends.into_iter().next().filter(|_| part == Part::Range) {
            self.deliver(Output { page, outcome });
        }
        Ok(())
    }

    /// Takes pages that the brokers refused out of the memory of the judges.
    fn withdraw_refused(&mut self, judges: &mut [Vec<Rejudge>]) -> Result<(), Fatal> {
        for (source, reason) in mem::take(&mut self.withdrawn) {
            for judge in judges.iter_mut().flatten().filter(|judge| judge.state().is_judged(&source)) {
                judge.withdraw(source.clone(), reason).map_err(diverged)?;
            }
        }
        Ok(())
    }

    /// Judges files one after the other, line by line.
    pub(super) fn by_files(&mut self) -> Result<(), Fatal> {
        let mut judges = self.judges()?;
        let bound = Timestamp::from_millis(self.plan.created_ms);
        let from = self.place.unwrap_or_default();
        let source = self.settings.first().map_or(EventTime::Record, |settings| settings.record.event_time);
        let before = self.counts.first().map_or(0, |counts| counts.pages);
        let mut times = LineTimes { source, pages: before, latest: Timestamp::from_millis(from.latest_ms) };
        let (committed_at, files) = (self.plan.total_at(), self.plan.files.clone());
        for (number, file) in files.iter().enumerate().skip(from.file) {
            let partition = file.partition(number);
            while let Some(mut page) = self.next_page(&partition)? {
                times.pages += 1;
                if let PageAction::Ask(_, request) = &mut page.action {
                    let own = Some(request.event_time).filter(|time| *time != UNTIMED);
                    request.event_time = times.of(own);
                    page.event_time = request.event_time;
                    // The timestamp that consumers see; brokers refuse times before 1970.
                    if let Some(own) = own.filter(|time| time.millis() > 0) {
                        Arc::make_mut(&mut page.payload.record).timestamp = Some(own);
                    }
                }
                self.hold(page.payload.record.bytes())?;
                self.judge_page(&mut judges, page, bound)?;
                self.place = Some(FilePlace { latest_ms: times.latest.millis(), ..self.feed()?.place(&partition) });
                let pages = i64::try_from(times.pages).unwrap_or(i64::MAX);
                self.mark(&committed_at, pages);
                if self.is_full() {
                    self.flush_judges(&mut judges)?;
                }
            }
        }
        self.flush_judges(&mut judges)
    }
}
