//! Threads for text work: large stacks, panics caught, a time limit.
//!
//! A thread cannot be stopped from outside. One whose page takes too long is given up: the page is withdrawn, a new
//! thread takes the place, and the late result is thrown away when it comes.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::clock::Clock;
use super::reading::Reading;
use crate::fingerprint::Scratch;
use crate::kafka::gate::Held;
use crate::kafka::member::Arrived;
use crate::kafka::output::Carried;
use crate::record::{Reject, Source};
use crate::worker::Page;

/// Stack of a thread for text work: parsers of deep documents go deep.
const STACK_BYTES: usize = 64 << 20;

/// Threads that may be given up before the pool says so.
const MOST_GIVEN_UP: usize = 16;

/// A record to read, and where the result is to be filed.
pub(super) struct Job {
    /// Where it stood.
    pub(super) source: Source,
    /// The seek that it follows.
    pub(super) serial: u64,
    /// Its place in the order of its partition.
    pub(super) place: u64,
    /// The record.
    pub(super) record: Arc<Arrived>,
    /// Counts its bytes until it is taken in.
    pub(super) held: Held,
}

/// A record, read.
pub(super) struct Done {
    /// The seek that it follows.
    pub(super) serial: u64,
    /// Its place in the order of its partition.
    pub(super) place: u64,
    /// The page.
    pub(super) page: Page<Carried>,
    /// Counts its bytes until it is taken in.
    pub(super) held: Held,
}

/// The pool.
pub(super) struct TextPool {
    jobs: Sender<Job>,
    shared: Arc<Shared>,
    desks: Vec<Arc<Desk>>,
    given_up: usize,
}

struct Shared {
    jobs: Receiver<Job>,
    reading: Reading,
    sink: Box<dyn Fn(Done) + Send + Sync>,
    clock: Clock,
}

/// What one thread is working on, and since when. Whoever takes the job out answers it.
#[derive(Default)]
struct Desk(Mutex<Option<(Duration, Job)>>);

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Option<(Duration, Job)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TextPool {
    /// Starts the threads. Results are handed to `sink` on them, in any order.
    ///
    /// # Errors
    ///
    /// When a thread cannot be started.
    pub(super) fn start(
        threads: usize,
        reading: Reading,
        clock: Clock,
        sink: impl Fn(Done) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (sender, jobs) = unbounded();
        let shared = Arc::new(Shared { jobs, reading, sink: Box::new(sink), clock });
        let mut pool = Self { jobs: sender, shared, desks: Vec::new(), given_up: 0 };
        for _ in 0..threads.max(1) {
            let desk = pool.seat_a_thread()?;
            pool.desks.push(desk);
        }
        Ok(pool)
    }

    /// Gives a record out to be read.
    pub(super) fn read(&self, job: Job) {
        // The threads live as long as this sender.
        let _ = self.jobs.send(job);
    }

    /// Returns how many records no thread has begun yet.
    pub(super) fn waiting(&self) -> usize {
        self.jobs.len()
    }

    /// Withdraws pages that have been worked on for longer than `limit`. Says whether so many threads were given up
    /// that the process had better begin anew.
    ///
    /// # Errors
    ///
    /// When no thread can be started in place of one that is given up.
    pub(super) fn give_up_overdue(&mut self, limit: Duration) -> io::Result<bool> {
        let now = self.shared.clock.now();
        for index in 0..self.desks.len() {
            let Some(desk) = self.desks.get(index) else { break };
            let overdue = {
                let mut seat = desk.lock();
                if seat.as_ref().is_some_and(|(since, _)| now.saturating_sub(*since) > limit) {
                    seat.take()
                } else {
                    None
                }
            };
            let Some((since, job)) = overdue else { continue };
            self.shared.reading.metrics.worker_busy(now.saturating_sub(since));
            self.given_up += 1;
            tracing::warn!(source = %job.source, ?limit, "text work took too long: the page is withdrawn");
            let fresh = self.seat_a_thread()?;
            if let Some(desk) = self.desks.get_mut(index) {
                *desk = fresh;
            }
            let Job { source, serial, place, record, held } = job;
            let page = self.shared.reading.withdrawn(source, &record, Reject::TextTimeout);
            (self.shared.sink)(Done { serial, place, page, held });
        }
        Ok(self.given_up > MOST_GIVEN_UP)
    }

    fn seat_a_thread(&self) -> io::Result<Arc<Desk>> {
        let desk = Arc::new(Desk::default());
        let shared = Arc::clone(&self.shared);
        let mine = Arc::clone(&desk);
        std::thread::Builder::new()
            .name("text".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || work(&shared, &mine))?;
        Ok(desk)
    }
}

fn work(shared: &Shared, desk: &Desk) {
    let mut scratch = Scratch::default();
    for job in &shared.jobs {
        let (source, record) = (job.source.clone(), Arc::clone(&job.record));
        *desk.lock() = Some((shared.clock.now(), job));
        let page = shared.reading.page(source, &record, &mut scratch);
        // Somebody else answered for us: this thread was replaced.
        let Some((since, job)) = desk.lock().take() else { return };
        shared.reading.metrics.worker_busy(shared.clock.now().saturating_sub(since));
        (shared.sink)(Done { serial: job.serial, place: job.place, page, held: job.held });
    }
}
