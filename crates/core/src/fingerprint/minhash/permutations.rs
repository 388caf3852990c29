//! M orders of all shingles.

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

    /// Returns the number of permutations.
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.slots
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
