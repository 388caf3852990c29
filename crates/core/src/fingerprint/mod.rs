//! Words -> fingerprints.
//!
//! Before: `text` gives the normalised text and its words. After: `protocol` carries the fingerprints to the judge. A
//! fingerprint is a function of the page and the scheme alone: no order, no machine and no float changes a bit.
//! [`Fingerprinter`] runs the modules `record`, `text` and `fingerprint` in one call.
//!
//! Cost: one hash of the text, one of each word, and one addition for each bit of the strongest words.

mod counters;
mod dates;
mod feature_hash;
mod fingerprinter;
mod fingerprints;
mod minhash;
mod numbers;
mod seed;
mod settings;
mod shingle;
mod simhash;
mod stop;
#[cfg(test)]
mod tests;
mod words;

use minhash::Distinct;

pub use dupgate_index::{MAX_DISTANCE, Width};
pub use fingerprinter::{
    FingerprintedPage, Fingerprinter, Inspection, ReadFrom, Scratch, SettingsError, Step, WeighedWord,
};
pub use fingerprints::{
    AddressHash, ExactHash, Fingerprints, IdHash, PageDigest, SchemeId, ScopeHash, SiteHash, TitleHash, id_hash,
};
pub use minhash::{
    Banding, BandingError, Evidence, EvidenceLimits, LowConfidence, PerMille, Permutations, SameSite, Sketch,
    SketchForm, SketchFormError, SlotBits, TwoPages,
};
pub use numbers::{Numbers, dates};
pub(crate) use seed::split_mix_draw;
pub use seed::{SPLIT_MIX_STEP, Seed, split_mix};
pub use settings::{
    FeatureHash, MinHashSettings, Settings, SimHashSettings, SimHashWidthError, Weights, is_scheme_id, partition_of,
    scheme_id,
};
pub use shingle::{ShingleBuffer, ShingleLengths, ShingleUnit, Shingling, hash_of as shingle_hash, shingle_hashes};
pub use simhash::{Feature, ParseSimHashError, SimHash};
pub use stop::{STOP_SHINGLES_HEAD, StopShingles, StopShinglesError};
