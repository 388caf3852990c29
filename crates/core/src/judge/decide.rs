//! Computes the verdict on a request without changing the state. The best candidate is chosen independently of the
//! order in which the index finds them.

use super::State;
use crate::fingerprint::PerMille;
use crate::index::{Candidate, FamilyRole, Index, Original, Probe, ProbeStats, Refusal, Relation};
use crate::protocol::{
    Answer, Decision, Match, MatchedBy, NewOriginal, PageRequest, PageVerdict, Placement, Request, RequestBody,
    RequestId, Rules, SameId, Stage, Verdict,
};
use crate::record::{Source, Timestamp};

/// Returns the verdict on a request that the broker appended at `append_time`.
///
/// Returns `None` for a repeat: the page's position is judged or the request is applied, and its verdict is already
/// written (law L4). Also returns `None` while no rules are in force, because then nothing was ever judged.
#[must_use]
pub fn decide(state: &State, request: &Request, append_time: Timestamp) -> Option<Verdict> {
    decide_observed(state, request, append_time, |_| {})
}

/// Like [`decide()`], but also passes the statistics of its lookup to `on_probe`, for monitoring.
#[must_use]
pub fn decide_observed(
    state: &State,
    request: &Request,
    append_time: Timestamp,
    on_probe: impl FnMut(ProbeStats),
) -> Option<Verdict> {
    state.rules()?;
    let answer = match &request.body {
        RequestBody::Page(page) => return decide_page(state, request.id, page, append_time, on_probe),
        RequestBody::Withdraw { source, reason } => {
            first_time(state, request)?;
            Answer::Withdrawn { source: source.clone(), reason: *reason }
        }
        RequestBody::Forget(target) => {
            first_time(state, request)?;
            Answer::Forgotten(target.clone())
        }
        RequestBody::Reopen { partition, from, to } => {
            first_time(state, request)?;
            // A page whose delivery may be in progress is never judged again (law L8). So the reopened range holds only
            // what the input group is known to have committed since it was judged, and ends before the first position
            // that it has not.
            Answer::Reopened {
                partition: partition.clone(),
                from: *from,
                to: state.delivered_to(partition, *from, *to),
            }
        }
        RequestBody::SetTime(time) => {
            first_time(state, request)?;
            let before = state.stream_time();
            Answer::TimeSet { before, after: before.min(*time) }
        }
    };
    Some(Verdict { request: request.id, answer })
}

/// Does the same for the request of a page.
pub(crate) fn decide_page(
    state: &State,
    request: RequestId,
    page: &PageRequest,
    append_time: Timestamp,
    on_probe: impl FnMut(ProbeStats),
) -> Option<Verdict> {
    let rules = state.rules().filter(|_| !state.is_judged(&page.source))?;
    Some(Verdict { request, answer: Answer::Page(judge_page(state, rules, page, append_time, on_probe)) })
}

fn first_time(state: &State, request: &Request) -> Option<()> {
    (!state.is_applied(request.id)).then_some(())
}

