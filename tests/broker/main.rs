//! Tests against a real Apache Kafka: the harness itself, and assumptions of the Kafka edge about client and broker.
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

#[path = "../support/broker/mod.rs"]
mod broker;
#[path = "../support/cluster/mod.rs"]
mod cluster;
#[path = "../support/process.rs"]
mod process;

mod acl;
mod client;
mod demo;
mod follower;
mod harness;
mod invariants;
mod log_topics;
mod http_server;
mod oauth;
mod first_start;
mod unassigned_partitions;
mod permits;
mod rebalance;
mod replay_failures;
mod replay_states;
mod reopened;
mod restore_progress;
mod index_verify;
mod run;
mod schemas;
mod secured;
mod messages;
mod pages;
mod terminal;
mod tracing;
mod walkthrough;
mod warm_twice;
mod running_service;
mod versions;
