//! The modules `record`, `text` and `fingerprint` in one call: the bytes of a record -> the fingerprints of its page.
//! For explanations, an [`Inspection`] also holds what they are computed from: text, weighted words, shingles.

use std::borrow::Cow;
use std::collections::HashSet;
use std::num::NonZeroUsize;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed, xxh3_128_with_seed};

use super::fingerprints::{Identity, address_of};
use super::numbers::{each_number, without_counters};
use super::settings::{partition_of, scheme_id};
use super::shingle::{ShingleBuffer, ShingleUnit, hash_of};
use super::simhash::{Feature, keep_strongest, log_weight, simhash};
use super::{
    AddressHash, Distinct, ExactHash, FeatureHash, Fingerprints, IdHash, Numbers, PageDigest, Permutations, SchemeId,
    ScopeHash, Seed, Settings, SimHashSettings, SiteHash, Sketch, TitleHash, Weights, Width, shingle,
};
use crate::record::{
    Body, Decoder, Encoding, FieldPath, InputSettings, InputSettingsError, RawRecord, Rejection, Timestamp,
};
use crate::text::{self, Analyzer, CutBy, Extraction, HtmlText, NormalText, WordMap};

/// Reads records: decode, text, fingerprints. All text threads share it; each brings its own [`Scratch`].
#[derive(Clone, Debug)]
pub struct Fingerprinter {
    pub(super) decoder: Decoder,
    pub(super) analyzer: Analyzer,
    pub(super) settings: Settings,
    permutations: Permutations,
    partitions: NonZeroUsize,
    scheme: SchemeId,
}

/// Fewer different words than this, each this many times on average, make no `SimHash`.
const FEW_WORDS: usize = 64;
const FEW_WORDS_REPEATS: usize = 12;

/// Buffers that one thread reuses for page after page. Their contents between calls mean nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    normal: String,
    words: WordMap<WordCount>,
    features: Vec<Feature>,
    buffer: ShingleBuffer,
    sketch: SketchScratch,
}

#[derive(Debug, Default)]
struct SketchScratch {
    shingles: Vec<u32>,
    different: Distinct,
    minima: Vec<u32>,
}

/// What is known of a word of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordCount {
    /// How often it occurs, or 1 if its frequency says nothing.
    pub(super) count: u32,
    kind: text::WordKind,
    /// Whether it counts once, however often it occurs.
    counts_once: bool,
    /// Halves of its hash, the lower one first: 24 bytes in all, where a `u128` would make it 32.
    hash: [u64; 2],
}

impl WordCount {
    pub(super) const fn occur(&mut self) {
        self.count = if self.counts_once { 1 } else { self.count.saturating_add(1) };
    }
}

/// One step of reading a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Bytes to document.
    Decode,
    /// Body to normalised text.
    Extract,
    /// Text to words, counted.
    Tokenize,
    /// Words to fingerprints.
    Fingerprint,
}

/// What is known of one page: everything a request holds, and some statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FingerprintedPage {
    /// Hash of the page's canonical address, or of its id if it names none.
    pub id: Option<IdHash>,
    /// The id itself, for headers and pair pages.
    pub id_text: Option<String>,
    /// The canonical address, if it is on the page's site, is not its front page, and is not the page's own address.
    pub canonical: Option<String>,
    /// Hash of the page's own address, if it is known and does not follow from the id.
    pub address: Option<AddressHash>,
    /// Hash of the page's site, if its address is known.
    pub site: Option<SiteHash>,
    /// Hash of the page's title, if it has one.
    pub title: Option<TitleHash>,
    /// Hash of the page's scope.
    pub scope: Option<ScopeHash>,
    /// Partition of the fingerprint log that the page goes to.
    pub partition: usize,
    /// Event time, if it is read from a field and the page has that field; otherwise, the record's timestamp counts.
    pub event_time: Option<Timestamp>,
    /// The fingerprints.
    pub fingerprints: Fingerprints,
    /// Digest of the record's bytes.
    pub digest: PageDigest,
    /// What the page was encoded in.
    pub encoding: Encoding,
    /// What was extracted from it.
    pub extraction: Extraction,
    /// Words of the page, including repeats, without stop words.
    pub tokens: usize,
    /// Distinct words, before the strongest are chosen.
    pub features: usize,
    /// Length of the normalised text.
    pub text_bytes: usize,
    /// Whether text past `text.max_bytes` was left unread.
    pub cut: bool,
    /// What cut the text into words.
    pub cut_by: CutBy,
}

