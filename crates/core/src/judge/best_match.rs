//! Chooses the best candidate, independently of the order in which the index finds them.

use crate::fingerprint::PerMille;
use crate::index::{Candidate, FamilyRole, Refusal, Relation};
use crate::protocol::{MatchedBy, Rules, Stage};
use crate::record::Timestamp;

/// Keeps the best of the candidates that it has seen. It prefers, in this order, a candidate that is not refused, has
/// the page's numbers, has the page's own id, has an equal text, comes from the page's own address, matches at the
/// strongest stage, is near rather than only contained, has the smallest distance, and is the earliest in the log.
#[derive(Debug, Default)]
pub(super) struct BestMatch {
    best: Option<(Rank, Candidate)>,
}

/// Ranks a candidate: smaller is better, and the fields decide from top to bottom.
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

/// The most family heads through which a page is looked up. Heads of one template follow each other at intervals of a
/// sixth of the window or of the capacity ([`MembersFrom`]), so about seven of them are held at a time. The limit is
/// higher, because pages that differ too much from the young head become heads themselves, and because a site may use
/// several templates.
const MAX_HEADS: usize = 24;

/// The most pages of one site with the same text that a lookup by this text finds; only their titles distinguish them.
/// Every page with this text is compared with all of them. Further pages are found by their text and title together.
/// Heads of families are exempt: a window has few of them.
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

/// The lowest estimated Jaccard index between a member and the head of its family: what differs is a small part.
const MIN_OF_FAMILY: PerMille = PerMille(700);

/// Returns whether all or nearly all of the text of a page and an original is the same.
pub(super) fn is_nearly_equal(rules: &Rules, original: &Candidate) -> bool {
    match original.by {
        MatchedBy::MinHash { contained: Some(_), .. } => false,
        MatchedBy::Exact | MatchedBy::SimHash { .. } => true,
        MatchedBy::MinHash { slots, contained: None } => is_alike(rules, slots),
    }
}

/// Returns whether a page that is near this original, without being the same page, belongs to its family. If both have
/// sketches, these have to be similar as well: a lookup finds a member by what it has in common with its head, so a
/// page whose `SimHash` is near only by chance would be lost.
fn is_of_family(rules: &Rules, head: &Candidate) -> bool {
    is_nearly_equal(rules, head) && head.slots.is_none_or(|slots| is_alike(rules, slots))
}

fn is_alike(rules: &Rules, slots: u8) -> bool {
    rules.minhash.is_some_and(|minhash| minhash.form.similarity(slots) >= MIN_OF_FAMILY)
}

/// The oldest head that accepts a page as a member. Members are lost together with their head, so a page that joined an
/// old head would be lost early.
#[derive(Clone, Copy, Debug)]
pub(super) struct MembersFrom {
    /// The head's event time, inclusive.
    pub(super) event_time: Timestamp,
    /// The head's sequence number, inclusive.
    pub(super) sequence: u64,
}

/// Keeps the nearest candidates that are similar to the page but do not match it: the heads of the families that the
/// page may belong to.
#[derive(Debug)]
pub(super) struct Heads<'a> {
    rules: &'a Rules,
    members_from: MembersFrom,
    nearest: Vec<Candidate>,
    /// The nearest head that accepts the page as a member. A head that replaced another text is used only if there is
    /// no other.
    young: Option<Candidate>,
    /// Number of originals that have the page's text but, by their titles, are other pages of its site.
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

    /// Returns the nearest head if the page belongs to its family.
    pub(super) fn nearest(&self) -> Option<&Candidate> {
        self.nearest.first().filter(|head| is_of_family(self.rules, head))
    }

    /// Returns the nearest head that accepts members and whose family the page belongs to.
    pub(super) const fn young(&self) -> Option<&Candidate> {
        self.young.as_ref()
    }

    /// Returns whether the page's text alone already finds as many other pages of its site as it may.
    pub(super) const fn has_text_of_many(&self) -> bool {
        self.of_text >= MAX_OF_TEXT
    }

    /// Returns the sequence numbers of the nearest heads, nearest first.
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
