//! Whether a page and an original are the same page, as far as ids and addresses say.

use super::Index;
use super::original::{MatchFields, Probe, Relation};
use super::ring::key_of_address;
use crate::fingerprint::{AddressHash, IdHash};

/// The id and address of a page or an original.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    pub(super) id: Option<IdHash>,
    /// Its own address, if that does not follow from the id.
    pub(super) address: Option<AddressHash>,
}

impl Names {
    /// Returns its own address, if need be from its id.
    fn own_address(self) -> Option<AddressHash> {
        self.address.or(self.id.map(AddressHash::of))
    }

    /// Returns whether the other one's id names its address.
    fn is_named_by(self, other: Self) -> bool {
        self.address.is_some() && self.address == other.id.map(AddressHash::of)
    }
}

impl Probe<'_> {
    /// Returns how the page is related to an original with these names.
    pub(super) fn relation_to(&self, original: Names) -> Relation {
        match self.has_id_of(original) {
            false => Relation::Unrelated,
            true if self.is_of_address_of(original) => Relation::SameAddress,
            true if self.is_variant => Relation::Renderings,
            true => Relation::SamePage,
        }
    }

    /// Returns whether page and original are the same page in any rendering: their ids are equal, or one has the
    /// other's address as its id, or the page is a variant and was fetched from the original's address, whatever
    /// canonical page the original named.
    fn has_id_of(&self, original: Names) -> bool {
        let page = self.names();
        (page.id.is_some() && page.id == original.id)
            || page.is_named_by(original)
            || original.is_named_by(page)
            || (self.is_variant && page.address.is_some() && page.address == original.address)
    }

    /// Returns whether both were fetched from the same address. If a variant has no address, its request comes from a
    /// release that did not send it.
    fn is_of_address_of(&self, original: Names) -> bool {
        let page = self.names();
        let is_known = page.address.is_some() || !self.is_variant;
        is_known && page.own_address().is_some() && page.own_address() == original.own_address()
    }

    const fn names(&self) -> Names {
        Names { id: self.id, address: self.address }
    }
}

impl Index {
    /// Returns the names of an original with these fields.
    pub(super) fn names(&self, position: u64, match_fields: &MatchFields) -> Names {
        Names { id: match_fields.id, address: self.ring.address(position) }
    }

    /// Returns every original in memory that has this id or the address that the id names, in any order.
    pub(super) fn positions_named(&self, id: IdHash) -> Vec<u64> {
        let mut found: Vec<u64> = self.positions_with_id(id).collect();
        let address = AddressHash::of(id);
        self.by_address.equal(0, key_of_address(address), &self.ring.positions(), |position| {
            if self.ring.address(position) == Some(address) && self.ring.id(position) != Some(id) {
                found.push(position);
            }
        });
        found
    }
}
