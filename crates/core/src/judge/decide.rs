//! Computes the verdict on a request without changing the state.

use super::State;
use super::best_match::{BestMatch, Heads, MembersFrom, is_nearly_equal};
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
    let mut seen = index.candidates(&probe, |candidate| {
        let candidate = as_judged(candidate);
        heads.consider(candidate);
        choice.consider(candidate);
    });
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
    let decision = match best {
        None => Decision::Unique { original: remembered.then(|| original(None)) },
        Some((candidate, held)) => {
            let of = matched(candidate, &held, event_time);
            if is_update(rules, candidate) || is_return(rules, index, &probe, candidate) {
                let replaces = event_time >= held.event_time;
                Decision::Update { of, original: replaces.then(|| original(Some(held.cluster.clone()))) }
            } else if candidate.other_numbers {
                Decision::Template { of, original: remembered.then(|| original(None)) }
            } else {
                Decision::Duplicate { of }
            }
        }
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
