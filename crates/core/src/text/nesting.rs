//! Measures how deeply HTML is nested and how costly it is, before any tree is built.

/// Elements whose content is text up to their end tag, whatever is in it.
pub(super) const RAW: [&str; 8] = ["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"];

/// What one pass over the bytes of a page finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// It nests more elements than the limit.
    TooDeep,
    /// The parser would spend too much on its tags.
    TooCostly,
    /// The number of attributes in the tag that has the most. Too high if values contain slashes.
    Attributes(usize),
}

/// The most attributes that the parser may compare. For each new `<b>`, for example, it compares those of all earlier
/// ones that may still be open.
const MAX_COMPARED: usize = 8_000_000;

/// The most open elements that unmatched end tags may be compared with.
const MAX_UNMATCHED: usize = 50_000_000;

/// The most steps for writing texts and attributes as HTML: see [`escaping_cost`].
pub(super) const MAX_ESCAPING: usize = 1 << 30;

/// Tags, comments and values of attributes with more bytes than this are long. What the text needs of an attribute (a
/// class, an id, a role) is shorter.
pub(super) const LONG: usize = 1 << 10;

/// Only tags longer than this can take many steps.
const LONG_TAG: usize = 1 << 14;

/// Returns the most steps that the library takes to write a text or an attribute as HTML: for each character that may
/// have to be escaped, it searches the rest of the text.
pub(super) fn escaping_cost(text: &[u8]) -> usize {
    // 0xC2 begins the no-break space.
    let escaped = text.iter().filter(|byte| matches!(byte, b'&' | 0xC2)).count();
    escaped.saturating_mul(text.len())
}

/// Elements that the parser opens again in whatever follows, and compares with one another by name and attributes. `a`
/// is not among them, because a new one closes the one before.
const FORMATTING: [&str; 13] =
    ["b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

/// An upper bound on the cost of comparing the attributes of formatting elements.
#[derive(Default)]
struct Comparisons {
    /// Attributes of all elements of each name so far.
    attributes: [usize; FORMATTING.len()],
    compared: usize,
}

impl Comparisons {
    fn note(&mut self, name: &[u8], attributes: usize) {
        let known = FORMATTING.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        if let Some(all) = known.and_then(|known| self.attributes.get_mut(known)) {
            self.compared = self.compared.saturating_add(*all);
            *all = all.saturating_add(attributes);
        }
    }
}

/// Measures a page whose elements may nest `limit` levels.
///
/// Elements whose end tag may be left out (`p`, `li`, `td` and their like) and those without content (`br`, `img`) do
/// not count, because open ones would look nested. A page can hide elements from this count (by end tags inside
/// scripts), so the tree itself is counted as well; this scan keeps that tree small.
pub(super) fn shape_of(html: &str, limit: usize) -> (Shape, HasLong) {
    let bytes = html.as_bytes();
    let mut has_long = HasLong(false);
    let mut most_attributes = 0;
    let mut open: Vec<Element<'_>> = Vec::new();
    let (mut comparisons, mut unmatched, mut escaping) = (Comparisons::default(), 0_usize, 0_usize);
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'<')) {
        at += found + 1;
        let rest = bytes.get(at..).unwrap_or_default();
        match rest.first() {
            Some(b'!') if rest.starts_with(b"!--") => {
                let length = 3 + end_of(rest.get(3..), b"-->");
                has_long.0 |= length > LONG;
                at += length;
            }
            Some(b'!' | b'?') => has_long.0 |= is_long(rest),
            Some(b'/') => {
                has_long.0 |= is_long(rest);
                let name = name_of(rest.get(1..).unwrap_or_default());
                at += 1 + name.len();
                let matching = open.iter().rposition(|element| element.name.eq_ignore_ascii_case(name));
                if let Some(place) = matching {
                    open.truncate(place);
                } else {
                    unmatched = unmatched.saturating_add(open.len());
                }
            }
            Some(byte) if byte.is_ascii_alphabetic() => {
                let name = name_of(rest);
                let TagEnd { length, closed, attributes } = tag_end(rest);
                has_long.0 |= length > LONG;
                most_attributes = most_attributes.max(attributes);
                comparisons.note(name, attributes);
                if length > LONG_TAG {
                    let tag = rest.get(..length).unwrap_or_default();
                    escaping = escaping.saturating_add(escaping_cost(tag));
                }
                at += length;
                let foreign = open.last().is_some_and(|element| element.foreign) || is_any(name, &["svg", "math"]);
                if foreign {
                    if !closed {
                        open.push(Element { name, foreign: !is_any(name, &["foreignobject", "desc", "title"]) });
                    }
                } else if is_any(name, &RAW) {
                    at += end_of_raw(bytes.get(at..).unwrap_or_default(), name);
                } else if !is_any(name, &UNCOUNTED) {
                    open.push(Element { name, foreign: false });
                }
                if open.len() > limit {
                    return (Shape::TooDeep, has_long);
                }
            }
            Some(_) | None => {}
        }
        if comparisons.compared > MAX_COMPARED || unmatched > MAX_UNMATCHED || escaping > MAX_ESCAPING {
            return (Shape::TooCostly, has_long);
        }
    }
    (Shape::Attributes(most_attributes), has_long)
}

