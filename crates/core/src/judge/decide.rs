//! `decide`: a request yields a verdict, the state untouched.

use super::State;
use super::best_match::{BestMatch, Heads};
use crate::index::{Candidate, Original, ProbeStats, Refusal};
use crate::protocol::{
    Answer, Decision, Match, MatchedBy, NewOriginal, PageRequest, PageVerdict, Request, RequestBody, Rules, SameId,
    Verdict,
};
use crate::record::{Source, Timestamp};

/// Finds the verdict of a request that the broker appended at `append_time`.
///
/// `None` for a repeat: the page's position was judged, or the request was applied; its answer is already written
/// (law L4). Also `None` while no rules are in force, because then nothing was ever judged.
#[must_use]
pub fn decide(state: &State, request: &Request, append_time: Timestamp) -> Option<Verdict> {
    decide_watched(state, request, append_time, |_| {})
}

/// [`decide()`] that also shows what looking a page up came to: for those who watch.
#[must_use]
pub fn decide_watched(
    state: &State,
    request: &Request,
    append_time: Timestamp,
    looked: impl FnMut(ProbeStats),
) -> Option<Verdict> {
    let rules = state.rules()?;
    let answer = match &request.body {
        RequestBody::Page(page) => {
            if state.is_judged(&page.source) {
                return None;
            }
            Answer::Page(judge_page(state, rules, page, append_time, looked))
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
            // What may be on its way yet is never judged twice (law L8): only what the input group has committed is
            // reopened, as far as the log says so.
            let to = (*to).min(state.delivered(partition)).max(*from);
            Answer::Reopened { partition: partition.clone(), from: *from, to }
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
    mut looked: impl FnMut(ProbeStats),
) -> PageVerdict {
    let event_time = page.event_time.min(append_time.plus(rules.max_future_skew));
    let probe = state.probe(rules, page, event_time);
    let index = state.index();
    let as_judged = |candidate| as_judged(rules, page, candidate);
    let (mut choice, mut heads) = (BestMatch::default(), Heads::default());
    let mut seen = index.candidates(&probe, |candidate| {
        let candidate = as_judged(candidate);
        heads.consider(candidate);
        choice.consider(candidate);
    });
    let max_bucket = rules.minhash.map_or(0, |minhash| minhash.max_bucket);
    let family = heads.nearest().filter(|head| max_bucket > 0 && is_of_family(rules, head));
    if max_bucket > 0 && choice.best().is_none_or(|best| best.refused_by.is_some() || best.other_numbers) {
        let members =
            index.members(&probe, &heads.sequences(), max_bucket, |member| choice.consider(as_judged(member)));
        seen.compared += members.compared;
        seen.left_out += members.left_out;
    }
    looked(seen);
    let best = choice.best().filter(|best| best.refused_by.is_none());
    let best = best.and_then(|candidate| Some((candidate, index.get(candidate.sequence)?)));

    // A page before every expiry watermark is delivered like any other, but not remembered.
    let remembered = event_time >= probe.watermarks.times.min();
    let original = |cluster: Option<Source>| {
        let family = family.filter(|_| cluster.is_none()).map(|head| head.sequence);
        NewOriginal {
            fingerprints: page.fingerprints.clone(),
            id: page.id,
            scope: page.scope,
            site: page.site,
            address: page.address,
            placement: index.placement(&probe, family, max_bucket),
            cluster,
        }
    };
    let decision = match best {
        None => Decision::Unique { original: remembered.then(|| original(None)) },
        Some((candidate, held)) => {
            let of = matched(candidate, &held, event_time);
            if is_update(rules, page, candidate) {
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

/// Finds why a page is no duplicate of one original that is held, by the rules in force: for people who ask. `None` when no
/// rule speaks against it, or when it is not held; a better original may have been chosen all the same.
#[must_use]
pub fn refusal(state: &State, page: &PageRequest, append_time: Timestamp, original: u64) -> Option<Refusal> {
    let rules = state.rules()?;
    let probe = state.probe(rules, page, page.event_time.min(append_time.plus(rules.max_future_skew)));
    let index = state.index();
    let (mut heads, mut found) = (Heads::default(), None);
    let mut note = |candidate: Candidate| {
        if candidate.sequence == original {
            found = Some(candidate);
        }
    };
    index.candidates(&probe, |candidate| {
        let candidate = as_judged(rules, page, candidate);
        heads.consider(candidate);
        note(candidate);
    });
    let max_bucket = rules.minhash.map_or(0, |minhash| minhash.max_bucket);
    index.members(&probe, &heads.sequences(), max_bucket, |member| note(as_judged(rules, page, member)));
    let Some(found) = found else { return index.why_not(&probe, original) };
    found.refused_by.or_else(|| {
        let held = index.get(original).filter(|_| found.other_numbers)?;
        let overlap = page.fingerprints.numbers.overlap(&held.fingerprints.numbers)?;
        Some(Refusal::Numbers { overlap })
    })
}

/// Other numbers are what an update is about, and of no account between renderings of one page.
fn as_judged(rules: &Rules, page: &PageRequest, candidate: Candidate) -> Candidate {
    let other_numbers =
        candidate.other_numbers && !is_update(rules, page, candidate) && !is_rendering(rules, page, &candidate);
    Candidate { other_numbers, ..candidate }
}

/// The page was seen before, and its text changed. A page that names another as its canonical one was seen before where the
/// original came from its own address; else its text may be that of the other, rendered in another way. The page itself,
/// after one of its renderings, takes the place: its corrections are to be found by it.
fn is_update(rules: &Rules, page: &PageRequest, candidate: Candidate) -> bool {
    let is_changed = candidate.same_id && candidate.by != MatchedBy::Exact;
    is_changed && rules.same_id == SameId::Update && (candidate.same_address || !page.is_variant)
}

/// The page says itself that it is another rendering of that one, and other figures stand in what surrounds the text of
/// either. Where nearly all of both is the same, the figures are what they are about: pages of one template, under one
/// careless canonical address.
fn is_rendering(rules: &Rules, page: &PageRequest, candidate: &Candidate) -> bool {
    page.is_variant && candidate.same_id && !candidate.same_address && !is_of_family(rules, candidate)
}

/// Least estimated Jaccard index of the members of a family with its head, in thousandths: what differs is a small part.
const MIN_OF_FAMILY: u16 = 700;

/// A page that is so near to an original without being the same belongs to its family.
fn is_of_family(rules: &Rules, head: &Candidate) -> bool {
    match head.by {
        MatchedBy::Exact | MatchedBy::MinHash { contained: Some(_), .. } => false,
        MatchedBy::SimHash { .. } => true,
        MatchedBy::MinHash { slots, contained: None } => {
            rules.minhash.is_some_and(|minhash| minhash.form.similarity(slots) >= MIN_OF_FAMILY)
        }
    }
}

fn matched(candidate: Candidate, held: &Original, event_time: Timestamp) -> Match {
    Match {
        by: candidate.by,
        source: held.source.clone(),
        age_ms: event_time.millis().saturating_sub(held.event_time.millis()),
        cluster: held.cluster.clone(),
    }
}
