//! Rules and watermarks as bytes.

use super::CodecError;
use super::bytes::{Reader, Write};
use super::frame::{self, Kind};
use super::versions::{
    DEFAULT_VERSION, EVIDENCE_VERSION, ONE_KEY_VERSION, OPTIONS_VERSION, SITES_VERSION, SKETCHES_VERSION,
};
use crate::fingerprint::{Banding, LowConfidence, PerMille, SameSite, SketchForm, SlotBits};
use crate::protocol::{
    ExpiryWatermarks, LogIdentity, MinHashRules, PerStage, Rules, RulesNumber, RulesRecord, SameId, Stage,
};

/// Appends one Kafka record that holds these rules to `out`.
pub(super) fn encode(record: &RulesRecord, out: &mut Vec<u8>) {
    let version = version_of(&record.rules);
    let start = frame::open_version(out, Kind::Rules, version);
    out.fixed64(record.log.0);
    out.varint(u64::from(record.number.0));
    write_rules(out, &record.rules, version);
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

/// Returns the version of a record that holds these rules.
pub(super) fn version_of(rules: &Rules) -> u8 {
    let is_newer = |minhash: &MinHashRules| {
        let LowConfidence { max_distance, of_many, short, below_short, .. } = minhash.low_confidence;
        minhash.max_bucket != 0 || max_distance != 0 || of_many || short != 0 || below_short != PerMille::ZERO
    };
    if rules.minhash.is_some_and(|minhash| minhash.one_band_below != 0) {
        return ONE_KEY_VERSION;
    }
    if rules.same_site.is_some() || rules.simhash_similarity.is_some() || rules.minhash.as_ref().is_some_and(is_newer) {
        return SITES_VERSION;
    }
    match &rules.minhash {
        Some(minhash) if minhash.low_confidence != LowConfidence::DISABLED => EVIDENCE_VERSION,
        Some(MinHashRules { form, containment, .. })
            if containment.is_some() || form.has_count() || form.bottom().is_some() =>
        {
            OPTIONS_VERSION
        }
        Some(_) | None => DEFAULT_VERSION,
    }
}

/// Writes rules in a version that can express them: [`version_of`], or a later one.
pub(super) fn write_rules(out: &mut Vec<u8>, rules: &Rules, version: u8) {
    out.varint(rules.stages.len() as u64);
    out.extend(rules.stages.iter().map(|&stage| stage as u8));
    out.push(rules.max_distance);
    for span in
        [rules.windows.exact, rules.windows.simhash, rules.windows.minhash, rules.lateness, rules.max_future_skew]
    {
        out.span(span);
    }
    out.varint(rules.max_entries);
    out.push(rules.same_id as u8);
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
        out.extend([banding.bands(), banding.rows(), min_shared_bands]);
        out.varint(u64::from(min_similarity.0));
        if version >= OPTIONS_VERSION {
            out.extend([u8::from(form.has_count()), form.bottom().unwrap_or(0), u8::from(containment.is_some())]);
            containment.iter().for_each(|least| out.varint(u64::from(least.0)));
        }
        if version >= EVIDENCE_VERSION {
            out.varint(u64::from(low_confidence.below.0));
            out.varint(u64::from(low_confidence.containment.0));
        }
        if version >= SITES_VERSION {
            out.extend([low_confidence.max_distance, u8::from(low_confidence.of_many)]);
            out.varint(u64::from(low_confidence.short));
            out.varint(u64::from(low_confidence.below_short.0));
            out.varint(u64::from(max_bucket));
        }
        if version >= ONE_KEY_VERSION {
            out.varint(u64::from(one_band_below));
        }
    }
    out.push(u8::from(rules.number_guard.is_some()));
    if let Some(least) = rules.number_guard {
        out.varint(u64::from(least.0));
    }
    if version >= SITES_VERSION {
        for share in [rules.simhash_similarity, rules.same_site.map(|same_site| same_site.containment)] {
            out.push(u8::from(share.is_some()));
            share.iter().for_each(|share| out.varint(u64::from(share.0)));
        }
    }
}

/// Reads an optional share, which versions up to 5 do not have.
fn read_share(from: &mut Reader<'_>, what: &'static str) -> Result<Option<PerMille>, CodecError> {
    if from.version() < SITES_VERSION {
        return Ok(None);
    }
    read_bool(from, what)?.then(|| from.small(what).map(PerMille)).transpose()
}

fn read_bool(from: &mut Reader<'_>, what: &'static str) -> Result<bool, CodecError> {
    match from.byte(what)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(CodecError::BadValue { what, value: u64::from(other) }),
    }
}

