//! `index verify`: compares the logs with each other, and the snapshot with them.

use std::collections::BTreeMap;

use dupgate_core::judge::{Difference, Snapshot, State};
use serde_json::{Value, json};

use super::snapshots_at_hand;
use crate::cli::Global;
use crate::cli::output::{columns, print_each};
use crate::cli::verdict::{self, Form, Measure};
use crate::config::Purpose;
use crate::error::{Fatal, fatal};
use crate::operators::verdicts::{PartitionVerification, Step, verify_logs};
use crate::protocol::{Answer, LogPartition, Verdict, VerdictOffset};
use crate::threads::run_parallel;

/// Differences that are shown; all are counted.
const MAX_SHOWN: usize = 20;

/// The result for one partition of the logs.
#[derive(Default)]
struct Found {
    differences: Vec<Value>,
    /// Digest of the state that the log leads to at the offset of the snapshot, and the number of its originals.
    at_snapshot: Option<(u64, usize)>,
}

/// What is remembered of a snapshot. Its state is dropped before the logs are read, because the state that they lead to
/// may not fit into memory beside it.
struct Held {
    at: VerdictOffset,
    originals: usize,
    digest: u64,
}

/// Judges the kept requests of the fingerprint log again under the rules that the verdict log names. Compares the
/// resulting verdicts with the verdict log, and the resulting state with the newest snapshot of this instance (law L5).
pub(super) fn verify(global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Run)?.settings;
    let form = settings.fingerprint.minhash.form;
    let held = |(log, snapshot): (LogPartition, Snapshot)| {
        let digest = State::load(&snapshot.state, &snapshot.originals, run_parallel).digest();
        (log, Held { at: snapshot.at, originals: snapshot.originals.len(), digest })
    };
    let snapshots: BTreeMap<LogPartition, Held> = snapshots_at_hand(&settings)?.into_iter().map(held).collect();
    let mut found: BTreeMap<LogPartition, Found> = BTreeMap::new();
    let trials = verify_logs(&settings, |step| match step {
        Step::Next { log, offset, verification } => {
            let found = found.entry(log).or_default();
            if found.at_snapshot.is_none() && snapshots.get(&log).is_some_and(|snapshot| offset >= snapshot.at) {
                found.at_snapshot = Some(seen(verification.verifier.state()));
            }
        }
        Step::Found { log, offset, difference } => {
            let differences = &mut found.entry(log).or_default().differences;
            if differences.len() < MAX_SHOWN {
                differences.push(as_json(offset.0, &difference, form));
            }
        }
    })?;
    let report = |(log, verification): (&LogPartition, &PartitionVerification)| {
        report(*log, verification, snapshots.get(log), &found.remove(log).unwrap_or_default())
    };
    let reports: Vec<Value> = trials.iter().map(report).collect();
    print_each(global.format(), &reports, table, Value::clone)?;
    let any = |pointer: &str| reports.iter().any(|report| report.pointer(pointer) == Some(&Value::Bool(false)));
    let why = if any("/verdicts/agree") {
        "verdicts are not what the fingerprint log leads to under its own rules: keep both logs and report it; pages that \
         were judged wrongly are judged again by `dupgate verdicts reopen`"
    } else if any("/snapshot/agrees") {
        "the snapshot does not match the verdict log: stop the judge, delete the snapshot, start it again"
    } else {
        return Ok(());
    };
    Err(fatal!(Failure, why))
}

fn seen(state: &State) -> (u64, usize) {
    (state.digest(), state.index().live(&state.watermarks()).count())
}

fn report(log: LogPartition, verification: &PartitionVerification, snapshot: Option<&Held>, found: &Found) -> Value {
    let counts = verification.verifier.counts();
    let agree = counts.differences == 0 && verification.broken.is_none();
    let state = verification.verifier.state();
    let snapshot = snapshot.map(|snapshot| {
        let (digest, in_log) = found.at_snapshot.unwrap_or_else(|| seen(state));
        json!({
            "agrees": snapshot.digest == digest, "offset": snapshot.at.0, "originals": snapshot.originals,
            "originals_in_log": in_log,
        })
    });
    json!({
        "log": log.0,
        "verdicts": {
            "agree": agree, "judged_again": counts.judged, "same": counts.same, "differences": counts.differences,
            "older_than_the_log": counts.unknown, "without_requests": counts.unasked,
            "second_verdicts": counts.second_verdicts, "first_request": verification.first_request.0,
            "next_request": state.next_request().0, "broken": verification.broken,
        },
        "differences": found.differences,
        "snapshot": snapshot,
    })
}

