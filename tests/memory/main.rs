//! What an index of `index.max_memory` really takes, and what a snapshot costs the judge while it is written: memory
//! above the index, and time without judging. Each case has a process of its own, because the memory of a whole process
//! is measured.
#![expect(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]
#![expect(clippy::print_stdout, reason = "a measurement is shown")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::process::Command;
use std::time::Duration;

use dupgate::config::{ExternalInputs, Layers, Purpose};
use dupgate::fingerprint::{
    Banding, ExactHash, Fingerprints, IdHash, LowConfidence, Numbers, PerMille, SchemeId, SimHash, SiteHash, Sketch,
    SketchForm, SlotBits,
};
use dupgate::index::{Index, Original};
use dupgate::protocol::{
    Checkpoint, ExpiryWatermarks, LogIdentity, MinHashRules, PerStage, Placement, RequestOffset, Rules, RulesNumber,
    SameId, Stage, VerdictOffset,
};
use dupgate::record::{PartitionId, Timestamp};
use dupgate::snapshot::Folder;
use dupgate_core::judge::SharedSnapshot;
use rustix::time::{ClockId, clock_gettime};

/// What an index holds.
#[derive(Clone, Copy)]
struct Case {
    originals: u64,
    sketches: bool,
}

fn form() -> SketchForm {
    SketchForm::new(128, SlotBits::B8).unwrap().with_count()
}

impl Case {
    fn minhash(self) -> Option<MinHashRules> {
        self.sketches.then(|| MinHashRules {
            form: form(),
            banding: Banding::new(42, 3, form()).unwrap(),
            min_shared_bands: 2,
            one_band_below: 64,
            min_similarity: PerMille(500),
            containment: None,
            low_confidence: LowConfidence::DISABLED,
            max_bucket: 256,
        })
    }
}

/// Bytes like those of a sketch: no two are alike.
fn sketch(sequence: u64, form: SketchForm) -> Sketch {
    let mut bytes: Vec<u8> = (0..16).flat_map(|word| mixed(sequence * 16 + word).to_be_bytes()).collect();
    bytes.resize(form.bytes(), 1);
    Sketch::from_bytes(&bytes)
}

/// Mixes all bits: the finaliser of `SplitMix64`.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

fn original(sequence: u64, partition: &PartitionId, form: Option<SketchForm>) -> Original {
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
            sketch: form.map(|form| sketch(sequence, form)),
            numbers: Numbers::EMPTY,
        },
        id: None,
        scope: None,
        site: None,
        address: None,
        title: None,
        placement: Placement::EVERYWHERE,
    }
}

