//! `sieve`: judges JSON lines from files or standard input, without a broker.
//!
//! One thread reads the lines, all cores do the text work, and this thread judges in the order of the input. So the
//! number of threads changes only the time that a run takes.

mod pool;
mod progress;
mod routes;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use clap::Args;
use progress::Progress;
use routes::{Readers, Routes};

use super::Global;
use crate::config::Purpose;
use crate::config::settings::{OnBadRecord, Settings};
use crate::deduplicator::{Deduplicator, DeduplicatorSettings, LineVerdict, place_of};
use crate::error::{Fatal, Reason};
use crate::fingerprint::Fingerprinter;
use crate::processing::lines;
use crate::record::Timestamp;

/// Arguments of `sieve`.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = "Examples:\n  dupgate sieve pages.jsonl\n  dupgate sieve pages.jsonl --unique unique.jsonl --duplicate duplicate.jsonl"
)]
pub struct SieveArgs {
    /// Files of JSON lines or WARC records, plain or compressed with gzip or zstd, judged in this order; standard input if
    /// none is given, or for -
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write unique and updated pages to this file, instead of verdicts to standard output
    #[arg(long, value_name = "FILE")]
    pub unique: Option<PathBuf>,
    /// Write duplicates to this file
    #[arg(long, value_name = "FILE")]
    pub duplicate: Option<PathBuf>,
    /// Write lines without a verdict to this file
    #[arg(long, value_name = "FILE")]
    pub dead: Option<PathBuf>,
}

impl SieveArgs {
    /// Returns whether pages are routed to files; otherwise verdict lines go to standard output.
    #[must_use]
    pub const fn is_routing(&self) -> bool {
        self.unique.is_some() || self.duplicate.is_some() || self.dead.is_some()
    }
}

/// Judges all lines. Lines that cannot be judged become dead letters and do not end the run.
///
/// # Errors
///
/// A configuration that is refused, an input that cannot be read, an output that cannot be written; with
/// `processing.on_bad_record: stop` also the first line that cannot be judged.
pub fn sieve(args: &SieveArgs, global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Sieve)?.settings;
    lines::hold(settings.record.format)?;
    let partitions = settings.log_partitions();
    let reader = Fingerprinter::new(&settings.record, &settings.text, &settings.fingerprint, partitions)
        .map_err(|error| Reason::Config.because(error))?;
    let (inputs, size) =
        lines::open(&args.files, settings.record.max_document).map_err(|error| Reason::Input.because(error))?;
    let mut routes = if args.is_routing() {
        let [unique, duplicate, dead] = [&args.unique, &args.duplicate, &args.dead].map(Option::as_deref);
        Routes::files(&args.files, unique, duplicate, dead)?
    } else {
        Routes::verdicts(global.output)?
    };
    let mut progress = Progress::new(size, args.is_routing(), reader.id_path().cloned());
    let mut sieve = Deduplicator::new(DeduplicatorSettings {
        rules: settings.rules_of_one_index(),
        event_time: settings.record.event_time,
        partitions,
        clock: wall_clock(),
    });
    let mut readers = Readers::Listen;
    let outcome = pool::in_order(inputs, &reader, threads(&settings), |next| {
        let Some((line, reading)) = next else {
            readers = routes.flush()?;
            return go_on(readers);
        };
        let sifted = sieve.judge(line.source.clone(), reading).map_err(|error| Reason::Bug.because(error))?;
        progress.note(&line, &sifted);
        if let LineVerdict::Dead(rejection) = &sifted.verdict {
            match settings.processing.on_bad_record {
                // There is nothing to write but its beginning.
                OnBadRecord::DeadLetter if line.cut.is_some() && args.is_routing() => {
                    tracing::warn!(target: "dupgate::cli", "{} is left out: {rejection}", place_of(&line.source));
                    return Ok(());
                }
                OnBadRecord::DeadLetter => {}
                OnBadRecord::Skip => return Ok(()),
                OnBadRecord::Stop => {
                    let place = place_of(&line.source);
                    return Err(Reason::Failure.because(anyhow::anyhow!("{place}: {rejection}")));
                }
            }
        }
        readers = routes.write(&line, &sifted)?;
        go_on(readers)
    });
    if readers == Readers::Gone {
        return Ok(());
    }
    routes.finish()?;
    progress.finish();
    outcome
}

/// Returns an error, which ends the run, if standard output was closed. The caller does not report it as a failure.
fn go_on(readers: Readers) -> Result<(), Fatal> {
    match readers {
        Readers::Listen => Ok(()),
        Readers::Gone => Err(Reason::Failure.because(anyhow::anyhow!("standard output was closed"))),
    }
}

fn threads(settings: &Settings) -> usize {
    let configured = settings.processing.threads;
    configured.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get)).max(1)
}

/// Returns the time of the wall clock, which limits the times that pages claim, as the clock of a broker would.
#[expect(clippy::disallowed_methods, reason = "files have no broker whose clock could bound their times")]
fn wall_clock() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(0).plus(since)
}
