//! `dupgate index forget`: takes originals down.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::configuration::ConfigurationArguments;
use super::print_answers;
use crate::config::Purpose;
use crate::error::Fatal;
use crate::fingerprint::id_hash;
use crate::log::{EntryBody, ForgetTarget};
use crate::record::Source;
use crate::runtime::petition;

/// What to do with originals.
#[derive(Debug, Subcommand)]
pub enum IndexCommand {
    /// Match these originals no more; their pages stay judged.
    Forget(ForgetArguments),
}

/// Options of `index forget`.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false, args = ["source", "id"])]
pub struct ForgetArguments {
    /// The original made by this record, as TOPIC:PARTITION:OFFSET.
    #[arg(long)]
    pub source: Option<Source>,
    /// Every original with this id.
    #[arg(long)]
    pub id: Option<String>,
    /// How long to wait for the judges' answers.
    #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
    pub wait: Duration,
    /// The configuration.
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

/// Does it, and prints the answers.
///
/// # Errors
///
/// Why it could not be done.
pub fn run(command: &IndexCommand) -> Result<(), Fatal> {
    let IndexCommand::Forget(arguments) = command;
    let loaded = arguments.configuration.load(Purpose::Run)?;
    let target = match (&arguments.source, &arguments.id) {
        (Some(source), _) => ForgetTarget::Source(source.clone()),
        (None, id) => ForgetTarget::Id(id_hash(id.as_deref().unwrap_or_default())),
    };
    print_answers(&petition::submit(loaded.settings, &EntryBody::Forget(target), arguments.wait)?)
}
