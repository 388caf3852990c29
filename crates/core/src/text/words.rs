//! Normalised text -> words, and how rare a word is.
//!
//! `dupgate-segmenter` cuts Han text into the words of `jieba-rs`, which itself is loaded only if there are words of the
//! user, or if it is to cut all text.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::BufReader;
use std::sync::{Arc, LazyLock};

use dupgate_segmenter::{DICTIONARY, Piece, Scratch};
use flate2::read::GzDecoder;
use jieba_rs::Jieba;
use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::xxh3_64;

use super::normalize::{self, is_han, stretches};
use super::settings::Segmenter;

/// What cut a text into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CutBy {
    /// jieba, at least where the text is Han.
    Jieba,
    /// Unicode word breaks alone.
    Unicode,
}

impl CutBy {
    /// Returns the word used in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jieba => "jieba",
            Self::Unicode => "unicode",
        }
    }
}

/// A stretch of text in one script, as [`super::Segmenter::Auto`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'t> {
    /// Whether all its characters are Han; otherwise, none is.
    pub han: bool,
    /// The stretch, never empty.
    pub text: &'t str,
}

/// Cuts a text where Han characters begin or end. Together the runs are the text.
pub fn runs(text: &str) -> impl Iterator<Item = Run<'_>> {
    stretches(text, is_han).map(|(han, text)| Run { han, text })
}

/// Cuts text into words.
#[derive(Clone, Debug)]
pub(super) struct Cutter {
    segmenter: Segmenter,
    /// With words of the user, if there are any.
    own: Option<Arc<Jieba>>,
    hmm: bool,
}

impl Cutter {
    /// Cuts by this segmenter, `hmm` finding words that its dictionary does not have. `own` replaces its dictionary.
    pub(super) fn new(segmenter: Segmenter, own: Option<Arc<Jieba>>, hmm: bool) -> Self {
        Self { segmenter, own, hmm }
    }

    fn jieba(&self) -> &Jieba {
        self.own.as_deref().unwrap_or_else(|| segmenter())
    }

    /// Visits every word in the order of the text, and returns what cut them. Punctuation is not a word. The words of a
    /// script without spaces overlap.
    pub(super) fn words<'t>(&self, text: &'t str, mut each: impl FnMut(&'t str)) -> CutBy {
        match self.segmenter {
            Segmenter::Jieba => {
                let words = self.jieba().cut(text, self.hmm).into_iter().map(|token| token.word);
                words.filter(|word| word.chars().any(char::is_alphanumeric)).for_each(each);
                CutBy::Jieba
            }
            Segmenter::Auto => {
                let mut cut_by = CutBy::Unicode;
                let each = |piece| match piece {
                    Piece::Word(word) => {
                        cut_by = CutBy::Jieba;
                        each(word);
                    }
                    Piece::Other(text) => unicode_words(text, &mut each),
                };
                if let Some(jieba) = &self.own {
                    cut_with(jieba, text, self.hmm, each);
                } else {
                    let mut scratch = SCRATCH.take();
                    dupgate_segmenter::cut(text, self.hmm, &mut scratch, each);
                    SCRATCH.set(scratch);
                }
                cut_by
            }
            Segmenter::Unicode => {
                unicode_words(text, &mut each);
                CutBy::Unicode
            }
        }
    }
}

thread_local! {
    /// Taken while a text is cut.
    static SCRATCH: Cell<Scratch> = Cell::default();
}

/// Does what [`dupgate_segmenter::cut`] does, with the dictionary of `jieba`.
fn cut_with<'t>(jieba: &Jieba, text: &'t str, hmm: bool, mut each: impl FnMut(Piece<'t>)) {
    for Run { han, text } in runs(text) {
        if han {
            jieba.cut(text, hmm).into_iter().for_each(|token| each(Piece::Word(token.word)));
        } else {
            each(Piece::Other(text));
        }
    }
}

/// Cuts text at Unicode word breaks (UAX 29), and scripts without spaces into runs of clusters. Every space is a break,
/// so each piece between spaces is cut alone. A piece of ASCII letters and digits is one word, without a table look-up.
fn unicode_words<'t>(text: &'t str, each: &mut impl FnMut(&'t str)) {
    for (piece, is_plain) in pieces(text) {
        if is_plain {
            each(piece);
            continue;
        }
        // Only an underscore joins what is at its side.
        let word = piece.trim_matches(|c: char| c.is_ascii_punctuation() && c != '_');
        if word.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            if !word.is_empty() {
                each(word);
            }
            continue;
        }
        let mut rest = piece;
        while let Some(begin) = rest.find(is_unspaced) {
            let (before, run) = rest.split_at(begin);
            before.unicode_words().for_each(&mut *each);
            let length = run.find(|c| !is_unspaced(c)).unwrap_or(run.len());
            let (run, after) = run.split_at(length);
            runs_of_clusters(run, each);
            rest = after;
        }
        rest.unicode_words().for_each(&mut *each);
    }
}