/// Returns whether a declaration, an instruction or an end tag is long.
fn is_long(token: &[u8]) -> bool {
    token.get(..LONG).is_some_and(|begin| !begin.contains(&b'>'))
}

/// Whether a page has a tag or a comment of more than [`LONG`] bytes, as far as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HasLong(pub(super) bool);

struct Element<'h> {
    name: &'h [u8],
    /// Whether it is inside SVG or `MathML`, where `/>` closes an element.
    foreign: bool,
}

const UNCOUNTED: [&str; 35] = [
    "a", "area", "base", "basefont", "bgsound", "body", "br", "caption", "col", "colgroup", "dd", "dt", "embed",
    "frame", "head", "hr", "html", "img", "input", "keygen", "li", "link", "meta", "optgroup", "option", "p", "param",
    "source", "tbody", "td", "tfoot", "th", "thead", "tr", "wbr",
];

pub(super) fn is_any(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

pub(super) fn name_of(tag: &[u8]) -> &[u8] {
    let length = tag.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/'));
    tag.get(..length.unwrap_or(tag.len())).unwrap_or_default()
}

/// Where a start tag ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TagEnd {
    /// Its length after the `<`.
    pub(super) length: usize,
    /// Whether it ends in `/>`.
    pub(super) closed: bool,
    /// Number of places where an attribute may begin.
    pub(super) attributes: usize,
}

/// Finds the end of a start tag that begins after its `<`.
pub(super) fn tag_end(tag: &[u8]) -> TagEnd {
    let (mut quote, mut attributes) = (None, 0);
    // The previous byte, and the previous one that is not whitespace.
    let (mut before, mut last_non_whitespace) = (b'<', b' ');
    for (at, byte) in tag.iter().enumerate() {
        match (quote, byte) {
            (Some(open), byte) if open == *byte => quote = None,
            (None, b'>') => return TagEnd { length: at + 1, closed: last_non_whitespace == b'/', attributes },
            // A quote opens a value only after `=`.
            (None, b'"' | b'\'') if last_non_whitespace == b'=' => quote = Some(*byte),
            (None, byte) if !byte.is_ascii_whitespace() => {
                let separated = before.is_ascii_whitespace() || matches!(before, b'/' | b'"' | b'\'');
                attributes += usize::from(separated && !matches!(byte, b'/' | b'=') && last_non_whitespace != b'=');
            }
            (Some(_) | None, _) => {}
        }
        before = *byte;
        if !byte.is_ascii_whitespace() {
            last_non_whitespace = *byte;
        }
    }
    TagEnd { length: tag.len(), closed: false, attributes }
}

fn end_of(bytes: Option<&[u8]>, mark: &[u8]) -> usize {
    let bytes = bytes.unwrap_or_default();
    bytes.windows(mark.len()).position(|window| window == mark).map_or(bytes.len(), |at| at + mark.len())
}