fn as_json(offset: i64, difference: &Difference, form: Form) -> Value {
    let (what, text) = match difference {
        Difference::Verdict { request, written, again } => {
            let [written_words, again_words] = [written, again].map(|verdict| in_words(verdict.as_deref(), form));
            let [written, again] =
                [written, again].map(|verdict| verdict.as_ref().map(|verdict| verdict::other(&verdict.answer, form)));
            return json!({
                "what": "verdict", "offset": offset, "request": request.map(|request| request.0), "written": written,
                "again": again, "text": format!("written: {written_words}; judged again: {again_words}"),
            });
        }
        Difference::ExpiryWatermarks => ("watermarks", "the expiry watermarks do not match the verdicts"),
        Difference::Checkpoint => ("checkpoint", "the checkpoint is not what the verdicts before it lead to"),
    };
    json!({"what": what, "offset": offset, "text": text})
}

fn in_words(verdict: Option<&Verdict>, form: Form) -> String {
    match verdict.map(|verdict| &verdict.answer) {
        None => "nothing".to_owned(),
        Some(Answer::Page(page)) => {
            let of = page.decision.matched().map(|of| format!(" of {} ({})", of.source, Measure::of(of, form)));
            format!("{} {}{}", page.source, page.decision.kind().name(), of.unwrap_or_default())
        }
        Some(other) => verdict::other(other, form).to_string(),
    }
}

fn table(report: &Value) -> String {
    let number = |pointer: &str| report.pointer(pointer).map(ToString::to_string).unwrap_or_default();
    let is = |pointer: &str| report.pointer(pointer) == Some(&Value::Bool(true));
    let word = |agrees: bool| if agrees { "ok" } else { "DIFFERS" }.to_owned();
    let log = format!("log {}", number("/log"));
    let mut summary = vec![format!(
        "{} judged again under their own rules, {} differences (requests {} to {})",
        number("/verdicts/judged_again"),
        number("/verdicts/differences"),
        number("/verdicts/first_request"),
        number("/verdicts/next_request")
    )];
    for (pointer, what) in [
        ("/verdicts/without_requests", "whose requests are trimmed"),
        ("/verdicts/older_than_the_log", "of originals older than the kept log, not compared"),
        ("/verdicts/second_verdicts", "of pages that had one already, skipped: the first counts"),
    ] {
        if report.pointer(pointer).and_then(Value::as_u64) > Some(0) {
            summary.push(format!("{} {what}", number(pointer)));
        }
    }
    if let Some(why) = report.pointer("/verdicts/broken").and_then(Value::as_str) {
        summary.push(format!("cannot be followed further: {why}"));
    }
    let mut rows = vec![vec![word(is("/verdicts/agree")), log.clone(), "verdicts".to_owned(), summary.join("; ")]];
    for difference in report["differences"].as_array().into_iter().flatten() {
        let place = format!("verdict log offset {}", difference["offset"]);
        let text = difference["text"].as_str().unwrap_or_default();
        rows.push(vec![String::new(), String::new(), String::new(), format!("{place}: {text}")]);
    }
    if report["snapshot"].is_null() {
        rows.push(vec!["-".to_owned(), log, "snapshot".to_owned(), "none on this machine".to_owned()]);
    } else {
        let summary = format!(
            "at offset {}: {} originals, {} in the log",
            number("/snapshot/offset"),
            number("/snapshot/originals"),
            number("/snapshot/originals_in_log")
        );
        rows.push(vec![word(is("/snapshot/agrees")), log, "snapshot".to_owned(), summary]);
    }
    columns(&rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_has_every_number_of_the_report() {
        let report = json!({
            "log": 0,
            "verdicts": {
                "agree": false, "judged_again": 184_211, "differences": 2, "first_request": 17, "next_request": 3120,
                "without_requests": 5, "older_than_the_log": 6, "second_verdicts": 7,
                "broken": "a record cannot be read"
            },
            "differences": [{ "offset": 9, "text": "unique, not near" }],
            "snapshot": { "agrees": true, "offset": 3190, "originals": 151_007, "originals_in_log": 151_006 },
        });
        let text = table(&report);
        for part in [
            "184211 judged",
            " 2 differences",
            "(requests 17 to 3120)",
            "5 whose",
            "6 of originals",
            "7 of pages that had one already",
            "a record cannot be read",
            "offset 9: unique, not near",
            "offset 3190: 151007 originals, 151006 in the log",
            "DIFFERS",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