impl FingerprintedPage {
    /// Returns why the page has no `SimHash`, or `None` if it has one; `min_features` is that of the settings it was
    /// read with.
    #[must_use]
    pub fn fp_missing(&self, min_features: usize) -> Option<String> {
        self.fingerprints.simhash.is_none().then(|| {
            if self.features < min_features {
                format!("fewer than {min_features} different words")
            } else {
                "few different words, repeated often".to_owned()
            }
        })
    }
}

/// Why settings cannot be used for reading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Wrong input settings.
    #[error(transparent)]
    Input(#[from] InputSettingsError),
    /// Wrong text settings.
    #[error(transparent)]
    Text(#[from] text::SettingsError),
    /// Without a scope all pages would go to one partition.
    #[error("judge.partitions is {0}, but input.fields.scope is not set: pages are shared out by scope")]
    PartitionsWithoutScope(NonZeroUsize),
    /// The upper bits of every code would be equal.
    #[error("match.simhash.hash {} has {} bits, match.simhash.bits is {}", .0.name(), .0.widest().bits(), .1.bits())]
    NarrowHash(FeatureHash, Width),
}

impl Fingerprinter {
    /// Prepares reading; loads dictionaries.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] when the settings contradict each other.
    pub fn new(
        input: &InputSettings,
        text: &text::Settings,
        fingerprint: &Settings,
        partitions: NonZeroUsize,
    ) -> Result<Self, SettingsError> {
        if partitions.get() > 1 && input.fields.scope.is_none() {
            return Err(SettingsError::PartitionsWithoutScope(partitions));
        }
        let SimHashSettings { bits, hash, .. } = &fingerprint.simhash;
        if *bits > hash.widest() {
            return Err(SettingsError::NarrowHash(*hash, *bits));
        }
        Ok(Self {
            decoder: Decoder::new(input, text.max_nesting)?,
            analyzer: Analyzer::new(text)?,
            settings: fingerprint.clone(),
            permutations: Permutations::new(fingerprint.minhash.form.map_or(0, |form| usize::from(form.slots()))),
            partitions,
            scheme: scheme_id(input, text, fingerprint, partitions),
        })
    }

    /// Returns the scheme that all readings belong to.
    #[must_use]
    pub fn scheme(&self) -> &SchemeId {
        &self.scheme
    }

    /// Returns what turns bodies into words.
    #[must_use]
    pub fn analyzer(&self) -> &Analyzer {
        &self.analyzer
    }

    /// Returns where the id of a page is read, if it is.
    #[must_use]
    pub fn id_path(&self) -> Option<&FieldPath> {
        self.decoder.id_path()
    }

    /// Reads one record.
    ///
    /// # Errors
    ///
    /// A [`Rejection`] for a reason that is a function of the page and the scheme alone
    /// ([`crate::record::Reject::is_determined_by_page`]).
    pub fn read(&self, record: &RawRecord<'_>, scratch: &mut Scratch) -> Result<FingerprintedPage, Rejection> {
        self.read_watched(record, scratch, |_| {})
    }

    /// Returns the part of an HTML page's title that is compared, if it has a title.
    pub(super) fn title(&self, body: &Body<'_>) -> Option<String> {
        self.analyzer.title(body).map(|title| without_counters(&title))
    }

    /// Reads one record and calls `on_step` after each step, so that callers can time it. The last call is for the step
    /// that rejects the page, if one does.
    ///
    /// # Errors
    ///
    /// As [`Fingerprinter::read`].
    pub fn read_watched(
        &self,
        record: &RawRecord<'_>,
        scratch: &mut Scratch,
        mut on_step: impl FnMut(Step),
    ) -> Result<FingerprintedPage, Rejection> {
        let document = self.decoder.decode(record);
        on_step(Step::Decode);
        let document = document?;
        let normal = self.analyzer.normalize(&document.body, &mut scratch.normal);
        let title = self.title(&document.body).map(|title| TitleHash::of(&title));
        on_step(Step::Extract);
        let normal = normal?;
        let Scratch { words, features, buffer, sketch, .. } = scratch;
        words.clear();
        buffer.clear();
        let (shingle, mut tokens) = (self.settings.minhash.shingle, 0);
        let by_words = self.settings.minhash.form.is_some() && shingle.unit == ShingleUnit::Words;
        let cut_by = self.analyzer.words(normal.text, |word| {
            tokens += 1;
            if by_words {
                buffer.push_word(word.text, shingle.lengths);
            }
            let seen = words.entry(word.hash).or_insert_with(|| self.first_seen(word));
            seen.occur();
        });
        let distinct = words.len();
        on_step(Step::Tokenize);
        let exact = ExactHash(xxh3_128_with_seed(normal.text.as_bytes(), normal.urls.hash ^ normal.rest));
        let simhash = (distinct >= self.analyzer.settings().min_features && !are_few(distinct, tokens)).then(|| {
            features.clear();
            features.extend(words.iter().map(|(hash, seen)| self.feature(*hash, *seen)));
            keep_strongest(features, self.settings.simhash.top_k);
            simhash(features, self.settings.simhash.bits)
        });
        let sketch = self.sketch(normal.text, buffer, sketch);
        let numbers = if normal.urls.kept { Numbers::with_urls(normal.text) } else { Numbers::of(normal.text) };
        let scope = document.scope.as_deref().map(scope_hash);
        let Identity { id, canonical, address, site } = Identity::of(&document);
        let reading = FingerprintedPage {
            id,
            id_text: document.id.map(String::from),
            canonical,
            address,
            site,
            title,
            scope,
            partition: partition_of(scope, self.partitions),
            event_time: document.fetched_at,
            fingerprints: Fingerprints { exact, simhash, sketch, numbers },
            digest: digest_of(record),
            encoding: document.encoding,
            extraction: normal.extraction,
            tokens,
            features: distinct,
            text_bytes: normal.text.len(),
            cut: normal.cut,
            cut_by,
        };
        on_step(Step::Fingerprint);
        Ok(reading)
    }

    /// Returns a page's text in the form that is compared, for display.
    ///
    /// # Errors
    ///
    /// As [`Fingerprinter::read`].
    pub fn normal_text(&self, record: &RawRecord<'_>) -> Result<String, Rejection> {
        let document = self.decoder.decode(record)?;
        let mut text = String::new();
        self.analyzer.normalize(&document.body, &mut text)?;
        Ok(text)
    }

    /// Returns the page itself, for estimates of the memory that its text takes: the record's value, or the text in it if
    /// that is packed. `None` if there is none.
    #[must_use]
    pub fn page<'r>(&self, record: &RawRecord<'r>) -> Option<Cow<'r, [u8]>> {
        let value = record.value?;
        if !self.decoder.is_packed(record) {
            return Some(Cow::Borrowed(value));
        }
        let (Body::Text(page) | Body::Html(page)) = self.decoder.decode(record).ok()?.body;
        Some(Cow::Owned(page.into_owned().into_bytes()))
    }

    /// Returns whether a record can be read at once, because its schema, if it needs one, is known.
    #[must_use]
    pub fn is_ready(&self, record: &RawRecord<'_>) -> bool {
        self.decoder.is_ready(record)
    }

    /// Waits until the schema of a record is known.
    pub fn wait_for_schema(&self, record: &RawRecord<'_>) {
        self.decoder.wait_for_schema(record);
    }

    /// Returns a page's scope and partition without reading its text, for pages whose text could not be processed.
    ///
    /// # Errors
    ///
    /// A [`Rejection`] if the scope cannot be read.
    pub fn place(&self, record: &RawRecord<'_>) -> Result<(Option<ScopeHash>, usize), Rejection> {
        let scope = self.decoder.scope(record)?.as_deref().map(scope_hash);
        Ok((scope, partition_of(scope, self.partitions)))
    }

    /// Returns a page's event time without reading its text, if it is read from a field and the page has that field.
    #[must_use]
    pub fn event_time(&self, record: &RawRecord<'_>) -> Option<Timestamp> {
        self.decoder.decode(record).ok()?.fetched_at
    }

    /// Creates the sketch of a normalised text. If shingles are cut by words, `buffer` holds the words. A shingle that
    /// repeats counts once.
    fn sketch(&self, normal: &str, buffer: &mut ShingleBuffer, scratch: &mut SketchScratch) -> Option<Sketch> {
        let SketchScratch { shingles, different, minima } = scratch;
        let form = self.settings.minhash.form?;
        let (_, distinct) = shingle::cut(self.settings.minhash.shingle, normal, buffer, different, shingles);
        let cut = shingles.len();
        self.settings.minhash.stop.drop_from(shingles);
        if self.settings.seed != Seed::NONE {
            shingles.iter_mut().for_each(|shingle| *shingle = self.settings.seed.mixed_32(*shingle));
        }
        let least = self.settings.minhash.min_shingles.max(1);
        // Those of a long text are counted, nearly exactly. Sorting them would cost as much as their sketch.
        if shingles.len() < least.saturating_mul(8) {
            shingles.sort_unstable();
            shingles.dedup();
        }
        if shingles.len() < least || (cut >= least.saturating_mul(8) && distinct < least) {
            return None;
        }
        self.permutations.minima(shingles, minima);
        let is_counted = shingles.len() == cut && self.settings.seed == Seed::NONE;
        let size = if !form.has_count() {
            0
        } else if is_counted {
            distinct
        } else {
            different.count(shingles)
        };
        Some(form.cut(minima, shingles, size))
    }

    pub(super) fn first_seen(&self, word: text::Word<'_>) -> WordCount {
        let SimHashSettings { bits, hash, .. } = &self.settings.simhash;
        let hash = self.settings.seed.mixed_128(hash.of(*bits, word.text, word.hash));
        #[expect(clippy::cast_possible_truncation, reason = "the halves are wanted")]
        let hash = [hash as u64, (hash >> 64) as u64];
        let kind = text::WordKind::of(word.text);
        WordCount { count: 0, kind, counts_once: !text::is_frequency_telling(word.text), hash }
    }

    /// Returns the feature of a word; `hash` is that of [`text::Word`].
    pub(super) fn feature(&self, hash: u64, seen: WordCount) -> Feature {
        let [lower, upper] = seen.hash;
        Feature { hash: u128::from(upper) << 64 | u128::from(lower), weight: self.weight(hash, seen) }
    }

    fn weight(&self, hash: u64, seen: WordCount) -> u32 {
        match self.settings.simhash.weights {
            Weights::TfIdf => damped(seen.count, text::idf(seen.kind, hash)),
            Weights::Tf => log_weight(seen.count),
            Weights::Uniform => text::ONE,
        }
    }
}

