//! `index`: shows what the judge remembers, from its snapshot and the verdict log, and fills the index of a new scheme.

mod plan;
mod set_time;
mod top;
mod verify;
mod warm;

use std::time::Duration;

use clap::{Args, Subcommand};
use dupgate_core::judge::Snapshot;
use serde_json::Value;

use super::instance::{Instance, Operators, in_query};
use super::operator_requests::operator_requests;
use super::output::{Format, columns, print, print_json, print_list};
use super::{Global, human};
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::fingerprint::{SimHash, id_hash};
use crate::index::Original;
use crate::operators::state_summary::{self, StateSummary};
use crate::protocol::{ForgetTarget, LogPartition, RequestBody};
use crate::record::Source;
use crate::snapshot::Folder;

/// Arguments of `index`.
#[derive(Clone, Debug, Args)]
pub struct IndexArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: IndexCommand,
}

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
    Top(top::TopArgs),
    /// Judge the fingerprint log again under its own rules and compare with the verdict log and the newest snapshot
    #[command(
        after_help = "Example:\n  dupgate index verify -c dupgate.yaml\n\nIt only reads, and may run beside the service. Exits with code 1 if anything differs."
    )]
    Verify,
    /// Show the possible table layouts of the index and the one it would choose
    #[command(
        after_help = "Example:\n  dupgate index plan --entries 10000000 --max-distance 3\n\nA judge begins with the plan for uniform codes; when it restores a snapshot it takes the codes in it for a sample."
    )]
    Plan(plan::PlanArgs),
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
    SetTime(set_time::SetTimeArgs),
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
pub fn index(args: &IndexArgs, global: &Global) -> Result<(), Fatal> {
    match &args.command {
        IndexCommand::Stats(instance) => stats(instance, global),
        IndexCommand::Lookup(args) => lookup(args, global),
        IndexCommand::Top(args) => top::top(args, global),
        IndexCommand::Verify => verify::verify(global),
        IndexCommand::Plan(args) => plan::plan(args, global),
        IndexCommand::Warm(args) => warm::warm(args, global),
        IndexCommand::Forget(args) => {
            let sources = args.source.iter().cloned().map(ForgetTarget::Source);
            let ids = args.id.iter().map(|id| ForgetTarget::Id(id_hash(id)));
            operator_requests(global, &sources.chain(ids).map(RequestBody::Forget).collect::<Vec<_>>(), args.execute)
        }
        IndexCommand::SetTime(args) => set_time::set_time(args, global),
    }
}

/// Loads the newest snapshot of each log partition that this instance serves. Fails if there is none at all.
fn snapshots(settings: &Settings) -> Result<Vec<(LogPartition, Snapshot)>, Fatal> {
    let found = snapshots_at_hand(settings)?;
    if found.is_empty() {
        let path = settings.index.path.display();
        let why = if settings.index.path.exists() { "" } else { ": there is no such folder" };
        let interval = human::span(settings.index.snapshot_interval);
        let scheme = settings.scheme();
        let why = anyhow::anyhow!(
            "no snapshot of scheme {scheme} in {path}{why} (a judge writes one every {interval} and at its end)"
        );
        return Err(Reason::State.because(why));
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
        let newest = newest.map_err(|error| Reason::State.because(error))?;
        for discarded in &newest.discarded {
            super::note(&format!("warning: {discarded}: {}", discarded.why));
        }
        found.extend(newest.found.map(|snapshot| (log, snapshot)));
    }
    Ok(found)
}

fn stats(instance: &Instance, global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Sieve)?.settings;
    let found: Vec<Value> = match instance.of(&settings)? {
        Some(running) => array(running.get("index/stats")?),
        None => snapshots(&settings)?
            .iter()
            .map(|(log, snapshot)| StateSummary::by_snapshot(*log, snapshot).json())
            .collect(),
    };
    match Format::or_usual(global.output) {
        Format::Table => {
            let tables = found.iter().filter_map(Value::as_object);
            tables
                .map(|table| columns(&table.iter().map(in_words).collect::<Vec<_>>()))
                .try_for_each(|table| print(&table))
        }
        Format::Json => print_json(&Value::Array(found), Format::Json),
        Format::Jsonl => found.iter().try_for_each(|value| print_json(value, Format::Jsonl)),
    }
}

/// Returns one value as a row for people, with the unit in which its name ends.
fn in_words((name, value): (&String, &Value)) -> Vec<String> {
    let number = value.as_u64();
    let (name, text) = match (name.strip_suffix("_seconds"), number) {
        (Some(stem), Some(seconds)) => (stem, human::span(Duration::from_secs(seconds))),
        (_, Some(number)) if COUNTS.contains(&name.as_str()) => (name.as_str(), human::count(number)),
        _ => (name.as_str(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
    };
    vec![name.replace('_', " "), text]
}

/// Values that are counts without a unit.
const COUNTS: [&str; 4] = ["originals", "max_entries", "memory_bytes", "input_partitions"];

fn array(value: Value) -> Vec<Value> {
    if let Value::Array(found) = value { found } else { Vec::new() }
}

/// Asks a running instance, once for each search term.
fn running_lookup(args: &LookupArgs, running: &Operators) -> Result<Vec<Value>, Fatal> {
    let distance = args.distance.map(|bits| format!("&distance={bits}")).unwrap_or_default();
    let codes = args.fp.iter().map(|code| format!("fp={code}{distance}"));
    let sources = args.source.iter().map(|source| format!("source={}", in_query(&source.to_string())));
    let ids = args.id.iter().map(|id| format!("id={}", in_query(id)));
    let mut found: Vec<Value> = Vec::new();
    for query in codes.chain(sources).chain(ids) {
        for original in array(running.get(&format!("index/lookup?{query}"))?) {
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
        checked.map_err(|wrong| Reason::Usage.because(anyhow::anyhow!("--fp {code} {wrong}")))?;
    }
    let (found, place) = match args.instance.of(&settings)? {
        Some(running) => (running_lookup(args, &running)?, "running instance"),
        None => (snapshot_lookup(args, &settings)?, "newest snapshot"),
    };
    if found.is_empty() {
        return Err(Reason::Failure.because(anyhow::anyhow!("no such original in the {place}")));
    }
    let row = |original: &Value| {
        let text = |key: &str| original[key].as_str().unwrap_or("-").to_owned();
        vec![
            original["distance"].as_u64().map_or_else(|| "-".to_owned(), |bits| bits.to_string()),
            text("source"),
            text("fp"),
            text("cluster"),
        ]
    };
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    print_list(Format::or_usual(global.output), &["DISTANCE", "ORIGINAL", "FINGERPRINT", "CLUSTER"], &rows, found)
}
