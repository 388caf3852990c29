//! A client that is replaced when it has lost its brokers, for readers and producers of every kind.
//!
//! librdkafka 2.10 to 2.13 forgets every broker for good if the last metadata response names none, as the response of a
//! broker during shutdown does (confluentinc/librdkafka issue 5301), and may wait forever for a coordinator that it has
//! forgotten (issue 5511). Only a new client helps. So each client periodically requests metadata, and is replaced
//! after [`MAX_MISSES`] consecutive misses. If the brokers are only unreachable, the new client waits as the old one did.
//!
//! A client may also wait forever for one partition: it keeps asking a former leader for a topic that was deleted and
//! created again after a broker had died (issue 4898). Readers that expect either a record or the end of the partition
//! call [`RenewedClient::replace_if_silent`], too.
//!
//! Its owner calls [`RenewedClient::replace_if_lost`] periodically, on the thread that polls the client. The old client
//! is kept until a new one has taken over; if that fails, the next probe tries again. A replaced client closes on a
//! separate thread. Transactional producers are not among them: their machine decides when they are replaced
//! (`super::producer`).

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, tick};
use rdkafka::ClientConfig;
use rdkafka::client::{Client, ClientContext};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::producer::{Producer, ProducerContext, ThreadedProducer};

use super::client::LoggingContext;

const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Time-out of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_millis(1500);

/// Consecutive misses after which a client is replaced.
const MAX_MISSES: u32 = 3;

/// Consecutive misses after which the brokers count as unreachable: after a single miss, a broker may just be slow.
const SILENT: u32 = 2;

/// How often a reader's silence is looked at.
const SILENCE_INTERVAL: Duration = Duration::from_secs(5);

/// Consecutive silent intervals after which a reader that was assigned anew is replaced. Doubled by each replacement:
/// the next fetch may just take long.
const MAX_SILENT: u32 = 3;

/// Counts the intervals in which a reader has heard nothing of its partitions: neither a record nor an end.
struct Silence {
    due: Receiver<std::time::Instant>,
    /// Whether something was heard since the interval began.
    heard: Cell<bool>,
    /// Consecutive silent intervals.
    intervals: u32,
    /// Silent intervals after which the client is replaced.
    patience: u32,
}

/// What to do about a silent reader.
#[derive(Debug, PartialEq, Eq)]
enum Remedy {
    Nothing,
    /// A fetch that begins now is answered by a record or by the end of the partition.
    AssignAnew,
    Replace,
}

impl Silence {
    fn looked_at_every(interval: Duration) -> Self {
        Self { due: tick(interval), heard: Cell::new(false), intervals: 0, patience: MAX_SILENT }
    }

    /// Returns what to do at the end of an interval.
    fn remedy(&mut self) -> Remedy {
        if self.due.try_recv().is_err() {
            return Remedy::Nothing;
        }
        if self.heard.take() {
            (self.intervals, self.patience) = (0, MAX_SILENT);
            return Remedy::Nothing;
        }
        self.intervals += 1;
        if self.intervals == 1 {
            return Remedy::AssignAnew;
        }
        if self.intervals <= self.patience {
            return Remedy::Nothing;
        }
        // The new client is assigned from the start, so it counts as assigned anew.
        (self.intervals, self.patience) = (1, self.patience.saturating_mul(2));
        Remedy::Replace
    }
}

/// Counts the misses of one client.
struct ClientWatchdog {
    interval: Duration,
    due: Receiver<std::time::Instant>,
    misses: u32,
    /// Whether a broker answered the last probe.
    answers: bool,
}

impl ClientWatchdog {
    fn new() -> Self {
        Self::probing_every(PROBE_INTERVAL)
    }

    fn probing_every(interval: Duration) -> Self {
        Self { interval, due: tick(interval), misses: 0, answers: true }
    }

    /// Restarts the count for a new client. Keeps what is known about the brokers.
    fn begin_again(&mut self) {
        *self = Self { answers: self.answers, ..Self::probing_every(self.interval) };
    }

    /// Returns whether a broker answered the client's last probe.
    const fn answers(&self) -> bool {
        self.answers
    }

    /// Notes that a broker has answered something else than a probe.
    const fn answered(&mut self) {
        (self.misses, self.answers) = (0, true);
    }

