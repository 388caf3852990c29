//! What of a text is seen.

/// Counts the characters that are not whitespace.
pub(super) fn non_whitespace_chars(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

/// Returns whether a text shows nothing: whitespace, byte order marks and zero-width spaces.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || matches!(c, '\u{200b}' | '\u{2060}' | '\u{feff}'))
}
