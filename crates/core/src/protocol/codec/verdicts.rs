//! Records of the verdict log as Kafka records, and back; the bytes of the verdicts in them.

use super::bytes::{Reader, Write};
use super::checkpoints::{Part, decode_checkpoint, encode_parts};
use super::fingerprints::PageHashes;
use super::frame::Kind;
use super::positions::Positions;
use super::rules::{read_stage, read_watermarks, write_watermarks};
use super::{CodecError, fingerprints, frame, reject, rules};
use crate::fingerprint::{IdHash, PageDigest, PerMille, SketchForm};
use crate::protocol::{
    Answer, Decision, ForgetTarget, LogIdentity, Match, MatchedBy, NewOriginal, PageVerdict, RequestId, RequestOffset,
    RulesNumber, Stage, Verdict, VerdictBatch, VerdictRecord,
};

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
        VerdictRecord::Verdicts(batch) => encode_batch(batch, &mut out),
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
            (Kind::Verdicts, body) => VerdictRecord::Verdicts(decode_batch(body)?),
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

const UNIQUE: u8 = 0;
const UPDATE: u8 = 1;
const DUPLICATE: u8 = 2;
const WITHDRAWN: u8 = 3;
const FORGOTTEN_SOURCE: u8 = 4;
const FORGOTTEN_ID: u8 = 5;
const REOPENED: u8 = 6;
const TEMPLATE: u8 = 7;
const TIME_SET: u8 = 8;

/// Flag of a page's head: it became an original.
const HAS_ORIGINAL: u8 = 1 << 4;
/// Flag of a page's head: its cluster began with another page than the original that it matched.
const HAS_CLUSTER: u8 = 1 << 5;
/// Flag of a page's head: it matched by containment.
const IS_CONTAINED: u8 = 1 << 6;

/// Fewest bytes of a verdict: its head and its request id.
const MIN_BYTES: usize = 9;

/// Appends one Kafka record that holds these verdicts to `out`.
pub(super) fn encode_batch(batch: &VerdictBatch, out: &mut Vec<u8>) {
    let mut places = Positions::default();
    let mut body = Vec::with_capacity(batch.verdicts.len() * 64);
    for verdict in &batch.verdicts {
        write_verdict(&mut body, &mut places, verdict);
    }
    let start = frame::open(out, Kind::Verdicts);
    out.fixed64(batch.log.0);
    out.varint(u64::from(batch.rules.0));
    write_watermarks(out, &batch.watermarks);
    out.signed(batch.next_request.0);
    places.write_table(out);
    out.varint(batch.verdicts.len() as u64);
    out.append(&mut body);
    frame::close(out, start);
}

/// Reads the body that [`encode_batch`] wrote.
pub(super) fn decode_batch(mut from: Reader<'_>) -> Result<VerdictBatch, CodecError> {
    let log = LogIdentity(from.fixed64("log identity")?);
    let rules = RulesNumber(from.small("rules number")?);
    let watermarks = read_watermarks(&mut from)?;
    let next_request = RequestOffset(from.signed("next request")?);
    let mut places = Positions::read_table(&mut from)?;
    let count = from.count(MIN_BYTES, "verdicts")?;
    let mut verdicts = Vec::with_capacity(count);
    for _ in 0..count {
        verdicts.push(read_verdict(&mut from, &mut places)?);
    }
    from.end()?;
    Ok(VerdictBatch { log, rules, watermarks, next_request, verdicts })
}

fn head_of(answer: &Answer) -> u8 {
    match answer {
        Answer::Page(page) => {
            let original = if page.decision.original().is_some() { HAS_ORIGINAL } else { 0 };
            head_of_match(&page.decision) | original
        }
        Answer::Withdrawn { .. } => WITHDRAWN,
        Answer::Forgotten(ForgetTarget::Source(_)) => FORGOTTEN_SOURCE,
        Answer::Forgotten(ForgetTarget::Id(_)) => FORGOTTEN_ID,
        Answer::Reopened { .. } => REOPENED,
        Answer::TimeSet { .. } => TIME_SET,
    }
}

/// Returns the kind of a decision, and the flags of its match.
fn head_of_match(decision: &Decision) -> u8 {
    let kind = match decision {
        Decision::Unique { .. } => UNIQUE,
        Decision::Update { .. } => UPDATE,
        Decision::Template { .. } => TEMPLATE,
        Decision::Duplicate { .. } => DUPLICATE,
    };
    let elsewhere = decision.matched().is_some_and(|of| of.cluster != of.source);
    let contained = decision.matched().is_some_and(|of| of.by.contained().is_some());
    kind | if elsewhere { HAS_CLUSTER } else { 0 } | if contained { IS_CONTAINED } else { 0 }
}

/// Writes a decision without its new original.
pub(super) fn write_decision(out: &mut Vec<u8>, places: &mut Positions, decision: &Decision) {
    out.push(head_of_match(decision));
    if let Some(of) = decision.matched() {
        write_match(out, places, of);
    }
}

/// Reads what [`write_decision`] wrote.
pub(super) fn read_decision(from: &mut Reader<'_>, places: &mut Positions) -> Result<Decision, CodecError> {
    let head = from.byte("decision")?;
    if head & HAS_ORIGINAL != 0 {
        return Err(CodecError::BadValue { what: "decision", value: u64::from(head) });
    }
    read_decision_of(from, places, head)
}

