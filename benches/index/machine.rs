//! What the machine is and does: CPU time of this thread, memory of this process, a random cache line.

use std::time::Duration;

use dupgate::index::Engine;
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
    Engine::detect().name()
}

/// Returns the longest time that the system took for one of a hundred fresh large pages, in nanoseconds. Where a machine
/// is a virtual one and its host has lent the memory to others, it is a multiple of what clearing a page takes.
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

/// Measures one random cache line that nothing else waits for, in nanoseconds, in so many bytes of large pages: one that
/// is read, and one that is written, too.
pub(crate) fn line_ns(bytes: f64) -> [f64; 2] {
    let lines = ((bytes / 64.0) as usize).max(1);
    let mut words = vec![0_u64; lines * 8 + PAGE / 8];
    let start = words.as_ptr().align_offset(PAGE);
    use_large_pages(&mut words[start..start + lines * 8]);
    words.fill(1);
    let mut random = Random(9);
    let places: Vec<usize> = (0..2_000_000).map(|_| start + random.below(lines as u64 - 1) as usize * 8).collect();
    let (ns, sum) = timed(|| places.iter().map(|&place| words[place]).sum::<u64>());
    std::hint::black_box(sum);
    let (written_ns, ()) = timed(|| places.iter().for_each(|&place| words[place] += 1));
    std::hint::black_box(&words);
    [ns, written_ns].map(|ns| ns / places.len() as f64)
}
