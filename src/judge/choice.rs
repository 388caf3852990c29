//! Which candidate is the best? One answer, whatever order the index finds them in.

use crate::index::Candidate;
use crate::log::Stage;

/// Keeps the best of the candidates it is shown: one with the page's figures before one with others, then the page's own
/// id first, then the strongest stage, then the smallest distance, then the earliest in the log.
#[derive(Debug, Default)]
pub(super) struct Choice {
    best: Option<(Rank, Candidate)>,
}

/// Smaller is better.
type Rank = (bool, bool, Stage, u8, u64);

impl Choice {
    /// Looks at one candidate.
    pub(super) fn consider(&mut self, candidate: Candidate) {
        let Candidate { sequence, stage, distance, same_id, other_numbers } = candidate;
        let rank = (other_numbers, !same_id, stage, distance, sequence);
        if self.best.as_ref().is_none_or(|(best, _)| rank < *best) {
            self.best = Some((rank, candidate));
        }
    }

    /// Returns the best candidate seen.
    pub(super) fn best(self) -> Option<Candidate> {
        self.best.map(|(_, candidate)| candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best_of(candidates: &[(bool, Stage, u8, u64)]) -> u64 {
        let mut choice = Choice::default();
        for &(same_id, stage, distance, sequence) in candidates {
            choice.consider(Candidate { sequence, stage, distance, same_id, other_numbers: sequence >= 20 });
        }
        choice.best().unwrap().sequence
    }

    #[test]
    fn own_figures_then_own_id_then_stage_then_distance_then_the_earliest() {
        let template = (true, Stage::SimHash, 0, 20);
        let nearest_template = (true, Stage::SimHash, 0, 21);
        let own = (true, Stage::SimHash, 3, 9);
        let exact = (false, Stage::Exact, 0, 8);
        let near = (false, Stage::SimHash, 1, 7);
        let near_but_later = (false, Stage::SimHash, 1, 8);
        let far = (false, Stage::SimHash, 2, 1);
        let mut all = vec![nearest_template, template, far, near_but_later, near, exact, own]; // worst first
        for expected in [9, 8, 7, 8, 1, 20, 21] {
            assert_eq!(best_of(&all), expected);
            all.reverse();
            assert_eq!(best_of(&all), expected);
            all.reverse();
            all.pop();
        }
    }
}
