//! A change of the scheme under load: `index warm` fills the new index beside the running service, and no duplicates
//! are missed.
#![expect(clippy::disallowed_methods, reason = "the load has a steady rate")]

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dupgate::crawl::{Crawl, CrawlSettings, Planted, Truth};
use dupgate::record::Source;
use serde_json::{Value, json};

use crate::accounting::{Ledger, Outcome, OutputKind, originals_are_delivered};
use crate::broker::{Broker, wait};
use crate::cluster::records::{Page, PageProducer, TopicReader};
use crate::cluster::{Cluster, Shape};
use crate::several_instances::Team;

pub(crate) const PARTITIONS: i32 = 3;

/// Maximum number of pages between an original and its copy.
const REACH: u64 = 1_200;

/// Pages in the input when the load begins.
const BACKLOG: u64 = 1_500;

/// Time between two pages of the load.
const BEAT: Duration = Duration::from_millis(3);

/// Pages that the new instances judge before the end, with and without the warm-up.
const AFTER: [u64; 2] = [1_000, 500];

/// Pages on both sides of the first one under the new scheme that count as during the change.
const DURING: u64 = 500;

/// The seed of the new scheme: fingerprints of the two schemes are unrelated.
const SEED: &str = "another secret for the hashes of words";

fn pages() -> Crawl {
    let settings = CrawlSettings {
        seed: 23,
        html: 0.0,
        exact: 0.35,
        near: 0.05,
        topics: 1,
        bytes: 200..=900,
        reach: REACH,
        ..CrawlSettings::default()
    };
    Crawl::new(settings).unwrap()
}

/// Writes a page to its partition.
pub(crate) fn write(producer: &PageProducer, topic: &str, planted: Planted) {
    let partition = i32::try_from(planted.number % PARTITIONS as u64).unwrap();
    let (value, timestamp) = (Some(planted.value), Some(planted.timestamp.millis()));
    producer.write(topic, partition, &Page { key: planted.key, value, timestamp, ..Page::default() });
}

/// Writes pages at a steady rate until it is stopped.
struct Load {
    written: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Load {
    fn start(broker: &Broker, topic: &str) -> Self {
        let (written, stop): (Arc<AtomicU64>, Arc<AtomicBool>) = Default::default();
        let (producer, topic, counted, stopped) =
            (PageProducer::new(broker), topic.to_owned(), written.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut begun = None;
            for planted in pages() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let number = planted.number;
                write(&producer, &topic, planted);
                counted.store(number + 1, Ordering::Relaxed);
                if let Some(since) = number.checked_sub(BACKLOG) {
                    let due = *begun.get_or_insert_with(Instant::now) + BEAT * u32::try_from(since).unwrap();
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
            }
            producer.flush();
        });
        Self { written, stop, thread }
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.written.load(Ordering::Relaxed)
    }
}

/// `dupgate index warm` beside the service.
struct Warm {
    child: Child,
    log_path: std::path::PathBuf,
    ended: bool,
}

impl Warm {
    /// Runs it until it has caught up, and returns its report.
    fn once(cluster: &Cluster<'_>) -> Value {
        let mut warm = Self::start(cluster, &["--once"]);
        let status = wait::until("the warm-up to catch up", || warm.child.try_wait().unwrap());
        warm.ended = true;
        assert!(status.success(), "{status}: {}", warm.log());
        warm.report()
    }

