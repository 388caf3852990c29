//! Edge: what the machine says about itself: metrics, log lines, health, recent pairs; and who may ask it to act.
//!
//! Pure rooms say nothing; their steps return observations, and `runtime` records them here. [`table`] lists every
//! metric once; [`Metrics`] has a typed function for each, so that no other room spells a metric's name.

pub mod admin;
pub mod caller;
pub mod figures;
pub mod health;
pub mod http;
pub mod labels;
pub mod listener;
pub mod logging;
pub mod metrics;
pub mod otlp;
pub mod overview;
pub mod pairs;
pub mod spans;
pub mod status;
pub mod table;

pub use health::{Beat, Check, Health};
pub use metrics::{IndexFigures, Metrics};
