//! Matches pages with their verdicts and delivers them.
//!
//! Before: pages come in offset order, their text work done; verdicts come in the order of the verdict logs. After:
//! routed pages and input offsets go out in one transaction. The worker asks the judge about a page that was not asked
//! about, uses a verdict that is known, reads back one that is written but not remembered.
//!
//! Laws: L1 (one end for each page), L2 (offsets only with the outputs before them), L4 (a verdict that is written is
//! used), L8 (a page that was asked about leaves without its verdict only by `withdraw`). Cost: a map lookup and a
//! binary search for each page and each verdict.

#[cfg(test)]
mod tests;
mod unanswered;
mod deliver;
mod events;
mod followed_log;
mod output;
mod match_verdict;
mod queue;
mod machine;
mod membership;
mod outgoing;
mod partitions;
mod flow_control;
mod pacer;
mod progress;

pub use events::{
    Backlog, Blocked, Earlier, Effect, Event, Failure, Output, Pacing, Page, PageAction, PageOutcome, ProducerCall,
    ReadFrom, WorkerSettings,
};
pub use machine::{Status, Worker};
pub use membership::{Subscription, new_to_group};
pub use output::{
    BadRecords, Header, HeaderSettings, MAX_HEADER_BYTES, Mode, OBSERVED, OutputKind, Partitioning, Routing,
    Tombstones, message,
};
