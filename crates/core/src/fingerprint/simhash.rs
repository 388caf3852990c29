//! The type of `SimHash` codes.

use std::fmt;
use std::str::FromStr;

use dupgate_index::Width;
use pulp::{Arch, Simd, WithSimd};

/// A `SimHash` (Charikar, STOC 2002): the codes of near texts differ in few bits. Codes of two widths belong to two
/// schemes and have no distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SimHash {
    /// Of 32 bits.
    B32(u32),
    /// Of 64 bits.
    B64(u64),
    /// Of 128 bits.
    B128(u128),
}

impl SimHash {
    /// Creates a code of this width from the lowest bits.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the lowest bits are wanted")]
    pub const fn from_low_bits(width: Width, bits: u128) -> Self {
        match width {
            Width::B32 => Self::B32(bits as u32),
            Width::B64 => Self::B64(bits as u64),
            Width::B128 => Self::B128(bits),
        }
    }

    /// Returns its width.
    #[must_use]
    pub const fn width(self) -> Width {
        match self {
            Self::B32(_) => Width::B32,
            Self::B64(_) => Width::B64,
            Self::B128(_) => Width::B128,
        }
    }

    /// Returns its bits, with zeros above them.
    #[must_use]
    pub fn bits(self) -> u128 {
        match self {
            Self::B32(bits) => u128::from(bits),
            Self::B64(bits) => u128::from(bits),
            Self::B128(bits) => bits,
        }
    }

    /// Returns the number of differing bits, from 0 (equal) to the width (complements); `None` where the widths differ.
    ///
    /// ```
    /// # use dupgate_core::fingerprint::SimHash;
    /// assert_eq!(SimHash::B64(0b1011).distance(SimHash::B64(0b0010)), Some(2));
    /// assert_eq!(SimHash::B64(0b1011).distance(SimHash::B32(0b1011)), None);
    /// ```
    #[must_use]
    pub const fn distance(self, other: Self) -> Option<u32> {
        match (self, other) {
            (Self::B32(one), Self::B32(other)) => Some((one ^ other).count_ones()),
            (Self::B64(one), Self::B64(other)) => Some((one ^ other).count_ones()),
            (Self::B128(one), Self::B128(other)) => Some((one ^ other).count_ones()),
            (Self::B32(_) | Self::B64(_) | Self::B128(_), _) => None,
        }
    }
}

impl fmt::Display for SimHash {
    /// Shows 8, 16 or 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::B32(bits) => write!(f, "{bits:08x}"),
            Self::B64(bits) => write!(f, "{bits:016x}"),
            Self::B128(bits) => write!(f, "{bits:032x}"),
        }
    }
}

/// A text that is not a `SimHash`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SimHash: expected 8, 16 or 32 hexadecimal digits")]
pub struct ParseSimHashError(String);

impl FromStr for SimHash {
    type Err = ParseSimHashError;

    /// Reads what [`SimHash`]'s `Display` shows: the number of digits determines the width.
    ///
    /// ```
    /// # use dupgate_core::fingerprint::SimHash;
    /// assert_eq!("000000ff".parse(), Ok(SimHash::B32(255)));
    /// assert!("ff".parse::<SimHash>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, ParseSimHashError> {
        let bad = || ParseSimHashError(text.to_owned());
        let is_hex = text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let width = u32::try_from(text.len() * 4).ok().filter(|_| is_hex).and_then(Width::of_bits).ok_or_else(bad)?;
        let bits = u128::from_str_radix(text, 16).map_err(|_| bad())?;
        Ok(Self::from_low_bits(width, bits))
    }
}

/// One hashed feature of a text, with its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Feature {
    /// Hash of the feature: 128 bits, or 64 with zeros above them.
    pub hash: u128,
    /// How much it counts, in any fixed-point unit: only ratios matter.
    pub weight: u32,
}

/// Creates the `SimHash` of weighted features (Charikar, STOC 2002).
///
/// For each feature, every bit of its hash votes for or against a 1 with the feature's weight. A bit of the result is 1
/// when it has more than half of the votes. All arithmetic is on integers, so neither the order of features nor the
/// machine changes a bit. Bits of the hashes beyond the width are ignored, so that a narrow code is the lower part of a
/// wide one. Without features, the result is 0, which must never be compared with anything: callers refuse such texts.
#[must_use]
pub(crate) fn simhash(features: &[Feature], width: Width) -> SimHash {
    #[expect(clippy::cast_possible_truncation, reason = "the halves are wanted")]
    let bits = match width {
        Width::B32 => u128::from(majority_bits::<32>(features, |hash| hash as u64)),
        Width::B64 => u128::from(majority_bits::<64>(features, |hash| hash as u64)),
        Width::B128 => {
            let upper = majority_bits::<64>(features, |hash| (hash >> 64) as u64);
            u128::from(upper) << 64 | u128::from(majority_bits::<64>(features, |hash| hash as u64))
        }
    };
    SimHash::from_low_bits(width, bits)
}

