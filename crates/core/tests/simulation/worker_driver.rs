//! Carries out a worker's effects on the simulated cluster, one broker call at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use dupgate_core::protocol::{LogPartition, Request, RequestOffset, VerdictOffset, VerdictReader};
use dupgate_core::record::{PartitionId, Timestamp};
use dupgate_core::transaction::{Call, CallError};
use dupgate_core::worker::Mode;
use dupgate_core::worker::{
    Backlog, Blocked, Effect, Event, Output, Page, PageOutcome, ProducerCall, ReadFrom, Status, Subscription, Worker,
    WorkerSettings, new_to_group,
};

use crate::bus::{Committed, Fetched, MemberId, Notice};
use crate::pages::{Scheme, WorldPage};
use crate::producer::{Client, Died, Out};
use crate::world::{From, GROUP, Given, Moment, Step, Value, World, judges_of, routed, verdicts_of};

type Payload = Arc<WorldPage>;

/// A worker in one process.
pub(crate) struct WorkerDriver {
    pub(crate) name: String,
    worker: Worker<Payload>,
    life: u64,
    instance: Option<String>,
    limit: u32,
    client: Client,
    call: Option<Out<ProducerCall<Payload>>>,
    todo: VecDeque<Todo>,
    fetches: VecDeque<BTreeSet<PartitionId>>,
    follows: Vec<Follow>,
    scans: Vec<Option<Scan>>,
    reading: BTreeMap<PartitionId, Reading>,
    /// Outlives seeks and assignments, as in the client library.
    paused: BTreeSet<PartitionId>,
    pub(crate) member: Option<MemberId>,
    pub(crate) generation: u32,
    owned: BTreeSet<PartitionId>,
    revoking: BTreeSet<PartitionId>,
    /// How far each log was followed when the transaction in progress was put together.
    composed_at: Vec<i64>,
    scheme: Scheme,
    /// The next `Begin` opens what an earlier one was to open.
    begins_again: bool,
    over: Option<Step>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most of what is to do is appending")]
enum Todo {
    FetchCheckpoint(LogPartition),
    FetchNewToGroup,
    FetchBacklog(BTreeMap<PartitionId, i64>),
    FindEnd(LogPartition),
    Join,
    Leave,
    Append(LogPartition, Request),
    Release,
}

/// Following one verdict log.
#[derive(Debug, Default)]
struct Follow {
    /// Absent while nothing is wanted.
    next: Option<From>,
    end: Option<i64>,
    reader: VerdictReader,
}

/// A scan of a verdict log, beside the following.
#[derive(Debug, Default)]
struct Scan {
    next: Option<i64>,
    end: Option<i64>,
    reader: VerdictReader,
}

/// One input partition.
#[derive(Debug)]
struct Reading {
    next: i64,
    /// The worker knows where reading begins.
    started: bool,
    at_end: bool,
    /// Read, but still in the text work.
    on_the_way: VecDeque<Page<Payload>>,
}

#[derive(Clone, Copy)]
enum Move {
    Todo,
    Call,
    Committed,
    Follow(LogPartition),
    Scan(LogPartition),
    Read,
    HandOver,
    Report,
    Poll,
    Tick,
}

impl WorkerDriver {
    pub(crate) fn new(
        world: &mut World,
        name: &str,
        instance: Option<String>,
        limit: u32,
        settings: &WorkerSettings,
        scheme: Scheme,
    ) -> Self {
        let settings = if scheme == Scheme::Dual {
            &WorkerSettings { earlier_logs: settings.logs, ..settings.clone() }
        } else {
            settings
        };
        let logs = settings.logs + settings.earlier_logs;
        let life = world.new_life();
        let id =
            instance.as_ref().map_or_else(|| format!("worker.life{life}"), |instance| format!("worker.{instance}"));
        Self {
            name: format!("{name}.worker"),
            follows: (0..logs).map(|_| Follow::default()).collect(),
            scans: (0..logs).map(|_| None).collect(),
            scheme,
            worker: Worker::new(WorkerSettings { first_request: life << 32, ..settings.clone() }),
            life,
            instance,
            limit,
            client: Client::new("worker", id),
            call: None,
            todo: VecDeque::new(),
            fetches: VecDeque::new(),
            reading: BTreeMap::new(),
            paused: BTreeSet::new(),
            member: None,
            generation: 0,
            owned: BTreeSet::new(),
            revoking: BTreeSet::new(),
            composed_at: Vec::new(),
            begins_again: false,
            over: None,
        }
    }

