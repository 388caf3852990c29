//! Edge: the only module that names the Kafka client.
//!
//! Each file is one conversation with the cluster, with a separate thread where the client needs polling:
//! [`group_consumer`] (a consumer that belongs to a group), [`verdict_log`] (a reader that follows),
//! [`fingerprint_log`] (appending requests), [`producer`] (one transactional producer), [`output`] (pages to records), [`offsets`], [`first_records`], [`pages`], [`position_reader`],
//! [`requests`], [`inspector`] and [`admin`] (requests with one answer; [`log_topic`] judges what they find); [`page_producer`], and for the demo [`tail`]
//! and [`mock`]. Those with a thread of their own report by handing values, in order, to a sink given at the start;
//! none makes decisions. [`budget`] bounds what was fetched, and counts the records that the producers have yet to deliver.

pub mod admin;
pub mod log_topic;
pub mod client;
pub mod requests;
pub mod errors;
pub mod page_producer;
pub mod fingerprint_log;
pub mod budget;
pub mod first_records;
pub mod group_consumer;
pub mod mock;
pub mod offsets;
pub mod unassigned;
pub mod output;
pub mod pages;
pub mod position_reader;
mod renewed_client;
pub mod range;
pub mod inspector;
pub mod tail;
pub mod producer;
pub mod verdict_log;
mod watchdog;
