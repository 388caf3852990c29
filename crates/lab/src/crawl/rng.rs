//! Chance that is the same on every machine and in every release.

use dupgate_core::fingerprint::{SPLIT_MIX_STEP, split_mix};

/// Steele, Lea and Flood's `SplitMix64` (OOPSLA 2014): 64 bits of state, integer arithmetic alone.
///
/// Written out here, not taken from a library, because the bytes of a generated crawl are part of its contract: a
/// library may change its stream with a new version.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Begins the stream for one `purpose` of page `number`: streams do not depend on each other, so any page can be
    /// written without those before it.
    pub(crate) const fn of(seed: u64, number: u64, purpose: u64) -> Self {
        Self(split_mix(split_mix(split_mix(seed) ^ number.wrapping_mul(SPLIT_MIX_STEP)) ^ split_mix(purpose)))
    }

    /// Returns the next 64 bits.
    pub(crate) const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(SPLIT_MIX_STEP);
        split_mix(self.0)
    }

    /// Returns a number below `bound`; 0 when `bound` is 0. Bounds past 2^32 count as 2^32 - 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((self.bits() >> 32) * bound.min(u64::from(u32::MAX))) >> 32
    }

    /// Returns a number of the inclusive range; `low` when the range is empty.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high + 1).saturating_sub(low))
    }

    /// Returns an index into something of this length; 0 when it is empty.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        Self::scaled(self.bits() >> 32, length)
    }

    /// Scales 32 random bits to an index into something of this length; 0 when it is empty.
    pub(crate) fn scaled(bits: u64, length: usize) -> usize {
        let bound = u64::try_from(length).unwrap_or(u64::MAX).min(u64::from(u32::MAX));
        usize::try_from((bits * bound) >> 32).unwrap_or(0)
    }

    /// Returns a number of `0.0 <= x < 1.0`.
    pub(crate) fn share(&mut self) -> f64 {
        let high = u32::try_from(self.bits() >> 32).unwrap_or(0);
        f64::from(high) / 4_294_967_296.0
    }

    /// Says yes `percent` times in a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the items, or `""` when there are none.
    pub(crate) fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        let index = self.index(items.len());
        items.get(index).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_that_of_the_paper() {
        // The first outputs of the reference implementation for the seed 1234567.
        let mut rng = Rng(1_234_567);
        let first = [rng.bits(), rng.bits(), rng.bits()];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_bound_is_never_reached_and_every_number_below_it_is_drawn() {
        let mut rng = Rng::of(1, 2, 3);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[rng.index(7)] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert!((0..1000).all(|_| (3..=5).contains(&rng.between(3, 5))));
        assert_eq!((rng.below(0), rng.between(4, 4)), (0, 4));
    }
}