fn checkpoint(case: Case) -> Checkpoint {
    Checkpoint {
        log: LogIdentity(1),
        rules_number: RulesNumber(1),
        rules: Rules {
            stages: vec![Stage::Exact, Stage::SimHash],
            max_distance: 3,
            windows: PerStage::all(Duration::from_hours(1)),
            lateness: Duration::ZERO,
            max_future_skew: Duration::ZERO,
            max_entries: case.originals,
            same_id: SameId::Update,
            minhash: case.minhash(),
            number_guard: None,
            simhash_similarity: None,
            same_site: None,
            dual: None,
        },
        stream_time: Timestamp::MIN,
        leap: None,
        watermarks: ExpiryWatermarks::START,
        next_sequence: case.originals,
        next_request: RequestOffset(0),
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

/// How long this thread has been running on a processor: what others do on the machine does not count.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

/// Runs something; returns its result and how long it took.
fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let began = worked();
    let result = run();
    (result, worked().saturating_sub(began))
}

const LONGEST_PAUSE: Duration = Duration::from_millis(50);

fn measure(case: Case) {
    let partition = PartitionId::new("pages", 0);
    let of = |sequence| original(sequence, &partition, case.sketches.then(form));
    let mut index = Index::sized(3, case.originals);
    index.set_minhash(case.minhash());
    (0..case.originals).for_each(|sequence| index.insert(&of(sequence)));
    let folder = tempfile::tempdir().unwrap();
    let snapshots = Folder::open(folder.path(), NonZeroUsize::MIN, Duration::ZERO).unwrap();

    let held = memory("VmRSS:");
    // The high-water mark starts over.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (originals, shared_in) = timed(|| index.share(&ExpiryWatermarks::START));
    let state = checkpoint(case);
    let shared = SharedSnapshot { at: VerdictOffset(1), state, originals, latest_checkpoint: None, spans: Vec::new() };
    let writer = std::thread::spawn(move || snapshots.store_shared("0", &SchemeId("s".to_owned()), shared).unwrap());
    // The judge continues meanwhile: as many come as go, as in an index that is full.
    let (mut next, mut longest_insert) = (case.originals, Duration::ZERO);
    while !writer.is_finished() && next < case.originals + case.originals / 50 {
        let original = of(next);
        next += 1;
        let watermarks = ExpiryWatermarks { first_sequence: next - case.originals, ..ExpiryWatermarks::START };
        let ((), pause) = timed(|| {
            index.insert(&original);
            index.advance(&watermarks);
        });
        longest_insert = longest_insert.max(pause);
    }
    let written = writer.join().unwrap();
    let peak = memory("VmHWM:");

    let limit = index.stats().memory_bytes as u64;
    let above = peak.saturating_sub(held);
    println!(
        "{} originals{}: {limit} bytes held, {above} more while {written} were written; shared in {shared_in:?}, \
         {} inserts meanwhile, the longest {longest_insert:?}",
        case.originals,
        if case.sketches { " with sketches" } else { "" },
        next - case.originals
    );
    let least = if case.sketches { 30 + form().bytes() as u64 } else { 30 };
    assert!(written > case.originals * least, "{written} bytes are not a snapshot");
    assert!(above * 20 <= limit, "{above} bytes above {held}; the index takes {limit}");
    assert!(shared_in < LONGEST_PAUSE, "{shared_in:?}");
    assert!(next > case.originals, "nothing was inserted while the snapshot was written");
    assert!(longest_insert < LONGEST_PAUSE, "{longest_insert:?}");
}

/// Measures in a process of its own, which has no memory left over from anything else.
fn measure_alone(test: &str, measure: impl FnOnce()) {
    const ALONE: &str = "DUPGATE_MEMORY_ALONE";
    if std::env::var_os(ALONE).is_some() {
        // As `main` does.
        dupgate::process::return_freed_memory();
        return measure();
    }
    let program = std::env::current_exe().unwrap();
    let status = Command::new(program).args(["--exact", test, "--nocapture"]).env(ALONE, "1").status().unwrap();
    assert!(status.success(), "see above");
}

#[test]
fn a_snapshot_takes_next_to_no_memory_and_no_pause() {
    let case = Case { originals: 2_000_000, sketches: false };
    measure_alone("a_snapshot_takes_next_to_no_memory_and_no_pause", || measure(case));
}

#[test]
fn a_snapshot_of_sketches_takes_next_to_no_memory_and_no_pause() {
    let case = Case { originals: 2_000_000, sketches: true };
    measure_alone("a_snapshot_of_sketches_takes_next_to_no_memory_and_no_pause", || measure(case));
}

/// Fills an index with what `index.max_memory` lets it hold, twice over, so that as many originals are evicted as stay.
/// All of them have an id and a site, as pages of a crawl do.
fn fill(stages: &str) {
    const MAX_MEMORY: u64 = 200 << 20;
    let mut layers = Layers::default();
    let topics = "unique: {topic: u}, duplicate: {topic: d}, dead_letter: {topic: l}";
    layers.file("f.yaml", &format!("kafka: {{brokers: ['k:9092']}}\ninput: {{topics: [t]}}\noutput: {{{topics}}}\n"));
    layers.set(&format!("index.max_memory={MAX_MEMORY}"));
    layers.set(&format!("match.stages={stages}"));
    let (settings, _) = layers.resolve(&ExternalInputs::default(), Purpose::Run).unwrap();
    let (rules, partition) = (settings.rules, PartitionId::new("pages", 0));
    let minhash = rules.minhash.filter(|_| rules.stages.contains(&Stage::MinHash));

    let held = memory("VmRSS:");
    let mut index = Index::sized(rules.max_distance, rules.max_entries);
    index.set_minhash(minhash);
    for sequence in 0..2 * rules.max_entries {
        let id = Some(IdHash(mixed(sequence)));
        let site = Some(SiteHash(u32::try_from(sequence % 100_000).unwrap()));
        let original = original(sequence, &partition, minhash.map(|minhash| minhash.form));
        index.insert(&Original { id, site, ..original });
        let first_sequence = (sequence + 1).saturating_sub(rules.max_entries);
        index.advance(&ExpiryWatermarks { first_sequence, ..ExpiryWatermarks::START });
        index.maintenance(&mut |task| task());
    }
    let peak = memory("VmHWM:").saturating_sub(held);
    println!(
        "{stages}: {peak} bytes at the peak, {} per mille of {MAX_MEMORY}; {} originals, {} bytes by the index itself",
        peak * 1000 / MAX_MEMORY,
        index.originals(),
        index.stats().memory_bytes
    );
    assert!(index.originals() as u64 >= rules.max_entries, "{} of {} originals", index.originals(), rules.max_entries);
    assert!(peak * 20 <= MAX_MEMORY * 21, "{peak} bytes are more than 5 % above {MAX_MEMORY}");
    assert!(peak * 2 >= MAX_MEMORY, "{peak} bytes are not an index of {MAX_MEMORY}");
}

#[test]
fn an_index_that_evicts_takes_no_more_than_max_memory() {
    measure_alone("an_index_that_evicts_takes_no_more_than_max_memory", || fill("[exact,simhash]"));
}

#[test]
fn an_index_of_sketches_that_evicts_takes_no_more_than_max_memory() {
    measure_alone("an_index_of_sketches_that_evicts_takes_no_more_than_max_memory", || fill("[exact,simhash,minhash]"));
}
