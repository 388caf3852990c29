//! Random 64-bit ids.

use std::hash::{BuildHasher, RandomState};

use super::clock::wall_clock;

/// Draws a number from the randomness that the standard library takes from the system for its hash maps.
pub(crate) fn draw() -> u64 {
    RandomState::new().hash_one((wall_clock(), std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_differ() {
        assert_ne!(draw(), draw());
    }
}
