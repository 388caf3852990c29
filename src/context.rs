//! The context shared by all parts of the service: clients, topics, groups and names derived from the settings.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::config::Properties;
use crate::config::settings::{Kafka, Settings};
use crate::error::Fatal;
use crate::fatal::failure;
use crate::kafka::admin::{Brokers, LogNames};
use crate::kafka::budget::{ByteBudget, InFlight};
use crate::kafka::client::{ClientSettings, ConnectionSettings, ConsumerTimeouts, ProducerSettings};
use crate::kafka::output::Outputs;
use crate::kafka::verdict_log::{FollowEvent, Follower, Passing};
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
}

impl ServiceContext {
    #[must_use]
    pub fn judge_group(&self, log: LogPartition) -> String {
        judge_group(&self.settings.input.group, &self.scheme, &log)
    }

    #[must_use]
    pub fn fingerprints(&self, log: LogPartition) -> PartitionId {
        PartitionId::new(Arc::clone(&self.names.fingerprints), number(log))
    }

    #[must_use]
    pub fn verdicts(&self, log: LogPartition) -> PartitionId {
        PartitionId::new(Arc::clone(&self.names.verdicts), number(log))
    }

    /// Starts a reader of one partition of the verdict log. One for [`SCAN`] follows no state.
    pub(crate) fn follow(
        &self,
        log: LogPartition,
        purpose: &str,
        budget: &Arc<ByteBudget>,
        sink: impl Fn(FollowEvent) + Send + 'static,
    ) -> Result<Follower, Fatal> {
        let config = self.connection.follower(&self.settings.input.group);
        let (name, metrics) = (format!("{purpose}-{log}"), self.metrics.clone());
        let skipped = move || metrics.error(Component::Log, ErrorKind::Corrupt);
        let passed = self.settings.kafka.skip_corrupt_verdict.filter(|(partition, _)| *partition == log);
        let passing = passed
            .map(|(_, offset)| if purpose == SCAN { Passing::GoOn(offset) } else { Passing::ToCheckpoint(offset) });
        let (partition, budget) = (self.verdicts(log), Arc::clone(budget));
        Follower::start_counting(&config, partition, budget, name, sink, passing, skipped).map_err(failure)
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
