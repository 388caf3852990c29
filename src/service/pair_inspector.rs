//! Inspects both pages of a pair: reads them from the input by their positions, compares them, and writes the pair as a
//! case for `dupgate test`.
//!
//! It uses its own Kafka clients, so the pipeline never waits for it. Pairs whose pages are gone are reported as such. In
//! the demo, whose in-process broker drops records within seconds, pages come from a [`PageCache`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::compare::{Comparison, Run, Side, beginning};
use crate::config::settings::{Settings, ShownText};
use crate::context;
use crate::error::Fatal;
use crate::fatal::failure;
use crate::fingerprint::{FingerprintedPage, Fingerprinter, Scratch, SketchForm};
use crate::kafka::pages::{PageBytes, Pages};
use crate::process::shielded;
use crate::processing::text_pool::TreeBudget;
use crate::record::{Format, RawRecord, Source};
use crate::telemetry::admin::ApiError;
use crate::telemetry::pairs::{DeliveredDuplicate, Pair, PairDetails, PairRecorder, runs};

/// Time-out for fetching the pages of a pair.
const FETCH_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of words that are shown of an explained page.
const SHOWN_WORDS: usize = 12;

/// Limits of a diff in lists: characters of context, characters of one run, and runs.
const IN_LISTS: (usize, usize, usize) = (40, 200, 24);

/// The same for a single pair, if text is shown in snippets.
const IN_SNIPPETS: (usize, usize, usize) = (200, 1000, 200);

/// Maximum size of one page in a case: larger ones belong in files.
const MAX_VALUE_BYTES: usize = 256 << 10;

/// Starts the thread that inspects pairs as they arrive.
pub(crate) fn start(pair_inspector: PairInspector) -> Result<PairRecorder, Fatal> {
    let (pair_recorder, waiting) = PairRecorder::new();
    let pairs = pair_recorder.pairs.clone();
    let work = move || {
        for pair in waiting {
            pairs.set_details(pair.number, pair_inspector.look(&pair.seen));
        }
    };
    std::thread::Builder::new().name("pairs".to_owned()).spawn(work).map_err(failure)?;
    Ok(pair_recorder)
}

/// Reads pages as the worker does.
pub(crate) struct PairInspector {
    pages: Mutex<Pages>,
    fingerprinter: Fingerprinter,
    trees: Arc<TreeBudget>,
    form: Option<SketchForm>,
    format: Format,
    /// Minimum number of different words for a `SimHash`.
    min_features: usize,
    text: ShownText,
    kept: PageCache,
}

/// Why a pair cannot be compared, and the page that is left, if any.
struct Incomparable {
    why: String,
    page: Option<Box<Page>>,
    original: Option<Box<Page>>,
}

/// One page that was read, and its normalized text.
struct Page {
    reading: FingerprintedPage,
    text: String,
}

/// Both pages of a pair, and their comparison.
struct Both {
    page: Page,
    original: Page,
    comparison: Comparison,
    /// The original and the page, as they are in the input.
    bytes: [PageBytes; 2],
}

impl PairInspector {
    /// Creates the client.
    pub(crate) fn open(
        settings: &Settings,
        fingerprinter: Fingerprinter,
        trees: Arc<TreeBudget>,
        text: ShownText,
        kept: &PageCache,
    ) -> Result<Self, Fatal> {
        let config = context::connection(&settings.kafka).follower(&settings.input.group);
        let pages = Mutex::new(Pages::open(&config, FETCH_TIMEOUT).map_err(failure)?);
        let (form, format) = (settings.fingerprint.minhash.form, settings.record.format);
        let min_features = settings.text.min_features;
        Ok(Self { pages, fingerprinter, trees, form, format, min_features, text, kept: kept.clone() })
    }

    /// Returns a short comparison.
    pub(crate) fn look(&self, seen: &DeliveredDuplicate) -> PairDetails {
        match self.both(seen) {
            Ok(both) => self.details(&both, IN_LISTS),
            Err(Incomparable { why, .. }) => PairDetails { missing: Some(why), ..PairDetails::default() },
        }
    }

