//! Fingerprints, and the hashes that accompany them, as bytes.

use super::CodecError;
use super::bytes::{Reader, Write};
use super::versions::{ADDRESS_VERSION, DEFAULT_VERSION, OPTIONS_VERSION, SITES_VERSION, TITLES_VERSION};
use crate::fingerprint::{
    AddressHash, ExactHash, Fingerprints, IdHash, Numbers, ScopeHash, SimHash, SiteHash, Sketch, TitleHash, Width,
};
use crate::protocol::Placement;

/// Flag of an original, next to those of its hashes: [`More`] follows. Not before [`SITES_VERSION`].
pub const HAS_MORE: u8 = 1 << 5;

const HAS_SITE: u8 = 1;
const HAS_SKIPPED: u8 = 1 << 1;
const HAS_FAMILY: u8 = 1 << 2;
/// Not before [`ADDRESS_VERSION`].
const HAS_ADDRESS: u8 = 1 << 3;
/// Not before [`TITLES_VERSION`].
const HAS_TITLE: u8 = 1 << 4;
/// Not before [`TITLES_VERSION`].
const IS_BY_TITLE: u8 = 1 << 5;

/// What an original may have besides its hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct More {
    /// Hash of its site.
    pub site: Option<SiteHash>,
    /// Hash of its own address, if that does not follow from its id.
    pub address: Option<AddressHash>,
    /// Hash of its title.
    pub title: Option<TitleHash>,
    /// Which tables hold it.
    pub placement: Placement,
}

impl More {
    /// Returns [`HAS_MORE`] if there is anything to write.
    #[must_use]
    pub fn flag(self) -> u8 {
        if self == Self::default() { 0 } else { HAS_MORE }
    }

    /// Returns the version of a record that holds this.
    #[must_use]
    pub fn version(self) -> u8 {
        match self {
            Self { title: Some(_), .. } | Self { placement: Placement { by_title: true, .. }, .. } => TITLES_VERSION,
            Self { address: Some(_), .. } => ADDRESS_VERSION,
            _ if self == Self::default() => DEFAULT_VERSION,
            _ => SITES_VERSION,
        }
    }

    /// Writes what is present, if anything.
    pub fn write(self, out: &mut Vec<u8>) {
        if self == Self::default() {
            return;
        }
        let Self { site, address, title, placement: Placement { skipped, family, by_title } } = self;
        let flag = |present: bool, flag: u8| if present { flag } else { 0 };
        out.push(
            flag(site.is_some(), HAS_SITE)
                | flag(skipped != 0, HAS_SKIPPED)
                | flag(family.is_some(), HAS_FAMILY)
                | flag(address.is_some(), HAS_ADDRESS)
                | flag(title.is_some(), HAS_TITLE)
                | flag(by_title, IS_BY_TITLE),
        );
        if let Some(site) = site {
            out.extend(site.0.to_le_bytes());
        }
        if skipped != 0 {
            out.extend(skipped.to_le_bytes());
        }
        if let Some(family) = family {
            out.varint(family);
        }
        if let Some(address) = address {
            out.extend(address.0.to_le_bytes());
        }
        if let Some(title) = title {
            out.extend(title.0.to_le_bytes());
        }
    }

    /// Reads what [`More::write`] wrote for an original with these flags.
    pub fn read(from: &mut Reader<'_>, flags: u8) -> Result<Self, CodecError> {
        if flags & HAS_MORE == 0 {
            return Ok(Self::default());
        }
        let more = from.byte("more")?;
        let newer = match from.version() {
            ..ADDRESS_VERSION => 0,
            ADDRESS_VERSION..TITLES_VERSION => HAS_ADDRESS,
            TITLES_VERSION.. => HAS_ADDRESS | HAS_TITLE | IS_BY_TITLE,
        };
        let known = HAS_SITE | HAS_SKIPPED | HAS_FAMILY | newer;
        if from.version() < SITES_VERSION || more == 0 || more > known {
            return Err(CodecError::BadValue { what: "more", value: u64::from(more) });
        }
        let site = (more & HAS_SITE != 0).then(|| from.fixed32("site")).transpose()?.map(SiteHash);
        let skipped = if more & HAS_SKIPPED == 0 { 0 } else { from.fixed128("skipped")? };
        let family = (more & HAS_FAMILY != 0).then(|| from.varint("family")).transpose()?;
        let address = (more & HAS_ADDRESS != 0).then(|| from.fixed32("address")).transpose()?.map(AddressHash);
        let title = (more & HAS_TITLE != 0).then(|| from.fixed32("title")).transpose()?.map(TitleHash);
        let by_title = more & IS_BY_TITLE != 0;
        Ok(Self { site, address, title, placement: Placement { skipped, family, by_title } })
    }
}

/// Which of the optional hashes are present: bit 0 `SimHash`, bit 1 id, bit 2 scope, bit 3 sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    simhash: bool,
    id: bool,
    scope: bool,
    sketch: bool,
}

impl Present {
    /// Returns which hashes are present.
    #[must_use]
    pub const fn of(fingerprints: &Fingerprints, id: Option<IdHash>, scope: Option<ScopeHash>) -> Self {
        Self {
            simhash: fingerprints.simhash.is_some(),
            id: id.is_some(),
            scope: scope.is_some(),
            sketch: fingerprints.sketch.is_some(),
        }
    }

