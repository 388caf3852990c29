//! The proof that a set of tables finds every pair within a distance.
//!
//! A table finds a pair when the difference of both codes has at most `radius` ones under its mask. That depends only
//! on the number of ones in each *atom*: bits that belong to the same masks. Tables whose masks overlap, directly or
//! through others, form a group; no two groups share a bit. For each group, the proof tries every way to spread ones
//! over its atoms, and finds the fewest ones that escape all its tables. A difference escapes all tables when it
//! escapes every group, so the fewest ones that do are the sum over the groups. If the sum is more than k, nothing
//! within k bits is missed. Nothing is sampled.
//!
//! The two words of a 128-bit code have tables of their own, which share no bit, so every group belongs to one word.
//! Therefore, a proof for 128 bits costs no more than two for 64.

use crate::Width;
use crate::shape::Shape;

/// What was proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Number of differences of at most k bits, all of them covered.
    pub differences: u64,
    /// Number of cases that were tried one by one.
    pub cases: u64,
}

/// A difference that no table covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the difference {difference:016x} of {} bits is found by no table", .difference.count_ones())]
pub struct Gap {
    /// One such difference.
    pub difference: u128,
}

/// The shape of a table, and the word of the codes that it searches.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// The shape.
    pub(crate) shape: Shape,
    /// 0 for the lower 64 bits, 1 for the upper ones.
    pub(crate) word: usize,
}

impl Placed {
    const fn turn(&self) -> u32 {
        if self.word == 0 { 0 } else { 64 }
    }

    fn mask(&self) -> u128 {
        u128::from(self.shape.mask()) << self.turn()
    }

    #[expect(clippy::cast_possible_truncation, reason = "a word is cut out")]
    const fn covers(&self, difference: u128) -> bool {
        self.shape.covers((difference >> self.turn()) as u64)
    }
}

/// Proves that the tables find every pair of codes of this width within `max_distance` bits.
pub(crate) fn prove(width: Width, tables: &[Placed], max_distance: u32) -> Result<Proof, Gap> {
    let mut left: Vec<&Placed> = tables.iter().collect();
    let (mut escape, mut cases) = (0_u128, 0);
    let differences = width.differences(max_distance);
    while let Some(first) = left.pop() {
        let (mut group, mut mask) = (vec![first], first.mask());
        while let Some(at) = left.iter().position(|table| table.mask() & mask != 0) {
            let joined = left.swap_remove(at);
            mask |= joined.mask();
            group.push(joined);
        }
        match fewest_that_escape(&group, mask, max_distance, &mut cases) {
            Some(ones) => escape |= ones,
            // This group alone finds every pair.
            None => return Ok(Proof { differences, cases }),
        }
    }
    if escape.count_ones() > max_distance { Ok(Proof { differences, cases }) } else { Err(Gap { difference: escape }) }
}

/// Finds a smallest difference, of at most `most` ones, that no table of a group covers.
fn fewest_that_escape(group: &[&Placed], mask: u128, most: u32, cases: &mut u64) -> Option<u128> {
    let mut atoms: Vec<u128> = Vec::new();
    for bit in (0..128).map(|bit| 1_u128 << bit).filter(|bit| mask & bit != 0) {
        let is_like = |atom: u128| group.iter().all(|table| (table.mask() & bit != 0) == (table.mask() & atom != 0));
        match atoms.iter_mut().find(|atom| is_like(**atom)) {
            Some(atom) => *atom |= bit,
            None => atoms.push(bit),
        }
    }
    let mut fewest: Option<u128> = None;
    spread(&atoms, most, 0, &mut |difference| {
        *cases += 1;
        let is_smaller = fewest.is_none_or(|fewest| difference.count_ones() < fewest.count_ones());
        if is_smaller && !group.iter().any(|table| table.covers(difference)) {
            fewest = Some(difference);
        }
    });
    fewest
}

