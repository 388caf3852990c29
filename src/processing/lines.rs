//! Reads files of lines, plain or compressed, in batches of lines for the threads.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Fatal, fatal};
use crate::kafka::group_consumer::CutValue;
use crate::record::{Format, PartitionId, RawRecord, Rejection, Source};

/// Maximum number of lines in a batch.
const BATCH_LINES: usize = 64;
/// Size at which a batch is full.
const BATCH_BYTES: usize = 256 << 10;
/// Number of bytes that are kept of a line that is too long.
const BEGIN_BYTES: usize = 4 << 10;
/// Number of bytes of line breaks that are kept after a line or a WARC record.
const LINE_BREAKS: usize = 4;

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
            Err(fatal!(
                Config,
                "input.format is {name}, and lines of a file hold no such values: export them as JSON with the same fields, \
                 and set input.format=json"
            ))
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
    /// Present if the line is longer than any that is read: then `bytes` are its beginning, or the headers of a WARC
    /// record without its block.
    pub(crate) cut: Option<CutValue>,
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

    /// Returns the line as the record that it would be.
    ///
    /// # Errors
    ///
    /// The line is cut.
    pub(crate) fn record(&self) -> Result<RawRecord<'_>, Rejection> {
        match &self.cut {
            Some(cut) => Err(cut.rejection.clone()),
            None => Ok(RawRecord { key: None, value: Some(self.content()), headers: &() }),
        }
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
    /// The longest content of a line, or block of a WARC record, that is read, in bytes.
    max_document: usize,
}

/// A line, or a WARC record, as it was read.
struct OneLine {
    /// Its bytes; its beginning if it is cut.
    bytes: Vec<u8>,
    /// Its length in the input, in bytes.
    length: u64,
    cut: Option<CutValue>,
}

/// An input that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {name}")]
pub(crate) struct Unreadable {
    name: String,
    source: io::Error,
}

/// Opens all inputs, in order; `-`, or an empty list, means standard input. Of lines longer than `max_document` bytes only
/// the beginning is kept. Also returns the total length of the inputs if it is known for all of them.
pub(crate) fn open(files: &[PathBuf], max_document: usize) -> Result<(Vec<Input>, Option<u64>), Unreadable> {
    let stdin = [PathBuf::from("-")];
    let files = if files.is_empty() { stdin.as_slice() } else { files };
    let mut inputs = Vec::new();
    let mut size = Some(0_u64);
    for (number, path) in (0..).zip(files) {
        let (input, length) = if is_stdin(path) {
            (Input::over(PartitionId::new("stdin", number), Box::new(io::stdin()), max_document), None)
        } else {
            let name = path.display().to_string();
            let partition = PartitionId::new(name.as_str(), number);
            Input::of_file(path, partition, InFile::default(), max_document)
                .map_err(|source| Unreadable { name, source })?
        };
        size = size.zip(length).map(|(sum, length)| sum + length);
        inputs.push(input);
    }
    Ok((inputs, size))
}

