//! Formats the results for people and for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::OneKnown;
use crate::quality::{Count, Edit, Report};

/// Writes the table. `background` is the number of texts among ten million that share a key with a probe by chance, and
/// the number of those that share enough keys. `one_known` counts pages that join two texts, one of them seen before.
pub(super) fn table(report: &Report, background: Option<[f64; 2]>, one_known: Option<&OneKnown>) -> String {
    let Report { pages, removed, lost, strayed, pairs, rand_index, largest, edits, apart } = report;
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "{text}");
    };
    let of = |count: &Count| format!("{:>7.2} %  {:>7} of {}", count.share() * 100.0, count.found, count.planted);
    line(format!("pages                {pages:>7}"));
    line(format!("duplicates removed   {}", of(removed)));
    line(format!("uniques lost         {}", of(lost)));
    line(format!(
        "strayed              {strayed:>7}  (copies that were called duplicates of a page they are no copy of)"
    ));
    line(format!("pair precision       {:>9.4}", pairs.precision()));
    line(format!("pair recall          {:>9.4}", pairs.recall()));
    line(format!("pair F1              {:>9.4}", pairs.f1()));
    line(format!("adjusted Rand index  {rand_index:>9.4}"));
    line(format!("largest cluster      {largest:>7}"));
    if let Some([found, compared]) = background {
        line(format!(
            "chance candidates    {found:>9.0} of 10,000,000 unrelated texts share a band with a page, {compared:.0} share enough to be compared"
        ));
    }
    for (edit, count) in edits {
        line(format!("  {:<18} {}", edit.name(), of(count)));
    }
    for (edit, count) in apart {
        let of_what = if *edit == Edit::Joined { "called near either text" } else { "called near" };
        line(format!("  {:<18} {}  (apart: {of_what})", edit.name(), of(count)));
    }
    if let Some(OneKnown { pages, .. }) = one_known {
        line(format!("  {:<18} {}  (apart: called near the one that was seen before)", "joined_one_known", of(pages)));
    }
    out
}

/// Returns the same results as one JSON object, and the similarities of the texts (`BackgroundSimilarity::histogram`).
pub(super) fn json(report: &Report, background: Option<[f64; 2]>, likeness: Option<&[u32]>) -> Value {
    let by_edit = |counts: &[(Edit, Count)]| {
        let members = counts.iter().map(|(edit, count)| (edit.name().to_owned(), json!(count)));
        Value::Object(members.collect::<Map<_, _>>())
    };
    json!({
        "pages": report.pages, "removed": report.removed, "lost": report.lost, "strayed": report.strayed,
        "removed_share": report.removed.share(), "lost_share": report.lost.share(),
        "precision": report.pairs.precision(), "recall": report.pairs.recall(), "f1": report.pairs.f1(),
        "pairs": report.pairs, "adjusted_rand_index": report.rand_index, "largest_cluster": report.largest,
        "chance_candidates_at_1e7": background, "likeness": likeness, "edits": by_edit(&report.edits), "apart": by_edit(&report.apart),
    })
}

/// Adds the members of the second object to the first.
pub(super) fn with(mut report: Value, more: Value) -> Value {
    if let (Value::Object(report), Value::Object(more)) = (&mut report, more) {
        report.extend(more);
    }
    report
}
