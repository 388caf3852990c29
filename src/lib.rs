//! Routes the near-duplicate pages of Kafka topics to a topic of their own.
//!
//! How one record passes through the modules. `runtime` drives every step; it is left out of the drawing:
//!
//! ```text
//! kafka/input -> record -> text -> fingerprint -> kafka/fingerprint_log
//!                                                  -> judge (index) -> kafka/verdict_log
//!                                                                       -> worker -> kafka/output -> commit
//! ```
//!
//! Modules named after a domain concept are pure: no Kafka, threads, clock or files. Modules named after a technology do I/O.

pub mod record;
pub mod text;
pub mod fingerprint;
pub mod protocol;
pub mod index;
pub mod judge;
pub mod transaction;
pub mod worker;
pub mod compare;
pub mod snapshot;
pub mod cli;
pub mod config;
pub mod error;
pub mod panics;
pub mod telemetry;
pub mod crawl;
pub mod kafka;
pub mod quality;
pub mod replay;
pub mod runtime;
pub mod sieve;
