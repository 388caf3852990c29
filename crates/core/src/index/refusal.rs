//! Why an original is not matched: the rule that decided, with what was measured.

use std::cmp::Ordering;

use crate::fingerprint::{PerMille, TwoPages};
use crate::protocol::Rules;

/// Why an original does not match. Limits are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Page and original have different scopes.
    Scope,
    /// The original is outside the window of the stages that would match it.
    Window,
    /// The texts differ, and no other stage is in use.
    Stages,
    /// The texts differ, and one of them is too short for the fingerprints of the other stages.
    TooShort,
    /// Near in no stage: differing bits, estimated Jaccard index, share of the smaller page in the other one.
    Distance {
        /// Differing bits of the `SimHash`es.
        bits: Option<u8>,
        /// Estimated Jaccard index.
        similarity: Option<PerMille>,
        /// Share of the smaller page that is in the other one.
        contained: Option<PerMille>,
    },
    /// Similar enough, but the sketches share too few keys to be compared.
    SharedBands {
        /// Estimated Jaccard index.
        similarity: PerMille,
        /// Keys that both have.
        shared: u8,
        /// Keys that both have to have.
        needed: u8,
    },
    /// Similar enough, but the estimate is low and there is no further evidence.
    LowConfidence {
        /// Estimated Jaccard index.
        similarity: PerMille,
        /// The lowest estimate that would have needed no further evidence, for this pair.
        least: PerMille,
        /// Whether that limit is the one for short pages and for pages of two sites.
        is_short: bool,
        /// Share of the smaller page that is in the other one.
        contained: Option<PerMille>,
        /// Differing bits of the `SimHash`es.
        bits: Option<u8>,
        /// The most differing bits that would have been enough evidence, for this pair.
        max_distance: u8,
    },
    /// The original is found only by its differences from the head of its family, or by the keys that had room, and the
    /// page shares none of these.
    Crowded,
    /// The `SimHash`es are near, but the sketches are not.
    SimHashSimilarity {
        /// Estimated Jaccard index.
        similarity: PerMille,
    },
    /// Another page of the same site: both have a title, and the titles differ.
    Titles,
    /// Of the same site, but not similar enough for that.
    SameSite(TwoPages),
    /// Near, but with other numbers.
    Numbers {
        /// Share of the smaller page's numbers that are in the other one.
        overlap: PerMille,
    },
}

impl Refusal {
    /// Returns the name used in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scope => "scope",
            Self::Window => "window",
            Self::Stages => "stages",
            Self::TooShort => "too_short",
            Self::Distance { .. } => "distance",
            Self::SharedBands { .. } => "min_shared_bands",
            Self::LowConfidence { .. } => "low_confidence",
            Self::Crowded => "max_bucket",
            Self::SimHashSimilarity { .. } => "simhash_min_similarity",
            Self::Titles => "titles",
            Self::SameSite(_) => "same_site",
            Self::Numbers { .. } => "number_guard",
        }
    }

    /// Returns one sentence that states what was measured and which setting decided. `rules` are those of the decision.
    #[must_use]
    pub fn sentence(self, rules: &Rules) -> String {
        match self {
            Self::Scope => "the pages have different scopes (input.fields.scope)".to_owned(),
            Self::Window => {
                "the original is outside the window of the stages that would match it (window.size, window.stages)"
                    .to_owned()
            }
            Self::Stages => "the texts differ, and match.stages has no other stage than exact".to_owned(),
            Self::TooShort => "the texts differ, and one of them is too short for the other stages \
                               (text.min_features, match.minhash.min_shingles)"
                .to_owned(),
            Self::Distance { bits, similarity, contained } => {
                let far = bits.map(|bits| {
                    format!(
                        "the SimHashes differ in {bits} bits (match.simhash.max_distance is {})",
                        rules.max_distance
                    )
                });
                let unlike = similarity.zip(rules.minhash).map(|(similarity, minhash)| {
                    let least = minhash.min_similarity;
                    format!("the estimated similarity is {similarity} (match.minhash.min_similarity is {least})")
                });
                let least = rules.minhash.and_then(|minhash| minhash.containment);
                let held = contained.zip(least).map(|(contained, least)| {
                    format!("{contained} of the smaller page is in the other (match.minhash.containment is {least})")
                });
                [far, unlike, held].into_iter().flatten().collect::<Vec<_>>().join(" and ")
            }
            Self::SharedBands { similarity, shared, needed } => {
                let keys = if shared == 1 { "key" } else { "keys" };
                let limit = match rules.minhash {
                    Some(minhash) if minhash.min_shared_bands != needed => {
                        format!("one_band_below is {}: a shorter page needs {needed}", minhash.one_band_below)
                    }
                    Some(_) | None => format!("min_shared_bands is {needed}"),
                };
                format!(
                    "the sketches share {shared} band {keys} (match.minhash.{limit}), although the estimated \
                     similarity is {similarity}"
                )
            }
            Self::LowConfidence { similarity, least, is_short, contained, bits, max_distance } => {
                let low_confidence = rules.minhash.map(|minhash| minhash.low_confidence);
                let configured = low_confidence.map_or(PerMille::ZERO, |low_confidence| {
                    if is_short { low_confidence.below_short } else { low_confidence.below }
                });
                let name = if is_short { "below_short" } else { "below" };
                let many = match least.cmp(&configured) {
                    Ordering::Greater => " and stricter among many candidates",
                    Ordering::Less => ", between two sites halfway to below_short",
                    Ordering::Equal => "",
                };
                let wanted = low_confidence.map_or(PerMille::ZERO, |low_confidence| low_confidence.containment);
                let held = contained.map_or("an unknown share".to_owned(), |contained| contained.to_string());
                let apart = bits.map_or("the SimHashes are not known".to_owned(), |bits| {
                    format!("the SimHashes differ in {bits} bits (max_distance is {max_distance})")
                });
                format!(
                    "the estimated similarity {similarity} is below {least} (match.minhash.low_confidence.{name} is \
                     {configured}{many}), {held} of the smaller page is in the other (containment is {wanted}) and {apart}"
                )
            }
            Self::Crowded => "many pages are like the original, and it is held under none of the page's keys \
                              (match.minhash.max_bucket)"
                .to_owned(),
            Self::SimHashSimilarity { similarity } => {
                let least = rules.simhash_similarity.unwrap_or_default();
                format!(
                    "the SimHashes are near, but the estimated similarity is {similarity} (match.simhash.min_similarity is {least})"
                )
            }
            Self::Titles => {
                let least = rules.same_site.map_or(PerMille::ZERO, |rule| rule.containment);
                format!("another page of the same site: their titles differ (match.same_site is {least})")
            }
            Self::SameSite(TwoPages { similarity, contained }) => {
                let least = rules.same_site.map_or(PerMille::ZERO, |rule| rule.containment);
                let measured = contained.map_or_else(
                    || format!("the estimated similarity is {similarity}"),
                    |contained| format!("about {contained} of the page is in the original"),
                );
                format!("both pages are of one site, and {measured} (match.same_site is {least})")
            }
            Self::Numbers { overlap } => {
                let least = rules.number_guard.unwrap_or_default();
                format!("{overlap} of the smaller page's numbers are in the other (match.number_overlap is {least})")
            }
        }
    }
}
