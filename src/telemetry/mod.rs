//! Edge: metrics, logging, health, recent pairs, and the admin API.
//!
//! The pure modules report nothing; their steps return observations, and the drivers record them here. [`catalog`] lists
//! every metric once; [`Metrics`] has a typed function for each, so that no other module writes a metric's name.

pub mod admin;
pub mod catalog;
pub mod health;
pub mod http;
pub mod http_client;
pub mod http_server;
pub mod labels;
pub mod logging;
pub mod metrics;
pub mod overview;
pub mod pairs;
pub mod spans;

pub use health::{Check, Health, Heartbeat};
pub use metrics::{IndexTotals, MetricValues, Metrics, ReplayProgress};
