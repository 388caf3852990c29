//! What streams of sites promise, and how they are counted.

use std::collections::{HashMap, HashSet};

use super::super::{PlantSettings, jaccard, plant, set_of};
use super::*;
use crate::crawl::Prose;
use dupgate_core::fingerprint::{ShingleBuffer, ShingleLengths, shingle_hashes};

const PAGES: usize = 400;

fn shingles(text: &str) -> Vec<u32> {
    let mut hashes = Vec::new();
    shingle_hashes(text, ShingleLengths { han: 4, other: 6 }, &mut ShingleBuffer::default(), &mut hashes);
    set_of(&hashes)
}

fn body(page: &SitePage) -> &str {
    match &page.body {
        Body::Text(body) | Body::Html(body) => body,
    }
}

fn pages<'s>(stream: &'s SiteStream<'_>) -> impl Iterator<Item = SitePage> + use<'s> {
    (0..).map_while(|number| stream.page(number))
}

/// Texts of a hundred to four hundred characters, no two alike.
fn texts(count: usize) -> Vec<String> {
    let prose = Prose::new();
    let length = |number: usize| 100 + number * 37 % 300;
    (0..count).map(|number| prose.text(number % 3 == 0, length(number), &mut Rng::of(9, number as u64, 9))).collect()
}

fn all(texts: &SiteTexts) -> Vec<SiteStream<'_>> {
    let ordinary = self::texts(60);
    let plain = plant(&ordinary, PlantSettings { seed: 1, copies: 2 });
    streams(texts, &ordinary, &plain, SiteSettings { seed: 1, pages: PAGES })
}

#[test]
fn pages_of_a_site_share_what_is_said_and_nothing_else() {
    let texts = SiteTexts::generated(1);
    for share in SHARES {
        let stream = SiteStream::of_uniques(&texts, Form::Text, true, share, PAGES);
        let mut sites: HashMap<usize, Vec<Vec<u32>>> = HashMap::new();
        for page in pages(&stream) {
            sites.entry(page.truth.site).or_default().push(shingles(body(&page)));
        }
        assert!(sites.len() > 20, "{}", sites.len());
        let firsts: Vec<&Vec<u32>> = sites.values().filter_map(|pages| pages.first()).collect();
        let within: Vec<f64> =
            sites.values().flat_map(|pages| pages.windows(2)).map(|two| jaccard(&two[0], &two[1])).collect();
        let across: Vec<f64> = firsts.windows(2).map(|two| jaccard(two[0], two[1])).collect();
        let mean = |all: &[f64]| all.iter().sum::<f64>() / f64::from(u32::try_from(all.len()).unwrap());
        // Of two pages of one length that share s of it, the Jaccard index is s / (2 - s).
        let expected = f64::from(u32::try_from(share).unwrap()) / f64::from(u32::try_from(200 - share).unwrap());
        assert!((mean(&within) - expected).abs() < 0.04, "{share} %: {} {expected}", mean(&within));
        assert!(mean(&across) < 0.05, "{share} %: {}", mean(&across));
    }
}

#[test]
fn sites_have_as_many_pages_as_their_class_says_and_take_turns() {
    let classes = [10, 100, 1000];
    for pages in [4000, 4001, 4005, 12_000] {
        let (mut ranks, mut sites) = (HashSet::new(), HashMap::<usize, Vec<usize>>::new());
        for number in 0..pages {
            let place = Place::of(number, &classes, pages);
            assert!(place.rank < pages && ranks.insert(place.rank), "page {number} of {pages}: {}", place.rank);
            assert_eq!(place.class, number % 3);
            sites.entry(place.site).or_default().push(number);
        }
        for (site, numbers) in sites {
            let size = classes[site / 1_000_000];
            assert!((size..size * 2).contains(&numbers.len()), "site {site}: {}", numbers.len());
            let gap = numbers.windows(2).map(|two| two[1] - two[0]).max().unwrap();
            assert!(gap <= 2 * pages / numbers.len(), "site {site} is not spread over the stream");
        }
    }
}

