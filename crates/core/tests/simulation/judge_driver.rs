//! Carries out a judge's effects on the simulated cluster, one broker call at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dupgate_core::index::run_sequential;
use dupgate_core::judge::{Effect, Event, InputOffsets, Judge, JudgeSettings, ProducerCall, Snapshot};
use dupgate_core::protocol::{
    BARRIER, LogPartition, RequestOffset, VerdictOffset, VerdictReader, decode_requests, encode_verdict,
};
use dupgate_core::transaction::{Call, CallError};

use crate::bus::{Committed, Fetched, MemberId, Notice};
use crate::producer::{Client, Died, Out};
use crate::world::{From, GROUP, Moment, Step, Value, World, judges_of, requests_of, verdicts_of};

/// A judge of one log partition in one process.
pub(crate) struct JudgeDriver {
    pub(crate) name: String,
    pub(crate) log: LogPartition,
    pub(crate) judge: Judge,
    client: Client,
    call: Option<Out<ProducerCall>>,
    todo: VecDeque<Todo>,
    /// Where following is, while it is wanted.
    follow: Option<From>,
    reader: VerdictReader,
    end: Option<Question>,
    /// An answer about the end of the log that is on its way.
    delayed_end: Option<u64>,
    reading: Option<i64>,
    pub(crate) member: Option<MemberId>,
    generation: u32,
    owned: bool,
    revoking: bool,
    over: Option<Step>,
    /// It was told to stop.
    pub(crate) is_stopping: bool,
}

/// A broker call that an effect asks for, in the order of the effects.
#[derive(Debug, PartialEq, Eq)]
enum Todo {
    Restore,
    FindEnd(u64),
    Join,
    Leave,
    FetchInput(u64),
    Trim { verdicts: i64, requests: i64 },
    Release,
}

/// A question for the end of the log, and the answer.
#[derive(Clone, Copy)]
struct Question {
    number: u64,
    end: i64,
}

/// What may happen next to a judge.
#[derive(Clone, Copy)]
enum Move {
    DelayedEnd,
    Todo,
    Call,
    Follow,
    Requests,
    Continue,
    Poll,
    Tick,
}

impl JudgeDriver {
    pub(crate) fn new(name: &str, log: LogPartition, settings: JudgeSettings) -> Self {
        Self {
            name: format!("{name}.judge{log}"),
            log,
            judge: Judge::new(settings),
            client: Client::new("judge", judges_of(log)),
            call: None,
            todo: VecDeque::new(),
            follow: None,
            reader: VerdictReader::new(),
            end: None,
            delayed_end: None,
            reading: None,
            member: None,
            generation: 0,
            owned: false,
            revoking: false,
            over: None,
            is_stopping: false,
        }
    }

    /// Returns the call to the producer that waits to be made.
    pub(crate) fn call_out(&self) -> Option<Call> {
        self.call.as_ref().filter(|out| out.answer.is_none()).map(|out| call_of(&out.request))
    }

    /// Creates one move; `disk` is the snapshot that outlives the process.
    pub(crate) fn step(&mut self, world: &mut World, disk: &mut Option<Snapshot>) -> Step {
        if let Some(over) = self.drain(world, disk) {
            return over;
        }
        let mut moves = vec![Move::Tick];
        if !self.todo.is_empty() {
            moves.push(Move::Todo);
        }
        if self.call.is_some() {
            moves.push(Move::Call);
        }
        if self.follow.is_some() {
            moves.push(Move::Follow);
        }
        if self.delayed_end.is_some() {
            moves.push(Move::DelayedEnd);
        }
        if self.judge.is_unfinished() {
            moves.push(Move::Continue);
        } else if self.reading.is_some() && self.judge.wants_requests() {
            moves.push(Move::Requests);
        }
        if self.member.is_some() {
            moves.push(Move::Poll);
        }
        let gone = match world.rng.pick(&moves) {
            Move::Todo => self.do_next(world, disk.as_ref()),
            Move::Call => self.make_call(world),
            Move::DelayedEnd => {
                if let Some(question) = self.delayed_end.take() {
                    self.judge.handle(world.elapsed, Event::FollowedToEnd { question });
                }
                Ok(())
            }
            Move::Follow => self.hand_over_verdicts(world),
            Move::Requests => self.hand_over_requests(world),
            Move::Continue => {
                self.judge.handle(world.elapsed, Event::Continue);
                Ok(())
            }
            Move::Poll => self.poll(world),
            Move::Tick => {
                self.judge.handle(world.elapsed, Event::Tick);
                Ok(())
            }
        };
        match gone {
            Ok(()) => self.drain(world, disk).unwrap_or(Step::Went),
            Err(Died) => Step::Crashed,
        }
    }

