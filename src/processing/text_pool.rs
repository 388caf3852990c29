//! The text work of records: how one is read and what to do with it, and the pool of threads that does it.
//!
//! The threads have large stacks, panics are caught, and each page has a time limit. A thread cannot be stopped from
//! outside. If a page takes too long, the pool abandons the thread: it withdraws the page, starts a new thread, and
//! discards the late result of the old one. Only time observed by regular checks counts, because suspending the machine
//! suspends the threads, too. The memory of HTML trees is bounded for all threads together.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use dupgate_core::worker::{Earlier, Header, Page, PageAction, PageOutcome};

use crate::clock::{Clock, wall_time};
use crate::fingerprint::{Fingerprinter, Scratch, Step};
use crate::kafka::budget::Permit;
use crate::kafka::group_consumer::ConsumedRecord;
use crate::kafka::output::{Outputs, PagePayload};
use crate::process::shielded;
use crate::protocol::{LogPartition, PageRequest};
use crate::record::{Encoding, EventTime, Format, Headers, RawRecord, Reject, Source, Timestamp};
use crate::telemetry::{Metrics, labels};
use crate::text::{self, CutBy, Extraction};

/// Bytes of trees for each byte of `processing.max_in_flight_bytes`. Together with the pages and their copies, a worker
/// stays below six bytes for each of these.
const TREE_BYTES_PER_PAGE_BYTE: usize = 3;

/// Stack size of a thread: parsers recurse deeply on deeply nested documents.
const STACK_BYTES: usize = 64 << 20;

/// Interval of checks for overdue pages.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of abandoned threads that are still running. A large pool may have twice its number of threads.
const MAX_ABANDONED: usize = 32;

/// Memory budget for HTML trees. Before a thread reads a page, it reserves the bytes of the page's tree, and waits
/// while the budget is exhausted.
#[derive(Debug)]
pub(crate) struct TreeBudget {
    limit: usize,
    format: Format,
    taken: Mutex<usize>,
    given_back: Condvar,
}

/// Memory that is reserved until this value is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Taken {
    budget: Arc<TreeBudget>,
    bytes: usize,
}

impl TreeBudget {
    /// Creates the budget of a process that holds `max_in_flight_bytes` of pages of this format.
    pub(crate) fn new(max_in_flight_bytes: usize, format: Format) -> Arc<Self> {
        let limit = max_in_flight_bytes.saturating_mul(TREE_BYTES_PER_PAGE_BYTE);
        Arc::new(Self { limit, format, taken: Mutex::new(0), given_back: Condvar::new() })
    }

    /// Reserves the memory for reading this page. A page that weighs more than the whole budget waits until it is
    /// alone.
    pub(crate) fn take(self: &Arc<Self>, value: &[u8]) -> Taken {
        let bytes = if self.format == Format::Text { 0 } else { text::max_tree_bytes(value) };
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |taken: &mut usize| *taken > 0 && taken.saturating_add(bytes) > self.limit;
        let mut taken = self.given_back.wait_while(taken, full).unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_add(bytes);
        Taken { budget: Arc::clone(self), bytes }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_sub(self.bytes);
        drop(taken);
        self.budget.given_back.notify_all();
    }
}

/// How pages are read by the earlier scheme.
pub(crate) struct EarlierScheme {
    pub(crate) fingerprinter: Fingerprinter,
    /// Where it takes the event time from.
    pub(crate) event_time: EventTime,
    /// The first of its log partitions, which come after ours.
    pub(crate) first_log: usize,
}

impl EarlierScheme {
    /// Returns the question to withdraw a page.
    fn withdrawn(&self, record: &ConsumedRecord) -> Box<Earlier> {
        Box::new(Earlier::new(LogPartition::at(self.first_log + place(&self.fingerprinter, record)), None))
    }
}

/// Does the text work of one worker.
pub(crate) struct RecordProcessor {
    /// Bytes to fingerprints.
    pub(crate) fingerprinter: Fingerprinter,
    /// Reads pages by the earlier scheme, too, in the dual period.
    pub(crate) earlier: Option<EarlierScheme>,
    /// Knows which records the outputs accept.
    pub(crate) outputs: Arc<Outputs>,
    /// Gives the time at which a page is read.
    pub(crate) clock: Clock,
    /// Receives the duration of each step.
    pub(crate) metrics: Metrics,
    /// Bounds the memory of all threads.
    pub(crate) trees: Arc<TreeBudget>,
    /// Event time of a page without any timestamp.
    pub(crate) untimed: Timestamp,
    /// How far the time that a page gives may be ahead of the record's.
    pub(crate) max_future_skew: Duration,
}

pub(crate) struct Named<'r>(pub(crate) &'r [Header]);