#[test]
fn copies_follow_their_article_and_all_others_are_unlike() {
    let given = texts(80);
    for texts in [SiteTexts::generated(3), SiteTexts::given(3, &given)] {
        let streams = all(&texts);
        let kinds: HashSet<RowKind> = streams.iter().flat_map(SiteStream::rows).map(|row| row.kind).collect();
        assert!(kinds.len() >= 8, "{kinds:?}");
        for stream in &streams {
            let (mut homes, mut urls) = (HashMap::new(), HashSet::new());
            for page in pages(stream) {
                let row = &stream.rows()[page.truth.row];
                let home = homes.get(&page.truth.family).copied();
                assert_eq!(home.is_some(), page.truth.is_copy, "{row:?}");
                homes.entry(page.truth.family).or_insert(page.truth.site);
                if matches!(row.kind, RowKind::Ordinary | RowKind::ShortPosts | RowKind::Navigation) {
                    assert_ne!(home, Some(page.truth.site), "{row:?}: a copy is on the site of its original");
                }
                assert_eq!(page.url.is_some(), row.addressed);
                assert!(page.url.is_none_or(|url| {
                    assert!(url.contains(&format!("site{}.example/", page.truth.site)), "{url}");
                    urls.insert(url)
                }));
            }
            assert_eq!(pages(stream).count(), stream.pages());
        }
        // No text twice where none is a copy.
        let stream = SiteStream::of_uniques(&texts, Form::Text, true, 40, 80);
        let bodies: HashSet<String> = pages(&stream).map(|page| body(&page).to_owned()).collect();
        assert_eq!(bodies.len(), 80);
    }
}

#[test]
fn an_amp_page_names_the_address_of_the_page_it_renders() {
    let texts = SiteTexts::generated(1);
    let (rows, pages) = listed::views(&texts.0, Form::Html, true, 20);
    assert_eq!(rows.len(), 5);
    let urls: HashMap<usize, String> = pages
        .iter()
        .filter(|page| page.truth.row == 0)
        .map(|page| (page.truth.family, page.url.clone().unwrap()))
        .collect();
    for page in pages.iter().filter(|page| rows[page.truth.row].kind == RowKind::Amp) {
        let canonical = format!("<link rel=\"canonical\" href=\"{}\">", urls[&page.truth.family]);
        assert!(body(page).contains(&canonical), "{}", body(page));
    }
    let record: serde_json::Value = serde_json::from_slice(&pages[0].to_json()).unwrap();
    assert_eq!((record["url"].as_str(), record["html"].as_str()), (pages[0].url.as_deref(), Some(body(&pages[0]))));
}

#[test]
fn what_is_lost_is_counted_by_site_and_what_is_found_by_article() {
    let page = |site, family, is_copy| SitePage {
        url: None,
        body: Body::Text(String::new()),
        truth: SiteTruth { row: 0, site, family, is_copy },
    };
    let row = Row {
        kind: RowKind::Unlike,
        form: Form::Text,
        addressed: false,
        share: None,
        site_pages: None,
        goal: Goal { lost: Some(0.6), found: Some(0.6) },
    };
    let listed = [
        page(1, 1, false),
        page(1, 2, false),
        page(2, 3, false),
        page(1, 4, false),
        page(1, 5, false),
        page(2, 1, true),
        page(2, 2, true),
    ];
    let stream = SiteStream::of_ready((vec![row], listed.to_vec()));
    let mut scorer = SiteScorer::new(&stream);
    // Two are lost within their site, the third across; one copy is matched with its article, one with another.
    for (page, matched) in listed.iter().zip([None, Some(0), Some(0), None, Some(3), Some(0), Some(2)]) {
        scorer.note(page.truth, matched);
    }
    let counts = scorer.counts()[0];
    assert_eq!((counts.lost.planted, counts.lost.found), (5, 3));
    assert_eq!((counts.lost_within, counts.lost_across()), (2, 1));
    assert_eq!((counts.found.planted, counts.found.found, counts.strayed), (2, 1, 1));
    assert!(!row.goal.is_met(&counts), "half of the copies are less than .6");
    assert!(Goal { lost: Some(0.6), found: Some(0.5) }.is_met(&counts), "inclusive");
    assert!(!Goal { lost: Some(0.59), found: None }.is_met(&counts));
}
