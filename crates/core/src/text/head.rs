//! The addresses, the title and the heading of an HTML page.

use super::entities::{Place, decode_into};
use super::markup::{Piece, Tag, pieces};
use super::nesting::is_any;
use super::normalize::is_blank;

/// Elements of a head. The first other element begins the body. Links in the body are ignored, because readers may have
/// written them in comments.
const HEAD_ELEMENTS: [&str; 10] =
    ["html", "head", "title", "meta", "link", "base", "script", "style", "noscript", "template"];

/// Elements whose titles are not those of the page.
const TITLED: [&str; 3] = ["template", "noscript", "svg"];

/// How far a page is searched for its title and heading, in bytes.
const TITLE_WITHIN: usize = 1 << 18;

/// A heading of more bytes than this is none: its end is missing.
const MAX_HEADING: usize = 1 << 10;

/// References in the head of a page, with their character references decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadLinks {
    /// The address that the page gives for all its variants (`<link rel=canonical>`), relative to [`HeadLinks::base`].
    pub canonical: Option<String>,
    /// What references are relative to (`<base>`), itself relative to the page's address.
    pub base: Option<String>,
}

impl HeadLinks {
    /// Reads the head of a page in one pass, without a tree. The first link of each kind counts.
    #[must_use]
    pub fn of(html: &str) -> Self {
        let mut links = Self::default();
        for piece in pieces(html) {
            match piece {
                Piece::Start(tag) if tag.name.eq_ignore_ascii_case("link") => {
                    let mut kinds = tag.attribute("rel").unwrap_or_default().split_ascii_whitespace();
                    if links.canonical.is_none() && kinds.any(|kind| kind.eq_ignore_ascii_case("canonical")) {
                        links.canonical = reference(&tag);
                    }
                }
                Piece::Start(tag) if tag.name.eq_ignore_ascii_case("base") => {
                    links.base = links.base.or_else(|| reference(&tag));
                }
                Piece::Start(tag) if !is_any(tag.name.as_bytes(), &HEAD_ELEMENTS) => break,
                Piece::End(name) if name.eq_ignore_ascii_case("head") => break,
                Piece::Text(text) if !is_blank(text) => break,
                Piece::Start(_) | Piece::End(_) | Piece::Text(_) | Piece::Raw(_) => {}
            }
        }
        links
    }
}

/// Returns the text of the first title of a page that is not blank, without a tree. As in browsers, a title counts
/// wherever it is, because careless pages begin the body early: with a counter's image, a warning of the server, or a
/// byte order mark within the text.
pub(super) fn title_of(html: &str) -> Option<String> {
    let (mut inside, mut is_title) = (0_usize, false);
    for piece in pieces(beginning_of(html)) {
        match piece {
            Piece::Raw(title) if is_title => {
                let mut decoded = String::with_capacity(title.len());
                decode_into(title, Place::Text, &mut decoded);
                if !is_blank(&decoded) {
                    return Some(decoded);
                }
            }
            Piece::Start(tag) if is_any(tag.name.as_bytes(), &TITLED) => inside += usize::from(!tag.is_closed()),
            Piece::End(name) if is_any(name.as_bytes(), &TITLED) => inside = inside.saturating_sub(1),
            Piece::Start(tag) => is_title = inside == 0 && tag.name.eq_ignore_ascii_case("title"),
            Piece::End(_) | Piece::Text(_) | Piece::Raw(_) => {}
        }
    }
    None
}

/// Returns the text of the `h1` of a page, without a tree. Returns `None` if there is none, or more than one with a text,
/// because then they are headings of sections. A heading with a link in it is none either: it is the name of the site.
pub(super) fn heading_of(html: &str) -> Option<String> {
    let (mut inside, mut open, mut found) = (0_usize, None::<String>, None);
    for piece in pieces(beginning_of(html)) {
        match piece {
            Piece::Start(tag) if is_any(tag.name.as_bytes(), &TITLED) => inside += usize::from(!tag.is_closed()),
            Piece::End(name) if is_any(name.as_bytes(), &TITLED) => inside = inside.saturating_sub(1),
            Piece::Start(tag) if inside == 0 && tag.name.eq_ignore_ascii_case("h1") => open = Some(String::new()),
            Piece::Start(tag) if tag.name.eq_ignore_ascii_case("a") => open = None,
            Piece::Text(text) if inside == 0 => {
                if let Some(heading) = &mut open {
                    decode_into(text, Place::Text, heading);
                    open = open.filter(|heading| heading.len() <= MAX_HEADING);
                }
            }
            Piece::End(name) if name.eq_ignore_ascii_case("h1") => {
                if let Some(heading) = open.take().filter(|heading| !is_blank(heading))
                    && found.replace(heading).is_some()
                {
                    return None;
                }
            }
            Piece::Start(_) | Piece::End(_) | Piece::Text(_) | Piece::Raw(_) => {}
        }
    }
    found
}

