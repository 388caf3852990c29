//! HTML -> the same page without what its text does not need, and how costly its tree will be.
//!
//! Scripts, styles and attributes are most of a page. The parser reads what is left in half of the time, and everything
//! that walks through the tree has less to carry. In the same pass, the page is measured: how deeply it nests, and how
//! much it makes the parser compare.
//!
//! Also, the tree gets the text that browsers show although it is in an element whose content they mostly hide: in the
//! shadow root that a template declares, and, without JavaScript, in `noscript`. Pages of web components have their text
//! in shadow roots. Forum software gives crawlers its topics in `noscript`, which mostly holds a picture or asks for
//! JavaScript, so that text counts only where the page has no other.

use super::markup::{Attribute, Attributes, RAW, comment_length, is_any, length_to, raw_length, split_name};
use super::normalize::non_whitespace_chars;

/// Limits on how a page is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The deepest nesting for which a tree is built.
    pub(super) max_nesting: usize,
    /// Text past this many bytes is not used.
    pub(super) max_bytes: usize,
    /// Whether the blanks that lines begin with count.
    pub(super) has_indents: bool,
}

/// A page with what its text needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Minified {
    pub(super) html: String,
    pub(super) shape: Shape,
    /// The text in `noscript`, outside of links.
    noscript: String,
}

/// What one pass over a page finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// It nests more elements than the limit.
    TooDeep,
    /// The parser would spend too much on its tags.
    TooCostly,
    /// The number of attributes in the tag that has the most.
    Attributes(usize),
}

/// The most attributes that the parser may compare. For each new `<b>`, for example, it compares those of all earlier
/// ones that may still be open.
const MAX_COMPARED: usize = 8_000_000;

/// The most open elements that unmatched end tags may be compared with.
const MAX_UNMATCHED: usize = 50_000_000;

/// The most steps for writing texts and attributes as HTML: see [`escaping_cost`].
pub(super) const MAX_ESCAPING: usize = 1 << 30;

/// Bytes of an attribute's value that are kept. What the text needs of it (a class, an id, a role) is shorter, and the
/// parser takes quadratic time for some long tags.
const MAX_VALUE: usize = 1 << 10;

/// Only tags longer than this can take many steps.
const LONG_TAG: usize = 1 << 14;

/// Fewer characters than this in `noscript` do not count.
const MIN_NOSCRIPT: usize = 120;

/// A text of fewer characters than this that names JavaScript asks for it.
const MAX_NOTICE: usize = 500;

/// Attributes that say which element is the article, a link, a form or hidden.
const KEPT: [&str; 11] =
    ["aria-hidden", "aria-modal", "class", "hidden", "href", "id", "itemprop", "rel", "role", "style", "type"];

/// Elements of which all attributes are kept: those with a say in whether a block is an article (pictures, films,
/// tables), metadata, and those that end SVG or `MathML` by an attribute.
const KEPT_WHOLE: [&str; 17] = [
    "annotation-xml",
    "audio",
    "embed",
    "figure",
    "font",
    "iframe",
    "img",
    "meta",
    "object",
    "param",
    "picture",
    "source",
    "table",
    "td",
    "th",
    "track",
    "video",
];

/// Elements of [`RAW`] whose content is no page's text.
const CODE: [&str; 2] = ["script", "style"];

const FOREIGN: [&str; 2] = ["svg", "math"];

/// Elements in SVG and `MathML` that hold HTML.
const HTML_INSIDE: [&str; 3] = ["foreignobject", "desc", "title"];

/// Elements that end SVG and `MathML` in which they begin.
const BREAKING_OUT: [&str; 44] = [
    "b",
    "big",
    "blockquote",
    "body",
    "br",
    "center",
    "code",
    "dd",
    "div",
    "dl",
    "dt",
    "em",
    "embed",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "hr",
    "i",
    "img",
    "li",
    "listing",
    "menu",
    "meta",
    "nobr",
    "ol",
    "p",
    "pre",
    "ruby",
    "s",
    "small",
    "span",
    "strike",
    "strong",
    "sub",
    "sup",
    "table",
    "tt",
    "u",
    "ul",
    "var",
];

/// Elements whose end tag may be left out, and those without content: open ones would look nested.
const UNCOUNTED: [&str; 35] = [
    "a", "area", "base", "basefont", "bgsound", "body", "br", "caption", "col", "colgroup", "dd", "dt", "embed",
    "frame", "head", "hr", "html", "img", "input", "keygen", "li", "link", "meta", "optgroup", "option", "p", "param",
    "source", "tbody", "td", "tfoot", "th", "thead", "tr", "wbr",
];

