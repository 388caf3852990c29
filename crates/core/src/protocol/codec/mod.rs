//! Byte formats of both logs.
//!
//! Every Kafka record of both logs is one frame. Its format version is checked before anything else, so that an older
//! release reports the unknown version instead of calling the bytes broken. A record is written in version 3 unless it
//! holds something that only a later version can express: version 4 a `SimHash` of other than 64 bits, counts and
//! shares of pages; version 5 rules that need further evidence for low estimates; version 6 sites, variants, and
//! originals that not all tables hold; version 7 addresses that do not follow from ids; version 8 rules for short
//! pages; version 9 checkpoints with positions that were judged again and are not delivered yet; version 10 titles;
//! version 11 checkpoints while pages are far ahead of the stream time, and what sets it back.
//!
//! ```text
//! frame         "dg" · version u8 · kind u8 · body · crc32 u32 over all before it
//!
//! 1 requests    table · count · request*
//! 2 verdicts    log identity u64 · rules number · watermarks · next request i · table · count · verdict*
//! 3 rules       log identity u64 · rules number · rules
//! 4 part        number · count · crc32 u32 of the whole · a piece of a framed checkpoint
//! 5 checkpoint  log identity u64 · rules number · rules · stream time i · watermarks · next sequence · next request i
//!               · has previous u8 [· previous i] · table
//!               · count · (partition · low watermark i · delivered i · judged: low watermark i, bitmap, reopened bitmap
//!               · not delivered bitmap (not before version 9))*
//!               · count · request id u64* [· leap: first time i · pages] (version 11 only)
//!
//! table         topic count · (length · UTF-8)* · partition count · (topic · number i)*
//! request       head u8 · request id u64 · body          head: kind in bits 0-3, hashes present in bits 4-7
//!   0 page      page · time · digest u32 · hashes
//!   1 withdraw  page · reason u8
//!   2 forget    position
//!   3 forget    id hash u64
//!   4 reopen    partition · from i · to i
//!   5 page      as 0 · has site in bit 0, is a variant in bit 1, has address in bit 2 (not before version 7), title
//!               in bit 3 (not before version 10) u8 [· site u32] [· address u32] [· title u32] (not before version 6)
//!   6 set time  ms i (not before version 11)
//! verdict       head u8 · request id u64 · body          head: kind in bits 0-3, flags
//!   0 unique    page · time · digest u32 [· original: flag 4]
//!   1 update    page · time · digest u32 · match [· original: flag 4]
//!   2 duplicate page · time · digest u32 · match
//!   3 withdrawn, 4 and 5 forgotten, 6 reopened: as in a request
//!   7 template  as an update
//!   8 time set  before ms i · after ms i (not before version 11)
//! match         stage u8 · distance u8 [· share of the smaller page: flag 6, not before version 4] · position
//!               · age in ms i [· position of the cluster: flag 5]
//! original      hashes present in bits 0-2 and 4, has cluster in bit 3, more in bit 5 u8 · hashes [· more]
//!               [· position of the cluster]
//! more          has site in bit 0, skipped bands in bit 1, family in bit 2, address in bit 3 (not before version 7),
//!               title in bit 4, is found by text and title in bit 5 (both not before version 10) u8 [· site u32]
//!               [· skipped u128] [· sequence of the family's head] [· address u32] [· title u32] (not before version 6)
//! hashes        exact u128 [· simhash] [· id u64] [· scope u64] [· length · sketch]
//!               · numbers: count · u16* (not in versions 1 and 2)
//! simhash       u64; from version 4 on: its bytes, 4, 8 or 16, u8 · that many bytes
//! page          partition · offset as the step from the partition's latest page in this record, i
//! position      the same, but no later step begins there
//! time          ms i: the first of a record as it is, others as the distance from the first
//! watermarks    exact i · simhash i · minhash i (not in version 1) · first sequence
//! rules         count · stage u8* · max_distance u8 · windows exact, simhash, minhash (not in version 1) · lateness
//!               · max_future_skew · max_entries · same_id u8 [· minhash: not in version 1]
//!               · has number guard u8 [· least overlap] (not in versions 1 and 2)
//!               · has simhash similarity u8 [· share] · has same site u8 [· containment] (not before version 6)
//! minhash       0 u8, or 1 u8 · slots u8 · bits u8 · bands u8 · rows u8 · min_shared_bands u8 · min_similarity
//!               · has counts u8 · smallest elements u8 · has containment u8 [· containment] (all not before version 4)
//!               · low_confidence below · containment (not before version 5)
//!               · low_confidence distance u8 · of many u8 · short · below short · max_bucket (not before version 6)
//!               · one_band_below (not before version 8)
//! span          seconds · nanoseconds
//! bitmap        length · portable Roaring treemap (nothing when empty)
//! ```
//!
//! Numbers without a type are LEB128 varints, and those marked `i` zigzag varints; fixed ones are little-endian. In a
//! record of many requests, one with an exact hash and a `SimHash` takes at most 64 bytes (16 more with eight numbers),
//! one with a sketch of 130 bytes 242, and the verdict on a duplicate at most 56.
//!
//! A barrier of the verdict log ([`BARRIER`]) has no frame.
//!
//! Kinds from 5 on are used in snapshots, which share the frame and the encodings.
//!
//! Bytes are read as untrusted input: nothing panics, and no length reserves more memory than the remaining bytes can
//! fill. A change of the layout needs a new [`FORMAT_VERSION`] and new golden files (`tests/golden`).

// Snapshots are written with these, too. Every reader fails as `CodecError` describes.
#[expect(clippy::missing_errors_doc, reason = "said above for all of them")]
pub mod bytes;
#[expect(clippy::missing_errors_doc, reason = "said above for all of them")]
pub mod fingerprints;
#[expect(clippy::missing_errors_doc, reason = "said above for all of them")]
pub mod frame;
#[expect(clippy::missing_errors_doc, reason = "said above for all of them")]
pub mod positions;

mod checkpoints;
mod requests;
mod rules;
mod verdict_batch;
mod verdicts;
mod versions;

pub use checkpoints::{decode_checkpoint, encode_checkpoint};
pub use frame::MAGIC;
pub use requests::{decode_requests, encode_requests};
pub use verdicts::{BARRIER, DEFAULT_PART_BYTES, VerdictReader, encode_verdict, max_verdict_bytes};
pub use versions::{
    ADDRESS_VERSION, DEFAULT_VERSION, EVIDENCE_VERSION, FORMAT_VERSION, KNOWN_VERSIONS, ONE_KEY_VERSION,
    OPTIONS_VERSION, SITES_VERSION, TITLES_VERSION,
};

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
    #[error("the record has format version {found}; this release reads {KNOWN_VERSIONS:?}")]
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
