//! What the text rooms cost: decode, normalise, cut into words, fingerprint.
//!
//! Corpus: pages put together from fixed paragraphs by a fixed seed, as JSON with an id, of 0.5, 2 and 10 KB of text.
//! Unit: one page on one core, and bytes of text in a second. Run with `cargo bench --bench text`.

#![expect(clippy::print_stdout, clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench, not the library")]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use dupgate::fingerprint::{self, Feature, Reader, Scratch, keep_strongest, simhash};
use dupgate::record::{Body, Decoder, InputSettings, RawRecord};
use dupgate::text;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

const ZH: [&str; 6] = [
    "据了解，研究人员近日在南海发现了一种此前从未记录的深海珊瑚，样本采集自水下两千米的海山。",
    "央行宣布下调存款准备金率0.5个百分点，释放长期资金约1万亿元，有助于稳定市场预期。",
    "今年第三季度，全国新能源汽车销量同比增长38.2%，动力电池装车量创下历史新高。",
    "博物馆的负责人表示，修复工作预计持续三年，届时壁画将以数字方式向公众开放。",
    "比赛在大雨中进行，主队凭借下半场的两个进球逆转取胜，积分榜上升至第四位。",
    "气象部门提醒，受冷空气影响，未来三天北方大部分地区气温将下降八到十摄氏度，请注意保暖。",
];
const TRADITIONAL: [&str; 3] = [
    "據瞭解，研究人員近日在南海發現了一種此前從未記錄的深海珊瑚，樣本採集自水下兩千米的海山。",
    "博物館的負責人表示，修復計畫預計持續三年，屆時壁畫將以數位方式向公眾開放，對於遊客免費。",
    "氣象部門提醒，受冷空氣影響，未來三天北方大部分地區氣溫將下降，乾燥的天氣也容易引發火災。",
];
const EN: [&str; 6] = [
    "The harbour authority announced on Tuesday that dredging of the northern channel will begin next spring. ",
    "Engineers found that sediment had reduced its depth by nearly two metres, said the chief surveyor. ",
    "Shares of the company rose 4.7% in early trading after it reported quarterly earnings above expectations. ",
    "Researchers sequenced the genomes of forty wild barley varieties and mapped genes linked to drought. ",
    "It’s the third time this season that the visitors have lost a lead in the final minutes of a match. ",
    "The museum's restoration is expected to last three years, see https://museum.example/plan for details. ",
];

/// Puts sentences together until the text has `bytes` bytes.
fn page(sentences: &[&str], bytes: usize, seed: u64) -> String {
    let mut state = seed | 1;
    let mut page = String::new();
    while page.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = usize::try_from(state >> 33).unwrap();
        let sentence = sentences[pick % sentences.len()];
        // Words that no other page has: real pages do not repeat six sentences.
        let letters: String = (0..5).map(|n| char::from(b'a' + u8::try_from(state >> (8 * n) & 15).unwrap())).collect();
        page.push_str(&sentence.replacen([',', '，'], &format!(" {letters},"), 1));
    }
    page
}

fn time(rounds: usize, pages: &[String], mut work: impl FnMut(&str)) -> Duration {
    for page in pages {
        work(page);
    }
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..rounds {
            for page in pages {
                work(black_box(page));
            }
        }
        best = best.min(start.elapsed() / u32::try_from(rounds * pages.len()).unwrap());
    }
    best
}

fn raw(value: &str) -> RawRecord<'_> {
    RawRecord { key: None, value: Some(value.as_bytes()), headers: &() }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn main() {
    let input = InputSettings::default();
    let settings = text::Settings::default();
    let reader = Reader::new(&input, &settings, &fingerprint::Settings::default(), NonZeroUsize::MIN).unwrap();
    let decoder = Decoder::new(&input, settings.max_nesting).unwrap();
    println!(
        "{:<12} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}",
        "page", "bytes", "decode", "normal", "words", "simhash", "all us", "MB/s"
    );
    for (name, sentences, html) in [
        ("zh", &ZH[..], false),
        ("zh-hant", &TRADITIONAL[..], false),
        ("en", &EN[..], false),
        ("zh html", &ZH[..], true),
        ("en html", &EN[..], true),
    ] {
        for size in [500, 2_000, 10_000] {
            let texts: Vec<String> = (0..32).map(|seed| page(sentences, size, seed * 7_919)).collect();
            let values: Vec<String> = texts
                .iter()
                .map(|text| {
                    if html {
                        let text = format!("<html><head><title>t</title></head><body><div class=nav><a href=/>home</a></div><article><p>{}</p></article></body></html>", text.replace('.', ".</p>\n<p>").replace('。', "。</p>\n<p>"));
                        serde_json::json!({"url": "https://site.example/1", "html": text}).to_string()
                    } else {
                        serde_json::json!({"url": "https://site.example/1", "text": text}).to_string()
                    }
                })
                .collect();
            let bytes = values.iter().map(String::len).sum::<usize>() / values.len();
            let rounds = 400_000 / size / 4 + 1;
            let decode = time(rounds, &values, |value| drop(black_box(decoder.decode(&raw(value)))));
            let mut buffer = String::new();
            let normalize = time(rounds, &texts, |text| {
                black_box(reader.analyzer().normalize(&Body::Text(text.into()), &mut buffer)).unwrap();
            });
            let normal: Vec<String> = texts
                .iter()
                .map(|text| reader.analyzer().normalize(&Body::Text(text.into()), &mut buffer).unwrap().text.to_owned())
                .collect();
            let words = time(rounds, &normal, |text| {
                reader.analyzer().words(text, |word| {
                    black_box(word);
                });
            });
            let features: Vec<Feature> =
                (0..250).map(|n: u64| Feature { hash: n.wrapping_mul(0x9e37_79b9_7f4a_7c15), weight: 2000 }).collect();
            let mut kept = Vec::new();
            let hash = time(rounds, &normal[..1], |_| {
                kept.clone_from(&features);
                keep_strongest(&mut kept, 200);
                black_box(simhash(&kept));
            });
            let mut scratch = Scratch::default();
            let all = time(rounds, &values, |value| {
                black_box(reader.read(&raw(value), &mut scratch)).unwrap();
            });
            println!(
                "{name:<12} {bytes:>7} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>8.1}",
                micros(decode),
                micros(normalize),
                micros(words),
                micros(hash),
                micros(all),
                bytes as f64 / micros(all)
            );
        }
    }
}
