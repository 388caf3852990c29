//! Fingerprints instead of pages: judges the requests of the live fingerprint log again, in the order of the verdict
//! log and without text work.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use dupgate_core::judge::Asked;
use dupgate_core::replay::{LogOrder, Next, Part, name_of, name_of_verdict};
use dupgate_core::worker::PageOutcome;

use super::by_log::next_walk;
use super::run::{Phase, Report, Run};
use super::walk::{Step, Walk, diverged};
use crate::context;
use crate::error::Fatal;
use crate::fatal::{failure, unavailable};
use crate::kafka::admin::LogNames;
use crate::kafka::client::ClientSettings;
use crate::kafka::fingerprint_log::{Requests, RequestsError};
use crate::kafka::offsets::Offsets;
use crate::protocol::{PageRequest, Request, RequestBody, RequestId, RequestOffset, Verdict};
use crate::record::PartitionId;

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
        while let Some(at) = next_walk(&walks) {
            let (Some(walk), Some(kept)) = (walks.get_mut(at), kept.get_mut(at)) else { continue };
            if let Some(end) = walk.requests_end() {
                kept.read_beyond(end)?;
            }
            let end = walk.requests_end();
            walk.take()?;
            let mut steps = 0;
            while let Some(step) = walk.step()? {
                if let Step::Do(next) = step {
                    self.judge_kept(walk, kept, next)?;
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

    fn judge_kept(&mut self, walk: &mut Walk, kept: &mut Kept, next: Next) -> Result<(), Fatal> {
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
        let kept = offsets.range(&partition).map_err(unavailable)?;
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

    /// Reads all requests below this offset, and some after it if there are any, to prefetch for them.
    fn read_beyond(&mut self, offset: RequestOffset) -> Result<(), Fatal> {
        while self.next < offset.next().min(self.end) {
            let Ok(read) = self.portions.recv() else { return Ok(()) };
            let Portion { records, end } = read.map_err(unavailable)?;
            self.next = end;
            let records = records.into_iter();
            self.records
                .extend(records.map(|Asked { offset, requests, .. }| Record { offset, requests: requests.into() }));
        }
        Ok(())
    }

    /// Returns the page of a request, if the log still has it. Verdicts are in the order of their requests, so earlier
    /// requests are no longer needed.
    fn take(&mut self, wanted: RequestId) -> Option<PageRequest> {
        let place = |record: &Record| record.requests.iter().position(|request| request.id == wanted);
        let (record, request) = self.records.iter().enumerate().find_map(|(at, record)| Some((at, place(record)?)))?;
        self.records.drain(..record);
        match self.records.front_mut()?.requests.drain(..=request).next_back()?.body {
            RequestBody::Page(page) => Some(page),
            RequestBody::Withdraw { .. }
            | RequestBody::Forget(_)
            | RequestBody::Reopen { .. }
            | RequestBody::SetTime(_) => None,
        }
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