fn judge_page(
    state: &State,
    rules: &Rules,
    page: &PageRequest,
    append_time: Timestamp,
    mut on_probe: impl FnMut(ProbeStats),
) -> PageVerdict {
    let event_time = event_time(state, rules, page, append_time);
    let probe = state.probe(rules, page, event_time);
    let index = state.index();
    let as_judged = |candidate| as_judged(rules, candidate);
    let (mut choice, mut heads) = (BestMatch::default(), Heads::new(rules, members_from(state, rules, event_time)));
    let mut matching = 0;
    let mut seen = index.candidates(&probe, |candidate| {
        matching += 1;
        let candidate = as_judged(candidate);
        heads.consider(candidate);
        choice.consider(candidate);
    });
    seen.matching = matching;
    let max_bucket = rules.minhash.map_or(0, |minhash| minhash.max_bucket);
    if max_bucket > 0 && choice.best().is_none_or(|best| best.refused_by.is_some() || best.other_numbers) {
        let members =
            index.members(&probe, &heads.sequences(), max_bucket, |member| choice.consider(as_judged(member)));
        seen.compared += members.compared;
        seen.left_out += members.left_out;
    }
    on_probe(seen);
    let best = choice.best().filter(|best| best.refused_by.is_none());
    let best = best.and_then(|candidate| Some((candidate, index.get(candidate.sequence)?)));

    // A page before every expiry watermark is delivered like any other, but not remembered.
    let remembered = event_time >= probe.watermarks.times.min();
    let original = |cluster: Option<Source>| {
        // A head that replaced another text will soon be replaced itself, and its members would be lost with it. So it
        // only accepts pages that replace a text themselves.
        let may_lead = |head: &&Candidate| head.family_role == FamilyRole::Head || cluster.is_some();
        let placement = placement(state, rules, &probe, heads.young().filter(may_lead), &heads);
        NewOriginal {
            fingerprints: page.fingerprints.clone(),
            id: page.id,
            scope: page.scope,
            site: page.site,
            address: page.address,
            title: page.title,
            placement,
            cluster,
        }
    };
    // After the dual period, pages that were on their way remain originals: others may be duplicates of them.
    let is_taken_over = |earlier: &&Decision| rules.dual.is_some() || !matches!(earlier, Decision::Duplicate { .. });
    let decided = match (page.earlier.as_deref().filter(is_taken_over), best) {
        (Some(earlier), _) => earlier.clone(),
        (None, None) => Decision::Unique { original: None },
        (None, Some((candidate, held))) => {
            let of = matched(candidate, &held, event_time);
            if is_update(rules, candidate) || is_return(rules, index, &probe, candidate) {
                Decision::Update { of, original: None }
            } else if candidate.other_numbers {
                Decision::Template { of, original: None }
            } else {
                Decision::Duplicate { of }
            }
        }
    };
    let decision = match decided {
        Decision::Unique { .. } => Decision::Unique { original: remembered.then(|| original(None)) },
        Decision::Update { of, .. } => {
            let replaces = of.age_ms >= 0;
            Decision::Update { original: replaces.then(|| original(Some(of.cluster.clone()))), of }
        }
        Decision::Template { of, .. } => Decision::Template { of, original: remembered.then(|| original(None)) },
        Decision::Duplicate { of } => Decision::Duplicate { of },
    };
    PageVerdict { source: page.source.clone(), event_time, digest: page.digest, decision }
}

/// Returns the event time of a page. A time that is further ahead of the brokers' clock than the rules allow comes from a
/// wrong clock, and says nothing: such a page counts as old as the newest page that was judged. If it counted as new as
/// the brokers' clock permits, a single one in a backlog would move the window past all pages that are still to come.
fn event_time(state: &State, rules: &Rules, page: &PageRequest, append_time: Timestamp) -> Timestamp {
    let latest = append_time.plus(rules.max_future_skew);
    if page.event_time <= latest {
        return page.event_time;
    }
    state.stream_time().max(Timestamp::default()).min(latest)
}

/// Explains why a page is not a duplicate of one held original, by the rules in force. Returns `None` if no rule speaks
/// against the match, or if the original is not held. A page without a refusal may still have another, better original.
#[must_use]
pub fn refusal(state: &State, page: &PageRequest, append_time: Timestamp, original: u64) -> Option<Refusal> {
    let rules = state.rules()?;
    let probe = state.probe(rules, page, event_time(state, rules, page, append_time));
    let index = state.index();
    let (mut heads, mut found) = (Heads::new(rules, members_from(state, rules, probe.event_time)), None);
    let mut note = |candidate: Candidate| {
        if candidate.sequence == original {
            found = Some(candidate);
        }
    };
    index.candidates(&probe, |candidate| {
        let candidate = as_judged(rules, candidate);
        heads.consider(candidate);
        note(candidate);
    });
    let max_bucket = rules.minhash.map_or(0, |minhash| minhash.max_bucket);
    index.members(&probe, &heads.sequences(), max_bucket, |member| note(as_judged(rules, member)));
    let Some(found) = found else { return index.why_not(&probe, original) };
    found.refused_by.or_else(|| {
        let held = index.get(original).filter(|_| found.other_numbers)?;
        let overlap = page.fingerprints.numbers.overlap(&held.fingerprints.numbers)?;
        Some(Refusal::Numbers { overlap })
    })
}

