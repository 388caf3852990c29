//! The resolved settings: typed, complete and validated. Only [`super::resolve()`] creates them.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

pub use super::raw::{
    ColdStart, Compression, DuplicateValue, Logging, Mechanism, Metrics, Mode, OnBadRecord, Partition, Protocol,
    ShownText, TimestampOf, Tls, Tombstones,
};
use super::secret::{Properties, PropertyValue};
use super::values::{Endpoint, Start};
pub use super::values::{Level, LogFormat, ServedPartitions};
use crate::fingerprint::{self, PerMille};
use crate::protocol::{LogPartition, Rules, VerdictOffset};
use crate::transaction::Delivery;
use crate::{record, text};

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
    /// The settings before a change of the scheme, whose logs decide in the dual period.
    pub previous: Option<Box<Settings>>,
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
    /// Password of our key.
    pub key_password: Option<SecretString>,
    /// Identity; present if the protocol authenticates.
    pub sasl: Option<Sasl>,
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

/// OpenTelemetry tracing of sampled records (`tracing`).
#[derive(Clone, Debug)]
pub struct Tracing {
    /// The collector.
    pub endpoint: Endpoint,
    /// Share of sampled records, above 0 and at most 1.
    pub sample_ratio: f64,
}

impl Kafka {
    /// Returns the properties of every client: those of the security settings, overridden by the operator's raw
    /// properties. Brokers and client id are not among them.
    #[must_use]
    pub fn client_properties(&self) -> Properties {
        let mut made = Properties::new();
        let mut put = |key: &str, value: &str| drop(made.insert(key.to_owned(), PropertyValue::new(key, value)));
        let protocol = self.security.protocol;
        put("security.protocol", protocol.name());
        if protocol.encrypts() {
            put_tls(&self.security, &mut put);
        }
        if let Some(sasl) = &self.security.sasl {
            put_sasl(sasl, &mut put);
        }
        made.extend(self.properties.clone());
        made
    }
}

fn put_tls(security: &Security, put: &mut impl FnMut(&str, &str)) {
    let tls = &security.tls;
    let files = [
        ("ssl.ca.location", &tls.ca_file),
        ("ssl.certificate.location", &tls.cert_file),
        ("ssl.key.location", &tls.key_file),
    ];
    for (key, file) in files {
        if let Some(file) = file {
            put(key, &file.display().to_string());
        }
    }
    if let Some(password) = &security.key_password {
        put("ssl.key.password", password.expose_secret());
    }
    put("ssl.endpoint.identification.algorithm", if tls.verify_hostname { "https" } else { "none" });
}

fn put_sasl(sasl: &Sasl, put: &mut impl FnMut(&str, &str)) {
    match sasl {
        Sasl::Password { mechanism, username, password } => {
            put("sasl.mechanism", &mechanism.name().to_uppercase());
            put("sasl.username", username);
            put("sasl.password", password.expose_secret());
        }
        Sasl::Oauth { token_url, client_id, client_secret, scope, extensions } => {
            put("sasl.mechanism", "OAUTHBEARER");
            put("sasl.oauthbearer.method", "oidc");
            put("sasl.oauthbearer.token.endpoint.url", token_url);
            put("sasl.oauthbearer.client.id", client_id);
            put("sasl.oauthbearer.client.secret", client_secret.expose_secret());
            if let Some(scope) = scope {
                put("sasl.oauthbearer.scope", scope);
            }
            if !extensions.is_empty() {
                put("sasl.oauthbearer.extensions", extensions);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ExternalInputs, Layers, Purpose};

    fn made(security: &str) -> Vec<(String, String)> {
        let mut layers = Layers::default();
        layers.file("f.yaml", &format!("kafka:\n  security: {security}\n  properties: {{socket.timeout.ms: 5000}}\n"));
        let settings =
            layers.resolve(&ExternalInputs::default(), Purpose::Sieve).unwrap_or_else(|refused| panic!("{refused}")).0;
        let properties = settings.kafka.client_properties();
        assert!(!format!("{properties:?}").contains("hunter2"));
        properties.iter().map(|(key, value)| (key.clone(), value.expose().to_owned())).collect()
    }

    fn expected(list: &[(&str, &str)]) -> Vec<(String, String)> {
        let list = list.iter().chain(&[("socket.timeout.ms", "5000")]);
        let mut list: Vec<_> = list.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        list.sort();
        list
    }

    #[test]
    fn settings_that_the_protocol_lacks_are_left_out() {
        assert_eq!(
            made("{tls: {ca_file: /ca}, sasl: {username: u, password: hunter2}}"),
            expected(&[("security.protocol", "plaintext")])
        );
    }

    #[test]
    fn certificates_and_passwords_go_to_the_client() {
        let tls = "tls: {ca_file: /ca, cert_file: /c, key_file: /k, key_password: hunter2, verify_hostname: false}";
        let sasl = "sasl: {mechanism: scram-sha-256, username: u, password: hunter2}";
        assert_eq!(
            made(&format!("{{protocol: sasl_ssl, {tls}, {sasl}}}")),
            expected(&[
                ("security.protocol", "sasl_ssl"),
                ("ssl.ca.location", "/ca"),
                ("ssl.certificate.location", "/c"),
                ("ssl.key.location", "/k"),
                ("ssl.key.password", "hunter2"),
                ("ssl.endpoint.identification.algorithm", "none"),
                ("sasl.mechanism", "SCRAM-SHA-256"),
                ("sasl.username", "u"),
                ("sasl.password", "hunter2"),
            ])
        );
    }

    #[test]
    fn tokens_come_from_an_identity_provider() {
        let oauth =
            "{token_url: 'https://id/t', client_id: c, client_secret: hunter2, scope: s, extensions: {a: b, c: d}}";
        assert_eq!(
            made(&format!("{{protocol: sasl_plaintext, sasl: {{mechanism: oauthbearer, oauth: {oauth}}}}}")),
            expected(&[
                ("security.protocol", "sasl_plaintext"),
                ("sasl.mechanism", "OAUTHBEARER"),
                ("sasl.oauthbearer.method", "oidc"),
                ("sasl.oauthbearer.token.endpoint.url", "https://id/t"),
                ("sasl.oauthbearer.client.id", "c"),
                ("sasl.oauthbearer.client.secret", "hunter2"),
                ("sasl.oauthbearer.scope", "s"),
                ("sasl.oauthbearer.extensions", "a=b,c=d"),
            ])
        );
    }
}
