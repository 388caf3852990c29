//! Encodes manifests, which name the origin of a snapshot and its chunks.

use crate::fingerprint::SchemeId;
use crate::protocol::codec::bytes::Write;
use crate::protocol::codec::frame::{self, Kind};
use crate::protocol::{CodecError, LogIdentity, VerdictOffset};

/// The origin of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The verdict log that was followed.
    pub log: LogIdentity,
    /// Offset of the next record of the verdict log to follow.
    pub at: VerdictOffset,
    /// The scheme of all fingerprints.
    pub scheme: SchemeId,
}

/// Hash of the bytes of a chunk, which is both its name and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChunkHash(u128);

impl ChunkHash {
    /// Hashes the bytes of a chunk.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(bytes))
    }

    /// Returns the name of the chunk's file.
    pub(super) fn file_name(self) -> String {
        format!("{:032x}.chunk", self.0)
    }

    /// Returns whether this is a valid name of a chunk.
    pub(super) fn is_file_name(file: &str) -> bool {
        let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        file.strip_suffix(".chunk").is_some_and(|hash| hash.len() == 32 && hash.bytes().all(is_digit))
    }
}

/// Encodes a manifest, with its chunks in order.
pub(super) fn encode(manifest: &Manifest, chunks: &[ChunkHash]) -> Vec<u8> {
    let mut out = Vec::new();
    let start = frame::open(&mut out, Kind::Manifest);
    out.fixed64(manifest.log.0);
    out.signed(manifest.at.0);
    out.run(manifest.scheme.0.as_bytes());
    out.varint(chunks.len() as u64);
    for chunk in chunks {
        out.extend(chunk.0.to_le_bytes());
    }
    frame::close(&mut out, start);
    out
}

/// Decodes the output of [`encode`].
pub(super) fn decode(bytes: &[u8]) -> Result<(Manifest, Vec<ChunkHash>), CodecError> {
    let mut from = frame::unwrap_kind(bytes, Kind::Manifest)?;
    let log = LogIdentity(from.fixed64("log identity")?);
    let at = VerdictOffset(from.signed("offset")?);
    let scheme = String::from_utf8(from.run("scheme")?.to_vec()).map_err(|_| CodecError::NotText { what: "scheme" })?;
    let count = from.count(16, "chunks")?;
    let chunks = (0..count).map(|_| from.fixed128("chunk").map(ChunkHash)).collect::<Result<_, _>>()?;
    from.end()?;
    Ok((Manifest { log, at, scheme: SchemeId(scheme) }, chunks))
}