    /// Returns the log of the cluster that the worker means: an instance of the earlier scheme knows no other.
    fn there(&self, world: &World, log: LogPartition) -> LogPartition {
        if self.scheme == Scheme::Earlier { world.earlier(log) } else { log }
    }

    pub(crate) fn status(&self) -> Status {
        self.worker.status()
    }

    pub(crate) fn blocked(&self) -> BTreeMap<PartitionId, Blocked> {
        self.worker.blocked()
    }

    /// The partitions that the group has given to it.
    pub(crate) fn owned(&self) -> &BTreeSet<PartitionId> {
        &self.owned
    }

    /// Returns whether it reads this partition.
    pub(crate) fn reads(&self, partition: &PartitionId) -> bool {
        self.reading.get(partition).is_some_and(|reading| reading.started)
    }

    /// Everything that the worker holds, for the one who reads a failure.
    pub(crate) fn inside(&self) -> String {
        format!("{:?}", self.worker)
    }

    /// The worker's transactional id.
    pub(crate) fn transactional_id(&self) -> &str {
        self.client.id()
    }

    /// The worker's transactional id, and the epoch of its producer.
    pub(crate) fn producer(&self) -> (String, u32) {
        (self.client.id().to_owned(), self.client.epoch())
    }

    /// Tells the worker to deliver what it can and leave.
    pub(crate) fn stop(&mut self, world: &World) {
        self.worker.handle(world.elapsed, Event::Stop);
    }

    /// Returns the call to the producer that waits to be made.
    pub(crate) fn call_out(&self) -> Option<Call> {
        self.call.as_ref().filter(|out| out.answer.is_none()).map(|out| call_of(&out.request))
    }

    /// Creates one move.
    pub(crate) fn step(&mut self, world: &mut World) -> Step {
        if let Some(over) = self.drain(world) {
            return over;
        }
        let mut moves = vec![Move::Tick];
        if !self.todo.is_empty() {
            moves.extend([Move::Todo, Move::Todo]);
        }
        if self.call.is_some() {
            moves.extend([Move::Call, Move::Call]);
        }
        if !self.fetches.is_empty() {
            moves.push(Move::Committed);
        }
        for log in LogPartition::first(self.follows.len()) {
            if self.follows[log.index()].next.is_some() {
                moves.push(Move::Follow(log));
            }
            if self.scans[log.index()].is_some() {
                moves.push(Move::Scan(log));
            }
        }
        if self.reading.keys().any(|input| !self.paused.contains(input)) {
            moves.push(Move::Read);
        }
        if self.reading.values().any(|reading| !reading.on_the_way.is_empty()) {
            moves.push(Move::HandOver);
        }
        if world.reports.get(&self.life).is_some_and(|reports| !reports.is_empty()) {
            moves.push(Move::Report);
        }
        if self.member.is_some() {
            moves.push(Move::Poll);
        }
        let gone = match world.rng.pick(&moves) {
            Move::Todo => self.do_next(world),
            Move::Call => self.make_call(world),
            Move::Committed => self.fetch_committed(world),
            Move::Follow(log) => self.hand_over_verdicts(world, log),
            Move::Scan(log) => self.scan(world, log),
            Move::Read => self.read(world),
            Move::HandOver => {
                self.hand_over_page(world);
                Ok(())
            }
            Move::Report => {
                let report = world.reports.get_mut(&self.life).and_then(VecDeque::pop_front);
                if let Some((request, result)) = report {
                    self.worker.handle(world.elapsed, Event::Appended(request, result.map(RequestOffset)));
                }
                Ok(())
            }
            Move::Poll => self.poll(world),
            Move::Tick => {
                self.worker.handle(world.elapsed, Event::Tick);
                Ok(())
            }
        };
        match gone {
            Ok(()) => self.drain(world).unwrap_or(Step::Went),
            Err(Died) => Step::Crashed,
        }
    }