/// Returns what is between the spaces of a text, and whether it consists of ASCII letters and digits. Pieces are short: a
/// search by single bytes is faster than that of the standard library.
fn pieces(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let bytes = rest.as_bytes();
        let start = bytes.iter().position(|byte| *byte != b' ')?;
        let (mut end, mut is_plain) = (start, true);
        while let Some(byte) = bytes.get(end).filter(|byte| **byte != b' ') {
            is_plain &= byte.is_ascii_alphanumeric();
            end += 1;
        }
        let piece = rest.get(start..end)?;
        rest = rest.get(end..)?;
        Some((piece, is_plain))
    })
}

/// How many clusters make a word of a script without spaces. Shorter words are common to all texts; longer ones are
/// lost with every edit. With four, unrelated Thai texts are as far apart as unrelated English ones. Hiragana between
/// Han characters or katakana is seldom longer, so it is one word.
const CLUSTERS: usize = 4;

/// Returns whether a character belongs to a script that writes no spaces between words and whose word breaks only a
/// dictionary knows: Thai, Lao, Burmese, Khmer, Tai Le, New Tai Lue, Tai Tham, hiragana. Digits and punctuation do not
/// belong to it.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e01}'..='\u{e3a}' | '\u{e40}'..='\u{e4e}'
        | '\u{e81}'..='\u{ece}' | '\u{edc}'..='\u{edf}'
        | '\u{1000}'..='\u{103f}' | '\u{1050}'..='\u{108f}' | '\u{109a}'..='\u{109d}'
        | '\u{a9e0}'..='\u{a9ef}' | '\u{a9fa}'..='\u{a9fe}' | '\u{aa60}'..='\u{aa76}' | '\u{aa7a}'..='\u{aa7f}'
        | '\u{1780}'..='\u{17d3}' | '\u{17d7}' | '\u{17dc}'..='\u{17dd}'
        | '\u{1950}'..='\u{1974}' | '\u{1980}'..='\u{19c9}' | '\u{1a20}'..='\u{1a7c}'
        | '\u{3041}'..='\u{3096}')
}

/// Visits each run of [`CLUSTERS`] consecutive grapheme clusters, one beginning at each cluster; a shorter text is one
/// word.
fn runs_of_clusters<'t>(text: &'t str, each: &mut impl FnMut(&'t str)) {
    let starts = text.grapheme_indices(true).map(|(start, _)| start);
    let ends = text.grapheme_indices(true).skip(CLUSTERS - 1).map(|(start, cluster)| start + cluster.len());
    let mut found = false;
    for (start, end) in starts.zip(ends) {
        found = true;
        text.get(start..end).into_iter().for_each(&mut *each);
    }
    if !found {
        each(text);
    }
}

/// Returns the segmenter `jieba-rs`. It is loaded when it is first needed, once for the whole process, which takes a tenth
/// of a second.
#[must_use]
pub fn segmenter() -> &'static Jieba {
    static JIEBA: LazyLock<Jieba> = LazyLock::new(load_jieba);
    &JIEBA
}

/// Loads `jieba-rs` with its own dictionary.
pub(super) fn load_jieba() -> Jieba {
    // The dictionary is part of the program: that it can be read is tested.
    Jieba::with_dict(&mut BufReader::new(GzDecoder::new(DICTIONARY))).unwrap_or_else(|_| Jieba::empty())
}

/// Uses the hash of a word as it is, because it is well mixed already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdentityHasher(u64);

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
pub(crate) type WordMap<V> = HashMap<u64, V, BuildHasherDefault<IdentityHasher>>;

/// One natural unit of inverse document frequency, in the fixed-point numbers of [`idf`].
pub(crate) const ONE: u32 = 256;

/// The unit of the table: a quarter.
const QUARTER: u32 = ONE / 4;
/// The value of a Chinese word that is not in the table: above all values in the table, but below that of the rarest
/// words.
const RARE: u32 = 46 * QUARTER;

