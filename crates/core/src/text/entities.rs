//! Character references of HTML: `&amp;`, `&#20320;`.

use html5ever::data::{C1_REPLACEMENTS, NAMED_ENTITIES};

/// The longest name of a reference, with its semicolon.
const LONGEST_NAME: usize = 32;

/// The context of a text. In an attribute, an address such as `?a=1&copy=2` keeps its `&copy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Between tags.
    Text,
    /// In the value of an attribute.
    Attribute,
}

/// Appends a text with its references replaced by their characters. Everything else stays as it is.
pub(super) fn decode_into(mut text: &str, place: Place, out: &mut String) {
    while let Some((before, rest)) = text.split_once('&') {
        out.push_str(before);
        text = rest;
        let read = if let Some(number) = rest.strip_prefix('#') {
            numeric(number, out).map(|length| length + 1)
        } else {
            named(rest, place, out)
        };
        match read {
            Some(length) => text = rest.get(length..).unwrap_or_default(),
            None => out.push('&'),
        }
    }
    out.push_str(text);
}

/// Reads `20320;` or `x4f60;`. Returns the bytes read.
fn numeric(text: &str, out: &mut String) -> Option<usize> {
    let hex = text.strip_prefix(['x', 'X']);
    let (digits, radix) = hex.map_or((text, 10), |digits| (digits, 16));
    let length = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let digits = digits.get(..length).filter(|digits| !digits.is_empty())?;
    let code = u32::from_str_radix(digits, radix).unwrap_or(u32::MAX);
    let replaced = code.checked_sub(0x80).and_then(|place| usize::try_from(place).ok());
    let replaced = replaced.and_then(|place| C1_REPLACEMENTS.get(place).copied().flatten());
    let known = replaced.or_else(|| char::from_u32(code).filter(|c| *c != '\0'));
    out.push(known.unwrap_or(char::REPLACEMENT_CHARACTER));
    let read = text.len() - text.trim_start_matches(['x', 'X']).len();
    let read = read.min(usize::from(hex.is_some())) + length;
    Some(read + usize::from(text.get(read..).is_some_and(|rest| rest.starts_with(';'))))
}

/// Reads `amp;`, or `amp` if that is allowed. Returns the bytes read.
fn named(text: &str, place: Place, out: &mut String) -> Option<usize> {
    let letters = text.bytes().take(LONGEST_NAME).take_while(u8::is_ascii_alphanumeric).count();
    let longest = letters + usize::from(text.as_bytes().get(letters) == Some(&b';'));
    let found = (1..=longest).rev().find_map(|length| {
        let name = text.get(..length)?;
        NAMED_ENTITIES.get(name).filter(|(first, _)| *first != 0).map(|found| (name, *found))
    });
    let (name, (first, second)) = found?;
    let next = text.as_bytes().get(name.len());
    let goes_on = next.is_some_and(|byte| *byte == b'=' || byte.is_ascii_alphanumeric());
    if place == Place::Attribute && !name.ends_with(';') && goes_on {
        return None;
    }
    out.extend(char::from_u32(first));
    out.extend(char::from_u32(second).filter(|c| *c != '\0'));
    Some(name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str, place: Place) -> String {
        let mut out = String::new();
        decode_into(text, place, &mut out);
        out
    }

    #[test]
    fn references_become_what_they_stand_for() {
        for (text, expected) in [
            ("a &amp; b &lt;c&gt;", "a & b <c>"),
            ("&#20320;&#x597d;&#X597D", "你好好"),
            ("&nbsp;&hellip;&#150;", "\u{a0}…–"),
            ("&notit; &notin; &nosuch; & &; &#; &#x; &#xd800;", "¬it; ∉ &nosuch; & &; &#; &#x; \u{fffd}"),
            ("AT&T &ampx", "AT&T &x"),
        ] {
            assert_eq!(decoded(text, Place::Text), expected, "{text}");
        }
    }

    #[test]
    fn an_address_keeps_what_looks_like_a_reference() {
        assert_eq!(decoded("/?a=1&copy=2&amp;lt=3&para;", Place::Attribute), "/?a=1&copy=2&lt=3¶");
        assert_eq!(decoded("&copy", Place::Attribute), "©");
    }
}
