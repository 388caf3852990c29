//! One schedule: instances with both roles, an operator, a coordinator, and chance. The seed determines all of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::fingerprint::{Banding, LowConfidence, PerMille, SameSite, SketchForm, SlotBits};
use dupgate_core::judge::{ColdStart, JudgeSettings, Snapshot};
use dupgate_core::protocol::{
    ForgetTarget, LogIdentity, LogPartition, MinHashRules, PerStage, Request, RequestBody, Rules, SameId, Stage,
};
use dupgate_core::record::{PartitionId, Source};
use dupgate_core::transaction::Delivery;
use dupgate_core::worker::Mode;
use dupgate_core::worker::{Blocked, Pacing, WorkerSettings};

use crate::bus::{End, MemberId};
use crate::judge_driver::JudgeDriver;
use crate::laws::Laws;
use crate::pages::WorldPage;
use crate::worker_driver::WorkerDriver;
use crate::world::{GROUP, Moment, Step, Value, World, judges_of};
use dupgate_testkit::rng::Rng;

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
    ghosts: Vec<(String, MemberId)>,
    /// Transactional ids of processes that will not come back under them.
    orphans: Vec<String>,
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

const WINDOW: u64 = 8;
const LATENESS: u64 = 4;

/// Rules for the sketches of the pages: five bands of three of their sixteen slots.
fn minhash(
    min_shared_bands: u8,
    min_similarity: PerMille,
    containment: Option<PerMille>,
    low_confidence: LowConfidence,
) -> MinHashRules {
    let form = SketchForm::new(16, SlotBits::B8).unwrap().with_count();
    let banding = Banding::new(5, 3, form).unwrap();
    MinHashRules {
        form,
        banding,
        min_shared_bands,
        one_band_below: 0,
        min_similarity,
        containment,
        low_confidence,
        max_bucket: 0,
    }
}

fn rules(rng: &mut Rng, plain: bool) -> Rules {
    let ms = Duration::from_millis;
    if plain {
        return Rules {
            stages: Stage::ALL.to_vec(),
            max_distance: 1,
            windows: PerStage::all(ms(WINDOW)),
            lateness: ms(LATENESS),
            max_future_skew: ms(3),
            max_entries: 50,
            same_id: SameId::Update,
            minhash: None,
            number_guard: Some(PerMille(500)),
            simhash_similarity: None,
            same_site: None,
        };
    }
    Rules {
        stages: rng
            .pick(&[&Stage::ALL[..], &Stage::ALL, &[Stage::Exact], &[Stage::SimHash], &[Stage::Exact, Stage::MinHash]])
            .to_vec(),
        max_distance: rng.pick(&[1, 1, 0, 2]),
        windows: PerStage {
            exact: ms(rng.pick(&[WINDOW, WINDOW, 4])),
            simhash: ms(rng.pick(&[WINDOW, WINDOW, 4, 12])),
            minhash: ms(rng.pick(&[WINDOW, WINDOW, 5])),
        },
        lateness: ms(rng.pick(&[LATENESS, 2])),
        max_future_skew: ms(3),
        max_entries: rng.pick(&[50, 6, 3]),
        same_id: rng.pick(&[SameId::Update, SameId::Update, SameId::Duplicate]),
        minhash: Some(minhash(
            rng.pick(&[1, 2]),
            rng.pick(&[300, 600, 800].map(PerMille)),
            rng.pick(&[None, Some(PerMille(600)), Some(PerMille(950))]),
            rng.pick(&[
                LowConfidence::DISABLED,
                LowConfidence { below: PerMille(850), containment: PerMille(900), ..LowConfidence::DISABLED },
            ]),
        )),
        number_guard: rng.pick(&[None, Some(PerMille(500)), Some(PerMille(700))]),
        simhash_similarity: None,
        same_site: None,
    }
}

