//! `validate`: what is wrong with a configuration, all at once.

mod curve;

use std::path::PathBuf;

use clap::Args;

use super::output::{Format, print, print_json};
use super::{Global, report};
use crate::config::{Purpose, load};
use crate::error::{Fatal, Reason};

use curve::Curve;

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

/// Prints every problem and every warning: to standard error for people, to standard output as JSON. Of a valid
/// configuration, what the bands of the `minhash` stage find and what they cost.
///
/// # Errors
///
/// The configuration is refused; the problems are printed by then.
pub fn validate(args: &ValidateArgs, global: &Global) -> Result<(), Fatal> {
    let mut sources = global.sources();
    sources.files.extend(args.files.iter().cloned());
    let (problems, warnings, settings) = match load(&sources, Purpose::Run) {
        Ok(loaded) => (Vec::new(), loaded.warnings, Some(loaded.settings)),
        Err(refused) => (refused.problems, refused.warnings, None),
    };
    let curve = settings.as_ref().and_then(Curve::of);
    match global.output {
        Some(format @ (Format::Json | Format::Jsonl)) => {
            let mut told = report::as_json(&problems, &warnings);
            if let (Some(told), Some(curve)) = (told.as_object_mut(), &curve) {
                told.insert("minhash".to_owned(), curve.json());
            }
            print_json(&told, format)?;
        }
        Some(Format::Table) | None => {
            // Standard error may be closed: the exit code still tells.
            let _ = report::tell(&mut std::io::stderr().lock(), &problems, &warnings);
            curve.as_ref().map(|curve| print(&curve.table())).transpose()?;
        }
    }
    let sum = report::sum(&problems, &warnings);
    if problems.is_empty() && (warnings.is_empty() || !args.strict) {
        super::note(&format!("the configuration is valid ({sum})"));
        return Ok(());
    }
    Err(Reason::Config.because(anyhow::anyhow!("the configuration is refused ({sum})")))
}
