//! What operators do: rewind the group, change rules and the mode, forget originals, have ranges judged again, set the
//! stream time back.

use dupgate_core::protocol::{ForgetTarget, LogPartition, Request, RequestBody};
use dupgate_core::record::{PartitionId, Source, Timestamp};
use dupgate_core::worker::Mode;

use super::Schedule;
use super::rules::{crowded, rules};
use crate::worker_driver::WorkerDriver;
use crate::world::GROUP;

impl Schedule {
    pub(super) fn operator(&mut self) {
        if !self.operated {
            return;
        }
        let dice = self.world.rng.below(11);
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
                let mut logs = vec![log];
                logs.extend(self.world.has_earlier.then(|| self.world.earlier(log)));
                let live: Vec<Source> = logs.iter().flat_map(|&log| self.laws.live(log)).collect();
                if !live.is_empty() {
                    let target = ForgetTarget::Source(live[self.world.rng.below(live.len())].clone());
                    let by_id = ForgetTarget::Id(crate::pages::id_of(self.world.rng.next() % 10));
                    let target = if self.world.rng.chance(500) { target } else { by_id };
                    let request = self.world.new_request();
                    for log in logs {
                        let body = RequestBody::Forget(target.clone());
                        self.world.send(log, Request { id: request, body }, None);
                    }
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
            9 => self.reopen_what_is_gone(),
            _ => {
                let age = i64::try_from(self.world.rng.below(90)).unwrap();
                self.set_time(self.world.clock - age);
            }
        }
    }

    pub(super) fn high(&self, input: &PartitionId) -> i64 {
        self.laws.high(input)
    }

    /// Has a range judged again: goes to every partition of the log.
    fn reopen(&mut self, input: &PartitionId, from: i64, to: i64) {
        let request = self.world.new_request();
        self.world.log(|| format!("OPERATOR: reopen {input} {from}..{to} (request {})", request.0));
        self.laws.count("reopened");
        for log in LogPartition::first(self.world.all_logs()) {
            let body = RequestBody::Reopen { partition: input.clone(), from, to };
            self.world.send(log, Request { id: request, body }, None);
        }
    }

    /// Sets the stream time of every partition of the log back.
    fn set_time(&mut self, time: i64) {
        let request = self.world.new_request();
        self.world.log(|| format!("OPERATOR: set the time to {time} (request {})", request.0));
        for log in LogPartition::first(self.world.all_logs()) {
            let body = RequestBody::SetTime(Timestamp::from_millis(time));
            self.world.send(log, Request { id: request, body }, None);
        }
    }

    /// An operator who is not sure that it was done asks again, perhaps while the range is on its way.
    pub(super) fn reopen_again(&mut self) {
        let Some((steps, input, from, to)) = self.reopened_again.take() else { return };
        if steps == 0 {
            self.laws.count("reopened again");
            self.reopen(&input, from, to);
        } else {
            self.reopened_again = Some((steps - 1, input, from, to));
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
            self.remove(0);
        }
        if self.world.change_mode(mode) {
            self.lost_members.clear();
            self.lost_transactions.clear();
            self.laws.restart();
            self.instances.iter_mut().for_each(|instance| instance.disks.clear());
        }
        self.notice_losses();
        (0..self.instances.len()).for_each(|instance| self.start(instance));
    }

    /// The way out for pages whose verdict is gone for good.
    pub(super) fn reopen_what_is_gone(&mut self) {
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
}
