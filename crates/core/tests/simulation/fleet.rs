//! Many workers: they join, begin, and continue next to a partition that cannot. Most tests use pages that need no
//! judge.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::judge::{ColdStart, JudgeSettings, Snapshot};
use dupgate_core::protocol::{LogIdentity, LogPartition, PerStage, Rules, SameId, Stage};
use dupgate_core::record::PartitionId;
use dupgate_core::worker::{Blocked, WorkerSettings};

use crate::bus::Committed;
use crate::judge_driver::JudgeDriver;
use crate::laws::Laws;
use crate::pages::{Scheme, WorldPage};
use crate::settings::worker_settings;
use crate::worker_driver::WorkerDriver;
use crate::world::{GROUP, Moment, Step, Value, World};

/// Steps that each worker makes in a millisecond.
const STEPS: usize = 3;

/// Steps that the judge makes in a millisecond, and the network.
const JUDGE_STEPS: usize = 100;

/// Workers of one group, nothing by chance but the order of their moves.
struct Fleet {
    world: World,
    laws: Laws,
    workers: Vec<WorkerDriver>,
    /// The judge and its disk, if pages are written that need verdicts.
    judge: Option<(JudgeDriver, Option<Snapshot>)>,
    /// Number of pages written that need verdicts.
    pages: u64,
}

fn judge() -> JudgeDriver {
    let ms = Duration::from_millis;
    let rules = Rules {
        stages: vec![Stage::Exact],
        max_distance: 1,
        windows: PerStage::all(ms(1_000)),
        lateness: ms(1_000),
        max_future_skew: Duration::ZERO,
        max_entries: 100_000,
        same_id: SameId::Update,
        minhash: None,
        number_guard: None,
        simhash_similarity: None,
        same_site: None,
        dual: None,
    };
    let settings = JudgeSettings {
        keep: ms(2_000),
        rules,
        new_log: LogIdentity(1),
        cold_start: ColdStart::Stop,
        commit_interval: ms(1),
        checkpoint_interval_records: 2_000,
        batch_verdicts: 50,
        pending_verdicts: 200,
        transaction_timeout: ms(100),
        step_requests: 50,
        snapshot_interval: None,
        revoke_grace: ms(10),
    };
    JudgeDriver::new("judge", LogPartition(0), settings)
}

impl Fleet {
    fn new(partitions: i32) -> Self {
        let mut world = World::new(1, partitions, 1);
        world.faults = false;
        world.crash_at = Some((u64::MAX, Moment::Before));
        Self { world, laws: Laws::new(1, false), workers: Vec::new(), judge: None, pages: 0 }
    }

    /// A fleet whose pages need verdicts.
    fn judged(partitions: i32) -> Self {
        Self { judge: Some((judge(), None)), ..Self::new(partitions) }
    }

    fn join(&mut self) {
        let settings =
            WorkerSettings { remembered_verdicts: if self.judge.is_some() { 10_000 } else { 10 }, ..worker_settings() };
        let name = format!("w{}", self.workers.len());
        self.workers.push(WorkerDriver::new(&mut self.world, &name, None, 2, &settings, Scheme::Current));
    }

    /// The process is gone, and the brokers know it.
    fn crash(&mut self, at: usize) {
        let worker = self.workers.remove(at);
        worker.member.iter().for_each(|member| self.world.bus.kick(GROUP, member));
        self.world.bus.time_out(worker.transactional_id());
    }

    fn write(&mut self, partition: &PartitionId, pages: usize) {
        (0..pages).for_each(|_| self.write_dated(partition, self.world.clock));
    }

    fn write_dated(&mut self, partition: &PartitionId, time: i64) {
        let page = if self.judge.is_some() {
            // Every fourth page is a copy.
            let text = self.pages - u64::from(self.pages % 4 == 3);
            self.pages += 1;
            WorldPage::scripted(text, None, self.world.width, time)
        } else {
            WorldPage::tombstone(&mut self.world.rng, self.world.width, time)
        };
        let now = self.world.now();
        self.world.bus.append(partition, now, Value::Page(Arc::new(page)));
    }

    /// One millisecond passes.
    fn pass(&mut self) {
        self.world.elapsed += Duration::from_millis(1);
        self.world.clock += 1;
        for worker in &mut self.workers {
            for _ in 0..STEPS {
                assert_eq!(worker.step(&mut self.world), Step::Went, "{}", worker.name);
            }
        }
        if let Some((judge, disk)) = &mut self.judge {
            for _ in 0..JUDGE_STEPS {
                self.world.carry();
                assert_eq!(judge.step(&mut self.world, disk), Step::Went);
            }
        }
        self.laws.observe(&mut self.world);
        assert_eq!(self.world.violation, None);
    }

