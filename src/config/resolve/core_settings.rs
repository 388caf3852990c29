//! Resolves the settings of the pure modules: record, text, fingerprint, rules, index.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use secrecy::{ExposeSecret, SecretString};

use super::super::field::{Coding, RawField};
use super::super::raw::{self, MAX_DISTANCE, Mode, Raw, StageName, TimestampSource};
use super::super::settings::Index;
use super::super::values::{ByteSize, ServedPartitions, Span};
use super::{ExternalInputs, Findings, bytes};
use crate::fingerprint::{
    self, Banding, FeatureHash, LowConfidence, PerMille, SameSite, Seed, Shingling, SketchForm, SlotBits, StopShingles,
    Width,
};
use crate::protocol::{MinHashRules, PerStage, Rules, Stage};
use crate::record::{self, FieldPath};
use crate::text;

/// Estimated memory of one original, in bytes, when `index.max_entries` is derived from `index.max_memory`:
/// fingerprints, position, metadata and its share of the hash tables, rounded up. Sketches are not included.
pub const BYTES_PER_ORIGINAL: u64 = 216;

/// Memory for the index if neither limit is given.
pub(in super::super) const DEFAULT_MAX_MEMORY: ByteSize = ByteSize(4 << 30);

pub(super) fn record(raw: &Raw, found: &mut Findings) -> record::InputSettings {
    let mut fields = raw.input.fields.clone();
    if raw.input.format == raw::Format::Warc {
        // The default is a name that no WARC record has.
        fields.id =
            fields.id.filter(|field| *field != RawField::at("/url")).or_else(|| Some(RawField::at("/WARC-Target-URI")));
        fields.fetched_at = fields.fetched_at.or_else(|| Some(RawField::at("/WARC-Date")));
    }
    let fields = &fields;
    // The other formats have fields of bytes.
    let in_json = matches!(raw.input.format, raw::Format::Json | raw::Format::JsonSchema);
    let mut path = |name: &str, given: &Option<RawField>| path(name, given.as_ref()?, in_json, found);
    let codings = |given: &Option<RawField>| {
        given.iter().flat_map(|field| &field.encoding).map(|coding| (*coding).into()).collect()
    };
    let fields_read = record::Fields {
        id: path("id", &fields.id),
        text: path("text", &fields.text),
        text_encoding: codings(&fields.text),
        html: path("html", &fields.html),
        html_encoding: codings(&fields.html),
        fetched_at: path("fetched_at", &fields.fetched_at),
        // A wrong name is refused with the path.
        zone: fields.fetched_at.as_ref().and_then(|field| field.zone.as_ref()?.parse().ok()),
        scope: path("scope", &fields.scope),
        address: path("address", &fields.address),
        canonical: path("canonical", &fields.canonical),
        content_type: fields.content_type.as_ref().and_then(|text| header("content_type", text, found)),
    };
    let has_fields = record::Format::from(raw.input.format).has_fields();
    if has_fields && raw.input.fields.text.is_none() && raw.input.fields.html.is_none() {
        found.refuse("input.fields", "neither text nor html is set: there is nothing to compare");
    }
    if raw.window.timestamp_source == TimestampSource::Field && fields.fetched_at.is_none() {
        found.refuse("input.fields.fetched_at", "is missing: window.timestamp_source is field");
    }
    record::InputSettings {
        format: raw.input.format.into(),
        fields: fields_read,
        event_time: match raw.window.timestamp_source {
            TimestampSource::Record => record::EventTime::Record,
            TimestampSource::Field => record::EventTime::Field,
        },
        encoding: raw.input.encoding.iter().map(|coding| (*coding).into()).collect(),
        max_document: bytes("input.max_document", raw.input.max_document, found),
        // Whoever reads records connects to the registry.
        schemas: record::Schemas::default(),
    }
}

/// Reads the path of a field, and refuses what does not apply to the field.
fn path(name: &str, field: &RawField, in_json: bool, found: &mut Findings) -> Option<FieldPath> {
    let key = format!("input.fields.{name}");
    let Some(text) = &field.path else {
        found.refuse(key, "has no path: expected, for instance, {path: /body, encoding: base64}");
        return None;
    };
    let path = text.parse::<FieldPath>().map_err(|error| found.refuse(&key, error.to_string())).ok();
    if !field.encoding.is_empty() && !["text", "html"].contains(&name) {
        found.refuse(&key, "takes no encoding: only text and html do");
    }
    if in_json
        && matches!(path, Some(FieldPath::Pointer(_)))
        && field.encoding.first().is_some_and(|first| *first != Coding::Base64)
    {
        let why = "a string in JSON holds no bytes: the first encoding is base64, as in [base64, gzip]";
        found.refuse(&key, why);
    }
    match &field.zone {
        Some(_) if name != "fetched_at" => found.refuse(&key, "takes no zone: only fetched_at does"),
        Some(zone) => {
            if let Err(error) = zone.parse::<record::Zone>() {
                found.refuse(&key, error.to_string());
            }
        }
        None => {}
    }
    path
}

