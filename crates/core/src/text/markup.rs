//! HTML cut into tags and text in one pass, without a tree; character references (`&amp;`, `&#20320;`), and the
//! elements that need special handling.

use html5ever::data::{C1_REPLACEMENTS, NAMED_ENTITIES};

/// Elements whose content is text up to their end tag, whatever is in it.
pub(super) const RAW: [&str; 8] = ["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"];

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
    /// What follows the name, with the end of the tag.
    rest: &'h str,
}

impl<'h> Tag<'h> {
    /// Returns whether it ends in `/>`, which has a meaning only in SVG and `MathML`.
    pub(super) fn is_closed(&self) -> bool {
        let mut attributes = self.attributes();
        attributes.read_to_end();
        attributes.is_closed()
    }

    /// Returns the value of the first attribute of this name, as it is written.
    pub(super) fn attribute(&self, wanted: &str) -> Option<&'h str> {
        self.attributes().find(|attribute| attribute.name.eq_ignore_ascii_case(wanted)).map(|attribute| attribute.value)
    }

    fn attributes(&self) -> Attributes<'h> {
        Attributes::of(self.rest)
    }
}

/// An attribute of a start tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attribute<'h> {
    pub(super) name: &'h str,
    /// As it is written; empty if there is none.
    pub(super) value: &'h str,
    pub(super) quote: Option<char>,
}

/// Iterates over the attributes of a tag as [the tokenizer of HTML] reads them, which finds where the tag ends.
///
/// [the tokenizer of HTML]: https://html.spec.whatwg.org/multipage/parsing.html#before-attribute-name-state
#[derive(Clone, Debug)]
pub(super) struct Attributes<'h> {
    html: &'h str,
    /// What is read next: after the last attribute, where the tag ends.
    at: usize,
    end: Option<TagEnd>,
}

/// How a tag ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TagEnd {
    /// In `>`.
    Open,
    /// In `/>`.
    Closed,
}

impl<'h> Attributes<'h> {
    /// Reads what follows the name of a tag.
    pub(super) const fn of(html: &'h str) -> Self {
        Self { html, at: 0, end: None }
    }

    /// Reads to the end of the tag. Returns the bytes up to it, to the end of the page if the tag has none.
    pub(super) fn read_to_end(&mut self) -> usize {
        while self.next().is_some() {}
        self.at
    }

    /// Returns whether the tag ends in `/>`, once all attributes are read.
    pub(super) fn is_closed(&self) -> bool {
        self.end == Some(TagEnd::Closed)
    }

    fn skip_while(&mut self, is_skipped: impl Fn(u8) -> bool) {
        let rest = self.html.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|byte| !is_skipped(*byte)).unwrap_or(rest.len());
    }

    fn byte(&self) -> Option<u8> {
        self.html.as_bytes().get(self.at).copied()
    }

    fn from(&self, start: usize) -> &'h str {
        self.html.get(start..self.at).unwrap_or_default()
    }
}

impl<'h> Iterator for Attributes<'h> {
    type Item = Attribute<'h>;

    fn next(&mut self) -> Option<Attribute<'h>> {
        if self.end.is_some() {
            return None;
        }
        let before = self.at;
        self.skip_while(|byte| byte.is_ascii_whitespace() || byte == b'/');
        if self.byte()? == b'>' {
            let is_closed = self.from(before).ends_with('/');
            self.end = Some(if is_closed { TagEnd::Closed } else { TagEnd::Open });
            self.at += 1;
            return None;
        }
        let start = self.at;
        // A leading `=` belongs to the name.
        self.at += 1;
        self.skip_while(|byte| !(byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>' | b'=')));
        let name = self.from(start);
        self.skip_while(|byte| byte.is_ascii_whitespace());
        if self.byte() != Some(b'=') {
            return Some(Attribute { name, value: "", quote: None });
        }
        self.at += 1;
        self.skip_while(|byte| byte.is_ascii_whitespace());
        let start = self.at;
        let quote = self.byte().filter(|byte| matches!(byte, b'"' | b'\''));
        let Some(quote) = quote else {
            self.skip_while(|byte| !(byte.is_ascii_whitespace() || byte == b'>'));
            return Some(Attribute { name, value: self.from(start), quote: None });
        };
        self.at += 1;
        self.skip_while(|byte| byte != quote);
        let value = self.from(start + 1);
        self.at = (self.at + 1).min(self.html.len());
        Some(Attribute { name, value, quote: Some(char::from(quote)) })
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
}

impl<'h> Iterator for Pieces<'h> {
    type Item = Piece<'h>;

    fn next(&mut self) -> Option<Piece<'h>> {
        if let Some(name) = self.raw.take() {
            let length = raw_length(self.rest(), name);
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
                [b'!', b'-', b'-', ..] => self.at += comment_length(rest),
                [b'/', first, ..] if first.is_ascii_alphabetic() => {
                    let (name, rest) = split_name(tag.get(1..).unwrap_or_default());
                    self.at += "</".len() + name.len() + Attributes::of(rest).read_to_end();
                    return Some(Piece::End(name));
                }
                [first, ..] if first.is_ascii_alphabetic() => {
                    let (name, rest) = split_name(tag);
                    let length = Attributes::of(rest).read_to_end();
                    self.at += "<".len() + name.len() + length;
                    self.raw = is_any(name, &RAW).then_some(name);
                    return Some(Piece::Start(Tag { name, rest: rest.get(..length).unwrap_or_default() }));
                }
                [b'!' | b'?' | b'/', ..] => self.at += length_to(rest, ">"),
                _ => return Some(Piece::Text(self.take(1))),
            }
        }
    }
}

/// Returns the length of a text up to and including this mark, or all of it.
pub(super) fn length_to(text: &str, mark: &str) -> usize {
    text.find(mark).map_or(text.len(), |at| at + mark.len())
}

/// Returns the length of a comment, at whose beginning the text is.
pub(super) fn comment_length(html: &str) -> usize {
    let start = "<!--".len();
    let rest = html.get(start..).unwrap_or_default();
    if let Some(early) = [">", "->"].into_iter().find(|end| rest.starts_with(end)) {
        return start + early.len();
    }
    // One search finds both kinds of ends: a second search to the end of the page for each comment would be quadratic.
    let mut searched = 0;
    loop {
        let Some(found) = rest.get(searched..).and_then(|rest| rest.find("--")) else { return html.len() };
        searched += found + 1;
        let after = rest.get(searched + 1..).unwrap_or_default();
        if let Some(end) = [">", "!>"].into_iter().find(|end| after.starts_with(end)) {
            return start + searched + 1 + end.len();
        }
    }
}

/// Returns the length of the content of an element of [`RAW`], at whose beginning the text is.
pub(super) fn raw_length(html: &str, name: &str) -> usize {
    let ends = |at: &usize| {
        let tag = html.as_bytes().get(at + 1..at + 3 + name.len()).unwrap_or_default();
        let (slash, ended) = tag.split_at(tag.len().min(1));
        let (ended, after) = ended.split_at(ended.len().min(name.len()));
        slash == b"/"
            && ended.eq_ignore_ascii_case(name.as_bytes())
            && after.first().is_some_and(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>'))
    };
    html.match_indices('<').map(|(at, _)| at).find(ends).unwrap_or(html.len())
}

/// Cuts off the name that a tag begins with.
pub(super) fn split_name(tag: &str) -> (&str, &str) {
    tag.split_at(tag.find(|c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/')).unwrap_or(tag.len()))
}

/// Returns whether a name is one of those that are given in lower case.
pub(super) fn is_any(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
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