/// Visits one difference for each way to spread at most `ones` over the atoms.
fn spread(atoms: &[u128], ones: u32, difference: u128, visit: &mut impl FnMut(u128)) {
    let Some((&atom, rest)) = atoms.split_first() else { return visit(difference) };
    let (mut here, mut left) = (0, atom);
    for taken in 0..=ones.min(atom.count_ones()) {
        spread(rest, ones - taken, difference | here, visit);
        here |= left & left.wrapping_neg();
        left &= left.wrapping_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Bits;

    const NO_BITS: Bits = Bits { from: 0, width: 0 };

    fn bands(count: u32) -> Vec<Shape> {
        let band = |number| Bits { from: 64 * number / count, width: 64 * (number + 1) / count - 64 * number / count };
        (0..count).map(|number| Shape::new(64, [band(number), NO_BITS], 0)).collect()
    }

    fn placed(shapes: &[Shape], word: usize) -> Vec<Placed> {
        shapes.iter().map(|shape| Placed { shape: shape.clone(), word }).collect()
    }

    fn proved(shapes: &[Shape], distance: u32) -> Result<Proof, Gap> {
        prove(Width::B64, &placed(shapes, 0), distance)
    }

    #[test]
    fn two_words_need_as_many_bands_together_as_one_alone() {
        for distance in 1..=8 {
            for below in 0..=distance + 1 {
                let words = [placed(&bands(below), 0), placed(&bands(distance + 1 - below), 1)].concat();
                let proof = prove(Width::B128, &words, distance).unwrap();
                assert_eq!(proof.differences, Width::B128.differences(distance));
                for left_out in 0..words.len() {
                    let mut less = words.clone();
                    less.remove(left_out);
                    let gap = prove(Width::B128, &less, distance).unwrap_err().difference;
                    assert!(gap.count_ones() <= distance && !less.iter().any(|table| table.covers(gap)), "{gap:x}");
                }
            }
        }
    }

    #[test]
    fn as_many_bands_as_bits_differ_leave_a_gap_and_one_more_does_not() {
        for distance in 1..=8 {
            let gap = proved(&bands(distance), distance).unwrap_err();
            assert!(gap.difference.count_ones() <= distance);
            assert!(placed(&bands(distance), 0).iter().all(|table| !table.covers(gap.difference)));
            assert!(proved(&bands(distance + 1), distance).is_ok());
        }
        assert_eq!(proved(&bands(4), 3).unwrap().differences, 43_745);
    }

    #[test]
    fn a_bit_too_many_in_a_key_is_noticed() {
        // Both halves with flips of one bit find three; with a table that lacks them they do not.
        let half = |from, radius| Shape::new(64, [Bits { from, width: 32 }, NO_BITS], radius);
        assert!(proved(&[half(0, 1), half(32, 1)], 3).is_ok());
        assert!(proved(&[half(0, 1), half(32, 0)], 3).is_err());
        assert!(proved(&[half(0, 1), half(31, 1)], 3).is_err(), "bit 31 is in both keys");
    }

    #[test]
    fn looking_at_every_difference_says_the_same() {
        let every = |shapes: &[Shape]| {
            let mut differences = vec![0_u64];
            for bit in 0..64 {
                let with: Vec<u64> =
                    differences.iter().filter(|held| held.count_ones() < 3).map(|held| held | 1 << bit).collect();
                differences.extend(with);
            }
            assert_eq!(differences.len(), 43_745);
            differences.iter().all(|&difference| shapes.iter().any(|shape| shape.covers(difference)))
        };
        let mut cuts = vec![bands(3), bands(4), bands(5)];
        for (skipped, width) in (9..14).enumerate() {
            let mut less = bands(5);
            less.remove(skipped);
            less[0] = Shape::new(64, [Bits { from: 1, width }, NO_BITS], 0);
            cuts.push(less);
        }
        for cut in cuts {
            assert_eq!(proved(&cut, 3).is_ok(), every(&cut));
        }
    }
}
