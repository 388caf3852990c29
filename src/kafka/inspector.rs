//! Inspects a cluster: brokers, topics and their settings, and our permissions.
//!
//! Nothing here changes the cluster, except for [`ClusterInspector::create`], [`ClusterInspector::transact`], which makes
//! the coordinator store a separate transactional id, and what replays ask for: deleting their topics and groups, and
//! [`end_open_transaction`], which ends the transaction that a process left open when it was killed.
//!
//! Permissions are probed with requests that brokers must reject for another reason. Brokers check permissions first. So
//! the answer to a request that has another fault shows whether we have the permission: it names either the permission
//! or the other fault. The probes leave nothing in the cluster: no record, no group member, no topic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Sender, after, bounded, tick};
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientConfig, Offset};

use super::admin::{Creation, create, options};
use super::client::{ConnectionSettings, LoggingContext, ProducerSettings};
use super::errors::{self, Denied, denied, denied_by_code};
use super::partition_list::{list_at, list_of};

use crate::record::{PartitionId, Timestamp};
use crate::transaction::{Call, CallError};

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(50);

/// Time between two checks for a new topic.
const NEW_TOPIC_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of partitions of a topic whose first and last records are read.
const MAX_PARTITIONS: usize = 64;

/// Number of offsets before the end to search for the last record: transactions end in markers that are not records.
const FROM_END: i64 = 5;

/// An `acks` value that no broker knows: `0`, `1` and `all` are the only ones.
const NO_SUCH_ACKS: &str = "2";

/// A session that is longer than brokers allow by default (half an hour), in milliseconds.
const TOO_LONG_SESSION: &str = "3600000";

/// A protocol that no member of our groups supports.
const OTHER_PROTOCOL: &str = "roundrobin";

/// Collects the client's errors instead of logging them.
#[derive(Clone, Debug, Default)]
struct ErrorCapture(Arc<Mutex<Vec<ClientError>>>);

/// Messages of the client, with their codes if any.
type ClientError = (Option<RDKafkaErrorCode>, String);

impl ErrorCapture {
    fn add(&self, code: Option<RDKafkaErrorCode>, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((code, text.to_owned()));
    }

    /// Returns the error that best explains why no broker answered.
    fn most_telling(&self) -> Option<ClusterError> {
        let errors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = |code: Option<RDKafkaErrorCode>, text: &str| {
            matches!(code, Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed))
                || text.contains("authentication")
        };
        let encryption = |text: &str| text.contains("SSL") || text.contains("certificate") || text.contains("ssl://");
        let without_prefix = |text: &str| text.rsplit("]: ").next().unwrap_or(text).to_owned();
        errors
            .iter()
            .find(|(code, text)| identity(*code, text))
            .map(|(_, text)| ClusterError::Identity(without_prefix(text)))
            .or_else(|| {
                errors
                    .iter()
                    .find(|(_, text)| encryption(text))
                    .map(|(_, text)| ClusterError::Unavailable(without_prefix(text)))
            })
            .or_else(|| {
                let all_down = |code: Option<RDKafkaErrorCode>| code == Some(RDKafkaErrorCode::AllBrokersDown);
                errors
                    .iter()
                    .find(|(code, _)| !all_down(*code))
                    .map(|(_, text)| ClusterError::Unavailable(without_prefix(text)))
            })
    }
}

impl ClientContext for ErrorCapture {
    fn log(&self, level: RDKafkaLogLevel, _: &str, message: &str) {
        if (level as i32) <= (RDKafkaLogLevel::Error as i32) {
            self.add(None, message);
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.add(error.rdkafka_error_code(), reason);
    }
}

impl ConsumerContext for ErrorCapture {}
impl ProducerContext for ErrorCapture {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &rdkafka::message::DeliveryResult<'_>, (): Self::DeliveryOpaque) {}
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The brokers do not accept our identity.
    #[error("{0}")]
    Identity(String),
    /// A permission is missing: its ACL.
    #[error("not authorized: {0}")]
    Denied(Denied),
    /// No broker answered, or another failure that is not about our resources.
    #[error("{0}")]
    Unavailable(String),
}

impl ClusterError {
    /// Sorts an error of a request about `what`, a topic, group or id by name.
    fn of(error: &KafkaError, what: &str) -> Self {
        match denied(error, what) {
            Some(denied) => Self::Denied(denied),
            None => Self::Unavailable(error.to_string()),
        }
    }

