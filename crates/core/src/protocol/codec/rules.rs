//! Rules and watermarks as bytes.

use super::CodecError;
use super::bytes::{Reader, Write};
use super::frame::{self, Kind};
use crate::fingerprint::{Banding, LowConfidence, PerMille, SameSite, SketchForm, SlotBits};
use crate::protocol::{
    DualPeriod, ExpiryWatermarks, LogIdentity, MinHashRules, PerStage, Rules, RulesNumber, RulesRecord, SameId, Stage,
};

/// Flag beside `same_id`: the dual period has begun.
const DUAL_BEGUN: u8 = 1 << 4;
/// Flag beside `same_id`: the dual period lasts until the time after everything else.
const DUAL_UNTIL: u8 = 1 << 5;

/// Appends one Kafka record that holds these rules to `out`.
pub(super) fn encode(record: &RulesRecord, out: &mut Vec<u8>) {
    let start = frame::open(out, Kind::Rules);
    out.fixed64(record.log.0);
    out.varint(u64::from(record.number.0));
    write_rules(out, &record.rules);
    frame::close(out, start);
}

/// Reads the body that [`encode`] wrote.
pub(super) fn decode(mut from: Reader<'_>) -> Result<RulesRecord, CodecError> {
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
    for span in
        [rules.windows.exact, rules.windows.simhash, rules.windows.minhash, rules.lateness, rules.max_future_skew]
    {
        out.span(span);
    }
    out.varint(rules.max_entries);
    let dual = match rules.dual {
        None => 0,
        Some(DualPeriod::Begun) => DUAL_BEGUN,
        Some(DualPeriod::Until(_)) => DUAL_UNTIL,
    };
    out.push(rules.same_id as u8 | dual);
    out.push(u8::from(rules.minhash.is_some()));
    if let Some(minhash) = rules.minhash {
        let MinHashRules {
            form,
            banding,
            min_shared_bands,
            one_band_below,
            min_similarity,
            containment,
            low_confidence,
            max_bucket,
        } = minhash;
        // No form has more than 16 bits a slot.
        out.extend([form.slots(), u8::try_from(form.bits().count()).unwrap_or(0)]);
        out.extend([u8::from(form.has_count()), form.bottom().unwrap_or(0)]);
        out.extend([banding.bands(), banding.rows(), min_shared_bands]);
        out.varint(one_band_below.into());
        write_share(out, min_similarity);
        write_optional_share(out, containment);
        let LowConfidence { below, below_short, short, containment, max_distance, of_many } = low_confidence;
        [below, below_short, containment].into_iter().for_each(|share| write_share(out, share));
        out.varint(short.into());
        out.extend([max_distance, u8::from(of_many)]);
        out.varint(max_bucket.into());
    }
    write_optional_share(out, rules.number_guard);
    write_optional_share(out, rules.simhash_similarity);
    write_optional_share(out, rules.same_site.map(|same_site| same_site.containment));
    if let Some(DualPeriod::Until(time)) = rules.dual {
        out.time(time);
    }
}

fn write_share(out: &mut Vec<u8>, share: PerMille) {
    out.varint(share.0.into());
}

fn write_optional_share(out: &mut Vec<u8>, share: Option<PerMille>) {
    out.push(u8::from(share.is_some()));
    share.into_iter().for_each(|share| write_share(out, share));
}

fn read_share(from: &mut Reader<'_>, what: &'static str) -> Result<PerMille, CodecError> {
    from.small(what).map(PerMille)
}

fn read_optional_share(from: &mut Reader<'_>, what: &'static str) -> Result<Option<PerMille>, CodecError> {
    read_bool(from, what)?.then(|| read_share(from, what)).transpose()
}

fn read_bool(from: &mut Reader<'_>, what: &'static str) -> Result<bool, CodecError> {
    match from.byte(what)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(CodecError::BadValue { what, value: u64::from(other) }),
    }
}

