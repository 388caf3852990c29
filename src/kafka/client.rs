//! Settings of every Kafka client: those that users may override, and those that the program fixes.
//!
//! Our properties override those of the user, so that no property map can break a law.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

pub use rdkafka::ClientConfig as ClientSettings;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, DeliveryResult, ProducerContext};
use rdkafka::types::RDKafkaConfRes;
use rdkafka::{ClientConfig, ClientContext};

/// The time-out of a judge's transaction at the coordinator.
const JUDGE_TRANSACTION: Duration = Duration::from_secs(10);

/// The client's own pause before it first reconnects to a lost broker (`reconnect.backoff.ms`).
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause before the client reconnects to a lost broker (`reconnect.backoff.max.ms`), as in the Java client.
/// The client library's default is ten seconds, and each client of an instance may wait that long in turn.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a judge's polling thread may stall; it must be at least the longest session of a judge.
const JUDGE_POLL: Duration = Duration::from_mins(5);

/// How a cluster is reached. Debug shows the names of the properties and hides their values: some are secrets.
#[derive(Clone, Default)]
pub struct ConnectionSettings {
    /// `host:port` of bootstrap brokers.
    pub brokers: Vec<String>,
    /// Name of this client in the brokers' logs.
    pub client_id: String,
    /// Properties of every client: security settings and user overrides.
    pub properties: BTreeMap<String, String>,
    /// Properties the user adds to consumers.
    pub consumer_properties: BTreeMap<String, String>,
    /// Properties the user adds to producers.
    pub producer_properties: BTreeMap<String, String>,
}

impl fmt::Debug for ConnectionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { brokers, client_id, properties, consumer_properties, producer_properties } = self;
        f.debug_struct("ConnectionSettings")
            .field("brokers", brokers)
            .field("client_id", client_id)
            .field("properties", &properties.keys())
            .field("consumer_properties", &consumer_properties.keys())
            .field("producer_properties", &producer_properties.keys())
            .finish()
    }
}

/// How the transactional producers send.
#[derive(Clone, Debug)]
pub struct ProducerSettings {
    /// Codec of the batches: `none`, `gzip`, `snappy`, `lz4` or `zstd`.
    pub compression: String,
    /// Largest record handed to the client, in bytes with key and headers.
    pub max_record_bytes: usize,
    /// Maximum bytes of one batch, unless a single record is larger: brokers refuse batches as a whole, so it must be
    /// the smallest limit of any topic.
    pub max_batch_bytes: usize,
    /// The time-out of a transaction at the coordinator. Shorter than the workers' session, so that a dead owner's
    /// transaction is gone before its partitions have a new owner.
    pub transaction_timeout: Duration,
}

/// Maximum compressed bytes of one partition of the input in one fetch response; a larger batch comes alone. Batches of a
/// page that repeats one letter take a thousandth of their size and less.
const PARTITION_FETCH_BYTES: usize = 16 << 10;

/// Maximum compressed bytes of one fetch response of the input.
const FETCH_BYTES: usize = 128 << 10;

/// Unpacked bytes of the input that the client reads ahead. Each broker may add one response.
const INPUT_QUEUE_BYTES: usize = 16 << 20;

/// Bytes that the client of a follower reads ahead: more would only be memory, because it fetches again 10 ms after there is
/// room.
pub(crate) const FOLLOWER_QUEUE_BYTES: usize = 8 << 20;

/// Bytes of requests that the client of a judge reads ahead.
pub(crate) const JUDGE_QUEUE_BYTES: usize = 16 << 20;

/// Bytes that a follower of many partitions reads ahead, all together. Each partition has a queue of its own, which one
/// response may exceed once.
const SHARED_QUEUE_BYTES: usize = 32 << 20;

/// Maximum bytes of one partition of a log in one fetch response: the client's default.
const LOG_FETCH_BYTES: usize = 1 << 20;

/// Maximum bytes of a batch if no topic has a smaller limit: the client's default.
pub const BATCH_BYTES: usize = 1_000_000;

