//! The pairs to look at: one HTML page that needs nothing else.

use std::fmt::Write as _;

use super::{Sampled, Tuned};
use crate::cli::compare::diff::{Change, diff};
use crate::fingerprint::share;
use crate::quality::Alike;
use crate::text::Analyzer;

/// Characters shown of each text, and of each side of a change.
const SHOWN: usize = 400;

/// Changes shown of a pair.
const CHANGES: usize = 30;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}\
    section{border-top:1px solid #999;padding:1rem 0}.two{display:grid;grid-template-columns:1fr 1fr;gap:1rem}\
    del{background:#fbd5d5}ins{background:#cdeccd;text-decoration:none}small{color:#555}h2{font-size:1rem}\
    li{margin:.2rem 0}@media(prefers-color-scheme:dark){:root{color-scheme:dark}body{background:#16181c;color:#e4e4e4}\
    small{color:#aaa}del{background:#6b2525}ins{background:#1f5227}}";

/// Writes the page.
pub(super) fn html(analyzer: &Analyzer, pages: &[Sampled], pairs: &[Alike], tuned: &Tuned) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>dupgate tune</title><style>{STYLE}</style></head>\n\
         <body><h1>{} pairs to look at</h1>\n<p>Are these duplicates? The referee says so from a Jaccard index of {} on. First come \
         the pairs on which it and the recommended thresholds disagree, then those nearest to its border.</p>\n",
        pairs.len(),
        tuned.truth
    );
    for alike in pairs {
        let (Some(one), Some(other)) = (pages.get(alike.one), pages.get(alike.other)) else { continue };
        section(&mut out, analyzer, alike, [one, other], tuned.truth);
    }
    out + "</body></html>\n"
}

fn section(out: &mut String, analyzer: &Analyzer, alike: &Alike, pages: [&Sampled; 2], truth: f64) {
    let verdict = if alike.jaccard >= truth { "duplicate" } else { "not the same" };
    let bits = alike.bits.map_or_else(|| "no SimHash".to_owned(), |bits| format!("{bits} bits"));
    let estimate = alike
        .estimate
        .map_or_else(|| "not compared by sketches".to_owned(), |estimate| format!("estimated {}", share(estimate)));
    // Writing to a `String` cannot fail.
    let _ = write!(
        out,
        "<section><h2>Jaccard index {:.3}: {verdict} <small>{bits}, {estimate}</small></h2>\n<div class=\"two\">",
        alike.jaccard
    );
    for page in pages {
        let name = page.id.as_deref().map_or_else(|| page.place.clone(), |id| format!("{} {id}", page.place));
        let _ = write!(out, "<div><small>{}</small><p>{}</p></div>", escaped(&name), escaped(&head(&page.text)));
    }
    out.push_str("</div>\n<ul>");
    let [one, other] = pages;
    let changes = diff(analyzer, &one.text, &other.text).changes;
    for Change { before, gone, come, after } in changes.iter().take(CHANGES) {
        let [before, gone, come, after] = [before, gone, come, after].map(|text| escaped(&head(text)));
        let _ = write!(out, "<li>{before}<del>{gone}</del><ins>{come}</ins>{after}</li>");
    }
    if changes.len() > CHANGES {
        let _ = write!(out, "<li>and {} more changed places</li>", changes.len() - CHANGES);
    }
    out.push_str("</ul></section>\n");
}

fn head(text: &str) -> String {
    let head: String = text.chars().take(SHOWN).collect();
    if head.len() < text.len() { head + "…" } else { head }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
