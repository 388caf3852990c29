//! The words right before and after a number.

use crate::text::is_han;

/// A longer word is in none of the lists.
const MAX_LETTERS: usize = 24;

/// The most spaces and marks between a number and its label.
const MAX_GAP: usize = 4;

fn is_letter(c: char) -> bool {
    c.is_alphabetic() || c == '\''
}

/// Returns the bytes of the letters among these characters, up to the first that is none. 0 for a long word, and for one
/// that meets a Chinese character first: no list has such words.
fn letters(chars: impl Iterator<Item = char>) -> usize {
    let (mut count, mut bytes) = (0, 0);
    for c in chars {
        if count == 0 && is_han(c) {
            return 0;
        }
        if !is_letter(c) {
            break;
        }
        count += 1;
        bytes += c.len_utf8();
        if count > MAX_LETTERS {
            return 0;
        }
    }
    bytes
}

/// Returns whether a sorted list has a word.
pub(super) fn has(list: &[&str], word: &str) -> bool {
    !word.is_empty() && list.binary_search(&word).is_ok()
}

/// Returns whether a sorted list has the first word, or the first two words, of a text.
pub(super) fn begins_with_one_of(list: &[&str], text: &str) -> bool {
    let one = first_word(text);
    if one.is_empty() {
        return false;
    }
    has(list, one)
        || text.get(one.len()..).and_then(|rest| rest.strip_prefix(' ')).is_some_and(|rest| {
            let other = first_word(rest);
            !one.is_empty()
                && !other.is_empty()
                && has(list, text.get(..one.len() + 1 + other.len()).unwrap_or_default())
        })
}

/// Returns whether a sorted list has the last word, or the last two words, of a text.
pub(super) fn ends_with_one_of(list: &[&str], text: &str) -> bool {
    let one = last_word(text);
    if one.is_empty() {
        return false;
    }
    has(list, one)
        || text.strip_suffix(one).and_then(|rest| rest.strip_suffix(' ')).is_some_and(|rest| {
            let both = last_word(rest).len() + 1 + one.len();
            both > one.len() + 1 && has(list, text.get(text.len() - both..).unwrap_or_default())
        })
}

/// Returns the word that a text begins with. Empty if it begins with no letter or with a Chinese character, or the word is
/// long.
pub(super) fn first_word(text: &str) -> &str {
    text.get(..letters(text.chars())).unwrap_or_default()
}

/// Returns the word that a text ends with. Empty if it ends with no letter or with a Chinese character, or the word is
/// long.
pub(super) fn last_word(text: &str) -> &str {
    text.get(text.len() - letters(text.chars().rev())..).unwrap_or_default()
}

/// Leaves out the characters that may be between a number and what follows it.
pub(super) fn skip(text: &str, is_between: impl Fn(char) -> bool) -> &str {
    let skipped = text.chars().take(MAX_GAP).take_while(|c| is_between(*c)).map(char::len_utf8).sum();
    text.get(skipped..).unwrap_or_default()
}

/// Leaves out the characters that may be between a number and what precedes it.
pub(super) fn skip_back(text: &str, is_between: impl Fn(char) -> bool) -> &str {
    let skipped: usize = text.chars().rev().take(MAX_GAP).take_while(|c| is_between(*c)).map(char::len_utf8).sum();
    text.get(..text.len() - skipped).unwrap_or_default()
}

/// Leaves out `de`, which Romance languages put between a large number and its noun: `20 de minute`.
pub(super) fn skip_preposition(text: &str) -> &str {
    text.strip_prefix("de ").or_else(|| text.strip_prefix("di ")).unwrap_or(text)
}

/// Cuts off the number that a text begins with.
pub(super) fn number(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(digits).filter(|_| digits > 0)
}

#[cfg(test)]
pub(super) fn assert_sorted(lists: &[&[&str]]) {
    for list in lists {
        assert!(list.is_sorted_by(|one, next| one < next), "{list:?}");
        for word in *list {
            let letters = word.split(' ').all(|word| !word.is_empty() && first_word(word) == word);
            assert!(letters && word.split(' ').count() <= 2, "{word}: cannot be found");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_word_or_two_are_looked_up() {
        let list = ["me gusta", "views"];
        for (text, found) in
            [("views", true), ("views of", true), ("me gusta", true), ("me", false), ("viewsof", false)]
        {
            assert_eq!(begins_with_one_of(&list, text), found, "{text}");
        }
        for (text, found) in [("the views", true), ("no me gusta", true), ("gusta", false), ("reviews", false)] {
            assert_eq!(ends_with_one_of(&list, text), found, "{text}");
        }
        assert_eq!(first_word(&"a".repeat(MAX_LETTERS + 1)), "");
        assert_eq!(last_word(&"a".repeat(MAX_LETTERS)).len(), MAX_LETTERS);
        assert_eq!((first_word("views浏览"), first_word("浏览views"), last_word("views浏览")), ("views浏览", "", ""));
    }

    proptest! {
        #[test]
        fn any_text_has_a_first_and_a_last_word(text in ".{0,40}", words in "[a-zäя한 ':]{0,40}") {
            for text in [&text, &words] {
                prop_assert!(text.starts_with(first_word(text)) && text.ends_with(last_word(text)));
                prop_assert!(text.ends_with(skip(text, char::is_whitespace)));
                prop_assert!(text.starts_with(skip_back(text, char::is_whitespace)));
                begins_with_one_of(&["a b"], text);
                ends_with_one_of(&["a b"], text);
            }
        }
    }
}
