//! The resolved settings: typed, complete and validated. Only [`super::resolve()`] creates them.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use super::endpoint::Endpoint;
use super::levels::Levels;
use super::properties::Properties;
use super::units::Start;
use crate::fingerprint::PerMille;
use crate::protocol::{LogPartition, Rules, VerdictOffset};
use crate::transaction::Delivery;
use crate::{fingerprint, record, text};

pub use super::levels::{Level, LogFormat};
pub use super::raw::{
    ColdStart, Compression, DuplicateValue, Mechanism, Mode, OnBadRecord, Partition, Protocol, ServedPartitions,
    ShownText, TimestampOf, Tombstones,
};

/// All settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Roles of this instance.
    pub roles: Roles,
    /// What happens to a judged page.
    pub mode: Mode,
    /// Connection to the brokers.
    pub kafka: Kafka,
    /// The input.
    pub input: Input,
    /// How a record becomes a document.
    pub record: record::InputSettings,
    /// How a document becomes weighted words.
    pub text: text::Settings,
    /// How words become fingerprints.
    pub fingerprint: fingerprint::Settings,
    /// The rules of verdicts, if this instance judges.
    pub rules: Rules,
    /// The index and its snapshots.
    pub index: Index,
    /// The two logs.
    pub logs: Logs,
    /// The judge.
    pub judge: Judge,
    /// The outputs.
    pub output: Output,
    /// Limits of processing.
    pub processing: Processing,
    /// Address of the metrics listener.
    pub http: Http,
    /// Logging.
    pub logging: Logging,
    /// Options of the metrics.
    pub metrics: Metrics,
    /// Where spans of sampled records are sent; absent when tracing is off.
    pub tracing: Option<Tracing>,
    /// Short hash of the settings that should be equal on all instances: see [`super::Raw::hash`].
    pub hash: String,
    /// The effective settings in the shape of the file, without secrets.
    pub shown: serde_json::Value,
}

impl Settings {
    /// Returns the scheme: the settings that decide fingerprints.
    #[must_use]
    pub fn scheme(&self) -> fingerprint::SchemeId {
        fingerprint::scheme_id(&self.record, &self.text, &self.fingerprint, self.log_partitions())
    }

    /// Returns the number of partitions of each log.
    #[must_use]
    pub fn log_partitions(&self) -> NonZeroUsize {
        let partitions = usize::try_from(self.judge.partitions).ok().and_then(NonZeroUsize::new);
        partitions.unwrap_or(NonZeroUsize::MIN)
    }

    /// Returns the maximum memory of the indexes of all log partitions together, on all instances, in bytes.
    #[must_use]
    pub fn memory_of_all_indexes(&self) -> u64 {
        let served = u64::try_from(self.judge.served_partitions.len()).unwrap_or(u64::MAX).max(1);
        (self.index.max_memory / served).saturating_mul(u64::from(self.judge.partitions))
    }

    /// Returns the rules for a single index that has the memory of all log partitions that an instance serves.
    #[must_use]
    pub fn rules_of_one_index(&self) -> Rules {
        let indexes = u64::try_from(self.judge.served_partitions.len()).unwrap_or(u64::MAX);
        Rules { max_entries: self.rules.max_entries.saturating_mul(indexes), ..self.rules.clone() }
    }
}

/// Roles of an instance; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The instance requests verdicts and routes pages.
    pub worker: bool,
    /// The instance judges, or is a standby.
    pub judge: bool,
}

/// Connection to the brokers (`kafka`).
#[derive(Clone, Debug)]
pub struct Kafka {
    /// `host:port` of bootstrap brokers.
    pub brokers: Vec<String>,
    /// Name of the client in the brokers' logs and quotas.
    pub client_id: String,
    /// Encryption and identity.
    pub security: Security,
    /// Raw properties of every client.
    pub properties: Properties,
    /// Raw properties of consumers, which override those of every client.
    pub consumer_properties: Properties,
    /// Raw properties of producers, which override those of every client.
    pub producer_properties: Properties,
    /// The worker's `transaction.timeout.ms`: below [`Kafka::session_timeout`], so that a dead worker's transaction
    /// ends before its successor begins.
    pub transaction_timeout: Duration,
    /// The worker's `session.timeout.ms`.
    pub session_timeout: Duration,
    /// The worker's `max.poll.interval.ms`; also how long a loop may stall before `/livez` fails.
    pub max_poll_interval: Duration,
    /// The record of the verdict log that readers pass if they cannot read it: they continue at the next checkpoint.
    pub skip_corrupt_verdict: Option<(LogPartition, VerdictOffset)>,
}

