//! One producer and its transactions, on separate threads.
//!
//! The owner submits one [`ProducerCommand`] at a time and receives one answer for each; `crate::transaction` decides
//! which call comes next. A call that takes longer than [`REQUEST_TIMEOUT`] fails as retriable; the client continues
//! with it in the background and resumes it when the same call is repeated. With [`Delivery::AtLeastOnce`] the same
//! commands mean sending and waiting, then committing the offsets.
//!
//! Each client has a thread of its own, so that a call that never returns is given up together with its client.
//!
//! `session` is one client: its calls, and the outcome of a batch. [`RetryDeadline`] and [`TransactionAge`] correct its
//! answers by the elapsed time.

mod session;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, unbounded};
use rdkafka::ClientConfig;

use self::session::ProducerSession;
use super::budget::InFlight;
use super::group_consumer::Membership;
use crate::record::PartitionId;
use crate::transaction::{Call, CallError, Delivery};

/// How long one call may take before it fails as retriable.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long one call may be retried, while brokers answer, before it needs a new producer: a client may have forgotten
/// the coordinator of its transactions (confluentinc/librdkafka issue 5511).
const RETRY_LIMIT: Duration = Duration::from_mins(2);

/// How many batches in a row may stay undelivered before they need a new producer: after a topic was deleted and created
/// again, a client keeps sending to the leader that it knows, because the new topic counts its leaders from the start
/// (confluentinc/librdkafka issue 4898).
const MAX_UNDELIVERED: u32 = 2;

/// How much longer than its time-out a call may take.
const GRACE: Duration = Duration::from_secs(3);

/// An offset to commit, with its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetAndMetadata {
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
            let mut producer_loop = ProducerLoop { config, delivery, in_flight, client: None, undelivered: 0 };
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
    /// How many batches in a row were not delivered by this client.
    undelivered: u32,
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
        let answer = client.perform(command).unwrap_or_else(|hung| self.give_up(call, hung));
        if call == Call::Produce { self.delivered(answer) } else { answer }
    }

    /// Gives up a client that delivers nothing.
    fn delivered(&mut self, answer: Answer) -> Answer {
        match answer {
            Err(CallError::Abortable(why)) => {
                self.undelivered += 1;
                if self.undelivered < MAX_UNDELIVERED {
                    return Err(CallError::Abortable(why));
                }
                self.client = None;
                Err(CallError::Unknown(why))
            }
            answer => {
                self.undelivered = 0;
                answer
            }
        }
    }

    /// Replaces the client, because a client can initialise its transactional id only once.
    fn renew(&mut self) -> Answer {
        // The thread of the old client closes it.
        self.client = None;
        self.undelivered = 0;
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

/// Name and value of a header; a value may be null.
pub type HeaderField<'a> = (Cow<'a, str>, Option<Cow<'a, [u8]>>);

/// One outgoing record. Borrowed: the client copies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutgoingRecord<'a> {
    pub topic: &'a str,
    /// Partition; `None` leaves it to the key (murmur2, as in Java clients).
    pub partition: Option<i32>,
    pub key: Option<&'a [u8]>,
    /// Value bytes; `None` is a tombstone.
    pub value: Option<Cow<'a, [u8]>>,
    /// Headers, in order.
    pub headers: Vec<HeaderField<'a>>,
    /// Timestamp in milliseconds; `None` means the time of sending.
    pub timestamp: Option<i64>,
    /// How far the timestamp is from the wall clock: decides which record of a refused batch is to blame for it.
    pub skew_ms: u64,
}

impl OutgoingRecord<'_> {
    /// Returns the size of the record in bytes: key, value, headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let header = |(name, value): &HeaderField<'_>| name.len() + value.as_ref().map_or(0, |value| value.len());
        let headers = self.headers.iter().map(header).sum::<usize>();
        self.key.map_or(0, <[u8]>::len) + self.value.as_ref().map_or(0, |value| value.len()) + headers
    }
}

/// Takes one record: the index of the item that it belongs to, and the record.
pub type RecordSink<'a> = dyn FnMut(usize, OutgoingRecord<'_>) -> Result<(), CallError> + 'a;

/// The data of one `Produce`.
pub trait RecordSource: Send {
    /// Number of items that the owner handed over. One may become any number of records, or none.
    fn len(&self) -> usize;

