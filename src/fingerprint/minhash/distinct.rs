//! How many different elements a list has.

/// Places for each element of a list.
const PLACES: usize = 64;

/// Counts different hashes in a buffer that is used again for list after list.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Distinct {
    /// One bit a place.
    taken: Vec<u64>,
}

impl Distinct {
    /// Returns how many different elements there are, or somewhat less: two of them may have the same place, which happens to
    /// fewer than one in a hundred (linear counting: Whang, Vander-Zanden and Taylor, TODS 1990). Sorting takes ten times as
    /// long.
    pub(in super::super) fn count(&mut self, elements: &[u32]) -> usize {
        let words = (elements.len() * PLACES).div_ceil(u64::BITS as usize).next_power_of_two();
        self.taken.clear();
        self.taken.resize(words, 0);
        let mut count = 0;
        for &element in elements {
            let place = 1_u64 << (element % u64::BITS);
            if let Some(word) = self.taken.get_mut((element / u64::BITS) as usize & (words - 1)) {
                count += usize::from(*word & place == 0);
                *word |= place;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn different_ones_are_counted_within_a_hundredth(
            lists in prop::collection::vec((prop::collection::vec(any::<u32>(), 1..4_000), 1_usize..4), 1..4),
        ) {
            let mut distinct = Distinct::default();
            for (hashes, times) in lists {
                let different = hashes.iter().collect::<BTreeSet<_>>().len();
                let counted = distinct.count(&hashes.repeat(times));
                let missed = different.checked_sub(counted);
                prop_assert!(missed.is_some_and(|missed| missed * 100 <= different + 400), "{counted} of {different}");
            }
        }
    }
}
