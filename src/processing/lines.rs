//! Reads files of lines, plain or compressed, in batches of lines for the threads.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Fatal, Reason};
use crate::record::{Format, PartitionId, Source};

/// Maximum number of lines in a batch.
const BATCH_LINES: usize = 64;
/// Size at which a batch is full.
const BATCH_BYTES: usize = 256 << 10;

/// Refuses formats whose values are no lines of text.
///
/// # Errors
///
/// The format is one of the Schema Registry.
pub(crate) fn hold(format: Format) -> Result<(), Fatal> {
    match format {
        Format::Json | Format::Text | Format::Html | Format::Warc => Ok(()),
        Format::Avro | Format::Protobuf | Format::JsonSchema => {
            let name = format.name();
            Err(Reason::Config.because(anyhow::anyhow!(
                "input.format is {name}, and lines of a file hold no such values: export them as JSON with the same fields, \
                 and set input.format=json"
            )))
        }
    }
}

/// One line, with its line break.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The input and the line's number in it, from 1.
    pub(crate) source: Source,
    /// All bytes of the line, including a byte order mark.
    pub(crate) bytes: Vec<u8>,
    /// The place after the line in the input.
    pub(crate) place: InFile,
    /// Whether it is a WARC record without its block, which is larger than any that is read.
    pub(crate) is_cut: bool,
}

/// A place between two lines of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFile {
    /// Lines before it.
    pub(crate) line: i64,
    /// Uncompressed bytes before it.
    pub(crate) bytes: u64,
    /// Bytes of the file, compressed or not, that were read so far; the reader buffers ahead of this place.
    pub(crate) packed: u64,
}

impl Line {
    /// Returns the line without its line break: what the value of a record would be.
    pub(crate) fn content(&self) -> &[u8] {
        let bytes = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        bytes.strip_suffix(b"\r").unwrap_or(bytes)
    }
}

/// Returns the bytes without the byte order mark of UTF-8, if they begin with one.
pub(crate) fn without_byte_order_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// One opened input.
pub(crate) struct Input {
    partition: PartitionId,
    reader: BufReader<Box<dyn Read + Send>>,
    place: InFile,
    /// Bytes of the file that were read so far.
    packed: Arc<AtomicU64>,
    /// The largest block of a WARC record that is read, in bytes.
    max_block: u64,
}

/// An input that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {name}")]
pub(crate) struct Unreadable {
    name: String,
    source: io::Error,
}

/// Opens all inputs, in order; `-`, or an empty list, means standard input. Also returns their total length if it is
/// known for all of them.
pub(crate) fn open(files: &[PathBuf]) -> Result<(Vec<Input>, Option<u64>), Unreadable> {
    let stdin = [PathBuf::from("-")];
    let files = if files.is_empty() { stdin.as_slice() } else { files };
    let mut inputs = Vec::new();
    let mut size = Some(0_u64);
    for (number, path) in (0..).zip(files) {
        let (input, length) = if is_stdin(path) {
            (Input::over(PartitionId::new("stdin", number), Box::new(io::stdin())), None)
        } else {
            let name = path.display().to_string();
            let partition = PartitionId::new(name.as_str(), number);
            Input::of_file(path, partition, InFile::default()).map_err(|source| Unreadable { name, source })?
        };
        size = size.zip(length).map(|(sum, length)| sum + length);
        inputs.push(input);
    }
    Ok((inputs, size))
}

/// Opens one file at a place that an earlier run reached. Its lines get positions in `partition`.
pub(crate) fn open_at(path: &Path, partition: PartitionId, place: InFile) -> Result<Input, Unreadable> {
    let name = path.display().to_string();
    let opened = Input::of_file(path, partition, place).map_err(|source| Unreadable { name, source })?;
    Ok(opened.0)
}

/// Counts the bytes read.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Gzip,
    Zstd,
    /// A format that is not supported, with the command that decompresses it.
    Other(&'static str),
}

/// Magic bytes of compressed files.
const PACKINGS: [(&[u8], Packing); 4] = [
    (b"\x1f\x8b", Packing::Gzip),
    (b"\x28\xb5\x2f\xfd", Packing::Zstd),
    (b"BZh", Packing::Other("bunzip2 -c")),
    (b"\xfd7zXZ", Packing::Other("xz -dc")),
];

/// Number of bytes at the start of a file that are compared with the magic bytes.
const LONGEST_MAGIC: u64 = 5;

impl Packing {
    fn of(begin: &[u8]) -> Option<Self> {
        PACKINGS.iter().find(|(magic, _)| begin.starts_with(magic)).map(|(_, packing)| *packing)
    }

    /// Returns a reader of the decompressed content. Concatenated archives are read as one.
    fn unpack(self, packed: BufReader<Box<dyn Read + Send>>) -> io::Result<BufReader<Box<dyn Read + Send>>> {
        let unpacked: Box<dyn Read + Send> = match self {
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(packed)?),
            Self::Other(command) => {
                let why = format!("its compression is not supported: use `{command} FILE | dupgate ...`");
                return Err(io::Error::other(why));
            }
        };
        Ok(BufReader::with_capacity(BATCH_BYTES, unpacked))
    }
}

