//! Matches pages with their verdicts: request, retry, read back from the log.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::blocked::Blocked;
use super::events::{Effect, LogPartition, PageAction, PageOutcome, ReadFrom};
use super::machine::Worker;
use super::queue::{InitialOffset, PageState, PartitionQueue};
use super::verdict_cache::{OutOfPlace, VerdictCache, VerdictUpdate};
use super::verdict_scan::{Reading, VerdictScan};
use crate::protocol::{Answer, Request, RequestBody, RequestId, RequestOffset, Verdict, VerdictOffset, VerdictRecord};
use crate::record::{PartitionId, Source};

/// What a verdict means to a page that waits for one.
enum VerdictMatch {
    /// The page's end.
    End(PageOutcome),
    /// It does not answer what was asked: the page wants to be withdrawn.
    NoAnswer,
    /// It is about another page at the same place.
    Foreign,
}

impl<P> Worker<P> {
    // ---- following

    pub(super) fn followed(&mut self, now: Duration, log: LogPartition, offset: VerdictOffset, record: &VerdictRecord) {
        let Some(followed) = self.logs.get_mut(log) else { return };
        match followed.known.follow(offset, record) {
            Ok(news) => news.into_iter().for_each(|news| self.on_update(now, log, news)),
            Err(OutOfPlace) => self.restart_following(log),
        }
    }

    /// The log was trimmed past our position or replaced: discard the cache.
    pub(super) fn restart_following(&mut self, log: LogPartition) {
        let Some(followed) = self.logs.get_mut(log) else { return };
        followed.known = VerdictCache::new(self.settings.remembered_of_each_log());
        followed.recall = None;
        followed.wants_recall = false;
        followed.asked.clear();
        // Where the latest checkpoint is said to be may be out of date as well: the log's beginning is not.
        self.follow_from(log, None);
        for waiting in self.queues.values_mut().flat_map(PartitionQueue::waiting_mut) {
            if is_open_on(&waiting.stage, log) {
                forget_request(&mut self.requests, &waiting.stage);
                waiting.stage = PageState::New;
            }
        }
    }

    fn on_update(&mut self, now: Duration, log: LogPartition, news: VerdictUpdate) {
        match news {
            VerdictUpdate::Ruled(verdict) => {
                let Some(source) = verdict.answer.ruled_source() else { return };
                let time = if let Answer::Page(page) = &verdict.answer { Some(page.event_time) } else { None };
                self.progress.judged(now, source, time);
                if let Some(recall) = self.logs.get_mut(log).and_then(|log| log.recall.as_mut()) {
                    recall.superseded(source, &verdict);
                }
                self.answer(log, source, &verdict);
            }
            VerdictUpdate::Reopened { partition, from, to } => self.reopened(log, &partition, from, to),
            VerdictUpdate::Passed(next_request) => self.passed(log, next_request),
        }
    }

    /// A page waits at this position: the verdict is its end. The last verdict counts.
    fn answer(&mut self, log: LogPartition, source: &Source, verdict: &Arc<Verdict>) {
        let Some(queue) = self.queues.get_mut(&source.partition) else { return };
        let Some(waiting) = queue.page_mut(source.offset) else { return };
        match match_verdict(&waiting.page.action, verdict) {
            VerdictMatch::End(outcome) => {
                let was_blocked = matches!(waiting.stage, PageState::Blocked(_));
                forget_request(&mut self.requests, &waiting.stage);
                waiting.stage = PageState::Ready(outcome);
                if was_blocked {
                    self.unblock(source);
                }
            }
            VerdictMatch::NoAnswer => {}
            VerdictMatch::Foreign => {
                forget_request(&mut self.requests, &waiting.stage);
                waiting.stage = PageState::Blocked(log);
                queue.block_at(source.offset, Blocked::ForeignPage(source.offset));
            }
        }
    }

    fn reopened(&mut self, log: LogPartition, partition: &PartitionId, from: i64, to: i64) {
        if let Some(followed) = self.logs.get_mut(log)
            && let Some(recall) = followed.recall.as_mut()
        {
            recall.reopened(partition, from, to);
            if recall.is_reading() && recall.wants_any(partition, from, to) {
                // It may end before the reopening and find what is void now: it begins again.
                followed.recall = None;
                followed.wants_recall = true;
            }
        }
        self.ask_for_offset_again(partition);
        let Some(queue) = self.queues.get_mut(partition) else { return };
        let mut again = Vec::new();
        for waiting in queue.waiting_mut() {
            let action_log = match &waiting.page.action {
                PageAction::Ask(log, _) | PageAction::Withdraw(log, _) => *log,
                PageAction::Settled(_) => continue,
            };
            if action_log == log && (from..to).contains(&waiting.page.source.offset) {
                again.push((waiting.page.source.clone(), matches!(waiting.stage, PageState::Blocked(_))));
                forget_request(&mut self.requests, &waiting.stage);
                waiting.stage = PageState::New;
            }
        }
        for (source, was_blocked) in again {
            if was_blocked {
                self.unblock(&source);
            }
            self.resolve(&source);
        }
    }

