//! Reads pages of the input by their positions and fingerprints them by the new scheme: some thousands at a time, on
//! all cores.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use dupgate_core::worker::PageAction;

use crate::clock::Clock;
use crate::error::{Fatal, Reason};
use crate::fatal::failure;
use crate::kafka::budget::ByteBudget;
use crate::kafka::client::ClientSettings;
use crate::kafka::offsets::Offsets;
use crate::kafka::pages::{PositionReader, PositionResult};
use crate::processing::text_pool::RecordProcessor;
use crate::processing::text_pool::{Done, Job, TextPool};
use crate::protocol::{LogPartition, PageRequest};
use crate::record::{PartitionId, Source};

/// Time limit of the text work on one page.
const TEXT_LIMIT: Duration = Duration::from_secs(20);

/// How long the cluster may be silent while pages are wanted.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);

/// What was found at a wanted position.
pub(super) enum Read {
    /// The request for the judge of this log partition, and the size of the page's record in bytes.
    Page(LogPartition, Box<PageRequest>, usize),
    /// The new scheme has no request for the page, because it is undecodable, too large or too slow.
    Refused,
    /// The input no longer holds it.
    Gone,
}

/// Reads pages.
pub(super) struct Pages {
    picker: PositionReader,
    pool: TextPool,
    done: Receiver<Done>,
    budget: Arc<ByteBudget>,
    clock: Clock,
}

impl Pages {
    /// Starts the threads. At most `memory` bytes of pages are in flight.
    pub(super) fn start(
        config: &ClientSettings,
        offsets: Offsets,
        processor: RecordProcessor,
        threads: usize,
        memory: usize,
        clock: Clock,
    ) -> Result<Self, Fatal> {
        let (sender, done) = unbounded();
        let pool = TextPool::start(threads, processor, clock, move |one| drop(sender.send(one))).map_err(failure)?;
        let picker = PositionReader::open(config, offsets).map_err(failure)?;
        Ok(Self { picker, pool, done, budget: ByteBudget::new(memory), clock })
    }

    /// Reads these pages. Calls `meanwhile` repeatedly; if it breaks, the pages read so far are returned.
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
            if !self.picker.is_done() && self.budget.wait_for_room(Duration::from_millis(20)) {
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
            // Pages that were read may wait for their schema.
            if read.len() > before || self.budget.held() > 0 {
                last = now;
            } else if now.saturating_sub(last) > IDLE_TIMEOUT {
                let why = anyhow::anyhow!("no page of the input came for {IDLE_TIMEOUT:?}");
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
            PositionResult::Record(source, record) => {
                let permit = self.budget.hold(record.bytes());
                self.pool.read(Job { source, serial: 0, place: 0, record: Arc::new(record), permit });
            }
            PositionResult::Gone(source) => drop(read.insert(source, Read::Gone)),
            PositionResult::Beyond(source) => {
                let why =
                    anyhow::anyhow!("{source} was judged, but its partition ends before it: the topic was recreated");
                return Err(Reason::State.because(why));
            }
            PositionResult::Nothing => {}
        }
        Ok(())
    }
}

fn found(done: Done) -> (Source, Read) {
    let page = done.page;
    let bytes = page.payload.record.bytes();
    let read = match page.action {
        PageAction::Ask(log, request) => Read::Page(log, Box::new(request), bytes),
        PageAction::Settled(_) | PageAction::Withdraw(..) => Read::Refused,
    };
    (page.source, read)
}

fn unreadable(error: impl Into<anyhow::Error>) -> Fatal {
    Reason::Unavailable.because(error.into().context("the input cannot be read"))
}
