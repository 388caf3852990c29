//! Unique, or duplicate of what?
//!
//! Before: `protocol` hands over requests in log order. After: the verdicts, in the same order, go to the verdict log.
//! [`decide()`] returns the verdict on a request and changes nothing; [`State::follow`] is the only way the state
//! changes. The judge does both; a standby, a restore and a replay only follow. So they cannot differ (law L5).
//! [`Judge`] is the state machine around it: restore, stand by, take over, judge, commit, hand over.
//!
//! Laws: L2 (verdicts and position in one transaction), L3 (an original's verdict is earlier), L4 (judged once), L5,
//! L6. Cost: one probe of the index for each request, one bitmap test for a repeat.

mod best_match;
mod counts;
mod decide;
mod events;
mod judged_log;
mod log_retention;
mod machine;
mod operator_outcome;
mod partition_history;
mod pending;
mod request_record;
mod resend_pause;
mod sequencer;
mod settings;
mod snapshot;
mod snapshot_schedule;
mod state;
mod stream_time;
#[cfg(test)]
mod tests;
mod verifier;

pub use crate::index::Refusal;
pub use counts::Counts;
pub(crate) use decide::decide_page;
pub use decide::{decide, decide_observed, refusal};
pub use events::{Effect, Event, Failure, ProducerCall};
pub use log_retention::{InputOffsets, LogRetention, LogSpan};
pub use machine::{Judge, Role};
pub use operator_outcome::OperatorOutcome;
pub use settings::{ColdStart, ColdStarts, JudgeSettings};
pub use snapshot::{Restored, Restoring, SharedSnapshot, Snapshot};
pub use state::{Diverged, State};
pub use stream_time::StreamTime;
pub use verifier::{Asked, Difference, LogVerifier, VerifyCounts};
