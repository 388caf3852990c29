//! Edge: builds the service, runs its threads, reads the clocks, and ends the process.
//!
//! [`service`] builds everything by constructors in walking order and supervises it. A *driver* is the thread that owns
//! one state machine ([`worker_driver`], [`judge_driver`]): it passes events and the current time in, and performs the
//! resulting effects through `kafka`. `driver` is the loop of both. [`text_pool`] runs the text work.

pub mod request_impact;
mod remaining_input;
pub mod clock;
pub mod parallel;
mod dead_letter_report;
mod instance_admin;
mod background_tasks;
mod reorder_buffer;
mod driver;
mod failed_transactions;
pub mod fatal;
pub mod output_settings;
mod judge_handle;
mod judge_message;
mod judge_report;
pub mod judge_driver;
mod judge_settings;
mod time_slice;
mod page_cache;
pub mod page_search;
pub(crate) mod lines;
mod pair_inspector;
mod pair_recorder;
mod minute_report;
pub mod operator_requests;
pub(crate) mod random;
mod record_processor;
pub mod schema_registry;
pub mod scheme_change;
pub mod state_summary;
pub mod replay;
pub mod verifier;
mod verdict_watch;
pub mod service;
pub mod process_lock;
mod snapshot_store;
mod test_case;
mod text_pool;
pub mod topics;
mod tree_budget;
mod tracer;
pub mod verdicts;
pub mod warm;
pub mod service_context;
mod worker_report;
pub mod worker_driver;

#[cfg(test)]
pub(crate) use record_processor::outcome as outcome_of_record;
