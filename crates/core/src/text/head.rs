//! The addresses, the title and the heading of an HTML page.
//!
//! A title says several things: the headline of its text, the names of section and site, and the kind of rendering.

use std::borrow::Cow;
use std::collections::HashSet;

use super::markup::{Piece, Place, Tag, decode_into, is_any, pieces};
use super::normalize::{is_blank, stretches};

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
pub(crate) struct HeadLinks {
    /// The address that the page gives for all its variants (`<link rel=canonical>`), relative to [`HeadLinks::base`].
    pub canonical: Option<String>,
    /// What references are relative to (`<base>`), itself relative to the page's address.
    pub base: Option<String>,
}

impl HeadLinks {
    /// Reads the head of a page in one pass, without a tree. The first link of each kind counts.
    #[must_use]
    pub(crate) fn of(html: &str) -> Self {
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
                Piece::Start(tag) if !is_any(tag.name, &HEAD_ELEMENTS) => break,
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
            Piece::Start(tag) if is_any(tag.name, &TITLED) => inside += usize::from(!tag.is_closed()),
            Piece::End(name) if is_any(name, &TITLED) => inside = inside.saturating_sub(1),
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
            Piece::Start(tag) if is_any(tag.name, &TITLED) => inside += usize::from(!tag.is_closed()),
            Piece::End(name) if is_any(name, &TITLED) => inside = inside.saturating_sub(1),
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

/// What separates the headline in a title from the names of its section and site.
const SEPARATORS: [&str; 8] = ["|", "｜", "_", " - ", " – ", " — ", " · ", " » "];

/// A headline of fewer terms than this announces nothing.
const MIN_TERMS: usize = 3;

/// Letters of a word, at least; shorter ones occur in every text.
const MIN_LETTERS: usize = 4;

/// What the titles of print, mobile and AMP renderings add, in lower case.
const RENDERINGS: [&str; 36] = [
    "amp",
    "amp version",
    "amp-version",
    "drucken",
    "druckansicht",
    "druckversion",
    "imprimer",
    "imprimir",
    "mobil",
    "mobile",
    "mobile site",
    "mobile version",
    "mobile-version",
    "mobilversion",
    "print",
    "print article",
    "print page",
    "print version",
    "print view",
    "printable version",
    "printer friendly",
    "printer-friendly",
    "printer friendly version",
    "printer-friendly version",
    "stampa",
    "version imprimable",
    "version mobile",
    "versión para imprimir",
    "versión móvil",
    "versão para impressão",
    "versione stampabile",
    "версия для печати",
    "мобильная версия",
    "手机版",
    "打印",
    "打印版",
];

/// Returns the parts of a title in lower case: the headline, and the names of section and site.
fn parts_of(title: &str) -> impl Iterator<Item = &str> {
    let parts = SEPARATORS
        .iter()
        .fold(vec![title], |parts, separator| parts.into_iter().flat_map(|part| part.split(separator)).collect());
    parts.into_iter().map(str::trim)
}

/// Returns a title without what only says how the page is rendered: `Print: Red shoe | Shop` and `Red shoe - Shop - AMP`
/// are titles of one page. What is left is in lower case.
pub(super) fn without_rendering(title: &str) -> Cow<'_, str> {
    let lower = title.to_lowercase();
    let is_rendering = |part: &str| RENDERINGS.contains(&part.trim_matches(['(', ')', '[', ']', ' ']));
    let prefix = lower.split_once(':').filter(|(prefix, _)| is_rendering(prefix));
    let parts: Vec<&str> = parts_of(prefix.map_or(&lower, |(_, rest)| rest)).collect();
    let kept: Vec<&str> = parts.iter().copied().filter(|part| !is_rendering(part)).collect();
    let mut left = kept.join(" | ");
    // `Red shoe (print version)`, `Red shoe - Shop mobile`.
    let is_last = |at: &usize| left.get(*at..).is_some_and(is_rendering);
    let bracketed = left.rfind(['(', '[']).filter(is_last);
    let last = bracketed.or_else(|| left.rfind(' ').filter(|at| kept.len() > 1 && is_last(at)));
    last.into_iter().for_each(|at| left.truncate(at));
    if left.is_empty() || (prefix.is_none() && kept.len() == parts.len() && last.is_none()) {
        return Cow::Borrowed(title);
    }
    Cow::Owned(left)
}

/// Returns whether a title says nothing of a page with this heading: it has words, and none of them is in the heading.
/// Then it is the title of the whole site.
pub(super) fn is_of_site(title: &str, heading: &str) -> bool {
    let (title, heading) = (title.to_lowercase(), heading.to_lowercase());
    let (title, heading) = (terms(&title), terms(&heading));
    !heading.is_empty() && title.is_disjoint(&heading)
}

/// Returns whether at least half of the terms of the headline are in the text, besides the headline itself: a form for
/// comments repeats it, and a notice, terms of use or a note about the author have little to do with it.
pub(super) fn announces(title: &str, text: &str) -> bool {
    let title = title.to_lowercase();
    let parts = parts_of(&title).map(|part| (part, terms(part)));
    let Some((headline, wanted)) = parts.max_by_key(|(_, terms)| terms.len()) else {
        return false;
    };
    if wanted.len() < MIN_TERMS {
        return false;
    }
    let text = text.to_lowercase().replace(headline, "\n");
    let found = terms(&text);
    wanted.intersection(&found).count() * 2 >= wanted.len()
}

/// Returns the words of a text, and pairs of characters where the script puts no spaces between words or inflects them
/// by syllables.
fn terms(text: &str) -> HashSet<&str> {
    let mut found = HashSet::new();
    for run in text.split(|c: char| !c.is_alphanumeric()) {
        for (paired, part) in stretches(run, is_paired) {
            if paired {
                let starts = part.char_indices().zip(part.char_indices().skip(1));
                found.extend(starts.filter_map(|((from, first), (next, second))| {
                    // Pairs of hiragana are endings and particles.
                    let is_ending = is_hiragana(first) && is_hiragana(second);
                    part.get(from..next + second.len_utf8()).filter(|_| !is_ending)
                }));
            } else if part.chars().count() >= MIN_LETTERS {
                found.insert(part);
            }
        }
    }
    found
}

fn is_paired(c: char) -> bool {
    // Thai and Lao, kana, Han, Hangul.
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

fn is_hiragana(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{309f}')
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

    #[test]
    fn an_article_is_announced_by_its_headline() {
        for (title, text) in [
            (
                "Harbour dredging delayed until autumn - The Daily Post",
                "Work to deepen the harbour has been delayed again. The port said that dredging would begin in autumn.",
            ),
            ("央行下调存款准备金率_新浪财经", "中国人民银行今天宣布，下调金融机构存款准备金率零点五个百分点。"),
            ("한국은행 기준금리 동결 | 경제신문", "한국은행이 오늘 기준금리를 현 수준에서 동결하기로 했다."),
            (
                "日本銀行、大規模な金融緩和を維持｜ニュース",
                "日本銀行は金融政策決定会合で、金融緩和策を維持することを決めた。",
            ),
        ] {
            assert!(announces(title, text), "{title}");
        }
    }

    #[test]
    fn a_title_is_the_same_in_every_rendering() {
        for (title, kept) in [
            ("Print: Red shoe | Shop", "red shoe | shop"),
            ("Red shoe - Shop - AMP", "red shoe | shop"),
            ("Red shoe | Shop", "Red shoe | Shop"),
            ("Red shoe – Shop mobile", "red shoe | shop"),
            ("Red shoe (Print version)", "red shoe"),
            ("Rote Schuhe - Laden [Druckversion]", "rote schuhe | laden"),
            ("版本说明_手机版", "版本说明"),
            ("Версия для печати: Красный", "красный"),
            // These are what the pages are about.
            ("Nokia mobile", "Nokia mobile"),
            ("Fine Print", "Fine Print"),
            ("Print", "Print"),
            ("Mobile | AMP", "Mobile | AMP"),
            ("Amp: repairs", "repairs"),
            ("", ""),
        ] {
            assert_eq!(without_rendering(title).trim(), kept, "{title}");
        }
    }

    #[test]
    fn a_title_without_a_word_of_the_heading_is_that_of_the_site() {
        for (title, heading, expected) in [
            ("The Daily Post", "Harbour dredging delayed", true),
            ("Harbour dredging delayed - The Daily Post", "Dredging of the harbour is delayed", false),
            ("新浪财经", "央行下调存款准备金率", true),
            ("央行下调准备金率_新浪财经", "央行下调存款准备金率", false),
            ("The Daily Post", "", false),
            ("The Daily Post", "5 of 6", false),
            ("Home", "Harbour", true),
        ] {
            assert_eq!(is_of_site(title, heading), expected, "{title}: {heading}");
        }
    }

    #[test]
    fn what_stands_beside_an_article_is_not() {
        let title = "Harbour dredging delayed until autumn - The Daily Post";
        for text in [
            "We use cookies and similar technologies to personalise content and to analyse our traffic.",
            "Leave a comment on Harbour dredging delayed until autumn. Your address will not be published.",
            "The author writes about the harbour and lives in the north with two dogs and a boat.",
            "",
        ] {
            assert!(!announces(title, text), "{text}");
        }
        for title in ["", "Home", "The Daily Post", " | ", "News - Post"] {
            assert!(!announces(title, "The Daily Post has news about your home, every day."), "{title}");
        }
        assert!(!announces(
            "央行下调存款准备金率_新浪财经",
            "版权所有，未经授权不得转载。新浪财经对此不承担任何责任。"
        ));
    }
}
