//! `sieve`: judges JSON lines from files or standard input, without a broker.
//!
//! One thread reads the lines, all cores do the text work, and this thread judges in the order of the input. So the
//! number of threads changes only the time that a run takes.

mod pool;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::Value;

use super::Global;
use super::output::{self, Format, StreamedTable};
use super::progress_bar::ProgressDisplay;
use crate::config::Purpose;
use crate::config::settings::{OnBadRecord, Settings};
use crate::deduplicator::{Deduplicator, DeduplicatorSettings, LineVerdict, PageResult, Route, place_of};
use crate::error::{Fatal, Reason};
use crate::fingerprint::Fingerprinter;
use crate::processing::lines::{self, Line, is_stdin, without_byte_order_mark};
use crate::protocol::VerdictKind;
use crate::record::{FieldPath, Reject, Rejection, Timestamp};

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

/// The outputs of one run.
enum Routes {
    /// A verdict line for each line.
    Verdicts(Output, Shape),
    /// Each line goes to the file of its route, if that has one.
    Files {
        /// Unique and updated pages.
        unique: Option<Output>,
        /// Duplicates.
        duplicate: Option<Output>,
        /// Lines without a verdict.
        dead: Option<Output>,
    },
}

/// How verdicts are written.
enum Shape {
    /// One JSON object a line.
    Lines,
    /// One JSON document, a list, and whether it has begun.
    Document(bool),
    /// Rows below headings.
    Table(StreamedTable),
}

/// One output, with its name for messages.
struct Output {
    name: String,
    writer: BufWriter<Box<dyn Write>>,
}

/// Whether the output still has a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    /// Continue.
    Listen,
    /// The reader of the pipe is gone: stop.
    Gone,
}

impl Routes {
    /// Writes verdicts to standard output; as lines of JSON unless another format is requested.
    fn verdicts(format: Option<Format>) -> Result<Self, Fatal> {
        let shape = match format {
            None | Some(Format::Jsonl) => Shape::Lines,
            Some(Format::Json) => Shape::Document(false),
            Some(Format::Table) => Shape::Table(StreamedTable::begin(&HEADS)?),
        };
        Ok(Self::Verdicts(Output::stdout(), shape))
    }

    /// Opens the files that are named, `-` for standard output. A file must not be an input or another output, which
    /// would be truncated.
    fn files(
        inputs: &[PathBuf],
        unique: Option<&Path>,
        duplicate: Option<&Path>,
        dead: Option<&Path>,
    ) -> Result<Self, Fatal> {
        let mut taken: Vec<PathBuf> = inputs.iter().filter_map(|path| regular(path)).collect();
        let mut open = |path: Option<&Path>| path.map(|path| Output::create(path, &mut taken)).transpose();
        Ok(Self::Files { unique: open(unique)?, duplicate: open(duplicate)?, dead: open(dead)? })
    }

    /// Writes one line to its output.
    fn write(&mut self, line: &Line, sifted: &PageResult) -> Result<Readers, Fatal> {
        match self {
            Self::Verdicts(output, shape) => match shape {
                Shape::Lines => output.write(sifted.to_line().as_bytes()),
                Shape::Document(has_begun) => {
                    let before = if std::mem::replace(has_begun, true) { "," } else { "[" };
                    output.write(format!("{before}{}", sifted.to_line()).as_bytes())
                }
                Shape::Table(table) => {
                    let row = row(&serde_json::from_str(&sifted.to_line()).unwrap_or_default());
                    output.write(table.line(&row).as_bytes())
                }
            },
            Self::Files { unique, duplicate, dead } => {
                let output = match sifted.verdict.route() {
                    Route::Unique => unique,
                    Route::Duplicate => duplicate,
                    Route::Dead => dead,
                };
                match output {
                    Some(output) => {
                        let bytes = line.bytes.strip_suffix(b"\n").unwrap_or(&line.bytes);
                        // Leave out a byte order mark: in the middle of a file it would be an error.
                        output.write(without_byte_order_mark(bytes))
                    }
                    None => Ok(Readers::Listen),
                }
            }
        }
    }

