//! Creates both logs, reads the settings of other topics, and deletes records.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{after, tick};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::client::LoggingContext;
use super::errors::{Denied, denied_by_code};
use super::output::TimeLimits;
use crate::fingerprint::is_scheme_id;
use crate::record::PartitionId;

/// Default time-out of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Time between two checks for a new topic.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Largest batch that a broker accepts unless the topic sets another limit, in bytes.
pub const DEFAULT_BATCH_BYTES: usize = 1_048_588;

/// Problems with the topics.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// A required topic is missing.
    #[error("missing topics: `{0}`; `dupgate topics create` shows how it would create them")]
    Missing(String),
    /// A log has another number of partitions than the configuration.
    #[error("topic `{topic}` has {found} partitions, but judge.partitions is {wanted}")]
    Partitions {
        /// The log.
        topic: String,
        /// Its number of partitions.
        found: usize,
        /// The configured number.
        wanted: usize,
    },
    /// A log could not be created.
    #[error("topic `{topic}` cannot be created: {code}")]
    NotCreated {
        /// The log.
        topic: String,
        /// Why.
        code: RDKafkaErrorCode,
    },
    /// A permission is missing.
    #[error("not authorized: {0}")]
    Denied(Denied),
    /// The cluster did not answer.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// The runtime that waits for the brokers cannot be created.
    #[error(transparent)]
    Runtime(#[from] std::io::Error),
}

/// One of the two logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// The fingerprint log, with timestamps of the brokers' clock.
    Fingerprints,
    /// The verdict log.
    Verdicts,
}

/// Returns the settings of a log that the protocol relies on.
#[must_use]
pub fn log_settings(kind: LogKind, replication_factor: i32) -> Vec<(&'static str, &'static str)> {
    let mut settings = vec![
        ("cleanup.policy", "delete"),
        ("retention.ms", "-1"),
        ("retention.bytes", "-1"),
        ("unclean.leader.election.enable", "false"),
        // Well above what we write in one batch; the limit of the brokers may be lower.
        ("max.message.bytes", "2097152"),
    ];
    if kind == LogKind::Fingerprints {
        settings.push(("message.timestamp.type", "LogAppendTime"));
    }
    if replication_factor >= 3 {
        settings.push(("min.insync.replicas", "2"));
    }
    settings
}

/// The client for topics.
pub struct Admin {
    client: AdminClient<LoggingContext>,
    runtime: tokio::runtime::Runtime,
    brokers: Brokers,
    timeout: Duration,
}

/// The kind of brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brokers {
    /// The brokers of a real cluster.
    Cluster,
    /// [`super::mock::InProcessBroker`]: it never answers requests to create topics, report settings or delete records.
    InProcess,
}

