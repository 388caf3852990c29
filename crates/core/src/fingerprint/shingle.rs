//! Runs of characters or of words as features, for the stages that compare sets, and how long they have to be to tell
//! texts apart.
//!
//! Texts of few symbols have few different shingles: a sequence of DNA has at most 4,096 of six letters, and tables of
//! "yes" and "no" have some dozens. Any two long ones share nearly all of them, so that the estimate says nothing. Such
//! texts are cut into longer shingles, until these repeat as seldom as those of other texts.
//!
//! Cost: of ordinary texts, none beyond the count of distinct shingles, which the sketch holds anyway.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use super::minhash::Distinct;
use crate::text::{Analyzer, is_han};

/// What a shingle is a run of (`match.minhash.shingle.unit`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ShingleUnit {
    /// Letters and digits.
    #[default]
    Characters,
    /// Words as the `text` module cuts them, without stop words.
    Words,
}

impl ShingleUnit {
    /// Returns the word used in configuration and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Characters => "characters",
            Self::Words => "words",
        }
    }
}

/// How shingles are cut (`match.minhash.shingle`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shingling {
    /// What they are runs of.
    pub unit: ShingleUnit,
    /// How long they are.
    pub lengths: ShingleLengths,
}

impl Shingling {
    /// Cuts by characters: this many for Han and for other text.
    #[must_use]
    pub const fn of_characters(han: usize, other: usize) -> Self {
        Self { unit: ShingleUnit::Characters, lengths: ShingleLengths { han, other } }
    }

    /// Cuts by words: this many for Han and for other text.
    #[must_use]
    pub const fn of_words(han: usize, other: usize) -> Self {
        Self { unit: ShingleUnit::Words, lengths: ShingleLengths { han, other } }
    }

    /// Visits each shingle of a normalised text, in order, including repeats. A shingle of words has a space between
    /// each two words; its first word decides how many there are.
    pub fn each(self, analyzer: &Analyzer, text: &str, buffer: &mut ShingleBuffer, each: impl FnMut(&str)) {
        buffer.clear();
        if self.unit == ShingleUnit::Words {
            analyzer.words(text, |word| buffer.push_word(word.text, self.lengths));
        }
        self.each_buffered(text, buffer, each);
    }

    /// Does the same as [`Shingling::each`]. If shingles are runs of words, `buffer` already holds the words of the
    /// text.
    pub(super) fn each_buffered(self, text: &str, buffer: &mut ShingleBuffer, mut each: impl FnMut(&str)) {
        self.each_bytes(text, buffer, |shingle| std::str::from_utf8(shingle).into_iter().for_each(&mut each));
    }

    /// Does the same as [`Shingling::each_buffered`], with the bytes of each shingle.
    #[inline]
    fn each_bytes(self, text: &str, buffer: &mut ShingleBuffer, each: impl FnMut(&[u8])) {
        match self.unit {
            ShingleUnit::Characters => each_of_characters(text, self.lengths, buffer, each),
            ShingleUnit::Words => buffer.each_of_words(each),
        }
    }

    /// Replaces `hashes` by the hash of each shingle of a normalised text ([`Shingling::each`]).
    pub fn hashes(self, analyzer: &Analyzer, text: &str, buffer: &mut ShingleBuffer, hashes: &mut Vec<u32>) {
        hashes.clear();
        self.each(analyzer, text, buffer, |shingle| hashes.push(hash_of(shingle)));
    }
}

/// How many characters or words make a shingle, by script (`match.minhash.shingle`).
///
/// A Chinese character says as much as one or two English syllables, so runs of it are shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShingleLengths {
    /// Length of a shingle that begins with a Han character.
    pub han: usize,
    /// Length of any other shingle.
    pub other: usize,
}

impl ShingleLengths {
    /// Returns the length of a shingle whose first character is Han, or is not.
    #[inline]
    pub(super) const fn of(self, is_han: bool) -> usize {
        if is_han { self.han } else { self.other }
    }
}

/// Replaces `hashes` by the hash of each shingle of characters of a text, in order, including repeats
/// ([`hash_of`](fn@hash_of)).
pub fn shingle_hashes(text: &str, lengths: ShingleLengths, buffer: &mut ShingleBuffer, hashes: &mut Vec<u32>) {
    hashes.clear();
    each_of_characters(text, lengths, buffer, |shingle| hashes.push(hash_of_bytes(shingle)));
}

