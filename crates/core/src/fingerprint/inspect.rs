//! Everything extracted from one page, for explanations: text, weighted words, shingles, fingerprints.

use std::collections::HashSet;

use super::fingerprinter::WordCount;
use super::identity::address_of;
use super::numbers::each_number;
use super::shingle::{ShingleBuffer, ShingleUnit, hash_of};
use super::simhash::{Feature, keep_strongest};
use super::{Distinct, FingerprintedPage, Fingerprinter, Scratch, telling};
use crate::record::{Body, RawRecord, Rejection};
use crate::text::{self, HtmlText, NormalText, WordMap};

/// Everything that was read from one page, and what its fingerprints are computed from. Far more expensive than a
/// [`FingerprintedPage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// What the service would know about it.
    pub reading: FingerprintedPage,
    /// The site that the page belongs to, if its address is known.
    pub site: Option<String>,
    /// The part of its title that is compared, if it has a title.
    pub title: Option<String>,
    /// Where the text was found.
    pub from: ReadFrom,
    /// Length of all text that a reader of the page sees, normalised, in characters.
    pub visible: usize,
    /// The normalised text.
    pub text: String,
    /// The distinct words, heaviest first.
    pub words: Vec<WeighedWord>,
    /// The distinct shingles that count, in the order of the text; none if the scheme makes no sketches.
    pub shingles: Vec<String>,
    /// Number of distinct shingles that do not count (`match.minhash.stop_shingles`).
    pub stopped: usize,
    /// The distinct numbers that the number guard compares, in the order of the text, followed by the web addresses if
    /// they count.
    pub numbers: Vec<String>,
}

/// Where the text of a page was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadFrom {
    /// It came as text.
    Text,
    /// It was taken out of HTML.
    Html,
}

/// One word of a page, with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeighedWord {
    /// The word.
    pub text: String,
    /// How often it occurs in the page.
    pub count: u32,
    /// Its weight in the `SimHash`, in 256ths.
    pub weight: u32,
    /// Whether it is one of the strongest (`match.simhash.top_k`); the others do not count.
    pub counts: bool,
}

impl Fingerprinter {
    /// Reads one record as [`Fingerprinter::read`] does, and returns everything extracted.
    ///
    /// # Errors
    ///
    /// As [`Fingerprinter::read`].
    pub fn inspect(&self, record: &RawRecord<'_>) -> Result<Inspection, Rejection> {
        let reading = self.read(record, &mut Scratch::default())?;
        let document = self.decoder.decode(record)?;
        let title = self.title(&document.body);
        let site = address_of(&document).map(|address| address.site().into_owned());
        let from = match &document.body {
            Body::Text(_) => ReadFrom::Text,
            Body::Html(_) => ReadFrom::Html,
        };
        let mut buffer = String::new();
        let visible = self.analyzer.normalize_as(&document.body, HtmlText::AllText, &mut buffer)?.text.chars().count();
        let NormalText { text, urls, .. } = self.analyzer.normalize(&document.body, &mut buffer)?;
        let (words, mut shingles) = (self.weighed(text), self.different_shingles(text));
        let different = shingles.len();
        shingles.retain(|shingle| !self.settings.minhash.stop.has(hash_of(shingle)));
        let stopped = different - shingles.len();
        let mut numbers: Vec<String> = Vec::new();
        let mut count = |number: &str| {
            if !numbers.iter().any(|known| known == number) {
                numbers.push(number.to_owned());
            }
        };
        each_number(text, &mut count);
        if urls.kept {
            text::urls(text).for_each(count);
        }
        Ok(Inspection { reading, site, title, from, visible, text: text.to_owned(), words, shingles, stopped, numbers })
    }

    fn weighed(&self, text: &str) -> Vec<WeighedWord> {
        let mut seen: WordMap<(&str, WordCount)> = WordMap::default();
        self.analyzer.words(text, |word| {
            let (_, seen) = seen.entry(word.hash).or_insert_with(|| (word.text, self.first_seen(word)));
            seen.occur();
        });
        let mut strongest: Vec<Feature> = seen.iter().map(|(hash, (_, seen))| self.feature(*hash, *seen)).collect();
        keep_strongest(&mut strongest, self.settings.simhash.top_k);
        let strongest: HashSet<Feature> = strongest.into_iter().collect();
        let word = |(hash, (text, seen)): (u64, (&str, WordCount))| {
            let feature = self.feature(hash, seen);
            let counts = strongest.contains(&feature);
            WeighedWord { text: text.to_owned(), count: seen.count, weight: feature.weight, counts }
        };
        let mut words: Vec<WeighedWord> = seen.into_iter().map(word).collect();
        words.sort_by(|one, other| other.weight.cmp(&one.weight).then_with(|| one.text.cmp(&other.text)));
        words
    }

    fn different_shingles(&self, text: &str) -> Vec<String> {
        let mut different: HashSet<String> = HashSet::new();
        let mut shingles = Vec::new();
        if self.settings.minhash.form.is_some() {
            let (shingling, mut buffer) = (self.settings.minhash.shingle, ShingleBuffer::default());
            if shingling.unit == ShingleUnit::Words {
                self.analyzer.words(text, |word| buffer.push_word(word.text, shingling.lengths));
            }
            let (cut, _) = telling::cut(shingling, text, &mut buffer, &mut Distinct::default(), &mut Vec::new());
            cut.each_buffered(text, &mut buffer, |shingle| {
                if different.insert(shingle.to_owned()) {
                    shingles.push(shingle.to_owned());
                }
            });
        }
        shingles
    }
}
