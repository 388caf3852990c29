//! `completions` and `man`: shell completions and man pages, generated from the command line.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::help::grammar;
use super::output::print;
use crate::error::{Fatal, Reason};

/// Arguments of `completions`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  dupgate completions bash > /etc/bash_completion.d/dupgate")]
pub struct CompletionsArgs {
    /// Shell to write completions for
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "Examples:\n  dupgate man --directory /usr/share/man/man1\n  dupgate man | man -l -")]
pub struct ManArgs {
    /// Write one page per command to this folder instead of printing the first page
    #[arg(long, value_name = "FOLDER")]
    pub directory: Option<PathBuf>,
}

/// Prints the completions of a shell.
///
/// # Errors
///
/// Standard output is closed.
pub fn completions(args: &CompletionsArgs) -> Result<(), Fatal> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut grammar(), "dupgate", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())
}

/// Writes the manual.
///
/// # Errors
///
/// The folder cannot be written.
pub fn man(args: &ManArgs) -> Result<(), Fatal> {
    let failed = |error: std::io::Error| Reason::Failure.because(error);
    if let Some(folder) = &args.directory {
        std::fs::create_dir_all(folder).map_err(failed)?;
        return clap_mangen::generate_to(grammar(), folder).map_err(failed);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(grammar()).render(&mut page).map_err(failed)?;
    print(String::from_utf8_lossy(&page).trim_end())
}
