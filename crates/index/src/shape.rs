//! The shape of a table: which bits of a code choose its line, and which differences a probe covers.
//!
//! A table for [`WholeKey`]s stores nothing about its shape and computes less for each probe.

use std::fmt::Debug;

/// Bits of a code from which tags are cut.
pub(crate) const TAG_BITS: u32 = 24;

/// The golden ratio in 64 bits; a product's upper bits spread keys of any width.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// How a table uses codes: where an entry belongs, what tells it apart there, and where a probe looks.
pub trait Addressing: Debug + Send + Sync {
    /// Creates it for a table of this shape.
    fn of_shape(shape: Shape) -> Self;

    /// Returns where between 0 and 2^64 the code's line lies.
    fn place(&self, code: u64) -> u64;

    /// Returns the code's tag, of [`TAG_BITS`] bits.
    fn tag(&self, code: u64) -> u32;

    /// Returns the differences that a probe tries, the empty one first.
    fn flips(&self) -> &[Flip];
}

/// The whole code is the key, of which nothing may differ.
#[derive(Clone, Copy, Debug)]
pub struct WholeKey;

#[expect(clippy::inline_always, reason = "part of a job's inner loop")]
impl Addressing for WholeKey {
    fn of_shape(shape: Shape) -> Self {
        debug_assert_eq!((shape.mask, shape.flips.len()), (u64::MAX, 1));
        Self
    }

    #[inline(always)]
    fn place(&self, code: u64) -> u64 {
        code.wrapping_mul(GOLDEN)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the tag is cut out")]
    fn tag(&self, code: u64) -> u32 {
        code as u32 & ((1 << TAG_BITS) - 1)
    }

    #[inline(always)]
    fn flips(&self) -> &[Flip] {
        &[Flip { bits: 0, place: 0 }]
    }
}

/// Which bits of a code are a table's key, and how many of them may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Each moves some bits of the code to a place in the key, which begins at bit 63.
    pieces: [Piece; 2],
    /// Spreads keys. It is 1 if bits are flipped, because then the places have to differ as the keys do.
    factor: u64,
    /// The bits of the code that are in the key.
    mask: u64,
    /// How many bits of the key may differ: the table is probed once for each such difference.
    radius: u32,
    /// Those differences, the empty one first, each with the difference of the places.
    flips: Vec<Flip>,
    /// Rotates the code so that the tag is in its lowest bits.
    tag_turn: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    turn: u32,
    mask: u64,
}

/// A difference that a probe tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flip {
    /// The difference in the code.
    pub(crate) bits: u64,
    /// The difference in the place.
    pub(crate) place: u64,
}

/// Consecutive bits of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bits {
    /// Lowest bit.
    pub(crate) from: u32,
    /// How many.
    pub(crate) width: u32,
}

impl Bits {
    /// Returns a mask in which these bits are ones.
    pub(crate) const fn mask(self) -> u64 {
        if self.width == 0 { 0 } else { (u64::MAX >> (64 - self.width)) << self.from }
    }
}

impl Shape {
    /// Creates the shape whose key is two stretches of bits, of which `radius` may differ. `word` is the number of bits
    /// in a code; those above it are zeros, which would be useless in a tag.
    pub(crate) fn new(word: u32, stretches: [Bits; 2], radius: u32) -> Self {
        let mut pieces = [Piece::default(); 2];
        let (mut mask, mut top) = (0, 64);
        for (piece, bits) in pieces.iter_mut().zip(stretches) {
            top -= bits.width;
            let place = Bits { from: top, width: bits.width };
            *piece = Piece { turn: (64 + top - bits.from) % 64, mask: place.mask() };
            mask |= bits.mask();
        }
        let mut flips = vec![0];
        let mut from = 0;
        for _ in 0..radius {
            // Adds one more bit, above the highest so far, to each difference of the last weight.
            let until = flips.len();
            for at in from..until {
                let flip: u64 = flips.get(at).copied().unwrap_or(0);
                let above = if flip == 0 { 0 } else { flip.ilog2() + 1 };
                flips.extend((above..64).map(|bit| 1 << bit).filter(|bit| mask & bit != 0).map(|bit| flip | bit));
            }
            from = until;
        }
        let overlap = |turn: u32| (mask.rotate_right(turn) & ((1 << TAG_BITS) - 1)).count_ones();
        let turns = if word < 64 { word.saturating_sub(TAG_BITS) + 1 } else { 64 };
        let tag_turn = (0..turns).min_by_key(|&turn| overlap(turn)).unwrap_or(0);
        let factor = if radius == 0 { GOLDEN } else { 1 };
        let mut shape = Self { pieces, factor, mask, radius, flips: Vec::new(), tag_turn };
        shape.flips = flips.into_iter().map(|bits| Flip { bits, place: shape.place(bits) }).collect();
        shape
    }

