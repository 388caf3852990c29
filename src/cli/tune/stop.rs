//! `tune stop-shingles`: lists shingles that many pages share, for `match.minhash.stop_shingles`.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::cli::Global;
use crate::cli::output::{Format, print, print_json};
use crate::cli::page::guarded;
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::deduplicator::{Deduplicator, DeduplicatorSettings, Route};
use crate::error::{Fatal, Reason};
use crate::fingerprint::{Fingerprinter, STOP_SHINGLES_HEAD, Scratch, Shingling};
use crate::processing::lines;
use crate::quality::{Frequent, Share, frequent};
use crate::record::{EventTime, Timestamp};

/// Arguments of `tune stop-shingles`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  dupgate tune stop-shingles pages.jsonl --write stop-shingles.txt\n  \
                  dupgate tune stop-shingles pages.jsonl -c dupgate.yaml --share 0.02 --other 0.05")]
pub struct StopArgs {
    /// Files of JSON lines (by `input.fields`); standard input if none is given, or for -
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Share of Chinese pages above which a Chinese shingle is listed
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    pub share: f64,
    /// The same for other shingles and pages
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    pub other: f64,
    /// Number of pages to read, evenly sampled from all
    #[arg(long, value_name = "PAGES", default_value_t = 20_000)]
    pub sample: usize,
    /// Lowest number of pages that share a listed shingle
    #[arg(long, value_name = "PAGES", default_value_t = 10)]
    pub min_pages: u32,
    /// File for the list
    #[arg(long, value_name = "FILE", default_value = "stop-shingles.txt")]
    pub write: PathBuf,
}

/// Counts the pages of a sample that have each shingle, leaving copies out, and writes the frequent shingles.
///
/// # Errors
///
/// A configuration that is refused, an input that cannot be read, a sample without pages, a list that cannot be
/// written.
pub(super) fn stop(args: &StopArgs, global: &Global) -> Result<(), Fatal> {
    for (name, share) in [("--share", args.share), ("--other", args.other)] {
        if !(share > 0.0 && share <= 1.0) {
            return Err(
                Reason::Usage.because(anyhow::anyhow!("{name} {share} is not a share (expected more than 0, to 1)"))
            );
        }
    }
    let settings = global.start(Purpose::Sieve)?.settings;
    lines::hold(settings.record.format)?;
    let reader = Fingerprinter::new(&settings.record, &settings.text, &settings.fingerprint, NonZeroUsize::MIN)
        .map_err(|error| Reason::Config.because(error))?;
    let (texts, pages) = uniques(args, &settings, &reader)?;
    if texts.is_empty() {
        return Err(Reason::Failure.because(anyhow::anyhow!("no page can be read: there is nothing to count")));
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let shingling = settings.fingerprint.minhash.shingle;
    let share = Share { han: args.share, other: args.other, least: args.min_pages.max(2) };
    let found = frequent(&texts, reader.analyzer(), shingling, share);
    std::fs::write(&args.write, list(&found, args, shingling)).map_err(|error| {
        let name = args.write.display();
        Reason::State.because(anyhow::Error::from(error).context(format!("cannot write {name}")))
    })?;
    let (all, dropped) = (found.all, found.shingles.iter().map(|(_, count)| u64::from(*count)).sum::<u64>());
    match Format::or_usual(global.output) {
        Format::Table => {
            #[expect(clippy::cast_precision_loss, reason = "a share for people")]
            let part = dropped as f64 * 100.0 / all.max(1) as f64;
            print(&format!(
                "{pages} pages, {} of them no copies: {} Chinese, {} others\n\
                 {} shingles are frequent, {part:.1} % of all in these pages; they were written to {}\n\
                 match.minhash.stop_shingles: {}",
                texts.len(),
                found.han_pages,
                found.other_pages,
                found.shingles.len(),
                args.write.display(),
                args.write.display(),
            ))
        }
        format @ (Format::Json | Format::Jsonl) => print_json(
            &json!({
                "pages": pages, "unique": texts.len(), "han_pages": found.han_pages, "other_pages": found.other_pages,
                "shingles": found.shingles.len(), "of_all": all, "dropped": dropped,
                "file": args.write.display().to_string(),
            }),
            format,
        ),
    }
}

/// Reads the sample, and keeps the texts that the judge calls unique: copies would make their own shingles frequent.
fn uniques(args: &StopArgs, settings: &Settings, reader: &Fingerprinter) -> Result<(Vec<String>, usize), Fatal> {
    let mut sieve = Deduplicator::new(DeduplicatorSettings {
        rules: settings.rules.clone(),
        event_time: EventTime::Record,
        partitions: NonZeroUsize::MIN,
        clock: Timestamp::from_millis(i64::MAX / 2),
    });
    let (mut texts, mut pages, mut refused, mut scratch) = (Vec::new(), 0, 0, Scratch::default());
    for line in super::sample(&args.files, args.sample, settings)? {
        let Ok(reading) = guarded(|| reader.read(&line.record()?, &mut scratch)) else {
            scratch = Scratch::default();
            refused += 1;
            continue;
        };
        pages += 1;
        let sifted = sieve.judge(line.source.clone(), Ok(reading)).map_err(|error| Reason::Bug.because(error))?;
        if sifted.verdict.route() == Route::Unique {
            texts.extend(guarded(|| reader.normal_text(&line.record()?)).ok());
        }
    }
    if refused > 0 {
        crate::cli::note(&format!("{refused} lines hold no page that can be judged; they are left out"));
    }
    Ok((texts, pages))
}

/// Writes the list as [`crate::fingerprint::StopShingles::parse`] reads it, with its origin.
fn list(found: &Frequent, args: &StopArgs, Shingling { unit, lengths }: Shingling) -> String {
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "{STOP_SHINGLES_HEAD}");
    let _ = writeln!(
        out,
        "# of {} (Chinese) or {} {}, in {} of {} Chinese pages or {} of {} others, the most frequent first",
        lengths.han,
        lengths.other,
        unit.name(),
        args.share,
        found.han_pages,
        args.other,
        found.other_pages
    );
    for (shingle, _) in &found.shingles {
        let _ = writeln!(out, "{shingle}");
    }
    out
}
