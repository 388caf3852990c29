//! Random 64-bit ids.

use std::hash::{BuildHasher, RandomState};

use super::clock::wall_clock;

/// Returns a number from the system randomness that the standard library uses for its hash maps.
pub(crate) fn random_id() -> u64 {
    RandomState::new().hash_one((wall_clock(), std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_differ() {
        assert_ne!(random_id(), random_id());
    }
}
