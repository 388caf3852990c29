//! `replay plan`: what would be judged, how long it takes, and warnings.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use dupgate_core::replay::{Counts, Order, Plan, Reads, Target};
use serde_json::json;

use super::{Both, PlanArgs, RangeArgs};
use crate::cli::output::{self, NamedRows, counted, print_report};
use crate::cli::{Global, note};
use crate::clock::{random_id, wall_time};
use crate::config::ByteSize;
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::record::PartitionId;
use crate::replay::{Draft, RangeBound, Sample, Store, Wanted, estimate, make};
use crate::telemetry::Metrics;

/// Creates a plan, prints it, and writes it to a file.
pub(super) fn plan(args: &PlanArgs, global: &Global) -> Result<(), Fatal> {
    let both = super::read(global, None)?;
    let store = Store::open(&both.live)?;
    let draft = draft(&store, &both, &args.range)?;
    let file = write(&draft.plan, args.plan_out.as_deref())?;
    let sample = if args.no_sample { None } else { sample(&draft.plan, &both)? };
    show(&draft.plan, sample, global)?;
    note(&format!("written to {}; run it by `{}`", file.display(), command_of(&file, global)));
    Ok(())
}

/// Writes a plan to the named file, or to a new one.
fn write(plan: &Plan, named: Option<&Path>) -> Result<PathBuf, Fatal> {
    let file = named.map_or_else(|| format!("replay-{}.json", plan.id).into(), Path::to_owned);
    let opened = if named.is_some() { File::create(&file) } else { File::create_new(&file) };
    let written = opened.and_then(|mut opened| opened.write_all(plan.text().as_bytes()));
    written.map_err(|error| {
        let (reason, why) = if error.kind() == ErrorKind::AlreadyExists {
            (Reason::Usage, "it exists; name a file by --plan-out, or choose another --id".to_owned())
        } else {
            (Reason::State, error.to_string())
        };
        reason.because(anyhow::anyhow!("the plan is not written to {}: {why}", file.display()))
    })?;
    Ok(file)
}

/// Checks that no replay with this id was started, if it is to write anything: a replay with `--into none` leaves nothing.
pub(super) fn expect_new(store: &Store, id: &str, into: Target) -> Result<(), Fatal> {
    if into.writes() { store.expect_new(id) } else { Ok(()) }
}

/// Returns the command that runs a plan, with the configuration files that were named here.
fn command_of(file: &Path, global: &Global) -> String {
    format!("dupgate replay run {}{} --execute", file.display(), global.given_files())
}

/// Creates a plan of what the command line requests.
pub(super) fn draft(store: &Store, both: &Both, args: &RangeArgs) -> Result<Draft, Fatal> {
    let ranges = args.offsets_file.as_deref().map(read_ranges).transpose()?.unwrap_or_default();
    let is_named = !ranges.is_empty() || !args.from_files.is_empty();
    let Some(from) = args.from.or_else(|| is_named.then_some(RangeBound::Start)) else {
        return Err(fatal!(
            Usage,
            "where does the range begin? Give --from, such as --from -48h or --from start, or --from-files"
        ));
    };
    let id = args.id.as_deref().map_or_else(|| Ok(new_id()), checked)?;
    let into = args.into;
    if both.tried.len() > 1 && into != Target::None {
        return Err(fatal!(Usage, "several values of a setting are judged in one pass with --into none only"));
    }
    if into == Target::Live && !args.from_files.is_empty() {
        return Err(fatal!(
            Usage,
            "pages of files have no live verdict to differ from, so --into live does not know which to write: --into shadow \
             writes them to topics of the replay"
        ));
    }
    if args.from_fingerprints && (into != Target::None || args.order == Some(Order::Time)) {
        let why = "--from-fingerprints judges in the order of the log and writes nothing: it needs --into none";
        return Err(fatal!(Usage, why));
    }
    let reads = if args.from_fingerprints { Reads::Fingerprints } else { Reads::Pages };
    expect_new(store, &id, into)?;
    let needs_log = into == Target::Live || reads == Reads::Fingerprints;
    let partitions = args.partitions.as_deref().map(numbers).transpose()?.unwrap_or_default();
    let wanted = Wanted {
        id,
        from,
        to: args.to.unwrap_or(RangeBound::End),
        partitions,
        files: args.from_files.clone(),
        ranges,
        warm: args.warm,
        order: args.order.or_else(|| needs_log.then_some(Order::Log)),
        reads,
        into,
        max_records: args.max_records,
        set: both.set.clone(),
    };
    if wanted.into == Target::Live && wanted.order != Some(Order::Log) {
        return Err(fatal!(Usage, "--into live compares with the live verdicts: it needs --order log"));
    }
    make(store, &both.live, &both.tried, wanted)
}

