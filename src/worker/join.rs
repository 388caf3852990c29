//! A page meets its ruling: ask, ask again, read back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::blocked::Blocked;
use super::events::{Disposition, Effect, Errand, LogPartition, ReadFrom};
use super::known::{Known, News, OutOfPlace};
use super::lane::{Anchor, Lane, Stage};
use super::life::Worker;
use super::recall::{Reading, Recall};
use crate::log::{Answer, Entry, EntryBody, RequestId, Ruling, VerdictRecord};
use crate::record::{PartitionId, Source};

/// What a ruling means to a page that waits for one.
enum Meeting {
    /// The page's end.
    End(Disposition),
    /// It does not answer what was asked: the page wants to be withdrawn.
    NoAnswer,
    /// It is about another page at the same place.
    Foreign,
}

impl<P> Worker<P> {
    // ---- following

    pub(super) fn followed(&mut self, now: Duration, log: LogPartition, offset: i64, record: &VerdictRecord) {
        let Some(followed) = self.logs.get_mut(log) else { return };
        match followed.known.follow(offset, record) {
            Ok(news) => news.into_iter().for_each(|news| self.heard(now, log, news)),
            Err(OutOfPlace) => self.learn_anew(log),
        }
    }

    /// The log was trimmed past us, or replaced: what is known of it is gone.
    pub(super) fn learn_anew(&mut self, log: LogPartition) {
        let Some(followed) = self.logs.get_mut(log) else { return };
        followed.known = Known::new(self.settings.remembered_of_each_log());
        followed.recall = None;
        followed.wants_recall = false;
        followed.asked.clear();
        // Where the latest checkpoint is said to be may be out of date as well: the log's beginning is not.
        self.follow_from(log, None);
        for waiting in self.lanes.values_mut().flat_map(Lane::waiting_mut) {
            if is_open_on(&waiting.stage, log) {
                forget_request(&mut self.requests, &waiting.stage);
                waiting.stage = Stage::New;
            }
        }
    }

    fn heard(&mut self, now: Duration, log: LogPartition, news: News) {
        match news {
            News::Ruled(ruling) => {
                let Some(source) = ruling.answer.ruled_source() else { return };
                let time = if let Answer::Page(page) = &ruling.answer { Some(page.event_time) } else { None };
                self.progress.judged(now, source, time);
                if let Some(recall) = self.logs.get_mut(log).and_then(|log| log.recall.as_mut()) {
                    recall.superseded(source, &ruling);
                }
                self.answer(log, source, &ruling);
            }
            News::Reopened { partition, from, to } => self.reopened(log, &partition, from, to),
            News::Passed(next_entry) => self.passed(log, next_entry),
        }
    }

