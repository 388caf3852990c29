//! The numbers by which the tables of bands know originals.
//!
//! A page that is looked up ahead is inserted at once, when it is not known yet whether it becomes an original. If it does
//! not, its number stays without one: a gap. Without gaps, the number of an original is its position.

use std::collections::VecDeque;
use std::ops::Range;

use dupgate_index::Ranks;

/// Which numbers are those of originals, in the order of their positions.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// The numbers without an original, ascending.
    gaps: VecDeque<u64>,
    /// How many gaps there were before them.
    passed: u64,
    /// Finds gaps by their numbers.
    ranks: Ranks,
}

impl Entries {
    /// Returns the position of an original; `None` for a gap.
    #[inline]
    pub(super) fn position(&self, number: u64) -> Option<u64> {
        if self.ranks.of(number).is_some() {
            return None;
        }
        number.checked_sub(self.ranks.before(number))
    }

    /// Returns the number of the original at a position, or which the next original would have there.
    #[inline]
    pub(super) fn number(&self, position: u64) -> u64 {
        // Each gap moves the originals after it by one.
        let (mut from, mut to) = (0, self.gaps.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            let is_before = self.gaps.get(middle).is_some_and(|gap| *gap <= position + self.passed + middle as u64);
            if is_before {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        position + self.passed + from as u64
    }

    /// Passes the positions of originals whose numbers are consecutive to `visit`, in order, and `None` for each gap.
    pub(super) fn runs(&self, numbers: Range<u64>, mut visit: impl FnMut(Option<Range<u64>>)) {
        let first = self.gaps.partition_point(|gap| *gap < numbers.start);
        let (mut number, mut before) = (numbers.start, self.passed + first as u64);
        for &gap in self.gaps.range(first..).take_while(|gap| **gap < numbers.end) {
            visit(Some(number - before..gap - before));
            visit(None);
            (number, before) = (gap + 1, before + 1);
        }
        visit(Some(number - before..numbers.end - before));
    }

    /// Adds a gap, after those before.
    pub(super) fn add_gap(&mut self, number: u64) {
        self.gaps.push_back(number);
        self.ranks.push(number);
    }

    /// Forgets the gaps before the original at a position.
    pub(super) fn drop_before(&mut self, position: u64) {
        let before = self.passed;
        while self.gaps.pop_front_if(|gap| *gap <= position + self.passed).is_some() {
            self.passed += 1;
        }
        if self.passed > before {
            self.ranks.drop_before(position + self.passed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A list of all numbers, with the originals counted.
        #[test]
        fn numbers_and_positions_are_those_of_a_list(are_originals in prop::collection::vec(any::<bool>(), 1..60), dropped in 0_u64..60) {
            let mut entries = Entries::default();
            let mut numbers = Vec::new();
            for (number, is_original) in (0..).zip(&are_originals) {
                if *is_original {
                    prop_assert_eq!(entries.number(numbers.len() as u64), number, "the next one");
                    numbers.push(number);
                } else {
                    entries.add_gap(number);
                }
            }
            let dropped = dropped.min(numbers.len() as u64);
            entries.drop_before(dropped);
            for (position, number) in (0_u64..).zip(&numbers).skip(usize::try_from(dropped).unwrap()) {
                prop_assert_eq!(entries.number(position), *number);
                prop_assert_eq!(entries.position(*number), Some(position));
            }
            let mut at_once = Vec::new();
            let from = numbers.get(usize::try_from(dropped).unwrap()).copied().unwrap_or(are_originals.len() as u64);
            entries.runs(from..are_originals.len() as u64, |run| match run {
                Some(positions) => at_once.extend(positions.map(Some)),
                None => at_once.push(None),
            });
            let one_by_one: Vec<Option<u64>> = (from..are_originals.len() as u64).map(|number| entries.position(number)).collect();
            prop_assert_eq!(at_once, one_by_one);
            let first = numbers.get(usize::try_from(dropped).unwrap()).copied().unwrap_or(u64::MAX);
            for (number, is_original) in (0..).zip(&are_originals).skip_while(|(number, _)| *number < first) {
                prop_assert_eq!(entries.position(number).is_some(), *is_original);
            }
        }
    }
}
