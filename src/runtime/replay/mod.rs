//! Running a replay: pages come in, verdicts and pages go out, in the order of the plan. And comparing its verdicts.

mod by_files;
mod by_fingerprints;
mod by_log;
mod by_time;
mod compare;
mod feed;
mod file_reader;
mod files;
mod kept_log;
pub(super) mod log_stream;
mod meter;
pub(super) mod pace;
mod planning;
mod run;
mod sample;
mod setup;
mod store;
mod walk;
mod writer;

use std::time::Duration;

use crate::record::Timestamp;

pub use compare::{Texts, compare};
pub use files::fetch_lines;
pub use pace::{NotARate, Rate};
pub use planning::{Draft, Extent, Wanted, check, expect_log, make};
pub use run::{Options, Outcome, Phase, Report, run};
pub use sample::{Sample, estimate};
pub use store::{Lock, ReplayState, Store, Stored};

/// How long a question to the cluster may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the coordinator lets a transaction live.
const TRANSACTION: Duration = Duration::from_mins(1);

/// Event time of a line until it is known: lines have no timestamp beside what is in them.
const UNTIMED: Timestamp = Timestamp::MIN;
