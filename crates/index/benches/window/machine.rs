//! What the machine is and does: CPU time of this thread, memory of this process, a random cache line.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use dupgate_index::{Backend, HammingIndex, Task};
use rustix::time::{ClockId, clock_gettime};

use crate::data::Random;

/// Bytes of a large page.
const PAGE: usize = 2 << 20;

/// Returns the CPU time of this thread: what others do on the machine changes it little.
pub(crate) fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the CPU time of some work, in nanoseconds, and what it gave.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = cpu();
    let result = work();
    ((cpu().saturating_sub(start)).as_nanos() as f64, result)
}

/// Returns the memory of this process that is in use, in bytes.
pub(crate) fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as f64
}

pub(crate) fn load() -> f64 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

pub(crate) fn engine() -> &'static str {
    Backend::detect().name()
}

/// A thread that does what an index hands over, as the one beside every judge. It is waited for, which takes no CPU
/// time: pages come slowly enough for it to be done before the next ones, the codes of a bench do not.
pub(crate) struct Helper {
    tasks: Sender<Task<'static>>,
    done: Receiver<()>,
}

impl Helper {
    pub(crate) fn start() -> Self {
        let (tasks, taken) = channel::<Task<'static>>();
        let (sender, done) = channel();
        std::thread::spawn(move || taken.iter().map(|task| task()).all(|()| sender.send(()).is_ok()));
        Self { tasks, done }
    }

    /// Has it done what there is to be done.
    pub(crate) fn help(&self, near: &mut HammingIndex) {
        near.maintenance(&mut |task| {
            self.tasks.send(task).unwrap();
            self.done.recv().unwrap();
        });
    }
}

/// Returns the longest time that the system took for one of a hundred fresh large pages, in nanoseconds. Where a
/// machine is a virtual one and its host has lent the memory to others, it is a multiple of what clearing a page takes.
pub(crate) fn fresh_page_ns() -> f64 {
    const PAGES: usize = 100;
    let mut bytes = vec![0_u8; (PAGES + 1) * PAGE];
    let start = bytes.as_ptr().align_offset(PAGE);
    use_large_pages(&mut bytes[start..]);
    let mut touch = |page: usize| timed(|| bytes[start + page * PAGE] = std::hint::black_box(1)).0;
    (0..PAGES).map(&mut touch).fold(0.0, f64::max)
}

/// Asks for large pages, as the index does.
fn use_large_pages<T>(aligned: &mut [T]) {
    let length = size_of_val(aligned) / PAGE * PAGE;
    if length > 0 {
        #[expect(unsafe_code, reason = "large pages, as the index has them")]
        // SAFETY: the range lies within the slice, and the advice changes no byte of it.
        let _ = unsafe { rustix::mm::madvise(aligned.as_mut_ptr().cast(), length, rustix::mm::Advice::LinuxHugepage) };
    }
}

/// This many bytes of large pages, to measure what one random cache line takes that nothing else waits for.
pub(crate) struct RandomLines {
    words: Vec<u64>,
    start: usize,
    lines: u64,
    random: Random,
}

impl RandomLines {
    pub(crate) fn in_bytes(bytes: f64) -> Self {
        let lines = ((bytes / 64.0) as usize).max(2);
        let mut words = vec![0_u64; lines * 8 + PAGE / 8];
        let start = words.as_ptr().align_offset(PAGE);
        use_large_pages(&mut words[start..start + lines * 8]);
        words.fill(1);
        Self { words, start, lines: lines as u64, random: Random(9) }
    }

    fn places(&mut self) -> Vec<usize> {
        (0..500_000).map(|_| self.start + self.random.below(self.lines - 1) as usize * 8).collect()
    }

    /// Measures a line that is read, in nanoseconds.
    pub(crate) fn read_ns(&mut self) -> f64 {
        let places = self.places();
        let (ns, sum) = timed(|| places.iter().map(|&place| self.words[place]).sum::<u64>());
        std::hint::black_box(sum);
        ns / places.len() as f64
    }

    /// Measures a line that is read and written.
    pub(crate) fn written_ns(&mut self) -> f64 {
        let places = self.places();
        let (ns, ()) = timed(|| places.iter().for_each(|&place| self.words[place] += 1));
        std::hint::black_box(&self.words);
        ns / places.len() as f64
    }
}
