//! What operators ask of a service from outside: to find pages and verdicts, to check the logs, to forget and to reopen.

pub mod page_search;
pub mod requests;
pub mod state_summary;
pub mod verdicts;