    fn drain(&mut self, world: &mut World) -> Option<Step> {
        while let Some(effect) = self.worker.poll() {
            match effect {
                Effect::FetchCheckpoint(log) => self.todo.push_back(Todo::FetchCheckpoint(log)),
                Effect::Follow { log, from } => {
                    self.forget_end(log);
                    self.follows[log.index()] =
                        Follow { next: Some(From::wanted(from.map(|from| from.0))), ..Follow::default() };
                }
                Effect::FollowToEnd(log) => {
                    self.forget_end(log);
                    self.todo.push_back(Todo::FindEnd(log));
                }
                Effect::FetchNewToGroup => self.todo.push_back(Todo::FetchNewToGroup),
                Effect::FetchBacklog(heads) => self.todo.push_back(Todo::FetchBacklog(heads)),
                Effect::Join => self.todo.push_back(Todo::Join),
                Effect::Leave => self.todo.push_back(Todo::Leave),
                Effect::FetchCommitted(partitions) => self.fetches.push_back(partitions),
                Effect::Seek { partition, from } => {
                    let next = match from {
                        ReadFrom::Offset(offset) => offset,
                        ReadFrom::ConfiguredStart if world.starts_at_end => world.bus.stable_end(&partition),
                        ReadFrom::Beginning | ReadFrom::ConfiguredStart => world.bus.start(&partition),
                    };
                    if self.owned.contains(&partition) {
                        let reading = Reading { next, started: false, at_end: false, on_the_way: VecDeque::new() };
                        self.reading.insert(partition, reading);
                    }
                }
                Effect::Pause(partitions) => self.paused.extend(partitions),
                Effect::Resume(partitions) => self.paused.retain(|partition| !partitions.contains(partition)),
                Effect::Append(log, request) => self.todo.push_back(Todo::Append(log, request)),
                Effect::ScanVerdicts { log, from } => {
                    self.scans[log.index()] = Some(Scan { next: from.map(|from| from.0), ..Scan::default() });
                }
                Effect::EndScan(log) => {
                    self.scans[log.index()] = None;
                }
                Effect::Call(request) => {
                    if self.call.is_some() {
                        world.violate(format!("{}: a call while another is out", self.name));
                    }
                    self.note_composition(world, &request);
                    self.call = Some(Out { request, answer: None });
                }
                Effect::Delivered(_) => {}
                Effect::RevokeDone => self.todo.push_back(Todo::Release),
                Effect::Stopped => self.over = Some(Step::Stopped),
                Effect::Fail(why) => self.over = Some(Step::Failed(why.to_string())),
            }
        }
        if self.todo.is_empty() || matches!(self.over, Some(Step::Failed(_))) { self.over.clone() } else { None }
    }

    /// A page in a transaction has the verdict that was in force when the transaction was put together.
    fn note_composition(&mut self, world: &mut World, request: &ProducerCall<Payload>) {
        match request {
            ProducerCall::Plain(Call::Begin) if !self.begins_again => {
                let reached = |follow: &Follow| follow.next.map_or(0, |next| next.or_start(|| 0));
                let first = self.there(world, LogPartition(0)).index();
                self.composed_at = vec![0; first];
                self.composed_at.extend(self.follows.iter().map(reached));
            }
            ProducerCall::Produce(outputs) => {
                for output in outputs {
                    if let PageOutcome::Judged(verdict) = &output.outcome {
                        let followed = self.composed_at.clone();
                        world.given.push(Given { verdict: Arc::clone(verdict), followed });
                    }
                }
            }
            ProducerCall::SendOffsets(_) | ProducerCall::Plain(_) => {}
        }
    }

    fn forget_end(&mut self, log: LogPartition) {
        self.follows[log.index()].end = None;
        self.todo.retain(|todo| !matches!(todo, Todo::FindEnd(other) if *other == log));
    }

