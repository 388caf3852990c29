//! A worker with two partitions, for the tests of this module.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Blocked, Effect, Event, Pacing, Page, PageAction, Worker, WorkerSettings};
use crate::fingerprint::{ExactHash, Fingerprints, Numbers, PageDigest, PerMille};
use crate::protocol::{
    Checkpoint, DualPeriod, ExpiryWatermarks, LogIdentity, LogPartition, PageRequest, PartitionCheckpoint, PerStage,
    RequestOffset, Rules, RulesNumber, RulesRecord, SameId, Stage, Verdict, VerdictBatch, VerdictOffset, VerdictRecord,
};
use crate::record::{PartitionId, Timestamp};
use crate::transaction::Delivery;

/// The one partition of the logs.
pub(super) const LOG: LogPartition = LogPartition(0);

/// That of the earlier scheme.
pub(super) const EARLIER: LogPartition = LogPartition(1);

pub(super) fn input(number: i32) -> PartitionId {
    PartitionId::new("pages", number)
}

/// A page of one byte that is asked about.
pub(super) fn page(partition: i32, offset: i64, digest: u32) -> Page<()> {
    let source = input(partition).at(offset);
    let exact = ExactHash(u128::from(digest));
    let fingerprints = Fingerprints { exact, simhash: None, sketch: None, numbers: Numbers::default() };
    let (event_time, digest) = (Timestamp::default(), PageDigest(digest));
    let request = PageRequest {
        source: source.clone(),
        event_time,
        id: None,
        scope: None,
        site: None,
        address: None,
        title: None,
        is_variant: false,
        fingerprints,
        digest,
        earlier: None,
    };
    Page {
        source,
        bytes: 1,
        event_time,
        paced_by: event_time,
        action: PageAction::Ask(LOG, request),
        earlier: None,
        payload: (),
    }
}

/// Rules of a log in which nothing depends on them.
pub(super) fn rules() -> Rules {
    Rules {
        stages: Stage::ALL.to_vec(),
        max_distance: 3,
        windows: PerStage::all(Duration::from_hours(1)),
        lateness: Duration::ZERO,
        max_future_skew: Duration::ZERO,
        max_entries: 10,
        same_id: SameId::Update,
        minhash: None,
        number_guard: None,
        simhash_similarity: None,
        same_site: None,
        dual: None,
    }
}

/// A checkpoint of this log by which everything before `judged` in partition 0 is judged.
pub(super) fn checkpoint(log: u64, previous: Option<i64>, judged: i64) -> VerdictRecord {
    let mut said = PartitionCheckpoint::default();
    (0..judged).for_each(|offset| assert!(said.judged.insert(offset)));
    VerdictRecord::Checkpoint(Box::new(Checkpoint {
        log: LogIdentity(log),
        rules_number: RulesNumber(1),
        rules: rules(),
        stream_time: Timestamp::MIN,
        leap: None,
        watermarks: ExpiryWatermarks::START,
        next_sequence: 0,
        next_request: RequestOffset(0),
        previous: previous.map(VerdictOffset),
        partitions: [(input(0), said)].into(),
        applied: Vec::new(),
    }))
}

pub(super) struct TestWorker {
    pub(super) worker: Worker<()>,
    pub(super) now: Duration,
}

impl TestWorker {
    /// Handles an event and a tick.
    pub(super) fn handle(&mut self, event: Event<()>) -> Vec<Effect<()>> {
        self.worker.handle(self.now, event);
        self.worker.handle(self.now, Event::Tick);
        std::iter::from_fn(|| self.worker.poll()).collect()
    }

    /// A worker that owns partitions 0 and 1, and has followed these verdicts.
    pub(super) fn new(verdicts: Vec<Verdict>) -> Self {
        Self::started(verdicts, 0)
    }

    /// The same in the dual period of its log, with a log of the earlier scheme.
    pub(super) fn in_dual_period() -> Self {
        let mut bench = Self::after_earlier(vec![]);
        bench.offsets([Some(0), Some(0)]);
        bench
    }

