//! The context shared by all parts of the service: clients, topics, groups and names derived from the settings.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::config::Properties;
use crate::config::settings::{Kafka, Settings};
use crate::error::{Fatal, OrFatal, Reason};
use crate::fatal::failure;
use crate::fingerprint::Fingerprinter;
use crate::kafka::admin::{Brokers, LogNames};
use crate::kafka::budget::{ByteBudget, InFlight};
use crate::kafka::client::{ClientSettings, ConnectionSettings, ConsumerTimeouts, ProducerSettings};
use crate::kafka::output::Outputs;
use crate::kafka::verdict_log::{FollowEvent, FollowSettings, Follower, Passing};
use crate::processing::text_pool::TreeBudget;
use crate::protocol::{DEFAULT_PART_BYTES, LogPartition};
use crate::record::PartitionId;
use crate::telemetry::labels::{Component, ErrorKind};
use crate::telemetry::pairs::PairRecorder;
use crate::telemetry::{Health, Metrics};
use crate::transaction::Delivery;

/// Time-out for committing the complete pages of a revoked partition.
pub(crate) const REVOKE_GRACE: Duration = Duration::from_secs(5);

/// Maximum overhead of a batch besides its records.
const BATCH_HEAD_BYTES: usize = 64 << 10;

/// The purpose of a reader that collects old verdicts.
pub(crate) const SCAN: &str = "scan";

/// Shared context of all parts of the service.
pub struct ServiceContext {
    pub settings: Arc<Settings>,
    /// The scheme's short name.
    pub scheme: String,
    pub connection: ConnectionSettings,
    pub brokers: Brokers,
    /// Both logs.
    pub names: LogNames,
    /// Largest batch that the verdict log accepts, in bytes.
    pub verdict_log_bytes: usize,
    /// Converts pages to records.
    pub outputs: Arc<Outputs>,
    pub clock: Clock,
    /// Records that all producers have yet to deliver.
    pub in_flight: Arc<InFlight>,
    /// Bounds the memory of trees.
    pub(crate) trees: Arc<TreeBudget>,
    pub metrics: Metrics,
    pub health: Health,
    /// Records duplicates for operators; absent if the admin API is off.
    pub(crate) pair_recorder: Option<PairRecorder>,
    /// The worker's transactional id.
    pub transactional_id: String,
    /// Number that checks, log lines and threads give the first log partition: those of the earlier scheme come after
    /// ours.
    pub(crate) first_log: u32,
    /// Which of our logs are in their dual period.
    pub(crate) dual: Arc<DualPeriods>,
    /// The context of the earlier scheme, whose logs workers number after ours.
    pub(crate) earlier: Option<Arc<ServiceContext>>,
}

/// Which log partitions are in their dual period, as far as their judges here know.
#[derive(Debug, Default)]
pub(crate) struct DualPeriods(Mutex<BTreeMap<LogPartition, bool>>);

impl DualPeriods {
    /// Notes whether a log is in its dual period.
    pub(crate) fn note(&self, log: LogPartition, is_dual: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(log, is_dual);
    }

    /// Returns whether any log is.
    pub(crate) fn is_any(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().any(|is_dual| *is_dual)
    }
}

impl ServiceContext {
    /// Returns the context of the earlier scheme: that of its judges. Nobody scrapes their metrics, whose series would
    /// outlast them.
    ///
    /// # Errors
    ///
    /// The metrics cannot be created.
    pub(crate) fn of_earlier(
        &self,
        settings: Settings,
        names: LogNames,
        verdict_log_bytes: usize,
    ) -> Result<Self, Fatal> {
        Ok(Self {
            scheme: settings.scheme().to_string(),
            settings: Arc::new(settings),
            connection: self.connection.clone(),
            brokers: self.brokers,
            names,
            verdict_log_bytes,
            outputs: Arc::clone(&self.outputs),
            clock: self.clock,
            in_flight: Arc::clone(&self.in_flight),
            trees: Arc::clone(&self.trees),
            metrics: Metrics::new(&self.settings.metrics).map_err(failure)?,
            health: self.health.clone(),
            pair_recorder: None,
            transactional_id: self.transactional_id.clone(),
            first_log: self.settings.judge.partitions,
            dual: Arc::clone(&self.dual),
            earlier: None,
        })
    }

