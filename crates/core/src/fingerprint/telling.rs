//! How long shingles have to be to tell texts apart.
//!
//! Texts of few symbols have few different shingles: a sequence of DNA has at most 4,096 of six letters, and tables of
//! "yes" and "no" have some dozens. Any two long ones share nearly all of them, so that the estimate says nothing. Such
//! texts are cut into longer shingles, until these repeat as seldom as those of other texts.
//!
//! Cost: of ordinary texts, none beyond the count of distinct shingles, which the sketch holds anyway.

use super::minhash::Distinct;
use super::shingle::{ShingleBuffer, ShingleUnit, Shingling, hash_of};

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
        shingling.each_buffered(normal, buffer, |shingle| hashes.push(hash_of(shingle)));
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
    let mut sample: Vec<char> = (0..SAMPLE).filter_map(|number| at(number)?.chars().next()).collect();
    sample.sort_unstable();
    let same: usize = sample.chunk_by(|one, next| one == next).map(|run| run.len() * run.len()).sum();
    let all = sample.len() * sample.len();
    // In hundredths, since the base is a small number.
    let hundredths = all.saturating_mul(100).checked_div(same).unwrap_or_default();
    (0..length).fold(100_usize, |possible, _| possible.saturating_mul(hundredths) / 100) / 100
}

#[cfg(test)]
mod tests {
    use super::super::seed::split_mix_draw;
    use super::*;

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