    fn do_next(&mut self, world: &mut World) -> Result<(), Died> {
        let Some(todo) = self.todo.pop_front() else { return Ok(()) };
        let call = match &todo {
            Todo::FetchCheckpoint(_) => "find checkpoint",
            Todo::FetchNewToGroup => "find new partitions",
            Todo::FetchBacklog(_) => "find backlog",
            Todo::FindEnd(_) => "find end",
            Todo::Join => "join",
            Todo::Leave => "leave",
            Todo::Append(..) => "append",
            Todo::Release => "release",
        };
        let dies = world.reach(("worker", call));
        if dies == Some(Moment::Before) {
            return Err(Died);
        }
        let mut event = None;
        match todo {
            Todo::FetchCheckpoint(log) => {
                let there = self.there(world, log);
                let committed = world.bus.committed(&judges_of(there), &crate::world::requests_of(there));
                let offset = committed.and_then(|committed| committed.metadata.parse().ok());
                event = Some(Event::Checkpoint(log, offset.map(VerdictOffset)));
            }
            Todo::FetchNewToGroup => {
                let partitions: BTreeSet<PartitionId> = world.inputs.iter().cloned().collect();
                let known = world.bus.last_committed(GROUP, &partitions);
                let known = known.into_iter().map(|(partition, known)| (partition, known.map(|known| known.offset)));
                let new_to_group = new_to_group(&partitions, &known.collect(), Subscription::Topics);
                event = new_to_group.map(Event::NewToGroup);
            }
            Todo::FetchBacklog(heads) => event = Some(Event::Backlog(backlogs(world, &heads))),
            Todo::FindEnd(log) => {
                let end = world.bus.stable_end(&verdicts_of(self.there(world, log)));
                self.follows[log.index()].end = Some(end);
            }
            Todo::Join => self.join(world),
            Todo::Leave => {
                if let Some(member) = self.member.take() {
                    world.bus.leave(GROUP, &member);
                }
            }
            Todo::Append(log, request) => world.send(self.there(world, log), request, Some(self.life)),
            Todo::Release => {
                let revoked = std::mem::take(&mut self.revoking);
                if let (Some(member), false) = (&self.member, revoked.is_empty()) {
                    world.bus.release(GROUP, member, &revoked);
                    self.disown(&revoked);
                }
            }
        }
        if dies == Some(Moment::After) {
            return Err(Died);
        }
        if let Some(event) = event {
            self.worker.handle(world.elapsed, event);
        }
        Ok(())
    }

    fn join(&mut self, world: &mut World) {
        let member = world.bus.join(GROUP, self.instance.as_deref());
        let name = self.name.clone();
        world.log(|| format!("{name}: joins as {member}"));
        self.member = Some(member);
        self.generation = 0;
        self.revoking.clear();
        self.todo.retain(|todo| !matches!(todo, Todo::Release));
    }

    fn disown(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.owned.retain(|partition| !partitions.contains(partition));
        self.reading.retain(|partition, _| !partitions.contains(partition));
    }

    fn make_call(&mut self, world: &mut World) -> Result<(), Died> {
        let Some(mut out) = self.call.take() else { return Ok(()) };
        if let Some(answer) = out.answer.take() {
            let begin = matches!(out.request, ProducerCall::Plain(Call::Begin));
            self.begins_again = begin && matches!(answer, Err(CallError::Retriable(_)));
            self.worker.handle(world.elapsed, Event::Called(answer.map(drop)));
            return Ok(());
        }
        let call = call_of(&out.request);
        if world.plan.holds(&self.name, call) {
            self.call = Some(out);
            return Ok(());
        }
        let (member, generation) = (self.member.clone(), self.generation);
        let request = &out.request;
        let work = |world: &mut World, client: &Client, half| match request {
            ProducerCall::Produce(outputs) => {
                let count = if half { world.rng.below(outputs.len() + 1) } else { outputs.len() };
                route(world, client, &outputs[..count])
            }
            ProducerCall::SendOffsets(offsets) => {
                let offsets = offsets.iter().map(|(input, offset)| (input.clone(), Committed::plain(*offset)));
                let Some(member) = &member else {
                    return Err(CallError::Abortable("no member of the group".to_owned()));
                };
                let id = (client.id(), client.epoch());
                let sent = world.bus.send_offsets(id, GROUP, (member, generation), offsets.collect());
                sent.map(|()| Vec::new()).map_err(|refused| client.refused(world, call, refused))
            }
            ProducerCall::Plain(_) => Ok(Vec::new()),
        };
        out.answer = Some(self.client.make(world, &self.name, call, work)?);
        self.call = Some(out);
        Ok(())
    }

    /// A stable fetch is refused as a whole while a transaction is about to move one of the offsets, and made again.
    fn fetch_committed(&mut self, world: &mut World) -> Result<(), Died> {
        let Some(partitions) = self.fetches.front() else { return Ok(()) };
        let Ok(committed) = world.bus.stable_committed(GROUP, partitions) else { return Ok(()) };
        if world.reach(("worker", "find committed")).is_some() {
            return Err(Died);
        }
        let committed = committed.into_iter().map(|(partition, known)| (partition, known.map(|known| known.offset)));
        self.fetches.pop_front();
        self.worker.handle(world.elapsed, Event::Committed(committed.collect()));
        Ok(())
    }

