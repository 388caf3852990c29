//! Edge: the only module that names the Kafka client.
//!
//! Each file is one conversation with the cluster, with a separate thread where the client needs polling:
//! [`group_consumer`] (a consumer that belongs to a group), [`verdict_log`] (a reader that follows), [`fingerprint_log`]
//! (appending requests and reading them back), [`producer`] (one transactional producer), [`output`] (pages to records),
//! [`offsets`], [`pages`], [`range`], [`inspector`] and [`admin`] (requests with one answer), and [`demo`] for the demo. Those with a thread of their own report by handing values,
//! in order, to a sink given at the start; none makes decisions. [`budget`] bounds what was fetched, and counts the
//! records that the producers have yet to deliver.

pub mod admin;
pub mod budget;
pub mod client;
pub mod demo;
pub mod errors;
pub mod fingerprint_log;
pub mod group_consumer;
pub mod inspector;
pub mod offsets;
pub mod output;
pub mod pages;
mod partition_list;
pub mod producer;
pub mod range;
mod renewed_client;
pub mod verdict_log;
