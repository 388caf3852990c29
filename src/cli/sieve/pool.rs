//! Does text work on all cores, and returns the results in the order of the input.
//!
//! One thread reads batches of lines, several threads work on them, and the thread of the caller takes them in order.
//! Each batch holds a ticket until it is taken, so the number of tickets bounds memory, however unequal the batches
//! are.

use std::collections::BTreeMap;
use std::thread::{Builder, Scope};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::cli::page::guarded;
use crate::error::{Fatal, OrFatal, Reason};
use crate::fingerprint::{FingerprintedPage, Fingerprinter, Scratch};
use crate::processing::lines::{Input, Line, Unreadable};
use crate::record::Rejection;

/// Stack size of a thread: parsers recurse deeply on deeply nested documents.
const STACK_BYTES: usize = 64 << 20;
/// Maximum number of batches in flight for each thread.
const TICKETS: usize = 4;

/// A line and what was read from it.
pub(super) type Read = (Line, Result<FingerprintedPage, Rejection>);

/// A batch of lines, with its number.
type Job = (u64, Result<Vec<Line>, Unreadable>);

/// What was read from a batch, with its number.
type Done = (u64, Result<Vec<Read>, Unreadable>);

/// Reads all inputs with `threads` threads for text work, and hands the lines to `take` in the order of the input.
/// Passes `None` when no more lines are ready, so that buffered output can be flushed. Ends early if `take` fails.
pub(super) fn in_order(
    inputs: Vec<Input>,
    reader: &Fingerprinter,
    threads: usize,
    mut take: impl FnMut(Option<Read>) -> Result<(), Fatal>,
) -> Result<(), Fatal> {
    std::thread::scope(|scope| {
        let (tickets, free) = bounded::<()>(threads * TICKETS);
        for _ in 0..threads * TICKETS {
            // The channel has room for all tickets.
            let _ = tickets.send(());
        }
        let (done, results) = bounded(threads * TICKETS);
        start(scope, inputs, reader, threads, &free, &done).or_fatal(Reason::Bug)?;
        drop((free, done));
        // An early return drops tickets and results, which ends every thread at its next send.
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        for (number, read) in &results {
            waiting.insert(number, read);
            while let Some(read) = waiting.remove(&next) {
                next += 1;
                let read = read.or_fatal(Reason::Input)?;
                read.into_iter().try_for_each(|read| take(Some(read)))?;
                // Once everything is read, no thread takes the ticket.
                let _ = tickets.send(());
            }
            if results.is_empty() {
                take(None)?;
            }
        }
        drop(tickets);
        Ok(())
    })
}

fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    inputs: Vec<Input>,
    reader: &'env Fingerprinter,
    threads: usize,
    free: &Receiver<()>,
    done: &Sender<Done>,
) -> std::io::Result<()> {
    let (jobs, work) = bounded::<Job>(threads * TICKETS);
    for _ in 0..threads {
        let (work, done) = (work.clone(), done.clone());
        Builder::new().name("text".to_owned()).stack_size(STACK_BYTES).spawn_scoped(scope, move || {
            let mut scratch = Scratch::default();
            for (number, lines) in work {
                let read = lines.map(|lines| lines.into_iter().map(|line| read(line, reader, &mut scratch)).collect());
                if done.send((number, read)).is_err() {
                    return;
                }
            }
        })?;
    }
    let free = free.clone();
    Builder::new().name("lines".to_owned()).spawn_scoped(scope, move || {
        let mut number = 0;
        for mut input in inputs {
            loop {
                let lines = match free.recv() {
                    Ok(()) => input.batch(),
                    Err(_) => return,
                };
                let is_last = lines.as_ref().map_or(true, Vec::is_empty);
                let failed = lines.is_err();
                if jobs.send((number, lines)).is_err() || failed {
                    return;
                }
                number += 1;
                if is_last {
                    break;
                }
            }
        }
    })?;
    Ok(())
}

