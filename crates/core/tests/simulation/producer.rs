//! The client side of a transactional producer, for both roles: it takes calls, returns answers, and injects errors in
//! between.

use dupgate_core::transaction::{Call, CallError};

use crate::bus::{End, Refused};
use crate::coverage::Edge;
use crate::world::{Moment, Planned, Trouble, World, as_call_error};

/// One call that is out. It is made at one step and answered at a later one.
#[derive(Debug)]
pub(crate) struct Out<Q> {
    pub(crate) request: Q,
    pub(crate) answer: Option<Result<Vec<i64>, CallError>>,
}

/// The client side of one transactional id.
#[derive(Debug)]
pub(crate) struct Client {
    role: &'static str,
    id: String,
    epoch: u32,
    /// The coordinator has committed, and the process has not heard of it: it cannot be asked to abort.
    committed_unheard: bool,
}

/// The process died at the call.
#[derive(Debug)]
pub(crate) struct Died;

impl Client {
    pub(crate) const fn new(role: &'static str, id: String) -> Self {
        Self { role, id, epoch: 0, committed_unheard: false }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Creates a call, with all that can happen to it. `work` is what the broker does for `Produce` and `SendOffsets`,
    /// as far as it is asked to: `half` asks for a part of the records. `driver` is who makes it.
    pub(crate) fn make(
        &mut self,
        world: &mut World,
        driver: &str,
        call: Call,
        work: impl FnOnce(&mut World, &Self, bool) -> Result<Vec<i64>, CallError>,
    ) -> Result<Result<Vec<i64>, CallError>, Died> {
        let planned = world.plan.take(driver, call);
        let dies = match planned {
            Some(Planned::Dies(moment)) => Some(moment),
            _ if call == Call::Begin => None,
            _ => world.reach(self.edge(call)),
        };
        if dies == Some(Moment::Before) {
            return Err(Died);
        }
        let trouble = if let Some(Planned::Trouble(trouble)) = planned { trouble } else { world.trouble(call) };
        let trouble = match trouble {
            Trouble::Fails { error: CallError::Abortable(_), .. } if self.committed_unheard => Trouble::None,
            trouble @ (Trouble::None | Trouble::Fails { .. }) => trouble,
        };
        let answer = match trouble {
            Trouble::None => {
                self.committed_unheard = false;
                self.perform(world, call, work, false)
            }
            Trouble::Fails { error, done } => {
                world.coverage.fault(self.edge(call), name_of(&error, done));
                if done {
                    // Whatever the broker says: the process hears only of the trouble.
                    let done = self.perform(world, call, work, call == Call::Produce);
                    self.committed_unheard |= call == Call::Commit && done.is_ok();
                }
                Err(error)
            }
        };
        if dies == Some(Moment::After) {
            return Err(Died);
        }
        let (id, shown) = (self.id.clone(), answer.as_ref().map(Vec::len).map_err(ToString::to_string));
        world.log(|| format!("{id}: {call:?} -> {shown:?}"));
        Ok(answer)
    }

    fn perform(
        &mut self,
        world: &mut World,
        call: Call,
        work: impl FnOnce(&mut World, &Self, bool) -> Result<Vec<i64>, CallError>,
        half: bool,
    ) -> Result<Vec<i64>, CallError> {
        match call {
            Call::Init => {
                self.epoch = world.bus.init_producer(&self.id);
                Ok(Vec::new())
            }
            Call::Begin => Ok(Vec::new()),
            Call::Produce | Call::SendOffsets => work(world, self, half),
            Call::Commit => self.end(world, call, End::Commit),
            Call::Abort => self.end(world, call, End::Abort),
        }
    }

    fn end(&mut self, world: &mut World, call: Call, end: End) -> Result<Vec<i64>, CallError> {
        match world.bus.end_transaction(&self.id, self.epoch, end) {
            Ok(()) => Ok(Vec::new()),
            // An abort after the coordinator's own is where the client takes the next epoch.
            Err(Refused::TimedOut) if end == End::Abort => {
                world.coverage.fault(self.edge(call), "refused: timed out");
                let next = world.bus.recover_producer(&self.id, self.epoch);
                self.epoch = next.map_err(|refused| as_call_error(refused, false))?;
                Ok(Vec::new())
            }
            Err(refused) => Err(self.refused(world, call, refused)),
        }
    }

    /// What the client makes of a refusal; a coordinator's time-out is repaired by some versions, fatal to others.
    pub(crate) fn refused(&self, world: &mut World, call: Call, refused: Refused) -> CallError {
        let fault = match refused {
            Refused::Fenced => "refused: fenced",
            Refused::TimedOut => "refused: timed out",
            Refused::UnknownMember => "refused: unknown member",
            Refused::IllegalGeneration => "refused: old generation",
            Refused::FencedInstance => "refused: replaced",
        };
        world.coverage.fault(self.edge(call), fault);
        let recovers = world.rng.chance(500);
        as_call_error(refused, recovers)
    }

    const fn edge(&self, call: Call) -> Edge {
        let call = match call {
            Call::Init => "init",
            Call::Begin => "begin",
            Call::Produce => "produce",
            Call::SendOffsets => "send offsets",
            Call::Commit => "commit",
            Call::Abort => "abort",
        };
        (self.role, call)
    }
}

const fn name_of(error: &CallError, done: bool) -> &'static str {
    match (error, done) {
        (CallError::Retriable(_), false) => "retriable",
        (CallError::Retriable(_), true) => "retriable, done",
        (CallError::Abortable(_), false) => "abortable",
        (CallError::Abortable(_), true) => "abortable, done",
        (CallError::Unknown(_), false) => "unknown",
        (CallError::Unknown(_), true) => "unknown, done",
        (CallError::Fatal(_), false) => "fatal",
        (CallError::Fatal(_), true) => "fatal, done",
        (CallError::Fenced(_) | CallError::Undeliverable { .. }, _) => "never drawn",
    }
}