/// Opens one file at a place that an earlier run reached. Its lines get positions in `partition`. Of lines longer than
/// `max_document` bytes only the beginning is kept.
pub(crate) fn open_at(
    path: &Path,
    partition: PartitionId,
    place: InFile,
    max_document: usize,
) -> Result<Input, Unreadable> {
    let name = path.display().to_string();
    let opened = Input::of_file(path, partition, place, max_document).map_err(|source| Unreadable { name, source })?;
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
    fn over(partition: PartitionId, reader: Box<dyn Read + Send>, max_document: usize) -> Self {
        let reader = BufReader::with_capacity(BATCH_BYTES, reader);
        Self { partition, reader, place: InFile::default(), packed: Arc::default(), max_document }
    }

    /// Opens a file and skips what is before `place`. Also returns the length of its content, if known.
    fn of_file(
        path: &Path,
        partition: PartitionId,
        place: InFile,
        max_document: usize,
    ) -> io::Result<(Self, Option<u64>)> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A pipe is not read here to look for magic bytes: its writer may not be there yet.
        if !metadata.is_file() {
            return Ok((Self::over(partition, Box::new(file), max_document), None));
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
        Ok((Self { partition, reader, place, packed, max_document }, length))
    }

    /// Reads the next lines; returns none at the end of the input. Blank lines hold no page and are skipped, but they
    /// are counted.
    pub(crate) fn batch(&mut self) -> Result<Vec<Line>, Unreadable> {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while lines.is_empty() || (lines.len() < BATCH_LINES && bytes < BATCH_BYTES) {
            let line = self.one_line().map_err(|source| self.unreadable(source))?;
            if line.length == 0 {
                break;
            }
            self.place.line += 1;
            self.place.bytes += line.length;
            self.place.packed = self.packed.load(Ordering::Relaxed);
            bytes += line.bytes.len();
            if line.cut.is_some() || !without_byte_order_mark(&line.bytes).trim_ascii().is_empty() {
                let source = self.partition.at(self.place.line);
                lines.push(Line { source, bytes: line.bytes, place: self.place, cut: line.cut });
            }
            // Do not wait for a full batch: a user who writes line by line into a pipe expects verdicts line by line.
            if !lines.is_empty() && self.reader.buffer().is_empty() {
                break;
            }
        }
        Ok(lines)
    }

    /// Reads the next line, or the WARC record that begins with it: such a record counts as one line. At the end of the
    /// input its length is 0.
    fn one_line(&mut self) -> io::Result<OneLine> {
        let (bytes, length) = self.read_line()?;
        if bytes.len() as u64 != length {
            return Ok(self.cut(&bytes, length, "the line", length));
        }
        if bytes.starts_with(b"WARC/1.") {
            return self.warc_record(bytes);
        }
        Ok(OneLine { bytes, length, cut: None })
    }

    /// Reads a line with its line break, and skips what is beyond the longest line that is read. Returns its bytes and its
    /// length in the input.
    fn read_line(&mut self) -> io::Result<(Vec<u8>, u64)> {
        let room = self.max_document.saturating_add(LINE_BREAKS);
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(room as u64).read_until(b'\n', &mut line)?;
        let is_whole = read < room || line.ends_with(b"\n");
        let skipped = if is_whole { 0 } else { self.reader.skip_until(b'\n')? };
        Ok((line, (read + skipped) as u64))
    }

    /// Keeps only the beginning of a line, because `what` in it has too many bytes.
    fn cut(&self, bytes: &[u8], length: u64, what: &str, what_bytes: u64) -> OneLine {
        let begin = bytes.get(..BEGIN_BYTES).unwrap_or(bytes).to_vec();
        let rejection = Rejection::too_large(what, what_bytes, self.max_document);
        OneLine { bytes: begin, length, cut: Some(CutValue { bytes: length, rejection }) }
    }

    /// Reads the WARC record that begins with a line, and the line breaks after it.
    fn warc_record(&mut self, mut record: Vec<u8>) -> io::Result<OneLine> {
        let limit = self.max_document as u64;
        let (mut head, mut block) = (record.len() as u64, None);
        loop {
            let (line, length) = self.read_line()?;
            head += length;
            if head <= limit {
                record.extend_from_slice(&line);
            }
            let line = line.trim_ascii();
            if line.is_empty() {
                break;
            }
            let header = std::str::from_utf8(line).ok().and_then(|line| line.split_once(':'));
            if let Some((_, value)) = header.filter(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
                // The first one counts, as in decoding.
                block = block.or_else(|| Some(value.trim().parse().unwrap_or(0)));
            }
        }
        let block = block.unwrap_or(0);
        let mut rest = self.reader.by_ref().take(block);
        let mut length = head;
        length += if head.max(block) > limit {
            io::copy(&mut rest, &mut io::sink())?
        } else {
            rest.read_to_end(&mut record)? as u64
        };
        let mut kept = 0;
        while let Some(end @ (b'\r' | b'\n')) = self.reader.fill_buf()?.first().copied() {
            if kept < LINE_BREAKS {
                record.push(end);
                kept += 1;
            }
            length += 1;
            self.reader.consume(1);
        }
        Ok(if head > limit {
            self.cut(&record, length, "the head of the WARC record", head)
        } else if block > limit {
            self.cut(&record, length, "the block of the WARC record", block)
        } else {
            OneLine { bytes: record, length, cut: None }
        })
    }

    fn unreadable(&self, source: io::Error) -> Unreadable {
        Unreadable { name: Arc::clone(&self.partition.topic).to_string(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Reject;

    const MAX_DOCUMENT: usize = 8 << 20;

    fn input(text: &[u8]) -> Input {
        limited(io::Cursor::new(text.to_vec()), MAX_DOCUMENT)
    }

    fn limited(reader: impl Read + Send + 'static, max_document: usize) -> Input {
        Input::over(PartitionId::new("f", 0), Box::new(reader), max_document)
    }

    fn all(mut input: Input) -> Vec<Line> {
        std::iter::from_fn(|| Some(input.batch().unwrap()).filter(|lines| !lines.is_empty())).flatten().collect()
    }

    #[test]
    fn a_line_of_a_byte_order_mark_alone_is_blank_and_other_lines_keep_it() {
        let lines = all(input(b"\xef\xbb\xbf{}\r\n\xef\xbb\xbf\n\xef\xbb\xbf[]"));
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
            let read = |place| all(open_at(&path, PartitionId::new("f", 3), place, MAX_DOCUMENT).unwrap());
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
            let beyond = open_at(&path, PartitionId::new("f", 3), beyond, MAX_DOCUMENT);
            let beyond = beyond.map(|mut input| input.batch().unwrap().len());
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
        let lines = all(input(text.as_bytes()));
        let seen = lines.iter().map(|line| (line.source.offset, str::from_utf8(&line.bytes).unwrap().to_owned()));
        assert_eq!(seen.collect::<Vec<_>>(), (1..).zip(records).collect::<Vec<_>>());
        let cut = text.get(..text.len() - 5).unwrap();
        assert_eq!(all(input(cut.as_bytes())).len(), 3, "a record that is cut is read as far as it goes");
    }

    #[test]
    fn of_a_warc_record_that_is_too_long_only_the_headers_are_kept() {
        let head = |more: &str, block: usize| format!("WARC/1.0\r\nA: {more}\r\nContent-Length: {block}\r\n\r\n");
        let record = |head: &str, block: usize| format!("{head}{}\r\n\r\n", "x\n".repeat(block / 2));
        let (small, long) = (record(&head("b", 80), 80), record(&head("b", 82), 82));
        let long_head = record(&head(&"b".repeat(90), 2), 2);
        let text = [small.as_str(), &long, &long_head, &small].concat();
        let lines = all(limited(io::Cursor::new(text.clone()), 80));
        let why: Vec<_> = lines.iter().map(|line| line.record().err().map(|why| why.to_string())).collect();
        let too_large =
            |what: &str| Some(format!("too_large: the {what} bytes, at most 80 are read (input.max_document)"));
        let expected =
            [None, too_large("block of the WARC record has 82"), too_large("head of the WARC record has 126"), None];
        assert_eq!(why, expected);
        assert_eq!(lines[0].bytes, small.as_bytes());
        assert_eq!(lines[1].bytes, record(&head("b", 82), 0).as_bytes());
        assert_eq!(lines[2].cut.as_ref().map(|cut| cut.bytes), Some(long_head.len() as u64));
        assert_eq!((lines[3].source.offset, lines[3].place.bytes), (4, text.len() as u64));
    }

    /// Gives this many bytes and never all at once.
    struct Generated {
        left: usize,
        byte: u8,
    }

    impl Read for Generated {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(self.left);
            buffer.iter_mut().take(count).for_each(|byte| *byte = self.byte);
            self.left -= count;
            Ok(count)
        }
    }

    const LONG: usize = 200 << 20;

    #[test]
    fn the_rest_of_a_line_that_is_too_long_is_never_in_memory() {
        let long = Generated { left: LONG, byte: b'x' };
        let text = b"{}\n".chain(&b"{\"text\":\""[..]).chain(long).chain(&b"\"}\r\n\n[]\n"[..]);
        let mut input = limited(text, 1 << 20);
        assert_eq!(input.read_line().unwrap(), (b"{}\n".to_vec(), 3));
        let (begin, length) = input.read_line().unwrap();
        assert_eq!(length, LONG as u64 + 13);
        assert!(begin.capacity() <= 4 << 20, "{}", begin.capacity());
        assert_eq!(input.read_line().unwrap(), (b"\n".to_vec(), 1));

        let long = Generated { left: LONG, byte: b'x' };
        let lines = all(limited(b"{}\n".chain(long).chain(&b"\n\n[]\n"[..]), 1 << 20));
        assert_eq!(lines.iter().map(|line| line.source.offset).collect::<Vec<_>>(), [1, 2, 4]);
        let why = lines[1].record().err().unwrap();
        let message = "the line has 209715201 bytes, at most 1048576 are read (input.max_document)";
        assert_eq!((why.reason(), why.message()), (Reject::TooLarge, message));
        assert!(lines[1].bytes.capacity() <= BEGIN_BYTES);
        assert_eq!(lines[1].place.bytes, LONG as u64 + 4);
        assert_eq!(lines[2].content(), b"[]");
    }

    #[test]
    fn a_warc_record_without_end_is_never_in_memory() {
        // Headers, a block and line breaks without end.
        for (begin, byte) in [("A: ", b'x'), ("\r\n", b'\n'), ("Content-Length: 209715200\r\n\r\n", b'x')] {
            let text = format!("WARC/1.0\r\n{begin}");
            let long = Generated { left: 20 << 20, byte };
            let lines = all(limited(io::Cursor::new(text).chain(long), 1 << 20));
            assert_eq!(lines.len(), 1, "{begin:?}");
            assert!(lines[0].bytes.capacity() <= 4 << 20, "{begin:?}: {}", lines[0].bytes.capacity());
        }
    }

    #[test]
    fn the_longest_line_is_whole_whatever_its_line_break() {
        for line_break in ["", "\n", "\r\n"] {
            let seen = |length: usize| {
                let text = format!("{}{line_break}", "x".repeat(length));
                all(limited(io::Cursor::new(text), 10)).remove(0)
            };
            assert_eq!(seen(10).content(), b"xxxxxxxxxx");
            assert!(seen(10).cut.is_none() && seen(15).cut.is_some(), "{line_break:?}");
        }
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
