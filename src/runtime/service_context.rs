//! The context shared by all parts of the service: clients, topics, groups and names derived from the settings.

use std::sync::Arc;
use std::time::Duration;

use super::clock::Clock;
use super::pair_inspector::PairRecorder;
use super::tree_budget::TreeBudget;
use crate::config::Properties;
use crate::config::raw::{
    Compression, DuplicateValue as ConfiguredValue, OnBadRecord, Partition, TimestampOf,
    Tombstones as ConfiguredTombstones,
};
use crate::config::settings::{Kafka, Settings, Topics};
use crate::error::{Fatal, Reason};
use crate::kafka::admin::{Brokers, LogNames};
use crate::kafka::backlog::Backlog;
use crate::kafka::budget::ByteBudget;
use crate::kafka::client::{ClientSettings, Cluster, ConsumerTimeouts, ProducerSettings};
use crate::kafka::errors::{Denied, denied_in};
use crate::kafka::fingerprint_log::denied_append;
use crate::kafka::inspector::ClusterError;
use crate::kafka::output::{DuplicateValue, OutputTime, Outputs};
use crate::kafka::verdict_log::{FollowEvent, Follower};
use crate::protocol::LogPartition;
use crate::record::PartitionId;
use crate::telemetry::{Health, Metrics};
use crate::transaction::Delivery;
use crate::worker::{BadRecords, Partitioning, Routing, Tombstones};

/// What a batch takes beside its records, at the most.
const BATCH_HEAD_BYTES: usize = 64 << 10;

/// What all parts of the service share.
pub struct ServiceContext {
    /// What the operator decided.
    pub settings: Arc<Settings>,
    /// The scheme's short name.
    pub scheme: String,
    /// How brokers are reached.
    pub cluster: Cluster,
    /// What kind of brokers they are.
    pub brokers: Brokers,
    /// Both logs.
    pub names: LogNames,
    /// How pages become records.
    pub outputs: Arc<Outputs>,
    /// Where time comes from.
    pub clock: Clock,
    /// What all producers have yet to deliver.
    pub backlog: Arc<Backlog>,
    /// Bounds the memory of trees.
    pub(super) trees: Arc<TreeBudget>,
    /// Where figures go.
    pub metrics: Metrics,
    /// Where conditions go.
    pub health: Health,
    /// Where duplicates are shown to operators; absent when nobody asks.
    pub(super) pair_recorder: Option<PairRecorder>,
    /// The worker's transactional id.
    pub transactional_id: String,
}

impl ServiceContext {
    /// Returns the group of the judges of one log partition.
    #[must_use]
    pub fn judge_group(&self, log: LogPartition) -> String {
        judge_group(&self.settings.input.group, &self.scheme, &log)
    }

    /// Returns one partition of the fingerprint log.
    #[must_use]
    pub fn fingerprints(&self, log: LogPartition) -> PartitionId {
        PartitionId::new(Arc::clone(&self.names.fingerprints), number(log))
    }

    /// Returns one partition of the verdict log.
    #[must_use]
    pub fn verdicts(&self, log: LogPartition) -> PartitionId {
        PartitionId::new(Arc::clone(&self.names.verdicts), number(log))
    }

    /// Starts a reader of one partition of the verdict log.
    pub(super) fn follow(
        &self,
        log: LogPartition,
        purpose: &str,
        budget: &Arc<ByteBudget>,
        sink: impl Fn(FollowEvent) + Send + 'static,
    ) -> Result<Follower, Fatal> {
        let config = self.cluster.follower(&self.settings.input.group);
        Follower::start(&config, self.verdicts(log), Arc::clone(budget), format!("{purpose}-{log}"), sink)
            .map_err(failure)
    }

    /// Settings of the worker's consumer.
    pub(super) fn input_consumer(&self) -> ClientSettings {
        let kafka = &self.settings.kafka;
        let timeout = ConsumerTimeouts { session: kafka.session_timeout, poll: kafka.max_poll_interval };
        let queue = self.settings.processing.max_in_flight_bytes;
        let input = &self.settings.input;
        self.cluster.input_consumer(&input.group, input.instance_id.as_deref(), timeout, queue)
    }

    /// The input topics, or the pattern.
    pub(super) fn input_topics(&self) -> Vec<String> {
        match &self.settings.input.topics {
            Topics::Names(names) => names.clone(),
            Topics::Pattern(pattern) => vec![pattern.clone()],
        }
    }

    /// Settings of the worker's producer.
    pub(super) fn worker_producer(&self) -> ClientSettings {
        let limits = || self.outputs.topics.values().map(|topic| topic.max_bytes);
        let (least, most) = (limits().min().unwrap_or(1 << 20), limits().max().unwrap_or(1 << 20));
        let settings = ProducerSettings {
            compression: compression(self.settings.output.compression).to_owned(),
            max_record_bytes: most,
            // A batch has a head of its own.
            max_batch_bytes: least.saturating_sub(BATCH_HEAD_BYTES),
            transaction_timeout: self.settings.kafka.transaction_timeout,
        };
        match self.settings.output.delivery {
            Delivery::ExactlyOnce => self.cluster.transactional_producer(&self.transactional_id, &settings),
            Delivery::AtLeastOnce => self.cluster.output_producer(&settings),
        }
    }

