//! HTML cut into tags and text in one pass, without a tree; character references (`&amp;`, `&#20320;`), and the
//! elements that need special handling.

use html5ever::data::{C1_REPLACEMENTS, NAMED_ENTITIES};

use super::nesting::{LONG, RAW, end_of_raw, is_any, name_of, tag_end};

/// A piece of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'h> {
    /// Text between tags, with its character references.
    Text(&'h str),
    /// The content of one of the elements of [`RAW`].
    Raw(&'h str),
    /// A start tag.
    Start(Tag<'h>),
    /// An end tag, by its name.
    End(&'h str),
}

/// A start tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag<'h> {
    /// The name of the element, as it is written.
    pub(super) name: &'h str,
    /// What is between the name and the end of the tag.
    attributes: &'h str,
}

impl<'h> Tag<'h> {
    /// Returns whether it ends in `/>`, which has a meaning only in SVG and `MathML`.
    pub(super) fn is_closed(&self) -> bool {
        self.attributes.trim_end().ends_with('/')
    }

    /// Returns the value of the first attribute of this name, as it is written.
    pub(super) fn attribute(&self, wanted: &str) -> Option<&'h str> {
        self.attributes().find(|attribute| attribute.name.eq_ignore_ascii_case(wanted)).map(|attribute| attribute.value)
    }

    fn attributes(&self) -> impl Iterator<Item = Attribute<'h>> {
        let mut rest = self.attributes;
        std::iter::from_fn(move || {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            let first = rest.chars().next()?;
            let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | '=');
            // A leading `=` belongs to the name.
            let length =
                first.len_utf8() + rest.get(first.len_utf8()..)?.find(ends).unwrap_or(rest.len() - first.len_utf8());
            let (name, after) = rest.split_at(length);
            let spaced = after.trim_start_matches(|c: char| c.is_ascii_whitespace());
            let Some(value) = spaced.strip_prefix('=') else {
                rest = after;
                return Some(Attribute { name, value: "", quote: None });
            };
            let value = value.trim_start_matches(|c: char| c.is_ascii_whitespace());
            let opens = value.chars().next().filter(|c| matches!(c, '"' | '\''));
            let quoted = opens.and_then(|quote| value.get(1..)?.split_once(quote));
            let quote = opens.filter(|_| quoted.is_some());
            let (value, after) = quoted.unwrap_or_else(|| {
                value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len()))
            });
            rest = after;
            Some(Attribute { name, value, quote })
        })
    }

    /// Appends the tag with the first [`LONG`] bytes of each value, and without the blanks between the attributes.
    fn write_shortened(&self, out: &mut String) {
        out.extend(["<", self.name]);
        for Attribute { name, value, quote } in self.attributes() {
            out.extend([" ", name]);
            if quote.is_some() || !value.is_empty() {
                let value = value.get(..value.floor_char_boundary(LONG)).unwrap_or_default();
                out.push('=');
                out.extend(quote);
                out.push_str(value);
                out.extend(quote);
            }
        }
        out.push_str(if self.is_closed() { " />" } else { ">" });
    }
}

/// An attribute of a start tag.
struct Attribute<'h> {
    name: &'h str,
    /// As it is written; empty if there is none.
    value: &'h str,
    quote: Option<char>,
}

impl Piece<'_> {
    /// Appends the piece as it was written.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) | Self::Raw(text) => out.push_str(text),
            Self::Start(tag) => out.extend(["<", tag.name, tag.attributes, ">"]),
            Self::End(name) => out.extend(["</", name, ">"]),
        }
    }
}

/// Returns a page without comments and with the first [`LONG`] bytes of the values in long tags. The parser takes
/// quadratic time for some long tokens, so that a page with one would be read without a tree.
pub(super) fn without_long_tokens(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    write_doctype(html, &mut out);
    for piece in pieces(html) {
        match piece {
            Piece::Start(tag) if tag.attributes.len() > LONG => tag.write_shortened(&mut out),
            Piece::Start(_) | Piece::End(_) | Piece::Text(_) | Piece::Raw(_) => piece.write(&mut out),
        }
    }
    out
}

