//! The scheme changes with the fingerprints of the corpus, and with nothing else.
//!
//! `tests/golden/scheme/hashes.txt` holds the code version and, for each group of pages, a hash of the pages and one of
//! everything that their requests carry. See `docs/decisions/0009-scheme-from-what-comes-out.md`.

mod corpus;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use dupgate::fingerprint::{
    CODE_VERSION, FeatureHash, FingerprintedPage, Fingerprinter, Fingerprints, STOP_SHINGLES_HEAD, Scratch, Seed,
    Settings, Shingling, SimHash, Sketch, SketchForm, SlotBits, StopShingles, Weights, Width,
};
use dupgate::protocol::PageRequest;
use dupgate::record::{EventTime, Format, InputSettings, PartitionId, RawRecord, Rejection, Timestamp};
use dupgate::text;
use xxhash_rust::xxh3::Xxh3Default;

use self::corpus::{Group, Page, groups};
use super::{REWRITE, read};

const FILE: &str = "tests/golden/scheme/hashes.txt";

/// Pages that are read again under each of the other settings: every so many of the first groups, which are short
/// and JSON.
const EVERY: usize = 67;
const SAMPLED_GROUPS: usize = 8;

/// Hashes of a group: its pages, and everything that their requests carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hashes {
    pages: u64,
    carried: u64,
}

/// What the file holds, and what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Golden {
    code_version: u32,
    groups: BTreeMap<String, Hashes>,
}

impl Golden {
    fn parse(file: &str) -> Self {
        let mut lines = file.lines();
        let code_version = lines.next().and_then(|line| line.strip_prefix("code_version ")?.parse().ok()).unwrap();
        let group = |line: &str| {
            let [name, "pages", pages, "requests", carried] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let hash = |digits| u64::from_str_radix(digits, 16).unwrap();
            (name.to_owned(), Hashes { pages: hash(pages), carried: hash(carried) })
        };
        Self { code_version, groups: lines.map(group).collect() }
    }

    fn write(&self) -> String {
        let line = |(name, Hashes { pages, carried }): (&String, &Hashes)| {
            format!("{name} pages {pages:016x} requests {carried:016x}\n")
        };
        let groups: String = self.groups.iter().map(line).collect();
        format!("code_version {}\n{groups}", self.code_version)
    }

