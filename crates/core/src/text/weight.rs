//! How rare a word is.

use super::han;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

/// Uses the hash of a word as it is, because it is well mixed already.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only `u64` keys are used; anything else is hashed properly.
        self.0 ^= xxh3_64(bytes);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// A map by the hash of a word.
pub type WordMap<V> = HashMap<u64, V, BuildHasherDefault<IdentityHasher>>;

/// One natural unit of inverse document frequency, in the fixed-point numbers of [`idf`].
pub const ONE: u32 = 256;

/// The unit of the table: a quarter.
const QUARTER: u32 = ONE / 4;
/// The value of a Chinese word that is not in the table: above all values in the table, but below that of the rarest
/// words.
const RARE: u32 = 46 * QUARTER;

static TABLE: LazyLock<WordMap<u8>> = LazyLock::new(|| {
    let mut table = WordMap::default();
    for line in include_str!("idf_zh.txt").lines() {
        let mut words = line.split(' ');
        let Some(quarters) = words.next().and_then(|number| number.parse::<u8>().ok()) else { continue };
        table.extend(words.map(|word| (xxh3_64(word.as_bytes()), quarters)));
    }
    table
});

/// Returns whether the frequency of a word says something about its page. It does if the frequent words of its language
/// are known, as stop words or by their rarity: those of Chinese, and of English, which every ASCII word is taken for.
/// Elsewhere it says nothing: in Hindi, Korean or Vietnamese, the same few words are the most frequent ones of every
/// page.
#[must_use]
pub fn is_frequency_telling(word: &str) -> bool {
    word.is_ascii() || word.chars().next().is_some_and(han::is_han)
}

/// Returns how rare a word is, in 256ths of a natural unit (inverse document frequency), from `2 * ONE` up.
///
/// Chinese words have the values of jieba's table, in quarters; words from 10.0 on, and unknown ones, have 11.5. Other
/// languages have no table: there, the length of a word decides, because frequent words are short (Zipf). A word of n
/// characters gets 4 + n / 2, at most 11.5, so `rain` weighs 6 and `precipitation` 10.5.
///
/// `hash` is XXH3 of the word. The table is larger than the caches near the processor: look-ups right after each other wait
/// for memory together.
#[must_use]
pub fn idf(kind: WordKind, hash: u64) -> u32 {
    match kind {
        WordKind::Chinese => TABLE.get(&hash).map_or(RARE, |quarters| (u32::from(*quarters) * QUARTER).max(2 * ONE)),
        WordKind::OfLength(length) => 4 * ONE + u32::from(length) * (ONE / 2),
    }
}

/// What decides how rare a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordKind {
    /// The table.
    Chinese,
    /// The number of characters, at most 15.
    OfLength(u8),
}

impl WordKind {
    /// Returns the kind of a word: Chinese if it begins with a Han character.
    #[must_use]
    pub fn of(word: &str) -> Self {
        if word.chars().next().is_some_and(han::is_han) {
            return Self::Chinese;
        }
        Self::OfLength(u8::try_from(word.chars().take(15).count()).unwrap_or(15))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str) -> u32 {
        idf(WordKind::of(word), xxh3_64(word.as_bytes()))
    }

    #[test]
    fn frequent_words_weigh_less_than_rare_ones() {
        assert!(of("中国") < of("经济") && of("经济") < of("机器人") && of("机器人") < of("斑马鱼"));
        assert_eq!(of("斑马鱼"), 46 * 64);
        assert_eq!((of("rain"), of("precipitation")), (6 * 256, 10 * 256 + 128));
        assert_eq!(of("internationalization"), 11 * 256 + 128);
        assert_eq!(of("的"), 2 * ONE);
    }

    #[test]
    fn the_table_is_whole() {
        assert_eq!(TABLE.len(), 44_337);
    }
}
