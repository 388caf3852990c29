//! What is wrong and what it costs among a million pages: false positives, ns and candidates a page, bytes an original.
//!
//! `cargo bench --bench quality -- [FILE] [PAGES]`: FILE are JSON lines with `text` (else generated texts). Pages are
//! made of its words ([`chain`]), every one different; 10,000 of them, in the second half, are edited copies of ones in
//! the first. One judge, one thread, in its CPU time, for the configured bands and, with up to two million pages, their
//! neighbours. Tables for people, then one JSON object as the last line.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench panics where it cannot continue")]
#![expect(clippy::cast_precision_loss, reason = "numbers for people")]
#![expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "shares and small numbers")]

mod chain;
mod judging;

use std::collections::HashMap;
use std::io::BufRead;
use std::num::NonZeroUsize;

use chain::{Chain, cleaned, fitted, likeness, normal, strangers};
use dupgate::config::{ExternalInputs, Layers, Purpose};
use dupgate::crawl::{Crawl, CrawlSettings};
use dupgate::fingerprint::{Banding, Fingerprinter, Fingerprints, Scratch};
use dupgate::protocol::MinHashRules;
use dupgate::quality::{Edit, PlantSettings, Role, plant};
use dupgate::record::{EventTime, Fields, Format, InputSettings, RawRecord};
use judging::Run;
use serde_json::json;

/// More pages than this are judged by the configured rules alone: ten million of them take 10 GB and some minutes.
const MOST_FOR_NEIGHBOURS: usize = 2_000_000;

/// Copies among the pages.
const PLANTED: usize = 10_000;

/// One page: which text it is, and what.
pub(crate) struct Page {
    pub(crate) family: usize,
    pub(crate) role: Role,
    pub(crate) fingerprints: Fingerprints,
    /// What was made of its text, when it is a copy.
    edited: Option<String>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    let pages: usize = arguments.iter().find_map(|it| it.parse().ok()).unwrap_or(1_000_000);
    let file = arguments.iter().find(|it| it.parse::<usize>().is_err());
    let (mut settings, _) = Layers::default().resolve(&ExternalInputs::default(), Purpose::Sieve).unwrap();
    settings.record = InputSettings {
        format: Format::Text,
        fields: Fields::nowhere(),
        event_time: EventTime::Record,
        ..settings.record
    };
    let reader =
        Fingerprinter::new(&settings.record, &settings.text, &settings.fingerprint, NonZeroUsize::MIN).unwrap();
    let all_words = dupgate::text::Settings { stopwords: Vec::new(), ..settings.text.clone() };
    let analyzer = dupgate::text::Analyzer::new(&all_words).unwrap();
    let texts = cleaned(&file.map_or_else(generated, |file| read(file)), &analyzer);
    let rules = settings.rules.minhash.unwrap();
    let shingle = settings.fingerprint.minhash.shingle.lengths;

    let met = |texts: &[String]| strangers(texts, shingle, rules.banding, rules.min_shared_bands, pages as u64);
    let real = met(&texts);
    let chain = Chain::of(&texts, &analyzer);
    let jumps = fitted(&chain, real[0], |pages| met(pages)[0]);
    let made = met(&(0..1000).map(|number| chain.page(number, jumps)).collect::<Vec<_>>());
    println!("{} texts, {pages} pages, left for another text after {jumps} words of a thousand", texts.len());
    println!(
        "strangers a page meets, by exact Jaccard indices: {:.0} sharing a key and {:.2} compared of the texts, {:.0} and {:.2} of the pages\n",
        real[0], real[1], made[0], made[1]
    );

