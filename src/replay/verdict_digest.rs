//! The digest of the verdicts of a replay, in the order in which they were made.

use std::collections::BTreeSet;
use std::fmt;

use dupgate_core::replay::{Digest, Plan, Target, name_of};
use dupgate_core::worker::PageOutcome;

use super::store::Store;
use crate::config::settings::Settings;
use crate::error::Fatal;
use crate::protocol::{DEFAULT_PART_BYTES, LogIdentity, RulesNumber, RulesRecord, VerdictRecord, encode_verdict};
use crate::record::Source;
use crate::{fatal, topics};

/// Digest of the positions and outcomes so far, and of the originals that pages were matched with.
#[derive(Debug)]
pub(super) struct VerdictDigest {
    digest: Digest,
    /// Room for the texts of two positions.
    positions: [Vec<u8>; 2],
    /// Room for an element.
    element: Vec<u8>,
}

impl VerdictDigest {
    /// Continues from a digest as it was displayed; any other text begins a new one.
    pub(super) fn going_on(text: &str) -> Self {
        Self { digest: text.parse().unwrap_or_default(), positions: Default::default(), element: Vec::new() }
    }

    /// Adds the outcome of a page.
    pub(super) fn add(&mut self, source: &Source, outcome: &PageOutcome) {
        let [place, original] = &mut self.positions;
        let place = write_position(place, source);
        let original = matched(outcome).map(|source| write_position(original, source));
        let fields = [Some(place), Some(name_of(outcome).as_bytes()), original];
        self.digest = self.digest.with_in(&fields, &mut self.element);
    }
}

impl fmt::Display for VerdictDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digest.fmt(f)
    }
}

/// Writes a position into `text`, instead of what it holds, as `Display` writes it but without the machinery of formats.
fn write_position<'t>(text: &'t mut Vec<u8>, source: &Source) -> &'t [u8] {
    let Source { partition, offset } = source;
    text.clear();
    text.extend_from_slice(partition.topic.as_bytes());
    for number in [i64::from(partition.number), *offset] {
        text.push(b':');
        text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
    text
}

fn matched(outcome: &PageOutcome) -> Option<&Source> {
    match outcome {
        PageOutcome::Judged(verdict) => verdict.answer.page()?.decision.matched().map(|of| &of.source),
        PageOutcome::DeadLetter(_) | PageOutcome::Tombstone => None,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PartitionId;

    #[test]
    fn a_position_is_written_as_it_is_displayed() {
        let mut text = b"another".to_vec();
        for (number, offset) in [(0, 0), (17, 4_294_967_296), (i32::MAX, i64::MAX), (-1, -1)] {
            let source = PartitionId::new("pages.zh", number).at(offset);
            assert_eq!(write_position(&mut text, &source), source.to_string().as_bytes());
        }
    }
}
