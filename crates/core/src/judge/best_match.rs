//! Chooses the best candidate, independent of the order in which the index finds them.

use crate::index::Candidate;
use crate::protocol::{MatchedBy, Stage};

/// Keeps the best of the candidates it is shown: one that may be the same page before one that is refused, then one with
/// the page's figures before one with others, then the page's own id first, then an equal text, then one from the
/// page's own address, then the strongest stage, then one that is near before one that is only contained, then the smallest
/// distance, then the earliest in the log.
#[derive(Debug, Default)]
pub(super) struct BestMatch {
    best: Option<(Rank, Candidate)>,
}

/// Smaller is better.
type Rank = (bool, bool, bool, bool, Stage, bool, u8, u64);

/// Most families that a page is looked for in.
const MAX_HEADS: usize = 4;

const fn rank_of(candidate: &Candidate) -> Rank {
    let Candidate { sequence, by, same_id, same_address, other_numbers, refused_by } = *candidate;
    let is_contained = by.contained().is_some();
    let is_elsewhere = !matches!(by, MatchedBy::Exact) && !same_address;
    (refused_by.is_some(), other_numbers, !same_id, is_elsewhere, by.stage(), is_contained, by.distance(), sequence)
}

impl BestMatch {
    /// Looks at one candidate.
    pub(super) fn consider(&mut self, candidate: Candidate) {
        let rank = rank_of(&candidate);
        if self.best.as_ref().is_none_or(|(best, _)| rank < *best) {
            self.best = Some((rank, candidate));
        }
    }

    /// Returns the best candidate seen.
    pub(super) fn best(&self) -> Option<Candidate> {
        self.best.as_ref().map(|(_, candidate)| *candidate)
    }
}

/// Keeps the nearest candidates that are near without being the same page: the heads of the families that the page may
/// belong to.
#[derive(Debug, Default)]
pub(super) struct Heads(Vec<Candidate>);

impl Heads {
    /// Looks at one candidate.
    pub(super) fn consider(&mut self, candidate: Candidate) {
        if candidate.by == MatchedBy::Exact || !(candidate.refused_by.is_some() || candidate.other_numbers) {
            return;
        }
        let rank = |candidate: &Candidate| (candidate.by.stage(), candidate.by.distance(), candidate.sequence);
        let at = self.0.partition_point(|held| rank(held) < rank(&candidate));
        self.0.insert(at, candidate);
        self.0.truncate(MAX_HEADS);
    }

    /// Returns the nearest one.
    pub(super) fn nearest(&self) -> Option<&Candidate> {
        self.0.first()
    }

    /// Returns their sequence numbers, the nearest first.
    pub(super) fn sequences(&self) -> Vec<u64> {
        self.0.iter().map(|head| head.sequence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From 20 on they have other figures.
    fn best_of(candidates: &[(bool, MatchedBy, u64)]) -> u64 {
        let mut choice = BestMatch::default();
        for &(same_id, by, sequence) in candidates {
            let other_numbers = sequence >= 20;
            choice.consider(Candidate {
                sequence,
                by,
                same_id,
                same_address: same_id,
                other_numbers,
                refused_by: None,
            });
        }
        choice.best().unwrap().sequence
    }

    #[test]
    fn of_one_id_an_equal_text_then_what_was_fetched_from_the_pages_own_address_comes_first() {
        let simhash = |bits| MatchedBy::SimHash { bits };
        let of = |by, sequence, same_address| Candidate {
            sequence,
            by,
            same_id: true,
            same_address,
            other_numbers: false,
            refused_by: None,
        };
        let best_of = |candidates: &[Candidate]| {
            let mut choice = BestMatch::default();
            candidates.iter().for_each(|candidate| choice.consider(*candidate));
            choice.best().unwrap().sequence
        };
        let [nearest, own, equal] = [of(simhash(0), 1, false), of(simhash(3), 2, true), of(MatchedBy::Exact, 3, false)];
        assert_eq!(best_of(&[nearest, own]), 2);
        assert_eq!(best_of(&[nearest, own, equal]), 3);
    }

    #[test]
    fn own_figures_then_own_id_then_stage_then_nearness_then_distance_then_the_earliest() {
        let simhash = |bits| MatchedBy::SimHash { bits };
        let minhash = |slots, contained| MatchedBy::MinHash { slots, contained };
        let template = (true, simhash(0), 20);
        let nearest_template = (true, simhash(0), 21);
        let own = (true, simhash(3), 9);
        let exact = (false, MatchedBy::Exact, 8);
        let near = (false, simhash(1), 7);
        let near_but_later = (false, simhash(1), 8);
        let far = (false, simhash(2), 4);
        let by_sketch = (false, minhash(90, None), 6);
        let contained = (false, minhash(80, Some(900)), 2);
        let contained_less = (false, minhash(81, Some(900)), 1);
        let mut all = vec![
            nearest_template,
            template,
            contained_less,
            contained,
            by_sketch,
            far,
            near_but_later,
            near,
            exact,
            own,
        ]; // worst first
        for expected in [9, 8, 7, 8, 4, 6, 2, 1, 20, 21] {
            assert_eq!(best_of(&all), expected);
            all.reverse();
            assert_eq!(best_of(&all), expected);
            all.reverse();
            all.pop();
        }
    }
}
