//! Baselines: other methods run on the same stream, for comparison.
//!
//! All of them see the text as we normalise it and the words as we cut it, stop words included, so that what differs is
//! the method. They compare every pair of pages, and so find what bands or an index would miss; none can be had at a
//! million pages. Cost: that of n^2 / 2 comparisons, and memory for each pair that is alike at all.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::RangeInclusive;

use xxhash_rust::xxh3::xxh3_64;

use super::{Planted, Report, Role, Scorer, set_of};
use dupgate_core::fingerprint::{
    Fingerprinter, Fingerprints, Permutations, Scratch, Settings, ShingleBuffer, Shingling,
};
use dupgate_core::record::{Body, RawRecord};
use dupgate_core::text::{self, Analyzer};

/// A way to judge that is known from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Baseline {
    /// `SimHash` alone, at most 3 bits different (Manku, Jain and Das Sarma, WWW 2007); equal texts match
    /// whatever they hold.
    SimHash,
    /// `MinHash` of runs of 5 words, 14 bands of 8 rows, nothing verified: pages that share a band are joined, and what
    /// is joined to the same page (`FineWeb`; Penedo and others, 2024).
    WordBands,
    /// The exact Jaccard index of our shingles, which sketches estimate.
    Jaccard,
    /// The cosine of vectors of words: counts times `ln((1 + n) / (1 + pages with it)) + 1`. How rare a word is comes
    /// from the whole stream, which no judge of a stream knows.
    Cosine,
}

/// Most pages whose pairs are compared one by one.
pub const MAX_PAGES: usize = 10_000;

/// Thresholds that are tried where one is to be chosen, in twentieths.
const TRIED: RangeInclusive<u16> = 2..=18;

/// A twentieth, in thousandths.
const STEP: u16 = 50;

/// Pairs less alike, in thousandths, are not remembered: no threshold asks for them.
const LEAST: u16 = 100;

/// `FineWeb`'s setting.
const BANDS: usize = 14;
const ROWS: usize = 8;
const RUN: usize = 5;

/// Bits of a `SimHash` of the usual width, and how many of them must be equal; a wider one may differ in as many.
const BITS: u16 = 64;
const EQUAL_BITS: u16 = 61;

/// For every page the earlier ones that are like it, with how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimilarPairs(Vec<Vec<(u32, u16)>>);

/// Reads texts for the baselines.
#[derive(Debug)]
pub struct PairwiseReader<'r> {
    reader: &'r Fingerprinter,
    words: Analyzer,
    permutations: Permutations,
    shingle: Shingling,
}

impl Baseline {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 4] = [Self::SimHash, Self::WordBands, Self::Jaccard, Self::Cosine];

    /// Returns the name used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SimHash => "simhash",
            Self::WordBands => "word_bands",
            Self::Jaccard => "jaccard",
            Self::Cosine => "tf_idf",
        }
    }

    /// Returns whether its threshold depends on the texts and is to be chosen, in thousandths; else it is part of the
    /// idea.
    #[must_use]
    pub const fn is_tuned(self) -> bool {
        matches!(self, Self::Jaccard | Self::Cosine)
    }

    /// Returns the threshold where none is chosen: equal bits, shared bands, or thousandths.
    #[must_use]
    pub const fn usual(self) -> u16 {
        match self {
            Self::SimHash => EQUAL_BITS,
            Self::WordBands => 1,
            Self::Jaccard => 300,
            Self::Cosine => 500,
        }
    }

    /// Says of every page of a stream which earlier one it is called a duplicate of.
    ///
    /// A page is compared with those that were called unique, as in a filter of a stream, and the most alike one
    /// counts, the first of equals. Word bands join whatever shares one, as a batch does, with what comes later, too;
    /// what matches nothing joins nothing.
    #[must_use]
    pub fn verdicts(self, likes: &SimilarPairs, least: u16, stream: &[Planted]) -> Vec<Option<usize>> {
        match self {
            Self::WordBands => likes.joined(least, stream),
            Self::SimHash | Self::Jaccard | Self::Cosine => likes.nearest(least),
        }
    }

    /// Chooses the threshold with the best F1 of pairs; of several the one in their middle.
    #[must_use]
    pub fn choose(self, likes: &SimilarPairs, stream: &[Planted]) -> u16 {
        let f1_of = |step: u16| {
            let report = scored(stream, &self.verdicts(likes, step * STEP, stream));
            (report.pairs.f1(), step * STEP)
        };
        let tried: Vec<(f64, u16)> = TRIED.map(f1_of).collect();
        let best = tried.iter().map(|(f1, _)| *f1).fold(0.0, f64::max);
        let best: Vec<u16> = tried.into_iter().filter(|(f1, _)| *f1 >= best).map(|(_, step)| step).collect();
        best.get(best.len() / 2).copied().unwrap_or(self.usual())
    }
}

