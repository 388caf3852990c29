//! Matches pages with their verdicts: request, retry, read back from the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::events::{Blocked, Effect, PageAction, PageOutcome};
use super::followed_log::{FollowedLog, OutOfPlace, ScanEnd, ScanStep, VerdictUpdate};
use super::machine::Worker;
use super::queue::{PageState, Waiting};
use crate::protocol::{
    Answer, LogPartition, Request, RequestBody, RequestId, RequestOffset, Verdict, VerdictOffset, VerdictRecord,
};
use crate::record::{PartitionId, Source};

/// What a verdict means to a page that waits for one.
enum VerdictMatch {
    /// The page's end.
    End(PageOutcome),
    /// It does not answer what was asked: the page must be withdrawn.
    NoAnswer,
    /// It is about another page at the same place.
    Foreign,
}

impl<P> Worker<P> {
    // ---- following

    pub(super) fn followed(&mut self, now: Duration, log: LogPartition, offset: VerdictOffset, record: &VerdictRecord) {
        let Some(followed) = self.logs.get_mut(log.index()) else { return };
        match followed.follow(offset, record) {
            Ok(updates) => updates.into_iter().for_each(|update| self.on_update(now, log, update)),
            Err(OutOfPlace) => self.restart_following(log),
        }
    }

    /// The log was trimmed past our position or replaced: what is known of it is discarded.
    pub(super) fn restart_following(&mut self, log: LogPartition) {
        let Some(followed) = self.logs.get_mut(log.index()) else { return };
        *followed = FollowedLog::new(self.settings.remembered_of_each_log());
        // Where the latest checkpoint is said to be may be out of date as well: the log's beginning is not.
        self.follow_from(log, None);
        for source in self.partitions.pages_in(|state| is_open_on(state, log)) {
            self.partitions.set_state(&source, PageState::New);
        }
    }

    fn on_update(&mut self, now: Duration, log: LogPartition, update: VerdictUpdate) {
        match update {
            VerdictUpdate::Judged(verdict) => {
                let Some(source) = verdict.answer.judged_source() else { return };
                let time = if let Answer::Page(page) = &verdict.answer { Some(page.event_time) } else { None };
                self.pacer.judged(now, source, time);
                self.answer(log, source, &verdict);
            }
            VerdictUpdate::Reopened { partition, from, to } => self.reopened(log, &partition, from, to),
            VerdictUpdate::Passed(next_request) => {
                // Requests that the judge has passed are answered; what was not is asked again.
                let Some(followed) = self.logs.get_mut(log.index()) else { return };
                followed.passed(next_request).for_each(|request| self.passed(now, request));
            }
            VerdictUpdate::RequestsLost => {
                let Some(followed) = self.logs.get_mut(log.index()) else { return };
                followed.forget_requests();
                self.partitions.written_requests(log).into_iter().for_each(|request| self.ask_again(request));
            }
        }
    }

    /// A page waits at this position: the verdict is its end. The last verdict counts.
    fn answer(&mut self, log: LogPartition, source: &Source, verdict: &Arc<Verdict>) {
        let Some(waiting) = self.partitions.page(source) else {
            self.outgoing.doubt(&source.partition, source.offset);
            return;
        };
        match match_verdict(&waiting.page().action, verdict) {
            VerdictMatch::End(outcome) => self.settle(source, PageState::Ready(outcome)),
            VerdictMatch::NoAnswer => {}
            VerdictMatch::Foreign => self.partitions.block_at(source, log, Blocked::ForeignPage(source.offset)),
        }
    }

    /// Sets how far a page has come. If it held up its partition, reading continues after it.
    fn settle(&mut self, source: &Source, state: PageState) {
        let before = self.partitions.set_state(source, state);
        if matches!(before, Some(PageState::Blocked(_)))
            && let Some(queue) = self.partitions.get_mut(&source.partition)
        {
            let from = queue.unblock();
            self.effects.push_back(Effect::Seek { partition: source.partition.clone(), from });
        }
    }

