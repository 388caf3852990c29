//! The scheme changes with the fingerprints of the corpus, and with nothing else.
//!
//! For each version of the text code, a file in `tests/golden/scheme` holds a hash of the pages of each group and one of
//! everything that their requests carry. See `docs/decisions/0009-scheme-from-what-comes-out.md`.

mod corpus;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use dupgate::fingerprint::{
    FeatureHash, FingerprintedPage, Fingerprinter, Fingerprints, STOP_SHINGLES_HEAD, Scratch, Seed, Settings,
    Shingling, SimHash, Sketch, SketchForm, SlotBits, StopShingles, Weights, Width,
};
use dupgate::protocol::PageRequest;
use dupgate::record::{EventTime, Format, InputSettings, PartitionId, RawRecord, Rejection, Timestamp};
use dupgate::text;
use xxhash_rust::xxh3::Xxh3Default;

use self::corpus::{Group, Page, groups};
use super::{REWRITE, read};

fn file_of(version: u32) -> String {
    format!("tests/golden/scheme/version_{version}.txt")
}

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

/// What the file of a version holds, and what it should: the hashes of each group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Golden(BTreeMap<String, Hashes>);

impl Golden {
    fn parse(file: &str) -> Self {
        let group = |line: &str| {
            let [name, "pages", pages, "requests", carried] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let hash = |digits| u64::from_str_radix(digits, 16).unwrap();
            (name.to_owned(), Hashes { pages: hash(pages), carried: hash(carried) })
        };
        Self(file.lines().map(group).collect())
    }

    fn write(&self) -> String {
        let line = |(name, Hashes { pages, carried }): (&String, &Hashes)| {
            format!("{name} pages {pages:016x} requests {carried:016x}\n")
        };
        self.0.iter().map(line).collect()
    }

    /// Returns why this file may not be replaced by another one.
    fn refuses(&self, now: &Self) -> Option<String> {
        let differing = |differs: fn(Option<&Hashes>, &Hashes) -> bool| {
            let names = self.0.iter().filter(|(name, was)| differs(now.0.get(*name), was));
            names.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let pages = differing(|now, was| now.is_none_or(|now| now.pages != was.pages));
        let carried = differing(|now, was| now.is_some_and(|now| now.pages == was.pages && now.carried != was.carried));
        if !carried.is_empty() {
            return Some(format!(
                "pages of the corpus have other fingerprints ({carried}). If that is intended, it is a new version of the text \
                 code: add one to VERSIONS (crates/core/src/text/settings.rs), let the version before do what it did, drop the \
                 one before that, then `{REWRITE}=1 cargo test --test consistency scheme` writes the file"
            ));
        }
        let advice = "they show nothing any more: restore them, and add other pages as a group of their own";
        (!pages.is_empty()).then(|| format!("pages of the corpus changed ({pages}), so that {advice}"))
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
fn fingerprinter(version: u32, format: Format, change: Change) -> Fingerprinter {
    let (mut input, mut text, mut fingerprint) =
        (InputSettings::default(), text::Settings::default(), Settings::default());
    text.version = version;
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
    version: u32,
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
        let fingerprinter = made.get_or_insert_with(|| fingerprinter(version, page.format, change));
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

fn computed(version: u32, groups: &[Group]) -> Golden {
    let unchanged: Change = |_, _, _| {};
    let sample: Vec<&Page> = groups.iter().take(SAMPLED_GROUPS).flat_map(|group| &group.pages).step_by(EVERY).collect();
    let of_group = |group: &Group| {
        let hashes = hashed(|pages, carried| add_all(version, group.pages.iter(), unchanged, pages, carried));
        (group.name.to_owned(), hashes)
    };
    let of_change = |(name, change): (&str, Change)| {
        let hashes = hashed(|pages, carried| add_all(version, sample.iter().copied(), change, pages, carried));
        (format!("settings.{name}"), hashes)
    };
    Golden(groups.iter().map(of_group).chain(CHANGES.into_iter().map(of_change)).collect())
}

#[test]
fn the_scheme_changes_with_the_fingerprints_of_the_corpus_and_with_nothing_else() {
    let groups = groups();
    assert!(groups.iter().map(|group| group.pages.len()).sum::<usize>() > 2500);
    for version in text::VERSIONS {
        let now = computed(version, &groups);
        // That of a new version is yet to be written.
        let stored = std::fs::read_to_string(file_of(version)).unwrap_or_default();
        if let Some(why) = Golden::parse(&stored).refuses(&now) {
            panic!("version {version}: {why}");
        }
        super::up_to_date(&file_of(version), &now.write());
    }
}

#[test]
fn each_version_and_each_setting_has_fingerprints_of_its_own() {
    let all = text::VERSIONS.map(|version| Golden::parse(&read(&file_of(version))));
    let all: Vec<Golden> = all.collect();
    for golden in &all {
        assert_eq!(*golden, Golden::parse(&golden.write()));
        let mut carried: Vec<u64> = golden.0.values().map(|hashes| hashes.carried).collect();
        carried.sort_unstable();
        carried.dedup();
        assert_eq!(carried.len(), golden.0.len(), "a setting that changes no page of the corpus is not covered");
    }
    assert!(
        all.windows(2).all(|pair| pair[0] != pair[1]),
        "no page of the corpus has other fingerprints than with the version before: remove the version, so that indexes \
         survive the upgrade, or first add pages to the corpus that show the difference"
    );
}

#[test]
fn hashes_are_replaced_only_by_those_of_more_pages() {
    let file = "html pages 1 requests 2\ntexts pages 3 requests 4\n";
    let stored = Golden::parse(file);
    let refused = |file: &str| stored.refuses(&Golden::parse(file)).unwrap_or_default();
    assert_eq!(refused(file), "");
    let with = |from: &str, to: &str| file.replace(from, to);
    assert_eq!(refused(&format!("{file}zzz pages 5 requests 6\n")), "", "pages are added without a new scheme");
    let message = refused(&with("requests 4", "requests 5"));
    assert!(message.starts_with("pages of the corpus have other fingerprints (texts). "), "{message}");
    assert!(refused(&with("pages 3", "pages 5")).starts_with("pages of the corpus changed (texts)"));
    assert!(refused(&with("texts pages 3 requests 4\n", "")).starts_with("pages of the corpus changed (texts)"));
}