    /// Returns everything that may be shown of a pair.
    pub(crate) fn show(&self, pair: &Pair) -> Result<Value, ApiError> {
        let both = match self.both(&pair.seen) {
            Ok(both) => both,
            Err(Incomparable { why, page: None, original: None }) => return Err(ApiError::Missing(why)),
            Err(one) => return Ok(self.show_one(pair, one)),
        };
        let details = self.details(&both, IN_LISTS);
        let shown = match self.text {
            ShownText::None => Vec::new(),
            // Nothing differs: show the beginning of the text.
            ShownText::Snippet if both.comparison.is_equal() => {
                vec![Run { side: Side::Both, text: beginning(&both.page.text, IN_SNIPPETS.0) }]
            }
            ShownText::Snippet => excerpts(&both.comparison, IN_SNIPPETS),
            ShownText::Full => both.comparison.runs.clone(),
        };
        let mut value = Pair { details: Some(details), ..pair.clone() }.json();
        if let Value::Object(object) = &mut value {
            object.insert("text".to_owned(), json!(self.text));
            object.insert("runs".to_owned(), runs(&shown));
            object.insert("cut".to_owned(), (both.comparison.is_cut || both.page.reading.cut).into());
            object.insert("fp".to_owned(), code(&both.page.reading).into());
            object.insert("match_fp".to_owned(), code(&both.original.reading).into());
            if self.text == ShownText::Full {
                object.insert("case".to_owned(), case_yaml(&pair.seen, self.format, &both.bytes).into());
            }
        }
        Ok(value)
    }

    /// Returns what is known of a pair that has lost one of its pages, and shows the other page.
    fn show_one(&self, pair: &Pair, one: Incomparable) -> Value {
        let run = |page: &Page, side| match self.text {
            ShownText::None => None,
            ShownText::Snippet => Some(Run { side, text: beginning(&page.text, IN_SNIPPETS.1) }),
            ShownText::Full => Some(Run { side, text: page.text.clone() }),
        };
        let shown = one.original.as_ref().and_then(|page| run(page, Side::First));
        let shown = shown.into_iter().chain(one.page.as_ref().and_then(|page| run(page, Side::Second)));
        let mut value = pair.json();
        if let Value::Object(object) = &mut value {
            object.insert("text".to_owned(), json!(self.text));
            object.insert("missing".to_owned(), one.why.into());
            object.insert("runs".to_owned(), runs(&shown.collect::<Vec<_>>()));
        }
        value
    }

    /// Reads a page and returns its fingerprints.
    pub(crate) fn explain(&self, value: &[u8]) -> Result<(FingerprintedPage, Value), ApiError> {
        let record = RawRecord { key: None, value: Some(value), headers: &Vec::<(String, Vec<u8>)>::new() };
        let page = self.read(&record).map_err(ApiError::Wrong)?;
        let Page { reading, text } = page;
        let mut words = Vec::new();
        if self.text != ShownText::None {
            self.fingerprinter.analyzer().words(&text, |word| {
                if words.len() < SHOWN_WORDS {
                    words.push(word.text.to_owned());
                }
            });
        }
        let value = json!({
            "id": reading.id_text,
            "canonical": reading.canonical,
            "encoding": reading.encoding.name(),
            "extraction": reading.extraction.name(),
            "text_bytes": reading.text_bytes,
            "cut": reading.cut,
            "segmenter": reading.cut_by.name(),
            "words": reading.tokens,
            "distinct_words": reading.features,
            "first_words": words,
            "fp": code(&reading),
            "fp_missing": reading.fp_missing(self.min_features),
            "scheme": self.fingerprinter.scheme().to_string(),
            "log_partition": reading.partition,
        });
        Ok((reading, value))
    }

    fn read(&self, record: &RawRecord<'_>) -> Result<Page, String> {
        let page = shielded(|| self.fingerprinter.page(record)).flatten();
        let _taken = page.map(|page| self.trees.take(&page));
        let read = shielded(|| {
            let reading = self.fingerprinter.read(record, &mut Scratch::default())?;
            Ok(Page { reading, text: self.fingerprinter.normal_text(record)? })
        });
        match read {
            Some(Ok(page)) => Ok(page),
            Some(Err(rejection)) => {
                let rejection: crate::record::Rejection = rejection;
                Err(format!("the page cannot be read: {}", rejection.message()))
            }
            None => Err("the text work failed on this page".to_owned()),
        }
    }

