//! What differs between two texts, for people who check a verdict.
//!
//! Before: two pages that were matched, in the form in which they are compared ([`crate::text::Analyzer::normalize`]).
//! After: the pair page. Nothing here affects a verdict.
//!
//! Texts are cut into the words of the analyzer (Chinese ones by the segmenter) and the pieces between two words, so
//! the pieces of a text together are the text. Where words overlap (Thai), each piece ends where the next one begins.
//! Cost: the time and memory of Myers' algorithm over at most [`MAX_PIECES`] pieces a side.

use similar::{Algorithm, DiffOp};

use crate::text::Analyzer;

/// Pieces of each text that are compared. The rest is left out and reported as such.
pub(crate) const MAX_PIECES: usize = 6000;

/// Which of the two texts a run belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Of both.
    Both,
    /// Of the first text only.
    First,
    /// Of the second text only.
    Second,
}

/// A piece of text that belongs to one side or to both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The text it belongs to.
    pub side: Side,
    /// The text.
    pub text: String,
}

/// What two texts have in common, and what only one of them has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Both texts in order. The runs of [`Side::Both`] and [`Side::First`] together are the first text.
    pub runs: Vec<Run>,
    /// Words of the first text that were compared.
    pub first_words: usize,
    /// Words of the second text that were compared.
    pub second_words: usize,
    /// Words that both have in the same order.
    pub common_words: usize,
    /// Whether a text was longer than the part that was compared.
    pub is_cut: bool,
}

struct Pieces<'t> {
    texts: Vec<&'t str>,
    is_word: Vec<bool>,
    is_cut: bool,
}

fn pieces<'t>(analyzer: &Analyzer, text: &'t str) -> Pieces<'t> {
    let mut found = Pieces { texts: Vec::new(), is_word: Vec::new(), is_cut: false };
    let (mut last, mut end) = (0, 0);
    analyzer.words(text, |word| {
        let Some(begin) = word.text.as_ptr().addr().checked_sub(text.as_ptr().addr()) else { return };
        let overlaps = begin < end;
        // A segmenter may name a part of a word again.
        if overlaps && begin <= last || found.is_cut {
            return;
        }
        if found.texts.len() + 2 > MAX_PIECES {
            found.is_cut = true;
            return;
        }
        if overlaps {
            // A word that overlaps the next one ends where that begins.
            found.texts.pop();
            found.is_word.pop();
            found.put(text.get(last..begin), true);
        } else {
            found.put(text.get(end..begin), false);
        }
        (last, end) = (begin, begin + word.text.len());
        found.put(text.get(begin..end), true);
    });
    if !found.is_cut {
        found.put(text.get(end..), false);
    }
    found
}

impl<'t> Pieces<'t> {
    fn put(&mut self, text: Option<&'t str>, is_word: bool) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.texts.push(text);
            self.is_word.push(is_word);
        }
    }

    fn words(&self, from: usize, count: usize) -> usize {
        self.is_word.iter().skip(from).take(count).filter(|is_word| **is_word).count()
    }
}

impl Comparison {
    /// Compares two texts, both as [`Analyzer::normalize`] leaves them.
    #[must_use]
    pub fn of(analyzer: &Analyzer, first: &str, second: &str) -> Self {
        let (first, second) = (pieces(analyzer, first), pieces(analyzer, second));
        let mut found = Self {
            first_words: first.words(0, usize::MAX),
            second_words: second.words(0, usize::MAX),
            is_cut: first.is_cut || second.is_cut,
            ..Self::default()
        };
        for op in similar::capture_diff_slices(Algorithm::Myers, &first.texts, &second.texts) {
            match op {
                DiffOp::Equal { old_index, len, .. } => {
                    found.common_words += first.words(old_index, len);
                    found.put(Side::Both, &first.texts, old_index, len);
                }
                DiffOp::Delete { old_index, old_len, .. } => found.put(Side::First, &first.texts, old_index, old_len),
                DiffOp::Insert { new_index, new_len, .. } => found.put(Side::Second, &second.texts, new_index, new_len),
                DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                    found.put(Side::First, &first.texts, old_index, old_len);
                    found.put(Side::Second, &second.texts, new_index, new_len);
                }
            }
        }
        found
    }

    fn put(&mut self, side: Side, texts: &[&str], from: usize, count: usize) {
        let text = texts.iter().skip(from).take(count).copied().collect::<String>();
        self.runs.push(Run { side, text });
    }

    /// Returns whether nothing differs.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.runs.iter().all(|run| run.side == Side::Both)
    }

    /// Returns what differs, with at most `around` characters of common text on either side, each run cut at `longest`
    /// characters, and at most `most` runs. `…` marks what is left out.
    #[must_use]
    pub fn excerpts(&self, around: usize, longest: usize, most: usize) -> Vec<Run> {
        let last = self.runs.len().saturating_sub(1);
        let shorten = |(at, run): (usize, &Run)| {
            let text = match run.side {
                Side::Both => {
                    middle_left_out(&run.text, if at == 0 { 0 } else { around }, if at == last { 0 } else { around })
                }
                Side::First | Side::Second => beginning(&run.text, longest),
            };
            Run { side: run.side, text }
        };
        let mut found: Vec<Run> = self.runs.iter().enumerate().take(most).map(shorten).collect();
        if self.runs.len() > most || self.is_cut {
            found.push(Run { side: Side::Both, text: "…".to_owned() });
        }
        found
    }
}