    /// The same before offsets are known; the log of the earlier scheme has these verdicts.
    pub(super) fn after_earlier(verdicts: Vec<Verdict>) -> Self {
        let mut bench = Self::started(vec![], 1);
        bench.handle(Event::Followed { log: EARLIER, offset: VerdictOffset(0), record: checkpoint(2, None, 0) });
        if !verdicts.is_empty() {
            bench.follow_of(EARLIER, verdicts, 0);
        }
        bench.handle(Event::FollowedToEnd(EARLIER));
        bench
    }

    fn started(verdicts: Vec<Verdict>, earlier_logs: usize) -> Self {
        let settings = WorkerSettings {
            logs: 1,
            first_request: 0,
            remembered_verdicts: 100,
            scanned_positions: 100,
            in_flight_bytes: 1000,
            transaction_pages: 100,
            transaction_timeout: Duration::from_secs(10),
            commit_interval: Duration::from_millis(10),
            revoke_grace: Duration::from_secs(1),
            shutdown_grace: Duration::from_secs(1),
            pacing: Pacing {
                lead: Duration::from_hours(1),
                reach: Duration::from_hours(100),
                idle_after: Duration::from_secs(5),
                away_after: Duration::from_mins(1),
                interval: Duration::from_millis(100),
                look_interval: Duration::from_secs(2),
            },
            pause_above_dead_letters: PerMille::ONE,
            delivery: Delivery::ExactlyOnce,
            earlier_logs,
        };
        let mut bench = Self { worker: Worker::new(settings), now: Duration::ZERO };
        bench.handle(Event::Called(Ok(())));
        bench.handle(Event::Checkpoint(LOG, None));
        let mut begins = checkpoint(1, None, 0);
        if let (VerdictRecord::Checkpoint(checkpoint), 1..) = (&mut begins, earlier_logs) {
            checkpoint.rules.dual = Some(DualPeriod::Begun);
        }
        bench.handle(Event::Followed { log: LOG, offset: VerdictOffset(0), record: begins });
        bench.follow(verdicts);
        bench.handle(Event::FollowedToEnd(LOG));
        bench.handle(Event::NewToGroup(BTreeSet::new()));
        bench.handle(Event::Assigned(BTreeSet::from([input(0), input(1)])));
        bench
    }

    pub(super) fn follow(&mut self, verdicts: Vec<Verdict>) -> Vec<Effect<()>> {
        self.follow_up_to(verdicts, 0)
    }

    /// The judge passes every request before this offset, and says nothing about any page.
    pub(super) fn pass(&mut self, next_request: i64) -> Vec<Effect<()>> {
        self.follow_up_to(vec![], next_request)
    }

    fn follow_up_to(&mut self, verdicts: Vec<Verdict>, next_request: i64) -> Vec<Effect<()>> {
        self.follow_of(LOG, verdicts, next_request)
    }

    /// Follows verdicts of one of the logs.
    pub(super) fn follow_of(
        &mut self,
        log: LogPartition,
        verdicts: Vec<Verdict>,
        next_request: i64,
    ) -> Vec<Effect<()>> {
        let batch = VerdictBatch {
            log: LogIdentity(u64::from(log.0) + 1),
            rules: RulesNumber(1),
            watermarks: ExpiryWatermarks::START,
            next_request: RequestOffset(next_request),
            verdicts,
        };
        self.handle(Event::Followed { log, offset: VerdictOffset(1), record: VerdictRecord::Verdicts(batch) })
    }

    /// The log decides by itself from here on.
    pub(super) fn end_dual_period(&mut self) -> Vec<Effect<()>> {
        let record = RulesRecord { log: LogIdentity(1), number: RulesNumber(2), rules: rules() };
        self.handle(Event::Followed { log: LOG, offset: VerdictOffset(2), record: VerdictRecord::Rules(record) })
    }

    pub(super) fn offsets(&mut self, offsets: [Option<i64>; 2]) -> Vec<Effect<()>> {
        self.handle(Event::Committed([input(0), input(1)].into_iter().zip(offsets).collect()))
    }

    pub(super) fn page(&mut self, partition: i32, offset: i64, digest: u32) -> Vec<Effect<()>> {
        self.handle(Event::Page(page(partition, offset, digest)))
    }

    pub(super) fn a_minute_later(&mut self) -> Vec<Effect<()>> {
        self.now += Duration::from_secs(61);
        self.handle(Event::Tick)
    }

    pub(super) fn why(&self) -> Vec<Blocked> {
        self.worker.blocked().into_values().collect()
    }
}
