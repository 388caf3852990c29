//! A verdict log as an iterator of records.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};

use crate::error::{Fatal, Reason};
use crate::kafka::budget::ByteBudget;
use crate::kafka::client::ClientSettings;
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, Follower};
use crate::protocol::{LogPartition, VerdictOffset, VerdictRecord};
use crate::record::PartitionId;
use crate::runtime::fatal::failure;

/// How long the cluster may be silent while there is something to read.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes of records that are read ahead.
const AHEAD: usize = 8 << 20;

/// One record, and the offset after it.
pub(crate) struct LogRecord {
    pub(crate) next: VerdictOffset,
    pub(crate) record: VerdictRecord,
}

/// Reads one partition of a verdict log up to a fixed end.
pub(crate) struct LogStream {
    _follower: Follower,
    events: Receiver<FollowEvent>,
    partition: PartitionId,
    end: VerdictOffset,
    is_over: bool,
}

impl LogStream {
    /// Starts reading at the first record that is kept.
    pub(super) fn open(config: &ClientSettings, partition: PartitionId, end: VerdictOffset) -> Result<Self, Fatal> {
        Self::open_at(config, partition, None, end)
    }

    /// Starts reading at this offset.
    pub(crate) fn open_at(
        config: &ClientSettings,
        partition: PartitionId,
        from: Option<VerdictOffset>,
        end: VerdictOffset,
    ) -> Result<Self, Fatal> {
        let (sender, events) = unbounded();
        let thread = format!("log-{}", partition.number);
        let sink = move |event| drop(sender.send(event));
        let follower =
            Follower::start(config, partition.clone(), ByteBudget::new(AHEAD), thread, sink).map_err(failure)?;
        follower.command(FollowCommand::From(from, 1));
        follower.command(FollowCommand::ToEnd(1));
        Ok(Self { _follower: follower, events, partition, end, is_over: false })
    }

    /// Returns the next record; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<LogRecord>, Fatal> {
        if self.is_over {
            return Ok(None);
        }
        let Ok(event) = self.events.recv_timeout(IDLE_TIMEOUT) else {
            let why = anyhow::anyhow!(
                "no record arrived within {} s: is a broker of {} down?",
                IDLE_TIMEOUT.as_secs(),
                self.partition
            );
            return Err(Reason::Unavailable.because(why));
        };
        match event.kind {
            FollowEventKind::Record { offset, next, record, .. } if offset < self.end => {
                Ok(Some(LogRecord { next, record }))
            }
            FollowEventKind::Record { .. } | FollowEventKind::End(_) => {
                self.is_over = true;
                Ok(None)
            }
            FollowEventKind::Moved(why) => Err(Reason::State.because(anyhow::anyhow!("{}: {why}", self.partition))),
        }
    }
}

/// Names a partition of a log.
pub(crate) fn partition(topic: &Arc<str>, log: LogPartition) -> PartitionId {
    PartitionId::new(Arc::clone(topic), log.number())
}
