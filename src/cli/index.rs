//! `index`: shows what the judge remembers, from its snapshot and the verdict log, and fills the index of a new scheme.

mod verify;
mod warm;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::time::Duration;

use clap::{Args, Subcommand};
use dupgate_core::judge::Snapshot;
use dupgate_index::{Plan, PlanCandidate, PlanRequirements};
use serde_json::{Value, json};

use super::Global;
use super::instance::{Instance, Listener, in_query};
use super::operator_requests::{SetTimeArgs, operator_requests, set_time};
use super::output::{
    self, Format, columns, expected, member, print, print_each, print_json, print_list, print_report, table,
};
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::fingerprint::{SimHash, Width, id_hash};
use crate::index::{CODE_TABLES_BYTES, Original};
use crate::operators::state_summary::{self, StateSummary};
use crate::operators::verdicts::{LogExtent, read};
use crate::protocol::{
    Answer, Decision, ForgetTarget, LogIdentity, LogPartition, Placement, RequestBody, Rules, RulesRecord,
    VerdictRecord,
};
use crate::record::Source;
use crate::snapshot::Folder;

/// What to do with the index.
#[derive(Clone, Debug, Subcommand)]
pub enum IndexCommand {
    /// Show what the newest snapshot or a running instance holds
    #[command(
        after_help = "Examples:\n  dupgate index stats -c dupgate.yaml -o json\n  dupgate index stats --running -c dupgate.yaml"
    )]
    Stats(Instance),
    /// Find originals by position, id or fingerprint, in the newest snapshot or a running instance
    #[command(
        after_help = "Examples:\n  dupgate index lookup --fp 9f3c2a10e4b7d855 --distance 4 -c dupgate.yaml\n  dupgate index lookup --id https://a.example/1 --running=10.0.0.7:9465 -c dupgate.yaml"
    )]
    Lookup(LookupArgs),
    /// List the originals with the most duplicates in the verdict log
    #[command(after_help = "Example:\n  dupgate index top -n 5 -c dupgate.yaml")]
    Top {
        /// Number of clusters
        #[arg(short, long, value_name = "NUMBER", default_value_t = 20)]
        number: usize,
    },
    /// Judge the fingerprint log again under its own rules and compare with the verdict log and the newest snapshot
    #[command(
        after_help = "Example:\n  dupgate index verify -c dupgate.yaml\n\nIt only reads, and may run beside the service. Exits with code 1 if anything differs."
    )]
    Verify,
    /// Show the possible table layouts of the index and the one it would choose
    #[command(
        after_help = "Example:\n  dupgate index plan --entries 10000000 --max-distance 3\n\nA judge begins with the plan for uniform codes; when it restores a snapshot it takes the codes in it for a sample."
    )]
    Plan(PlanArgs),
    /// Fill the index of a new scheme from the input, beside the running service; without --execute, only show it
    #[command(
        after_help = "Examples:\n  dupgate index warm -c new.yaml --running old.yaml\n  dupgate index warm -c new.yaml --running old.yaml --rate 5000/s --execute\n\nIt follows the running service until it is stopped, and prints when to stop the old instances and start the new ones."
    )]
    Warm(warm::WarmArgs),
    /// Forget an original (a takedown, a block page): no later page matches it
    #[command(after_help = "Example:\n  dupgate index forget --id https://a.example/1 -c dupgate.yaml --execute")]
    Forget(ForgetArgs),
    /// Set the stream time back, after a clock that was ahead has moved it; without --execute, only show it
    #[command(
        after_help = "Examples:\n  dupgate index set-time now -c dupgate.yaml\n  dupgate index set-time 2026-09-01T00:00:00Z -c dupgate.yaml --execute\n\nOriginals that have expired stay gone. Pages from that time on are remembered again."
    )]
    SetTime(SetTimeArgs),
}

/// Arguments of `index lookup`. At least one is required.
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["source", "id", "fp"])))]
pub struct LookupArgs {
    /// Original at this position: topic:partition:offset
    #[arg(long, value_name = "SOURCE")]
    pub source: Vec<Source>,
    /// Originals with this id
    #[arg(long, value_name = "ID")]
    pub id: Vec<String>,
    /// Originals near this fingerprint: 8, 16 or 32 hexadecimal digits
    #[arg(long, value_name = "HEX")]
    pub fp: Option<SimHash>,
    /// Largest number of differing bits [default: as configured]
    #[arg(long, value_name = "BITS", requires = "fp", value_parser = clap::value_parser!(u32).range(0..=128))]
    pub distance: Option<u32>,
    /// The running instance to ask.
    #[command(flatten)]
    pub instance: Instance,
}

