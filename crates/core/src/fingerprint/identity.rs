//! Which page this is: its id, its addresses and its site.

use xxhash_rust::xxh3::xxh3_64;

use super::{AddressHash, IdHash, SiteHash};
use crate::record::{Address, Body, Document};
use crate::text::HeadLinks;

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
        let id = canonical.as_deref().or(document.id.as_deref()).map(id_hash);
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