    /// Probes the client if a probe is due. Returns whether to replace it.
    fn is_lost(&mut self, has_brokers: impl FnOnce() -> bool) -> bool {
        if self.due.try_recv().is_err() {
            return false;
        }
        if has_brokers() {
            (self.misses, self.answers) = (0, true);
            return false;
        }
        self.misses += 1;
        self.answers &= self.misses < SILENT;
        self.misses >= MAX_MISSES
    }
}

/// Returns whether any broker answers this client.
pub(super) fn has_brokers<C: ClientContext>(client: &Client<C>, topic: Option<&str>) -> bool {
    client.fetch_metadata(topic, PROBE_TIMEOUT).is_ok_and(|metadata| !metadata.brokers().is_empty())
}

/// Closes a client on a separate thread: closing can block while the brokers are unreachable.
pub(super) fn close_in_background<T: Send + 'static>(client: T) {
    if let Err(error) = std::thread::Builder::new().name("closing".to_owned()).spawn(move || drop(client)) {
        tracing::warn!(target: "dupgate::kafka", %error, "failed to start the thread that closes a client");
    }
}

/// A client that can probe for brokers.
pub(super) trait WatchedClient: Send + 'static {
    /// Returns whether any broker answers a request for the metadata of this topic, or of all topics for `None`.
    fn has_brokers(&self, topic: Option<&str>) -> bool;
}

impl<C: ConsumerContext + 'static> WatchedClient for BaseConsumer<C> {
    fn has_brokers(&self, topic: Option<&str>) -> bool {
        has_brokers(self.client(), topic)
    }
}

impl<C: ProducerContext + 'static> WatchedClient for ThreadedProducer<C> {
    fn has_brokers(&self, topic: Option<&str>) -> bool {
        has_brokers(self.client(), topic)
    }
}

impl<T: WatchedClient + Sync> WatchedClient for Arc<T> {
    fn has_brokers(&self, topic: Option<&str>) -> bool {
        T::has_brokers(self, topic)
    }
}

type Create<C> = Box<dyn Fn() -> Result<C, KafkaError> + Send>;

/// The current client, and the means to replace it.
pub(super) struct RenewedClient<C> {
    client: C,
    create: Create<C>,
    watchdog: ClientWatchdog,
    silence: Silence,
    /// Its name in log lines.
    name: String,
}

impl<C> Deref for RenewedClient<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.client
    }
}

impl RenewedClient<BaseConsumer<LoggingContext>> {
    /// Creates a consumer with manually assigned partitions.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub(super) fn consumer(config: &ClientConfig, name: String) -> Result<Self, KafkaError> {
        let config = config.clone();
        Self::new(name, move || config.create_with_context(LoggingContext(())))
    }
}

impl<C: WatchedClient> RenewedClient<C> {
    /// Creates the first client; later ones are created in the same way.
    ///
    /// # Errors
    ///
    /// The client cannot be created.
    pub(super) fn new(
        name: String,
        create: impl Fn() -> Result<C, KafkaError> + Send + 'static,
    ) -> Result<Self, KafkaError> {
        let (watchdog, silence) = (ClientWatchdog::new(), Silence::looked_at_every(SILENCE_INTERVAL));
        Ok(Self { client: create()?, create: Box::new(create), watchdog, silence, name })
    }

    /// Notes that a broker has answered: a client whose probes wait behind a quota is not lost.
    pub(super) const fn answered(&mut self) {
        self.watchdog.answered();
    }

    /// Returns whether a broker answered the client's last probe.
    pub(super) const fn answers(&self) -> bool {
        self.watchdog.answers()
    }

    /// Replaces a client that has lost its brokers; returns whether it did. `topic` is the topic of the metadata
    /// request. `take_over` gets the old and the new client and prepares the new one; if it fails, the old one is kept.
    ///
    /// May take a second and a half while no broker answers.
    pub(super) fn replace_if_lost(
        &mut self,
        topic: impl FnOnce() -> Option<String>,
        take_over: impl FnOnce(&C, &C) -> Result<(), KafkaError>,
    ) -> bool {
        if !self.watchdog.is_lost(|| self.client.has_brokers(topic().as_deref())) {
            return false;
        }
        let is_replaced = self.replace("no broker reachable", take_over);
        if is_replaced {
            self.watchdog.begin_again();
        }
        is_replaced
    }

    /// Notes that a partition was heard of, or that nothing is to be heard for now.
    pub(super) fn heard(&self) {
        self.silence.heard.set(true);
    }

