//! Finds the originals near a page in the newest snapshot, and the verdict that the page would get.

use std::cmp::Reverse;

use dupgate_core::judge::{Snapshot, State, decide, refusal};

use crate::cli::index::snapshots_at_hand;
use crate::config::settings::Settings;
use crate::error::Fatal;
use crate::fingerprint::{Inspection, MAX_DISTANCE, PerMille, partition_of};
use crate::index::{Original, run_sequential};
use crate::protocol::{Answer, LogPartition, PageRequest, PageVerdict, Request, RequestBody, RequestId, VerdictOffset};
use crate::record::{PartitionId, Timestamp};

/// Originals that are less similar than this match under no useful rules.
const MIN_SIMILARITY: PerMille = PerMille(100);

/// The result for one page from the snapshot of one log partition.
pub(super) struct Found {
    /// The partition of the log.
    pub(super) log: LogPartition,
    /// Verdict log offset of the snapshot.
    pub(super) at: VerdictOffset,
    /// Number of originals in it.
    pub(super) originals: usize,
    /// The nearest ones, nearest first.
    pub(super) nearest: Vec<Near>,
    /// The verdict that the page would get if it arrived now. Its position is a placeholder.
    pub(super) verdict: Option<PageVerdict>,
}

/// One nearby original.
#[derive(Clone)]
pub(super) struct Near {
    pub(super) original: Original,
    /// Whether the texts are equal.
    pub(super) exact: bool,
    /// Differing bits.
    pub(super) bits: Option<u32>,
    /// Estimated Jaccard index.
    pub(super) similarity: Option<PerMille>,
    /// Estimated share of the smaller page in the other one, where containment is in use.
    pub(super) contained: Option<PerMille>,
    /// Why the page is no duplicate of it.
    pub(super) refusal: Option<Refused>,
}

/// The rule that keeps a page from being a duplicate.
#[derive(Clone)]
pub(super) struct Refused {
    /// Its name.
    pub(super) by: &'static str,
    /// The measured value, and the setting.
    pub(super) why: String,
}

/// Looks through the newest snapshot of the page's log partition; `None` if there is none.
pub(super) fn find(page: &Inspection, settings: &Settings, max: usize) -> Result<Option<Found>, Fatal> {
    let wanted = partition_of(page.reading.scope, settings.log_partitions());
    let snapshots = snapshots_at_hand(settings)?;
    let found = snapshots.into_iter().find(|(log, _)| log.index() == wanted);
    Ok(found.map(|(log, snapshot)| look(page, log, &snapshot, max)))
}

fn look(page: &Inspection, log: LogPartition, snapshot: &Snapshot, max: usize) -> Found {
    let minhash = snapshot.state.rules.minhash;
    let form = minhash.map(|minhash| minhash.form);
    let min = minhash.map_or(MIN_SIMILARITY, |minhash| minhash.min_similarity);
    let ours = &page.reading.fingerprints;
    let measure = |original: &Original| {
        let theirs = &original.fingerprints;
        let exact = ours.exact == theirs.exact;
        let bits = ours.distance(theirs);
        let similarity = form.and_then(|form| ours.similarity(theirs, form));
        let contained = minhash
            .filter(|minhash| minhash.containment.is_some())
            .and_then(|minhash| minhash.share_contained(ours, theirs));
        let holds = contained.zip(minhash.and_then(|minhash| minhash.containment));
        let is_near = exact
            || bits.is_some_and(|bits| bits <= u32::from(MAX_DISTANCE))
            || similarity.is_some_and(|similarity| similarity >= min.min(MIN_SIMILARITY))
            || holds.is_some_and(|(share, min)| share >= min);
        is_near.then(|| Near { original: original.clone(), exact, bits, similarity, contained, refusal: None })
    };
    let mut nearest: Vec<Near> = snapshot.originals.iter().filter_map(measure).collect();
    // Every original that can match is among them, so the verdict is the same as with all originals.
    let few: Vec<Original> = nearest.iter().map(|near| near.original.clone()).collect();
    let state = state_of(snapshot, &few);
    let request = request(page, snapshot);
    let verdict = judge(&state, request.clone(), snapshot.state.stream_time);
    nearest.sort_by_key(|near| (!near.exact, Reverse(near.similarity), near.bits, near.original.sequence));
    nearest.truncate(max);
    for near in &mut nearest {
        let refusal = refusal(&state, &request, snapshot.state.stream_time, near.original.sequence);
        let rules = &snapshot.state.rules;
        near.refusal = refusal.map(|refusal| Refused { by: refusal.name(), why: refusal.sentence(rules) });
    }
    Found { log, at: snapshot.at, originals: snapshot.originals.len(), nearest, verdict }
}

/// Returns the state of the snapshot with a few of its originals.
fn state_of(snapshot: &Snapshot, originals: &[Original]) -> State {
    let mut checkpoint = snapshot.state.clone();
    // Size the tables for a handful of originals, not for millions.
    checkpoint.rules.max_entries = checkpoint.rules.max_entries.min(originals.len() as u64 + 1);
    State::load(&checkpoint, originals, run_sequential)
}

fn request(page: &Inspection, snapshot: &Snapshot) -> PageRequest {
    PageRequest {
        source: PartitionId::new("", 0).at(0),
        event_time: page.reading.event_time.unwrap_or(snapshot.state.stream_time),
        id: page.reading.id,
        scope: page.reading.scope,
        site: page.reading.site,
        address: page.reading.address,
        title: page.reading.title,
        is_variant: page.reading.canonical.is_some(),
        fingerprints: page.reading.fingerprints.clone(),
        digest: page.reading.digest,
    }
}

fn judge(state: &State, request: PageRequest, now: Timestamp) -> Option<PageVerdict> {
    let entry = Request { id: RequestId(0), body: RequestBody::Page(request) };
    match decide(state, &entry, now)?.answer {
        Answer::Page(page) => Some(page),
        Answer::Withdrawn { .. } | Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. } => None,
    }
}