/// Returns the weight of a word from its frequency in the page and its rarity. The count is logarithmic; otherwise, a
/// word with more than half of a list's weight would decide every bit of its fingerprint.
fn damped(count: u32, idf: u32) -> u32 {
    let weight = u64::from(log_weight(count)) * u64::from(idf) / u64::from(text::ONE);
    u32::try_from(weight).unwrap_or(u32::MAX)
}

/// Returns whether a text has so few words for its length that how often each occurs is all that tells it from another
/// one of the same words: a knitting pattern, a table of yes and no.
const fn are_few(distinct: usize, tokens: usize) -> bool {
    distinct < FEW_WORDS && tokens >= distinct.saturating_mul(FEW_WORDS_REPEATS)
}

fn scope_hash(scope: &str) -> ScopeHash {
    ScopeHash(xxh3_64(scope.as_bytes()))
}

/// Returns a four-byte hash of a record's key and value. An absent key differs from an empty one.
#[must_use]
pub(crate) fn digest_of(record: &RawRecord<'_>) -> PageDigest {
    let key = record.key.map_or(0, |key| xxh3_64_with_seed(key, 1));
    let hash = record.value.map_or(key, |value| xxh3_64_with_seed(value, key));
    let [.., a, b, c, d] = hash.to_be_bytes();
    PageDigest(u32::from_be_bytes([a, b, c, d]))
}

