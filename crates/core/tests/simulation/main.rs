//! The whole machine without a broker: the real judge and the real worker run on a simulated cluster, where everything
//! goes wrong that can, and the laws of `docs/ARCHITECTURE.md` are checked after every step.
//!
//! Every schedule comes from a seed. `DUPGATE_SIM_SEEDS=from..to` runs other seeds than the first 300 (`make simulate`
//! runs 100,000), `DUPGATE_SIM_STEPS=n` makes each longer. A schedule that fails is shrunk to the steps and faults that it
//! needs, and the command that runs these again is printed.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first thing that is wrong, and says what it is"
)]

mod backlog;
mod bounded_work;
mod bus;
mod coverage;
mod crashes;
mod dual_period;
mod fleet;
mod judge_driver;
mod laws;
mod modes;
mod oracle;
mod pages;
mod producer;
mod replay;
mod scenarios;
mod schedule;
mod seeds;
mod settings;
mod worker_driver;
mod world;
