//! Running a replay: pages come in, rulings and pages go out, in the order of the plan. And comparing its verdicts.

mod by_log;
mod by_time;
mod compare;
mod feed;
pub(super) mod log_stream;
pub(super) mod pace;
mod planning;
mod run;
mod store;
mod walk;
mod writer;

use std::time::Duration;

pub use compare::{Texts, compare};
pub use pace::{NotARate, Rate};
pub use planning::{Draft, Extent, Sample, Wanted, check, estimate, make};
pub use run::{Options, Outcome, Phase, Report, run};
pub use store::{Lock, Store, Stored};

/// How long a question to the cluster may take.
const QUERY: Duration = Duration::from_secs(30);
