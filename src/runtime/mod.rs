//! What all processes share: the clock, threads, the context of the service, the loop of the drivers, and topics.
//!
//! A *driver* is the thread that owns one state machine ([`crate::worker`], [`crate::judge`]): it passes events and the
//! current time in, and performs the resulting effects through `kafka`. [`driver`] is the loop of both.

pub mod clock;
pub mod context;
pub(crate) mod driver;
pub mod fatal;
pub mod process_lock;
pub mod threads;
pub(crate) mod time_slice;
pub mod topics;
pub(crate) mod tree_budget;
pub(crate) mod verdict_watch;
