//! A pool of threads for text work: they have large stacks, panics are caught, and each page has a time limit.
//!
//! A thread cannot be stopped from outside. If a page takes too long, the pool abandons the thread: it withdraws the
//! page, starts a new thread, and discards the late result of the old one. Only time observed by regular checks counts,
//! because suspending the machine suspends the threads, too.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use dupgate_core::worker::Page;

use crate::fingerprint::Scratch;
use crate::kafka::budget::Permit;
use crate::kafka::group_consumer::ConsumedRecord;
use crate::kafka::output::PagePayload;
use crate::panics::shielded;
use crate::processing::record_processor::{Named, RecordProcessor, raw};
use crate::record::{Reject, Source};
use crate::runtime::clock::Clock;
use crate::runtime::tree_budget::Taken;

/// Stack size of a thread: parsers recurse deeply on deeply nested documents.
const STACK_BYTES: usize = 64 << 20;

/// Interval of checks for overdue pages.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of abandoned threads that are still running. A large pool may have twice its number of threads.
const MAX_ABANDONED: usize = 32;

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

    /// Reads a record.
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
    /// Its position.
    pub(crate) source: Source,
    /// The serial number of its seek.
    pub(crate) serial: u64,
    /// Its place in the order of its partition.
    pub(crate) place: u64,
    /// The record.
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
    /// The page.
    pub(crate) page: Page<PagePayload>,
    /// Reserves its bytes in the input's budget, until the machine has the page.
    pub(crate) permit: Permit,
}

/// The pool.
pub(crate) struct TextPool {
    jobs: Sender<Job>,
    unready: Sender<Job>,
    shared: Arc<Shared>,
    threads: Vec<Thread>,
    /// Abandoned threads that may still run.
    abandoned: Vec<JoinHandle<()>>,
    /// Time of the last check.
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
    use super::*;
    use crate::kafka::budget::ByteBudget;
    use crate::protocol::LogPartition;
    use crate::record::{Format, PartitionId, Timestamp};
    use crate::runtime::tree_budget::TreeBudget;
    use dupgate_core::worker::{PageAction, PageOutcome};

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
        Page { source, bytes: 1, event_time, paced_by: event_time, action, payload }
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