    /// Returns whether there are no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands every record to `load`, in order, with the index of the item that it belongs to.
    ///
    /// # Errors
    ///
    /// The first error of `load`.
    fn write_records(&self, load: &mut RecordSink<'_>) -> Result<(), CallError>;
}

/// Encoded records, all for one partition.
pub struct EncodedBatch {
    /// Topic of all its records.
    pub topic: Arc<str>,
    /// Partition of all its records.
    pub partition: i32,
    /// The values of each item's records.
    pub values: Vec<Vec<Vec<u8>>>,
}

impl RecordSource for EncodedBatch {
    fn len(&self) -> usize {
        self.values.len()
    }

    fn write_records(&self, load: &mut RecordSink<'_>) -> Result<(), CallError> {
        for (index, parts) in self.values.iter().enumerate() {
            for part in parts {
                load(
                    index,
                    OutgoingRecord {
                        topic: &self.topic,
                        partition: Some(self.partition),
                        value: Some(Cow::Borrowed(part)),
                        ..OutgoingRecord::default()
                    },
                )?;
            }
        }
        Ok(())
    }
}

/// The commands and the answers of one client. Dropping this value ends the thread after the current call; the thread
/// closes the client, which can block while the brokers are unreachable.
struct ClientThread {
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
    fn start(config: ClientConfig, delivery: Delivery, in_flight: Arc<InFlight>) -> std::io::Result<Self> {
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
    fn connected(&self) -> Result<Answer, Hung> {
        self.answer(REQUEST_TIMEOUT + GRACE)
    }

    /// Makes a call and waits for its answer.
    fn perform(&self, command: ProducerCommand) -> Result<Answer, Hung> {
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

/// Detects a call that is retried and never succeeds: after the limit, only a new producer can finish it.
struct RetryDeadline {
    limit: Duration,
    /// Fires at the limit; `None` while calls succeed.
    over: Option<Receiver<Instant>>,
}

impl RetryDeadline {
    const fn new(limit: Duration) -> Self {
        Self { limit, over: None }
    }

    /// Turns a retriable answer into one of unknown outcome when calls have been retriable for longer than the limit.
    fn reclassify(&mut self, answer: Answer) -> Answer {
        let Err(CallError::Retriable(why)) = answer else {
            self.over = None;
            return answer;
        };
        if self.over.get_or_insert_with(|| after(self.limit)).try_recv().is_err() {
            return Err(CallError::Retriable(why));
        }
        self.over = None;
        Err(CallError::Unknown(format!("{why}; still failing after {:?}", self.limit)))
    }
}

/// Returns the time-out of transactions; without one, the longest time there is.
fn transaction_timeout(config: &ClientConfig) -> Duration {
    let millis = config.get("transaction.timeout.ms").and_then(|millis| millis.parse().ok());
    millis.map_or(Duration::MAX, Duration::from_millis)
}

/// The age of the current transaction. It distinguishes fencing by another process from the time-out of a producer's own
/// transaction.
///
/// A coordinator aborts a transaction that is older than its time-out, and raises the producer's epoch to do so. The
/// client library reports this in the same way as fencing by another process. If the transaction was younger, another
/// process has fenced the producer. If it was older, the cause is unknown: the producer initialises its id again, and
/// the committed offsets show whether the transaction was committed. If there is another process, it soon fences again.
struct TransactionAge {
    limit: Duration,
    /// Fires when the coordinator may have ended the transaction; `None` outside a transaction.
    over: Option<Receiver<Instant>>,
}

impl TransactionAge {
    fn new(config: &ClientConfig) -> Self {
        Self { limit: transaction_timeout(config), over: None }
    }

    /// Corrects the answer to a call by the age of the transaction.
    fn reclassify(&mut self, call: Call, answer: Answer) -> Answer {
        if let Err(CallError::Fenced(why)) = answer {
            let is_old = self.over.take().is_some_and(|over| over.try_recv().is_ok());
            return Err(if is_old {
                CallError::Unknown(format!("{why}; the transaction was older than its time-out"))
            } else {
                CallError::Fenced(why)
            });
        }
        match call {
            Call::Begin if answer.is_ok() => self.over = Some(after(self.limit)),
            Call::Init => self.over = None,
            Call::Commit | Call::Abort if answer.is_ok() => self.over = None,
            Call::Begin | Call::Produce | Call::SendOffsets | Call::Commit | Call::Abort => {}
        }
        answer
    }
}

#[cfg(test)]
mod tests;
