//! Compares our results with those of other methods on the same stream.

use std::time::Duration;

use anyhow::anyhow;
use serde_json::{Value, json};

use super::{EvalArgs, planted, table, texts};
use crate::cli::output::columns;
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::fingerprint::{Fingerprinter, PerMille};
use crate::quality::{Baseline, Edit, Half, MAX_PAGES, PairwiseReader, Planted, Report, scored};
use crate::runtime::clock::Clock;

/// Results of one judge.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) name: String,
    /// Its threshold, as people write it.
    pub(super) setting: String,
    pub(super) report: Report,
    /// Time from texts to verdicts.
    pub(super) seconds: f64,
}

impl Judged {
    pub(super) fn ours(report: Report, took: Duration) -> Self {
        let setting = "as configured".to_owned();
        Self { name: "dupgate".to_owned(), setting, report, seconds: took.as_secs_f64() }
    }

    pub(super) fn json(&self) -> Value {
        let report = table::json(&self.report, None, None);
        let own = json!({ "name": self.name, "setting": self.setting, "seconds": self.seconds });
        table::with(report, own)
    }
}

/// Judges the stream by every baseline.
pub(super) fn baselines(
    stream: &[Planted],
    args: &EvalArgs,
    reader: &Fingerprinter,
    settings: &Settings,
) -> Result<Vec<Judged>, Fatal> {
    // Choose thresholds on the tuning half: never on the reported half, unless the user wants a report on the tuning
    // half itself. Labelled pairs are not divided into halves.
    let to_tune_on = if args.pairs.is_some() {
        None
    } else {
        let texts = texts::gather(args, Half::Tune, reader).map_err(|error| Reason::Input.because(error))?;
        Some(planted(&texts::without_names(texts), args))
    };
    let longest = to_tune_on.iter().map(Vec::len).fold(stream.len(), usize::max);
    if longest > MAX_PAGES {
        let why = anyhow!("{longest} pages are too many to compare every pair for --baselines (at most {MAX_PAGES})");
        return Err(Reason::Config.because(why));
    }
    let looker = PairwiseReader::new(reader, &settings.fingerprint).map_err(|error| Reason::Config.because(error))?;
    let judge = |baseline: Baseline| {
        let tuned = to_tune_on.as_ref().filter(|_| baseline.is_tuned());
        let min = tuned.map_or(baseline.usual(), |stream| baseline.choose(&looker.likes(baseline, stream), stream));
        let clock = Clock::start();
        let verdicts = baseline.verdicts(&looker.likes(baseline, stream), min, stream);
        let seconds = clock.now().as_secs_f64();
        let chosen = if tuned.is_some() { "tuned" } else { "fixed" };
        let setting = match baseline {
            Baseline::SimHash => format!("3 of {} bits", settings.fingerprint.simhash.bits.bits()),
            Baseline::WordBands => "14 x 8, 5 words".to_owned(),
            Baseline::Jaccard | Baseline::Cosine => format!(">= {:.2} ({chosen})", PerMille(min).share()),
        };
        Judged { name: baseline.name().to_owned(), setting, report: scored(stream, &verdicts), seconds }
    };
    Ok(Baseline::ALL.into_iter().map(judge).collect())
}

/// Writes two tables: all results, with a row for each judge, and the edits, with a column for each judge.
pub(super) fn table(judged: &[Judged]) -> String {
    let head = ["judge", "setting", "precision", "recall", "F1", "removed", "lost", "strayed", "Rand", "largest", "s"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(judged.iter().map(|Judged { name, setting, report, seconds }| {
        let Report { removed, lost, strayed, pairs, rand_index, largest, .. } = report;
        let four = |share: f64| format!("{share:.4}");
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        vec![
            name.clone(),
            setting.clone(),
            four(pairs.precision()),
            four(pairs.recall()),
            four(pairs.f1()),
            percent(removed.share()),
            percent(lost.share()),
            strayed.to_string(),
            four(*rand_index),
            largest.to_string(),
            format!("{seconds:.2}"),
        ]
    }));
    let mut edits = vec![vec!["removed".to_owned()]];
    edits.extend(kinds().map(|edit| vec![edit.name().to_owned()]));
    for Judged { name, report, .. } in judged {
        let mut column = edits.iter_mut();
        column.next().into_iter().for_each(|head| head.push(name.clone()));
        for (edit, row) in kinds().zip(column) {
            let counts = report.edits.iter().chain(&report.apart);
            let count = counts.into_iter().find(|(counted, _)| *counted == edit);
            row.push(count.map_or(String::new(), |(_, count)| format!("{:.3}", count.share())));
        }
    }
    // Leave out edits that no method has judged.
    edits.retain(|row| row.iter().skip(1).any(|cell| !cell.is_empty()));
    format!("\n{}\n\n{}\n\n", columns(&rows), columns(&edits))
}

fn kinds() -> impl Iterator<Item = Edit> {
    Edit::DUPLICATES.into_iter().chain([Edit::DigitsChanged, Edit::DatesChanged, Edit::Joined, Edit::Found])
}
