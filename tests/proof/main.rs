//! The proof: the real program, as processes, on a real broker, with everything around it falling.
//!
//! Afterwards everything that is in the topics is read back and held against the input record by record
//! ([`accounting`]), and against a judge that works alone over a copy of the fingerprint log ([`judge_alone`]).
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

mod judge_alone;
mod accounting;
mod several_instances;

mod backlog;
mod bad_input;
mod slow_judge;
mod crash_recovery;
mod take_over;
mod across_partitions;
mod replay;
mod replay_files;
mod replay_logs;
mod replay_newcomer;
mod replay_state;
mod restore;
mod rewound_group;
mod warm;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tests run one after the other: each starts several processes that want the whole machine.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
