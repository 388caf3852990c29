//! `index`: what the judge remembers.

use std::fmt::Write as _;
use std::io::Write as _;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::Global;
use super::petition::petition;
use crate::config::Purpose;
use crate::config::load;
use crate::error::{Fatal, Reason};
use crate::fingerprint::id_hash;
use crate::index::{CODE_TABLES_BYTES, Needs, Offer, Plan};
use crate::log::{EntryBody, ForgetTarget};
use crate::record::Source;

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
    /// forget an original (a takedown, a block page): nothing matches it any more
    Forget(ForgetArgs),
    /// show which tables the index can keep, and which it would
    Plan(PlanArgs),
}

/// Arguments of `index plan`. What is not given comes from the configuration.
#[derive(Clone, Debug, Default, Args)]
pub struct PlanArgs {
    /// largest Hamming distance, 0 to 8
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(0..=8))]
    pub max_distance: Option<u8>,
    /// originals to be held
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub entries: Option<u64>,
    /// memory that the tables may take for an original
    #[arg(long, value_name = "BYTES", default_value_t = CODE_TABLES_BYTES)]
    pub bytes: f64,
    /// file of codes as they come, 16 hexadecimal digits a line, to see how often keys collide
    #[arg(long, value_name = "FILE")]
    pub sample: Option<std::path::PathBuf>,
    /// how to print
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// One JSON object.
    Json,
}

/// Arguments of `index forget`. At least one of both.
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["source", "id"])))]
pub struct ForgetArgs {
    /// the original at this position: topic:partition:offset
    #[arg(long, value_name = "SOURCE")]
    pub source: Vec<Source>,
    /// the originals with this id
    #[arg(long, value_name = "ID")]
    pub id: Vec<String>,
    /// do it; otherwise only say what would be done
    #[arg(long)]
    pub execute: bool,
}

/// Has originals forgotten, and prints what the judges answered; or shows plans.
///
/// # Errors
///
/// Why it could not be done.
pub fn index(args: &IndexArgs, global: &Global) -> Result<(), Fatal> {
    match &args.command {
        IndexCommand::Forget(args) => forget(args, global),
        IndexCommand::Plan(args) => plan(args, global),
    }
}

fn forget(args: &ForgetArgs, global: &Global) -> Result<(), Fatal> {
    let sources = args.source.iter().cloned().map(ForgetTarget::Source);
    let ids = args.id.iter().map(|id| ForgetTarget::Id(id_hash(id)));
    petition(global, &sources.chain(ids).map(EntryBody::Forget).collect::<Vec<_>>(), args.execute)
}

fn plan(args: &PlanArgs, global: &Global) -> Result<(), Fatal> {
    let (max_distance, entries) = match (args.max_distance, args.entries) {
        (Some(max_distance), Some(entries)) => (max_distance, entries),
        (max_distance, entries) => {
            let rules = load(&global.sources(), Purpose::Run)?.settings.rules;
            (max_distance.unwrap_or(rules.max_distance), entries.unwrap_or(rules.max_entries))
        }
    };
    let sample = args.sample.as_deref().map(read_codes).transpose()?.unwrap_or_default();
    let needs = Needs { max_distance, entries, bytes_per_entry: args.bytes, sample: &sample };
    let text = match args.output {
        Output::Table => table(&needs),
        Output::Json => format!("{}\n", as_json(&needs)),
    };
    // Standard output may be closed: whoever closed it has read enough.
    drop(std::io::stdout().write_all(text.as_bytes()));
    Ok(())
}

fn read_codes(path: &std::path::Path) -> Result<Vec<u64>, Fatal> {
    let refuse = |why: String| Reason::Usage.because(anyhow::anyhow!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    let code = |(at, line): (usize, &str)| {
        u64::from_str_radix(line.trim(), 16).map_err(|_| refuse(format!("line {}: `{line}` is no code", at + 1)))
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(code).collect()
}

/// Says in how many differences the plan was tried; a plan with a gap is never offered.
fn proved(offer: &Offer) -> u64 {
    offer.plan.prove().map_or(0, |proof| proof.differences)
}

fn table(needs: &Needs<'_>) -> String {
    let chosen = Plan::choose(needs);
    let mut text = format!(
        "{} originals, distance {}, at most {} bytes of tables each, keys {}\n\n",
        needs.entries,
        needs.max_distance,
        needs.bytes_per_entry,
        if needs.sample.is_empty() {
            "taken to be uniform".to_owned()
        } else {
            format!("as in {} codes", needs.sample.len())
        }
    );
    let _ = writeln!(
        text,
        "  {:<48} {:>6} {:>12} {:>12} {:>9} {:>9}  proved",
        "design", "tables", "bytes/entry", "lines/probe", "in runs", "est. ns"
    );
    for offer in Plan::offers(needs) {
        let mark = if offer.plan == chosen {
            '*'
        } else if offer.fits {
            ' '
        } else {
            '-'
        };
        let _ = writeln!(
            text,
            "{mark} {:<48} {:>6} {:>12.1} {:>12.1} {:>9.1} {:>9.0}  {} differences",
            offer.plan.to_string(),
            offer.plan.tables(),
            offer.bytes_per_entry,
            offer.lines_per_probe,
            offer.compared_in_runs,
            offer.nanoseconds,
            proved(&offer)
        );
    }
    let fits = Plan::offers(needs).iter().any(|offer| offer.fits);
    let why = if fits { "the fastest that fits" } else { "none fits, this is the smallest" };
    text + &format!("\n* {chosen}: {why}; - does not fit\n")
}

fn as_json(needs: &Needs<'_>) -> serde_json::Value {
    let chosen = Plan::choose(needs);
    let offers = Plan::offers(needs).into_iter().map(|offer| {
        json!({
            "design": offer.plan.to_string(),
            "tables": offer.plan.tables(),
            "bytes_per_entry": offer.bytes_per_entry,
            "lines_per_probe": offer.lines_per_probe,
            "compared_in_runs": offer.compared_in_runs,
            "nanoseconds": offer.nanoseconds,
            "fits": offer.fits,
            "chosen": offer.plan == chosen,
            "proved_differences": proved(&offer),
        })
    });
    json!({
        "max_distance": needs.max_distance,
        "entries": needs.entries,
        "bytes_per_entry": needs.bytes_per_entry,
        "sampled_codes": needs.sample.len(),
        "plans": offers.collect::<Vec<_>>(),
    })
}