/// Everything that was read from one page, and what its fingerprints are computed from. Far more expensive than a
/// [`FingerprintedPage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// What the service would know about it.
    pub reading: FingerprintedPage,
    /// The site that the page belongs to, if its address is known.
    pub site: Option<String>,
    /// The part of its title that is compared, if it has a title.
    pub title: Option<String>,
    /// Where the text was found.
    pub from: ReadFrom,
    /// Length of all text that a reader of the page sees, normalised, in characters.
    pub visible: usize,
    /// The normalised text.
    pub text: String,
    /// The distinct words, heaviest first.
    pub words: Vec<WeighedWord>,
    /// The distinct shingles that count, in the order of the text; none if the scheme makes no sketches.
    pub shingles: Vec<String>,
    /// Number of distinct shingles that do not count (`match.minhash.stop_shingles`).
    pub stopped: usize,
    /// The distinct numbers that the number guard compares, in the order of the text, followed by the web addresses if
    /// they count.
    pub numbers: Vec<String>,
}

/// Where the text of a page was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadFrom {
    /// It came as text.
    Text,
    /// It was taken out of HTML.
    Html,
}

/// One word of a page, with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeighedWord {
    /// The word.
    pub text: String,
    /// How often it occurs in the page.
    pub count: u32,
    /// Its weight in the `SimHash`, in 256ths.
    pub weight: u32,
    /// Whether it is one of the strongest (`match.simhash.top_k`); the others do not count.
    pub counts: bool,
}