/// Appends the document type that a page begins with, if it has one: it is no piece, but the tree depends on it.
pub(super) fn write_doctype(html: &str, out: &mut String) {
    let begin = html.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let is_doctype = begin.get(.."<!doctype".len()).is_some_and(|begin| begin.eq_ignore_ascii_case("<!doctype"));
    if is_doctype && let Some((doctype, _)) = begin.split_once('>') {
        out.extend([doctype.get(..doctype.floor_char_boundary(LONG)).unwrap_or_default(), ">"]);
    }
}

/// Cuts a page into pieces, in one pass.
pub(super) fn pieces(html: &str) -> Pieces<'_> {
    Pieces { html, at: 0, raw: None }
}

/// Iterates over the pieces of a page: see [`pieces`].
#[derive(Clone, Debug)]
pub(super) struct Pieces<'h> {
    html: &'h str,
    at: usize,
    /// The element of [`RAW`] whose content comes next.
    raw: Option<&'h str>,
}

impl<'h> Pieces<'h> {
    fn rest(&self) -> &'h str {
        self.html.get(self.at..).unwrap_or_default()
    }

    /// Takes the next `length` bytes.
    fn take(&mut self, length: usize) -> &'h str {
        let rest = self.rest();
        let taken = rest.get(..rest.floor_char_boundary(length)).unwrap_or_default();
        self.at += taken.len();
        taken
    }

    /// Skips everything up to and including this mark, or to the end.
    fn skip_past(&mut self, mark: &str) {
        let rest = self.rest();
        self.at += rest.find(mark).map_or(rest.len(), |found| found + mark.len());
    }

    fn skip_comment(&mut self) {
        self.at += "<!--".len();
        let rest = self.rest();
        if let Some(early) = [">", "->"].into_iter().find(|end| rest.starts_with(end)) {
            self.at += early.len();
            return;
        }
        // One search finds both kinds of ends: a second search to the end of the page for each comment would be
        // quadratic.
        let mut searched = 0;
        let end = loop {
            let Some(found) = rest.get(searched..).and_then(|rest| rest.find("--")) else { break rest.len() };
            searched += found + 1;
            let after = rest.get(searched + 1..).unwrap_or_default();
            if let Some(end) = [">", "!>"].into_iter().find(|end| after.starts_with(end)) {
                break searched + 1 + end.len();
            }
        };
        self.at += end;
    }
}

impl<'h> Iterator for Pieces<'h> {
    type Item = Piece<'h>;

    fn next(&mut self) -> Option<Piece<'h>> {
        if let Some(name) = self.raw.take() {
            let length = end_of_raw(self.rest().as_bytes(), name.as_bytes());
            if length > 0 {
                return Some(Piece::Raw(self.take(length)));
            }
        }
        loop {
            let rest = self.rest();
            let text = rest.find('<').unwrap_or(rest.len());
            if text > 0 {
                return Some(Piece::Text(self.take(text)));
            }
            let tag = rest.strip_prefix('<')?;
            match tag.as_bytes() {
                [b'!', b'-', b'-', ..] => self.skip_comment(),
                [b'/', first, ..] if first.is_ascii_alphabetic() => {
                    let inner = tag.get(1..).unwrap_or_default();
                    let name = name_of(inner.as_bytes()).len();
                    self.at += "</".len() + tag_end(inner.as_bytes()).length;
                    return Some(Piece::End(inner.get(..name).unwrap_or_default()));
                }
                [first, ..] if first.is_ascii_alphabetic() => {
                    let name = tag.get(..name_of(tag.as_bytes()).len()).unwrap_or_default();
                    let length = tag_end(tag.as_bytes()).length;
                    self.at += "<".len() + length;
                    let inner = tag.get(name.len()..length).unwrap_or_default();
                    let attributes = inner.strip_suffix('>').unwrap_or(inner);
                    self.raw = is_any(name.as_bytes(), &RAW).then_some(name);
                    return Some(Piece::Start(Tag { name, attributes }));
                }
                [b'!' | b'?' | b'/', ..] => self.skip_past(">"),
                _ => return Some(Piece::Text(self.take(1))),
            }
        }
    }
}

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

