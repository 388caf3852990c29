//! Runs a replay: reads pages, and writes verdicts and pages, in the order of the plan. Also compares verdicts.

mod by_fingerprints;
mod by_log;
mod by_time;
mod compare;
mod feed;
mod files;
pub(crate) mod pace;
mod planning;
mod run;
mod meter;
mod store;
mod verdict_digest;
pub(crate) mod walk;
pub mod warm;
mod writer;

use std::time::Duration;

use crate::record::Timestamp;

pub use compare::{Texts, compare};
pub use files::fetch_lines;
pub use pace::{ParseRateError, Rate};
pub use planning::{Draft, RangeBound, Wanted, check, expect_log, make};
pub use planning::{Sample, estimate};
pub use run::{Options, Outcome, Phase, Report, run};
pub use store::{ReplayState, Store, Stored};

/// Time-out of a request to the cluster.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The time-out of a transaction at the coordinator.
const TRANSACTION: Duration = Duration::from_mins(1);

/// Event time of a line until it is known: lines have no timestamp outside their content.
const UNTIMED: Timestamp = Timestamp::MIN;