    fn both(&self, seen: &DeliveredDuplicate) -> Result<Both, Incomparable> {
        let nothing = |why| Incomparable { why, page: None, original: None };
        let wanted = [&seen.original, &seen.source];
        let [first, second] = wanted.map(|source| self.kept.get(source));
        let fetched = if first.is_some() && second.is_some() {
            BTreeMap::new()
        } else {
            let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
            pages.fetch(&wanted).map_err(|error| nothing(error.to_string()))?
        };
        let of = |kept: Option<PageBytes>, source: &Source, name: &str| {
            let gone = || format!("the input no longer holds {name} ({source})");
            let bytes = kept.or_else(|| fetched.get(source).cloned()).ok_or_else(gone)?;
            Ok::<_, String>((self.read(&bytes.record())?, bytes))
        };
        let original = of(first, &seen.original, "the original");
        let page = of(second, &seen.source, "the page");
        let ((original, first), (page, second)) = match (original, page) {
            (Ok(original), Ok(page)) => (original, page),
            (Ok((original, _)), Err(why)) => {
                return Err(Incomparable { original: Some(Box::new(original)), ..nothing(why) });
            }
            (Err(why), Ok((page, _))) => return Err(Incomparable { page: Some(Box::new(page)), ..nothing(why) }),
            (Err(why), Err(_)) => return Err(nothing(why)),
        };
        self.kept.keep(&seen.original, &first);
        self.kept.keep(&seen.source, &second);
        let comparison = Comparison::of(self.fingerprinter.analyzer(), &original.text, &page.text);
        Ok(Both { page, original, comparison, bytes: [first, second] })
    }

    fn details(&self, both: &Both, lengths: (usize, usize, usize)) -> PairDetails {
        let (own, other) = (&both.page.reading.fingerprints, &both.original.reading.fingerprints);
        let comparison = &both.comparison;
        let shows = self.text != ShownText::None && !comparison.is_equal();
        PairDetails {
            original_id: both.original.reading.id_text.clone(),
            segmenter: Some(both.page.reading.cut_by.name()),
            bits: own.distance(other),
            similarity: self.form.and_then(|form| own.similarity(other, form)),
            words: Some([comparison.second_words, comparison.first_words, comparison.common_words]),
            differs: if shows { excerpts(comparison, lengths) } else { Vec::new() },
            missing: None,
        }
    }
}

fn excerpts(comparison: &Comparison, (around, longest, max): (usize, usize, usize)) -> Vec<Run> {
    comparison.excerpts(around, longest, max)
}

fn code(reading: &FingerprintedPage) -> Option<String> {
    reading.fingerprints.simhash.map(|simhash| simhash.to_string())
}

/// A bounded number of recently used pages. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct PageCache {
    max: usize,
    state: Arc<Mutex<CachedPages>>,
}

#[derive(Debug, Default)]
struct CachedPages {
    pages: BTreeMap<Source, PageBytes>,
    /// The most recently used one is at the end.
    order: VecDeque<Source>,
}

impl PageCache {
    /// Creates a cache of at most this many pages; 0 disables it.
    pub(crate) fn of(max: usize) -> Self {
        Self { max, state: Arc::default() }
    }

    /// Creates a cache for both pages of this many pairs.
    pub(crate) fn of_pairs(max: usize) -> Self {
        Self::of(2 * max)
    }

