//! Pages of the input by their positions, read by the new scheme: some thousands at a time, by all cores.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};

use super::super::clock::Clock;
use super::super::reading::Reading;
use super::super::text_pool::{Done, Job, TextPool};
use super::super::wiring::failure;
use crate::error::{Fatal, Reason};
use crate::kafka::client::ClientSettings;
use crate::kafka::gate::Gate;
use crate::kafka::offsets::Offsets;
use crate::kafka::picks::{Picked, Picker};
use crate::log::PageEntry;
use crate::record::{PartitionId, Source};
use crate::worker::{Errand, LogPartition};

/// How long one page's text may be worked on.
const TEXT_LIMIT: Duration = Duration::from_secs(20);

/// How long nothing may come while something is wanted.
const PATIENCE: Duration = Duration::from_mins(2);

/// What became of a position.
pub(super) enum Read {
    /// It is to be asked of the judge of this partition of the logs; the bytes of its record.
    Page(LogPartition, Box<PageEntry>, usize),
    /// The new scheme gives the page no entry: undecodable for it, too large, too slow.
    Refused,
    /// The input does not hold it any more.
    Gone,
}

/// Reads pages.
pub(super) struct Pages {
    picker: Picker,
    pool: TextPool,
    done: Receiver<Done>,
    gate: Arc<Gate>,
    clock: Clock,
}

impl Pages {
    /// Starts the threads. At most `memory` bytes of pages are in work.
    pub(super) fn start(
        config: &ClientSettings,
        offsets: Offsets,
        reading: Reading,
        threads: usize,
        memory: usize,
        clock: Clock,
    ) -> Result<Self, Fatal> {
        let (sender, done) = unbounded();
        let pool = TextPool::start(threads, reading, clock, move |one| drop(sender.send(one))).map_err(failure)?;
        let picker = Picker::open(config, offsets).map_err(failure)?;
        Ok(Self { picker, pool, done, gate: Gate::new(memory), clock })
    }

    /// Reads these pages. `meanwhile` is called again and again, and may end it: then what was read so far is returned.
    pub(super) fn read(
        &mut self,
        wanted: BTreeMap<PartitionId, BTreeSet<i64>>,
        mut meanwhile: impl FnMut() -> Result<ControlFlow<()>, Fatal>,
    ) -> Result<BTreeMap<Source, Read>, Fatal> {
        let total: usize = wanted.values().map(BTreeSet::len).sum();
        let mut read = BTreeMap::new();
        self.picker.begin(wanted).map_err(unreadable)?;
        let mut last = self.clock.now();
        while read.len() < total {
            let before = read.len();
            if !self.picker.is_done() && self.gate.wait_open(Duration::from_millis(20)) {
                self.pick(&mut read)?;
            }
            let wait = if self.picker.is_done() { Duration::from_millis(20) } else { Duration::ZERO };
            let mut next = self.done.recv_timeout(wait).ok();
            while let Some(done) = next.take().or_else(|| self.done.try_recv().ok()) {
                let (source, found) = found(done);
                read.insert(source, found);
            }
            let now = self.clock.now();
            if self.pool.give_up_overdue(now, TEXT_LIMIT).map_err(failure)? {
                let why =
                    anyhow::anyhow!("too many pages took longer than {TEXT_LIMIT:?} of text work: start it again");
                return Err(Reason::Failure.because(why));
            }
            if read.len() > before {
                last = now;
            } else if now.saturating_sub(last) > PATIENCE {
                let why = anyhow::anyhow!("no page of the input came for {PATIENCE:?}");
                return Err(Reason::Unavailable.because(why));
            }
            if meanwhile()?.is_break() {
                break;
            }
        }
        Ok(read)
    }

    fn pick(&mut self, read: &mut BTreeMap<Source, Read>) -> Result<(), Fatal> {
        match self.picker.answer().map_err(unreadable)? {
            Picked::Record(source, record) => {
                let held = self.gate.hold(record.bytes());
                self.pool.read(Job { source, serial: 0, place: 0, record: Arc::new(record), held });
            }
            Picked::Gone(source) => drop(read.insert(source, Read::Gone)),
            Picked::Beyond(source) => {
                let why =
                    anyhow::anyhow!("{source} was judged, and its partition ends before it: the topic was made anew");
                return Err(Reason::State.because(why));
            }
            Picked::Nothing => {}
        }
        Ok(())
    }
}

fn found(done: Done) -> (Source, Read) {
    let page = done.page;
    let bytes = page.payload.record.bytes();
    let read = match page.errand {
        Errand::Ask(log, entry) => Read::Page(log, Box::new(entry), bytes),
        Errand::Settled(_) | Errand::Withdraw(..) => Read::Refused,
    };
    (page.source, read)
}

fn unreadable(error: impl Into<anyhow::Error>) -> Fatal {
    Reason::Unavailable.because(error.into().context("the input cannot be read"))
}
