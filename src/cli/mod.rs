//! Edge: the command line. Each command has a file of its own, with its arguments and its code; only `run`, which starts
//! the service, is here.
//!
//! Rules for all commands: they write data to standard output, messages and progress to standard error; one that
//! changes a cluster needs `--execute`; flags are kebab-case, configuration keys `snake_case`.

pub mod instance;
pub mod check;
pub mod compare;
pub mod config;
pub mod demo;
pub mod eval;
pub mod explain;
pub mod help;
mod html;
pub mod index;
pub mod output;
pub mod page;
mod progress_bar;
mod operator_requests;
pub mod replay;
mod verdict;
pub mod sieve;
pub mod status;
pub mod tap;
pub mod test;
pub mod topics;
pub mod tune;
pub mod validate;
pub mod verdicts;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use annotate_snippets::Renderer;
use clap::{Args, FromArgMatches, Parser, Subcommand, ValueEnum};

use self::help::one_of;
use self::output::Format;
use self::progress_bar::{LogWriter, above_bar};
use crate::clock::{Clock, wall_clock};
use crate::config::settings::{Level, LogFormat, Logging};
use crate::config::{Levels, Loaded, Purpose, Refused, Sources, load};
use crate::error::{Fatal, fatal};
use crate::process::{exit_on_panic, log_panics};
use crate::processing::schema_registry;
use crate::service;

/// The default configuration file.
const DEFAULT_FILE: &str = "/etc/dupgate/dupgate.yaml";

/// The variable from which configurations take the instance name, and the file that replaces it if it is not set.
const HOSTNAME: &str = "HOSTNAME";
const HOSTNAME_FILE: &str = "/proc/sys/kernel/hostname";

/// Routes the near-duplicate pages of Kafka topics to a topic of their own
#[derive(Debug, Parser)]
#[command(
    name = "dupgate",
    version = version(),
    propagate_version = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// The command line.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Returns the version, and that of the client library with its features.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let (library, features) = (crate::kafka::client::library_version(), crate::kafka::client::library_features());
        format!("{} (librdkafka {library}; {features})", env!("CARGO_PKG_VERSION"))
    })
}

/// Options of every command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Configuration files; later ones win [default: /etc/dupgate/dupgate.yaml if it exists]
    #[arg(
        global = true,
        short,
        long,
        value_name = "FILE",
        env = "DUPGATE_CONFIG",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub config: Vec<PathBuf>,
    /// Set one configuration key, over all files and variables
    #[arg(global = true, short, long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Output format: table, json or jsonl [default: table on a terminal, jsonl elsewhere; reports are tables
    /// everywhere]
    #[arg(global = true, short, long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub output: Option<Format>,
    /// Log format: auto, text or json [default: as configured]
    #[arg(
        global = true,
        long,
        value_parser = one_of(&LogFormat::ALL, LogFormat::name, log_format_help),
        value_name = "FORMAT",
        hide_possible_values = true
    )]
    pub log_format: Option<LogFormat>,
    /// Colours: auto, always or never; auto means on a terminal, unless `NO_COLOR` is set
    #[arg(
        global = true,
        long,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub color: Color,
    /// Log more: -v for details of dupgate, -vv for the Kafka client as well
    #[arg(global = true, short, long, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
    /// Log less: -q for warnings and errors, -qq for errors
    #[arg(global = true, short, long, action = clap::ArgAction::Count)]
    pub quiet: u8,
}