/// Reads a sample of the range. Fingerprints are judged too fast for an estimate to be worth it.
pub(super) fn sample(plan: &Plan, both: &Both) -> Result<Option<Sample>, Fatal> {
    if plan.reads == Reads::Fingerprints {
        return Ok(None);
    }
    let settings = both.tried.first().unwrap_or(&both.live);
    let metrics = Metrics::new(&settings.metrics).or_fatal(Reason::Bug)?;
    estimate(plan, settings, &metrics).map(Some)
}

/// Prints a plan, and how long it takes at the rate of a sample.
pub(super) fn show(plan: &Plan, sample: Option<Sample>, global: &Global) -> Result<(), Fatal> {
    let rate = sample.map(Rate::of).filter(|rate| rate.pages > 0.0);
    let estimate = rate.map(|rate| {
        let [pages, bytes, seconds] = [rate.pages, rate.page_bytes, rate.seconds(plan)].map(round);
        json!({"pages_per_second": pages, "bytes_per_page": bytes, "seconds": seconds})
    });
    let report = json!({"plan": plan, "estimate": estimate});
    print_report(global.format(), &report, || text(plan, rate))
}

fn text(plan: &Plan, rate: Option<Rate>) -> String {
    let mut rows = NamedRows::default();
    rows.add("input", input(plan, rate));
    if plan.warm_up_records > 0 {
        let records = output::count(plan.warm_up_records);
        rows.add("warm-up", format!("{records} records before the range, judged and not produced"));
    }
    rows.add("order", order(plan));
    rows.add("settings", tried(plan));
    rows.add("output", output(plan));
    if plan.into.writes() {
        rows.add("group", format!("{}; `{}` is not touched", plan.own_group(), plan.group));
    }
    if let Some(rate) = rate {
        let time = output::span(std::time::Duration::from_secs_f64(rate.seconds(plan).min(1e9)));
        let pages = output::count(round(rate.pages));
        rows.add("estimate", format!("{time} at {pages} pages a second, measured on a sample"));
    }
    disk(plan, rate).into_iter().for_each(|disk| rows.add("disk", disk));
    plan.warnings.iter().for_each(|warning| rows.add("warning", warning));
    rows.below(&format!("replay {}", plan.id))
}

/// How fast a sample was read.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// Pages per second.
    pages: f64,
    /// Bytes of one page.
    page_bytes: f64,
    /// Progress in the plan per second: records of topics, bytes of files.
    done: f64,
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
impl Rate {
    fn of(sample: Sample) -> Self {
        let (pages, bytes, done) = (sample.pages as f64, sample.bytes as f64, sample.done as f64);
        let seconds = sample.elapsed.as_secs_f64().max(0.001);
        Self { pages: pages / seconds, page_bytes: bytes / pages.max(1.0), done: done / seconds }
    }

