//! Fingerprints instead of pages: judges the requests of the live fingerprint log again, in the order of the verdict
//! log and without text work.
//!
//! Looks up the next pages of a replay on a thread of its own, while the pages before them are judged.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use dupgate_core::judge::Asked;
use dupgate_core::replay::{LogOrder, Next, Part, Rejudge, name_of, name_of_verdict};
use dupgate_core::worker::PageOutcome;

use super::by_log::next_walk;
use super::run::{Phase, Report, Run};
use super::walk::{Step, Walk, diverged};
use crate::error::{Fatal, Reason};
use crate::index::{LookedUp, Lookups, REQUESTS_AHEAD, Task};
use crate::kafka::admin::LogNames;
use crate::kafka::client::ClientSettings;
use crate::kafka::offsets::Offsets;
use crate::kafka::requests::{Requests, RequestsError};
use crate::protocol::{PageRequest, Request, RequestBody, RequestId, RequestOffset, Verdict};
use crate::record::PartitionId;
use crate::runtime::context;
use crate::runtime::fatal::failure;

/// Time-out for reading requests.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(30);

/// Records of the fingerprint log in one portion, and the number of portions read ahead.
const PORTION: i64 = 8;
const AHEAD: usize = 8;

/// Verdicts between two checks.
const STEPS_PER_CHECK: usize = 256;

