//! `config`: prints the effective settings, files to start from, the schema, and the cost of a change.

mod diff;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::output::{Format, print, print_json, table};
use crate::config::{Layers, Purpose, Refused, SAMPLE, Settings, Shown, gather, schema};
use crate::error::{Fatal, Reason};

/// The minimal configuration of a service.
pub const MINIMAL: &str = include_str!("../../config/minimal.yaml");

/// Arguments of `config`.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What to do with the configuration.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the effective settings, secrets redacted
    #[command(after_help = "Example:\n  dupgate config show -c dupgate.yaml --origin")]
    Show(ShowArgs),
    /// Print a configuration file to start from
    #[command(after_help = "Example:\n  dupgate config init > dupgate.yaml")]
    Init(InitArgs),
    /// Print the JSON Schema of configuration files
    #[command(after_help = "Example:\n  dupgate config schema > dupgate.schema.json")]
    Schema,
    /// Show what a change of the configuration affects and costs
    #[command(
        after_help = "Examples:\n  dupgate config diff running.yaml new.yaml\n  dupgate config diff running.yaml -s match.simhash.max_distance=4"
    )]
    Diff(diff::DiffArgs),
}

/// Arguments of `config show`.
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// List every key with the source of its value and what it decides: the scheme (fingerprints), the rules
    /// (verdicts), the state (group and logs), or only the work
    #[arg(long)]
    pub origin: bool,
}

/// Arguments of `config init`.
#[derive(Clone, Debug, Args)]
pub struct InitArgs {
    /// Print every setting with its default and meaning
    #[arg(long)]
    pub full: bool,
}

/// Runs the command.
///
/// # Errors
///
/// A configuration that is refused.
pub fn config(args: &ConfigArgs, global: &Global) -> Result<(), Fatal> {
    match &args.command {
        ConfigCommand::Show(args) => show(args, global),
        ConfigCommand::Init(args) => print(if args.full { SAMPLE } else { MINIMAL }.trim_end()),
        ConfigCommand::Schema => print_json(&schema(), Format::Json),
        ConfigCommand::Diff(args) => diff::diff(args, global),
    }
}

/// A configuration that was read: its values and the resolved settings.
pub(super) struct Read {
    pub(super) shown: Vec<Shown>,
    pub(super) tree: Value,
    pub(super) settings: Settings,
}

/// Reads the configuration; `files` take the place of those of the command line when there are any.
pub(super) fn read(global: &Global, files: &[PathBuf], set: bool) -> Result<Read, Fatal> {
    let mut sources = global.sources();
    if !files.is_empty() {
        sources.files = files.to_vec();
        sources.default_file = None;
    }
    if !set {
        sources.set.clear();
    }
    let (layers, given): (Layers, _) = gather(&sources);
    let refuse = |problem| Fatal::from(Refused { problems: vec![problem], warnings: Vec::new() });
    let shown = layers.show().map_err(refuse)?;
    let tree = layers.raw().map_err(refuse)?.shown();
    // Resolve the settings as for `sieve`, so that a file without brokers or topics can be shown, too.
    let (settings, _) = layers.resolve(&given, Purpose::Sieve)?;
    Ok(Read { shown, tree, settings })
}

fn show(args: &ShowArgs, global: &Global) -> Result<(), Fatal> {
    let read = read(global, &[], true)?;
    let format = global.output.unwrap_or(Format::Table);
    if args.origin {
        let object = |shown: &Shown| {
            json!({
                "key": shown.path, "value": shown.value, "origin": shown.origin.to_string(),
                "decides": shown.decides.name()
            })
        };
        return match format {
            Format::Table => {
                let row = |shown: &Shown| {
                    vec![
                        shown.path.clone(),
                        shown.value.to_string(),
                        shown.decides.to_string(),
                        shown.origin.to_string(),
                    ]
                };
                let rows: Vec<_> = read.shown.iter().map(row).collect();
                print(&table(&["KEY", "VALUE", "DECIDES", "FROM"], &rows))
            }
            Format::Json => print_json(&Value::Array(read.shown.iter().map(object).collect()), format),
            Format::Jsonl => read.shown.iter().try_for_each(|shown| print_json(&object(shown), format)),
        };
    }
    if format != Format::Table {
        return print_json(&read.tree, format);
    }
    let yaml = serde_saphyr::to_string(&read.tree).map_err(|error| Reason::Failure.because(error))?;
    let settings = &read.settings;
    print(&format!(
        "# hash {}, scheme {}, group {}\n{}",
        settings.hash,
        settings.scheme(),
        settings.input.group,
        yaml.trim_end()
    ))
}
