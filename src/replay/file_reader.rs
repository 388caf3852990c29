//! The lines of a replay's files, one file after the other, read on a separate thread.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::replay::{ArchiveFile, FilePlace};

use super::files;
use crate::kafka::budget::{ByteBudget, Permit};
use crate::kafka::group_consumer::ConsumedRecord;
use crate::processing::lines::{self, InFile};
use crate::record::{PartitionId, Source};

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
