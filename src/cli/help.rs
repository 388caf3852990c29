//! Help: the first page of `dupgate help`, which lists the commands by purpose, and completions and man pages, which
//! are generated from the command line.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use super::output::print;
use crate::error::{DONE, Fatal, Reason};

/// Purposes in the order of the help text, and the commands of each.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run and look", &["run", "status", "tap", "verdicts", "index"]),
    ("Try and tune", &["sieve", "explain", "compare", "tune", "test", "eval"]),
    ("Operate", &["validate", "check", "config", "topics", "replay"]),
    ("Demo", &["demo"]),
    ("Shell", &["completions", "man"]),
];

/// Builds the command line's grammar, with its commands in groups where they are listed.
#[must_use]
pub(super) fn grammar() -> Command {
    let command = Cli::command();
    let text = template(&command);
    command.help_template(text).after_help(exit_codes())
}

/// Minimum similarity of two names of commands, from 0 (nothing in common) to 1 (equal).
const MIN_SIMILARITY: f64 = 0.6;

/// Adds the command that was probably meant to an error about an unknown one. clap does not recognise swapped letters.
pub(super) fn with_meant_command(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    let grammar = grammar();
    let words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let known = words.fold(&grammar, |command, word| command.find_subcommand(word).unwrap_or(command));
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(given, name);
    let names = known.get_subcommands().map(Command::get_name).filter(|name| likeness(name) >= MIN_SIMILARITY);
    if let Some(meant) = names.max_by(|one, other| likeness(one).total_cmp(&likeness(other))) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant.to_owned()]));
    }
    error
}

/// Lists the exit codes, as docs/TROUBLESHOOTING.md does.
fn exit_codes() -> String {
    let mut text = "Exit codes:\n".to_owned();
    let rows = std::iter::once((0, DONE)).chain(Reason::ALL.map(|reason| (reason.code(), reason.meaning())));
    for (code, meaning) in rows {
        let _ = writeln!(text, "  {code:>2}  {meaning}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// Writes the template of the first help page. clap has no groups of commands: the lists are part of the template.
fn template(command: &Command) -> String {
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        let _ = write!(text, "\n{heading}:\n");
        for name in *names {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(text, "  {name:12} {}", about.unwrap_or_default());
        }
    }
    text + "\nGlobal options:\n{options}\n\nUse `dupgate <COMMAND> --help` for the options of a command.\n\
            Documentation: https://github.com/dupgate/dupgate{after-help}\n"
}

/// Parses one of these values by its name. `--help` lists them with `help`.
pub(super) fn one_of<T: Copy + Send + Sync + 'static>(
    values: &'static [T],
    name: fn(T) -> &'static str,
    help: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let listed = values.iter().map(|value| PossibleValue::new(name(*value)).help(help(*value)));
    PossibleValuesParser::new(listed).try_map(move |given| {
        let found = values.iter().copied().find(|value| name(*value) == given);
        found.ok_or("not one of the listed values")
    })
}

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Arg, Command};

    use super::*;
    use crate::protocol::VerdictKind;

    #[test]
    fn every_command_is_in_one_group() {
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let named: BTreeSet<&str> = listed.iter().copied().collect();
        assert_eq!(named.len(), listed.len(), "a command is listed twice: {listed:?}");
        let command = Cli::command();
        let known: BTreeSet<&str> = command.get_subcommands().map(Command::get_name).collect();
        assert_eq!(named, known);
    }

    #[test]
    fn the_first_page_lists_commands_and_global_options_once() {
        let page = grammar().render_help().to_string();
        for line in ["Run and look:", "Operate:", "  tap ", "Global options:", "--config <FILE>", "Exit codes:"] {
            assert_eq!(page.matches(line).count(), 1, "{line}\n{page}");
        }
        assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    }

    #[test]
    fn a_command_with_swapped_letters_is_recognised() {
        let error_of = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = grammar().try_get_matches_from(&arguments).unwrap_err();
            with_meant_command(error, &arguments).to_string()
        };
        for (line, meant) in
            [("dupgate rnu", "'run'"), ("dupgate index tpo", "'top'"), ("dupgate -q staus", "'status'")]
        {
            assert!(error_of(line).contains(meant), "{}", error_of(line));
        }
        assert!(!error_of("dupgate frobnicate").contains("similar"), "{}", error_of("dupgate frobnicate"));
    }

    #[test]
    fn own_options_of_a_command_come_before_the_global_ones() {
        let mut grammar = grammar();
        grammar.build();
        let page = grammar.find_subcommand_mut("status").unwrap().render_help().to_string();
        let (own, global) = (page.find("--watch"), page.find("Global options:"));
        assert!(own.is_some() && own < global, "{page}");
        assert!(page.find("--config") > global, "{page}");
    }

    #[test]
    fn a_value_is_parsed_by_its_name_and_listed_with_its_help() {
        let help = |kind| if kind == VerdictKind::Near { "similar text" } else { "" };
        let parser = one_of(&VerdictKind::ALL, VerdictKind::name, help);
        let command = Command::new("c").arg(Arg::new("verdict").value_parser(parser));
        for kind in VerdictKind::ALL {
            let matches = command.clone().try_get_matches_from(["c", kind.name()]).unwrap();
            assert_eq!(matches.get_one("verdict"), Some(&kind));
        }
        let refused = command.clone().try_get_matches_from(["c", "dead"]).unwrap_err().to_string();
        assert!(refused.contains("[possible values: unique, update,"), "{refused}");
        let shown = command.clone().render_long_help().to_string();
        assert!(shown.contains("- near:      similar text"), "{shown}");
    }
}
