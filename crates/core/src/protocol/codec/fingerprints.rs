//! What a request, a verdict and a snapshot say of one page, as bytes: its fingerprints, the hashes that accompany them,
//! and where the index holds an original.

use super::CodecError;
use super::bytes::{Reader, Write};
use super::positions::Positions;
use crate::fingerprint::{
    AddressHash, ExactHash, Fingerprints, IdHash, Numbers, ScopeHash, SimHash, SiteHash, Sketch, TitleHash,
};
use crate::protocol::Placement;
use crate::record::Source;

/// The bits that say how long the `SimHash` is: 0 for none, then 4, 8 and 16 bytes.
const SIMHASH: u8 = 0b11;
const HAS_SKETCH: u8 = 1 << 2;
const HAS_ID: u8 = 1 << 3;
const HAS_SCOPE: u8 = 1 << 4;
const HAS_SITE: u8 = 1 << 5;
const HAS_ADDRESS: u8 = 1 << 6;
const HAS_TITLE: u8 = 1 << 7;

const HAS_CLUSTER: u8 = 1;
const HAS_SKIPPED: u8 = 1 << 1;
const HAS_FAMILY: u8 = 1 << 2;
const IS_BY_TITLE: u8 = 1 << 3;

/// Fewest bytes that [`write()`] writes: flags, exact hash, number of numbers.
pub(crate) const MIN_BYTES: usize = 18;

/// The hashes of a page besides its fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHashes {
    /// Hash of its id.
    pub id: Option<IdHash>,
    /// Hash of its scope.
    pub scope: Option<ScopeHash>,
    /// Hash of its site.
    pub site: Option<SiteHash>,
    /// Hash of its own address, if that does not follow from its id.
    pub address: Option<AddressHash>,
    /// Hash of its title.
    pub title: Option<TitleHash>,
}

const fn flag(present: bool, flag: u8) -> u8 {
    if present { flag } else { 0 }
}

/// Writes which hashes a page has, and these.
pub(crate) fn write(out: &mut Vec<u8>, fingerprints: &Fingerprints, hashes: PageHashes) {
    let Fingerprints { exact, simhash, sketch, numbers } = fingerprints;
    let PageHashes { id, scope, site, address, title } = hashes;
    let length = match simhash {
        None => 0,
        Some(SimHash::B32(_)) => 1,
        Some(SimHash::B64(_)) => 2,
        Some(SimHash::B128(_)) => 3,
    };
    out.push(
        length
            | flag(sketch.is_some(), HAS_SKETCH)
            | flag(id.is_some(), HAS_ID)
            | flag(scope.is_some(), HAS_SCOPE)
            | flag(site.is_some(), HAS_SITE)
            | flag(address.is_some(), HAS_ADDRESS)
            | flag(title.is_some(), HAS_TITLE),
    );
    out.extend(exact.0.to_le_bytes());
    match simhash {
        None => {}
        Some(SimHash::B32(bits)) => out.extend(bits.to_le_bytes()),
        Some(SimHash::B64(bits)) => out.extend(bits.to_le_bytes()),
        Some(SimHash::B128(bits)) => out.extend(bits.to_le_bytes()),
    }
    sketch.iter().for_each(|sketch| out.run(sketch.bytes()));
    [id.map(|id| id.0), scope.map(|scope| scope.0)].into_iter().flatten().for_each(|hash| out.fixed64(hash));
    for hash in [site.map(|site| site.0), address.map(|address| address.0), title.map(|title| title.0)] {
        hash.iter().for_each(|hash| out.extend(hash.to_le_bytes()));
    }
    let numbers = numbers.hashes();
    out.varint(numbers.len() as u64);
    numbers.iter().for_each(|hash| out.extend(hash.to_le_bytes()));
}

/// Reads what [`write()`] wrote.
pub(crate) fn read(from: &mut Reader<'_>) -> Result<(Fingerprints, PageHashes), CodecError> {
    let flags = from.byte("hashes")?;
    let has = |flag: u8| flags & flag != 0;
    let exact = ExactHash(from.fixed128("exact hash")?);
    let simhash = match flags & SIMHASH {
        0 => None,
        1 => Some(SimHash::B32(from.fixed32("simhash")?)),
        2 => Some(SimHash::B64(from.fixed64("simhash")?)),
        _ => Some(SimHash::B128(from.fixed128("simhash")?)),
    };
    let sketch = has(HAS_SKETCH).then(|| from.shared_run("sketch")).transpose()?;
    let sketch = sketch.map(|(shared, range)| Sketch::within(shared, range));
    let hashes = PageHashes {
        id: has(HAS_ID).then(|| from.fixed64("id hash").map(IdHash)).transpose()?,
        scope: has(HAS_SCOPE).then(|| from.fixed64("scope hash").map(ScopeHash)).transpose()?,
        site: has(HAS_SITE).then(|| from.fixed32("site").map(SiteHash)).transpose()?,
        address: has(HAS_ADDRESS).then(|| from.fixed32("address").map(AddressHash)).transpose()?,
        title: has(HAS_TITLE).then(|| from.fixed32("title").map(TitleHash)).transpose()?,
    };
    Ok((Fingerprints { exact, simhash, sketch, numbers: read_numbers(from)? }, hashes))
}

fn read_numbers(from: &mut Reader<'_>) -> Result<Numbers, CodecError> {
    let count = from.count(2, "numbers")?;
    let bad = || CodecError::BadValue { what: "numbers", value: count as u64 };
    let mut hashes = [0; Numbers::KEPT];
    let hashes = hashes.get_mut(..count).ok_or_else(bad)?;
    for hash in &mut *hashes {
        *hash = from.fixed16("numbers")?;
    }
    Numbers::from_hashes(hashes).ok_or_else(bad)
}

/// Writes which tables of the index hold an original, and the page that its cluster began with, if that is another one.
pub(crate) fn write_placement(
    out: &mut Vec<u8>,
    places: &mut Positions,
    placement: Placement,
    cluster: Option<&Source>,
) {
    let Placement { skipped, family, by_title } = placement;
    out.push(
        flag(cluster.is_some(), HAS_CLUSTER)
            | flag(skipped != 0, HAS_SKIPPED)
            | flag(family.is_some(), HAS_FAMILY)
            | flag(by_title, IS_BY_TITLE),
    );
    if let Some(cluster) = cluster {
        places.write_reference(out, cluster);
    }
    if skipped != 0 {
        out.extend(skipped.to_le_bytes());
    }
    family.iter().for_each(|family| out.varint(*family));
}

/// Reads what [`write_placement`] wrote.
pub(crate) fn read_placement(
    from: &mut Reader<'_>,
    places: &Positions,
) -> Result<(Placement, Option<Source>), CodecError> {
    let flags = from.byte("placement")?;
    let has = |flag: u8| flags & flag != 0;
    if flags > HAS_CLUSTER | HAS_SKIPPED | HAS_FAMILY | IS_BY_TITLE {
        return Err(CodecError::BadValue { what: "placement", value: u64::from(flags) });
    }
    let cluster = has(HAS_CLUSTER).then(|| places.read_reference(from)).transpose()?;
    let skipped = if has(HAS_SKIPPED) { from.fixed128("skipped")? } else { 0 };
    let family = has(HAS_FAMILY).then(|| from.varint("family")).transpose()?;
    Ok((Placement { skipped, family, by_title: has(IS_BY_TITLE) }, cluster))
}
