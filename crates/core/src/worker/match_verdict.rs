//! Matches pages with their verdicts: request, retry, read back from the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::events::{Blocked, Effect, Page, PageAction, PageOutcome};
use super::followed_log::{FollowedLog, OutOfPlace, ScanStep, VerdictUpdate};
use super::machine::Worker;
use super::queue::{PageState, Waiting};
use crate::protocol::{Answer, LogPartition, Request, RequestId, RequestOffset, Verdict, VerdictOffset, VerdictRecord};
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

/// What a log is known to say about a page.
enum Known {
    /// The page's end.
    End(PageOutcome),
    /// The verdict on another page at the same place.
    Foreign,
    /// The page is judged, but its verdict must be read back.
    InLog,
    /// Nothing.
    Nothing,
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
            VerdictUpdate::DualPeriodOver => self.decide_alone(log),
        }
    }

    /// A page waits at this position: the verdict is its end, or that by the earlier scheme. The last verdict counts.
    fn answer(&mut self, log: LogPartition, source: &Source, verdict: &Arc<Verdict>) {
        let Some(page) = self.partitions.page(source).map(Waiting::page) else {
            if !self.settings.is_earlier(log) {
                self.outgoing.doubt(&source.partition, source.offset);
            }
            return;
        };
        let is_earlier = page.earlier_log() == Some(log);
        if is_earlier && page.unanswered_earlier_log().is_none() {
            return;
        }
        let found = match_verdict(&page.action, verdict);
        if is_earlier && self.is_void(page, matches!(found, VerdictMatch::Foreign)) {
            return;
        }
        match found {
            VerdictMatch::End(end) if is_earlier => self.take_earlier(source, Some(&end)),
            VerdictMatch::End(outcome) => self.settle(source, PageState::Ready(outcome)),
            VerdictMatch::NoAnswer => {}
            VerdictMatch::Foreign => self.partitions.block_at(source, log, Blocked::ForeignPage(source.offset)),
        }
    }

    /// Returns whether what the earlier scheme says of a page is of no account. After the dual period no judge of it is left
    /// that could reopen a range, so it may speak of another page: the position was reopened in the log of the current
    /// scheme, or the other page has another text.
    fn is_void(&self, page: &Page<P>, is_foreign: bool) -> bool {
        let own = page.log().and_then(|log| self.logs.get(log.index()));
        own.is_some_and(|log| !log.is_dual() && (is_foreign || log.is_reopened(&page.source)))
    }

    /// Goes on with a page about which the earlier scheme has said all it can.
    fn take_earlier(&mut self, source: &Source, end: Option<&PageOutcome>) {
        self.change(source, |page| page.take_earlier(end));
        self.settle(source, PageState::New);
        self.resolve(source);
    }

    fn change(&mut self, source: &Source, change: impl FnOnce(&mut Page<P>)) {
        if let Some(queue) = self.partitions.get_mut(&source.partition) {
            queue.change(source.offset, change);
        }
    }

    /// The log decides by itself from here on. Pages that the earlier scheme has judged by now still have its verdict,
    /// because others may be duplicates of them: its logs are read to their ends first.
    fn decide_alone(&mut self, log: LogPartition) {
        let logs: BTreeSet<LogPartition> = self.settings.earlier().collect();
        self.effects.extend(logs.iter().copied().map(Effect::FollowToEnd));
        if let Some(followed) = self.logs.get_mut(log.index()) {
            followed.await_ends(logs);
        }
        self.ask_for_offsets_again();
    }

    /// A log of the earlier scheme was read to its end: what still waits for its judge waits no longer where the log of
    /// the current scheme decides by itself.
    pub(super) fn earlier_log_ended(&mut self, ended: LogPartition) {
        self.logs.iter_mut().for_each(|followed| followed.reached_end_of(ended));
        let decides_alone = |log: LogPartition| self.logs.get(log.index()).is_some_and(|log| !log.is_dual());
        let waits = |waiting: &Waiting<P>| {
            waiting.page().unanswered_earlier_log() == Some(ended)
                && is_open_on(waiting.state(), ended)
                && waiting.page().log().is_some_and(decides_alone)
        };
        for source in self.partitions.pages_where(waits) {
            self.settle(&source, PageState::New);
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
        self.ask_for_offsets_again();
        self.outgoing.doubt(partition, from);
        let Some(queue) = self.partitions.get(partition) else { return };
        let is_reopened = |page: &&Page<P>| page.log() == Some(log) || page.earlier_log() == Some(log);
        let pages = queue.waiting().map(Waiting::page);
        let pages = pages.filter(|page| (from..to).contains(&page.source.offset)).filter(is_reopened);
        let again: Vec<Source> = pages.map(|page| page.source.clone()).collect();
        for source in &again {
            self.change(source, Page::ask_earlier_again);
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
        let Some(queue) = self.partitions.get(&source.partition) else { return };
        let Some(page) = queue.page(source.offset).map(Waiting::page) else { return };
        let Some(log) = page.log() else {
            if let PageAction::Settled(outcome) = &page.action {
                let outcome = outcome.clone();
                self.partitions.set_state(source, PageState::Ready(outcome));
            }
            return;
        };
        let first = page.unanswered_earlier_log();
        let is_learned = |log: LogPartition| self.logs.get(log.index()).is_some_and(FollowedLog::is_learned);
        if !queue.may_ask() || !is_learned(log) || first.is_some_and(|first| !is_learned(first)) {
            return;
        }
        match self.known(log, page) {
            Known::End(outcome) => drop(self.partitions.set_state(source, PageState::Ready(outcome))),
            Known::Foreign => self.partitions.block_at(source, log, Blocked::ForeignPage(source.offset)),
            Known::InLog => self.await_scan(source, log),
            Known::Nothing => match first.map(|first| (first, self.known_of_earlier(first, page))) {
                None => self.ask(source, log),
                Some((_, Known::End(end))) => self.take_earlier(source, Some(&end)),
                Some((first, Known::Foreign)) => {
                    self.partitions.block_at(source, first, Blocked::ForeignPage(source.offset));
                }
                Some((first, Known::InLog)) => self.await_scan(source, first),
                Some((first, Known::Nothing)) => match self.logs.get(log.index()) {
                    Some(followed) if followed.is_dual() => self.ask(source, first),
                    // Its log is being read to the end.
                    Some(followed) if followed.awaits_end_of(first) => {}
                    Some(_) | None => self.take_earlier(source, None),
                },
            },
        }
    }

    /// Returns what a log is known to say about a page.
    fn known(&self, log: LogPartition, page: &Page<P>) -> Known {
        let Some(followed) = self.logs.get(log.index()) else { return Known::Nothing };
        match followed.verdict(&page.source).map(|verdict| match_verdict(&page.action, verdict)) {
            Some(VerdictMatch::End(outcome)) => Known::End(outcome),
            Some(VerdictMatch::Foreign) => Known::Foreign,
            None if followed.is_judged(&page.source) && matches!(page.action, PageAction::Ask(..)) => Known::InLog,
            Some(VerdictMatch::NoAnswer) | None => Known::Nothing,
        }
    }

    /// Returns the same of the log of the earlier scheme.
    fn known_of_earlier(&self, log: LogPartition, page: &Page<P>) -> Known {
        let known = self.known(log, page);
        if self.is_void(page, matches!(known, Known::Foreign)) { Known::Nothing } else { known }
    }

    fn await_scan(&mut self, source: &Source, log: LogPartition) {
        if let Some(followed) = self.logs.get_mut(log.index()) {
            followed.want_scan();
            self.partitions.set_state(source, PageState::AwaitingScan(log));
        }
    }

    fn ask(&mut self, source: &Source, log: LogPartition) {
        let question = self.partitions.page(source).and_then(|waiting| waiting.page().question(log));
        if let Some(body) = question {
            let id = self.partitions.ask(source, log);
            self.effects.push_back(Effect::Append(log, Request { id, body }));
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
        let Some(page) = self.partitions.page(&source).map(Waiting::page) else { return };
        let is_judged = self.logs.get(log.index()).is_some_and(|log| log.is_judged(&source));
        if is_judged && matches!(page.action, PageAction::Ask(..)) {
            self.partitions.set_state(&source, PageState::New);
            self.resolve(&source);
        } else if let Some(body) = page.question(log) {
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
        let step = self.logs.get_mut(log.index()).map(|followed| followed.scanned(record));
        if step == Some(ScanStep::Done) {
            self.effects.push_back(Effect::EndScan(log));
        }
        self.next_of_scan(log, step);
    }

    pub(super) fn scan_moved(&mut self, log: LogPartition) {
        let step = self.logs.get_mut(log.index()).map(FollowedLog::scan_moved);
        self.next_of_scan(log, step);
    }

    pub(super) fn scanned_to_end(&mut self, log: LogPartition) {
        let step = self.logs.get_mut(log.index()).map(FollowedLog::scanned_to_end);
        self.next_of_scan(log, step);
    }

    fn next_of_scan(&mut self, log: LogPartition, step: Option<ScanStep>) {
        match step {
            Some(ScanStep::RestartAt(from)) => self.effects.push_back(Effect::ScanVerdicts { log, from }),
            Some(ScanStep::Done) => self.resolve_scanned(log),
            Some(ScanStep::Continue) | None => {}
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
            let is_lost = |waiting: &&Waiting<P>| awaits_scan(waiting.state());
            match self.partitions.page(&source).filter(is_lost).map(|waiting| waiting.page().earlier_log()) {
                // The earlier scheme has judged it, and its log no longer says how.
                Some(earlier) if earlier == Some(log) => self.take_earlier(&source, None),
                // It is judged, and the log no longer says how: nothing after it can be delivered either.
                Some(_) => self.partitions.block_at(&source, log, Blocked::VerdictLost),
                None => {}
            }
        }
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
    use crate::fingerprint::PageDigest;
    use crate::protocol::RequestOffset;
    use crate::protocol::{Decision, Match, MatchedBy, PageRequest, PageVerdict, RequestBody};
    use crate::record::{Reject, Timestamp};
    use crate::worker::tests::{EARLIER, LOG, TestWorker, input, page};
    use crate::worker::{Earlier, Event};

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

    /// What is asked of which log.
    fn asked(effects: &[Effect<()>]) -> Vec<(LogPartition, RequestBody)> {
        let of = |effect: &Effect<()>| {
            if let Effect::Append(log, request) = effect { Some((*log, request.body.clone())) } else { None }
        };
        effects.iter().filter_map(of).collect()
    }

    /// A page with a question to the earlier scheme.
    fn dual_page(offset: i64) -> Page<()> {
        let page = page(0, offset, 7);
        let PageAction::Ask(_, request) = &page.action else { panic!("it is asked about") };
        let earlier = Some(Box::new(Earlier::new(EARLIER, Some(request.clone()))));
        Page { earlier, ..page }
    }

    fn duplicate(source: Source) -> Verdict {
        let original = source.partition.at(99);
        let of = Match { by: MatchedBy::Exact, source: original.clone(), age_ms: 0, cluster: original };
        let (event_time, digest) = (Timestamp::default(), PageDigest(7));
        let page = PageVerdict { source, event_time, digest, decision: Decision::Duplicate { of } };
        Verdict { request: RequestId(0), answer: Answer::Page(page) }
    }

    /// The page that alone is asked about, of the log of the new scheme.
    fn asked_new(asked: &[(LogPartition, RequestBody)]) -> Option<&PageRequest> {
        if let [(LOG, RequestBody::Page(page))] = asked { Some(page) } else { None }
    }

    #[test]
    fn in_the_dual_period_the_earlier_scheme_is_asked_first_and_its_decision_goes_on() {
        let mut bench = TestWorker::in_dual_period();
        let page = dual_page(0);
        let source = page.source.clone();
        let first = asked(&bench.handle(Event::Page(page)));
        assert!(matches!(first[..], [(EARLIER, RequestBody::Page(_))]), "{first:?}");
        let verdict = duplicate(source);
        let then = asked(&bench.follow_of(EARLIER, vec![verdict.clone()], 1));
        let Answer::Page(judged) = &verdict.answer else { panic!("a page") };
        let then = asked_new(&then).expect("it is asked about");
        assert_eq!(then.earlier.as_deref(), Some(&judged.decision));
        assert_eq!(bench.worker.status().waiting, 1);
    }

    #[test]
    fn what_the_earlier_scheme_withdraws_is_withdrawn_from_both() {
        let mut bench = TestWorker::in_dual_period();
        let page = dual_page(0);
        let source = page.source.clone();
        bench.handle(Event::Page(page));
        let answer = Answer::Withdrawn { source: source.clone(), reason: Reject::Refused };
        let then = asked(&bench.follow_of(EARLIER, vec![Verdict { request: RequestId(0), answer }], 1));
        assert_eq!(then, [(LOG, RequestBody::Withdraw { source, reason: Reject::Refused })]);
    }

    #[test]
    fn a_page_that_cannot_be_delivered_is_withdrawn_from_both_logs() {
        let mut bench = TestWorker::in_dual_period();
        let source = input(0).at(0);
        let withdrawn = RequestBody::Withdraw { source: source.clone(), reason: Reject::TextPanic };
        let earlier = Some(Box::new(Earlier::new(EARLIER, None)));
        let action = PageAction::Withdraw(LOG, Reject::TextPanic);
        let first = asked(&bench.handle(Event::Page(Page { action, earlier, ..page(0, 0, 7) })));
        assert_eq!(first, [(EARLIER, withdrawn.clone())]);
        let answer = Answer::Withdrawn { source, reason: Reject::TextPanic };
        let then = asked(&bench.follow_of(EARLIER, vec![Verdict { request: RequestId(0), answer }], 1));
        assert_eq!(then, [(LOG, withdrawn)]);
    }

    #[test]
    fn after_the_dual_period_a_page_waits_until_the_earlier_log_is_read_to_its_end() {
        let mut bench = TestWorker::in_dual_period();
        let pages = [dual_page(0), dual_page(1)];
        let sources = pages.clone().map(|page| page.source);
        pages.into_iter().for_each(|page| drop(bench.handle(Event::Page(page))));
        let effects = bench.end_dual_period();
        assert_eq!(asked(&effects), [], "the earlier scheme may have judged them");
        assert!(effects.iter().any(|effect| matches!(effect, Effect::FollowToEnd(EARLIER))), "{effects:?}");
        let later = dual_page(2);
        assert_eq!(asked(&bench.handle(Event::Page(later))), []);
        // It had judged one of them.
        let judged = asked(&bench.follow_of(EARLIER, vec![duplicate(sources[0].clone())], 1));
        let earlier = asked_new(&judged).and_then(|page| page.earlier.as_deref());
        assert!(matches!(earlier, Some(Decision::Duplicate { .. })), "{judged:?}");
        let alone = asked(&bench.handle(Event::FollowedToEnd(EARLIER)));
        let offsets: Vec<i64> = alone
            .iter()
            .filter_map(|(log, body)| body.page().filter(|page| *log == LOG && page.earlier.is_none()))
            .map(|page| page.source.offset)
            .collect();
        assert_eq!(offsets, [1, 2], "{alone:?}");
        let last = asked(&bench.handle(Event::Page(dual_page(3))));
        assert!(asked_new(&last).is_some_and(|page| page.earlier.is_none()), "{last:?}");
    }

    #[test]
    fn after_the_dual_period_the_earlier_log_has_no_say_about_a_topic_that_was_created_again() {
        let withdrawn = |at| {
            let answer = Answer::Withdrawn { source: input(0).at(at), reason: Reject::Refused };
            Verdict { request: RequestId(0), answer }
        };
        let foreign = Verdict {
            answer: Answer::Page(PageVerdict {
                source: input(0).at(1),
                event_time: Timestamp::default(),
                digest: PageDigest(8),
                decision: Decision::Unique { original: None },
            }),
            request: RequestId(0),
        };
        let mut bench = TestWorker::after_earlier(vec![withdrawn(0), foreign, withdrawn(2)]);
        bench.offsets([Some(0), Some(0)]);
        bench.end_dual_period();
        bench.handle(Event::FollowedToEnd(EARLIER));
        // The page at 0 was judged by the current scheme, too, and its range was reopened.
        let reopened = Answer::Reopened { partition: input(0), from: 0, to: 1 };
        bench.follow_of(LOG, vec![withdrawn(0), Verdict { request: RequestId(9), answer: reopened }], 1);
        for at in [0, 1] {
            let alone = asked(&bench.handle(Event::Page(dual_page(at))));
            assert!(asked_new(&alone).is_some_and(|page| page.earlier.is_none()), "{at}: {alone:?}");
        }
        assert_eq!(bench.why(), []);
        let last = asked(&bench.handle(Event::Page(dual_page(2))));
        assert!(matches!(last[..], [(LOG, RequestBody::Withdraw { .. })]), "it may be this page: {last:?}");
    }
}
