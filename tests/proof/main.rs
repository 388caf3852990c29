//! The proof: the real program, as processes, on a real broker, with everything around it falling.
//!
//! Afterwards everything that stands in the topics is read back and held against the input record by record
//! ([`ledger`]), and against a judge that works alone over a copy of the fingerprint log ([`alone`]).
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test stops at the first thing that is wrong"
)]

#[path = "../support/broker/mod.rs"]
mod broker;
#[path = "../support/cluster/mod.rs"]
mod cluster;

mod alone;
mod ledger;
mod team;

mod backlog;
mod bad_input;
mod burst;
mod falling;
mod hand_over;
mod meeting;
mod replay;
mod replay_files;
mod restore;
mod rewind;
mod warm;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tests run one after the other: each starts several processes that want the whole machine.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