    /// Sorts an error of reading these topics, or a pattern of topics.
    #[must_use]
    pub fn of_topics(error: &KafkaError, topics: &[String]) -> Self {
        let name = match topics {
            [name] if !name.starts_with('^') => name,
            _ => "",
        };
        Self::of_topic(error, name, "Read")
    }

    /// Sorts an error of an operation on a topic. The error does not name the operation; a missing permission on
    /// another resource is left unchanged.
    #[must_use]
    pub fn of_topic(error: &KafkaError, topic: &str, operation: &'static str) -> Self {
        match Self::of(error, topic) {
            Self::Denied(denied) if denied.resource == "topic" => Self::Denied(denied.to(operation)),
            other @ (Self::Denied(_) | Self::Identity(_) | Self::Unavailable(_)) => other,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicView {
    pub name: String,
    pub partitions: usize,
    /// Smallest number of replicas of any partition.
    pub replicas: usize,
    /// Smallest number of in-sync replicas of any partition.
    pub in_sync: usize,
    /// Its settings by name, defaults included.
    pub settings: Result<BTreeMap<String, String>, ClusterError>,
}

impl TopicView {
    /// Returns a setting, if it is visible.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.as_ref().ok()?.get(name).map(String::as_str)
    }

    /// Returns a setting that is a number, if it is visible.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<i64> {
        self.setting(name)?.parse().ok()
    }
}

/// The first and last records of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Timestamp of the oldest record seen.
    pub oldest: Option<Timestamp>,
    /// Timestamp of the newest record seen.
    pub newest: Option<Timestamp>,
    /// Number of partitions read.
    pub partitions: usize,
    /// Number of records in them, by their offsets.
    pub records: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPlan {
    pub name: String,
    pub partitions: usize,
    pub replicas: usize,
    /// Whether somebody asked for this number of replicas, so that brokers that refuse it must not choose another.
    pub is_configured: bool,
    pub settings: BTreeMap<String, String>,
}

/// Clients for inspecting a cluster.
pub struct ClusterInspector {
    connection: ConnectionSettings,
    group: String,
    consumer: BaseConsumer<ErrorCapture>,
    errors: ErrorCapture,
    admin: AdminClient<ErrorCapture>,
    runtime: tokio::runtime::Runtime,
    timeout: Duration,
}

impl ClusterInspector {
    /// Creates the clients; each request waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// The clients cannot be created from these settings, for instance because a certificate cannot be read.
    pub fn new(connection: &ConnectionSettings, group: &str, timeout: Duration) -> Result<Self, ClusterError> {
        let errors = ErrorCapture::default();
        let unmade = |error: KafkaError| ClusterError::Unavailable(error.to_string());
        let mut config = connection.follower(group);
        // One record of each partition is enough.
        config.set("fetch.message.max.bytes", "65536").set("isolation.level", "read_uncommitted");
        config.set_log_level(RDKafkaLogLevel::Error);
        let mut admin = connection.admin();
        admin.set_log_level(RDKafkaLogLevel::Error);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        Ok(Self {
            connection: connection.clone(),
            group: group.to_owned(),
            consumer: config.create_with_context(errors.clone()).map_err(unmade)?,
            admin: admin.create_with_context(errors.clone()).map_err(unmade)?,
            errors,
            runtime: runtime.map_err(|error| ClusterError::Unavailable(error.to_string()))?,
            timeout,
        })
    }

    /// Returns the addresses of the brokers, by id.
    ///
    /// # Errors
    ///
    /// Why none answers: rejected credentials, a certificate, an address.
    pub fn brokers(&self) -> Result<BTreeMap<i32, String>, ClusterError> {
        match self.consumer.fetch_metadata(None, self.timeout) {
            Ok(metadata) => Ok(metadata
                .brokers()
                .iter()
                .map(|broker| (broker.id(), format!("{}:{}", broker.host(), broker.port())))
                .collect()),
            Err(error) => {
                // The client reports background errors when it is polled.
                let _ = self.consumer.poll(POLL);
                Err(self.errors.most_telling().unwrap_or_else(|| ClusterError::Unavailable(error.to_string())))
            }
        }
    }

