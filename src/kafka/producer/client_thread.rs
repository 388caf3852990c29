//! The thread of one client: it makes the calls, and can be left alone with one that never returns.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use rdkafka::ClientConfig;

use super::retry_deadline::transaction_timeout;
use super::session::ProducerSession;
use super::{Answer, Hung, ProducerCommand, REQUEST_TIMEOUT};
use crate::kafka::budget::InFlight;
use crate::transaction::{Call, CallError, Delivery};

/// How much longer than its time-out a call may take.
const GRACE: Duration = Duration::from_secs(3);

/// The commands and the answers of one client. Dropping this value ends the thread after the current call; the thread
/// closes the client, which can block while the brokers are unreachable.
pub(super) struct ClientThread {
    commands: Sender<ProducerCommand>,
    answers: Receiver<Answer>,
    /// Time-out of [`Call::SendOffsets`]: the client library takes no longer than the transaction may.
    offsets_timeout: Duration,
}

impl ClientThread {
    /// Starts the thread, named after the current one. It creates the client and initialises its transactional id: see
    /// [`ClientThread::connected`].
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub(super) fn start(config: ClientConfig, delivery: Delivery, in_flight: Arc<InFlight>) -> std::io::Result<Self> {
        let (sender, commands) = unbounded();
        let (answered, answers) = unbounded();
        let offsets_timeout = transaction_timeout(&config).min(REQUEST_TIMEOUT);
        let owner = std::thread::current();
        let name = format!("{} client", owner.name().unwrap_or("producer"));
        std::thread::Builder::new().name(name).spawn(move || {
            let session = match connect(&config, delivery, in_flight) {
                Ok(session) => session,
                Err(error) => return drop(answered.send(Err(error))),
            };
            let mut answer = Ok(Vec::new());
            let mut batch = 0;
            // The owner of a client that was given up hears no answer and sends no command.
            while answered.send(answer).is_ok()
                && let Ok(command) = commands.recv()
            {
                answer = match command {
                    ProducerCommand::Produce(records) => {
                        batch += 1;
                        session.produce(batch, &*records)
                    }
                    ProducerCommand::SendOffsets(offsets, membership) => match delivery {
                        Delivery::ExactlyOnce => session.send_offsets(&offsets, &membership),
                        Delivery::AtLeastOnce => session.commit_offsets(&offsets, &membership),
                    },
                    ProducerCommand::Plain(call) => match delivery {
                        Delivery::ExactlyOnce => plain(&session, call),
                        Delivery::AtLeastOnce => Ok(Vec::new()),
                    },
                };
            }
        })?;
        Ok(Self { commands: sender, answers, offsets_timeout })
    }

    /// Waits until the client has its transactional id.
    pub(super) fn connected(&self) -> Result<Answer, Hung> {
        self.answer(REQUEST_TIMEOUT + GRACE)
    }

    /// Makes a call and waits for its answer.
    pub(super) fn perform(&self, command: ProducerCommand) -> Result<Answer, Hung> {
        let limit = match command.call() {
            // The session waits for the records itself.
            Call::Produce => Duration::MAX,
            // The library looks for the group's coordinator without regard to the time-out, and may wait for one that
            // it has forgotten (confluentinc/librdkafka issues 5456 and 5511).
            Call::SendOffsets => self.offsets_timeout + GRACE,
            Call::Init | Call::Begin | Call::Commit | Call::Abort => REQUEST_TIMEOUT + GRACE,
        };
        // A thread that has ended does not answer either.
        let _ = self.commands.send(command);
        self.answer(limit)
    }

    fn answer(&self, limit: Duration) -> Result<Answer, Hung> {
        self.answers.recv_timeout(limit).map_err(|_| Hung(limit))
    }
}

fn connect(config: &ClientConfig, delivery: Delivery, in_flight: Arc<InFlight>) -> Result<ProducerSession, CallError> {
    let session = ProducerSession::connect(config, in_flight)?;
    match delivery {
        Delivery::ExactlyOnce => session.init_transactions()?,
        Delivery::AtLeastOnce => {}
    }
    Ok(session)
}

fn plain(session: &ProducerSession, call: Call) -> Answer {
    match call {
        Call::Begin => session.begin(),
        Call::Commit => session.commit(),
        Call::Abort => session.abort(),
        Call::Init | Call::Produce | Call::SendOffsets => Err(CallError::Fatal(format!("{call:?} carries data"))),
    }
}
