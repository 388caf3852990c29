//! An operator's request to the judges: append it, wait for the answers in the verdict log.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::unbounded;

use super::affected::{Affected, Found};
use super::clock::Clock;
use super::random::draw;
use super::topics::{ensure_logs, unavailable};
use super::verdicts::{Extent, read};
use super::wiring::{self, failure};
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::kafka::admin::{Admin, Brokers, LogNames};
use crate::kafka::fingerprint_log::{Appended, EntryLog, NotAppended};
use crate::kafka::gate::Gate;
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowNews, Follower};
use crate::log::{Answer, Entry, EntryBody, RequestId, VerdictRecord};
use crate::record::PartitionId;
use crate::worker::LogPartition;

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

enum News {
    Appended(Appended),
    Followed(LogPartition, FollowEvent),
}

/// Asks the judges of every partition of the logs, and waits at most `patience` for all of their answers.
///
/// # Errors
///
/// When the cluster or a judge does not answer in time.
pub fn submit(settings: &Settings, bodies: &[EntryBody], patience: Duration) -> Result<Vec<Answered>, Fatal> {
    submit_to(settings, Brokers::Cluster, bodies, patience)
}

/// The same over brokers of this kind.
///
/// # Errors
///
/// As [`submit`].
pub fn submit_to(
    settings: &Settings,
    brokers: Brokers,
    bodies: &[EntryBody],
    patience: Duration,
) -> Result<Vec<Answered>, Fatal> {
    let logs = settings.log_partitions().get();
    let cluster = wiring::cluster(&settings.kafka);
    let names = LogNames::new(&settings.logs.prefix, &settings.scheme().to_string());
    let admin = Admin::of(&cluster.admin(), brokers).map_err(unavailable)?;
    ensure_logs(&admin, &names, settings).map_err(unavailable)?;

    let clock = Clock::start();
    let (sender, news) = unbounded();
    let gate = Gate::new(16 << 20);
    let mut followers = Vec::new();
    for log in 0..logs {
        let told = sender.clone();
        let partition =
            PartitionId::new(std::sync::Arc::clone(&names.verdicts), i32::try_from(log).unwrap_or(i32::MAX));
        let config = cluster.follower(&settings.input.group);
        let sink = move |event| drop(told.send(News::Followed(log, event)));
        let gate = std::sync::Arc::clone(&gate);
        let follower = Follower::start(&config, partition, gate, format!("answers-{log}"), sink).map_err(failure)?;
        follower.command(FollowCommand::From(None, 1));
        followers.push(follower);
    }
    let told = sender.clone();
    let fingerprints = names.fingerprints.to_string();
    let mut entries = EntryLog::open(&cluster.entry_producer(), fingerprints, logs, Arc::default(), move |appended| {
        drop(told.send(News::Appended(appended)));
    })
    .map_err(failure)?;

    let pairs = (0..logs).flat_map(|log| bodies.iter().map(move |body| (log, body)));
    let mut asked: BTreeMap<RequestId, (LogPartition, &EntryBody)> = BTreeMap::new();
    for (log, body) in pairs {
        let request = RequestId(draw());
        asked.insert(request, (log, body));
        entries.append(log, Entry { request, body: body.clone() });
    }
    entries.send();
    let mut affected: Vec<Affected> = (0..logs).map(|_| Affected::by(bodies)).collect();
    let mut answers = Vec::new();
    while !asked.is_empty() {
        if clock.now() > patience {
            let logs: Vec<String> = asked.values().map(|(log, _)| log.to_string()).collect();
            let why = anyhow::anyhow!(
                "no answer from the judge of log partition {} within {patience:?}; it stands in the log and will be answered",
                logs.join(", ")
            );
            return Err(Reason::Unavailable.because(why));
        }
        match news.recv_timeout(STEP) {
            Err(_)
            | Ok(
                News::Appended(Appended { offset: Ok(_), .. })
                | News::Followed(_, FollowEvent { news: FollowNews::End, .. }),
            ) => {}
            // A request is applied once, however often it stands in the log.
            Ok(News::Appended(Appended { offset: Err(NotAppended::Denied), .. })) => {
                return Err(wiring::append_denied(&names.fingerprints));
            }
            Ok(News::Appended(Appended { request, offset: Err(NotAppended::Uncertain) })) => {
                if let Some(&(log, body)) = asked.get(&request) {
                    entries.append(log, Entry { request, body: body.clone() });
                    entries.send();
                }
            }
            Ok(News::Followed(log, FollowEvent { news: FollowNews::Record { offset, record, .. }, .. })) => {
                let mut found = BTreeMap::new();
                if let Some(affected) = affected.get_mut(log) {
                    affected.follow(&record, |number, finds| drop(found.insert(number, finds)));
                }
                let VerdictRecord::Rulings(batch) = record else { continue };
                for (number, ruling) in batch.rulings.into_iter().enumerate() {
                    if asked.remove(&ruling.request).is_some() {
                        let found = found.remove(&number).unwrap_or_default();
                        answers.push(Answered { log, offset, answer: ruling.answer, found });
                    }
                }
            }
            Ok(News::Followed(log, FollowEvent { news: FollowNews::Moved(why), .. })) => {
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
pub fn would_find(settings: &Settings, bodies: &[EntryBody]) -> Result<Vec<Found>, Fatal> {
    let mut logs: BTreeMap<LogPartition, Affected> = BTreeMap::new();
    read(settings, Extent::Kept, |news| {
        if let Some(news) = news {
            let affected = logs.entry(news.log).or_insert_with(|| Affected::by(bodies));
            affected.follow(&news.record, |_, _| {});
        }
        ControlFlow::Continue(())
    })?;
    let of = |body: &EntryBody| {
        logs.values().map(|affected| affected.would_find(body)).fold(Found::default(), |mut sum, found| {
            sum.originals.extend(found.originals);
            // Each log opens what it judged.
            sum.positions += found.positions;
            sum
        })
    };
    Ok(bodies.iter().map(of).collect())
}
