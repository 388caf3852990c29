//! One producer and its transactions, on separate threads.
//!
//! The owner submits one [`ProducerCommand`] at a time and receives one answer for each; `crate::transaction` decides
//! which call comes next. A call that takes longer than [`REQUEST_TIMEOUT`] fails as retriable; the client continues
//! with it in the background and resumes it when the same call is repeated. With [`Delivery::AtLeastOnce`] the same
//! commands mean sending and waiting, then committing the offsets.
//!
//! Each client has a thread of its own, so that a call that never returns is given up together with its client.
//!
//! `records` defines what is sent, `session` one client and its calls, `client_thread` the thread of a session,
//! `delivery` the outcome of a batch. `retry_deadline` corrects the answers by the elapsed time.

mod client_thread;
mod delivery;
mod records;
mod retry_deadline;
mod session;

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, unbounded};
use rdkafka::ClientConfig;

use self::client_thread::ClientThread;
use self::retry_deadline::{RetryDeadline, TransactionAge};
use super::budget::InFlight;
use super::group_consumer::Membership;
use crate::record::PartitionId;
use crate::transaction::{Call, CallError, Delivery};

pub use self::records::{EncodedBatch, HeaderField, OutgoingRecord, RecordSink, RecordSource};

/// How long one call may take before it fails as retriable.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long one call may be retried, while brokers answer, before it needs a new producer: a client may have forgotten
/// the coordinator of its transactions (confluentinc/librdkafka issue 5511).
const RETRY_LIMIT: Duration = Duration::from_mins(2);

/// An offset to commit, with its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetAndMetadata {
    /// The partition.
    pub partition: PartitionId,
    /// The next offset to read.
    pub offset: i64,
    /// Metadata of the commit.
    pub metadata: String,
}

/// One call with its data.
pub enum ProducerCommand {
    /// A call without data.
    Plain(Call),
    /// [`Call::Produce`].
    Produce(Box<dyn RecordSource>),
    /// [`Call::SendOffsets`], with this membership.
    SendOffsets(Vec<OffsetAndMetadata>, Membership),
}

impl ProducerCommand {
    const fn call(&self) -> Call {
        match self {
            Self::Plain(call) => *call,
            Self::Produce(_) => Call::Produce,
            Self::SendOffsets(..) => Call::SendOffsets,
        }
    }
}

/// The answer to a [`ProducerCommand`]: for a `Produce`, the offset of the first record of each item.
pub type Answer = Result<Vec<i64>, CallError>;

/// The owner's handle of a transactional producer. Dropping it ends the thread after the current call.
pub struct TransactionalProducer {
    commands: Sender<ProducerCommand>,
}

impl TransactionalProducer {
    /// Starts the thread. Each [`Call::Init`] creates a new client. `in_flight` counts the records that are yet to be
    /// delivered.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn start(
        config: ClientConfig,
        delivery: Delivery,
        thread: String,
        in_flight: Arc<InFlight>,
        sink: impl Fn(Call, Answer) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, commands) = unbounded::<ProducerCommand>();
        std::thread::Builder::new().name(thread).spawn(move || {
            let mut age = TransactionAge::new(&config);
            let mut producer_loop = ProducerLoop { config, delivery, in_flight, client: None };
            let mut retries = RetryDeadline::new(RETRY_LIMIT);
            for command in commands {
                let call = command.call();
                let answer = retries.reclassify(producer_loop.perform(command));
                sink(call, age.reclassify(call, answer));
            }
        })?;
        Ok(Self { commands: sender })
    }

    /// Submits the next command. The previous one must have been answered.
    pub fn submit(&self, command: ProducerCommand) {
        // An ended thread does not answer; the owner is ending, too.
        let _ = self.commands.send(command);
    }
}

/// Hands the commands to the current client, and renews it when [`Call::Init`] asks for it.
struct ProducerLoop {
    config: ClientConfig,
    delivery: Delivery,
    in_flight: Arc<InFlight>,
    client: Option<ClientThread>,
}

impl ProducerLoop {
    fn perform(&mut self, command: ProducerCommand) -> Answer {
        let call = command.call();
        if call == Call::Init {
            return self.renew();
        }
        if self.client.is_none() && self.delivery == Delivery::AtLeastOnce {
            // Without a transactional id there is no `Init` before the first call.
            self.renew()?;
        }
        let Some(client) = &self.client else {
            return Err(CallError::Fatal(format!("{call:?} before the producer was created")));
        };
        client.perform(command).unwrap_or_else(|hung| self.give_up(call, hung))
    }

    /// Replaces the client, because a client can initialise its transactional id only once.
    fn renew(&mut self) -> Answer {
        // The thread of the old client closes it.
        self.client = None;
        let client = ClientThread::start(self.config.clone(), self.delivery, Arc::clone(&self.in_flight))
            .map_err(|error| CallError::Fatal(error.to_string()))?;
        let answer = client.connected().unwrap_or_else(|hung| self.give_up(Call::Init, hung))?;
        self.client = Some(client);
        Ok(answer)
    }

    /// Gives up a client whose call does not return. Only a new client learns what the call has done.
    fn give_up(&mut self, call: Call, Hung(after): Hung) -> Answer {
        self.client = None;
        let why = format!("{call:?}: the client library has not returned for {after:?}");
        // Nothing is under way before the id is initialised.
        Err(if call == Call::Init { CallError::Retriable(why) } else { CallError::Unknown(why) })
    }
}

/// A call has not returned for this long.
struct Hung(Duration);

#[cfg(test)]
mod tests;