impl ProducerSettings {
    /// Settings of a judge's producer: small records, without delay.
    #[must_use]
    pub fn of_judge() -> Self {
        Self {
            compression: "none".to_owned(),
            max_record_bytes: 2_000_000,
            max_batch_bytes: BATCH_BYTES,
            transaction_timeout: JUDGE_TRANSACTION,
        }
    }
}

/// Time-outs of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerTimeouts {
    /// Time without a heartbeat after which the group reassigns the worker's partitions.
    pub session: Duration,
    /// Maximum time between two polls.
    pub poll: Duration,
}

impl ConnectionSettings {
    /// Settings of a worker's consumer: static member of the group when it has an instance id.
    #[must_use]
    pub fn input_consumer(&self, group: &str, instance_id: Option<&str>, timeouts: ConsumerTimeouts) -> ClientConfig {
        let mut config = self.member(group, timeouts.session, timeouts.session / 10, INPUT_QUEUE_BYTES);
        config.set("max.poll.interval.ms", millis(timeouts.poll));
        // The client decompresses a whole fetch response before it checks the limit of its queue, and crawled pages
        // compress well, so the responses must be small. A user who sets one limit is expected to set both.
        if ["fetch.message.max.bytes", "max.partition.fetch.bytes", "fetch.max.bytes"]
            .iter()
            .all(|key| config.get(key).is_none())
        {
            config.set("fetch.message.max.bytes", PARTITION_FETCH_BYTES.to_string());
            config.set("fetch.max.bytes", FETCH_BYTES.to_string());
            // A limit of producers, but the client library refuses to fetch less.
            config.set("message.max.bytes", FETCH_BYTES.to_string());
        }
        if let Some(id) = instance_id {
            config.set("group.instance.id", id);
        }
        config
    }

    /// Settings of a judge's consumer: always a dynamic member, so that a clean stop hands over at once. A standby
    /// takes over from a judge that is silent for longer than `session`.
    #[must_use]
    pub fn judge_consumer(&self, group: &str, session: Duration) -> ClientConfig {
        let mut config = self.member(group, session, session / 20, JUDGE_QUEUE_BYTES);
        // The interval that is configured for the input may be shorter than this session, which is not allowed.
        config.set("max.poll.interval.ms", millis(JUDGE_POLL));
        config
    }

    /// Settings of a reader with a manually assigned partition that commits nothing.
    #[must_use]
    pub fn follower(&self, group: &str) -> ClientConfig {
        let mut config = self.consumer(group, FOLLOWER_QUEUE_BYTES);
        config.set("fetch.wait.max.ms", "100");
        config
    }

    /// Settings of a [`ConnectionSettings::follower`] of this many partitions, each with a queue of its own. All of them
    /// together take limited memory.
    #[must_use]
    pub fn shared_follower(&self, group: &str, partitions: usize) -> ClientConfig {
        let mut config = self.follower(group);
        let share = (SHARED_QUEUE_BYTES / partitions.max(1)).min(FOLLOWER_QUEUE_BYTES);
        config.set("queued.max.messages.kbytes", kibibytes(share));
        if ["fetch.message.max.bytes", "max.partition.fetch.bytes"].iter().all(|key| config.get(key).is_none()) {
            config.set("fetch.message.max.bytes", share.clamp(1 << 10, LOG_FETCH_BYTES).to_string());
        }
        config
    }

    /// Settings of a [`ConnectionSettings::follower`] that reads a log up to a fixed end: brokers say at once that nothing
    /// follows, and need not hold the last answer back.
    #[must_use]
    pub fn bounded_follower(&self, group: &str) -> ClientConfig {
        let mut config = self.follower(group);
        config.set("fetch.wait.max.ms", "5");
        config
    }

    /// Settings of a client that queries offsets and watermarks and reads nothing.
    #[must_use]
    pub fn query(&self, group: &str) -> ClientConfig {
        self.consumer(group, 1 << 20)
    }