fn write_verdict(out: &mut Vec<u8>, places: &mut Positions, verdict: &Verdict) {
    out.push(head_of(&verdict.answer));
    out.fixed64(verdict.request.0);
    match &verdict.answer {
        Answer::Page(page) => {
            places.write_page(out, &page.source);
            places.write_time(out, page.event_time);
            out.extend(page.digest.0.to_le_bytes());
            if let Some(of) = page.decision.matched() {
                write_match(out, places, of);
            }
            if let Some(original) = page.decision.original() {
                write_original(out, places, original);
            }
        }
        Answer::Withdrawn { source, reason } => {
            places.write_page(out, source);
            out.push(reason.code());
        }
        Answer::Forgotten(ForgetTarget::Source(source)) => places.write_reference(out, source),
        Answer::Forgotten(ForgetTarget::Id(id)) => out.fixed64(id.0),
        Answer::Reopened { partition, from, to } => {
            places.write_partition(out, partition);
            out.signed(*from);
            out.signed(*to);
        }
        Answer::TimeSet { before, after } => [before, after].into_iter().for_each(|time| out.time(*time)),
    }
}

fn read_verdict(from: &mut Reader<'_>, places: &mut Positions) -> Result<Verdict, CodecError> {
    let head = from.byte("verdict")?;
    let request = RequestId(from.fixed64("request id")?);
    let answer = match (head & 0xF, head & 0xF0) {
        (UNIQUE | UPDATE | DUPLICATE | TEMPLATE, _) => Answer::Page(read_page(from, places, head)?),
        (WITHDRAWN, 0) => Answer::Withdrawn { source: places.read_page(from)?, reason: reject(from)? },
        (FORGOTTEN_SOURCE, 0) => Answer::Forgotten(ForgetTarget::Source(places.read_reference(from)?)),
        (FORGOTTEN_ID, 0) => Answer::Forgotten(ForgetTarget::Id(IdHash(from.fixed64("id hash")?))),
        (REOPENED, 0) => Answer::Reopened {
            partition: places.read_partition(from)?,
            from: from.signed("range")?,
            to: from.signed("range")?,
        },
        (TIME_SET, 0) => Answer::TimeSet { before: from.time("stream time")?, after: from.time("stream time")? },
        _ => return Err(CodecError::BadValue { what: "verdict", value: u64::from(head) }),
    };
    Ok(Verdict { request, answer })
}

fn read_page(from: &mut Reader<'_>, places: &mut Positions, head: u8) -> Result<PageVerdict, CodecError> {
    let source = places.read_page(from)?;
    let event_time = places.read_time(from)?;
    let digest = PageDigest(from.fixed32("digest")?);
    Ok(PageVerdict { source, event_time, digest, decision: read_decision_of(from, places, head)? })
}

fn read_decision_of(from: &mut Reader<'_>, places: &mut Positions, head: u8) -> Result<Decision, CodecError> {
    let of_match = HAS_CLUSTER | IS_CONTAINED;
    Ok(match (head & 0xF, head & 0xF0) {
        (UNIQUE, 0) => Decision::Unique { original: None },
        (UNIQUE, HAS_ORIGINAL) => Decision::Unique { original: Some(read_original(from, places)?) },
        (kind @ (UPDATE | TEMPLATE), flags) if flags & !(HAS_ORIGINAL | of_match) == 0 => {
            let of = read_match(from, places, flags)?;
            let original = (flags & HAS_ORIGINAL != 0).then(|| read_original(from, places)).transpose()?;
            if kind == UPDATE { Decision::Update { of, original } } else { Decision::Template { of, original } }
        }
        (DUPLICATE, flags) if flags & !of_match == 0 => Decision::Duplicate { of: read_match(from, places, flags)? },
        _ => return Err(CodecError::BadValue { what: "verdict", value: u64::from(head) }),
    })
}

fn write_match(out: &mut Vec<u8>, places: &mut Positions, of: &Match) {
    out.push(of.by.stage() as u8);
    out.push(of.by.distance());
    of.by.contained().iter().for_each(|share| out.varint(u64::from(share.0)));
    places.write_reference(out, &of.source);
    out.signed(of.age_ms);
    if of.cluster != of.source {
        places.write_reference(out, &of.cluster);
    }
}

fn read_match(from: &mut Reader<'_>, places: &Positions, flags: u8) -> Result<Match, CodecError> {
    let stage = read_stage(from)?;
    let distance = from.byte("distance")?;
    let contained = (flags & IS_CONTAINED != 0).then(|| from.small("containment").map(PerMille)).transpose()?;
    let by = match (stage, distance, contained) {
        (Stage::Exact, 0, None) => MatchedBy::Exact,
        (Stage::SimHash, bits, None) => MatchedBy::SimHash { bits },
        (Stage::MinHash, slots, contained) => MatchedBy::MinHash { slots, contained },
        (Stage::Exact | Stage::SimHash, distance, _) => {
            return Err(CodecError::BadValue { what: "distance", value: u64::from(distance) });
        }
    };
    let source = places.read_reference(from)?;
    let age_ms = from.signed("age")?;
    let cluster = if flags & HAS_CLUSTER == 0 { source.clone() } else { places.read_reference(from)? };
    Ok(Match { by, source, age_ms, cluster })
}

fn write_original(out: &mut Vec<u8>, places: &mut Positions, original: &NewOriginal) {
    let NewOriginal { id, scope, site, address, title, placement, .. } = *original;
    fingerprints::write(out, &original.fingerprints, PageHashes { id, scope, site, address, title });
    fingerprints::write_placement(out, places, placement, original.cluster.as_ref());
}

fn read_original(from: &mut Reader<'_>, places: &Positions) -> Result<NewOriginal, CodecError> {
    let (fingerprints, PageHashes { id, scope, site, address, title }) = fingerprints::read(from)?;
    let (placement, cluster) = fingerprints::read_placement(from, places)?;
    Ok(NewOriginal { fingerprints, id, scope, site, address, title, placement, cluster })
}
