//! A million pages out of a thousand: a walk through real texts that jumps from word to word.
//!
//! What bands find by chance depends on how alike unlike texts are: on the phrases that they share. A page reads on in
//! one text, and now and then continues after another place where the same word is, so that phrases are real across a
//! jump, too. Few jumps make pages that share whole sentences, many make pages that share words. How often it jumps is
//! fitted until generated pages meet as many unrelated texts as the real texts do ([`fitted`]).

use std::collections::HashMap;

use dupgate::fingerprint::{Banding, ShingleBuffer, ShingleLengths, shingle_hashes};
use dupgate::quality::{BackgroundSimilarity, clean, jaccard, set_of};
use dupgate::record::Body;
use dupgate::text::Analyzer;

use dupgate_testkit::rng::Rng;

/// Texts that are compared with each other, real or generated.
const COMPARED: usize = 1000;

/// After the last word of a text.
const END: u32 = u32::MAX;

/// Texts, word by word.
pub(crate) struct Chain {
    /// Each with the blanks and marks after it.
    words: Vec<String>,
    /// All texts, one after the other, [`END`] after each.
    read: Vec<u32>,
    /// The text that each word of [`Chain::read`] belongs to.
    texts: Vec<u32>,
    /// Where each word is.
    places: Vec<Vec<usize>>,
    /// Where texts begin, and how many words each has.
    starts: Vec<(usize, usize)>,
}

impl Chain {
    pub(crate) fn of(texts: &[String], analyzer: &Analyzer) -> Self {
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut chain =
            Self { words: Vec::new(), read: Vec::new(), texts: Vec::new(), places: Vec::new(), starts: Vec::new() };
        for text in texts {
            let mut found: Vec<(usize, usize)> = Vec::new();
            analyzer.words(text, |word| {
                let from = found.last().map_or(0, |(_, end)| *end);
                let at = from + text[from..].find(word.text).unwrap();
                found.push((at, at + word.text.len()));
            });
            if found.is_empty() {
                continue;
            }
            chain.starts.push((chain.read.len(), found.len()));
            let ends = found.iter().skip(1).map(|(at, _)| *at).chain([text.len()]);
            for ((at, _), end) in found.iter().zip(ends) {
                let number = *numbers.entry(text[*at..end].to_owned()).or_insert_with_key(|piece| {
                    chain.words.push(piece.clone());
                    chain.places.push(Vec::new());
                    (chain.words.len() - 1) as u32
                });
                chain.places[number as usize].push(chain.read.len());
                chain.read.push(number);
            }
            chain.read.push(END);
            chain.texts.resize(chain.read.len(), chain.starts.len() as u32);
        }
        chain
    }

    /// Writes page `number`: as long as one of the texts. `jumps`: how often in a thousand words it leaves the text;
    /// what is above a thousand, how often it continues just anywhere.
    pub(crate) fn page(&self, number: u64, jumps: u64) -> String {
        let mut rng = Rng::new(number.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5eed);
        let (_, length) = rng.pick(&self.starts);
        let (mut at, _) = rng.pick(&self.starts);
        let mut page = String::new();
        for _ in 0..length {
            let mut word = self.read[at];
            if word == END {
                (at, _) = rng.pick(&self.starts);
                word = self.read[at];
            }
            page.push_str(&self.words[word as usize]);
            if rng.chance(jumps) {
                let place = rng.pick(&self.places[word as usize]);
                // A list says the same word again and again: nothing may loop in it.
                let is_other = self.texts[place] != self.texts[at];
                at = if is_other { place } else { at };
            }
            at += 1;
            if rng.chance(jumps.saturating_sub(1000)) {
                at = rng.below(self.read.len());
            }
        }
        page
    }
}

/// How many unrelated texts a page meets among `originals` texts like these: sharing a key, and sharing `agree` of
/// them.
pub(crate) fn strangers(
    texts: &[String],
    lengths: ShingleLengths,
    banding: Banding,
    agree: u8,
    originals: u64,
) -> [f64; 2] {
    let step = (texts.len() / COMPARED).max(1);
    let crowd = BackgroundSimilarity::of(&sets(texts.iter().step_by(step), lengths));
    [1, agree].map(|least| crowd.candidates(banding, least, originals))
}

/// Finds how often pages must jump for `strangers_of` them to be what it is for real texts, by halving.
pub(crate) fn fitted(chain: &Chain, wanted: f64, strangers_of: impl Fn(&[String]) -> f64) -> u64 {
    let (mut low, mut high) = (1_u64, 2000_u64);
    while high - low > 1 + low / 20 {
        // Halves the ratio: what matters is how long a text is followed.
        let middle = (low * high).isqrt().clamp(low + 1, high - 1);
        let pages: Vec<String> = (0..COMPARED as u64).map(|number| chain.page(number, middle)).collect();
        if strangers_of(&pages) > wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Returns the exact Jaccard index of two texts.
pub(crate) fn likeness(one: &str, other: &str, lengths: ShingleLengths) -> f64 {
    let texts = [one.to_owned(), other.to_owned()];
    let sets = sets(texts.iter(), lengths);
    jaccard(&sets[0], &sets[1])
}

fn sets<'t>(texts: impl Iterator<Item = &'t String>, lengths: ShingleLengths) -> Vec<Vec<u32>> {
    let (mut buffer, mut hashes) = (ShingleBuffer::default(), Vec::new());
    let mut set = |text: &String| {
        shingle_hashes(text, lengths, &mut buffer, &mut hashes);
        set_of(&hashes)
    };
    texts.map(&mut set).collect()
}

/// Brings a text to the form that is compared; `None` when it has none.
pub(crate) fn normal(text: &str, analyzer: &Analyzer) -> Option<String> {
    let mut buffer = String::new();
    let normal = analyzer.normalize(&Body::Text(text.into()), &mut buffer).ok()?;
    Some(normal.text.to_owned())
}

/// Brings texts to the form that is compared, and leaves natural copies out as `dupgate eval` does.
pub(crate) fn cleaned(texts: &[String], analyzer: &Analyzer) -> Vec<String> {
    let texts: Vec<String> = texts.iter().filter_map(|text| normal(text, analyzer)).collect();
    let kept = clean(&sets(texts.iter(), ShingleLengths { han: 5, other: 8 }), 0.3);
    texts.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(text, _)| text).collect()
}
