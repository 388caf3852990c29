//! Time slices of the judge thread: how long it judges before it checks its messages, the clock and its health.
//!
//! The answers to its transactional calls are messages, too. If the thread first judged everything that it has fetched,
//! it would keep the transaction open for too long, and the coordinator would abort it.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use dupgate_core::judge::Event;

use crate::kafka::budget::Permit;
use crate::protocol::{Request, RequestOffset};
use crate::record::Timestamp;
use crate::threads::Work;

/// How long one turn judges; the step in progress at the end is completed.
pub(crate) const TIME_SLICE: Duration = Duration::from_millis(5);

/// Maximum number of requests judged between two readings of the clock.
pub(crate) const STEP_REQUESTS: usize = 4;

/// One Kafka record of the fingerprint log that was fetched and is not judged yet.
pub(crate) struct FetchedRequests {
    pub(crate) offset: RequestOffset,
    pub(crate) append_time: Timestamp,
    pub(crate) requests: Vec<Request>,
    /// When it arrived.
    pub(crate) fetched: Duration,
    pub(crate) _permit: Permit,
}

/// What was fetched of the fingerprint log.
pub(crate) enum Fetched {
    /// The next record.
    Record(FetchedRequests),
    /// The log holds only these offsets, and the next one to read is not among them.
    OutOfRange(Range<RequestOffset>),
}

/// Fetched records of the fingerprint log, in order.
#[derive(Default)]
pub(crate) struct RequestQueue {
    records: VecDeque<FetchedRequests>,
    /// What follows the records, if the log does not hold the offset after them.
    out_of_range: Option<Range<RequestOffset>>,
}

impl RequestQueue {
    pub(crate) fn push(&mut self, record: FetchedRequests) {
        self.records.push_back(record);
    }

    /// Notes that the log holds only these offsets: no more records come before the next seek.
    pub(crate) fn end_with(&mut self, held: Range<RequestOffset>) {
        self.out_of_range = Some(held);
    }

    pub(crate) fn pop(&mut self) -> Option<Fetched> {
        let record = self.records.pop_front().map(Fetched::Record);
        record.or_else(|| self.out_of_range.take().map(Fetched::OutOfRange))
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of waiting requests.
    pub(crate) fn requests(&self) -> usize {
        self.records.iter().map(|record| record.requests.len()).sum()
    }
}

impl FetchedRequests {
    /// Returns how long its requests have waited since they were fetched: for earlier records to be judged, and while
    /// the judge could not judge.
    pub(crate) fn waited(&self, now: Duration) -> Duration {
        now.saturating_sub(self.fetched)
    }

