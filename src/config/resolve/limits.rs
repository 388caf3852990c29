//! Checks the limits of numbers and durations, each alone and against each other.
//!
//! Cost limits: refuses bands whose chance candidates would overload the judge.

use dupgate_core::worker;

use super::super::raw::{MAX_PARTITIONS, Raw};
use super::super::settings::{Judge, Logs, Processing, Settings};
use super::super::values::{Retention, ServedPartitions, Span};
use super::{Findings, Purpose, bytes, check_own_name, is_read};
use crate::fingerprint::PerMille;
use crate::protocol::{MinHashRules, Stage};
use crate::quality::chances;

pub(super) fn logs(raw: &Raw, found: &mut Findings) -> Logs {
    let logs = &raw.logs;
    let prefix = logs.prefix.as_ref().unwrap_or(&raw.input.group);
    if logs.prefix.is_some() {
        check_own_name("logs.prefix", prefix, found);
    }
    let prefix = worker::Mode::from(raw.mode).own_name(prefix);
    for log in ["fingerprints", "verdicts"] {
        let name = format!("{prefix}.{log}.");
        // The name of a log ends in the scheme. Any scheme serves to test the pattern.
        if is_read(raw, &format!("{name}sh{}-000000", raw.r#match.simhash.bits)) {
            found.refuse("input.topics", format!("matches the program's own log `{name}…`"));
        }
    }
    let stages = [raw.window.stages.exact, raw.window.stages.simhash, raw.window.stages.minhash];
    let longest =
        stages.iter().fold(raw.window.size.0, |longest, stage| longest.max(stage.map_or(longest, |span| span.0)));
    let needed = longest.saturating_add(raw.window.allowed_lateness.0);
    let retention = match logs.retention {
        Retention::Window => needed,
        Retention::Span(Span(span)) if span < needed => {
            let why = format!("{} is below window and lateness together, {}", Span(span), Span(needed));
            found.refuse("logs.retention", why);
            needed
        }
        Retention::Span(Span(span)) => span,
    };
    Logs { prefix, replication_factor: logs.replication_factor, retention }
}

pub(super) fn judge(raw: &Raw, found: &mut Findings) -> Judge {
    let judge = &raw.judge;
    let partitions = judge.partitions;
    if partitions > 1 && raw.input.fields.scope.is_none() {
        let why = format!("is missing: judge.partitions is {partitions}, and pages are distributed by scope");
        found.refuse("input.fields.scope", why);
    }
    let served_partitions = match &judge.served_partitions {
        ServedPartitions::All => (0..partitions.min(MAX_PARTITIONS)).collect(),
        ServedPartitions::Some(list) => {
            let mut serve = list.clone();
            serve.sort_unstable();
            if serve.is_empty() {
                let why = "lists no partition: expected all or a list (roles turns judging off)";
                found.refuse("judge.served_partitions", why);
            }
            if serve.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
                found.refuse("judge.served_partitions", "names a partition twice");
            }
            for number in serve.iter().filter(|number| **number >= partitions) {
                let why = format!("partition {number} is not below judge.partitions, {partitions}");
                found.refuse("judge.served_partitions", why);
            }
            serve.dedup();
            serve
        }
    };
    Judge {
        partitions,
        served_partitions,
        commit_interval: judge.commit_interval.0,
        checkpoint_interval_records: judge.checkpoint_interval_records,
        session_timeout: judge.session_timeout.0,
    }
}

pub(super) fn processing(raw: &Raw, found: &mut Findings) -> Processing {
    let processing = &raw.processing;
    let max_in_flight_bytes = bytes("processing.max_in_flight_bytes", processing.max_in_flight_bytes, found);
    let (limit, page) = (processing.max_in_flight_bytes, raw.input.max_document);
    if limit < page {
        let why = format!("{limit} is below input.max_document, {page}: the largest page would never fit");
        found.refuse("processing.max_in_flight_bytes", why);
    }
    let ratio = processing.pause_above_dead_letter_ratio;
    let share = (1..=100_u16).find(|percent| (f64::from(*percent) - ratio * 100.0).abs() < 1e-6);
    if share.is_none() {
        found.refuse("processing.pause_above_dead_letter_ratio", format!("{ratio} is not one of 0.01, 0.02, … 1.0"));
    }
    Processing {
        threads: (processing.threads > 0).then_some(processing.threads),
        max_in_flight_bytes,
        on_bad_record: processing.on_bad_record,
        pause_above_dead_letters: share.map_or(PerMille::ONE, |percent| PerMille(10 * percent)),
        shutdown_grace: processing.shutdown_grace.0,
    }
}

/// Checks limits across sections.
pub(super) fn between(settings: &Settings, found: &mut Findings) {
    let limit = settings.kafka.transaction_timeout;
    for (path, interval) in [
        ("output.commit_interval", settings.output.commit_interval),
        ("judge.commit_interval", settings.judge.commit_interval),
    ] {
        if interval >= limit {
            found.refuse(path, format!("{} must be below transaction.timeout.ms, {}", Span(interval), Span(limit)));
        }
    }
    let (lateness, size) = (settings.rules.lateness, settings.rules.windows.max());
    if lateness > size {
        let text = format!("{} is longer than the window, {}: both take memory", Span(lateness), Span(size));
        found.warn_service("window.allowed_lateness", text);
    }
    // An instance that is only a worker has no state, and needs no stable name.
    if settings.roles.worker && settings.roles.judge && settings.input.instance_id.is_none() {
        found.warn_service("input.instance_id", "is empty: a restart moves partitions, and after a crash the input waits for the session time-out and readers \
             for the transaction time-out");
    }
}

/// Maximum time of a judge for the chance candidates of one page, in nanoseconds: at least 1,000 pages a second.
const MAX_NANOSECONDS: f64 = 1e6;

/// Refuses bands whose chance candidates would overload the judge once the index is full. `sieve` has no such limit.
pub(super) fn cost_limits(settings: &Settings, found: &mut Findings) {
    let rules = &settings.rules;
    if rules.stages.contains(&Stage::SimHash) && settings.roles.judge {
        warn_of_chance_matches(settings, found);
    }
    let is_compared = rules.stages.contains(&Stage::MinHash) && settings.roles.judge && found.purpose == Purpose::Run;
    // Other numbers of shared bands were already refused.
    let is_valid = |minhash: &MinHashRules| (1..=minhash.banding.bands()).contains(&minhash.min_shared_bands);
    let Some(minhash) = rules.minhash.filter(|minhash| is_compared && is_valid(minhash)) else { return };
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
