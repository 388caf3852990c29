//! Creates and mends both logs, reads the settings of other topics, and deletes records.
//!
//! `run`, `dupgate check` and `dupgate topics create` judge the topics of the logs by the same rules. Nothing else holds
//! what is in the logs, so brokers must neither delete their records nor keep them on a single disk, and event time is
//! bounded by the clock of the brokers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{after, tick};
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigSource, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Offset};

use super::client::LoggingContext;
use super::errors::{Denied, denied_by_code};
use super::output::TimeLimits;
use super::partition_list::list_at;
use crate::fingerprint::is_scheme_id;
use crate::record::PartitionId;

/// Largest batch that a broker accepts unless the topic sets another limit, in bytes.
pub const DEFAULT_BATCH_BYTES: usize = 1_048_588;

/// Replicas of a log where the cluster does not prefer another number.
const REPLICAS: usize = 3;

/// The replication factor with which brokers choose their own (Kafka 2.4 and later).
pub const BROKERS_CHOICE: i32 = -1;

/// How to give a log more replicas, or to do without them.
pub const MORE_REPLICAS: &str =
    "give it more with kafka-reassign-partitions.sh, or accept the risk with logs.replication_factor: 1";

/// Default time-out of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Time between two checks for a new topic.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long the brokers may take to learn of a changed setting.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// The fingerprint log, with timestamps of the brokers' clock.
    Fingerprints,
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

/// Returns the replication factor of a new log: the configured one, else the cluster's own default if that is known and
/// more than one replica, else three or as many as there are brokers. Apache Kafka's default is one replica.
#[must_use]
pub fn replication_factor(configured: Option<i32>, default: Option<i32>, brokers: usize) -> i32 {
    let possible = i32::try_from(brokers.clamp(1, REPLICAS)).unwrap_or(1);
    configured.or(default.filter(|default| *default > 1)).unwrap_or(possible)
}

/// A request to create a topic, which is tried again in other ways if the brokers refuse it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// The replication factor; [`BROKERS_CHOICE`] to leave it to them.
    pub replication_factor: i32,
    pub settings: BTreeMap<String, String>,
    /// The settings that were left out, because the brokers refuse them.
    pub left_out: Vec<String>,
    /// Whether the brokers may choose the replication factor.
    is_free: bool,
}

impl Creation {
    /// Starts with these settings. `configured` is the replication factor that must not be changed, if there is one.
    #[must_use]
    pub fn new(replication_factor: i32, configured: Option<i32>, settings: BTreeMap<String, String>) -> Self {
        Self { replication_factor, settings, left_out: Vec::new(), is_free: configured.is_none() }
    }

    /// Returns the request to send after a refusal; `None` if no other one could succeed. Managed clusters allow some
    /// replication factors and some settings only: they get a request with their own replication factor, then without
    /// the settings that only make a log safer. Those that keep its records are never left out.
    #[must_use]
    pub fn after_refusal(mut self, code: RDKafkaErrorCode) -> Option<Self> {
        let leaves_out = [RDKafkaErrorCode::InvalidConfig, RDKafkaErrorCode::PolicyViolation].contains(&code);
        let optional = ["unclean.leader.election.enable", "min.insync.replicas", "max.message.bytes"];
        if leaves_out && let Some(name) = optional.into_iter().find(|name| self.settings.contains_key(*name)) {
            self.settings.remove(name);
            self.left_out.push(name.to_owned());
            return Some(self);
        }
        let is_replication = leaves_out || code == RDKafkaErrorCode::InvalidReplicationFactor;
        if is_replication && self.is_free && self.replication_factor != BROKERS_CHOICE {
            return Some(Self { replication_factor: BROKERS_CHOICE, ..self });
        }
        None
    }
}

/// A setting of an existing log that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogProblem {
    pub setting: &'static str,
    pub found: String,
    /// The value that it should have.
    pub wanted: &'static str,
    /// Whether it loses records, or the bound of event time, so that a service must not start.
    pub is_deadly: bool,
    why: &'static str,
}