    /// Assigns a silent client's partitions anew; if it stays silent, replaces it. `assign` assigns them to the client
    /// that it gets, at their current positions.
    pub(super) fn replace_if_silent(&mut self, assign: impl Fn(&C) -> Result<(), KafkaError>) {
        match self.silence.remedy() {
            Remedy::Nothing => {}
            Remedy::AssignAnew => {
                if let Err(error) = assign(&self.client) {
                    tracing::warn!(target: "dupgate::kafka", client = self.name, %error, "failed to assign anew");
                }
            }
            Remedy::Replace => {
                self.replace("neither a record nor the end of a partition arrives", |_, fresh| assign(fresh));
            }
        }
    }

    /// Replaces the client; returns whether it did. `take_over` is that of [`RenewedClient::replace_if_lost`].
    pub(super) fn replace(&mut self, why: &str, take_over: impl FnOnce(&C, &C) -> Result<(), KafkaError>) -> bool {
        tracing::warn!(target: "dupgate::kafka", client = self.name, "replacing client: {why}");
        let client = &mut self.client;
        match (self.create)().and_then(|fresh| take_over(client, &fresh).map(|()| fresh)) {
            Ok(fresh) => {
                close_in_background(std::mem::replace(client, fresh));
                true
            }
            Err(error) => {
                tracing::error!(target: "dupgate::kafka", client = self.name, %error, "failed to replace the client, retrying");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    use crossbeam_channel::after;

    use super::*;

    /// A client that reaches no broker, by its number.
    struct Unreachable(u32);

    impl WatchedClient for Unreachable {
        fn has_brokers(&self, _: Option<&str>) -> bool {
            false
        }
    }

    fn failure(why: &str) -> KafkaError {
        KafkaError::ClientCreation(why.to_owned())
    }

    /// Clients that are created in order of their numbers, except number 1, which fails.
    fn clients() -> RenewedClient<Unreachable> {
        let created = AtomicU32::new(0);
        let create = move || match created.fetch_add(1, Relaxed) {
            1 => Err(failure("no memory")),
            number => Ok(Unreachable(number)),
        };
        let mut client = RenewedClient::new("reader".to_owned(), create).unwrap();
        client.watchdog = ClientWatchdog::probing_every(Duration::from_millis(1));
        client
    }

    #[test]
    fn a_client_that_gets_answers_to_other_requests_is_kept() {
        let mut client = clients();
        let mut probes = 0;
        while probes < 10 {
            let topic = || {
                probes += 1;
                None
            };
            assert!(!client.replace_if_lost(topic, |_, _| Ok(())), "{probes}");
            client.answered();
        }
    }

    #[test]
    fn a_client_is_kept_until_a_new_one_has_taken_over() {
        let mut client = clients();
        let mut taken_over = Vec::new();
        while taken_over.len() < 3 {
            let in_use = client.0;
            let is_replaced = client.replace_if_lost(
                || None,
                |old, fresh| {
                    taken_over.push((old.0, fresh.0));
                    // Preparing the second one fails.
                    if fresh.0 == 2 { Err(failure("no assignment")) } else { Ok(()) }
                },
            );
            assert_eq!(client.0 != in_use, is_replaced);
        }
        assert_eq!(taken_over, [(0, 2), (0, 3), (3, 4)], "each failure is followed by another attempt");
    }

    #[test]
    fn a_failed_replacement_is_retried_at_the_next_probe() {
        let mut client = clients();
        let (mut probes, mut replaced_at) = (0, None);
        while replaced_at.is_none() {
            let mut is_probed = false;
            let is_replaced = client.replace_if_lost(
                || {
                    is_probed = true;
                    None
                },
                |_, _| Ok(()),
            );
            probes += u32::from(is_probed);
            replaced_at = is_replaced.then_some(probes);
        }
        assert_eq!(replaced_at, Some(4), "three misses, and one after the attempt that failed");
    }

    #[test]
    fn a_silent_reader_is_assigned_anew_before_it_is_replaced() {
        let mut silence = Silence::looked_at_every(Duration::from_millis(1));
        let mut remedies = |heard: bool| {
            let mut seen = String::new();
            silence.heard.set(heard);
            for _ in 0..12 {
                silence.due = after(Duration::ZERO);
                seen.push(match silence.remedy() {
                    Remedy::Nothing => '.',
                    Remedy::AssignAnew => 'a',
                    Remedy::Replace => 'R',
                });
            }
            seen
        };
        assert_eq!(remedies(false), "a..R.....R..", "each client is given twice the time of the one before");
        assert_eq!(remedies(true), ".a..R.....R.", "what is heard begins the count again");
    }
}
