//! Checkpoints as bytes: in one piece, and cut into parts that fit a Kafka record.

use std::borrow::Cow;
use std::collections::BTreeMap;

use roaring::RoaringTreemap;

use super::CodecError;
use super::bytes::{Reader, Write};
use super::frame::{self, FRAME_BYTES, Kind};
use super::positions::Positions;
use super::rules::{read_rules, read_watermarks, write_rules, write_watermarks};
use crate::protocol::{
    Checkpoint, Delivered, Judged, Leap, LogIdentity, PartitionCheckpoint, RequestId, RequestOffset, RulesNumber,
    VerdictOffset,
};
use crate::record::Timestamp;

/// The most bytes that a part adds to its piece: the frame, two varints and a checksum.
const PART_BYTES: usize = FRAME_BYTES + 10 + 10 + 4;

/// A bitmap of up to this many bytes is written as it is.
const SMALL_BITMAP: usize = 512;

/// The smallest piece of a checkpoint in a part, however small the parts are requested.
const MIN_PIECE: usize = 32;

/// Writes a checkpoint in one piece, framed like a record of the log.
#[must_use]
pub(crate) fn encode_checkpoint(checkpoint: &Checkpoint) -> Vec<u8> {
    let mut places = Positions::default();
    let mut judged = Vec::new();
    for (partition, said) in &checkpoint.partitions {
        places.write_partition(&mut judged, partition);
        judged.signed(said.low_watermark);
        judged.signed(said.delivered.end);
        judged.signed(said.judged.low_watermark());
        write_bitmap(&mut judged, said.judged.above());
        write_bitmap(&mut judged, said.judged.reopened());
        write_bitmap(&mut judged, &said.delivered.pending);
    }
    let mut out = Vec::with_capacity(judged.len() + checkpoint.applied.len() * 8 + 256);
    let start = frame::open(&mut out, Kind::Checkpoint);
    out.fixed64(checkpoint.log.0);
    out.varint(u64::from(checkpoint.rules_number.0));
    write_rules(&mut out, &checkpoint.rules);
    out.time(checkpoint.stream_time);
    out.maybe(checkpoint.leap.map(|leap| leap.from.millis()));
    checkpoint.leap.iter().for_each(|leap| out.varint(leap.pages));
    write_watermarks(&mut out, &checkpoint.watermarks);
    out.varint(checkpoint.next_sequence);
    out.signed(checkpoint.next_request.0);
    out.maybe(checkpoint.previous.map(|previous| previous.0));
    places.write_table(&mut out);
    out.varint(checkpoint.partitions.len() as u64);
    out.append(&mut judged);
    out.varint(checkpoint.applied.len() as u64);
    checkpoint.applied.iter().for_each(|request| out.fixed64(request.0));
    frame::close(&mut out, start);
    out
}

/// Reads a checkpoint in one piece.
///
/// # Errors
///
/// [`CodecError`] when [`encode_checkpoint`] cannot have written these bytes.
pub(crate) fn decode_checkpoint(bytes: &[u8]) -> Result<Checkpoint, CodecError> {
    let mut from = frame::unwrap_kind(bytes, Kind::Checkpoint)?;
    let log = LogIdentity(from.fixed64("log identity")?);
    let rules_number = RulesNumber(from.small("rules number")?);
    let rules = read_rules(&mut from)?;
    let stream_time = from.time("stream_time")?;
    let ahead = from.maybe("leap")?.map(Timestamp::from_millis);
    let leap = ahead.map(|ahead| Ok(Leap { from: ahead, pages: from.varint("pages ahead")? })).transpose()?;
    let watermarks = read_watermarks(&mut from)?;
    let next_sequence = from.varint("next sequence")?;
    let next_request = RequestOffset(from.signed("next request")?);
    let previous = from.maybe("previous checkpoint")?.map(VerdictOffset);
    let places = Positions::read_table(&mut from)?;
    let mut partitions = BTreeMap::new();
    for _ in 0..from.count(7, "judged partitions")? {
        let partition = places.read_partition(&mut from)?;
        let (low_watermark, delivered_end) = (from.signed("low_watermark")?, from.signed("delivered")?);
        let own_low_watermark = from.signed("low_watermark")?;
        let (above, reopened) = (read_bitmap(&mut from)?, read_bitmap(&mut from)?);
        let judged = Judged::from_parts(own_low_watermark, above, reopened);
        let delivered = Delivered { end: delivered_end, pending: read_bitmap(&mut from)? };
        partitions.insert(partition, PartitionCheckpoint { judged, low_watermark, delivered });
    }
    let count = from.count(8, "applied requests")?;
    let applied = (0..count).map(|_| from.fixed64("request id").map(RequestId)).collect::<Result<_, _>>()?;
    from.end()?;
    Ok(Checkpoint {
        log,
        rules_number,
        rules,
        stream_time,
        leap,
        watermarks,
        next_sequence,
        next_request,
        previous,
        partitions,
        applied,
    })
}

