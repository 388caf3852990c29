use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use super::*;

fn crawl() -> Crawl {
    Crawl::new(CrawlSettings::default()).unwrap()
}

fn text_of(page: &Planted) -> String {
    let json: Value = serde_json::from_slice(&page.value).unwrap();
    json.get("text").or_else(|| json.get("html")).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn the_same_seed_gives_the_same_bytes_for_ever() {
    let mut hash = Xxh3::new();
    for page in crawl().take(1000) {
        let line = format!("{}\n{}\n{}\n{}\n{}\n", page.number, page.topic, page.key, page.timestamp, page.truth);
        hash.update(line.as_bytes());
        hash.update(&page.value);
    }
    // A change here changes every number measured on the crawl: the changelog has to say so.
    assert_eq!(format!("{:032x}", hash.digest128()), "3d6c2057e276bc46864db7a8b672b39d");
}

#[test]
fn another_seed_gives_another_crawl() {
    let other = Crawl::new(CrawlSettings { seed: 2, ..CrawlSettings::default() }).unwrap();
    let same = crawl().zip(other).take(200).filter(|(one, two)| one.value == two.value).count();
    assert_eq!(same, 0);
}

#[test]
fn shares_are_as_asked_and_every_kind_appears() {
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut bytes = 0;
    for page in crawl().take(20_000) {
        let kind = match &page.truth {
            Truth::Unique => "unique".to_owned(),
            Truth::Exact { .. } => "exact".to_owned(),
            Truth::Near { edit, .. } => format!("near {}", edit.name()),
            Truth::Broken { damage } => format!("broken {}", damage.name()),
        };
        *counts.entry(kind).or_default() += 1;
        *counts.entry(format!("topic {}", page.topic)).or_default() += 1;
        *counts.entry("html".to_owned()).or_default() +=
            u64::from(page.value.windows(8).any(|part| part == b"</html>\\"));
        bytes += page.value.len();
    }
    let of = |name: &str| counts.get(name).copied().unwrap_or(0);
    let near = |name: &str, expected: u64| {
        assert!(of(name).abs_diff(expected) < 60 + expected / 20, "{name}: {}, expected {expected}", of(name));
    };
    near("unique", 14_800);
    near("exact", 2000);
    near("html", 4000);
    (0..3).for_each(|topic| near(&format!("topic {topic}"), 6666));
    Edit::ALL.iter().for_each(|edit| near(&format!("near {}", edit.name()), 3000 / 9));
    for damage in Damage::ALL {
        assert!(of(&format!("broken {}", damage.name())) > 10, "{}", damage.name());
    }
    assert!((1800..2600).contains(&(bytes / 20_000)), "{} bytes a page", bytes / 20_000);
}

#[test]
fn a_copy_names_a_unique_page_within_reach_and_says_how_it_differs() {
    let crawl = Crawl::new(CrawlSettings { reach: 300, near: 0.3, exact: 0.3, ..CrawlSettings::default() }).unwrap();
    let pages: Vec<Planted> = crawl.take(3000).collect();
    let by_key: HashMap<&str, &Planted> = pages.iter().map(|page| (page.key.as_str(), page)).collect();
    assert_eq!(by_key.len(), pages.len(), "every page has its own key");
    for page in &pages {
        let Some(original) = page.truth.original() else { continue };
        let root = by_key.get(original).unwrap();
        assert_eq!(root.truth, Truth::Unique);
        assert!(root.number < page.number && page.number - root.number <= 300);
        assert_ne!(root.value, page.value, "another address is another record");
        let (text, other) = (text_of(page), text_of(root));
        if text.starts_with('<') {
            continue; // The frame of the site differs in any case.
        }
        assert_eq!(text == other, matches!(page.truth, Truth::Exact { .. }), "{}", page.truth);
    }
}

#[test]
fn a_unique_text_appears_once() {
    let texts: Vec<String> =
        crawl().take(5000).filter(|page| page.truth == Truth::Unique).map(|p| text_of(&p)).collect();
    let distinct: HashSet<&String> = texts.iter().collect();
    assert_eq!(distinct.len(), texts.len());
}

#[test]
fn every_page_is_json_unless_it_is_broken_and_then_as_said() {
    let crawl = Crawl::new(CrawlSettings { broken: 0.3, ..CrawlSettings::default() }).unwrap();
    for page in crawl.take(2000) {
        let text = std::str::from_utf8(&page.value);
        let Truth::Broken { damage } = page.truth else {
            assert!(!text_of(&page).is_empty());
            let json: Value = serde_json::from_slice(&page.value).unwrap();
            assert_eq!(json.get("url").unwrap(), &Value::from(page.key.clone()));
            continue;
        };
        let json: Result<Value, _> = serde_json::from_slice(&page.value);
        match damage {
            Damage::InvalidUtf8 => assert!(text.is_err()),
            Damage::TruncatedJson => assert!(json.is_err()),
            Damage::MissingField => {
                let json = json.unwrap();
                assert!(json.get("text").is_none() && json.get("html").is_none());
            }
            Damage::WrongType => assert!(json.unwrap().get("text").unwrap().is_array()),
            Damage::EmptyText => assert_eq!(json.unwrap().get("text").unwrap().as_str().unwrap().trim(), ""),
            Damage::DeepNesting => {
                assert!(json.is_err(), "deeper than the parser's own limit");
                assert_eq!(text.unwrap().matches(['[', ']']).count(), 2000);
            }
        }
    }
}

#[test]
fn settings_that_contradict_themselves_are_refused() {
    let refused = |change: fn(&mut CrawlSettings)| {
        let mut settings = CrawlSettings::default();
        change(&mut settings);
        Crawl::new(settings).unwrap_err().to_string()
    };
    assert_eq!(refused(|it| it.zh = 1.5), "zh is 1.5: a share is between 0 and 1");
    assert_eq!(refused(|it| it.html = f64::NAN), "html is NaN: a share is between 0 and 1");
    assert!(refused(|it| it.near = 0.9).starts_with("exact, near and broken take 1.01"));
    assert_eq!(refused(|it| it.topics = 0), "topics is 0: at least 1");
    assert_eq!(refused(|it| it.sites = 0), "sites is 0: at least 1");
    #[expect(clippy::reversed_empty_ranges, reason = "the empty band is the point")]
    let empty = refused(|it| it.bytes = 9..=3);
    assert_eq!(empty, "bytes 9 to 3: the least is more than the most");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_page_can_be_written_alone(seed: u64, number in 0..1_000_000_u64, zh in 0.0..1.0, least in 1..3000_usize) {
        let settings = CrawlSettings { seed, zh, exact: 0.3, near: 0.5, bytes: least..=least + 500, ..CrawlSettings::default() };
        let page = Crawl::new(settings.clone()).unwrap().page(number);
        prop_assert_eq!(&page, &Crawl::new(settings.clone()).unwrap().page(number));
        prop_assert!(page.topic < settings.topics);
        prop_assert_eq!(page.truth.to_string().parse(), Ok(page.truth));
        let wanted = i64::try_from(number).unwrap() * 20;
        prop_assert_eq!(page.timestamp.millis() - settings.start.millis(), wanted);
    }
}