/// Encryption and identity (`kafka.security`).
#[derive(Clone, Debug)]
pub struct Security {
    /// The security protocol.
    pub protocol: Protocol,
    /// Encryption; used if the protocol encrypts.
    pub tls: Tls,
    /// Identity; present if the protocol authenticates.
    pub sasl: Option<Sasl>,
}

/// Encryption (`kafka.security.tls`).
#[derive(Clone, Debug)]
pub struct Tls {
    /// Certificates of the authority that signed those of the brokers; if absent, those of the system.
    pub ca_file: Option<PathBuf>,
    /// Our certificate.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// Password of the key.
    pub key_password: Option<SecretString>,
    /// Whether a broker's certificate must name the broker.
    pub verify_hostname: bool,
}

/// Identity (`kafka.security.sasl`).
#[derive(Clone, Debug)]
pub enum Sasl {
    /// A user name and a password.
    Password {
        /// The mechanism: PLAIN or SCRAM.
        mechanism: Mechanism,
        /// The user.
        username: String,
        /// The password.
        password: SecretString,
    },
    /// A token from an identity provider (OIDC, client credentials).
    Oauth {
        /// Where tokens are issued.
        token_url: String,
        /// The client id.
        client_id: String,
        /// The client secret.
        client_secret: SecretString,
        /// The scope.
        scope: Option<String>,
        /// SASL extensions, `key=value,…` as the client library takes them; empty if there are none.
        extensions: String,
    },
}

/// The input topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topics {
    /// These, by name.
    Names(Vec<String>),
    /// Every topic whose name matches; begins with `^`.
    Pattern(String),
}

impl Topics {
    /// Returns the names, or the pattern alone.
    #[must_use]
    pub fn list(&self) -> Vec<String> {
        match self {
            Self::Names(names) => names.clone(),
            Self::Pattern(pattern) => vec![pattern.clone()],
        }
    }
}

/// What is read (`input`).
#[derive(Clone, Debug)]
pub struct Input {
    /// The input topics. No names for `sieve`, which reads files.
    pub topics: Topics,
    /// The workers' consumer group, which is the prefix of all names that are derived from it. It is the configured
    /// one, adjusted by [`dupgate_core::worker::Mode::own_name`].
    pub group: String,
    /// Stable name of this instance: static membership and transactional id.
    pub instance_id: Option<String>,
    /// Where a new group begins.
    pub start: Start,
    /// What happens to null values.
    pub tombstones: Tombstones,
    /// Where the schemas of values come from, if they need any.
    pub schema_registry: Option<SchemaRegistry>,
}

/// The Schema Registry (`input.schema_registry`).
#[derive(Clone, Debug)]
pub struct SchemaRegistry {
    /// Its address, without a slash at the end.
    pub url: String,
    /// How we identify ourselves.
    pub identity: Option<RegistryIdentity>,
    /// Certificates of the authority that signed its own; if absent, those of the system.
    pub ca_file: Option<PathBuf>,
    /// How long it may be silent.
    pub timeout: Duration,
}

/// Identity before the Schema Registry.
#[derive(Clone, Debug)]
pub enum RegistryIdentity {
    /// A user name and a password (HTTP basic authentication).
    Password(String, SecretString),
    /// A bearer token.
    Token(SecretString),
}

/// The index and its snapshots (`index`).
#[derive(Clone, Debug)]
pub struct Index {
    /// Folder of the snapshots; those of `mode: observe` are in a subfolder.
    pub path: PathBuf,
    /// Memory limit in bytes, for the indexes of all log partitions that are served: as configured, or derived from
    /// `max_entries`.
    pub max_memory: u64,
    /// What to do if state is lost for good.
    pub cold_start: ColdStart,
    /// Time between two snapshots.
    pub snapshot_interval: Duration,
    /// How many snapshots of a log partition are kept.
    pub snapshots_kept: NonZeroUsize,
}

