//! What happens to processes from outside: sessions run out, transactions time out, machines pause.

use dupgate_core::protocol::LogPartition;

use super::Schedule;
use crate::coverage::Edge;
use crate::world::{GROUP, judges_of};

/// What faults happen to that meet a process at no particular call.
pub(super) const PROCESS: Edge = ("process", "running");

impl Schedule {
    /// Sessions run out, transactions time out, processes pause.
    pub(super) fn coordinator(&mut self) {
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
                    self.world.coverage.fault(PROCESS, "its session ends");
                }
            }
            1 => {
                let open = self.world.bus.open_transactions();
                if !open.is_empty() {
                    let id = &open[self.world.rng.below(open.len())];
                    self.world.log(|| format!("COORDINATOR: the transaction of {id} timed out"));
                    self.world.bus.time_out(id);
                    self.world.coverage.fault(PROCESS, "its transaction times out");
                }
            }
            2 => self.notice_losses(),
            3 => {
                // Pauses long enough to be thrown out, then continues as if nothing had happened.
                let at = self.world.rng.below(self.processes.len());
                self.processes[at].paused = 30 + self.world.rng.next() % 150;
                let name = self.instances[self.processes[at].instance].name.clone();
                self.world.log(|| format!("PAUSE {name}"));
                self.world.coverage.fault(PROCESS, "pauses");
                if self.world.harm(700, PROCESS, "pauses, is expelled") {
                    let worker = self.processes[at].worker.as_ref().and_then(|worker| worker.member.clone());
                    worker.iter().for_each(|member| self.world.bus.kick(GROUP, member));
                    for judge in &self.processes[at].judges {
                        judge.member.iter().for_each(|member| self.world.bus.kick(&judges_of(judge.log), member));
                    }
                }
                if self.world.rng.chance(300) && self.processes.len() < self.instances.len() + 2 {
                    self.world.coverage.fault(PROCESS, "pauses, is replaced");
                    // It was taken for dead, and its instance started again beside it.
                    let instance = self.processes[at].instance;
                    self.start(instance);
                }
            }
            4 => {
                let at = self.world.rng.below(self.processes.len());
                self.world.coverage.fault(PROCESS, "is killed");
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
                    self.world.coverage.fault(PROCESS, "is stopped");
                }
            }
        }
    }

    /// The coordinator notices that processes are gone.
    pub(super) fn notice_losses(&mut self) {
        for (group, member) in std::mem::take(&mut self.lost_members) {
            self.world.bus.kick(&group, &member);
        }
        for (id, epoch) in std::mem::take(&mut self.lost_transactions) {
            if self.world.bus.epoch_of(&id) == Some(epoch) {
                self.world.bus.time_out(&id);
            }
        }
    }
}