/// Rules by which keys are full and families have members before long, and sites count. They are drawn from a copy of
/// the stream of chance, so that all else in the world is as it would be.
fn crowded(rng: &Rng) -> Rules {
    let mut rng = Rng::new(rng.clone().next());
    let rules = rules(&mut rng, false);
    let max_bucket = rng.pick(&[1, 2, 3]);
    let one_band_below = rng.pick(&[0, 24]);
    Rules {
        minhash: rules.minhash.map(|minhash| MinHashRules { max_bucket, one_band_below, ..minhash }),
        same_site: rng.pick(&[None, Some(SameSite { containment: PerMille(900) })]),
        simhash_similarity: rng.pick(&[None, Some(PerMille(300))]),
        ..rules
    }
}

impl Schedule {
    /// A random world.
    pub(crate) fn random(seed: u64) -> Self {
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
        world.part_bytes = rng.pick(&[60, 200, 100_000]);
        let sizes = Sizes {
            checkpoint_interval_records: rng.pick(&[4, 10, 25]),
            batch_verdicts: rng.pick(&[1, 3, 6]),
            remembered_verdicts: rng.pick(&[1, 3, 10]),
            scanned_positions: rng.pick(&[1, 4, 40]),
            transaction_pages: rng.pick(&[1, 5, 20]),
        };
        let mut schedule = Self::begin(world, instances, sizes, true);
        schedule.is_crowded = is_crowded;
        schedule
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
        let laws = Laws::new(world.logs);
        let mut schedule = Self {
            world,
            laws,
            instances,
            processes: Vec::new(),
            ghosts: Vec::new(),
            orphans: Vec::new(),
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

    // ---- processes

    fn start(&mut self, number: usize) {
        let sizes = self.sizes;
        let world = &mut self.world;
        let instance = &self.instances[number];
        let ms = Duration::from_millis;
        let keep = rules_keep(&instance.rules);
        let judges = instance.serves.iter().map(|&log| {
            let settings = JudgeSettings {
                rules: instance.rules.clone(),
                new_log: LogIdentity(world.rng.next()),
                cold_start: ColdStart::Stop,
                commit_interval: ms(2),
                checkpoint_interval_records: sizes.checkpoint_interval_records,
                keep,
                batch_verdicts: sizes.batch_verdicts,
                pending_verdicts: 6,
                pending_time: ms(20),
                step_requests: 1,
                snapshot_interval: Some(ms(40)),
                revoke_grace: ms(10),
            };
            JudgeDriver::new(&instance.name, log, settings)
        });
        let judges: Vec<JudgeDriver> = judges.collect();
        let settings = WorkerSettings {
            logs: world.logs,
            first_request: 0,
            remembered_verdicts: sizes.remembered_verdicts,
            scanned_positions: sizes.scanned_positions,
            in_flight_bytes: 6,
            transaction_pages: sizes.transaction_pages,
            commit_interval: ms(2),
            revoke_grace: ms(10),
            shutdown_grace: ms(20),
            pacing: Pacing {
                lead: ms(6),
                reach: ms(40),
                idle_after: ms(20),
                away_after: ms(40),
                interval: ms(1),
                look_interval: ms(8),
            },
            pause_above_dead_letters: PerMille::ONE,
            delivery: Delivery::ExactlyOnce,
        };
        let id = instance.static_id.clone();
        let worker = instance.works.then(|| WorkerDriver::new(world, &instance.name, id, instance.limit, &settings));
        world.log(|| format!("START {}", instance.name));
        self.processes.push(Process { instance: number, worker, judges, paused: 0, stopping: false });
    }

    /// The process is gone, with whatever it held in memory.
    fn bury(&mut self, at: usize) -> usize {
        let process = self.processes.remove(at);
        if let Some(worker) = &process.worker {
            self.ghosts.extend(worker.member.clone().map(|member| (GROUP.to_owned(), member)));
            if self.instances[process.instance].static_id.is_none() {
                self.orphans.push(worker.transactional_id().to_owned());
            }
        }
        for judge in &process.judges {
            self.ghosts.extend(judge.member.clone().map(|member| (judges_of(judge.log), member)));
        }
        process.instance
    }

    fn crash(&mut self, at: usize) {
        let instance = self.bury(at);
        let name = self.instances[instance].name.clone();
        self.world.log(|| format!("CRASH {name}"));
        if self.world.harm(300) {
            self.instances[instance].disks.clear();
        }
        self.laws.count("crashes");
        let is_running = self.processes.iter().any(|process| process.instance == instance);
        if !is_running {
            self.start(instance);
        }
    }

    /// One move of one part of one process.
    fn act(&mut self, at: usize) {
        let process = &mut self.processes[at];
        if process.paused > 0 {
            process.paused -= 1;
            return;
        }
        let instance = &mut self.instances[process.instance];
        let parts = process.judges.len() + usize::from(process.worker.is_some());
        if parts == 0 {
            // Everything has stopped: the process has ended as it should.
            let instance = self.bury(at);
            self.start(instance);
            return;
        }
        let part = self.world.rng.below(parts);
        let (step, name, is_worker) = if let Some(judge) = process.judges.get_mut(part) {
            let disk = instance.disks.entry(judge.log).or_default();
            let step = judge.step(&mut self.world, disk);
            self.laws.observe(&mut self.world);
            let name = judge.name.clone();
            let life = format!("{at} {name}");
            self.laws.compare(&mut self.world, &life, judge.log, &judge.judge);
            (step, name, false)
        } else {
            let worker = process.worker.as_mut().unwrap();
            let step = worker.step(&mut self.world);
            // No topic is created again here, and no record of the input lost.
            let wrong = worker.blocked().into_iter().find(|(_, why)| *why != Blocked::VerdictLost);
            if let Some((input, why)) = wrong {
                self.world.violate(format!("{}: {input}: {why}", worker.name));
            }
            (step, worker.name.clone(), true)
        };
        self.laws.observe(&mut self.world);
        match step {
            Step::Went => {}
            Step::Crashed => self.crash(at),
            Step::Stopped => {
                self.world.log(|| format!("{name}: stopped"));
                let process = &mut self.processes[at];
                if is_worker {
                    let worker = process.worker.take();
                    self.orphans.extend(worker.map(|worker| worker.transactional_id().to_owned()));
                } else {
                    process.judges.remove(part);
                }
                if !process.stopping {
                    self.world.violate(format!("{name} stopped unasked"));
                }
            }
            Step::Failed(why) => {
                self.world.log(|| format!("{name}: FAILED {why}"));
                let expected =
                    ["another process runs with the same", "the producer cannot continue", "a newer process"];
                if !expected.iter().any(|start| why.starts_with(start)) {
                    self.world.violate(format!("{name} gives up: {why}"));
                }
                self.crash(at);
            }
        }
    }

    // ---- what happens around them

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

    /// An operator who is not sure that it was done asks again, perhaps while the range is on its way.
    fn reopen_again(&mut self) {
        let Some((steps, input, from, to)) = self.reopened_again.take() else { return };
        if steps == 0 {
            self.laws.count("reopened again");
            self.reopen(&input, from, to);
        } else {
            self.reopened_again = Some((steps - 1, input, from, to));
        }
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

    /// Sessions run out, transactions time out, processes pause.
    fn coordinator(&mut self) {
        let dice = self.world.rng.below(6);
        match dice {
            0 => {
                let groups: Vec<String> =
                    LogPartition::first(self.world.logs).map(judges_of).chain([GROUP.to_owned()]).collect();
                let group = &groups[self.world.rng.below(groups.len())];
                let members = self.world.bus.members(group);
                if !members.is_empty() {
                    let member = &members[self.world.rng.below(members.len())];
                    self.world.log(|| format!("COORDINATOR: {member} of {group} is out"));
                    self.world.bus.kick(group, member);
                }
            }
            1 => {
                let open = self.world.bus.open_transactions();
                if !open.is_empty() {
                    let id = &open[self.world.rng.below(open.len())];
                    self.world.log(|| format!("COORDINATOR: the transaction of {id} timed out"));
                    self.world.bus.time_out(id);
                }
            }
            2 => self.reap(),
            3 => {
                // Pauses long enough to be thrown out, then continues as if nothing had happened.
                let at = self.world.rng.below(self.processes.len());
                self.processes[at].paused = 30 + self.world.rng.next() % 150;
                let name = self.instances[self.processes[at].instance].name.clone();
                self.world.log(|| format!("PAUSE {name}"));
                if self.world.rng.chance(700) {
                    let worker = self.processes[at].worker.as_ref().and_then(|worker| worker.member.clone());
                    worker.iter().for_each(|member| self.world.bus.kick(GROUP, member));
                    for judge in &self.processes[at].judges {
                        judge.member.iter().for_each(|member| self.world.bus.kick(&judges_of(judge.log), member));
                    }
                }
                if self.world.rng.chance(300) && self.processes.len() < self.instances.len() + 2 {
                    // It was taken for dead, and its instance started again beside it.
                    let instance = self.processes[at].instance;
                    self.start(instance);
                }
            }
            4 => {
                let at = self.world.rng.below(self.processes.len());
                self.crash(at);
            }
            _ => {
                let at = self.world.rng.below(self.processes.len());
                let process = &mut self.processes[at];
                if !process.stopping {
                    process.stopping = true;
                    process.worker.iter_mut().for_each(|worker| worker.stop(&self.world));
                    process.judges.iter_mut().for_each(|judge| judge.stop(&self.world));
                    let name = self.instances[process.instance].name.clone();
                    self.world.log(|| format!("STOP {name}"));
                }
            }
        }
    }

    /// The coordinator notices that processes are gone.
    fn reap(&mut self) {
        for (group, member) in std::mem::take(&mut self.ghosts) {
            self.world.bus.kick(&group, &member);
        }
        for id in std::mem::take(&mut self.orphans) {
            self.world.bus.time_out(&id);
        }
    }

    fn operator(&mut self) {
        if !self.operated {
            return;
        }
        let dice = self.world.rng.below(10);
        match dice {
            0..3 => self.rewind(),
            3..6 => {
                let at = self.world.rng.below(self.processes.len());
                let instance = self.processes[at].instance;
                let rules = rules(&mut self.world.rng, false);
                self.instances[instance].rules = if self.is_crowded { crowded(&self.world.rng) } else { rules };
                let (name, rules) = (&self.instances[instance].name, &self.instances[instance].rules);
                self.world.log(|| format!("OPERATOR: new rules for {name}: {rules:?}"));
                self.crash(at);
            }
            6..8 => {
                let log = self.world.rng.below(self.world.logs);
                let log = LogPartition(u32::try_from(log).unwrap());
                let live = self.laws.live(log);
                if !live.is_empty() {
                    let target = ForgetTarget::Source(live[self.world.rng.below(live.len())].clone());
                    let by_id = ForgetTarget::Id(crate::pages::id_of(self.world.rng.next() % 10));
                    let target = if self.world.rng.chance(500) { target } else { by_id };
                    let request = self.world.new_request();
                    self.world.send(log, Request { id: request, body: RequestBody::Forget(target) }, None);
                }
            }
            8 => {
                let at = self.world.rng.below(self.world.inputs.len());
                let input = self.world.inputs[at].clone();
                let high = self.high(&input);
                if high > 0 {
                    let limit = usize::try_from(high).unwrap();
                    let from = i64::try_from(self.world.rng.below(limit)).unwrap();
                    let length = i64::try_from(1 + self.world.rng.below(3)).unwrap();
                    // Now and then an operator asks for more than was ever delivered.
                    let to = if self.world.rng.chance(200) { i64::MAX } else { high.min(from + length) };
                    self.reopen(&input, from, to);
                }
            }
            _ => self.reopen_what_is_gone(),
        }
    }

    fn high(&self, input: &PartitionId) -> i64 {
        self.laws.high(input)
    }

    /// Has a range judged again: goes to every partition of the log.
    fn reopen(&mut self, input: &PartitionId, from: i64, to: i64) {
        let request = self.world.new_request();
        self.world.log(|| format!("OPERATOR: reopen {input} {from}..{to} (request {})", request.0));
        self.laws.count("reopened");
        for log in LogPartition::first(self.world.logs) {
            let body = RequestBody::Reopen { partition: input.clone(), from, to };
            self.world.send(log, Request { id: request, body }, None);
        }
    }

    /// Sets the input group back; for that it must be empty.
    pub(crate) fn rewind(&mut self) {
        let world = &mut self.world;
        let deep = world.rng.chance(400);
        for member in world.bus.members(GROUP) {
            world.bus.kick(GROUP, &member);
        }
        for id in world.bus.open_transactions().iter().filter(|id| id.starts_with("worker")) {
            world.bus.time_out(id);
        }
        let mut back = Vec::new();
        for input in &world.inputs {
            let Some(committed) = world.bus.committed(GROUP, input).map(|committed| committed.offset) else { continue };
            if committed == 0 || world.rng.chance(400) {
                continue;
            }
            let limit = usize::try_from(committed).unwrap();
            let steps = if deep { world.rng.below(limit) + 1 } else { world.rng.below(limit.min(4)) };
            let offset = committed - i64::try_from(steps).unwrap();
            world.bus.set_committed(GROUP, input, offset);
            back.push((input.clone(), offset));
        }
        world.log(|| format!("OPERATOR: rewinds to {back:?}"));
        self.laws.count("rewinds");
        if self.world.rng.chance(500)
            && let Some((input, offset)) = back.pop()
        {
            let high = self.high(&input);
            if offset < high {
                self.reopen(&input, offset, high);
                if self.world.rng.chance(700) {
                    self.reopened_again = Some((self.world.rng.below(200), input, offset, high));
                }
            }
        }
    }

    /// All processes end, and come back in another mode. What has another name there begins empty.
    pub(crate) fn change_mode(&mut self, mode: Mode) {
        self.world.log(|| format!("OPERATOR: mode {mode:?}"));
        while !self.processes.is_empty() {
            self.bury(0);
        }
        if self.world.change_mode(mode) {
            self.ghosts.clear();
            self.orphans.clear();
            self.laws.restart();
            self.instances.iter_mut().for_each(|instance| instance.disks.clear());
        }
        self.reap();
        (0..self.instances.len()).for_each(|instance| self.start(instance));
    }

    /// The way out for pages whose verdict is gone for good.
    fn reopen_what_is_gone(&mut self) {
        let statuses = self.processes.iter().filter_map(|process| process.worker.as_ref()).map(WorkerDriver::status);
        let gone: Vec<PartitionId> = statuses.flat_map(|status| status.blocked.into_keys()).collect();
        for input in &gone {
            let Some(committed) = self.world.bus.committed(GROUP, input).map(|committed| committed.offset) else {
                continue;
            };
            let high = self.high(input);
            if committed < high {
                self.reopen(input, committed, high);
                self.laws.count("gone for good");
            }
        }
    }

    // ---- the fair phase

    fn delivered_all(&self) -> bool {
        let at_end = |input: &PartitionId| {
            let committed = self.world.bus.committed(GROUP, input).map_or(0, |committed| committed.offset);
            let rest = self.world.bus.fetch(input, committed);
            matches!(rest, crate::bus::Fetched::Nothing { .. })
        };
        self.world.net.is_empty() && self.world.inputs.iter().all(at_end)
    }

    /// No faults any more: everything must come to its end.
    pub(crate) fn finish(&mut self) {
        self.world.faults = false;
        self.world.crash_at = Some((u64::MAX, Moment::Before));
        self.world.log(|| "--- the fair phase".to_owned());
        self.processes.iter_mut().for_each(|process| process.paused = 0);
        let (mut idle, mut last) = (0, Vec::new());
        for round in 0..40_000 {
            for at in 0..self.processes.len() {
                for _ in 0..3 {
                    if at < self.processes.len() {
                        self.act(at);
                    }
                }
            }
            self.world.carry();
            self.laws.observe(&mut self.world);
            if round % 4 == 0 {
                self.world.elapsed += Duration::from_millis(1);
            }
            if round % 16 == 0 {
                self.world.clock += 1;
                self.reap();
            }
            if self.world.violation.is_some() {
                return;
            }
            if self.delivered_all() {
                self.laws.check_originals(&mut self.world);
                self.laws.check_ends(&mut self.world);
                return;
            }
            let inputs = self.world.inputs.clone();
            let now: Vec<Option<i64>> =
                inputs.iter().map(|input| self.world.bus.committed(GROUP, input).map(|at| at.offset)).collect();
            idle = if now == last { idle + 1 } else { 0 };
            last = now;
            if idle == 1500 {
                self.judge_the_gone();
                self.reopen_what_is_gone();
            }
            // A reading of old verdicts may take some hundred moves, and begin again.
            if idle > 8000 {
                break;
            }
        }
        let waits = self.what_waits();
        self.world.violate(format!("a page waits for ever: {waits}"));
    }

    /// A partition may be stuck only for a verdict that is gone for good.
    fn judge_the_gone(&mut self) {
        let statuses = self.processes.iter().filter_map(|process| process.worker.as_ref()).map(WorkerDriver::status);
        let gone: Vec<PartitionId> = statuses.flat_map(|status| status.blocked.into_keys()).collect();
        for input in gone {
            let Some(source) = self.first_undelivered(&input) else { continue };
            let slot = &self.world.bus.slots(&input)[usize::try_from(source.offset).unwrap()];
            let Some(Value::Page(page)) = &slot.value else { continue };
            let log = page.log(self.world.logs);
            if !self.laws.is_judged(log, &source) {
                continue;
            }
            if let Err(broken) = self.laws.check_unreadable(&self.world, log, &source) {
                let workers = self.processes.iter().filter_map(|process| process.worker.as_ref());
                let inside: Vec<String> = workers.map(WorkerDriver::inside).collect();
                self.world.log(|| inside.join("\n"));
                self.world.violate(broken);
            }
        }
    }

    fn first_undelivered(&self, input: &PartitionId) -> Option<Source> {
        let committed = self.world.bus.committed(GROUP, input).map_or(0, |committed| committed.offset);
        match self.world.bus.fetch(input, committed) {
            crate::bus::Fetched::Record { offset, .. } => Some(input.at(offset)),
            crate::bus::Fetched::Nothing { .. } | crate::bus::Fetched::OutOfRange => None,
        }
    }

    fn what_waits(&self) -> String {
        let pages = self.world.inputs.iter().filter_map(|input| self.first_undelivered(input));
        let pages: Vec<String> = pages.map(|source| source.to_string()).collect();
        let mut states = Vec::new();
        for process in &self.processes {
            let worker = process.worker.as_ref().map(|worker| format!("{} {:?}", worker.name, worker.status()));
            states.extend(worker);
            states.extend(process.judges.iter().map(|judge| format!("{} {:?}", judge.name, judge.judge.role())));
        }
        format!("{}\n  {}", pages.join(", "), states.join("\n  "))
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
}

fn rules_keep(rules: &Rules) -> Duration {
    rules.windows.max() + rules.lateness
}