    let stream = stream(&chain, jumps, pages, &reader);
    let bytes = stream.iter().map(|(_, bytes)| bytes).sum::<usize>() / pages.max(1);
    let stream: Vec<Page> = stream.into_iter().map(|(page, _)| page).collect();
    let chosen = if pages > MOST_FOR_NEIGHBOURS { vec![rules] } else { neighbours(rules) };
    let mut runs: Vec<Run> = chosen.into_iter().map(|rules| judging::run(&stream, rules, &settings)).collect();
    // Two pages may be alike by chance: the exact index is the referee.
    let text = |number: usize| match &stream[number].edited {
        Some(edited) => normal(edited, &analyzer).unwrap(),
        None => chain.page(number as u64, jumps),
    };
    for run in &mut runs {
        let mut shown = 0;
        for &(page, matched) in &run.wrong {
            let exact = likeness(&text(page), &text(matched), shingle);
            for (count, least) in run.unlike_per_million.iter_mut().zip([0.3, 0.2]) {
                *count += f64::from(u8::from(exact < least)) * 1e6 / pages as f64;
            }
            if exact < 0.2 && shown < 3 {
                shown += 1;
                eprintln!("{}: page {page}, called a duplicate of {matched}: Jaccard {exact:.2}", run.name);
            }
        }
    }
    println!("{}", Run::table(&runs));
    let report = json!({ "file": file, "texts": texts.len(), "pages": pages, "jumps": jumps, "bytes": bytes,
        "strangers_of_texts": real, "strangers_of_pages": made, "runs": runs });
    println!("{report}");
}

/// The configured bands, and others that the same sketches have.
fn neighbours(rules: MinHashRules) -> Vec<MinHashRules> {
    let banded = |bands, rows, min_shared_bands| {
        let banding = Banding::new(bands, rows, rules.form).unwrap();
        MinHashRules { banding, min_shared_bands, ..rules }
    };
    let mut all = vec![rules];
    all.extend([banded(42, 3, 1), banded(32, 4, 1), banded(32, 4, 2), banded(25, 5, 1), banded(14, 8, 1)]);
    all.retain(|other| {
        other == &rules || (other.banding, other.min_shared_bands) != (rules.banding, rules.min_shared_bands)
    });
    all
}

fn read(path: &str) -> Vec<String> {
    let lines = std::io::BufReader::new(std::fs::File::open(path).unwrap()).lines();
    let text =
        |line: String| serde_json::from_str::<serde_json::Value>(&line).unwrap()["text"].as_str().map(str::to_owned);
    lines.filter_map(|line| text(line.unwrap())).collect()
}

fn generated() -> Vec<String> {
    let crawl = CrawlSettings { html: 0.0, exact: 0.0, near: 0.0, broken: 0.0, ..CrawlSettings::default() };
    let text =
        |value: &[u8]| serde_json::from_slice::<serde_json::Value>(value).ok()?["text"].as_str().map(str::to_owned);
    Crawl::new(crawl).unwrap().take(2000).filter_map(|page| text(&page.value)).collect()
}

/// Writes and reads all pages, on all cores, in order; each with the bytes of its text.
fn stream(chain: &Chain, jumps: u64, pages: usize, reader: &Fingerprinter) -> Vec<(Page, usize)> {
    let step = (pages / 2 / PLANTED).max(1);
    let bases: Vec<String> = (0..pages / 2).step_by(step).map(|number| chain.page(number as u64, jumps)).collect();
    let planted = plant(&bases, PlantSettings { seed: 1, copies: 1 });
    let copies: HashMap<usize, (usize, Edit, String)> = planted
        .into_iter()
        .filter_map(|page| match page.role {
            Role::Copy(edit) => Some((pages / 2 + page.family * step, (page.family * step, edit, page.text))),
            Role::Original | Role::Apart(_) => None,
        })
        .collect();
    let made = |number: usize| match copies.get(&number) {
        Some((family, edit, text)) => (*family, Role::Copy(*edit), text.clone()),
        None => (number, Role::Original, chain.page(number as u64, jumps)),
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let share = pages.div_ceil(threads);
    let part = |thread: usize| {
        let mut scratch = Scratch::default();
        let read = |number: usize| {
            let (family, role, text) = made(number);
            let record = RawRecord { key: None, value: Some(text.as_bytes()), headers: &() };
            let reading = reader.read(&record, &mut scratch).unwrap();
            let bytes = text.len();
            let edited = Some(text).filter(|_| role != Role::Original);
            (Page { family, role, fingerprints: reading.fingerprints, edited }, bytes)
        };
        (thread * share..pages.min((thread + 1) * share)).map(read).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let part = &part;
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}
