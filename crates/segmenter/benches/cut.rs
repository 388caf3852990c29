//! How fast texts are cut, beside jieba-rs: `cargo bench -p dupgate-segmenter -- [a.jsonl ...]`.
//!
//! The files hold JSON objects, a line each; their `text` is cut. Without a file, texts of 500 characters are made up from
//! the dictionary, its words as frequent as it says. One thread, in its CPU time; all take turns in each round.

#![expect(clippy::print_stdout, reason = "a bench prints")]
#![expect(clippy::disallowed_methods, reason = "a bench reads files")]
#![expect(clippy::unwrap_used, reason = "a bench panics where it cannot continue")]
#![expect(clippy::cast_precision_loss, reason = "numbers for people")]

use std::hint::black_box;
use std::io::{BufReader, Read};

use dupgate_segmenter::{DICTIONARY, Scratch, cut, is_han};
use flate2::read::GzDecoder;
use jieba_rs::Jieba;
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 21;

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let texts = if files.is_empty() { made_up() } else { files.iter().flat_map(|file| texts_of(file)).collect() };
    let bytes: usize = texts.iter().map(String::len).sum();
    let jieba = Jieba::with_dict(&mut BufReader::new(GzDecoder::new(DICTIONARY))).unwrap();
    let mut scratch = Scratch::default();
    let mut rounds: Vec<[f64; 3]> = (0..=ROUNDS)
        .map(|_| {
            [
                time(&texts, |text| {
                    han_runs(text, |run| jieba.cut(run, true).iter().for_each(|token| _ = black_box(token.word)));
                }),
                time(&texts, |text| cut(text, true, &mut scratch, |piece| _ = black_box(piece))),
                time(&texts, |text| {
                    han_runs(text, |run| cut(run, true, &mut scratch, |piece| _ = black_box(piece)));
                }),
            ]
        })
        .collect();
    // It warms up.
    rounds.remove(0);
    println!("{} texts, {bytes} bytes; median of {ROUNDS} rounds", texts.len());
    println!("{:<24} {:>10} {:>8} {:>8}", "", "us a text", "MB/s", "ratio");
    for (row, name) in ["jieba-rs, run by run", "ours", "ours, run by run"].into_iter().enumerate() {
        let time = median(rounds.iter().filter_map(|round| round.get(row).copied()));
        let ratio = median(rounds.iter().filter_map(|round| Some(round.first()? / round.get(row)?)));
        let (micros, speed) = (time / texts.len() as f64 * 1e6, bytes as f64 / time / 1e6);
        println!("{name:<24} {micros:>10.2} {speed:>8.1} {ratio:>8.2}");
    }
}

fn han_runs(text: &str, mut each: impl FnMut(&str)) {
    let mut rest = text;
    while let Some(begin) = rest.find(is_han) {
        let (_, run) = rest.split_at(begin);
        let (run, after) = run.split_at(run.find(|c| !is_han(c)).unwrap_or(run.len()));
        each(run);
        rest = after;
    }
}

/// CPU seconds of this thread.
fn time(texts: &[String], mut cut: impl FnMut(&str)) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let begin = now();
    texts.iter().for_each(|text| cut(text));
    now() - begin
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap()
}

fn texts_of(file: &str) -> Vec<String> {
    let text =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?.get("text")?.as_str().map(str::to_owned);
    std::fs::read_to_string(file).unwrap().lines().filter_map(text).collect()
}

fn made_up() -> Vec<String> {
    let mut dictionary = String::new();
    GzDecoder::new(DICTIONARY).read_to_string(&mut dictionary).unwrap();
    let mut total = 0;
    let words: Vec<(u64, &str)> = dictionary
        .lines()
        .map(|line| {
            let mut parts = line.split(' ');
            let word = parts.next().unwrap();
            total += parts.next().unwrap().parse::<u64>().unwrap();
            (total, word)
        })
        .collect();
    // SplitMix64.
    let mut state = 0_u64;
    let mut random = |below: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    };
    let mut word = || {
        let number = random(total);
        let (_, word) = words.get(words.partition_point(|(until, _)| *until <= number)).unwrap();
        let mark = if random(7) == 0 { "，" } else { "" };
        format!("{word}{mark}")
    };
    (0..2_000).map(|_| (0..300).map(|_| word()).collect()).collect()
}
