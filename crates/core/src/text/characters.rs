//! The length of a text without its whitespace.

/// Counts the characters that are no whitespace.
pub(super) fn non_whitespace_chars(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}
