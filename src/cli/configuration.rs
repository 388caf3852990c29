//! Where the configuration comes from: the same options for every command that needs it.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Loaded, Purpose, Sources, load};
use crate::error::Fatal;
use crate::telemetry::logging;

/// Read when no file is named.
const DEFAULT_FILE: &str = "/etc/dupgate/dupgate.yaml";

/// Options that name the configuration.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigurationArguments {
    /// Configuration file; repeat to lay later ones over earlier ones.
    #[arg(short, long = "config", value_name = "FILE", env = "DUPGATE_CONFIG")]
    pub config: Vec<PathBuf>,
    /// One value over all files and variables.
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
}

impl ConfigurationArguments {
    /// Reads the configuration, starts logging by it, and logs what deserves a warning.
    ///
    /// # Errors
    ///
    /// Every problem of the configuration.
    pub fn load(&self, purpose: Purpose) -> Result<Loaded, Fatal> {
        let sources = Sources {
            files: self.config.clone(),
            default_file: Some(PathBuf::from(DEFAULT_FILE)),
            set: self.set.clone(),
            variables: std::env::vars().collect(),
        };
        let loaded = load(&sources, purpose)?;
        // Somebody else may have started it in this process already.
        drop(logging::start(loaded.settings.logging));
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        Ok(loaded)
    }
}
