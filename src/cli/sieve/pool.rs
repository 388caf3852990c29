//! Does text work on all cores, and returns the results in the order of the input.
//!
//! One thread reads batches of lines, several threads work on them, and the thread of the caller takes them in order.
//! Each batch holds a ticket until it is taken, so the number of tickets bounds memory, however unequal the batches
//! are.

use std::collections::BTreeMap;
use std::thread::{Builder, Scope};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::cli::page::guarded;
use crate::error::{Fatal, Reason};
use crate::fingerprint::{FingerprintedPage, Fingerprinter, Scratch};
use crate::record::{RawRecord, Rejection};
use crate::runtime::lines::{Input, Line, Unreadable};

/// Stack size of a thread: parsers recurse deeply on deeply nested documents.
const STACK_BYTES: usize = 64 << 20;
/// Maximum number of batches in flight for each thread.
const TICKETS: usize = 4;

/// A line and what was read from it.
pub(super) type Read = (Line, Result<FingerprintedPage, Rejection>);

struct Job {
    number: u64,
    lines: Result<Vec<Line>, Unreadable>,
}

struct Done {
    number: u64,
    read: Result<Vec<Read>, Unreadable>,
}

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
        start(scope, inputs, reader, threads, &free, &done).map_err(|error| Reason::Bug.because(error))?;
        drop((free, done));
        // An early return drops tickets and results, which ends every thread at its next send.
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        for Done { number, read } in &results {
            waiting.insert(number, read);
            while let Some(read) = waiting.remove(&next) {
                next += 1;
                let read = read.map_err(|error| Reason::Input.because(error))?;
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
    let (jobs, work) = bounded(threads * TICKETS);
    for _ in 0..threads {
        let (work, done) = (work.clone(), done.clone());
        Builder::new().name("text".to_owned()).stack_size(STACK_BYTES).spawn_scoped(scope, move || {
            let mut scratch = Scratch::default();
            for Job { number, lines } in work {
                let read = lines.map(|lines| lines.into_iter().map(|line| read(line, reader, &mut scratch)).collect());
                if done.send(Done { number, read }).is_err() {
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
                if jobs.send(Job { number, lines }).is_err() || failed {
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
    let record = RawRecord { key: None, value: Some(line.content()), headers: &() };
    let reading = guarded(|| reader.read(&record, scratch));
    if reading.is_err() {
        // A panic may have left the buffers in any state.
        *scratch = Scratch::default();
    }
    (line, reading)
}
