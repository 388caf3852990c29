//! The fingerprints of one page, and the small hashes that travel with them: which page it is by its id, its addresses,
//! its site and its title.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use super::{Numbers, SimHash, Sketch, SketchForm};
use crate::fingerprint::PerMille;
use crate::record::{Address, Body, Document};
use crate::text::HeadLinks;

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
    pub(crate) fn of(title: &str) -> Self {
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
    pub(crate) fn contained(&self, other: &Self, form: SketchForm, known: u8) -> Option<PerMille> {
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

/// What is known of a page besides its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// Hash of the canonical address, or of the page's id if there is none.
    pub(super) id: Option<IdHash>,
    /// The canonical address, if it is not the page's own.
    pub(super) canonical: Option<String>,
    /// Hash of the page's own address, if it does not follow from the id.
    pub(super) address: Option<AddressHash>,
    /// Hash of the site.
    pub(super) site: Option<SiteHash>,
}

impl Identity {
    /// Reads the identity from a document. Ignores a canonical address on another site, because the author of a page
    /// could claim any page by it. Also ignores the front page of a site, because careless sites name it in all their
    /// pages.
    pub(super) fn of(document: &Document<'_>) -> Self {
        let address = address_of(document);
        let own = |address: &Address| {
            let named = canonical_of(document, address)?;
            let is_other = named != *address && named.site() == address.site();
            (is_other && !named.is_front_page()).then(|| named.as_str().to_owned())
        };
        let canonical = address.as_ref().and_then(own);
        let id = match (canonical.as_deref(), document.id.as_deref(), &address) {
            // The address is the id, already read.
            (None, Some(_), Some(address)) if document.address.is_none() => Some(id_of_address(address)),
            (canonical, id, _) => canonical.or(id).map(id_hash),
        };
        let own = address.as_ref().map(|address| AddressHash::of(id_of_address(address)));
        let own = own.filter(|own| id.is_none_or(|id| AddressHash::of(id) != *own));
        Self { id, canonical, address: own, site: address.map(|address| site_hash(&address.site())) }
    }
}

/// Returns a page's web address, from its field or else from the id if that is an address.
pub(super) fn address_of(document: &Document<'_>) -> Option<Address> {
    Address::parse(document.address.as_deref().or(document.id.as_deref())?)
}

fn canonical_of(document: &Document<'_>, address: &Address) -> Option<Address> {
    if let Some(named) = &document.canonical {
        return address.join(named);
    }
    let Body::Html(html) = &document.body else { return None };
    let links = HeadLinks::of(html);
    let base = links.base.and_then(|base| address.join(&base));
    base.as_ref().unwrap_or(address).join(&links.canonical?)
}

/// Returns the hash of a page's id. An address is hashed in its normal form, because a page that names it may write it
/// differently.
#[must_use]
pub fn id_hash(id: &str) -> IdHash {
    Address::parse(id).map_or_else(|| IdHash(xxh3_64(id.as_bytes())), |address| id_of_address(&address))
}

/// Returns the hash of an address that is an id.
pub(super) fn id_of_address(address: &Address) -> IdHash {
    IdHash(xxh3_64(address.as_str().as_bytes()))
}

/// Returns the upper half of the hash of a site's name.
fn site_hash(site: &str) -> SiteHash {
    let [a, b, c, d, ..] = xxh3_64(site.as_bytes()).to_be_bytes();
    SiteHash(u32::from_be_bytes([a, b, c, d]))
}
