//! `replay`: a range of the input judged again, beside the service, with its settings or with others that it tries.

mod diff;
mod plan;
mod run;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use dupgate_core::replay::{Order, Plan, Target, variants};
use serde_json::Value;

use super::Global;
use super::help::one_of;
use crate::clock::wall_time;
use crate::config::settings::Settings;
use crate::config::{ChangeImpact, Purpose, SECRET_SLOTS, Span, Start, decides, load};
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::record::Timestamp;
use crate::replay::{RangeBound, Rate};
pub use diff::DiffArgs;

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum ReplayCommand {
    /// Make a plan: which records, in which order, how long it takes; nothing is written to the cluster
    #[command(
        after_help = "Examples:\n  dupgate replay plan --from -48h -c dupgate.yaml\n  dupgate replay plan --from 2026-09-01 --to 2026-09-08 -s match.simhash.max_distance=4 --plan-out plan.json\n  dupgate replay plan --from-files pages-2024.jsonl.zst pages-2025.jsonl.zst"
    )]
    Plan(PlanArgs),
    /// Run a plan; without a plan file, make one; without --execute, only show it
    #[command(
        after_help = "Examples:\n  dupgate replay run plan.json --execute\n  dupgate replay run --from -48h --into none -s match.minhash.min_similarity=0.3,0.4,0.5 --execute\n  dupgate replay run --from-files pages.jsonl.gz --execute"
    )]
    Run(Box<RunArgs>),
    /// Continue a replay that was stopped
    #[command(after_help = "Examples:\n  dupgate replay resume 20261123-7c1f")]
    Resume {
        /// The replay
        #[arg(value_name = "ID")]
        id: String,
        /// How to run it.
        #[command(flatten)]
        pace: PaceArgs,
    },
    /// Show the progress of a replay, or of all
    #[command(after_help = "Examples:\n  dupgate replay status 20261123-7c1f\n  dupgate replay status --watch")]
    Status(StatusArgs),
    /// List the replays of this group
    #[command(after_help = "Examples:\n  dupgate replay list")]
    List,
    /// Count the verdicts that differ from the live ones, or from another replay's, and show examples
    #[command(
        after_help = "Examples:\n  dupgate replay diff 20261123-7c1f\n  dupgate replay diff 20261123-7c1f --against 20261122-0b9e --page diff.html --examples 50"
    )]
    Diff(DiffArgs),
    /// Delete the topics and the group of a replay; without --execute, only name them
    #[command(after_help = "Examples:\n  dupgate replay clean 20261123-7c1f --execute")]
    Clean {
        /// The replay
        #[arg(value_name = "ID")]
        id: String,
        /// Apply the change; without it, only print what would be done
        #[arg(long)]
        execute: bool,
    },
}

/// What to replay.
#[derive(Clone, Debug, Default, Args)]
pub struct RangeArgs {
    /// First record: start, a time (2026-09-01, 2026-09-01T00:00:00Z, milliseconds), an age (-48h) or offset:1200
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true, value_parser = range_bound)]
    pub from: Option<RangeBound>,
    /// End of the range (exclusive): end, now, a time, an age or an offset [default: end]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true, value_parser = range_bound)]
    pub to: Option<RangeBound>,
    /// Partitions of the input topics, such as 0,3-5 [default: all]
    #[arg(long, value_name = "LIST")]
    pub partitions: Option<String>,
    /// File of ranges, one per line: topic,partition,from,to
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "partitions"])]
    pub offsets_file: Option<PathBuf>,
    /// Files of JSON lines instead of the input topics, plain or compressed with gzip or zstd, judged in this order;
    /// `dupgate sieve` writes their verdicts to a file
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with_all = ["from", "to", "partitions", "offsets_file", "warm", "order", "max_records", "from_fingerprints"]
    )]
    pub from_files: Vec<PathBuf>,
    /// Judge this much event time before the range without producing it; none for no warm-up [default: window and lateness]
    #[arg(long, value_name = "DURATION", value_parser = warm)]
    pub warm: Option<Duration>,
    /// Order of judging [default: log where the verdict log reaches back, else time]
    #[arg(long, value_parser = one_of(&[Order::Log, Order::Time], Order::name, order_help), value_name = "ORDER")]
    pub order: Option<Order>,
    /// Judge the fingerprints that the live log keeps, not the pages: fast, for settings of the live scheme, --into
    /// none
    #[arg(long)]
    pub from_fingerprints: bool,
    /// Where the outcome goes: shadow topics, only verdicts, the live outputs, or none
    #[arg(
        long,
        value_parser = one_of(&Target::ALL, Target::name, target_help),
        value_name = "TARGET",
        default_value = Target::Shadow.name()
    )]
    pub into: Target,
    /// Maximum number of records of the range
    #[arg(long, value_name = "NUMBER")]
    pub max_records: Option<u64>,
    /// Name of the replay [default: date and four characters]
    #[arg(long, value_name = "NAME")]
    pub id: Option<String>,
}