impl fmt::Display for LogProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, found, wanted, why, .. } = self;
        write!(f, "{setting} is {found}, expected {wanted}: {why}")
    }
}

/// Finds what is wrong with the settings of a log that has this many replicas. A setting that the brokers do not show is
/// not judged.
#[must_use]
pub fn problems(kind: LogKind, replicas: usize, settings: &BTreeMap<String, String>) -> Vec<LogProblem> {
    let replicas = i32::try_from(replicas).unwrap_or(i32::MAX);
    let judge = |(setting, wanted): (&'static str, &'static str)| {
        let found = settings.get(setting).filter(|found| *found != wanted)?;
        let (is_deadly, why) = match setting {
            "retention.ms" | "retention.bytes" => (true, "records would be deleted that nothing else holds"),
            "cleanup.policy" => (true, "a log has no keys to be compacted by"),
            "message.timestamp.type" => (true, "event time is bounded by the brokers' clock"),
            "unclean.leader.election.enable" => (false, "a broker that lags may take over and lose verdicts"),
            "min.insync.replicas" => (false, "verdicts on one broker alone are lost with it"),
            "max.message.bytes" => {
                (false, "records of the log have to be smaller, and a very small limit refuses them")
            }
            _ => (false, "not as planned"),
        };
        let is_enough = match setting {
            // More in-sync replicas than planned are no problem.
            "min.insync.replicas" => found.parse::<u32>().ok() > wanted.parse::<u32>().ok(),
            // Nor is the brokers' default limit, which the logs of older releases have.
            "max.message.bytes" => found.parse::<usize>().is_ok_and(|found| found >= DEFAULT_BATCH_BYTES),
            _ => false,
        };
        (!is_enough).then(|| LogProblem { setting, found: found.clone(), wanted, is_deadly, why })
    };
    log_settings(kind, replicas).into_iter().filter_map(judge).collect()
}

/// Returns whether a log with this many replicas must not be used: a single one on a cluster that has room for three,
/// unless that is configured.
#[must_use]
pub fn is_on_one_disk(replicas: usize, brokers: usize, configured: Option<i32>) -> bool {
    replicas == 1 && brokers >= REPLICAS && configured != Some(1)
}

/// Returns the command that changes settings of a topic, each `name=value`.
#[must_use]
pub fn alter_command(topic: &str, settings: &[String]) -> String {
    let settings = settings.join(",");
    format!(
        "kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name {topic} --add-config {settings}"
    )
}

#[must_use]
pub fn mend_command(topic: &str, problems: &[LogProblem]) -> String {
    let settings: Vec<String> =
        problems.iter().map(|problem| format!("{}={}", problem.setting, problem.wanted)).collect();
    alter_command(topic, &settings)
}

#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// A required topic is missing.
    #[error("missing topics: `{0}`; `dupgate topics create` shows how it would create them")]
    Missing(String),
    /// A log has another number of partitions than the configuration.
    #[error("topic `{topic}` has {found} partitions, but judge.partitions is {wanted}")]
    Partitions {
        topic: String,
        /// Its number of partitions.
        found: usize,
        /// The configured number.
        wanted: usize,
    },
    /// A log has a setting that would lose data.
    #[error(
        "topic `{topic}`: {}; mend it with `{}`, or allow AlterConfigs on the topic",
        join(problems),
        mend_command(topic, problems)
    )]
    Unsafe {
        topic: String,
        /// What is wrong with it.
        problems: Vec<LogProblem>,
    },
    /// A log is on one disk, although the cluster has more.
    #[error(
        "topic `{topic}` has one replica on {brokers} brokers: the loss of one broker would lose all verdicts; {MORE_REPLICAS}"
    )]
    OneReplica { topic: String, brokers: usize },
    /// A log could not be created.
    #[error("topic `{topic}` cannot be created: {code}")]
    NotCreated { topic: String, code: RDKafkaErrorCode },
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

/// Joins problems to a sentence.
fn join(problems: &[LogProblem]) -> String {
    problems.iter().map(LogProblem::to_string).collect::<Vec<_>>().join("; ")
}

