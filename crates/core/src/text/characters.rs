//! What of a text is seen.

/// Counts the characters that are not whitespace.
pub(super) fn non_whitespace_chars(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

/// Returns whether a text shows nothing: whitespace, byte order marks and zero-width spaces.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || matches!(c, '\u{200b}' | '\u{2060}' | '\u{feff}'))
}

/// Cuts a text where characters of a kind begin or end, and returns each stretch with whether it is of that kind. Together
/// the stretches are the text.
pub(super) fn stretches(text: &str, is_of_kind: fn(char) -> bool) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let kind = is_of_kind(rest.chars().next()?);
        let length = rest.find(|c| is_of_kind(c) != kind).unwrap_or(rest.len());
        let (stretch, after) = rest.split_at(length);
        rest = after;
        Some((kind, stretch))
    })
}
