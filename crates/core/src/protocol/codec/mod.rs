//! Byte formats of both logs.
//!
//! Every Kafka record of both logs is one frame. Its format version is checked before anything else, so that a release
//! reports a version that it does not know instead of calling the bytes broken.
//!
//! ```text
//! frame         "dg" · version u8 · kind u8 · body · crc32 u32 over all before it
//!
//! 1 requests    table · count · request*
//! 2 verdicts    log identity u64 · rules number · watermarks · next request i · table · count · verdict*
//! 3 rules       log identity u64 · rules number · rules
//! 4 part        number · count · crc32 u32 of the whole · a piece of a framed checkpoint
//! 5 checkpoint  log identity u64 · rules number · rules · stream time i
//!               · has leap u8 [· time i of its first page · pages] · watermarks · next sequence · next request i
//!               · has previous u8 [· previous i] · table
//!               · count · (partition · low watermark i · delivered i · judged: low watermark i, bitmap, reopened bitmap
//!               · not delivered bitmap)*
//!               · count · request id u64*
//!
//! table         topic count · (length · UTF-8)* · partition count · (topic · number i)*
//! request       head u8 · request id u64 · body          head: kind in bits 0-3, flags
//!   0 page      page · time · digest u32 · hashes        flag 4: is a variant
//!   1 withdraw  page · reason u8
//!   2 forget    position
//!   3 forget    id hash u64
//!   4 reopen    partition · from i · to i
//!   5 set time  ms i
//! verdict       head u8 · request id u64 · body          head: kind in bits 0-3, flags
//!   0 unique    page · time · digest u32 [· original: flag 4]
//!   1 update    page · time · digest u32 · match [· original: flag 4]
//!   2 duplicate page · time · digest u32 · match
//!   3 withdrawn, 4 and 5 forgotten, 6 reopened: as in a request
//!   7 template  as an update
//!   8 time set  before ms i · after ms i
//! match         stage u8 · distance u8 [· share of the smaller page: flag 6] · position · age in ms i
//!               [· position of the cluster: flag 5]
//! original      hashes · has cluster in bit 0, skipped bands in bit 1, family in bit 2, is found by text and title in
//!               bit 3 u8 [· position of the cluster] [· skipped u128] [· sequence of the family's head]
//! hashes        simhash in bits 0-1 (none, 4, 8 or 16 bytes), then has sketch, id, scope, site, address, title u8
//!               · exact u128 [· simhash] [· length · sketch] [· id u64] [· scope u64] [· site u32] [· address u32]
//!               [· title u32] · numbers: count · u16*
//! page          partition · offset as the step from the partition's latest page in this record, i
//! position      the same, but no later step begins there
//! time          ms i: the first of a record as it is, others as the distance from the first
//! watermarks    exact i · simhash i · minhash i · first sequence
//! rules         count · stage u8* · max_distance u8 · windows exact, simhash, minhash · lateness · max_future_skew
//!               · max_entries · same_id u8 · has minhash u8 [· minhash] · number guard · simhash similarity
//!               · containment on the same site
//! minhash       slots u8 · bits u8 · has counts u8 · smallest elements u8 · bands u8 · rows u8 · min_shared_bands u8
//!               · one_band_below · min_similarity · containment · low_confidence: below · below short · containment
//!               · short · distance u8 · of many u8 · max_bucket
//!               (number guard, simhash similarity and the first containment, on the same site, too: has u8 [· share])
//! span          seconds · nanoseconds
//! bitmap        length · portable Roaring treemap (nothing when empty)
//! ```
//!
//! Numbers without a type are LEB128 varints, and those marked `i` zigzag varints; fixed ones are little-endian. In a
//! record of many requests, one with an exact hash, a `SimHash` and an id takes 54 bytes, one with all that the defaults
//! compute (a sketch of 130 bytes, numbers, site and title besides) 209, its verdict as a new original 211, and the
//! verdict on a duplicate 36.
//!
//! A barrier of the verdict log ([`BARRIER`]) has no frame.
//!
//! Kinds from 5 on are used in snapshots, which share the frame and the encodings.
//!
//! Bytes are read as untrusted input: nothing panics, and no length reserves more memory than the remaining bytes can
//! fill. A change of the layout needs a new [`FORMAT_VERSION`] and new golden files (`tests/golden`).