/// What a cluster says of a topic.
#[derive(Clone, Copy, Debug)]
struct Found {
    partitions: usize,
    /// Of the partition that has fewest.
    replicas: usize,
    /// Number of brokers of the cluster.
    brokers: usize,
}

/// The client for topics.
pub struct Admin {
    client: AdminClient<LoggingContext>,
    runtime: tokio::runtime::Runtime,
    brokers: Brokers,
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brokers {
    /// The brokers of a real cluster.
    Cluster,
    /// [`super::demo::InProcessBroker`]: it never answers requests to create topics, report settings or delete records.
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
        let mut config = config.clone();
        if brokers == Brokers::InProcess {
            // The only way to create topics there.
            config.set("allow.auto.create.topics", "true");
        }
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
        Ok(self.find(topic)?.map(|found| found.partitions))
    }

    fn find(&self, topic: &str) -> Result<Option<Found>, TopicError> {
        let metadata = self.client.inner().fetch_metadata(Some(topic), self.timeout)?;
        let known = metadata.topics().iter().find(|found| found.name() == topic);
        let code = known.and_then(rdkafka::metadata::MetadataTopic::error).map(RDKafkaErrorCode::from);
        if let Some(denied) = code.and_then(|code| denied_by_code(code, topic)) {
            return Err(TopicError::Denied(denied));
        }
        let of_topic = known.filter(|found| found.error().is_none()).map(rdkafka::metadata::MetadataTopic::partitions);
        Ok(of_topic.filter(|partitions| !partitions.is_empty()).map(|partitions| Found {
            partitions: partitions.len(),
            replicas: partitions.iter().map(|partition| partition.replicas().len()).min().unwrap_or_default(),
            brokers: metadata.brokers().len(),
        }))
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
    /// partitions. Then reads back what the log is, and mends what would lose data. `replication` is the configured
    /// replication factor.
    ///
    /// # Errors
    ///
    /// [`TopicError::Partitions`], [`TopicError::NotCreated`]; [`TopicError::OneReplica`], or [`TopicError::Unsafe`] if
    /// the brokers do not let us mend it; or no broker answered in time.
    pub fn ensure_log(
        &self,
        topic: &str,
        kind: LogKind,
        partitions: usize,
        replication: Option<i32>,
    ) -> Result<(), TopicError> {
        if self.find(topic)?.is_none() {
            self.create_log(topic, kind, partitions, replication)?;
        }
        let Some(found) = self.await_topic(topic)? else { return Err(TopicError::Missing(topic.to_owned())) };
        if found.partitions != partitions {
            let topic = topic.to_owned();
            return Err(TopicError::Partitions { topic, found: found.partitions, wanted: partitions });
        }
        if is_on_one_disk(found.replicas, found.brokers, replication) {
            return Err(TopicError::OneReplica { topic: topic.to_owned(), brokers: found.brokers });
        }
        self.verify_settings(topic, kind, found.replicas)
    }

    /// Finds a topic that may be new, and waits for it: the brokers learn of a new topic one by one.
    fn await_topic(&self, topic: &str) -> Result<Option<Found>, TopicError> {
        let (late, checks) = (after(self.timeout), tick(POLL_INTERVAL));
        loop {
            let found = self.find(topic)?;
            if found.is_some() || late.try_recv().is_ok() {
                return Ok(found);
            }
            // The ticker lives as long as this channel.
            let _ = checks.recv();
        }
    }

    /// Reads the settings of a log, logs those that make it less safe, and mends those that would lose data.
    fn verify_settings(&self, topic: &str, kind: LogKind, replicas: usize) -> Result<(), TopicError> {
        if self.brokers == Brokers::InProcess {
            return Ok(());
        }
        let read = || self.topic_settings(topic);
        let judge = |settings: &TopicSettings| problems(kind, replicas, &settings.all);
        let found = read()?;
        if found.all.is_empty() {
            let denied = Denied { operation: "DescribeConfigs", resource: "topic", name: topic.to_owned() };
            tracing::warn!(
                target: "dupgate::kafka",
                topic, fix = denied.remedy(),
                "the brokers do not show the settings of the log, so it is not known whether it keeps its records"
            );
            return Ok(());
        }
        let (deadly, lesser): (Vec<_>, Vec<_>) = judge(&found).into_iter().partition(|problem| problem.is_deadly);
        if !lesser.is_empty() {
            let (problems, fix) = (join(&lesser), mend_command(topic, &lesser));
            tracing::warn!(target: "dupgate::kafka", topic, fix, "settings of the log are not as planned: {problems}");
        }
        if deadly.is_empty() {
            return Ok(());
        }
        self.alter(topic, found.of_topic, &deadly)?;
        // The client library does not say whether the brokers have accepted the change, and they learn of it one by one.
        let (late, checks) = (after(CHANGE_TIMEOUT), tick(POLL_INTERVAL));
        while judge(&read()?).iter().any(|problem| problem.is_deadly) {
            if late.try_recv().is_ok() {
                return Err(TopicError::Unsafe { topic: topic.to_owned(), problems: deadly });
            }
            // The ticker lives as long as this channel.
            let _ = checks.recv();
        }
        let problems = join(&deadly);
        tracing::warn!(target: "dupgate::kafka", topic, "changed settings of the log that would lose data: {problems}");
        Ok(())
    }

    /// Reads the settings of a topic: none if the brokers do not let us, for which the client library has no error.
    fn topic_settings(&self, topic: &str) -> Result<TopicSettings, TopicError> {
        let resource = ResourceSpecifier::Topic(topic);
        let answer = self.runtime.block_on(self.client.describe_configs([&resource], &options(self.timeout)))?;
        let mut settings = TopicSettings::default();
        for entry in answer.into_iter().filter_map(Result::ok).flat_map(|found| found.entries) {
            let Some(value) = entry.value else { continue };
            if entry.source == ConfigSource::DynamicTopic {
                settings.of_topic.insert(entry.name.clone(), value.clone());
            }
            settings.all.insert(entry.name, value);
        }
        Ok(settings)
    }

    /// Asks for what is wanted instead of these problems. The request replaces all settings of the topic, so it repeats
    /// those that the topic has.
    fn alter(&self, topic: &str, of_topic: Settings, problems: &[LogProblem]) -> Result<(), TopicError> {
        let wanted = problems.iter().map(|problem| (problem.setting.to_owned(), problem.wanted.to_owned()));
        let settings: Settings = of_topic.into_iter().chain(wanted).collect();
        let change = settings
            .iter()
            .fold(AlterConfig::new(ResourceSpecifier::Topic(topic)), |change, (name, value)| change.set(name, value));
        self.runtime.block_on(self.client.alter_configs([&change], &options(self.timeout)))?;
        Ok(())
    }

    /// Creates a topic with the cluster's own settings, if it does not exist.
    ///
    /// # Errors
    ///
    /// [`TopicError::NotCreated`], or no broker answered in time.
    pub fn ensure_topic(&self, topic: &str, partitions: usize) -> Result<(), TopicError> {
        let replication_factor = self.replication_factor(None)?;
        self.create(topic, partitions, Creation::new(replication_factor, None, Settings::new()))
    }

    fn create_log(
        &self,
        topic: &str,
        kind: LogKind,
        partitions: usize,
        configured: Option<i32>,
    ) -> Result<(), TopicError> {
        let replication_factor = self.replication_factor(configured)?;
        let settings = log_settings(kind, replication_factor);
        let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.create(topic, partitions, Creation::new(replication_factor, configured, settings))
    }

    fn create(&self, topic: &str, partitions: usize, creation: Creation) -> Result<(), TopicError> {
        let options = options(self.timeout);
        let code = match create(&self.client, &self.runtime, &options, topic, partitions, creation)? {
            Ok(()) | Err(RDKafkaErrorCode::TopicAlreadyExists) => return Ok(()),
            Err(code) => code,
        };
        Err(match denied_by_code(code, topic) {
            Some(denied) => TopicError::Denied(denied.to("Create")),
            None => TopicError::NotCreated { topic: topic.to_owned(), code },
        })
    }

    /// Returns the replication factor of a new topic.
    fn replication_factor(&self, configured: Option<i32>) -> Result<i32, TopicError> {
        let metadata = self.client.inner().fetch_metadata(None, self.timeout)?;
        let default = match metadata.brokers().first() {
            Some(broker) if configured.is_none() => {
                self.setting(ResourceSpecifier::Broker(broker.id()), "default.replication.factor")?
            }
            Some(_) | None => None,
        };
        Ok(replication_factor(configured, default.and_then(|text| text.parse().ok()), metadata.brokers().len()))
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
        let list = list_at(before.iter().map(|(partition, offset)| (partition, Offset::Offset(*offset))))?;
        let answer = self.runtime.block_on(self.client.delete_records(&list, &options(self.timeout)))?;
        for element in answer.elements() {
            element.error()?;
        }
        Ok(())
    }
}

type Settings = BTreeMap<String, String>;

#[derive(Debug, Default)]
struct TopicSettings {
    /// All, those of the brokers included.
    all: Settings,
    /// Those that were set for the topic alone.
    of_topic: Settings,
}

/// Creates a topic, in the first way that the brokers do not refuse, and logs what it could not have. Returns the code
/// of their last refusal, if they refuse all ways.
///
/// # Errors
///
/// No broker answered in time.
pub(super) fn create<C: ClientContext>(
    client: &AdminClient<C>,
    runtime: &tokio::runtime::Runtime,
    options: &AdminOptions,
    topic: &str,
    partitions: usize,
    mut creation: Creation,
) -> Result<Result<(), RDKafkaErrorCode>, KafkaError> {
    let partitions = i32::try_from(partitions).unwrap_or(i32::MAX);
    let mut first = None;
    loop {
        let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(creation.replication_factor));
        for (name, value) in &creation.settings {
            new = new.set(name, value);
        }
        let answer = runtime.block_on(client.create_topics([&new], options))?;
        let Some(Err((_, code))) = answer.into_iter().next() else { break };
        if code == RDKafkaErrorCode::TopicAlreadyExists {
            return Ok(Err(code));
        }
        let first = *first.get_or_insert(code);
        let Some(next) = creation.after_refusal(code) else { return Ok(Err(first)) };
        creation = next;
    }
    if !creation.left_out.is_empty() {
        let left_out = creation.left_out.join(", ");
        tracing::warn!(target: "dupgate::kafka", topic, "the brokers refuse settings of a new topic: created without {left_out}");
    }
    Ok(Ok(()))
}