    /// Tells the judge to commit and leave.
    pub(crate) fn stop(&mut self, world: &World) {
        self.is_stopping = true;
        self.judge.handle(world.elapsed, Event::Stop);
    }

    fn drain(&mut self, world: &mut World, disk: &mut Option<Snapshot>) -> Option<Step> {
        while let Some(effect) = self.judge.poll() {
            match effect {
                Effect::Restore => self.todo.push_back(Todo::Restore),
                Effect::Follow { from } => {
                    self.follow = Some(From::wanted(from.map(|from| from.0)));
                    self.reader = VerdictReader::new();
                    self.forget_end();
                }
                Effect::FollowToEnd { question } => {
                    self.end = None;
                    self.todo.retain(|todo| !matches!(todo, Todo::FindEnd(_)));
                    self.todo.push_back(Todo::FindEnd(question));
                }
                Effect::FollowToBarrier { question, barrier } => {
                    self.todo.retain(|todo| !matches!(todo, Todo::FindEnd(_)));
                    self.end = Some(Question { number: question, end: barrier.0 + 1 });
                }
                Effect::Unfollow => {
                    self.follow = None;
                    self.forget_end();
                }
                Effect::Join => self.todo.push_back(Todo::Join),
                Effect::Leave => self.todo.push_back(Todo::Leave),
                Effect::Call(request) => {
                    if self.call.is_some() {
                        world.violate(format!("{}: a call while another is out: {request:?}", self.name));
                    }
                    self.call = Some(Out { request, answer: None });
                }
                Effect::ReadRequests { from } => self.reading = Some(from.0),
                Effect::StopReading => self.reading = None,
                Effect::FetchInputCommitted { question } => self.todo.push_back(Todo::FetchInput(question)),
                Effect::Trim { verdicts, requests } => {
                    self.todo.push_back(Todo::Trim { verdicts: verdicts.0, requests: requests.0 });
                }
                Effect::Snapshot => match self.judge.take_snapshot() {
                    Some(snapshot) => {
                        let snapshot = snapshot.listed();
                        let (name, at) = (self.name.clone(), snapshot.at);
                        world.log(|| format!("{name}: snapshot at {at}"));
                        *disk = Some(snapshot);
                    }
                    None => world.violate(format!("{}: a snapshot is due, and there is none", self.name)),
                },
                Effect::RevokeDone => self.todo.push_back(Todo::Release),
                Effect::Stopped => self.over = Some(Step::Stopped),
                Effect::Fail(why) => self.over = Some(Step::Failed(why.to_string())),
            }
        }
        // What was asked before the end is still done.
        if self.todo.is_empty() || matches!(self.over, Some(Step::Failed(_))) { self.over.clone() } else { None }
    }

    fn do_next(&mut self, world: &mut World, disk: Option<&Snapshot>) -> Result<(), Died> {
        let Some(todo) = self.todo.pop_front() else { return Ok(()) };
        let call = match &todo {
            Todo::Restore => "restore",
            Todo::FindEnd(_) => "find end",
            Todo::Join => "join",
            Todo::Leave => "leave",
            Todo::FetchInput(_) => "find committed",
            Todo::Trim { .. } => "trim",
            Todo::Release => "release",
        };
        let dies = world.reach(("judge", call));
        if dies == Some(Moment::Before) {
            return Err(Died);
        }
        let event = match todo {
            Todo::Restore => Some(Event::Restored(disk.map(|snapshot| Box::new(snapshot.restore(run_sequential))))),
            Todo::FindEnd(number) => {
                // A broker that has lost touch with the others may not know the newest records.
                let unknown =
                    if world.harm(200, ("judge", "find end"), "too low") { world.rng.pick(&[1, 2, 4, 8]) } else { 0 };
                self.end = Some(Question { number, end: world.bus.stable_end(&verdicts_of(self.log)) - unknown });
                None
            }
            Todo::Join => {
                self.join(world);
                None
            }
            Todo::Leave => {
                if let Some(member) = self.member.take() {
                    world.bus.leave(&judges_of(self.log), &member);
                }
                self.owned = false;
                self.revoking = false;
                None
            }
            Todo::FetchInput(question) => {
                let committed = |input| Some((input, world.bus.committed(GROUP, input)?.offset));
                let committed = world.inputs.iter().filter_map(committed);
                let committed = committed.map(|(input, offset)| (input.clone(), offset)).collect();
                let partitions = world.inputs.iter().cloned().collect();
                let input = InputOffsets { committed, partitions };
                Some(Event::InputCommitted { question, input })
            }
            Todo::Trim { verdicts, requests } => {
                let name = self.name.clone();
                world.log(|| format!("{name}: TRIM verdicts to {verdicts}, requests to {requests}"));
                world.bus.delete_before(&verdicts_of(self.log), verdicts);
                world.bus.delete_before(&requests_of(self.log), requests);
                None
            }
            Todo::Release => {
                if self.revoking
                    && let Some(member) = &self.member
                {
                    world.bus.release(&judges_of(self.log), member, &BTreeSet::from([requests_of(self.log)]));
                    self.owned = false;
                }
                self.revoking = false;
                None
            }
        };
        if dies == Some(Moment::After) {
            return Err(Died);
        }
        if let Some(event) = event {
            self.judge.handle(world.elapsed, event);
        }
        Ok(())
    }

