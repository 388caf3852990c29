//! `validate`: what is wrong with a configuration, all at once.

use std::path::PathBuf;

use clap::Args;

use super::output::{Format, print_json};
use super::{Global, report};
use crate::config::{Purpose, load};
use crate::error::{Fatal, Reason};

/// Arguments of `validate`.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = "Example:\n  dupgate validate dupgate.yaml\n  dupgate validate -c dupgate.yaml -s window.size=24h -o json"
)]
pub struct ValidateArgs {
    /// further configuration files, over those of --config
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// refuse warnings, too
    #[arg(long)]
    pub strict: bool,
}

/// Prints every problem and every warning: to standard error for people, to standard output as JSON.
///
/// # Errors
///
/// The configuration is refused; the problems are printed by then.
pub fn validate(args: &ValidateArgs, global: &Global) -> Result<(), Fatal> {
    let mut sources = global.sources();
    sources.files.extend(args.files.iter().cloned());
    let (problems, warnings) = match load(&sources, Purpose::Run) {
        Ok(loaded) => (Vec::new(), loaded.warnings),
        Err(refused) => (refused.problems, refused.warnings),
    };
    match global.output {
        Some(format @ (Format::Json | Format::Jsonl)) => {
            print_json(&report::as_json(&problems, &warnings), format)?;
        }
        Some(Format::Table) | None => {
            // Standard error may be closed: the exit code still tells.
            let _ = report::tell(&mut std::io::stderr().lock(), &problems, &warnings);
        }
    }
    let sum = report::sum(&problems, &warnings);
    if problems.is_empty() && (warnings.is_empty() || !args.strict) {
        super::note(&format!("the configuration is valid ({sum})"));
        return Ok(());
    }
    Err(Reason::Config.because(anyhow::anyhow!("the configuration is refused ({sum})")))
}