/// Returns options with this time-out, for the request and for the brokers' wait for each other.
pub(super) fn options(timeout: Duration) -> AdminOptions {
    AdminOptions::new().request_timeout(Some(timeout)).operation_timeout(Some(timeout))
}

/// Names of both logs of a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNames {
    pub fingerprints: Arc<str>,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(kind: LogKind, change: &[(&str, &str)]) -> BTreeMap<String, String> {
        let good = log_settings(kind, 3).into_iter().chain(change.iter().copied());
        good.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn what_loses_data_is_deadly_and_what_only_makes_it_safer_is_not() {
        let found = |kind, change: &[(&str, &str)]| {
            let problems = problems(kind, 3, &settings(kind, change));
            problems.into_iter().map(|problem| (problem.setting, problem.is_deadly)).collect::<Vec<_>>()
        };
        let (fingerprints, verdicts) = (LogKind::Fingerprints, LogKind::Verdicts);
        assert_eq!(found(fingerprints, &[]), []);
        assert_eq!(found(verdicts, &[]), []);
        for (name, value) in [("retention.ms", "604800000"), ("retention.bytes", "1"), ("cleanup.policy", "compact")] {
            for kind in [fingerprints, verdicts] {
                assert_eq!(found(kind, &[(name, value)]), [(name, true)]);
            }
        }
        let create_time = [("message.timestamp.type", "CreateTime")];
        assert_eq!(found(fingerprints, &create_time), [("message.timestamp.type", true)]);
        assert_eq!(found(verdicts, &create_time), [], "only requests need the brokers' clock");
        for (name, value) in
            [("unclean.leader.election.enable", "true"), ("min.insync.replicas", "1"), ("max.message.bytes", "500000")]
        {
            assert_eq!(found(verdicts, &[(name, value)]), [(name, false)]);
        }
        for (name, value) in [("min.insync.replicas", "3"), ("max.message.bytes", "1048588")] {
            assert_eq!(found(verdicts, &[(name, value)]), [], "{name}");
        }
        assert_eq!(problems(verdicts, 3, &BTreeMap::new()), [], "what brokers do not show is not judged");
        assert_eq!(problems(verdicts, 1, &settings(verdicts, &[("min.insync.replicas", "1")])), []);
    }

    #[test]
    fn a_problem_names_setting_value_reason_and_command() {
        let kind = LogKind::Fingerprints;
        let changed = settings(kind, &[("retention.ms", "1000"), ("message.timestamp.type", "CreateTime")]);
        let problems = problems(kind, 3, &changed);
        let [first, _] = &problems[..] else { panic!("{problems:?}") };
        let text = first.to_string();
        assert_eq!(text, "retention.ms is 1000, expected -1: records would be deleted that nothing else holds");
        let command = mend_command("g.fingerprints.s", &problems);
        let expected =
            "--entity-name g.fingerprints.s --add-config retention.ms=-1,message.timestamp.type=LogAppendTime";
        assert!(command.ends_with(expected), "{command}");
    }

    #[test]
    fn one_replica_is_chosen_only_on_one_broker_or_on_demand() {
        assert_eq!(replication_factor(None, Some(1), 3), 3, "Apache's default");
        assert_eq!(replication_factor(None, None, 3), 3, "brokers that do not show it");
        assert_eq!(replication_factor(None, None, 12), 3);
        assert_eq!(replication_factor(None, Some(1), 2), 2);
        assert_eq!(replication_factor(None, Some(1), 1), 1);
        assert_eq!(replication_factor(None, Some(2), 3), 2, "the choice of the cluster");
        assert_eq!(replication_factor(None, Some(5), 9), 5);
        assert_eq!(replication_factor(Some(1), Some(3), 3), 1);
        assert!(is_on_one_disk(1, 3, None) && is_on_one_disk(1, 3, Some(3)));
        assert!(!is_on_one_disk(1, 2, None) && !is_on_one_disk(1, 3, Some(1)) && !is_on_one_disk(2, 3, None));
    }

    #[test]
    fn refused_settings_are_left_out_unless_they_keep_the_records() {
        let all = Creation::new(3, None, settings(LogKind::Fingerprints, &[]));
        let refused = |creation: Creation, code| creation.after_refusal(code);
        let mut last = all.clone();
        while let Some(next) = refused(last.clone(), RDKafkaErrorCode::InvalidConfig) {
            last = next;
        }
        assert_eq!(last.left_out, ["unclean.leader.election.enable", "min.insync.replicas", "max.message.bytes"]);
        assert_eq!(last.replication_factor, BROKERS_CHOICE);
        let kept: Vec<&str> = last.settings.keys().map(String::as_str).collect();
        assert_eq!(kept, ["cleanup.policy", "message.timestamp.type", "retention.bytes", "retention.ms"]);

        let chosen = refused(all.clone(), RDKafkaErrorCode::InvalidReplicationFactor).unwrap();
        assert_eq!((chosen.replication_factor, chosen.settings.len()), (BROKERS_CHOICE, all.settings.len()));
        assert_eq!(refused(chosen, RDKafkaErrorCode::InvalidReplicationFactor), None);
        let configured = Creation::new(3, Some(3), BTreeMap::new());
        assert_eq!(
            refused(configured, RDKafkaErrorCode::InvalidReplicationFactor),
            None,
            "as configured, or not at all"
        );
        assert_eq!(refused(all, RDKafkaErrorCode::TopicAuthorizationFailed), None);
    }
}
