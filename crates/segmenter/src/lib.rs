//! Cuts Chinese text into words: exactly those of [jieba-rs](https://github.com/messense/jieba-rs) 0.11 with its own
//! dictionary, `Jieba::cut(run, hmm)` for each run of Han characters, about three times as fast.
//!
//! ```
//! use dupgate_segmenter::{Piece, Scratch, cut};
//!
//! let mut words = Vec::new();
//! cut("我爱北京天安门。OK!", true, &mut Scratch::default(), |piece| {
//!     if let Piece::Word(word) = piece {
//!         words.push(word);
//!     }
//! });
//! assert_eq!(words, ["我", "爱", "北京", "天安门"]);
//! ```
//!
//! **How.** jieba looks up every word of its dictionary that begins at any character, takes the most likely way through
//! them (the product of their frequencies), and gives what is left as single characters to a hidden Markov model, which
//! finds words that the dictionary does not have. The same is done here with other data structures:
//!
//! - The trie is a double array (Aoe 1989) over numbers of characters. A step is one read of eight bytes. The nodes of
//!   all pairs and triples of characters are looked up in loops without branches, so that the processor waits for many
//!   of them at once; only the rare longer words are followed one by one.
//! - The best way (Viterbi 1967) needs no graph: the candidates of a character are compared when they are looked up.
//! - The text is cut in batches of about a thousand characters, whatever stands between the Han characters.
//!
//! **Exactness.** Sums of logarithms are `f64`, added in the order of jieba-rs, and ties are broken alike. The tests
//! compare all words with those of jieba-rs, with and without the model. Characters that [`is_han`] has and jieba-rs takes
//! for punctuation (gaps between blocks, and extensions G to I) are words of their own, as there.
//!
//! **Cost.** Less than 20 ns for each character; no allocation once [`Scratch`] has grown. The tables are built by the build
//! script and are part of the binary, 6.7 MB that are read in place: nothing is loaded or unpacked, the system reads the
//! pages that are touched, and all processes share them. `Scratch` has 30 KB, more only after thousands of Han characters
//! without punctuation.
//!
//! Not here: words of a user, parts of speech, keywords. jieba-rs has them, and [`DICTIONARY`] is what it loads.
//!
//! **Sources.** Dictionary, model and method are those of [jieba](https://github.com/fxsjy/jieba) by Sun Junyi, in the form
//! of jieba-rs 0.11.0 by messense (both MIT).

mod hmm;
mod route;
mod tables;

use std::ops::Range;

use hmm::Step;
use tables::{LONE, Node, OTHER, id_of};

/// The dictionary: `dict.txt` of jieba-rs 0.11.0, unchanged, packed by gzip.
pub const DICTIONARY: &[u8] = include_bytes!("../data/dict_zh.txt.gz");

