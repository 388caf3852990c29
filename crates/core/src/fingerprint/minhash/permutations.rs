//! How a set is reduced to few hashes: to its minima under M orders of all shingles, or to the k smallest under one
//! order (bottom-k).

use std::cmp::Ordering;

use pulp::{Arch, Simd, WithSimd};

use crate::fingerprint::seed::{SPLIT_MIX_STEP, split_mix};

/// Slots that are computed at once: their factors, offsets and minima stay in registers.
const LANES: usize = 32;

/// M functions `x -> a x + b` modulo 2^32, `a` odd: each a permutation of all 32-bit numbers.
///
/// Shingles come as hashes, which are random already, so the permutations need only differ from each other. Factors and
/// offsets are part of every scheme and must never change.
#[derive(Clone, Debug)]
pub struct Permutations {
    blocks: Vec<Block>,
    slots: usize,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    factors: [u32; LANES],
    offsets: [u32; LANES],
}

impl Permutations {
    /// Creates the first `slots` of an endless list of permutations.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        // SplitMix64 from a fixed start.
        let mut state = 0x6475_7067_6174_6521_u64;
        let mut draw = || {
            state = state.wrapping_add(SPLIT_MIX_STEP);
            high_half(split_mix(state))
        };
        let blocks = (0..slots.div_ceil(LANES))
            .map(|_| {
                let mut block = Block { factors: [0; LANES], offsets: [0; LANES] };
                for (factor, offset) in block.factors.iter_mut().zip(&mut block.offsets) {
                    (*factor, *offset) = (draw() | 1, draw());
                }
                block
            })
            .collect();
        Self { blocks, slots }
    }

    /// Replaces `minima` by the smallest value of all elements under each permutation, or `u32::MAX` if there are no
    /// elements. Elements may repeat.
    pub fn minima(&self, elements: &[u32], minima: &mut Vec<u32>) {
        minima.clear();
        // Integer operations only: the vector width changes the time, not the result.
        Arch::new().dispatch(Minima(&self.blocks, elements, minima));
        minima.truncate(self.slots);
    }
}

struct Minima<'a>(&'a [Block], &'a [u32], &'a mut Vec<u32>);

impl WithSimd for Minima<'_> {
    type Output = ();

    #[expect(clippy::inline_always, reason = "only inside the caller it is compiled for the processor at hand")]
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self(blocks, elements, minima) = self;
        for block in blocks {
            minima.extend_from_slice(&least(block, elements));
        }
    }
}

#[expect(clippy::inline_always, reason = "only inside the caller it is compiled for the processor at hand")]
#[inline(always)]
fn least(block: &Block, elements: &[u32]) -> [u32; LANES] {
    let Block { factors, offsets } = *block;
    let mut least = [u32::MAX; LANES];
    for element in elements {
        for ((least, factor), offset) in least.iter_mut().zip(factors).zip(offsets) {
            *least = (*least).min(element.wrapping_mul(factor).wrapping_add(offset));
        }
    }
    least
}

const fn high_half(bits: u64) -> u32 {
    let [a, b, c, d, ..] = bits.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// Bytes for each element.
pub(super) const SMALLEST_BYTES: usize = 4;

/// Padding for a set of fewer than k elements: no kept element has this value.
const PADDING: u32 = u32::MAX;

/// Returns the `k` smallest hashes of a set, ascending, each once (Broder's "bottom-k"): all of a smaller set.
///
/// It needs one hash for each element instead of M, but no bands can be cut from it. In a sketch, it follows the slots
/// ([`super::SketchForm::with_bottom`]).
pub(super) fn smallest(elements: &[u32], k: usize) -> Vec<u32> {
    let mut hashes = elements.to_vec();
    hashes.sort_unstable();
    hashes.dedup();
    hashes.truncate(k);
    hashes
}

/// Appends the `k` smallest of the elements, ascending, padded to `k`.
pub(super) fn write_smallest(elements: &[u32], k: usize, out: &mut Vec<u8>) {
    let kept = smallest(elements, k);
    let padding = std::iter::repeat(&PADDING);
    out.extend(kept.iter().chain(padding).take(k).flat_map(|element| element.to_be_bytes()));
}

/// Reads what [`write_smallest()`] wrote.
pub(super) fn read_smallest(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|bytes| u32::from_be_bytes(*bytes)).take_while(|element| *element != PADDING)
}

/// Returns how many of the `k` smallest elements of the union of two sets are in only one of them. If the union has
/// fewer elements, returns the same share of `k`, rounded up.
pub(super) fn distance_of_smallest(one: impl Iterator<Item = u32>, other: impl Iterator<Item = u32>, k: u8) -> u8 {
    let (both, seen) = shared_smallest(one, other, k.into());
    let alike = (both * usize::from(k)).checked_div(seen).unwrap_or(0);
    k.saturating_sub(u8::try_from(alike).unwrap_or(k))
}

/// Counts the elements of two ascending sets, among the k smallest of their union: those in both sets, and all of them.
pub(super) fn shared_smallest(
    one: impl Iterator<Item = u32>,
    other: impl Iterator<Item = u32>,
    k: usize,
) -> (usize, usize) {
    let (mut ours, mut theirs) = (one.peekable(), other.peekable());
    let (mut both, mut seen) = (0, 0);
    while seen < k {
        let order = match (ours.peek(), theirs.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.cmp(other),
        };
        if order != Ordering::Greater {
            ours.next();
        }
        if order != Ordering::Less {
            theirs.next();
        }
        both += usize::from(order == Ordering::Equal);
        seen += 1;
    }
    (both, seen)
}