static TABLE: LazyLock<Rarities> = LazyLock::new(|| {
    let mut table = Rarities(vec![0; Rarities::SLOTS]);
    for line in include_str!("idf_zh.txt").lines() {
        let mut words = line.split(' ');
        let Some(quarters) = words.next().and_then(|number| number.parse::<u8>().ok()) else { continue };
        words.for_each(|word| table.insert(xxh3_64(word.as_bytes()), quarters));
    }
    table
});

/// A table of bytes by the hashes of words, in an array as small as the caches want it: a look-up waits for memory once.
/// The upper 56 bits of a hash are kept beside the byte; the lower ones decide the place (linear probing).
struct Rarities(Vec<u64>);

impl Rarities {
    /// About two thirds of them are taken.
    const SLOTS: usize = 1 << 16;
    const BYTE: u64 = 0xff;

    /// Returns all slots in the order in which a hash is searched for.
    fn places(hash: u64) -> impl Iterator<Item = usize> {
        #[expect(clippy::cast_possible_truncation, reason = "the lower bits are wanted")]
        let first = hash as usize;
        (0..Self::SLOTS).map(move |step| first.wrapping_add(step) % Self::SLOTS)
    }

    fn insert(&mut self, hash: u64, byte: u8) {
        let free = Self::places(hash).find(|place| self.0.get(*place) == Some(&0));
        if let Some(slot) = free.and_then(|place| self.0.get_mut(place)) {
            *slot = hash & !Self::BYTE | u64::from(byte);
        }
    }

    fn get(&self, hash: u64) -> Option<u8> {
        let slots = Self::places(hash).filter_map(|place| self.0.get(place));
        let found = slots.copied().find(|slot| *slot == 0 || (slot ^ hash) & !Self::BYTE == 0)?;
        let [.., byte] = found.to_be_bytes();
        (found != 0).then_some(byte)
    }
}

