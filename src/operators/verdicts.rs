//! Reads the verdict log from outside the service: everything that it keeps, or new records; for `index verify`, side by
//! side with the fingerprint log, whose retained requests it judges again.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::unbounded;
use dupgate_core::judge::{Difference, LogVerifier};

use crate::config::settings::Settings;
use crate::error::{Fatal, fatal};
use crate::fatal::{failure, unavailable};
use crate::kafka::admin::LogNames;
use crate::kafka::budget::ByteBudget;
use crate::kafka::fingerprint_log::Requests;
use crate::kafka::inspector::ClusterInspector;
use crate::kafka::offsets::Offsets;
use crate::kafka::verdict_log::{FollowCommand, FollowEventKind, FollowSettings, Follower};
use crate::protocol::{LogPartition, RequestOffset, VerdictOffset, VerdictRecord};
use crate::record::{PartitionId, Timestamp};
use crate::{context, fatal};

/// How long the cluster may be silent while there is something to read.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a waiting reader asks `visit` whether to continue.
const STEP: Duration = Duration::from_millis(200);

/// Time-out for reading requests.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(30);

/// Which part of the log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogExtent {
    /// Everything that is kept and committed now.
    Kept,
    /// Records committed from now on, until the reader stops.
    New,
}

/// One record and its offset.
#[derive(Debug)]
pub struct Read {
    pub log: LogPartition,
    pub offset: VerdictOffset,
    /// The offset after it.
    pub next: VerdictOffset,
    pub record: VerdictRecord,
    /// When it was written.
    pub time: Option<Timestamp>,
}

/// Reads the verdict log of the configured scheme. Records of one partition arrive in order.
///
/// `visit` receives each record, and `None` while there is nothing new; it returns whether to continue.
///
/// # Errors
///
/// The log does not exist or cannot be read, or the cluster does not answer.
pub fn read(
    settings: &Settings,
    extent: LogExtent,
    mut visit: impl FnMut(Option<Read>) -> ControlFlow<()>,
) -> Result<(), Fatal> {
    let connection = context::connection(&settings.kafka);
    let group = &settings.input.group;
    let scheme = settings.scheme();
    let names = LogNames::new(&settings.logs.prefix, &scheme.to_string());
    let inspector = ClusterInspector::new(&connection, group, IDLE_TIMEOUT).map_err(fatal::cluster_error)?;
    inspector.brokers().map_err(fatal::cluster_error)?;
    if inspector.topic(&names.verdicts).map_err(fatal::cluster_error)?.is_none() {
        return Err(fatal!(
            Config,
            "topic `{}` does not exist: nothing was judged under scheme {scheme} yet",
            names.verdicts
        ));
    }
    let logs = settings.log_partitions().get();
    let offsets = Offsets::new(&connection.query(group), IDLE_TIMEOUT).map_err(failure)?;
    let budget = ByteBudget::new(32 << 20);
    let (sender, news) = unbounded();
    let mut followers = Vec::new();
    for log in LogPartition::first(logs) {
        let partition = PartitionId::new(Arc::clone(&names.verdicts), log.number());
        let from = match extent {
            LogExtent::Kept => None,
            LogExtent::New => {
                let kept = offsets.range(&partition).map_err(unavailable)?;
                Some(VerdictOffset(kept.end))
            }
        };
        let sender_of_log = sender.clone();
        let sink = move |event| drop(sender_of_log.send((log, event)));
        let config = connection.follower(group);
        let partition = FollowSettings::new(partition, sink);
        let follower = Follower::start(&config, partition, &budget, format!("verdicts-{log}"));
        let follower = follower.map_err(failure)?;
        follower.command(FollowCommand::From(from, 1));
        if extent == LogExtent::Kept {
            follower.command(FollowCommand::ToEnd(1));
        }
        followers.push(follower);
    }
    let mut unread = logs;
    let mut silence = Duration::ZERO;
    while unread > 0 {
        let flow = match news.recv_timeout(STEP) {
            Err(_) => {
                silence += STEP;
                if extent == LogExtent::Kept && silence > IDLE_TIMEOUT {
                    return Err(fatal!(
                        Unavailable,
                        "the verdict log could not be read to its end: no record arrived within {} s: is a broker of it down?",
                        IDLE_TIMEOUT.as_secs()
                    ));
                }
                visit(None)
            }
            Ok((log, event)) => {
                silence = Duration::ZERO;
                match event.kind {
                    FollowEventKind::Record { offset, next, record, time, permit } => {
                        let flow = visit(Some(Read { log, offset, next, record, time }));
                        drop(permit);
                        flow
                    }
                    FollowEventKind::End(_) => {
                        unread -= 1;
                        ControlFlow::Continue(())
                    }
                    FollowEventKind::Moved(why) => {
                        return Err(fatal!(State, "verdict log {log}: {why}"));
                    }
                }
            }
        };
        if flow.is_break() {
            break;
        }
    }
    Ok(())
}

