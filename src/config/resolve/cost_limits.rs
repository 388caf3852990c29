//! Cost limits: refuses bands whose chance candidates would overload the judge.

use super::super::settings::Settings;
use super::{Findings, Purpose};
use crate::protocol::Stage;
use crate::quality::chances;

/// Maximum time of a judge for the chance candidates of one page, in nanoseconds: at least 1,000 pages a second.
const MAX_NANOSECONDS: f64 = 1e6;

/// Refuses bands whose chance candidates would overload the judge once the index is full. `sieve` has no such limit.
pub(super) fn cost_limits(settings: &Settings, found: &mut Findings) {
    let rules = &settings.rules;
    if rules.stages.contains(&Stage::SimHash) && settings.roles.judge {
        warn_of_chance_matches(settings, found);
    }
    let Some(minhash) = rules.minhash.filter(|_| rules.stages.contains(&Stage::MinHash)) else { return };
    if found.purpose != Purpose::Run || !settings.roles.judge {
        return;
    }
    if !(1..=minhash.banding.bands()).contains(&minhash.min_shared_bands) {
        // This was already refused.
        return;
    }
    let shingle = settings.fingerprint.minhash.shingle;
    let chances = chances(shingle, minhash.banding, minhash.least_keys(None), rules.max_entries);
    let costs = chances.iter().map(|chance| (chance.nanoseconds(minhash.banding), chance));
    let Some((cost, worst)) = costs.max_by(|(one, _), (other, _)| one.total_cmp(other)) else { return };
    if cost > MAX_NANOSECONDS {
        let (bands, rows) = (minhash.banding.bands(), minhash.banding.rows());
        found.refuse(
            "match.minhash.bands",
            format!(
                "{bands} bands of {rows} rows, {} to be shared, find about {:.0} unrelated originals for a page among {} originals of {} \
                 and compare {:.0}: {:.1} ms of the judge (limit 1 ms); more rows, a larger min_shared_bands, longer shingles or fewer \
                 index.max_entries find fewer",
                minhash.least_keys(None),
                worst.found,
                rules.max_entries,
                worst.kind,
                worst.compared,
                cost / 1e6
            ),
        );
    }
}

/// Expected number of chance matches per page above which a warning is due: the loss budget of the whole program.
const MAX_CHANCE_MATCHES: f64 = 0.002;

/// Warns if codes are so narrow, or distances so large, that pages match unrelated originals.
fn warn_of_chance_matches(settings: &Settings, found: &mut Findings) {
    let (width, rules) = (settings.fingerprint.simhash.bits, &settings.rules);
    let expected = width.expected_chance_matches(rules.max_distance, rules.max_entries);
    if expected > MAX_CHANCE_MATCHES {
        let (bits, within, entries) = (width.bits(), rules.max_distance, rules.max_entries);
        found.warn_service(
            "match.simhash.bits",
            format!(
                "of {entries} originals about {expected:.3} are within {within} of {bits} bits of any page by chance, and real \
                 texts are closer: unique pages are taken for duplicates; more bits, a smaller match.simhash.max_distance or \
                 fewer index.max_entries find fewer"
            ),
        );
    }
}