    /// Settings of the idempotent producer that appends to the fingerprint log.
    #[must_use]
    pub fn request_producer(&self) -> ClientConfig {
        let mut config = self.producer();
        // The caller batches the requests, and fingerprints do not compress. Behind a quota they may wait for minutes.
        config.set("linger.ms", "1").set("message.timeout.ms", "300000").set("compression.type", "none");
        // A log that an older release created has the limit of the brokers, which may be 1,000,000 bytes or less.
        config.set("batch.size", (BATCH_BYTES / 2).to_string());
        config
    }

    /// Settings of a producer whose records become visible with their offsets, or never.
    #[must_use]
    pub fn transactional_producer(&self, transactional_id: &str, settings: &ProducerSettings) -> ClientConfig {
        let mut config = self.output_producer(settings);
        config
            .set("transactional.id", transactional_id)
            .set("transaction.timeout.ms", millis(settings.transaction_timeout));
        // A user's limit for requests may be meant for other clients; the library allows none above the transaction's.
        let wait = config.get("socket.timeout.ms").and_then(|wait| wait.parse().ok()).map(Duration::from_millis);
        if wait.is_some_and(|wait| wait > settings.transaction_timeout) {
            config.set("socket.timeout.ms", millis(settings.transaction_timeout));
        }
        // Reconnect well before the transaction times out, to a broker that was lost or that asked for a new token: a
        // producer that is late is fenced.
        if config.get("reconnect.backoff.max.ms") == Some(&millis(LONGEST_PAUSE)) {
            let pause = (settings.transaction_timeout / 5).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            config.set("reconnect.backoff.max.ms", millis(pause));
        }
        config
    }

    /// Settings of a producer for `at_least_once`: idempotent and in order, but without transactions.
    ///
    /// The client gives up a record well before a transaction times out. So we abort the transaction ourselves, before
    /// the coordinator aborts it and fences us.
    #[must_use]
    pub fn output_producer(&self, settings: &ProducerSettings) -> ClientConfig {
        let mut config = self.producer();
        config
            .set("linger.ms", "5")
            .set("message.timeout.ms", millis(settings.transaction_timeout * 3 / 5))
            .set("compression.type", &settings.compression)
            .set("message.max.bytes", settings.max_record_bytes.clamp(1_000, 1_000_000_000).to_string())
            .set("queue.buffering.max.kbytes", "524288");
        if config.get("batch.size").is_none() {
            config.set("batch.size", settings.max_batch_bytes.clamp(1_000, BATCH_BYTES).to_string());
        }
        // The client's default level for zstd is 3, which costs a worker more time than anything but the text work.
        if settings.compression == "zstd" && config.get("compression.level").is_none() {
            config.set("compression.level", "1");
        }
        config
    }

    /// Creates a client of each kind, and returns what the library says of settings that do not go together. No client
    /// connects to anything or reads a certificate.
    #[must_use]
    pub fn refused(&self, timeouts: ConsumerTimeouts, transaction_timeout: Duration) -> Option<String> {
        let of_worker = ProducerSettings { transaction_timeout, ..ProducerSettings::of_judge() };
        let consumers = [
            self.input_consumer("group", None, timeouts),
            self.judge_consumer("group", timeouts.session),
            self.follower("group"),
        ];
        let producers = [
            self.request_producer(),
            self.transactional_producer("id", &of_worker),
            self.transactional_producer("id", &ProducerSettings::of_judge()),
            self.output_producer(&of_worker),
        ];
        let alone = |mut config: ClientConfig| {
            config.remove("bootstrap.servers").remove("debug").set("security.protocol", "plaintext");
            config.set_log_level(RDKafkaLogLevel::Emerg);
            config
        };
        let context = || LoggingContext(());
        let of_consumer = |config| alone(config).create_with_context::<_, BaseConsumer<_>>(context()).err();
        let of_producer = |config| alone(config).create_with_context::<_, BaseProducer<_>>(context()).err();
        let refused = consumers.into_iter().find_map(of_consumer);
        refused.or_else(|| producers.into_iter().find_map(of_producer)).map(|error| error.to_string())
    }

