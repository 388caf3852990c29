//! The state at one offset of the verdict log, as a value.

use super::log_retention::TrimPoint;
use super::{LogRetention, LogSpan, State};
use crate::index::{Original, SharedOriginals, Task};
use crate::protocol::{Checkpoint, VerdictOffset};

/// A judge's state at one committed offset of the verdict log: what the `snapshot` module keeps in files.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Offset of the next record of the verdict log to follow.
    pub at: VerdictOffset,
    /// The state, except the originals.
    pub state: Checkpoint,
    /// The originals that can still be matched, in sequence order.
    pub originals: Vec<Original>,
    /// Offset of the latest checkpoint.
    pub latest_checkpoint: Option<VerdictOffset>,
    /// The spans of the kept log.
    pub spans: Vec<LogSpan>,
}

/// A snapshot that shares the originals with the state it was taken from. Taking it costs next to nothing, and the
/// state may change while it is written.
#[derive(Debug)]
pub struct SharedSnapshot {
    /// Offset of the next record of the verdict log to follow.
    pub at: VerdictOffset,
    /// The state, except the originals.
    pub state: Checkpoint,
    /// The originals that could be matched when it was taken.
    pub originals: SharedOriginals,
    /// Offset of the latest checkpoint.
    pub latest_checkpoint: Option<VerdictOffset>,
    /// The spans of the kept log.
    pub spans: Vec<LogSpan>,
}

impl SharedSnapshot {
    /// Takes a snapshot. `None` while nothing was followed yet.
    #[must_use]
    pub fn take(
        state: &State,
        retention: &LogRetention,
        at: VerdictOffset,
        latest_checkpoint: Option<VerdictOffset>,
    ) -> Option<Self> {
        let checkpoint = state.checkpoint(latest_checkpoint, |_| 0)?;
        let originals = state.index().share(&state.watermarks());
        Some(Self { at, state: checkpoint, originals, latest_checkpoint, spans: retention.iter().cloned().collect() })
    }

    /// Notes that the records up to this state are committed: the last one is at offset `last`, a checkpoint among them
    /// at offset `checkpoint`, and the log is trimmed to `trim`. See
    /// [`JudgedLog::committed`](super::judged_log::JudgedLog::committed).
    pub(super) fn committed(
        mut self,
        last: Option<VerdictOffset>,
        checkpoint: Option<VerdictOffset>,
        trim: Option<TrimPoint>,
    ) -> Self {
        let mut spans = LogRetention::from_parts(self.spans);
        if let Some(checkpoint) = checkpoint {
            spans.place(checkpoint);
            self.latest_checkpoint = Some(checkpoint);
            self.state.previous = Some(checkpoint);
        }
        if let Some(trim) = trim {
            spans.trimmed_to(trim.verdicts);
        }
        let at = last.map_or(self.at, VerdictOffset::next);
        Self { at, spans: spans.into_parts(), ..self }
    }

    /// Turns it into a [`Snapshot`], which lists the originals.
    #[must_use]
    pub fn listed(self) -> Snapshot {
        let Self { at, state, originals, latest_checkpoint, spans } = self;
        Snapshot { at, state, originals: originals.iter().collect(), latest_checkpoint, spans }
    }
}

/// What is restored from a snapshot.
#[derive(Debug)]
pub struct Restored {
    /// Offset of the next record of the verdict log to follow.
    pub at: VerdictOffset,
    /// The state.
    pub state: State,
    pub(super) retention: LogRetention,
    pub(super) latest_checkpoint: Option<VerdictOffset>,
}

/// A snapshot that is being restored, some originals at a time, so that memory never holds all of them twice.
#[derive(Debug)]
pub struct Restoring(Restored);

impl Restoring {
    /// Adds some originals, in sequence order; `run` does the tasks ([`Index::fill`](crate::index::Index::fill)).
    pub fn add(&mut self, originals: &[Original], run: impl FnMut(Vec<Task<'_>>)) {
        self.0.state.fill_index(originals, run);
    }

    /// Builds the tables of the index; `run` does the tasks ([`Index::build`](crate::index::Index::build)).
    #[must_use]
    pub fn finish(mut self, run: impl FnMut(Vec<Task<'_>>)) -> Restored {
        self.0.state.build_index(run);
        self.0
    }
}

impl Snapshot {
    /// Begins to restore the state, without the originals at first.
    pub(super) fn begin(&self) -> Restoring {
        Restoring(Restored {
            at: self.at,
            state: State::without_originals(&self.state),
            retention: LogRetention::from_parts(self.spans.clone()),
            latest_checkpoint: self.latest_checkpoint,
        })
    }

    /// Restores the state; `run` does the tasks that build the index.
    #[must_use]
    pub fn restore(&self, mut run: impl FnMut(Vec<Task<'_>>)) -> Restored {
        let mut restoring = self.begin();
        restoring.add(&self.originals, &mut run);
        restoring.finish(run)
    }
}
