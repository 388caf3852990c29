//! Judges the second of two pages against the first, and finds the threshold at which each stage would decide
//! differently.

use std::num::NonZeroUsize;

use super::{Deduplicator, DeduplicatorError, DeduplicatorSettings, LineVerdict};
use crate::fingerprint::{FingerprintedPage, MAX_DISTANCE, PerMille};
use crate::judge::Refusal;
use crate::protocol::{MatchedBy, MinHashRules, Rules, Stage, VerdictKind};
use crate::record::{EventTime, PartitionId, Timestamp};

/// What the judge says about a pair of pages.
#[derive(Clone, Debug, PartialEq)]
pub struct PairVerdict {
    /// The verdict on the second page when the first is the only original.
    pub verdict: LineVerdict,
    /// Why the second page is not a duplicate of the first, if it is unique or a template.
    pub refusal: Option<Refusal>,
    /// What each stage says when it decides alone, strongest first, whether it is in use or not.
    pub stages: Vec<StageResult>,
}

/// What one stage says about a pair of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageResult {
    /// The stage.
    pub stage: Stage,
    /// Whether the rules use it.
    pub in_use: bool,
    /// Whether it matches under the rules' own threshold, by similarity alone: containment does not count.
    pub matches: bool,
    /// The strictest threshold under which it still matches, with the other rules unchanged. `None` when no threshold
    /// makes it match, and for the exact stage, which has none.
    pub from: Option<Threshold>,
}

/// The threshold of a stage, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Differing bits: `match.simhash.max_distance`.
    MaxDistance(u8),
    /// Estimated Jaccard index: `match.minhash.min_similarity`.
    MinSimilarity(PerMille),
}

impl PairVerdict {
    /// Lets the judge decide on `other` right after `one`: with these rules, then stage by stage, then with the loosest
    /// threshold of each stage. Both must be read by the same reader; their times do not count.
    ///
    /// # Errors
    ///
    /// [`DeduplicatorError`] when they were read for several judges.
    pub fn of(rules: &Rules, one: &FingerprintedPage, other: &FingerprintedPage) -> Result<Self, DeduplicatorError> {
        let mut deduplicator = of_one(rules.clone(), one)?;
        let refusal = deduplicator.refusal(other);
        let verdict = second(&mut deduplicator, other)?;
        let stages = Stage::ALL.map(|stage| {
            let by_likeness = rules.minhash.map(|minhash| MinHashRules { containment: None, ..minhash });
            let alone = Rules { stages: vec![stage], minhash: by_likeness, ..rules.clone() };
            let loosest = match stage {
                Stage::Exact => None,
                Stage::SimHash => Some(Rules { max_distance: MAX_DISTANCE, ..alone.clone() }),
                Stage::MinHash => alone.minhash.map(|minhash| Rules { minhash: Some(loose(minhash)), ..alone.clone() }),
            };
            let loosest = loosest.map(|rules| ask(rules, one, other)).transpose()?;
            let from = loosest.as_ref().and_then(LineVerdict::original).filter(|original| original.by.stage() == stage);
            Ok(StageResult {
                stage,
                in_use: rules.stages.contains(&stage),
                matches: ask(alone, one, other)?.original().is_some(),
                from: from.and_then(|original| match original.by {
                    MatchedBy::Exact => None,
                    MatchedBy::SimHash { bits } => Some(Threshold::MaxDistance(bits)),
                    MatchedBy::MinHash { .. } => original.similarity.map(Threshold::MinSimilarity),
                }),
            })
        });
        let stages: Result<Vec<StageResult>, DeduplicatorError> = stages.into_iter().collect();
        let refusal = refusal.filter(|_| matches!(verdict.kind(), Some(VerdictKind::Unique | VerdictKind::Template)));
        Ok(Self { verdict, refusal, stages: stages? })
    }

    /// Returns what one stage says.
    #[must_use]
    pub fn stage(&self, stage: Stage) -> Option<&StageResult> {
        self.stages.iter().find(|says| says.stage == stage)
    }
}

fn loose(minhash: MinHashRules) -> MinHashRules {
    MinHashRules { min_similarity: PerMille::ZERO, ..minhash }
}

fn ask(rules: Rules, one: &FingerprintedPage, other: &FingerprintedPage) -> Result<LineVerdict, DeduplicatorError> {
    second(&mut of_one(rules, one)?, other)
}

/// Returns a judge that remembers one page.
fn of_one(rules: Rules, one: &FingerprintedPage) -> Result<Deduplicator, DeduplicatorError> {
    // Sized for a few originals, because tables for millions would be allocated for two pages.
    let rules = Rules { max_entries: rules.max_entries.clamp(1, 16), ..rules };
    let clock = Timestamp::from_millis(i64::MAX / 2);
    let event_time = EventTime::Record;
    let mut deduplicator =
        Deduplicator::new(DeduplicatorSettings { rules, event_time, partitions: NonZeroUsize::MIN, clock });
    deduplicator.judge(PartitionId::new("pair", 0).at(1), Ok(one.clone()))?;
    Ok(deduplicator)
}

fn second(deduplicator: &mut Deduplicator, other: &FingerprintedPage) -> Result<LineVerdict, DeduplicatorError> {
    Ok(deduplicator.judge(PartitionId::new("pair", 0).at(2), Ok(other.clone()))?.verdict)
}
