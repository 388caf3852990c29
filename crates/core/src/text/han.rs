//! Traditional Chinese characters -> simplified ones.

use ferrous_opencc::{OpenCC, config::BuiltinConfig};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The characters that have an entry in the dense part of the table: extension A and the unified ideographs.
const DENSE: std::ops::RangeInclusive<u32> = 0x3400..=0x9fff;
/// The ideographs beyond the basic plane; few of them are converted.
const SPARSE: std::ops::RangeInclusive<u32> = 0x2_0000..=0x3_23af;

/// The library's conversion as tables: many times faster than the library, with the same results.
#[derive(Debug)]
pub(super) struct Simplifier {
    dense: Vec<Cell>,
    sparse: HashMap<char, char>,
    /// Phrases by their first character, the longest first.
    phrases: HashMap<char, Vec<(&'static str, String)>>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    simplified: char,
    begins_phrase: bool,
}

/// The tables, built once for the whole process.
static SIMPLIFIER: LazyLock<Option<Simplifier>> = LazyLock::new(Simplifier::build);

impl Simplifier {
    /// Returns the tables; `None` when the library's own dictionaries cannot be read.
    pub(super) fn shared() -> Option<&'static Self> {
        SIMPLIFIER.as_ref()
    }

    fn build() -> Option<Self> {
        let library = OpenCC::from_config(BuiltinConfig::T2s).ok()?;
        let mut buffer = [0; 4];
        let mut convert = |c: char| {
            let converted = library.convert(c.encode_utf8(&mut buffer));
            let mut chars = converted.chars();
            chars.next().filter(|_| chars.next().is_none()).unwrap_or(c)
        };
        let mut dense: Vec<Cell> =
            DENSE.filter_map(char::from_u32).map(|c| Cell { simplified: convert(c), begins_phrase: false }).collect();
        let sparse = SPARSE.filter_map(char::from_u32).map(|c| (c, convert(c))).filter(|(c, to)| c != to).collect();
        let mut phrases: HashMap<char, Vec<(&'static str, String)>> = HashMap::new();
        let keys = include_str!("t2s_phrases.txt").lines().filter(|line| !line.starts_with('#'));
        for phrase in keys.flat_map(str::split_whitespace) {
            let first = phrase.chars().next()?;
            phrases.entry(first).or_default().push((phrase, library.convert(phrase)));
            dense.get_mut(dense_place(first)?)?.begins_phrase = true;
        }
        #[expect(clippy::iter_over_hash_type, reason = "each list is sorted by itself")]
        for list in phrases.values_mut() {
            list.sort_by_key(|(phrase, _)| std::cmp::Reverse(phrase.len()));
        }
        Some(Self { dense, sparse, phrases })
    }

    /// Converts one character.
    pub(super) fn char(&self, c: char) -> char {
        match dense_place(c).and_then(|place| self.dense.get(place)) {
            Some(cell) => cell.simplified,
            None if SPARSE.contains(&u32::from(c)) => self.sparse.get(&c).copied().unwrap_or(c),
            None => c,
        }
    }

    /// Finds the longest phrase that `text` begins with, and its simplified form. `first` is its first character.
    pub(super) fn phrase(&self, first: char, text: &str) -> Option<(&'static str, &str)> {
        let begins = dense_place(first).and_then(|place| self.dense.get(place))?.begins_phrase;
        let list = if begins { self.phrases.get(&first)? } else { return None };
        list.iter().find(|(phrase, _)| text.starts_with(phrase)).map(|(phrase, to)| (*phrase, to.as_str()))
    }
}

fn dense_place(c: char) -> Option<usize> {
    let code = u32::from(c);
    if DENSE.contains(&code) { usize::try_from(code - DENSE.start()).ok() } else { None }
}

/// Returns the simplified form of a character, or the character itself if it has none or the tables cannot be read.
#[must_use]
pub fn simplified(c: char) -> char {
    Simplifier::shared().map_or(c, |tables| tables.char(c))
}

/// Returns whether the character is an ideograph: jieba cuts runs of them, and shingles of them are shorter.
#[must_use]
pub fn is_han(c: char) -> bool {
    matches!(u32::from(c), 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_23af)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn simplify(text: &str) -> String {
        let table = Simplifier::shared().unwrap();
        let (mut out, mut rest) = (String::new(), text);
        while let Some(c) = rest.chars().next() {
            let (read, to) = match table.phrase(c, rest) {
                Some((phrase, to)) => (phrase.len(), to.to_owned()),
                None => (c.len_utf8(), table.char(c).to_string()),
            };
            out.push_str(&to);
            rest = &rest[read..];
        }
        out
    }

    fn library(text: &str) -> String {
        static LIBRARY: LazyLock<OpenCC> = LazyLock::new(|| OpenCC::from_config(BuiltinConfig::T2s).unwrap());
        LIBRARY.convert(text)
    }

    #[test]
    fn every_single_character_converts_as_in_the_library() {
        for c in DENSE.chain(SPARSE).filter_map(char::from_u32) {
            assert_eq!(simplify(&c.to_string()), library(&c.to_string()));
        }
    }

    #[test]
    fn phrases_convert_as_a_whole() {
        assert_eq!(simplify("據瞭解，乾隆年間的計畫乾燥"), "据了解，乾隆年间的计划干燥");
        let keys = include_str!("t2s_phrases.txt").lines().filter(|line| !line.starts_with('#'));
        for phrase in keys.flat_map(str::split_whitespace) {
            assert_eq!(simplify(phrase), library(phrase));
        }
    }

    proptest! {
        #[test]
        fn any_mix_of_phrases_and_characters_converts_as_in_the_library(
            parts in prop::collection::vec((0_usize..277, 0_usize..14, 0x4e00_u32..0x9fa6), 0..12)
        ) {
            let keys = include_str!("t2s_phrases.txt").lines().filter(|line| !line.starts_with('#'));
            let keys: Vec<&str> = keys.flat_map(str::split_whitespace).collect();
            let mut text = String::new();
            for (key, chars, single) in parts {
                text.extend(keys[key].chars().take(chars));
                text.extend(char::from_u32(single).filter(|_| chars % 3 == 0));
            }
            prop_assert_eq!(simplify(&text), library(&text));
        }
    }
}
