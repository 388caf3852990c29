//! A secret seed, so that attackers cannot craft text with a given fingerprint, and how it spreads over all bits.
//!
//! `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014) spreads numbers over all 64 bits.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// Mixed into the hash of every word and shingle, so that an attacker who does not know it cannot compute the code and
/// sketch of a text. Words whose plain hashes (XXH3) collide still do, and the hash of the `exact` stage has no seed. It
/// is part of the scheme; pages that were read with different seeds cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Seed(u64);

impl Seed {
    /// No seed: anyone can compute the hashes.
    pub const NONE: Self = Self(0);

    /// Creates a seed from a secret text.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        Self(split_mix_draw(xxh3_64(secret.as_bytes())).max(1))
    }

    /// Returns a number that differs between seeds. The seed can be computed from it, so only a short hash of it, that of
    /// the scheme, leaves the process.
    #[must_use]
    pub(super) fn digest(self) -> Option<u64> {
        (self.0 != 0).then(|| split_mix_draw(split_mix_draw(self.0) ^ 0x64_75_70_67_61_74_65))
    }

    /// Mixes the seed into the hash of a word. Equal hashes stay equal, different ones different.
    #[must_use]
    pub(crate) const fn mixed_128(self, hash: u128) -> u128 {
        if self.0 == 0 {
            return hash;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the halves are wanted")]
        let [lower, upper] = [hash as u64, (hash >> 64) as u64];
        let lower = split_mix_draw(lower ^ self.0);
        ((split_mix_draw(upper ^ lower ^ self.0) as u128) << 64) | lower as u128
    }

    /// Mixes the seed into the hash of a shingle. Equal hashes stay equal, different ones different.
    #[must_use]
    pub(crate) const fn mixed_32(self, hash: u32) -> u32 {
        if self.0 == 0 {
            return hash;
        }
        // Each step can be undone, so no two hashes become one.
        #[expect(clippy::cast_possible_truncation, reason = "the halves are wanted")]
        let [lower, upper] = [self.0 as u32, (self.0 >> 32) as u32];
        let mut bits = (hash ^ lower).wrapping_mul(0x85eb_ca6b);
        bits = (bits ^ (bits >> 13) ^ upper).wrapping_mul(0xc2b2_ae35);
        bits ^ (bits >> 16)
    }
}

/// Never prints the seed.
impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 == 0 { "Seed(none)" } else { "Seed([redacted])" })
    }
}

/// The step from one state of the generator to the next.
pub const SPLIT_MIX_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads a number over all 64 bits. Different numbers stay different; 0 stays 0.
#[must_use]
pub const fn split_mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Returns the first number that the generator draws from this state: different for different states, and not 0 for 0.
#[must_use]
pub(crate) const fn split_mix_draw(state: u64) -> u64 {
    split_mix(state.wrapping_add(SPLIT_MIX_STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_changes_every_hash_and_joins_no_two() {
        let seed = Seed::of("a secret");
        let mixed: std::collections::BTreeSet<u32> = (0..100_000).map(|hash| seed.mixed_32(hash)).collect();
        assert_eq!(mixed.len(), 100_000);
        assert!(
            (0..1000).all(|hash| seed.mixed_32(hash) != hash && seed.mixed_128(u128::from(hash)) != u128::from(hash))
        );
        assert_ne!(seed.mixed_128(1), Seed::of("another").mixed_128(1));
        assert_eq!((Seed::NONE.mixed_32(7), Seed::NONE.mixed_128(7), Seed::NONE.digest()), (7, 7, None));
    }

    #[test]
    fn a_seed_is_shown_nowhere() {
        let seed = Seed::of("a secret");
        assert_eq!(format!("{seed:?} {:?}", Seed::NONE), "Seed([redacted]) Seed(none)");
        assert_ne!(seed.digest(), Some(seed.0));
    }

    #[test]
    fn the_first_numbers_are_those_of_the_reference() {
        // java.util.SplittableRandom and the C code of Vigna, started at 1234567.
        let drawn: Vec<u64> = (0..3_u64)
            .map(|number| split_mix_draw(1_234_567_u64.wrapping_add(SPLIT_MIX_STEP.wrapping_mul(number))))
            .collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
