//! The result of a replay, as text and as JSON.

use std::path::Path;

use dupgate_core::replay::{Counts, Plan, variants};
use serde_json::{Value, json};

use super::progress::share;
use crate::cli::output::{Format, columns, print, print_json, table};
use crate::cli::{Global, human};
use crate::error::{Fatal, Reason};
use crate::protocol::VerdictKind;
use crate::replay::Outcome;

/// Width of a bar of the chart, in columns.
const BAR: usize = 40;

/// Prints the report, and writes it to a file.
pub(super) fn print_outcome(plan: &Plan, outcome: &Outcome, file: Option<&Path>, global: &Global) -> Result<(), Fatal> {
    let document = document(plan, outcome);
    if let Some(file) = file {
        std::fs::write(file, format!("{document:#}\n")).map_err(|error| unwritten(file, &error))?;
    }
    match Format::or_usual(global.output) {
        Format::Table => print(&text(plan, outcome)),
        format @ (Format::Json | Format::Jsonl) => print_json(&document, format),
    }
}

/// Checks that the file of a report, if there is to be one, can be written, before the replay begins. It is created if it
/// does not exist.
pub(super) fn expect_writable(file: Option<&Path>) -> Result<(), Fatal> {
    let Some(file) = file else { return Ok(()) };
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).map_err(|error| unwritten(file, &error))
}

fn unwritten(file: &Path, error: &std::io::Error) -> Fatal {
    Reason::State.because(anyhow::anyhow!("the report is not written to {}: {error} (--report)", file.display()))
}

fn document(plan: &Plan, outcome: &Outcome) -> Value {
    let variants: Vec<Value> = names(plan)
        .into_iter()
        .zip(&outcome.variants)
        .map(|(set, counts)| json!({"set": set, "counts": counts, "duplicate_percent": share(counts)}))
        .collect();
    json!({
        "replay": plan.id, "plan": plan.hash, "order": plan.order, "into": plan.into, "scheme": plan.scheme,
        "records": plan.records, "warm_up_records": plan.warm_up_records, "files": plan.files,
        "elapsed_ms": outcome.elapsed_ms, "worked_ms": outcome.total.worked_ms,
        "digests": {"verdicts": outcome.total.verdicts, "outputs": outcome.total.outputs},
        "variants": variants, "warnings": plan.warnings,
    })
}

fn names(plan: &Plan) -> Vec<Vec<String>> {
    variants(&plan.set).unwrap_or_default()
}

fn text(plan: &Plan, outcome: &Outcome) -> String {
    let counts = &outcome.total.counts;
    let mut rows = vec![
        vec!["pages".to_owned(), pages(counts, outcome)],
        vec!["verdicts".to_owned(), list(counts.verdicts.iter())],
    ];
    if !counts.dead_letters.is_empty() {
        rows.push(vec!["dead".to_owned(), list(counts.dead_letters.iter())]);
    }
    if !plan.verdict_log.is_empty() {
        let changed = if counts.changed.is_empty() { "none".to_owned() } else { list(counts.changed.iter()) };
        rows.push(vec!["changed".to_owned(), changed]);
    }
    if counts.taken_over > 0 {
        let many = human::count(counts.taken_over);
        rows.push(vec![
            "taken over".to_owned(),
            format!("{many} live verdicts, whose originals are older than the log"),
        ]);
    }
    if counts.second_verdicts > 0 {
        let many = human::count(counts.second_verdicts);
        rows.push(vec![
            "skipped".to_owned(),
            format!("{many} live verdicts, whose pages had one already: the first counts"),
        ]);
    }
    if counts.reopened > 0 {
        let many = human::count(counts.reopened);
        rows.push(vec![
            "reopened".to_owned(),
            format!("{many} live verdicts on pages that were judged again: their first verdict counts"),
        ]);
    }
    if counts.gone > 0 {
        let many = human::count(counts.gone);
        rows.push(vec!["gone".to_owned(), format!("{many} pages that the input does not hold any more")]);
    }
    let outputs = if plan.into.has_pages() { format!("  outputs {}", outcome.total.outputs) } else { String::new() };
    rows.push(vec!["digest".to_owned(), format!("verdicts {}{outputs}", outcome.total.verdicts)]);
    let mut text = format!("replay {} is done\n{}", plan.id, columns(&indented(rows)));
    if outcome.variants.len() > 1 {
        text += "\n\n";
        text += &chart(&names(plan), &outcome.variants);
    }
    text
}

fn indented(rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.into_iter().map(|row| [vec![String::new()], row].concat()).collect()
}

fn pages(counts: &Counts, outcome: &Outcome) -> String {
    let elapsed = std::time::Duration::from_millis(outcome.total.worked_ms);
    let each_second = (counts.pages + counts.warm_up) * 1000 / outcome.total.worked_ms.max(1);
    let warm = if counts.warm_up > 0 {
        format!(" and {} of the warm-up", human::count(counts.warm_up))
    } else {
        String::new()
    };
    format!("{}{warm} in {}, {} a second", human::count(counts.pages), human::span(elapsed), human::count(each_second))
}

fn list<'a>(counts: impl Iterator<Item = (&'a String, &'a u64)>) -> String {
    counts.map(|(name, count)| format!("{name} {}", human::count(*count))).collect::<Vec<_>>().join("  ")
}

/// Draws the duplicates that each variant finds.
fn chart(names: &[Vec<String>], variants: &[Counts]) -> String {
    let max = variants.iter().map(Counts::duplicates).max().unwrap_or(0).max(1);
    let rows: Vec<Vec<String>> = names
        .iter()
        .zip(variants)
        .map(|(set, counts)| {
            let duplicates = counts.duplicates();
            let length = usize::try_from(duplicates * BAR as u64 / max).unwrap_or(BAR);
            let keys: Vec<&str> = set.iter().map(String::as_str).collect();
            vec![
                keys.join(" "),
                human::count(counts.of(VerdictKind::Exact.name())),
                human::count(counts.of(VerdictKind::Near.name())),
                format!("{:.1} %", share(counts)),
                "█".repeat(length),
            ]
        })
        .collect();
    table(&["SETTINGS", "EXACT", "NEAR", "SHARE", "DUPLICATES"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_draws_each_variant_to_scale() {
        let counts = |near: u64| Counts {
            pages: 100,
            verdicts: [("near".to_owned(), near), ("unique".to_owned(), 100 - near)].into(),
            ..Counts::default()
        };
        let names = [vec!["m=0.3".to_owned()], vec!["m=0.5".to_owned()]];
        let drawn = chart(&names, &[counts(40), counts(10)]);
        let lines: Vec<&str> = drawn.lines().collect();
        assert!(lines[1].starts_with("m=0.3") && lines[1].ends_with(&"█".repeat(40)), "{drawn}");
        assert!(lines[2].contains("10.0 %") && lines[2].ends_with(&format!(" {}", "█".repeat(10))), "{drawn}");
    }
}