    /// Converts it to the judge's input.
    pub(crate) fn into_event(self) -> Event {
        Event::Requests { offset: self.offset, append_time: self.append_time, requests: self.requests }
    }
}

/// Runs steps until no work is left or the turn is over.
///
/// # Errors
///
/// The first error of a step, which ends the turn.
pub(crate) fn run_time_slice<E>(
    now: impl Fn() -> Duration,
    mut step: impl FnMut() -> Result<Work, E>,
) -> Result<Work, E> {
    let until = now() + TIME_SLICE;
    while step()? == Work::More {
        if now() >= until {
            return Ok(Work::More);
        }
    }
    Ok(Work::Done)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;
    use std::time::Duration;

    use super::*;
    use crate::fingerprint::{ExactHash, Fingerprints, Numbers, PageDigest};
    use crate::kafka::budget::ByteBudget;
    use crate::protocol::{
        LogIdentity, PageRequest, PerStage, RequestBody, RequestId, Rules, SameId, Stage, VerdictOffset,
    };
    use crate::record::PartitionId;
    use crate::transaction::Call;
    use dupgate_core::judge::{ColdStart, Effect, Judge, JudgeSettings, ProducerCall, Role};

    const MILLI: Duration = Duration::from_millis(1);

    /// The time-out of a transaction at the coordinator.
    const TRANSACTION: Duration = Duration::from_secs(10);

    fn settings() -> JudgeSettings {
        let hour = Duration::from_hours(1);
        let rules = Rules {
            stages: vec![Stage::Exact],
            max_distance: 0,
            windows: PerStage::all(hour),
            lateness: Duration::ZERO,
            max_future_skew: Duration::ZERO,
            max_entries: 1_000_000,
            same_id: SameId::Update,
            minhash: None,
            number_guard: None,
            simhash_similarity: None,
            same_site: None,
            dual: None,
        };
        JudgeSettings {
            rules,
            new_log: LogIdentity(1),
            cold_start: ColdStart::Stop,
            commit_interval: 50 * MILLI,
            checkpoint_interval_records: 100_000,
            keep: hour,
            batch_verdicts: 2_000,
            pending_verdicts: 50_000,
            transaction_timeout: TRANSACTION,
            step_requests: STEP_REQUESTS,
            snapshot_interval: None,
            revoke_grace: hour,
        }
    }

    /// A record of the fingerprint log with `count` new pages.
    fn record(offset: i64, count: u32) -> FetchedRequests {
        let requests = (0..count).map(|number| {
            let number = u64::from(number) + offset.unsigned_abs() * u64::from(count);
            let page = PageRequest {
                source: PartitionId::new("pages", 0).at(i64::try_from(number).unwrap()),
                event_time: Timestamp::from_millis(0),
                id: None,
                scope: None,
                site: None,
                address: None,
                title: None,
                is_variant: false,
                fingerprints: Fingerprints {
                    exact: ExactHash(u128::from(number)),
                    simhash: None,
                    sketch: None,
                    numbers: Numbers::EMPTY,
                },
                digest: PageDigest(0),
                earlier: None,
            };
            Request { id: RequestId(number), body: RequestBody::Page(page) }
        });
        let append_time = Timestamp::from_millis(0);
        FetchedRequests {
            offset: RequestOffset(offset),
            append_time,
            requests: requests.collect(),
            fetched: Duration::ZERO,
            _permit: ByteBudget::new(1).hold(0),
        }
    }

    /// A judge, its thread and its coordinator, with a simulated clock.
    struct Thread {
        judge: Judge,
        now: Cell<Duration>,
        /// Answers of the cluster, with their arrival times.
        answers: VecDeque<(Duration, Event)>,
        queue: RequestQueue,
        /// When the coordinator learnt of the open transaction.
        open_since: Option<Duration>,
        longest_open: Duration,
        longest_turn: Duration,
        committed: usize,
        sent: usize,
        /// Offset of the next record of the verdict log.
        next_offset: i64,
        /// How long each record has waited.
        waits: Vec<Duration>,
        /// When each verdict was committed.
        commits: Vec<Duration>,
        /// Offset and number of originals of each snapshot.
        snapshots: Vec<(VerdictOffset, usize)>,
    }

    impl Thread {
        fn active() -> Self {
            Self::active_with(settings())
        }

        fn active_with(settings: JudgeSettings) -> Self {
            let mut thread = Self {
                judge: Judge::new(settings),
                now: Cell::new(Duration::ZERO),
                answers: VecDeque::new(),
                queue: RequestQueue::default(),
                open_since: None,
                longest_open: Duration::ZERO,
                longest_turn: Duration::ZERO,
                committed: 0,
                sent: 0,
                next_offset: 0,
                waits: Vec::new(),
                commits: Vec::new(),
                snapshots: Vec::new(),
            };
            thread.handle(Event::Restored(None));
            while thread.judge.role() != Role::Standby {
                thread.run_once();
            }
            thread.handle(Event::Assigned);
            while thread.judge.role() != Role::Active {
                thread.run_once();
            }
            thread
        }

        fn handle(&mut self, event: Event) {
            self.judge.handle(self.now.get(), event);
            self.perform();
        }

        fn perform(&mut self) {
            while let Some(effect) = self.judge.poll() {
                let answer = if let Effect::Call(request) = &effect {
                    self.call(request)
                } else if let Effect::FollowToEnd { question } | Effect::FollowToBarrier { question, .. } = effect {
                    Event::FollowedToEnd { question }
                } else {
                    assert!(!matches!(effect, Effect::Fail(_)), "{effect:?}");
                    if effect == Effect::Snapshot {
                        let snapshot = self.judge.take_snapshot().unwrap();
                        self.snapshots.push((snapshot.at, snapshot.listed().originals.len()));
                    }
                    continue;
                };
                self.answers.push_back((self.now.get() + 5 * MILLI, answer));
            }
        }

        fn call(&mut self, request: &ProducerCall) -> Event {
            let now = self.now.get();
            match request {
                ProducerCall::Produce(records) => {
                    self.open_since = Some(now);
                    self.sent = records.iter().map(verdicts).sum();
                    let first = self.append(records.len());
                    return Event::Called(Ok((first..self.next_offset).map(VerdictOffset).collect()));
                }
                ProducerCall::ProduceBarrier => {
                    self.open_since = Some(now);
                    return Event::Called(Ok(vec![VerdictOffset(self.append(1))]));
                }
                ProducerCall::Plain(Call::Commit) => {
                    let open = now.saturating_sub(self.open_since.take().unwrap());
                    self.longest_open = self.longest_open.max(open);
                    self.committed += std::mem::take(&mut self.sent);
                    self.commits.resize(self.committed, now);
                }
                ProducerCall::Plain(_) | ProducerCall::SendOffsets { .. } => {}
            }
            Event::Called(Ok(Vec::new()))
        }

        /// Appends records to the verdict log. Returns the offset of the first one.
        fn append(&mut self, records: usize) -> i64 {
            let first = self.next_offset;
            self.next_offset += i64::try_from(records).unwrap();
            first
        }

        /// One turn of a judge's thread: see `JudgeDriver::run`.
        fn run_once(&mut self) -> Work {
            let began = self.now.get();
            match self.answers.pop_front_if(|(due, _)| *due <= began) {
                Some((_, answer)) => self.handle(answer),
                None => self.handle(Event::Tick),
            }
            let Self { judge, now, queue, waits, .. } = self;
            let step = || -> Result<Work, Infallible> {
                let event = if judge.is_unfinished() {
                    Event::Continue
                } else if judge.wants_requests() {
                    let Some(Fetched::Record(record)) = queue.pop() else { return Ok(Work::Done) };
                    waits.push(record.waited(now.get()));
                    record.into_event()
                } else {
                    return Ok(Work::Done);
                };
                judge.handle(now.get(), event);
                // A lookup takes a millisecond.
                let lookups = u32::try_from(judge.probe_stats().len()).unwrap();
                now.set(now.get() + lookups * MILLI);
                Ok(Work::More)
            };
            let Ok(work) = run_time_slice(|| now.get(), step);
            self.perform();
            self.longest_turn = self.longest_turn.max(self.now.get().saturating_sub(began));
            if work == Work::Done {
                self.now.set(self.now.get() + MILLI);
            }
            work
        }
    }

    fn verdicts(record: &crate::protocol::VerdictRecord) -> usize {
        match record {
            crate::protocol::VerdictRecord::Verdicts(batch) => batch.verdicts.len(),
            crate::protocol::VerdictRecord::Rules(_) | crate::protocol::VerdictRecord::Checkpoint(_) => 0,
        }
    }

    #[test]
    fn a_burst_of_slow_look_ups_keeps_no_transaction_open() {
        let mut thread = Thread::active();
        thread.queue.push(record(0, 1));
        while thread.open_since.is_none() {
            thread.run_once();
        }
        // The transaction is open, and a partition catches up.
        (1..=120).for_each(|offset| thread.queue.push(record(offset, 500)));
        while thread.committed < 60_001 {
            thread.run_once();
        }
        assert!(thread.longest_turn <= 10 * MILLI, "{:?}", thread.longest_turn);
        assert!(thread.longest_open <= TRANSACTION / 4, "{:?}", thread.longest_open);
        assert!(thread.now.get() <= Duration::from_secs(62), "{:?}", thread.now.get());
    }

    #[test]
    fn a_page_waits_for_earlier_pages_of_another_worker() {
        let mut thread = Thread::active();
        let fetched = thread.now.get();
        thread.queue.push(FetchedRequests { fetched, ..record(0, 300) });
        thread.queue.push(FetchedRequests { fetched, ..record(1, 1) });
        while thread.waits.len() < 2 {
            thread.run_once();
        }
        let [of_many, of_one] = thread.waits[..] else { panic!("{:?}", thread.waits) };
        assert!(of_many <= 2 * MILLI, "{of_many:?}");
        assert!((300 * MILLI..330 * MILLI).contains(&of_one), "300 lookups of a millisecond come first: {of_one:?}");
    }

    /// Has a page judged every 7 ms for two seconds. Returns how long the one that waited longest was waiting for its
    /// verdict to be judged and to be committed, and the snapshots.
    fn judge_steadily(snapshot_interval: Option<Duration>) -> (Duration, Duration, Vec<(VerdictOffset, usize)>) {
        const PAGES: u32 = 300;
        let mut thread = Thread::active_with(JudgeSettings { snapshot_interval, ..settings() });
        let began = thread.now.get();
        let arrivals: Vec<Duration> = (1..=PAGES).map(|number| began + number * 7 * MILLI).collect();
        let mut arriving = (0..).zip(&arrivals).peekable();
        while thread.committed < arrivals.len() {
            while let Some((offset, &fetched)) = arriving.next_if(|(_, at)| **at <= thread.now.get()) {
                thread.queue.push(FetchedRequests { fetched, ..record(offset, 1) });
            }
            thread.run_once();
        }
        let answers =
            thread.commits.iter().zip(&arrivals).map(|(committed, arrived)| committed.saturating_sub(*arrived));
        (thread.waits.iter().copied().max().unwrap(), answers.max().unwrap(), thread.snapshots)
    }

    #[test]
    fn a_snapshot_that_is_due_delays_no_verdict() {
        let (judged_at_rest, answered_at_rest, none) = judge_steadily(None);
        let (judged, answered, snapshots) = judge_steadily(Some(200 * MILLI));
        assert!(none.is_empty() && (7..=10).contains(&snapshots.len()), "{snapshots:?}");
        assert!(judged <= judged_at_rest + MILLI && judged <= 10 * MILLI, "{judged:?}, without one {judged_at_rest:?}");
        // Until the next transaction begins, until the one before it is committed, and until it is committed itself.
        assert!(answered <= answered_at_rest + MILLI && answered <= 100 * MILLI, "{answered:?}, {answered_at_rest:?}");
        assert!(snapshots.is_sorted_by(|(at, held), (next, more)| at < next && held < more), "{snapshots:?}");
    }

    #[test]
    fn a_turn_ends_when_nothing_is_left() {
        let steps = Cell::new(0_u32);
        let step = || -> Result<Work, Infallible> {
            steps.set(steps.get() + 1);
            Ok(if steps.get() < 4 { Work::More } else { Work::Done })
        };
        assert_eq!(run_time_slice(|| Duration::ZERO, step), Ok(Work::Done));
        assert_eq!(steps.get(), 4);
    }
}
