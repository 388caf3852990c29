//! Counts the distinct elements of a list.

/// Places for each element of a list.
const PLACES: usize = 64;

/// Counts distinct hashes, in a buffer that is reused for list after list.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Distinct {
    /// One bit for each place.
    taken: Vec<u64>,
}

impl Distinct {
    /// Returns the number of distinct elements, or slightly fewer: two of them may fall into the same place, which on
    /// average happens to at most one in 128 (as in linear counting: Whang, Vander-Zanden and Taylor, TODS 1990).
    /// Sorting takes ten times as long.
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
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn different_ones_are_counted_but_for_those_that_share_a_place(
            lists in prop::collection::vec((prop::collection::vec(any::<u32>(), 1..4_000), 1_usize..4), 1..4),
        ) {
            let mut distinct = Distinct::default();
            for (hashes, times) in lists {
                let different = hashes.iter().collect::<BTreeSet<_>>().len();
                let counted = distinct.count(&hashes.repeat(times));
                // Pairs that share a place are as many as Poisson has it: six standard deviations are never seen.
                let places = (64 * (hashes.len() * times).next_power_of_two()) as f64;
                let pairs = (different * different) as f64 / (2.0 * places);
                let missed = different.checked_sub(counted).map(|missed| missed as f64);
                let most = pairs + 6.0 * pairs.sqrt() + 2.0;
                prop_assert!(missed.is_some_and(|missed| missed <= most), "{counted} of {different}, {most} may be missed");
            }
        }
    }
}
