//! A client that is replaced when it has lost its brokers, for readers and producers of every kind.
//!
//! librdkafka 2.10 to 2.13 forgets every broker for good if the last metadata response names none, as the response of a
//! broker during shutdown does (confluentinc/librdkafka issue 5301), and may wait forever for a coordinator that it has
//! forgotten (issue 5511). Only a new client helps. So each client periodically requests metadata, and is replaced
//! after [`MAX_MISSES`] consecutive misses. If the brokers are only unreachable, the new client waits as the old one did.
//!
//! librdkafka also ignores the leader of a topic that was deleted and created again, until it has changed as often as that
//! of the former topic (issue 4898): a client that does not see the topic missing in between asks the former leader
//! forever, without an error. [`StallWatch`] finds such a partition: the brokers have records of it that do not arrive. A
//! producer's owner finds it by records that are never acknowledged.
//!
//! Its owner calls [`RenewedClient::replace_if_lost`] periodically, on the thread that polls the client; an owner that
//! reads calls [`RenewedClient::replace_if_stalled`], too. The old client is kept until a new one has taken over; if that
//! fails, the next probe tries again. A replaced client closes on a separate thread. Transactional producers are not
//! among them: their machine decides when they are replaced (`super::producer`).

use std::collections::BTreeMap;
use std::ffi::CString;
use std::ops::{Bound, Deref};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, tick};
use rdkafka::ClientConfig;
use rdkafka::bindings::{rd_kafka_get_watermark_offsets, rd_kafka_position};
use rdkafka::client::{Client, ClientContext};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::producer::{Producer, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaRespErr;

use super::client::LoggingContext;
use super::partition_list::list_of;
use crate::record::PartitionId;

const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Time-out of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_millis(1500);

/// Consecutive misses after which a client is replaced.
const MAX_MISSES: u32 = 3;

/// Consecutive misses after which the brokers count as unreachable: after a single miss, a broker may just be slow.
const SILENT: u32 = 2;

/// Interval of the search for a partition whose records do not arrive.
const STALL_INTERVAL: Duration = Duration::from_secs(3);

/// How many partitions are looked at in one interval; the others follow in the next ones.
const LOOKED_AT: usize = 4;

/// Time-out of the query for a partition's end.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// Intervals that a partition stands still before the client is replaced. Each replacement doubles them, up to
/// [`MAX_PATIENCE`]: brokers that limit a client's bytes a second may just be slow.
const PATIENCE: u32 = 2;

const MAX_PATIENCE: u32 = 16;

/// The partitions that a client reads, with their next offsets; `None` at the beginning of a partition.
pub(super) type Positions = BTreeMap<PartitionId, Option<i64>>;

/// Finds a partition whose records do not arrive, although the client has nothing else to hand over.
struct StallWatch {
    due: Receiver<std::time::Instant>,
    /// Whether the client had nothing to hand over at some moment of this interval. Otherwise, records may just be late
    /// because those of other partitions come first.
    is_drained: bool,
    /// The partition that was looked at last.
    last: Option<PartitionId>,
    /// A partition that stands still, and its next offset.
    suspect: Option<(PartitionId, Option<i64>)>,
    /// For how long `suspect` may stand still.
    patience: Patience,
}

/// How many intervals a client may stand still before it is replaced. Each replacement doubles them, up to a limit.
pub(super) struct Patience {
    intervals: u32,
    limit: u32,
    first: u32,
    most: u32,
}

impl Patience {
    pub(super) const fn new(first: u32, most: u32) -> Self {
        Self { intervals: 0, limit: first, first, most }
    }

    /// Notes that the client does not stand still.
    pub(super) const fn moves(&mut self) {
        self.intervals = 0;
    }

    /// Notes that the client is of use: the next one has the first patience again.
    pub(super) const fn begin_again(&mut self) {
        *self = Self::new(self.first, self.most);
    }

    /// Notes an interval in which the client stood still. Returns whether to replace it: not while no broker answers, when
    /// another client would not help.
    pub(super) fn is_over(&mut self, answers: bool) -> bool {
        self.intervals += 1;
        let is_over = self.intervals >= self.limit && answers;
        if is_over {
            (self.intervals, self.limit) = (0, self.limit.saturating_mul(2).min(self.most));
        }
        is_over
    }
}

impl StallWatch {
    fn new() -> Self {
        let due = tick(STALL_INTERVAL);
        Self { due, is_drained: false, last: None, suspect: None, patience: Patience::new(PATIENCE, MAX_PATIENCE) }
    }

    /// Looks at some partitions at the end of an interval. `is_behind` returns whether a partition has records beyond its
    /// next offset; `None` if no broker answers. Returns whether to replace the client.
    fn is_stalled(
        &mut self,
        positions: &Positions,
        mut is_behind: impl FnMut(&PartitionId, Option<i64>) -> Option<bool>,
    ) -> bool {
        if let Some((partition, next)) = self.suspect.take() {
            let stands_still = positions.get(&partition) == Some(&next);
            let is_behind = if stands_still { is_behind(&partition, next) } else { Some(false) };
            if is_behind == Some(false) {
                self.patience.moves();
                return false;
            }
            let is_over = self.patience.is_over(is_behind.is_some());
            self.suspect = (!is_over).then_some((partition, next));
            return is_over;
        }
        let rest = (self.last.take().map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let in_turn = positions.range(rest).chain(positions).take(LOOKED_AT.min(positions.len()));
        for (partition, next) in in_turn {
            self.last = Some(partition.clone());
            match is_behind(partition, *next) {
                Some(false) => {}
                Some(true) => {
                    self.suspect = Some((partition.clone(), *next));
                    break;
                }
                // Each further question would have to wait, too.
                None => break,
            }
        }
        false
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

/// A consumer whose partitions can stand still.
pub(super) trait WatchedConsumer: WatchedClient {
    /// Returns whether the brokers have another end of a partition than this consumer, which has not read up to it.
    /// `None` if no broker answers.
    fn is_behind(&self, partition: &PartitionId, next: Option<i64>) -> Option<bool>;
}

impl<C: ConsumerContext + 'static> WatchedConsumer for BaseConsumer<C> {
    fn is_behind(&self, partition: &PartitionId, next: Option<i64>) -> Option<bool> {
        let (first, end) = self.fetch_watermarks(&partition.topic, partition.number, END_TIMEOUT).ok()?;
        let position = read_up_to(self.client(), partition, next.unwrap_or(first));
        // A consumer that reads the partition knows its end.
        Some(end != position && known_end(self.client(), partition) != Some(end))
    }
}

impl<C: ConsumerContext + 'static> WatchedConsumer for Arc<BaseConsumer<C>> {
    fn is_behind(&self, partition: &PartitionId, next: Option<i64>) -> Option<bool> {
        BaseConsumer::is_behind(self, partition, next)
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

/// Returns the offset after everything that was handed over: `next`, after the last record, or the offset after
/// transaction markers that follow it.
pub(super) fn read_up_to<C: ClientContext>(client: &Client<C>, partition: &PartitionId, next: i64) -> i64 {
    position(client, partition).map_or(next, |position| position.max(next))
}

/// Returns the end of the partition as of the latest fetch response. Sends no request.
#[expect(unsafe_code, reason = "the client library's binding asks this only of all partitions, or of the broker")]
pub(super) fn known_end<C: ClientContext>(client: &Client<C>, partition: &PartitionId) -> Option<i64> {
    let topic = CString::new(&*partition.topic).ok()?;
    let (mut first, mut end) = (-1, -1);
    // SAFETY: the client lives as long as it is borrowed, and may be called from any thread; the name is NUL-terminated
    // and both places outlive the call.
    let answer = unsafe {
        rd_kafka_get_watermark_offsets(
            client.native_ptr(),
            topic.as_ptr(),
            partition.number,
            &raw mut first,
            &raw mut end,
        )
    };
    (answer == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR && end >= 0).then_some(end)
}

/// Returns the offset after the last record or transaction marker. `None` if nothing was handed over since the last
/// seek.
#[expect(unsafe_code, reason = "the client library's binding asks this only of all partitions, or of the broker")]
fn position<C: ClientContext>(client: &Client<C>, partition: &PartitionId) -> Option<i64> {
    let list = list_of([partition]);
    // SAFETY: the client lives as long as it is borrowed, and may be called from any thread; the list is ours alone.
    let answer = unsafe { rd_kafka_position(client.native_ptr(), list.ptr()) };
    if answer != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return None;
    }
    list.elements().first()?.offset().to_raw().filter(|offset| *offset >= 0)
}

type Create<C> = Box<dyn Fn() -> Result<C, KafkaError> + Send>;

/// The current client, and the means to replace it.
pub(super) struct RenewedClient<C> {
    client: C,
    create: Create<C>,
    watchdog: ClientWatchdog,
    stalls: StallWatch,
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

impl RenewedClient<Arc<BaseConsumer<LoggingContext>>> {
    /// Creates a consumer with manually assigned partitions, each with a queue of its own.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub(super) fn shared_consumer(config: &ClientConfig, name: String) -> Result<Self, KafkaError> {
        let config = config.clone();
        Self::new(name, move || config.create_with_context(LoggingContext(())).map(Arc::new))
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
        let (watchdog, stalls) = (ClientWatchdog::new(), StallWatch::new());
        Ok(Self { client: create()?, create: Box::new(create), watchdog, stalls, name })
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

    /// Replaces a client that brokers answer, and that is stuck all the same; returns whether it did.
    pub(super) fn replace_stuck(&mut self, why: &str) -> bool {
        self.replace(why, |_, _| Ok(()))
    }

    /// Replaces the client; returns whether it did.
    fn replace(&mut self, why: &str, take_over: impl FnOnce(&C, &C) -> Result<(), KafkaError>) -> bool {
        let Self { client, create, name, .. } = self;
        tracing::warn!(target: "dupgate::kafka", client = name, "replacing client: {why}");
        match create().and_then(|fresh| take_over(client, &fresh).map(|()| fresh)) {
            Ok(fresh) => {
                close_in_background(std::mem::replace(client, fresh));
                true
            }
            Err(error) => {
                tracing::error!(target: "dupgate::kafka", client = name, %error, "failed to replace the client, retrying");
                false
            }
        }
    }
}

impl<C: WatchedConsumer> RenewedClient<C> {
    /// Notes that the client has nothing to hand over.
    pub(super) const fn drained(&mut self) {
        self.stalls.is_drained = true;
    }

    /// Replaces a client whose records of a partition do not arrive, although it has nothing else to hand over;
    /// returns whether it did. `positions` are those that it reads now, without paused ones. `take_over` is that of
    /// [`RenewedClient::replace_if_lost`].
    ///
    /// May take half a second while no broker answers.
    pub(super) fn replace_if_stalled(
        &mut self,
        positions: impl FnOnce() -> Positions,
        take_over: impl FnOnce(&C, &C) -> Result<(), KafkaError>,
    ) -> bool {
        if self.stalls.due.try_recv().is_err() || !std::mem::take(&mut self.stalls.is_drained) {
            return false;
        }
        let Self { client, stalls, .. } = self;
        let is_stalled = stalls.is_stalled(&positions(), |partition, next| client.is_behind(partition, next));
        is_stalled && self.replace("the records of a partition do not arrive", take_over)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

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
    fn a_client_is_replaced_if_a_partition_stands_still_for_long() {
        let partitions: Vec<PartitionId> = (0..9).map(|number| PartitionId::new("pages", number)).collect();
        let positions: Positions = partitions.iter().map(|partition| (partition.clone(), Some(7))).collect();
        let mut watch = StallWatch::new();
        // Only the last one is behind, and all are looked at in turn.
        let behind = |partition: &PartitionId, _| Some(partition.number == 8);
        let mut replaced =
            |rounds: u32| (0..rounds).map(|_| watch.is_stalled(&positions, behind)).collect::<Vec<bool>>();
        assert_eq!(replaced(5), [false, false, false, false, true]);
        let again = replaced(30);
        let replaced_at: Vec<usize> = (0..again.len()).filter(|round| again[*round]).collect();
        assert_eq!(replaced_at, [6, 17], "each client is given twice the time of the one before");

        let mut watch = StallWatch::new();
        let only = |next| Positions::from([(PartitionId::new("pages", 8), Some(next))]);
        let mut round = |next, is_behind| watch.is_stalled(&only(next), |_, _| is_behind);
        assert!(![7, 8, 8, 9, 9, 10].into_iter().any(|next| round(next, Some(true))), "records arrive");
        assert!(!(0..9).any(|_| round(10, None)), "no broker answers");
        assert!(![Some(true), Some(true), Some(false)].into_iter().any(|behind| round(10, behind)), "it was its end");
        assert!(!watch.is_stalled(&Positions::new(), |_, _| Some(true)), "it is paused");
    }
}
