//! `validate`: what is wrong with a configuration, all at once.

mod curve;
mod strangers;

use std::path::PathBuf;

use clap::Args;

use super::output::{Format, print, print_json};
use super::{Global, report};
use crate::config::{Purpose, load};
use crate::error::{Fatal, Reason};

use curve::Curve;
use strangers::Strangers;

/// Arguments of `validate`.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = "Example:\n  dupgate validate dupgate.yaml\n  dupgate validate -c dupgate.yaml -s window.size=24h -o json"
)]
pub struct ValidateArgs {
    /// Further configuration files, over those of --config
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Refuse warnings as well
    #[arg(long)]
    pub strict: bool,
}

/// Prints every problem and every warning: to standard error for people, to standard output as JSON. Of a valid
/// configuration, what the stages `simhash` and `minhash` find by chance, what the bands find and what they cost.
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
    let strangers = settings.as_ref().and_then(Strangers::of);
    let curve = settings.as_ref().and_then(Curve::of);
    match global.output {
        Some(format @ (Format::Json | Format::Jsonl)) => {
            let mut told = report::as_json(&problems, &warnings);
            if let Some(told) = told.as_object_mut() {
                told.extend(strangers.map(|strangers| ("simhash".to_owned(), strangers.json())));
                told.extend(curve.map(|curve| ("minhash".to_owned(), curve.json())));
            }
            print_json(&told, format)?;
        }
        Some(Format::Table) | None => {
            // Standard error may be closed: the exit code still tells.
            let _ = report::tell(&mut std::io::stderr().lock(), &problems, &warnings);
            let told: Vec<String> = strangers
                .map(|strangers| strangers.line())
                .into_iter()
                .chain(curve.map(|curve| curve.table()))
                .collect();
            if !told.is_empty() {
                print(&told.join("\n\n"))?;
            }
        }
    }
    let sum = report::sum(&problems, &warnings);
    if problems.is_empty() && (warnings.is_empty() || !args.strict) {
        super::note(&format!("the configuration is valid ({sum})"));
        return Ok(());
    }
    Err(Reason::Config.because(anyhow::anyhow!("the configuration is refused ({sum})")))
}