/// Returns the first `most` characters, with `…` if more follow.
#[must_use]
pub fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn middle_left_out(text: &str, head: usize, tail: usize) -> String {
    let count = text.chars().count();
    if count <= head + tail + 1 {
        return text.to_owned();
    }
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::Settings;

    fn analyzer() -> Analyzer {
        Analyzer::new(&Settings::default()).unwrap()
    }

    fn joined(comparison: &Comparison, other: Side) -> String {
        comparison.runs.iter().filter(|run| run.side != other).map(|run| run.text.as_str()).collect()
    }

    fn shown(runs: &[Run]) -> Vec<(Side, &str)> {
        runs.iter().map(|run| (run.side, run.text.as_str())).collect()
    }

    #[test]
    fn chinese_differs_by_words_and_not_by_characters() {
        let compared = Comparison::of(&analyzer(), "北京大学今天开学", "北京今天开学");
        assert_eq!(
            shown(&compared.runs),
            [(Side::First, "北京大学"), (Side::Second, "北京"), (Side::Both, "今天开学")]
        );
        assert_eq!((compared.first_words, compared.second_words, compared.common_words), (3, 3, 2));
    }

    #[test]
    fn a_text_without_blanks_differs_by_characters() {
        let compared = Comparison::of(&analyzer(), "ระดับน้ำในแม่น้ำสูงขึ้น", "ระดับน้ำในแม่น้ำใหญ่สูงขึ้น");
        assert_eq!(shown(&compared.runs), [(Side::Both, "ระดับน้ำในแม่น้ำ"), (Side::Second, "ใหญ่"), (Side::Both, "สูงขึ้น")]);
    }

    #[test]
    fn excerpts_show_what_differs_and_a_little_around_it() {
        let (before, after) = ("aaa bbb ".repeat(20), " ccc ddd".repeat(20));
        let analyzer = analyzer();
        let compared =
            Comparison::of(&analyzer, &format!("{before}price 17{after}"), &format!("{before}price 18{after}"));
        assert_eq!(
            shown(&compared.excerpts(7, 10, 9)),
            [(Side::Both, "… price "), (Side::First, "17"), (Side::Second, "18"), (Side::Both, " ccc dd…")]
        );
        let strangers = Comparison::of(&analyzer, "one two three four", "five");
        assert_eq!(shown(&strangers.excerpts(7, 5, 1)), [(Side::First, "one t…"), (Side::Both, "…")]);
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_and_said_to_be() {
        let long = "word ".repeat(MAX_PIECES);
        let compared = Comparison::of(&analyzer(), &long, &long);
        assert!(compared.is_cut && compared.is_equal() && compared.common_words < MAX_PIECES);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn both_texts_can_be_put_together_from_the_runs(
            first in "[ab的 一二,xกข\u{e48}]{0,60}",
            second in "[ab的 一二,xกข\u{e48}]{0,60}",
        ) {
            let compared = Comparison::of(&analyzer(), &first, &second);
            prop_assert_eq!(joined(&compared, Side::Second), first.clone());
            prop_assert_eq!(joined(&compared, Side::First), second.clone());
            prop_assert_eq!(compared.is_equal(), first == second);
        }
    }
}
