//! The proof that a set of tables finds every pair within a distance.
//!
//! A table finds a pair when the difference of both codes has at most `radius` ones under its mask. That depends only
//! on how many ones stand in each *atom*: bits that belong to the same masks. Tables whose masks overlap, directly or by
//! way of others, form a group; no two groups share a bit. For each group every way to spread ones over its atoms is
//! tried, and the fewest ones that escape all its tables are found. A difference escapes all tables when it escapes
//! every group, so the fewest ones that do are the sum over the groups: with more than k, nothing within k bits is
//! missed. Nothing is sampled.

use super::shape::Shape;

/// What was proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Differences of at most k bits, all of them covered.
    pub differences: u64,
    /// Cases that were looked at one by one.
    pub cases: u64,
}

/// A difference that no table covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the difference {difference:016x} of {} bits is found by no table", .difference.count_ones())]
pub struct Gap {
    /// One such difference.
    pub difference: u64,
}

/// Proves that the tables find every pair within `max_distance` bits.
pub(super) fn prove(shapes: &[&Shape], max_distance: u32) -> Result<Proof, Gap> {
    let mut left: Vec<&Shape> = shapes.to_vec();
    let (mut escape, mut cases) = (0_u64, 0);
    while let Some(first) = left.pop() {
        let (mut group, mut mask) = (vec![first], first.mask());
        while let Some(at) = left.iter().position(|shape| shape.mask() & mask != 0) {
            let joined = left.swap_remove(at);
            mask |= joined.mask();
            group.push(joined);
        }
        match fewest_that_escape(&group, mask, max_distance, &mut cases) {
            Some(ones) => escape |= ones,
            // This group alone finds every pair.
            None => return Ok(Proof { differences: within(max_distance), cases }),
        }
    }
    if escape.count_ones() > max_distance {
        Ok(Proof { differences: within(max_distance), cases })
    } else {
        Err(Gap { difference: escape })
    }
}

/// Returns how many differences have at most so many ones.
fn within(ones: u32) -> u64 {
    (0..=u64::from(ones)).map(|ones| (0..ones).fold(1, |ways, taken| ways * (64 - taken) / (taken + 1))).sum()
}

/// Finds a smallest difference, of at most `most` ones, that no table of a group covers.
fn fewest_that_escape(group: &[&Shape], mask: u64, most: u32, cases: &mut u64) -> Option<u64> {
    let mut atoms: Vec<u64> = Vec::new();
    for bit in (0..64).map(|bit| 1_u64 << bit).filter(|bit| mask & bit != 0) {
        let is_like = |atom: u64| group.iter().all(|shape| (shape.mask() & bit != 0) == (shape.mask() & atom != 0));
        match atoms.iter_mut().find(|atom| is_like(**atom)) {
            Some(atom) => *atom |= bit,
            None => atoms.push(bit),
        }
    }
    let mut fewest: Option<u64> = None;
    spread(&atoms, most, 0, &mut |difference| {
        *cases += 1;
        let is_smaller = fewest.is_none_or(|fewest| difference.count_ones() < fewest.count_ones());
        if is_smaller && !group.iter().any(|shape| shape.covers(difference)) {
            fewest = Some(difference);
        }
    });
    fewest
}

/// Visits one difference for each way to spread at most `ones` over the atoms.
fn spread(atoms: &[u64], ones: u32, difference: u64, visit: &mut impl FnMut(u64)) {
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
    use super::super::shape::Bits;
    use super::*;

    const NO_BITS: Bits = Bits { from: 0, width: 0 };

    fn bands(count: u32) -> Vec<Shape> {
        let band = |number| Bits { from: 64 * number / count, width: 64 * (number + 1) / count - 64 * number / count };
        (0..count).map(|number| Shape::new([band(number), NO_BITS], 0)).collect()
    }

    fn proved(shapes: &[Shape], distance: u32) -> Result<Proof, Gap> {
        prove(&shapes.iter().collect::<Vec<_>>(), distance)
    }

    #[test]
    fn as_many_bands_as_bits_differ_leave_a_gap_and_one_more_does_not() {
        for distance in 1..=8 {
            let gap = proved(&bands(distance), distance).unwrap_err();
            assert!(gap.difference.count_ones() <= distance);
            assert!(bands(distance).iter().all(|shape| !shape.covers(gap.difference)));
            assert!(proved(&bands(distance + 1), distance).is_ok());
        }
        assert_eq!(proved(&bands(4), 3).unwrap().differences, 43_745);
    }

    #[test]
    fn a_bit_too_many_in_a_key_is_noticed() {
        // Both halves with flips of one bit find three; with a table that lacks them they do not.
        let half = |from, radius| Shape::new([Bits { from, width: 32 }, NO_BITS], radius);
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
            less[0] = Shape::new([Bits { from: 1, width }, NO_BITS], 0);
            cuts.push(less);
        }
        for cut in cuts {
            assert_eq!(proved(&cut, 3).is_ok(), every(&cut));
        }
    }
}
