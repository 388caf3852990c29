//! Returns results in the order in which the work was submitted.

use std::collections::VecDeque;

/// A queue of slots. Each slot is reserved first and filled later; it leaves from the front, once it is filled.
#[derive(Debug)]
pub(crate) struct ReorderBuffer<T> {
    first: u64,
    places: VecDeque<Option<T>>,
}

impl<T> Default for ReorderBuffer<T> {
    fn default() -> Self {
        Self { first: 0, places: VecDeque::new() }
    }
}

impl<T> ReorderBuffer<T> {
    /// Reserves the next slot and returns its number.
    pub(crate) fn reserve(&mut self) -> u64 {
        let place = self.first + self.places.len() as u64;
        self.places.push_back(None);
        place
    }

    /// Fills a slot. Does nothing if the slot has already left or was never reserved.
    pub(crate) fn fill(&mut self, place: u64, value: T) {
        let index = place.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(slot) = index.and_then(|index| self.places.get_mut(index)) {
            *slot = Some(value);
        }
    }

    /// Reserves the next slot and fills it.
    pub(crate) fn push(&mut self, value: T) {
        self.places.push_back(Some(value));
    }

    /// Removes the first slot, if it is filled.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.places.front()?.as_ref()?;
        self.first += 1;
        self.places.pop_front().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn results_leave_in_the_order_of_their_places(order in Just((0..40_u64).collect::<Vec<_>>()).prop_shuffle()) {
            let mut queue = ReorderBuffer::default();
            for place in 0..40 {
                prop_assert_eq!(queue.reserve(), place);
            }
            let mut left = Vec::new();
            for place in order {
                queue.fill(place, place);
                left.extend(std::iter::from_fn(|| queue.pop()));
            }
            prop_assert_eq!(left, (0..40).collect::<Vec<_>>());
            prop_assert_eq!(queue.pop(), None);
        }
    }

    #[test]
    fn late_result_of_a_slot_that_left_is_ignored() {
        let mut queue = ReorderBuffer::default();
        let place = queue.reserve();
        queue.fill(place, 'a');
        assert_eq!(queue.pop(), Some('a'));
        queue.fill(place, 'b');
        queue.push('c');
        assert_eq!(queue.pop(), Some('c'));
    }
}