/// Arguments of `replay plan`.
#[derive(Clone, Debug, Default, Args)]
pub struct PlanArgs {
    /// What to replay.
    #[command(flatten)]
    pub range: RangeArgs,
    /// Write the plan to this file [default: replay-ID.json]
    #[arg(long, value_name = "FILE")]
    pub plan_out: Option<PathBuf>,
    /// Do not read a sample to estimate the time
    #[arg(long)]
    pub no_sample: bool,
}

/// Arguments of `replay run`.
#[derive(Clone, Debug, Default, Args)]
pub struct RunArgs {
    /// Plan file of `replay plan`
    #[arg(
        value_name = "PLAN",
        conflicts_with_all = [
            "from", "to", "partitions", "offsets_file", "from_files", "warm", "order", "from_fingerprints", "into",
            "max_records", "id"
        ]
    )]
    pub plan: Option<PathBuf>,
    /// What to replay, without a plan.
    #[command(flatten)]
    pub range: RangeArgs,
    /// Apply the plan; without it, only print it
    #[arg(long)]
    pub execute: bool,
    /// Confirm a replay into the live outputs: the name of the unique topic
    #[arg(long, value_name = "TOPIC")]
    pub confirm_live: Option<String>,
    /// How to run it.
    #[command(flatten)]
    pub pace: PaceArgs,
}

/// How to run a replay.
#[derive(Clone, Debug, Default, Args)]
pub struct PaceArgs {
    /// Maximum number of pages or bytes per second: 5000/s, 20MiB/s
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Wait while the service lags by more records than this
    #[arg(long, value_name = "RECORDS")]
    pub yield_to_lag: Option<u64>,
    /// Stop when more pages than this are dead letters, such as 0.1%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub max_dead_letters: Option<f64>,
    /// Write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Serve metrics and health at this address, with the label replay
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<std::net::SocketAddr>,
}

/// Arguments of `replay status`.
#[derive(Clone, Debug, Default, Args)]
pub struct StatusArgs {
    /// The replay [default: all]
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Refresh until it ends, or until none runs
    #[arg(long)]
    pub watch: bool,
}

/// Parses the duration of a warm-up, or `none`.
fn warm(text: &str) -> Result<Duration, String> {
    if text == "none" { Ok(Duration::ZERO) } else { text.parse().map(|Span(span)| span) }
}

const fn order_help(order: Order) -> &'static str {
    match order {
        Order::Log => "As in the live verdict log: with the live settings, the verdicts are exactly the live ones",
        Order::Time => "Partitions merged by event time",
        Order::Files => "Files, line by line",
    }
}

const fn target_help(target: Target) -> &'static str {
    match target {
        Target::Shadow => "Topics of the replay",
        Target::Verdicts => "A verdict log of the replay, no pages",
        Target::Live => "The live outputs, only pages whose verdict differs",
        Target::None => "Nothing but the report",
    }
}

/// Parses `0.1%` or `0.001`.
fn share(text: &str) -> Result<f64, String> {
    let (number, factor) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent, 0.01));
    let share = number.trim().parse::<f64>().ok().map(|number| number * factor);
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is no share: expected 0 to 1, or 0% to 100%"))
}

/// Runs the subcommand.
///
/// # Errors
///
/// Any failure of the subcommand.
pub fn replay(command: &ReplayCommand, global: &Global) -> Result<(), Fatal> {
    match command {
        ReplayCommand::Plan(args) => plan::plan(args, global),
        ReplayCommand::Run(args) => run::run(args, global),
        ReplayCommand::Resume { id, pace } => run::resume(id, pace, global),
        ReplayCommand::Status(args) => run::status(args, global),
        ReplayCommand::List => run::status(&StatusArgs::default(), global),
        ReplayCommand::Diff(args) => diff::diff(args, global),
        ReplayCommand::Clean { id, execute } => run::clean(id, *execute, global),
    }
}

/// The settings of one replay.
struct Both {
    /// Of the live service.
    live: Settings,
    /// Settings to try, one for each variant; the live ones if none are given.
    tried: Vec<Settings>,
    /// The assignments that differ.
    set: Vec<String>,
}

