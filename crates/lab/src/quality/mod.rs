//! Verdict quality: judges generated pages with known ground truth and counts errors.
//!
//! Before: the caller brings texts that are unlike each other, or the generated crawl's. After: [`plant()`] makes a
//! stream of originals and edited copies of them; the judge of the service judges it (`sieve`); a [`Scorer`] compares,
//! and sets beside it what others would have said ([`Baseline`]).
//!
//! Laws: a stream is a function of texts and [`PlantSettings`]; a copy follows its original. Half of the texts is
//! to tune on, the other half to report on ([`Half`]). Cost: that of judging; [`clean`] compares every text with those
//! that share a shingle with it.

mod baseline;
mod edit;
mod families;
mod frequent;
mod planted;
mod chance;
mod score;
pub mod sites;
mod sweep;
#[cfg(test)]
mod tests;

pub use baseline::{Baseline, MAX_PAGES, PairwiseReader, SimilarPairs, scored};
pub use chance::{BackgroundSimilarity, Chance, chances, clean, contained, jaccard, set_of};
pub use edit::Edit;
pub use families::{Families, FamilyKind, FamilyPage};
pub use frequent::{Frequent, Share, frequent};
pub use planted::{Half, PlantSettings, Planted, Role, plant, plant_joined};
pub use score::{Count, Pairs, Report, Scorer};
pub use sweep::{Alike, Sample, Sweep, Tried};
