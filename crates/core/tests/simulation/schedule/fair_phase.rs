//! The end of a schedule: without faults everything must be delivered.

use std::time::Duration;

use dupgate_core::record::{PartitionId, Source};

use super::Schedule;
use crate::bus::Fetched;
use crate::worker_driver::WorkerDriver;
use crate::world::{GROUP, Moment, Value};

impl Schedule {
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
                self.notice_losses();
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

    fn delivered_all(&self) -> bool {
        let at_end = |input: &PartitionId| {
            let committed = self.world.bus.committed(GROUP, input).map_or(0, |committed| committed.offset);
            let rest = self.world.bus.fetch(input, committed);
            matches!(rest, Fetched::Nothing { .. })
        };
        self.world.net.is_empty() && self.world.inputs.iter().all(at_end)
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
            Fetched::Record { offset, .. } => Some(input.at(offset)),
            Fetched::Nothing { .. } | Fetched::OutOfRange => None,
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
}
