//! Routes the near-duplicate pages of Kafka topics to a topic of their own.
//!
//! How one record passes through the modules. `runtime` drives every step; the drawing leaves it out:
//!
//! ```text
//! kafka/group_consumer -> record -> text -> fingerprint -> kafka/fingerprint_log
//!                                                           -> judge (index) -> kafka/verdict_log
//!                                                                                -> worker -> kafka/output -> commit
//! ```
//!
//! The pure code is in other crates: [`dupgate_core`] (all decisions), [`dupgate_index`] (the windowed index below it)
//! and [`dupgate_lab`] (generated crawls). The modules of this crate do I/O.

pub use dupgate_core::{
    compare, deduplicator, fingerprint, index, judge, protocol, record, replay, text, transaction, worker,
};
pub use dupgate_lab::{crawl, quality};

pub mod snapshot;
pub mod cli;
pub mod config;
pub mod error;
pub mod panics;
pub mod allocator;
pub mod telemetry;
pub mod kafka;
pub mod runtime;
