//! The state as a value, true for one offset of the verdict log.

use super::{Span, Spans, State};
use crate::index::{Original, Task};
use crate::log::Checkpoint;

/// A judge's state at one committed offset of the verdict log: what the `snapshot` room keeps in files.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Offset of the next record of the verdict log to follow.
    pub at: i64,
    /// The state, but for the originals.
    pub state: Checkpoint,
    /// The originals that can still be matched, in sequence order.
    pub originals: Vec<Original>,
    /// Offset of the latest checkpoint.
    pub latest_checkpoint: Option<i64>,
    /// What the kept log serves.
    pub spans: Vec<Span>,
}

/// What a snapshot is turned back into.
#[derive(Debug)]
pub struct Restored {
    pub(super) at: i64,
    pub(super) state: State,
    pub(super) spans: Spans,
    pub(super) latest_checkpoint: Option<i64>,
}

impl Snapshot {
    /// Turns it back into a state; `run` does the tasks that build the index.
    #[must_use]
    pub fn restore(self, run: impl FnMut(Vec<Task<'_>>)) -> Restored {
        Restored {
            at: self.at,
            state: State::load(&self.state, &self.originals, run),
            spans: Spans::from_parts(self.spans),
            latest_checkpoint: self.latest_checkpoint,
        }
    }

    /// Cuts a snapshot. `None` while nothing was followed yet.
    #[must_use]
    pub fn cut(state: &State, spans: &Spans, at: i64, latest_checkpoint: Option<i64>) -> Option<Self> {
        let floor = |_: &_| 0;
        let checkpoint = state.checkpoint(latest_checkpoint, floor, &std::collections::BTreeMap::new())?;
        let originals = state.index().live(&state.tails()).collect();
        Some(Self { at, state: checkpoint, originals, latest_checkpoint, spans: spans.iter().cloned().collect() })
    }
}