/// Returns whether the frequency of a word says something about its page. It does if the frequent words of its language
/// are known, as stop words or by their rarity: those of Chinese, and of English, which every ASCII word is taken for.
/// Elsewhere it says nothing: in Hindi, Korean or Vietnamese, the same few words are the most frequent ones of every
/// page.
#[must_use]
pub(crate) fn is_frequency_telling(word: &str) -> bool {
    word.is_ascii() || word.chars().next().is_some_and(normalize::is_han)
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
pub(crate) fn idf(kind: WordKind, hash: u64) -> u32 {
    match kind {
        WordKind::Chinese => TABLE.get(hash).map_or(RARE, |quarters| (u32::from(quarters) * QUARTER).max(2 * ONE)),
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
    pub(crate) fn of(word: &str) -> Self {
        if word.chars().next().is_some_and(normalize::is_han) {
            return Self::Chinese;
        }
        Self::OfLength(u8::try_from(word.chars().take(15).count()).unwrap_or(15))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    fn words(segmenter: Segmenter, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        Cutter::new(segmenter, None, true).words(text, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn han_runs_go_to_jieba_and_the_rest_to_word_breaks() {
        let text = "我爱北京天安门,the cat's 3.14 mat-weave 机器学习model";
        assert_eq!(
            words(Segmenter::Auto, text),
            ["我", "爱", "北京", "天安门", "the", "cat's", "3.14", "mat", "weave", "机器", "学习", "model"]
        );
        assert_eq!(words(Segmenter::Unicode, "天安门 cat"), ["天", "安", "门", "cat"]);
        assert_eq!(words(Segmenter::Jieba, "天安门, cat!"), ["天安门", "cat"]);
    }

    #[test]
    fn the_segmenter_that_cut_a_text_is_named() {
        let cut_by = |segmenter: Segmenter, text: &str| Cutter::new(segmenter, None, true).words(text, |_| {});
        assert_eq!(cut_by(Segmenter::Auto, "the cat, 天安门"), CutBy::Jieba);
        assert_eq!(cut_by(Segmenter::Auto, "the cat"), CutBy::Unicode);
        assert_eq!(cut_by(Segmenter::Unicode, "天安门"), CutBy::Unicode);
        assert_eq!(cut_by(Segmenter::Jieba, "the cat"), CutBy::Jieba);
    }

    #[test]
    fn scripts_without_blanks_are_cut_into_runs_of_clusters() {
        let text = "a ภาษาไทย2 ที่นี่ ប្រទេស។ ຄົນ b";
        let expected = ["a", "ภาษา", "าษาไ", "ษาไท", "าไทย", "2", "ที่นี่", "ប្រទេស", "ຄົນ", "b"];
        for segmenter in [Segmenter::Auto, Segmenter::Unicode] {
            assert_eq!(words(segmenter, text), expected);
        }
        assert_eq!(words(Segmenter::Auto, "ๆฯ"), ["ๆฯ"]);
        assert_eq!(words(Segmenter::Auto, "๏๚ ၊။ ។"), [""; 0], "punctuation");
        assert_eq!(words(Segmenter::Auto, "မြန်မာ天安门ไทย"), ["မြန်မာ", "天安门", "ไทย"]);
    }

    #[test]
    fn hiragana_between_han_and_katakana_is_a_word_and_a_long_run_of_it_several() {
        let text = "東京でコーヒーを飲んだ。ありがとう";
        assert_eq!(
            words(Segmenter::Unicode, text),
            ["東", "京", "で", "コーヒー", "を", "飲", "んだ", "ありがと", "りがとう",]
        );
    }

    proptest! {
        #[test]
        fn runs_of_clusters_begin_at_each_cluster_and_cover_the_text(text in "[\u{e01}-\u{e3a}\u{e40}-\u{e4e}]{1,20}") {
            let (clusters, mut found): (Vec<&str>, Vec<&str>) = (text.graphemes(true).collect(), Vec::new());
            unicode_words(&text, &mut |word| found.push(word));
            let length = CLUSTERS.min(clusters.len());
            prop_assert_eq!(found, clusters.windows(length).map(<[&str]>::concat).collect::<Vec<_>>());
        }

        #[test]
        fn runs_are_the_text_and_take_turns(text in "[a天1地, ]{0,20}") {
            let runs: Vec<Run<'_>> = runs(&text).collect();
            prop_assert_eq!(&runs.iter().map(|run| run.text).collect::<String>(), &text);
            prop_assert!(runs.iter().all(|run| run.text.chars().all(|c| is_han(c) == run.han)));
            prop_assert!(runs.windows(2).all(|pair| pair[0].han != pair[1].han));
        }

        #[test]
        fn pieces_between_blanks_are_cut_as_the_whole_would_be(text in "[a-c1'. ,\u{e9}\u{301}_-]{0,30}") {
            let whole: Vec<&str> = text.unicode_words().collect();
            let mut pieces = Vec::new();
            unicode_words(&text, &mut |word| pieces.push(word));
            prop_assert_eq!(pieces, whole);
        }

        #[test]
        fn words_of_han_text_are_those_of_the_library(
            text in "([\u{4e00}-\u{9fff}]{1,6}|[一不中了人他以会但住作出分到前区又和国在地天学安家得心所]{1,9}|\
                      [\u{3400}\u{f900}\u{20000}\u{2fa1f}\u{31350}]|[a ，カで]){0,30}",
            hmm: bool,
        ) {
            static LIBRARY: LazyLock<Arc<Jieba>> = LazyLock::new(|| Arc::new(segmenter().clone()));
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            Cutter::new(Segmenter::Auto, None, hmm).words(&text, |word| ours.push(word));
            Cutter::new(Segmenter::Auto, Some(LIBRARY.clone()), hmm).words(&text, |word| theirs.push(word));
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn both_crates_agree_on_what_is_han() {
        assert!(('\0'..=char::MAX).all(|c| is_han(c) == dupgate_segmenter::is_han(c)));
    }

    /// Another dictionary gives other words, so it is part of the scheme.
    #[test]
    fn the_dictionary_is_that_of_the_library() {
        let mut words = String::new();
        GzDecoder::new(DICTIONARY).read_to_string(&mut words).unwrap();
        assert_eq!(words.lines().count(), 349_045);
        assert_eq!(xxhash_rust::xxh3::xxh3_64(words.as_bytes()), 0xb3c0_2213_c9d2_22d3);
        let jieba = segmenter();
        assert_eq!(
            jieba.cut("我爱北京天安门", true).iter().map(|token| token.word).collect::<Vec<_>>(),
            ["我", "爱", "北京", "天安门"]
        );
    }

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
        assert_eq!(TABLE.0.iter().filter(|slot| **slot != 0).count(), 44_337);
        let lines = include_str!("idf_zh.txt").lines().filter(|line| !line.starts_with('#'));
        for (quarters, words) in lines.filter_map(|line| line.split_once(' ')) {
            for word in words.split(' ') {
                assert_eq!(TABLE.get(xxh3_64(word.as_bytes())), quarters.parse().ok(), "{word}");
            }
        }
        assert_eq!(TABLE.get(xxh3_64(b"harbour")), None);
    }
}
