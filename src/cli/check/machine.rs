//! Checks of this machine: the disk for snapshots, and the memory for the index.

use std::path::Path;
use std::time::Duration;

use super::Row;
use crate::config::settings::Settings;
use crate::judge::JUDGE_BUFFERS;
use crate::kafka::inspector::Ends;
use crate::record::Format;

/// Memory of the process besides index and pages in flight: dictionaries, code, and the buffers of a worker's clients and
/// of one judge's.
const BESIDE: u64 = 512 << 20;

/// Memory of the text work, HTML trees included, as a multiple of `processing.max_in_flight_bytes`.
const TEXT_TIMES: u64 = 2;
const HTML_TIMES: u64 = 6;

/// An index with its overhead, in percent of the bytes that it counts: the allocator, and a snapshot that is being
/// written.
const WHOLE_PERCENT: u64 = 120;

/// Minimum number of records and minimum time to estimate a rate.
const ENOUGH_RECORDS: u64 = 1000;
const ENOUGH_MILLIS: i64 = 60_000;

/// Number of snapshots on disk while a new one is written, besides the kept ones.
const BEING_WRITTEN: u64 = 1;

/// Checks that the folder of the snapshots is writable and has enough space.
pub(super) fn disk(settings: &Settings) -> Vec<Row> {
    let path = settings.index.path.as_path();
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let shown = path.display();
    if !existing.is_dir() {
        let text = format!("{shown} cannot be a folder: {} is a file", existing.display());
        return vec![Row::fail("disk", text, Some("set index.path to a folder".to_owned()))];
    }
    let probe = existing.join(format!(".dupgate-check-{}", std::process::id()));
    if let Err(error) = std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)) {
        let text = format!("{shown} cannot be written: {error}");
        let fix = format!("let the user that runs dupgate write to {}, or set index.path", existing.display());
        return vec![Row::fail("disk", text, Some(fix))];
    }
    let Ok(space) = rustix::fs::statvfs(existing) else {
        return vec![Row::warn("disk", format!("the free space of {shown} is unknown"), None)];
    };
    vec![room(&shown.to_string(), space.f_bavail.saturating_mul(space.f_frsize), need(settings))]
}

/// Returns the space that the snapshots of a full index need, in bytes; in the dual period also those of the earlier scheme.
fn need(settings: &Settings) -> u64 {
    let kept = u64::try_from(settings.index.snapshots_kept.get()).unwrap_or(u64::MAX);
    indexes(settings).saturating_mul(kept.saturating_add(BEING_WRITTEN))
}

/// Returns the memory of all indexes of a judge, in bytes.
fn indexes(settings: &Settings) -> u64 {
    let all = std::iter::once(settings).chain(settings.previous.as_deref());
    all.map(|settings| settings.index.max_memory).fold(0, u64::saturating_add)
}

fn room(path: &str, free: u64, need: u64) -> Row {
    let text = format!("{path} writable, {} free, at most {} for snapshots of a full index", gib(free), gib(need));
    if free >= need {
        Row::ok("disk", text)
    } else {
        let fix = "a larger disk, a smaller index.max_memory, or fewer index.snapshot.keep".to_owned();
        Row::warn("disk", text, Some(fix))
    }
}

/// Checks that index and pages in flight fit into the memory of the container or machine.
pub(super) fn memory(settings: &Settings) -> Vec<Row> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let limit = limit(&read("/sys/fs/cgroup/memory.max"), &read("/proc/meminfo"));
    let Some(limit) = limit else {
        return vec![Row::warn("memory", "the memory of this machine is unknown".to_owned(), None)];
    };
    vec![fits(limit, MemoryPlan::of(settings))]
}

/// The memory that a process may take.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct MemoryPlan {
    /// Limit of its indexes, in bytes.
    index: u64,
    /// Bytes besides the index: pages in flight, the text work on them, buffers, dictionaries and code.
    beside: u64,
}

impl MemoryPlan {
    /// Plans for these settings.
    pub(in crate::cli) fn of(settings: &Settings) -> Self {
        let index = if settings.roles.judge { indexes(settings) } else { 0 };
        let in_flight = if settings.roles.worker { settings.processing.max_in_flight_bytes } else { 0 };
        let times = if settings.record.format == Format::Text { TEXT_TIMES } else { HTML_TIMES };
        let pages = u64::try_from(in_flight).unwrap_or(u64::MAX).saturating_mul(times);
        Self { index, beside: pages.saturating_add(further_judges(settings)).saturating_add(BESIDE) }
    }

    /// Bytes in all.
    pub(in crate::cli) const fn bytes(self) -> u64 {
        (self.index.saturating_mul(WHOLE_PERCENT) / 100).saturating_add(self.beside)
    }
}

