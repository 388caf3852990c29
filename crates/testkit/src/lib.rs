//! What the tests of several crates share.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot continue panics")]

pub mod hex;
pub mod ports;
pub mod rng;
pub mod site_builders;
