//! Digests of the settings that a plan was made with: what differs later is another replay.

use std::collections::BTreeSet;

use dupgate_core::replay::{Plan, Target};

use super::store::Store;
use crate::config::settings::Settings;
use crate::error::Fatal;
use crate::protocol::{DEFAULT_PART_BYTES, LogIdentity, RulesNumber, RulesRecord, VerdictRecord, encode_verdict};
use crate::runtime::{fatal, topics};

/// Returns a digest of the rules as the verdict log would hold them.
pub(super) fn rules_digest(settings: &Settings) -> String {
    let rules = RulesRecord { log: LogIdentity(0), number: RulesNumber(0), rules: settings.rules.clone() };
    let bytes = encode_verdict(&VerdictRecord::Rules(rules), DEFAULT_PART_BYTES).concat();
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes))
}

/// Returns a digest of the settings, besides those of the verdict, that decide the records of a page.
pub(super) fn writes_digest(plan: &Plan, store: &Store, settings: &Settings) -> Result<String, Fatal> {
    let output = &settings.output;
    let (routing, value) = (topics::routing(settings), topics::duplicate_value(settings));
    let mut text =
        format!("{routing:?} {value:?} {:?} {} {:?}", output.timestamp, output.header_prefix, output.dropped_headers);
    let inputs = plan.input.iter().map(|range| &range.topic);
    let live = plan.output.topics().filter(|_| plan.into == Target::Live);
    for topic in inputs.chain(live).collect::<BTreeSet<_>>() {
        let view = store.inspector().topic(topic).map_err(fatal::cluster_error)?;
        text = format!("{text} {topic} {}", view.map_or(0, |view| view.partitions));
    }
    Ok(format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes())))
}