    /// How many threads do text work.
    pub(super) fn text_threads(&self) -> usize {
        let cpus = || std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        self.settings.processing.threads.unwrap_or_else(cpus)
    }
}

/// Reports that a polling thread comes round, as long as the thread has this.
pub(super) fn moves(plan: &ServiceContext, name: &str) -> Box<dyn Fn() + Send> {
    let clock = plan.clock;
    let heartbeat = plan.health.heartbeat(name, clock.instant());
    Box::new(move || heartbeat.tick(clock.instant()))
}

/// Returns the group of the judges of one partition of the log of a scheme, which is their transactional id, too.
#[must_use]
pub fn judge_group(input_group: &str, scheme: &str, log: &dyn std::fmt::Display) -> String {
    format!("{input_group}.judge.{scheme}.{log}")
}

fn number(log: LogPartition) -> i32 {
    log.number()
}

/// Makes the error that ends the process for a failure of the machine around it.
pub(crate) fn failure(error: impl Into<anyhow::Error>) -> Fatal {
    Reason::Failure.because(error)
}

/// Sorts an error of the cluster into an exit code; a permission that is missing is told with the ACL to add.
#[must_use]
pub fn cluster_error(cluster_error: ClusterError) -> Fatal {
    match cluster_error {
        ClusterError::Identity(_) => Reason::Denied.because(cluster_error),
        ClusterError::Denied(ref denied) => {
            let remedy = denied.remedy();
            Reason::Denied.because(anyhow::anyhow!("{cluster_error}; add the ACL: {remedy}"))
        }
        ClusterError::Unavailable(_) => Reason::Unavailable.because(cluster_error),
    }
}

/// Sorts what a part of the service cannot go on with. A permission that is missing has its own exit code.
pub(super) fn ended(otherwise: Reason, why: impl std::fmt::Display, group: &str) -> Fatal {
    let text = why.to_string();
    let Some(denied) = denied_in(&text) else { return otherwise.because(anyhow::anyhow!(text)) };
    let prefix = |denied: Denied| Denied { name: group.to_owned(), ..denied };
    let remedy = match denied.resource {
        // Its groups and transactional ids all begin with the name of the group.
        "group" | "transactional-id" => prefix(denied).remedy() + " --resource-pattern-type prefixed",
        _ => denied.remedy(),
    };
    Reason::Denied
        .because(anyhow::anyhow!("{text}; add the ACL: {remedy} (`dupgate check` tells all that are missing)"))
}

/// Builds the error for a missing ACL on the fingerprint log.
pub(super) fn append_denied(topic: &str) -> Fatal {
    cluster_error(ClusterError::Denied(denied_append(topic)))
}

/// Returns how brokers are reached.
#[must_use]
pub fn cluster(kafka: &Kafka) -> Cluster {
    let exposed = |properties: &Properties| {
        properties.iter().map(|(key, value)| (key.clone(), value.expose().to_owned())).collect()
    };
    Cluster {
        brokers: kafka.brokers.clone(),
        client_id: kafka.client_id.clone(),
        properties: exposed(&kafka.client_properties()),
        consumer_properties: exposed(&kafka.consumer_properties),
        producer_properties: exposed(&kafka.producer_properties),
    }
}

const fn compression(codec: Compression) -> &'static str {
    match codec {
        Compression::None => "none",
        Compression::Gzip => "gzip",
        Compression::Snappy => "snappy",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    }
}

/// Returns where pages go.
#[must_use]
pub fn routing(settings: &Settings) -> Routing {
    Routing {
        mode: settings.mode.into(),
        tombstones: match settings.input.tombstones {
            ConfiguredTombstones::Forward => Tombstones::Forward,
            ConfiguredTombstones::Drop => Tombstones::Drop,
        },
        bad_records: match settings.processing.on_bad_record {
            OnBadRecord::DeadLetter => BadRecords::DeadLetter,
            OnBadRecord::Skip => BadRecords::Skip,
            OnBadRecord::Stop => BadRecords::Stop,
        },
        partitioning: match settings.output.partition {
            Partition::Same => Partitioning::Same,
            Partition::Key => Partitioning::Key,
            Partition::Spread => Partitioning::Spread,
        },
    }
}

/// Returns what the duplicate topic gets for a value.
#[must_use]
pub const fn duplicate_value(settings: &Settings) -> DuplicateValue {
    match settings.output.duplicate_value {
        ConfiguredValue::Original => DuplicateValue::Original,
        ConfiguredValue::Reference => DuplicateValue::Reference,
        ConfiguredValue::None => DuplicateValue::None,
    }
}

/// Returns which timestamp the outputs carry.
#[must_use]
pub const fn output_time(settings: &Settings) -> OutputTime {
    match settings.output.timestamp {
        TimestampOf::Source => OutputTime::Source,
        TimestampOf::Now => OutputTime::Now,
    }
}

/// How long a revoked partition may take to commit what is complete.
pub(super) const REVOKE_GRACE: Duration = Duration::from_secs(5);