    /// What is followed is another reading now: what was asked about the former one is not answered any more.
    fn forget_end(&mut self) {
        self.end = None;
        self.delayed_end = None;
        self.todo.retain(|todo| !matches!(todo, Todo::FindEnd(_)));
    }

    fn join(&mut self, world: &mut World) {
        let member = world.bus.join(&judges_of(self.log), None);
        let name = self.name.clone();
        world.log(|| format!("{name}: joins as {member}"));
        self.member = Some(member);
        self.generation = 0;
        self.owned = false;
        self.revoking = false;
        self.todo.retain(|todo| *todo != Todo::Release);
    }

    fn make_call(&mut self, world: &mut World) -> Result<(), Died> {
        let Some(mut out) = self.call.take() else { return Ok(()) };
        if let Some(answer) = out.answer.take() {
            let answer = answer.map(|offsets| offsets.into_iter().map(VerdictOffset).collect());
            self.judge.handle(world.elapsed, Event::Called(answer));
            return Ok(());
        }
        let call = call_of(&out.request);
        if world.plan.holds(&self.name, call) {
            self.call = Some(out);
            return Ok(());
        }
        let (log, member, generation) = (self.log, self.member.clone(), self.generation);
        let request = &out.request;
        let work = |world: &mut World, client: &Client, half| match request {
            ProducerCall::Produce(records) => {
                let parts = records.iter().map(|record| encode_verdict(record, world.part_bytes));
                let parts: Vec<(bool, Vec<u8>)> = parts
                    .flat_map(|parts| parts.into_iter().enumerate().map(|(number, part)| (number == 0, part)))
                    .collect();
                let count = if half { world.rng.below(parts.len() + 1) } else { parts.len() };
                let mut offsets = Vec::new();
                for (is_first, part) in parts.into_iter().take(count) {
                    let (now, value) = (world.now(), Value::Verdict(part));
                    let offset = world.bus.produce(client.id(), client.epoch(), &verdicts_of(log), now, value);
                    let offset = offset.map_err(|refused| client.refused(world, call, refused))?;
                    offsets.extend(is_first.then_some(offset));
                }
                Ok(offsets)
            }
            ProducerCall::ProduceBarrier => {
                let (now, value) = (world.now(), Value::Verdict(BARRIER.to_vec()));
                let offset = world.bus.produce(client.id(), client.epoch(), &verdicts_of(log), now, value);
                offset.map(|offset| vec![offset]).map_err(|refused| client.refused(world, call, refused))
            }
            ProducerCall::SendOffsets { next_request, checkpoint } => {
                let metadata = checkpoint.map(|offset| offset.to_string()).unwrap_or_default();
                let offsets = BTreeMap::from([(requests_of(log), Committed { offset: next_request.0, metadata })]);
                let Some(member) = &member else {
                    return Err(CallError::Abortable("no member of the group".to_owned()));
                };
                let id = (client.id(), client.epoch());
                let sent = world.bus.send_offsets(id, &judges_of(log), (member, generation), offsets);
                sent.map(|()| Vec::new()).map_err(|refused| client.refused(world, call, refused))
            }
            ProducerCall::Plain(_) => Ok(Vec::new()),
        };
        out.answer = Some(self.client.make(world, &self.name, call, work)?);
        self.call = Some(out);
        Ok(())
    }