/// Visits each shingle of characters of a text, in order, including repeats.
///
/// Only letters and digits count: `buffer` takes them without the whitespace and punctuation between them before
/// shingles are cut. A shingle begins at each character that enough others follow; its first character decides how
/// many.
#[inline]
fn each_of_characters(text: &str, lengths: ShingleLengths, buffer: &mut ShingleBuffer, each: impl FnMut(&[u8])) {
    let ShingleBuffer { letters, starts } = buffer;
    letters.clear();
    starts.clear();
    if ascii_letters(text, letters) {
        // Each byte begins a shingle, and all are of one length.
        match lengths.of(false) {
            0 => {}
            length => letters.windows(length).for_each(each),
        }
        return;
    }
    letters.clear();
    // Letters that follow each other are copied together.
    let mut copied = 0;
    let mut copy = |range: Range<usize>| letters.extend_from_slice(text.as_bytes().get(range).unwrap_or_default());
    let mut left_out = 0;
    for (at, c) in text.char_indices() {
        // Nearly all letters are of the first two kinds, which need no table look-up.
        let han = is_han(c);
        if han || c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphanumeric()) {
            starts.push((at - left_out, lengths.of(han)));
        } else {
            copy(copied..at);
            copied = at + c.len_utf8();
            left_out += c.len_utf8();
        }
    }
    copy(copied..text.len());
    each_run(letters, starts, 0, each);
}

/// Appends the letters and digits of a text if all of them are ASCII, and returns whether they are.
fn ascii_letters(text: &str, letters: &mut Vec<u8>) -> bool {
    let mut rest = text;
    loop {
        let length = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        let (ascii, after) = rest.split_at(length);
        // Every byte is written, and the next one takes its place unless it counts: there is no branch to mispredict.
        let mut end = letters.len();
        letters.resize(end + length, 0);
        for byte in ascii.bytes() {
            if let Some(place) = letters.get_mut(end) {
                *place = byte;
            }
            end += usize::from(byte.is_ascii_alphanumeric());
        }
        letters.truncate(end);
        let mut chars = after.chars();
        match chars.next() {
            None => return true,
            Some(c) if is_han(c) || c.is_alphanumeric() => return false,
            Some(_) => rest = chars.as_str(),
        }
    }
}

/// Visits the run that begins at each start; `gap` bytes separate the parts of a run.
#[inline]
fn each_run(text: &[u8], starts: &[(usize, usize)], gap: usize, mut each: impl FnMut(&[u8])) {
    for (at, &(start, length)) in starts.iter().enumerate() {
        let stop = match starts.get(at + length) {
            Some(&(next, _)) => next - gap,
            None if at + length == starts.len() => text.len(),
            None => continue,
        };
        if let Some(shingle) = text.get(start..stop) {
            each(shingle);
        }
    }
}

/// Returns the hash of one shingle: the lower half of XXH3 (64 bits) of its UTF-8 bytes.
#[must_use]
#[inline]
pub fn hash_of(shingle: &str) -> u32 {
    hash_of_bytes(shingle.as_bytes())
}

