//! The proof: the real program, as processes, on a real broker, with failures of everything around it.
//!
//! Afterwards all topics are read back and compared with the input record by record ([`accounting`]), and with a judge
//! that runs alone on a copy of the fingerprint log ([`judge_alone`]).
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test stops at the first failure"
)]

#[path = "../support/broker/mod.rs"]
mod broker;
#[path = "../support/cluster/mod.rs"]
mod cluster;
#[path = "../support/hostile_records.rs"]
mod hostile_records;

mod judge_alone;
mod accounting;
mod flow;
mod kubernetes;
mod several_instances;

mod backlog;
mod bad_input;
mod slow_judge;
mod crash_recovery;
mod dual_period;
mod chaos;
mod soak;
mod fleet;
mod take_over;
mod rolling_upgrade;
mod across_partitions;
mod replay;
mod replay_files;
mod replay_kills;
mod replay_logs;
mod replay_newcomer;
mod replay_state;
mod restore;
mod rewound_group;
mod warm;

use std::sync::{Condvar, Mutex, PoisonError};

/// Shares of the machine that tests have taken, of [`SHARES`].
static TAKEN: (Mutex<u8>, Condvar) = (Mutex::new(0), Condvar::new());

/// Number of tests with one share each that may run at the same time: one that waits takes a tenth of a core.
const SHARES: u8 = 4;

/// The shares of the machine that a test holds, until it ends.
struct Turn(u8);

/// Waits until the machine is free, and takes all of it: for tests of several instances under load, and of timing.
fn turn() -> Turn {
    Turn::take(SHARES)
}

/// Waits until half of the machine is free: for tests of several instances that are not about time.
fn half_turn() -> Turn {
    Turn::take(SHARES / 2)
}

/// Waits for one share of the machine: for tests that mostly wait for brokers and for processes to end.
fn quarter_turn() -> Turn {
    Turn::take(1)
}

impl Turn {
    fn take(shares: u8) -> Self {
        let (taken, freed) = &TAKEN;
        let taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut u8| *taken + shares > SHARES;
        *freed.wait_while(taken, is_full).unwrap_or_else(PoisonError::into_inner) += shares;
        Self(shares)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (taken, freed) = &TAKEN;
        *taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        freed.notify_all();
    }
}
