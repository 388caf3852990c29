//! Computes readable differences of two normalised texts.

use crate::compare::{Comparison, Run, Side};
use crate::text::Analyzer;

/// Changes that are closer together than this many characters are joined.
const NEAR: usize = 6;
/// Characters shown before and after a change.
const AROUND: usize = 20;

/// The differences.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Diff {
    /// The changes, in the order of the texts.
    pub(in crate::cli) changes: Vec<Change>,
    /// Share of the characters of both texts that are equal, 0 to 1.
    pub(in crate::cli) equal: f64,
    /// Whether only the beginning was compared, because a text is too long.
    pub(in crate::cli) is_cut: bool,
}

/// One stretch of text that became another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Change {
    /// The end of the equal text before it.
    pub(in crate::cli) before: String,
    /// What is only in the first text.
    pub(in crate::cli) gone: String,
    /// What is only in the second text.
    pub(in crate::cli) come: String,
    /// The beginning of the equal text after it.
    pub(in crate::cli) after: String,
}

/// A stretch of both texts.
#[derive(Clone, Debug)]
struct Stretch {
    gone: String,
    come: String,
    is_equal: bool,
}

/// Compares two texts as [`crate::text::Analyzer::normalize`] leaves them, word by word.
pub(in crate::cli) fn diff(analyzer: &Analyzer, one: &str, other: &str) -> Diff {
    let Comparison { runs, is_cut, .. } = Comparison::of(analyzer, one, other);
    let stretches = stretches(runs);
    let length = |text: &str| text.chars().count();
    let equal: usize = stretches.iter().filter(|stretch| stretch.is_equal).map(|stretch| length(&stretch.gone)).sum();
    let all: usize = stretches.iter().map(|stretch| length(&stretch.gone) + length(&stretch.come)).sum();
    #[expect(clippy::cast_precision_loss, reason = "a share of characters, for people")]
    let equal = if all == 0 { 1.0 } else { (2 * equal) as f64 / all as f64 };
    Diff { changes: changes(&stretches), equal, is_cut }
}

/// Joins the removed and the added text at one place.
fn stretches(runs: Vec<Run>) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for Run { side, text } in runs {
        let is_equal = side == Side::Both;
        let (gone, come) = match side {
            Side::Both => (text.clone(), text),
            Side::First => (text, String::new()),
            Side::Second => (String::new(), text),
        };
        match stretches.last_mut() {
            Some(last) if !last.is_equal && !is_equal => {
                last.gone.push_str(&gone);
                last.come.push_str(&come);
            }
            Some(_) | None => stretches.push(Stretch { gone, come, is_equal }),
        }
    }
    stretches
}

/// Joins changes that are close together, and adds the context of each.
fn changes(stretches: &[Stretch]) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    // Equal text after the last change, and whether there was a change at all.
    let mut equal = String::new();
    let mut open = false;
    for stretch in stretches {
        if stretch.is_equal {
            equal.push_str(&stretch.gone);
            continue;
        }
        let joins = open && equal.chars().count() < NEAR;
        if !joins {
            if let Some(last) = changes.last_mut() {
                last.after = first(&equal, AROUND);
            }
            changes.push(Change { before: last(&equal, AROUND), ..Change::default() });
            equal.clear();
        }
        if let Some(change) = changes.last_mut() {
            change.gone.push_str(&equal);
            change.gone.push_str(&stretch.gone);
            change.come.push_str(&equal);
            change.come.push_str(&stretch.come);
        }
        equal.clear();
        open = true;
    }
    if let Some(last) = changes.last_mut() {
        last.after = first(&equal, AROUND);
    }
    changes
}

/// Returns the beginning of a text, up to a whole word if there are blanks.
fn first(text: &str, characters: usize) -> String {
    let head: String = text.chars().take(characters).collect();
    match head.rsplit_once(' ') {
        Some((whole, _)) if head.len() < text.len() => whole.to_owned(),
        Some(_) | None => head,
    }
}

/// Returns the end of a text, from a whole word on if there are blanks.
fn last(text: &str, characters: usize) -> String {
    let skipped = text.chars().count().saturating_sub(characters);
    let tail: String = text.chars().skip(skipped).collect();
    match tail.split_once(' ') {
        Some((_, whole)) if skipped > 0 => whole.to_owned(),
        Some(_) | None => tail,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::Settings;

    fn diff(one: &str, other: &str) -> Diff {
        super::diff(&Analyzer::new(&Settings::default()).unwrap(), one, other)
    }

    fn change(before: &str, gone: &str, come: &str, after: &str) -> Change {
        let [before, gone, come, after] = [before, gone, come, after].map(str::to_owned);
        Change { before, gone, come, after }
    }

    #[test]
    fn changed_words_are_between_their_context() {
        let found = diff("the old hall burned. nobody was hurt.", "the new hall burned. nobody was hurt, they said.");
        let expected =
            [change("the ", "old", "new", " hall burned."), change("nobody was hurt", "", ", they said", ".")];
        assert_eq!(found.changes, expected);
        assert!((0.7..0.9).contains(&found.equal), "{}", found.equal);
    }

    #[test]
    fn chinese_is_compared_word_by_word() {
        let found = diff("本市气象台预计明日有大雨，市民应注意安全。", "本市气象台预计明日有小雪，市民应注意安全。");
        assert_eq!(found.changes, [change("本市气象台预计明日有", "大雨", "小雪", "，市民应注意安全。")]);
    }

    #[test]
    fn changes_close_together_are_one() {
        let found = diff("at 08:12 o'clock, 1024 readers", "at 21:40 o'clock, 3377 readers");
        assert_eq!(found.changes.len(), 2, "{found:?}");
        assert_eq!((found.changes[0].gone.as_str(), found.changes[0].come.as_str()), ("08:12", "21:40"));
    }

    #[test]
    fn equal_texts_have_no_change_and_unrelated_ones_one() {
        assert_eq!(diff("a b", "a b"), Diff { changes: Vec::new(), equal: 1.0, is_cut: false });
        assert_eq!(diff("", ""), Diff { changes: Vec::new(), equal: 1.0, is_cut: false });
        assert_eq!(diff("甲", "乙"), Diff { changes: vec![change("", "甲", "乙", "")], equal: 0.0, is_cut: false });
    }

    proptest! {
        /// Texts so short that the context of a change is not cut.
        #[test]
        fn removed_and_added_text_make_up_the_difference(one in "[ab甲乙. ]{0,18}", other in "[ab甲乙. ]{0,18}") {
            let found = diff(&one, &other);
            let (mut rest, mut made) = (one.as_str(), String::new());
            for change in &found.changes {
                rest = rest.strip_prefix(&change.before).unwrap().strip_prefix(&change.gone).unwrap();
                made = made + &change.before + &change.come;
            }
            prop_assert_eq!(made + rest, other);
        }
    }
}
