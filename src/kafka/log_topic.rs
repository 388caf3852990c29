//! What the topics of both logs must be: how they are created, what is wrong with existing ones, and how to mend it.
//!
//! `run`, `dupgate check` and `dupgate topics create` judge by the same rules. Nothing else holds what is in the logs,
//! so brokers must neither delete their records nor keep them on a single disk, and event time is bounded by the clock
//! of the brokers.

use std::collections::BTreeMap;
use std::fmt;

use rdkafka::error::RDKafkaErrorCode;

/// Largest batch that a broker accepts unless the topic sets another limit, in bytes.
pub const DEFAULT_BATCH_BYTES: usize = 1_048_588;

/// Replicas of a log where the cluster does not prefer another number.
const REPLICAS: usize = 3;

/// The replication factor with which brokers choose their own (Kafka 2.4 and later).
pub const BROKERS_CHOICE: i32 = -1;

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
    /// The settings by name.
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
    /// The setting.
    pub setting: &'static str,
    /// Its value.
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

/// How to give a log more replicas, or to do without them.
pub const MORE_REPLICAS: &str =
    "give it more with kafka-reassign-partitions.sh, or accept the risk with logs.replication_factor: 1";

/// Returns the command that changes settings of a topic, each `name=value`.
#[must_use]
pub fn alter_command(topic: &str, settings: &[String]) -> String {
    let settings = settings.join(",");
    format!(
        "kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name {topic} --add-config {settings}"
    )
}

/// Returns the command that mends these problems.
#[must_use]
pub fn mend_command(topic: &str, problems: &[LogProblem]) -> String {
    let settings: Vec<String> =
        problems.iter().map(|problem| format!("{}={}", problem.setting, problem.wanted)).collect();
    alter_command(topic, &settings)
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