/// Ignores differing numbers where they do not make two pages: an update is expected to change its numbers, and
/// renderings of one page differ in the numbers around its text.
fn as_judged(rules: &Rules, candidate: Candidate) -> Candidate {
    let other_numbers = candidate.other_numbers && !is_update(rules, candidate) && !is_rendering(rules, &candidate);
    Candidate { other_numbers, ..candidate }
}

/// Returns whether the page was seen before and its text has changed. A page that names another one as canonical was
/// seen before only if the original came from the same address; otherwise it may be another rendering of the canonical
/// page. When the canonical page itself follows one of its renderings, it replaces the rendering, so that its later
/// corrections are compared with it.
fn is_update(rules: &Rules, candidate: Candidate) -> bool {
    let is_seen = matches!(candidate.relation, Relation::SamePage | Relation::SameAddress);
    is_seen && rules.same_id == SameId::Update && candidate.by != MatchedBy::Exact
}

/// Returns whether the page again has the text of an earlier visit, after a visit with another text. Consumers hold the
/// other text, so the page is an update and not a duplicate.
fn is_return(rules: &Rules, index: &Index, probe: &Probe<'_>, candidate: Candidate) -> bool {
    rules.same_id == SameId::Update
        && candidate.by == MatchedBy::Exact
        && candidate.relation == Relation::SameAddress
        && index.has_later(probe, candidate.sequence)
}

/// Returns whether the page says that it is another rendering of the original, and the differing numbers are in what
/// surrounds the text. If nearly all of both texts is the same, the numbers are what the pages are about: these are
/// pages of one template that share a careless canonical address.
fn is_rendering(rules: &Rules, candidate: &Candidate) -> bool {
    candidate.relation == Relation::Renderings && !is_nearly_equal(rules, candidate)
}

/// How many heads one window, or one capacity, of nearly identical pages has: each accepts members for this fraction of
/// it.
const HEADS_A_WINDOW: u32 = 6;

/// Returns the oldest head that accepts members. A head accepts them for the first sixth of its time in the window, so
/// that they can be found for at least the other five sixths. The sixth is counted in event time and in sequence
/// numbers, whichever ends first. Both are in the log; what an instance has in memory does not matter (law L5).
fn members_from(state: &State, rules: &Rules, event_time: Timestamp) -> MembersFrom {
    let by_sketch = rules.stages.contains(&Stage::MinHash);
    let window = if by_sketch { rules.windows.minhash } else { rules.windows.simhash };
    MembersFrom {
        event_time: event_time.minus(window / HEADS_A_WINDOW),
        sequence: state.next_sequence().saturating_sub(rules.max_entries / u64::from(HEADS_A_WINDOW)),
    }
}

/// Returns which tables are to hold a page. It becomes a member of the family of a young head, or a head itself if
/// there is none. If the held heads fill most of its keys, there is no room for another head, and the page becomes a
/// member of the nearest one. If many other pages of a member's site have its text, it is found by its text and title.
fn placement(
    state: &State,
    rules: &Rules,
    probe: &Probe<'_>,
    young: Option<&Candidate>,
    heads: &Heads<'_>,
) -> Placement {
    let (max_bucket, bands) = rules.minhash.map_or((0, 0), |minhash| (minhash.max_bucket, minhash.banding.bands()));
    let has_text_of_many = heads.has_text_of_many();
    let family_of =
        |head: Option<&Candidate>| head.filter(|_| max_bucket > 0 || has_text_of_many).map(|head| head.sequence);
    let (young, nearest) = (family_of(young), family_of(heads.nearest()));
    let mut placement = state.index().placement(probe, young, max_bucket);
    let is_crowded = placement.family.is_none() && placement.skipped.count_ones() * 2 > u32::from(bands);
    if is_crowded && nearest.is_some() {
        placement = state.index().placement(probe, nearest, max_bucket);
    }
    // Heads are always found by the text alone, so that the next pages with this text find them.
    placement.by_title = has_text_of_many && placement.family.is_some();
    placement
}

fn matched(candidate: Candidate, held: &Original, event_time: Timestamp) -> Match {
    Match {
        by: candidate.by,
        source: held.source.clone(),
        age_ms: event_time.millis().saturating_sub(held.event_time.millis()),
        cluster: held.cluster.clone(),
    }
}

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
