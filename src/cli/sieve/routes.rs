//! Writes the outputs: verdict lines to standard output, or the lines of the input to files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli::output::{Format, StreamedTable};
use crate::deduplicator::{PageResult, Route};
use crate::error::{Fatal, Reason};
use crate::processing::lines::{Line, is_stdin, without_byte_order_mark};

/// The outputs of one run.
pub(super) enum Routes {
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
pub(super) enum Shape {
    /// One JSON object a line.
    Lines,
    /// One JSON document, a list, and whether it has begun.
    Document(bool),
    /// Rows below headings.
    Table(StreamedTable),
}

/// One output, with its name for messages.
pub(super) struct Output {
    name: String,
    writer: BufWriter<Box<dyn Write>>,
}

/// Whether the output still has a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    /// Continue.
    Listen,
    /// The reader of the pipe is gone: stop.
    Gone,
}

impl Routes {
    /// Writes verdicts to standard output; as lines of JSON unless another format is requested.
    pub(super) fn verdicts(format: Option<Format>) -> Result<Self, Fatal> {
        let shape = match format {
            None | Some(Format::Jsonl) => Shape::Lines,
            Some(Format::Json) => Shape::Document(false),
            Some(Format::Table) => Shape::Table(StreamedTable::begin(&HEADS)?),
        };
        Ok(Self::Verdicts(Output::stdout(), shape))
    }

    /// Opens the files that are named, `-` for standard output. A file must not be an input or another output, which
    /// would be truncated.
    pub(super) fn files(
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
    pub(super) fn write(&mut self, line: &Line, sifted: &PageResult) -> Result<Readers, Fatal> {
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
    pub(super) fn finish(&mut self) -> Result<Readers, Fatal> {
        if let Self::Verdicts(output, Shape::Document(has_begun)) = self {
            let written = output.write(if *has_begun { b"]" } else { b"[]" });
            if written? == Readers::Gone {
                return Ok(Readers::Gone);
            }
        }
        self.flush()
    }

    /// Flushes all outputs.
    pub(super) fn flush(&mut self) -> Result<Readers, Fatal> {
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