    /// Lets time pass until something is so. Returns how long that took; fails when it takes longer than a minute.
    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Duration {
        let since = self.world.elapsed;
        while !is_so(self) {
            assert!(self.world.elapsed < since + Duration::from_mins(1), "for ever: {what}");
            self.pass();
        }
        self.world.elapsed.saturating_sub(since)
    }

    fn committed(&self, partition: &PartitionId) -> Option<i64> {
        self.world.bus.committed(GROUP, partition).map(|committed| committed.offset)
    }

    fn reads_all_it_owns(&self, at: usize) -> bool {
        let worker = &self.workers[at];
        !worker.owned().is_empty() && worker.owned().iter().all(|partition| worker.reads(partition))
    }

    /// A transaction that nobody ends holds an offset of a partition of the first worker that owns two.
    fn hold_an_offset(&mut self) -> PartitionId {
        let owner = self.workers.iter().find(|worker| worker.owned().len() == 2).unwrap();
        let held = owner.owned().first().unwrap().clone();
        let membership = (owner.member.as_ref().unwrap(), owner.generation);
        let epoch = self.world.bus.init_producer("held");
        let offsets = BTreeMap::from([(held.clone(), Committed::plain(0))]);
        self.world.bus.send_offsets(("held", epoch), GROUP, membership, offsets).unwrap();
        held
    }

    /// Returns whether everything is delivered that is in these partitions.
    fn delivered(&self, partitions: &[PartitionId]) -> bool {
        partitions.iter().all(|partition| self.committed(partition) == Some(self.world.bus.end(partition)))
    }
}

/// Has a worker join fifty busy ones, and demands that it reads within a second.
fn join_fifty_busy_workers(mut fleet: Fleet) {
    let inputs = fleet.world.inputs.clone();
    (0..50).for_each(|_| fleet.join());
    fleet.until("all read", |fleet| (0..50).all(|at| fleet.reads_all_it_owns(at)));
    // All pages are of one time: none waits for another. The first pages wait until each worker knows what others have
    // to read.
    (0..200).for_each(|_| inputs.iter().for_each(|input| fleet.write_dated(input, 100)));
    fleet.until("pages are delivered", |fleet| inputs.iter().all(|input| fleet.committed(input) > Some(0)));
    // Transactions are always about to move some offsets of the topic.
    for _ in 0..100 {
        inputs.iter().for_each(|input| fleet.write_dated(input, 100));
        fleet.pass();
        assert!(inputs.iter().any(|input| fleet.world.bus.is_pending(GROUP, input)), "the fleet is not busy");
    }
    let held = fleet.hold_an_offset();
    fleet.join();
    let since = fleet.world.elapsed;
    while !fleet.reads_all_it_owns(50) {
        inputs.iter().for_each(|input| fleet.write_dated(input, 100));
        fleet.pass();
        let took = fleet.world.elapsed.saturating_sub(since);
        assert!(took < Duration::from_secs(1), "not within {took:?}: {:?}", fleet.workers[50].owned());
    }
    assert!(fleet.world.bus.is_pending(GROUP, &held), "it has not waited for offsets of others");
}

#[test]
fn one_who_joins_fifty_busy_workers_reads_within_a_second() {
    join_fifty_busy_workers(Fleet::new(102));
}

#[test]
fn one_who_joins_fifty_workers_that_wait_for_verdicts_reads_within_a_second() {
    join_fifty_busy_workers(Fleet::judged(102));
}

#[test]
fn a_partition_that_begins_at_its_end_loses_nothing_that_comes_later() {
    let mut fleet = Fleet::new(4);
    fleet.world.starts_at_end = true;
    let inputs = fleet.world.inputs.clone();
    inputs.iter().for_each(|input| fleet.write(input, 3));
    (0..2).for_each(|_| fleet.join());
    // No page comes, and the place is committed all the same.
    fleet.until("the places are committed", |fleet| inputs.iter().all(|input| fleet.committed(input) == Some(3)));
    (0..2).for_each(|_| fleet.crash(0));
    inputs.iter().for_each(|input| fleet.write(input, 2));
    fleet.join();
    fleet.until("what was written meanwhile is read", |fleet| fleet.reads_all_it_owns(0));
    fleet.until("what was written meanwhile is delivered", |fleet| fleet.delivered(&inputs));
    fleet.laws.check_ends(&mut fleet.world);
    assert_eq!(fleet.world.violation, None);
}

