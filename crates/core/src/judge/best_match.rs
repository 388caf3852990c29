//! Chooses the best candidate, independent of the order in which the index finds them.

use crate::fingerprint::PerMille;
use crate::index::{Candidate, FamilyRole, Refusal, Relation};
use crate::protocol::{MatchedBy, Rules, Stage};
use crate::record::Timestamp;

/// Keeps the best of the candidates it is shown: one that may be the same page before one that is refused, then one
/// with the page's numbers before one with others, then the page's own id first, then an equal text, then one from the
/// page's own address, then the strongest stage, then one that is near before one that is only contained, then the
/// smallest distance, then the earliest in the log.
#[derive(Debug, Default)]
pub(super) struct BestMatch {
    best: Option<(Rank, Candidate)>,
}

/// Smaller is better: the fields in the order in which they decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "each is one step of the order")]
struct Rank {
    is_refused: bool,
    has_other_numbers: bool,
    is_other_page: bool,
    is_elsewhere: bool,
    stage: Stage,
    is_contained: bool,
    distance: u8,
    sequence: u64,
}

/// Most families that a page is looked for in: heads of one template follow each other at a sixth of the window or of
/// the capacity ([`MembersFrom`]), so that seven of them are held at a time. Pages that differ too much from the young
/// head become heads themselves, and the pages of a site may be of several templates.
const MAX_HEADS: usize = 24;

/// Most pages of one site, all of the same text, that are found by it: their titles tell them apart, and each further
/// one is found by its text and title. Every page of this text is compared with all of them. Heads of families are not
/// among them: a window has few.
pub(super) const MAX_OF_TEXT: usize = 64;

const fn rank_of(candidate: &Candidate) -> Rank {
    let Candidate { sequence, by, relation, other_numbers, refused_by, .. } = *candidate;
    Rank {
        is_refused: refused_by.is_some(),
        has_other_numbers: other_numbers,
        is_other_page: matches!(relation, Relation::Unrelated),
        is_elsewhere: !matches!((by, relation), (MatchedBy::Exact, _) | (_, Relation::SameAddress)),
        stage: by.stage(),
        is_contained: by.contained().is_some(),
        distance: by.distance(),
        sequence,
    }
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

/// Least estimated Jaccard index of the members of a family with its head: what differs is a small part.
const MIN_OF_FAMILY: PerMille = PerMille(700);

/// Returns whether all or nearly all of a page and an original is the same.
pub(super) fn is_nearly_equal(rules: &Rules, original: &Candidate) -> bool {
    match original.by {
        MatchedBy::MinHash { contained: Some(_), .. } => false,
        MatchedBy::Exact | MatchedBy::SimHash { .. } => true,
        MatchedBy::MinHash { slots, contained: None } => is_alike(rules, slots),
    }
}

/// A page that is so near to an original without being the same belongs to its family. Two pages of a site whose
/// `SimHash`es happen to be near are not of one: a member is found by what it has in common with its head, and so would
/// be lost.
fn is_of_family(rules: &Rules, head: &Candidate) -> bool {
    is_nearly_equal(rules, head) && head.slots.is_none_or(|slots| is_alike(rules, slots))
}

fn is_alike(rules: &Rules, slots: u8) -> bool {
    rules.minhash.is_some_and(|minhash| minhash.form.similarity(slots) >= MIN_OF_FAMILY)
}

/// The oldest head that takes a page as a member: a member is lost with its head, and one that joins late would be lost
/// early.
#[derive(Clone, Copy, Debug)]
pub(super) struct MembersFrom {
    /// Its event time, inclusive.
    pub(super) event_time: Timestamp,
    /// Its sequence number, inclusive.
    pub(super) sequence: u64,
}

/// Keeps the nearest candidates that are similar without matching: the heads of the families that the page may
/// belong to.
#[derive(Debug)]
pub(super) struct Heads<'a> {
    rules: &'a Rules,
    members_from: MembersFrom,
    nearest: Vec<Candidate>,
    /// The nearest that takes the page as a member; one that replaced another text only where there is no other.
    young: Option<Candidate>,
    /// Originals of the page's text that are other pages of its site, by their titles.
    of_text: usize,
}

impl<'a> Heads<'a> {
    /// Begins with none.
    pub(super) const fn new(rules: &'a Rules, members_from: MembersFrom) -> Self {
        Self { rules, members_from, nearest: Vec::new(), young: None, of_text: 0 }
    }