    /// Settings of the client that creates topics, reads their settings and deletes records.
    #[must_use]
    pub fn admin(&self) -> ClientConfig {
        self.base(&BTreeMap::new())
    }

    fn base(&self, more: &BTreeMap<String, String>) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("log.connection.close", "false");
        for (key, value) in self.properties.iter().chain(more) {
            config.set(key, value);
        }
        config
            .set("bootstrap.servers", self.brokers.join(","))
            .set("client.id", &self.client_id)
            .set("statistics.interval.ms", "0")
            // A client that asks whether a topic exists would create it, with settings that delete its records. This is
            // the library's default for producers and administrators.
            .set("allow.auto.create.topics", "false");
        // A user who sets one of them is expected to set both.
        if ["reconnect.backoff.ms", "reconnect.backoff.max.ms"].iter().all(|key| config.get(key).is_none()) {
            config.set("reconnect.backoff.max.ms", millis(LONGEST_PAUSE));
        }
        // A user who sets the client library's debug contexts wants to see their lines.
        let chatty = config.get("debug").is_some();
        config.set_log_level(if chatty { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Warning });
        config
    }

    fn consumer(&self, group: &str, queue_bytes: usize) -> ClientConfig {
        let mut config = self.base(&self.consumer_properties);
        // Properties of the workers' group: a client that joins no group must not be refused for them.
        for key in ["session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms"] {
            config.remove(key);
        }
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            // The default of 1000 adds seconds each time the capped queue was full.
            .set("fetch.queue.backoff.ms", "10")
            .set("queued.max.messages.kbytes", kibibytes(queue_bytes));
        config
    }

    fn member(&self, group: &str, session: Duration, heartbeat: Duration, queue_bytes: usize) -> ClientConfig {
        let mut config = self.consumer(group, queue_bytes);
        config
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", millis(session))
            .set("heartbeat.interval.ms", millis(heartbeat))
            .set("fetch.wait.max.ms", "100");
        config
    }

    fn producer(&self) -> ClientConfig {
        let mut config = self.base(&self.producer_properties);
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("partitioner", "murmur2_random")
            .set("queue.buffering.max.messages", "1000000");
        config
    }
}

/// Returns the limit of a consumer's queue.
fn kibibytes(bytes: usize) -> String {
    (bytes >> 10).clamp(1, 2_097_151).to_string()
}

fn millis(span: Duration) -> String {
    span.as_millis().to_string()
}

/// Checks that the client library accepts a property with this value.
///
/// # Errors
///
/// Why it does not; the message does not repeat the value, which may be a secret.
pub fn takes(key: &str, value: &str) -> Result<(), &'static str> {
    let mut config = ClientConfig::new();
    config.set(key, value);
    match config.create_native_config() {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)) => {
            Err("the Kafka client knows no such property")
        }
        Err(_) => Err("the Kafka client does not take this value"),
    }
}

/// Returns the version of the client library.
#[must_use]
pub fn library_version() -> String {
    rdkafka::util::get_rdkafka_version().1
}

/// Returns the features of the client library: `builtin.features`.
#[must_use]
pub fn library_features() -> String {
    let known = ClientConfig::new().create_native_config().and_then(|config| config.get("builtin.features"));
    known.unwrap_or_default()
}

/// A client's context that passes the library's own log lines on. `T` receives the client's other reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoggingContext<T = ()>(pub T);

impl<T: Send + Sync + 'static> ClientContext for LoggingContext<T> {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

impl ConsumerContext for LoggingContext {}