    /// Returns a setting of a broker, if it is visible.
    #[must_use]
    pub fn broker_setting(&self, broker: i32, name: &str) -> Option<String> {
        self.settings(ResourceSpecifier::Broker(broker), "").ok()?.remove(name)
    }

    /// Returns the names of the topics that match a pattern (`^…`) or are named.
    ///
    /// # Errors
    ///
    /// No broker answers, or the pattern is invalid.
    pub fn named(&self, topics: &[String]) -> Result<BTreeSet<String>, ClusterError> {
        let mut found: BTreeSet<String> = topics.iter().filter(|topic| !topic.starts_with('^')).cloned().collect();
        for pattern in topics.iter().filter(|topic| topic.starts_with('^')) {
            let pattern = regex::Regex::new(pattern).map_err(|error| ClusterError::Unavailable(error.to_string()))?;
            let metadata = self.consumer.fetch_metadata(None, self.timeout);
            let metadata = metadata.map_err(|error| ClusterError::of(&error, ""))?;
            let names = metadata.topics().iter().map(|topic| topic.name().to_owned());
            found.extend(names.filter(|name| pattern.is_match(name)));
        }
        Ok(found)
    }

    /// Describes a topic; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// We may not describe it, or no broker answers.
    pub fn topic(&self, name: &str) -> Result<Option<TopicView>, ClusterError> {
        let metadata = self.consumer.fetch_metadata(Some(name), self.timeout);
        let metadata = metadata.map_err(|error| ClusterError::of(&error, name))?;
        let Some(found) = metadata.topics().iter().find(|topic| topic.name() == name) else { return Ok(None) };
        if let Some(code) = found.error() {
            let code = RDKafkaErrorCode::from(code);
            if [RDKafkaErrorCode::UnknownTopicOrPartition, RDKafkaErrorCode::UnknownTopic].contains(&code) {
                return Ok(None);
            }
            return Err(ClusterError::of(&KafkaError::MetadataFetch(code), name));
        }
        let partitions = found.partitions();
        Ok(Some(TopicView {
            name: name.to_owned(),
            partitions: partitions.len(),
            replicas: partitions.iter().map(|partition| partition.replicas().len()).min().unwrap_or_default(),
            in_sync: partitions.iter().map(|partition| partition.isr().len()).min().unwrap_or_default(),
            settings: self.settings(ResourceSpecifier::Topic(name), name),
        }))
    }

    fn settings(&self, resource: ResourceSpecifier<'_>, what: &str) -> Result<BTreeMap<String, String>, ClusterError> {
        let options = options(self.timeout);
        let answer = self.runtime.block_on(self.admin.describe_configs([&resource], &options));
        let answer = answer.map_err(|error| ClusterError::of(&error, what))?;
        let Some(first) = answer.into_iter().next() else { return Ok(BTreeMap::new()) };
        let found = first.map_err(|code| ClusterError::of(&KafkaError::AdminOp(code), what))?;
        if found.entries.is_empty() {
            // The client library has no error for what the brokers do not show.
            let denied = Denied { operation: "DescribeConfigs", resource: "topic", name: what.to_owned() };
            return Err(ClusterError::Denied(denied));
        }
        Ok(found.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect())
    }

