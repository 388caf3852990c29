//! What a snapshot costs the judge while it is written: memory above the index, and time without judging. A binary of its
//! own with one test, because the memory of a whole process is measured.
#![expect(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use dupgate::fingerprint::{ExactHash, Fingerprints, Numbers, SchemeId, SimHash};
use dupgate::index::{Index, Original};
use dupgate::judge::SharedSnapshot;
use dupgate::log::{Checkpoint, LogIdentity, Placement, Rules, RulesNumber, SameId, Stage, Tails, Windows};
use dupgate::record::{PartitionId, Timestamp};
use dupgate::snapshot::Folder;

const ORIGINALS: u64 = 2_000_000;

fn original(sequence: u64, partition: &PartitionId) -> Original {
    let source = partition.at(i64::try_from(sequence).unwrap());
    let mixed = sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Original {
        sequence,
        cluster: source.clone(),
        source,
        event_time: Timestamp::from_millis(i64::try_from(sequence).unwrap()),
        fingerprints: Fingerprints {
            exact: ExactHash(u128::from(mixed) << 64 | u128::from(sequence)),
            simhash: Some(SimHash::B64(mixed)),
            sketch: None,
            numbers: Numbers::EMPTY,
        },
        id: None,
        scope: None,
        site: None,
        placement: Placement::EVERYWHERE,
    }
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        log: LogIdentity(1),
        rules_number: RulesNumber(1),
        rules: Rules {
            stages: vec![Stage::Exact, Stage::SimHash],
            max_distance: 3,
            windows: Windows::all(Duration::from_hours(1)),
            lateness: Duration::ZERO,
            max_future_skew: Duration::ZERO,
            max_entries: ORIGINALS,
            same_id: SameId::Update,
            minhash: None,
            number_guard: None,
            simhash_similarity: None,
            same_site: None,
        },
        newest: Timestamp::MIN,
        tails: Tails::START,
        next_sequence: ORIGINALS,
        next_entry: 0,
        previous: None,
        partitions: BTreeMap::new(),
        applied: Vec::new(),
    }
}

/// A line of `/proc/self/status`, in bytes.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a pause is wall time")]
fn a_snapshot_takes_next_to_no_memory_and_no_pause() {
    let partition = PartitionId::new("pages", 0);
    let mut index = Index::sized(3, ORIGINALS);
    (0..ORIGINALS).for_each(|sequence| index.insert(&original(sequence, &partition)));
    let folder = tempfile::tempdir().unwrap();
    let snapshots = Folder::open(folder.path(), NonZeroUsize::MIN).unwrap();

    let held = memory("VmRSS:");
    // The high-water mark begins anew.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let share = || {
        let began = Instant::now();
        (index.share(&Tails::START), began.elapsed())
    };
    // Of three, because the machine may be busy with something else.
    let (originals, pause) = (0..3).map(|_| share()).min_by_key(|(_, pause)| *pause).unwrap();
    let shared = SharedSnapshot { at: 1, state: checkpoint(), originals, latest_checkpoint: None, spans: Vec::new() };
    let writer = std::thread::spawn(move || snapshots.store_shared("0", &SchemeId("s".to_owned()), shared).unwrap());
    // The judge goes on meanwhile: as many come as go, as in an index that is full.
    let mut next = ORIGINALS;
    while !writer.is_finished() && next < ORIGINALS + ORIGINALS / 50 {
        index.insert(&original(next, &partition));
        next += 1;
        index.advance(&Tails { first_sequence: next - ORIGINALS, ..Tails::START });
    }
    let written = writer.join().unwrap();
    let peak = memory("VmHWM:");

    let limit = index.memory_bytes() as u64;
    let above = peak.saturating_sub(held);
    println!("{limit} bytes held, {above} more while {written} were written; shared in {pause:?}");
    assert!(written > ORIGINALS * 30, "{written} bytes are not a snapshot");
    assert!(above * 20 <= limit, "{above} bytes above {held}; the index takes {limit}");
    assert!(pause < Duration::from_millis(50), "{pause:?}");
}
