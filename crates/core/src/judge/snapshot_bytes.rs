//! The bytes of a snapshot: its offset in the verdict log, its checkpoint, and its originals, in chunks; and the manifest
//! that names them.
//!
//! Originals are cut into chunks by their sequence number, so that most chunks of the next snapshot are equal to those of
//! the last one.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use super::{LogSpan, Restoring, SharedSnapshot, Snapshot};
use crate::fingerprint::SchemeId;
use crate::index::Original;
use crate::protocol::codec::bytes::Write;
use crate::protocol::codec::fingerprints::{self, PageHashes};
use crate::protocol::codec::frame::{self, Kind};
use crate::protocol::codec::positions::Positions;
use crate::protocol::{CodecError, LogIdentity, VerdictOffset, decode_checkpoint, encode_checkpoint};

/// Number of sequence numbers in one chunk, a power of two: about 4 MB of originals without sketches, 13 MB with them.
const SEQUENCES_A_CHUNK: u64 = 65_536;

/// Bytes expected for an original without its sketch.
const BYTES_EXPECTED: usize = 64;

/// Bytes reserved for the part of a chunk before its originals, the table of the positions that they name.
const ROOM_FOR_HEAD: usize = 4096;

/// Minimum size of an original: sequence, page, time, hashes, placement.
const MIN_BYTES: usize = 5 + fingerprints::MIN_BYTES;

impl Snapshot {
    /// Creates its chunks one after another.
    pub fn encode(&self) -> impl Iterator<Item = Vec<u8>> {
        let Self { at, state, originals, latest_checkpoint, spans } = self;
        let originals = originals
            .chunk_by(|one, next| one.sequence / SEQUENCES_A_CHUNK == next.sequence / SEQUENCES_A_CHUNK)
            .map(|originals| encode_originals(|| originals.iter()));
        [encode_place(*at, *latest_checkpoint, spans), encode_checkpoint(state)].into_iter().chain(originals)
    }

    /// Decodes a snapshot from its chunks.
    ///
    /// # Errors
    ///
    /// The errors of the chunks, and a [`CodecError`] for invalid bytes.
    pub fn decode<E: From<CodecError>>(chunks: &mut impl Iterator<Item = Result<Vec<u8>, E>>) -> Result<Self, E> {
        let mut snapshot = decode_head(chunks)?;
        for chunk in chunks {
            decode_originals(&chunk?, &mut snapshot.originals)?;
        }
        Ok(snapshot)
    }
}

impl SharedSnapshot {
    /// Creates the same chunks. The originals of a chunk are released once it is encoded.
    pub fn encode(self) -> impl Iterator<Item = Vec<u8>> {
        let Self { at, state, mut originals, latest_checkpoint, spans } = self;
        let head = [encode_place(at, latest_checkpoint, &spans), encode_checkpoint(&state)];
        let chunks = std::iter::from_fn(move || {
            let last = originals.first_sequence()? | (SEQUENCES_A_CHUNK - 1);
            let chunk = encode_originals(|| originals.through(last));
            originals.drop_through(last);
            Some(chunk)
        });
        head.into_iter().chain(chunks)
    }
}

impl Restoring {
    /// Begins with what comes before the originals. Then `chunks` gives the chunks of the originals, which
    /// [`decode_originals`] decodes.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::decode`].
    pub fn begin<E: From<CodecError>>(chunks: &mut impl Iterator<Item = Result<Vec<u8>, E>>) -> Result<Self, E> {
        Ok(decode_head(chunks)?.begin())
    }
}

/// Decodes the part before the originals.
fn decode_head<E: From<CodecError>>(chunks: &mut impl Iterator<Item = Result<Vec<u8>, E>>) -> Result<Snapshot, E> {
    let missing = || Err(CodecError::EndsInside { what: "snapshot" }.into());
    let (at, latest_checkpoint, spans) = decode_place(&chunks.next().unwrap_or_else(missing)?)?;
    let state = decode_checkpoint(&chunks.next().unwrap_or_else(missing)?)?;
    Ok(Snapshot { at, state, originals: Vec::new(), latest_checkpoint, spans })
}

fn encode_place(at: VerdictOffset, latest_checkpoint: Option<VerdictOffset>, kept: &[LogSpan]) -> Vec<u8> {
    let mut places = Positions::default();
    let mut spans = Vec::new();
    for span in kept {
        spans.maybe(span.checkpoint.map(|checkpoint| checkpoint.0));
        spans.varint(span.end_sequence);
        spans.time(span.newest);
        spans.varint(span.judged.len() as u64);
        for (partition, offsets) in &span.judged {
            places.write_partition(&mut spans, partition);
            spans.signed(*offsets.start());
            spans.signed(*offsets.end());
        }
    }
    let mut out = Vec::new();
    let start = frame::open(&mut out, Kind::Position);
    out.signed(at.0);
    out.maybe(latest_checkpoint.map(|checkpoint| checkpoint.0));
    places.write_table(&mut out);
    out.varint(kept.len() as u64);
    out.append(&mut spans);
    frame::close(&mut out, start);
    out
}