    /// The bit that [`Present::bits_beside_one`] leaves free.
    pub const FREE_BIT: u8 = 1 << 3;

    /// Returns the bits with room for a flag of another meaning: the sketch moves up to bit 4.
    #[must_use]
    pub fn bits_beside_one(self) -> u8 {
        self.bits() & 0b111 | u8::from(self.sketch) << 4
    }

    /// Reads what [`Present::bits_beside_one`] wrote; ignores the free bit and [`HAS_MORE`].
    pub fn from_bits_beside_one(bits: u8) -> Result<Self, CodecError> {
        if bits > 0b11_1111 {
            return Err(CodecError::BadValue { what: "flags", value: u64::from(bits) });
        }
        Self::from_bits(bits & 0b111 | (bits >> 4 & 1) << 3)
    }

    /// Returns four bits.
    #[must_use]
    pub fn bits(self) -> u8 {
        u8::from(self.simhash) | u8::from(self.id) << 1 | u8::from(self.scope) << 2 | u8::from(self.sketch) << 3
    }

    /// Reads four bits; no others may be set.
    pub fn from_bits(bits: u8) -> Result<Self, CodecError> {
        if bits > 0b1111 {
            return Err(CodecError::BadValue { what: "flags", value: u64::from(bits) });
        }
        Ok(Self { simhash: bits & 1 != 0, id: bits & 2 != 0, scope: bits & 4 != 0, sketch: bits & 8 != 0 })
    }
}

/// Returns the format version for the fingerprints of one record: older versions have only 64-bit `SimHash`es.
pub fn version_for<'a>(mut all: impl Iterator<Item = &'a Fingerprints>) -> u8 {
    let is_usual = |simhash: SimHash| simhash.width() == Width::B64;
    if all.all(|fingerprints| fingerprints.simhash.is_none_or(is_usual)) { DEFAULT_VERSION } else { OPTIONS_VERSION }
}

/// Writes the hashes that are present, without saying which, in the form of this version.
pub fn write(
    out: &mut Vec<u8>,
    version: u8,
    fingerprints: &Fingerprints,
    id: Option<IdHash>,
    scope: Option<ScopeHash>,
) {
    out.extend(fingerprints.exact.0.to_le_bytes());
    if let Some(simhash) = fingerprints.simhash {
        write_simhash(out, version, simhash);
    }
    [id.map(|id| id.0), scope.map(|scope| scope.0)].into_iter().flatten().for_each(|hash| out.fixed64(hash));
    if let Some(sketch) = &fingerprints.sketch {
        out.run(sketch.bytes());
    }
    let numbers = fingerprints.numbers.hashes();
    out.varint(numbers.len() as u64);
    numbers.iter().for_each(|hash| out.extend(hash.to_le_bytes()));
}

/// Up to version 3, there are always 64 bits, and no length.
fn write_simhash(out: &mut Vec<u8>, version: u8, simhash: SimHash) {
    let bytes = simhash.bits().to_le_bytes();
    let length = simhash.width().bytes();
    if version > DEFAULT_VERSION {
        out.push(length);
    }
    out.extend_from_slice(bytes.get(..usize::from(length)).unwrap_or(&bytes));
}

fn read_simhash(from: &mut Reader<'_>) -> Result<SimHash, CodecError> {
    const WHAT: &str = "simhash";
    if from.version() <= DEFAULT_VERSION {
        return from.fixed64(WHAT).map(SimHash::B64);
    }
    let length = from.byte(WHAT)?;
    match Width::of_bits(8 * u32::from(length)).ok_or(CodecError::BadValue { what: WHAT, value: u64::from(length) })? {
        Width::B32 => from.fixed32(WHAT).map(SimHash::B32),
        Width::B64 => from.fixed64(WHAT).map(SimHash::B64),
        Width::B128 => from.fixed128(WHAT).map(SimHash::B128),
    }
}

/// Reads the hashes that are present.
pub fn read(
    from: &mut Reader<'_>,
    present: Present,
) -> Result<(Fingerprints, Option<IdHash>, Option<ScopeHash>), CodecError> {
    let exact = ExactHash(from.fixed128("exact hash")?);
    let simhash = present.simhash.then(|| read_simhash(from)).transpose()?;
    let id = present.id.then(|| from.fixed64("id hash")).transpose()?.map(IdHash);
    let scope = present.scope.then(|| from.fixed64("scope hash")).transpose()?.map(ScopeHash);
    let sketch = present.sketch.then(|| from.shared_run("sketch")).transpose()?;
    let sketch = sketch.map(|(shared, range)| Sketch::within(shared, range));
    let numbers = read_numbers(from)?;
    Ok((Fingerprints { exact, simhash, sketch, numbers }, id, scope))
}

/// Versions 1 and 2 have no numbers.
fn read_numbers(from: &mut Reader<'_>) -> Result<Numbers, CodecError> {
    if from.version() < DEFAULT_VERSION {
        return Ok(Numbers::EMPTY);
    }
    let count = from.count(2, "numbers")?;
    let bad = || CodecError::BadValue { what: "numbers", value: count as u64 };
    let mut hashes = [0; Numbers::KEPT];
    let hashes = hashes.get_mut(..count).ok_or_else(bad)?;
    for hash in &mut *hashes {
        *hash = from.fixed16("numbers")?;
    }
    Numbers::from_hashes(hashes).ok_or_else(bad)
}
