//! Shingles -> sketch, on one core.
//!
//! Corpus: random shingle hashes, and the shingles of texts of the generated crawl. Unit: CPU time of one thread for a
//! sketch of 128 slots of 8 bits. Beside it the same loop written plainly, as the compiler makes it for the oldest
//! processor that the program runs on.

use std::hint::black_box;

use dupgate::crawl::{Crawl, CrawlSettings};
use dupgate::fingerprint::{Permutations, ShingleBuffer, ShingleLengths, SketchForm, SlotBits, shingle_hashes};
use serde_json::{Value, json};

use crate::Scale;
use crate::measure::{cpu_of, median, round};
use crate::report::Floor;

const SLOTS: usize = 128;
/// Most CPU time of a sketch of 500 shingles, in microseconds.
const FLOOR_US: f64 = 12.0;

/// Measures; prints the table.
pub(crate) fn run(scale: &Scale, floors: &mut Vec<Floor>) -> Value {
    println!("Sketch: {SLOTS} slots of 8 bits, one thread, microseconds of CPU (median of {} rounds)", scale.rounds);
    println!("{:>9} {:>10} {:>10} {:>14}", "shingles", "sketch us", "plain us", "ns a shingle");
    let permutations = Permutations::new(SLOTS);
    let form = SketchForm::new(SLOTS, SlotBits::B8).unwrap();
    let mut rows = Vec::new();
    for shingles in [50_usize, 500, 2_000] {
        let elements: Vec<u32> =
            (0..shingles as u64).map(|n| u32::try_from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).unwrap()).collect();
        let mut minima = Vec::new();
        let sketch = time(scale, 1_000_000 / shingles, || {
            permutations.minima(black_box(&elements), &mut minima);
            black_box(form.cut(&minima, &[], 0));
        });
        let factors: Vec<(u32, u32)> = (0..128_u32).map(|n| (n * 2 + 1, n)).collect();
        let plain = time(scale, 100_000 / shingles, || {
            let mut least = [u32::MAX; SLOTS];
            for element in black_box(&elements) {
                for (least, (a, b)) in least.iter_mut().zip(&factors) {
                    *least = (*least).min(element.wrapping_mul(*a).wrapping_add(*b));
                }
            }
            black_box(least);
        });
        println!("{shingles:>9} {sketch:>10.2} {plain:>10.2} {:>14.2}", sketch * 1000.0 / shingles as f64);
        if shingles == 500 {
            floors.push(Floor::at_most("sketch of 500 shingles, us of one core", FLOOR_US, sketch));
        }
        rows.push(json!({ "shingles": shingles, "sketch_us": round(sketch), "plain_us": round(plain) }));
    }
    for (name, zh) in [("zh", 1.0), ("en", 0.0)] {
        let settings = CrawlSettings {
            zh,
            html: 0.0,
            exact: 0.0,
            near: 0.0,
            broken: 0.0,
            bytes: 2_000..=2_000,
            ..CrawlSettings::default()
        };
        let crawl = Crawl::new(settings).unwrap();
        let texts: Vec<String> = crawl
            .take(200)
            .map(|page| {
                let page: Value = serde_json::from_slice(&page.value).unwrap();
                page["text"].as_str().unwrap().to_lowercase()
            })
            .collect();
        let (mut buffer, mut hashes, mut minima) = (ShingleBuffer::default(), Vec::new(), Vec::new());
        let lengths = ShingleLengths { han: 4, other: 5 };
        let mut count = 0;
        let cutting = time(scale, 20, || {
            count = 0;
            for text in &texts {
                shingle_hashes(black_box(text), lengths, &mut buffer, &mut hashes);
                count += hashes.len();
            }
        });
        let all = time(scale, 5, || {
            for text in &texts {
                shingle_hashes(black_box(text), lengths, &mut buffer, &mut hashes);
                permutations.minima(&hashes, &mut minima);
                black_box(form.cut(&minima, &[], 0));
            }
        });
        let pages = texts.len() as f64;
        let (cutting, all, count) = (cutting / pages, all / pages, count as f64 / pages);
        println!("  2 KB {name}: {count:.0} shingles, cut and hashed in {cutting:.2} us, with the sketch {all:.2} us");
        rows.push(
            json!({ "page": name, "shingles": round(count), "shingle_us": round(cutting), "all_us": round(all) }),
        );
    }
    println!();
    Value::Array(rows)
}

/// Returns the microseconds of one turn.
fn time(scale: &Scale, turns: usize, mut work: impl FnMut()) -> f64 {
    median((0..scale.rounds).map(|_| cpu_of(|| (0..turns).for_each(|_| work())).0.as_secs_f64() * 1e6 / turns as f64))
}
