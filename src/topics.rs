//! Prepares topics at startup: creates the logs and reads the limits of the outputs.
//!
//! Waits for unreachable brokers, with a new client for each attempt: a client that sent a request while the last
//! broker shut down may have forgotten all brokers for good (confluentinc/librdkafka issue 5301).

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use dupgate_core::worker::{HeaderSettings, OutputKind, Routing};

use crate::clock::{Clock, wall_time};
use crate::config::raw::{DuplicateValue as ConfiguredValue, TimestampOf};
use crate::config::settings::{Sasl, Settings, Topics as ConfiguredTopics};
use crate::error::{Fatal, Reason, fatal};
use crate::kafka::admin::{Admin, Brokers, LogKind, LogNames, TopicError};
use crate::kafka::client::ConnectionSettings;
use crate::kafka::inspector::{ClusterError, ClusterInspector};
use crate::kafka::output::{DuplicateValue, OutputTime, OutputTopic, Outputs, PartitionCounts};
use crate::telemetry::Check;
use crate::{context, fatal};

/// How long the brokers may be unreachable at the start.
const STARTUP_TIMEOUT: Duration = Duration::from_mins(1);

/// How long topics may be missing at the start: brokers learn of a new topic some time after its creation.
const TOPIC_TIMEOUT: Duration = Duration::from_secs(10);

/// Time-out of one request.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long brokers may take to accept the identity.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(5);

/// Time-out of a connection attempt that finds out why no broker answers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval of log lines about the wait.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Pause before the next attempt.
const RETRY_DELAY: Duration = Duration::from_millis(500);

pub(crate) struct Topics {
    pub(crate) logs: LogNames,
    /// Largest batch that the verdict log accepts, in bytes.
    pub(crate) verdict_log_bytes: usize,
    pub(crate) outputs: Outputs,
    /// The logs of the earlier scheme, and the limit of its verdict log.
    pub(crate) earlier: Option<(LogNames, usize)>,
}

/// Creates missing logs, and reads the limits of the other topics; `None` if a signal arrived first.
///
/// # Errors
///
/// Topics are missing for ten seconds or have the wrong settings, no broker answered for a minute, or the brokers refuse
/// the identity.
pub(crate) fn wait_for(
    settings: &Settings,
    brokers: Brokers,
    clock: Clock,
    signals: &Receiver<i32>,
    starting: &Check,
) -> Result<Option<Topics>, Fatal> {
    let connection = context::connection(&settings.kafka);
    let config = connection.admin();
    let begun = clock.now();
    let mut answered_at: Option<Duration> = None;
    let mut logged_at: Option<Duration> = None;
    loop {
        // Check the connection and the identity first: the client would report neither before its time-out. A refused
        // identity ends the start, since waiting does not change it.
        let awaited = if let Some(why) = connect_error(&settings.kafka.brokers) {
            StartupWait::Brokers(why)
        } else if let Some(refused) = refused_identity(settings, &connection) {
            return Err(refused);
        } else {
            let admin = Admin::of(&config, brokers).map_err(topic_error)?.with_timeout(QUERY_TIMEOUT);
            match ask(&admin, settings) {
                Err(TopicError::Kafka(error)) => {
                    StartupWait::Brokers(connect_error(&settings.kafka.brokers).unwrap_or_else(|| error.to_string()))
                }
                Err(TopicError::Missing(names)) => StartupWait::Topics(names),
                answer => return answer.map(Some).map_err(topic_error),
            }
        };
        let now = clock.now();
        let until = match awaited {
            StartupWait::Brokers(_) => begun + STARTUP_TIMEOUT,
            StartupWait::Topics(_) => *answered_at.get_or_insert(now) + TOPIC_TIMEOUT,
        };
        let left = until.saturating_sub(now);
        if left.is_zero() {
            return Err(awaited.given_up());
        }
        if logged_at.is_none_or(|at| now.saturating_sub(at) >= LOG_INTERVAL) {
            logged_at = Some(now);
            tracing::warn!(target: "dupgate::service", "{awaited}; retrying for another {} s", left.as_secs());
        }
        starting.fail(awaited.to_string());
        if signals.recv_timeout(RETRY_DELAY) != Err(RecvTimeoutError::Timeout) {
            tracing::info!(target: "dupgate::service", "stopped at the start: {awaited}");
            return Ok(None);
        }
    }
}