fn decode_place(chunk: &[u8]) -> Result<(VerdictOffset, Option<VerdictOffset>, Vec<LogSpan>), CodecError> {
    let mut from = frame::unwrap_kind(chunk, Kind::Position)?;
    let at = VerdictOffset(from.signed("offset")?);
    let latest_checkpoint = from.maybe("latest checkpoint")?.map(VerdictOffset);
    let places = Positions::read_table(&mut from)?;
    let mut spans = Vec::new();
    for _ in 0..from.count(4, "spans")? {
        let checkpoint = from.maybe("checkpoint")?.map(VerdictOffset);
        let end_sequence = from.varint("sequence")?;
        let newest = from.time("newest")?;
        let mut judged = BTreeMap::new();
        for _ in 0..from.count(3, "judged partitions")? {
            let partition = places.read_partition(&mut from)?;
            judged.insert(partition, from.signed("offset")?..=from.signed("offset")?);
        }
        spans.push(LogSpan { checkpoint, end_sequence, newest, judged });
    }
    from.end()?;
    Ok((at, latest_checkpoint, spans))
}

/// Encodes the originals of `list`. It is called twice, so that not all originals are in memory at once, and must
/// return the same originals both times.
fn encode_originals<O: Borrow<Original>, I: Iterator<Item = O>>(list: impl Fn() -> I) -> Vec<u8> {
    let (mut count, mut room) = (0_u64, 0);
    for original in list() {
        let original: &Original = original.borrow();
        count += 1;
        room += BYTES_EXPECTED + original.fingerprints.sketch.as_ref().map_or(0, |sketch| sketch.len());
    }
    let mut places = Positions::default();
    let mut body = Vec::with_capacity(room + ROOM_FOR_HEAD);
    let mut before = 0;
    for original in list() {
        let original: &Original = original.borrow();
        let Original { source, fingerprints, cluster, .. } = original;
        let Original { sequence, event_time, id, scope, site, address, title, placement, .. } = *original;
        body.varint(sequence.wrapping_sub(before));
        before = sequence;
        places.write_page(&mut body, source);
        places.write_time(&mut body, event_time);
        fingerprints::write(&mut body, fingerprints, PageHashes { id, scope, site, address, title });
        fingerprints::write_placement(&mut body, &mut places, placement, Some(cluster).filter(|&of| of != source));
    }
    let mut head = Vec::new();
    let start = frame::open(&mut head, Kind::Originals);
    places.write_table(&mut head);
    head.varint(count);
    // Insert in place instead of copying the chunk, which is large.
    body.splice(..0, head);
    frame::close(&mut body, start);
    body
}

/// Decodes a chunk of originals, after those in `into`.
///
/// # Errors
///
/// A [`CodecError`] for invalid bytes.
pub fn decode_originals(chunk: &[u8], into: &mut Vec<Original>) -> Result<(), CodecError> {
    let mut from = frame::unwrap_kind(chunk, Kind::Originals)?;
    let mut places = Positions::read_table(&mut from)?;
    let count = from.count(MIN_BYTES, "originals")?;
    into.reserve(count);
    let mut sequence = 0_u64;
    for _ in 0..count {
        sequence = sequence.wrapping_add(from.varint("sequence")?);
        let source = places.read_page(&mut from)?;
        let event_time = places.read_time(&mut from)?;
        let (fingerprints, PageHashes { id, scope, site, address, title }) = fingerprints::read(&mut from)?;
        let (placement, cluster) = fingerprints::read_placement(&mut from, &places)?;
        let cluster = cluster.unwrap_or_else(|| source.clone());
        into.push(Original {
            sequence,
            source,
            event_time,
            fingerprints,
            id,
            scope,
            site,
            address,
            title,
            placement,
            cluster,
        });
    }
    from.end()
}

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

impl Manifest {
    /// Encodes it with the hashes of the chunks, in order.
    #[must_use]
    pub fn encode(&self, chunks: &[u128]) -> Vec<u8> {
        let mut out = Vec::new();
        let start = frame::open(&mut out, Kind::Manifest);
        out.fixed64(self.log.0);
        out.signed(self.at.0);
        out.run(self.scheme.0.as_bytes());
        out.varint(chunks.len() as u64);
        for chunk in chunks {
            out.extend(chunk.to_le_bytes());
        }
        frame::close(&mut out, start);
        out
    }

    /// Decodes the output of [`Manifest::encode`].
    ///
    /// # Errors
    ///
    /// A [`CodecError`] for invalid bytes.
    pub fn decode(bytes: &[u8]) -> Result<(Self, Vec<u128>), CodecError> {
        let mut from = frame::unwrap_kind(bytes, Kind::Manifest)?;
        let log = LogIdentity(from.fixed64("log identity")?);
        let at = VerdictOffset(from.signed("offset")?);
        let scheme =
            String::from_utf8(from.run("scheme")?.to_vec()).map_err(|_| CodecError::NotText { what: "scheme" })?;
        let count = from.count(16, "chunks")?;
        let chunks = (0..count).map(|_| from.fixed128("chunk")).collect::<Result<_, _>>()?;
        from.end()?;
        Ok((Self { log, at, scheme: SchemeId(scheme) }, chunks))
    }
}