    fn start(cluster: &Cluster<'_>, more: &[&str]) -> Self {
        let log_path = cluster.disk("warm").with_extension("log");
        let set = format!("match.seed={SEED}");
        // The configuration of the running service, with the new settings on top.
        let running = cluster.disk("none").with_file_name("operator.yaml");
        let running = running.to_str().unwrap();
        let arguments = ["index", "warm", "--running", running, "--execute", "-s", &set, "-o", "json"];
        let mut command = cluster.command(&[&arguments[..], more].concat());
        let file = File::create(&log_path).unwrap();
        let (out, err) = (file.try_clone().unwrap(), file);
        Self { child: command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap(), log_path, ended: false }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log_path).unwrap()
    }

    /// Waits until its log has these words more than `times` times.
    fn wait_for(&mut self, words: &str, times: usize) {
        wait::until(words, || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended with {ended:?}: {}", self.log());
            (self.log().matches(words).count() > times).then_some(())
        });
    }

    /// Sends SIGTERM; returns the report.
    fn stop(mut self) -> Value {
        let id = self.child.id().to_string();
        assert!(std::process::Command::new("kill").arg("-TERM").arg(id).status().unwrap().success());
        let status = wait::until("the warm-up to end", || self.child.try_wait().unwrap());
        self.ended = true;
        assert!(status.success(), "{status}: {}", self.log());
        self.report()
    }

    fn report(&self) -> Value {
        let log = self.log();
        let report = log.find("\n{\n").unwrap_or_else(|| panic!("no report: {log}"));
        serde_json::from_str(log[report..].trim()).unwrap_or_else(|why| panic!("{why}: {log}"))
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Copies that were found, and planted ones, before, during and after the change.
#[derive(Debug, Default)]
struct Found([(u32, u32); 3]);

impl Found {
    fn note(&mut self, part: usize, is_found: bool) {
        self.0[part].0 += u32::from(is_found);
        self.0[part].1 += 1;
    }

    /// In percent.
    fn shares(&self) -> [f64; 3] {
        self.0.map(|(found, planted)| 100.0 * f64::from(found) / f64::from(planted.max(1)))
    }
}

/// Runs the change of the scheme, and counts the found duplicates.
fn change(broker: &Broker, is_warmed: bool) -> Found {
    let shape =
        Shape { topics: 1, partitions: PARTITIONS, input_settings: &[], output_settings: &[], config: json!({}) };
    let cluster = Cluster::new(broker, shape);
    let mut old = Team::new(&cluster);
    old.join_as("old", json!({}));
    old.wait_ready();
    let load = Load::start(broker, &cluster.inputs()[0]);
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    old.deliver(&mut out, usize::try_from(BACKLOG + REACH / 2).unwrap());
    // It may be ended and started again: the second run does not repeat the requests of the first.
    let once = is_warmed.then(|| Warm::once(&cluster));
    let mut warm = is_warmed.then(|| Warm::start(&cluster, &[]));
    if let Some(warm) = &mut warm {
        warm.wait_for("caught up, and follows", 0);
    }
    let quiet = warm.as_ref().map_or(0, |warm| warm.log().matches("nothing new is judged, and").count());
    old.disband();
    if let Some(warm) = &mut warm {
        warm.wait_for("nothing new is judged, and", quiet);
    }
    let mut new = Team::new(&cluster);
    new.join_as("new", json!({ "match": { "seed": SEED } }));
    new.wait_ready();
    if let Some(warm) = warm {
        let report = warm.stop();
        eprintln!("{once:?}, then {report}");
        let requested = once.and_then(|once| once["asked"].as_u64()).unwrap();
        // Its last requests may not be judged yet.
        let known = report["known"].as_u64().unwrap();
        assert!(
            requested > 500 && known <= requested && known * 10 > requested * 9,
            "{requested} asked, {known} known"
        );
        assert_eq!((&report["caught_up"], &report["waiting"], &report["gone"]), (&json!(true), &json!(0), &json!(0)));
    }
    let enough = load.written() + AFTER[usize::from(!is_warmed)];
    new.deliver(&mut out, usize::try_from(enough).unwrap());
    let written = load.end();
    new.deliver(&mut out, usize::try_from(written).unwrap());
    new.disband();

    // Nothing is lost, nothing arrives twice, and every duplicate points to a page in the unique topic.
    let ledger = Ledger::read(&cluster);
    let outcomes = ledger.outcomes(1).unwrap();
    originals_are_delivered(&outcomes).unwrap();
    let schemes = schemes(&cluster);
    assert_eq!(schemes.len(), 2, "{schemes:?}");
    let first = schemes.values().map(|numbers| numbers.start).max().unwrap();
    eprintln!("{written} pages, schemes {schemes:?}");
    let output_kinds = output_kinds(&ledger, &outcomes);
    let crawl = pages();
    let mut found = Found::default();
    for (&at, &output_kind) in &output_kinds {
        let planted = crawl.page(at);
        assert_eq!(output_kind == OutputKind::Dead, matches!(planted.truth, Truth::Broken { .. }), "{at}");
        let Some(original) = planted.truth.original().filter(|_| at >= REACH) else { continue };
        let part = if at + DURING < first { 0 } else { 1 + usize::from(at >= first + DURING) };
        // Partitions are read in parallel: if the copy comes first, its original is the duplicate.
        let is_swapped = output_kinds[&number(Some(original.as_bytes()))] == OutputKind::Duplicate;
        found.note(part, output_kind == OutputKind::Duplicate || is_swapped);
    }
    found
}

/// Where each page went, by its number.
pub(crate) fn output_kinds(ledger: &Ledger, outcomes: &BTreeMap<Source, Outcome>) -> BTreeMap<u64, OutputKind> {
    let of =
        |(source, outcome): (&Source, &Outcome)| (number(ledger.inputs[source].key.as_deref()), outcome.output_kind);
    outcomes.iter().map(of).collect()
}

/// The pages judged under each scheme, from the first to the last.
pub(crate) fn schemes(cluster: &Cluster<'_>) -> BTreeMap<String, Range<u64>> {
    let mut schemes: BTreeMap<String, Range<u64>> = BTreeMap::new();
    for record in TopicReader::open(cluster.broker(), &[cluster.unique(), cluster.duplicate()]).read_to_end() {
        let number = number(record.key.as_deref());
        let scheme = record.header("dupgate.scheme").unwrap().to_owned();
        let range = schemes.entry(scheme).or_insert(number..number + 1);
        *range = range.start.min(number)..range.end.max(number + 1);
    }
    schemes
}

pub(crate) fn number(key: Option<&[u8]>) -> u64 {
    let key = std::str::from_utf8(key.unwrap()).unwrap();
    key.rsplit('/').next().unwrap().parse().unwrap()
}

#[test]
fn a_change_of_the_scheme_misses_no_duplicates_after_index_warm() {
    let _turn = crate::half_turn();
    let Some(broker) = Broker::shared() else { return };
    let warm = change(broker, true);
    let [before, during, after] = warm.shares();
    eprintln!("with index warm: {before:.1} % before, {during:.1} % during, {after:.1} % after ({warm:?})");
    assert!(warm.0.iter().all(|(_, planted)| *planted > 150), "too few to prove anything: {warm:?}");
    assert!(before > 95.0, "{before}");
    assert!(during >= before - 1.0 && after >= before - 1.0, "{before} {during} {after}");

    let cold = change(broker, false);
    let [before, during, after] = cold.shares();
    eprintln!("without: {before:.1} % before, {during:.1} % during, {after:.1} % after ({cold:?})");
    assert!(during.min(after) < before - 10.0, "without it there is a dip: {before} {during} {after}");
}