/// Elements whose content is not shown, is a choice in a form, like the lists of countries that are equal on
/// thousands of sites, or says how to read the characters beside it (`rt`).
pub(super) const HIDDEN: [&str; 14] = [
    "head", "script", "style", "noscript", "template", "iframe", "object", "textarea", "svg", "title", "select",
    "datalist", "rt", "rp",
];

/// Those of them that say how to read the characters beside them.
pub(super) const READINGS: [&str; 2] = ["rt", "rp"];

/// Elements that do not end a word.
pub(super) const INLINE: [&str; 30] = [
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "em", "font", "i", "ins", "kbd", "mark", "q",
    "rb", "rp", "rt", "ruby", "s", "small", "span", "strike", "strong", "sub", "sup", "u", "wbr",
];

/// Elements whose text the library seldom takes for an article.
pub(super) const LISTS: [&str; 7] = ["ul", "ol", "dl", "table", "pre", "blockquote", "menu"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(html: &str) -> String {
        let one = |piece| match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Raw(raw) => format!("[{raw}]"),
            Piece::Start(tag) => format!("<{}>", tag.name),
            Piece::End(name) => format!("</{name}>"),
        };
        pieces(html).map(one).collect()
    }

    #[test]
    fn a_page_falls_into_tags_text_and_raw_content() {
        for (html, expected) in [
            ("a<b class='>'>c</b >d", "a<b>c</b>d"),
            ("<!-- <p> --><!--><p><!---><i><!-- x --!><u>", "<p><i><u>"),
            ("<!doctype html><?xml?></ x></>1 < 2<3", "1 < 2<3"),
            ("<script>if (a<b) '</p>'</script>x<style></STYLE>", "<script>[if (a<b) '</p>']</script>x<style></STYLE>"),
            ("<TITLE>a<b>c", "<TITLE>[a<b>c]"),
            ("<p", "<p>"),
        ] {
            assert_eq!(shown(html), expected, "{html}");
        }
    }

    #[test]
    fn attributes_are_found_however_they_are_written() {
        let html = "<link disabled rel=canonical REL=other href = \"/a?b=1&amp;c='d'\" / title='x>y'/data=a/b>";
        let Some(Piece::Start(tag)) = pieces(html).next() else { panic!("a tag") };
        for (name, value) in [
            ("rel", Some("canonical")),
            ("href", Some("/a?b=1&amp;c='d'")),
            ("title", Some("x>y")),
            ("disabled", Some("")),
            ("data", Some("a/b")),
            ("none", None),
        ] {
            assert_eq!(tag.attribute(name), value, "{name}");
        }
    }

    #[test]
    fn long_values_are_cut_and_everything_else_stays() {
        let long = "x>&quot;/ ".repeat(1_000);
        let blanks = " \n/".repeat(10_000);
        let cut = &long[..LONG];
        for (html, expected) in [
            (
                format!("<!DOCTYPE html><p a=\"{long}\" class=b c='d>'>e</p>"),
                format!("<!DOCTYPE html><p a=\"{cut}\" class=b c='d>'>e</p>"),
            ),
            (format!("<p a='{long}'/>e"), format!("<p a='{cut}' />e")),
            (format!("<p a={}>e", "y".repeat(5_000)), format!("<p a={}>e", "y".repeat(LONG))),
            (format!("<p a{blanks}b = ''>e"), "<p a b=''>e".to_owned()),
            (format!("a<!-- {long}-->b"), "ab".to_owned()),
            (format!("<script>'{long}'</script><p a='b c'>"), format!("<script>'{long}'</script><p a='b c'>")),
            (format!("<p title='{}'>", "字".repeat(1_000)), format!("<p title='{}'>", "字".repeat(341))),
        ] {
            assert_eq!(without_long_tokens(&html), expected);
        }
    }

    proptest! {
        #[test]
        fn any_page_is_cut(parts in prop::collection::vec(0_usize..16, 0..40)) {
            let known = ["<", ">", "</", "<!--", "-->", "<p", "<script>", "</script", "\"", "'", "=", "字", " ", "/", "&", "a"];
            let html: String = parts.iter().filter_map(|part| known.get(*part)).copied().collect();
            for piece in pieces(&html) {
                if let Piece::Start(tag) = piece {
                    prop_assert_eq!(tag.attribute("absent"), None);
                }
            }
        }
    }

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
