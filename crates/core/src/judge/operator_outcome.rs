//! What the request of an operator has done, for the log of the judge. No verdict depends on it.

use crate::protocol::Answer;

/// An operator's request to forget originals, to reopen a range or to set the stream time back, after the judge applied
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorOutcome {
    /// The answer in the verdict log: [`Answer::Forgotten`], [`Answer::Reopened`] or [`Answer::TimeSet`].
    pub answer: Answer,
    /// Number of originals that the index held before and does not hold any more.
    pub forgotten: u64,
}