#[inline]
fn hash_of_bytes(shingle: &[u8]) -> u32 {
    let [.., a, b, c, d] = xxh3_64(shingle).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// A reusable buffer for the letters and digits of a text, without what is between them, or for its words.
#[derive(Clone, Debug, Default)]
pub struct ShingleBuffer {
    letters: Vec<u8>,
    /// Where each of them begins, and how long a shingle that begins with it is.
    starts: Vec<(usize, usize)>,
}

impl ShingleBuffer {
    /// Clears the buffer for another text.
    pub(super) fn clear(&mut self) {
        self.letters.clear();
        self.starts.clear();
    }

    /// Returns the letters and digits, without what is between them.
    fn letters(&self) -> &str {
        std::str::from_utf8(&self.letters).unwrap_or_default()
    }

    /// Adds the next word of a text.
    pub(super) fn push_word(&mut self, word: &str, lengths: ShingleLengths) {
        if !self.starts.is_empty() {
            self.letters.push(b' ');
        }
        let is_han = word.chars().next().is_some_and(is_han);
        self.starts.push((self.letters.len(), lengths.of(is_han)));
        self.letters.extend_from_slice(word.as_bytes());
    }

    /// Visits each shingle of the words in the buffer.
    fn each_of_words(&self, each: impl FnMut(&[u8])) {
        each_run(&self.letters, &self.starts, 1, each);
    }
}

/// Shorter texts have too few shingles for any judgement.
const MIN_SHINGLES: usize = 64;

/// Shingles are few if one in this many of those in one half of the text is in the other half, too: then most of them are
/// in any text of the same symbols.
const MIN_SHARED: usize = 2;

/// The same, if there are less than this many times more possible shingles than the text has: then they repeat by
/// chance.
const MIN_ROOM: usize = 8;

/// How often a length is doubled at most.
const MAX_DOUBLINGS: usize = 5;

/// Letters that are looked at to find out how many symbols a text has.
const SAMPLE: usize = 256;

/// Replaces `hashes` by the hash of each shingle of a normalised text, and returns how they were cut and how many are
/// distinct ([`Distinct::count`]); if shingles are runs of words, `buffer` holds the words.
pub(super) fn cut(
    shingling: Shingling,
    normal: &str,
    buffer: &mut ShingleBuffer,
    different: &mut Distinct,
    hashes: &mut Vec<u32>,
) -> (Shingling, usize) {
    let fill = |shingling: Shingling, buffer: &mut ShingleBuffer, different: &mut Distinct, hashes: &mut Vec<u32>| {
        hashes.clear();
        shingling.each_bytes(normal, buffer, |shingle| hashes.push(hash_of_bytes(shingle)));
        different.count(hashes)
    };
    let mut distinct = fill(shingling, buffer, different, hashes);
    if shingling.unit != ShingleUnit::Characters
        || hashes.len() < MIN_SHINGLES
        || !are_few(distinct, hashes, different, buffer.letters(), shingling)
    {
        return (shingling, distinct);
    }
    let mut cut = shingling;
    for _ in 0..MAX_DOUBLINGS {
        let longer = Shingling::of_characters(cut.lengths.han.saturating_mul(2), cut.lengths.other.saturating_mul(2));
        let count = fill(longer, buffer, different, hashes);
        let is_enough = count.saturating_mul(10) >= hashes.len().saturating_mul(9);
        // Where whole passages repeat, longer shingles are no more than the shorter ones.
        if hashes.len() < MIN_SHINGLES || (!is_enough && count.saturating_mul(2) < distinct.saturating_mul(3)) {
            break;
        }
        (cut, distinct) = (longer, count);
        if is_enough {
            return (cut, distinct);
        }
    }
    (cut, fill(cut, buffer, different, hashes))
}

/// Returns whether the shingles of a text are too few to tell it from another one of the same symbols.
fn are_few(distinct: usize, hashes: &[u32], different: &mut Distinct, letters: &str, shingling: Shingling) -> bool {
    // Hardly any repeats: so it is with all but long texts.
    if distinct.saturating_mul(10) >= hashes.len().saturating_mul(9) {
        return false;
    }
    let (first, second) = hashes.split_at(hashes.len() / 2);
    let (first, second) = (different.count(first), different.count(second));
    let shared = (first + second).saturating_sub(distinct);
    shared.saturating_mul(MIN_SHARED) >= first.min(second)
        || possible(letters, shingling.lengths.other) < hashes.len().saturating_mul(MIN_ROOM)
}

/// Returns how many shingles of this length the symbols of a text make. Symbols count by their frequency: as many as
/// would meet each other as often if all were equally frequent.
fn possible(letters: &str, length: usize) -> usize {
    let at = |number: usize| letters.get(letters.floor_char_boundary(letters.len() * number / SAMPLE)..);
    let mut sample: [char; SAMPLE] =
        std::array::from_fn(|number| at(number).and_then(|rest| rest.chars().next()).unwrap_or_default());
    sample.sort_unstable();
    let same: usize = sample.chunk_by(|one, next| one == next).map(|run| run.len() * run.len()).sum();
    let all = sample.len() * sample.len();
    // In hundredths, since the base is a small number.
    let hundredths = all.saturating_mul(100).checked_div(same).unwrap_or_default();
    (0..length).fold(100_usize, |possible, _| possible.saturating_mul(hundredths) / 100) / 100
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::seed::split_mix_draw;
    use super::*;

    /// Visits every run of `length` consecutive characters of a text, in order, including repeats. A shorter text has none.
    fn shingles<'t>(text: &'t str, length: usize, mut each: impl FnMut(&'t str)) {
        if length == 0 {
            return;
        }
        let starts = text.char_indices().map(|(at, _)| at);
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8()).skip(length - 1);
        for (start, end) in starts.zip(ends) {
            if let Some(shingle) = text.get(start..end) {
                each(shingle);
            }
        }
    }

    #[test]
    fn the_cat_on_the_mat_has_the_two_grams_of_the_textbook() {
        let mut found: Vec<&str> = Vec::new();
        shingles("the cat sat on the mat", 2, |shingle| {
            if !found.contains(&shingle) {
                found.push(shingle);
            }
        });
        assert_eq!(found, ["th", "he", "e ", " c", "ca", "at", "t ", " s", "sa", " o", "on", "n ", " t", " m", "ma"]);
    }

    fn hashes_of(text: &str, han: usize, other: usize) -> Vec<u32> {
        let mut hashes = Vec::new();
        shingle_hashes(text, ShingleLengths { han, other }, &mut ShingleBuffer::default(), &mut hashes);
        hashes
    }

    proptest! {
        #[test]
        fn shingles_are_runs_of_letters_and_digits(text in "([a-c1]{0,4}|[ .“’]{0,3}|[é天安]{0,2}){0,12}", han in 0_usize..4) {
            let letters: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
            let run = |at: usize| letters.get(at..at + if is_han(letters[at]) { han } else { 3 });
            let runs = (0..letters.len()).filter_map(run).map(|run| hash_of(&run.iter().collect::<String>()));
            prop_assert_eq!(hashes_of(&text, han, 3), runs.collect::<Vec<u32>>());
        }
    }

    #[test]
    fn the_first_character_decides_how_long_a_shingle_is() {
        let hash = |text: &str| u32::try_from(xxh3_64(text.as_bytes()) & 0xffff_ffff).unwrap();
        let expected = ["我爱", "爱A", "A1天", "1天安"].map(hash);
        assert_eq!(hashes_of("我 爱, A.1「天」安", 2, 3)[..4], expected);
        assert_eq!(hashes_of("我 爱, A.1「天」安", 2, 3).len(), 5, "the last one is 天安");
        assert_eq!(hashes_of("天安 cat", 4, 5), hashes_of("天安cat", 4, 5));
    }

    #[test]
    fn runs_of_words_are_cut_by_the_first_one_and_know_neither_marks_nor_stop_words() {
        let analyzer = Analyzer::new(&crate::text::Settings::default()).unwrap();
        let cut = |shingling: Shingling, text: &str| {
            let (mut buffer, mut found, mut hashes) = (ShingleBuffer::default(), Vec::new(), Vec::new());
            shingling.each(&analyzer, text, &mut buffer, |shingle| found.push(shingle.to_owned()));
            shingling.hashes(&analyzer, text, &mut buffer, &mut hashes);
            assert_eq!(hashes, found.iter().map(|shingle| hash_of(shingle)).collect::<Vec<u32>>());
            found
        };
        let text = "北京大学 opened, the rebuilt library's doors; 机器学习";
        let expected = ["北京大学 opened", "opened rebuilt library's", "rebuilt library's doors"];
        let found = cut(Shingling::of_words(2, 3), text);
        assert_eq!(found[..3], expected);
        assert_eq!(found[3..], ["library's doors 机器", "doors 机器 学习", "机器 学习"]);
        assert_eq!(cut(Shingling::of_words(1, 9), text), ["北京大学", "机器", "学习"]);
        assert!(cut(Shingling::of_words(9, 9), text).is_empty() && cut(Shingling::of_words(1, 1), "").is_empty());
        // By characters it is what it was.
        let hashes =
            cut(Shingling::of_characters(2, 3), text).iter().map(|shingle| hash_of(shingle)).collect::<Vec<_>>();
        assert_eq!(hashes, hashes_of(text, 2, 3));
    }

    #[test]
    fn of_one_script_there_are_as_many_hashes_as_shingles() {
        for text in ["the cat sat on the mat", "天安门上太阳升", "été à la plage", ""] {
            let letters: String = text.chars().filter(|c| c.is_alphanumeric()).collect();
            for length in 1..9 {
                let mut expected = Vec::new();
                shingles(&letters, length, |shingle| {
                    expected.push(u32::try_from(xxh3_64(shingle.as_bytes()) & 0xffff_ffff).unwrap());
                });
                assert_eq!(hashes_of(text, length, length), expected);
            }
        }
    }

    #[test]
    fn a_text_shorter_than_a_shingle_has_none() {
        shingles("天安", 3, |_| panic!("no shingle"));
        shingles("天安", 0, |_| panic!("no shingle"));
        let mut found = Vec::new();
        shingles("天安门", 3, |shingle| found.push(shingle));
        assert_eq!(found, ["天安门"]);
    }

    /// Returns the length of the shingles of a text, and how many are distinct of how many.
    fn cut_of(text: &str) -> (usize, usize, usize) {
        let (mut buffer, mut hashes) = (ShingleBuffer::default(), Vec::new());
        let (cut, distinct) =
            cut(Shingling::of_characters(4, 6), text, &mut buffer, &mut Distinct::default(), &mut hashes);
        let mut expected = Vec::new();
        cut.each_buffered(text, &mut buffer, |shingle| expected.push(hash_of(shingle)));
        assert_eq!(hashes, expected, "the hashes are those of the cut");
        (cut.lengths.other, distinct, hashes.len())
    }

    fn random(words: &[&str], count: u64, between: &str) -> String {
        let one = |number| words[usize::try_from(split_mix_draw(number) % words.len() as u64).unwrap()];
        (0..count).map(one).collect::<Vec<_>>().join(between)
    }

    #[test]
    fn texts_of_few_symbols_are_cut_into_longer_shingles() {
        for (name, text) in [
            ("DNA of 1,000 letters", random(&["a", "c", "g", "t"], 1_000, "")),
            ("DNA of 30,000 letters", random(&["a", "c", "g", "t"], 30_000, "")),
            ("bits", random(&["0", "1"], 3_000, "")),
            ("yes and no", random(&["yes", "no"], 1_000, " ")),
            ("drums", random(&["x", "o", "-"], 3_000, " ")),
            ("knitting", random(&["k2", "p2", "k2tog", "yo", "ssk", "sl1", "k1", "p1"], 3_000, ", ")),
            ("a knitted row", random(&["k1", "p1", "k2tog", "yo", "ssk"], 400, " ")),
            ("levels", random(&["low", "medium", "high"], 150, " ")),
            ("ways", random(&["up", "down", "left", "right", "jump"], 150, " ")),
            ("colours", random(&["red", "green", "blue", "yellow", "black", "white", "orange", "purple"], 400, " ")),
            ("notes", random(&["do", "re", "mi", "fa", "sol", "la", "si"], 3_000, " ")),
            ("right and wrong", random(&["对", "错", "未知"], 400, "")),
        ] {
            let (length, distinct, all) = cut_of(&text);
            assert!(length > 6 && distinct * 10 >= all * 9, "{name}: {distinct} of {all} shingles of {length}");
        }
    }

    #[test]
    fn ordinary_texts_are_cut_as_ever_however_often_they_repeat_themselves() {
        let words: Vec<String> = (0..400_u64)
            .map(|word| {
                (0..3 + split_mix_draw(word) % 7)
                    .map(|at| char::from(b'a' + u8::try_from(split_mix_draw(word * 31 + at) % 20).unwrap()))
                    .collect()
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let digits: Vec<String> = (0..10).map(|digit| digit.to_string()).collect();
        let digits: Vec<&str> = digits.iter().map(String::as_str).collect();
        let han: Vec<String> = (0..500_u32).filter_map(|at| char::from_u32(0x4e00 + at)).map(String::from).collect();
        let han: Vec<&str> = han.iter().map(String::as_str).collect();
        for (name, text) in [
            ("short", "yes no yes no".to_owned()),
            ("words", random(&words, 300, " ")),
            ("many words", random(&words, 20_000, " ")),
            ("a passage again and again", random(&words, 40, " ").repeat(30)),
            ("numbers", random(&digits, 8_000, "")),
            ("Chinese", random(&han, 5_000, "")),
            ("one word", "harbour ".repeat(1_000)),
        ] {
            assert_eq!(cut_of(&text).0, 6, "{name}");
        }
    }
}