    /// Returns whether a topic exists and holds records.
    ///
    /// # Errors
    ///
    /// We may not describe it, or no broker answers.
    pub fn has_records(&self, topic: &str) -> Result<bool, ClusterError> {
        let Some(view) = self.topic(topic)? else { return Ok(false) };
        for number in (0..view.partitions).filter_map(|number| i32::try_from(number).ok()) {
            let range = self.consumer.fetch_watermarks(topic, number, self.timeout);
            let (first, end) = range.map_err(|error| ClusterError::of_topic(&error, topic, "Read"))?;
            if first < end {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the first and the last record of each partition, as far as they arrive within the timeout.
    ///
    /// # Errors
    ///
    /// We may not read, or the client rejects the assignment.
    pub fn ends(&self, topic: &str, partitions: usize) -> Result<Ends, ClusterError> {
        let partitions = partitions.min(MAX_PARTITIONS);
        let mut ends = Ends { partitions, ..Ends::default() };
        let (mut firsts, mut lasts) = (Vec::new(), Vec::new());
        for number in (0..partitions).filter_map(|number| i32::try_from(number).ok()) {
            let range = self.consumer.fetch_watermarks(topic, number, self.timeout);
            let (first, end) = range.map_err(|error| ClusterError::of_topic(&error, topic, "Read"))?;
            ends.records = ends.records.saturating_add(end.saturating_sub(first).max(0).unsigned_abs());
            // Read from a partition without records, too: otherwise a missing permission would not be noticed.
            firsts.push((number, Offset::Beginning));
            // Nothing would come from an offset before the first record.
            if first < end {
                lasts.push((number, Offset::Offset(end.saturating_sub(FROM_END).max(first))));
            }
        }
        for (from, count) in [(firsts, 1), (lasts, FROM_END)] {
            let records = next_records(&self.consumer, topic, &from, count, self.timeout);
            let _ = self.consumer.unassign();
            for time in records?.into_iter().filter_map(|(_, time)| time) {
                ends.oldest = Some(ends.oldest.map_or(time, |oldest| oldest.min(time)));
                ends.newest = Some(ends.newest.map_or(time, |newest| newest.max(time)));
            }
        }
        Ok(ends)
    }

    /// Returns the group's lag on these partitions in records; `None` for a group without committed offsets.
    ///
    /// # Errors
    ///
    /// We may not use the group, or no coordinator answers.
    pub fn lag(&self, partitions: &BTreeSet<PartitionId>) -> Result<Option<u64>, ClusterError> {
        let committed = self.consumer.committed_offsets(list_of(partitions), self.timeout);
        let committed =
            committed.map_err(|error| self.denied_group().unwrap_or_else(|| ClusterError::of(&error, &self.group)))?;
        let (mut lag, mut known) = (0_u64, false);
        for element in committed.elements() {
            element.error().map_err(|error| ClusterError::of(&error, &self.group))?;
            let ends = self.consumer.fetch_watermarks(element.topic(), element.partition(), self.timeout);
            let (first, end) = ends.map_err(|error| ClusterError::of(&error, element.topic()))?;
            let next = match element.offset() {
                Offset::Offset(offset) => {
                    known = true;
                    offset
                }
                Offset::Beginning | Offset::End | Offset::Stored | Offset::Invalid | Offset::OffsetTail(_) => first,
            };
            lag = lag.saturating_add(u64::try_from(end.saturating_sub(next)).unwrap_or(0));
        }
        Ok(known.then_some(lag))
    }

    /// Returns the missing permission on the group, if a request went unanswered for lack of it: the client reports
    /// this separately, when it is polled.
    fn denied_group(&self) -> Option<ClusterError> {
        let late = after(Duration::from_secs(1));
        while late.try_recv().is_err() {
            if let Some(Err(error)) = self.consumer.poll(POLL)
                && let cluster_error @ ClusterError::Denied(_) = ClusterError::of(&error, &self.group)
            {
                return Some(cluster_error);
            }
        }
        let errors = self.errors.0.lock().unwrap_or_else(PoisonError::into_inner);
        let denied = errors.iter().find_map(|(code, _)| denied_by_code((*code)?, &self.group));
        denied.map(ClusterError::Denied)
    }

    /// Initialises a transactional id of this name at the coordinator, as a producer does before its first transaction.
    ///
    /// # Errors
    ///
    /// We may not use the id, or no coordinator answers.
    pub fn transact(&self, id: &str) -> Result<(), ClusterError> {
        let mut config = self.connection.transactional_producer(id, &ProducerSettings::of_judge());
        config.set_log_level(RDKafkaLogLevel::Error);
        let errors = ErrorCapture::default();
        let made = config.create_with_context(errors.clone());
        let producer: BaseProducer<ErrorCapture> = made.map_err(|error| ClusterError::of(&error, id))?;
        producer.init_transactions(self.timeout).map_err(|error| ClusterError::of(&error, id))
    }

    /// Returns the name of the cluster; empty if it has none.
    #[must_use]
    pub fn cluster_id(&self) -> String {
        self.consumer.client().fetch_cluster_id(self.timeout).unwrap_or_default()
    }

    /// Lists all visible topics.
    ///
    /// # Errors
    ///
    /// No broker answers.
    pub fn topic_names(&self) -> Result<BTreeSet<String>, ClusterError> {
        let metadata =
            self.consumer.fetch_metadata(None, self.timeout).map_err(|error| ClusterError::of(&error, ""))?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
    }

    /// Waits until all partitions of a new topic have a leader.
    ///
    /// # Errors
    ///
    /// They have none in time.
    pub fn await_topic(&self, name: &str) -> Result<(), ClusterError> {
        let (late, checks) = (after(self.timeout), tick(NEW_TOPIC_INTERVAL));
        loop {
            let metadata = self.consumer.fetch_metadata(Some(name), self.timeout);
            let metadata = metadata.map_err(|error| ClusterError::of(&error, name))?;
            let mut topics = metadata.topics().iter().filter(|topic| topic.name() == name && topic.error().is_none());
            let is_led = |topic: &rdkafka::metadata::MetadataTopic| {
                !topic.partitions().is_empty() && topic.partitions().iter().all(|partition| partition.leader() >= 0)
            };
            if topics.any(is_led) {
                return Ok(());
            }
            if late.try_recv().is_ok() {
                return Err(ClusterError::Unavailable(format!("topic `{name}` has no leader yet")));
            }
            // The ticker lives as long as this channel.
            let _ = checks.recv();
        }
    }

    /// Deletes topics; a topic that is already gone is not an error.
    ///
    /// # Errors
    ///
    /// The first refusal of the brokers.
    pub fn delete_topics(&self, names: &[&str]) -> Result<(), ClusterError> {
        if names.is_empty() {
            return Ok(());
        }
        let options = options(self.timeout);
        let answer = self.runtime.block_on(self.admin.delete_topics(names, &options));
        for outcome in answer.map_err(|error| ClusterError::of(&error, ""))? {
            match outcome {
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic)) => {}
                Err((name, code)) => return Err(ClusterError::of_topic(&KafkaError::AdminOp(code), &name, "Delete")),
            }
        }
        Ok(())
    }

    /// Deletes a group with its offsets; a group that is already gone is not an error.
    ///
    /// # Errors
    ///
    /// The refusal of the coordinator.
    pub fn delete_group(&self, name: &str) -> Result<(), ClusterError> {
        let options = options(self.timeout);
        let answer = self.runtime.block_on(self.admin.delete_groups(&[name], &options));
        for outcome in answer.map_err(|error| ClusterError::of(&error, name))? {
            match outcome {
                Ok(_) | Err((_, RDKafkaErrorCode::GroupIdNotFound)) => {}
                Err((_, code)) => return Err(ClusterError::of(&KafkaError::AdminOp(code), name)),
            }
        }
        Ok(())
    }

    /// Returns the offset and time of the first record at this offset or after it; `None` if none arrives in time.
    ///
    /// # Errors
    ///
    /// The client cannot read there.
    pub fn first_at(
        &self,
        partition: &PartitionId,
        offset: i64,
    ) -> Result<Option<(i64, Option<Timestamp>)>, ClusterError> {
        let failed = |error: KafkaError| ClusterError::of(&error, &partition.topic);
        let config = self.connection.follower(&self.group);
        let consumer: BaseConsumer<LoggingContext> = config.create_with_context(LoggingContext(())).map_err(failed)?;
        let from = [(partition.number, Offset::Offset(offset))];
        Ok(next_records(&consumer, &partition.topic, &from, 1, self.timeout)?.pop())
    }
}

/// Returns the offsets and times of the next records from these offsets on, at most `count` of a partition: one that is
/// written to all the time has no defined end. Those that do not arrive in time are left out.
fn next_records<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    from: &[(i32, Offset)],
    count: i64,
    timeout: Duration,
) -> Result<Vec<(i64, Option<Timestamp>)>, ClusterError> {
    let list = list_at(from.iter().map(|(number, offset)| (PartitionId::new(topic, *number), *offset)));
    let assigned = list.and_then(|list| consumer.assign(&list));
    assigned.map_err(|error| ClusterError::of(&error, topic))?;
    let mut open: BTreeMap<i32, i64> = from.iter().map(|(number, _)| (*number, count)).collect();
    let mut records = Vec::new();
    let late = after(timeout);
    while !open.is_empty() && late.try_recv().is_err() {
        match consumer.poll(POLL) {
            None => {}
            Some(Ok(message)) => {
                let time = message.timestamp().to_millis().map(Timestamp::from_millis);
                records.push((message.offset(), time));
                let number = message.partition();
                let left = open.remove(&number).map_or(0, |left| left - 1);
                if left > 0 {
                    open.insert(number, left);
                }
            }
            Some(Err(KafkaError::PartitionEOF(number))) => drop(open.remove(&number)),
            Some(Err(error)) => {
                if let cluster_error @ ClusterError::Denied(_) = ClusterError::of_topic(&error, topic, "Read") {
                    return Err(cluster_error);
                }
            }
        }
    }
    Ok(records)
}

/// Ends the transaction that is open under the transactional id of these settings, and fences its producer if it still
/// runs: afterwards the offsets of the group are final, and reading them does not wait.
///
/// # Errors
///
/// The brokers refuse, or none answered within `timeout`.
pub fn end_open_transaction(config: &ClientConfig, timeout: Duration) -> Result<(), CallError> {
    let producer: BaseProducer<LoggingContext> =
        config.create_with_context(LoggingContext::default()).map_err(|error| CallError::Fatal(error.to_string()))?;
    producer.init_transactions(timeout).map_err(|error| errors::of_call(Call::Init, &error))
}

/// Passes on the delivery report of the record that a probe sends.
struct DeliveryProbe {
    errors: ErrorCapture,
    became: Sender<Option<KafkaError>>,
}

impl ClientContext for DeliveryProbe {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.errors.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.errors.error(error, reason);
    }
}

impl ProducerContext for DeliveryProbe {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): Self::DeliveryOpaque) {
        let error = result.as_ref().err().map(|(error, _)| error.clone());
        drop(self.became.try_send(error));
    }
}

