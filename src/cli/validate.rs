//! `validate`: what is wrong with a configuration, all at once.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::Global;
use crate::config::{Problem, Purpose, load};
use crate::error::{Fatal, Reason};

/// Arguments of `validate`.
#[derive(Clone, Debug, Default, Args)]
pub struct ValidateArgs {
    /// further configuration files, over those of --config
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Prints every problem and every warning to standard error.
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
    let mut out = std::io::stderr().lock();
    let mut tell = |kind: &str, found: &[Problem]| {
        for problem in found {
            // Standard error may be closed: the exit code still tells.
            drop(writeln!(out, "{kind}: {problem}"));
        }
    };
    tell("error", &problems);
    tell("warning", &warnings);
    if problems.is_empty() {
        drop(writeln!(out, "the configuration is valid ({})", count(warnings.len(), "warning")));
        return Ok(());
    }
    let (errors, warnings) = (count(problems.len(), "error"), count(warnings.len(), "warning"));
    Err(Reason::Config.because(anyhow::anyhow!("the configuration is refused ({errors}, {warnings})")))
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
