//! Edge: the command line, one file for each command.

pub mod configuration;
pub mod index;
pub mod rulings;
pub mod run;

use clap::{Parser, Subcommand};

use crate::error::{Fatal, Reason};
use crate::log::{Answer, ForgetTarget};
use crate::runtime::petition;

/// Removes near-duplicate pages from a crawler's message bus.
#[derive(Debug, Parser)]
#[command(name = "dupgate", version, about, arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Judge pages until stopped.
    Run(run::RunArguments),
    /// Rulings that are written.
    #[command(subcommand)]
    Rulings(rulings::RulingsCommand),
    /// Originals that are remembered.
    #[command(subcommand)]
    Index(index::IndexCommand),
}

/// Does what the command line says.
///
/// # Errors
///
/// Why it could not be done.
pub fn dispatch(arguments: Arguments) -> Result<(), Fatal> {
    match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Rulings(command) => rulings::run(&command),
        Command::Index(command) => index::run(&command),
    }
}

/// Prints what the judges answered, one line for each partition of the logs.
fn print_answers(answers: &[petition::Answered]) -> Result<(), Fatal> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    for petition::Answered { log, offset, answer } in answers {
        let line = match answer {
            Answer::Forgotten(ForgetTarget::Source(source)) => format!("forgotten: the original of {source}"),
            Answer::Forgotten(ForgetTarget::Id(_)) => "forgotten: every original with this id".to_owned(),
            Answer::Reopened { partition, from, to } => format!("reopened: {partition}:{from}-{}", to - 1),
            Answer::Withdrawn { source, reason } => format!("withdrawn: {source} ({})", reason.name()),
            Answer::Page(page) => format!("judged: {}", page.source),
        };
        writeln!(out, "judge {log}: {line} (verdict log offset {offset})").map_err(|error| Reason::Failure.because(error))?;
    }
    Ok(())
}