/// Returns where `</name` begins.
pub(super) fn end_of_raw(bytes: &[u8], name: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.windows(2).position(|window| window == b"</")) {
        at += found;
        let candidate = bytes.get(at + 2..at + 2 + name.len());
        if candidate.is_some_and(|candidate| candidate.eq_ignore_ascii_case(name)) {
            return at;
        }
        at += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(html: &str, limit: usize) -> Shape {
        shape_of(html, limit).0
    }

    fn is_deeper_than(html: &str, limit: usize) -> bool {
        shape(html, limit) == Shape::TooDeep
    }

    #[test]
    fn attributes_of_one_tag_are_counted() {
        for (tag, attributes) in [
            ("<p>", 0),
            ("<a href=x>", 1),
            ("<a href = 'x y' title=\"a b c\"data=1 checked/>", 4),
            ("<a a/b/c>", 3),
            ("<a\n a\tb  c>", 3),
        ] {
            assert_eq!(shape(&format!("<p class=x>{tag}</p>"), 9), Shape::Attributes(attributes.max(1)), "{tag}");
        }
    }

    #[test]
    fn real_pages_with_ends_left_out_are_not_deep() {
        let pieces = ["<p>a", "<li>a", "<tr><td>a", "<br>", "<img src='>'>", "<a name=x>", "<option>a"];
        for piece in pieces {
            assert!(!is_deeper_than(&piece.repeat(5_000), 8), "{piece}");
        }
        let icons = "<svg viewBox=\"0 0 1 1\"><path d='m0'/><g><path/></g></svg>".repeat(5_000);
        assert!(!is_deeper_than(&icons, 8));
        let drawing = format!("<svg>{}</svg>", "<path d='m0'/>".repeat(5_000));
        assert!(!is_deeper_than(&drawing, 8));
        assert!(!is_deeper_than(&"<script>'<div><div><div>'</script><!-- <div> -->".repeat(100), 2));
    }

    #[test]
    fn formatting_elements_with_many_attributes_are_costly() {
        let font = format!("<font{}>a</font>", (0..1000).map(|n| format!(" a{n}")).collect::<Vec<_>>().concat());
        assert!(shape(&font.repeat(190), 512) == Shape::TooCostly);
        // The large ones come first, and each of the small ones is compared with them.
        assert_eq!(shape(&format!("{}{}", font.repeat(9), "<font>a</font>".repeat(1_000)), 512), Shape::TooCostly);
        for usual in
            ["<font size=2 color=red face=arial>a</font>".repeat(2_000), "<a href=x class=y>a</a>".repeat(30_000)]
        {
            assert!(matches!(shape(&usual, 512), Shape::Attributes(1..4)));
        }
        assert!(matches!(shape(&"<b>a</b>".repeat(100_000), 512), Shape::Attributes(0)));
    }

    #[test]
    fn end_tags_without_a_start_are_costly_where_much_is_open() {
        assert_eq!(shape(&["<b>".repeat(500), "</i>".repeat(200_000)].concat(), 512), Shape::TooCostly);
        assert_eq!(shape(&["<b>".repeat(5), "</i>".repeat(200_000)].concat(), 512), Shape::Attributes(0));
    }

    #[test]
    fn what_is_never_closed_is_deep() {
        assert!(!is_deeper_than(&"<div>".repeat(512), 512));
        assert!(is_deeper_than(&"<div>".repeat(513), 512));
        assert!(is_deeper_than(&"<div></span>".repeat(100_000), 512));
        assert!(is_deeper_than(&"<svg><g>".repeat(300), 512));
        assert!(is_deeper_than(&"<DIV a='</div>'>".repeat(513), 512));
    }

    #[derive(Clone, Debug)]
    struct Tree(usize, Vec<Tree>);

    impl Tree {
        fn depth(&self) -> usize {
            1 + self.1.iter().map(Self::depth).max().unwrap_or(0)
        }

        fn html(&self) -> String {
            let name = ["div", "span", "SECTION", "b", "ul"][self.0];
            let inner: String = self.1.iter().map(Self::html).collect();
            format!("<{name} x=\"<i>\">a<br><p>{inner}</{}>", name.to_lowercase())
        }
    }

    proptest! {
        #[test]
        fn the_scan_counts_what_a_recursive_walk_counts(
            tree in (0_usize..5).prop_map(|name| Tree(name, vec![])).prop_recursive(12, 60, 4, |inner| {
                (0_usize..5, prop::collection::vec(inner, 0..4)).prop_map(|(name, children)| Tree(name, children))
            })
        ) {
            let (depth, html) = (tree.depth(), tree.html());
            prop_assert!(!is_deeper_than(&html, depth));
            prop_assert!(is_deeper_than(&html, depth - 1));
        }
    }
}