impl<S: FnMut(&Report<'_>)> Run<'_, S> {
    pub(super) fn by_fingerprints(&mut self) -> Result<(), Fatal> {
        let mut walks = self.walks()?;
        let names = LogNames::new(&self.plan.logs, &self.plan.live_scheme);
        let config = context::connection(&self.live.kafka).follower(&self.plan.own_group());
        let open = |walk: &Walk| {
            let partition = PartitionId::new(Arc::clone(&names.fingerprints), walk.partition.number);
            Kept::open(&config, &self.offsets, partition)
        };
        let mut kept: Vec<Kept> = walks.iter().map(open).collect::<Result<_, Fatal>>()?;
        let start = |walk: &Walk| LookupThread::start(walk.partition.number);
        let mut threads: Vec<LookupThread> = walks.iter().map(start).collect::<Result<_, Fatal>>()?;
        while let Some(at) = next_walk(&walks) {
            let (Some(walk), Some(kept), Some(thread)) = (walks.get_mut(at), kept.get_mut(at), threads.get_mut(at))
            else {
                continue;
            };
            if let Some(end) = walk.requests_end() {
                kept.read_beyond(end)?;
            }
            let end = walk.requests_end();
            walk.take()?;
            let mut steps = 0;
            while let Some(step) = walk.step()? {
                if let Step::Do(next) = step {
                    self.judge_kept(walk, (&mut *kept, &mut *thread), next)?;
                }
                steps += 1;
                if steps % STEPS_PER_CHECK == 0 {
                    self.housekeeping()?;
                }
            }
            if let Some(counts) = self.counts.first_mut() {
                counts.second_verdicts += walk.order.take_second_verdicts();
            }
            if let Some(end) = end {
                kept.drop_before(end);
            }
            self.maintain(walk.order.judges());
            if self.is_full() {
                self.flush(Vec::new())?;
            }
            self.housekeeping()?;
        }
        self.flush(Vec::new())
    }

    fn judge_kept(
        &mut self,
        walk: &mut Walk,
        (kept, thread): (&mut Kept, &mut LookupThread),
        next: Next,
    ) -> Result<(), Fatal> {
        let (live, part) = match next {
            Next::Withdrawn(source, reason) => {
                walk.order.withdraw(&source, reason).map_err(diverged)?;
                let ends = vec![PageOutcome::DeadLetter(reason); self.settings.len()];
                self.note(Part::Range, &source, 0, &ends);
                return Ok(());
            }
            Next::Page(live, part) => (live, part),
        };
        self.phase = if part == Part::WarmUp { Phase::WarmUp } else { Phase::Range };
        self.hold(0)?;
        let is_reopened = live.answer.judged_source().is_some_and(|source| walk.order.is_reopened(source));
        kept.skip_to(live.request);
        let hand_over = &mut |task| self.maintenance.run_once(task);
        thread.prepare(walk.order.judges(), || kept.requests(), hand_over)?;
        let mut request = kept.take(live.request);
        if let (Some(counts), None, Part::Range, false) = (self.counts.first_mut(), &request, part, is_reopened) {
            counts.gone += 1;
        }
        kept.prefetch_upcoming(&mut walk.order);
        let ends = self.judge_live(walk, &live, part, request.as_mut(), is_reopened)?;
        self.note_kept(&live, part, &ends);
        Ok(())
    }

    fn note_kept(&mut self, live: &Verdict, part: Part, ends: &[PageOutcome]) {
        let (Some(first), Some(source)) = (ends.first(), live.answer.judged_source()) else { return };
        self.note(part, source, 0, ends);
        if let (Some(counts), true) =
            (self.counts.first_mut(), part == Part::Range && name_of(first) != name_of_verdict(live))
        {
            counts.note_change(name_of_verdict(live), name_of(first));
        }
    }
}

/// Some records of the fingerprint log, in order.
struct Portion {
    records: Vec<Asked>,
    /// Offset after the last record.
    end: RequestOffset,
}

/// One record of the fingerprint log without the requests that were taken.
struct Record {
    offset: RequestOffset,
    requests: VecDeque<Request>,
}

/// The requests that one partition of the fingerprint log still holds, read ahead on a separate thread.
struct Kept {
    portions: Receiver<Result<Portion, RequestsError>>,
    /// In the order of the log.
    records: VecDeque<Record>,
    /// Records below this offset were handed over.
    next: RequestOffset,
    /// Records from this offset on are not read.
    end: RequestOffset,
}

impl Kept {
    /// Starts reading at the first request that is kept.
    fn open(config: &ClientSettings, offsets: &Offsets, partition: PartitionId) -> Result<Self, Fatal> {
        let kept = offsets.range(&partition).map_err(|error| Reason::Unavailable.because(error))?;
        let name = format!("requests-{}", partition.number);
        let (first, end) = (RequestOffset(kept.start), RequestOffset(kept.end));
        let mut requests = Requests::open(config, partition, REQUESTS_TIMEOUT).map_err(failure)?;
        let (sender, portions) = bounded(AHEAD);
        let read = move || {
            let mut next = first;
            while next < end {
                let to = end.min(RequestOffset(next.0 + PORTION));
                let read = requests.between(next, to).map(|records| Portion { records, end: to });
                let is_over = read.is_err();
                // The receiver is dropped when the replay is over.
                if sender.send(read).is_err() || is_over {
                    return;
                }
                next = to;
            }
        };
        std::thread::Builder::new().name(name).spawn(read).map_err(failure)?;
        Ok(Self { portions, records: VecDeque::new(), next: first, end })
    }

    /// Reads all requests below this offset, and after it those that are looked up ahead.
    fn read_beyond(&mut self, offset: RequestOffset) -> Result<(), Fatal> {
        while self.next < self.end && (self.next <= offset || self.requests_from(offset) < REQUESTS_AHEAD) {
            let Ok(read) = self.portions.recv() else { return Ok(()) };
            let Portion { records, end } = read.map_err(|error| Reason::Unavailable.because(error))?;
            self.next = end;
            let records = records.into_iter();
            self.records
                .extend(records.map(|Asked { offset, requests, .. }| Record { offset, requests: requests.into() }));
        }
        Ok(())
    }

    fn requests_from(&self, offset: RequestOffset) -> usize {
        let records = self.records.iter().rev().take_while(|record| record.offset >= offset);
        records.map(|record| record.requests.len()).sum()
    }

    /// Drops the requests before this one, if the log still has it. Verdicts are in the order of their requests, so
    /// earlier requests are no longer needed.
    fn skip_to(&mut self, wanted: RequestId) {
        let place = |record: &Record| record.requests.iter().position(|request| request.id == wanted);
        let found = self.records.iter().enumerate().find_map(|(at, record)| Some((at, place(record)?)));
        let Some((record, request)) = found else { return };
        self.records.drain(..record);
        if let Some(Record { requests, .. }) = self.records.front_mut() {
            requests.drain(..request);
        }
    }

    /// Takes the page of the next request, if it is this one.
    fn take(&mut self, wanted: RequestId) -> Option<PageRequest> {
        match self.records.front_mut()?.requests.pop_front_if(|request| request.id == wanted)?.body {
            RequestBody::Page(page) => Some(page),
            RequestBody::Withdraw { .. }
            | RequestBody::Forget(_)
            | RequestBody::Reopen { .. }
            | RequestBody::SetTime(_) => None,
        }
    }

    /// Returns the requests that were not taken, in order.
    fn requests(&self) -> impl Iterator<Item = &Request> {
        self.records.iter().flat_map(|record| &record.requests)
    }

    /// Returns what is asked after `ahead` other requests.
    fn upcoming(&self, mut ahead: usize) -> Option<&Request> {
        for Record { requests, .. } in &self.records {
            if let Some(request) = requests.get(ahead) {
                return Some(request);
            }
            ahead -= requests.len();
        }
        None
    }

    /// Prefetches what the requests after the next one will read.
    fn prefetch_upcoming(&self, order: &mut LogOrder) {
        order.judges().iter().for_each(|judge| {
            judge.state().index().prefetch_upcoming(|ahead| self.upcoming(ahead));
        });
    }

    /// Forgets the requests below this offset: all verdicts on them were handed over.
    fn drop_before(&mut self, offset: RequestOffset) {
        while self.records.pop_front_if(|record| record.offset < offset).is_some() {}
    }
}

/// The thread, for the judges of one partition of the logs, by their numbers.
pub(super) struct LookupThread {
    lookups: Sender<(usize, Lookups)>,
    looked_up: Receiver<(usize, LookedUp)>,
    /// The judges whose lookups it has.
    judges: Vec<usize>,
}

impl LookupThread {
    /// Starts the thread of a partition.
    pub(super) fn start(partition: i32) -> Result<Self, Fatal> {
        let (lookups, begun) = unbounded::<(usize, Lookups)>();
        let (sender, looked_up) = unbounded();
        let run = move || {
            for (judge, lookups) in begun {
                // The receiver is dropped when the replay is over.
                if sender.send((judge, lookups.run())).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name(format!("lookups-{partition}")).spawn(run).map_err(failure)?;
        Ok(Self { lookups, looked_up, judges: Vec::new() })
    }

    /// Prepares the judges for the next page, whose request comes first of those that `upcoming` returns. Passes
    /// maintenance tasks of their indexes to `hand_over`.
    pub(super) fn prepare<'r, I: Iterator<Item = &'r Request>>(
        &mut self,
        judges: &mut [Rejudge],
        upcoming: impl Fn() -> I,
        hand_over: &mut impl FnMut(Task<'static>),
    ) -> Result<(), Fatal> {
        let next = upcoming().next();
        for number in 0..judges.len() {
            self.wait_for_page(judges, number, next)?;
            let begun = judges.get_mut(number).and_then(|judge| judge.begin_lookups(upcoming(), hand_over));
            if let Some(lookups) = begun {
                self.lookups.send((number, lookups)).map_err(|_| ended())?;
                self.judges.push(number);
                self.wait_for_page(judges, number, next)?;
            }
        }
        Ok(())
    }

    /// Waits until a judge can judge this page.
    fn wait_for_page(&mut self, judges: &mut [Rejudge], number: usize, next: Option<&Request>) -> Result<(), Fatal> {
        let Some(page) = next.and_then(|request| request.body.page()) else { return Ok(()) };
        let waits = |judge: &Rejudge| judge.state().index().waits_for_lookups(page);
        while self.judges.contains(&number) && judges.get(number).is_some_and(waits) {
            let (of, looked_up) = self.looked_up.recv().map_err(|_| ended())?;
            // If a judge has begun lookups in other tables since, those before come first.
            if let Some(at) = self.judges.iter().position(|judge| *judge == of) {
                self.judges.remove(at);
            }
            if let Some(judge) = judges.get_mut(of) {
                judge.end_lookups(looked_up);
            }
        }
        Ok(())
    }
}

fn ended() -> Fatal {
    Reason::Bug.because(anyhow!("the thread that looks up pages has ended"))
}