/// Arguments of `index forget`. At least one is required.
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["source", "id"])))]
pub struct ForgetArgs {
    /// Original at this position: topic:partition:offset
    #[arg(long, value_name = "SOURCE")]
    pub source: Vec<Source>,
    /// Originals with this id
    #[arg(long, value_name = "ID")]
    pub id: Vec<String>,
    /// Apply the change; without it, only print what would be done
    #[arg(long)]
    pub execute: bool,
}

/// Runs the command.
///
/// # Errors
///
/// Any failure of the command.
pub fn index(command: &IndexCommand, global: &Global) -> Result<(), Fatal> {
    match command {
        IndexCommand::Stats(instance) => stats(instance, global),
        IndexCommand::Lookup(args) => lookup(args, global),
        IndexCommand::Top { number } => top(*number, global),
        IndexCommand::Verify => verify::verify(global),
        IndexCommand::Plan(args) => plan(args, global),
        IndexCommand::Warm(args) => warm::warm(args, global),
        IndexCommand::Forget(args) => {
            let sources = args.source.iter().cloned().map(ForgetTarget::Source);
            let ids = args.id.iter().map(|id| ForgetTarget::Id(id_hash(id)));
            operator_requests(global, &sources.chain(ids).map(RequestBody::Forget).collect::<Vec<_>>(), args.execute)
        }
        IndexCommand::SetTime(args) => set_time(args, global),
    }
}

/// Loads the newest snapshot of each log partition that this instance serves. Fails if there is none at all.
fn snapshots(settings: &Settings) -> Result<Vec<(LogPartition, Snapshot)>, Fatal> {
    let found = snapshots_at_hand(settings)?;
    if found.is_empty() {
        let path = settings.index.path.display();
        let why = if settings.index.path.exists() { "" } else { ": there is no such folder" };
        let interval = output::span(settings.index.snapshot_interval);
        let scheme = settings.scheme();
        return Err(fatal!(
            State,
            "no snapshot of scheme {scheme} in {path}{why} (a judge writes one every {interval} and at its end)"
        ));
    }
    Ok(found)
}

/// Loads the newest snapshot of each log partition that this instance serves, if there is one.
pub(super) fn snapshots_at_hand(settings: &Settings) -> Result<Vec<(LogPartition, Snapshot)>, Fatal> {
    let folder = Folder::look(&settings.index.path);
    let scheme = settings.scheme();
    let mut found = Vec::new();
    for log in settings.judge.served_partitions.iter().copied().map(LogPartition) {
        let newest = folder.load(&log.to_string(), &scheme);
        let newest = newest.or_fatal(Reason::State)?;
        for discarded in &newest.discarded {
            super::note(&format!("warning: {discarded}: {}", discarded.why));
        }
        found.extend(newest.found.map(|snapshot| (log, snapshot)));
    }
    Ok(found)
}

fn stats(instance: &Instance, global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Sieve)?.settings;
    let found = match instance.of(&settings)? {
        Some(running) => running.list("index/stats")?,
        None => snapshots(&settings)?
            .iter()
            .map(|(log, snapshot)| StateSummary::by_snapshot(*log, snapshot).json())
            .collect(),
    };
    let text = |summary: &Value| columns(&summary.as_object().into_iter().flatten().map(in_words).collect::<Vec<_>>());
    print_each(global.format(), &found, text, Value::clone)
}

