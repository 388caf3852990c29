//! Runs scenarios: a cluster with two input partitions and one log, and the processes that were started.

use dupgate_core::fingerprint::PerMille;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::judge::{ColdStart, JudgeSettings, Role, Snapshot};
use dupgate_core::protocol::{
    Answer, Decision, ForgetTarget, LogIdentity, LogPartition, PerStage, Request, RequestBody, Rules, SameId,
    Stage as MatchStage,
};
use dupgate_core::record::{PartitionId, Source};
use dupgate_core::transaction::Call;
use dupgate_core::worker::{Pacing, PageOutcome, WorkerSettings};

use super::language::{Command, Length, Roles, State, Written};
use crate::bus::{Fetched, MemberId};
use crate::judge_driver::JudgeDriver;
use crate::laws::Laws;
use crate::pages::{Scheme, WorldPage};
use crate::settings::worker_settings;
use crate::worker_driver::WorkerDriver;
use crate::world::{GROUP, Moment, Step, Value, World, judges_of};

/// Milliseconds after which what is waited for will not come.
const PATIENCE: u32 = 4000;

/// Moves of each part in a millisecond.
const MOVES: usize = 8;

/// The one partition of the logs.
const LOG: LogPartition = LogPartition(0);

type Outcome = Result<(), String>;

/// One process; a part that has ended is gone.
struct Process {
    worker: Option<WorkerDriver>,
    judge: Option<JudgeDriver>,
    frozen: bool,
}

impl Process {
    /// Its places in groups: group and member.
    fn members(&self) -> Vec<(String, MemberId)> {
        let worker = self.worker.as_ref().and_then(|worker| worker.member.clone());
        let judge = self.judge.as_ref().and_then(|judge| judge.member.clone());
        let worker = worker.map(|member| (GROUP.to_owned(), member));
        worker.into_iter().chain(judge.map(|member| (judges_of(LOG), member))).collect()
    }
}

pub(super) struct Stage {
    world: World,
    laws: Laws,
    processes: BTreeMap<String, Process>,
    /// Snapshots, by process: they outlive it.
    disks: BTreeMap<String, Option<Snapshot>>,
    /// Why processes have failed.
    failures: BTreeMap<String, String>,
    /// Members whose process is gone, and the coordinator does not know.
    ghosts: Vec<(String, MemberId)>,
    /// Their transactional ids.
    orphans: Vec<String>,
    window: Duration,
    max_entries: u64,
    unfinished: bool,
}

impl Stage {
    pub(super) fn new(seed: u64) -> Self {
        let mut world = World::new(seed, 2, 1);
        world.faults = false;
        world.crash_at = Some((u64::MAX, Moment::Before));
        Self {
            world,
            laws: Laws::new(1, false),
            processes: BTreeMap::new(),
            disks: BTreeMap::new(),
            failures: BTreeMap::new(),
            ghosts: Vec::new(),
            orphans: Vec::new(),
            window: Duration::from_secs(10),
            max_entries: 100,
            unfinished: false,
        }
    }

    pub(super) fn trace(&self) -> String {
        let lines: Vec<&str> = self.world.trace.iter().map(String::as_str).collect();
        lines.join("\n")
    }