/// Reads one line. A panic in the text work rejects only this line.
fn read(line: Line, reader: &Fingerprinter, scratch: &mut Scratch) -> Read {
    let reading = guarded(|| reader.read(&line.record()?, scratch));
    if reading.is_err() {
        // A panic may have left the buffers in any state.
        *scratch = Scratch::default();
    }
    (line, reading)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::kafka::group_consumer::ConsumedRecord;
    use crate::processing::lines;
    use crate::processing::outcome_of_record;
    use crate::protocol::PageRequest;
    use crate::record::{EventTime, InputSettings};
    use crate::{fingerprint, text};

    /// Values that tools of crawlers have written, and bytes that no tool should write.
    fn hostile() -> Vec<Vec<u8>> {
        let words = "the council closed the old bridge across the river for six weeks and a day";
        let zstd = zstd::encode_all(format!(r#"{{"text":"{words}"}}"#).as_bytes(), 1).unwrap();
        // A line of a file ends at a line break.
        let zstd = if zstd.contains(&b'\n') { b"{}".to_vec() } else { zstd };
        let mut values: Vec<Vec<u8>> = [
            r#"{"url":"https://a.example/1","text":"WORDS"}"#,
            "\u{feff}{\"url\":\"https://a.example/1\",\"text\":\"WORDS\"}",
            "\u{feff}\u{feff}{\"text\":\"WORDS\"}",
            r#"{"url":"https://a.example/\ud83d","text":"WORDS \ud83d"}"#,
            r#"{"\udc00":"\udc00","text":"WORDS"}"#,
            r#"{"text":"WORDS","score":NaN,"a":[Infinity,-Infinity]}"#,
            r#"{"text":NaN}"#,
            r#"{"text":["WORDS","WORDS"],"url":["https://a.example/1"]}"#,
            r#"{"text":["WORDS",7]}"#,
            r#"{"text":"WORDS","time":1716286210}"#,
            r#"{"text":"WORDS","time":"2024-05-21 10:10:10"}"#,
            r#"{"text":"WORDS","time":20240521101010}"#,
            r#"{"text":"VGhlIGNpdHkgY291bmNpbCBhbm5vdW5jZWQgb24gTW9uZGF5IHRoYXQgdGhl"}"#,
            r#"{"text":""}"#,
            r#"{"text":"WORDS"} x"#,
            r#"{"text":"WOR"#,
            r#"{"text":"a\u0000b WORDS"}"#,
            "{\"text\":\"a\u{0}b\tWORDS\"}",
            "null",
            "7",
            "\u{feff}7",
            "{\"text\":\"WORDS\"}\r",
            " {\"text\":\"WORDS\"}\u{b}",
        ]
        .map(|value| value.replace("WORDS", words).into_bytes())
        .into();
        values.extend([zstd, b"{\"text\":\"\xff\"}".to_vec(), b"\xff\xfe{\0}\0".to_vec(), b"\0\0\0\0\x01{}".to_vec()]);
        values
    }

    /// There is one decoder. What is read around it, the lines of a file and the records of Kafka, must not differ.
    #[test]
    fn a_line_and_a_record_of_the_same_bytes_have_the_same_outcome() {
        let mut input = InputSettings { event_time: EventTime::Field, ..InputSettings::default() };
        input.fields.fetched_at = "/time".parse().ok();
        let fingerprint = fingerprint::Settings::default();
        let reader = Fingerprinter::new(&input, &text::Settings::default(), &fingerprint, NonZeroUsize::MIN).unwrap();
        let (mut asked, mut refused) = (0, 0);
        for value in hostile() {
            // A file that began with a compressed value would be taken for a compressed file.
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), [b"{}\n", &value[..], b"\n"].concat()).unwrap();
            let (mut inputs, _) = lines::open(&[file.path().to_owned()], input.max_document).unwrap();
            let line = inputs.pop().unwrap().batch().unwrap().pop().unwrap();
            let source = line.source.clone();
            let (_, reading) = read(line, &reader, &mut Scratch::default());
            let of_line = reading.map(|reading| {
                let time = reading.event_time.unwrap_or_default();
                PageRequest::of(reading, source.clone(), time)
            });
            let of_line = of_line.map_err(|rejection| (rejection.reason(), Some(rejection.message().to_owned())));
            // The line break of the file may have two characters.
            let value = value.strip_suffix(b"\r").unwrap_or(&value);
            let record = ConsumedRecord { value: Some(Box::from(value)), ..ConsumedRecord::default() };
            let of_record = outcome_of_record(reader.clone(), source, record);
            assert_eq!(of_line, of_record, "{}", String::from_utf8_lossy(value));
            *(if of_line.is_ok() { &mut asked } else { &mut refused }) += 1;
        }
        assert!(asked >= 9 && refused >= 9, "{asked} {refused}");
    }
}
