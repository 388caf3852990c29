//! `sieve`: judges JSON lines from files or standard input, with no broker at all.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `sieve`.
#[derive(Clone, Debug, Default, Args)]
pub struct SieveArgs {
    /// files of JSON lines, judged in this order; standard input when there is none, or for -
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// write unique and updated pages here, instead of verdict lines to standard output
    #[arg(long, value_name = "FILE")]
    pub unique: Option<PathBuf>,
    /// write duplicates here
    #[arg(long, value_name = "FILE")]
    pub duplicate: Option<PathBuf>,
    /// write lines without a verdict here
    #[arg(long, value_name = "FILE")]
    pub dead: Option<PathBuf>,
}

impl SieveArgs {
    /// Says whether pages are routed to files; otherwise verdict lines go to standard output.
    #[must_use]
    pub const fn is_routing(&self) -> bool {
        self.unique.is_some() || self.duplicate.is_some() || self.dead.is_some()
    }
}
