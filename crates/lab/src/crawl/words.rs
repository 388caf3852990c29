//! The words of the generated pages, drawn as often as people use them.

use super::Rng;
use super::article::{Author, Language};

/// One language's words with the chance of each.
///
/// Drawing is Walker's alias method (Electronics Letters, 1974): one lookup, whatever the number of words. The
/// table is made with integers, so that it is the same on every machine.
#[derive(Debug)]
pub(super) struct Vocabulary {
    words: Vec<&'static str>,
    aliases: Vec<Alias>,
    /// The commonest words carry grammar, not a theme: a theme is drawn after them.
    common: usize,
}

/// Of 2^32 draws of this slot `keep` yield its own word, the others that of `other`.
#[derive(Clone, Copy, Debug, Default)]
struct Alias {
    keep: u64,
    other: usize,
}

impl Vocabulary {
    /// Chinese: words of the jieba dictionary with its frequencies (`words/NOTICE`).
    pub(super) fn chinese() -> Self {
        let lines = include_str!("words/zh.txt").lines().filter_map(|line| {
            let (word, frequency) = line.split_once(' ')?;
            Some((word, frequency.parse().ok()?))
        });
        Self::weighed(lines)
    }

    /// English: words in the order of their use; the frequency of rank r is that of Zipf and Mandelbrot, 1 / (r + 2.7).
    pub(super) fn english() -> Self {
        let ranked = (1_u64..).zip(include_str!("words/en.txt").lines());
        Self::weighed(ranked.map(|(rank, word)| (word, 100_000_000 / (10 * rank + 27))))
    }

    fn weighed(weighed: impl Iterator<Item = (&'static str, u64)>) -> Self {
        let (words, weights): (Vec<_>, Vec<u64>) = weighed.unzip();
        let count = u64::try_from(weights.len()).unwrap_or(u64::MAX);
        let total: u64 = weights.iter().sum();
        let mut aliases = vec![Alias::default(); weights.len()];
        // Each slot holds `total`; a word fills weight * count of it, the rest is lent to a commoner word.
        let scaled = weights.iter().map(|weight| weight * count).enumerate();
        let (mut poor, mut rich): (Vec<_>, Vec<_>) = scaled.partition(|&(_, weight)| weight < total);
        while let (Some(&(low, weight)), Some(&(high, wealth))) = (poor.last(), rich.last()) {
            poor.pop();
            rich.pop();
            if let Some(alias) = aliases.get_mut(low) {
                *alias = Alias { keep: (weight << 32) / total.max(1), other: high };
            }
            let left = wealth - (total - weight);
            if left < total { poor.push((high, left)) } else { rich.push((high, left)) }
        }
        for (full, _) in rich.into_iter().chain(poor) {
            if let Some(alias) = aliases.get_mut(full) {
                *alias = Alias { keep: 1 << 32, other: full };
            }
        }
        Self { common: words.len() / 30, words, aliases }
    }

    /// Draws a word as often as the language uses it.
    pub(super) fn draw(&self, rng: &mut Rng) -> &'static str {
        self.words.get(self.slot(rng)).copied().unwrap_or_default()
    }

    /// Draws a word that is not one of the commonest thirtieth: those carry grammar, these a theme.
    pub(super) fn draw_telling(&self, rng: &mut Rng) -> &'static str {
        let mut slot = self.slot(rng);
        while slot < self.common {
            slot = self.slot(rng);
        }
        self.words.get(slot).copied().unwrap_or_default()
    }

    fn slot(&self, rng: &mut Rng) -> usize {
        // One draw serves both: its high half chooses the slot, its low half whether the slot keeps it.
        let bits = rng.bits();
        let slot = Rng::scaled(bits >> 32, self.words.len());
        let alias = self.aliases.get(slot).copied().unwrap_or_default();
        if bits & 0xffff_ffff < alias.keep { slot } else { alias.other }
    }
}

/// Writes text in either language, of any length.
#[derive(Debug)]
pub(crate) struct Prose(Author);

impl Prose {
    pub(crate) fn new() -> Self {
        Self(Author::new())
    }

    /// Writes `letters` characters of sentences, without digits. The same chance begins a longer text with a shorter
    /// one.
    pub(crate) fn text(&self, is_chinese: bool, letters: usize, rng: &mut Rng) -> String {
        self.0.prose(language(is_chinese), letters, rng)
    }

    /// Writes `letters` characters of links, a line each. The same chance begins a longer list with a shorter one.
    pub(crate) fn links(&self, is_chinese: bool, letters: usize, rng: &mut Rng) -> String {
        self.0.links(language(is_chinese), letters, rng)
    }
}

const fn language(is_chinese: bool) -> Language {
    if is_chinese { Language::Chinese } else { Language::English }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn chinese_words_carry_the_frequencies_of_the_dictionary() {
        let jieba = dupgate_core::text::segmenter();
        let lines: Vec<(&str, usize)> = include_str!("words/zh.txt")
            .lines()
            .map(|line| line.split_once(' ').map(|(word, frequency)| (word, frequency.parse().unwrap())).unwrap())
            .collect();
        assert_eq!(lines.len(), 9000);
        // `suggest_freq` of a word that the dictionary cuts as one is its frequency, or one more.
        let known = lines.iter().filter(|(word, frequency)| jieba.suggest_freq(word).abs_diff(*frequency) <= 1).count();
        assert!(known > 8900, "{known} of {}", lines.len());
        assert!(lines.is_sorted_by(|a, b| a.1 >= b.1), "commonest first: a theme is drawn from after the head");
    }

    #[test]
    fn words_are_drawn_as_often_as_they_are_used() {
        for (vocabulary, weights) in [
            (Vocabulary::weighed([("a", 6), ("b", 3), ("c", 1), ("d", 0)].into_iter()), vec![6, 3, 1, 0]),
            (Vocabulary::weighed([("a", 1), ("b", 1), ("c", 1), ("d", 1)].into_iter()), vec![1, 1, 1, 1]),
        ] {
            let mut rng = Rng::of(7, 0, 0);
            let mut drawn: HashMap<&str, u64> = HashMap::new();
            for _ in 0..100_000 {
                *drawn.entry(vocabulary.draw(&mut rng)).or_default() += 1;
            }
            let total: u64 = weights.iter().sum();
            for (word, weight) in ["a", "b", "c", "d"].into_iter().zip(weights) {
                let (is, should) = (drawn.get(word).copied().unwrap_or(0), weight * 100_000 / total);
                assert!(is.abs_diff(should) < 700, "{word}: {is}, should be {should}");
            }
        }
    }

    #[test]
    fn a_telling_word_is_none_of_the_commonest() {
        let vocabulary = Vocabulary::english();
        let mut rng = Rng::of(7, 0, 0);
        assert!((0..10_000).all(|_| vocabulary.draw_telling(&mut rng) != "the"));
    }
}
