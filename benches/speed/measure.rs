//! What the parts measure with: CPU time of a thread, of a process and of its threads; medians; how busy the machine
//! is.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub(crate) use crate::broker::cpu::process_cpu;
use crate::broker::cpu::stat_cpu;

/// Returns the CPU time of the calling thread: what others do on the machine hardly changes it.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

/// Returns the CPU time of `work`.
pub(crate) fn cpu_of<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = thread_cpu();
    let result = work();
    (thread_cpu().saturating_sub(start), result)
}

/// Returns the middle of some numbers.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    if numbers.len() % 2 == 1 { numbers[middle] } else { f64::midpoint(numbers[middle - 1], numbers[middle]) }
}

/// Returns the number that a share of the sorted numbers does not exceed.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent).div_ceil(100).clamp(1, sorted.len()) - 1]
}

/// Rounds to three decimals, for the JSON line.
pub(crate) fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Returns CPU seconds of the threads that a process has now, by name; numbers at the end of a name are cut.
pub(crate) fn threads_cpu(pid: u32) -> BTreeMap<String, f64> {
    let mut by_name = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else { continue };
        let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map_or("", |(name, _)| name);
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-' || c == ':').to_owned();
        *by_name.entry(name).or_default() += stat_cpu(&stat).unwrap_or(0.0);
    }
    by_name
}

/// Returns CPU seconds that all programs of the machine have used.
pub(crate) fn machine_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    // user, nice, system, idle, iowait, irq, softirq: what a hypervisor takes is not used here.
    let ticks: Vec<f64> = stat.split_whitespace().skip(1).take(7).filter_map(|ticks| ticks.parse().ok()).collect();
    let used: f64 =
        ticks.iter().enumerate().filter(|(place, _)| !(3..=4).contains(place)).map(|(_, ticks)| ticks).sum();
    used / rustix::param::clock_ticks_per_second() as f64
}

/// Returns how many threads wanted to run recently: 1 minute, as the system counts.
pub(crate) fn load() -> f64 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// Returns the number of cores.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}
