//! Room 7: a page meets its ruling.
mod events;
pub use events::{Disposition, Effect, Errand, Event, Failure, LogPartition, Output, Page, Request};