/// Returns the bytes in buffers of the judges after the first one: those of the earlier scheme run in the dual period.
fn further_judges(settings: &Settings) -> u64 {
    let served = |settings: &Settings| settings.judge.served_partitions.len();
    let judges = served(settings) + settings.previous.as_deref().map_or(0, served);
    let further = if settings.roles.judge { judges.saturating_sub(1) } else { 0 };
    u64::try_from(further.saturating_mul(JUDGE_BUFFERS)).unwrap_or(u64::MAX)
}

fn fits(limit: u64, plan: MemoryPlan) -> Row {
    let (index, need) = (plan.index, plan.bytes());
    let text = format!("{} here; index.max_memory {}, about {} in all", gib(limit), gib(index), gib(need));
    if index > limit {
        Row::fail("memory", text, Some(format!("set index.max_memory below {}", gib(limit))))
    } else if need > limit {
        let max = limit.saturating_sub(plan.beside).saturating_mul(100) / WHOLE_PERCENT;
        let fix = match max >> 20 {
            0 => format!("a limit of at least {}, or a smaller processing.max_in_flight_bytes", gib(need)),
            max => format!("set index.max_memory to at most {max}MiB"),
        };
        Row::warn("memory", text, Some(fix))
    } else {
        Row::ok("memory", text)
    }
}

/// Returns the average number of records of a topic per second; 0 if there are too few to tell.
pub(super) fn rate(ends: &Ends) -> f64 {
    let span =
        ends.oldest.zip(ends.newest).map_or(0, |(oldest, newest)| newest.millis().saturating_sub(oldest.millis()));
    let records = f64::from(u32::try_from(ends.records).unwrap_or(u32::MAX));
    let is_enough = ends.records >= ENOUGH_RECORDS && span >= ENOUGH_MILLIS;
    if is_enough { records / Duration::from_millis(span.unsigned_abs()).as_secs_f64() } else { 0.0 }
}

/// Checks that the index holds the window at this rate if every page is an original.
pub(super) fn window(pages_a_second: f64, settings: &Settings) -> Option<Row> {
    let rules = &settings.rules;
    let mine = pages_a_second / f64::from(settings.judge.partitions.max(1));
    if mine <= 0.0 {
        return None;
    }
    let wanted = rules.windows.max() + rules.lateness;
    let entries = f64::from(u32::try_from(rules.max_entries).unwrap_or(u32::MAX));
    let held = Duration::try_from_secs_f64(entries / mine).unwrap_or(Duration::MAX);
    let memory = gib(settings.index.max_memory);
    let hours = |span: Duration| format!("{:.1} h", span.as_secs_f64() / 3600.0);
    let text = format!(
        "at {pages_a_second:.0} pages/s {memory} hold {} of the {} of window and lateness, if no page is a duplicate",
        hours(held.min(wanted)),
        hours(wanted)
    );
    if held >= wanted {
        return Some(Row::ok("window", text));
    }
    let share = wanted.as_secs_f64() / held.as_secs_f64().max(1.0);
    let gibs = (f64::from(u32::try_from(settings.index.max_memory >> 20).unwrap_or(u32::MAX)) / 1024.0 * share).ceil();
    let fix = match held.checked_sub(rules.lateness).filter(|size| size.as_secs() >= 3600) {
        Some(size) => format!("index.max_memory: {gibs:.0}GiB, or window.size: {}h", size.as_secs() / 3600),
        None => format!("index.max_memory: {gibs:.0}GiB, or a shorter window"),
    };
    Some(Row::warn("window", text, Some(fix)))
}

/// Returns the smaller of the container's limit and the machine's memory, in bytes.
fn limit(cgroup: &str, meminfo: &str) -> Option<u64> {
    let of_machine = meminfo.lines().find_map(|line| {
        let kib = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
        Some(kib.saturating_mul(1024))
    });
    cgroup.trim().parse().ok().into_iter().chain(of_machine).min()
}