    /// Ends documents and flushes all outputs.
    fn finish(&mut self) -> Result<Readers, Fatal> {
        if let Self::Verdicts(output, Shape::Document(has_begun)) = self {
            let written = output.write(if *has_begun { b"]" } else { b"[]" });
            if written? == Readers::Gone {
                return Ok(Readers::Gone);
            }
        }
        self.flush()
    }

    /// Flushes all outputs.
    fn flush(&mut self) -> Result<Readers, Fatal> {
        let outputs = match self {
            Self::Verdicts(output, _) => [Some(output), None, None],
            Self::Files { unique, duplicate, dead } => [unique.as_mut(), duplicate.as_mut(), dead.as_mut()],
        };
        for output in outputs.into_iter().flatten() {
            let flushed = output.writer.flush();
            if output.readers_after(flushed)? == Readers::Gone {
                return Ok(Readers::Gone);
            }
        }
        Ok(Readers::Listen)
    }
}

/// Headings and minimum widths of the table.
const HEADS: [(&str, usize); 5] = [("PAGE", 16), ("VERDICT", 8), ("NEARNESS", 8), ("ORIGINAL", 16), ("ID", 2)];

/// A verdict line as a row.
fn row(line: &Value) -> Vec<String> {
    let text = |key: &str| line[key].as_str().map(str::to_owned);
    let number = |sign: &str, key: &str| line[key].as_f64().map(|number| format!("{sign}={number}"));
    let nearness = number("c", "containment").or_else(|| number("d", "distance")).or_else(|| number("s", "similarity"));
    let original = text("match").or_else(|| text("reason"));
    [text("source"), text("verdict"), nearness, original, text("id")]
        .map(|cell| cell.unwrap_or_else(|| "-".to_owned()))
        .to_vec()
}

impl Output {
    fn stdout() -> Self {
        Self { name: "standard output".to_owned(), writer: BufWriter::new(Box::new(io::stdout())) }
    }

    fn create(path: &Path, taken: &mut Vec<PathBuf>) -> Result<Self, Fatal> {
        if is_stdin(path) {
            return Ok(Self::stdout());
        }
        let name = path.display().to_string();
        if regular(path).is_some_and(|path| taken.contains(&path)) {
            return Err(
                Reason::Usage.because(anyhow::anyhow!("{name} is an input or another output: it would be emptied"))
            );
        }
        let file = File::create(path).map_err(|error| {
            Reason::State.because(anyhow::Error::from(error).context(format!("cannot create {name}")))
        })?;
        taken.extend(regular(path));
        Ok(Self { name, writer: BufWriter::with_capacity(1 << 18, Box::new(file)) })
    }

    /// Writes one line and a line break, which the last line of a file may lack.
    fn write(&mut self, line: &[u8]) -> Result<Readers, Fatal> {
        let written = self.writer.write_all(line).and_then(|()| self.writer.write_all(b"\n"));
        self.readers_after(written)
    }

    fn readers_after(&self, written: io::Result<()>) -> Result<Readers, Fatal> {
        match written {
            Ok(()) => Ok(Readers::Listen),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Readers::Gone),
            Err(error) => {
                let cause = anyhow::Error::from(error).context(format!("cannot write to {}", self.name));
                Err(Reason::State.because(cause))
            }
        }
    }
}

/// Returns the canonical name of a regular file; several outputs may share a device such as `/dev/null`.
fn regular(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}

/// Maximum number of dead letters to log one by one if no verdict line names them.
const MAX_LOGGED: u64 = 20;

/// The counts so far, and how to show them.
struct Progress {
    pages: u64,
    bytes: u64,
    size: Option<u64>,
    verdicts: BTreeMap<&'static str, u64>,
    reasons: BTreeMap<&'static str, u64>,
    display: ProgressDisplay,
    shows_dead_letters: bool,
    /// Where ids are read, until a page has none there.
    id: Option<FieldPath>,
    without_id: u64,
}