#[test]
fn a_partition_that_appears_later_is_read_from_its_beginning() {
    let mut fleet = Fleet::new(2);
    fleet.world.starts_at_end = true;
    let inputs = fleet.world.inputs.clone();
    inputs.iter().for_each(|input| fleet.write(input, 3));
    fleet.join();
    fleet.until("it reads", |fleet| fleet.reads_all_it_owns(0));
    let late = PartitionId::new("in", 2);
    fleet.world.bus.create(&late);
    fleet.write(&late, 4);
    fleet.world.inputs.push(late.clone());
    fleet.world.bus.add_partition(GROUP, &late);
    fleet.until("it is given out", |fleet| fleet.workers[0].reads(&late));
    assert!(fleet.committed(&late).is_none_or(|committed| committed == 0));
    fleet.until("it is delivered", |fleet| fleet.delivered(std::slice::from_ref(&late)));
    // The same to somebody who begins now.
    let later = PartitionId::new("in", 3);
    fleet.world.bus.create(&later);
    fleet.write(&later, 4);
    fleet.world.inputs.push(later.clone());
    fleet.join();
    fleet.world.bus.add_partition(GROUP, &later);
    fleet.until("it is given out", |fleet| fleet.workers.iter().any(|worker| worker.reads(&later)));
    assert!(fleet.committed(&later).is_none_or(|committed| committed == 0));
}

#[test]
fn a_partition_that_has_lost_its_next_offset_stops_no_other() {
    let mut fleet = Fleet::new(4);
    let inputs = fleet.world.inputs.clone();
    inputs.iter().for_each(|input| fleet.write(input, 5));
    (0..2).for_each(|_| fleet.join());
    fleet.until("all is delivered", |fleet| fleet.delivered(&inputs));
    let (cut, others) = inputs.split_first().unwrap();
    let next = fleet.world.bus.end(cut);
    (0..2).for_each(|_| fleet.crash(0));
    inputs.iter().for_each(|input| fleet.write(input, 5));
    fleet.world.bus.delete_before(cut, next + 3);
    (0..2).for_each(|_| fleet.join());
    fleet.until("the others go on", |fleet| fleet.delivered(others));
    let blocked = |fleet: &Fleet| fleet.workers.iter().flat_map(WorkerDriver::blocked).collect::<Vec<_>>();
    fleet.until("the partition is named", |fleet| !blocked(fleet).is_empty());
    let why = Blocked::OutOfRange { offset: next, first: next + 3, end: next + 5 };
    assert_eq!(blocked(&fleet), [(cut.clone(), why)]);
    // It goes from owner to owner without doing harm.
    let owner = fleet.workers.iter().position(|worker| worker.owned().contains(cut)).unwrap();
    fleet.crash(owner);
    others.iter().for_each(|input| fleet.write(input, 5));
    fleet.until("the other worker goes on", |fleet| fleet.delivered(others));
    fleet.until("the partition is named again", |fleet| !blocked(fleet).is_empty());
    // It is looked at again, and nothing is skipped unasked.
    fleet.world.elapsed += Duration::from_secs(61);
    fleet.until("it is read again", |fleet| fleet.workers[0].reads(cut));
    fleet.until("it is read in vain", |fleet| !fleet.workers[0].reads(cut));
    assert_eq!((blocked(&fleet).len(), fleet.committed(cut)), (1, Some(next)));
    // The way out.
    fleet.crash(0);
    fleet.world.bus.set_committed(GROUP, cut, next + 3);
    fleet.join();
    fleet.until("it is delivered", |fleet| fleet.delivered(&inputs));
    assert_eq!(blocked(&fleet), []);
}

#[test]
fn a_page_that_is_dated_far_ahead_does_not_park_its_partition() {
    let mut fleet = Fleet::new(2);
    let inputs = fleet.world.inputs.clone();
    let [dated, busy] = &inputs[..] else { panic!("two partitions") };
    fleet.join();
    // One partition is never at its end.
    fleet.write(busy, 500);
    for _ in 0..100 {
        inputs.iter().for_each(|input| fleet.write(input, 2));
        fleet.pass();
    }
    fleet.write_dated(dated, 4_102_444_800_000);
    fleet.write(dated, 1);
    let since = fleet.world.elapsed;
    while !fleet.delivered(std::slice::from_ref(dated)) {
        fleet.write(busy, 2);
        fleet.pass();
        assert!(fleet.world.elapsed < since + Duration::from_secs(10), "parked");
    }
    assert!(!fleet.delivered(std::slice::from_ref(busy)), "the other one was at its end");
}
