//! What all processes of a schedule share: the cluster, the connection to the fingerprint log, chance, time, and the
//! trace.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::fingerprint::Width;
use dupgate_core::protocol::{LogPartition, Request, RequestId, Verdict, encode_requests};
use dupgate_core::record::{PartitionId, Source, Timestamp};
use dupgate_core::transaction::{Call, CallError};
use dupgate_core::worker::Mode;
use dupgate_core::worker::PageOutcome;

use crate::bus::{Bus, Refused};
use crate::coverage::{Coverage, Edge};
use crate::pages::WorldPage;
use dupgate_testkit::rng::Rng;

/// A request on its way to the fingerprint log.
const REQUEST: Edge = ("network", "request");

/// The input group.
pub(crate) const GROUP: &str = "pages";

/// What a record of the cluster holds.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Page(Arc<WorldPage>),
    Requests(Vec<u8>),
    Verdict(Vec<u8>),
    Routed { source: Source, outcome: PageOutcome },
}

/// Which side of a broker call a process dies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    After,
}

/// What one step of a process came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something happened.
    Went,
    /// The process died.
    Crashed,
    /// The machine gave up: the process ends with an error.
    Failed(String),
    /// The process ends as it should.
    Stopped,
}

/// What goes wrong with a call to a transactional producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// The call fails; `done` says whether the broker did it all the same.
    Fails {
        error: CallError,
        done: bool,
    },
}

/// What a worker hears of an append.
pub(crate) type Report = (RequestId, Result<i64, ()>);

/// A verdict that a page leaves with.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) verdict: Arc<Verdict>,
    /// How far each verdict log was followed when it was decided so.
    pub(crate) followed: Vec<i64>,
}

/// Where a reader of a log is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    Start,
    Offset(i64),
}

impl From {
    pub(crate) fn wanted(offset: Option<i64>) -> Self {
        offset.map_or(Self::Start, Self::Offset)
    }

    pub(crate) fn or_start(self, start: impl FnOnce() -> i64) -> i64 {
        match self {
            Self::Start => start(),
            Self::Offset(offset) => offset,
        }
    }
}

/// A request on its way to the fingerprint log.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub(crate) log: LogPartition,
    pub(crate) request: Request,
    /// The life of a process that waits for the delivery report.
    pub(crate) sender: Option<u64>,
}

pub(crate) struct World {
    pub(crate) bus: Bus<Value>,
    pub(crate) rng: Rng,
    /// Of the codes of all pages, as the scheme has it.
    pub(crate) width: Width,
    /// The brokers' clock, in milliseconds.
    pub(crate) clock: i64,
    /// What the processes see of time.
    pub(crate) elapsed: Duration,
    pub(crate) inputs: Vec<PartitionId>,
    /// A group without offsets begins after what is there (`input.start: latest`).
    pub(crate) starts_at_end: bool,
    pub(crate) logs: usize,
    /// There are as many logs of an earlier scheme after them.
    pub(crate) has_earlier: bool,
    /// Most bytes of one part of a checkpoint.
    pub(crate) part_bytes: usize,
    pub(crate) net: VecDeque<InFlight>,
    /// Delivery reports by the life that waits for them.
    pub(crate) reports: BTreeMap<u64, VecDeque<Report>>,
    /// Verdicts that workers have sent pages out with, not looked at yet.
    pub(crate) given: Vec<Given>,
    /// Whether chance may do harm.
    pub(crate) faults: bool,
    /// Harm is drawn, and does not happen: everything else is as it would be.
    pub(crate) is_spared: bool,
    /// The faults that have happened by chance.
    pub(crate) coverage: Coverage,
    /// What becomes of judged pages.
    pub(crate) mode: Mode,
    /// Broker calls made so far.
    pub(crate) calls: u64,
    /// The one call to die at, in exhaustive runs.
    pub(crate) crash_at: Option<(u64, Moment)>,
    pub(crate) violation: Option<String>,
    pub(crate) trace: VecDeque<String>,
    /// How many lines of the trace are kept.
    pub(crate) trace_lines: usize,
    pub(crate) lives: u64,
    /// What a scenario wants to happen.
    pub(crate) plan: Plan,
    requests: u64,
}