/// Writes a size with one digit after the point, small ones in whole mebibytes.
pub(in crate::cli) fn gib(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 30;
    if tenths == 0 { format!("{} MiB", bytes >> 20) } else { format!("{}.{} GiB", tenths / 10, tenths % 10) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::State;

    const GIB: u64 = 1 << 30;

    fn settings() -> Settings {
        let resolved = crate::config::Layers::default()
            .resolve(&crate::config::ExternalInputs::default(), crate::config::Purpose::Sieve);
        resolved.unwrap().0
    }

    #[test]
    fn the_smaller_limit_counts() {
        let machine = "MemTotal:       16777216 kB\nMemFree: 1 kB\n";
        assert_eq!(limit("max\n", machine), Some(16 * GIB));
        assert_eq!(limit("1073741824\n", machine), Some(GIB));
        assert_eq!(limit("", ""), None);
    }

    #[test]
    fn an_index_that_does_not_fit_is_reported_with_one_that_does() {
        let fits = |limit, index, pages| fits(limit, MemoryPlan { index, beside: BESIDE + pages });
        assert_eq!(fits(8 * GIB, 4 * GIB, 128 << 20).state, State::Ok);
        let fix = |limit, index, pages| fits(limit, index, pages).fix;
        assert_eq!(fix(4 * GIB, 4 * GIB, 128 << 20).as_deref(), Some("set index.max_memory to at most 2880MiB"));
        assert_eq!(fits(4 * GIB, 2880 << 20, 128 << 20).state, State::Ok);
        assert_eq!(fits(4 * GIB, 2881 << 20, 128 << 20).state, State::Warn);
        let worker = fix(GIB, 0, 6 * (256 << 20));
        assert_eq!(worker.as_deref(), Some("a limit of at least 2.0 GiB, or a smaller processing.max_in_flight_bytes"));
        assert_eq!(fits(2 * GIB, 4 * GIB, 0).state, State::Fail);
    }

    #[test]
    fn buffers_of_further_judges_are_counted() {
        let settings = settings();
        let serving = |judge: bool, partitions: &[u32]| {
            let mut settings = settings.clone();
            settings.roles.judge = judge;
            settings.judge.served_partitions = partitions.to_vec();
            further_judges(&settings) >> 20
        };
        assert_eq!(serving(true, &[0]), 0);
        assert_eq!(serving(true, &[1, 4, 5]), 2 * 120);
        assert_eq!(serving(false, &[1, 4, 5]), 0);
    }

    #[test]
    fn in_the_dual_period_both_indexes_are_planned() {
        let mut settings = settings();
        let before = MemoryPlan::of(&settings);
        assert_eq!(need(&settings), 3 * (4 * GIB), "two snapshots are kept while a third one is written");
        settings.previous = Some(Box::new(settings.clone()));
        let both = MemoryPlan::of(&settings);
        assert_eq!((before.index, both.index), (4 * GIB, 8 * GIB));
        assert_eq!(both.beside, before.beside + (120 << 20), "another judge");
        assert_eq!(need(&settings), 6 * (4 * GIB));
    }

    #[test]
    fn snapshots_need_their_room() {
        assert_eq!(room("/x", GIB, GIB).state, State::Ok);
        let little = room("/x", GIB - 1, GIB);
        assert_eq!(little.state, State::Warn);
        assert!(little.text.starts_with("/x writable, 0.9 GiB free, at most 1.0 GiB"), "{}", little.text);
    }

    #[test]
    fn a_missing_folder_is_checked_at_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let disk = |path: std::path::PathBuf| {
            let mut settings = settings();
            settings.index.path = path;
            disk(&settings)
        };
        let rows = disk(folder.path().join("a/b"));
        assert_eq!(rows.first().map(|row| row.state), Some(State::Ok), "{rows:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left over");
        let rows = disk("/proc/dupgate".into());
        assert_eq!(rows.first().map(|row| row.state), Some(State::Fail), "{rows:?}");
        std::fs::write(folder.path().join("file"), "").unwrap();
        for path in ["file", "file/below"] {
            let rows = disk(folder.path().join(path));
            let fix = rows.first().and_then(|row| row.fix.as_deref());
            assert_eq!(fix, Some("set index.path to a folder"), "{rows:?}");
        }
    }

    #[test]
    fn a_window_too_large_for_the_memory_is_reported_with_a_remedy() {
        let settings = settings();
        let at = crate::record::Timestamp::from_millis;
        let ends = |records, seconds: i64| Ends {
            oldest: Some(at(1_000_000)),
            newest: Some(at(1_000_000 + seconds * 1000)),
            partitions: 1,
            records,
        };
        assert!((rate(&ends(180_000, 600)) - 300.0).abs() < 0.001);
        assert!(rate(&ends(999, 600)) <= 0.0 && rate(&ends(180_000, 59)) <= 0.0, "too little to tell");
        assert!(window(0.0, &settings).is_none());
        // 4 GiB hold 6.7 million originals at most.
        let row = window(300.0, &settings).unwrap();
        assert_eq!(row.state, State::Warn);
        assert!(
            row.text.starts_with("at 300 pages/s 4.0 GiB hold ") && row.text.contains("of the 78.0 h"),
            "{}",
            row.text
        );
        let fix = row.fix.unwrap();
        assert!(fix.starts_with("index.max_memory: ") && fix.contains("GiB"), "{fix}");
        assert_eq!(window(1.0, &settings).unwrap().state, State::Ok);
    }
}