/// Reads the configuration, of a replay that has a plan with the settings of the plan. Assignments of the command line
/// that decide verdicts apply to the replay only, all others to both.
fn read(global: &Global, plan: Option<&Plan>) -> Result<Both, Fatal> {
    let (mut set, base) = split(&global.set)?;
    set.iter().chain(plan.iter().flat_map(|plan| &plan.set)).try_for_each(|assignment| without_secret(assignment))?;
    if let Some(plan) = plan {
        if !set.is_empty() && set != plan.set {
            let own = plan.set.join(" ");
            return Err(fatal!(Usage, "the plan has its own settings ({own}); --set cannot change them"));
        }
        set.clone_from(&plan.set);
    }
    let global = Global { set: base, ..global.clone() };
    let live = global.start(Purpose::Run)?.settings;
    let made = variants(&set).or_fatal(Reason::Usage)?;
    let mut tried = Vec::new();
    for variant in made {
        let mut sources = global.sources();
        sources.set.extend(variant);
        tried.push(load(&sources, Purpose::Run)?.settings);
    }
    if let Some(other) = tried.iter().find(|one| tried.first().is_some_and(|first| first.scheme() != one.scheme())) {
        return Err(fatal!(
            Usage,
            "the values lead to several schemes (one is {}), but a replay reads pages by one: replay them one by one",
            other.scheme()
        ));
    }
    Ok(Both { live, tried, set })
}

/// Splits assignments into those that the replay tries and those of both sides.
fn split(assignments: &[String]) -> Result<(Vec<String>, Vec<String>), Fatal> {
    let (mut tried, mut both) = (Vec::new(), Vec::new());
    for assignment in assignments {
        let side = if is_tried(assignment)? { &mut tried } else { &mut both };
        side.push(assignment.clone());
    }
    Ok((tried, both))
}

/// Returns whether an assignment decides verdicts. The value may be a map of several keys, which must agree.
fn is_tried(assignment: &str) -> Result<bool, Fatal> {
    let keys = assigned_keys(assignment);
    let decides_verdicts = |key: &String| matches!(decides(key), ChangeImpact::Scheme | ChangeImpact::Rules);
    let Some(tried) = keys.iter().find(|key| decides_verdicts(key)) else { return Ok(false) };
    let Some(both) = keys.iter().find(|key| !decides_verdicts(key)) else { return Ok(true) };
    Err(fatal!(
        Usage,
        "--set '{}=...' mixes {tried}, which the replay tries, with {both}, which is the service's: set them one by one",
        assignment.split('=').next().unwrap_or_default().trim()
    ))
}

/// Returns the keys that an assignment sets: one for each leaf of a map.
fn assigned_keys(assignment: &str) -> Vec<String> {
    let (key, value) = assignment.split_once('=').unwrap_or((assignment, ""));
    leaves(key.trim(), &serde_saphyr::from_str(value).unwrap_or(Value::Null))
}

fn leaves(key: &str, value: &Value) -> Vec<String> {
    let Some(map) = value.as_object().filter(|map| !map.is_empty()) else { return vec![key.to_owned()] };
    map.iter().flat_map(|(name, value)| leaves(&format!("{key}.{name}"), value)).collect()
}

/// Plans are stored and shown: they may name the source of a secret, not its text.
fn without_secret(assignment: &str) -> Result<(), Fatal> {
    let keys = assigned_keys(assignment);
    let has_text = |slot: &&&str| {
        let mut below = keys.iter().filter_map(|key| key.strip_prefix(**slot));
        below.any(|rest| rest.is_empty() || rest.starts_with('.') && ![".file", ".env"].contains(&rest))
    };
    let Some(slot) = SECRET_SLOTS.iter().find(has_text) else { return Ok(()) };
    Err(fatal!(
        Usage,
        "{slot} is a secret, and a plan is kept and shown: name where it is kept, --set '{slot}={{file: PATH}}' or \
         --set '{slot}={{env: NAME}}'"
    ))
}

/// Smallest number that is read as milliseconds since 1970: as seconds, smaller ones are times until the year 5138.
const MIN_MILLIS: i64 = 100_000_000_000;

/// Parses a place in the input. An age counts from now.
pub(super) fn range_bound(text: &str) -> Result<RangeBound, String> {
    range_bound_at(text, wall_time())
}

