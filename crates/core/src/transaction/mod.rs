//! One Kafka transaction, as a state machine that makes no calls itself.
//!
//! Both roles deliver through it: the judge its verdicts with its position in the fingerprint log, the worker its
//! routed pages with its input offsets. Records come first, then the offsets, then the commit (law L2). The owner asks
//! which [`Call`] comes next, the edge makes it, and the owner passes the answer back.

mod batch_limit;
mod txn;

pub use batch_limit::BatchLimit;
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
    /// Add the consumed offsets, with the member id and the generation of the group. With at-least-once delivery, this
    /// commits them.
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
    /// The broker will never accept one of the records (its index in the transaction): abort.
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
