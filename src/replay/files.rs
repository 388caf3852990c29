//! The files of a plan: describing them, checking that they are unchanged, fetching single lines, and reading all lines,
//! one file after the other, on a separate thread.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::replay::{ArchiveFile, FilePlace};
use xxhash_rust::xxh3::Xxh3;

use super::files;
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::kafka::budget::{ByteBudget, Permit};
use crate::kafka::group_consumer::ConsumedRecord;
use crate::kafka::pages::PageBytes;
use crate::processing::lines::{self, InFile};
use crate::record::{PartitionId, Source};

/// A file is hashed by this many blocks of this many bytes, spread evenly over the file; a smaller one as a whole. So a
/// plan over hundreds of gigabytes is made, and checked at each start, quickly.
const BLOCKS: u64 = 64;
const BLOCK_BYTES: u64 = 64 << 10;

/// Describes files as a plan holds them, in the order given.
///
/// # Errors
///
/// A file cannot be read, or its name cannot be part of the positions of its pages.
pub(super) fn describe(paths: &[PathBuf]) -> Result<Vec<ArchiveFile>, Fatal> {
    paths.iter().zip(0..).map(|(path, number)| describe_one(path, number)).collect()
}

fn describe_one(path: &Path, number: usize) -> Result<ArchiveFile, Fatal> {
    let shown = path.display();
    let refuse = |why: &str| Err(fatal!(Input, "{shown}: {why}"));
    if lines::is_stdin(path) {
        return refuse("standard input cannot be read a second time, by `replay resume`: write it to a file");
    }
    let Some(name) = path.to_str().filter(|name| !name.contains([':', '\n'])) else {
        return refuse("the name must be UTF-8 without a colon, because the places of pages are written FILE:0:LINE");
    };
    let unreadable = |error: io::Error| fatal!(Input, "cannot read {shown}: {error}");
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return refuse("not a regular file: it cannot be read a second time, by `replay resume`");
    }
    let (bytes, digest) = digest(path).map_err(unreadable)?;
    let file = ArchiveFile { path: name.to_owned(), bytes, digest };
    // Packed in an unsupported format, or damaged.
    lines::open_at(path, file.partition(number), InFile::default(), 0).or_fatal(Reason::Input)?;
    Ok(file)
}

/// Makes sure that a file is as it was when the plan was made.
///
/// # Errors
///
/// [`Reason::State`] with the name of the file.
pub(super) fn verify(file: &ArchiveFile) -> Result<(), Fatal> {
    let path = &file.path;
    let refuse = |why: String| Err(fatal!(State, "{why}"));
    match digest(Path::new(path)) {
        Err(error) => refuse(format!(
            "cannot read {path}: {error}: a replay of files runs where the files are, in the folder that their names count from"
        )),
        Ok((bytes, _)) if bytes != file.bytes => {
            let before = file.bytes;
            refuse(format!("{path} has changed since the plan was made: it has {bytes} bytes and had {before}"))
        }
        Ok((_, digest)) if digest != file.digest => {
            refuse(format!("{path} has changed since the plan was made: it has the same size and other contents"))
        }
        Ok(_) => Ok(()),
    }
}

fn digest(path: &Path) -> io::Result<(u64, String)> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    Ok((bytes, digest_of(file, bytes)?))
}

fn digest_of(mut file: impl Read + Seek, bytes: u64) -> io::Result<String> {
    let mut hash = Xxh3::new();
    let is_small = bytes <= BLOCKS * BLOCK_BYTES;
    let (blocks, length) = if is_small { (1, bytes) } else { (BLOCKS, BLOCK_BYTES) };
    let mut block = Vec::new();
    for number in 0..blocks {
        let last = u128::from(bytes - length);
        let start = last * u128::from(number) / u128::from((blocks - 1).max(1));
        file.seek(SeekFrom::Start(u64::try_from(start).unwrap_or(u64::MAX)))?;
        block.clear();
        file.by_ref().take(length).read_to_end(&mut block)?;
        hash.update(&block);
    }
    Ok(format!("{:032x}", hash.digest128()))
}

/// Fetches single lines. Lines of files that cannot be read or have changed are missing in the answer, as are lines longer
/// than `max_document` bytes.
#[must_use]
pub fn fetch_lines(files: &[ArchiveFile], sources: &[&Source], max_document: usize) -> BTreeMap<Source, PageBytes> {
    let wanted: BTreeSet<&Source> = sources.iter().copied().collect();
    let mut found = BTreeMap::new();
    for (number, file) in files.iter().enumerate() {
        let partition = file.partition(number);
        let mut left = wanted.iter().filter(|source| source.partition == partition).count();
        if left == 0 || verify(file).is_err() {
            continue;
        }
        let opened = lines::open_at(Path::new(&file.path), partition, InFile::default(), max_document);
        let Ok(mut input) = opened else { continue };
        while left > 0
            && let Ok(batch) = input.batch()
            && !batch.is_empty()
        {
            for line in batch.into_iter().filter(|line| wanted.contains(&line.source)) {
                left -= 1;
                if line.cut.is_some() {
                    continue;
                }
                let value = Some(line.content().to_vec());
                found.insert(line.source, PageBytes { key: None, value, headers: Vec::new() });
            }
        }
    }
    found
}

