//! How alike unlike texts usually are: what is known before a text was seen.
//!
//! `likeness.txt` holds histograms of real texts (`dupgate eval -o jsonl` prints one as `likeness`), for each kind of
//! text and length of a shingle. They tell a configuration that a judge cannot afford from one that it can; for texts
//! of one's own, `eval` measures.

use super::BackgroundSimilarity;
use dupgate_core::fingerprint::{Banding, ShingleUnit, Shingling};

/// What a judge does for a page by chance: texts that are no duplicates and look like some.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    /// The kind of text.
    pub kind: &'static str,
    /// Originals that share a key with the page.
    pub found: f64,
    /// Originals that share enough keys, and whose sketches are compared.
    pub compared: f64,
}

/// Cost of a key: a line of a table, asked for ahead of time, in nanoseconds (`docs/BENCHMARKS.md`).
const KEY_NS: f64 = 20.0;

/// Cost of an original that shares a key: a place in a run, and a count.
const FOUND_NS: f64 = 10.0;

/// Cost of an original that is compared: its sketch is two steps away in the memory.
const COMPARED_NS: f64 = 200.0;

impl Chance {
    /// Estimates how long a judge looks for one page in the `minhash` stage, in nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self, banding: Banding) -> f64 {
        f64::from(banding.bands()) * KEY_NS + self.found * FOUND_NS + self.compared * COMPARED_NS
    }
}

/// Estimates what a page finds by chance among `originals` texts of its kind, for each kind that is known. Shingles
/// shorter or longer than any measured count as the nearest. Of shingles of words nothing is known.
#[must_use]
pub fn chances(
    Shingling { unit, lengths }: Shingling,
    banding: Banding,
    min_shared_bands: u8,
    originals: u64,
) -> Vec<Chance> {
    KINDS
        .iter()
        .filter(|_| unit == ShingleUnit::Characters)
        .filter_map(|&(kind, name, is_han)| {
            let background = background(name, if is_han { lengths.han } else { lengths.other })?;
            let found = background.candidates(banding, 1, originals);
            Some(Chance { kind, found, compared: background.candidates(banding, min_shared_bands, originals) })
        })
        .collect()
}

/// Kinds of text, as shown and as in the file, and whether they are written in Han characters.
const KINDS: [(&str, &str, bool); 3] =
    [("Chinese news", "zh_news", true), ("short Chinese posts", "zh_short", true), ("English news", "en_news", false)];

/// Finds the histogram of a kind whose length is nearest.
fn background(name: &str, length: usize) -> Option<BackgroundSimilarity> {
    let rows = include_str!("likeness.txt").lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut words = line.split_whitespace();
        let of = words.next().filter(|of| *of == name).and_then(|_| words.next()?.parse::<usize>().ok())?;
        Some((of.abs_diff(length), words.filter_map(|count| count.parse().ok()).collect::<Vec<u32>>()))
    };
    let nearest = rows.filter_map(row).min_by_key(|(gap, _)| *gap);
    nearest.map(|(_, bins)| BackgroundSimilarity::from_histogram(&bins))
}
