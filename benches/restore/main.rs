//! How long a judge takes to be again from a snapshot: read, checked, and its tables built on all cores.
//!
//! `make bench-index`, or `cargo bench --bench restore -- [originals]...`; a million and ten million originals where
//! none are named. Lines for people, then one JSON object as the last line of standard output.

#![expect(clippy::print_stdout, reason = "a bench prints")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench panics where it cannot continue")]
#![expect(clippy::cast_precision_loss, reason = "numbers for people")]

use std::time::{Duration, Instant};

use dupgate::fingerprint::{ExactHash, Fingerprints, Numbers, SchemeId, SimHash};
use dupgate::index::Original;
use dupgate::protocol::{LogIdentity, PerStage, Placement, RequestOffset, Rules, SameId, Stage, VerdictOffset};
use dupgate::record::{PartitionId, Timestamp};
use dupgate::snapshot::Folder;
use dupgate::threads::run_parallel;
use dupgate_core::judge::{Snapshot, State};
use dupgate_testkit::rng::Rng;
use serde_json::{Map, Value, json};

/// Seconds that ten million originals are to take at most.
const GOAL_OF_TEN_MILLION: f64 = 5.0;

fn main() {
    let named: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if named.is_empty() { vec![1_000_000, 10_000_000] } else { named };
    let all: Map<String, Value> = sizes.into_iter().map(|entries| (entries.to_string(), run(entries))).collect();
    if let Some(seconds) = all.get("10000000").and_then(|run| run["seconds"].as_f64()) {
        let mark = if seconds <= GOAL_OF_TEN_MILLION { "met" } else { "MISSED" };
        println!("10000000 originals: {seconds:.2} s, goal {GOAL_OF_TEN_MILLION:.0} s {mark}\n");
    }
    println!("{}", Value::Object(all));
}

/// Returns the memory of this process that is in use, in bytes.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as f64
}

/// Writes a snapshot of this many originals, and times reading it and building the state.
#[expect(clippy::disallowed_methods, reason = "a restart takes wall time, on all cores")]
fn run(entries: usize) -> Value {
    let rules = Rules {
        stages: vec![Stage::Exact, Stage::SimHash],
        max_distance: 3,
        minhash: None,
        number_guard: None,
        simhash_similarity: None,
        same_site: None,
        windows: PerStage::all(Duration::from_hours(168)),
        lateness: Duration::from_mins(10),
        max_future_skew: Duration::from_mins(10),
        max_entries: entries as u64,
        same_id: SameId::Update,
        dual: None,
    };
    let partitions: Vec<PartitionId> = (0..12).map(|number| PartitionId::new("pages", number)).collect();
    let mut random = Rng::new(3);
    let originals: Vec<Original> = (0..entries)
        .map(|number| {
            let source = partitions[number % partitions.len()].at(i64::try_from(number / partitions.len()).unwrap());
            Original {
                sequence: number as u64,
                cluster: source.clone(),
                source,
                event_time: Timestamp::from_millis(i64::try_from(number).unwrap()),
                fingerprints: Fingerprints {
                    exact: ExactHash(u128::from(random.next()) << 64 | u128::from(random.next())),
                    simhash: Some(SimHash::B64(random.next())),
                    sketch: None,
                    numbers: Numbers::EMPTY,
                },
                id: None,
                scope: None,
                site: None,
                address: None,
                title: None,
                placement: Placement::EVERYWHERE,
            }
        })
        .collect();
    let state = State::begin(LogIdentity(1), rules, RequestOffset(0));
    let mut checkpoint = state.checkpoint(None, |_| 0).unwrap();
    checkpoint.next_sequence = entries as u64;
    let snapshot =
        Snapshot { at: VerdictOffset(1), state: checkpoint, originals, latest_checkpoint: None, spans: Vec::new() };
    let folder = tempfile::tempdir_in(concat!(env!("CARGO_MANIFEST_DIR"), "/target")).unwrap();
    let snapshots = Folder::open(folder.path(), std::num::NonZeroUsize::MIN, Duration::ZERO).unwrap();
    let scheme = SchemeId("bench".to_owned());
    let start = Instant::now();
    snapshots.store("0", &scheme, &snapshot).unwrap();
    let store = start.elapsed().as_secs_f64();
    drop(snapshot);

    let before = resident();
    let start = Instant::now();
    let mut built = 0.0;
    let restored = snapshots.restore("0", &scheme, |tasks| {
        let start = Instant::now();
        run_parallel(tasks);
        // The tables are built last.
        built = start.elapsed().as_secs_f64();
    });
    let all = start.elapsed().as_secs_f64();
    let restored = restored.unwrap().found.unwrap();
    let bytes = (resident() - before) / entries as f64;
    let state = &restored.state;
    assert_eq!(state.index().originals(), entries);
    let held = state.index().stats().memory_bytes as f64 / entries as f64;
    println!(
        "{entries} originals from a snapshot: {all:.2} s ({built:.2} s of it building the tables), written in {store:.2} s; {held:.0} bytes an original in the index, {bytes:.0} resident\n"
    );
    json!({ "seconds": all, "build_seconds": built, "store_seconds": store, "index_bytes": held, "resident_bytes": bytes })
}