const fn log_format_help(format: LogFormat) -> &'static str {
    match format {
        LogFormat::Auto => "Text on a terminal, JSON elsewhere",
        LogFormat::Text => "Text",
        LogFormat::Json => "One JSON object a line",
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless the variable `NO_COLOR` is set and not empty.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service: read pages, judge them, route them
    Run(RunArgs),
    /// Show verdicts from the verdict log, or reopen a range of the input
    #[command(subcommand)]
    Verdicts(verdicts::VerdictsCommand),
    /// Show, search and check what the judges remember; forget an original
    #[command(subcommand)]
    Index(index::IndexCommand),
    /// Check configuration files without connecting
    Validate(validate::ValidateArgs),
    /// Show the state of a running instance on one screen
    Status(status::StatusArgs),
    /// Print verdicts as they happen
    Tap(tap::TapArgs),
    /// Connect and check brokers, permissions, topics, disk and memory
    Check(check::CheckArgs),
    /// Create output topics and logs with suitable settings
    #[command(subcommand)]
    Topics(topics::TopicsCommand),
    /// Print the effective settings, a sample file, or the cost of a change
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Judge a range of the input again, beside the service: plan, run, compare, clean up
    #[command(subcommand)]
    Replay(replay::ReplayCommand),
    /// Judge JSON lines from files or standard input, without a broker
    Sieve(sieve::SieveArgs),
    /// Show what is read from a page, its fingerprints and the nearest originals
    Explain(explain::ExplainArgs),
    /// Show the distances of two pages, their differing text and what would match them
    Compare(compare::CompareArgs),
    /// Try thresholds on a sample of pages, recommend some and write pairs to review
    Tune(tune::TuneArgs),
    /// Run test cases: pairs of pages with expected verdicts
    Test(test::TestArgs),
    /// Measure precision and recall on texts with planted duplicates
    Eval(eval::EvalArgs),
    /// Judge a generated crawl, or produce one to a cluster and score the outputs
    Demo(demo::DemoArgs),
    /// Print completions for a shell
    Completions(help::CompletionsArgs),
    /// Print or write the man pages
    Man(help::ManArgs),
}

/// Runs the command line and returns the exit code.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let parsed = help::grammar().try_get_matches_from(&arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        // Help and version are not errors: clap chooses the stream and the code.
        Err(error) => help::with_meant_command(error, &arguments).exit(),
    };
    exit_on_panic(|| match dispatch(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fatal) => {
            complain(&fatal, cli.global.color);
            if matches!(cli.command, Command::Run(_)) {
                cli.global.log_end(&fatal);
            }
            fatal.exit_code()
        }
    })
}

/// Prints the error. Standard error may be closed: the exit code still reports it.
fn complain(fatal: &Fatal, color: Color) {
    let mut out = std::io::stderr().lock();
    if let Some(refused) = fatal.cause.downcast_ref::<Refused>() {
        let _ = output::print_findings(&mut out, &color.of_excerpts(), &refused.problems, &refused.warnings);
        let sum = output::sum(&refused.problems, &refused.warnings);
        // If two configurations are read, the context names the one at fault.
        let which = fatal.cause.to_string();
        let which = if which == refused.to_string() { String::new() } else { format!(" {which}") };
        let _ = writeln!(out, "error: the configuration{which} is refused ({sum})");
    } else {
        let _ = writeln!(out, "error: {fatal}");
    }
}

/// Parses a duration of the command line.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse().map(|crate::config::Span(span)| span);
    parsed.map_err(|_| "expected a number and a unit, such as 30s, 5m or 500ms".to_owned())
}

/// Prints a message that is not data.
fn note(text: &str) {
    // Standard error may be closed; the command does its work without it.
    let _ = above_bar(|| writeln!(std::io::stderr().lock(), "{text}"));
}

fn dispatch(cli: &Cli) -> Result<(), Fatal> {
    match &cli.command {
        Command::Run(args) => run(args, &cli.global),
        Command::Verdicts(command) => verdicts::verdicts(command, &cli.global),
        Command::Index(command) => index::index(command, &cli.global),
        Command::Validate(args) => validate::validate(args, &cli.global),
        Command::Status(args) => status::status(args, &cli.global),
        Command::Tap(args) => tap::tap(args, &cli.global),
        Command::Check(args) => check::check(args, &cli.global),
        Command::Topics(command) => topics::topics(command, &cli.global),
        Command::Config(command) => config::config(command, &cli.global),
        Command::Replay(command) => replay::replay(command, &cli.global),
        Command::Sieve(args) => sieve::sieve(args, &cli.global),
        Command::Explain(args) => explain::explain(args, &cli.global),
        Command::Compare(args) => compare::compare(args, &cli.global),
        Command::Tune(args) => tune::tune(args, &cli.global),
        Command::Test(args) => test::test(args, &cli.global),
        Command::Eval(args) => eval::eval(args, &cli.global),
        Command::Demo(args) => demo::demo(args, &cli.global),
        Command::Completions(args) => help::completions(args),
        Command::Man(args) => help::man(args),
    }
}