/// Reads the number guard, which versions 1 and 2 do not have.
fn read_number_guard(from: &mut Reader<'_>) -> Result<Option<PerMille>, CodecError> {
    if from.version() < DEFAULT_VERSION {
        return Ok(None);
    }
    read_bool(from, "number_guard")?.then(|| from.small("number_guard").map(PerMille)).transpose()
}

/// Reads the rules for sketches, which version 1 does not have.
fn read_minhash(from: &mut Reader<'_>) -> Result<Option<MinHashRules>, CodecError> {
    if from.version() < SKETCHES_VERSION {
        return Ok(None);
    }
    let bad = |what, value: u8| CodecError::BadValue { what, value: u64::from(value) };
    if !read_bool(from, "minhash")? {
        return Ok(None);
    }
    let (slots, bits) = (from.byte("slots")?, from.byte("bits")?);
    let known = [SlotBits::B4, SlotBits::B8, SlotBits::B16].into_iter().find(|known| known.count() == u32::from(bits));
    let form = known.and_then(|bits| SketchForm::new(usize::from(slots), bits).ok()).ok_or(bad("slots", slots))?;
    let (bands, rows) = (from.byte("bands")?, from.byte("rows")?);
    let banding = Banding::new(usize::from(bands), usize::from(rows), form).map_err(|_| bad("bands", bands))?;
    let min_shared_bands = from.byte("min shared bands")?;
    let min_similarity = PerMille(from.small("min_similarity")?);
    let (containment, low_confidence) = (None, LowConfidence::DISABLED);
    let mut rules = MinHashRules {
        form,
        banding,
        min_shared_bands,
        one_band_below: 0,
        min_similarity,
        containment,
        low_confidence,
        max_bucket: 0,
    };
    if from.version() >= OPTIONS_VERSION {
        if read_bool(from, "count")? {
            rules.form = form.with_count();
        }
        let k = from.byte("bottom_k")?;
        if k > 0 {
            rules.form = rules.form.with_bottom(k.into()).map_err(|_| bad("bottom_k", k))?;
        }
        rules.containment =
            read_bool(from, "containment")?.then(|| from.small("containment").map(PerMille)).transpose()?;
    }
    if from.version() >= EVIDENCE_VERSION {
        let (below, containment) =
            (PerMille(from.small("low_confidence")?), PerMille(from.small("low_confidence containment")?));
        rules.low_confidence = LowConfidence { below, containment, ..LowConfidence::DISABLED };
    }
    if from.version() >= SITES_VERSION {
        rules.low_confidence.max_distance = from.byte("low_confidence distance")?;
        rules.low_confidence.of_many = read_bool(from, "low_confidence of many")?;
        rules.low_confidence.short = from.small("low_confidence short")?;
        rules.low_confidence.below_short = PerMille(from.small("low_confidence below short")?);
        rules.max_bucket = from.small("max_bucket")?;
    }
    if from.version() >= ONE_KEY_VERSION {
        rules.one_band_below = from.small("one_band_below")?;
    }
    Ok(Some(rules))
}

/// Reads one value for each stage. In version 1, the third stage has none and gets that of the second.
fn read_stages<T: Copy>(
    from: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, CodecError>,
) -> Result<PerStage<T>, CodecError> {
    let (exact, simhash) = (read(from)?, read(from)?);
    let minhash = if from.version() < SKETCHES_VERSION { simhash } else { read(from)? };
    Ok(PerStage { exact, simhash, minhash })
}

pub(super) fn read_rules(from: &mut Reader<'_>) -> Result<Rules, CodecError> {
    let count = from.count(1, "stages")?;
    let stages = (0..count).map(|_| read_stage(from)).collect::<Result<_, _>>()?;
    Ok(Rules {
        stages,
        max_distance: from.byte("max_distance")?,
        windows: read_stages(from, |from| from.span("window"))?,
        lateness: from.span("lateness")?,
        max_future_skew: from.span("max_future_skew")?,
        max_entries: from.varint("max_entries")?,
        same_id: match from.byte("same_id")? {
            1 => SameId::Update,
            2 => SameId::Duplicate,
            other => return Err(CodecError::BadValue { what: "same_id", value: u64::from(other) }),
        },
        minhash: read_minhash(from)?,
        number_guard: read_number_guard(from)?,
        simhash_similarity: read_share(from, "simhash similarity")?,
        same_site: read_share(from, "same_site")?.map(|containment| SameSite { containment }),
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
