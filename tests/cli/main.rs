//! The binary as its users call it: arguments and files in, output and exit codes out.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test")]

#[path = "../support/process.rs"]
mod process;

mod cases;
mod compare;
mod config;
mod demo;
mod eval;
mod explain;
mod hostile;
mod listen;
mod operators;
mod printed;
mod program;
mod replay;
mod secrets;
mod sieve;
mod tune;
mod widths;