/// What happens because a scenario says so, and not by chance.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The next call of its kind that this driver makes.
    calls: Vec<(String, Call, Planned)>,
    /// Requests that the network loses, or carries twice, from now on.
    pub(crate) lost: usize,
    pub(crate) repeated: usize,
}

/// What happens to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Planned {
    /// It is not made until the scenario lets go.
    Hold,
    Trouble(Trouble),
    Dies(Moment),
}

impl Plan {
    pub(crate) fn call(&mut self, driver: &str, call: Call, what: Planned) {
        self.calls.push((driver.to_owned(), call, what));
    }

    /// Returns whether this call is held.
    pub(crate) fn holds(&self, driver: &str, call: Call) -> bool {
        self.calls.iter().any(|(of, held, what)| of == driver && *held == call && *what == Planned::Hold)
    }

    pub(crate) fn let_go(&mut self) {
        self.calls.retain(|(.., what)| *what != Planned::Hold);
    }

    /// Returns what happens to this call, once.
    pub(crate) fn take(&mut self, driver: &str, call: Call) -> Option<Planned> {
        let at = self.calls.iter().position(|(of, planned, _)| of == driver && *planned == call)?;
        Some(self.calls.remove(at).2)
    }
}

impl World {
    pub(crate) fn new(seed: u64, inputs: i32, logs: usize) -> Self {
        let mut bus = Bus::new();
        let inputs: Vec<PartitionId> = (0..inputs).map(|number| PartitionId::new("in", number)).collect();
        inputs.iter().for_each(|input| bus.create(input));
        bus.create_group(GROUP, inputs.clone());
        bus.create(&routed());
        LogPartition::first(logs).for_each(|log| create_log(&mut bus, log));
        Self {
            bus,
            rng: Rng::new(seed),
            width: [Width::B64, Width::B32, Width::B64, Width::B128][(seed % 4) as usize],
            clock: 100,
            elapsed: Duration::ZERO,
            inputs,
            starts_at_end: false,
            logs,
            has_earlier: false,
            part_bytes: 1000,
            net: VecDeque::new(),
            reports: BTreeMap::new(),
            given: Vec::new(),
            faults: true,
            is_spared: false,
            coverage: Coverage::default(),
            mode: Mode::Route,
            calls: 0,
            crash_at: None,
            violation: None,
            trace: VecDeque::new(),
            trace_lines: 80,
            lives: 0,
            plan: Plan::default(),
            requests: 0,
        }
    }

    /// Adds the logs of an earlier scheme.
    pub(crate) fn add_earlier_logs(&mut self) {
        self.has_earlier = true;
        LogPartition::first(self.all_logs()).skip(self.logs).for_each(|log| create_log(&mut self.bus, log));
    }

    /// Returns the number of logs of all schemes.
    pub(crate) fn all_logs(&self) -> usize {
        self.logs * if self.has_earlier { 2 } else { 1 }
    }

    /// Returns the log of the earlier scheme that belongs to this one.
    pub(crate) fn earlier(&self, log: LogPartition) -> LogPartition {
        LogPartition(log.0 + u32::try_from(self.logs).unwrap())
    }