    /// Requests that the judge has passed are answered; what was not is asked again.
    fn passed(&mut self, log: LogPartition, next_request: RequestOffset) {
        let Some(followed) = self.logs.get_mut(log) else { return };
        let later = followed.asked.split_off(&next_request);
        let answered = std::mem::replace(&mut followed.asked, later);
        for request in answered.into_values().flatten() {
            self.ask_again(request);
        }
    }

    // ---- asking

    /// Resolves every page that nothing was done about yet.
    pub(super) fn resolve_all(&mut self) {
        let new: Vec<Source> = self
            .queues
            .values()
            .flat_map(PartitionQueue::waiting)
            .filter(|waiting| waiting.stage == PageState::New)
            .map(|waiting| waiting.page.source.clone())
            .collect();
        new.iter().for_each(|source| self.resolve(source));
    }

    /// Finds out what is to be done about a new page: its end is known, or it is asked about, or read back.
    pub(super) fn resolve(&mut self, source: &Source) {
        let Some(queue) = self.queues.get_mut(&source.partition) else { return };
        let may_ask = queue.initial_offset == InitialOffset::Committed && !queue.leaving;
        let Some(waiting) = queue.page_mut(source.offset).filter(|waiting| waiting.stage == PageState::New) else {
            return;
        };
        if let (PageAction::Ask(log, _), Some(&reason)) = (&waiting.page.action, self.undeliverable.get(source)) {
            waiting.page.action = PageAction::Withdraw(*log, reason);
        }
        let (log, body) = match &waiting.page.action {
            PageAction::Settled(outcome) => {
                waiting.stage = PageState::Ready(outcome.clone());
                return;
            }
            PageAction::Ask(log, request) => (*log, RequestBody::Page(request.clone())),
            PageAction::Withdraw(log, reason) => {
                (*log, RequestBody::Withdraw { source: source.clone(), reason: *reason })
            }
        };
        let Some(followed) = self.logs.get(log) else { return };
        if !may_ask || !followed.known.is_learned() {
            return;
        }
        let read_back = || followed.recall.as_ref().and_then(|recall| recall.found(source));
        let verdict = followed.known.verdict(source).or_else(read_back);
        match verdict.map(|verdict| match_verdict(&waiting.page.action, verdict)) {
            Some(VerdictMatch::End(outcome)) => waiting.stage = PageState::Ready(outcome),
            Some(VerdictMatch::Foreign) => {
                waiting.stage = PageState::Blocked(log);
                queue.block_at(source.offset, Blocked::ForeignPage(source.offset));
            }
            None if followed.known.is_judged(source) && matches!(body, RequestBody::Page(_)) => {
                waiting.stage = PageState::Recalling(log);
                if let Some(followed) = self.logs.get_mut(log) {
                    followed.wants_recall = true;
                }
            }
            Some(VerdictMatch::NoAnswer) | None => {
                let request = RequestId(self.next_request);
                self.next_request = self.next_request.wrapping_add(1);
                waiting.stage = PageState::Asked { log, request, offset: None };
                self.requests.insert(request, source.clone());
                self.effects.push_back(Effect::Append(log, Request { id: request, body }));
            }
        }
    }

    pub(super) fn appended(&mut self, request: RequestId, result: Result<RequestOffset, ()>) {
        let Some(source) = self.requests.get(&request) else { return };
        let queue = self.queues.get_mut(&source.partition);
        let Some(waiting) = queue.and_then(|queue| queue.page_mut(source.offset)) else { return };
        let PageState::Asked { log, request: asked, offset } = &mut waiting.stage else { return };
        if *asked != request {
            return;
        }
        match result {
            Ok(appended) => {
                *offset = Some(appended);
                let log = *log;
                let Some(followed) = self.logs.get_mut(log) else { return };
                if appended < followed.known.next_request() {
                    self.ask_again(request);
                } else {
                    followed.asked.entry(appended).or_default().push(request);
                }
            }
            Err(()) => self.ask_again(request),
        }
    }

    /// The request was lost, or passed without a verdict: the position was judged before, or it is asked once more,
    /// by the same id.
    fn ask_again(&mut self, request: RequestId) {
        let Some(source) = self.requests.get(&request).cloned() else { return };
        let queue = self.queues.get_mut(&source.partition);
        let Some(waiting) = queue.and_then(|queue| queue.page_mut(source.offset)) else { return };
        let log = match &mut waiting.stage {
            PageState::Asked { log, request: asked, offset } if *asked == request => {
                *offset = None;
                *log
            }
            PageState::Asked { .. }
            | PageState::New
            | PageState::Recalling(_)
            | PageState::Blocked(_)
            | PageState::Ready(_) => return,
        };
        let body = match &waiting.page.action {
            PageAction::Ask(_, page) => {
                if self.logs.get(log).is_some_and(|log| log.known.is_judged(&source)) {
                    waiting.stage = PageState::New;
                    self.requests.remove(&request);
                    self.resolve(&source);
                    return;
                }
                RequestBody::Page(page.clone())
            }
            PageAction::Withdraw(_, reason) => RequestBody::Withdraw { source, reason: *reason },
            PageAction::Settled(_) => return,
        };
        self.effects.push_back(Effect::Append(log, Request { id: request, body }));
    }

