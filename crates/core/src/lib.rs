//! Finds near-duplicate pages: what dupgate decides, without Kafka, threads, clocks or files.
//!
//! How one record passes through the modules:
//!
//! ```text
//! record -> text -> fingerprint -> protocol (a request) -> judge (index) -> protocol (a verdict) -> worker
//! ```
//!
//! [`judge`] and [`worker`] are state machines that make no calls themselves: the time and all events are passed in,
//! and effects for the driver to carry out come out. [`deduplicator`] is the judge without any log: lines in, verdicts
//! out.
#![deny(clippy::iter_over_hash_type, clippy::print_stderr)]

pub mod record;
pub mod text;
pub mod fingerprint;
pub mod protocol;
pub mod index;
pub mod judge;
pub mod transaction;
pub mod worker;
pub mod deduplicator;
pub mod replay;
pub mod compare;
