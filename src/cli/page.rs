//! Reads pages that are named on the command line, a file or one line of it, as the service would read the record.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::TypedValueParser;

use super::help::one_of;
use crate::config::settings::Settings;
use crate::deduplicator::{Deduplicator, DeduplicatorSettings};
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::fingerprint::{Fingerprinter, Inspection};
use crate::process::shielded;
use crate::processing::lines::{self, Line};
use crate::protocol::Rules;
use crate::record::{EventTime, Fields, Format, InputSettings, RawRecord, Reject, Rejection, Timestamp};
use crate::text::{self, Analyzer};

/// Reads a page. A panic in the text work rejects the page without revealing its text.
pub(super) fn guarded<T>(read: impl FnOnce() -> Result<T, Rejection>) -> Result<T, Rejection> {
    let panicked = || Err(Rejection::new(Reject::TextPanic, "the text work panicked on this page"));
    shielded(read).unwrap_or_else(panicked)
}

/// Creates what reads pages by these settings of records.
pub(super) fn fingerprinter(record: &InputSettings, settings: &Settings) -> Result<Fingerprinter, Fatal> {
    Fingerprinter::new(record, &settings.text, &settings.fingerprint, NonZeroUsize::MIN).or_fatal(Reason::Config)
}

/// Creates what judges pages of one partition by these rules, whatever time they claim.
pub(super) fn deduplicator(rules: Rules) -> Deduplicator {
    Deduplicator::new(DeduplicatorSettings {
        rules,
        event_time: EventTime::Record,
        partitions: NonZeroUsize::MIN,
        clock: Timestamp::from_millis(i64::MAX / 2),
    })
}

/// The place of a page: `FILE`, `FILE:LINE`, or `-` for standard input. A WARC record counts as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The line in it, from 1; without one the whole file is the page.
    pub line: Option<NonZeroUsize>,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbered = text.rsplit_once(':').and_then(|(path, line)| Some((path, line.parse::<usize>().ok()?)));
        let Some((path, line)) = numbered.filter(|_| !Path::new(text).exists()) else {
            return Ok(Self { path: text.into(), line: None });
        };
        let line = NonZeroUsize::new(line)
            .ok_or_else(|| format!("`{text}` names no line: lines count from 1, so the first one is {path}:1"))?;
        Ok(Self { path: path.into(), line: Some(line) })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.path.display()),
            None if self.path.as_os_str() == "-" => f.write_str("stdin"),
            None => self.path.display().fmt(f),
        }
    }
}

/// Parses the format of a file.
pub(super) fn format() -> impl TypedValueParser<Value = Format> {
    one_of(&Format::ALL, Format::name, |format| match format {
        Format::Json => "A record as the service reads it from Kafka, by `input.fields`",
        Format::Avro => "An Avro record of the Schema Registry",
        Format::Protobuf => "A Protobuf message of the Schema Registry",
        Format::JsonSchema => "A JSON record of the Schema Registry",
        Format::Text => "Plain text",
        Format::Html => "An HTML page",
        Format::Warc => "A WARC record",
    })
}

/// Reads pages of any format by the settings in effect.
#[derive(Debug)]
pub struct PageReader {
    /// The settings in effect.
    pub(super) settings: Settings,
    readers: HashMap<Format, Fingerprinter>,
}

