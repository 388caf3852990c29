//! Sends operator requests to the judges and waits for their answers in the verdict log.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::unbounded;

use super::clock::Clock;
use super::fatal::{self, failure};
use super::random::draw;
use super::request_impact::{Found, RequestImpact};
use super::service_context;
use super::topics::{ensure_logs, unavailable};
use super::verdicts::{Extent, read};
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::kafka::admin::{Admin, Brokers, LogNames};
use crate::kafka::budget::ByteBudget;
use crate::kafka::fingerprint_log::{Appended, NotAppended, RequestLog};
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, Follower};
use crate::protocol::{Answer, LogPartition, Request, RequestBody, RequestId, VerdictRecord};
use crate::record::PartitionId;

/// How long one step may stay silent before the deadline is looked at.
const STEP: Duration = Duration::from_millis(100);

/// What one judge answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Whose answer.
    pub log: LogPartition,
    /// Where in the verdict log it stands.
    pub offset: i64,
    /// The answer.
    pub answer: Answer,
    /// What there was to do.
    pub found: Found,
}

enum Message {
    Appended(Appended),
    Followed(LogPartition, FollowEvent),
}

/// Asks the judges of every partition of the logs, and waits at most `timeout` for all of their answers.
///
/// # Errors
///
/// When the cluster or a judge does not answer in time.
pub fn send_and_wait(settings: &Settings, bodies: &[RequestBody], timeout: Duration) -> Result<Vec<Answered>, Fatal> {
    submit_to(settings, Brokers::Cluster, bodies, timeout)
}

/// The same over brokers of this kind.
///
/// # Errors
///
/// As [`send_and_wait`].
pub fn submit_to(
    settings: &Settings,
    brokers: Brokers,
    bodies: &[RequestBody],
    timeout: Duration,
) -> Result<Vec<Answered>, Fatal> {
    let logs = settings.log_partitions().get();
    let cluster = service_context::cluster(&settings.kafka);
    let names = LogNames::new(&settings.logs.prefix, &settings.scheme().to_string());
    let admin = Admin::of(&cluster.admin(), brokers).map_err(unavailable)?;
    ensure_logs(&admin, &names, settings).map_err(unavailable)?;

    let clock = Clock::start();
    let (sender, messages) = unbounded();
    let budget = ByteBudget::new(16 << 20);
    let mut followers = Vec::new();
    for log in LogPartition::first(logs) {
        let told = sender.clone();
        let partition = PartitionId::new(std::sync::Arc::clone(&names.verdicts), log.number());
        let config = cluster.follower(&settings.input.group);
        let sink = move |event| drop(told.send(Message::Followed(log, event)));
        let budget = std::sync::Arc::clone(&budget);
        let follower = Follower::start(&config, partition, budget, format!("answers-{log}"), sink).map_err(failure)?;
        follower.command(FollowCommand::From(None, 1));
        followers.push(follower);
    }
    let told = sender.clone();
    let fingerprints = names.fingerprints.to_string();
    let mut requests =
        RequestLog::open(&cluster.request_producer(), fingerprints, logs, Arc::default(), move |appended| {
            drop(told.send(Message::Appended(appended)));
        })
        .map_err(failure)?;

    let pairs = LogPartition::first(logs).flat_map(|log| bodies.iter().map(move |body| (log, body)));
    let mut asked: BTreeMap<RequestId, (LogPartition, &RequestBody)> = BTreeMap::new();
    for (log, body) in pairs {
        let request = RequestId(draw());
        asked.insert(request, (log, body));
        requests.append(log, Request { id: request, body: body.clone() });
    }
    requests.send();
    let mut affected: Vec<RequestImpact> = (0..logs).map(|_| RequestImpact::by(bodies)).collect();
    let mut answers = Vec::new();
    while !asked.is_empty() {
        if clock.now() > timeout {
            let logs: Vec<String> = asked.values().map(|(log, _)| log.to_string()).collect();
            let why = anyhow::anyhow!(
                "no answer from the judge of log partition {} within {timeout:?}; it stands in the log and will be answered",
                logs.join(", ")
            );
            return Err(Reason::Unavailable.because(why));
        }
        match messages.recv_timeout(STEP) {
            Err(_)
            | Ok(
                Message::Appended(Appended { offset: Ok(_), .. })
                | Message::Followed(_, FollowEvent { kind: FollowEventKind::End(_), .. }),
            ) => {}
            // A request is applied once, however often it stands in the log.
            Ok(Message::Appended(Appended { offset: Err(NotAppended::Denied), .. })) => {
                return Err(fatal::append_denied(&names.fingerprints));
            }
            Ok(Message::Appended(Appended { request, offset: Err(NotAppended::Uncertain) })) => {
                if let Some(&(log, body)) = asked.get(&request) {
                    requests.append(log, Request { id: request, body: body.clone() });
                    requests.send();
                }
            }
            Ok(Message::Followed(log, FollowEvent { kind: FollowEventKind::Record { offset, record, .. }, .. })) => {
                let mut found = BTreeMap::new();
                if let Some(affected) = affected.get_mut(log.index()) {
                    affected.follow(&record, |number, finds| drop(found.insert(number, finds)));
                }
                let VerdictRecord::Verdicts(batch) = record else { continue };
                for (number, verdict) in batch.verdicts.into_iter().enumerate() {
                    if asked.remove(&verdict.request).is_some() {
                        let found = found.remove(&number).unwrap_or_default();
                        answers.push(Answered { log, offset, answer: verdict.answer, found });
                    }
                }
            }
            Ok(Message::Followed(log, FollowEvent { kind: FollowEventKind::Moved(why), .. })) => {
                return Err(Reason::State.because(anyhow::anyhow!("verdict log {log}: {why}")));
            }
        }
    }
    answers.sort_by_key(|answered| (answered.log, answered.offset));
    Ok(answers)
}

/// Returns what the requests would find, in the order of the requests, and does nothing.
///
/// # Errors
///
/// When the verdict log cannot be read.
pub fn would_find(settings: &Settings, bodies: &[RequestBody]) -> Result<Vec<Found>, Fatal> {
    let mut logs: BTreeMap<LogPartition, RequestImpact> = BTreeMap::new();
    read(settings, Extent::Kept, |message| {
        if let Some(message) = message {
            let affected = logs.entry(message.log).or_insert_with(|| RequestImpact::by(bodies));
            affected.follow(&message.record, |_, _| {});
        }
        ControlFlow::Continue(())
    })?;
    let of = |body: &RequestBody| {
        logs.values().map(|affected| affected.would_find(body)).fold(Found::default(), |mut sum, found| {
            sum.originals.extend(found.originals);
            // Each log opens what it judged.
            sum.positions += found.positions;
            sum
        })
    };
    Ok(bodies.iter().map(of).collect())
}