impl ClusterInspector {
    /// Checks the permission to write to a topic: sends a record with an unknown `acks` value.
    ///
    /// # Errors
    ///
    /// The missing permission, or why there is no answer.
    pub fn may_write(&self, topic: &str) -> Result<(), ClusterError> {
        let mut config = self.connection.output_producer(&ProducerSettings::of_judge());
        config
            .set("enable.idempotence", "false")
            .set("acks", NO_SUCH_ACKS)
            .set("message.send.max.retries", "0")
            .set("message.timeout.ms", self.timeout.as_millis().to_string())
            .set("linger.ms", "0")
            .set_log_level(RDKafkaLogLevel::Error);
        let (became, message) = bounded(1);
        let unsent = |error: &KafkaError| ClusterError::of_topic(error, topic, "Write");
        let producer: BaseProducer<DeliveryProbe> = config
            .create_with_context(DeliveryProbe { errors: ErrorCapture::default(), became })
            .map_err(|error| unsent(&error))?;
        let record = BaseRecord::<[u8], [u8]>::to(topic).partition(0).payload(b"");
        producer.send(record).map_err(|(error, _)| unsent(&error))?;
        producer.flush(self.timeout).map_err(|error| unsent(&error))?;
        match message.try_recv().ok().flatten() {
            None | Some(KafkaError::MessageProduction(RDKafkaErrorCode::InvalidRequiredAcks)) => Ok(()),
            Some(error) => Err(unsent(&error)),
        }
    }

