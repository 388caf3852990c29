//! A set out of a list: what repeats counts once.

/// Drops what repeats from lists of hashes: open addressing in a buffer that is used again for list after list.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Distinct {
    /// Each element at the first free place from its own on; 0 where there is none.
    places: Vec<u32>,
}

impl Distinct {
    /// Keeps the first of each element, in order. Takes a third of the time that sorting takes.
    pub(in super::super) fn keep_first(&mut self, elements: &mut Vec<u32>) {
        let count = elements.len().saturating_mul(2).next_power_of_two();
        self.places.clear();
        self.places.resize(count, 0);
        let mut had_zero = false;
        elements.retain(
            |&element| {
                if element == 0 { !std::mem::replace(&mut had_zero, true) } else { self.is_new(element) }
            },
        );
    }

    /// Takes an element in that is not 0; says whether it was not there. At least half of the places are free.
    #[inline]
    fn is_new(&mut self, element: u32) -> bool {
        let last = self.places.len().wrapping_sub(1);
        let mut at = element as usize & last;
        while let Some(place) = self.places.get_mut(at) {
            if *place == 0 {
                *place = element;
                return true;
            }
            if *place == element {
                return false;
            }
            at = (at + 1) & last;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_of_each_is_kept_in_order(
            lists in prop::collection::vec(prop::collection::vec((0..9_u32, 0..3_u32), 0..80), 1..4),
        ) {
            let mut distinct = Distinct::default();
            for list in lists {
                // Equal lower bits, so that elements stand in each other's way.
                let mut elements: Vec<u32> = list.iter().map(|(high, low)| high << 20 | low).collect();
                let mut seen = BTreeSet::new();
                let expected: Vec<u32> = elements.iter().copied().filter(|element| seen.insert(*element)).collect();
                distinct.keep_first(&mut elements);
                prop_assert_eq!(elements, expected);
            }
        }
    }
}