/// Returns an error if the brokers refuse our password.
fn refused_identity(settings: &Settings, connection: &ConnectionSettings) -> Option<Fatal> {
    // Only a password is checked: a token may be missing because its server does not answer, which may pass.
    let Some(Sasl::Password { .. }) = &settings.kafka.security.sasl else { return None };
    let inspector = ClusterInspector::new(connection, &settings.input.group, IDENTITY_TIMEOUT).ok()?;
    let error = inspector.brokers().err()?;
    let ClusterError::Identity(_) = &error else { return None };
    Some(fatal!(Denied, "{}; {IDENTITY_HINT}", identity_refused(&settings.kafka.brokers, &error)))
}

/// Says that the brokers refuse the identity, and why.
#[must_use]
pub fn identity_refused(brokers: &[String], error: &ClusterError) -> String {
    format!("{} refuse the identity: {error}", brokers.join(", "))
}

/// What to do when brokers refuse the identity.
pub const IDENTITY_HINT: &str = "check kafka.security.sasl: mechanism, username and password";

/// The condition that a start waits for.
enum StartupWait {
    /// The brokers, which do not answer; why.
    Brokers(String),
    /// Topics that the brokers do not know yet.
    Topics(String),
}

impl StartupWait {
    /// Returns the error with which the start gives up.
    fn given_up(self) -> Fatal {
        match self {
            Self::Brokers(_) => fatal!(Unavailable, "{self}"),
            Self::Topics(names) => topic_error(TopicError::Missing(names)),
        }
    }
}

impl Display for StartupWait {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Brokers(why) => write!(f, "no broker answers: {why} (kafka.brokers)"),
            Self::Topics(names) => write!(f, "missing topics: `{names}`"),
        }
    }
}

