//! Visible text of HTML without a tree: for pages whose tree would be too large.

use super::elements::{HIDDEN, INLINE};
use super::entities::{Place, decode_into};
use super::markup::{Piece, pieces};
use super::nesting::is_any;

/// Returns the text between the tags, up to `most` bytes and the rest of the piece in which they end.
pub(super) fn text_of(html: &str, most: usize) -> String {
    let mut text = String::new();
    // The open hidden element, and how many elements of its name are open.
    let mut hidden: Option<(&str, usize)> = None;
    let mut shows_raw = false;
    for piece in pieces(html) {
        if text.len() > most {
            break;
        }
        match (piece, &mut hidden) {
            (Piece::Start(tag), Some((name, open))) => {
                *open += usize::from(tag.name.eq_ignore_ascii_case(name));
            }
            (Piece::End(ended), Some((name, open))) => {
                *open -= usize::from(ended.eq_ignore_ascii_case(name));
                if *open == 0 {
                    hidden = None;
                }
            }
            (_, Some(_)) => {}
            (Piece::Text(piece), None) => decode_into(piece, Place::Text, &mut text),
            (Piece::Raw(raw), None) => {
                if shows_raw {
                    text.push_str(raw);
                }
            }
            (Piece::Start(tag), None) => {
                let name = tag.name.as_bytes();
                end_word(tag.name, &mut text);
                shows_raw = is_any(name, &["xmp", "noembed", "noframes"]);
                let empty = is_any(name, &["svg"]) && tag.is_closed();
                // A `<head>` is not hidden as a whole: its end tag may be left out, and its contents are hidden anyway.
                if is_any(name, &HIDDEN) && !is_any(name, &["head"]) && !empty {
                    hidden = Some((tag.name, 1));
                }
            }
            (Piece::End(name), None) => end_word(name, &mut text),
        }
    }
    text
}

fn end_word(element: &str, text: &mut String) {
    if !text.ends_with('\n') && !is_any(element.as_bytes(), &INLINE) {
        text.push('\n');
    }
}