    /// Continues in another mode. A group or log that has another name there has never been seen: the names of this
    /// world are always those of the mode it is in.
    pub(crate) fn change_mode(&mut self, mode: Mode) -> bool {
        let is_new = mode.own_name(GROUP) != self.mode.own_name(GROUP);
        self.mode = mode;
        if is_new {
            let other = Self::new(0, 0, self.logs);
            let old = std::mem::replace(&mut self.bus, other.bus);
            self.bus.adopt(old, &self.inputs);
            self.bus.create_group(GROUP, self.inputs.clone());
            self.net.clear();
            self.reports.clear();
            self.given.clear();
        }
        is_new
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock)
    }

    pub(crate) fn log(&mut self, line: impl FnOnce() -> String) {
        if self.trace_lines == 0 {
            return;
        }
        if self.trace.len() >= self.trace_lines {
            self.trace.pop_front();
        }
        self.trace.push_back(line());
    }

    /// Notes that a law is broken; the first one counts.
    pub(crate) fn violate(&mut self, what: impl Into<String>) {
        self.violation.get_or_insert(what.into());
    }

    /// A chance of harm: never in the fair phase.
    pub(crate) fn harm(&mut self, per_mille: u64, edge: Edge, fault: &'static str) -> bool {
        let happens = self.faults && self.rng.chance(per_mille) && !self.is_spared;
        if happens {
            self.coverage.fault(edge, fault);
        }
        happens
    }

    /// The number of a process's new life.
    pub(crate) fn new_life(&mut self) -> u64 {
        self.lives += 1;
        self.lives
    }

    /// A request id that is not in use.
    pub(crate) fn new_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    /// Every call to a broker passes here: says on which side of it the process dies, if it does.
    pub(crate) fn reach(&mut self, edge: Edge) -> Option<Moment> {
        let call = self.calls;
        self.calls += 1;
        if self.faults {
            self.coverage.call(edge);
        }
        if let Some((at, moment)) = self.crash_at {
            return (at == call).then_some(moment);
        }
        let moment = self.rng.pick(&[Moment::Before, Moment::After]);
        // A judge rarely trims while faults happen.
        let odds = if edge == ("judge", "trim") { 250 } else { 2500 };
        let dies = self.faults && self.rng.below(odds) == 0 && !self.is_spared;
        if dies {
            let fault = if moment == Moment::Before { "dies before" } else { "dies after" };
            self.coverage.fault(edge, fault);
        }
        dies.then_some(moment)
    }

    /// What goes wrong with a call that the broker itself would take.
    pub(crate) fn trouble(&mut self, call: Call) -> Trouble {
        if !self.faults || !self.rng.chance(60) || self.is_spared {
            return Trouble::None;
        }
        let done = self.rng.chance(500);
        let retriable = CallError::Retriable("not now".to_owned());
        let fatal = CallError::Fatal("beyond repair".to_owned());
        let abortable = CallError::Abortable("abort this".to_owned());
        let choice = self.rng.below(10);
        let (error, done) = match (call, choice) {
            (_, 0) => (fatal, done),
            // Records that went out twice would be there twice: the edge never says "again" half way.
            (Call::Produce, 1..=4) => (retriable, false),
            (Call::Produce | Call::SendOffsets, _) => (abortable, done),
            (Call::Commit, 1..=4) => (CallError::Unknown("who knows".to_owned()), done),
            (Call::Begin, 1..=3) | (Call::Commit, 5..=7) => (abortable, false),
            (Call::Init | Call::Begin | Call::Commit | Call::Abort, _) => (retriable, done && call != Call::Begin),
        };
        Trouble::Fails { error, done }
    }

    /// Hands a request to the network.
    pub(crate) fn send(&mut self, log: LogPartition, request: Request, sender: Option<u64>) {
        self.net.push_back(InFlight { log, request, sender });
    }

    fn report(&mut self, sent: &InFlight, result: Result<i64, ()>) {
        if let Some(life) = sent.sender {
            self.reports.entry(life).or_default().push_back((sent.request.id, result));
        }
    }

    /// Lets one request arrive, or not, or twice, or with its neighbours in one record.
    pub(crate) fn carry(&mut self) {
        if self.net.is_empty() {
            return;
        }
        let at = if self.harm(200, REQUEST, "late") { self.rng.below(self.net.len()) } else { 0 };
        let sent = self.net.remove(at).unwrap();
        let log = requests_of(sent.log);
        if self.plan.lost > 0 {
            self.plan.lost -= 1;
            self.report(&sent, Err(()));
            return;
        }
        if self.harm(40, REQUEST, "lost") {
            self.log(|| format!("net: LOST {}", describe(&sent.request)));
            self.report(&sent, Err(()));
            return;
        }
        if self.harm(15, REQUEST, "lost after its acknowledgement") {
            // The leader acknowledged it and died; what is at its offset now is something else.
            let end = self.bus.end(&log);
            if end > 0 {
                let other = usize::try_from(end).unwrap();
                let other = self.rng.below(other);
                let again = self.bus.slots(&log)[other].value.clone().unwrap();
                let offset = self.append(&log, again);
                self.log(|| format!("net: LOST after its acknowledgement at {offset} {}", describe(&sent.request)));
                self.report(&sent, Ok(offset));
                return;
            }
        }
        let mut together = vec![sent];
        while together.len() < 4 && self.rng.chance(400) {
            let next = self.net.iter().position(|next| next.log == together[0].log);
            let Some(next) = next.filter(|_| self.net.len() > 1) else { break };
            together.extend(self.net.remove(next));
        }
        let requests: Vec<Request> = together.iter().map(|sent| sent.request.clone()).collect();
        let mut bytes = Vec::new();
        encode_requests(&requests, &mut bytes);
        let offset = self.append(&log, Value::Requests(bytes.clone()));
        self.log(|| format!("{log}@{offset} <- {}", requests.iter().map(describe).collect::<Vec<_>>().join(", ")));
        let mut reported = Ok(offset);
        let is_repeated = self.plan.repeated > 0;
        self.plan.repeated -= usize::from(is_repeated);
        if is_repeated || self.harm(50, REQUEST, "twice") {
            let twice = self.append(&log, Value::Requests(bytes));
            self.log(|| format!("{log}@{twice} <- the same"));
            reported = if self.rng.chance(500) { Ok(twice) } else { reported };
        }
        if self.harm(40, REQUEST, "its report is lost") {
            reported = Err(());
        }
        together.iter().for_each(|sent| self.report(sent, reported));
    }

    /// Appends with the clock of whichever broker leads just now.
    fn append(&mut self, log: &PartitionId, value: Value) -> i64 {
        let lag = if self.faults { self.rng.pick(&[0, 0, 0, 1, 3]) } else { 0 };
        self.bus.append(log, Timestamp::from_millis(self.clock - lag), value)
    }
}