    fn hand_over_verdicts(&mut self, world: &mut World) -> Result<(), Died> {
        let log = verdicts_of(self.log);
        let Some(from) = self.follow else { return Ok(()) };
        let from = from.or_start(|| world.bus.start(&log));
        if world.reach(("judge", "follow")).is_some() {
            return Err(Died);
        }
        let event = match world.bus.fetch(&log, from) {
            Fetched::OutOfRange => {
                self.follow = None;
                self.forget_end();
                Some(Event::LogMoved)
            }
            Fetched::Record { offset, value: Value::Verdict(part), .. }
                if self.end.is_none_or(|asked| from < asked.end) =>
            {
                self.follow = Some(From::Offset(offset + 1));
                match self.reader.push(offset, part) {
                    Ok(whole) => {
                        let next = VerdictOffset(offset + 1);
                        whole.map(|(first, record)| Event::Followed { offset: VerdictOffset(first), next, record })
                    }
                    Err(why) => {
                        world.violate(format!("{}: {log}@{offset} cannot be read: {why}", self.name));
                        None
                    }
                }
            }
            Fetched::Record { .. } | Fetched::Nothing { .. } => {
                let position = match world.bus.fetch(&log, from) {
                    Fetched::Nothing { position } => position,
                    Fetched::Record { .. } | Fetched::OutOfRange => from,
                };
                self.follow = Some(From::Offset(position));
                let reached = self.end.take_if(|asked| position >= asked.end);
                reached.and_then(|asked| {
                    // It may be on its way for a while: the group, or another judge, may be faster.
                    if self.delayed_end.is_none() && world.harm(300, ("judge", "follow"), "the end is told late") {
                        self.delayed_end = Some(asked.number);
                        return None;
                    }
                    Some(Event::FollowedToEnd { question: asked.number })
                })
            }
        };
        if let Some(event) = event {
            self.judge.handle(world.elapsed, event);
        }
        Ok(())
    }

    fn hand_over_requests(&mut self, world: &mut World) -> Result<(), Died> {
        let log = requests_of(self.log);
        let Some(from) = self.reading else { return Ok(()) };
        if world.reach(("judge", "read")).is_some() {
            return Err(Died);
        }
        match world.bus.fetch(&log, from) {
            Fetched::Record { offset, timestamp, value: Value::Requests(requests) } => {
                let requests = decode_requests(requests).unwrap();
                let event = Event::Requests { offset: RequestOffset(offset), append_time: timestamp, requests };
                self.reading = Some(offset + 1);
                self.judge.handle(world.elapsed, event);
            }
            Fetched::Record { .. } | Fetched::Nothing { .. } => {}
            Fetched::OutOfRange => {
                self.reading = None;
                let (first, end) = (RequestOffset(world.bus.start(&log)), RequestOffset(world.bus.end(&log)));
                self.judge.handle(world.elapsed, Event::RequestsOutOfRange { first, end });
            }
        }
        Ok(())
    }

    fn poll(&mut self, world: &mut World) -> Result<(), Died> {
        let group = judges_of(self.log);
        let Some(member) = self.member.clone() else { return Ok(()) };
        // While a revocation waits for its answer, the client notices at most that it was thrown out.
        if self.revoking && (world.bus.members(&group).contains(&member) || world.rng.chance(700)) {
            return Ok(());
        }
        if world.reach(("judge", "poll")).is_some() {
            return Err(Died);
        }
        let notice = world.bus.poll(&group, &member);
        self.generation = world.bus.generation_seen(&group, &member);
        if notice != Notice::Quiet {
            let name = self.name.clone();
            world.log(|| format!("{name}: {notice:?}"));
        }
        match notice {
            Notice::Quiet => {}
            Notice::Lost => {
                let owned = self.owned;
                self.join(world);
                if owned {
                    self.judge.handle(world.elapsed, Event::Lost);
                }
            }
            Notice::Revoke(_) => {
                self.revoking = true;
                self.judge.handle(world.elapsed, Event::Revoked);
            }
            Notice::Assigned(_) => {
                self.owned = true;
                self.judge.handle(world.elapsed, Event::Assigned);
            }
        }
        Ok(())
    }
}

const fn call_of(request: &ProducerCall) -> Call {
    match request {
        ProducerCall::Produce(_) | ProducerCall::ProduceBarrier => Call::Produce,
        ProducerCall::SendOffsets { .. } => Call::SendOffsets,
        ProducerCall::Plain(call) => *call,
    }
}