/// Elements that the parser opens again in whatever follows, and compares with one another by name and attributes. `a`
/// is not among them, because a new one closes the one before.
const FORMATTING: [&str; 13] =
    ["b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

/// Returns the most steps that the library takes to write a text or an attribute as HTML: for each character that may
/// have to be escaped, it searches the rest of the text.
pub(super) fn escaping_cost(text: &[u8]) -> usize {
    // 0xC2 begins the no-break space.
    let escaped = text.iter().filter(|byte| matches!(byte, b'&' | 0xC2)).count();
    escaped.saturating_mul(text.len())
}

/// Reads a page within these limits. Its declared shadow roots become `div`s, and with `shows_noscript` so does its
/// `noscript`.
///
/// A page can hide elements from the count of levels (by end tags inside scripts), so the tree itself is counted as well;
/// this pass keeps that tree small.
pub(super) fn minified(html: &str, limits: Limits, shows_noscript: bool) -> Minified {
    let Limits { max_nesting, has_indents, .. } = limits;
    let out = String::with_capacity(html.len());
    let mut page = Reader { out, has_indents, shows_noscript, ..Reader::default() };
    let mut rest = html;
    while let Some((text, tag)) = rest.split_once('<') {
        page.text(text);
        let markup = rest.get(text.len()..).unwrap_or_default();
        let length = match tag.as_bytes() {
            [b'!', b'-', b'-', ..] => page.comment(comment_length(markup)),
            [b'/', first, ..] if first.is_ascii_alphabetic() => page.end(markup),
            [first, ..] if first.is_ascii_alphabetic() => page.start(markup, max_nesting),
            [b'!', ..] if page.is_foreign() && tag.starts_with("![CDATA[") => page.comment(length_to(markup, "]]>")),
            [b'!', ..] if is_doctype(tag) => page.doctype(markup),
            [b'!' | b'?' | b'/', ..] => page.comment(length_to(markup, ">")),
            _ => page.text("<"),
        };
        rest = markup.get(length..).unwrap_or_default();
    }
    page.text(rest);
    Minified { html: page.out, shape: page.measure.shape(), noscript: page.noscript }
}

fn is_doctype(tag: &str) -> bool {
    tag.get(.."!doctype".len()).is_some_and(|begin| begin.eq_ignore_ascii_case("!doctype"))
}

impl Minified {
    /// Returns whether `noscript` has more text than the rest of the page, whose characters outside of links, without
    /// whitespace, are given, and does not merely ask for JavaScript.
    pub(super) fn is_mostly_noscript(&self, rest: usize) -> bool {
        let characters = non_whitespace_chars(&self.noscript);
        let asks = || characters < MAX_NOTICE && self.noscript.to_lowercase().contains("javascript");
        characters >= MIN_NOSCRIPT && characters > rest && !asks()
    }
}

/// What is known of a page up to a place.
#[derive(Default)]
struct Reader<'h> {
    out: String,
    has_indents: bool,
    shows_noscript: bool,
    noscript: String,
    /// Open elements `noscript` and `a`.
    noscripts: usize,
    links: usize,
    /// The open templates, and whether each is a shadow root.
    templates: Vec<bool>,
    open: Vec<Element<'h>>,
    measure: Measure,
}

struct Element<'h> {
    name: &'h str,
    /// Whether it is inside SVG or `MathML`, where `/>` closes an element.
    is_foreign: bool,
}

impl<'h> Reader<'h> {
    fn is_foreign(&self) -> bool {
        self.open.last().is_some_and(|element| element.is_foreign)
    }

    /// Writes a text, of white space after a line break only that. Returns its length.
    fn text(&mut self, text: &str) -> usize {
        let mut rest = text;
        while let Some((line, next)) = rest.split_once('\n').filter(|_| !self.has_indents) {
            self.out.extend([line, "\n"]);
            rest = next.trim_ascii_start();
        }
        self.out.push_str(rest);
        if self.noscripts > 0 && self.links == 0 {
            self.noscript.push_str(text);
        }
        text.len()
    }

    /// Writes the document type that the text begins with: the tree depends on it. Returns its length.
    fn doctype(&mut self, html: &str) -> usize {
        let length = length_to(html, ">");
        let doctype = html.get(..length).unwrap_or_default().trim_end_matches('>');
        self.out.extend([doctype.get(..doctype.floor_char_boundary(MAX_VALUE)).unwrap_or_default(), ">"]);
        length
    }

    /// Writes an empty comment for what parts the text like one. Returns the length of what it stands for.
    fn comment(&mut self, length: usize) -> usize {
        self.out.push_str("<!---->");
        length
    }

