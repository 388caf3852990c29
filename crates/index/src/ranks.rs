//! Which positions a sparse column has values for, and the number of each value there.
//!
//! A bitmap of the positions with a count before each word (Jacobson, FOCS 1989): a look-up reads one word, where a
//! binary search would read a dozen values. It takes a quarter of a byte for each position of the ring.

use std::collections::VecDeque;

const BITS: u64 = u64::BITS as u64;

/// The positions that were added, numbered from 0 in that order.
#[derive(Clone, Debug, Default)]
pub struct Ranks {
    /// Number of the first word: the positions of word n are those from n times [`BITS`] on.
    first: u64,
    words: VecDeque<Word>,
    added: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// Positions that were added before those of this word.
    before: u64,
    bits: u64,
}

impl Ranks {
    /// Creates it without positions.
    #[must_use]
    pub const fn new() -> Self {
        Self { first: 0, words: VecDeque::new(), added: 0 }
    }

    /// Adds a position, which must come after all that were added before.
    pub fn push(&mut self, position: u64) {
        let number = position / BITS;
        if self.words.is_empty() {
            self.first = number;
        }
        while self.first + (self.words.len() as u64) <= number {
            self.words.push_back(Word { before: self.added, bits: 0 });
        }
        if let Some(word) = self.words.back_mut() {
            word.bits |= 1 << (position % BITS);
        }
        self.added += 1;
    }

    /// Returns the number of a position that was added. Dropped positions may still have theirs.
    #[inline]
    #[must_use]
    pub fn of(&self, position: u64) -> Option<u64> {
        let at = (position / BITS).checked_sub(self.first)?;
        let word = self.words.get(usize::try_from(at).ok()?)?;
        let bit = 1 << (position % BITS);
        (word.bits & bit != 0).then(|| word.before + u64::from((word.bits & (bit - 1)).count_ones()))
    }

    /// Returns how many positions were added.
    #[must_use]
    pub const fn added(&self) -> u64 {
        self.added
    }

    /// Drops the words that lie entirely before a position.
    pub fn drop_before(&mut self, position: u64) {
        while self.first < position / BITS && self.words.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Returns the memory reserved, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<Word>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_a_list(
            steps in prop::collection::vec((1..200_u64, any::<bool>(), 0..400_u64), 1..60)
        ) {
            let (mut ranks, mut list, mut next, mut dropped) = (Ranks::new(), Vec::new(), 0, 0);
            for (gap, drops, back) in steps {
                next += gap;
                ranks.push(next);
                list.push(next);
                if drops {
                    dropped = dropped.max(next.saturating_sub(back));
                    ranks.drop_before(dropped);
                }
                for position in dropped..next + 70 {
                    let expected = list.iter().position(|&held| held == position).map(|number| number as u64);
                    prop_assert_eq!(ranks.of(position), expected, "{}", position);
                }
            }
            prop_assert_eq!(ranks.added(), list.len() as u64);
        }
    }
}