    fn reopened(&mut self, log: LogPartition, partition: &PartitionId, from: i64, to: i64) {
        self.ask_for_offset_again(partition);
        self.outgoing.doubt(partition, from);
        let Some(queue) = self.partitions.get(partition) else { return };
        let is_reopened = |action: &PageAction| match action {
            PageAction::Ask(of, _) | PageAction::Withdraw(of, _) => *of == log,
            PageAction::Settled(_) => false,
        };
        let pages = queue.waiting().map(Waiting::page);
        let pages = pages.filter(|page| (from..to).contains(&page.source.offset) && is_reopened(&page.action));
        let again: Vec<Source> = pages.map(|page| page.source.clone()).collect();
        for source in &again {
            self.settle(source, PageState::New);
        }
        again.iter().for_each(|source| self.resolve(source));
    }

    // ---- asking

    /// Resolves every page that nothing was done about yet.
    pub(super) fn resolve_all(&mut self) {
        self.partitions.pages_in(|state| *state == PageState::New).iter().for_each(|source| self.resolve(source));
    }

    /// Finds out what is to be done about a new page: its end is known, or it is asked about, or read back.
    pub(super) fn resolve(&mut self, source: &Source) {
        let Some(queue) = self.partitions.get_mut(&source.partition) else { return };
        let Some(waiting) = queue.page(source.offset).filter(|waiting| *waiting.state() == PageState::New) else {
            return;
        };
        if let (&PageAction::Ask(log, _), Some(reason)) = (&waiting.page().action, self.outgoing.refusal(source)) {
            queue.withdraw(source.offset, log, reason);
        }
        let Some(waiting) = queue.page(source.offset) else { return };
        let action = &waiting.page().action;
        let log = match action {
            PageAction::Settled(outcome) => {
                let outcome = outcome.clone();
                self.partitions.set_state(source, PageState::Ready(outcome));
                return;
            }
            PageAction::Ask(log, _) | PageAction::Withdraw(log, _) => *log,
        };
        let Some(followed) = self.logs.get_mut(log.index()) else { return };
        if !queue.may_ask() || !followed.is_learned() {
            return;
        }
        match followed.verdict(source).map(|verdict| match_verdict(action, verdict)) {
            Some(VerdictMatch::End(outcome)) => {
                self.partitions.set_state(source, PageState::Ready(outcome));
            }
            Some(VerdictMatch::Foreign) => {
                self.partitions.block_at(source, log, Blocked::ForeignPage(source.offset));
            }
            None if followed.is_judged(source) && matches!(action, PageAction::Ask(..)) => {
                followed.want_scan();
                self.partitions.set_state(source, PageState::AwaitingScan(log));
            }
            Some(VerdictMatch::NoAnswer) | None => {
                if let Some(body) = request_body(source, action) {
                    let id = self.partitions.ask(source, log);
                    self.effects.push_back(Effect::Append(log, Request { id, body }));
                }
            }
        }
    }

    pub(super) fn appended(&mut self, now: Duration, request: RequestId, result: Result<RequestOffset, ()>) {
        let Some((_, log)) = self.partitions.asked_at(request, result.ok()) else { return };
        let Some(followed) = self.logs.get_mut(log.index()) else { return };
        match result {
            Ok(offset) if followed.asked(request, offset) => {}
            Ok(_) => self.passed(now, request),
            Err(()) => self.ask_again(request),
        }
    }

    /// The judge has passed a request. If its page still waits, it is asked about again: at once, or after a while when
    /// that was of no use before.
    fn passed(&mut self, now: Duration, request: RequestId) {
        if !self.partitions.waits_for(request) {
            return;
        }
        if self.unanswered.remembered() > 2 * self.partitions.requests() {
            self.unanswered.retain(|request| self.partitions.waits_for(request));
        }
        if self.unanswered.passed(now, request) {
            self.ask_again(request);
        }
    }