    fn hand_over_verdicts(&mut self, world: &mut World, log: LogPartition) -> Result<(), Died> {
        let partition = verdicts_of(self.there(world, log));
        let follow = &mut self.follows[log.index()];
        let Some(from) = follow.next else { return Ok(()) };
        let from = from.or_start(|| world.bus.start(&partition));
        if world.reach(("worker", "follow")).is_some() {
            return Err(Died);
        }
        let event = match world.bus.fetch(&partition, from) {
            Fetched::OutOfRange => {
                *follow = Follow::default();
                Some(Event::LogMoved(log))
            }
            Fetched::Record { offset, value: Value::Verdict(part), .. } if follow.end.is_none_or(|end| from < end) => {
                follow.next = Some(From::Offset(offset + 1));
                match follow.reader.push(offset, part) {
                    Ok(whole) => {
                        whole.map(|(first, record)| Event::Followed { log, offset: VerdictOffset(first), record })
                    }
                    Err(why) => {
                        world.violate(format!("{}: {partition}@{offset} cannot be read: {why}", self.name));
                        None
                    }
                }
            }
            Fetched::Record { .. } => follow.end.take().map(|_| Event::FollowedToEnd(log)),
            Fetched::Nothing { position } => {
                follow.next = Some(From::Offset(position));
                follow.end.take_if(|end| position >= *end).map(|_| Event::FollowedToEnd(log))
            }
        };
        if let Some(event) = event {
            self.worker.handle(world.elapsed, event);
        }
        Ok(())
    }

    fn scan(&mut self, world: &mut World, log: LogPartition) -> Result<(), Died> {
        let partition = verdicts_of(self.there(world, log));
        let Some(scan) = &mut self.scans[log.index()] else { return Ok(()) };
        let from = scan.next.unwrap_or_else(|| world.bus.start(&partition));
        let end = *scan.end.get_or_insert_with(|| world.bus.stable_end(&partition));
        if world.reach(("worker", "scan")).is_some() {
            return Err(Died);
        }
        let event = match world.bus.fetch(&partition, from) {
            Fetched::OutOfRange => {
                self.scans[log.index()] = None;
                Some(Event::ScanMoved(log))
            }
            Fetched::Record { offset, value: Value::Verdict(part), .. } if offset < end => {
                scan.next = Some(offset + 1);
                match scan.reader.push(offset, part) {
                    Ok(whole) => {
                        whole.map(|(first, record)| Event::Scanned { log, offset: VerdictOffset(first), record })
                    }
                    Err(why) => {
                        world.violate(format!("{}: {partition}@{offset} cannot be read: {why}", self.name));
                        None
                    }
                }
            }
            Fetched::Record { .. } | Fetched::Nothing { .. } => {
                self.scans[log.index()] = None;
                Some(Event::ScannedToEnd(log))
            }
        };
        if let Some(event) = event {
            self.worker.handle(world.elapsed, event);
        }
        Ok(())
    }

    fn read(&mut self, world: &mut World) -> Result<(), Died> {
        let open: Vec<PartitionId> =
            self.reading.keys().filter(|input| !self.paused.contains(input)).cloned().collect();
        let input = open[world.rng.below(open.len())].clone();
        if world.reach(("worker", "read")).is_some() {
            return Err(Died);
        }
        let panics = world.harm(10, ("worker", "read"), "the text work panics");
        let (limit, logs, scheme) = (self.limit, world.logs, self.scheme);
        let Some(reading) = self.reading.get_mut(&input) else { return Ok(()) };
        if !std::mem::replace(&mut reading.started, true) {
            let next = reading.next;
            self.worker.handle(world.elapsed, Event::Started(input, next));
            return Ok(());
        }
        match world.bus.fetch(&input, reading.next) {
            Fetched::Record { offset, value: Value::Page(page), .. } => {
                reading.next = offset + 1;
                reading.at_end = false;
                let page = page.read(&input.at(offset), limit, logs, panics, scheme);
                reading.on_the_way.push_back(Page { paced_by: page.paced_by.min(world.now()), ..page });
            }
            Fetched::Record { .. } => {
                let at = reading.next;
                world.violate(format!("{}: reads {input} at {at}, where something else is", self.name));
            }
            // What was read before comes out of the text work first.
            Fetched::OutOfRange if !reading.on_the_way.is_empty() => {}
            Fetched::OutOfRange => {
                let (offset, first, end) = (reading.next, world.bus.start(&input), world.bus.end(&input));
                self.reading.remove(&input);
                self.worker.handle(world.elapsed, Event::OutOfRange { partition: input, offset, first, end });
            }
            Fetched::Nothing { position } => {
                reading.next = position;
                if !reading.at_end && reading.on_the_way.is_empty() {
                    reading.at_end = true;
                    self.worker.handle(world.elapsed, Event::AtEnd(input));
                }
            }
        }
        Ok(())
    }

