//! Remembers the keys of the sketches that were looked up lately.
//!
//! The keys of a page are needed four times: when its lines are prefetched, when it is looked up, when its placement is
//! chosen and when it is inserted. Computing them takes as long as reading a good part of the lines.

use crate::fingerprint::Sketch;
use crate::protocol::MinHashRules;

/// Number of sketches that are remembered: more than twice as many as there are pages between prefetching and looking
/// up. With only twice as many, the first pages, which are looked up without prefetching, would push out the keys of
/// the next ones just before they are looked up, these those of the next, and so on.
const REMEMBERED: usize = 3 * super::BUCKET_PREFETCH_DISTANCE;

/// The keys of some sketches by the same rules, one key for each band.
#[derive(Debug, Default)]
pub(super) struct RecentKeys {
    known: Vec<(Sketch, Vec<u64>)>,
    /// The entry that is replaced next.
    oldest: usize,
}

impl RecentKeys {
    /// Returns the keys of a sketch by these rules, which must be the same in all calls between two of
    /// [`RecentKeys::clear`].
    pub(super) fn of(&mut self, rules: &MinHashRules, sketch: &Sketch) -> &[u64] {
        let at = self.place_of(sketch).unwrap_or_else(|| self.compute(rules, sketch));
        self.known.get(at).map(|(_, keys)| keys.as_slice()).unwrap_or_default()
    }

    /// Returns the keys of a sketch if they are remembered.
    pub(super) fn known(&self, sketch: &Sketch) -> Option<&[u64]> {
        self.known.get(self.place_of(sketch)?).map(|(_, keys)| keys.as_slice())
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A sketch that is remembered keeps its memory, so no other sketch can be there.
    fn place_of(&self, sketch: &Sketch) -> Option<usize> {
        self.known.iter().position(|(known, _)| known.is_clone_of(sketch))
    }

    fn compute(&mut self, rules: &MinHashRules, sketch: &Sketch) -> usize {
        let at = self.oldest;
        self.oldest = (at + 1) % REMEMBERED;
        if at == self.known.len() {
            self.known.push((sketch.clone(), Vec::new()));
        }
        if let Some((known, keys)) = self.known.get_mut(at) {
            known.clone_from(sketch);
            keys.clear();
            keys.extend(rules.banding.keys(rules.form, sketch));
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::{SketchForm, SlotBits};

    #[test]
    fn keys_are_those_of_the_sketch_however_many_are_looked_up_between() {
        let rules = MinHashRules::usual(SketchForm::new(128, SlotBits::B8).unwrap()).unwrap();
        let sketches: Vec<Sketch> =
            (0..80).map(|number| Sketch::from_bytes(&vec![number; rules.form.bytes()])).collect();
        let mut recent = RecentKeys::default();
        for distance in [1, REMEMBERED / 2, REMEMBERED, 2 * REMEMBERED] {
            for (ahead, sketch) in sketches.iter().skip(distance).zip(&sketches) {
                for sketch in [ahead, sketch, ahead] {
                    let expected: Vec<u64> = rules.banding.keys(rules.form, sketch).collect();
                    assert_eq!(recent.of(&rules, &sketch.clone()), expected);
                    assert_eq!(recent.known(sketch), Some(expected.as_slice()));
                }
            }
        }
        assert_eq!(recent.known(&Sketch::from_bytes(sketches.last().unwrap())), None, "equal, but not a clone");
        recent.clear();
        assert_eq!(recent.known(sketches.last().unwrap()), None);
    }

    #[test]
    fn keys_are_computed_once_after_the_first_pages() {
        let rules = MinHashRules::usual(SketchForm::new(128, SlotBits::B8).unwrap()).unwrap();
        let sketches: Vec<Sketch> = (0..80).map(|_| Sketch::from_bytes(&vec![7; rules.form.bytes()])).collect();
        let mut recent = RecentKeys::default();
        let ahead = super::super::BUCKET_PREFETCH_DISTANCE;
        for (number, sketch) in sketches.iter().enumerate() {
            if let Some(next) = sketches.get(number + ahead) {
                let _ = recent.of(&rules, next);
            }
            assert!(number < ahead || recent.known(sketch).is_some(), "page {number}");
            let _ = recent.of(&rules, sketch);
        }
    }
}
