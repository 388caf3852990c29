//! CPU time of processes, by `/proc`.

/// Returns user and system CPU seconds of a running process, all threads, those that ended included.
pub(crate) fn process_cpu(pid: u32) -> Option<f64> {
    stat_cpu(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns those of all children of a process.
pub(crate) fn children_cpu(parent: u32) -> f64 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let stats = processes.filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
    stats.filter(|stat| field(stat, 1) == Some(parent)).filter_map(|stat| stat_cpu(&stat)).sum()
}

/// Returns the CPU seconds in the `stat` of a process or a thread.
pub(crate) fn stat_cpu(stat: &str) -> Option<f64> {
    let ticks = field(stat, 11)? + field(stat, 12)?;
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    Some(f64::from(ticks) / f64::from(per_second))
}

/// Returns a number of `stat`, counted after the name, which may hold anything.
fn field(stat: &str, place: usize) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(place)?.parse().ok()
}
