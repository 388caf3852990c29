//! `run`: the service. Worker, judge, or both, as `roles` says.

use clap::Args;

/// Arguments of `run`.
#[derive(Clone, Debug, Default, Args)]
pub struct RunArgs {
    /// refuse to start on warnings, too
    #[arg(long)]
    pub strict: bool,
}