impl Progress {
    /// Starts counting towards `size` bytes, if known. The first page without an id at `id` is logged. Dead letters are logged here if no verdict line names them.
    fn new(size: Option<u64>, shows_dead_letters: bool, id: Option<FieldPath>) -> Self {
        Self {
            pages: 0,
            bytes: 0,
            size,
            verdicts: BTreeMap::new(),
            reasons: BTreeMap::new(),
            display: ProgressDisplay::new(size, template(size)),
            shows_dead_letters,
            id,
            without_id: 0,
        }
    }

    /// Counts one page.
    fn note(&mut self, line: &Line, sifted: &PageResult) {
        self.pages += 1;
        self.bytes += line.cut.as_ref().map_or(line.bytes.len() as u64, |cut| cut.bytes);
        *self.verdicts.entry(sifted.verdict.name()).or_default() += 1;
        if let LineVerdict::Dead(rejection) = &sifted.verdict {
            self.note_dead(line, rejection);
        } else if sifted.id.is_none() {
            self.without_id += 1;
            if let Some(path) = self.id.take() {
                tracing::warn!(
                    target: "dupgate::cli",
                    source = place_of(&line.source),
                    "found no id at `{path}` (input.fields.id): the page cannot be recognised when it is crawled again"
                );
            }
        }
        let draw = |bar: &ProgressBar| {
            if self.pages.is_multiple_of(256) {
                bar.set_position(self.bytes);
                bar.set_message(format!("{} pages", self.pages));
            }
        };
        let log = || {
            let percent = self.size.map(|size| self.bytes * 100 / size.max(1));
            tracing::info!(target: "dupgate::cli", pages = self.pages, bytes = self.bytes, percent, "sieving");
        };
        self.display.show(draw, log);
    }

    fn note_dead(&mut self, line: &Line, rejection: &Rejection) {
        *self.reasons.entry(rejection.reason().name()).or_default() += 1;
        if !self.shows_dead_letters {
            return;
        }
        let dead = self.verdicts.get(Reject::DEAD_LETTER).copied().unwrap_or(0);
        if dead <= MAX_LOGGED {
            tracing::warn!(target: "dupgate::cli", source = place_of(&line.source), "{rejection}");
        }
    }

    /// Returns the summary.
    fn finish(self) {
        self.display.finish();
        let mut reasons = String::new();
        for (reason, count) in &self.reasons {
            let gap = if reasons.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(reasons, "{gap}{reason} {count}");
        }
        if self.display.bar().is_some() {
            let shown: Vec<String> =
                self.verdicts.iter().map(|(name, count)| format!("{name} {}", output::count(*count))).collect();
            let why = if reasons.is_empty() { String::new() } else { format!("  ({reasons})") };
            super::note(&format!("{} pages: {}{why}", output::count(self.pages), shown.join("  ")));
            return;
        }
        let reasons = Some(reasons).filter(|reasons| !reasons.is_empty());
        let of = |name: &str| self.verdicts.get(name).copied().unwrap_or(0);
        let [unique, update, template, exact, near] =
            [VerdictKind::Unique, VerdictKind::Update, VerdictKind::Template, VerdictKind::Exact, VerdictKind::Near]
                .map(|kind| of(kind.name()));
        let dead_letter = of(Reject::DEAD_LETTER);
        let without_id = Some(self.without_id).filter(|pages| *pages > 0);
        tracing::info!(
            target: "dupgate::cli",
            pages = self.pages, unique, update, template, exact, near, dead_letter, reasons, without_id, "sieved"
        );
    }
}

const fn template(size: Option<u64>) -> &'static str {
    match size {
        Some(_) => "sieve {bar:28} {percent:>3} %  {bytes}/{total_bytes}  {bytes_per_sec}  {msg}  left {eta}",
        None => "sieve {spinner} {bytes}  {bytes_per_sec}  {msg}",
    }
}
