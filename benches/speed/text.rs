//! Decode -> text -> fingerprint, on one core.
//!
//! Corpus: unique pages of the generated crawl, JSON with ready text (and, for comparison, HTML), of 0.5, 2 and 10 KB
//! of text. Unit: CPU time of one thread for a page. Beside it the CPU time of the word cutter alone, from its library,
//! over the same text.

use std::hint::black_box;
use std::num::NonZeroUsize;

use dupgate::crawl::{Crawl, CrawlSettings};
use dupgate::fingerprint::{self, Fingerprinter, Scratch};
use dupgate::record::{Body, Decoder, Document, InputSettings, RawRecord};
use dupgate::text;
use serde_json::{Value, json};
use unicode_segmentation::UnicodeSegmentation;

use crate::Scale;
use crate::measure::{cpu_of, median, round};
use crate::report::Floor;

/// Most CPU time of a page of 2 KB, in microseconds.
const FLOOR_US: f64 = 150.0;

struct Shape {
    name: &'static str,
    zh: f64,
    html: f64,
    bytes: usize,
}

const SHAPES: [Shape; 8] = [
    Shape { name: "zh", zh: 1.0, html: 0.0, bytes: 500 },
    Shape { name: "zh", zh: 1.0, html: 0.0, bytes: 2_000 },
    Shape { name: "zh", zh: 1.0, html: 0.0, bytes: 10_000 },
    Shape { name: "en", zh: 0.0, html: 0.0, bytes: 500 },
    Shape { name: "en", zh: 0.0, html: 0.0, bytes: 2_000 },
    Shape { name: "en", zh: 0.0, html: 0.0, bytes: 10_000 },
    Shape { name: "zh html", zh: 1.0, html: 1.0, bytes: 2_000 },
    Shape { name: "en html", zh: 0.0, html: 1.0, bytes: 2_000 },
];

/// Measures every shape; prints the table.
pub(crate) fn run(scale: &Scale, floors: &mut Vec<Floor>) -> Value {
    let input = InputSettings::default();
    let settings = text::Settings::default();
    let reader = Fingerprinter::new(&input, &settings, &fingerprint::Settings::default(), NonZeroUsize::MIN).unwrap();
    let decoder = Decoder::new(&input, settings.max_nesting).unwrap();
    let jieba = dupgate::text::segmenter();
    println!(
        "Text: decode -> text -> fingerprint, one thread, microseconds of CPU a page (median of {} rounds)",
        scale.rounds
    );
    println!(
        "{:<8} {:>7} {:>8} {:>10} {:>9} {:>12} {:>8} {:>9} {:>7} {:>9} {:>6}",
        "page",
        "bytes",
        "decode",
        "normalise",
        "segment",
        "fingerprint",
        "all us",
        "pages/s",
        "MB/s",
        "cutter us",
        "ratio"
    );
    let mut rows = Vec::new();
    let mut slowest = 0.0_f64;
    for shape in &SHAPES {
        let row = measure(shape, scale, &reader, &decoder, jieba);
        println!(
            "{:<8} {:>7.0} {:>8.1} {:>10.1} {:>9.1} {:>12.1} {:>8.1} {:>9.0} {:>7.1} {:>9.1} {:>6.2}",
            shape.name,
            row.bytes,
            row.decode,
            row.normalize,
            row.segment,
            row.all - row.decode - row.normalize - row.segment,
            row.all,
            1e6 / row.all,
            row.bytes / row.all,
            row.cutter,
            row.all / row.cutter
        );
        if shape.bytes == 2_000 && shape.html == 0.0 {
            slowest = slowest.max(row.all);
        }
        rows.push(row.json(shape));
    }
    println!(
        "  fingerprint: counting words, weights, the strongest, SimHash, exact hash, digest. cutter: jieba-rs, or Unicode words, alone.\n"
    );
    floors.push(Floor::at_most("2 KB page through all text stages, us of one core", FLOOR_US, slowest));
    Value::Array(rows)
}

struct Row {
    bytes: f64,
    decode: f64,
    normalize: f64,
    segment: f64,
    all: f64,
    cutter: f64,
}

impl Row {
    fn json(&self, shape: &Shape) -> Value {
        json!({
            "page": shape.name, "text_bytes": shape.bytes, "record_bytes": round(self.bytes),
            "decode_us": round(self.decode), "normalise_us": round(self.normalize), "segment_us": round(self.segment),
            "fingerprint_us": round(self.all - self.decode - self.normalize - self.segment), "all_us": round(self.all),
            "pages_per_second_per_core": (1e6 / self.all).round(), "mb_per_second": round(self.bytes / self.all),
            "cutter_alone_us": round(self.cutter), "ratio_to_cutter": round(self.all / self.cutter),
        })
    }
}

fn raw(value: &[u8]) -> RawRecord<'_> {
    RawRecord { key: None, value: Some(value), headers: &() }
}

fn measure(shape: &Shape, scale: &Scale, reader: &Fingerprinter, decoder: &Decoder, jieba: &jieba_rs::Jieba) -> Row {
    let settings = CrawlSettings {
        zh: shape.zh,
        html: shape.html,
        exact: 0.0,
        near: 0.0,
        broken: 0.0,
        bytes: shape.bytes..=shape.bytes,
        ..CrawlSettings::default()
    };
    let count = (scale.text_bytes / shape.bytes).max(16);
    let values: Vec<Vec<u8>> = Crawl::new(settings).unwrap().take(count).map(|page| page.value).collect();
    let documents: Vec<Document<'_>> = values.iter().map(|value| decoder.decode(&raw(value)).unwrap()).collect();
    let bodies: Vec<&Body<'_>> = documents.iter().map(|document| &document.body).collect();
    let analyzer = reader.analyzer();
    let mut buffer = String::new();
    let normal: Vec<String> =
        bodies.iter().map(|body| analyzer.normalize(body, &mut buffer).unwrap().text.to_owned()).collect();
    let mut scratch = Scratch::default();
    let chinese = shape.zh > 0.5;

    // The stages take turns, so that a change of the machine's clock meets all of them.
    let mut rounds: Vec<Row> = Vec::new();
    for round in 0..=scale.rounds {
        let row = Row {
            bytes: values.iter().map(Vec::len).sum::<usize>() as f64 / count as f64,
            decode: time(&values, |value| drop(black_box(decoder.decode(&raw(value))))),
            normalize: time(&bodies, |body| drop(black_box(analyzer.normalize(body, &mut buffer)))),
            segment: time(&normal, |text| {
                analyzer.words(text, |word| {
                    black_box(word);
                });
            }),
            all: time(&values, |value| drop(black_box(reader.read(&raw(value), &mut scratch)))),
            cutter: time(&normal, |text| {
                if chinese {
                    black_box(jieba.cut(text, true).len());
                } else {
                    black_box(text.unicode_words().count());
                }
            }),
        };
        // The first one warms up.
        if round > 0 {
            rounds.push(row);
        }
    }
    let middle = |number: fn(&Row) -> f64| median(rounds.iter().map(number));
    Row {
        bytes: middle(|row| row.bytes),
        decode: middle(|row| row.decode),
        normalize: middle(|row| row.normalize),
        segment: middle(|row| row.segment),
        all: middle(|row| row.all),
        cutter: middle(|row| row.cutter),
    }
}

/// Microseconds of CPU for one of the things.
fn time<T>(things: &[T], mut work: impl FnMut(&T)) -> f64 {
    let (cpu, ()) = cpu_of(|| things.iter().for_each(|thing| work(black_box(thing))));
    cpu.as_secs_f64() * 1e6 / things.len() as f64
}