    /// Returns the bits of the key.
    pub(crate) const fn mask(&self) -> u64 {
        self.mask
    }

    /// Returns whether two codes with this difference find each other here.
    #[inline]
    pub(crate) const fn covers(&self, difference: u64) -> bool {
        (difference & self.mask).count_ones() <= self.radius
    }

    /// Returns the number of keys, as a power of two.
    pub(crate) const fn key_bits(&self) -> u32 {
        self.mask.count_ones()
    }
}

impl Addressing for Shape {
    fn of_shape(shape: Shape) -> Self {
        shape
    }

    /// Different keys have different places, and if bits are flipped, the places of two codes differ by the place of
    /// their difference.
    #[inline]
    fn place(&self, code: u64) -> u64 {
        let [one, two] = self.pieces;
        let key = (code.rotate_left(one.turn) & one.mask) | (code.rotate_left(two.turn) & two.mask);
        key.wrapping_mul(self.factor)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the tag is cut out")]
    fn tag(&self, code: u64) -> u32 {
        code.rotate_right(self.tag_turn) as u32 & ((1 << TAG_BITS) - 1)
    }

    #[inline]
    fn flips(&self) -> &[Flip] {
        &self.flips
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_key_has_a_place_of_its_own_and_places_are_even() {
        let shape = Shape::new(64, [Bits { from: 40, width: 7 }, Bits { from: 3, width: 5 }], 1);
        let codes = (0..1_u64 << 12).map(|key| (key & 0x7F) << 40 | (key >> 7) << 3);
        let places: BTreeSet<u64> = codes.map(|code| shape.place(code)).collect();
        assert_eq!(places.len(), 1 << 12);
        // As many lines as keys: one each.
        let lines: BTreeSet<u64> = places.iter().map(|place| place >> 52).collect();
        assert_eq!(lines.len(), 1 << 12);
        let other_bits = !shape.mask();
        assert!(places.iter().all(|place| places.contains(place)));
        assert_eq!(shape.place(5 << 3), shape.place(5 << 3 | other_bits));
    }

    #[test]
    fn the_flips_are_all_small_differences_of_the_key() {
        for (radius, expected) in [(0, 1), (1, 1 + 21), (2, 1 + 21 + 210)] {
            let shape = Shape::new(64, [Bits { from: 32, width: 21 }, Bits { from: 0, width: 0 }], radius);
            let flips: BTreeSet<u64> = shape.flips().iter().map(|flip| flip.bits).collect();
            assert_eq!((shape.flips().len(), flips.len()), (expected, expected));
            let code = 0x1234_5678_9ABC_DEF0;
            assert!(shape.flips().iter().all(|flip| shape.place(code ^ flip.bits) == shape.place(code) ^ flip.place));
            assert!(flips.iter().all(|flip| flip & !shape.mask() == 0 && flip.count_ones() <= radius));
        }
    }

    #[test]
    fn a_tag_repeats_nothing_of_the_key_where_it_can() {
        for bits in [Bits { from: 0, width: 32 }, Bits { from: 32, width: 32 }, Bits { from: 13, width: 20 }] {
            let shape = Shape::new(64, [bits, Bits { from: 0, width: 0 }], 0);
            assert_eq!(shape.tag(bits.mask()), 0);
            assert_eq!(shape.tag(u64::MAX), 0x00FF_FFFF);
        }
    }

    #[test]
    fn a_tag_holds_no_bit_above_the_code() {
        for bits in [Bits { from: 0, width: 8 }, Bits { from: 8, width: 8 }, Bits { from: 20, width: 12 }] {
            let shape = Shape::new(32, [bits, Bits { from: 0, width: 0 }], 0);
            assert_eq!(shape.tag(u64::from(u32::MAX)), 0x00FF_FFFF);
            assert_eq!(shape.tag(!0 << 32), 0);
            let repeated = shape.tag(bits.mask()).count_ones();
            assert_eq!(repeated, (TAG_BITS + bits.width).saturating_sub(32).max(if bits.from == 8 { 8 } else { 0 }));
        }
    }
}