/// Reads `header:<name>`, the only kind of field that the value itself may depend on.
fn header(field: &str, text: &str, found: &mut Findings) -> Option<String> {
    let refusal = match text.parse() {
        Ok(FieldPath::Header(name)) => return Some(name),
        Ok(FieldPath::Pointer(_) | FieldPath::Key) => format!("`{text}` names no header: expected header:<name>"),
        Err(error) => error.to_string(),
    };
    found.refuse(format!("input.fields.{field}"), refusal);
    None
}

pub(super) fn text(raw: &Raw, given: &ExternalInputs, found: &mut Findings) -> text::Settings {
    let text = &raw.text;
    let mut contents = |path: &str, file: &std::path::Path| {
        given.words.get(file).cloned().unwrap_or_else(|| {
            found.refuse(path, format!("the file {} was not read", file.display()));
            String::new()
        })
    };
    let user_dict = text.jieba.user_dict.as_deref().map(|file| contents("text.jieba.user_dict", file));
    let stopwords = text.stopwords.iter().map(|list| match list.as_str() {
        "zh" => text::StopWords::Zh,
        "en" => text::StopWords::En,
        path => text::StopWords::List(contents("text.stopwords", path.as_ref())),
    });
    let stopwords = stopwords.collect();
    text::Settings {
        version: text.version,
        html: text.html.into(),
        normalize: normalize(&text.normalize),
        segmenter: text.segmenter.into(),
        jieba: text::JiebaSettings { user_dict, hmm: text.jieba.hmm },
        stopwords,
        min_features: text.min_features,
        max_bytes: bytes("text.max_bytes", text.max_bytes, found),
        ..text::Settings::default()
    }
}

fn normalize(raw: &raw::Normalize) -> text::Normalize {
    text::Normalize {
        unicode: raw.unicode.into(),
        lowercase: raw.lowercase,
        han: raw.han.into(),
        digits: raw.digits.into(),
        urls: raw.urls.into(),
    }
}

pub(super) fn fingerprint(
    raw: &Raw,
    given: &ExternalInputs,
    secrets: &BTreeMap<&'static str, SecretString>,
    found: &mut Findings,
) -> fingerprint::Settings {
    let matching = &raw.r#match;
    let simhash = &matching.simhash;
    let hash = simhash.hash.into();
    fingerprint::Settings {
        simhash: fingerprint::SimHashSettings {
            bits: width(simhash.bits, hash, found),
            weights: simhash.weights.into(),
            top_k: simhash.top_k,
            hash,
        },
        minhash: fingerprint::MinHashSettings {
            form: sketch_form(matching, found),
            shingle: shingle(&matching.minhash.shingle, found),
            min_shingles: matching.minhash.min_shingles,
            stop: stop_shingles(&matching.minhash, given, found),
        },
        seed: secrets.get("match.seed").map_or(Seed::NONE, |secret| Seed::of(secret.expose_secret())),
    }
}

fn width(bits: u32, hash: FeatureHash, found: &mut Findings) -> Width {
    let Some(width) = Width::of_bits(bits) else {
        found.refuse("match.simhash.bits", format!("{bits} bits are not supported (32, 64 and 128 are)"));
        return Width::default();
    };
    let widest = hash.widest();
    if width > widest {
        let (name, has) = (hash.name(), widest.bits());
        let why = format!("{name} has {has} bits, too few for match.simhash.bits, {bits}");
        found.refuse("match.simhash.hash", why + ": take xxh3 or md5, or fewer bits");
    }
    width
}

/// Resolves the form of the sketches, whether or not a stage compares them: stages may change without a new scheme.
fn sketch_form(matching: &raw::Match, found: &mut Findings) -> Option<SketchForm> {
    let minhash = &matching.minhash;
    if minhash.permutations == 0 {
        if matching.stages.contains(&StageName::Minhash) {
            found.refuse("match.minhash.permutations", "0 makes no sketches: the stage minhash has nothing to compare");
        }
        return None;
    }
    let bits = match minhash.bits_per_slot {
        4 => SlotBits::B4,
        8 => SlotBits::B8,
        other => {
            found.refuse("match.minhash.bits_per_slot", format!("{other} bits are not supported (4 and 8 are)"));
            return None;
        }
    };
    let form = SketchForm::new(minhash.permutations, bits);
    let mut form = form.map_err(|error| found.refuse("match.minhash.permutations", error.to_string())).ok()?;
    if let Some(k) = minhash.bottom_k {
        form = form.with_bottom(k).map_err(|error| found.refuse("match.minhash.bottom_k", error.to_string())).ok()?;
    }
    if minhash.containment.is_some() && bits == SlotBits::B4 {
        found.refuse(
            "match.minhash.containment",
            "slots of 4 bits agree too often by chance to tell what little a long page shares with a short one \
             (match.minhash.bits_per_slot 8)",
        );
    }
    Some(form.with_count())
}

