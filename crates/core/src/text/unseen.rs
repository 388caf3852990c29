//! Text that browsers show although it is in an element whose content they mostly hide: in the shadow root that a
//! template declares, and, without JavaScript, in `noscript`.
//!
//! Pages of web components have their text in shadow roots. Forum software gives crawlers its topics in `noscript`, which
//! mostly holds a picture or asks for JavaScript, so that text counts only where the page has no other.

use super::markup::{Piece, Tag, pieces, write_doctype};
use super::normalize::non_whitespace_chars;

/// Fewer characters than this in `noscript` do not count.
const MIN_TEXT: usize = 120;

/// A text of fewer characters than this that names JavaScript asks for it.
const MAX_NOTICE: usize = 500;

/// Returns a page with its declared shadow roots shown; `None` if it has none.
pub(super) fn shadow_roots_shown(html: &str) -> Option<String> {
    // The attribute had another name until 2023.
    let is_shadow_root =
        |tag: &Tag<'_>| ["shadowrootmode", "shadowroot"].iter().any(|name| tag.attribute(name).is_some());
    let (shown, is_any) =
        has_tag(html, "template").then(|| shown(html, "template", is_shadow_root, &mut String::new()))?;
    is_any.then_some(shown)
}

/// Returns a page with its `noscript` shown if that has more characters, outside of links and without whitespace, than
/// the rest of the page (`rest`) and does not merely ask for JavaScript.
pub(super) fn noscript_shown(html: &str, rest: usize) -> Option<String> {
    let mut text = String::new();
    let (shown, _) = has_tag(html, "noscript").then(|| shown(html, "noscript", |_| true, &mut text))?;
    let characters = non_whitespace_chars(&text);
    let asks = || characters < MAX_NOTICE && text.to_lowercase().contains("javascript");
    (characters >= MIN_TEXT && characters > rest && !asks()).then_some(shown)
}

/// Returns whether a start tag with this name may be in the page.
fn has_tag(html: &str, name: &str) -> bool {
    let bytes = html.as_bytes();
    let is_name = |at: usize| {
        bytes.get(at + 1..at + 1 + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
    };
    html.match_indices('<').any(|(at, _)| is_name(at))
}

/// Returns the page with the wanted elements of this name replaced by `div`, and whether there were any. Appends their
/// text outside of links to `text`.
fn shown(html: &str, name: &str, is_wanted: impl Fn(&Tag<'_>) -> bool, text: &mut String) -> (String, bool) {
    let mut out = String::with_capacity(html.len());
    write_doctype(html, &mut out);
    // The open elements of this name, and whether each is shown.
    let mut open = Vec::new();
    let (mut shown, mut links, mut has_any) = (0_usize, 0_usize, false);
    for piece in pieces(html) {
        match &piece {
            Piece::Start(tag) if tag.name.eq_ignore_ascii_case(name) => {
                let is_shown = is_wanted(tag);
                open.push(is_shown);
                if is_shown {
                    has_any = true;
                    shown += 1;
                    out.push_str("<div>");
                    continue;
                }
            }
            Piece::End(end) if end.eq_ignore_ascii_case(name) => {
                if open.pop() == Some(true) {
                    shown -= 1;
                    out.push_str("</div>");
                    continue;
                }
            }
            Piece::Start(tag) => links += usize::from(tag.name.eq_ignore_ascii_case("a")),
            Piece::End(end) => links = links.saturating_sub(usize::from(end.eq_ignore_ascii_case("a"))),
            Piece::Text(content) if links == 0 && shown > 0 => text.push_str(content),
            Piece::Text(_) | Piece::Raw(_) => {}
        }
        piece.write(&mut out);
    }
    (out, has_any)
}
