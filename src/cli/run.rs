//! `dupgate run`: judges pages until stopped.

use clap::Args;

use super::configuration::ConfigurationArguments;
use crate::config::Purpose;
use crate::error::Fatal;
use crate::runtime::service;

/// Options of `run`.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// The configuration.
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

/// Runs the service until a signal or a failure ends it.
///
/// # Errors
///
/// Why it could not begin or go on.
pub fn run(arguments: &RunArguments) -> Result<(), Fatal> {
    let loaded = arguments.configuration.load(Purpose::Run)?;
    service::run(loaded.settings)
}
