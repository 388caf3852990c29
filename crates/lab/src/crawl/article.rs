//! The text of a page: sentences that look like prose, of words drawn as often as people use them.

use super::Rng;

/// Language of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Chinese,
    English,
}

/// Both vocabularies, and what is written with them.
#[derive(Debug)]
pub(super) struct Author {
    chinese: Vocabulary,
    english: Vocabulary,
}

/// One page before it is put into a site's frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Article {
    pub(super) language: Language,
    pub(super) title: String,
    /// When it appeared and how many read it, in words: the first line of the text.
    pub(super) time_line: String,
    /// Line of a re-publisher before everything.
    pub(super) head_line: Option<String>,
    /// Line of a re-publisher after everything.
    pub(super) foot_line: Option<String>,
    pub(super) paragraphs: Vec<Vec<String>>,
}

/// A page's theme: telling words that come again and again in it, as in prose and unlike in a bag of words.
struct Theme(Vec<&'static str>);

const THEME_WORDS: usize = 24;
/// Share of the words that come from the theme.
const THEME_PERCENT: u64 = 30;

impl Author {
    pub(super) fn new() -> Self {
        Self { chinese: Vocabulary::chinese(), english: Vocabulary::english() }
    }

    /// Writes an article of at least `bytes` bytes of text (the last sentence may go past it).
    pub(super) fn article(&self, language: Language, bytes: usize, rng: &mut Rng) -> Article {
        let theme = Theme((0..THEME_WORDS).map(|_| self.of(language).draw_telling(rng)).collect());
        let title = self.title(language, &theme, rng);
        let time_line = time_line(language, rng);
        let (mut paragraphs, mut written) = (Vec::new(), time_line.len());
        while written < bytes {
            let mut paragraph = Vec::new();
            for _ in 0..rng.between(2, 6) {
                let sentence = self.sentence(language, &theme, rng);
                written += sentence.len() + 1;
                paragraph.push(sentence);
                if written >= bytes {
                    break;
                }
            }
            paragraphs.push(paragraph);
        }
        Article { language, title, time_line, head_line: None, foot_line: None, paragraphs }
    }

    /// Writes `letters` characters of sentences on one theme, without digits. The same chance begins a longer text with
    /// a shorter one.
    pub(super) fn prose(&self, language: Language, letters: usize, rng: &mut Rng) -> String {
        let theme = Theme((0..THEME_WORDS).map(|_| self.of(language).draw_telling(rng)).collect());
        let (mut text, mut written) = (String::new(), 0);
        while written < letters {
            let sentence = self.sentence(language, &theme, rng);
            let gap = match language {
                _ if rng.below(4) == 0 => "\n",
                Language::Chinese => "",
                Language::English => " ",
            };
            let more = sentence.chars().chain(gap.chars()).filter(|c| !c.is_ascii_digit()).take(letters - written);
            more.for_each(|c| {
                text.push(c);
                written += 1;
            });
        }
        text
    }

    /// Writes `letters` characters of links of one to three words, a line each; longer ones begin with shorter ones.
    pub(super) fn links(&self, language: Language, letters: usize, rng: &mut Rng) -> String {
        let (mut text, mut written) = (String::new(), 0);
        let gap = if language == Language::English { " " } else { "" };
        while written < letters {
            let words: Vec<&str> = (0..rng.between(1, 3)).map(|_| self.of(language).draw_telling(rng)).collect();
            for c in words.join(gap).chars().chain(['\n']).take(letters - written) {
                text.push(c);
                written += 1;
            }
        }
        text
    }

    /// Writes a sentence of no page's theme.
    pub(super) fn strange_sentence(&self, language: Language, rng: &mut Rng) -> String {
        self.sentence(language, &Theme(Vec::new()), rng)
    }

    /// Draws a word by the frequencies of the language.
    pub(super) fn word(&self, language: Language, rng: &mut Rng) -> &'static str {
        self.of(language).draw(rng)
    }

    fn of(&self, language: Language) -> &Vocabulary {
        match language {
            Language::Chinese => &self.chinese,
            Language::English => &self.english,
        }
    }

    fn title(&self, language: Language, theme: &Theme, rng: &mut Rng) -> String {
        let gap = if language == Language::English { " " } else { "" };
        let words: Vec<&str> = (0..rng.between(4, 8)).map(|_| self.next(language, theme, 60, rng)).collect();
        capitalised(&words.join(gap))
    }

    fn sentence(&self, language: Language, theme: &Theme, rng: &mut Rng) -> String {
        let mut sentence = String::with_capacity(160);
        let words = rng.between(8, 26);
        let mut until_comma = rng.between(4, 10);
        for place in 0..words {
            match language {
                Language::English if place > 0 => sentence.push(' '),
                Language::English | Language::Chinese => {}
            }
            if rng.below(40) == 0 {
                number(language, rng, &mut sentence);
            } else {
                sentence.push_str(self.next(language, theme, THEME_PERCENT, rng));
            }
            until_comma -= 1;
            if until_comma == 0 && place + 2 < words {
                sentence.push_str(if language == Language::English { "," } else { "，" });
                until_comma = rng.between(4, 10);
            } else if until_comma == 0 {
                until_comma = words;
            }
        }
        let ends = match language {
            Language::Chinese => &["。", "。", "。", "。", "。", "。", "！", "？"],
            Language::English => &[".", ".", ".", ".", ".", ".", "!", "?"],
        };
        sentence.push_str(rng.pick(ends));
        capitalised(&sentence)
    }

    fn next(&self, language: Language, theme: &Theme, theme_percent: u64, rng: &mut Rng) -> &'static str {
        if !theme.0.is_empty() && rng.percent(theme_percent) { rng.pick(&theme.0) } else { self.word(language, rng) }
    }
}