    // ---- reading back

    /// Begins to read back what pages wait for, once for all partitions that need it.
    pub(super) fn recall_what_is_missing(&mut self) {
        for log in 0..self.logs.len() {
            let Some(followed) = self.logs.get_mut(log) else { return };
            let reading = followed.recall.as_ref().is_some_and(VerdictScan::is_reading);
            if followed.wants_recall && !reading {
                followed.wants_recall = false;
                self.recall_missing(log);
            }
        }
    }

    fn recall_missing(&mut self, log: LogPartition) {
        let mut first: BTreeMap<PartitionId, i64> = BTreeMap::new();
        for (partition, queue) in &self.queues {
            let missing = queue.waiting().find(|waiting| waiting.stage == PageState::Recalling(log));
            if let Some(waiting) = missing {
                first.insert(partition.clone(), waiting.page.source.offset);
            }
        }
        let Some(followed) = self.logs.get_mut(log).filter(|_| !first.is_empty()) else { return };
        let from = followed.known.latest_checkpoint();
        followed.recall = Some(VerdictScan::new(first, self.settings.recalled_of_each_log(), from));
        self.effects.push_back(Effect::Recall { log, from });
    }

    pub(super) fn recalled(&mut self, log: LogPartition, record: &VerdictRecord) {
        let Some(recall) = self.logs.get_mut(log).and_then(|log| log.recall.as_mut()) else { return };
        match recall.read(record) {
            Reading::On => {}
            Reading::From(from) => self.effects.push_back(Effect::Recall { log, from }),
        }
    }

    pub(super) fn recall_moved(&mut self, log: LogPartition) {
        let Some(recall) = self.logs.get_mut(log).and_then(|log| log.recall.as_mut()) else { return };
        recall.log_begins_later();
        self.effects.push_back(Effect::Recall { log, from: None });
    }

    pub(super) fn recalled_to_end(&mut self, log: LogPartition) {
        let Some(recall) = self.logs.get_mut(log).and_then(|log| log.recall.as_mut()) else { return };
        if recall.is_walking() {
            // There is no checkpoint where there should be one.
            self.recall_moved(log);
            return;
        }
        recall.finish();
        let missing: Vec<Source> = self
            .queues
            .values()
            .flat_map(PartitionQueue::waiting)
            .filter(|waiting| waiting.stage == PageState::Recalling(log))
            .map(|waiting| waiting.page.source.clone())
            .collect();
        for source in missing {
            let Some(followed) = self.logs.get_mut(log) else { return };
            let wanted = followed.recall.as_ref().is_some_and(|recall| recall.wants(&source));
            followed.wants_recall |= !wanted;
            let Some(queue) = self.queues.get_mut(&source.partition) else { continue };
            let Some(waiting) = queue.page_mut(source.offset).filter(|_| wanted) else { continue };
            waiting.stage = PageState::New;
            self.resolve(&source);
            let Some(queue) = self.queues.get_mut(&source.partition) else { continue };
            if let Some(waiting) = queue.page_mut(source.offset).filter(|page| page.stage == PageState::Recalling(log))
            {
                // It is judged, and the log does not say how any more: nothing behind it can be delivered either.
                waiting.stage = PageState::Blocked(log);
                queue.block_at(source.offset, Blocked::VerdictLost);
            }
        }
    }

    /// The page that held up its partition has a verdict, or may be asked about: reading goes on behind it.
    fn unblock(&mut self, source: &Source) {
        if let Some(queue) = self.queues.get_mut(&source.partition) {
            queue.blocked = None;
            let from = ReadFrom::Offset(queue.next);
            self.effects.push_back(Effect::Seek { partition: source.partition.clone(), from });
        }
    }
}

/// What a verdict means to a page.
fn match_verdict(action: &PageAction, verdict: &Arc<Verdict>) -> VerdictMatch {
    match (&verdict.answer, action) {
        (Answer::Withdrawn { reason, .. }, _) => VerdictMatch::End(PageOutcome::DeadLetter(*reason)),
        (Answer::Page(page), PageAction::Ask(_, request)) if page.digest == request.digest => {
            VerdictMatch::End(PageOutcome::Ruled(Arc::clone(verdict)))
        }
        (Answer::Page(_), PageAction::Ask(..)) => VerdictMatch::Foreign,
        (Answer::Page(_) | Answer::Forgotten(_) | Answer::Reopened { .. }, _) => VerdictMatch::NoAnswer,
    }
}

/// The answer to a page's request is not waited for any more.
fn forget_request(requests: &mut HashMap<RequestId, Source>, stage: &PageState) {
    if let PageState::Asked { request, .. } = stage {
        requests.remove(request);
    }
}

/// Says whether a page waits for something from this log.
fn is_open_on(stage: &PageState, log: LogPartition) -> bool {
    match stage {
        PageState::Asked { log: on, .. } | PageState::Recalling(on) => *on == log,
        PageState::New | PageState::Blocked(_) | PageState::Ready(_) => false,
    }
}
