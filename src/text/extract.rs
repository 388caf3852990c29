//! HTML -> the text that a reader sees.

use super::nesting;
use super::settings::HtmlText;
use crate::record::{Reject, Rejection};
use dom_smoothie::{Config, Readability, TextMode};

/// Main text shorter than this many bytes is not trusted: then all visible text counts.
const LEAST_MAIN_TEXT: usize = 120;

/// Elements whose content is not shown.
const HIDDEN: [&str; 9] = ["head", "script", "style", "noscript", "template", "iframe", "object", "textarea", "svg"];

/// Elements that do not end a word.
const INLINE: [&str; 26] = [
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "em", "font", "i", "ins", "kbd", "mark", "q",
    "s", "small", "span", "strike", "strong", "sub", "sup", "u", "wbr",
];

/// Takes the text out of an HTML page.
pub(super) fn text_of(html: &str, wanted: HtmlText, max_nesting: usize) -> Result<String, Rejection> {
    let too_deep = || {
        let message = format!("HTML is nested deeper than {max_nesting} levels");
        Rejection::new(Reject::TooDeep, message)
    };
    if nesting::is_deeper_than(html, max_nesting) {
        return Err(too_deep());
    }
    let config = Config { text_mode: TextMode::Formatted, disable_json_ld: true, ..Config::default() };
    let Ok(mut page) = Readability::new(html, None, Some(config)) else { return Ok(String::new()) };
    // Paragraphs, list items and cells stand between the elements that the scan counted.
    let visible = visible_text(&page, max_nesting.saturating_mul(2).saturating_add(64)).ok_or_else(too_deep)?;
    if wanted == HtmlText::AllText || visible.trim().len() < LEAST_MAIN_TEXT {
        return Ok(visible);
    }
    let main = page.parse().ok().map(|article| String::from(article.text_content));
    Ok(main.filter(|main| main.trim().len() >= LEAST_MAIN_TEXT).unwrap_or(visible))
}

/// Walks the tree without recursion; `None` when it is deeper than `max_depth`.
fn visible_text(page: &Readability, max_depth: usize) -> Option<String> {
    let mut text = String::new();
    let mut depth = 0_usize;
    let root = page.doc.root();
    let mut node = root;
    loop {
        let mut shown = true;
        if node.is_text() {
            text.push_str(&node.text());
        } else if let Some(name) = node.node_name() {
            shown = !HIDDEN.contains(&&*name);
            if !INLINE.contains(&&*name) {
                text.push('\n');
            }
        }
        if shown && let Some(child) = node.first_child() {
            depth += 1;
            if depth > max_depth {
                return None;
            }
            node = child;
            continue;
        }
        loop {
            if node.id == root.id {
                return Some(text);
            }
            if let Some(sibling) = node.next_sibling() {
                node = sibling;
                break;
            }
            let Some(parent) = node.parent() else { return Some(text) };
            node = parent;
            depth = depth.saturating_sub(1);
            if node.node_name().is_some_and(|name| !INLINE.contains(&&*name)) {
                text.push('\n');
            }
        }
    }
}