fn range_bound_at(text: &str, now: Timestamp) -> Result<RangeBound, String> {
    let refuse = || {
        format!(
            "`{text}` is not a place in the input: expected start, end, now, a time such as 2026-09-01 or \
             2026-09-01T00:00:00Z or milliseconds since 1970, an age such as -48h, or offset:1200"
        )
    };
    match text {
        "start" => return Ok(RangeBound::Start),
        "end" | "now" => return Ok(RangeBound::End),
        _ => {}
    }
    if let Some(offset) = text.strip_prefix("offset:") {
        let offset = offset.parse::<i64>().ok().filter(|offset| *offset >= 0);
        return offset.map(RangeBound::Offset).ok_or_else(refuse);
    }
    if let Ok(millis) = text.parse::<i64>() {
        // A bare year would be a time in 1970, as would seconds.
        return match millis {
            MIN_MILLIS.. => Ok(RangeBound::At(Timestamp::from_millis(millis))),
            10_000.. => Err(format!(
                "`{text}` would be a time before {}: expected milliseconds since 1970; is it in seconds? Then write {text}000",
                Timestamp::from_millis(MIN_MILLIS)
            )),
            _ => Err(refuse()),
        };
    }
    match text.parse::<Start>() {
        Ok(Start::At(time)) => Ok(RangeBound::At(time)),
        Ok(Start::Ago(span)) => Ok(RangeBound::At(now.minus(span))),
        Ok(Start::Earliest | Start::Latest) | Err(_) => Err(refuse()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_or_a_percentage() {
        assert_eq!(share("0.25"), Ok(0.25));
        assert_eq!(share("50%"), Ok(0.5));
        for text in ["", "%", "1.5", "-1%", "101%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_warm_up_is_a_duration_or_none() {
        assert_eq!(warm("none"), Ok(Duration::ZERO));
        assert_eq!(warm("72h"), Ok(Duration::from_hours(72)));
        assert!(warm("soon").is_err());
    }

    #[test]
    fn a_map_of_settings_is_tried_if_its_keys_decide_verdicts() {
        for tried in [
            "window={size: 24h}",
            "window.size=24h",
            "match={minhash: {min_similarity: 0.4}}",
            "index={max_entries: 9}",
        ] {
            assert!(is_tried(tried).unwrap(), "{tried}");
        }
        for both in ["index={snapshot: {keep: 3}}", "processing={threads: 2}", "index.path=/x", "input={topics: [a]}"] {
            assert!(!is_tried(both).unwrap(), "{both}");
        }
        let why = is_tried("index={max_memory: 1GiB, path: /x}").unwrap_err().to_string();
        assert!(why.contains("index.max_memory") && why.contains("index.path") && why.contains("one by one"), "{why}");
    }

    #[test]
    fn the_text_of_a_secret_never_gets_into_a_plan() {
        for refused in [
            "match.seed=hunter2",
            "match.seed=a,b",
            " match.seed =x",
            "match={seed: hunter2, max_distance: 3}",
            "match.seed=",
        ] {
            let why = without_secret(refused).unwrap_err().to_string();
            assert!(why.starts_with("match.seed is a secret") && !why.contains("hunter2"), "{why}");
        }
        for kept in [
            "match.seed={file: /run/seed}",
            "match.seed={env: SEED}",
            "match={same_id: update}",
            "match={seed: {env: SEED}}",
            "match.minhash.min_similarity=0.3,0.4",
        ] {
            without_secret(kept).unwrap();
        }
    }

    #[test]
    fn places_are_named_as_rpk_names_them() {
        let day = Timestamp::from_millis(1_788_220_800_000);
        assert_eq!(range_bound("start"), Ok(RangeBound::Start));
        assert_eq!(range_bound("now"), Ok(RangeBound::End));
        assert_eq!(range_bound("2026-09-01"), Ok(RangeBound::At(day)));
        assert_eq!(range_bound("2026-09-01T00:00:00Z"), Ok(RangeBound::At(day)));
        assert_eq!(range_bound("1788220800000"), Ok(RangeBound::At(day)));
        let ago = Timestamp::from_millis(1_788_220_800_000 - 48 * 3_600_000);
        assert_eq!(range_bound_at("-48h", day), Ok(RangeBound::At(ago)));
        assert_eq!(range_bound("offset:1200"), Ok(RangeBound::Offset(1200)));
        for text in ["", "2026", "earliest", "yesterday", "offset:", "offset:-1", "48h"] {
            let refused = range_bound(text).unwrap_err();
            assert!(refused.contains("expected start, end, now"), "{text}: {refused}");
        }
        for seconds in ["1795640000", "99999999999"] {
            let refused = range_bound(seconds).unwrap_err();
            assert!(refused.contains("milliseconds") && refused.contains(&format!("{seconds}000")), "{refused}");
        }
        assert_eq!(range_bound("100000000000"), Ok(RangeBound::At(Timestamp::from_millis(100_000_000_000))));
    }

    #[test]
    fn an_age_counts_from_now() {
        let now = Timestamp::from_millis(10_000);
        assert_eq!(range_bound_at("-4s", now), Ok(RangeBound::At(Timestamp::from_millis(6000))));
    }
}
