//! Unique, or duplicate of what?
//!
//! Before: `protocol` hands over requests in log order. After: the verdicts, in the same order, go to the verdict log.
//! [`decide()`] returns the verdict on a request and changes nothing; [`State::follow`] is the only way the state
//! changes. The judge does both; a standby, a restore and a replay only follow. So they cannot differ (law L5).
//! [`Judge`] is the state machine around it: restore, stand by, take over, judge, commit, hand over.
//!
//! Laws: L2 (verdicts and position in one transaction), L3 (an original's verdict is earlier), L4 (judged once), L5,
//! L6. Cost: one probe of the index for each request, one bitmap test for a repeat.

mod decide;
mod events;
mod judged_log;
mod log_retention;
mod machine;
mod pending;
mod sequencer;
mod snapshot;
mod snapshot_bytes;
mod state;
#[cfg(test)]
mod tests;
mod verifier;

pub use decide::{decide, decide_observed, refusal};
pub use events::{ColdStart, ColdStarts, Effect, Event, Failure, JudgeSettings, OperatorOutcome, ProducerCall};
pub use log_retention::{InputOffsets, LogRetention, LogSpan};
pub use machine::{Judge, Role};
pub use snapshot::{Restored, Restoring, SharedSnapshot, Snapshot};
pub use snapshot_bytes::{Manifest, decode_originals};
pub use state::{Counts, Diverged, State, StreamTime};
pub use verifier::{Asked, Difference, LogVerifier, VerifyCounts};

pub(crate) use crate::index::Refusal;

pub(crate) use decide::decide_page;