/// Scores verdicts on a stream: for each page the number of the earlier one that it was called a duplicate of.
#[must_use]
pub fn scored(stream: &[Planted], verdicts: &[Option<usize>]) -> Report {
    let mut scorer = Scorer::default();
    for (page, matched) in stream.iter().zip(verdicts) {
        scorer.note_of_two(page.family, page.also, page.role, *matched);
    }
    scorer.report()
}

impl<'r> PairwiseReader<'r> {
    /// Prepares reading: text as `reader` normalises it, shingles as `settings` cut them.
    ///
    /// # Errors
    ///
    /// [`text::SettingsError`] when the reader's own settings cannot be used any more.
    pub fn new(reader: &'r Fingerprinter, settings: &Settings) -> Result<Self, text::SettingsError> {
        let all_words = text::Settings { stopwords: Vec::new(), ..reader.analyzer().settings().clone() };
        Ok(Self {
            reader,
            words: Analyzer::new(&all_words)?,
            permutations: Permutations::new(BANDS * ROWS),
            shingle: settings.minhash.shingle,
        })
    }

    /// Reads all pages and finds those that are alike.
    #[must_use]
    pub fn likes(&self, baseline: Baseline, stream: &[Planted]) -> SimilarPairs {
        match baseline {
            Baseline::SimHash => SimilarPairs::by_bits(&self.fingerprints(stream)),
            Baseline::WordBands => {
                let keys = |page: &Planted| self.band_keys(&self.words_of(page)).into_iter().map(|key| (key, 1.0));
                let pages: Vec<Vec<(u64, f64)>> = stream.iter().map(|page| keys(page).collect()).collect();
                SimilarPairs::by_sum(&pages, 1, |_, _, shared| whole(shared))
            }
            Baseline::Jaccard => {
                let pages: Vec<Vec<(u32, f64)>> = self
                    .shingles(stream)
                    .into_iter()
                    .map(|set| set.into_iter().map(|it| (it, 1.0)).collect())
                    .collect();
                let lengths: Vec<f64> = pages.iter().map(|page| float(page.len())).collect();
                let length = |page: usize| lengths.get(page).copied().unwrap_or(0.0);
                SimilarPairs::by_sum(&pages, LEAST, |one, other, shared| {
                    per_mille(shared / (length(one) + length(other) - shared))
                })
            }
            Baseline::Cosine => {
                let pages = weighed(&stream.iter().map(|page| self.words_of(page)).collect::<Vec<_>>());
                SimilarPairs::by_sum(&pages, LEAST, |_, _, cosine| per_mille(cosine))
            }
        }
    }

    fn fingerprints(&self, stream: &[Planted]) -> Vec<Option<Fingerprints>> {
        let mut scratch = Scratch::default();
        let mut read = |page: &Planted| {
            let record = RawRecord { key: None, value: Some(page.text.as_bytes()), headers: &() };
            self.reader.read(&record, &mut scratch).ok().map(|reading| reading.fingerprints)
        };
        stream.iter().map(&mut read).collect()
    }