    pub(super) fn take(&mut self, command: Command) -> Outcome {
        match command {
            Command::Write(input, pages) => pages.into_iter().for_each(|page| self.write(&input, page)),
            Command::Start { name, roles, is_static } => self.start(&name, roles, is_static)?,
            Command::Kill(name) => {
                self.vanish(&name)?;
                self.notice();
            }
            Command::Vanish(name) => self.vanish(&name)?,
            Command::Notice => self.notice(),
            Command::Stop(name) => {
                let process = self.processes.get_mut(&name).ok_or("no such process")?;
                process.worker.iter_mut().for_each(|worker| worker.stop(&self.world));
                process.judge.iter_mut().for_each(|judge| judge.stop(&self.world));
            }
            Command::Freeze(name) => self.processes.get_mut(&name).ok_or("no such process")?.frozen = true,
            Command::Thaw(name) => self.processes.get_mut(&name).ok_or("no such process")?.frozen = false,
            Command::Expel(name) => {
                let members = self.processes.get(&name).ok_or("no such process")?.members();
                members.iter().for_each(|(group, member)| self.world.bus.kick(group, member));
            }
            Command::TimeOut(name) => {
                let id = self.worker(&name).ok_or("no such worker")?.transactional_id().to_owned();
                self.world.bus.time_out(&id);
            }
            Command::Wipe(name) => drop(self.disks.remove(&name)),
            Command::Plan(driver, call, what) => self.world.plan.call(&driver, call, what),
            Command::LetGo => self.world.plan.let_go(),
            Command::Lose(count) => self.world.plan.lost = count,
            Command::Repeat(count) => self.world.plan.repeated = count,
            Command::Window(millis) => self.window = Duration::from_millis(millis),
            Command::MaxEntries(count) => self.max_entries = count,
            Command::Pass(millis) => {
                for _ in 0..millis {
                    self.pass()?;
                }
            }
            Command::Until(state) => self.until(&state)?,
            Command::Expect(state) => self.check(&state)?,
            Command::Rewind(input, offset) => {
                for member in self.world.bus.members(GROUP) {
                    self.world.bus.kick(GROUP, &member);
                }
                self.world.bus.set_committed(GROUP, &input, offset);
            }
            Command::Cut(log, offset) => self.world.bus.delete_before(&log, offset),
            Command::Truncate(log, offset) => self.world.bus.truncate(&log, offset),
            Command::Drop(input) => {
                self.world.bus.remove_partition(GROUP, &input);
                self.world.inputs.retain(|known| *known != input);
            }
            Command::Reopen(partition, from, to) => self.ask(RequestBody::Reopen { partition, from, to }),
            Command::Forget(source) => self.ask(RequestBody::Forget(ForgetTarget::Source(source))),
            Command::Unfinished => self.unfinished = true,
        }
        Ok(())
    }

    /// Everything that was written must have its end, exactly as the laws say.
    pub(super) fn finish(&mut self) -> Outcome {
        if !self.unfinished {
            self.until(&State::Delivered)?;
            self.laws.check_ends(&mut self.world);
        }
        self.laws.check_originals(&mut self.world);
        self.world.violation.take().map_or(Ok(()), Err)
    }

    // ---- processes

    fn start(&mut self, name: &str, roles: Roles, is_static: bool) -> Outcome {
        if self.processes.contains_key(name) {
            return Err("it runs".to_owned());
        }
        let ms = Duration::from_millis;
        let judge = (roles != Roles::Worker).then(|| {
            let lateness = ms(5);
            let settings = JudgeSettings {
                rules: Rules {
                    stages: MatchStage::ALL.to_vec(),
                    max_distance: 1,
                    windows: PerStage::all(self.window),
                    lateness,
                    max_future_skew: ms(3),
                    max_entries: self.max_entries,
                    same_id: SameId::Update,
                    minhash: None,
                    number_guard: Some(PerMille(500)),
                    simhash_similarity: None,
                    same_site: None,
                    dual: None,
                },
                new_log: LogIdentity(self.world.rng.next()),
                cold_start: ColdStart::Stop,
                commit_interval: ms(2),
                checkpoint_interval_records: 6,
                keep: self.window + lateness,
                batch_verdicts: 3,
                pending_verdicts: 6,
                transaction_timeout: ms(100),
                step_requests: 1,
                snapshot_interval: Some(Duration::from_secs(1)),
                revoke_grace: ms(10),
            };
            JudgeDriver::new(name, LOG, settings)
        });
        let worker = (roles != Roles::Judge).then(|| {
            let base = worker_settings();
            let settings = WorkerSettings {
                remembered_verdicts: 3,
                scanned_positions: 4,
                in_flight_bytes: 20,
                transaction_pages: 5,
                transaction_timeout: Duration::from_secs(10),
                commit_interval: ms(2),
                pacing: Pacing { lead: Duration::from_mins(1), reach: Duration::from_mins(2), ..base.pacing },
                ..base
            };
            WorkerDriver::new(&mut self.world, name, is_static.then(|| name.to_owned()), 2, &settings, Scheme::Current)
        });
        self.world.log(|| format!("START {name}"));
        self.processes.insert(name.to_owned(), Process { worker, judge, frozen: false });
        Ok(())
    }