    /// A page may come out of the text work when its partition has been paused already.
    fn hand_over_page(&mut self, world: &mut World) {
        let waiting: Vec<PartitionId> = self
            .reading
            .iter()
            .filter(|(_, reading)| !reading.on_the_way.is_empty())
            .map(|(input, _)| input.clone())
            .collect();
        let input = &waiting[world.rng.below(waiting.len())];
        if let Some(page) = self.reading.get_mut(input).and_then(|reading| reading.on_the_way.pop_front()) {
            self.worker.handle(world.elapsed, Event::Page(page));
        }
    }

    fn poll(&mut self, world: &mut World) -> Result<(), Died> {
        let Some(member) = self.member.clone() else { return Ok(()) };
        if !self.revoking.is_empty() && (world.bus.members(GROUP).contains(&member) || world.rng.chance(700)) {
            return Ok(());
        }
        if world.reach(("worker", "poll")).is_some() {
            return Err(Died);
        }
        let notice = world.bus.poll(GROUP, &member);
        self.generation = world.bus.generation_seen(GROUP, &member);
        if notice != Notice::Quiet {
            let name = self.name.clone();
            world.log(|| format!("{name}: {notice:?}"));
        }
        match notice {
            Notice::Quiet => {}
            Notice::Lost if world.bus.is_replaced(GROUP, &member) => {
                self.over = Some(Step::Failed("a newer process has this instance id".to_owned()));
            }
            Notice::Lost => {
                let lost = std::mem::take(&mut self.owned);
                self.disown_all();
                self.join(world);
                if !lost.is_empty() {
                    self.worker.handle(world.elapsed, Event::Lost(lost));
                }
            }
            Notice::Revoke(partitions) => {
                self.revoking.clone_from(&partitions);
                self.worker.handle(world.elapsed, Event::Revoked(partitions));
            }
            Notice::Assigned(partitions) => {
                self.owned.extend(partitions.iter().cloned());
                self.worker.handle(world.elapsed, Event::Assigned(partitions));
            }
        }
        Ok(())
    }

    fn disown_all(&mut self) {
        self.owned.clear();
        self.reading.clear();
    }
}

/// What is left to read of every partition of the input.
fn backlogs(world: &World, heads: &BTreeMap<PartitionId, i64>) -> BTreeMap<PartitionId, Backlog> {
    let backlog = |input: &PartitionId| {
        let begins = if world.starts_at_end { world.bus.stable_end(input) } else { world.bus.start(input) };
        let next = world.bus.committed(GROUP, input).map_or(begins, |committed| committed.offset);
        let head = heads.get(input).map(|&from| first_times(world, input, from));
        (input.clone(), Backlog { next, end: world.bus.stable_end(input), head })
    };
    world.inputs.iter().map(backlog).collect()
}

fn first_times(world: &World, input: &PartitionId, mut from: i64) -> Vec<Timestamp> {
    let mut times = Vec::new();
    while times.len() < Backlog::PAGES
        && let Fetched::Record { offset, value: Value::Page(page), .. } = world.bus.fetch(input, from)
    {
        times.push(page.event_time());
        from = offset + 1;
    }
    times
}

/// Sends pages where they belong; a poisoned page is taken only as a dead letter.
fn route(world: &mut World, client: &Client, outputs: &[Arc<Output<Payload>>]) -> Result<Vec<i64>, CallError> {
    for (index, output) in outputs.iter().enumerate() {
        let is_verdict = matches!(output.outcome, PageOutcome::Judged(_));
        if is_verdict && output.page.payload.poison {
            return Err(CallError::Undeliverable { index, reason: dupgate_core::record::Reject::Refused });
        }
        if world.mode == Mode::Observe {
            continue;
        }
        let value = Value::Routed { source: output.page.source.clone(), outcome: output.outcome.clone() };
        let sent = world.bus.produce(client.id(), client.epoch(), &routed(), world.now(), value);
        sent.map_err(|refused| client.refused(world, Call::Produce, refused))?;
    }
    Ok(Vec::new())
}

const fn call_of(request: &ProducerCall<Payload>) -> Call {
    match request {
        ProducerCall::Produce(_) => Call::Produce,
        ProducerCall::SendOffsets(_) => Call::SendOffsets,
        ProducerCall::Plain(call) => *call,
    }
}