    fn shingles(&self, stream: &[Planted]) -> Vec<Vec<u32>> {
        let (mut normal, mut buffer, mut hashes) = (String::new(), ShingleBuffer::default(), Vec::new());
        let mut set = |page: &Planted| {
            let normal = self.reader.analyzer().normalize(&Body::Text((&*page.text).into()), &mut normal);
            let normal = normal.map_or("", |normal| normal.text);
            self.shingle.hashes(self.reader.analyzer(), normal, &mut buffer, &mut hashes);
            set_of(&hashes)
        };
        stream.iter().map(&mut set).collect()
    }

    /// Returns the hashes of a page's words, in order.
    fn words_of(&self, page: &Planted) -> Vec<u64> {
        let (mut normal, mut words) = (String::new(), Vec::new());
        if let Ok(normal) = self.words.normalize(&Body::Text((&*page.text).into()), &mut normal) {
            self.words.words(normal.text, |word| words.push(word.hash));
        }
        words
    }

    /// Returns the key of each band; none when there is no run of words.
    fn band_keys(&self, words: &[u64]) -> Vec<u64> {
        let runs: Vec<u32> = words.windows(RUN).map(|run| low_half(hash_of(run.iter().copied()))).collect();
        if runs.is_empty() {
            return Vec::new();
        }
        let mut minima = Vec::new();
        self.permutations.minima(&runs, &mut minima);
        let bands = (0_u64..).zip(minima.chunks_exact(ROWS));
        bands.map(|(band, rows)| hash_of(rows.iter().map(|row| u64::from(*row)).chain([band]))).collect()
    }
}

impl SimilarPairs {
    #[cfg(test)]
    pub(super) fn of<'a>(pages: impl IntoIterator<Item = &'a [(u32, u16)]>) -> Self {
        Self(pages.into_iter().map(<[_]>::to_vec).collect())
    }

    /// Compares codes; equal texts differ in no bit.
    fn by_bits(pages: &[Option<Fingerprints>]) -> Self {
        let equal_bits = |one: &Fingerprints, other: &Fingerprints| {
            let differing = if one.exact == other.exact { Some(0) } else { one.distance(other) };
            differing.and_then(|bits| BITS.checked_sub(u16::try_from(bits).ok()?))
        };
        let earlier = |(number, page): (usize, &Option<Fingerprints>)| {
            let others = (0_u32..).zip(pages).take(number);
            let like = others.filter_map(|(other, earlier)| {
                let equal = equal_bits(page.as_ref()?, earlier.as_ref()?)?;
                (equal >= EQUAL_BITS).then_some((other, equal))
            });
            like.collect()
        };
        Self(pages.iter().enumerate().map(earlier).collect())
    }

    /// Adds up, for every pair, the products of the weights of what both hold, and makes of the sum how alike they are.
    fn by_sum<K: Copy + Eq + Hash>(
        pages: &[Vec<(K, f64)>],
        least: u16,
        like: impl Fn(usize, usize, f64) -> u16,
    ) -> Self {
        let mut holders: HashMap<K, Vec<(usize, f64)>> = HashMap::new();
        let mut sums = vec![0.0; pages.len()];
        let mut likes = Vec::with_capacity(pages.len());
        for (number, page) in pages.iter().enumerate() {
            sums.fill(0.0);
            for (feature, weight) in page {
                for (other, others) in holders.get(feature).into_iter().flatten() {
                    if let Some(sum) = sums.get_mut(*other) {
                        *sum += weight * others;
                    }
                }
            }
            let alike = (0_u32..).zip(&sums).enumerate().take(number).filter(|(_, (_, sum))| **sum > 0.0);
            let alike = alike.map(|(at, (other, sum))| (other, like(number, at, *sum)));
            likes.push(alike.filter(|(_, how)| *how >= least).collect());
            page.iter().for_each(|(feature, weight)| holders.entry(*feature).or_default().push((number, *weight)));
        }
        Self(likes)
    }

    /// Matches every page with the most alike one of those called unique before it.
    fn nearest(&self, least: u16) -> Vec<Option<usize>> {
        let mut verdicts: Vec<Option<usize>> = Vec::with_capacity(self.0.len());
        for likes in &self.0 {
            let mut best: Option<(u32, u16)> = None;
            for &(other, how) in likes {
                let is_unique = verdicts.get(other as usize).is_some_and(Option::is_none);
                if how >= least && is_unique && best.is_none_or(|(_, most)| how > most) {
                    best = Some((other, how));
                }
            }
            verdicts.push(best.map(|(other, _)| other as usize));
        }
        verdicts
    }

    /// Joins all that are alike, and what is alike to them: each page is called a duplicate of the first of its own.
    fn joined(&self, least: u16, stream: &[Planted]) -> Vec<Option<usize>> {
        let mut parents: Vec<usize> = (0..self.0.len()).collect();
        for (number, likes) in self.0.iter().enumerate() {
            let others = || likes.iter().filter(|(_, how)| *how >= least).map(|(other, _)| *other as usize);
            let is_apart = stream.get(number).is_some_and(|page| matches!(page.role, Role::Apart(_)));
            if is_apart {
                if let (Some(first), Some(parent)) = (others().next(), parents.get_mut(number)) {
                    *parent = first;
                }
                continue;
            }
            for other in others() {
                let (one, other) = (root(&parents, number), root(&parents, other));
                if let Some(parent) = parents.get_mut(one.max(other)) {
                    *parent = one.min(other);
                }
            }
        }
        let first = |number: usize| Some(root(&parents, number)).filter(|first| *first != number);
        (0..self.0.len()).map(first).collect()
    }
}

