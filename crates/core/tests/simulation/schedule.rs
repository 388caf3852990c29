//! One schedule: instances with both roles, an operator, a coordinator, and chance. The seed determines all of it.

mod fair_phase;
mod faults;
mod operator;
mod processes;
mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::judge::Snapshot;
use dupgate_core::protocol::{LogPartition, Rules};
use dupgate_core::record::PartitionId;
use dupgate_testkit::rng::Rng;

use self::rules::{crowded, rules};
use crate::bus::{End, MemberId};
use crate::judge_driver::JudgeDriver;
use crate::laws::Laws;
use crate::pages::{Scheme, WorldPage};
use crate::worker_driver::WorkerDriver;
use crate::world::{Moment, Value, World};

/// What an instance is, whichever process runs it.
struct Instance {
    name: String,
    works: bool,
    serves: Vec<LogPartition>,
    /// Static membership and a lasting transactional id.
    static_id: Option<String>,
    /// Pages larger than this are withdrawn.
    limit: u32,
    rules: Rules,
    scheme: Scheme,
    disks: BTreeMap<LogPartition, Option<Snapshot>>,
}

/// One process of an instance.
struct Process {
    instance: usize,
    worker: Option<WorkerDriver>,
    judges: Vec<JudgeDriver>,
    /// Steps for which it does nothing.
    paused: u64,
    stopping: bool,
}

/// How small the machines' memories are.
#[derive(Clone, Copy)]
struct Sizes {
    checkpoint_interval_records: u64,
    batch_verdicts: usize,
    remembered_verdicts: usize,
    scanned_positions: i64,
    transaction_pages: usize,
}

/// A whole run.
pub(crate) struct Schedule {
    pub(crate) world: World,
    pub(crate) laws: Laws,
    instances: Vec<Instance>,
    processes: Vec<Process>,
    /// Members whose process is gone; the coordinator does not know it yet.
    lost_members: Vec<(String, MemberId)>,
    /// Transactional ids of processes that are gone, and the epochs of their producers; the coordinator does not know it yet.
    lost_transactions: Vec<(String, u32)>,
    lag: BTreeMap<PartitionId, i64>,
    most_pages: i64,
    sizes: Sizes,
    /// The operator does something now and then.
    operated: bool,
    /// A range that is reopened a second time, and after how many steps.
    reopened_again: Option<(usize, PartitionId, i64, i64)>,
    /// Keys are full and families have members: see [`crowded`].
    is_crowded: bool,
}

impl Schedule {
    /// A random world.
    pub(crate) fn random(seed: u64) -> Self {
        Self::draw(seed, false)
    }

    /// The same world, before a change of the scheme: all instances are of the earlier one.
    pub(crate) fn before_upgrade(seed: u64) -> Self {
        Self::draw(seed, true)
    }

    fn draw(seed: u64, is_upgraded: bool) -> Self {
        let mut rng = Rng::new(seed ^ 0x5eed);
        let logs = rng.pick(&[1, 2, 2]);
        let inputs = rng.pick(&[2, 3]);
        let count = 2 + rng.below(3);
        let mut instances = Vec::new();
        let is_crowded = seed % 3 == 1;
        for number in 0..count {
            let name = format!("i{number}");
            let role = if number < 2 { 0 } else { rng.below(4) };
            let mut serves: Vec<LogPartition> =
                if role == 1 { Vec::new() } else { LogPartition::first(logs).collect() };
            if number > 0 && serves.len() > 1 && rng.chance(250) {
                serves.remove(rng.below(serves.len()));
            }
            instances.push(Instance {
                works: role != 2,
                serves,
                static_id: rng.chance(600).then(|| name.clone()),
                limit: rng.pick(&[1, 2, 2]),
                rules: rules(&mut rng, number == 0),
                scheme: Scheme::Current,
                disks: BTreeMap::new(),
                name,
            });
            if is_crowded && let Some(instance) = instances.last_mut() {
                instance.rules = crowded(&rng);
            }
        }
        let mut world = World::new(seed, inputs, logs);
        world.starts_at_end = seed % 5 == 3;
        // Small enough for checkpoints in several parts, now and then.
        world.part_bytes = rng.pick(&[100, 300, 100_000]);
        let sizes = Sizes {
            checkpoint_interval_records: rng.pick(&[4, 10, 25]),
            batch_verdicts: rng.pick(&[1, 3, 6]),
            remembered_verdicts: rng.pick(&[1, 3, 10]),
            scanned_positions: rng.pick(&[1, 4, 40]),
            transaction_pages: rng.pick(&[1, 5, 20]),
        };
        if is_upgraded {
            world.add_earlier_logs();
            instances.iter_mut().for_each(|instance| instance.scheme = Scheme::Earlier);
        }
        let mut schedule = Self::begin(world, instances, sizes, true);
        schedule.is_crowded = is_crowded;
        schedule
    }