/// Arguments of `run`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "Examples:\n  dupgate run -c dupgate.yaml\n  dupgate run -c dupgate.yaml -s mode=observe")]
pub struct RunArgs {
    /// Refuse to start on warnings as well
    #[arg(long)]
    pub strict: bool,
}

/// Runs the service until a signal or a failure ends it.
///
/// # Errors
///
/// Why it could not start or continue.
pub fn run(args: &RunArgs, global: &Global) -> Result<(), Fatal> {
    let loaded = global.start(Purpose::Run)?;
    if args.strict && !loaded.warnings.is_empty() {
        return Err(fatal!(Config, "the configuration has {} warnings, and --strict is given", loaded.warnings.len()));
    }
    service::run(loaded.settings)
}

impl Color {
    /// Returns whether log lines are coloured; `None` if their destination decides. This and [`Global::sources`] are
    /// the only places that read the environment.
    fn of_log(self) -> Option<bool> {
        match self {
            Self::Auto => std::env::var_os("NO_COLOR").filter(|set| !set.is_empty()).map(|_| false),
            Self::Always => Some(true),
            Self::Never => Some(false),
        }
    }

    /// Returns the renderer of file excerpts on standard error.
    fn of_excerpts(self) -> Renderer {
        let is_colored = self.of_log().unwrap_or_else(|| std::io::stderr().is_terminal());
        if is_colored { Renderer::styled() } else { Renderer::plain() }
    }
}

impl Global {
    /// Returns the sources of the configuration.
    #[must_use]
    pub fn sources(&self) -> Sources {
        let texts =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut variables: BTreeMap<String, String> = texts.collect();
        // Containers export this variable; shells set it, but do not export it.
        if let (false, Ok(name)) = (variables.contains_key(HOSTNAME), std::fs::read_to_string(HOSTNAME_FILE)) {
            variables.insert(HOSTNAME.to_owned(), name.trim().to_owned());
        }
        Sources {
            files: self.config.clone(),
            default_file: Some(PathBuf::from(DEFAULT_FILE)),
            set: self.set.clone(),
            variables,
        }
    }

    /// Returns the output format of data: columns on a terminal and lines of JSON elsewhere, unless one is given.
    fn format(&self) -> Format {
        self.output.unwrap_or(if std::io::stdout().is_terminal() { Format::Table } else { Format::Jsonl })
    }

    /// Returns the output format of a report: columns, unless another one is given.
    fn report_format(&self) -> Format {
        self.output.unwrap_or(Format::Table)
    }

    /// Returns ` -c FILE` for each configuration file that was named.
    fn given_files(&self) -> String {
        let files: Vec<String> = self.config.iter().map(|file| format!(" -c {}", file.display())).collect();
        files.concat()
    }

    /// Loads the configuration, starts logging as configured, and logs the warnings of the configuration.
    ///
    /// # Errors
    ///
    /// A configuration that is refused.
    pub fn start(&self, purpose: Purpose) -> Result<Loaded, Fatal> {
        let mut loaded = load(&self.sources(), purpose)?;
        self.start_logging(&loaded.settings.logging);
        for warning in &loaded.warnings {
            tracing::warn!(target: "dupgate::cli", "{warning}");
        }
        schema_registry::connect(&mut loaded.settings, Clock::start())?;
        Ok(loaded)
    }

    /// Starts logging, including that of panics. `-v`, `-q` and `--log-format` take precedence over the configuration.
    pub fn start_logging(&self, configured: &Logging) {
        let level = Levels { base: self.level(configured.level.base), ..configured.level.clone() };
        let logging = Logging { level, format: self.log_format.unwrap_or(configured.format) };
        // A second start in one process keeps the first logger.
        let _ = crate::telemetry::logging::start(&logging, self.color.of_log(), wall_clock, || LogWriter);
        log_panics();
    }

