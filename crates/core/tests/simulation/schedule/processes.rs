//! Processes of instances: they start, move, crash, and stop.

use std::time::Duration;

use dupgate_core::judge::{ColdStart, JudgeSettings};
use dupgate_core::protocol::{DualPeriod, LogIdentity, LogPartition, Rules};
use dupgate_core::worker::{Blocked, WorkerSettings};

use super::faults::PROCESS;
use super::rules::kept;
use super::{Process, Schedule};
use crate::judge_driver::JudgeDriver;
use crate::pages::Scheme;
use crate::settings::worker_settings;
use crate::worker_driver::WorkerDriver;
use crate::world::{GROUP, Step, judges_of};

impl Schedule {
    pub(super) fn start(&mut self, number: usize) {
        let sizes = self.sizes;
        let world = &mut self.world;
        let instance = &self.instances[number];
        let ms = Duration::from_millis;
        let keep = kept(&instance.rules);
        let scheme = instance.scheme;
        let current = instance.serves.iter().copied().filter(|_| scheme != Scheme::Earlier);
        let earlier = instance.serves.iter().map(|&log| world.earlier(log)).filter(|_| scheme != Scheme::Current);
        let logs: Vec<LogPartition> = current.chain(earlier).collect();
        let judges = logs.into_iter().map(|log| {
            let is_dual = scheme == Scheme::Dual && log.index() < world.logs;
            let settings = JudgeSettings {
                rules: Rules { dual: is_dual.then_some(DualPeriod::Begun), ..instance.rules.clone() },
                new_log: LogIdentity(world.rng.next()),
                cold_start: ColdStart::Stop,
                commit_interval: ms(2),
                checkpoint_interval_records: sizes.checkpoint_interval_records,
                keep,
                batch_verdicts: sizes.batch_verdicts,
                pending_verdicts: 6,
                transaction_timeout: ms(100),
                step_requests: 1,
                snapshot_interval: Some(ms(40)),
                revoke_grace: ms(10),
            };
            JudgeDriver::new(&instance.name, log, settings)
        });
        let judges: Vec<JudgeDriver> = judges.collect();
        let settings = WorkerSettings {
            logs: world.logs,
            remembered_verdicts: sizes.remembered_verdicts,
            scanned_positions: sizes.scanned_positions,
            in_flight_bytes: 6,
            transaction_pages: sizes.transaction_pages,
            transaction_timeout: Duration::from_secs(10),
            commit_interval: ms(2),
            ..worker_settings()
        };
        let id = instance.static_id.clone();
        let (name, limit) = (&instance.name, instance.limit);
        let worker = instance.works.then(|| WorkerDriver::new(world, name, id, limit, &settings, scheme));
        world.log(|| format!("START {}", instance.name));
        self.processes.push(Process { instance: number, worker, judges, paused: 0, stopping: false });
    }

    /// The process is gone, with whatever it held in memory.
    pub(super) fn remove(&mut self, at: usize) -> usize {
        let process = self.processes.remove(at);
        if let Some(worker) = &process.worker {
            self.lost_members.extend(worker.member.clone().map(|member| (GROUP.to_owned(), member)));
            self.lost_transactions.push(worker.producer());
        }
        for judge in &process.judges {
            self.lost_members.extend(judge.member.clone().map(|member| (judges_of(judge.log), member)));
        }
        process.instance
    }

    pub(super) fn crash(&mut self, at: usize) {
        let instance = self.remove(at);
        let name = self.instances[instance].name.clone();
        self.world.log(|| format!("CRASH {name}"));
        if self.world.harm(300, PROCESS, "loses its disk") {
            self.instances[instance].disks.clear();
        }
        self.laws.count("crashes");
        let is_running = self.processes.iter().any(|process| process.instance == instance);
        if !is_running {
            self.start(instance);
        }
    }

    /// Stops the judges of the earlier scheme once those of the current one say that the dual period is over.
    fn stop_earlier_judges(&mut self, at: usize) {
        let process = &mut self.processes[at];
        if self.instances[process.instance].scheme != Scheme::Dual {
            return;
        }
        let logs = self.world.logs;
        let (own, earlier): (Vec<_>, Vec<_>) = process.judges.iter_mut().partition(|judge| judge.log.index() < logs);
        let decides = |judge: &JudgeDriver| judge.judge.state().rules().is_some_and(|rules| rules.dual.is_none());
        if !own.is_empty() && own.iter().all(|judge| decides(judge)) {
            earlier.into_iter().filter(|judge| !judge.is_stopping).for_each(|judge| judge.stop(&self.world));
        }
    }

    /// One move of one part of one process.
    pub(super) fn act(&mut self, at: usize) {
        let process = &mut self.processes[at];
        if process.paused > 0 {
            process.paused -= 1;
            return;
        }
        self.stop_earlier_judges(at);
        let process = &mut self.processes[at];
        let instance = &mut self.instances[process.instance];
        let parts = process.judges.len() + usize::from(process.worker.is_some());
        if parts == 0 {
            // Everything has stopped: the process has ended as it should.
            let instance = self.remove(at);
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
                let mut is_asked = process.stopping;
                if is_worker {
                    let worker = process.worker.take();
                    self.lost_transactions.extend(worker.map(|worker| worker.producer()));
                } else {
                    is_asked |= process.judges.remove(part).is_stopping;
                }
                if !is_asked {
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
}