    /// Writes the end tag that the text begins with. Returns its length.
    fn end(&mut self, html: &'h str) -> usize {
        let (name, rest) = split_name(html.get("</".len()..).unwrap_or_default());
        let mut is_shown = false;
        if is_any(name, &["a"]) {
            self.links = self.links.saturating_sub(1);
        } else if is_any(name, &["noscript"]) {
            is_shown = self.shows_noscript && self.noscripts > 0;
            self.noscripts = self.noscripts.saturating_sub(1);
        } else if is_any(name, &["template"]) {
            is_shown = self.templates.pop() == Some(true);
        }
        let length = "</".len() + name.len() + Attributes::of(rest).read_to_end();
        let name = if is_shown { "div" } else { name };
        self.out.extend(["</", name, ">"]);
        match self.open.iter().rposition(|element| element.name.eq_ignore_ascii_case(name)) {
            Some(place) => self.open.truncate(place),
            None if self.measure.unmatched > MAX_UNMATCHED => self.open.clear(),
            None => self.measure.unmatched = self.measure.unmatched.saturating_add(self.open.len()),
        }
        length
    }

    /// Writes the start tag that the text begins with, and the content of an element that holds only text. Returns the
    /// length of both.
    fn start(&mut self, html: &'h str, limit: usize) -> usize {
        let (name, rest) = split_name(html.get("<".len()..).unwrap_or_default());
        let mut attributes = Attributes::of(rest);
        let name = if self.is_shown(name, attributes.clone()) { "div" } else { name };
        self.write_start(name, &mut attributes);
        let length = html.len() - rest.len() + attributes.read_to_end();
        if self.is_foreign() && is_any(name, &BREAKING_OUT) {
            let kept = self.open.iter().rposition(|element| !element.is_foreign).map_or(0, |last| last + 1);
            self.open.truncate(kept);
        }
        if self.is_foreign() || is_any(name, &FOREIGN) {
            if !attributes.is_closed() {
                self.open.push(Element { name, is_foreign: !is_any(name, &HTML_INSIDE) });
            }
        } else if is_any(name, &RAW) {
            let content = html.get(length..).unwrap_or_default();
            let content = content.get(..raw_length(content, name)).unwrap_or_default();
            // In a script, a comment may hide the end tag.
            if !is_any(name, &CODE) || content.contains("<!--") {
                self.out.push_str(content);
            }
            return length + content.len();
        } else if !is_any(name, &UNCOUNTED) {
            self.open.push(Element { name, is_foreign: false });
        }
        self.measure.is_deep |= self.open.len() > limit;
        self.open.truncate(limit);
        length
    }

    /// Counts an element that begins. Returns whether it is shown although browsers hide its content.
    fn is_shown(&mut self, name: &str, mut attributes: Attributes<'_>) -> bool {
        if is_any(name, &["noscript"]) {
            self.noscripts += 1;
            return self.shows_noscript;
        }
        if is_any(name, &["template"]) {
            // The attribute had another name until 2023.
            let is_root = attributes.any(|attribute| is_any(attribute.name, &["shadowrootmode", "shadowroot"]));
            self.templates.push(is_root);
            return is_root;
        }
        self.links += usize::from(is_any(name, &["a"]));
        false
    }

    /// Writes a start tag, with those of its attributes that are kept.
    fn write_start(&mut self, name: &str, attributes: &mut Attributes<'_>) {
        let (start, is_whole, mut kept) = (self.out.len(), is_any(name, &KEPT_WHOLE), 0);
        self.out.extend(["<", name]);
        for Attribute { name, value, quote } in attributes.by_ref().filter(|one| is_whole || is_any(one.name, &KEPT)) {
            kept += 1;
            self.out.extend([" ", name]);
            if quote.is_some() || !value.is_empty() {
                self.out.push('=');
                self.out.extend(quote);
                self.out.push_str(value.get(..value.floor_char_boundary(MAX_VALUE)).unwrap_or_default());
                self.out.extend(quote);
            }
        }
        self.out.push_str(if attributes.is_closed() { " />" } else { ">" });
        self.measure.note(name, kept, self.out.get(start..).unwrap_or_default());
    }
}

/// Upper bounds on the parser's work so far.
#[derive(Default)]
struct Measure {
    is_deep: bool,
    /// The most attributes of a tag.
    most_attributes: usize,
    /// Attributes of all formatting elements of each name.
    attributes: [usize; FORMATTING.len()],
    /// Attributes of formatting elements that were compared.
    compared: usize,
    /// Open elements that unmatched end tags were compared with.
    unmatched: usize,
    escaping: usize,
}

