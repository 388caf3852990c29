//! Text that browsers show in place of another: in `noscript`, and in the shadow root that a template declares.
//!
//! Forum software gives crawlers its topics in `noscript`, and pages of web components have their text in templates.
//! Such text counts where the page has no other. Mostly, `noscript` holds a picture or asks for JavaScript.

use super::markup::{Piece, pieces, write_doctype};
use super::nesting::is_any;
use super::normalize::non_whitespace_chars;

/// Fewer characters than this do not count.
const MIN_TEXT: usize = 120;

/// A text of fewer characters than this that names JavaScript asks for it.
const MAX_NOTICE: usize = 500;

/// Returns a page with such text shown if it has more characters, outside of links and without whitespace, than the rest
/// of the page (`shown`) and does not merely ask for JavaScript.
pub(super) fn shown_instead(html: &str, shown: usize) -> Option<String> {
    if !["noscript", "NOSCRIPT", "shadowrootmode"].iter().any(|name| html.contains(name)) {
        return None;
    }
    let (mut out, mut text) = (String::with_capacity(html.len()), String::new());
    write_doctype(html, &mut out);
    // The open templates, and whether each is a shadow root.
    let mut templates = Vec::new();
    let (mut noscript, mut shadows, mut links) = (0_usize, 0_usize, 0_usize);
    for piece in pieces(html) {
        match piece {
            Piece::Start(tag) if is_any(tag.name.as_bytes(), &["noscript"]) => {
                noscript += 1;
                out.push_str("<div>");
            }
            Piece::End(name) if is_any(name.as_bytes(), &["noscript"]) => {
                noscript = noscript.saturating_sub(1);
                out.push_str("</div>");
            }
            Piece::Start(tag) if is_any(tag.name.as_bytes(), &["template"]) => {
                let is_shadow = tag.attribute("shadowrootmode").is_some();
                templates.push(is_shadow);
                if is_shadow {
                    shadows += 1;
                    out.push_str("<div>");
                } else {
                    piece.write(&mut out);
                }
            }
            Piece::End(name) if is_any(name.as_bytes(), &["template"]) => {
                if templates.pop() == Some(true) {
                    shadows -= 1;
                    out.push_str("</div>");
                } else {
                    piece.write(&mut out);
                }
            }
            Piece::Start(tag) => {
                links += usize::from(is_any(tag.name.as_bytes(), &["a"]));
                piece.write(&mut out);
            }
            Piece::End(name) => {
                links = links.saturating_sub(usize::from(is_any(name.as_bytes(), &["a"])));
                piece.write(&mut out);
            }
            Piece::Text(content) => {
                if links == 0 && (noscript > 0 || shadows > 0) {
                    text.push_str(content);
                }
                piece.write(&mut out);
            }
            Piece::Raw(_) => piece.write(&mut out),
        }
    }
    let characters = non_whitespace_chars(&text);
    let asks = || characters < MAX_NOTICE && text.to_lowercase().contains("javascript");
    (characters >= MIN_TEXT && characters > shown && !asks()).then_some(out)
}
