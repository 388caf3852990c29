//! `replay`: a range of the input judged again, beside the service.

mod diff;
mod plan;
mod progress;
mod report;
mod run;
mod settings;
mod show;
mod when;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use dupgate_core::replay::{Order, Target};

use super::Global;
use super::help::one_of;
use crate::error::Fatal;
use crate::replay::Rate;

pub use diff::DiffArgs;
pub(super) use when::When;

/// Arguments of `replay`.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub command: ReplayCommand,
}

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
    Resume(ResumeArgs),
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
    Clean(CleanArgs),
}

/// What to replay.
#[derive(Clone, Debug, Default, Args)]
pub struct RangeArgs {
    /// First record: start, a time (2026-09-01, 2026-09-01T00:00:00Z, milliseconds), an age (-48h) or offset:1200
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub from: Option<When>,
    /// End of the range (exclusive): end, now, a time, an age or an offset [default: end]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub to: Option<When>,
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
    #[arg(long, value_name = "DURATION")]
    pub warm: Option<Warm>,
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

/// Arguments of `replay resume`.
#[derive(Clone, Debug, Args)]
pub struct ResumeArgs {
    /// The replay
    #[arg(value_name = "ID")]
    pub id: String,
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

/// Arguments of `replay clean`.
#[derive(Clone, Debug, Args)]
pub struct CleanArgs {
    /// The replay
    #[arg(value_name = "ID")]
    pub id: String,
    /// Apply the change; without it, only print what would be done
    #[arg(long)]
    pub execute: bool,
}

/// A warm-up, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warm(pub std::time::Duration);

impl std::str::FromStr for Warm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(std::time::Duration::ZERO)),
            text => text.parse().map(|crate::config::Span(span)| Self(span)),
        }
    }
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
pub fn replay(args: &ReplayArgs, global: &Global) -> Result<(), Fatal> {
    match &args.command {
        ReplayCommand::Plan(args) => plan::plan(args, global),
        ReplayCommand::Run(args) => run::run(args, global),
        ReplayCommand::Resume(args) => run::resume(args, global),
        ReplayCommand::Status(args) => show::status(args, global),
        ReplayCommand::List => show::list(global),
        ReplayCommand::Diff(args) => diff::diff(args, global),
        ReplayCommand::Clean(args) => show::clean(args, global),
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
        assert_eq!("none".parse(), Ok(Warm(std::time::Duration::ZERO)));
        assert_eq!("72h".parse(), Ok(Warm(std::time::Duration::from_hours(72))));
        assert!("soon".parse::<Warm>().is_err());
    }
}