/// Returns why no connection to any broker can be made, for example `kafka:9092: Connection refused`; `None` if one
/// can, so that the problem is another one.
#[must_use]
pub fn connect_error(brokers: &[String]) -> Option<String> {
    let mut found = Vec::new();
    for broker in brokers {
        let connect = || {
            let mut last = std::io::Error::other("has no address");
            for address in broker.as_str().to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                    Ok(_) => return Ok(()),
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        found.push(format!("{broker}: {}", connect().err()?));
    }
    (!found.is_empty()).then(|| found.join(", "))
}

fn ask(admin: &Admin, settings: &Settings) -> Result<Topics, TopicError> {
    // Check the outputs first: a start that fails must create nothing.
    let outputs = outputs(admin, settings, settings.scheme().to_string())?;
    let (logs, verdict_log_bytes) = logs(admin, settings)?;
    let earlier = settings.previous.as_ref().map(|previous| self::logs(admin, previous)).transpose()?;
    Ok(Topics { logs, verdict_log_bytes, outputs, earlier })
}

/// Makes both logs ready. Returns their names, and the largest batch that the verdict log accepts, in bytes.
fn logs(admin: &Admin, settings: &Settings) -> Result<(LogNames, usize), TopicError> {
    let names = LogNames::new(&settings.logs.prefix, &settings.scheme().to_string());
    ensure_logs(admin, &names, settings)?;
    // The limit is read back, because an operator or an older release may have created the log with another one.
    let verdict_log_bytes = admin.max_batch_bytes(&names.verdicts)?;
    Ok((names, verdict_log_bytes))
}

/// Creates missing logs; checks the partitions, replicas and settings of existing ones, and mends settings that would
/// lose data.
///
/// # Errors
///
/// A log is not as it must be and cannot be mended, or no broker answered in time.
pub(crate) fn ensure_logs(admin: &Admin, names: &LogNames, settings: &Settings) -> Result<(), TopicError> {
    let (partitions, copies) = (settings.log_partitions().get(), settings.logs.replication_factor);
    admin.ensure_log(&names.fingerprints, LogKind::Fingerprints, partitions, copies)?;
    admin.ensure_log(&names.verdicts, LogKind::Verdicts, partitions, copies)
}

pub(crate) fn outputs(admin: &Admin, settings: &Settings, scheme: String) -> Result<Outputs, TopicError> {
    let (mut topics, partition_counts) = (BTreeMap::new(), PartitionCounts::default());
    let output = &settings.output;
    all_there(admin, settings)?;
    for (output_kind, name) in [
        (OutputKind::Unique, &output.unique),
        (OutputKind::Duplicate, &output.duplicate),
        (OutputKind::DeadLetter, &output.dead_letter),
    ] {
        let Some(name) = name.as_ref().filter(|_| settings.roles.worker) else { continue };
        partition_counts.learn(Arc::from(name.as_str()), admin.expect_topic(name)?);
        let max_bytes = admin.max_batch_bytes(name)?;
        let times = admin.time_limits(name)?;
        topics.insert(output_kind, OutputTopic { name: name.clone(), max_bytes, times });
    }
    if let (ConfiguredTopics::Names(names), true) = (&settings.input.topics, settings.roles.worker) {
        for name in names {
            partition_counts.learn(Arc::from(name.as_str()), admin.expect_topic(name)?);
        }
    }
    Ok(Outputs {
        routing: routing(settings),
        headers: HeaderSettings {
            prefix: output.header_prefix.clone(),
            drop: output.dropped_headers.clone(),
            scheme,
            sketch: settings.fingerprint.minhash.form,
            group: settings.input.group.clone(),
            replay: None,
        },
        topics,
        partition_counts,
        duplicate_value: duplicate_value(settings),
        time: output_time(settings),
        now: wall_time,
    })
}

/// Checks the topics of a worker: missing ones are reported together.
fn all_there(admin: &Admin, settings: &Settings) -> Result<(), TopicError> {
    if !settings.roles.worker {
        return Ok(());
    }
    let input = match &settings.input.topics {
        ConfiguredTopics::Names(names) => names.as_slice(),
        ConfiguredTopics::Pattern(_) => &[],
    };
    let output = &settings.output;
    let outputs = [&output.unique, &output.duplicate, &output.dead_letter].into_iter().flatten();
    let mut missing = Vec::new();
    for name in input.iter().chain(outputs) {
        match admin.expect_topic(name) {
            Ok(_) => {}
            Err(TopicError::Missing(name)) => missing.push(name),
            Err(error) => return Err(error),
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(TopicError::Missing(missing.join("`, `"))) }
}

/// Converts an error about topics into the error that ends the process, with its exit code.
pub(crate) fn topic_error(error: TopicError) -> Fatal {
    let reason = match &error {
        TopicError::Denied(denied) => return fatal::cluster_error(ClusterError::Denied(denied.clone())),
        TopicError::Missing(_)
        | TopicError::Partitions { .. }
        | TopicError::Unsafe { .. }
        | TopicError::OneReplica { .. } => Reason::Config,
        TopicError::NotCreated { .. } | TopicError::Kafka(_) => Reason::Unavailable,
        TopicError::Runtime(_) => Reason::Failure,
    };
    reason.because(error)
}

/// Returns the routes of pages.
#[must_use]
pub fn routing(settings: &Settings) -> Routing {
    Routing {
        mode: settings.mode.into(),
        tombstones: settings.input.tombstones.into(),
        bad_records: settings.processing.on_bad_record.into(),
        partitioning: settings.output.partition.into(),
    }
}

/// Returns the value of records in the duplicate topic.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_brokers_are_reported_each_with_its_reason() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap().to_string();
        let closed = "127.0.0.1:1".to_owned();
        let why = connect_error(std::slice::from_ref(&closed)).unwrap();
        assert!(why.starts_with("127.0.0.1:1: ") && why.contains("refused"), "{why}");
        assert_eq!(connect_error(&[closed, open]), None, "one can be reached");
        assert_eq!(connect_error(&[]), None);
    }
}