/// Returns one value as a row for people, with the unit in which its name ends.
fn in_words((name, value): (&String, &Value)) -> [String; 2] {
    let number = value.as_u64();
    let (name, text) = match (name.strip_suffix("_seconds"), number) {
        (Some(stem), Some(seconds)) => (stem, output::span(Duration::from_secs(seconds))),
        (_, Some(number)) if COUNTS.contains(&name.as_str()) => (name.as_str(), output::count(number)),
        _ => (name.as_str(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
    };
    [name.replace('_', " "), text]
}

/// Values that are counts without a unit.
const COUNTS: [&str; 4] = ["originals", "max_entries", "memory_bytes", "input_partitions"];

/// Asks a running instance, once for each search term.
fn running_lookup(args: &LookupArgs, running: &Listener) -> Result<Vec<Value>, Fatal> {
    let distance = args.distance.map(|bits| format!("&distance={bits}")).unwrap_or_default();
    let codes = args.fp.iter().map(|code| format!("fp={code}{distance}"));
    let sources = args.source.iter().map(|source| format!("source={}", in_query(&source.to_string())));
    let ids = args.id.iter().map(|id| format!("id={}", in_query(id)));
    let mut found: Vec<Value> = Vec::new();
    for query in codes.chain(sources).chain(ids) {
        for original in running.list(&format!("index/lookup?{query}"))? {
            if !found.iter().any(|known| known.get("source") == original.get("source")) {
                found.push(original);
            }
        }
    }
    Ok(found)
}

fn snapshot_lookup(args: &LookupArgs, settings: &Settings) -> Result<Vec<Value>, Fatal> {
    let ids: Vec<_> = args.id.iter().map(|id| id_hash(id)).collect();
    let limit = args.distance.unwrap_or_else(|| u32::from(settings.rules.max_distance));
    let distance = |original: &Original| args.fp?.distance(original.fingerprints.simhash?);
    let is_wanted = |original: &Original| {
        args.source.contains(&original.source)
            || original.id.is_some_and(|id| ids.contains(&id))
            || distance(original).is_some_and(|distance| distance <= limit)
    };
    let snapshots = snapshots(settings)?;
    let mut found: Vec<&Original> =
        snapshots.iter().flat_map(|(_, snapshot)| &snapshot.originals).filter(|original| is_wanted(original)).collect();
    found.sort_by_key(|original| (distance(original), original.sequence));
    Ok(found.into_iter().map(|found| state_summary::original(found, distance(found))).collect())
}

fn lookup(args: &LookupArgs, global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Sieve)?.settings;
    if let Some(code) = args.fp {
        let checked = settings.fingerprint.simhash.check(code);
        checked.map_err(|wrong| fatal!(Usage, "--fp {code} {wrong}"))?;
    }
    let (found, place) = match args.instance.of(&settings)? {
        Some(running) => (running_lookup(args, &running)?, "running instance"),
        None => (snapshot_lookup(args, &settings)?, "newest snapshot"),
    };
    if found.is_empty() {
        return Err(fatal!(Failure, "no such original in the {place}"));
    }
    let row = |original: &Value| {
        let distance = original["distance"].as_u64().map_or_else(|| "-".to_owned(), |bits| bits.to_string());
        [distance, member(original, "source"), member(original, "fp"), member(original, "cluster")]
    };
    let heads = ["DISTANCE", "ORIGINAL", "FINGERPRINT", "CLUSTER"];
    print_list(global.format(), &heads, &found, row, Value::clone)
}

/// Arguments of `index plan`. Defaults come from the configuration.
#[derive(Clone, Debug, Default, Args)]
pub struct PlanArgs {
    /// Width of the fingerprints: 32, 64 or 128 bits
    #[arg(long, value_name = "BITS", value_parser = width)]
    pub bits: Option<Width>,
    /// Largest Hamming distance, 0 to 8
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(0..=8))]
    pub max_distance: Option<u8>,
    /// Number of originals to hold
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub entries: Option<u64>,
    /// Memory per original that the tables may take
    #[arg(long, value_name = "BYTES", default_value_t = CODE_TABLES_BYTES)]
    pub bytes: f64,
    /// File of fingerprints, one per line in hexadecimal, to measure how often keys collide
    #[arg(long, value_name = "FILE")]
    pub sample: Option<std::path::PathBuf>,
}

/// Prints every plan that covers the distance, its cost, and the one that would be used.
fn plan(args: &PlanArgs, global: &Global) -> Result<(), Fatal> {
    let (width, max_distance, entries) = match (args.bits, args.max_distance, args.entries) {
        (Some(width), Some(max_distance), Some(entries)) => (width, max_distance, entries),
        (width, max_distance, entries) => {
            let Settings { rules, fingerprint, .. } = global.start(Purpose::Sieve)?.settings;
            let width = width.unwrap_or(fingerprint.simhash.bits);
            (width, max_distance.unwrap_or(rules.max_distance), entries.unwrap_or(rules.max_entries))
        }
    };
    let sample = args.sample.as_deref().map(|path| read_codes(path, width)).transpose()?.unwrap_or_default();
    let requirements = PlanRequirements { width, max_distance, entries, bytes_per_entry: args.bytes, sample: &sample };
    let format = global.report_format();
    print_report(format, &as_json(&requirements), || layouts(&requirements).trim_end().to_owned())
}

fn width(text: &str) -> Result<Width, String> {
    let width = text.parse().ok().and_then(Width::of_bits);
    width.ok_or_else(|| format!("`{text}` is not a width of a SimHash: expected 32, 64 or 128"))
}

