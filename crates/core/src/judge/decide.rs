//! `decide`: a request yields a verdict, the state untouched.

use super::State;
use super::best_match::{BestMatch, Heads, MembersFrom, is_nearly_equal};
use crate::index::{Candidate, FamilyRole, Index, Original, Probe, ProbeStats, Refusal, Relation};
use crate::protocol::{
    Answer, Decision, Match, MatchedBy, NewOriginal, PageRequest, PageVerdict, Placement, Request, RequestBody, Rules,
    SameId, Stage, Verdict,
};
use crate::record::{Source, Timestamp};

/// Finds the verdict of a request that the broker appended at `append_time`.
///
/// `None` for a repeat: the page's position was judged, or the request was applied; its answer is already written
/// (law L4). Also `None` while no rules are in force, because then nothing was ever judged.
#[must_use]
pub fn decide(state: &State, request: &Request, append_time: Timestamp) -> Option<Verdict> {
    decide_observed(state, request, append_time, |_| {})
}

/// [`decide()`] that also passes the statistics of its lookup to `on_probe`, for monitoring.
#[must_use]
pub fn decide_observed(
    state: &State,
    request: &Request,
    append_time: Timestamp,
    on_probe: impl FnMut(ProbeStats),
) -> Option<Verdict> {
    let rules = state.rules()?;
    let answer = match &request.body {
        RequestBody::Page(page) => {
            if state.is_judged(&page.source) {
                return None;
            }
            Answer::Page(judge_page(state, rules, page, append_time, on_probe))
        }
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
            // What may be on its way is never judged again (law L8): only what the input group has committed since it
            // was judged is reopened, as far as the log says so, and nothing after the first that it has not.
            Answer::Reopened {
                partition: partition.clone(),
                from: *from,
                to: state.delivered_to(partition, *from, *to),
            }
        }
    };
    Some(Verdict { request: request.id, answer })
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
    let event_time = page.event_time.min(append_time.plus(rules.max_future_skew));
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
        // What replaces another text will be replaced before long, and all that is found through it would be lost.
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

/// Finds why a page is no duplicate of one original that is held, by the rules in force: for explanations. `None` when
/// no rule speaks against it, or when it is not held; a better original may have been chosen all the same.
#[must_use]
pub fn refusal(state: &State, page: &PageRequest, append_time: Timestamp, original: u64) -> Option<Refusal> {
    let rules = state.rules()?;
    let probe = state.probe(rules, page, page.event_time.min(append_time.plus(rules.max_future_skew)));
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

/// Other numbers are what an update is about, and of no account between renderings of one page.
fn as_judged(rules: &Rules, candidate: Candidate) -> Candidate {
    let other_numbers = candidate.other_numbers && !is_update(rules, candidate) && !is_rendering(rules, &candidate);
    Candidate { other_numbers, ..candidate }
}

/// The page was seen before, and its text changed. A page that names another as its canonical one was seen before where
/// the original came from its own address; else its text may be that of the other, rendered in another way. The page
/// itself, after one of its renderings, takes the place: its corrections are to be found by it.
fn is_update(rules: &Rules, candidate: Candidate) -> bool {
    let is_seen = matches!(candidate.relation, Relation::SamePage | Relation::SameAddress);
    is_seen && rules.same_id == SameId::Update && candidate.by != MatchedBy::Exact
}

/// The page has the text of an earlier visit again, after another one: what readers hold of it is the other.
fn is_return(rules: &Rules, index: &Index, probe: &Probe<'_>, candidate: Candidate) -> bool {
    rules.same_id == SameId::Update
        && candidate.by == MatchedBy::Exact
        && candidate.relation == Relation::SameAddress
        && index.has_later(probe, candidate.sequence)
}

/// The page says itself that it is another rendering of that one, and other numbers are in what surrounds the text of
/// either. Where nearly all of both is the same, the numbers are what they are about: pages of one template, under one
/// careless canonical address.
fn is_rendering(rules: &Rules, candidate: &Candidate) -> bool {
    candidate.relation == Relation::Renderings && !is_nearly_equal(rules, candidate)
}

/// Heads that one window or one capacity holds of pages that are all alike: each takes members for this part of it.
const HEADS_A_WINDOW: u32 = 6;

/// A head takes members for the first sixth of its time in the window, so that they are found for the other five at
/// least. Counted in event time and in sequence numbers, whichever is over first: what the log says, and not the
/// memory of an instance (law L5).
fn members_from(state: &State, rules: &Rules, event_time: Timestamp) -> MembersFrom {
    let by_sketch = rules.stages.contains(&Stage::MinHash);
    let window = if by_sketch { rules.windows.minhash } else { rules.windows.simhash };
    MembersFrom {
        event_time: event_time.minus(window / HEADS_A_WINDOW),
        sequence: state.next_sequence().saturating_sub(rules.max_entries / u64::from(HEADS_A_WINDOW)),
    }
}

/// Returns which tables are to hold a page: as a member of the family of a young head, or else as a head itself. Where
/// there is no room for one more head, because those that are held have most of its keys, it is a member of the
/// nearest. A member whose text many other pages of its site have is found by its text and title.
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
    // Heads are found by the text alone, so that the next pages of the text find them.
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