impl Fingerprinter {
    /// Reads one record as [`Fingerprinter::read`] does, and returns everything extracted.
    ///
    /// # Errors
    ///
    /// As [`Fingerprinter::read`].
    pub fn inspect(&self, record: &RawRecord<'_>) -> Result<Inspection, Rejection> {
        let reading = self.read(record, &mut Scratch::default())?;
        let document = self.decoder.decode(record)?;
        let title = self.title(&document.body);
        let site = address_of(&document).map(|address| address.site().into_owned());
        let from = match &document.body {
            Body::Text(_) => ReadFrom::Text,
            Body::Html(_) => ReadFrom::Html,
        };
        let mut buffer = String::new();
        let visible = self.analyzer.normalize_as(&document.body, HtmlText::AllText, &mut buffer)?.text.chars().count();
        let NormalText { text, urls, .. } = self.analyzer.normalize(&document.body, &mut buffer)?;
        let (words, mut shingles) = (self.weighed(text), self.different_shingles(text));
        let different = shingles.len();
        shingles.retain(|shingle| !self.settings.minhash.stop.has(hash_of(shingle)));
        let stopped = different - shingles.len();
        let mut numbers: Vec<String> = Vec::new();
        let mut count = |number: &str| {
            if !numbers.iter().any(|known| known == number) {
                numbers.push(number.to_owned());
            }
        };
        each_number(text, &mut count);
        if urls.kept {
            text::urls(text).for_each(count);
        }
        Ok(Inspection { reading, site, title, from, visible, text: text.to_owned(), words, shingles, stopped, numbers })
    }

    fn weighed(&self, text: &str) -> Vec<WeighedWord> {
        let mut seen: WordMap<(&str, WordCount)> = WordMap::default();
        self.analyzer.words(text, |word| {
            let (_, seen) = seen.entry(word.hash).or_insert_with(|| (word.text, self.first_seen(word)));
            seen.occur();
        });
        let mut strongest: Vec<Feature> = seen.iter().map(|(hash, (_, seen))| self.feature(*hash, *seen)).collect();
        keep_strongest(&mut strongest, self.settings.simhash.top_k);
        let strongest: HashSet<Feature> = strongest.into_iter().collect();
        let word = |(hash, (text, seen)): (u64, (&str, WordCount))| {
            let feature = self.feature(hash, seen);
            let counts = strongest.contains(&feature);
            WeighedWord { text: text.to_owned(), count: seen.count, weight: feature.weight, counts }
        };
        let mut words: Vec<WeighedWord> = seen.into_iter().map(word).collect();
        words.sort_by(|one, other| other.weight.cmp(&one.weight).then_with(|| one.text.cmp(&other.text)));
        words
    }

    fn different_shingles(&self, text: &str) -> Vec<String> {
        let mut different: HashSet<String> = HashSet::new();
        let mut shingles = Vec::new();
        if self.settings.minhash.form.is_some() {
            let (shingling, mut buffer) = (self.settings.minhash.shingle, ShingleBuffer::default());
            if shingling.unit == ShingleUnit::Words {
                self.analyzer.words(text, |word| buffer.push_word(word.text, shingling.lengths));
            }
            let (cut, _) = shingle::cut(shingling, text, &mut buffer, &mut Distinct::default(), &mut Vec::new());
            cut.each_buffered(text, &mut buffer, |shingle| {
                if different.insert(shingle.to_owned()) {
                    shingles.push(shingle.to_owned());
                }
            });
        }
        shingles
    }
}
