//! The frame around every record: what it is, which version wrote it, and whether it is whole.

use super::CodecError;
use super::bytes::Reader;

/// The version of the layout of all records, as it is written. A later one is read one release before it is written
/// (`docs/decisions/0010-read-a-format-before-writing-it.md`).
pub const FORMAT_VERSION: u8 = 1;

/// First bytes of every record of both logs.
pub(crate) const MAGIC: [u8; 2] = *b"dg";

/// Bytes of a frame around its body.
pub(crate) const FRAME_BYTES: usize = 8;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Requests of the fingerprint log.
    Requests = 1,
    /// Verdicts of the verdict log.
    Verdicts = 2,
    /// New rules in the verdict log.
    Rules = 3,
    /// One part of a checkpoint in the verdict log.
    CheckpointPart = 4,
    /// A checkpoint in one piece, outside the logs.
    Checkpoint = 5,
    /// Originals, in a snapshot.
    Originals = 6,
    /// The offset of the verdict log that a snapshot belongs to, and the spans of the kept log.
    Position = 7,
    /// The manifest of a snapshot.
    Manifest = 8,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Requests,
        Self::Verdicts,
        Self::Rules,
        Self::CheckpointPart,
        Self::Checkpoint,
        Self::Originals,
        Self::Position,
        Self::Manifest,
    ];
}

/// Appends the head of a frame to `out`, and returns what [`close`] needs to end the frame.
pub(crate) fn open(out: &mut Vec<u8>, kind: Kind) -> usize {
    let start = out.len();
    out.extend(MAGIC);
    out.extend([FORMAT_VERSION, kind as u8]);
    start
}

/// Ends the frame that began at `start` with the checksum over all of it.
pub(crate) fn close(out: &mut Vec<u8>, start: usize) {
    let checksum = crc32fast::hash(out.get(start..).unwrap_or_default());
    out.extend(checksum.to_le_bytes());
}

/// Opens a record: checks magic, version and checksum, and returns its kind and its body.
pub(crate) fn unwrap(bytes: &[u8]) -> Result<(Kind, Reader<'_>), CodecError> {
    let (&[one, two, version, kind], _) = bytes.split_first_chunk().ok_or(CodecError::EndsInside { what: "head" })?;
    if [one, two] != MAGIC {
        return Err(CodecError::NotOurs { found: [one, two] });
    }
    if version != FORMAT_VERSION {
        return Err(CodecError::UnknownVersion { found: version });
    }
    let (framed, checksum) = bytes.split_last_chunk().ok_or(CodecError::EndsInside { what: "checksum" })?;
    let (expected, found) = (u32::from_le_bytes(*checksum), crc32fast::hash(framed));
    if expected != found {
        return Err(CodecError::Checksum { expected, found });
    }
    let body = framed.get(4..).ok_or(CodecError::EndsInside { what: "head" })?;
    let known = Kind::ALL.into_iter().find(|&known| known as u8 == kind);
    Ok((known.ok_or(CodecError::UnknownKind { found: kind })?, Reader::new(body)))
}

/// Opens a record that must be of this kind.
pub(crate) fn unwrap_kind(bytes: &[u8], kind: Kind) -> Result<Reader<'_>, CodecError> {
    match unwrap(bytes)? {
        (found, body) if found == kind => Ok(body),
        (found, _) => Err(CodecError::WrongKind { expected: kind as u8, found: found as u8 }),
    }
}