/// How long to wait for space before trying again.
const WAIT: Duration = Duration::from_millis(200);

/// Minimum overhead of a line besides its bytes.
const LINE_OVERHEAD: usize = 256;

/// Events of the reader.
pub(super) enum FileEvent {
    /// The next line that is not blank.
    Line {
        /// Its file and its number.
        source: Source,
        /// The line without its line break, as the value of a record without a timestamp.
        record: ConsumedRecord,
        /// The place after it in the file.
        place: FilePlace,
        /// Counts it until it is taken.
        permit: Permit,
    },
    /// This file has ended.
    Ended(PartitionId),
    /// The reader failed: why.
    Failed(String),
}

/// Starts reading after a place. Of lines longer than `max_document` bytes only the beginning is kept. No line is read
/// while `budget` is full. The thread ends when `sink` returns false.
pub(super) fn start(
    files: &[ArchiveFile],
    from: FilePlace,
    max_document: usize,
    budget: Arc<ByteBudget>,
    sink: impl Fn(FileEvent) -> bool + Send + 'static,
) -> io::Result<()> {
    let files = files.to_vec();
    let thread = std::thread::Builder::new().name("replay".to_owned());
    thread.spawn(move || read(&files, from, max_document, &budget, &sink)).map(drop)
}

fn read(
    files: &[ArchiveFile],
    from: FilePlace,
    max_document: usize,
    budget: &Arc<ByteBudget>,
    sink: &impl Fn(FileEvent) -> bool,
) {
    for (number, file) in files.iter().enumerate() {
        let place = if number == from.file { from } else { FilePlace { file: number, ..FilePlace::default() } };
        // Files that were read before have ended.
        let goes_on = if number < from.file { Ok(true) } else { read_one(file, place, max_document, budget, sink) };
        let goes_on = match goes_on {
            Ok(goes_on) => goes_on && sink(FileEvent::Ended(file.partition(number))),
            Err(why) => {
                sink(FileEvent::Failed(format!("{why:#}; what was judged before is committed")));
                false
            }
        };
        if !goes_on {
            return;
        }
    }
}

