//! The binary as its users call it: arguments and files in, output and exit codes out.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test")]

#[path = "../support/hostile_records.rs"]
mod hostile_records;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/wait.rs"]
mod wait;

mod test_command;
mod compare;
mod config;
mod demo;
mod eval;
mod explain;
mod hostile_pages;
mod ports_in_use;
mod operators;
mod help;
mod program;
mod replay;
mod secrets;
mod sieve;
mod stop_signals;
mod tune;
mod simhash_widths;
