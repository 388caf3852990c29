//! The length of a text without its blanks.

/// Counts the characters that are no blanks.
pub(super) fn solid(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}