/// Returns which of the lowest bits of a part of the hashes have more than half of the votes.
fn majority_bits<const BITS: usize>(features: &[Feature], part: impl Fn(u128) -> u64) -> u64 {
    // Integer operations only: the vector width changes the time, not the result.
    Arch::new().dispatch(MajorityBits::<BITS, _>(features, part))
}

struct MajorityBits<'a, const BITS: usize, F>(&'a [Feature], F);

impl<const BITS: usize, F: Fn(u128) -> u64> WithSimd for MajorityBits<'_, BITS, F> {
    type Output = u64;

    #[expect(clippy::inline_always, reason = "only inside the caller it is compiled for the processor at hand")]
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> u64 {
        let Self(features, part) = self;
        // Votes for 1; those against are the rest of the total.
        let mut votes = [0_u64; BITS];
        let mut total = 0_u64;
        for feature in features {
            let (weight, hash) = (u64::from(feature.weight), part(feature.hash));
            total += weight;
            for (bit, votes) in votes.iter_mut().enumerate() {
                *votes += weight & 0_u64.wrapping_sub((hash >> bit) & 1);
            }
        }
        let majority = votes.iter().enumerate().filter(|(_, votes)| **votes * 2 > total);
        majority.fold(0, |bits, (bit, _)| bits | 1 << bit)
    }
}

/// Keeps the `top_k` features with the largest weights (0 keeps all); among equal weights, those with the smaller
/// hashes.
///
/// The order of the remaining features is not defined.
pub(crate) fn keep_strongest(features: &mut Vec<Feature>, top_k: usize) {
    if top_k > 0 && features.len() > top_k {
        features.select_nth_unstable_by_key(top_k, |feature| (std::cmp::Reverse(feature.weight), feature.hash));
        features.truncate(top_k);
    }
}

/// Returns `256 * (1 + log2(count))` for a count of at least 1, in integers: exact at powers of two, linear between
/// them.
#[must_use]
pub(crate) fn log_weight(count: u32) -> u32 {
    let count = count.max(1);
    let whole = count.ilog2();
    let above = u64::from(count - (1 << whole));
    let part = u32::try_from((above << 8) >> whole).unwrap_or(0);
    256 * (1 + whole) + part
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_code_is_shown_by_its_width_and_read_back(bits in any::<u128>(), flips in any::<u128>()) {
            for width in Width::ALL {
                let code = SimHash::from_low_bits(width, bits);
                let text = code.to_string();
                prop_assert_eq!(text.len() * 4, width.bits() as usize);
                prop_assert_eq!((text.parse(), code.width()), (Ok(code), width));
                let other = SimHash::from_low_bits(width, bits ^ flips);
                prop_assert_eq!(code.distance(other), Some((code.bits() ^ other.bits()).count_ones()));
                for another in Width::ALL.into_iter().filter(|another| *another != width) {
                    prop_assert_eq!(code.distance(SimHash::from_low_bits(another, bits)), None);
                }
            }
        }
    }

    #[test]
    fn what_is_no_code_is_refused() {
        for text in ["", "ff", "+00000ff", "000000fg", "0000000ff", "00000000000000000000000000000000ff"] {
            assert!(text.parse::<SimHash>().is_err(), "{text}");
        }
        let said = "xyz".parse::<SimHash>().unwrap_err().to_string();
        assert_eq!(said, "`xyz` is not a SimHash: expected 8, 16 or 32 hexadecimal digits");
    }

    #[test]
    fn differences_are_counted_as_pascal_has_it() {
        // Row by row: how many numbers of this many bits have this many ones.
        let mut row = vec![1_u64];
        for bits in 1..=128_u32 {
            row = (0..=9)
                .map(|ones| {
                    row.get(ones).unwrap_or(&0) + ones.checked_sub(1).and_then(|less| row.get(less)).unwrap_or(&0)
                })
                .collect();
            let Some(width) = Width::of_bits(bits) else { continue };
            for ones in 0..=8 {
                assert_eq!(width.differences(u32::try_from(ones).unwrap()), row[..=ones].iter().sum::<u64>());
            }
        }
        assert_eq!(Width::B128.differences(128), u64::MAX);
        assert_eq!(Width::B32.differences(32), 1 << 32);
    }
}
