//! Codes as tables store them: one or two 64-bit words per code.
//!
//! The search for near codes is compiled once for each kind of code, so that nothing checks the width of an entry.

use std::fmt::Debug;
use std::ops::BitXor;

use crate::Width;

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
