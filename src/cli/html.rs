//! Writes pages that compare texts, each as one self-contained HTML file.

use std::fmt::Write as _;

use super::compare::{Change, diff};
use crate::text::Analyzer;

/// Characters shown of each text, and of each side of a change.
const SHOWN: usize = 400;

/// Maximum number of changes shown of a pair, and of characters of all of them together.
const CHANGES: usize = 30;
const ALL_CHANGES: usize = 4000;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;\
    overflow-wrap:anywhere}section{border-top:1px solid #999;padding:1rem 0}.two{display:grid;\
    grid-template-columns:1fr 1fr;gap:1rem}del{background:#fbd5d5}ins{background:#cdeccd;text-decoration:none}\
    small{color:#555}h2{font-size:1rem}li{margin:.2rem 0}a{color:inherit}table{border-collapse:collapse}\
    th,td{text-align:left;padding:.1rem 1rem .1rem 0}td.n,th.n{text-align:right;white-space:nowrap}form{margin:1rem 0}\
    form label{margin-right:1rem}input,select{font:inherit;max-width:100%}:target{outline:2px solid #7aa7e0}\
    @media(max-width:40rem){.two{grid-template-columns:1fr}}\
    @media(prefers-color-scheme:dark){:root{color-scheme:dark}body{background:#16181c;color:#e4e4e4}\
    small{color:#aaa}del{background:#6b2525}ins{background:#1f5227}}";

/// A script that a page holds, and the hash with which the page's policy allows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    /// The script.
    pub(super) text: &'static str,
    /// Base64 of its SHA-256 hash.
    pub(super) sha256: &'static str,
}

/// Begins a page. Its policy forbids everything outside the page: other scripts, images, fonts, requests, forms.
pub(super) fn begin(title: &str, script: Option<Script>) -> String {
    let scripts = script.map(|script| format!(" script-src 'sha256-{}';", script.sha256)).unwrap_or_default();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline';{scripts} \
         base-uri 'none'; form-action 'none'\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{}</title><style>{STYLE}</style></head>\n<body>",
        escaped(title)
    )
}

/// Ends a page.
pub(super) fn end(out: &mut String, script: Option<Script>) {
    if let Some(script) = script {
        let _ = write!(out, "<script>{}</script>", script.text);
    }
    out.push_str("</body></html>\n");
}

/// One text of a pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named<'t> {
    /// HTML that names it.
    pub(super) name: &'t str,
    /// The normalised text.
    pub(super) text: &'t str,
}

/// Writes two texts side by side, and their differences.
pub(super) fn pair(out: &mut String, analyzer: &Analyzer, one: Named<'_>, other: Named<'_>) {
    side_by_side(out, &[one, other]);
    out.push_str("<ul>");
    let changes = diff(analyzer, one.text, other.text).changes;
    let (mut shown, mut length) = (0, 0);
    for Change { before, gone, come, after } in changes.iter().take(CHANGES) {
        let texts = [before, gone, come, after].map(|text| head(text));
        length += texts.iter().map(|text| text.chars().count()).sum::<usize>();
        if shown > 0 && length > ALL_CHANGES {
            break;
        }
        shown += 1;
        let [before, gone, come, after] = texts.map(|text| escaped(&text));
        // Writing to a `String` cannot fail.
        let _ = write!(out, "<li>{before}<del>{gone}</del><ins>{come}</ins>{after}</li>");
    }
    if changes.len() > shown {
        let _ = write!(out, "<li>and {} more changed places</li>", changes.len() - shown);
    }
    out.push_str("</ul>");
}

/// Writes the beginnings of texts side by side.
pub(super) fn side_by_side(out: &mut String, texts: &[Named<'_>]) {
    out.push_str("<div class=\"two\">");
    for Named { name, text } in texts {
        let _ = write!(out, "<div><small>{name}</small><p>{}</p></div>", escaped(&head(text)));
    }
    out.push_str("</div>\n");
}

fn head(text: &str) -> String {
    let head: String = text.chars().take(SHOWN).collect();
    if head.len() < text.len() { head + "…" } else { head }
}

/// Escapes the text for HTML, between tags and in a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}
