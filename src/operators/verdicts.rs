//! Reads the verdict log from outside the service: everything that it keeps, or new records.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::unbounded;

use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::kafka::admin::LogNames;
use crate::kafka::budget::ByteBudget;
use crate::kafka::inspector::ClusterInspector;
use crate::kafka::offsets::Offsets;
use crate::kafka::verdict_log::{FollowCommand, FollowEventKind, Follower};
use crate::protocol::{LogPartition, VerdictOffset, VerdictRecord};
use crate::record::{PartitionId, Timestamp};
use crate::runtime::context;
use crate::runtime::fatal::{self, failure};

/// How long the cluster may be silent while there is something to read.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a waiting reader asks `visit` whether to continue.
const STEP: Duration = Duration::from_millis(200);

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
    /// The partition of the log.
    pub log: LogPartition,
    /// Offset of the record.
    pub offset: VerdictOffset,
    /// The offset after it.
    pub next: VerdictOffset,
    /// The record.
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
        let why =
            anyhow::anyhow!("topic `{}` does not exist: nothing was judged under scheme {scheme} yet", names.verdicts);
        return Err(Reason::Config.because(why));
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
                let kept = offsets.range(&partition).map_err(|error| Reason::Unavailable.because(error))?;
                Some(VerdictOffset(kept.end))
            }
        };
        let sender_of_log = sender.clone();
        let sink = move |event| drop(sender_of_log.send((log, event)));
        let config = connection.follower(group);
        let follower = Follower::start(&config, partition, Arc::clone(&budget), format!("verdicts-{log}"), sink);
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
                    let why = anyhow::anyhow!(
                        "the verdict log could not be read to its end: no record arrived within {} s: is a broker of it down?",
                        IDLE_TIMEOUT.as_secs()
                    );
                    return Err(Reason::Unavailable.because(why));
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
                        return Err(Reason::State.because(anyhow::anyhow!("verdict log {log}: {why}")));
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