    /// The process is gone, and no broker knows yet.
    fn vanish(&mut self, name: &str) -> Outcome {
        let process = self.processes.remove(name).ok_or("no such process")?;
        self.ghosts.extend(process.members());
        self.orphans.extend(process.worker.map(|worker| worker.transactional_id().to_owned()));
        self.world.log(|| format!("GONE {name}"));
        Ok(())
    }

    /// The coordinators have waited for those who are gone, and for their transactions.
    fn notice(&mut self) {
        for (group, member) in std::mem::take(&mut self.ghosts) {
            self.world.bus.kick(&group, &member);
        }
        for id in std::mem::take(&mut self.orphans) {
            self.world.bus.time_out(&id);
        }
    }

    // ---- time

    /// A millisecond passes.
    fn pass(&mut self) -> Outcome {
        self.world.elapsed += Duration::from_millis(1);
        self.world.clock += 1;
        let names: Vec<String> = self.processes.keys().cloned().collect();
        for name in names {
            for _ in 0..MOVES {
                self.step(&name, false);
                self.step(&name, true);
            }
        }
        (0..4).for_each(|_| self.world.carry());
        self.laws.observe(&mut self.world);
        self.world.violation.take().map_or(Ok(()), Err)
    }

    fn step(&mut self, name: &str, judges: bool) {
        let Some(process) = self.processes.get_mut(name).filter(|process| !process.frozen) else { return };
        let step = match (&mut process.worker, &mut process.judge) {
            (Some(worker), _) if !judges => worker.step(&mut self.world),
            (_, Some(judge)) if judges => {
                let step = judge.step(&mut self.world, self.disks.entry(name.to_owned()).or_default());
                self.laws.observe(&mut self.world);
                self.laws.compare(&mut self.world, name, LOG, &judge.judge);
                step
            }
            _ => return,
        };
        match step {
            Step::Went => {}
            Step::Stopped if judges => process.judge = None,
            Step::Stopped => process.worker = None,
            Step::Crashed => drop(self.vanish(name)),
            Step::Failed(why) => {
                self.failures.insert(name.to_owned(), why);
                drop(self.vanish(name));
                self.notice();
            }
        }
        if self.processes.get(name).is_some_and(|process| process.worker.is_none() && process.judge.is_none()) {
            self.processes.remove(name);
        }
    }

    fn until(&mut self, state: &State) -> Outcome {
        for _ in 0..PATIENCE {
            if self.check(state).is_ok() {
                return Ok(());
            }
            self.pass()?;
        }
        self.check(state)
    }

    // ---- what is written and asked

    fn write(&mut self, input: &PartitionId, page: Written) {
        let (width, clock) = (self.world.width, self.world.clock);
        let page = match page {
            Written::Text { text, length, id, after } => {
                let page = WorldPage::scripted(text, id, width, clock + after);
                match length {
                    Length::Short => page,
                    Length::Long { is_variant } => page.long(is_variant),
                }
            }
            Written::Poisoned(text) => WorldPage::scripted(text, None, width, clock).poisoned(),
            Written::Unreadable => WorldPage::scripted(0, None, width, clock).unreadable(),
            Written::Tombstone => WorldPage::tombstone(&mut self.world.rng, width, clock),
        };
        let now = self.world.now();
        self.world.bus.append(input, now, Value::Page(Arc::new(page)));
    }

    fn ask(&mut self, body: RequestBody) {
        let request = Request { id: self.world.new_request(), body };
        self.world.send(LOG, request, None);
    }

    // ---- what is so

    fn worker(&self, name: &str) -> Option<&WorkerDriver> {
        self.processes.get(name)?.worker.as_ref()
    }

    fn role(&self, name: &str) -> Option<Role> {
        Some(self.processes.get(name)?.judge.as_ref()?.judge.role())
    }

    fn blocked(&self, input: &PartitionId) -> Option<String> {
        let workers = self.processes.values().filter_map(|process| process.worker.as_ref());
        workers.flat_map(WorkerDriver::blocked).find(|(of, _)| of == input).map(|(_, why)| why.to_string())
    }

    fn committed(&self, input: &PartitionId) -> Option<i64> {
        self.world.bus.committed(GROUP, input).map(|committed| committed.offset)
    }