    /// Returns how many instances there are.
    pub(crate) fn instances(&self) -> usize {
        self.instances.len()
    }

    /// Changes the schemes of an instance, whose process dies and comes back.
    pub(crate) fn change_scheme(&mut self, instance: usize, scheme: Scheme) {
        self.world.log(|| format!("OPERATOR: {scheme:?} for instance {instance}"));
        self.instances[instance].scheme = scheme;
        let running = self.processes.iter().position(|process| process.instance == instance);
        running.into_iter().for_each(|at| self.crash(at));
    }

    /// Two instances with both roles, nothing by chance but the order of moves: for exhaustive crashes.
    pub(crate) fn scripted(seed: u64) -> Self {
        let instance = |number: usize| Instance {
            name: format!("i{number}"),
            works: true,
            serves: vec![LogPartition(0)],
            static_id: (number == 0).then(|| "i0".to_owned()),
            limit: 2,
            rules: rules(&mut Rng::new(seed), true),
            scheme: Scheme::Current,
            disks: BTreeMap::new(),
        };
        let mut world = World::new(seed, 2, 1);
        world.crash_at = Some((u64::MAX, Moment::Before));
        world.faults = false;
        let sizes = Sizes {
            checkpoint_interval_records: 6,
            batch_verdicts: 3,
            remembered_verdicts: 3,
            scanned_positions: 4,
            transaction_pages: 5,
        };
        Self::begin(world, (0..2).map(instance).collect(), sizes, false)
    }

    fn begin(world: World, instances: Vec<Instance>, sizes: Sizes, operated: bool) -> Self {
        let laws = Laws::new(world.logs, world.has_earlier);
        let mut schedule = Self {
            world,
            laws,
            instances,
            processes: Vec::new(),
            lost_members: Vec::new(),
            lost_transactions: Vec::new(),
            lag: BTreeMap::new(),
            most_pages: if operated { 120 } else { 12 },
            sizes,
            operated,
            reopened_again: None,
            is_crowded: false,
        };
        (0..schedule.instances.len()).for_each(|instance| schedule.start(instance));
        schedule
    }

    /// Runs some steps, as far as the laws hold.
    pub(crate) fn run(&mut self, steps: u64) -> u64 {
        for step in 0..steps {
            if self.world.violation.is_some() {
                return step;
            }
            self.step();
        }
        steps
    }

    pub(crate) fn step(&mut self) {
        let dice = self.world.rng.below(1000);
        match dice {
            0..100 => self.produce_or_wait(),
            100..250 => self.world.carry(),
            250..985 => {
                let at = self.world.rng.below(self.processes.len());
                for _ in 0..self.world.rng.pick(&[1, 1, 3, 12, 30]) {
                    if at < self.processes.len() && self.world.violation.is_none() {
                        self.act(at);
                    }
                }
            }
            _ if !self.world.faults => {}
            985..993 => self.coordinator(),
            _ => self.operator(),
        }
        self.reopen_again();
        self.laws.observe(&mut self.world);
    }

    fn produce_or_wait(&mut self) {
        let world = &mut self.world;
        if world.rng.chance(450) {
            let some = 1 + world.rng.below(4);
            world.elapsed += Duration::from_millis(u64::try_from(some).unwrap());
            world.clock += world.rng.pick(&[0, 0, 1, 1, 2]);
            return;
        }
        let at = world.rng.below(world.inputs.len());
        let input = world.inputs[at].clone();
        if world.bus.end(&input) >= self.most_pages {
            return;
        }
        if world.rng.chance(60) {
            self.lag.insert(input.clone(), world.rng.pick(&[0, 0, 3, 8]));
        }
        let lag = self.lag.get(&input).copied().unwrap_or(0);
        let page = Value::Page(Arc::new(WorldPage::draw(&mut world.rng, world.width, world.clock, lag)));
        if world.rng.chance(100) {
            // A crawler that writes in transactions: markers and aborted records take offsets.
            let end = world.rng.pick(&[End::Commit, End::Commit, End::Abort]);
            let now = world.now();
            let epoch = world.bus.init_producer("crawler");
            world.bus.produce("crawler", epoch, &input, now, page).unwrap();
            world.bus.end_transaction("crawler", epoch, end).unwrap();
        } else {
            let now = world.now();
            world.bus.append(&input, now, page);
        }
    }
}
