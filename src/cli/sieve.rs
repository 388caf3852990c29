//! `sieve`: judges JSON lines from files or standard input, without a broker.
//!
//! One thread reads the lines, all cores do the text work, and this thread judges in the order of the input. So the
//! number of threads changes only the time that a run takes.

mod pool;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use serde_json::Value;

use super::Global;
use super::output::{self, Format, StreamedTable, member};
use super::progress_bar::ProgressDisplay;
use super::verdict::nearness;
use crate::clock::wall_time;
use crate::config::Purpose;
use crate::config::settings::OnBadRecord;
use crate::deduplicator::{Deduplicator, DeduplicatorSettings, LineVerdict, PageResult, Route, place_of};
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::fingerprint::Fingerprinter;
use crate::processing::lines::{self, Line, is_stdin, without_byte_order_mark};
use crate::protocol::VerdictKind;
use crate::record::{FieldPath, Reject, Rejection};

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
        .or_fatal(Reason::Config)?;
    let (inputs, size) = lines::open(&args.files, settings.record.max_document).or_fatal(Reason::Input)?;
    let mut routes = if args.is_routing() { Routes::files(args)? } else { Routes::verdicts(global.output)? };
    let mut progress = Progress::new(size, args.is_routing(), reader.id_path().cloned());
    let mut sieve = Deduplicator::new(DeduplicatorSettings {
        rules: settings.rules_of_one_index(),
        event_time: settings.record.event_time,
        partitions,
        // Files have no broker whose clock could bound the times that pages claim.
        clock: wall_time(),
    });
    let threads = settings.processing.threads;
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get)).max(1);
    let outcome = pool::in_order(inputs, &reader, threads, |next| {
        let Some((line, reading)) = next else { return routes.flush() };
        let sifted = sieve.judge(line.source.clone(), reading).or_fatal(Reason::Bug)?;
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
                OnBadRecord::Stop => return Err(fatal!(Failure, "{}: {rejection}", place_of(&line.source))),
            }
        }
        routes.write(&line, &sifted)
    });
    // The reader of the pipe is gone (`| head`).
    if outcome.as_ref().is_err_and(is_closed) {
        return Ok(());
    }
    routes.finish().or_else(|fatal| if is_closed(&fatal) { Ok(()) } else { Err(fatal) })?;
    progress.finish();
    outcome
}

/// Returns whether the output failed because it has no reader any more.
fn is_closed(fatal: &Fatal) -> bool {
    fatal.cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
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
    fn files(args: &SieveArgs) -> Result<Self, Fatal> {
        let mut taken: Vec<PathBuf> = args.files.iter().filter_map(|path| regular(path)).collect();
        let mut open = |path: &Option<PathBuf>| path.as_ref().map(|path| Output::create(path, &mut taken)).transpose();
        Ok(Self::Files { unique: open(&args.unique)?, duplicate: open(&args.duplicate)?, dead: open(&args.dead)? })
    }

    /// Writes one line to its output.
    fn write(&mut self, line: &Line, sifted: &PageResult) -> Result<(), Fatal> {
        match self {
            Self::Verdicts(output, shape) => {
                let line = sifted.to_line();
                let line = match shape {
                    Shape::Lines => line,
                    Shape::Document(has_begun) => {
                        let before = if std::mem::replace(has_begun, true) { "," } else { "[" };
                        format!("{before}{line}")
                    }
                    Shape::Table(table) => table.line(&row(&serde_json::from_str(&line).unwrap_or_default())),
                };
                output.write(line.as_bytes())
            }
            Self::Files { unique, duplicate, dead } => {
                let output = match sifted.verdict.route() {
                    Route::Unique => unique,
                    Route::Duplicate => duplicate,
                    Route::Dead => dead,
                };
                let Some(output) = output else { return Ok(()) };
                let bytes = line.bytes.strip_suffix(b"\n").unwrap_or(&line.bytes);
                // Leave out a byte order mark: in the middle of a file it would be an error.
                output.write(without_byte_order_mark(bytes))
            }
        }
    }

    /// Ends documents and flushes all outputs.
    fn finish(&mut self) -> Result<(), Fatal> {
        if let Self::Verdicts(output, Shape::Document(has_begun)) = self {
            output.write(if *has_begun { b"]" } else { b"[]" })?;
        }
        self.flush()
    }

    /// Flushes all outputs.
    fn flush(&mut self) -> Result<(), Fatal> {
        let outputs = match self {
            Self::Verdicts(output, _) => [Some(output), None, None],
            Self::Files { unique, duplicate, dead } => [unique.as_mut(), duplicate.as_mut(), dead.as_mut()],
        };
        outputs.into_iter().flatten().try_for_each(|output| {
            let flushed = output.writer.flush();
            output.written(flushed)
        })
    }
}

/// Headings and minimum widths of the table.
const HEADS: [(&str, usize); 5] = [("PAGE", 16), ("VERDICT", 8), ("NEARNESS", 8), ("ORIGINAL", 16), ("ID", 2)];

/// A verdict line as a row.
fn row(line: &Value) -> [String; 5] {
    let original = if line["match"].is_null() { "reason" } else { "match" };
    let nearness = nearness(line).unwrap_or_else(|| "-".to_owned());
    [member(line, "source"), member(line, "verdict"), nearness, member(line, original), member(line, "id")]
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
            return Err(fatal!(Usage, "{name} is an input or another output: it would be emptied"));
        }
        let file = File::create(path).map_err(|error| fatal!(State, "cannot create {name}: {error}"))?;
        taken.extend(regular(path));
        Ok(Self { name, writer: BufWriter::with_capacity(1 << 18, Box::new(file)) })
    }

    /// Writes one line and a line break, which the last line of a file may lack.
    fn write(&mut self, line: &[u8]) -> Result<(), Fatal> {
        let written = self.writer.write_all(line).and_then(|()| self.writer.write_all(b"\n"));
        self.written(written)
    }

    fn written(&self, written: io::Result<()>) -> Result<(), Fatal> {
        let failed = |error| anyhow::Error::from(error).context(format!("cannot write to {}", self.name));
        written.map_err(failed).or_fatal(Reason::State)
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
        let template = match size {
            Some(_) => "sieve {bar:28} {percent:>3} %  {bytes}/{total_bytes}  {bytes_per_sec}  {msg}  left {eta}",
            None => "sieve {spinner} {bytes}  {bytes_per_sec}  {msg}",
        };
        Self {
            pages: 0,
            bytes: 0,
            size,
            verdicts: BTreeMap::new(),
            reasons: BTreeMap::new(),
            display: ProgressDisplay::new(size, template),
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
        let reasons: Vec<String> = self.reasons.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let reasons = reasons.join(", ");
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
