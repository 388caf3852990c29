//! Finds the rule that excludes an original from the matches.

use super::Index;
use super::original::Probe;
use super::refusal::Refusal;
use super::ring::masked;
use super::sketches::{Measured, Wanted};
use crate::protocol::Stage;

impl Index {
    /// Returns why [`Index::candidates`] and [`Index::members`] do not show an original, or `None` if it is not held.
    /// Costs a probe: it is meant for explanations, not for the judge.
    #[must_use]
    pub fn why_not(&self, probe: &Probe<'_>, sequence: u64) -> Option<Refusal> {
        let position = self.position_of(sequence)?;
        let match_fields = self.ring.match_fields(position)?;
        if match_fields.scope != probe.scope {
            return Some(Refusal::Scope);
        }
        let uses = |stage| probe.stages.contains(&stage);
        let code = probe.fingerprints.simhash.map(|code| masked(code, probe.scope));
        let bits_to = |position| self.bits_to(code?, position);
        let bits = bits_to(position);
        let by_code = bits.filter(|_| uses(Stage::SimHash));
        let relation = probe.relation_to(self.names(position, &match_fields));
        let not_shown = probe.other_title(&match_fields, relation).unwrap_or(Refusal::Crowded);
        if probe.verify(&match_fields, bits).is_some() {
            return Some(not_shown);
        }
        let is_equal = uses(Stage::Exact) && match_fields.exact == probe.fingerprints.exact;
        if is_equal || by_code.is_some_and(|bits| bits <= probe.max_distance) {
            return Some(Refusal::Window);
        }
        let sketch = probe.fingerprints.sketch.as_ref().filter(|_| uses(Stage::MinHash));
        let measured = sketch.and_then(|sketch| {
            let may_match = |position| {
                self.ring.match_fields(position).is_some_and(|match_fields| probe.may_match_by_sketch(&match_fields))
            };
            let wanted = Wanted { ring: &self.ring, site: probe.site, sketch, scope: probe.scope, may_match, bits_to };
            self.sketches.measure(&wanted, position)
        });
        let Some(measured) = measured else {
            let far = Refusal::Distance { bits: by_code, similarity: None, contained: None };
            let has_others = uses(Stage::SimHash) || uses(Stage::MinHash);
            let short = if has_others { Refusal::TooShort } else { Refusal::Stages };
            return Some(by_code.map_or(short, |_| far));
        };
        Some(if let Some(refusal) = of_sketches(measured, bits, by_code) {
            refusal
        } else if probe.may_match_by_sketch(&match_fields) {
            not_shown
        } else {
            Refusal::Window
        })
    }
}

/// Returns why two sketches do not match; `None` when they do.
fn of_sketches(measured: Measured, bits: Option<u8>, by_code: Option<u8>) -> Option<Refusal> {
    let Measured { rules, evidence, shared, shingles } = measured;
    let (similarity, contained) = (evidence.estimate, evidence.contained);
    if shared >= rules.least_keys(shingles)
        && contained.zip(rules.containment).is_some_and(|(share, least)| share >= least)
    {
        return None;
    }
    if similarity < rules.min_similarity {
        let contained = contained.filter(|_| rules.containment.is_some());
        return Some(Refusal::Distance { bits: by_code, similarity: Some(similarity), contained });
    }
    if !rules.is_sure(evidence) {
        let limits = rules.low_confidence.limits(rules.form, evidence);
        return Some(Refusal::LowConfidence {
            similarity,
            least: limits.least,
            is_short: limits.is_short,
            contained,
            bits,
            max_distance: limits.max_distance,
        });
    }
    let needed = rules.keys_needed(shingles);
    (shared < needed).then_some(Refusal::SharedBands { similarity, shared, needed })
}
