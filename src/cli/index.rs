//! `index`: what the judge remembers.

use clap::{Args, Subcommand};

use super::Global;
use super::petition::petition;
use crate::error::Fatal;
use crate::fingerprint::id_hash;
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

/// Has originals forgotten, and prints what the judges answered.
///
/// # Errors
///
/// Why it could not be done.
pub fn index(args: &IndexArgs, global: &Global) -> Result<(), Fatal> {
    let IndexCommand::Forget(args) = &args.command;
    let sources = args.source.iter().cloned().map(ForgetTarget::Source);
    let ids = args.id.iter().map(|id| ForgetTarget::Id(id_hash(id)));
    petition(global, &sources.chain(ids).map(EntryBody::Forget).collect::<Vec<_>>(), args.execute)
}