impl Measure {
    fn note(&mut self, name: &str, attributes: usize, tag: &str) {
        self.most_attributes = self.most_attributes.max(attributes);
        let known = FORMATTING.iter().position(|known| name.eq_ignore_ascii_case(known));
        if let Some(all) = known.and_then(|known| self.attributes.get_mut(known)) {
            self.compared = self.compared.saturating_add(*all);
            *all = all.saturating_add(attributes);
        }
        if tag.len() > LONG_TAG {
            self.escaping = self.escaping.saturating_add(escaping_cost(tag.as_bytes()));
        }
    }

    fn shape(&self) -> Shape {
        if self.is_deep {
            Shape::TooDeep
        } else if self.compared > MAX_COMPARED || self.unmatched > MAX_UNMATCHED || self.escaping > MAX_ESCAPING {
            Shape::TooCostly
        } else {
            Shape::Attributes(self.most_attributes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { max_nesting: 9, max_bytes: usize::MAX, has_indents: false };

    fn shape(html: &str, max_nesting: usize) -> Shape {
        minified(html, Limits { max_nesting, ..LIMITS }, false).shape
    }

    #[test]
    fn a_page_keeps_what_its_text_needs() {
        let long = "x>&quot;/ ".repeat(1_000);
        let cut = &long[..MAX_VALUE];
        for (html, expected) in [
            ("<!DOCTYPE html><p a=\"b\" class=b ID='d>'>e</p >", "<!DOCTYPE html><p class=b ID='d>'>e</p>"),
            ("a<!-- <p> --><?b?><!c></ d>e < f</>", "a<!----><!----><!----><!---->e < f<!---->"),
            ("<script src=x>'<p>'</script>a<style>p {}</style>", "<script></script>a<style></style>"),
            ("<script><!-- <script></script> --></script>", "<script><!-- <script></script> --></script>"),
            ("<title a=b>c <p></title><textarea>\n  d</textarea>", "<title>c <p></title><textarea>\n  d</textarea>"),
            ("<img a=b c><font color=red><br/>", "<img a=b c><font color=red><br />"),
            ("<p>\n\t a \n\n b\r\n c</p>", "<p>\na \nb\r\nc</p>"),
            (
                "<svg><title>a</title><style/><![CDATA[<p>]]></svg><![CDATA[<p>]]>",
                "<svg><title>a</title><style /><!----></svg><!---->]]>",
            ),
            ("<svg><path><p><script>'<i>'</script></svg>", "<svg><path><p><script></script></svg>"),
            ("<svg><desc><p></desc><script><i></script>", "<svg><desc><p></desc><script><i></script>"),
            ("<template shadowrootmode=open><template>a</template></template>", "<div><template>a</template></div>"),
            ("<p", "<p>"),
        ] {
            assert_eq!(minified(html, LIMITS, false).html, expected, "{html}");
        }
        for (html, expected) in [
            (format!("<p class=\"{long}\" id=b>e"), format!("<p class=\"{cut}\" id=b>e")),
            (format!("<p id={}>e", "y".repeat(5_000)), format!("<p id={}>e", "y".repeat(MAX_VALUE))),
            (format!("<p role='{}'>", "\u{5b57}".repeat(1_000)), format!("<p role='{}'>", "\u{5b57}".repeat(341))),
            (format!("a<!-- {long}-->b"), "a<!---->b".to_owned()),
        ] {
            assert_eq!(minified(&html, LIMITS, false).html, expected);
        }
    }

    #[test]
    fn noscript_is_shown_if_asked_for_and_counts_where_there_is_no_other_text() {
        let text = "One of the posts. ".repeat(10);
        let html = format!("<div>a</div><noscript>{text}<a>link</a><p>b</p></noscript></noscript>");
        let page = minified(&html, LIMITS, false);
        assert!(page.is_mostly_noscript(140) && !page.is_mostly_noscript(141), "{}", page.noscript);
        assert_eq!(
            minified(&html, LIMITS, true).html,
            format!("<div>a</div><div>{text}<a>link</a><p>b</p></div></noscript>")
        );
        let asks = format!("<noscript>Please turn on JavaScript. {text}</noscript>");
        assert!(!minified(&asks, LIMITS, false).is_mostly_noscript(0));
    }

    fn is_deeper_than(html: &str, limit: usize) -> bool {
        shape(html, limit) == Shape::TooDeep
    }

    #[test]
    fn the_kept_attributes_of_one_tag_are_counted() {
        for (tag, attributes) in [
            ("<img>", 0),
            ("<img src=x>", 1),
            ("<img href = 'x y' title=\"a b c\"data=1 checked/>", 4),
            ("<img a/b/c>", 3),
            ("<img\n a\tb  c>", 3),
            ("<p href=x/y title=a data=1>", 1),
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