pub struct PartitionVerification {
    /// The comparison, and the state that the log leads to.
    pub verifier: LogVerifier,
    /// Offset of the first request that the fingerprint log still holds.
    pub first_request: RequestOffset,
    /// Why the comparison had to stop, if it did.
    pub broken: Option<String>,
    requests: Requests,
}

/// Events while the logs are read.
pub enum Step<'a> {
    /// The next record of the verdict log, before it is processed.
    Next {
        log: LogPartition,
        offset: VerdictOffset,
        /// The comparison so far.
        verification: &'a PartitionVerification,
    },
    Found {
        log: LogPartition,
        /// Offset of the record of the verdict log.
        offset: VerdictOffset,
        difference: Difference,
    },
}

/// Reads both logs as far as they are kept and committed now, judges the requests again, and calls `on_step` for each
/// step.
///
/// # Errors
///
/// A log cannot be read.
pub fn verify_logs(
    settings: &Settings,
    mut on_step: impl FnMut(Step<'_>),
) -> Result<BTreeMap<LogPartition, PartitionVerification>, Fatal> {
    let connection = context::connection(&settings.kafka);
    let names = LogNames::new(&settings.logs.prefix, &settings.scheme().to_string());
    let config = connection.follower(&settings.input.group);
    let mut partitions: BTreeMap<LogPartition, PartitionVerification> = BTreeMap::new();
    let mut failed = None;
    read(settings, LogExtent::Kept, |event| {
        let Some(Read { log, offset, record, .. }) = event else { return ControlFlow::Continue(()) };
        let begun = if let Some(verification) = partitions.remove(&log) {
            Ok(verification)
        } else {
            let number = log.number();
            begin(&config, PartitionId::new(Arc::clone(&names.fingerprints), number))
        };
        let result = begun.and_then(|mut verification| {
            on_step(Step::Next { log, offset, verification: &verification });
            let found = verification.take(&record)?;
            found.into_iter().for_each(|difference| on_step(Step::Found { log, offset, difference }));
            partitions.insert(log, verification);
            Ok(())
        });
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(fatal) => {
                failed = Some(fatal);
                ControlFlow::Break(())
            }
        }
    })?;
    match failed {
        Some(fatal) => Err(fatal),
        None => Ok(partitions),
    }
}

/// Opens the requests of one log partition. Call it only once the verdict log is being read: trimming removes requests
/// together with their verdicts or later, so the requests of the verdicts to come are still there.
fn begin(
    config: &crate::kafka::client::ClientSettings,
    partition: PartitionId,
) -> Result<PartitionVerification, Fatal> {
    let requests = Requests::open(config, partition, REQUESTS_TIMEOUT).map_err(failure)?;
    let first_request = requests.first().map_err(unavailable)?;
    let mut verifier = LogVerifier::default();
    if first_request > RequestOffset(0) {
        verifier.trust_the_trim();
    }
    Ok(PartitionVerification { verifier, first_request, broken: None, requests })
}

impl PartitionVerification {
    fn take(&mut self, record: &VerdictRecord) -> Result<Vec<Difference>, Fatal> {
        if self.broken.is_some() {
            return Ok(Vec::new());
        }
        let requests_of = match record {
            VerdictRecord::Verdicts(batch) if self.verifier.state().log().is_some() => {
                let from = self.verifier.state().next_request();
                if from < self.first_request {
                    None
                } else {
                    let requests_of = self.requests.between(from, batch.next_request);
                    Some(requests_of.map_err(unavailable)?)
                }
            }
            VerdictRecord::Verdicts(_) | VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => None,
        };
        match self.verifier.record(record, requests_of.as_deref()) {
            Ok(found) => Ok(found),
            // Verdicts before the first checkpoint lack earlier state and are skipped, as judges do.
            Err(dupgate_core::judge::Diverged::NoCheckpoint) => Ok(Vec::new()),
            Err(why) => {
                self.broken = Some(why.to_string());
                Ok(Vec::new())
            }
        }
    }
}