impl Headers for Named<'_> {
    fn last_where(&self, is_meant: &dyn Fn(&str) -> bool) -> Option<&[u8]> {
        self.0.iter().rev().find(|header| is_meant(&header.name))?.value.as_deref()
    }
}

impl RecordProcessor {
    /// Reads a record. A panic in the text work withdraws the page and does not end the process.
    pub(crate) fn page(
        &self,
        source: Source,
        record: &Arc<ConsumedRecord>,
        scratch: &mut Scratch,
    ) -> Page<PagePayload> {
        let read = shielded(|| {
            let (action, event_time, payload) = self.action(&source, record, scratch);
            let earlier = self.earlier(&source, record, scratch, &action);
            (action, event_time, payload, earlier)
        });
        if let Some((action, event_time, payload, earlier)) = read {
            Page { earlier, ..page(source, record, action, event_time, payload) }
        } else {
            *scratch = Scratch::default();
            self.withdrawn(source, record, Reject::TextPanic)
        }
    }

    /// Creates the page of a record whose text work failed. The page is withdrawn, because its verdict may have been
    /// requested before.
    pub(crate) fn withdrawn(&self, source: Source, record: &Arc<ConsumedRecord>, reason: Reject) -> Page<PagePayload> {
        let action = PageAction::Withdraw(self.log_of(record), reason);
        let event_time = stamp(record).unwrap_or(self.untimed);
        let payload = self.carried(record);
        let earlier = self.earlier.as_ref().map(|earlier| earlier.withdrawn(record));
        Page { earlier, ..page(source, record, action, event_time, payload) }
    }

    /// Returns the log partition of a page, as far as its scope can be read.
    fn log_of(&self, record: &ConsumedRecord) -> LogPartition {
        LogPartition::at(place(&self.fingerprinter, record))
    }

    /// Returns what the earlier scheme is asked about a page, if it can read the page.
    fn earlier(
        &self,
        source: &Source,
        record: &ConsumedRecord,
        scratch: &mut Scratch,
        action: &PageAction,
    ) -> Option<Box<Earlier>> {
        let earlier = self.earlier.as_ref()?;
        match action {
            PageAction::Settled(_) => None,
            PageAction::Withdraw(..) => Some(earlier.withdrawn(record)),
            PageAction::Ask(..) => {
                let reading = earlier.fingerprinter.read(&raw(record, &Named(&record.headers)), scratch).ok()?;
                let time = (earlier.event_time, self.max_future_skew);
                let event_time = event_time(&earlier.fingerprinter, time, record);
                let log = LogPartition::at(earlier.first_log + reading.partition);
                Some(Box::new(Earlier::new(log, Some(PageRequest::of(reading, source.clone(), event_time)))))
            }
        }
    }

    fn carried(&self, record: &Arc<ConsumedRecord>) -> PagePayload {
        PagePayload { record: Arc::clone(record), read_at: self.clock.now(), ..PagePayload::default() }
    }

    fn action(
        &self,
        source: &Source,
        record: &Arc<ConsumedRecord>,
        scratch: &mut Scratch,
    ) -> (PageAction, Timestamp, PagePayload) {
        let stamped = stamp(record).unwrap_or(self.untimed);
        let mut payload = self.carried(record);
        if record.headers_unreadable {
            payload.message = Some("the name of a header is not UTF-8".to_owned());
            return (PageAction::Settled(PageOutcome::DeadLetter(Reject::Undecodable)), stamped, payload);
        }
        if let Some(cut) = &record.cut {
            payload.message = Some(cut.rejection.message().to_owned());
            return (PageAction::Settled(PageOutcome::DeadLetter(cut.rejection.reason())), stamped, payload);
        }
        if record.value.is_none() {
            return (PageAction::Settled(PageOutcome::Tombstone), stamped, payload);
        }
        let headers = Named(&record.headers);
        let mut since = self.clock.now();
        let reading = self.fingerprinter.read_watched(&raw(record, &headers), scratch, |step| {
            let now = self.clock.now();
            self.metrics.series().stage_duration.of(label_of(step)).record(now.saturating_sub(since));
            since = now;
        });
        match reading {
            Ok(mut reading) => {
                self.metrics.document_tokens(segmenter(reading.cut_by), reading.tokens as u64);
                self.metrics.series().extracted.of(extraction(reading.extraction)).increment(1);
                self.metrics.series().decoded.of(encoding(reading.encoding)).increment(1);
                let event_time = reading.event_time.map_or(stamped, |given| {
                    let bounded = bounded(given, record, self.max_future_skew);
                    self.metrics.series().clamped_timestamps.increment(u64::from(bounded < given));
                    bounded
                });
                payload.extraction =
                    Some(reading.extraction).filter(|how| *how != Extraction::Text).map(Extraction::name);
                payload.id = reading.id_text.take();
                self.note_id(source, payload.id.is_some());
                let action = match self.outputs.refuse(record) {
                    None => {
                        let log = LogPartition::at(reading.partition);
                        PageAction::Ask(log, PageRequest::of(reading, source.clone(), event_time))
                    }
                    Some(reason) => PageAction::Withdraw(LogPartition::at(reading.partition), reason),
                };
                (action, event_time, payload)
            }
            Err(rejection) => {
                payload.message = Some(rejection.message().to_owned());
                // The earlier scheme may have read the page, and judged it to be an original.
                let action = if rejection.is_for_now() || self.earlier.is_some() {
                    PageAction::Withdraw(self.log_of(record), rejection.reason())
                } else {
                    PageAction::Settled(PageOutcome::DeadLetter(rejection.reason()))
                };
                (action, stamped, payload)
            }
        }
    }
}