/// A piece of a text. Together, the pieces are the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'t> {
    /// A word of Han characters.
    Word(&'t str),
    /// All between two Han characters, before the first or after the last one.
    Other(&'t str),
}

/// Memory that is used for one text after another.
#[derive(Debug, Default)]
pub struct Scratch {
    /// One for each Han character, and one for each stretch of other text.
    ids: Vec<u16>,
    /// Bytes of each stretch of other text.
    others: Vec<usize>,
    /// The node of each character and the next one.
    pairs: Vec<Node>,
    /// The node of each character and the next two.
    triples: Vec<Node>,
    /// How many characters the best word has that begins at each one.
    lengths: Vec<u8>,
    steps: Vec<Step>,
}

/// How many characters are cut at once, so that their arrays stay in the fastest cache. Stretches are not divided.
const BATCH: usize = 1024;

/// Memory for more characters is not kept.
const MAX_KEPT: usize = 1 << 18;

/// Returns whether a character is Han: the blocks of unified and compatibility ideographs, up to extension H.
#[must_use]
pub fn is_han(c: char) -> bool {
    id_of(c) != OTHER
}

/// Passes the pieces of a text to `each` in order. `hmm` finds words that the dictionary does not have.
pub fn cut<'t>(text: &'t str, hmm: bool, scratch: &mut Scratch, each: impl FnMut(Piece<'t>)) {
    let mut pieces = Pieces { rest: text, is_wide: false, each };
    while !pieces.rest.is_empty() {
        pieces.is_wide = scratch.read(pieces.rest);
        route::find(&scratch.ids, &scratch.pairs, &scratch.triples, &mut scratch.lengths);
        scratch.pass(hmm, &mut pieces);
    }
    if scratch.ids.capacity() > MAX_KEPT {
        *scratch = Scratch::default();
    }
}

impl Scratch {
    /// Reads the first stretches of a text. Returns whether some Han characters have four bytes instead of three.
    fn read(&mut self, text: &str) -> bool {
        let Self { ids, others, pairs, triples, lengths, .. } = self;
        ids.clear();
        others.clear();
        let mut is_wide = false;
        let mut rest = text;
        while !rest.is_empty() && ids.len() < BATCH {
            let other = length_of_other(rest);
            if other > 0 {
                others.push(other);
                ids.push(OTHER);
                rest = rest.get(other..).unwrap_or_default();
            }
            let mut chars = rest.chars();
            while let Some(c) = chars.next() {
                let id = id_of(c);
                if id == OTHER {
                    break;
                }
                ids.push(id);
                is_wide |= c > '\u{ffff}';
                rest = chars.as_str();
            }
        }
        pairs.clear();
        pairs.extend(ids.iter().zip(ids.iter().skip(1)).map(|(first, next)| Node::first(*first).child(*next)));
        pairs.resize(ids.len(), Node::default());
        triples.clear();
        triples.extend(pairs.iter().zip(ids.iter().skip(2)).map(|(pair, next)| pair.child(*next)));
        triples.resize(ids.len(), Node::default());
        lengths.resize(ids.len(), 0);
        is_wide
    }

    /// Passes on the words of the best way.
    fn pass<'t>(&mut self, hmm: bool, pieces: &mut Pieces<'t, impl FnMut(Piece<'t>)>) {
        let Self { ids, others, pairs, lengths, steps, .. } = self;
        let mut others = others.iter();
        // The position, and how many single characters are right before it.
        let (mut position, mut singles) = (0, 0);
        while let (Some(id), Some(length)) = (ids.get(position), lengths.get(position)) {
            let (id, length) = (*id, usize::from(*length));
            if hmm && length == 1 && id > LONE {
                singles += 1;
                position += 1;
                continue;
            }
            if singles > 0 {
                pass_singles(ids, pairs, position - singles..position, steps, pieces);
                singles = 0;
            }
            if id == OTHER {
                pieces.pass_other(others.next().copied().unwrap_or_default());
            } else {
                pieces.pass_word(length);
            }
            position += length;
        }
        if singles > 0 {
            pass_singles(ids, pairs, position - singles..position, steps, pieces);
        }
    }
}

/// Passes on single characters in a row as the model joins them. If together they are a word that was less likely than
/// they are, they stay single.
#[inline]
fn pass_singles<'t>(
    ids: &[u16],
    pairs: &[Node],
    run: Range<usize>,
    steps: &mut Vec<Step>,
    pieces: &mut Pieces<'t, impl FnMut(Piece<'t>)>,
) {
    if run.len() == 1 {
        pieces.pass_word(1);
        return;
    }
    let pair = pairs.get(run.start).copied().unwrap_or_default();
    let run = ids.get(run).unwrap_or_default();
    if run.iter().skip(2).fold(pair, |node, id| node.child(*id)).is_word() {
        run.iter().for_each(|_| pieces.pass_word(1));
    } else {
        hmm::cut(run, steps, |length| pieces.pass_word(length));
    }
}

/// Returns how many bytes are before the first Han character.
fn length_of_other(text: &str) -> usize {
    let mut length = 0;
    while let Some(rest) = text.get(length..) {
        // The first byte of a Han character is not smaller.
        let Some(next) = rest.bytes().position(|byte| byte >= 0xe3) else { return text.len() };
        length += next;
        match rest.get(next..).and_then(|rest| rest.chars().next()) {
            Some(c) if !is_han(c) => length += c.len_utf8(),
            _ => break,
        }
    }
    length
}

/// The text that is left, and who takes its pieces.
struct Pieces<'t, F> {
    rest: &'t str,
    /// Whether some Han characters have four bytes instead of three.
    is_wide: bool,
    each: F,
}

impl<'t, F: FnMut(Piece<'t>)> Pieces<'t, F> {
    #[inline]
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn pass_other(&mut self, bytes: usize) {
        let other = self.take(bytes);
        (self.each)(Piece::Other(other));
    }

    #[inline]
    fn pass_word(&mut self, characters: usize) {
        let bytes =
            if self.is_wide { self.rest.chars().take(characters).map(char::len_utf8).sum() } else { 3 * characters };
        let word = self.take(bytes);
        (self.each)(Piece::Word(word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_unless_it_is_huge() {
        let mut scratch = Scratch::default();
        let pages = "我爱北京天安门，".repeat(10_000);
        cut(&pages, true, &mut scratch, |_| {});
        let first = (scratch.ids.capacity(), scratch.pairs.as_ptr());
        assert!(first.0 < 4 * BATCH, "cut in batches");
        cut(&pages, true, &mut scratch, |_| {});
        assert_eq!((scratch.ids.capacity(), scratch.pairs.as_ptr()), first);
        cut(&"天".repeat(2 * MAX_KEPT), true, &mut scratch, |_| {});
        assert_eq!(scratch.ids.capacity(), 0);
    }
}