/// Reads one file; returns whether more lines are wanted.
fn read_one(
    file: &ArchiveFile,
    from: FilePlace,
    max_document: usize,
    budget: &Arc<ByteBudget>,
    sink: &impl Fn(FileEvent) -> bool,
) -> anyhow::Result<bool> {
    let begin = InFile { line: from.line, bytes: from.bytes, packed: from.packed };
    let mut input = lines::open_at(Path::new(&file.path), file.partition(from.file), begin, max_document)?;
    loop {
        while !budget.wait_for_room(WAIT) {}
        let batch = input.batch()?;
        if batch.is_empty() {
            break;
        }
        for line in batch {
            let InFile { line: number, bytes, packed } = line.place;
            let place = FilePlace { file: from.file, line: number, bytes, packed, latest_ms: 0 };
            let value = Some(Box::from(line.content()));
            let record = ConsumedRecord { value, cut: line.cut, ..ConsumedRecord::default() };
            let permit = budget.hold(record.bytes() + LINE_OVERHEAD);
            if !sink(FileEvent::Line { source: line.source, record, place, permit }) {
                return Ok(false);
            }
        }
    }
    // Check at the end whether the file changed while it was read.
    files::verify(file)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::record::Reject;

    fn digest_of_bytes(bytes: &[u8]) -> String {
        digest_of(io::Cursor::new(bytes), bytes.len() as u64).unwrap()
    }

    #[test]
    fn every_byte_of_a_small_file_counts_and_both_ends_of_a_large_one() {
        let small = vec![b'x'; 5000];
        for at in [0, 1, 2500, 4999] {
            let mut other = small.clone();
            other[at] = b'y';
            assert_ne!(digest_of_bytes(&small), digest_of_bytes(&other), "{at}");
        }
        assert_ne!(digest_of_bytes(b""), digest_of_bytes(b"x"));
        let length = usize::try_from(BLOCKS * BLOCK_BYTES * 3).unwrap();
        let large = vec![b'x'; length];
        for at in [0, length - 1, length / 63 * 31] {
            let mut other = large.clone();
            other[at] = b'y';
            assert_ne!(digest_of_bytes(&large), digest_of_bytes(&other), "{at}");
        }
        assert_eq!(digest_of_bytes(&large), digest_of_bytes(&large));
    }

    #[test]
    fn a_missing_or_changed_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages.jsonl");
        std::fs::write(&path, "{}\n").unwrap();
        let file = describe(std::slice::from_ref(&path)).unwrap().remove(0);
        verify(&file).unwrap();
        let why = |text: Option<&str>| {
            match text {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            verify(&file).unwrap_err().to_string()
        };
        assert!(why(Some("[]\n")).contains("pages.jsonl has changed since the plan was made: it has the same size"));
        assert!(why(Some("{}\n{}\n")).contains("it has 6 bytes and had 3"));
        assert!(why(None).contains("runs where the files are"));
    }

    #[test]
    fn files_that_cannot_be_read_again_or_named_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let packed = folder.path().join("pages.jsonl.bz2");
        std::fs::write(&packed, b"BZh91AY").unwrap();
        std::fs::write(folder.path().join("a:b"), b"{}").unwrap();
        for (path, why) in [
            (PathBuf::from("-"), "cannot be read a second time"),
            (folder.path().to_owned(), "not a regular file"),
            (folder.path().join("none"), "cannot read"),
            (folder.path().join("a:b"), "without a colon"),
            (packed, "cannot read"),
        ] {
            let refused = describe(std::slice::from_ref(&path)).unwrap_err().to_string();
            assert!(refused.contains(why), "{}: {refused}", path.display());
        }
    }

    #[test]
    fn single_lines_are_fetched_from_files_that_have_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        std::fs::write(&paths[0], "one\n\nthree\na line that is too long\n").unwrap();
        std::fs::write(&paths[1], "four\n").unwrap();
        let files = describe(&paths).unwrap();
        std::fs::write(&paths[1], "five\n").unwrap();
        let (first, second) = (files[0].partition(0), files[1].partition(1));
        let wanted = [first.at(3), first.at(4), first.at(9), second.at(1)];
        let found = fetch_lines(&files, &wanted.iter().collect::<Vec<_>>(), 5);
        let found: Vec<_> = found.into_iter().map(|(source, page)| (source, page.value.unwrap())).collect();
        assert_eq!(found, [(first.at(3), b"three".to_vec())]);
    }

    const MAX_DOCUMENT: usize = 1000;

    /// Reads files after a place; returns lines as `file:line text`, ends, and the failure.
    fn lines_of(files: &[ArchiveFile], from: FilePlace) -> (Vec<String>, Vec<FilePlace>) {
        let received = Mutex::new((Vec::new(), Vec::new()));
        read(files, from, MAX_DOCUMENT, &ByteBudget::new(1 << 20), &|event| {
            let mut received = received.lock().unwrap();
            match event {
                FileEvent::Line { source, record, place, .. } => {
                    let text = String::from_utf8(record.value.unwrap().into_vec()).unwrap();
                    received.0.push(format!("{}:{} {text}", source.partition.number, source.offset));
                    received.1.push(place);
                }
                FileEvent::Ended(partition) => received.0.push(format!("{} ended", partition.number)),
                FileEvent::Failed(why) => received.0.push(why),
            }
            true
        });
        received.into_inner().unwrap()
    }

    #[test]
    fn files_are_read_in_their_order_and_on_from_every_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a"), "one\n\ntwo\n").unwrap();
        std::fs::write(path("b"), "").unwrap();
        std::fs::write(path("c"), zstd::encode_all(&b"three\r\nfour"[..], 1).unwrap()).unwrap();
        let files = files::describe(&["a", "b", "c"].map(path)).unwrap();
        let (all, places) = lines_of(&files, FilePlace::default());
        assert_eq!(all, ["0:1 one", "0:3 two", "0 ended", "1 ended", "2:1 three", "2:2 four", "2 ended"]);
        let ended = |from: FilePlace| (0..from.file).map(|file| format!("{file} ended")).collect::<Vec<_>>();
        for (at, place) in [0, 1, 4, 5].into_iter().zip(places) {
            let (rest, _) = lines_of(&files, place);
            assert_eq!(rest, [ended(place).as_slice(), &all[at + 1..]].concat(), "after {place:?}");
        }
        std::fs::write(path("b"), "more").unwrap();
        let (changed, _) = lines_of(&files, FilePlace::default());
        let why = changed.last().unwrap();
        assert!(why.contains("/b has changed since the plan was made") && why.contains("is committed"), "{why}");
    }

    #[test]
    fn a_line_that_is_too_long_is_handed_over_without_its_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, ["one", &"x".repeat(100_000), "two"].join("\n")).unwrap();
        let files = files::describe(&[path]).unwrap();
        let received = Mutex::new(Vec::new());
        read(&files, FilePlace::default(), MAX_DOCUMENT, &ByteBudget::new(1 << 20), &|event| {
            if let FileEvent::Line { source, record, place, .. } = event {
                assert!(record.bytes() < 10_000, "{}", record.bytes());
                let cut = record.cut.map(|cut| (cut.bytes, cut.rejection.reason()));
                received.lock().unwrap().push((source.offset, place.bytes, cut));
            }
            true
        });
        let cut = Some((100_001, Reject::TooLarge));
        assert_eq!(received.into_inner().unwrap(), [(1, 4, None), (2, 100_005, cut), (3, 100_008, None)]);
    }

    #[test]
    fn reading_ends_when_the_receiver_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "one\ntwo\n").unwrap();
        let files = files::describe(&[folder.path().join("a")]).unwrap();
        let taken = Mutex::new(0);
        read(&files, FilePlace::default(), MAX_DOCUMENT, &ByteBudget::new(1), &|_| {
            *taken.lock().unwrap() += 1;
            false
        });
        assert_eq!(taken.into_inner().unwrap(), 1);
    }
}
