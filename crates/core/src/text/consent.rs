//! Detects notices that ask for consent to cookies, by their language.
//!
//! Most sentences of a notice speak to the reader about cookies, data, partners and choices. An article about cookies
//! has the same words, but seldom says "we" and "you"; a recipe for cookies says "you", but asks for no consent.
//! `consent.txt` has the words of the languages that are known. Measurements are in `docs/TEXT.md`, the cases in the
//! tests.
//!
//! Cost: one search for "cookie" in most pages; some tens of microseconds for the others.

use std::sync::LazyLock;

use super::normalize::non_whitespace_chars;

/// The most characters of a notice, without whitespace. A longer text is not a notice, or it is what the page is about.
const MAX_NOTICE_CHARS: usize = 3000;

/// The fewest topics that a notice names.
const MIN_TOPICS: usize = 3;

/// What a text speaks about.
#[derive(Default)]
struct Language {
    non_whitespace_chars: usize,
    /// Characters of the sentences that speak to the reader about a topic, or of three topics at once.
    asking: usize,
    /// Topics of those sentences, one bit each.
    topics: u8,
}

/// Returns whether a whole text is a notice.
pub(super) fn is_notice(text: &str) -> bool {
    if !names_cookies(text) || text.chars().filter(|c| !c.is_whitespace()).nth(MAX_NOTICE_CHARS).is_some() {
        return false;
    }
    let language = Language::of(text);
    language.is_mostly_asking() && language.topics & 1 == 1 && language.count() >= MIN_TOPICS
}

/// Returns whether a text names cookies, in one of the languages that are known.
pub(super) fn names_cookies(text: &str) -> bool {
    ["ookie", "OOKIE", "クッキー", "куки", "Куки"].iter().any(|name| text.contains(name))
}

impl Language {
    fn of(text: &str) -> Self {
        let mut language = Self::default();
        let text = text.to_lowercase();
        for sentence in text.split(['.', '!', '?', '。', '！', '？', ';', '；', '\n']) {
            let characters = non_whitespace_chars(sentence);
            let topics = topics_of(sentence);
            language.non_whitespace_chars += characters;
            if (topics != 0 && is_addressed(sentence)) || topics.count_ones() >= 3 {
                language.asking += characters;
                language.topics |= topics;
            }
        }
        language
    }

    /// Returns whether at least two fifths of the text are asking sentences. The lowest share of the notices that were
    /// measured is .48, the highest of articles about cookies .32.
    const fn is_mostly_asking(&self) -> bool {
        self.asking > 0 && self.asking.saturating_mul(5) >= self.non_whitespace_chars.saturating_mul(2)
    }

    const fn count(&self) -> usize {
        self.topics.count_ones() as usize
    }
}

fn topics_of(sentence: &str) -> u8 {
    let names = |topic: &Vec<&str>| topic.iter().any(|word| sentence.contains(word));
    VOCABULARY
        .topics
        .iter()
        .enumerate()
        .filter(|(_, topic)| names(topic))
        .fold(0, |topics, (number, _)| topics | 1 << number)
}

fn is_addressed(sentence: &str) -> bool {
    VOCABULARY.unspaced_addresses.iter().any(|word| sentence.contains(word))
        || sentence.split(|c: char| !c.is_alphabetic()).any(|word| VOCABULARY.addresses.contains(&word))
}

/// The words by which notices are recognised, from `consent.txt`.
struct Vocabulary {
    /// Beginnings of words, by topic. The first topic is consent, which a notice never lacks.
    topics: [Vec<&'static str>; 6],
    /// Words that name the site or the reader.
    addresses: Vec<&'static str>,
    /// The same for languages that do not separate words.
    unspaced_addresses: Vec<&'static str>,
}

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
    let mut sections = include_str!("consent.txt").split('[').skip(1).map(words_of);
    let mut next = || sections.next().unwrap_or_default();
    Vocabulary { topics: std::array::from_fn(|_| next()), addresses: next(), unspaced_addresses: next() }
});

/// Returns the words of a section, whose first line is its name.
fn words_of(section: &'static str) -> Vec<&'static str> {
    let words = section.lines().skip(1).flat_map(|line| line.split(','));
    words.map(str::trim).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests;
