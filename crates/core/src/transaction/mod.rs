//! One Kafka transaction as a state machine that makes no call itself.
//!
//! Both roles deliver by it: the judge verdicts with its place in the fingerprint log, the worker routed pages with
//! its input offsets. Records first, then the offsets, then the commit (law L2). The owner asks which [`Call`]
//! comes next, the edge makes it, the answer goes back in.

mod txn;

pub use txn::{Delivery, TransactionMachine, TxnStep};

use crate::record::Reject;

/// A call to the transactional producer. One at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Take over the transactional id: fences a predecessor and aborts what it left open.
    Init,
    /// Open a transaction.
    Begin,
    /// Send the records and wait until each is acknowledged.
    Produce,
    /// Add the consumed offsets, with member and generation of the group; at-least-once delivery commits them.
    SendOffsets,
    /// Commit.
    Commit,
    /// Abort.
    Abort,
}

/// Why a call failed, sorted by what happens next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The same call may be made again.
    #[error("{0}")]
    Retriable(String),
    /// The transaction must be aborted; a new one may follow.
    #[error("{0}")]
    Abortable(String),
    /// The broker will never take one of the records (its index in the transaction): abort.
    #[error("record {index} cannot be delivered: {}", reason.name())]
    Undeliverable {
        /// Which record, counted from 0 in the order handed over.
        index: usize,
        /// Why.
        reason: Reject,
    },
    /// Another process owns the transactional id now.
    #[error("{0}")]
    Fenced(String),
    /// The producer is beyond repair.
    #[error("{0}")]
    Fatal(String),
    /// A commit may or may not have happened.
    #[error("{0}")]
    Unknown(String),
}
