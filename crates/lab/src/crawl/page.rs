//! An article in the frame of a site: the JSON that a crawler would put on its bus.

use std::fmt::Write as _;

use serde::Serialize;

use super::article::{Article, Language};
use super::{Damage, Rng};
use dupgate_core::record::Timestamp;

/// Where a page was found and when.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) url: String,
    pub(super) site: String,
    /// What the site puts after a title: nothing, or a mark and its name.
    pub(super) suffix: String,
    pub(super) fetched: Timestamp,
}

#[derive(Serialize)]
struct Json<'a> {
    url: &'a str,
    site: &'a str,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<&'a str>,
    fetched_at: String,
}

/// Levels of the lists of [`Damage::DeepNesting`].
const NESTING: usize = 1000;

/// Writes the page with its ready text.
pub(super) fn with_text(article: &Article, frame: &Frame) -> Vec<u8> {
    json(&article.title, Some(&article.text()), None, frame)
}

/// Writes the page as the site shows it: navigation, the article, a footer.
pub(super) fn with_html(article: &Article, frame: &Frame) -> Vec<u8> {
    json(&article.title, None, Some(&html(article, frame)), frame)
}

/// Writes a record that no page can be read from.
pub(super) fn damaged(article: &Article, frame: &Frame, damage: Damage, rng: &mut Rng) -> Vec<u8> {
    match damage {
        Damage::InvalidUtf8 => {
            let mut bytes = with_text(article, frame);
            let middle = bytes.len() / 2;
            if let Some(byte) = bytes.get_mut(middle) {
                *byte = 0xff;
            }
            bytes
        }
        Damage::TruncatedJson => {
            let mut bytes = with_text(article, frame);
            let percent = usize::try_from(rng.between(20, 90)).unwrap_or(50);
            bytes.truncate(bytes.len() * percent / 100);
            bytes
        }
        Damage::MissingField => json(&article.title, None, None, frame),
        Damage::EmptyText => json(&article.title, Some(" \n\t\u{3000} "), None, frame),
        Damage::WrongType => with_member(json(&article.title, None, None, frame), "text", "[4,8,15,16,23,42]"),
        Damage::DeepNesting => {
            let lists = ["[".repeat(NESTING), "]".repeat(NESTING)].concat();
            with_member(with_text(article, frame), "links", &lists)
        }
    }
}

fn json(title: &str, text: Option<&str>, html: Option<&str>, frame: &Frame) -> Vec<u8> {
    let fetched = jiff::Timestamp::from_millisecond(frame.fetched.millis());
    let fetched_at = fetched.map_or_else(|_| frame.fetched.to_string(), |time| time.to_string());
    let title = &[title, &frame.suffix].concat();
    let page = Json { url: &frame.url, site: &frame.site, title, text, html, fetched_at };
    // Strings alone: nothing in it can fail to be written.
    serde_json::to_vec(&page).unwrap_or_default()
}

/// Adds a member with this JSON as its value to the end of an object.
fn with_member(mut object: Vec<u8>, name: &str, value: &str) -> Vec<u8> {
    object.pop();
    object.extend_from_slice(format!(",\"{name}\":{value}}}").as_bytes());
    object
}

fn html(article: &Article, frame: &Frame) -> String {
    let (language, home, news, about, rights) = match article.language {
        Language::Chinese => ("zh", "首页", "新闻", "关于我们", "版权所有"),
        Language::English => ("en", "Home", "News", "About us", "All rights reserved"),
    };
    let (title, site, suffix) = (&article.title, &frame.site, &frame.suffix);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"{language}\"><head><meta charset=\"utf-8\"><title>{title}{suffix}</title></head>\n\
         <body><nav><ul><li><a href=\"/\">{home}</a></li><li><a href=\"/news\">{news}</a></li></ul></nav>\n\
         <main><article><h1>{title}</h1>\n"
    );
    for line in article.lines() {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "<p>{line}</p>");
    }
    let _ = write!(
        page,
        "</article></main>\n<footer><a href=\"/about\">{about}</a> {site} {rights}</footer></body></html>\n"
    );
    page
}
