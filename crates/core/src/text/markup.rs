//! HTML cut into tags and text in one pass, without a tree.

use super::elements::RAW;
use super::nesting::{end_of_raw, is_any, name_of, tag_end};

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
        let mut rest = self.attributes;
        loop {
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
                if name.eq_ignore_ascii_case(wanted) {
                    return Some("");
                }
                continue;
            };
            let value = value.trim_start_matches(|c: char| c.is_ascii_whitespace());
            let quoted = value.chars().next().filter(|c| matches!(c, '"' | '\''));
            let (value, after) = match quoted.and_then(|quote| value.get(1..)?.split_once(quote)) {
                Some(parts) => parts,
                None => value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len())),
            };
            if name.eq_ignore_ascii_case(wanted) {
                return Some(value);
            }
            rest = after;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
}