    fn seconds(self, plan: &Plan) -> f64 {
        let (_, of) = plan.done(&Counts::default(), None);
        of as f64 / self.done.max(f64::MIN_POSITIVE)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate, never negative")]
fn round(number: f64) -> u64 {
    number.round().max(0.0) as u64
}

fn input(plan: &Plan, rate: Option<Rate>) -> String {
    if let Some(first) = plan.files.first() {
        let more = if let [_, .., last] = plan.files.as_slice() { format!(" to {}", last.path) } else { String::new() };
        let count = plan.files.len();
        let files = format!("{} file{}", output::count(count as u64), if count == 1 { "" } else { "s" });
        let size = rounded(plan.file_bytes());
        return format!("{}{more}: {files} of {size}", first.path);
    }
    let what = match plan.reads {
        Reads::Pages => "records",
        Reads::Fingerprints => "records, by their fingerprints in the live log",
    };
    let mut topics: BTreeMap<&str, usize> = BTreeMap::new();
    plan.input.iter().for_each(|range| *topics.entry(&range.topic).or_default() += 1);
    let topics: Vec<String> =
        topics.into_iter().map(|(topic, count)| format!("{topic} ({})", counted(count, "partition"))).collect();
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let size = rate
        .map(|rate| format!(", about {}", rounded(round(rate.page_bytes * plan.records as f64))))
        .unwrap_or_default();
    format!("{}: {} {what}{size}", topics.join(", "), output::count(plan.records))
}

/// A size in its largest unit: rounded.
fn rounded(bytes: u64) -> ByteSize {
    let unit = [40, 30, 20, 10].map(|bits| 1_u64 << bits).into_iter().find(|unit| bytes / 2 >= *unit).unwrap_or(1);
    ByteSize(bytes / unit * unit)
}

/// Disk space of the replay's topics on the brokers, before they are compressed.
fn disk(plan: &Plan, rate: Option<Rate>) -> Option<String> {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let bytes = if plan.is_of_files() {
        plan.file_bytes()
    } else {
        rate.map_or(0, |rate| round(rate.page_bytes * plan.records as f64))
    };
    space(plan.replication_factor, bytes)
}

/// Disk space of outputs of this size with this replication factor; a size of 0 is not known.
fn space(replication_factor: u32, bytes: u64) -> Option<String> {
    if replication_factor == 0 {
        return None;
    }
    let kept = if bytes == 0 {
        "the brokers keep the outputs".to_owned()
    } else {
        format!("up to {} on the brokers", rounded(bytes.saturating_mul(u64::from(replication_factor))))
    };
    Some(format!("{kept} until `replay clean`: replication factor {replication_factor}"))
}

fn order(plan: &Plan) -> String {
    match (plan.order, plan.is_what_if()) {
        (Order::Log, false) => "that of the live verdict log: the verdicts are the live ones".to_owned(),
        (Order::Log, true) => "that of the live verdict log".to_owned(),
        (Order::Time, _) => "by event time".to_owned(),
        (Order::Files, _) => "that of the files and their lines".to_owned(),
    }
}

fn tried(plan: &Plan) -> String {
    let scheme = if plan.scheme == plan.live_scheme {
        "the scheme is the live one".to_owned()
    } else {
        format!("another scheme: {} -> {}", plan.live_scheme, plan.scheme)
    };
    if plan.set.is_empty() { "the live ones".to_owned() } else { format!("{} ({scheme})", plan.set.join(" ")) }
}

fn output(plan: &Plan) -> String {
    let topics: Vec<&str> = plan.output.topics().map(String::as_str).collect();
    match plan.into {
        Target::Shadow => format!("{} (created, kept until `replay clean`)", topics.join(", ")),
        Target::Verdicts => format!("{} (verdicts only)", plan.own_verdicts()),
        Target::Live => format!("the live topics {}: only pages whose verdict differs", topics.join(", ")),
        Target::None => "none: the report only".to_owned(),
    }
}

fn new_id() -> String {
    let date = jiff::Timestamp::from_millisecond(wall_time().millis()).map(|now| now.strftime("%Y%m%d").to_string());
    format!("{}-{:04x}", date.unwrap_or_default(), random_id() & 0xffff)
}

fn checked(id: &str) -> Result<String, Fatal> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !id.is_empty() && id.len() <= 32 && id.chars().all(is_plain) {
        return Ok(id.to_owned());
    }
    Err(fatal!(
        Usage,
        "`{id}` cannot name a replay: expected up to 32 of a-z, 0-9 and -, because topics are named by it"
    ))
}

/// Parses `0,3-5`.
fn numbers(text: &str) -> Result<BTreeSet<i32>, Fatal> {
    let refuse = || fatal!(Usage, "`{text}` lists no partitions: expected a list such as 0,3-5");
    let mut found = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<i32>().ok().filter(|number| (0..100_000).contains(number));
        let (Some(first), Some(last)) = (number(first), number(last)) else { return Err(refuse()) };
        if first > last {
            return Err(refuse());
        }
        found.extend(first..=last);
    }
    Ok(found)
}