fn create_log(bus: &mut Bus<Value>, log: LogPartition) {
    bus.create(&requests_of(log));
    bus.create(&verdicts_of(log));
    bus.create_group(&judges_of(log), vec![requests_of(log)]);
}

pub(crate) fn routed() -> PartitionId {
    PartitionId::new("routed", 0)
}

pub(crate) fn requests_of(log: LogPartition) -> PartitionId {
    PartitionId::new("fingerprints", log.number())
}

pub(crate) fn verdicts_of(log: LogPartition) -> PartitionId {
    PartitionId::new("verdicts", log.number())
}

pub(crate) fn judges_of(log: LogPartition) -> String {
    format!("judge.{log}")
}

/// What a refusal means to the producer that meets it.
pub(crate) fn as_call_error(refused: Refused, recovers: bool) -> CallError {
    match refused {
        Refused::TimedOut if recovers => CallError::Abortable("the coordinator timed the transaction out".to_owned()),
        // The transaction was older than its time-out: that is no proof of another process.
        Refused::TimedOut => CallError::Unknown("fenced by its own time-out".to_owned()),
        Refused::Fenced => CallError::Fenced(format!("{refused:?}")),
        Refused::UnknownMember | Refused::IllegalGeneration | Refused::FencedInstance => {
            CallError::Abortable(format!("{refused:?}"))
        }
    }
}

pub(crate) fn describe(request: &Request) -> String {
    use dupgate_core::protocol::RequestBody;
    let what = match &request.body {
        RequestBody::Page(page) => format!("page {}", page.source),
        RequestBody::Withdraw { source, reason } => format!("withdraw {source} {}", reason.name()),
        RequestBody::Forget(target) => format!("forget {target:?}"),
        RequestBody::Reopen { partition, from, to } => format!("reopen {partition} {from}..{to}"),
        RequestBody::SetTime(time) => format!("set the time to {time}"),
    };
    format!("{what} (request {})", request.id.0)
}
