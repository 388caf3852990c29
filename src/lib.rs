//! Routes the near-duplicate pages of Kafka topics to a topic of their own.
//!
//! One record's way through the rooms; every arrow leads to a new room, none is visited twice:
//!
//! ```text
//! kafka/input -> record -> text -> fingerprint -> kafka/fingerprint_log
//!                                                  -> judge (index) -> kafka/verdict_log
//!                                                                       -> worker -> kafka/output -> commit
//! ```
//!
//! Rooms named after things of the domain are pure: no Kafka, no threads, no clock, no files. Rooms named after a
//! technology are edges.

pub mod record;
pub mod text;
pub mod fingerprint;
pub mod log;
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