fn root(parents: &[usize], mut page: usize) -> usize {
    while let Some(parent) = parents.get(page).filter(|parent| **parent != page) {
        page = *parent;
    }
    page
}

/// Makes vectors of length 1 of the words of all pages.
fn weighed(pages: &[Vec<u64>]) -> Vec<Vec<(u64, f64)>> {
    let mut holders: HashMap<u64, usize> = HashMap::new();
    for page in pages {
        set_of(page).into_iter().for_each(|word| *holders.entry(word).or_default() += 1);
    }
    let idf = |word: u64| {
        let pages_with_it = holders.get(&word).copied().unwrap_or(0);
        (float(1 + pages.len()) / float(1 + pages_with_it)).ln() + 1.0
    };
    let vector = |page: &Vec<u64>| {
        let mut words = page.clone();
        words.sort_unstable();
        let counted = words.chunk_by(|one, other| one == other);
        let counted = counted.filter_map(|equal| Some((*equal.first()?, float(equal.len()))));
        let vector: Vec<(u64, f64)> = counted.map(|(word, count)| (word, count * idf(word))).collect();
        let length = vector.iter().map(|(_, weight)| weight * weight).sum::<f64>().sqrt();
        vector.into_iter().map(|(word, weight)| (word, weight / length)).collect()
    };
    pages.iter().map(vector).collect()
}

fn hash_of(numbers: impl Iterator<Item = u64>) -> u64 {
    xxh3_64(&numbers.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
}

fn low_half(bits: u64) -> u32 {
    let [a, b, c, d, ..] = bits.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Thousandths, rounded down; what is a multiple but for the last bit of a float counts as one.
fn per_mille(share: f64) -> u16 {
    whole(share * 1000.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
fn whole(number: f64) -> u16 {
    (number + 1e-6) as u16
}

#[expect(clippy::cast_precision_loss, reason = "counts of pages and words")]
fn float(count: usize) -> f64 {
    count as f64
}
