//! Inputs line by line, in batches worth a thread's while.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::record::{PartitionId, Source};

/// Lines of a batch at most.
const BATCH_LINES: usize = 64;
/// Bytes after which a batch is full.
const BATCH_BYTES: usize = 256 << 10;

/// One line, with the line break that it came with.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Line {
    /// The input and the line's number in it, from 1.
    pub(in crate::cli) source: Source,
    /// All its bytes.
    pub(in crate::cli) bytes: Vec<u8>,
}

impl Line {
    /// Returns the line without its line break.
    pub(in crate::cli) fn content(&self) -> &[u8] {
        let bytes = self.bytes.as_slice();
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        bytes.strip_suffix(b"\r").unwrap_or(bytes)
    }
}

/// One opened input.
pub(in crate::cli) struct Input {
    partition: PartitionId,
    reader: BufReader<Box<dyn Read + Send>>,
    line: i64,
}

/// An input that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {name}")]
pub(in crate::cli) struct Unreadable {
    name: String,
    source: io::Error,
}

/// Opens all inputs, in order; standard input when none is named, or for `-`. Returns their size, too, when all
/// are files.
pub(in crate::cli) fn open(files: &[PathBuf]) -> Result<(Vec<Input>, Option<u64>), Unreadable> {
    let stdin = [PathBuf::from("-")];
    let files = if files.is_empty() { stdin.as_slice() } else { files };
    let mut inputs = Vec::new();
    let mut size = Some(0_u64);
    for (number, path) in (0..).zip(files) {
        let (name, reader, length) = if is_stdin(path) {
            let stdin: Box<dyn Read + Send> = Box::new(io::stdin());
            ("stdin".to_owned(), stdin, None)
        } else {
            let name = path.display().to_string();
            let refuse = |source| Unreadable { name: name.clone(), source };
            let file = File::open(path).map_err(refuse)?;
            let metadata = file.metadata().map_err(refuse)?;
            if metadata.is_dir() {
                return Err(refuse(io::ErrorKind::IsADirectory.into()));
            }
            let length = metadata.is_file().then_some(metadata.len());
            let file: Box<dyn Read + Send> = Box::new(file);
            (name, file, length)
        };
        let mut reader = BufReader::with_capacity(BATCH_BYTES, reader);
        let mut length = length;
        // Whoever writes into a pipe may come later: it is not looked at yet.
        if length.is_some() {
            let begin = reader.fill_buf().map_err(|source| Unreadable { name: name.clone(), source })?;
            if let Some(packing) = Packing::of(begin) {
                reader = packing.unpack(reader).map_err(|source| Unreadable { name: name.clone(), source })?;
                // How much is in it shows at its end.
                length = None;
            }
        }
        size = size.zip(length).map(|(sum, length)| sum + length);
        inputs.push(Input { partition: PartitionId::new(name, number), reader, line: 0 });
    }
    Ok((inputs, size))
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Gzip,
    Zstd,
    /// Not read here: the command that unpacks it.
    Other(&'static str),
}

/// How compressed files begin.
const PACKINGS: [(&[u8], Packing); 4] = [
    (b"\x1f\x8b", Packing::Gzip),
    (b"\x28\xb5\x2f\xfd", Packing::Zstd),
    (b"BZh", Packing::Other("bunzip2 -c")),
    (b"\xfd7zXZ", Packing::Other("xz -dc")),
];

impl Packing {
    fn of(begin: &[u8]) -> Option<Self> {
        PACKINGS.iter().find(|(magic, _)| begin.starts_with(magic)).map(|(_, packing)| *packing)
    }

    /// Reads what is in it. Archives that were written one behind the other are one.
    fn unpack(self, packed: BufReader<Box<dyn Read + Send>>) -> io::Result<BufReader<Box<dyn Read + Send>>> {
        let unpacked: Box<dyn Read + Send> = match self {
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(packed)?),
            Self::Other(command) => {
                let why = format!(
                    "it is compressed: `{command} FILE |` before the command hands its lines to standard input"
                );
                return Err(io::Error::other(why));
            }
        };
        Ok(BufReader::with_capacity(BATCH_BYTES, unpacked))
    }
}

/// Says whether the path stands for standard input (or output).
pub(in crate::cli) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl Input {
    /// Reads the next lines, none at the end. Lines of white space hold no page and are passed over, though they
    /// count as lines.
    pub(in crate::cli) fn batch(&mut self) -> Result<Vec<Line>, Unreadable> {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while lines.is_empty() || (lines.len() < BATCH_LINES && bytes < BATCH_BYTES) {
            let mut line = Vec::new();
            let read = self.reader.read_until(b'\n', &mut line).map_err(|source| self.unreadable(source))?;
            if read == 0 {
                break;
            }
            self.line += 1;
            bytes += read;
            if !line.trim_ascii().is_empty() {
                lines.push(Line { source: self.partition.at(self.line), bytes: line });
            }
            // Whoever writes into a pipe line by line sees verdicts line by line.
            if !lines.is_empty() && self.reader.buffer().is_empty() {
                break;
            }
        }
        Ok(lines)
    }

    fn unreadable(&self, source: io::Error) -> Unreadable {
        Unreadable { name: Arc::clone(&self.partition.topic).to_string(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(text: &[u8]) -> Input {
        Input {
            partition: PartitionId::new("f", 0),
            reader: BufReader::new(Box::new(io::Cursor::new(text.to_vec()))),
            line: 0,
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
