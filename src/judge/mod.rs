//! Room 6: unique, or duplicate of what?
//!
//! Before: `log` hands over entries in log order. After: the verdicts, in the same order, go to the verdict log.
//! [`decide()`] finds the verdict of an entry and changes nothing; [`State::follow`] is the only way the state changes.
//! The judge does both; a standby, a restore and a replay only follow. So they cannot differ (law L5).
//! [`Judge`] is the life around it: restore, stand by, take over, judge, commit, hand over.
//!
//! Laws: L2 (verdicts and place in one transaction), L3 (an original's verdict is earlier), L4 (judged once), L5, L6.
//! Cost: one probe of the index an entry, one bitmap test for a repeat.

mod choice;
mod counts;
#[cfg(test)]
mod crowded;
mod decide;
mod events;
mod judging;
mod life;
mod verifier;
mod settings;
mod snapshot;
mod spans;
mod state;
#[cfg(test)]
mod tests;

pub use crate::index::Refusal;
pub use counts::Counts;
pub use decide::{decide, decide_watched, refusal};
pub use events::{Effect, Event, Failure, Request};
pub use life::{Judge, Role};
pub use settings::{ColdStart, ColdStarts, JudgeSettings};
pub use snapshot::{Restored, Restoring, SharedSnapshot, Snapshot};
pub use spans::{InputOffsets, Span, Spans};
pub use state::{Diverged, State};
pub use verifier::{Asked, Difference, LogVerifier, VerifyCounts};
