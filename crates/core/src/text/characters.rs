//! The length of a text without its whitespace.

/// Counts the characters that are not whitespace.
pub(super) fn non_whitespace_chars(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}
