//! The whole machine without a broker: the real judge and the real worker on a simulated cluster, with everything
//! that can go wrong going wrong, and the laws of `docs/ARCHITECTURE.md` checked after every step.
//!
//! Every schedule comes from a seed. `DUPGATE_SIM_SEEDS=from..to` runs other seeds than the first 300,
//! `DUPGATE_SIM_STEPS=n` makes each longer. A failure prints the command that runs its seed again.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first thing that is wrong, and says what it is"
)]

mod backlog;
mod bounded_work;
#[path = "../support/bus/mod.rs"]
mod bus;
mod crashes;
mod fleet;
#[path = "../support/judge_driver.rs"]
mod judge_driver;
mod laws;
mod modes;
mod oracle;
#[path = "../support/pages.rs"]
mod pages;
#[path = "../support/producer.rs"]
mod producer;
#[path = "../support/rng.rs"]
mod rng;
mod schedule;
mod seeds;
#[path = "../support/worker_driver.rs"]
mod worker_driver;
#[path = "../support/world.rs"]
mod world;