fn read_codes(path: &std::path::Path, width: Width) -> Result<Vec<u128>, Fatal> {
    let refuse = |why: String| fatal!(Usage, "{}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    let code = |(at, line): (usize, &str)| {
        let code = u128::from_str_radix(line.trim(), 16).ok();
        let code = code.filter(|code| u128::BITS - code.leading_zeros() <= width.bits());
        code.ok_or_else(|| refuse(format!("line {}: `{line}` is not a code of {} bits", at + 1, width.bits())))
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(code).collect()
}

/// Returns the number of difference patterns with which the plan was checked. A plan that misses one is never offered.
fn proved(candidate: &PlanCandidate) -> u64 {
    candidate.plan.prove().map_or(0, |proof| proof.differences)
}

fn layouts(requirements: &PlanRequirements<'_>) -> String {
    let (chosen, candidates) = (Plan::choose(requirements), Plan::candidates(requirements));
    let PlanRequirements { width, max_distance, entries, bytes_per_entry, sample } = *requirements;
    let keys = if sample.is_empty() { "assumed uniform".to_owned() } else { format!("as in {} codes", sample.len()) };
    let mut text = format!(
        "{entries} originals, distance {max_distance} of {} bits, at most {bytes_per_entry} bytes of tables each, keys {keys}\n\n",
        width.bits()
    );
    let _ = writeln!(
        text,
        "  {:<48} {:>6} {:>12} {:>12} {:>9} {:>9}  CHECKED",
        "DESIGN", "TABLES", "BYTES/ENTRY", "LINES/PROBE", "COMPARED", "EST. NS"
    );
    for candidate in &candidates {
        let mark = match (candidate.plan == chosen, candidate.fits) {
            (true, _) => '*',
            (false, true) => ' ',
            (false, false) => '-',
        };
        let _ = writeln!(
            text,
            "{mark} {:<48} {:>6} {:>12.1} {:>12.1} {:>9.1} {:>9.0}  {} patterns",
            candidate.plan.to_string(),
            candidate.plan.tables(),
            candidate.bytes_per_entry,
            candidate.lines_per_probe,
            candidate.compared_in_runs,
            candidate.nanoseconds,
            proved(candidate)
        );
    }
    let fits = candidates.iter().any(|candidate| candidate.fits);
    let why = if fits { "the fastest that fits" } else { "none fits, this is the smallest" };
    let by_chance = width.expected_chance_matches(max_distance, entries);
    text + &format!(
        "\n* {chosen}: {why}; - does not fit\n\n\
         LINES/PROBE: cache lines read for one lookup. COMPARED: codes compared for one lookup. CHECKED: patterns of differing\n\
         bits for which the design was checked to find every pair; a design that misses one is not listed.\n\na page is within that distance of {} originals by chance\n",
        expected(by_chance)
    )
}

fn as_json(requirements: &PlanRequirements<'_>) -> serde_json::Value {
    let chosen = Plan::choose(requirements);
    let candidate = |candidate: PlanCandidate| {
        json!({
            "design": candidate.plan.to_string(), "tables": candidate.plan.tables(),
            "bytes_per_entry": candidate.bytes_per_entry, "lines_per_probe": candidate.lines_per_probe,
            "compared_in_runs": candidate.compared_in_runs, "nanoseconds": candidate.nanoseconds,
            "fits": candidate.fits, "chosen": candidate.plan == chosen, "proved_differences": proved(&candidate),
        })
    };
    let PlanRequirements { width, max_distance, entries, bytes_per_entry, sample } = *requirements;
    json!({
        "bits": width.bits(), "max_distance": max_distance,
        "near_by_chance": width.expected_chance_matches(max_distance, entries), "entries": entries,
        "bytes_per_entry": bytes_per_entry, "sampled_codes": sample.len(),
        "plans": Plan::candidates(requirements).into_iter().map(candidate).collect::<Vec<_>>(),
    })
}

/// Counts the duplicates of each cluster in the kept log. A page that absorbs thousands is often a block page. Also
/// shows the effect of `match.minhash.max_bucket`: the originals that are found by only some of their keys, and the
/// families of which a page is compared with only some members.
fn top(number: usize, global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Run)?.settings;
    let mut seen = Seen::default();
    read(&settings, LogExtent::Kept, |news| {
        if let Some(news) = news {
            seen.record(news.record);
        }
        ControlFlow::Continue(())
    })?;
    let mut clusters: Vec<(&Source, u64)> = seen.duplicates.iter().map(|(source, count)| (source, *count)).collect();
    clusters.sort_by(|(a_source, a), (b_source, b)| b.cmp(a).then(a_source.cmp(b_source)));
    clusters.truncate(number);
    let format = global.format();
    if format == Format::Table {
        let row =
            |(source, duplicates): &(&Source, u64)| [format!("{:>10}", output::count(*duplicates)), source.to_string()];
        let table = table(&["DUPLICATES", "CLUSTER"], &clusters.iter().map(row).collect::<Vec<_>>());
        return print(&format!("{table}\n\n{}", seen.bounded()));
    }
    let object = |(source, count): &(&Source, u64)| json!({"cluster": source.to_string(), "duplicates": count});
    let clusters: Vec<Value> = clusters.iter().map(object).collect();
    if format == Format::Json {
        return print_json(&json!({"clusters": clusters, "bounds": seen.bounds()}), format);
    }
    print_each(format, &[clusters, vec![json!({"bounds": seen.bounds()})]].concat(), Value::to_string, Value::clone)
}

