//! `index`: what the judge remembers.

use clap::{Args, Subcommand};

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