    /// Checks the permission to join a group: tries to join with a session that is too long, and a protocol that no
    /// member supports. A broker that accepts it nevertheless creates a group, which is left at once.
    ///
    /// # Errors
    ///
    /// The missing permission, or why there is no answer.
    pub fn may_join(&self, group: &str, topic: &str) -> Result<(), ClusterError> {
        let mut config = self.connection.follower(group);
        config
            .set("session.timeout.ms", TOO_LONG_SESSION)
            .set("max.poll.interval.ms", TOO_LONG_SESSION)
            .set("heartbeat.interval.ms", "3000")
            .set("partition.assignment.strategy", OTHER_PROTOCOL)
            .set_log_level(RDKafkaLogLevel::Error);
        let errors = ErrorCapture::default();
        // Errors about the topic are not relevant here.
        let of_group = |code| denied_by_code(code, group).filter(|denied| denied.resource == "group");
        let unjoined = |error: &KafkaError| ClusterError::Unavailable(error.to_string());
        let consumer: BaseConsumer<ErrorCapture> =
            config.create_with_context(errors.clone()).map_err(|error| unjoined(&error))?;
        consumer.subscribe(&[topic]).map_err(|error| unjoined(&error))?;
        let late = after(self.timeout);
        let mut last = None;
        while late.try_recv().is_err() {
            match consumer.poll(POLL) {
                Some(Ok(_)) => return Ok(()),
                Some(Err(error)) => {
                    let code = error.rdkafka_error_code();
                    if code.is_some_and(is_form_refused) {
                        return Ok(());
                    }
                    if let Some(denied) = code.and_then(of_group) {
                        return Err(ClusterError::Denied(denied));
                    }
                    last = Some(error);
                }
                // The broker has accepted the join, so the permission exists.
                None if consumer.assignment().is_ok_and(|list| list.count() > 0) => return Ok(()),
                None => {}
            }
        }
        let errors = errors.0.lock().unwrap_or_else(PoisonError::into_inner);
        let denied = errors.iter().find_map(|(code, _)| of_group((*code)?));
        let why = || last.map_or_else(|| "no group coordinator responds".to_owned(), |error| error.to_string());
        Err(denied.map_or_else(|| ClusterError::Unavailable(why()), ClusterError::Denied))
    }

