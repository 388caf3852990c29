//! The fingerprints of one page and the small hashes that travel with them.

use crate::fingerprint::PerMille;
use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use super::{Numbers, SimHash, Sketch, SketchForm};

/// 128-bit hash of the normalised text and of the web addresses taken out of it. Equal texts have equal hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExactHash(pub u128);

/// Hash of the page's canonical address, or of its id (such as its URL in normal form): equal for a re-crawl of the
/// same page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdHash(pub u64);

/// Hash of the page's scope (tenant, site, language): pages of different scopes are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeHash(pub u64);

/// Hash of the site that a page belongs to, its registrable domain: pages of one site share menus and footers, and
/// match by stricter rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteHash(pub u32);

/// Hash of the address that a page was fetched from, in its normal form: the upper half of the hash that it would have
/// as an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressHash(pub u32);

impl AddressHash {
    /// Returns the hash of the address with this id hash. It is a page's own address, unless the page has another one.
    #[must_use]
    pub const fn of(IdHash(id): IdHash) -> Self {
        let [a, b, c, d, ..] = id.to_be_bytes();
        Self(u32::from_be_bytes([a, b, c, d]))
    }
}

/// Hash of the title of an HTML page, of its letters and digits without dates and counters: two pages of one site with
/// different titles are two pages, however little else distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TitleHash(pub u32);

impl TitleHash {
    /// Returns the hash of the part of a title that is compared.
    #[must_use]
    pub fn of(title: &str) -> Self {
        let [a, b, c, d, ..] = xxh3_64(title.as_bytes()).to_be_bytes();
        Self(u32::from_be_bytes([a, b, c, d]))
    }
}

/// Four-byte hash of the record's key and value: shows whether a verdict is about this very page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageDigest(pub u32);

/// All fingerprints of one page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprints {
    /// Hash of the normalised text.
    pub exact: ExactHash,
    /// Absent when the page has too few features (`text.min_features`).
    pub simhash: Option<SimHash>,
    /// Absent when the scheme makes none, or when the page has too few shingles (`match.minhash.min_shingles`).
    pub sketch: Option<Sketch>,
    /// Summary of its numbers: near texts with other numbers are not the same page (`match.number_guard`).
    pub numbers: Numbers,
}

impl Fingerprints {
    /// Returns the differing bits of both `SimHash`es, if both pages have one of the same width.
    #[must_use]
    pub fn distance(&self, other: &Self) -> Option<u32> {
        self.simhash?.distance(other.simhash?)
    }

    /// Returns the Jaccard index estimated from both sketches of this form, if both pages have one.
    #[must_use]
    pub fn similarity(&self, other: &Self, form: SketchForm) -> Option<PerMille> {
        Some(form.similarity(form.distance(self.sketch.as_ref()?, other.sketch.as_ref()?)))
    }

    /// Returns the share of the smaller page that is in the other one, estimated from both sketches of this form
    /// ([`SketchForm::contained`]). `known` slots are known to agree.
    #[must_use]
    pub fn contained(&self, other: &Self, form: SketchForm, known: u8) -> Option<PerMille> {
        let (one, other) = (self.sketch.as_ref()?, other.sketch.as_ref()?);
        form.contained(one, other, form.distance(one, other), known)
    }
}

/// Short name of everything that determines a fingerprint, such as `sh64-9b1f2c`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemeId(pub String);

impl fmt::Display for SchemeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