fn shingle(raw: &raw::Shingle, found: &mut Findings) -> Shingling {
    let shingling = shingling(raw);
    for (path, length) in [("match.minhash.shingle.han", raw.han), ("match.minhash.shingle.other", raw.other)] {
        if !(1..=64).contains(&length) {
            found.refuse(path, format!("{length} {} cannot make a shingle (expected 1 to 64)", shingling.unit.name()));
        }
    }
    shingling
}

const fn shingling(raw: &raw::Shingle) -> Shingling {
    match raw.unit {
        raw::ShingleUnit::Characters => Shingling::of_characters(raw.han, raw.other),
        raw::ShingleUnit::Words => Shingling::of_words(raw.han, raw.other),
    }
}

fn stop_shingles(minhash: &raw::Minhash, given: &ExternalInputs, found: &mut Findings) -> StopShingles {
    let Some(path) = &minhash.stop_shingles else { return StopShingles::default() };
    if given.unread.contains(path) {
        return StopShingles::default();
    }
    let name = path.display();
    let Some(contents) = given.words.get(path) else {
        found.refuse("match.minhash.stop_shingles", format!("the file {name} was not read"));
        return StopShingles::default();
    };
    StopShingles::parse(contents, shingling(&minhash.shingle)).unwrap_or_else(|error| {
        found.refuse("match.minhash.stop_shingles", format!("{name}: {error}"));
        StopShingles::default()
    })
}

fn minhash_rules(minhash: &raw::Minhash, form: SketchForm, found: &mut Findings) -> Option<MinHashRules> {
    let (bands, shared, low) = (minhash.bands, minhash.min_shared_bands, &minhash.low_confidence);
    if shared == 0 || usize::from(shared) > bands {
        let why = format!("{shared} of {bands} bands cannot be shared (expected 1 to {bands})");
        found.refuse("match.minhash.min_shared_bands", why);
    }
    let banding = Banding::new(bands, minhash.rows, form);
    let banding = banding.map_err(|error| found.refuse("match.minhash.bands", error.to_string())).ok();
    Some(MinHashRules {
        form,
        banding: banding?,
        min_shared_bands: shared,
        one_band_below: minhash.one_band_below,
        min_similarity: PerMille::rounded(minhash.min_similarity)?,
        containment: minhash.containment.and_then(PerMille::rounded),
        low_confidence: LowConfidence {
            below: PerMille::rounded(low.below)?,
            below_short: PerMille::rounded(low.below_short)?,
            short: low.short,
            containment: PerMille::rounded(low.containment)?,
            max_distance: low.max_distance,
            of_many: low.of_many,
        },
        max_bucket: minhash.max_bucket,
    })
}

pub(super) fn rules(raw: &Raw, form: Option<SketchForm>, found: &mut Findings) -> Rules {
    let matching = &raw.r#match;
    let window = &raw.window;
    let mut stages: Vec<Stage> = matching.stages.iter().copied().map(stage).collect();
    stages.sort_unstable();
    if stages.is_empty() {
        let why = "without a stage nothing ever matches: expected exact, simhash, minhash or some of them";
        found.refuse("match.stages", why);
    }
    if stages.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
        found.refuse("match.stages", "names a stage twice");
    }
    stages.dedup();
    let mut own = |stage: Stage, span: Option<Span>| {
        let (name, is_used) = (stage.name(), stages.contains(&stage));
        if span.is_some() && !is_used {
            found.refuse(format!("window.stages.{name}"), format!("the stage {name} is not in match.stages"));
        }
        span.unwrap_or(window.size).0
    };
    let windows = PerStage {
        exact: own(Stage::Exact, window.stages.exact),
        simhash: own(Stage::SimHash, window.stages.simhash),
        minhash: own(Stage::MinHash, window.stages.minhash),
    };
    // Check the bands even if the form was refused, so that all problems are reported at once.
    let any_form = || SketchForm::new(matching.minhash.permutations, SlotBits::B8).ok();
    let minhash = form.or_else(any_form).and_then(|form| minhash_rules(&matching.minhash, form, found));
    let minhash = minhash.filter(|_| form.is_some());
    let simhash_similarity = matching.simhash.min_similarity.and_then(PerMille::rounded);
    if simhash_similarity.is_some() && stages.contains(&Stage::SimHash) && !stages.contains(&Stage::MinHash) {
        found.warn_service(
            "match.simhash.min_similarity",
            "has no effect without the stage minhash, which compares sketches: a page written against a known text can suppress it \
             (add minhash to match.stages, or set null)",
        );
    }
    Rules {
        stages,
        max_distance: matching.simhash.max_distance.min(MAX_DISTANCE),
        windows,
        lateness: window.allowed_lateness.0,
        max_future_skew: window.max_future_skew.0,
        max_entries: max_entries(raw, found),
        same_id: matching.same_id.into(),
        minhash,
        number_guard: PerMille::rounded(matching.number_overlap).filter(|_| matching.number_guard),
        simhash_similarity,
        same_site: matching.same_site.and_then(PerMille::rounded).map(|containment| SameSite { containment }),
        dual: None,
    }
}

