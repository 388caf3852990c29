//! Records of the verdict log as Kafka records, and back.

use super::checkpoints::{Part, decode_checkpoint, encode_parts};
use super::frame::{self, Kind};
use super::{CodecError, rules, verdict_batch};
use crate::fingerprint::SketchForm;
use crate::protocol::VerdictRecord;

/// The most bytes of one part of a checkpoint, by default: below the 1 MiB that brokers accept by default.
pub const DEFAULT_PART_BYTES: usize = 1_000_000;

/// Maximum size of one verdict in the log without a sketch: that of an original with all its other fingerprints.
const VERDICT_BYTES: usize = 384;

/// Returns the maximum size of one verdict in the log, for sketches of this form: that of an original with all its
/// fingerprints.
#[must_use]
pub fn max_verdict_bytes(form: Option<SketchForm>) -> usize {
    VERDICT_BYTES + form.map_or(0, SketchForm::bytes)
}

/// What a judge writes to the verdict log when it takes over, in a transaction of its own. It carries no information:
/// the judge reads the log until it finds the barrier, and then holds everything that was written before. It is not a
/// frame, so that it is the same in every format version.
pub const BARRIER: &[u8] = b"a judge takes over";

/// Turns one record into the Kafka records that carry it: one for verdicts and rules, and as many as `max_part_bytes`
/// requires for a checkpoint. They belong in one transaction, in this order, with nothing between them.
#[must_use]
pub fn encode_verdict(record: &VerdictRecord, max_part_bytes: usize) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    match record {
        VerdictRecord::Verdicts(batch) => verdict_batch::encode(batch, &mut out),
        VerdictRecord::Rules(record) => rules::encode(record, &mut out),
        VerdictRecord::Checkpoint(checkpoint) => return encode_parts(checkpoint, max_part_bytes),
    }
    vec![out]
}

/// Reassembles the records of a verdict log from the committed Kafka records, in order.
///
/// A reader may begin anywhere. So, at first, it skips parts of a checkpoint, up to the first record that is complete
/// in itself or begins a checkpoint. After that, a part must continue the checkpoint that is being collected: its parts
/// are written in one transaction and cannot be interrupted, so anything else is an error. After an error, the reader
/// is as good as new.
#[derive(Debug, Default)]
pub struct VerdictReader {
    state: ReadState,
}

#[derive(Debug, Default)]
enum ReadState {
    /// Nothing was read yet, except parts of a checkpoint whose first part was not seen.
    #[default]
    Fresh,
    /// Between two records.
    Between,
    /// Inside a checkpoint.
    Inside(Collected),
}

#[derive(Debug)]
struct Collected {
    first_offset: i64,
    next: u64,
    count: u64,
    checksum: u32,
    bytes: Vec<u8>,
}

impl VerdictReader {
    /// Creates a reader that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next Kafka record. If it completes a record of the verdict log, returns that record with the offset of
    /// its first part. Returns `None` for a [`BARRIER`].
    ///
    /// # Errors
    ///
    /// [`CodecError`] when the bytes are not a record of a verdict log, or not the part of a checkpoint that should
    /// come next.
    pub fn push(&mut self, offset: i64, bytes: &[u8]) -> Result<Option<(i64, VerdictRecord)>, CodecError> {
        if bytes == BARRIER {
            return Ok(None);
        }
        let before = std::mem::take(&mut self.state);
        let record = match frame::unwrap(bytes)? {
            (Kind::Verdicts, body) => VerdictRecord::Verdicts(verdict_batch::decode(body)?),
            (Kind::Rules, body) => VerdictRecord::Rules(rules::decode(body)?),
            (Kind::CheckpointPart, body) => return self.collect(before, offset, Part::decode(body)?),
            (other @ (Kind::Requests | Kind::Checkpoint | Kind::Originals | Kind::Position | Kind::Manifest), _) => {
                return Err(CodecError::WrongKind { expected: Kind::Verdicts as u8, found: other as u8 });
            }
        };
        if let ReadState::Inside(collected) = before {
            return Err(collected.torn());
        }
        self.state = ReadState::Between;
        Ok(Some((offset, record)))
    }

    fn collect(
        &mut self,
        before: ReadState,
        offset: i64,
        part: Part<'_>,
    ) -> Result<Option<(i64, VerdictRecord)>, CodecError> {
        let mut collected = match before {
            ReadState::Fresh if part.number > 0 => return Ok(None),
            ReadState::Fresh | ReadState::Between if part.number == 0 => {
                let Part { count, checksum, .. } = part;
                Collected { first_offset: offset, next: 0, count, checksum, bytes: Vec::new() }
            }
            ReadState::Fresh | ReadState::Between => {
                return Err(CodecError::TornCheckpoint { expected: 0, count: part.count });
            }
            ReadState::Inside(collected) => collected,
        };
        if (part.number, part.count, part.checksum) != (collected.next, collected.count, collected.checksum) {
            return Err(collected.torn());
        }
        collected.bytes.extend_from_slice(part.piece);
        collected.next += 1;
        if collected.next < collected.count {
            self.state = ReadState::Inside(collected);
            return Ok(None);
        }
        let found = crc32fast::hash(&collected.bytes);
        if found != collected.checksum {
            return Err(CodecError::Checksum { expected: collected.checksum, found });
        }
        let checkpoint = decode_checkpoint(&collected.bytes)?;
        self.state = ReadState::Between;
        Ok(Some((collected.first_offset, VerdictRecord::Checkpoint(Box::new(checkpoint)))))
    }
}

impl Collected {
    const fn torn(&self) -> CodecError {
        CodecError::TornCheckpoint { expected: self.next, count: self.count }
    }
}
