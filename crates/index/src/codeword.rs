//! Codes as tables store them: one or two 64-bit words per code.
//!
//! The search for near codes is compiled once for each kind of code, so that nothing checks the width of an entry.

use std::fmt::Debug;
use std::ops::BitXor;

/// A code that [`crate::HammingIndex`] finds: one word for 32 and 64 bits, or two for 128.
pub trait Codeword: Copy + Debug + Eq + BitXor<Output = Self> + Into<u128> + Send + Sync + 'static {
    /// The width that fills it.
    const WIDTH: Width;

    /// A code of zeros.
    const ZERO: Self;

    /// Returns one of its words; word 0 has the lowest bits.
    #[must_use]
    fn word(self, number: usize) -> u64;

    /// Returns the code of an entry from the one word that a table holds, or `None` if codes have more than one.
    #[must_use]
    fn of_word(word: u64) -> Option<Self>;

    /// Returns the number of ones.
    #[must_use]
    fn ones(self) -> u32;

    /// Returns which of eight codes differ from this one in at most `reach` bits, one bit each. `words` does the same
    /// with eight words, faster than this function could.
    #[must_use]
    fn eight(self, codes: &[Self; 8], reach: u32, words: impl Fn(&[u64; 8], u64, u32) -> u32) -> u32;
}

#[expect(clippy::inline_always, reason = "part of a job's inner loop")]
impl Codeword for u64 {
    const WIDTH: Width = Width::B64;
    const ZERO: Self = 0;

    #[inline(always)]
    fn word(self, _: usize) -> u64 {
        self
    }

    #[inline(always)]
    fn of_word(word: u64) -> Option<Self> {
        Some(word)
    }

    #[inline(always)]
    fn ones(self) -> u32 {
        self.count_ones()
    }

    #[inline(always)]
    fn eight(self, codes: &[Self; 8], reach: u32, words: impl Fn(&[u64; 8], u64, u32) -> u32) -> u32 {
        words(codes, self, reach)
    }
}

#[expect(clippy::inline_always, reason = "part of a job's inner loop")]
impl Codeword for u128 {
    const WIDTH: Width = Width::B128;
    const ZERO: Self = 0;

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a word is cut out")]
    fn word(self, number: usize) -> u64 {
        if number == 0 { self as u64 } else { (self >> 64) as u64 }
    }

    #[inline(always)]
    fn of_word(_: u64) -> Option<Self> {
        None
    }

    #[inline(always)]
    fn ones(self) -> u32 {
        self.count_ones()
    }

    #[inline(always)]
    fn eight(self, codes: &[Self; 8], reach: u32, _: impl Fn(&[u64; 8], u64, u32) -> u32) -> u32 {
        let mut found = 0;
        for (place, held) in codes.iter().enumerate() {
            found |= u32::from((held ^ self).count_ones() <= reach) << place;
        }
        found
    }
}

/// Largest number of differing bits that tables are planned for.
pub const MAX_DISTANCE: u8 = 8;

/// The width of a code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// 32 bits: for up to some ten thousand pages; among more, too many are near by chance
    /// ([`Width::expected_chance_matches`]).
    B32,
    /// 64 bits.
    #[default]
    B64,
    /// 128 bits.
    B128,
}

impl Width {
    /// Every width, the narrowest first.
    pub const ALL: [Self; 3] = [Self::B32, Self::B64, Self::B128];

    /// Returns the number of bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        8 * self.bytes() as u32
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u8 {
        match self {
            Self::B32 => 4,
            Self::B64 => 8,
            Self::B128 => 16,
        }
    }

    /// Returns the width of this many bits, if there is one.
    #[must_use]
    pub fn of_bits(bits: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|width| width.bits() == bits)
    }

    /// Returns the number of differences with at most `ones` set bits, saturating at `u64::MAX`.
    ///
    /// ```
    /// # use dupgate_index::Width;
    /// assert_eq!(Width::B64.differences(3), 1 + 64 + 2_016 + 41_664);
    /// ```
    #[must_use]
    pub fn differences(self, ones: u32) -> u64 {
        let (bits, mut ways, mut all) = (u128::from(self.bits()), 1_u128, 1_u128);
        for taken in 0..u128::from(ones).min(bits) {
            ways = ways.saturating_mul(bits - taken) / (taken + 1);
            all = all.saturating_add(ways);
        }
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    /// Returns the expected number of unrelated originals within `max_distance` bits, assuming random codes. Real texts
    /// have more.
    ///
    /// ```
    /// # use dupgate_index::Width;
    /// assert!(Width::B64.expected_chance_matches(3, 20_000_000) < 1e-7);
    /// assert!(Width::B32.expected_chance_matches(3, 20_000_000) > 20.0);
    /// ```
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn expected_chance_matches(self, max_distance: u8, originals: u64) -> f64 {
        let bits = i32::try_from(self.bits()).unwrap_or(i32::MAX);
        self.differences(u32::from(max_distance)) as f64 * 0.5_f64.powi(bits) * originals as f64
    }
}
