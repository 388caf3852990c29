//! Replays of what the service has judged, beside the service and beside a copy of the same topic.
//!
//! Corpus: the topic of the end-to-end part, six times as long. The service judges it once; then each kind of replay
//! judges the whole of it again, in a process of its own. Unit: pages a second from the replay's first question to its
//! last commit, clients and reading of the log included; for service and copy, the middle of their runs. The window is
//! a twelfth of the range, so that the index is as large in the middle of a run as at its end. Memory: what the process
//! holds in the middle of its run, and the most after that.
//!
//! A replay of kept fingerprints takes only some seconds, and whatever else a shared machine does meanwhile can only slow
//! it down. So it runs five times, and the fastest run counts; the median is printed beside it.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::bus::{self, PARTITIONS};
use crate::end_to_end::crawl;
use crate::measure::{cores, round};
use crate::report::Floor;
use crate::service::{Service, Stopped};
use crate::{Scale, copy};

/// Pages, in times of the end-to-end part: fingerprints are judged fast, and the start takes some tenths of a second.
const TIMES: usize = 6;

/// Least rate of a replay of kept fingerprints, in times of the live service's.
const FINGERPRINTS_FLOOR: f64 = 30.0;

/// Least share of the live service's rate, pages read and judged again.
const PAGES_FLOOR: f64 = 1.0;

/// Most memory in the second half of a run, in times of what is held in its middle.
const MEMORY_FLOOR: f64 = 1.1;

/// For pages of four hours. The logs are kept whole: replays follow them.
const WINDOW: &str = "window: {size: 15m, allowed_lateness: 5m}\nlogs: {retention: 7d}\n";

/// From one look at the memory to the next.
const LOOK: Duration = Duration::from_millis(50);

/// A kind of replay, how often it runs, and its arguments.
const KINDS: [(&str, usize, &[&str]); 4] = [
    ("kept fingerprints", 5, &["--into", "none", "--from-fingerprints"]),
    ("pages, report only", 1, &["--into", "none", "--order", "log"]),
    ("pages by time, report only", 1, &["--into", "none", "--order", "time"]),
    ("pages, shadow topics", 1, &["--into", "shadow", "--order", "log"]),
];

/// What one replay came to.
struct Run {
    rate: f64,
    /// Bytes in the middle of the run, and the most in its second half.
    memory: (u64, u64),
}

/// Measures; prints the table.
pub(crate) fn run(broker: &Broker, scale: &Scale, floors: &mut Vec<Floor>) -> Value {
    let pages = scale.pages * TIMES;
    let input = bus::topic(broker, "replayed");
    bus::fill(broker, &input, crawl(), pages);
    let mut service = Service::start_with(broker, &input, WINDOW);
    let (group, settings) = (service.group.clone(), service.settings.clone());
    let live = bus::rate(&bus::follow(broker, &group, &input, pages, || service.lives()), pages);
    let left = service.stop();
    let plain = bus::rate(&copy::run(broker, &settings, &input, pages), pages);

    println!("Replay: {pages} pages in {PARTITIONS} partitions, the broker on the same {} cores", cores());
    println!("{:<28} {:>10} {:>8} {:>8} {:>12} {:>12}", "", "pages/s", "service", "copy", "MiB, middle", "MiB, most");
    let row = |what: &str, rate: f64| format!("{what:<28} {rate:>10.0} {:>8.2} {:>8.3}", rate / live, rate / plain);
    println!("{}", row("live service", live));
    println!("{}", row("copy", plain));
    let (mut report, mut growth) = (serde_json::Map::new(), 0.0_f64);
    for (number, (kind, times, arguments)) in KINDS.iter().enumerate() {
        let mut runs: Vec<Run> =
            (0..*times).map(|time| replay(&left, &format!("bench-{number}-{time}"), arguments, pages)).collect();
        runs.sort_by(|one, other| other.rate.total_cmp(&one.rate));
        growth = runs.iter().map(|run| run.memory.1 as f64 / run.memory.0 as f64).fold(growth, f64::max);
        let (run, median) = (&runs[0], runs[runs.len() / 2].rate);
        let (middle, most) = (run.memory.0 >> 20, run.memory.1 >> 20);
        println!("{} {middle:>12} {most:>12}", row(kind, run.rate));
        if runs.len() > 1 {
            println!("{}", row(&format!("  the median of {times} runs"), median));
        }
        let of_run = json!({
            "pages_per_second": run.rate.round(), "of_service": round(run.rate / live), "of_copy": round(run.rate / plain),
            "runs": times, "median_pages_per_second": median.round(),
            "bytes_in_the_middle": run.memory.0, "most_bytes_after_it": run.memory.1,
        });
        report.insert((*kind).to_owned(), of_run);
        match number {
            0 => floors.push(Floor::at_least(
                "replay of kept fingerprints, times the service's rate",
                FINGERPRINTS_FLOOR,
                run.rate / live,
            )),
            1 => floors.push(Floor::at_least(
                "replay of pages, share of the service's rate",
                PAGES_FLOOR,
                run.rate / live,
            )),
            _ => {}
        }
    }
    floors.push(Floor::at_most("replays: memory at its most, times that in the middle", MEMORY_FLOOR, growth));
    println!();
    json!({
        "pages": pages, "partitions": PARTITIONS, "service_pages_per_second": live.round(),
        "copy_pages_per_second": plain.round(), "replays": report,
    })
}

fn replay(stopped: &Stopped, id: &str, arguments: &[&str], pages: usize) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_dupgate"))
        .args(["replay", "run", "--from", "start", "--execute", "-q", "-o", "json", "--id", id])
        .args(arguments)
        .arg("--config")
        .arg(stopped.configuration())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut looks = Vec::new();
    while child.try_wait().unwrap().is_none() {
        looks.extend(resident(child.id()));
        std::thread::sleep(LOOK);
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "a replay ended with {}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = &report["variants"][0]["counts"];
    assert_eq!(counts["pages"], pages, "{counts}");
    let milliseconds = report["elapsed_ms"].as_f64().unwrap();
    let half = looks.get(looks.len() / 2..).unwrap_or_default();
    let memory = (half.first().copied().unwrap_or(0), half.iter().copied().max().unwrap_or(0));
    Run { rate: pages as f64 * 1e3 / milliseconds, memory }
}

/// What a process holds in memory, in bytes.
fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}