/// Returns the number of a page's log partition, as far as its scope can be read.
fn place(fingerprinter: &Fingerprinter, record: &ConsumedRecord) -> usize {
    let place = shielded(|| fingerprinter.place(&raw(record, &Named(&record.headers)))).and_then(Result::ok);
    place.map_or(0, |(_, log)| log)
}

/// Logs the first page without an id: more of them would only repeat it.
static NO_ID: Once = Once::new();

impl RecordProcessor {
    /// Counts a page without an id, if ids are read. Its copies are found, but not that it is crawled again.
    fn note_id(&self, source: &Source, has_id: bool) {
        let Some(path) = self.fingerprinter.id_path().filter(|_| !has_id) else { return };
        self.metrics.series().without_id.increment(1);
        NO_ID.call_once(|| {
            tracing::warn!(
                target: "dupgate::worker",
                %source,
                "found no id at `{path}` (input.fields.id): the page cannot be recognised when it is crawled again; further \
                 ones are only counted (dupgate_documents_without_id_total)"
            );
        });
    }
}

/// Returns a record's event time without reading its text.
pub(crate) fn event_time(
    fingerprinter: &Fingerprinter,
    (source, max_future_skew): (EventTime, Duration),
    record: &ConsumedRecord,
) -> Timestamp {
    let of_field = || shielded(|| fingerprinter.event_time(&raw(record, &Named(&record.headers)))).flatten();
    let field = if source == EventTime::Field { of_field() } else { None };
    field.map(|given| bounded(given, record, max_future_skew)).or_else(|| stamp(record)).unwrap_or_default()
}

/// Returns the time that a page gives, as far as its record permits. A page is fetched before it is written, so a time
/// after that comes from a wrong clock. The brokers' clock alone is no bound for old pages: a single one from the future
/// would move the window past all pages that are still to be read.
fn bounded(given: Timestamp, record: &ConsumedRecord, max_future_skew: Duration) -> Timestamp {
    stamp(record).map_or(given, |written| given.min(written.plus(max_future_skew)))
}

/// Returns the timestamp of a record. Kafka counts milliseconds, but producers also write seconds and finer units, which
/// their size shows: as milliseconds, they would be times long before Kafka, or of another age.
fn stamp(record: &ConsumedRecord) -> Option<Timestamp> {
    record.timestamp.map(|timestamp| Timestamp::by_size(timestamp.millis()))
}

const fn label_of(step: Step) -> labels::Step {
    match step {
        Step::Decode => labels::Step::Decode,
        Step::Extract => labels::Step::Extract,
        Step::Tokenize => labels::Step::Tokenize,
        Step::Fingerprint => labels::Step::Fingerprint,
    }
}

const fn segmenter(cut_by: CutBy) -> labels::Segmenter {
    match cut_by {
        CutBy::Jieba => labels::Segmenter::Jieba,
        CutBy::Unicode => labels::Segmenter::Unicode,
    }
}

const fn extraction(extraction: Extraction) -> labels::Extraction {
    match extraction {
        Extraction::Text => labels::Extraction::Text,
        Extraction::Main => labels::Extraction::Main,
        Extraction::All => labels::Extraction::All,
        Extraction::AllFallback => labels::Extraction::AllFallback,
        Extraction::Stripped => labels::Extraction::Stripped,
    }
}

const fn encoding(encoding: Encoding) -> labels::Encoding {
    match encoding {
        Encoding::Utf8 => labels::Encoding::Utf8,
        Encoding::Utf16 => labels::Encoding::Utf16,
        Encoding::Gb18030 => labels::Encoding::Gb18030,
        Encoding::Big5 => labels::Encoding::Big5,
        Encoding::ShiftJis => labels::Encoding::ShiftJis,
        Encoding::OtherJapanese => labels::Encoding::OtherJapanese,
        Encoding::EucKr => labels::Encoding::EucKr,
        Encoding::Windows => labels::Encoding::Windows,
        Encoding::Other => labels::Encoding::Other,
    }
}