impl Admin {
    /// Creates the client.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn new(config: &ClientConfig) -> Result<Self, TopicError> {
        Self::of(config, Brokers::Cluster)
    }

    /// Creates the client for brokers of this kind.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn of(config: &ClientConfig, brokers: Brokers) -> Result<Self, TopicError> {
        let client = config.create_with_context(LoggingContext(()))?;
        // The client has its own threads; this one only waits for their answers.
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(Self { client, runtime, brokers, timeout: REQUEST_TIMEOUT })
    }

    /// Sets the time-out of each request.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Returns the number of partitions, or `None` if there is no such topic.
    ///
    /// # Errors
    ///
    /// No broker answered in time.
    pub fn partition_count(&self, topic: &str) -> Result<Option<usize>, TopicError> {
        let metadata = self.client.inner().fetch_metadata(Some(topic), self.timeout)?;
        let known = metadata.topics().iter().find(|found| found.name() == topic);
        let code = known.and_then(rdkafka::metadata::MetadataTopic::error).map(RDKafkaErrorCode::from);
        if let Some(denied) = code.and_then(|code| denied_by_code(code, topic)) {
            return Err(TopicError::Denied(denied));
        }
        Ok(known.filter(|found| found.error().is_none()).map(|found| found.partitions().len()).filter(|&n| n > 0))
    }

    /// Returns the number of partitions of a required topic.
    ///
    /// # Errors
    ///
    /// [`TopicError::Missing`], or no broker answered in time.
    pub fn expect_topic(&self, topic: &str) -> Result<usize, TopicError> {
        self.partition_count(topic)?.ok_or_else(|| TopicError::Missing(topic.to_owned()))
    }

    /// Creates a log if it does not exist, with the settings that the protocol relies on; else checks its number of
    /// partitions.
    ///
    /// # Errors
    ///
    /// [`TopicError::Partitions`], [`TopicError::NotCreated`], or no broker answered in time.
    pub fn ensure_log(
        &self,
        topic: &str,
        kind: LogKind,
        partitions: usize,
        replication: Option<i32>,
    ) -> Result<(), TopicError> {
        if self.partition_count(topic)?.is_none() {
            self.create_log(topic, kind, partitions, replication)?;
        }
        match self.await_partitions(topic)? {
            Some(found) if found == partitions => Ok(()),
            Some(found) => Err(TopicError::Partitions { topic: topic.to_owned(), found, wanted: partitions }),
            None => Err(TopicError::Missing(topic.to_owned())),
        }
    }

    /// Returns the number of partitions of a topic that may be new, and waits for it: the brokers learn of a new topic
    /// one by one.
    fn await_partitions(&self, topic: &str) -> Result<Option<usize>, TopicError> {
        let (late, checks) = (after(self.timeout), tick(POLL_INTERVAL));
        loop {
            let found = self.partition_count(topic)?;
            if found.is_some() || late.try_recv().is_ok() {
                return Ok(found);
            }
            // The ticker lives as long as this channel.
            let _ = checks.recv();
        }
    }

    /// Creates a topic with the cluster's own settings, if it does not exist.
    ///
    /// # Errors
    ///
    /// [`TopicError::NotCreated`], or no broker answered in time.
    pub fn ensure_topic(&self, topic: &str, partitions: usize) -> Result<(), TopicError> {
        let count = i32::try_from(partitions).unwrap_or(i32::MAX);
        self.create(&NewTopic::new(topic, count, TopicReplication::Fixed(self.default_replication()?)))
    }

    fn create_log(
        &self,
        topic: &str,
        kind: LogKind,
        partitions: usize,
        replication: Option<i32>,
    ) -> Result<(), TopicError> {
        let replication_factor = match replication {
            Some(replication_factor) => replication_factor,
            None => self.default_replication()?,
        };
        let count = i32::try_from(partitions).unwrap_or(i32::MAX);
        let mut log = NewTopic::new(topic, count, TopicReplication::Fixed(replication_factor));
        for (name, value) in log_settings(kind, replication_factor) {
            log = log.set(name, value);
        }
        self.create(&log)
    }

    fn create(&self, topic: &NewTopic<'_>) -> Result<(), TopicError> {
        let answer = self.runtime.block_on(self.client.create_topics([topic], &options(self.timeout)))?;
        match answer.into_iter().next() {
            Some(Err((_, code))) if code != RDKafkaErrorCode::TopicAlreadyExists => {
                Err(match denied_by_code(code, topic.name) {
                    Some(denied) => TopicError::Denied(denied.to("Create")),
                    None => TopicError::NotCreated { topic: topic.name.to_owned(), code },
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns the cluster's default replication factor, read from one of its brokers; 1 if that reports none.
    fn default_replication(&self) -> Result<i32, TopicError> {
        let metadata = self.client.inner().fetch_metadata(None, self.timeout)?;
        let Some(broker) = metadata.brokers().first() else { return Ok(1) };
        let replication_factor = self.setting(ResourceSpecifier::Broker(broker.id()), "default.replication.factor")?;
        Ok(replication_factor.and_then(|text| text.parse().ok()).unwrap_or(1))
    }

    /// Returns the largest batch that a topic accepts, in bytes.
    ///
    /// # Errors
    ///
    /// No broker answered in time.
    pub fn max_batch_bytes(&self, topic: &str) -> Result<usize, TopicError> {
        let limit = self.setting(ResourceSpecifier::Topic(topic), "max.message.bytes")?;
        Ok(limit.and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_BATCH_BYTES))
    }

    /// Returns which timestamps a topic accepts.
    ///
    /// # Errors
    ///
    /// No broker answered in time.
    pub fn time_limits(&self, topic: &str) -> Result<TimeLimits, TopicError> {
        let read = |name: &str| self.setting(ResourceSpecifier::Topic(topic), name);
        if read("message.timestamp.type")?.is_some_and(|kind| kind == "LogAppendTime") {
            return Ok(TimeLimits::NONE);
        }
        // A broker that does not know a setting does not enforce it.
        let limit =
            |name: &str| Ok::<_, TopicError>(read(name)?.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX));
        Ok(TimeLimits {
            before_ms: limit("message.timestamp.before.max.ms")?,
            after_ms: limit("message.timestamp.after.max.ms")?,
        })
    }

    /// Reads one setting; `None` if we may not, if it has no value, or if brokers of this kind report none.
    fn setting(&self, resource: ResourceSpecifier<'_>, name: &str) -> Result<Option<String>, TopicError> {
        if self.brokers == Brokers::InProcess {
            return Ok(None);
        }
        let answer = self.runtime.block_on(self.client.describe_configs([&resource], &options(self.timeout)))?;
        Ok(answer
            .into_iter()
            .filter_map(Result::ok)
            .find_map(|found| found.get(name).and_then(|entry| entry.value.clone())))
    }

    /// Deletes the records of these partitions before the given offsets.
    ///
    /// # Errors
    ///
    /// A partition refused, or no broker answered in time.
    pub fn delete_records(&self, before: &[(PartitionId, i64)]) -> Result<(), TopicError> {
        if self.brokers == Brokers::InProcess {
            return Ok(());
        }
        let mut list = TopicPartitionList::new();
        for (partition, offset) in before {
            list.add_partition_offset(&partition.topic, partition.number, Offset::Offset(*offset))?;
        }
        let answer = self.runtime.block_on(self.client.delete_records(&list, &options(self.timeout)))?;
        for element in answer.elements() {
            element.error()?;
        }
        Ok(())
    }
}

/// Returns options with this time-out, for the request and for the brokers' wait for each other.
pub(super) fn options(timeout: Duration) -> AdminOptions {
    AdminOptions::new().request_timeout(Some(timeout)).operation_timeout(Some(timeout))
}

/// Names of both logs of a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNames {
    /// The fingerprint log.
    pub fingerprints: Arc<str>,
    /// The verdict log.
    pub verdicts: Arc<str>,
}

impl LogNames {
    /// Names the logs of a scheme under a prefix (the input group, unless configured otherwise).
    #[must_use]
    pub fn new(prefix: &str, scheme: &str) -> Self {
        Self {
            fingerprints: Arc::from(format!("{prefix}.fingerprints.{scheme}")),
            verdicts: Arc::from(format!("{prefix}.verdicts.{scheme}")),
        }
    }

    /// Returns the scheme of a log topic under this prefix; `None` if the topic is not a log.
    #[must_use]
    pub fn scheme_of<'t>(prefix: &str, topic: &'t str) -> Option<&'t str> {
        let (kind, scheme) = topic.strip_prefix(prefix)?.strip_prefix('.')?.split_once('.')?;
        (matches!(kind, "fingerprints" | "verdicts") && is_scheme_id(scheme)).then_some(scheme)
    }
}