    /// A page waits at this position: the ruling is its end. The last ruling counts.
    fn answer(&mut self, log: LogPartition, source: &Source, ruling: &Arc<Ruling>) {
        let Some(lane) = self.lanes.get_mut(&source.partition) else { return };
        let Some(waiting) = lane.page_mut(source.offset) else { return };
        match meet(&waiting.page.errand, ruling) {
            Meeting::End(disposition) => {
                let was_blocked = matches!(waiting.stage, Stage::Blocked(_));
                forget_request(&mut self.requests, &waiting.stage);
                waiting.stage = Stage::Ready(disposition);
                if was_blocked {
                    self.unblock(source);
                }
            }
            Meeting::NoAnswer => {}
            Meeting::Foreign => {
                forget_request(&mut self.requests, &waiting.stage);
                waiting.stage = Stage::Blocked(log);
                lane.block_at(source.offset, Blocked::ForeignPage(source.offset));
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
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        let mut again = Vec::new();
        for waiting in lane.waiting_mut() {
            let errand_log = match &waiting.page.errand {
                Errand::Ask(log, _) | Errand::Withdraw(log, _) => *log,
                Errand::Settled(_) => continue,
            };
            if errand_log == log && (from..to).contains(&waiting.page.source.offset) {
                again.push((waiting.page.source.clone(), matches!(waiting.stage, Stage::Blocked(_))));
                forget_request(&mut self.requests, &waiting.stage);
                waiting.stage = Stage::New;
            }
        }
        for (source, was_blocked) in again {
            if was_blocked {
                self.unblock(&source);
            }
            self.resolve(&source);
        }
    }

    /// Entries that the judge has passed are answered; what was not is asked again.
    fn passed(&mut self, log: LogPartition, next_entry: i64) {
        let Some(followed) = self.logs.get_mut(log) else { return };
        let later = followed.asked.split_off(&next_entry);
        let answered = std::mem::replace(&mut followed.asked, later);
        for request in answered.into_values().flatten() {
            self.ask_again(request);
        }
    }

    // ---- asking

    /// Resolves every page that nothing was done about yet.
    pub(super) fn resolve_all(&mut self) {
        let new: Vec<Source> = self
            .lanes
            .values()
            .flat_map(Lane::waiting)
            .filter(|waiting| waiting.stage == Stage::New)
            .map(|waiting| waiting.page.source.clone())
            .collect();
        new.iter().for_each(|source| self.resolve(source));
    }

    /// Finds out what is to be done about a new page: its end is known, or it is asked about, or read back.
    pub(super) fn resolve(&mut self, source: &Source) {
        let Some(lane) = self.lanes.get_mut(&source.partition) else { return };
        let may_ask = lane.anchor == Anchor::Held && !lane.leaving;
        let Some(waiting) = lane.page_mut(source.offset).filter(|waiting| waiting.stage == Stage::New) else { return };
        if let (Errand::Ask(log, _), Some(&reason)) = (&waiting.page.errand, self.undeliverable.get(source)) {
            waiting.page.errand = Errand::Withdraw(*log, reason);
        }
        let (log, body) = match &waiting.page.errand {
            Errand::Settled(disposition) => {
                waiting.stage = Stage::Ready(disposition.clone());
                return;
            }
            Errand::Ask(log, entry) => (*log, EntryBody::Page(entry.clone())),
            Errand::Withdraw(log, reason) => (*log, EntryBody::Withdraw { source: source.clone(), reason: *reason }),
        };
        let Some(followed) = self.logs.get(log) else { return };
        if !may_ask || !followed.known.is_learned() {
            return;
        }
        let read_back = || followed.recall.as_ref().and_then(|recall| recall.found(source));
        let ruling = followed.known.ruling(source).or_else(read_back);
        match ruling.map(|ruling| meet(&waiting.page.errand, ruling)) {
            Some(Meeting::End(disposition)) => waiting.stage = Stage::Ready(disposition),
            Some(Meeting::Foreign) => {
                waiting.stage = Stage::Blocked(log);
                lane.block_at(source.offset, Blocked::ForeignPage(source.offset));
            }
            None if followed.known.is_judged(source) && matches!(body, EntryBody::Page(_)) => {
                waiting.stage = Stage::Recalling(log);
                if let Some(followed) = self.logs.get_mut(log) {
                    followed.wants_recall = true;
                }
            }
            Some(Meeting::NoAnswer) | None => {
                let request = RequestId(self.next_request);
                self.next_request = self.next_request.wrapping_add(1);
                waiting.stage = Stage::Asked { log, request, offset: None };
                self.requests.insert(request, source.clone());
                self.effects.push_back(Effect::Append(log, Entry { request, body }));
            }
        }
    }

    pub(super) fn appended(&mut self, request: RequestId, result: Result<i64, ()>) {
        let Some(source) = self.requests.get(&request) else { return };
        let lane = self.lanes.get_mut(&source.partition);
        let Some(waiting) = lane.and_then(|lane| lane.page_mut(source.offset)) else { return };
        let Stage::Asked { log, request: asked, offset } = &mut waiting.stage else { return };
        if *asked != request {
            return;
        }
        match result {
            Ok(appended) => {
                *offset = Some(appended);
                let log = *log;
                let Some(followed) = self.logs.get_mut(log) else { return };
                if appended < followed.known.next_entry() {
                    self.ask_again(request);
                } else {
                    followed.asked.entry(appended).or_default().push(request);
                }
            }
            Err(()) => self.ask_again(request),
        }
    }

    /// The request was lost, or passed without a ruling: the position was judged before, or it is asked once more,
    /// by the same id.
    fn ask_again(&mut self, request: RequestId) {
        let Some(source) = self.requests.get(&request).cloned() else { return };
        let lane = self.lanes.get_mut(&source.partition);
        let Some(waiting) = lane.and_then(|lane| lane.page_mut(source.offset)) else { return };
        let log = match &mut waiting.stage {
            Stage::Asked { log, request: asked, offset } if *asked == request => {
                *offset = None;
                *log
            }
            Stage::Asked { .. } | Stage::New | Stage::Recalling(_) | Stage::Blocked(_) | Stage::Ready(_) => return,
        };
        let body = match &waiting.page.errand {
            Errand::Ask(_, entry) => {
                if self.logs.get(log).is_some_and(|log| log.known.is_judged(&source)) {
                    waiting.stage = Stage::New;
                    self.requests.remove(&request);
                    self.resolve(&source);
                    return;
                }
                EntryBody::Page(entry.clone())
            }
            Errand::Withdraw(_, reason) => EntryBody::Withdraw { source, reason: *reason },
            Errand::Settled(_) => return,
        };
        self.effects.push_back(Effect::Append(log, Entry { request, body }));
    }

    // ---- reading back

    /// Begins to read back what pages wait for, once for all partitions that need it.
    pub(super) fn recall_what_is_missing(&mut self) {
        for log in 0..self.logs.len() {
            let Some(followed) = self.logs.get_mut(log) else { return };
            let reading = followed.recall.as_ref().is_some_and(Recall::is_reading);
            if followed.wants_recall && !reading {
                followed.wants_recall = false;
                self.recall_missing(log);
            }
        }
    }

    fn recall_missing(&mut self, log: LogPartition) {
        let mut first: BTreeMap<PartitionId, i64> = BTreeMap::new();
        for (partition, lane) in &self.lanes {
            let missing = lane.waiting().find(|waiting| waiting.stage == Stage::Recalling(log));
            if let Some(waiting) = missing {
                first.insert(partition.clone(), waiting.page.source.offset);
            }
        }
        let Some(followed) = self.logs.get_mut(log).filter(|_| !first.is_empty()) else { return };
        let from = followed.known.latest_checkpoint();
        followed.recall = Some(Recall::new(first, self.settings.recalled_of_each_log(), from));
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
            .lanes
            .values()
            .flat_map(Lane::waiting)
            .filter(|waiting| waiting.stage == Stage::Recalling(log))
            .map(|waiting| waiting.page.source.clone())
            .collect();
        for source in missing {
            let Some(followed) = self.logs.get_mut(log) else { return };
            let wanted = followed.recall.as_ref().is_some_and(|recall| recall.wants(&source));
            followed.wants_recall |= !wanted;
            let Some(lane) = self.lanes.get_mut(&source.partition) else { continue };
            let Some(waiting) = lane.page_mut(source.offset).filter(|_| wanted) else { continue };
            waiting.stage = Stage::New;
            self.resolve(&source);
            let Some(lane) = self.lanes.get_mut(&source.partition) else { continue };
            if let Some(waiting) = lane.page_mut(source.offset).filter(|page| page.stage == Stage::Recalling(log)) {
                // It is judged, and the log does not say how any more: nothing behind it can be delivered either.
                waiting.stage = Stage::Blocked(log);
                lane.block_at(source.offset, Blocked::RulingLost);
            }
        }
    }

    /// The page that held up its partition has a ruling, or may be asked about: reading goes on behind it.
    fn unblock(&mut self, source: &Source) {
        if let Some(lane) = self.lanes.get_mut(&source.partition) {
            lane.blocked = None;
            let from = ReadFrom::Offset(lane.next);
            self.effects.push_back(Effect::Seek { partition: source.partition.clone(), from });
        }
    }
}

/// What a ruling means to a page.
fn meet(errand: &Errand, ruling: &Arc<Ruling>) -> Meeting {
    match (&ruling.answer, errand) {
        (Answer::Withdrawn { reason, .. }, _) => Meeting::End(Disposition::DeadLetter(*reason)),
        (Answer::Page(page), Errand::Ask(_, entry)) if page.digest == entry.digest => {
            Meeting::End(Disposition::Ruled(Arc::clone(ruling)))
        }
        (Answer::Page(_), Errand::Ask(..)) => Meeting::Foreign,
        (Answer::Page(_) | Answer::Forgotten(_) | Answer::Reopened { .. }, _) => Meeting::NoAnswer,
    }
}

/// The answer to a page's request is not waited for any more.
fn forget_request(requests: &mut HashMap<RequestId, Source>, stage: &Stage) {
    if let Stage::Asked { request, .. } = stage {
        requests.remove(request);
    }
}

/// Says whether a page waits for something from this log.
fn is_open_on(stage: &Stage, log: LogPartition) -> bool {
    match stage {
        Stage::Asked { log: on, .. } | Stage::Recalling(on) => *on == log,
        Stage::New | Stage::Blocked(_) | Stage::Ready(_) => false,
    }
}