pub(crate) fn raw<'r>(record: &'r ConsumedRecord, headers: &'r Named<'r>) -> RawRecord<'r> {
    RawRecord { key: record.key.as_deref(), value: record.value.as_deref(), headers }
}

fn page(
    source: Source,
    record: &ConsumedRecord,
    action: PageAction,
    event_time: Timestamp,
    payload: PagePayload,
) -> Page<PagePayload> {
    let bytes = record.bytes() + size_of::<Page<PagePayload>>() + size_of::<ConsumedRecord>();
    Page { source, bytes, event_time, paced_by: event_time.min(wall_time()), action, earlier: None, payload }
}

/// Reads a record as the service does, and returns its request or why it is a dead letter.
#[cfg(test)]
pub(crate) fn outcome(
    fingerprinter: Fingerprinter,
    source: Source,
    record: ConsumedRecord,
) -> Result<PageRequest, (Reject, Option<String>)> {
    use crate::kafka::output::{DuplicateValue, OutputTime, PartitionCounts};
    use dupgate_core::worker::{HeaderSettings, PageAction, PageOutcome};

    let outputs = Outputs {
        routing: dupgate_core::worker::Routing::default(),
        headers: HeaderSettings::default(),
        topics: std::collections::BTreeMap::new(),
        partition_counts: PartitionCounts::default(),
        duplicate_value: DuplicateValue::Original,
        time: OutputTime::Source,
        now: Timestamp::default,
    };
    let processor = RecordProcessor {
        fingerprinter,
        earlier: None,
        outputs: Arc::new(outputs),
        clock: Clock::start(),
        metrics: Metrics::new(&crate::config::settings::Metrics {
            partition_labels: false,
            ..crate::config::settings::Metrics::default()
        })
        .unwrap(),
        trees: TreeBudget::new(1 << 20, crate::record::Format::Json),
        untimed: Timestamp::default(),
        max_future_skew: Duration::ZERO,
    };
    let page = processor.page(source, &Arc::new(record), &mut Scratch::default());
    match page.action {
        PageAction::Ask(_, request) => Ok(request),
        PageAction::Settled(PageOutcome::DeadLetter(reason)) => Err((reason, page.payload.message)),
        other @ (PageAction::Settled(_) | PageAction::Withdraw(..)) => panic!("{other:?}"),
    }
}

/// The work that the threads do, as a trait so that tests can block it.
pub(crate) trait TextWork: Send + Sync {
    /// Returns whether a record can be read now. Others are made ready first.
    fn is_ready(&self, _: &ConsumedRecord) -> bool {
        true
    }

    /// Waits until a record can be read. This wait does not count towards the page's time limit either, and holds up only
    /// other records that are not ready.
    fn make_ready(&self, _: &ConsumedRecord) {}

    /// Waits until there is memory to read a record. This wait does not count towards the page's time limit.
    fn wait_for_memory(&self, record: &ConsumedRecord) -> Option<Taken>;

    fn read(&self, source: Source, record: &Arc<ConsumedRecord>, scratch: &mut Scratch) -> Page<PagePayload>;

    /// Creates the page of a record that could not be read.
    fn withdraw(&self, source: Source, record: &Arc<ConsumedRecord>, reason: Reject) -> Page<PagePayload>;

    /// Observes the busy time of a thread.
    fn was_busy(&self, elapsed: Duration);
}

impl TextWork for RecordProcessor {
    fn is_ready(&self, record: &ConsumedRecord) -> bool {
        self.fingerprinter.is_ready(&raw(record, &Named(&record.headers)))
    }

    fn make_ready(&self, record: &ConsumedRecord) {
        self.fingerprinter.wait_for_schema(&raw(record, &Named(&record.headers)));
    }

    fn wait_for_memory(&self, record: &ConsumedRecord) -> Option<Taken> {
        let headers = Named(&record.headers);
        // The copy of a packed page is dropped before its tree is built.
        let page = shielded(|| self.fingerprinter.page(&raw(record, &headers))).flatten()?;
        Some(self.trees.take(&page))
    }

    fn read(&self, source: Source, record: &Arc<ConsumedRecord>, scratch: &mut Scratch) -> Page<PagePayload> {
        self.page(source, record, scratch)
    }

    fn withdraw(&self, source: Source, record: &Arc<ConsumedRecord>, reason: Reject) -> Page<PagePayload> {
        self.withdrawn(source, record, reason)
    }

    fn was_busy(&self, elapsed: Duration) {
        self.metrics.worker_busy(elapsed);
    }
}

/// A record to read, and its place in the order of the results.
pub(crate) struct Job {
    pub(crate) source: Source,
    /// The serial number of its seek.
    pub(crate) serial: u64,
    /// Its place in the order of its partition.
    pub(crate) place: u64,
    pub(crate) record: Arc<ConsumedRecord>,
    /// Reserves its bytes in the input's budget.
    pub(crate) permit: Permit,
}

