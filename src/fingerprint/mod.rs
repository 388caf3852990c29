//! Room 3: features -> fingerprints.
//!
//! Before: `text` gives the normalised text and its weighted features. After: `log` carries the fingerprints to
//! the judge. A fingerprint is a function of the page and the scheme alone.

mod kinds;
mod settings;

pub use kinds::{ExactHash, Fingerprints, IdHash, PageDigest, SchemeId, ScopeHash, SimHash};
pub use settings::{Bits, FeatureHash, Settings, SimHashSettings, Weights};