impl ProducerContext for LoggingContext {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

impl<T> Deref for LoggingContext<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Suffix of an error that the library has logged before: another client may log it late, after brokers answer again.
const REPEATED: &str = "identical error(s) suppressed";

/// Passes a log line of the library on.
fn log_line(level: RDKafkaLogLevel, facility: &str, message: &str) {
    match severity(level, facility, message) {
        tracing::Level::ERROR => tracing::error!(target: "librdkafka", facility, "{message}"),
        tracing::Level::WARN => tracing::warn!(target: "librdkafka", facility, "{message}"),
        tracing::Level::INFO => tracing::info!(target: "librdkafka", facility, "{message}"),
        tracing::Level::DEBUG | tracing::Level::TRACE => tracing::debug!(target: "librdkafka", facility, "{message}"),
    }
}

/// Returns how serious a log line of the library is.
///
/// A connection that fails is a warning: the client reconnects by itself, and dupgate logs when no broker answers.
/// Repetitions are for debugging.
fn severity(level: RDKafkaLogLevel, facility: &str, message: &str) -> tracing::Level {
    match level {
        RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning if ["FAIL", "ERROR"].contains(&facility) => {
            if message.contains(REPEATED) { tracing::Level::DEBUG } else { tracing::Level::WARN }
        }
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
            tracing::Level::ERROR
        }
        RDKafkaLogLevel::Warning => tracing::Level::WARN,
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => tracing::Level::INFO,
        RDKafkaLogLevel::Debug => tracing::Level::DEBUG,
    }
}