/// A processed record.
pub(crate) struct Done {
    /// The serial number of its seek.
    pub(crate) serial: u64,
    /// Its place in the order of its partition.
    pub(crate) place: u64,
    pub(crate) page: Page<PagePayload>,
    /// Reserves its bytes in the input's budget, until the machine has the page.
    pub(crate) permit: Permit,
}

pub(crate) struct TextPool {
    jobs: Sender<Job>,
    unready: Sender<Job>,
    shared: Arc<Shared>,
    threads: Vec<Thread>,
    /// Abandoned threads that may still run.
    abandoned: Vec<JoinHandle<()>>,
    last_check: Duration,
}

struct Thread {
    slot: Arc<JobSlot>,
    handle: JoinHandle<()>,
}

struct Shared {
    jobs: Receiver<Job>,
    work: Box<dyn TextWork>,
    sink: Box<dyn Fn(Done) + Send + Sync>,
    clock: Clock,
    /// Threads started so far: they are numbered.
    started: AtomicUsize,
}

/// The current task of one thread. The thread and the check for overdue pages compete for it; whichever takes the task
/// out delivers its result.
#[derive(Default)]
struct JobSlot(Mutex<Option<Task>>);

struct Task {
    since: Duration,
    /// The duration that checks have observed so far.
    seen: Duration,
    job: Job,
    /// Released when the page is read or given up, so that an abandoned thread does not block all others.
    _memory: Option<Taken>,
}

impl JobSlot {
    fn lock(&self) -> MutexGuard<'_, Option<Task>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TextPool {
    /// Starts the threads. They hand results to `sink`, in any order.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub(crate) fn start(
        threads: usize,
        work: impl TextWork + 'static,
        clock: Clock,
        sink: impl Fn(Done) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (sender, jobs) = unbounded();
        let shared =
            Arc::new(Shared { jobs, work: Box::new(work), sink: Box::new(sink), clock, started: AtomicUsize::new(0) });
        let threads = (0..threads.max(1)).map(|_| start_thread(&shared)).collect::<io::Result<Vec<_>>>()?;
        let unready = start_preparing(&shared, sender.clone())?;
        Ok(Self { jobs: sender, unready, shared, threads, abandoned: Vec::new(), last_check: clock.now() })
    }

    /// Submits a record.
    pub(crate) fn read(&self, job: Job) {
        let jobs = if self.shared.work.is_ready(&job.record) { &self.jobs } else { &self.unready };
        // The threads live as long as this sender.
        let _ = jobs.send(job);
    }

    /// Returns the number of records that wait for a thread, or are not ready.
    pub(crate) fn waiting(&self) -> usize {
        self.jobs.len() + self.unready.len()
    }

    /// Withdraws pages whose observed duration exceeds `limit`; one call abandons at most a minority of the threads,
    /// but at least one. Call it every [`CHECK_INTERVAL`]. Returns whether too many abandoned threads are still
    /// running, so that the process should restart.
    ///
    /// # Errors
    ///
    /// A replacement thread cannot be started.
    pub(crate) fn give_up_overdue(&mut self, now: Duration, limit: Duration) -> io::Result<bool> {
        // A jump of the clock means that the machine or this thread was suspended: it does not count as work.
        let passed = now.saturating_sub(self.last_check).min(2 * CHECK_INTERVAL);
        self.last_check = now;
        let max = (self.threads.len().saturating_sub(1) / 2).max(1);
        let mut given_up = 0;
        for thread in &mut self.threads {
            let overdue = {
                let mut slot = thread.slot.lock();
                if let Some(task) = slot.as_mut() {
                    task.seen += passed;
                }
                if given_up < max { slot.take_if(|task| task.seen > limit) } else { None }
            };
            let Some(Task { since, job, .. }) = overdue else { continue };
            given_up += 1;
            self.shared.work.was_busy(self.shared.clock.now().saturating_sub(since));
            tracing::warn!(
                target: "dupgate::worker",
                source = %job.source, ?limit, "text work took too long: the page is withdrawn"
            );
            let old = std::mem::replace(thread, start_thread(&self.shared)?);
            self.abandoned.push(old.handle);
            let Job { source, serial, place, record, permit } = job;
            let page = self.shared.work.withdraw(source, &record, Reject::TextTimeout);
            (self.shared.sink)(Done { serial, place, page, permit });
        }
        self.abandoned.retain(|thread| !thread.is_finished());
        Ok(self.abandoned.len() > MAX_ABANDONED.max(2 * self.threads.len()))
    }
}

