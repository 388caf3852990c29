//! What has to be known of the topics before anything runs: the logs are made, the outputs are looked at.
//!
//! Brokers that are away are waited for, each time by a new client: one that asked while the last broker shut down may
//! have forgotten all of them for good (confluentinc/librdkafka issue 5301).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::clock::{Clock, wall_time};
use super::wiring;
use crate::config::settings::{Settings, Topics as ConfiguredTopics};
use crate::error::{Fatal, Reason};
use crate::kafka::admin::{Admin, Brokers, LogKind, LogNames, TopicError};
use crate::kafka::output::{InputPartitions, OutputTopic, Outputs};
use crate::kafka::survey::Trouble;
use crate::telemetry::Check;
use crate::worker::{HeaderSettings, Outlet};

/// How long the brokers may be away while the program starts.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long one client may wait for one answer.
const QUESTION: Duration = Duration::from_secs(10);

/// From one client to the next.
const PAUSE: Duration = Duration::from_millis(500);

/// The topics that the service speaks to.
pub(super) struct Topics {
    pub(super) logs: LogNames,
    pub(super) outputs: Outputs,
}

/// Makes the logs where they are not, and asks what the other topics take; `None` when a signal came first.
///
/// # Errors
///
/// When a topic is missing or not as it has to be, or when no broker answered for a minute.
pub(super) fn wait_for(
    settings: &Settings,
    brokers: Brokers,
    clock: Clock,
    signals: &Receiver<i32>,
    starting: &Check,
) -> Result<Option<Topics>, Fatal> {
    let config = wiring::cluster(&settings.kafka).admin();
    let until = clock.now() + PATIENCE;
    loop {
        let admin = Admin::of(&config, brokers).map_err(unavailable)?.with_patience(QUESTION);
        match ask(&admin, settings) {
            Err(TopicError::Kafka(error)) if clock.now() < until => {
                tracing::warn!(%error, "no broker answers: they are asked again");
                starting.fail(format!("no broker answers ({error})"));
            }
            answer => return answer.map(Some).map_err(unavailable),
        }
        if signals.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
            tracing::info!("stopped before a broker answered");
            return Ok(None);
        }
    }
}

fn ask(admin: &Admin, settings: &Settings) -> Result<Topics, TopicError> {
    let scheme = settings.scheme().to_string();
    let logs = LogNames::new(&settings.logs.prefix, &scheme);
    ensure_logs(admin, &logs, settings)?;
    Ok(Topics { outputs: outputs(admin, settings, scheme)?, logs })
}

/// Makes both logs where they are not; else checks that they have as many partitions as configured.
///
/// # Errors
///
/// When they have not, or no broker answered in time.
pub(super) fn ensure_logs(admin: &Admin, names: &LogNames, settings: &Settings) -> Result<(), TopicError> {
    let (partitions, copies) = (settings.log_partitions().get(), settings.logs.replication_factor);
    admin.ensure_log(&names.fingerprints, LogKind::Fingerprints, partitions, copies)?;
    admin.ensure_log(&names.verdicts, LogKind::Verdicts, partitions, copies)
}

fn outputs(admin: &Admin, settings: &Settings, scheme: String) -> Result<Outputs, TopicError> {
    let mut topics = BTreeMap::new();
    let output = &settings.output;
    for (outlet, name) in [
        (Outlet::Unique, &output.unique),
        (Outlet::Duplicate, &output.duplicate),
        (Outlet::DeadLetter, &output.dead_letter),
    ] {
        let Some(name) = name.as_ref().filter(|_| settings.roles.worker) else { continue };
        let partitions = admin.expect_topic(name)?;
        let max_bytes = admin.max_batch_bytes(name)?;
        let times = admin.time_limits(name)?;
        topics.insert(outlet, OutputTopic { name: name.clone(), partitions, max_bytes, times });
    }
    let input_partitions = InputPartitions::default();
    if let (ConfiguredTopics::Names(names), true) = (&settings.input.topics, settings.roles.worker) {
        for name in names {
            input_partitions.learn(Arc::from(name.as_str()), admin.expect_topic(name)?);
        }
    }
    Ok(Outputs {
        routing: wiring::routing(settings),
        headers: HeaderSettings {
            prefix: output.header_prefix.clone(),
            drop: output.dropped_headers.clone(),
            scheme,
            sketch: settings.fingerprint.minhash.form,
            group: settings.input.group.clone(),
        },
        topics,
        input_partitions,
        duplicate_value: wiring::duplicate_value(settings),
        time: wiring::output_time(settings),
        now: wall_time,
    })
}

/// Sorts what goes wrong before anything runs.
pub(super) fn unavailable(error: TopicError) -> Fatal {
    let reason = match &error {
        TopicError::Denied(denied) => return wiring::trouble(Trouble::Denied(denied.clone())),
        TopicError::Missing(_) | TopicError::Partitions { .. } => Reason::Config,
        TopicError::NotCreated { .. } | TopicError::Kafka(_) => Reason::Unavailable,
        TopicError::Runtime(_) => Reason::Failure,
    };
    reason.because(error)
}