/// Returns whether the path means standard input (or output).
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl Input {
    fn over(partition: PartitionId, reader: Box<dyn Read + Send>) -> Self {
        let reader = BufReader::with_capacity(BATCH_BYTES, reader);
        Self { partition, reader, place: InFile::default(), packed: Arc::default(), max_block: u64::MAX }
    }

    /// Opens a file and skips what is before `place`. Also returns the length of its content, if known.
    fn of_file(path: &Path, partition: PartitionId, place: InFile) -> io::Result<(Self, Option<u64>)> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A pipe is not read here to look for magic bytes: its writer may not be there yet.
        if !metadata.is_file() {
            return Ok((Self::over(partition, Box::new(file)), None));
        }
        let mut begin = Vec::new();
        file.by_ref().take(LONGEST_MAGIC).read_to_end(&mut begin)?;
        let packing = Packing::of(&begin);
        // Compressed files cannot be entered in the middle: they are read from the start, up to the place.
        let start = if packing.is_some() { 0 } else { place.bytes.min(metadata.len()) };
        file.seek(SeekFrom::Start(start))?;
        let packed = Arc::new(AtomicU64::new(start));
        let file: Box<dyn Read + Send> = Box::new(Counted { inner: file, read: Arc::clone(&packed) });
        let mut reader = BufReader::with_capacity(BATCH_BYTES, file);
        if let Some(packing) = packing {
            reader = packing.unpack(reader)?;
            let skipped = io::copy(&mut reader.by_ref().take(place.bytes), &mut io::sink())?;
            if skipped < place.bytes {
                return Err(io::Error::other(format!(
                    "it ends before the place that an earlier run had reached ({place:?})"
                )));
            }
        }
        // The length of a compressed file's content is known only at its end.
        let length = packing.is_none().then_some(metadata.len());
        Ok((Self { partition, reader, place, packed, max_block: u64::MAX }, length))
    }

    /// Skips blocks of WARC records that have more bytes. Only the headers of such a record are kept: they show why it
    /// cannot be read.
    pub(crate) fn limited(mut self, max_block: usize) -> Self {
        self.max_block = u64::try_from(max_block).unwrap_or(u64::MAX);
        self
    }

    /// Reads the next lines; returns none at the end of the input. Blank lines hold no page and are skipped, but they
    /// are counted.
    pub(crate) fn batch(&mut self) -> Result<Vec<Line>, Unreadable> {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while lines.is_empty() || (lines.len() < BATCH_LINES && bytes < BATCH_BYTES) {
            let mut line = Vec::new();
            let read = self.reader.read_until(b'\n', &mut line).map_err(|source| self.unreadable(source))?;
            if read == 0 {
                break;
            }
            let skipped = self.rest_of_warc_record(&mut line).map_err(|source| self.unreadable(source))?;
            self.place.line += 1;
            self.place.bytes += line.len() as u64 + skipped;
            self.place.packed = self.packed.load(Ordering::Relaxed);
            bytes += line.len();
            if !without_byte_order_mark(&line).trim_ascii().is_empty() {
                let source = self.partition.at(self.place.line);
                lines.push(Line { source, bytes: line, place: self.place, is_cut: skipped > 0 });
            }
            // Do not wait for a full batch: a user who writes line by line into a pipe expects verdicts line by line.
            if !lines.is_empty() && self.reader.buffer().is_empty() {
                break;
            }
        }
        Ok(lines)
    }

    /// Reads the rest of a WARC record if a line is the first one of such a record: it counts as one line. Returns the
    /// number of bytes skipped.
    fn rest_of_warc_record(&mut self, record: &mut Vec<u8>) -> io::Result<u64> {
        if !record.starts_with(b"WARC/1.") {
            return Ok(0);
        }
        let mut length = 0;
        loop {
            let at = record.len();
            self.reader.read_until(b'\n', record)?;
            let line = record.get(at..).unwrap_or_default().trim_ascii();
            let Some((name, value)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once(':')) else {
                if line.is_empty() {
                    break;
                }
                continue;
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut block = self.reader.by_ref().take(length);
        let skipped = if length > self.max_block {
            io::copy(&mut block, &mut io::sink())?
        } else {
            block.read_to_end(record)?;
            0
        };
        // The line breaks after it.
        while let Some(end @ (b'\r' | b'\n')) = self.reader.fill_buf()?.first().copied() {
            record.push(end);
            self.reader.consume(1);
        }
        Ok(skipped)
    }

    fn unreadable(&self, source: io::Error) -> Unreadable {
        Unreadable { name: Arc::clone(&self.partition.topic).to_string(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(text: &[u8]) -> Input {
        Input::over(PartitionId::new("f", 0), Box::new(io::Cursor::new(text.to_vec())))
    }

    #[test]
    fn a_line_of_a_byte_order_mark_alone_is_blank_and_other_lines_keep_it() {
        let mut input = input(b"\xef\xbb\xbf{}\r\n\xef\xbb\xbf\n\xef\xbb\xbf[]");
        let lines: Vec<Line> =
            std::iter::from_fn(|| Some(input.batch().unwrap()).filter(|lines| !lines.is_empty())).flatten().collect();
        assert_eq!(lines.iter().map(Line::content).collect::<Vec<_>>(), [b"\xef\xbb\xbf{}", b"\xef\xbb\xbf[]"]);
    }

    #[test]
    fn reading_continues_after_every_line_whatever_the_compression() {
        let text = b"one\n\ntwo\r\nthree\n\nfour".to_vec();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut gzip, &text).unwrap();
        let packed = [text.clone(), gzip.finish().unwrap(), zstd::encode_all(&*text, 1).unwrap()];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages");
        for bytes in packed {
            std::fs::write(&path, &bytes).unwrap();
            let read = |place| {
                let mut input = open_at(&path, PartitionId::new("f", 3), place).unwrap();
                let lines = std::iter::from_fn(|| Some(input.batch().unwrap()).filter(|lines| !lines.is_empty()));
                lines.flatten().collect::<Vec<Line>>()
            };
            let all = read(InFile::default());
            let numbers: Vec<i64> = all.iter().map(|line| line.source.offset).collect();
            assert_eq!(numbers, [1, 3, 4, 6]);
            assert_eq!(all[3].place, InFile { line: 6, bytes: text.len() as u64, packed: bytes.len() as u64 });
            for (at, line) in all.iter().enumerate() {
                let rest = read(line.place);
                let seen =
                    |lines: &[Line]| lines.iter().map(|line| (line.source.clone(), line.bytes.clone())).collect();
                let (rest, expected): (Vec<_>, Vec<_>) = (seen(&rest), seen(&all[at + 1..]));
                assert_eq!(rest, expected);
            }
            let beyond = InFile { line: 9, bytes: 1000, packed: 0 };
            let beyond = open_at(&path, PartitionId::new("f", 3), beyond).map(|mut input| input.batch().unwrap().len());
            assert!(beyond.is_err() || beyond.is_ok_and(|lines| lines == 0), "nothing is there");
        }
    }

    #[test]
    fn lines_keep_their_bytes_and_their_numbers() {
        let mut input = input(b"a\r\n\n  \t\nb\xff\n\nc");
        let lines = input.batch().unwrap();
        let seen: Vec<_> =
            lines.iter().map(|line| (line.source.offset, line.bytes.as_slice(), line.content())).collect();
        let expected: [(i64, &[u8], &[u8]); 3] = [(1, b"a\r\n", b"a"), (4, b"b\xff\n", b"b\xff"), (6, b"c", b"c")];
        assert_eq!(seen, expected);
        assert!(input.batch().unwrap().is_empty());
    }

    #[test]
    fn a_warc_record_counts_as_one_line() {
        let record =
            |block: &str| format!("WARC/1.0\r\nA: b\r\ncontent-length: {}\r\n\r\n{block}\r\n\r\n", block.len());
        let records = [record("one\n\nWARC/1.0\r\n"), record(""), record("two")];
        let text = records.concat();
        let seen = |input: &mut Input| {
            let lines = std::iter::from_fn(|| Some(input.batch().unwrap()).filter(|lines| !lines.is_empty())).flatten();
            lines.map(|line| (line.source.offset, String::from_utf8(line.bytes).unwrap())).collect::<Vec<_>>()
        };
        let all = seen(&mut input(text.as_bytes()));
        assert_eq!(all, (1..).zip(records.clone()).collect::<Vec<_>>());
        let cut = text.get(..text.len() - 5).unwrap();
        assert_eq!(seen(&mut input(cut.as_bytes())).len(), 3, "a record that is cut is read as far as it goes");
        let lines = input(text.as_bytes()).limited(14).batch().unwrap();
        assert_eq!(lines.iter().map(|line| line.is_cut).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(lines[0].bytes, records[0].replace("one\n\nWARC/1.0\r\n", "").into_bytes(), "its headers");
        assert_eq!(lines[2].place.bytes, text.len() as u64);
    }

    #[test]
    fn blank_lines_do_not_end_the_input() {
        let mut text = vec![b'\n'; BATCH_BYTES * 2];
        text.extend_from_slice(b"page\n");
        let lines = input(&text).batch().unwrap();
        assert_eq!(lines.len(), 1);
    }

    #[test]
    fn a_batch_ends_by_lines_or_bytes() {
        assert_eq!(input(&b"x\n".repeat(1000)).batch().unwrap().len(), BATCH_LINES);
        let long = [vec![b'x'; BATCH_BYTES], vec![b'\n']].concat().repeat(3);
        assert_eq!(input(&long).batch().unwrap().len(), 1);
    }
}