/// Clusters and families in the kept log.
#[derive(Debug, Default)]
struct Seen {
    /// Duplicates by the original of their cluster.
    duplicates: BTreeMap<Source, u64>,
    /// Members by log and by the first page of their family.
    members: BTreeMap<(LogIdentity, u64), u64>,
    /// Originals outside families that are found by fewer keys than they have.
    crowded: u64,
    /// The bound in force; 0 if there is none.
    max_bucket: u16,
}

impl Seen {
    fn record(&mut self, record: VerdictRecord) {
        match record {
            VerdictRecord::Rules(RulesRecord { rules, .. }) => self.rules(&rules),
            VerdictRecord::Checkpoint(checkpoint) => self.rules(&checkpoint.rules),
            VerdictRecord::Verdicts(batch) => {
                for verdict in batch.verdicts {
                    if let Answer::Page(page) = verdict.answer {
                        self.page(batch.log, page.decision);
                    }
                }
            }
        }
    }

    fn rules(&mut self, rules: &Rules) {
        self.max_bucket = rules.minhash.as_ref().map_or(0, |minhash| minhash.max_bucket);
    }

    fn page(&mut self, log: LogIdentity, decision: Decision) {
        match decision.original().map(|original| original.placement) {
            Some(Placement { family: Some(head), .. }) => *self.members.entry((log, head)).or_default() += 1,
            Some(Placement { family: None, skipped, .. }) => self.crowded += u64::from(skipped != 0),
            None => {}
        }
        if let Decision::Duplicate { of } = decision {
            *self.duplicates.entry(of.cluster).or_default() += 1;
        }
    }

    /// Returns the sizes of the families that have more members than a page is compared with.
    fn large_families(&self) -> Vec<u64> {
        let max = u64::from(self.max_bucket);
        self.members.values().copied().filter(|&members| max != 0 && members > max).collect()
    }

    /// Returns the effect of the bound as JSON.
    fn bounds(&self) -> Value {
        let large = self.large_families();
        json!({
            "family_members": self.members.values().sum::<u64>(),
            "found_by_fewer_keys": self.crowded,
            "max_bucket": self.max_bucket,
            "families_above_max_bucket": large.len(),
            "largest_family_above_max_bucket": large.iter().max(),
        })
    }

    /// Returns the effect of the bound in sentences.
    fn bounded(&self) -> String {
        let [members, crowded] = [self.members.values().sum(), self.crowded].map(output::count);
        let text = format!(
            "{members} originals belong to a family (pages of one template or site) and are found through its first page;\n\
             {crowded} others are found by fewer keys than they have (match.minhash.max_bucket)"
        );
        let max = u64::from(self.max_bucket);
        let large = self.large_families();
        let Some(largest) = large.iter().max() else { return text };
        let (families, largest) = (output::count(large.len() as u64), output::count(*largest));
        format!(
            "{text};\n{families} families have more than {max} members, the largest {largest}: a page is compared with the {max} \
             that have most in common with it"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_beyond_the_bound_are_reported() {
        let log = LogIdentity(1);
        let mut seen = Seen { max_bucket: 64, ..Seen::default() };
        seen.members.extend([((log, 1), 64), ((log, 2), 1500), ((LogIdentity(2), 2), 65)]);
        assert!(seen.bounded().starts_with("1,629 originals belong to a family"), "{}", seen.bounded());
        assert!(
            seen.bounded().contains("\n2 families have more than 64 members, the largest 1,500:"),
            "{}",
            seen.bounded()
        );
        let report = json!({
            "family_members": 1629, "found_by_fewer_keys": 0, "max_bucket": 64, "families_above_max_bucket": 2,
            "largest_family_above_max_bucket": 1500,
        });
        assert_eq!(seen.bounds(), report);
        seen.max_bucket = 0;
        assert!(!seen.bounded().contains("more than"), "{}", seen.bounded());
    }
}