    /// Looks at one candidate.
    pub(super) fn consider(&mut self, candidate: Candidate) {
        let is_another = candidate.refused_by.is_some() || candidate.other_numbers;
        self.of_text += usize::from(candidate.by == MatchedBy::Exact && candidate.refused_by == Some(Refusal::Titles));
        if candidate.family_role == FamilyRole::Member || !is_another {
            return;
        }
        let rank = |candidate: &Candidate| (candidate.by.stage(), candidate.by.distance(), candidate.sequence);
        let at = self.nearest.partition_point(|held| rank(held) < rank(&candidate));
        if at < MAX_HEADS {
            self.nearest.truncate(MAX_HEADS - 1);
            self.nearest.insert(at, candidate);
        }
        let MembersFrom { event_time, sequence } = self.members_from;
        let is_better = |held: &Candidate| (candidate.family_role, rank(&candidate)) < (held.family_role, rank(held));
        if candidate.event_time >= event_time
            && candidate.sequence >= sequence
            && is_of_family(self.rules, &candidate)
            && self.young.as_ref().is_none_or(is_better)
        {
            self.young = Some(candidate);
        }
    }

    /// Returns the nearest one, if the page is of its family.
    pub(super) fn nearest(&self) -> Option<&Candidate> {
        self.nearest.first().filter(|head| is_of_family(self.rules, head))
    }

    /// Returns the nearest one whose family the page is of and that takes members.
    pub(super) const fn young(&self) -> Option<&Candidate> {
        self.young.as_ref()
    }

    /// Returns whether the page's text alone finds as many other pages of its site as it may.
    pub(super) const fn has_text_of_many(&self) -> bool {
        self.of_text >= MAX_OF_TEXT
    }

    /// Returns the sequence numbers of the nearest, the nearest first.
    pub(super) fn sequences(&self) -> Vec<u64> {
        self.nearest.iter().map(|head| head.sequence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(sequence: u64, by: MatchedBy) -> Candidate {
        Candidate {
            sequence,
            event_time: Timestamp::MIN,
            family_role: FamilyRole::Head,
            by,
            slots: None,
            relation: Relation::Unrelated,
            other_numbers: false,
            refused_by: None,
        }
    }

    fn best_among(candidates: impl IntoIterator<Item = Candidate>) -> u64 {
        let mut choice = BestMatch::default();
        candidates.into_iter().for_each(|candidate| choice.consider(candidate));
        choice.best().unwrap().sequence
    }

    /// From 20 on they have other numbers.
    fn best_of(candidates: &[(bool, MatchedBy, u64)]) -> u64 {
        best_among(candidates.iter().map(|&(same_id, by, sequence)| Candidate {
            relation: if same_id { Relation::SameAddress } else { Relation::Unrelated },
            other_numbers: sequence >= 20,
            ..candidate(sequence, by)
        }))
    }

    #[test]
    fn of_one_id_an_equal_text_then_what_was_fetched_from_the_pages_own_address_comes_first() {
        let simhash = |bits| MatchedBy::SimHash { bits };
        let of = |by, sequence, relation| Candidate { relation, ..candidate(sequence, by) };
        let nearest = of(simhash(0), 1, Relation::SamePage);
        let own = of(simhash(3), 2, Relation::SameAddress);
        let equal = of(MatchedBy::Exact, 3, Relation::SamePage);
        assert_eq!(best_among([nearest, own]), 2);
        assert_eq!(best_among([nearest, own, equal]), 3);
    }

    #[test]
    fn own_numbers_then_own_id_then_stage_then_nearness_then_distance_then_the_earliest() {
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
        let contained = (false, minhash(80, Some(PerMille(900))), 2);
        let contained_less = (false, minhash(81, Some(PerMille(900))), 1);
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

    #[test]
    fn a_code_alone_makes_no_family_where_sketches_tell_two_pages() {
        let rules = crate::judge::tests::similar_pages::rules(64);
        let head = |slots| Candidate { slots, ..candidate(1, MatchedBy::SimHash { bits: 2 }) };
        assert!(is_of_family(&rules, &head(None)), "pages without a sketch have nothing else");
        assert!(is_of_family(&rules, &head(Some(20))));
        assert!(!is_of_family(&rules, &head(Some(60))));
        assert!(is_nearly_equal(&rules, &head(Some(60))), "for renderings of a page the code is enough");
    }
}