    /// Returns the number of log partitions of both schemes.
    pub(crate) fn all_logs(&self) -> usize {
        self.own_logs() + self.earlier.as_ref().map_or(0, |earlier| earlier.own_logs())
    }

    fn own_logs(&self) -> usize {
        self.settings.log_partitions().get()
    }

    /// Returns the context of a log partition's scheme, and its number there.
    fn of(&self, log: LogPartition) -> (&Self, LogPartition) {
        match (&self.earlier, self.number_of_earlier(log)) {
            (Some(earlier), Some(number)) => (earlier, number),
            _ => (self, log),
        }
    }

    /// Returns the number that a log partition of the earlier scheme has there; `None` if it is one of ours.
    pub(crate) fn number_of_earlier(&self, log: LogPartition) -> Option<LogPartition> {
        log.index().checked_sub(self.own_logs()).map(LogPartition::at)
    }

    /// Returns the number of a log partition in checks, log lines and names of threads.
    pub(crate) const fn shown(&self, log: LogPartition) -> LogPartition {
        LogPartition(log.0 + self.first_log)
    }

    #[must_use]
    pub fn judge_group(&self, log: LogPartition) -> String {
        let (context, log) = self.of(log);
        judge_group(&context.settings.input.group, &context.scheme, &log)
    }

    #[must_use]
    pub fn fingerprints(&self, log: LogPartition) -> PartitionId {
        let (context, log) = self.of(log);
        PartitionId::new(Arc::clone(&context.names.fingerprints), number(log))
    }

    #[must_use]
    pub fn verdicts(&self, log: LogPartition) -> PartitionId {
        let (context, log) = self.of(log);
        PartitionId::new(Arc::clone(&context.names.verdicts), number(log))
    }

    /// Starts a reader of one partition of the verdict log.
    pub(crate) fn follow(
        &self,
        log: LogPartition,
        purpose: &str,
        budget: &Arc<ByteBudget>,
        sink: impl Fn(FollowEvent) + Send + 'static,
    ) -> Result<Follower, Fatal> {
        let config = self.connection.follower(&self.settings.input.group);
        let (name, partition) = (format!("{purpose}-{}", self.shown(log)), self.follow_settings(log, purpose, sink));
        Follower::start(&config, partition, budget, name).map_err(failure)
    }