    /// Keeps a page, and evicts the least recently used one if the cache is full: an original with many duplicates
    /// stays.
    pub(crate) fn keep(&self, source: &Source, page: &PageBytes) {
        let mut state = self.lock();
        if self.max == 0 {
            return;
        }
        if state.pages.insert(source.clone(), page.clone()).is_some() {
            state.order.retain(|kept| kept != source);
        }
        state.order.push_back(source.clone());
        if state.order.len() > self.max
            && let Some(oldest) = state.order.pop_front()
        {
            state.pages.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, source: &Source) -> Option<PageBytes> {
        self.lock().pages.get(source).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, CachedPages> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the case as one element of a list in YAML; `None` for pages that no case can hold.
///
/// Headers and keys are not part of a case.
pub(crate) fn case_yaml(
    seen: &DeliveredDuplicate,
    format: Format,
    [original, page]: &[PageBytes; 2],
) -> Option<String> {
    let (one, other) = (as_page(format, original)?, as_page(format, page)?);
    let name = Value::from(format!(
        "{} ~ {}",
        seen.id.as_ref().map_or_else(|| seen.source.to_string(), Clone::clone),
        seen.original
    ));
    // JSON is valid YAML, so pages need no other escaping.
    Some(format!(
        "- name: {name}\n  one: {one}\n  other: {other}\n  expect: {}\n  stage: {}\n",
        seen.verdict, seen.stage
    ))
}

fn as_page(format: Format, bytes: &PageBytes) -> Option<Value> {
    let value = bytes.value.as_deref().filter(|value| value.len() <= MAX_VALUE_BYTES)?;
    match format {
        Format::Json => Some(json!({"record": serde_json::from_slice::<Map<String, Value>>(value).ok()?})),
        Format::Text => Some(json!({"text": std::str::from_utf8(value).ok()?})),
        Format::Html => Some(json!({"html": std::str::from_utf8(value).ok()?})),
        Format::Warc | Format::Avro | Format::Protobuf | Format::JsonSchema => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ExternalInputs, Layers, Purpose};
    use crate::record::{PartitionId, Timestamp};
    use crate::telemetry::pairs::{Filter, KEPT, Pairs};

    fn at(offset: i64) -> Source {
        PartitionId::new("pages", 0).at(offset)
    }

    /// For a cluster that holds no page any more: only `kept` can be shown.
    fn inspector(text: ShownText, kept: &PageCache) -> PairInspector {
        let resolved = Layers::default().resolve(&ExternalInputs::default(), Purpose::Sieve);
        let settings = resolved.unwrap_or_else(|refused| panic!("{refused}")).0;
        let fingerprinter =
            Fingerprinter::new(&settings.record, &settings.text, &settings.fingerprint, settings.log_partitions());
        let trees = TreeBudget::new(1 << 20, settings.record.format);
        let mut inspector = PairInspector::open(&settings, fingerprinter.unwrap(), trees, text, kept).unwrap();
        let config = context::connection(&settings.kafka).follower("no-group");
        inspector.pages = Mutex::new(Pages::open(&config, Duration::ZERO).unwrap());
        inspector
    }

    fn page(text: &str) -> PageBytes {
        let value = json!({ "url": "https://a.example/", "text": text }).to_string();
        PageBytes { value: Some(value.into()), ..PageBytes::default() }
    }

    fn duplicate(source: i64, original: i64) -> DeliveredDuplicate {
        DeliveredDuplicate {
            source: at(source),
            original: at(original),
            cluster: at(original),
            verdict: "near",
            stage: "minhash",
            distance: 4,
            contained: None,
            age_ms: 1000,
            id: Some("https://a.example/".to_owned()),
            at: Timestamp::from_millis(5),
        }
    }

    #[test]
    fn the_remaining_page_of_a_pair_is_shown_with_its_data() {
        let pair = Pair { number: 1, seen: duplicate(2, 1), details: None };
        for (left, side, gone) in [(1, "match", "the page (pages:0:2)"), (2, "own", "the original (pages:0:1)")] {
            let kept = PageCache::of_pairs(1);
            kept.keep(&at(left), &page("what is left of both"));
            let shown = |text| inspector(text, &kept).show(&pair).unwrap();
            let full = shown(ShownText::Full);
            assert_eq!(full["missing"], format!("the input no longer holds {gone}"));
            assert_eq!(full["runs"], json!([{ "side": side, "text": "what is left of both" }]));
            assert_eq!(full["case"], Value::Null, "half a pair is not a case");
            for (key, known) in [("source", "pages:0:2"), ("match", "pages:0:1"), ("verdict", "near")] {
                assert_eq!(full[key], known);
            }
            assert_eq!(shown(ShownText::Snippet)["runs"], full["runs"], "it is short");
            let none = shown(ShownText::None);
            assert_eq!((&none["runs"], &none["missing"]), (&json!([]), &full["missing"]));
        }
        let none = inspector(ShownText::Full, &PageCache::of_pairs(1)).show(&pair);
        assert!(matches!(&none, Err(ApiError::Missing(why)) if why.contains("the original (pages:0:1)")), "{none:?}");
    }

    #[test]
    fn every_pair_of_the_list_opens_while_its_pages_are_cached() {
        let kept = PageCache::of_pairs(KEPT);
        let inspector = inspector(ShownText::Full, &kept);
        let pairs = Pairs::default();
        // One page with many duplicates among pairs of others; the brokers hold a page only briefly.
        let number = i64::try_from(KEPT).unwrap() * 2;
        for source in (2..2 * number).step_by(2) {
            let seen = duplicate(source, if source % 4 == 0 { 0 } else { source - 1 });
            if source == 4 || seen.original != at(0) {
                kept.keep(&seen.original, &page("the text of a page"));
            }
            kept.keep(&seen.source, &page("the text of a page, once more"));
            // Only this many are kept a second.
            let now = Duration::from_secs(source.unsigned_abs());
            let pair = pairs.offer(now, seen).unwrap();
            pairs.set_details(pair.number, inspector.look(&pair.seen));
        }
        let listed = pairs.page(&Filter::default()).pairs;
        assert_eq!(listed.len(), KEPT);
        for pair in listed {
            let shown = inspector.show(&pair).unwrap();
            assert_eq!(shown["missing"], Value::Null, "{}", pair.seen.source);
            assert!(pair.details.as_ref().is_some_and(|details| details.missing.is_none()));
        }
    }

    #[test]
    fn recently_used_pages_are_kept() {
        let at = |offset| PartitionId::new("pages", 0).at(offset);
        let page = |text: &str| PageBytes { value: Some(text.into()), ..PageBytes::default() };
        let kept = PageCache::of(2);
        for offset in [1, 2, 2, 3] {
            kept.keep(&at(offset), &page("x"));
        }
        assert_eq!([1, 2, 3].map(|offset| kept.get(&at(offset)).is_some()), [false, true, true]);
        kept.keep(&at(2), &page("x"));
        kept.keep(&at(4), &page("x"));
        assert_eq!([2, 3, 4].map(|offset| kept.get(&at(offset)).is_some()), [true, false, true]);
        assert!(kept.lock().pages.len() == 2 && kept.lock().order.len() == 2);
        let none = PageCache::of(0);
        none.keep(&at(1), &page("x"));
        assert_eq!(none.get(&at(1)), None);
    }

    fn seen() -> DeliveredDuplicate {
        let partition = PartitionId::new("pages", 0);
        DeliveredDuplicate {
            source: partition.at(7),
            original: partition.at(3),
            cluster: partition.at(3),
            verdict: "near",
            stage: "simhash",
            distance: 2,
            contained: None,
            age_ms: 0,
            id: Some("http://a/\"1\"".to_owned()),
            at: Timestamp::default(),
        }
    }

    fn case_page(value: &str) -> PageBytes {
        PageBytes { value: Some(value.as_bytes().to_vec()), ..PageBytes::default() }
    }

    #[test]
    fn a_case_holds_both_pages_and_the_verdict() {
        let pages = [case_page("{\"text\": \"one: #1\"}"), case_page("{\"text\": \"two\\n- name: x\"}")];
        let yaml = case_yaml(&seen(), Format::Json, &pages).unwrap();
        let read: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(
            read,
            json!([{
                "name": "http://a/\"1\" ~ pages:0:3",
                "one": {"record": {"text": "one: #1"}},
                "other": {"record": {"text": "two\n- name: x"}},
                "expect": "near",
                "stage": "simhash",
            }])
        );
        let read: Value = serde_saphyr::from_str(&super::case_yaml(&seen(), Format::Html, &pages).unwrap()).unwrap();
        assert_eq!(read[0]["one"]["html"], "{\"text\": \"one: #1\"}");
    }

    #[test]
    fn pages_that_a_case_cannot_hold_are_refused() {
        let large = "x".repeat(MAX_VALUE_BYTES + 1);
        for (format, other) in [(Format::Text, large.as_str()), (Format::Json, "[]")] {
            assert_eq!(case_yaml(&seen(), format, &[case_page("{}"), case_page(other)]), None);
        }
        assert_eq!(case_yaml(&seen(), Format::Text, &[case_page("a"), PageBytes::default()]), None);
    }
}
