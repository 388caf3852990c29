//! The crate gaoya judges a stream of pages: a number (an earlier page) or `null` a page, then the seconds it took.
//!
//! `gaoya-stream words|characters BANDS ROWS THRESHOLD STREAM`; words are cut as in its README, characters are runs of
//! 3 and of 4. A page is looked for among those that were called unique before it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::Instant;

use gaoya::minhash::{MinHashIndex, MinHasher, MinHasher32};
use gaoya::text::{shingle_text_range, whitespace_split};
use serde_json::Value;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [cut, bands, rows, threshold, stream] = arguments.as_slice() else {
        panic!("expected: words|characters BANDS ROWS THRESHOLD STREAM");
    };
    let (bands, rows): (usize, usize) = (bands.parse().expect("bands"), rows.parse().expect("rows"));
    let lines = BufReader::new(File::open(stream).expect("the stream")).lines();
    let texts: Vec<String> = lines
        .map(|line| {
            let page: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
            page["text"].as_str().expect("a text").to_lowercase()
        })
        .collect();
    let started = Instant::now();
    let hasher = MinHasher32::new(bands * rows);
    let mut index: MinHashIndex<u32, usize> = MinHashIndex::new(bands, rows, threshold.parse().expect("a threshold"));
    for (number, text) in texts.iter().enumerate() {
        let signature = if cut == "words" {
            hasher.create_signature(whitespace_split(text))
        } else {
            let letters: String = text.chars().filter(|c| c.is_alphanumeric()).collect();
            hasher.create_signature(shingle_text_range(&letters, 3, 4))
        };
        let found = index.query_owned_return_similarity(&signature);
        let best = found.into_iter().max_by(|(one, near), (other, nearer)| near.total_cmp(nearer).then(other.cmp(one)));
        match best {
            Some((matched, _)) => println!("{matched}"),
            None => {
                println!("null");
                index.insert(number, signature);
            }
        }
    }
    println!("{}", started.elapsed().as_secs_f64());
}