/// Logs a client's background error, for debugging only: the library itself logs the errors that matter, and ends of
/// partitions arrive this way, too.
fn log_error(error: &KafkaError, reason: &str) {
    tracing::debug!(target: "librdkafka", "{error}: {reason}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_a_property_is_shown() {
        let secret = |key: &str| BTreeMap::from([(key.to_owned(), "hunter2".to_owned())]);
        let connection = ConnectionSettings {
            brokers: vec!["a:1".to_owned()],
            properties: secret("sasl.password"),
            consumer_properties: secret("ssl.key.pem"),
            producer_properties: secret("anything.at.all"),
            ..ConnectionSettings::default()
        };
        let shown = format!("{connection:?} {connection:#?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(
            shown.contains("a:1") && shown.contains("sasl.password") && shown.contains("anything.at.all"),
            "{shown}"
        );
    }

    #[test]
    fn an_unreachable_broker_is_a_warning_and_its_return_is_not() {
        let away = "[thrd:a:1/bootstrap]: a:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms \
                    in state CONNECT";
        let (first, repeated) = (format!("{away})"), format!("{away}, 5 identical error(s) suppressed)"));
        let all_down = "rdkafka#consumer-1: 1/1 brokers are down";
        let logged = crate::telemetry::logging::captured::at(crate::config::settings::Level::Debug, || {
            log_line(RDKafkaLogLevel::Error, "FAIL", &first);
            log_line(RDKafkaLogLevel::Error, "FAIL", &repeated);
            log_line(RDKafkaLogLevel::Error, "ERROR", all_down);
            log_line(RDKafkaLogLevel::Info, "FAIL", "[thrd:a:1/1]: a:1/1: Disconnected");
            log_line(RDKafkaLogLevel::Error, "TXNERR", "the transaction cannot continue");
            log_line(RDKafkaLogLevel::Emerg, "FATAL", "fenced");
        });
        let levels: Vec<String> = logged
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| line["level"].as_str().unwrap_or_default().to_owned())
            .collect();
        // Details of the client library are hidden unless its own level is set.
        assert_eq!(levels, ["warn", "warn", "info", "error", "error"], "{logged}");
        assert_eq!(severity(RDKafkaLogLevel::Error, "FAIL", &repeated), tracing::Level::DEBUG);
        assert!(logged.contains("Connection refused") && logged.contains("brokers are down"), "{logged}");
    }

    #[test]
    fn zstd_uses_the_cheapest_level_unless_the_user_sets_one() {
        let level = |compression: &str, of_user: Option<&str>| {
            let own = of_user.map(|level| ("compression.level".to_owned(), level.to_owned()));
            let connection =
                ConnectionSettings { producer_properties: own.into_iter().collect(), ..ConnectionSettings::default() };
            let settings = ProducerSettings { compression: compression.to_owned(), ..ProducerSettings::of_judge() };
            connection.output_producer(&settings).get("compression.level").map(str::to_owned)
        };
        assert_eq!(level("zstd", None).as_deref(), Some("1"));
        assert_eq!(level("zstd", Some("9")).as_deref(), Some("9"));
        assert_eq!(level("lz4", None), None);
    }

    #[test]
    fn a_record_is_given_up_before_its_transaction() {
        let producer = ConnectionSettings::default().transactional_producer("t", &ProducerSettings::of_judge());
        let number = |key| producer.get(key).and_then(|value| value.parse::<u64>().ok());
        assert_eq!((number("message.timeout.ms"), number("transaction.timeout.ms")), (Some(6_000), Some(10_000)));
    }

    #[test]
    fn a_batch_fits_every_output() {
        let batch = |max: usize, of_user: Option<&str>| {
            let own = of_user.map(|size| ("batch.size".to_owned(), size.to_owned()));
            let connection =
                ConnectionSettings { producer_properties: own.into_iter().collect(), ..ConnectionSettings::default() };
            let settings = ProducerSettings { max_batch_bytes: max, ..ProducerSettings::of_judge() };
            connection.output_producer(&settings).get("batch.size").map(str::to_owned)
        };
        assert_eq!(batch(100_000, None).as_deref(), Some("100000"));
        assert_eq!(batch(8_000_000, None).as_deref(), Some("1000000"));
        assert_eq!(batch(100_000, Some("5000")).as_deref(), Some("5000"));
    }

    #[test]
    fn a_fetch_of_the_input_is_small_enough_to_unpack() {
        let keys = ["fetch.message.max.bytes", "fetch.max.bytes"];
        let timeouts = ConsumerTimeouts { session: Duration::from_secs(30), poll: Duration::from_mins(5) };
        let max = |of_user: &[(&str, &str)]| {
            let own = of_user.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let connection = ConnectionSettings { consumer_properties: own.collect(), ..ConnectionSettings::default() };
            let config = connection.input_consumer("g", None, timeouts);
            config.create_native_config().unwrap();
            keys.map(|key| config.get(key).map(str::to_owned))
        };
        let both = |each: &str, all: &str| [Some(each.to_owned()), Some(all.to_owned())];
        assert_eq!(max(&[]), both("16384", "131072"));
        assert_eq!(max(&[(keys[0], "1000000")]), [Some("1000000".to_owned()), None], "a user who sets one sets both");
        assert_eq!(max(&[("max.partition.fetch.bytes", "1000000")]), [None, None]);
        let readers = ConnectionSettings::default().follower("g");
        assert_eq!(keys.map(|key| readers.get(key).map(str::to_owned)), [None, None], "the logs are not compressed");
    }

    #[test]
    fn a_follower_of_many_partitions_takes_no_more_memory_than_one_of_few() {
        let limits = |partitions: usize, of_user: Option<&str>| {
            let own = of_user.map(|key| (key.to_owned(), "70000".to_owned()));
            let connection =
                ConnectionSettings { consumer_properties: own.into_iter().collect(), ..ConnectionSettings::default() };
            let config = connection.shared_follower("g", partitions);
            config.create_native_config().unwrap();
            ["queued.max.messages.kbytes", "fetch.message.max.bytes"].map(|key| config.get(key).map(str::to_owned))
        };
        let both = |queue: &str, fetch: &str| [Some(queue.to_owned()), Some(fetch.to_owned())];
        assert_eq!(limits(1, None), both("8192", "1048576"));
        assert_eq!(limits(64, None), both("512", "524288"));
        assert_eq!(limits(1024, None), both("32", "32768"));
        assert_eq!(limits(64, Some("fetch.message.max.bytes")), both("512", "70000"));
        assert_eq!(limits(64, Some("max.partition.fetch.bytes")), [Some("512".to_owned()), None]);
    }

    #[test]
    fn a_client_reconnects_well_before_a_transaction_ends() {
        let pause = |seconds: f64, of_user: Option<&str>| {
            let own = of_user.map(|key| (key.to_owned(), "7000".to_owned()));
            let connection =
                ConnectionSettings { properties: own.into_iter().collect(), ..ConnectionSettings::default() };
            let transaction_timeout = Duration::from_secs_f64(seconds);
            let settings = ProducerSettings { transaction_timeout, ..ProducerSettings::of_judge() };
            connection.transactional_producer("t", &settings).get("reconnect.backoff.max.ms").map(str::to_owned)
        };
        assert_eq!(pause(10.0, None).as_deref(), Some("1000"));
        assert_eq!(pause(2.0, None).as_deref(), Some("400"));
        assert_eq!(pause(0.1, None).as_deref(), Some("100"), "not below the client's first pause");
        assert_eq!(pause(10.0, Some("reconnect.backoff.max.ms")).as_deref(), Some("7000"));
        assert_eq!(pause(10.0, Some("reconnect.backoff.ms")), None, "a user who sets one sets both");
    }

    #[test]
    fn a_short_poll_interval_of_the_input_does_not_apply_to_judges() {
        let properties = BTreeMap::from([("max.poll.interval.ms".to_owned(), "6000".to_owned())]);
        let connection = ConnectionSettings { consumer_properties: properties, ..ConnectionSettings::default() };
        let judge = connection.judge_consumer("g", Duration::from_secs(10));
        let number = |key| judge.get(key).and_then(|value| value.parse::<u64>().ok());
        assert!(number("max.poll.interval.ms") >= number("session.timeout.ms"), "or there is no client: {judge:?}");
    }

    #[test]
    fn properties_of_one_kind_of_client_do_not_stop_another() {
        let timeouts = |poll| ConsumerTimeouts { session: Duration::from_secs(30), poll: Duration::from_millis(poll) };
        let refused = |properties: &[(&str, &str)], poll, transaction| {
            let own = properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let connection = ConnectionSettings { consumer_properties: own, ..ConnectionSettings::default() };
            let connection = ConnectionSettings { properties: connection.consumer_properties.clone(), ..connection };
            connection.refused(timeouts(poll), Duration::from_secs(transaction))
        };
        assert_eq!(refused(&[], 300_000, 10), None);
        // The library's own session is longer, and clients without a group have it.
        assert_eq!(refused(&[("max.poll.interval.ms", "31000")], 31_000, 10), None);
        assert_eq!(refused(&[("session.timeout.ms", "200000"), ("max.poll.interval.ms", "200000")], 200_000, 10), None);
        // The judge's transactions are shorter than those of this worker.
        assert_eq!(refused(&[("socket.timeout.ms", "20000")], 300_000, 25), None);
        let together = refused(&[("fetch.max.bytes", "1000")], 300_000, 10).unwrap();
        assert!(together.contains("fetch.max.bytes"), "{together}");
        let together = refused(&[("max.in.flight", "9")], 300_000, 10).unwrap();
        assert!(together.contains("max.in.flight"), "{together}");
    }

    #[test]
    fn no_property_of_the_user_breaks_a_law() {
        let of_consumers = [
            "enable.auto.commit",
            "enable.auto.offset.store",
            "auto.offset.reset",
            "isolation.level",
            "group.id",
            "group.instance.id",
            "statistics.interval.ms",
            "enable.partition.eof",
            "partition.assignment.strategy",
            "allow.auto.create.topics",
        ];
        let of_producers =
            ["allow.auto.create.topics", "transactional.id", "enable.idempotence", "partitioner", "acks"];
        let hostile: BTreeMap<String, String> =
            of_consumers.iter().chain(&of_producers).map(|key| ((*key).to_owned(), "evil".to_owned())).collect();
        let connection = ConnectionSettings {
            brokers: vec!["a:1".to_owned()],
            consumer_properties: hostile.clone(),
            producer_properties: hostile,
            ..ConnectionSettings::default()
        };
        let consumer = connection.input_consumer(
            "g",
            Some("i"),
            ConsumerTimeouts { session: Duration::from_secs(30), poll: Duration::from_mins(5) },
        );
        let producer = connection.transactional_producer("t", &ProducerSettings::of_judge());
        for key in of_consumers {
            assert_ne!(consumer.get(key), Some("evil"), "{key}");
        }
        for key in of_producers {
            assert_ne!(producer.get(key), Some("evil"), "{key}");
        }
    }
}
