//! `decide`: an entry yields a ruling, the state untouched.

use super::State;
use super::choice::Choice;
use crate::index::{Candidate, Original, Probe, Seen};
use crate::log::{
    Answer, Decision, Entry, EntryBody, Match, NewOriginal, PageEntry, PageRuling, Placement, Rules, Ruling, SameId,
    Stage,
};
use crate::record::Timestamp;

/// Finds the ruling of an entry that the broker appended at `append_time`.
///
/// `None` for a repeat: the page's position was judged, or the request was applied; its answer is already written
/// (law L4). Also `None` while no rules are in force, because then nothing was ever judged.
#[must_use]
pub fn decide(state: &State, entry: &Entry, append_time: Timestamp) -> Option<Ruling> {
    decide_watched(state, entry, append_time, |_| {})
}

/// [`decide()`] that also shows what looking a page up came to: for those who watch.
pub(super) fn decide_watched(
    state: &State,
    entry: &Entry,
    append_time: Timestamp,
    looked: impl FnMut(Seen),
) -> Option<Ruling> {
    let rules = state.rules()?;
    let answer = match &entry.body {
        EntryBody::Page(page) => {
            if state.is_judged(&page.source) {
                return None;
            }
            Answer::Page(judge_page(state, rules, page, append_time, looked))
        }
        EntryBody::Withdraw { source, reason } => {
            first_time(state, entry)?;
            Answer::Withdrawn { source: source.clone(), reason: *reason }
        }
        EntryBody::Forget(target) => {
            first_time(state, entry)?;
            Answer::Forgotten(target.clone())
        }
        EntryBody::Reopen { partition, from, to } => {
            first_time(state, entry)?;
            // What may be on its way yet is never judged twice (law L8): only what the input group has committed is
            // reopened, as far as the log says so.
            let to = (*to).min(state.delivered(partition)).max(*from);
            Answer::Reopened { partition: partition.clone(), from: *from, to }
        }
    };
    Some(Ruling { request: entry.request, answer })
}

fn first_time(state: &State, entry: &Entry) -> Option<()> {
    (!state.is_applied(entry.request)).then_some(())
}

fn judge_page(
    state: &State,
    rules: &Rules,
    page: &PageEntry,
    append_time: Timestamp,
    mut looked: impl FnMut(Seen),
) -> PageRuling {
    let event_time = page.event_time.min(append_time.plus(rules.max_future_skew));
    let tails = state.tails_with(event_time);
    let probe = Probe {
        fingerprints: &page.fingerprints,
        id: page.id,
        scope: page.scope,
        event_time,
        tails,
        windows: rules.windows,
        stages: &rules.stages,
        max_distance: rules.max_distance,
        number_guard: rules.number_guard,
    };
    let mut choice = Choice::default();
    looked(state.index().candidates(&probe, |candidate| {
        // Other figures are what an update is about.
        let other_numbers = candidate.other_numbers && !is_update(rules, candidate);
        choice.consider(Candidate { other_numbers, ..candidate });
    }));
    let best = choice.best().and_then(|candidate| Some((candidate, state.index().get(candidate.sequence)?)));

    let original = NewOriginal {
        fingerprints: page.fingerprints.clone(),
        id: page.id,
        scope: page.scope,
        site: page.site,
        placement: Placement::EVERYWHERE,
        cluster: None,
    };
    // A page behind every tail is delivered like any other, but not remembered.
    let remembered = event_time >= tails.times.min();
    let decision = match best {
        None => Decision::Unique { original: remembered.then_some(original) },
        Some((candidate, held)) => {
            let of = matched(candidate, &held, event_time);
            if is_update(rules, candidate) {
                let replaces = event_time >= held.event_time;
                let original = NewOriginal { cluster: Some(held.cluster.clone()), ..original };
                Decision::Update { of, original: replaces.then_some(original) }
            } else if candidate.other_numbers {
                Decision::Template { of, original: remembered.then_some(original) }
            } else {
                Decision::Duplicate { of }
            }
        }
    };
    PageRuling { source: page.source.clone(), event_time, digest: page.digest, decision }
}

/// The page was seen before, and its text changed.
fn is_update(rules: &Rules, candidate: Candidate) -> bool {
    candidate.same_id && candidate.stage != Stage::Exact && rules.same_id == SameId::Update
}

fn matched(candidate: Candidate, held: &Original, event_time: Timestamp) -> Match {
    Match {
        stage: candidate.stage,
        distance: candidate.distance,
        contained: candidate.contained,
        source: held.source.clone(),
        age_ms: event_time.millis().saturating_sub(held.event_time.millis()),
        cluster: held.cluster.clone(),
    }
}
