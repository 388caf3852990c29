//! Replay: a range of the input judged again, beside the service.
//!
//! Before: an edge reads the pages of the range and, for the order of the log, the live verdict log. After: verdicts,
//! and pages with their end in a fixed order. It is the judge of the service ([`crate::judge::decide`], then
//! [`crate::judge::State::follow`]) with another sequencer:
//!
//! - [`TimeOrder`] merges the partitions by event time: the same pages in the same order, whenever it runs;
//! - [`LogOrder`] takes the pages in the order of the live verdict log: the live verdicts, or with other settings what
//!   they would have been; [`LogPages`] holds them until they may leave in the order of the input;
//! - pages of [`ArchiveFile`]s, which are in no topic any more, come in the order of the files and of their lines.
//!
//! [`WarmUp`] picks the pages of that order that fill the logs of a new scheme.
//!
//! [`Changes`] compares the verdicts of a replay with those of the service, or of another replay.
//!
//! [`Plan`] freezes what is judged. Laws: L3, L4, L5 (a function of plan, pages and log). Cost: that of judging, and of
//! following what precedes the range.

mod changes;
mod counts;
mod log_order;
mod log_pages;
mod plan;
mod rejudge;
mod time_order;
mod warm;

pub use changes::{Changes, Compared, Example, RecordedVerdict, Side, Sides, VerdictPair};
pub use counts::{Counts, Digest, VerdictName, name_of, name_of_verdict};
pub use log_order::{LogOrder, Next, Replayed};
pub use log_pages::{Leaving, LogPages};
pub use plan::{
    ArchiveFile, CommitMetadata, FilePlace, InputRange, LogRange, Mark, Marks, Order, Part, Plan, PlanError, Ranges,
    Reads, Shadow, Target, TooManyVariants, Total, own_name, plan_topic, variants,
};
pub use rejudge::Rejudge;
pub use time_order::{LOOKAHEAD, TimeOrder};
pub use warm::{LogMerge, WarmAsk, WarmCounts, WarmStep, WarmUp};