    /// Returns why this file may not be replaced by another one.
    fn refuses(&self, now: &Self) -> Option<String> {
        let differing = |differs: fn(Option<&Hashes>, &Hashes) -> bool| {
            let names = self.groups.iter().filter(|(name, was)| differs(now.groups.get(*name), was));
            names.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let pages = differing(|now, was| now.is_none_or(|now| now.pages != was.pages));
        let carried = differing(|now, was| now.is_some_and(|now| now.pages == was.pages && now.carried != was.carried));
        let (was, is) = (self.code_version, now.code_version);
        match is.cmp(&was) {
            std::cmp::Ordering::Less => Some(format!("CODE_VERSION is {is}, and was {was} already: it never falls")),
            std::cmp::Ordering::Equal if !carried.is_empty() => Some(format!(
                "pages of the corpus have other fingerprints ({carried}). If that is intended, this is a new scheme, and every \
                 index starts empty: set CODE_VERSION (crates/core/src/fingerprint/scheme.rs) to {}, then \
                 `{REWRITE}=1 cargo test --test consistency scheme` writes {FILE}",
                was + 1
            )),
            std::cmp::Ordering::Equal if !pages.is_empty() => Some(format!(
                "pages of the corpus changed ({pages}), so that they show nothing any more: restore them, and add other pages as \
                 a group of their own"
            )),
            std::cmp::Ordering::Greater if self.groups == now.groups => Some(format!(
                "CODE_VERSION is {is}, but no page of the corpus has other fingerprints than with {was}: set it back, so that \
                 indexes survive the upgrade, or first add pages to the corpus that show the difference"
            )),
            std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => None,
        }
    }
}

/// A change of the settings whose fingerprints are part of the scheme, too.
type Change = fn(&mut InputSettings, &mut text::Settings, &mut Settings);

const CHANGES: [(&str, Change); 25] = [
    ("all_text", |_, text, _| text.html = text::HtmlText::AllText),
    ("case", |_, text, _| text.normalize.lowercase = false),
    ("digits", |_, text, _| text.normalize.digits = text::Digits::Mask),
    ("han", |_, text, _| text.normalize.han = text::Han::Keep),
    ("urls", |_, text, _| text.normalize.urls = text::Urls::Keep),
    ("unicode", |_, text, _| text.normalize.unicode = text::UnicodeForm::None),
    ("jieba", |_, text, _| text.segmenter = text::Segmenter::Jieba),
    ("words", |_, text, _| text.segmenter = text::Segmenter::Unicode),
    ("no_hmm", |_, text, _| text.jieba.hmm = false),
    ("user_dict", |_, text, _| text.jieba.user_dict = Some("深海珊瑚 1000 n\n折叠屏旗舰\n".to_owned())),
    ("no_stopwords", |_, text, _| text.stopwords = Vec::new()),
    ("stopwords", |_, text, _| text.stopwords = vec![text::StopWords::List("und\nder\n发现\n".to_owned())]),
    ("max_bytes", |_, text, _| text.max_bytes = 1000),
    ("tf", |_, _, settings| settings.simhash.weights = Weights::Tf),
    ("uniform", |_, _, settings| settings.simhash.weights = Weights::Uniform),
    ("top_k", |_, _, settings| settings.simhash.top_k = 30),
    ("md5", |_, _, settings| settings.simhash.hash = FeatureHash::Md5),
    ("jenkins", |_, _, settings| settings.simhash.hash = FeatureHash::Jenkins),
    ("narrow", |_, _, settings| settings.simhash.bits = Width::B32),
    ("wide", |_, _, settings| {
        settings.simhash.bits = Width::B128;
        settings.minhash.form = Some(SketchForm::new(64, SlotBits::B4).unwrap());
    }),
    ("bottom", |_, _, settings| {
        settings.minhash.form = Some(SketchForm::new(128, SlotBits::B16).unwrap().with_bottom(64).unwrap());
    }),
    ("shingles", |_, _, settings| {
        settings.minhash.shingle = Shingling::of_characters(3, 8);
        let lines = format!("{STOP_SHINGLES_HEAD}\n研究人\nsubscrib\n");
        settings.minhash.stop = StopShingles::parse(&lines, settings.minhash.shingle).unwrap();
    }),
    ("word_shingles", |_, _, settings| settings.minhash.shingle = Shingling::of_words(2, 3)),
    ("seed", |_, _, settings| settings.seed = Seed::of("a secret of the corpus")),
    ("fields", |input, _, _| {
        input.fields.scope = "/scope".parse().ok();
        input.fields.address = "/at".parse().ok();
        input.fields.canonical = "/canonical".parse().ok();
        input.event_time = EventTime::Field;
        input.fields.fetched_at = "/t".parse().ok();
    }),
];

/// Returns a fingerprinter for records of a format, under settings that this changes.
fn fingerprinter(format: Format, change: Change) -> Fingerprinter {
    let (mut input, mut text, mut fingerprint) =
        (InputSettings::default(), text::Settings::default(), Settings::default());
    input.format = format;
    if format != Format::Json {
        input.fields.content_type = Some("content-type".to_owned());
    }
    change(&mut input, &mut text, &mut fingerprint);
    let partitions = if input.fields.scope.is_some() { 3 } else { 1 };
    Fingerprinter::new(&input, &text, &fingerprint, NonZeroUsize::new(partitions).unwrap()).unwrap()
}

/// Adds everything that the request of a page carries. All fields are named, so that none is forgotten.
fn add_carried(hash: &mut Xxh3Default, read: Result<FingerprintedPage, Rejection>) {
    let read = match read {
        Ok(read) => read,
        Err(rejection) => return hash.update(format!("rejected {}\n", rejection.reason().name()).as_bytes()),
    };
    let (partition, event_time) = (read.partition, read.event_time);
    let PageRequest {
        source: _,
        event_time: _,
        id,
        scope,
        site,
        address,
        title,
        is_variant,
        fingerprints: Fingerprints { exact, simhash, sketch, numbers },
        digest,
        // Of the judge.
        earlier: _,
    } = PageRequest::of(read, PartitionId::new("pages", 0).at(0), Timestamp::default());
    let number = |value: Option<u128>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:x}"));
    let simhash_bits = simhash.map(|simhash| simhash.width().bits());
    let fields = [
        number(Some(exact.0)),
        number(simhash_bits.map(u128::from)),
        number(simhash.map(SimHash::bits)),
        format!("{:?}", sketch.as_ref().map(Sketch::bytes)),
        format!("{:?}", numbers.hashes()),
        number(id.map(|id| id.0.into())),
        number(scope.map(|scope| scope.0.into())),
        number(site.map(|site| site.0.into())),
        number(address.map(|address| address.0.into())),
        number(title.map(|title| title.0.into())),
        is_variant.to_string(),
        number(Some(digest.0.into())),
        partition.to_string(),
        format!("{:?}", event_time.map(Timestamp::millis)),
    ];
    hash.update(fields.join(" ").as_bytes());
    hash.update(b"\n");
}