impl PageReader {
    /// Creates a reader, which loads dictionaries only when it needs them.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, readers: HashMap::new() }
    }

    /// Reads the page at a place. Without a format, the extension decides (`.txt`, `.html`, `.htm`; `.warc`, `.wet`, also
    /// compressed), else `input.format`.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, has no such line, or holds no page.
    pub fn open(&mut self, place: &Place, format: Option<Format>) -> Result<Inspection, Fatal> {
        let (bytes, format) = self.fetch(place, format)?;
        self.read(&bytes, format)?.map_err(|rejection| {
            let lines = place.line.is_none() && bytes.trim_ascii().contains(&b'\n');
            let way_out = match format {
                Format::Json if lines => "; one line of a file is FILE:LINE, another format --as text or --as html",
                Format::Json => "; another format is --as text or --as html",
                Format::Warc if place.line.is_none() => "; one record of a file is FILE:NUMBER",
                Format::Avro | Format::Protobuf | Format::JsonSchema | Format::Text | Format::Html | Format::Warc => "",
            };
            fatal!(Input, "{place}: {rejection}{way_out}")
        })
    }

    /// Reads the bytes at a place, and returns their format.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, has no such line, or one that is too long.
    pub fn fetch(&self, place: &Place, format: Option<Format>) -> Result<(Vec<u8>, Format), Fatal> {
        let format = format.unwrap_or_else(|| self.format_of(place));
        let Some(number) = place.line else {
            let bytes = whole_file(&place.path).map_err(|error| fatal!(Input, "cannot read {place}: {error}"))?;
            return Ok((bytes, format));
        };
        let refused = |why: String| fatal!(Input, "{place}: {why}");
        let line = self.line(&place.path, number)?;
        let line = line.ok_or_else(|| refused("there is no such line, or it is blank".to_owned()))?;
        line.record().map_err(|rejection| refused(rejection.to_string()))?;
        Ok((line.content().to_vec(), format))
    }

    /// Reads one line as `sieve` does.
    fn line(&self, path: &Path, number: NonZeroUsize) -> Result<Option<Line>, Fatal> {
        let number = i64::try_from(number.get()).unwrap_or(i64::MAX);
        let opened = lines::open(&[path.to_owned()], self.settings.record.max_document);
        let (inputs, _) = opened.or_fatal(Reason::Input)?;
        for mut input in inputs {
            loop {
                let lines = input.batch().or_fatal(Reason::Input)?;
                let Some(last) = lines.last() else { break };
                if last.source.offset >= number {
                    return Ok(lines.into_iter().find(|line| line.source.offset == number));
                }
            }
        }
        Ok(None)
    }

    /// Reads the bytes of one page.
    ///
    /// # Errors
    ///
    /// The settings cannot be used. A refused page is not an error.
    pub fn read(&mut self, bytes: &[u8], format: Format) -> Result<Result<Inspection, Rejection>, Fatal> {
        let record = RawRecord { key: None, value: Some(bytes), headers: &() };
        let reader = self.reader(format)?;
        Ok(guarded(|| reader.inspect(&record)))
    }

    /// Returns the segmenter.
    ///
    /// # Errors
    ///
    /// The settings cannot be used.
    pub fn analyzer(&mut self) -> Result<&Analyzer, Fatal> {
        Ok(self.reader(self.settings.record.format)?.analyzer())
    }

    /// Reads a normalised text again, under other text settings.
    ///
    /// # Errors
    ///
    /// The settings cannot be used, or leave no text.
    pub fn reread(&self, normal: &str, text: &text::Settings) -> Result<Inspection, Fatal> {
        let record = RawRecord { key: None, value: Some(normal.as_bytes()), headers: &() };
        let reader = reader(&self.settings, Format::Text, text)?;
        guarded(|| reader.inspect(&record)).map_err(|rejection| fatal!(Failure, "{rejection}"))
    }

    fn format_of(&self, place: &Place) -> Format {
        let name = place.path.file_name().unwrap_or_default().to_string_lossy();
        let unpacked = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
        match unpacked.rsplit_once('.') {
            Some((_, "warc" | "wet")) => Format::Warc,
            Some((_, "txt")) if unpacked == name => Format::Text,
            Some((_, "html" | "htm")) if unpacked == name => Format::Html,
            Some(_) | None => self.settings.record.format,
        }
    }

    fn reader(&mut self, format: Format) -> Result<&Fingerprinter, Fatal> {
        Ok(match self.readers.entry(format) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(reader(&self.settings, format, &self.settings.text)?),
        })
    }
}

fn reader(settings: &Settings, format: Format, text: &text::Settings) -> Result<Fingerprinter, Fatal> {
    let configured = &settings.record;
    let input = if format == configured.format {
        configured.clone()
    } else {
        // The fields of one format do not apply to another.
        let fields = match format {
            Format::Json | Format::Avro | Format::Protobuf | Format::JsonSchema => Fields::default(),
            Format::Warc => Fields { id: "/WARC-Target-URI".parse().ok(), ..Fields::nowhere() },
            Format::Text | Format::Html => Fields::nowhere(),
        };
        InputSettings { format, fields, event_time: EventTime::Record, ..configured.clone() }
    };
    Fingerprinter::new(&input, text, &settings.fingerprint, NonZeroUsize::MIN).or_fatal(Reason::Config)
}

fn whole_file(path: &Path) -> std::io::Result<Vec<u8>> {
    if !lines::is_stdin(path) {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_the_text_work_rejects_the_page_and_reveals_nothing_of_it() {
        let read = guarded(|| -> Result<(), Rejection> { panic!("the text of a page") });
        let rejection = read.unwrap_err();
        assert_eq!(
            (rejection.reason(), rejection.message()),
            (Reject::TextPanic, "the text work panicked on this page")
        );
        assert_eq!(guarded(|| Ok(3)).unwrap(), 3);
    }
}