    fn check(&self, state: &State) -> Outcome {
        match state {
            State::Joined(name) => {
                so(self.worker(name).is_some_and(|worker| worker.status().joined), || format!("{:?}", self.names()))
            }
            State::Judges(name) => so(self.role(name) == Some(Role::Active), || format!("it is {:?}", self.role(name))),
            State::StandsBy(name) => {
                so(self.role(name) == Some(Role::Standby), || format!("it is {:?}", self.role(name)))
            }
            State::Gone(name) => so(!self.processes.contains_key(name), || "it runs".to_owned()),
            State::Failed(name, why) => so(self.failures.get(name).is_some_and(|said| said.contains(why)), || {
                format!("it has {:?}", self.failures.get(name))
            }),
            State::Holds(driver, call) => self.holds(driver, *call),
            State::Reads(name, input) => {
                so(self.worker(name).is_some_and(|worker| worker.reads(input)), || format!("{:?}", self.names()))
            }
            State::Committed(input, offset) => {
                so(self.committed(input) == *offset, || format!("committed is {:?}", self.committed(input)))
            }
            State::Blocked(input, why) => so(self.blocked(input).is_some_and(|said| said.contains(why)), || {
                format!("blocked is {:?}", self.blocked(input))
            }),
            State::Free(input) => so(self.blocked(input).is_none(), || format!("blocked is {:?}", self.blocked(input))),
            State::Trimmed(log) => {
                let start = self.world.bus.start(log);
                so(start > 0, || format!("it begins at {start}"))
            }
            State::Ends(input, expected) => {
                let ends: Vec<String> =
                    (0_i64..).zip(expected).map(|(offset, _)| self.end(&input.at(offset))).collect();
                so(ends == *expected, || format!("it is {}", ends.join(", ")))
            }
            State::Times(source, times) => {
                let delivered = self.laws.ends(source).len();
                so(delivered == *times, || format!("it is {delivered} times"))
            }
            State::Delivered => {
                let rest: Vec<&PartitionId> =
                    self.world.inputs.iter().filter(|input| !self.is_delivered(input)).collect();
                so(rest.is_empty() && self.world.net.is_empty(), || format!("not delivered: {rest:?}"))
            }
        }
    }

    /// A call is held when it is the one to be made: the transaction is open up to there.
    fn holds(&self, driver: &str, call: Call) -> Outcome {
        let name = driver.split('.').next().unwrap_or_default();
        let process = self.processes.get(name).ok_or("no such process")?;
        let out = if driver.ends_with(".worker") {
            process.worker.as_ref().and_then(WorkerDriver::call_out)
        } else {
            process.judge.as_ref().and_then(JudgeDriver::call_out)
        };
        so(out == Some(call) && self.world.plan.holds(driver, call), || format!("the call that is out is {out:?}"))
    }

    fn is_delivered(&self, input: &PartitionId) -> bool {
        let committed = self.committed(input).unwrap_or(0);
        matches!(self.world.bus.fetch(input, committed), Fetched::Nothing { .. })
    }

    /// How a page has ended, in words.
    fn end(&self, source: &Source) -> String {
        let ends: BTreeSet<String> = self.laws.ends(source).iter().map(end_in_words).collect();
        if ends.is_empty() { "nothing".to_owned() } else { ends.into_iter().collect::<Vec<_>>().join(" and ") }
    }

    fn names(&self) -> Vec<&String> {
        self.processes.keys().collect()
    }
}

fn so(is_so: bool, else_: impl FnOnce() -> String) -> Outcome {
    if is_so { Ok(()) } else { Err(else_()) }
}

fn end_in_words(outcome: &PageOutcome) -> String {
    let verdict = match outcome {
        PageOutcome::Tombstone => return "tombstone".to_owned(),
        PageOutcome::DeadLetter(reason) => return format!("dead letter {}", reason.name()),
        PageOutcome::Judged(verdict) => verdict,
    };
    match &verdict.answer {
        Answer::Page(page) => match &page.decision {
            Decision::Unique { .. } => "unique".to_owned(),
            Decision::Update { .. } => "update".to_owned(),
            Decision::Template { .. } => "template".to_owned(),
            Decision::Duplicate { of } => format!("duplicate of {}", of.source),
        },
        other
        @ (Answer::Withdrawn { .. } | Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. }) => {
            format!("{other:?}")
        }
    }
}