    /// Makes the requests again whose time has come.
    pub(super) fn ask_unanswered_again(&mut self, now: Duration) {
        self.unanswered.take_due(now).for_each(|request| self.ask_again(request));
    }

    /// The request was lost, or passed without a verdict: the position was judged before, or it is asked again,
    /// by the same id.
    fn ask_again(&mut self, request: RequestId) {
        let Some((source, log)) = self.partitions.asked_at(request, None) else { return };
        let Some(waiting) = self.partitions.page(&source) else { return };
        let action = &waiting.page().action;
        let is_judged = self.logs.get(log.index()).is_some_and(|log| log.is_judged(&source));
        if is_judged && matches!(action, PageAction::Ask(..)) {
            self.partitions.set_state(&source, PageState::New);
            self.resolve(&source);
        } else if let Some(body) = request_body(&source, action) {
            self.effects.push_back(Effect::Append(log, Request { id: request, body }));
        }
    }

    // ---- reading back

    /// Begins to read back what pages wait for, once for all partitions that need it.
    pub(super) fn scan_unknown_verdicts(&mut self) {
        for log in LogPartition::first(self.logs.len()) {
            if self.logs.get_mut(log.index()).is_some_and(FollowedLog::takes_scan) {
                self.scan_missing(log);
            }
        }
    }

    fn scan_missing(&mut self, log: LogPartition) {
        let mut first: BTreeMap<PartitionId, i64> = BTreeMap::new();
        for source in self.partitions.pages_in(|state| *state == PageState::AwaitingScan(log)) {
            first.entry(source.partition).or_insert(source.offset);
        }
        if let Some(followed) = self.logs.get_mut(log.index()).filter(|_| !first.is_empty()) {
            let from = followed.scan(first, self.settings.scanned_of_each_log());
            self.effects.push_back(Effect::ScanVerdicts { log, from });
        }
    }

    pub(super) fn scanned(&mut self, log: LogPartition, record: &VerdictRecord) {
        match self.logs.get_mut(log.index()).map(|followed| followed.scanned(record)) {
            Some(ScanStep::RestartAt(from)) => self.effects.push_back(Effect::ScanVerdicts { log, from }),
            Some(ScanStep::Done) => {
                self.effects.push_back(Effect::EndScan(log));
                self.resolve_scanned(log);
            }
            Some(ScanStep::Continue) | None => {}
        }
    }

    pub(super) fn scan_moved(&mut self, log: LogPartition) {
        if self.logs.get_mut(log.index()).is_some_and(FollowedLog::scan_from_beginning) {
            self.effects.push_back(Effect::ScanVerdicts { log, from: None });
        }
    }

    pub(super) fn scanned_to_end(&mut self, log: LogPartition) {
        match self.logs.get_mut(log.index()).and_then(FollowedLog::scanned_to_end) {
            Some(ScanEnd::FromBeginning) => self.effects.push_back(Effect::ScanVerdicts { log, from: None }),
            Some(ScanEnd::Done) => self.resolve_scanned(log),
            None => {}
        }
    }

    /// What can be read back was: pages that it was looked for have their verdict now, or it is gone for good.
    fn resolve_scanned(&mut self, log: LogPartition) {
        let awaits_scan = |state: &PageState| *state == PageState::AwaitingScan(log);
        for source in self.partitions.pages_in(awaits_scan) {
            if !self.logs.get_mut(log.index()).is_some_and(|followed| followed.was_scanned_for(&source)) {
                continue;
            }
            self.partitions.set_state(&source, PageState::New);
            self.resolve(&source);
            if self.partitions.page(&source).is_some_and(|waiting| awaits_scan(waiting.state())) {
                // It is judged, and the log no longer says how: nothing after it can be delivered either.
                self.partitions.block_at(&source, log, Blocked::VerdictLost);
            }
        }
    }
}

