//! `index plan`: shows the table layouts that the index can use, and the one it would choose.

use std::fmt::Write as _;

use clap::Args;
use dupgate_index::{Plan, PlanCandidate, PlanRequirements};
use serde_json::json;

use crate::cli::Global;
use crate::cli::output::{Format, expected, print, print_json};
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::fingerprint::Width;
use crate::index::CODE_TABLES_BYTES;

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
pub(super) fn plan(args: &PlanArgs, global: &Global) -> Result<(), Fatal> {
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
    match global.output {
        None | Some(Format::Table) => print(table(&requirements).trim_end()),
        Some(format) => print_json(&as_json(&requirements), format),
    }
}

fn width(text: &str) -> Result<Width, String> {
    let width = text.parse().ok().and_then(Width::of_bits);
    width.ok_or_else(|| format!("`{text}` is not a width of a SimHash: expected 32, 64 or 128"))
}

fn read_codes(path: &std::path::Path, width: Width) -> Result<Vec<u128>, Fatal> {
    let refuse = |why: String| Reason::Usage.because(anyhow::anyhow!("{}: {why}", path.display()));
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

fn table(requirements: &PlanRequirements<'_>) -> String {
    let chosen = Plan::choose(requirements);
    let mut text = format!(
        "{} originals, distance {} of {} bits, at most {} bytes of tables each, keys {}\n\n",
        requirements.entries,
        requirements.max_distance,
        requirements.width.bits(),
        requirements.bytes_per_entry,
        if requirements.sample.is_empty() {
            "assumed uniform".to_owned()
        } else {
            format!("as in {} codes", requirements.sample.len())
        }
    );
    let _ = writeln!(
        text,
        "  {:<48} {:>6} {:>12} {:>12} {:>9} {:>9}  CHECKED",
        "DESIGN", "TABLES", "BYTES/ENTRY", "LINES/PROBE", "COMPARED", "EST. NS"
    );
    for candidate in Plan::candidates(requirements) {
        let mark = if candidate.plan == chosen {
            '*'
        } else if candidate.fits {
            ' '
        } else {
            '-'
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
            proved(&candidate)
        );
    }
    let fits = Plan::candidates(requirements).iter().any(|candidate| candidate.fits);
    let why = if fits { "the fastest that fits" } else { "none fits, this is the smallest" };
    let by_chance = requirements.width.expected_chance_matches(requirements.max_distance, requirements.entries);
    text + &format!(
        "\n* {chosen}: {why}; - does not fit\n\n\
         LINES/PROBE: cache lines read for one lookup. COMPARED: codes compared for one lookup. CHECKED: patterns of differing\n\
         bits for which the design was checked to find every pair; a design that misses one is not listed.\n\na page is within that distance of {} originals by chance\n",
        expected(by_chance)
    )
}

fn as_json(requirements: &PlanRequirements<'_>) -> serde_json::Value {
    let chosen = Plan::choose(requirements);
    let candidates = Plan::candidates(requirements).into_iter().map(|candidate| {
        json!({
            "design": candidate.plan.to_string(),
            "tables": candidate.plan.tables(),
            "bytes_per_entry": candidate.bytes_per_entry,
            "lines_per_probe": candidate.lines_per_probe,
            "compared_in_runs": candidate.compared_in_runs,
            "nanoseconds": candidate.nanoseconds,
            "fits": candidate.fits,
            "chosen": candidate.plan == chosen,
            "proved_differences": proved(&candidate),
        })
    });
    json!({
        "bits": requirements.width.bits(),
        "max_distance": requirements.max_distance,
        "near_by_chance": requirements.width.expected_chance_matches(requirements.max_distance, requirements.entries),
        "entries": requirements.entries,
        "bytes_per_entry": requirements.bytes_per_entry,
        "sampled_codes": requirements.sample.len(),
        "plans": candidates.collect::<Vec<_>>(),
    })
}
