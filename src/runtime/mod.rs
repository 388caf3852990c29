//! Edge: wiring, threads, clocks, the end of the process.
//!
//! [`service`] builds everything by constructors in walking order and supervises it. A *seat* is the thread of one
//! state machine ([`worker_seat`], [`judge_seat`]): it hands events to the machine with the time of day, carries its
//! effects out by the `kafka` room, and is the only owner of that machine. [`text_pool`] is where text work runs.

pub mod affected;
mod backlogs;
pub mod clock;
pub mod cores;
mod dead_letter_report;
mod desk;
mod errands;
mod in_order;
mod judge_report;
pub mod judge_seat;
mod judge_settings;
mod judge_turn;
mod kept_pages;
pub(crate) mod lines;
mod lookout;
mod minute;
pub mod petition;
pub(crate) mod random;
mod reading;
pub mod remembered;
pub mod replay;
pub mod retrial;
mod ruling_watch;
pub mod service;
mod shelf;
mod test_case;
mod text_pool;
pub mod topics;
mod tree_budget;
mod tracer;
pub mod verdicts;
pub mod warm;
pub mod wiring;
mod worker_report;
pub mod worker_seat;
