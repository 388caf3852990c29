//! Caches the oldest originals of ids that many originals have.
//!
//! A page that names a canonical address is compared with the oldest originals of that id. If every page of a site
//! names one address, each page would need a search through all of them. So the cache keeps the oldest positions of
//! such an id, many more than are compared, and searches all of them only when most of those have left the window. It
//! changes no result: it returns what a full search would return.

use std::collections::VecDeque;

use crate::fingerprint::{AddressHash, IdHash};

/// The most ids in the cache; the least recently used one is dropped.
const MAX_IDS: usize = 256;

/// The most positions cached for one id.
const MAX_POSITIONS: usize = 2_048;

/// The oldest originals of some ids.
#[derive(Debug, Default)]
pub(super) struct OldestOfIds {
    /// The most recently used id is the last one.
    ids: VecDeque<(IdHash, Oldest)>,
    /// How often all originals of an id were searched.
    #[cfg(test)]
    pub(super) searches: u64,
}

#[derive(Debug)]
struct Oldest {
    /// In ascending order.
    positions: VecDeque<u64>,
    /// Whether the id has no others.
    is_complete: bool,
}

impl OldestOfIds {
    /// Returns the oldest `most` live originals of an id. `search` returns all originals of the id except forgotten
    /// ones, in any order; `first` is the first position in memory.
    pub(super) fn live(
        &mut self,
        id: IdHash,
        most: usize,
        first: u64,
        is_live: impl Fn(u64) -> bool,
        search: impl FnOnce() -> Vec<u64>,
    ) -> Vec<u64> {
        if let Some(at) = self.ids.iter().position(|(known, _)| *known == id)
            && let Some((_, mut oldest)) = self.ids.remove(at)
        {
            while oldest.positions.front().is_some_and(|position| *position < first) {
                oldest.positions.pop_front();
            }
            let live: Vec<u64> =
                oldest.positions.iter().copied().filter(|position| is_live(*position)).take(most).collect();
            if live.len() == most || oldest.is_complete {
                self.ids.push_back((id, oldest));
                return live;
            }
        }
        let mut all = search();
        #[cfg(test)]
        {
            self.searches += 1;
        }
        all.sort_unstable();
        let live = all.iter().copied().filter(|position| is_live(*position)).take(most).collect();
        if all.len() > most {
            let is_complete = all.len() <= MAX_POSITIONS;
            all.truncate(MAX_POSITIONS);
            if self.ids.len() == MAX_IDS {
                self.ids.pop_front();
            }
            self.ids.push_back((id, Oldest { positions: all.into(), is_complete }));
        }
        live
    }

    /// Adds a new original of an id. Its position must be larger than all others.
    pub(super) fn insert(&mut self, id: IdHash, position: u64) {
        if let Some((_, oldest)) = self.ids.iter_mut().find(|(known, _)| *known == id) {
            oldest.push(position);
        }
    }

    /// Adds a new original with an address that does not follow from its id.
    pub(super) fn insert_at(&mut self, address: AddressHash, id: Option<IdHash>, position: u64) {
        let is_named = |known: IdHash| AddressHash::of(known) == address && Some(known) != id;
        for (_, oldest) in self.ids.iter_mut().filter(|(known, _)| is_named(*known)) {
            oldest.push(position);
        }
    }

    /// Clears the cache, because originals were added without [`OldestOfIds::insert`].
    pub(super) fn clear(&mut self) {
        self.ids.clear();
    }
}

impl Oldest {
    fn push(&mut self, position: u64) {
        if self.positions.len() == MAX_POSITIONS {
            self.is_complete = false;
        }
        if self.is_complete {
            self.positions.push_back(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Some ids among which only a few are remembered, or one that has far more originals than are remembered.
    fn steps() -> impl Strategy<Value = Vec<(u64, u8)>> {
        prop_oneof![
            prop::collection::vec((0_u64..400, 0_u8..8), 0..1_500),
            prop::collection::vec((0_u64..2, 0_u8..8), 0..6_000),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_remembered_is_what_a_search_would_find(steps in steps(), most in 1_usize..70) {
            let mut remembered = OldestOfIds::default();
            // Ids by position; which of them are live; the first one in memory.
            let (mut held, mut dead, mut first) = (Vec::<u64>::new(), Vec::<bool>::new(), 0);
            for (id, kind) in steps {
                match kind {
                    0..=4 => {
                        remembered.insert(IdHash(id), held.len() as u64);
                        held.push(id);
                        dead.push(false);
                    }
                    5 if first < held.len() => first += 1,
                    6 if !held.is_empty() => {
                        let at = usize::try_from(id).unwrap() * 31 % held.len();
                        dead[at] = true;
                    }
                    _ => {}
                }
                let all = || (first..held.len()).filter(|&at| held[at] == id).map(|at| at as u64);
                let is_live = |position: u64| !dead[usize::try_from(position).unwrap()];
                let expected: Vec<u64> = all().filter(|&position| is_live(position)).take(most).collect();
                let found = remembered.live(IdHash(id), most, first as u64, is_live, || all().rev().collect());
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn all_of_an_id_are_looked_through_now_and_then_only() {
        const WINDOW: u64 = 20_000;
        let mut remembered = OldestOfIds::default();
        for head in 0..4 * WINDOW {
            remembered.insert(IdHash(7), head);
            let first = head.saturating_sub(WINDOW);
            let found = remembered.live(IdHash(7), 64, first, |_| true, || (first..=head).collect());
            assert_eq!(found, (first..=head).take(64).collect::<Vec<_>>());
        }
        // While there are no more than are asked for, and then one in some thousand.
        assert!(remembered.searches < 65 + 4 * WINDOW / 1_000, "{} searches", remembered.searches);
    }
}
