//! What the tests of several crates share.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod hex;