impl Article {
    /// Returns the lines of the text, from top to bottom.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let gap = if self.language == Language::English { " " } else { "" };
        let head = self.head_line.clone().into_iter().chain([self.time_line.clone()]);
        let body = self.paragraphs.iter().map(move |paragraph| paragraph.join(gap));
        head.chain(body).chain(self.foot_line.clone())
    }

    /// Returns the text as one string, a line each for head, time, every paragraph and foot.
    pub(super) fn text(&self) -> String {
        self.lines().collect::<Vec<_>>().join("\n")
    }

    /// Returns the number of sentences.
    pub(super) fn sentences(&self) -> usize {
        self.paragraphs.iter().map(Vec::len).sum()
    }
}

/// Writes when a page appeared and how many have read it.
pub(super) fn time_line(language: Language, rng: &mut Rng) -> String {
    let (month, day) = (rng.between(1, 12), rng.between(1, 28));
    let (hour, minute, readers) = (rng.below(24), rng.below(60), rng.between(10, 99_999));
    match language {
        Language::Chinese => format!("发布时间：2026-{month:02}-{day:02} {hour:02}:{minute:02}  阅读 {readers}"),
        Language::English => format!("Published 2026-{month:02}-{day:02} {hour:02}:{minute:02}, read {readers} times"),
    }
}

fn number(language: Language, rng: &mut Rng, to: &mut String) {
    let text = match (language, rng.below(4)) {
        (Language::Chinese, 0) => format!("{}年", rng.between(1978, 2026)),
        (Language::Chinese, 1) => format!("{}万元", rng.between(2, 9000)),
        (Language::English, 0) => rng.between(1978, 2026).to_string(),
        (Language::English, 1) => format!("${},{:03}", rng.between(1, 900), rng.below(1000)),
        (_, 2) => format!("{}.{}%", rng.below(100), rng.below(10)),
        _ => rng.between(2, 5000).to_string(),
    };
    to.push_str(&text);
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().collect::<String>() + letters.as_str(),
        None => String::new(),
    }
}

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