    /// Checks the permission to delete records of a topic: deletes all before offset 0, which are none.
    ///
    /// # Errors
    ///
    /// The missing permission, or why there is no answer.
    pub fn may_delete_records(&self, topic: &str) -> Result<(), ClusterError> {
        let undeleted = |error: &KafkaError| ClusterError::of_topic(error, topic, "Delete");
        let first = [(PartitionId::new(topic, 0), Offset::Offset(0))];
        let list = list_at(first).map_err(|error| undeleted(&error))?;
        let options = options(self.timeout);
        let answer = self.runtime.block_on(self.admin.delete_records(&list, &options));
        let answer = answer.map_err(|error| undeleted(&error))?;
        for element in answer.elements() {
            element.error().map_err(|error| undeleted(&error))?;
        }
        Ok(())
    }

    /// Checks the permission to create this topic: the brokers only validate the request.
    ///
    /// # Errors
    ///
    /// The missing permission, or why else it could not be created.
    pub fn may_create(&self, plan: &TopicPlan) -> Result<(), ClusterError> {
        self.make(plan, &options(self.timeout).validate_only(true))
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// Why the brokers refuse.
    pub fn create(&self, plan: &TopicPlan) -> Result<(), ClusterError> {
        self.make(plan, &options(self.timeout))
    }

    fn make(&self, plan: &TopicPlan, options: &AdminOptions) -> Result<(), ClusterError> {
        let replicas = i32::try_from(plan.replicas).unwrap_or(i32::MAX);
        let creation = Creation::new(replicas, plan.is_configured.then_some(replicas), plan.settings.clone());
        let created = create(&self.admin, &self.runtime, options, &plan.name, plan.partitions, creation);
        let refused = |code| ClusterError::of_topic(&KafkaError::AdminOp(code), &plan.name, "Create");
        created.map_err(|error| ClusterError::of(&error, &plan.name))?.map_err(refused)
    }
}

/// Returns whether a coordinator refuses the join for the faults of the probe, not for a missing permission.
fn is_form_refused(code: RDKafkaErrorCode) -> bool {
    [RDKafkaErrorCode::InvalidSessionTimeout, RDKafkaErrorCode::InconsistentGroupProtocol].contains(&code)
}
