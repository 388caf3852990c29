//! Room 6: unique, or duplicate of what?
mod events;
pub use events::{Effect, Event, Failure, Request};
/// A state at one offset.
#[derive(Clone, Debug)]
pub struct Snapshot;
/// The judge.
pub struct Judge;