/// Writes the bitmap in the portable format of the Roaring libraries, and an empty one as nothing. In a large one,
/// consecutive positions are written as a run, because nearly all judged positions are consecutive.
fn write_bitmap(out: &mut Vec<u8>, bitmap: &RoaringTreemap) {
    let mut length = if bitmap.is_empty() { 0 } else { bitmap.serialized_size() };
    let mut bitmap = Cow::Borrowed(bitmap);
    if length > SMALL_BITMAP && bitmap.to_mut().optimize() {
        length = bitmap.serialized_size();
    }
    out.varint(length as u64);
    if length > 0 {
        // Writing into memory does not fail.
        let _: Result<(), _> = bitmap.serialize_into(&mut *out);
    }
}

fn read_bitmap(from: &mut Reader<'_>) -> Result<RoaringTreemap, CodecError> {
    let mut bytes = from.run("judged offsets")?;
    if bytes.is_empty() {
        return Ok(RoaringTreemap::new());
    }
    let bitmap = RoaringTreemap::deserialize_from(&mut bytes)
        .map_err(|error| CodecError::BadBitmap { why: error.to_string() })?;
    if bytes.is_empty() { Ok(bitmap) } else { Err(CodecError::TrailingBytes { left: bytes.len() }) }
}

/// Cuts a checkpoint into Kafka records of at most `max_part_bytes` each (but never less than about 64).
pub(super) fn encode_parts(checkpoint: &Checkpoint, max_part_bytes: usize) -> Vec<Vec<u8>> {
    let whole = encode_checkpoint(checkpoint);
    let checksum = crc32fast::hash(&whole);
    let pieces = whole.chunks(max_part_bytes.saturating_sub(PART_BYTES).max(MIN_PIECE));
    let count = pieces.len() as u64;
    pieces
        .enumerate()
        .map(|(number, piece)| {
            let mut out = Vec::with_capacity(piece.len() + PART_BYTES);
            let start = frame::open(&mut out, Kind::CheckpointPart);
            out.varint(number as u64);
            out.varint(count);
            out.extend(checksum.to_le_bytes());
            out.extend_from_slice(piece);
            frame::close(&mut out, start);
            out
        })
        .collect()
}

/// One part of a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    /// Its number, from 0.
    pub(super) number: u64,
    /// How many parts there are.
    pub(super) count: u64,
    /// Checksum over the whole checkpoint: the same in all of its parts.
    pub(super) checksum: u32,
    /// Its piece of the checkpoint.
    pub(super) piece: &'a [u8],
}

impl<'a> Part<'a> {
    /// Reads the body of a part.
    pub(super) fn decode(mut from: Reader<'a>) -> Result<Self, CodecError> {
        let (number, count) = (from.varint("part number")?, from.varint("part count")?);
        let checksum = from.fixed32("checkpoint checksum")?;
        if number >= count {
            return Err(CodecError::BadValue { what: "part number", value: number });
        }
        Ok(Self { number, count, checksum, piece: from.rest() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_in_a_row_take_next_to_no_room() {
        let mut bytes = Vec::new();
        let bitmap: RoaringTreemap = (7_000_000..8_000_000).filter(|offset| offset % 400_000 != 0).collect();
        write_bitmap(&mut bytes, &bitmap);
        assert!(bytes.len() < 1_000, "{} bytes", bytes.len());
        assert_eq!(read_bitmap(&mut Reader::new(&bytes)), Ok(bitmap));
    }

    #[test]
    fn a_bitmap_fills_its_bytes() {
        let mut bytes = Vec::new();
        let bitmap = RoaringTreemap::from_iter([1, 2, 1 << 40]);
        write_bitmap(&mut bytes, &bitmap);
        assert_eq!(read_bitmap(&mut Reader::new(&bytes)), Ok(bitmap));
        bytes[0] += 1;
        bytes.push(0);
        assert_eq!(read_bitmap(&mut Reader::new(&bytes)), Err(CodecError::TrailingBytes { left: 1 }));
    }
}