fn add_page(hash: &mut Xxh3Default, page: &Page) {
    let head = format!("{} {:?} {}\n", page.format.name(), page.content_type, page.value.len());
    hash.update(head.as_bytes());
    hash.update(&page.value);
}

/// Reads these pages under settings that this changes.
fn add_all<'p>(
    pages: impl Iterator<Item = &'p Page>,
    change: Change,
    all: &mut Xxh3Default,
    carried: &mut Xxh3Default,
) {
    let formats = [Format::Json, Format::Text, Format::Html];
    let mut fingerprinters = formats.map(|format| (format, None));
    let mut scratch = Scratch::default();
    for page in pages {
        let (_, made) = fingerprinters.iter_mut().find(|(format, _)| *format == page.format).unwrap();
        let fingerprinter = made.get_or_insert_with(|| fingerprinter(page.format, change));
        let headers: Vec<(&str, &str)> =
            page.content_type.iter().map(|value| ("content-type", value.as_str())).collect();
        let record = RawRecord { key: None, value: Some(&page.value), headers: &headers };
        add_page(all, page);
        add_carried(carried, fingerprinter.read(&record, &mut scratch));
    }
}

fn hashed(add: impl FnOnce(&mut Xxh3Default, &mut Xxh3Default)) -> Hashes {
    let (mut pages, mut carried) = (Xxh3Default::new(), Xxh3Default::new());
    add(&mut pages, &mut carried);
    Hashes { pages: pages.digest(), carried: carried.digest() }
}

fn computed(groups: &[Group]) -> Golden {
    let unchanged: Change = |_, _, _| {};
    let sample: Vec<&Page> = groups.iter().take(SAMPLED_GROUPS).flat_map(|group| &group.pages).step_by(EVERY).collect();
    let of_group = |group: &Group| {
        let hashes = hashed(|pages, carried| add_all(group.pages.iter(), unchanged, pages, carried));
        (group.name.to_owned(), hashes)
    };
    let of_change = |(name, change): (&str, Change)| {
        let hashes = hashed(|pages, carried| add_all(sample.iter().copied(), change, pages, carried));
        (format!("settings.{name}"), hashes)
    };
    let all = groups.iter().map(of_group).chain(CHANGES.into_iter().map(of_change)).collect();
    Golden { code_version: CODE_VERSION, groups: all }
}

#[test]
fn the_scheme_changes_with_the_fingerprints_of_the_corpus_and_with_nothing_else() {
    let groups = groups();
    assert!(groups.iter().map(|group| group.pages.len()).sum::<usize>() > 2500);
    let (stored, now) = (Golden::parse(&read(FILE)), computed(&groups));
    if let Some(why) = stored.refuses(&now) {
        panic!("{why}");
    }
    super::up_to_date(FILE, &now.write());
}

#[test]
fn each_group_of_pages_and_each_setting_has_fingerprints_of_its_own() {
    let golden = Golden::parse(&read(FILE));
    assert_eq!(golden, Golden::parse(&golden.write()));
    let mut carried: Vec<u64> = golden.groups.values().map(|hashes| hashes.carried).collect();
    carried.sort_unstable();
    carried.dedup();
    assert_eq!(carried.len(), golden.groups.len(), "a setting that changes no page of the corpus is not covered");
}

#[test]
fn hashes_are_replaced_only_together_with_the_code_version() {
    let file = "code_version 7\nhtml pages 1 requests 2\ntexts pages 3 requests 4\n";
    let stored = Golden::parse(file);
    let refused = |file: &str| stored.refuses(&Golden::parse(file)).unwrap_or_default();
    assert_eq!(refused(file), "");
    let with = |from: &str, to: &str| file.replace(from, to);
    let more = format!("{file}zzz pages 5 requests 6\n");
    assert_eq!(refused(&more), "", "pages are added without a new scheme");
    let message = refused(&with("requests 4", "requests 5"));
    assert!(message.starts_with("pages of the corpus have other fingerprints (texts). "), "{message}");
    assert!(message.contains("to 8, then"), "{message}");
    assert!(refused(&with("pages 3", "pages 5")).starts_with("pages of the corpus changed (texts)"));
    assert!(refused(&with("texts pages 3 requests 4\n", "")).starts_with("pages of the corpus changed (texts)"));
    let raised = |file: &str| refused(&file.replace("version 7", "version 8"));
    assert_eq!(raised(&with("requests 4", "requests 5")), "");
    assert!(raised(file).contains("no page of the corpus has other fingerprints"), "{}", raised(file));
    assert!(refused(&with("version 7", "version 6")).contains("never falls"));
}
