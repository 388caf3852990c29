//! Writes the pairs to review as one self-contained HTML page.

use std::fmt::Write as _;

use super::{Sampled, Tuned};
use crate::cli::html::{self, Named, escaped};
use crate::quality::Alike;
use crate::text::Analyzer;

/// Writes the page.
pub(super) fn html(analyzer: &Analyzer, pages: &[Sampled], pairs: &[Alike], tuned: &Tuned) -> String {
    let mut out = html::begin("dupgate tune", None);
    // Writing to a `String` cannot fail.
    let _ = write!(
        out,
        "<h1>{} pairs to review</h1>\n<p>Are these duplicates? The reference calls pairs with a Jaccard index of {} or more duplicates. First come \
         the pairs on which it and the recommended thresholds disagree, then those nearest to its border.</p>\n",
        pairs.len(),
        tuned.truth
    );
    for alike in pairs {
        let (Some(one), Some(other)) = (pages.get(alike.one), pages.get(alike.other)) else { continue };
        section(&mut out, analyzer, alike, [one, other], tuned.truth);
    }
    html::end(&mut out, None);
    out
}

fn section(out: &mut String, analyzer: &Analyzer, alike: &Alike, pages: [&Sampled; 2], truth: f64) {
    let verdict = if alike.jaccard >= truth { "duplicate" } else { "not the same" };
    let bits = alike.bits.map_or_else(|| "no SimHash".to_owned(), |bits| format!("{bits} bits"));
    let estimate = alike
        .estimate
        .map_or_else(|| "not compared by sketches".to_owned(), |estimate| format!("estimated {estimate}"));
    let _ = writeln!(
        out,
        "<section><h2>Jaccard index {:.3}: {verdict} <small>{bits}, {estimate}</small></h2>",
        alike.jaccard
    );
    let [one, other] = pages;
    let [one_name, other_name] = pages.map(|page| {
        let name = page.id.as_deref().map_or_else(|| page.place.clone(), |id| format!("{} {id}", page.place));
        escaped(&name)
    });
    let one = Named { name: &one_name, text: &one.text };
    html::pair(out, analyzer, one, Named { name: &other_name, text: &other.text });
    out.push_str("</section>\n");
}