// Snapshots are written with these, too. Every reader fails as `CodecError` describes.
pub(crate) mod bytes;
pub(crate) mod fingerprints;
pub(crate) mod frame;
pub(crate) mod positions;

mod checkpoints;
mod requests;
mod rules;
mod verdicts;

pub(crate) use checkpoints::{decode_checkpoint, encode_checkpoint};
pub use frame::FORMAT_VERSION;
pub(crate) use frame::MAGIC;
pub use requests::{decode_requests, encode_requests};
pub use verdicts::{BARRIER, DEFAULT_PART_BYTES, VerdictReader, encode_verdict, max_verdict_bytes};

use crate::record::Reject;
use bytes::Reader;

/// Why bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Not written by dupgate at all.
    #[error("not a dupgate record: it begins with {found:02x?}, not {MAGIC:02x?}")]
    NotOurs {
        /// Its first bytes.
        found: [u8; 2],
    },
    /// Written by another release.
    #[error("the record has format version {found}; this release reads version {FORMAT_VERSION}")]
    UnknownVersion {
        /// Its version.
        found: u8,
    },
    /// A kind that its version does not have.
    #[error("record kind {found} is unknown")]
    UnknownKind {
        /// Its kind.
        found: u8,
    },
    /// A record of another log.
    #[error("the record is of kind {found}, expected {expected}: it belongs elsewhere")]
    WrongKind {
        /// A kind that belongs here.
        expected: u8,
        /// Its kind.
        found: u8,
    },
    /// Bytes were changed after they were written.
    #[error("checksum {found:08x} does not match {expected:08x}")]
    Checksum {
        /// As written.
        expected: u32,
        /// As the bytes are.
        found: u32,
    },
    /// The bytes end too early.
    #[error("the record ends inside `{what}`")]
    EndsInside {
        /// What was expected.
        what: &'static str,
    },
    /// Bytes are left after the end.
    #[error("{left} bytes follow where the record should end")]
    TrailingBytes {
        /// How many.
        left: usize,
    },
    /// A number past 64 bits.
    #[error("`{what}` does not fit 64 bits")]
    TooLarge {
        /// The meaning of the number.
        what: &'static str,
    },
    /// More elements than the rest of the record can hold.
    #[error("{count} {what} announced where at most {most} fit")]
    TooMany {
        /// The kind of elements.
        what: &'static str,
        /// The number that the record announces.
        count: u64,
        /// The number that fits.
        most: usize,
    },
    /// A number without a meaning.
    #[error("`{what}` has no value {value}")]
    BadValue {
        /// The meaning of the number.
        what: &'static str,
        /// The number.
        value: u64,
    },
    /// A name that is not UTF-8.
    #[error("`{what}` is not valid UTF-8")]
    NotText {
        /// The thing that has this name.
        what: &'static str,
    },
    /// A bitmap that the library refuses.
    #[error("judged offsets cannot be read: {why}")]
    BadBitmap {
        /// The library's message.
        why: String,
    },
    /// The parts of a checkpoint do not follow one another.
    #[error("expected part {expected} of the {count} parts of a checkpoint, found something else")]
    TornCheckpoint {
        /// Number of the part that should come next, from 0.
        expected: u64,
        /// How many parts there are.
        count: u64,
    },
}

/// Returns whether bytes look like a record that dupgate wrote to one of the logs. Anything else was written by another
/// program.
#[must_use]
pub fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) || bytes == BARRIER
}

fn reject(from: &mut Reader<'_>) -> Result<Reject, CodecError> {
    let code = from.byte("reason")?;
    Reject::from_code(code).ok_or(CodecError::BadValue { what: "reason", value: u64::from(code) })
}

#[cfg(test)]
mod tests;
