//! `run`: runs the service, as worker, judge, or both, as `roles` says.

use clap::Args;

use super::Global;
use crate::config::Purpose;
use crate::error::{Fatal, Reason};
use crate::service;

/// Arguments of `run`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "Examples:\n  dupgate run -c dupgate.yaml\n  dupgate run -c dupgate.yaml -s mode=observe")]
pub struct RunArgs {
    /// Refuse to start on warnings as well
    #[arg(long)]
    pub strict: bool,
}

/// Runs the service until a signal or a failure ends it.
///
/// # Errors
///
/// Why it could not start or continue.
pub fn run(args: &RunArgs, global: &Global) -> Result<(), Fatal> {
    let loaded = global.start(Purpose::Run)?;
    if args.strict && !loaded.warnings.is_empty() {
        let why = anyhow::anyhow!("the configuration has {} warnings, and --strict is given", loaded.warnings.len());
        return Err(Reason::Config.because(why));
    }
    service::run(loaded.settings)
}
