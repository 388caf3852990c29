//! Rules and tails as bytes.

use super::CodecError;
use super::frame::{self, Kind};
use super::wire::{Reader, Write};
use crate::log::{LogIdentity, Rules, RulesNumber, RulesRecord, SameId, Stage, Tails, Windows};

/// Appends one Kafka record that holds these rules to `out`.
pub(super) fn encode(record: &RulesRecord, out: &mut Vec<u8>) {
    let start = frame::open(out, Kind::Rules);
    out.fixed64(record.log.0);
    out.varint(u64::from(record.number.0));
    write_rules(out, &record.rules);
    frame::close(out, start);
}

/// Reads the body that [`encode`] wrote.
pub(super) fn decode(body: &[u8]) -> Result<RulesRecord, CodecError> {
    let mut from = Reader::new(body);
    let log = LogIdentity(from.fixed64("log identity")?);
    let number = RulesNumber(from.small("rules number")?);
    let rules = read_rules(&mut from)?;
    from.end()?;
    Ok(RulesRecord { log, number, rules })
}

pub(super) fn write_rules(out: &mut Vec<u8>, rules: &Rules) {
    out.varint(rules.stages.len() as u64);
    out.extend(rules.stages.iter().map(|&stage| stage as u8));
    out.push(rules.max_distance);
    for span in [rules.windows.exact, rules.windows.simhash, rules.lateness, rules.max_future_skew] {
        out.span(span);
    }
    out.varint(rules.max_entries);
    out.push(rules.same_id as u8);
}

pub(super) fn read_rules(from: &mut Reader<'_>) -> Result<Rules, CodecError> {
    let count = from.count(1, "stages")?;
    let stages = (0..count).map(|_| read_stage(from)).collect::<Result<_, _>>()?;
    Ok(Rules {
        stages,
        max_distance: from.byte("max_distance")?,
        windows: Windows { exact: from.span("window")?, simhash: from.span("window")? },
        lateness: from.span("lateness")?,
        max_future_skew: from.span("max_future_skew")?,
        max_entries: from.varint("max_entries")?,
        same_id: match from.byte("same_id")? {
            1 => SameId::Update,
            2 => SameId::Duplicate,
            other => return Err(CodecError::BadValue { what: "same_id", value: u64::from(other) }),
        },
    })
}

pub(super) fn read_stage(from: &mut Reader<'_>) -> Result<Stage, CodecError> {
    let code = from.byte("stage")?;
    let known = Stage::ALL.into_iter().find(|&stage| stage as u8 == code);
    known.ok_or(CodecError::BadValue { what: "stage", value: u64::from(code) })
}

pub(super) fn write_tails(out: &mut Vec<u8>, tails: &Tails) {
    out.time(tails.times.exact);
    out.time(tails.times.simhash);
    out.varint(tails.first_sequence);
}

pub(super) fn read_tails(from: &mut Reader<'_>) -> Result<Tails, CodecError> {
    Ok(Tails {
        times: Windows { exact: from.time("tail")?, simhash: from.time("tail")? },
        first_sequence: from.varint("first sequence")?,
    })
}
