//! Decode -> text -> fingerprint, on one core.
//!
//! Corpus: unique pages of the generated crawl, JSON with ready text (and, for comparison, HTML), of 0.5, 2 and 10 KB
//! of text. Unit: CPU time of one thread for a page. Beside it the CPU time of the word cutter alone, from its library,
//! over the same text. Then what a page takes from the heap once all buffers have grown: allocations and their bytes.

use std::hint::black_box;
use std::num::NonZeroUsize;

use dupgate::crawl::{Crawl, CrawlSettings};
use dupgate::fingerprint::{self, Fingerprinter, Scratch};
use dupgate::record::{Body, Decoder, Document, InputSettings, RawRecord};
use dupgate::text;
use serde_json::{Value, json};
use unicode_segmentation::UnicodeSegmentation;

use crate::Scale;
use crate::heap::allocated_by;
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
    let rows: Vec<Row> = SHAPES.iter().map(|shape| measure(shape, scale, &reader, &decoder, jieba)).collect();
    for (shape, row) in SHAPES.iter().zip(&rows) {
        let all = row.all.us;
        println!(
            "{:<8} {:>7.0} {:>8.1} {:>10.1} {:>9.1} {:>12.1} {all:>8.1} {:>9.0} {:>7.1} {:>9.1} {:>6.2}",
            shape.name,
            row.bytes,
            row.decode.us,
            row.normalize.us,
            row.segment.us,
            row.fingerprint().us,
            1e6 / all,
            row.bytes / all,
            row.cutter.us,
            all / row.cutter.us
        );
    }
    println!(
        "  fingerprint: counting words, weights, the strongest, SimHash, exact hash, digest. cutter: jieba-rs, or Unicode words, alone.\n"
    );
    println!("Heap: allocations a page, and their bytes, in the steady state of one thread");
    println!(
        "{:<8} {:>7} {:>15} {:>15} {:>15} {:>15} {:>15}",
        "page", "bytes", "decode", "normalise", "segment", "fingerprint", "all"
    );
    for (shape, row) in SHAPES.iter().zip(&rows) {
        let stages = [row.decode, row.normalize, row.segment, row.fingerprint(), row.all];
        let [decode, normalize, segment, fingerprint, all] =
            stages.map(|cost| format!("{:.1} {:>8.0}", cost.allocations, cost.allocated_bytes));
        println!(
            "{:<8} {:>7.0} {decode:>15} {normalize:>15} {segment:>15} {fingerprint:>15} {all:>15}",
            shape.name, row.bytes
        );
    }
    println!();
    let of_2_kb = |shape: &Shape| shape.bytes == 2_000 && shape.html == 0.0;
    let slowest = SHAPES.iter().zip(&rows).filter(|(shape, _)| of_2_kb(shape)).map(|(_, row)| row.all.us);
    floors.push(Floor::at_most(
        "2 KB page through all text stages, us of one core",
        FLOOR_US,
        slowest.fold(0.0, f64::max),
    ));
    SHAPES.iter().zip(&rows).map(|(shape, row)| row.json(shape)).collect()
}

/// What one step of a page costs.
#[derive(Clone, Copy)]
struct Cost {
    us: f64,
    allocations: f64,
    allocated_bytes: f64,
}

impl Cost {
    fn without(self, other: Self) -> Self {
        Self {
            us: self.us - other.us,
            allocations: self.allocations - other.allocations,
            allocated_bytes: self.allocated_bytes - other.allocated_bytes,
        }
    }
}

struct Row {
    bytes: f64,
    decode: Cost,
    normalize: Cost,
    segment: Cost,
    all: Cost,
    cutter: Cost,
}

impl Row {
    fn fingerprint(&self) -> Cost {
        self.all.without(self.decode).without(self.normalize).without(self.segment)
    }

    fn json(&self, shape: &Shape) -> Value {
        let mut json = json!({
            "page": shape.name, "text_bytes": shape.bytes, "record_bytes": round(self.bytes),
            "pages_per_second_per_core": (1e6 / self.all.us).round(), "mb_per_second": round(self.bytes / self.all.us),
            "cutter_alone_us": round(self.cutter.us), "ratio_to_cutter": round(self.all.us / self.cutter.us),
        });
        let steps = [self.decode, self.normalize, self.segment, self.fingerprint(), self.all];
        for (step, cost) in ["decode", "normalise", "segment", "fingerprint", "all"].into_iter().zip(steps) {
            json[format!("{step}_us")] = round(cost.us).into();
            json[format!("{step}_allocations")] = round(cost.allocations).into();
            json[format!("{step}_allocated_bytes")] = cost.allocated_bytes.round().into();
        }
        json
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
    let bytes = values.iter().map(Vec::len).sum::<usize>() as f64 / count as f64;
    let mut scratch = Scratch::default();
    let chinese = shape.zh > 0.5;

    // The stages take turns, so that a change of the machine's clock meets all of them.
    let mut rounds: Vec<Row> = Vec::new();
    for round in 0..=scale.rounds {
        let row = Row {
            bytes,
            decode: cost(&values, |value| drop(black_box(decoder.decode(&raw(value))))),
            normalize: cost(&bodies, |body| drop(black_box(analyzer.normalize(body, &mut buffer)))),
            segment: cost(&normal, |text| {
                analyzer.words(text, |word| {
                    black_box(word);
                });
            }),
            all: cost(&values, |value| drop(black_box(reader.read(&raw(value), &mut scratch)))),
            cutter: cost(&normal, |text| {
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
    let middle = |cost: fn(&Row) -> Cost| Cost {
        us: median(rounds.iter().map(|row| cost(row).us)),
        allocations: median(rounds.iter().map(|row| cost(row).allocations)),
        allocated_bytes: median(rounds.iter().map(|row| cost(row).allocated_bytes)),
    };
    Row {
        bytes,
        decode: middle(|row| row.decode),
        normalize: middle(|row| row.normalize),
        segment: middle(|row| row.segment),
        all: middle(|row| row.all),
        cutter: middle(|row| row.cutter),
    }
}

/// Returns the cost of one of the things.
fn cost<T>(things: &[T], mut work: impl FnMut(&T)) -> Cost {
    let (cpu, allocated) = cpu_of(|| allocated_by(|| things.iter().for_each(|thing| work(black_box(thing)))));
    let count = things.len() as f64;
    Cost {
        us: cpu.as_secs_f64() * 1e6 / count,
        allocations: allocated.count as f64 / count,
        allocated_bytes: allocated.bytes as f64 / count,
    }
}