fn read_minhash(from: &mut Reader<'_>) -> Result<MinHashRules, CodecError> {
    let bad = |what, value: u8| CodecError::BadValue { what, value: u64::from(value) };
    let (slots, bits) = (from.byte("slots")?, from.byte("bits")?);
    let known = [SlotBits::B4, SlotBits::B8, SlotBits::B16].into_iter().find(|known| known.count() == u32::from(bits));
    let mut form = known.and_then(|bits| SketchForm::new(usize::from(slots), bits).ok()).ok_or(bad("slots", slots))?;
    if read_bool(from, "count")? {
        form = form.with_count();
    }
    let bottom = from.byte("bottom_k")?;
    if bottom > 0 {
        form = form.with_bottom(bottom.into()).map_err(|_| bad("bottom_k", bottom))?;
    }
    let (bands, rows) = (from.byte("bands")?, from.byte("rows")?);
    Ok(MinHashRules {
        form,
        banding: Banding::new(usize::from(bands), usize::from(rows), form).map_err(|_| bad("bands", bands))?,
        min_shared_bands: from.byte("min shared bands")?,
        one_band_below: from.small("one_band_below")?,
        min_similarity: read_share(from, "min_similarity")?,
        containment: read_optional_share(from, "containment")?,
        low_confidence: LowConfidence {
            below: read_share(from, "low_confidence")?,
            below_short: read_share(from, "low_confidence below short")?,
            containment: read_share(from, "low_confidence containment")?,
            short: from.small("low_confidence short")?,
            max_distance: from.byte("low_confidence distance")?,
            of_many: read_bool(from, "low_confidence of many")?,
        },
        max_bucket: from.small("max_bucket")?,
    })
}

fn read_stages<T>(
    from: &mut Reader<'_>,
    read: impl Fn(&mut Reader<'_>) -> Result<T, CodecError>,
) -> Result<PerStage<T>, CodecError> {
    Ok(PerStage { exact: read(from)?, simhash: read(from)?, minhash: read(from)? })
}

pub(super) fn read_rules(from: &mut Reader<'_>) -> Result<Rules, CodecError> {
    let count = from.count(1, "stages")?;
    let stages = (0..count).map(|_| read_stage(from)).collect::<Result<_, _>>()?;
    let max_distance = from.byte("max_distance")?;
    let windows = read_stages(from, |from| from.span("window"))?;
    let lateness = from.span("lateness")?;
    let max_future_skew = from.span("max_future_skew")?;
    let max_entries = from.varint("max_entries")?;
    let head = from.byte("same_id")?;
    Ok(Rules {
        stages,
        max_distance,
        windows,
        lateness,
        max_future_skew,
        max_entries,
        same_id: match head & 0xF {
            1 => SameId::Update,
            2 => SameId::Duplicate,
            _ => return Err(CodecError::BadValue { what: "same_id", value: u64::from(head) }),
        },
        minhash: read_bool(from, "minhash")?.then(|| read_minhash(from)).transpose()?,
        number_guard: read_optional_share(from, "number_guard")?,
        simhash_similarity: read_optional_share(from, "simhash similarity")?,
        same_site: read_optional_share(from, "same_site")?.map(|containment| SameSite { containment }),
        dual: match head & 0xF0 {
            0 => None,
            DUAL_BEGUN => Some(DualPeriod::Begun),
            DUAL_UNTIL => Some(DualPeriod::Until(from.time("end of the dual period")?)),
            _ => return Err(CodecError::BadValue { what: "same_id", value: u64::from(head) }),
        },
    })
}

pub(super) fn read_stage(from: &mut Reader<'_>) -> Result<Stage, CodecError> {
    let code = from.byte("stage")?;
    let known = Stage::ALL.into_iter().find(|&stage| stage as u8 == code);
    known.ok_or(CodecError::BadValue { what: "stage", value: u64::from(code) })
}

pub(super) fn write_watermarks(out: &mut Vec<u8>, watermarks: &ExpiryWatermarks) {
    out.time(watermarks.times.exact);
    out.time(watermarks.times.simhash);
    out.time(watermarks.times.minhash);
    out.varint(watermarks.first_sequence);
}

pub(super) fn read_watermarks(from: &mut Reader<'_>) -> Result<ExpiryWatermarks, CodecError> {
    Ok(ExpiryWatermarks {
        times: read_stages(from, |from| from.time("watermark"))?,
        first_sequence: from.varint("first sequence")?,
    })
}
