//! Runs of characters as features, for the stages that compare sets.

use crate::text::is_han;
use xxhash_rust::xxh3::xxh3_64;

/// How many characters make a shingle, by script (`match.minhash.shingle`).
///
/// A Chinese character says as much as one or two English syllables, so runs of it are shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShingleLengths {
    /// Where the shingle begins with a Han character.
    pub han: usize,
    /// Elsewhere.
    pub other: usize,
}

/// Replaces `hashes` by the hash of each shingle of a text, in order, repeats included: the lower half of XXH3
/// (64 bits) of its UTF-8 bytes.
pub fn shingle_hashes(text: &str, lengths: ShingleLengths, letters: &mut Letters, hashes: &mut Vec<u32>) {
    hashes.clear();
    each_shingle(text, lengths, letters, |shingle| hashes.push(hash_of(shingle)));
}

/// Hands out each shingle of a text, in order, repeats included.
///
/// Letters and digits count, blanks and punctuation do not: they are left out before shingles are cut, in `letters`.
/// A shingle begins at each letter from which enough letters follow; its first one decides how many.
#[inline]
pub fn each_shingle(text: &str, lengths: ShingleLengths, letters: &mut Letters, mut each: impl FnMut(&str)) {
    let Letters { text: stripped, starts } = letters;
    stripped.clear();
    starts.clear();
    for c in text.chars() {
        // Nearly all letters are one of the first two kinds, which need no look into a table.
        let han = is_han(c);
        if han || c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphanumeric()) {
            starts.push((stripped.len(), if han { lengths.han } else { lengths.other }));
            stripped.push(c);
        }
    }
    let end = stripped.len();
    for (at, &(start, length)) in starts.iter().enumerate() {
        let stop = match starts.get(at + length) {
            Some(&(stop, _)) => stop,
            None if at + length == starts.len() => end,
            None => continue,
        };
        if let Some(shingle) = stripped.get(start..stop) {
            each(shingle);
        }
    }
}

/// Returns the hash of one shingle: the lower half of XXH3 (64 bits) of its UTF-8 bytes.
#[must_use]
pub fn hash_of(shingle: &str) -> u32 {
    let [.., a, b, c, d] = xxh3_64(shingle.as_bytes()).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// The letters of a text without what stands between them: a buffer that is used again and again.
#[derive(Clone, Debug, Default)]
pub struct Letters {
    text: String,
    /// Where each begins, and how long a shingle that begins with it is.
    starts: Vec<(usize, usize)>,
}

/// Hands out every run of `length` consecutive characters of a text, in order, repeats included. A shorter text has
/// none.
pub fn shingles<'t>(text: &'t str, length: usize, mut each: impl FnMut(&'t str)) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
        shingle_hashes(text, ShingleLengths { han, other }, &mut Letters::default(), &mut hashes);
        hashes
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
}