/// Reads lines of `topic,partition,from,to`; lines that begin with # are comments.
fn read_ranges(path: &Path) -> Result<BTreeMap<PartitionId, Range<i64>>, Fatal> {
    let unreadable = |why: String| fatal!(Input, "{}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let mut ranges = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let range = match fields.as_slice() {
            [topic, partition, from, to] => (|| {
                let range = from.parse::<i64>().ok()?..to.parse::<i64>().ok()?;
                let is_range = range.start >= 0 && !range.is_empty() && !topic.is_empty();
                is_range.then_some((PartitionId::new(*topic, partition.parse().ok()?), range))
            })(),
            _ => None,
        };
        let Some((partition, range)) = range else {
            return Err(unreadable(format!(
                "line {}: `{line}` is not a range: expected topic,partition,from,to",
                number + 1
            )));
        };
        if ranges.contains_key(&partition) {
            return Err(unreadable(format!("line {}: a second range of {partition}: expected one each", number + 1)));
        }
        ranges.insert(partition, range);
    }
    if ranges.is_empty() { Err(unreadable("holds no range".to_owned())) } else { Ok(ranges) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_runs_a_plan_reads_the_files_that_were_named() {
        let global = Global { config: ["a.yaml", "b.yaml"].map(PathBuf::from).to_vec(), ..Global::default() };
        let command = command_of(Path::new("plan.json"), &global);
        assert_eq!(command, "dupgate replay run plan.json -c a.yaml -c b.yaml --execute");
        assert_eq!(command_of(Path::new("p.json"), &Global::default()), "dupgate replay run p.json --execute");
    }

    #[test]
    fn the_space_on_the_brokers_names_the_replication_factor() {
        assert_eq!(space(0, 0), None);
        assert_eq!(
            space(1, 42 << 20).as_deref(),
            Some("up to 42MiB on the brokers until `replay clean`: replication factor 1")
        );
        assert_eq!(
            space(3, 0).as_deref(),
            Some("the brokers keep the outputs until `replay clean`: replication factor 3")
        );
    }

    #[test]
    fn partitions_are_numbers_and_ranges() {
        assert_eq!(numbers("0,3-5").unwrap(), [0, 3, 4, 5].into());
        for text in ["", "a", "5-3", "-1", "1-", "999999999"] {
            assert!(numbers(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_are_read_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ranges.csv");
        std::fs::write(&path, "# topic,partition,from,to\npages,0,5,9\n\npages, 3, 0, 7\n").unwrap();
        let ranges = read_ranges(&path).unwrap();
        assert_eq!(ranges[&PartitionId::new("pages", 0)], 5..9);
        assert_eq!(ranges[&PartitionId::new("pages", 3)], 0..7);
        for text in ["", "pages,0,9,5", "pages,x,5,9", "pages,0,5", ",0,5,9"] {
            std::fs::write(&path, text).unwrap();
            assert!(read_ranges(&path).is_err(), "{text}");
        }
    }

    #[test]
    fn a_replay_name_has_only_characters_of_topic_names() {
        assert!(checked(&new_id()).is_ok());
        for id in ["", "A", "a.b", "a/b", &"x".repeat(33)] {
            assert!(checked(id).is_err(), "{id}");
        }
    }

    #[test]
    fn sizes_are_shown_in_their_largest_unit() {
        assert_eq!([900, 5000, 3 << 20].map(|bytes| rounded(bytes).to_string()), ["900B", "4KiB", "3MiB"]);
    }
}
