//! The top of `dupgate help`: commands by what they are for.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use super::Cli;
use crate::error::{DONE, Reason};

/// What commands are for, in the order of the help text, and the commands.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
    fn own_options_of_a_command_come_before_the_global_ones() {
        let mut grammar = grammar();
        grammar.build();
        let page = grammar.find_subcommand_mut("status").unwrap().render_help().to_string();
        let (own, global) = (page.find("--watch"), page.find("Global options:"));
        assert!(own.is_some() && own < global, "{page}");
        assert!(page.find("--config") > global, "{page}");
    }
}