    /// Logs why the service ended, if log lines are JSON: a collector of such lines drops the plain error message.
    fn log_end(&self, fatal: &Fatal) {
        // A refused configuration sets no logging: use the defaults and the command line.
        self.start_logging(&Logging { level: Level::Info.into(), format: LogFormat::Auto });
        if crate::telemetry::logging::is_json() {
            let exit_code = fatal.reason.code();
            tracing::error!(target: "dupgate::cli", exit_code, error = %fatal, "dupgate ends");
        }
    }

    fn level(&self, configured: Level) -> Level {
        let at = Level::ALL.iter().position(|level| *level == configured).unwrap_or_default();
        let at = (at + usize::from(self.verbose)).saturating_sub(usize::from(self.quiet));
        Level::ALL.get(at).copied().unwrap_or(Level::Trace)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every command that does something, by its words.
    fn commands(command: &clap::Command, words: &str) -> Vec<(String, clap::Command)> {
        let own = command.clone();
        let below =
            command.get_subcommands().flat_map(|below| commands(below, &format!("{words} {}", below.get_name())));
        let acts = !command.is_subcommand_required_set() && !command.is_arg_required_else_help_set();
        acts.then(|| (words.to_owned(), own)).into_iter().chain(below).collect()
    }

    #[test]
    fn every_help_has_an_example_that_parses() {
        let commands = commands(&Cli::command(), "dupgate");
        assert!(commands.len() > 20, "{}", commands.len());
        for (words, command) in commands {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  dupgate ")).collect();
            let own = examples.iter().any(|example| format!("dupgate {example}").starts_with(&words));
            assert!(own, "`{words} --help` has no example of it: {help}");
            for example in examples {
                let arguments = example.split(['|', '>']).next().unwrap_or_default().split_whitespace();
                let parsed = Cli::try_parse_from(std::iter::once("dupgate").chain(arguments));
                assert!(parsed.is_ok(), "`dupgate {example}`: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn the_version_names_the_client_library_and_its_features() {
        assert!(version().contains("librdkafka 2."), "{}", version());
    }

    #[test]
    fn files_and_assignments_keep_their_order() {
        let cli = Cli::try_parse_from(["dupgate", "-c", "a", "validate", "-c", "b", "-s", "x=1", "-s", "y=2"]).unwrap();
        assert_eq!(cli.global.set, ["x=1", "y=2"]);
        let cli = Cli::try_parse_from(["dupgate", "validate", "-c", "a", "-c", "b,c"]).unwrap();
        assert_eq!(cli.global.config, ["a", "b", "c"].map(PathBuf::from));
    }

    #[test]
    fn verbosity_climbs_and_descends_from_the_configured_level() {
        let level = |verbose, quiet| Global { verbose, quiet, ..Global::default() }.level(Level::Info);
        assert_eq!(level(0, 0), Level::Info);
        assert_eq!(level(1, 0), Level::Debug);
        assert_eq!(level(9, 0), Level::Trace);
        assert_eq!(level(0, 1), Level::Warn);
        assert_eq!(level(0, 9), Level::Off);
    }

    #[test]
    fn a_duration_that_is_refused_is_told_what_is_expected() {
        assert_eq!(duration("1h 30m"), Ok(Duration::from_mins(90)));
        for line in [["demo", "--for", "abc"], ["status", "--every", "5"]] {
            let error = Cli::try_parse_from(["dupgate"].iter().chain(&line)).unwrap_err().to_string();
            assert!(error.contains("expected a number and a unit, such as 30s"), "{error}");
        }
    }

    #[test]
    fn wrong_usage_has_its_own_exit_code() {
        let error = Cli::try_parse_from(["dupgate", "valdate"]).unwrap_err();
        assert_eq!(error.exit_code(), i32::from(crate::error::Reason::Usage.code()));
    }
}