/// The two logs (`logs`).
#[derive(Clone, Debug)]
pub struct Logs {
    /// Prefix of their names, adjusted by [`dupgate_core::worker::Mode::own_name`].
    pub prefix: String,
    /// Replication factor of both logs; the cluster's default when absent.
    pub replication_factor: Option<i32>,
    /// How long verdicts stay readable after the newest one, in event time: never less than window + lateness.
    pub retention: Duration,
}

/// The judge (`judge`).
#[derive(Clone, Debug)]
pub struct Judge {
    /// Partitions of each log.
    pub partitions: u32,
    /// The log partitions that this instance serves, as judge or standby; ascending.
    pub served_partitions: Vec<u32>,
    /// Longest time between two commits. It is shorter if the brokers commit quickly.
    pub commit_interval: Duration,
    /// Number of verdicts after which a checkpoint is written. A restore without a snapshot begins at a checkpoint, and
    /// the logs are trimmed to one.
    pub checkpoint_interval_records: u64,
    /// How long a judge may be silent before its standby takes over.
    pub session_timeout: Duration,
}

/// What is written (`output`).
#[derive(Clone, Debug)]
pub struct Output {
    /// Topic of unique pages (of all pages, when tagging). Absent when nothing is produced.
    pub unique: Option<String>,
    /// Topic of duplicates. Absent unless routing.
    pub duplicate: Option<String>,
    /// Topic of dead letters. Absent when bad records are skipped or stop the program, or when nothing is produced.
    pub dead_letter: Option<String>,
    /// What a duplicate carries.
    pub duplicate_value: DuplicateValue,
    /// What a crash may repeat.
    pub delivery: Delivery,
    /// Longest time between two commits. It is shorter if the brokers commit quickly.
    pub commit_interval: Duration,
    /// Which partition a record goes to.
    pub partition: Partition,
    /// Which timestamp it carries.
    pub timestamp: TimestampOf,
    /// How batches are compressed.
    pub compression: Compression,
    /// Prefix of the names of our headers.
    pub header_prefix: String,
    /// Headers of the input that are not copied.
    pub dropped_headers: Vec<String>,
}

/// Limits of processing (`processing`).
#[derive(Clone, Debug)]
pub struct Processing {
    /// Threads for text work; `None` means one for each CPU.
    pub threads: Option<usize>,
    /// Bytes of pages in flight, above which the input is paused.
    pub max_in_flight_bytes: usize,
    /// What happens to a record that cannot be judged.
    pub on_bad_record: OnBadRecord,
    /// Share of dead letters among the last 1000 records above which the input is paused, in whole percents.
    pub pause_above_dead_letters: PerMille,
    /// How long a clean stop may take.
    pub shutdown_grace: Duration,
}

/// Addresses of the listeners (`http`).
#[derive(Clone, Debug)]
pub struct Http {
    /// Address and port of the listener for metrics and probes.
    pub listen: SocketAddr,
    /// The admin listener; absent if it is off.
    pub admin: Option<Admin>,
    /// The token for requests to the admin listeners of other instances.
    pub admin_token: Option<SecretString>,
}

/// The admin listener (`http.admin`).
#[derive(Clone, Debug)]
pub struct Admin {
    /// Address and port.
    pub listen: SocketAddr,
    /// The token that a request must carry. Absent only on a loopback address.
    pub token: Option<SecretString>,
    /// How much of a page's text it shows.
    pub text: ShownText,
}

/// Logging (`logging`).
#[derive(Clone, Debug)]
pub struct Logging {
    /// The level.
    pub level: Levels,
    /// The format.
    pub format: LogFormat,
}

/// Options of the metrics (`metrics`).
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Whether series are split by partition.
    pub partition_labels: bool,
    /// Labels on every series, by name.
    pub labels: Vec<(String, String)>,
}

/// OpenTelemetry tracing of sampled records (`tracing`).
#[derive(Clone, Debug)]
pub struct Tracing {
    /// The collector.
    pub endpoint: Endpoint,
    /// Share of sampled records, above 0 and at most 1.
    pub sample_ratio: f64,
}

impl Compression {
    /// Returns the name used by Kafka clients.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}
