//! Fingerprints and the hashes beside them as bytes.

use super::CodecError;
use super::wire::{Reader, Write};
use crate::fingerprint::{ExactHash, Fingerprints, IdHash, ScopeHash, SimHash};

/// Which of the optional hashes are there: bit 0 `SimHash`, bit 1 id, bit 2 scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    simhash: bool,
    id: bool,
    scope: bool,
}

impl Present {
    /// Says which are there.
    pub(crate) const fn of(fingerprints: &Fingerprints, id: Option<IdHash>, scope: Option<ScopeHash>) -> Self {
        Self { simhash: fingerprints.simhash.is_some(), id: id.is_some(), scope: scope.is_some() }
    }

    /// Returns three bits.
    pub(crate) fn bits(self) -> u8 {
        u8::from(self.simhash) | u8::from(self.id) << 1 | u8::from(self.scope) << 2
    }

    /// Reads three bits; no others may be set.
    pub(crate) fn from_bits(bits: u8) -> Result<Self, CodecError> {
        if bits > 0b111 {
            return Err(CodecError::BadValue { what: "flags", value: u64::from(bits) });
        }
        Ok(Self { simhash: bits & 1 != 0, id: bits & 2 != 0, scope: bits & 4 != 0 })
    }
}

/// Writes the hashes that are there, without saying which.
pub(crate) fn write(out: &mut Vec<u8>, fingerprints: &Fingerprints, id: Option<IdHash>, scope: Option<ScopeHash>) {
    out.extend(fingerprints.exact.0.to_le_bytes());
    let simhash = fingerprints.simhash.map(|simhash| simhash.0);
    [simhash, id.map(|id| id.0), scope.map(|scope| scope.0)].into_iter().flatten().for_each(|hash| out.fixed64(hash));
}

/// Reads the hashes that are there.
pub(crate) fn read(
    from: &mut Reader<'_>,
    present: Present,
) -> Result<(Fingerprints, Option<IdHash>, Option<ScopeHash>), CodecError> {
    let exact = ExactHash(from.fixed128("exact hash")?);
    let simhash = present.simhash.then(|| from.fixed64("simhash")).transpose()?.map(SimHash);
    let id = present.id.then(|| from.fixed64("id hash")).transpose()?.map(IdHash);
    let scope = present.scope.then(|| from.fixed64("scope hash")).transpose()?.map(ScopeHash);
    Ok((Fingerprints { exact, simhash }, id, scope))
}