const fn stage(name: StageName) -> Stage {
    match name {
        StageName::Exact => Stage::Exact,
        StageName::Simhash => Stage::SimHash,
        StageName::Minhash => Stage::MinHash,
    }
}

/// Estimated memory of one original with its sketch, in bytes: the sketch, a slot in the table of each band, and the bytes
/// of a `SimHash` beyond 64 bits.
fn bytes_per_original(matching: &raw::Match) -> u64 {
    let raw::Minhash { permutations, bits_per_slot: bits, bands, bottom_k, .. } = matching.minhash;
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    // The number of shingles, and the smallest of them.
    let beside = number(bottom_k.unwrap_or(0)).saturating_mul(4).saturating_add(2);
    let slots = number(permutations).saturating_mul(u64::from(bits)) / 8;
    let sketch = if permutations == 0 { 0 } else { slots.saturating_add(beside) };
    let tables = if matching.stages.contains(&StageName::Minhash) { number(bands).saturating_mul(7) } else { 0 };
    let wider = u64::from(matching.simhash.bits).saturating_sub(64) / 8;
    BYTES_PER_ORIGINAL.saturating_add(wider).saturating_add(sketch).saturating_add(tables)
}

/// Returns the maximum number of originals in the index of one judge. Both configured limits are for all log partitions
/// that an instance serves, each of which has an index of its own.
fn max_entries(raw: &Raw, found: &mut Findings) -> u64 {
    let indexes = indexes(&raw.judge);
    match (raw.index.max_memory, raw.index.max_entries) {
        (Some(_), Some(_)) => {
            found.refuse("index.max_entries", "index.max_memory is also set: use only one of the two limits");
            0
        }
        (None, Some(entries)) => {
            if entries < indexes {
                let each = if indexes == 1 { "" } else { ": one original for each partition that is served" };
                found.refuse("index.max_entries", format!("{entries} is below the limit of {indexes}{each}"));
            }
            entries / indexes
        }
        (memory, None) => {
            let ByteSize(memory) = memory.unwrap_or(DEFAULT_MAX_MEMORY);
            let one = bytes_per_original(&raw.r#match);
            let memory = memory / indexes;
            let entries = memory / one;
            if entries == 0 {
                let of_each = format!(" of each of {indexes} partitions that are served");
                let each = if indexes == 1 { "" } else { &of_each };
                let why = format!("{memory} bytes{each} hold no original (one takes {one} bytes)");
                found.refuse("index.max_memory", why);
            }
            entries
        }
    }
}

/// Returns the number of log partitions that an instance serves.
fn indexes(judge: &raw::Judge) -> u64 {
    match &judge.served_partitions {
        ServedPartitions::All => u64::from(judge.partitions),
        ServedPartitions::Some(list) => u64::try_from(list.iter().collect::<BTreeSet<_>>().len()).unwrap_or(u64::MAX),
    }
    .max(1)
}

pub(super) fn index(raw: &Raw, found: &mut Findings) -> Index {
    let index = &raw.index;
    if index.path.as_os_str().is_empty() {
        found.refuse("index.path", "must not be empty");
    }
    let derived = index.max_entries.map(|entries| entries.saturating_mul(bytes_per_original(&raw.r#match)));
    let configured = index.max_memory.map(|ByteSize(bytes)| bytes);
    Index {
        // The modes have different logs, so in a shared folder each would discard the snapshots of the other.
        path: if raw.mode == Mode::Observe { index.path.join("observe") } else { index.path.clone() },
        max_memory: configured.or(derived).unwrap_or(DEFAULT_MAX_MEMORY.0),
        cold_start: index.cold_start,
        snapshot_interval: index.snapshot.interval.0,
        snapshots_kept: NonZeroUsize::new(index.snapshot.keep).unwrap_or(NonZeroUsize::MIN),
    }
}