fn beginning_of(html: &str) -> &str {
    html.get(..html.floor_char_boundary(TITLE_WITHIN)).unwrap_or(html)
}

fn reference(tag: &Tag<'_>) -> Option<String> {
    let written = tag.attribute("href")?.trim();
    let mut decoded = String::with_capacity(written.len());
    decode_into(written, Place::Attribute, &mut decoded);
    (!decoded.is_empty()).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(html: &str) -> Option<String> {
        HeadLinks::of(html).canonical
    }

    #[test]
    fn the_canonical_address_is_in_the_head() {
        for html in [
            "<!doctype html><html><head><title>a<b></title><link rel=\"canonical\" href=\"/a?b=1&amp;c=2\"></head>",
            "<LINK HREF='/a?b=1&c=2' REL='alternate Canonical'/>",
            "\u{feff} <!-- x -->\u{200b}<meta charset=utf-8><script>'<p>'</script>\n<link rel=canonical href=/a?b=1&c=2><p>",
            "<noscript><link rel=stylesheet href=x></noscript><link rel=canonical href=' /a?b=1&c=2 '><link rel=canonical href=b>",
        ] {
            assert_eq!(canonical(html).as_deref(), Some("/a?b=1&c=2"), "{html}");
        }
    }

    #[test]
    fn a_link_in_the_body_names_nothing() {
        let link = "<link rel=canonical href=/other>";
        for before in ["<p>", "<body>", "<head></head>", "text", "<div></div>"] {
            assert_eq!(canonical(&format!("{before}{link}")), None, "{before}");
        }
        for link in ["<link rel=canonical>", "<link rel=canonical href='  '>", "<!-- <link rel=canonical href=/a> -->"]
        {
            assert_eq!(canonical(link), None, "{link}");
        }
    }

    #[test]
    fn the_first_title_counts_wherever_it_is() {
        let title = "<title>Red &amp; blue</title>";
        for before in [
            "",
            "\u{feff}",
            "<head>\u{200b}",
            "<img src=/counter>",
            "<div></div>",
            "<esi:include src=x>",
            "Warning: no session<br><!doctype html>",
            "<head></head>",
            "<title> </title>",
            "<title></title>",
            "<template><title>No</title></template>",
            "<noscript><title>No</title></noscript>",
            "<svg><title>No</title></svg>",
            "<svg/>",
        ] {
            assert_eq!(
                title_of(&format!("{before}{title}<title>Second</title>")).as_deref(),
                Some("Red & blue"),
                "{before}"
            );
        }
        for html in
            ["<h1>t</h1>", "<svg><title>No</title></svg>", "<title>\u{feff}\n</title>", "<!-- <title>a</title> -->"]
        {
            assert_eq!(title_of(html), None, "{html}");
        }
    }

    #[test]
    fn a_heading_is_the_only_one_of_its_kind_and_no_link() {
        for (html, found) in [
            ("<p>a</p><H1 class=x>Red <em>&amp;</em> blue</H1><h2>b</h2>", Some("Red & blue")),
            ("<h1> </h1><h1><img src=logo></h1><h1>Red</h1>", Some("Red")),
            ("<h1><a href=/>Shop</a></h1><h1>Red</h1>", Some("Red")),
            ("<noscript><h1>No</h1></noscript><svg><h1>No</h1></svg><h1>Red</h1>", Some("Red")),
            ("<h1>Red<h1>Blue</h1>", Some("Blue")),
            ("<h1>Red</h1><h1>Blue</h1>", None),
            ("<h1><a href=/>Shop</a></h1>", None),
            ("<h1>Red", None),
            ("<title>Red</title>", None),
        ] {
            assert_eq!(heading_of(html).as_deref(), found, "{html}");
        }
        assert_eq!(heading_of(&format!("<h1>{}</h1>", "long ".repeat(300))), None);
    }

    #[test]
    fn the_first_base_counts() {
        let links = HeadLinks::of("<base target=_blank><base href=/x/><base href=/y/><link rel=canonical href=a>");
        assert_eq!(links, HeadLinks { canonical: Some("a".to_owned()), base: Some("/x/".to_owned()) });
    }
}
