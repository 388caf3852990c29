//! `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014): spreads numbers over all 64 bits.

/// The step from one state of the generator to the next.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads a number over all 64 bits. Different numbers stay different; 0 stays 0.
#[must_use]
pub const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Returns the first number that the generator draws from this state: different for different states, and not 0 for 0.
#[must_use]
pub const fn draw(state: u64) -> u64 {
    mix(state.wrapping_add(STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_the_reference() {
        // java.util.SplittableRandom and the C code of Vigna, started at 1234567.
        let drawn: Vec<u64> =
            (0..3_u64).map(|number| draw(1_234_567_u64.wrapping_add(STEP.wrapping_mul(number)))).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