/// Starts the thread that makes records ready, one at a time, and hands them to the others.
fn start_preparing(shared: &Arc<Shared>, jobs: Sender<Job>) -> io::Result<Sender<Job>> {
    let (sender, unready) = unbounded::<Job>();
    let shared = Arc::clone(shared);
    let prepare = move || {
        for job in &unready {
            shared.work.make_ready(&job.record);
            // They live as long as this sender.
            let _ = jobs.send(job);
        }
    };
    std::thread::Builder::new().name("schemas".to_owned()).spawn(prepare)?;
    Ok(sender)
}

fn start_thread(shared: &Arc<Shared>) -> io::Result<Thread> {
    let slot = Arc::new(JobSlot::default());
    let (shared, mine) = (Arc::clone(shared), Arc::clone(&slot));
    let handle = std::thread::Builder::new()
        .name(format!("text-{}", shared.started.fetch_add(1, Ordering::Relaxed)))
        .stack_size(STACK_BYTES)
        .spawn(move || work(&shared, &mine))?;
    Ok(Thread { slot, handle })
}

fn work(shared: &Shared, slot: &JobSlot) {
    let mut scratch = Scratch::default();
    for job in &shared.jobs {
        let (source, record) = (job.source.clone(), Arc::clone(&job.record));
        let memory = shared.work.wait_for_memory(&record);
        *slot.lock() = Some(Task { since: shared.clock.now(), seen: Duration::ZERO, job, _memory: memory });
        let page = shared.work.read(source, &record, &mut scratch);
        // The check for overdue pages has taken the task, and has replaced this thread.
        let Some(Task { since, job, .. }) = slot.lock().take() else { return };
        shared.work.was_busy(shared.clock.now().saturating_sub(since));
        (shared.sink)(Done { serial: job.serial, place: job.place, page, permit: job.permit });
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::fingerprint::{Fingerprinter, Scratch};
    use crate::kafka::budget::ByteBudget;
    use crate::kafka::group_consumer::CutValue;
    use crate::protocol::LogPartition;
    use crate::record::{Format, InputSettings, PartitionId, RawRecord, Rejection, Timestamp};
    use crate::{fingerprint, text};

    const IN_FLIGHT: usize = 64 << 20;
    const PAGES: usize = 32;
    const THREADS: usize = 8;

    /// A page of two megabytes whose tree would be large: of nodes, of attributes, and of repeated elements.
    fn hostile_page(number: usize) -> String {
        let attributes = |of: usize| (0..1000).map(|n| format!(" a{of}x{n}")).collect::<Vec<_>>().concat();
        let tags = |name: &str, count: usize| {
            (0..count).map(|of| format!("<{name}{}>", attributes(of))).collect::<Vec<_>>().concat()
        };
        let start = match number % 5 {
            0 => "<br>a".repeat(20_000),
            1 => tags("body", 100),
            2 => format!("{}{}", tags("font", 80), "<p>a".repeat(1_000)),
            3 => format!("{}{}", tags("div", 90), "<".repeat(12_000)),
            _ => {
                (0..300).map(|size| format!("<font size={size}>")).collect::<Vec<_>>().concat() + &"<p>a".repeat(5_000)
            }
        };
        let rest = " ".repeat((IN_FLIGHT / PAGES).saturating_sub(start.len()));
        format!("<p>{start}<p>harbour dredging<!--{rest}-->")
    }

    /// A line of `/proc/self/status`, in bytes.
    fn status(name: &str) -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
    }

    fn read_hostile_pages() {
        let input = InputSettings { format: Format::Html, ..InputSettings::default() };
        let reader = Fingerprinter::new(
            &input,
            &text::Settings::default(),
            &fingerprint::Settings::default(),
            NonZeroUsize::MIN,
        );
        let (reader, budget, next) = (reader.unwrap(), TreeBudget::new(IN_FLIGHT, Format::Html), AtomicUsize::new(0));
        let pages: Vec<String> = (0..PAGES).map(hostile_page).collect();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                let work = || {
                    let mut scratch = Scratch::default();
                    while let Some(page) = pages.get(next.fetch_add(1, Ordering::SeqCst)) {
                        let _taken = budget.take(page.as_bytes());
                        let record = RawRecord { key: None, value: Some(page.as_bytes()), headers: &() };
                        assert!(reader.read(&record, &mut scratch).is_ok(), "{}", &page[..60]);
                    }
                };
                std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, work).unwrap();
            }
        });
        let (peak, max) = (status("VmHWM:"), 6 * IN_FLIGHT + (512 << 20));
        println!("{peak} bytes at most for {} of pages", pages.iter().map(String::len).sum::<usize>());
        assert!(peak <= max, "{peak} bytes, not {max}");
    }

    /// Measured in a separate process, without memory of other tests.
    #[test]
    fn hostile_pages_on_all_threads_stay_within_memory() {
        const ALONE: &str = "DUPGATE_HOSTILE_PAGES_ALONE";
        if std::env::var_os(ALONE).is_some() {
            return read_hostile_pages();
        }
        let test = "processing::text_pool::tests::hostile_pages_on_all_threads_stay_within_memory";
        let program = std::env::current_exe().unwrap();
        let status = Command::new(program).args(["--exact", test, "--nocapture"]).env(ALONE, "1").status().unwrap();
        assert!(status.success(), "see above");
    }

    #[test]
    fn trees_in_flight_stay_within_the_budget() {
        let page = "<br>a".repeat(1000);
        let bytes = text::max_tree_bytes(page.as_bytes());
        let budget = TreeBudget::new(bytes, Format::Html);
        let (now, max) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| {
                    let _taken = budget.take(page.as_bytes());
                    max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert!((1..=TREE_BYTES_PER_PAGE_BYTE).contains(&max.load(Ordering::SeqCst)), "{max:?}");
        assert_eq!(*budget.taken.lock().unwrap(), 0);
    }

    #[test]
    fn a_page_larger_than_the_budget_goes_alone() {
        let budget = TreeBudget::new(1, Format::Json);
        drop(budget.take(b"<p>"));
        let _first = budget.take(b"<p>");
        assert!(text::max_tree_bytes(b"<p>") > budget.limit);
    }

    #[test]
    fn the_beginning_of_a_value_is_never_taken_for_a_page() {
        let (input, text) = (InputSettings::default(), text::Settings::default());
        let fingerprinter =
            Fingerprinter::new(&input, &text, &fingerprint::Settings::default(), NonZeroUsize::MIN).unwrap();
        let value = br#"{"url":"https://a.example/1","text":"the council closed the old bridge"}"#;
        let whole = ConsumedRecord { value: Some(Box::from(&value[..])), ..ConsumedRecord::default() };
        let source = PartitionId::new("pages.jsonl", 0).at(3);
        assert!(outcome(fingerprinter.clone(), source.clone(), whole.clone()).is_ok());
        let rejection = Rejection::too_large("the line", 5000, 1000);
        let message = Some(rejection.message().to_owned());
        let cut = ConsumedRecord { cut: Some(CutValue { bytes: 5000, rejection }), ..whole };
        assert_eq!(outcome(fingerprinter, source, cut), Err((Reject::TooLarge, message)));
    }

    const LIMIT: Duration = Duration::from_secs(20);

    /// Far longer than any step of these tests.
    const TIMEOUT: Duration = Duration::from_mins(1);

    /// Blocks on the first pages of the partition until it is released.
    struct Stuck {
        pages: i64,
        budget: Receiver<()>,
        begun: Sender<()>,
    }

    impl TextWork for Stuck {
        fn wait_for_memory(&self, _: &ConsumedRecord) -> Option<Taken> {
            None
        }

        fn read(&self, source: Source, record: &Arc<ConsumedRecord>, _: &mut Scratch) -> Page<PagePayload> {
            let _ = self.begun.send(());
            if source.offset < self.pages {
                // Ends when the other side is dropped.
                let _ = self.budget.recv();
            }
            page(source, record, PageAction::Settled(PageOutcome::Tombstone))
        }

        fn withdraw(&self, source: Source, record: &Arc<ConsumedRecord>, reason: Reject) -> Page<PagePayload> {
            page(source, record, PageAction::Withdraw(LogPartition(0), reason))
        }

        fn was_busy(&self, _: Duration) {}
    }

    fn page(source: Source, record: &Arc<ConsumedRecord>, action: PageAction) -> Page<PagePayload> {
        let payload = PagePayload { record: Arc::clone(record), ..PagePayload::default() };
        let event_time = Timestamp::default();
        Page { source, bytes: 1, event_time, paced_by: event_time, action, earlier: None, payload }
    }

    struct Bench {
        pool: TextPool,
        done: Receiver<Done>,
        now: Duration,
        _gate: Sender<()>,
    }

    impl Bench {
        /// A pool of this many threads, each blocked on a separate page; one more page waits.
        fn new(threads: usize) -> Self {
            let ((sender, budget), (begun, has_begun), (finished, done)) = (unbounded(), unbounded(), unbounded());
            let work = Stuck { pages: i64::try_from(threads).unwrap(), budget, begun };
            let clock = Clock::start();
            let mut pool = TextPool::start(threads, work, clock, move |one| drop(finished.send(one))).unwrap();
            let (bytes, partition) = (ByteBudget::new(1 << 20), PartitionId::new("pages", 0));
            for offset in 0..=threads {
                let source = partition.at(i64::try_from(offset).unwrap());
                let place = u64::try_from(offset).unwrap();
                pool.read(Job { source, serial: 0, place, record: Arc::default(), permit: bytes.hold(1) });
            }
            (0..threads).for_each(|_| has_begun.recv_timeout(TIMEOUT).unwrap());
            pool.last_check = Duration::ZERO;
            Self { pool, done, now: Duration::ZERO, _gate: sender }
        }

        /// Runs a check and returns the results.
        fn look(&mut self, after: Duration) -> Vec<Done> {
            self.now += after;
            let had_enough = self.pool.give_up_overdue(self.now, LIMIT).unwrap();
            assert!(!had_enough, "the process would end");
            self.done.try_iter().collect()
        }
    }

    #[test]
    fn a_page_after_as_many_slow_ones_as_threads_is_processed() {
        let mut bench = Bench::new(32);
        let (mut withdrawn, mut checks) = (0, 0);
        while withdrawn < 32 {
            let done = bench.look(CHECK_INTERVAL);
            let now = done.iter().filter(|one| matches!(one.page.action, PageAction::Withdraw(..))).count();
            assert!(now <= 15, "{now} at one check leave no majority");
            withdrawn += now;
            checks += 1;
            assert!(checks < 100, "{withdrawn} of 32");
            if done.iter().any(|one| one.page.source.offset == 32) {
                return;
            }
        }
        let last = bench.done.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(last.page.source.offset, 32);
    }

    #[test]
    fn a_jump_of_the_clock_withdraws_no_page() {
        let mut bench = Bench::new(4);
        for _ in 0..9 {
            assert!(
                bench.look(Duration::from_mins(1)).is_empty(),
                "the machine was suspended, and so were the threads"
            );
        }
        // The same pages are overdue once checks have observed it.
        let checks = LIMIT.as_millis() / CHECK_INTERVAL.as_millis();
        let done: usize = (0..checks).map(|_| bench.look(CHECK_INTERVAL).len()).sum();
        assert!(done > 0);
    }

    /// One page at a time has memory, and the first of them never ends.
    struct Scarce {
        memory: Arc<TreeBudget>,
        stuck: Stuck,
    }

    impl TextWork for Scarce {
        fn wait_for_memory(&self, _: &ConsumedRecord) -> Option<Taken> {
            Some(self.memory.take(b"<p>"))
        }

        fn read(&self, source: Source, record: &Arc<ConsumedRecord>, scratch: &mut Scratch) -> Page<PagePayload> {
            self.stuck.read(source, record, scratch)
        }

        fn withdraw(&self, source: Source, record: &Arc<ConsumedRecord>, reason: Reject) -> Page<PagePayload> {
            self.stuck.withdraw(source, record, reason)
        }

        fn was_busy(&self, _: Duration) {}
    }

    #[test]
    fn waiting_for_memory_does_not_count_and_a_given_up_page_releases_it() {
        const PAGES: i64 = 8;
        let ((_gate, budget), (begun, has_begun), (finished, done)) = (unbounded(), unbounded(), unbounded());
        let work = Scarce { memory: TreeBudget::new(1, Format::Html), stuck: Stuck { pages: 1, budget, begun } };
        let mut pool = TextPool::start(8, work, Clock::start(), move |one| drop(finished.send(one))).unwrap();
        let (bytes, partition) = (ByteBudget::new(1 << 20), PartitionId::new("pages", 0));
        let read = |pool: &TextPool, offset: i64| {
            let place = u64::try_from(offset).unwrap();
            let source = partition.at(offset);
            pool.read(Job { source, serial: 0, place, record: Arc::default(), permit: bytes.hold(1) });
        };
        read(&pool, 0);
        has_begun.recv_timeout(TIMEOUT).unwrap();
        (1..PAGES).for_each(|offset| read(&pool, offset));
        // Threads have taken all others, and wait.
        while pool.waiting() > 0 {
            std::thread::yield_now();
        }
        pool.last_check = Duration::ZERO;
        let checks = u32::try_from(LIMIT.as_millis() / CHECK_INTERVAL.as_millis()).unwrap() + 1;
        for check in 1..=checks {
            assert!(!pool.give_up_overdue(check * CHECK_INTERVAL, LIMIT).unwrap());
        }
        let mut withdrawn = Vec::new();
        for _ in 0..PAGES {
            let one = done.recv_timeout(TIMEOUT).expect("every page comes out");
            withdrawn.extend(matches!(one.page.action, PageAction::Withdraw(..)).then_some(one.page.source.offset));
        }
        assert_eq!(withdrawn, [0]);
    }

    #[test]
    fn a_single_thread_is_given_up_as_well() {
        let mut bench = Bench::new(1);
        let checks = LIMIT.as_millis() / CHECK_INTERVAL.as_millis() + 1;
        let done: Vec<Done> = (0..checks).flat_map(|_| bench.look(CHECK_INTERVAL)).collect();
        assert!(
            done.iter()
                .any(|one| matches!(one.page.action, PageAction::Withdraw(LogPartition(0), Reject::TextTimeout)))
        );
    }
}
