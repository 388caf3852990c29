//! Weighted features -> one fingerprint that is near for near texts.

use pulp::{Arch, Simd, WithSimd};

use super::{SimHash, Width};

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
///
/// ```
/// # use dupgate_core::fingerprint::{Feature, SimHash, Width, simhash};
/// let features = [Feature { hash: 0b0110, weight: 3 }, Feature { hash: 0b1010, weight: 2 }];
/// assert_eq!(simhash(&features, Width::B64), SimHash::B64(0b0110));
/// ```
#[must_use]
pub fn simhash(features: &[Feature], width: Width) -> SimHash {
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
pub fn keep_strongest(features: &mut Vec<Feature>, top_k: usize) {
    if top_k > 0 && features.len() > top_k {
        features.select_nth_unstable_by_key(top_k, |feature| (std::cmp::Reverse(feature.weight), feature.hash));
        features.truncate(top_k);
    }
}

/// Returns `256 * (1 + log2(count))` for a count of at least 1, in integers: exact at powers of two, linear between
/// them.
#[must_use]
pub fn log_weight(count: u32) -> u32 {
    let count = count.max(1);
    let whole = count.ilog2();
    let above = u64::from(count - (1 << whole));
    let part = u32::try_from((above << 8) >> whole).unwrap_or(0);
    256 * (1 + whole) + part
}
