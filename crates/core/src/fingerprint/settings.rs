//! Which fingerprints are made, and how; the scheme, a name for everything that determines the fingerprints of a page
//! and its partition.

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use xxhash_rust::xxh3::xxh3_64;

use super::{SchemeId, ScopeHash, Seed, ShingleUnit, Shingling, SimHash, SketchForm, SlotBits, StopShingles, Width};
use crate::record::InputSettings;
use crate::text;

/// How features become fingerprints (the keys of `match` that determine a fingerprint, not a verdict).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The `SimHash` stage.
    pub simhash: SimHashSettings,
    /// The `MinHash` stage.
    pub minhash: MinHashSettings,
    /// A secret that is mixed into the hashes of both (`match.seed`).
    pub seed: Seed,
}

/// How a sketch is made (`match.minhash`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinHashSettings {
    /// Slots of a sketch (`permutations`), and their width. If absent, no sketches are made.
    pub form: Option<SketchForm>,
    /// How shingles are cut.
    pub shingle: Shingling,
    /// Pages with fewer distinct shingles than this get no sketch. At least 1.
    pub min_shingles: usize,
    /// Shingles that do not count.
    pub stop: StopShingles,
}

impl Default for MinHashSettings {
    fn default() -> Self {
        Self {
            form: SketchForm::new(128, SlotBits::B8).ok().map(SketchForm::with_count),
            shingle: Shingling::of_characters(4, 6),
            min_shingles: 5,
            stop: StopShingles::default(),
        }
    }
}

/// How a `SimHash` is made (`match.simhash`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimHashSettings {
    /// Its width.
    pub bits: Width,
    /// How much a word counts.
    pub weights: Weights,
    /// How many of the strongest words count; 0 means all.
    pub top_k: usize,
    /// The hash of a word.
    pub hash: FeatureHash,
}

/// A code whose width is not that of the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("has {} bits, match.simhash.bits is {}", .found.bits(), .expected.bits())]
pub struct SimHashWidthError {
    found: Width,
    expected: Width,
}

impl SimHashSettings {
    /// Checks that a code has the width of these settings.
    ///
    /// # Errors
    ///
    /// [`SimHashWidthError`] when it has another width, so that it cannot be near any page.
    pub fn check(&self, code: SimHash) -> Result<(), SimHashWidthError> {
        let (found, expected) = (code.width(), self.bits);
        if found == expected { Ok(()) } else { Err(SimHashWidthError { found, expected }) }
    }
}

/// How much a word counts (`match.simhash.weights`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Weights {
    /// How often it occurs in the page, logarithmic, times how rare it is in the language.
    #[default]
    TfIdf,
    /// How often it occurs in the page, logarithmic.
    Tf,
    /// Every word counts the same.
    Uniform,
}

/// The hash that turns a word into bits (`match.simhash.hash`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FeatureHash {
    /// XXH3 of the word's UTF-8 bytes, without a seed: 128 bits for a `SimHash` of 128 bits, otherwise 64.
    #[default]
    Xxh3,
    /// The lower bits of MD5, as in the Python package `simhash`.
    Md5,
    /// Bob Jenkins' lookup3, as in yanyiwu/simhash: 64 bits, so it cannot make a `SimHash` of 128 bits.
    Jenkins,
}

impl FeatureHash {
    /// Returns the name used in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xxh3 => "xxh3",
            Self::Md5 => "md5",
            Self::Jenkins => "jenkins",
        }
    }
}

impl Default for SimHashSettings {
    fn default() -> Self {
        Self { bits: Width::default(), weights: Weights::default(), top_k: 200, hash: FeatureHash::default() }
    }
}

impl Settings {
    /// Writes everything that determines a fingerprint as lines of text, with one form for each meaning.
    ///
    /// The scheme is a hash of these lines, so their form cannot change without a new scheme.
    pub(crate) fn write_canonical(&self, out: &mut String) {
        let SimHashSettings { bits, weights, top_k, hash } = &self.simhash;
        let weights = match weights {
            Weights::TfIdf => "tf-idf",
            Weights::Tf => "tf",
            Weights::Uniform => "uniform",
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "simhash.bits={}", bits.bits());
        let _ = writeln!(out, "simhash.weights={weights}");
        let _ = writeln!(out, "simhash.top_k={top_k}");
        let _ = writeln!(out, "simhash.hash={}", hash.name());
        if let Some(digest) = self.seed.digest() {
            let _ = writeln!(out, "seed={digest:016x}");
        }
        if let MinHashSettings { form: Some(form), shingle, min_shingles, stop } = &self.minhash {
            let _ = writeln!(out, "minhash.permutations={}", form.slots());
            let _ = writeln!(out, "minhash.bits={}", form.bits().count());
            if form.has_count() {
                let _ = writeln!(out, "minhash.count=true");
            }
            if let Some(k) = form.bottom() {
                let _ = writeln!(out, "minhash.bottom_k={k}");
            }
            if shingle.unit != ShingleUnit::Characters {
                let _ = writeln!(out, "minhash.shingle.unit={}", shingle.unit.name());
            }
            let _ = writeln!(out, "minhash.shingle.han={}", shingle.lengths.han);
            let _ = writeln!(out, "minhash.shingle.other={}", shingle.lengths.other);
            let _ = writeln!(out, "minhash.min_shingles={min_shingles}");
            if !stop.is_empty() {
                let _ = writeln!(out, "minhash.stop_shingles={:032x}", stop.digest());
            }
        }
    }
}

/// Names the scheme of these settings: `sh`, the width of the `SimHash`, a hyphen and six hexadecimal digits.
#[must_use]
pub fn scheme_id(
    input: &InputSettings,
    text: &text::Settings,
    fingerprint: &Settings,
    partitions: NonZeroUsize,
) -> SchemeId {
    let hash = xxh3_64(canonical(input, text, fingerprint, partitions).as_bytes());
    SchemeId(format!("sh{}-{:06x}", fingerprint.simhash.bits.bits(), hash >> 40))
}

/// Returns whether a text has the form of the names that [`scheme_id`] gives.
#[must_use]
pub fn is_scheme_id(name: &str) -> bool {
    let parts = name.strip_prefix("sh").and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(bits, hash)| {
        bits.parse::<u32>().is_ok() && hash.len() == 6 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Returns the text that the scheme is a hash of, one `name=value` on each line.
#[must_use]
pub(crate) fn canonical(
    input: &InputSettings,
    text: &text::Settings,
    fingerprint: &Settings,
    partitions: NonZeroUsize,
) -> String {
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "code={}", text.version);
    input.write_canonical(&mut out);
    text.write_canonical(&mut out);
    fingerprint.write_canonical(&mut out);
    let _ = writeln!(out, "judge.partitions={partitions}");
    out
}

/// Returns the partition of the fingerprint log that a page of this scope goes to; pages without a scope go to 0.
#[must_use]
pub fn partition_of(scope: Option<ScopeHash>, partitions: NonZeroUsize) -> usize {
    let Some(ScopeHash(hash)) = scope else { return 0 };
    let partitions = u64::try_from(partitions.get()).unwrap_or(u64::MAX);
    usize::try_from(hash % partitions).unwrap_or(0)
}