/// What is asked about a page; nothing if its end is known without.
fn request_body(source: &Source, action: &PageAction) -> Option<RequestBody> {
    match action {
        PageAction::Ask(_, page) => Some(RequestBody::Page(page.clone())),
        PageAction::Withdraw(_, reason) => Some(RequestBody::Withdraw { source: source.clone(), reason: *reason }),
        PageAction::Settled(_) => None,
    }
}

/// What a verdict means to a page.
fn match_verdict(action: &PageAction, verdict: &Arc<Verdict>) -> VerdictMatch {
    match (&verdict.answer, action) {
        (Answer::Withdrawn { reason, .. }, _) => VerdictMatch::End(PageOutcome::DeadLetter(*reason)),
        (Answer::Page(page), PageAction::Ask(_, request)) if page.digest == request.digest => {
            VerdictMatch::End(PageOutcome::Judged(Arc::clone(verdict)))
        }
        (Answer::Page(_), PageAction::Ask(..)) => VerdictMatch::Foreign,
        (Answer::Page(_) | Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. }, _) => {
            VerdictMatch::NoAnswer
        }
    }
}

/// Returns whether a page waits for something from this log.
fn is_open_on(state: &PageState, log: LogPartition) -> bool {
    match state {
        PageState::Asked { log: on, .. } | PageState::AwaitingScan(on) => *on == log,
        PageState::New | PageState::Blocked(_) | PageState::Ready(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::RequestOffset;
    use crate::worker::Event;
    use crate::worker::tests::{LOG, TestWorker};

    fn request(effects: &[Effect<()>]) -> Option<RequestId> {
        effects
            .iter()
            .find_map(|effect| if let Effect::Append(_, Request { id, .. }) = effect { Some(*id) } else { None })
    }

    #[test]
    fn a_request_that_is_passed_again_and_again_is_made_ever_more_rarely() {
        let mut bench = TestWorker::new(vec![]);
        bench.offsets([Some(0), Some(0)]);
        let mut asked = request(&bench.page(0, 0, 1));
        let mut times = Vec::new();
        // The judge passes each request within ten milliseconds, and says nothing about the page.
        for next in 1.. {
            if bench.now > Duration::from_mins(5) {
                break;
            }
            if let Some(id) = asked.take() {
                times.push(bench.now.as_secs());
                bench.handle(Event::Appended(id, Ok(RequestOffset(next - 1))));
                assert!(bench.worker.waits_for(id));
            }
            let mut effects = bench.pass(next);
            bench.now += Duration::from_millis(10);
            effects.extend(bench.handle(Event::Tick));
            asked = request(&effects);
            assert!(!effects.iter().any(|effect| matches!(effect, Effect::Append(log, _) if *log != LOG)));
        }
        assert_eq!(times, [0, 0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
        assert_eq!(bench.worker.status().unanswered, 1);
    }

    #[test]
    fn every_request_is_made_again_once_the_judge_has_gone_back_in_the_log() {
        let mut bench = TestWorker::new(vec![]);
        bench.offsets([Some(0), Some(0)]);
        let asked = |bench: &mut TestWorker, page| request(&bench.page(0, page, 1)).expect("it is asked about");
        let ids = [0, 1, 2].map(|page| asked(&mut bench, page));
        let written =
            |bench: &mut TestWorker, id, offset| request(&bench.handle(Event::Appended(id, Ok(RequestOffset(offset)))));
        bench.pass(70);
        assert_eq!(written(&mut bench, ids[0], 71), None, "the log is recreated before it is read");
        assert_eq!(written(&mut bench, ids[1], 0), Some(ids[1]), "seems to be passed");
        assert_eq!(written(&mut bench, ids[1], 1), None, "waits for a while");
        let again: Vec<RequestId> =
            bench.pass(2).iter().filter_map(|effect| request(std::slice::from_ref(effect))).collect();
        assert_eq!(again, ids[..2], "the third is not written yet");
        assert_eq!(written(&mut bench, ids[0], 3), None);
        assert_eq!(written(&mut bench, ids[2], 2), None);
        assert_eq!(request(&bench.pass(3)), Some(ids[2]));
    }
}