    /// Starts a reader of all partitions of the verdict logs of both schemes. One for [`SCAN`] follows no state.
    pub(crate) fn follow_all<S: Fn(FollowEvent) + Send + 'static>(
        &self,
        purpose: &str,
        budget: &Arc<ByteBudget>,
        sink: impl Fn(LogPartition) -> S,
    ) -> Result<Vec<Follower>, Fatal> {
        let config = self.connection.shared_follower(&self.settings.input.group, self.all_logs());
        let partitions = LogPartition::first(self.all_logs()).map(|log| self.follow_settings(log, purpose, sink(log)));
        Follower::start_all(&config, partitions.collect(), budget, purpose.to_owned()).map_err(failure)
    }

    fn follow_settings(
        &self,
        log: LogPartition,
        purpose: &str,
        sink: impl Fn(FollowEvent) + Send + 'static,
    ) -> FollowSettings {
        let metrics = self.metrics.clone();
        let passed = self.settings.kafka.skip_corrupt_verdict.filter(|(partition, _)| *partition == log);
        let passing = passed
            .map(|(_, offset)| if purpose == SCAN { Passing::GoOn(offset) } else { Passing::ToCheckpoint(offset) });
        FollowSettings::new(self.verdicts(log), sink)
            .passing(passing)
            .counting(move || metrics.error(Component::Log, ErrorKind::Corrupt))
    }

    /// Settings of the worker's consumer.
    pub(crate) fn input_consumer(&self) -> ClientSettings {
        let kafka = &self.settings.kafka;
        let timeout = ConsumerTimeouts { session: kafka.session_timeout, poll: kafka.max_poll_interval };
        let input = &self.settings.input;
        self.connection.input_consumer(&input.group, input.instance_id.as_deref(), timeout)
    }

    pub(crate) fn judge_producer(&self, log: LogPartition) -> ClientSettings {
        let max_batch_bytes = self.verdict_log_bytes.saturating_sub(BATCH_HEAD_BYTES);
        let settings = ProducerSettings { max_batch_bytes, ..ProducerSettings::of_judge() };
        self.connection.transactional_producer(&self.judge_group(log), &settings)
    }

    /// Returns the maximum size of one part of a checkpoint, in bytes: half of the verdict log's limit.
    pub(crate) fn part_bytes(&self) -> usize {
        (self.verdict_log_bytes / 2).clamp(1_000, DEFAULT_PART_BYTES)
    }

    /// The input topics, or the pattern.
    pub(crate) fn input_topics(&self) -> Vec<String> {
        self.settings.input.topics.list()
    }

    /// Settings of the worker's producer.
    pub(crate) fn worker_producer(&self) -> ClientSettings {
        let limits = || self.outputs.topics.values().map(|topic| topic.max_bytes);
        let (min, max) = (limits().min().unwrap_or(1 << 20), limits().max().unwrap_or(1 << 20));
        let settings = ProducerSettings {
            compression: self.settings.output.compression.name().to_owned(),
            max_record_bytes: max,
            // A batch must fit into the topic with the smallest limit.
            max_batch_bytes: min.saturating_sub(BATCH_HEAD_BYTES),
            transaction_timeout: self.settings.kafka.transaction_timeout,
        };
        match self.settings.output.delivery {
            Delivery::ExactlyOnce => self.connection.transactional_producer(&self.transactional_id, &settings),
            Delivery::AtLeastOnce => self.connection.output_producer(&settings),
        }
    }

    /// Number of threads for text work.
    pub(crate) fn text_threads(&self) -> usize {
        let cpus = || std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        self.settings.processing.threads.unwrap_or_else(cpus)
    }
}

/// Returns the hook that beats the heartbeat of a polling thread.
pub(crate) fn heartbeat(context: &ServiceContext, name: &str) -> Box<dyn Fn() + Send> {
    let clock = context.clock;
    let heartbeat = context.health.heartbeat(name, clock.instant());
    Box::new(move || heartbeat.tick(clock.instant()))
}

/// Returns the group of the judges of one partition of the log of a scheme, which is also their transactional id.
#[must_use]
pub fn judge_group(input_group: &str, scheme: &str, log: &dyn std::fmt::Display) -> String {
    format!("{input_group}.judge.{scheme}.{log}")
}

/// Creates what reads pages by the scheme of these settings.
///
/// # Errors
///
/// The settings do not go together.
pub(crate) fn fingerprinter(settings: &Settings) -> Result<Fingerprinter, Fatal> {
    Fingerprinter::new(&settings.record, &settings.text, &settings.fingerprint, settings.log_partitions())
        .or_fatal(Reason::Config)
}

fn number(log: LogPartition) -> i32 {
    log.number()
}

/// Returns what the client library says of properties that do not go together, if it would refuse a client of the
/// service.
#[must_use]
pub fn refused_client(settings: &Settings) -> Option<String> {
    let kafka = &settings.kafka;
    let timeouts = ConsumerTimeouts { session: kafka.session_timeout, poll: kafka.max_poll_interval };
    connection(kafka).refused(timeouts, kafka.transaction_timeout)
}

#[must_use]
pub fn connection(kafka: &Kafka) -> ConnectionSettings {
    let exposed = |properties: &Properties| {
        properties.iter().map(|(key, value)| (key.clone(), value.expose().to_owned())).collect()
    };
    ConnectionSettings {
        brokers: kafka.brokers.clone(),
        client_id: kafka.client_id.clone(),
        properties: exposed(&kafka.client_properties()),
        consumer_properties: exposed(&kafka.consumer_properties),
        producer_properties: exposed(&kafka.producer_properties),
    }
}
