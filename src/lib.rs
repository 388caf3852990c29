//! Routes the near-duplicate pages of Kafka topics to a topic of their own.
//!
//! One record's way, by module. `worker` and `judge` are the threads that drive the state machines of the same names in
//! [`dupgate_core`]:
//!
//! ```text
//! kafka -> worker -> processing (record, text, fingerprint) -> worker -> kafka (fingerprint log)
//!                                                                          -> judge (index) -> kafka (verdict log)
//!                                                                                                -> worker -> kafka (outputs)
//! ```
//!
//! `service` starts both and serves HTTP, `operators` asks a service from outside, `replay` judges topics and files
//! again, `cli` has the commands. All of them stand on `context` (what all parts of a service share), `topics`, `threads`
//! and `clock`.
//!
//! The pure code is in other crates: [`dupgate_core`] (all decisions), [`dupgate_index`] (the windowed index below it)
//! and [`dupgate_lab`] (generated crawls). The modules of this crate do I/O.

#![expect(
    missing_docs,
    reason = "the service is a program: a comment here adds something to the name, or is not there"
)]

pub use dupgate_core::{compare, deduplicator, fingerprint, index, protocol, record, text, transaction};
pub use dupgate_lab::{crawl, quality};

pub mod cli;
pub mod clock;
pub mod config;
pub mod context;
pub mod error;
pub mod fatal;
pub mod judge;
pub mod kafka;
pub mod operators;
pub mod process;
pub mod processing;
pub mod replay;
pub mod service;
pub mod snapshot;
pub mod telemetry;
pub mod threads;
pub mod topics;
pub mod worker;
