//! Why a partition of the input is blocked.

use std::fmt;

/// Why a partition cannot be read on. Shown with the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// A position is judged, and its verdict cannot be read back any more.
    VerdictLost,
    /// The verdict of this offset is about another page.
    ForeignPage(i64),
    /// The group has no offset, although positions are judged.
    NoOffset,
    /// The partition does not hold the offset that comes next.
    OutOfRange {
        /// The offset.
        offset: i64,
        /// First offset that the partition holds.
        first: i64,
        /// After the last one.
        end: i64,
    },
    /// The brokers do not let us read the topic.
    Denied,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VerdictLost => {
                f.write_str("its verdicts are gone for good: `dupgate verdicts reopen` has a range judged again")
            }
            Self::ForeignPage(offset) => write!(
                f,
                "offset {offset} is not the page that was judged there: if the topic was deleted and created again, stop all \
                 workers, delete the group's offsets of the topic, let `dupgate verdicts reopen` have the range judged again, and \
                 start the workers"
            ),
            Self::NoOffset => f.write_str(
                "it has judged positions but no committed offset: stop all workers and set the group's offset, or, if the topic \
                 was deleted and created again, let `dupgate verdicts reopen` have the range judged again; then start the workers",
            ),
            Self::Denied => f.write_str(
                "the brokers do not let us read its topic: add an ACL with Read, or exclude the topic from input.topics",
            ),
            Self::OutOfRange { offset, first, end } => write!(
                f,
                "offset {offset} comes next and the partition holds {first} to {end}: going on elsewhere would skip \
                 records; to accept that, stop all workers and set the group's offset; if the topic was deleted and created \
                 again, delete the group's offsets of it, let `dupgate verdicts reopen` have the range judged again, and start \
                 the workers"
            ),
        }
    }
}
