//! `check`: connects to the cluster and reports what would fail, with the command that fixes it.

pub(super) mod machine;
mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write};

use clap::Args;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::Global;
use super::output::{self, Format, counted, filled, print, print_json};
use super::topics::{
    CONNECTION_HINT, brokers, default_replication_factor, inherit, input_names, inspector, logs as planned_logs,
    no_answer,
};
use crate::clock::{Clock, wall_time};
use crate::config::Purpose;
use crate::config::settings::{ColdStart, SchemaRegistry, Settings};
use crate::error::{Fatal, Reason};
use crate::kafka::admin::LogKind;
use crate::kafka::admin::LogNames;
use crate::kafka::inspector::{ClusterError, ClusterInspector, TopicView};
use crate::processing::schema_registry;
use crate::record::{PartitionId, Timestamp};
use crate::service::scheme_change::SchemeChange;
use crate::snapshot::Folder;
use crate::topics::{IDENTITY_HINT, identity_refused};

/// Arguments of `check`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "Example:\n  dupgate check -c dupgate.yaml\n\n\
    It changes nothing, except that the coordinator remembers its transactional ids for a week.\n\
    It probes permissions with requests that brokers always reject for another reason.")]
pub struct CheckArgs {
    /// Fail on warnings as well
    #[arg(long)]
    pub strict: bool,
}

/// Checks everything and prints each finding as soon as it is known.
///
/// # Errors
///
/// "Unavailable" if a check failed, "not authorized" if only permissions are missing.
pub fn check(args: &CheckArgs, global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Run)?.settings;
    let mut report = Report::new(global.format(), &subjects(&settings), global.given_files());
    match inspector(&settings) {
        Ok(inspector) => of_cluster(&settings, &inspector, &mut report)?,
        Err(fatal) => report.add([Row::fail("brokers", fatal.to_string(), None)])?,
    }
    if let Some(registry) = settings.input.schema_registry.as_ref().filter(|_| settings.roles.worker) {
        report.asks("the schema registry");
        report.add([schema_registry_row(registry)])?;
    }
    if settings.roles.judge {
        report.add(machine::disk(&settings))?;
    }
    report.add(machine::memory(&settings))?;
    let rows = report.finish()?;
    let number = |state| rows.iter().filter(|row| row.state == state).count();
    let (warnings, failures) = (number(State::Warn), number(State::Fail));
    let sum = format!("{}, {}", counted(warnings, "warning"), counted(failures, "failure"));
    if failures == 0 && (warnings == 0 || !args.strict) {
        super::note(&sum);
        return Ok(());
    }
    let only_denied = rows.iter().filter(|row| row.state == State::Fail).all(|row| row.is_denied) && failures > 0;
    let reason = if only_denied { Reason::Denied } else { Reason::Unavailable };
    Err(reason.because(anyhow::anyhow!("{sum}")))
}

/// Asks the schema registry, with our identity and certificates.
fn schema_registry_row(settings: &SchemaRegistry) -> Row {
    const SUBJECT: &str = "schema registry";
    match schema_registry::probe(settings, Clock::start()) {
        Ok(took) => Row::ok(SUBJECT, format!("{}, rtt {} ms", settings.url, took.as_millis())),
        Err(why) => {
            let fix = "check input.schema_registry: url with its path (Apicurio: /apis/ccompat/v7), ca_file, and username and password, or token";
            Row::fail(SUBJECT, format!("{} gives no answer: {why:#}", settings.url), Some(fix.to_owned()))
        }
    }
}

/// Collects the names of what will be checked, as far as they are known, so that the columns have their final width
/// from the first line on.
fn subjects(settings: &Settings) -> Vec<String> {
    let output = &settings.output;
    let outputs = [&output.unique, &output.duplicate, &output.dead_letter].into_iter().flatten().cloned();
    let logs = planned_logs(settings, 1).into_iter().map(|plan| plan.name);
    let registry = settings.input.schema_registry.as_ref().map(|_| "schema registry".to_owned());
    let fixed = ["transactions".to_owned()].into_iter().chain(registry);
    input_names(settings).into_iter().chain(outputs).chain(logs).chain(fixed).collect()
}

fn of_cluster(settings: &Settings, inspector: &ClusterInspector, report: &mut Report) -> Result<(), Fatal> {
    report.asks("the brokers");
    let brokers = match brokers(settings, inspector) {
        Ok(brokers) => brokers,
        Err(cluster_error) => {
            let (text, fix) = match &cluster_error {
                ClusterError::Identity(_) => {
                    (identity_refused(&settings.kafka.brokers, &cluster_error), IDENTITY_HINT.to_owned())
                }
                ClusterError::Denied(denied) => (cluster_error.to_string(), denied.remedy()),
                ClusterError::Unavailable(_) => (no_answer(settings, &cluster_error), CONNECTION_HINT.to_owned()),
            };
            let is_denied = !matches!(cluster_error, ClusterError::Unavailable(_));
            return report.add([Row { is_denied, ..Row::fail("brokers", text, Some(fix)) }]);
        }
    };
    let clock = Clock::start();
    drop(inspector.brokers());
    let took = clock.now().as_millis();
    report.add([Row::ok("brokers", format!("{}, rtt {took} ms", counted(brokers.len(), "broker")))])?;
    if settings.roles.judge {
        report.add(delay_of_groups(inspector, &brokers))?;
    }

    report.asks("for the input topics");
    let names = match inspector.named(&input_names(settings)) {
        Ok(names) => names,
        Err(cluster_error) => return report.add([Row::cluster_error("input", &cluster_error)]),
    };
    if names.is_empty() {
        report.add([Row::warn("input", "no topic matches the pattern yet".to_owned(), None)])?;
    }
    let mut input: Vec<TopicView> = Vec::new();
    let mut oldest: Option<Timestamp> = None;
    let mut pages_a_second = 0.0;
    for name in &names {
        report.asks(&format!("for settings, first and last records of {name}"));
        match inspector.topic(name) {
            Ok(Some(view)) => {
                let ends = inspector.ends(name, view.partitions);
                if let Ok(ends) = &ends {
                    oldest = oldest.into_iter().chain(ends.oldest).min();
                    pages_a_second += machine::rate(ends);
                }
                report.add(topics::input(&view, &ends, wall_time(), settings))?;
                input.push(view);
            }
            Ok(None) => {
                let create = format!("{} --with-input --partitions NUMBER", report.create());
                report.add([topics::missing(name, create)])?;
            }
            Err(cluster_error) => report.add([Row::cluster_error(name, &cluster_error)])?,
        }
    }
    if settings.roles.judge {
        report.add(machine::window(pages_a_second, settings))?;
    }
    report.asks("whether this instance may be a member of its groups");
    report.add(topics::with_denied(
        vec![group(settings, inspector, &input)],
        topics::may_join(settings, inspector, &input),
    ))?;
    if settings.roles.worker {
        outputs(settings, inspector, &input, oldest, report)?;
    }
    logs(settings, inspector, &brokers.keys().copied().collect::<Vec<_>>(), report)?;
    transactions(settings, inspector, report)
}

/// Names the broker setting that delays the first member of a group, so that nobody looks for the cause in dupgate.
fn delay_of_groups(inspector: &ClusterInspector, brokers: &BTreeMap<i32, String>) -> Option<Row> {
    const SETTING: &str = "group.initial.rebalance.delay.ms";
    let first = brokers.keys().next()?;
    let millis: u64 = inspector.broker_setting(*first, SETTING)?.parse().ok()?;
    let text = format!("the first instance to start waits {millis} ms before it judges ({SETTING})");
    (millis > 0).then(|| Row::ok("brokers", text))
}

fn group(settings: &Settings, inspector: &ClusterInspector, input: &[TopicView]) -> Row {
    let partitions = input.iter().flat_map(|view| {
        let numbers = (0..view.partitions).filter_map(|number| i32::try_from(number).ok());
        numbers.map(|number| PartitionId::new(view.name.as_str(), number))
    });
    let partitions: BTreeSet<PartitionId> = partitions.collect();
    let group = &settings.input.group;
    match inspector.lag(&partitions) {
        Ok(Some(lag)) => Row::ok("group", format!("may use \"{group}\"; lag {}", output::count(lag))),
        Ok(None) if has_judged(settings, inspector) => {
            let text = format!(
                "\"{group}\" has no committed offset, but the verdict log is not empty: partitions with judged pages will be blocked \
                 (no_offset)"
            );
            let fix = "set the group's offset, or, if the topics were deleted and created again, `dupgate verdicts reopen` their \
                       ranges, before the workers start";
            Row::warn("group", text, Some(fix.to_owned()))
        }
        Ok(None) => Row::ok("group", format!("\"{group}\" is new here and begins at input.start")),
        Err(cluster_error) => Row::cluster_error("group", &cluster_error),
    }
}

/// Returns whether the verdict log holds records.
fn has_judged(settings: &Settings, inspector: &ClusterInspector) -> bool {
    let names = LogNames::new(&settings.logs.prefix, &settings.scheme().to_string());
    let Ok(Some(view)) = inspector.topic(&names.verdicts) else { return false };
    inspector.ends(&names.verdicts, view.partitions).is_ok_and(|ends| ends.records > 0)
}

fn outputs(
    settings: &Settings,
    inspector: &ClusterInspector,
    input: &[TopicView],
    oldest: Option<Timestamp>,
    report: &mut Report,
) -> Result<(), Fatal> {
    let output = &settings.output;
    let of_input = inherit(&input.iter().collect::<Vec<_>>());
    for name in [&output.unique, &output.duplicate, &output.dead_letter].into_iter().flatten() {
        report.asks(&format!("for the settings of {name}, and whether it may be written"));
        report.add(match inspector.topic(name) {
            Ok(Some(view)) => {
                let rows = topics::output(&view, of_input, oldest, wall_time(), settings);
                topics::with_denied(rows, topics::may_write(inspector, name))
            }
            Ok(None) => vec![topics::missing(name, report.create())],
            Err(cluster_error) => vec![Row::cluster_error(name, &cluster_error)],
        })?;
    }
    Ok(())
}

fn logs(settings: &Settings, inspector: &ClusterInspector, brokers: &[i32], report: &mut Report) -> Result<(), Fatal> {
    let default = default_replication_factor(inspector, brokers.iter());
    let kinds = [LogKind::Fingerprints, LogKind::Verdicts];
    for (kind, plan) in kinds.into_iter().zip(planned_logs(settings, default)) {
        report.asks(&format!("for {}, and whether it may be read, written and trimmed", plan.name));
        report.add(match inspector.topic(&plan.name) {
            Ok(view) => {
                let rows = topics::log(kind, &plan, view.as_ref(), brokers.len(), settings);
                let denied = match &view {
                    Some(view) => topics::may_use_log(settings, inspector, kind, view),
                    None => topics::may_make_log(inspector, &plan, &report.create()),
                };
                topics::with_denied(rows, denied)
            }
            Err(cluster_error) => vec![Row::cluster_error(&plan.name, &cluster_error)],
        })?;
    }
    report.asks("for logs of other schemes");
    report.add(match inspector.topic_names() {
        Ok(names) => topics::other_schemes(&names, settings),
        Err(cluster_error) => vec![Row::cluster_error("schemes", &cluster_error)],
    })?;
    let folder = Folder::look(&settings.index.path);
    report.add(match SchemeChange::find(inspector, settings, Some(&folder)) {
        Ok(change) => change.blindness(wall_time()).map(|blindness| blind(settings, blindness, change.ways_out())),
        Err(cluster_error) => Some(Row::cluster_error("window", &cluster_error)),
    })
}

/// Reports a start that would lose the window. Under `index.cold_start: stop`, it is refused.
fn blind(settings: &Settings, blindness: String, ways_out: String) -> Row {
    let fix = Some(ways_out);
    match settings.index.cold_start {
        ColdStart::Stop => Row::fail("window", format!("index.cold_start is stop, and {blindness}"), fix),
        ColdStart::Proceed => Row::warn("window", blindness, fix),
    }
}

fn transactions(settings: &Settings, inspector: &ClusterInspector, report: &mut Report) -> Result<(), Fatal> {
    let group = &settings.input.group;
    let worker = settings.roles.worker && settings.output.delivery == crate::transaction::Delivery::ExactlyOnce;
    let ids = [
        worker.then(|| format!("{group}.worker.check")),
        settings.roles.judge.then(|| format!("{group}.judge.{}.check", settings.scheme())),
    ];
    let try_id = |id: &str| match inspector.transact(id) {
        Ok(()) => Row::ok("transactions", format!("may use transactional ids like {id}")),
        Err(ClusterError::Denied(denied)) => {
            let prefix = id.strip_suffix("check").unwrap_or(id);
            let fix = denied.remedy().replace(id, prefix) + " --resource-pattern-type prefixed";
            Row::denied("transactions", format!("not authorized: Write on transactional-id {prefix}*"), fix)
        }
        Err(cluster_error) => Row::cluster_error("transactions", &cluster_error),
    };
    for id in ids.into_iter().flatten() {
        report.asks(&format!("for the transactional id {id}"));
        report.add([try_id(&id)])?;
    }
    Ok(())
}

/// The findings so far. Each is printed as soon as it is known, or all together as one JSON document.
struct Report {
    rows: Vec<Row>,
    format: Format,
    /// Width of the column of subjects on a terminal.
    width: usize,
    /// ` -c FILE` for each file that was named, for the commands that are suggested.
    files: String,
    /// Whether to show what is being checked, on a terminal.
    is_watched: bool,
}

impl Report {
    /// Starts without findings; `subjects` are the known subjects of the checks.
    fn new(format: Format, subjects: &[String], files: String) -> Self {
        let width = subjects.iter().map(|name| name.width()).max().unwrap_or(0);
        let is_watched = std::io::stderr().is_terminal() && format == Format::Table;
        Self { rows: Vec::new(), format, width, files, is_watched }
    }

    /// Shows on a terminal what is being checked, until the next finding.
    fn asks(&self, what: &str) {
        if self.is_watched {
            // Standard error may be closed.
            let _ = write!(std::io::stderr(), "\r\x1b[Kchecking {what} ...");
        }
    }

    /// Returns the command that creates topics, with the configuration files of this command.
    fn create(&self) -> String {
        format!("dupgate topics create{} --execute", self.files)
    }

    /// Prints findings.
    fn add(&mut self, rows: impl IntoIterator<Item = Row>) -> Result<(), Fatal> {
        for row in rows {
            self.wipe();
            match self.format {
                Format::Table => {
                    if self.rows.is_empty() {
                        print(&format!("{}  STATE  FINDING", filled("SUBJECT", self.width)))?;
                    }
                    print(&row.lines(self.width))?;
                }
                Format::Jsonl => print_json(&row.json(), self.format)?,
                Format::Json => {}
            }
            self.rows.push(row);
        }
        Ok(())
    }

    /// Prints what was not printed yet, and returns all findings.
    fn finish(self) -> Result<Vec<Row>, Fatal> {
        self.wipe();
        if self.format == Format::Json {
            print_json(&self.rows.iter().map(Row::json).collect::<Value>(), self.format)?;
        }
        Ok(self.rows)
    }

    fn wipe(&self) {
        if self.is_watched {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No problem.
    Ok,
    /// Works, but with a problem.
    Warn,
    /// Will not work.
    Fail,
}

impl State {
    /// Returns the word in tables and JSON.
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    /// The subject.
    subject: String,
    /// Its severity.
    state: State,
    /// The finding.
    text: String,
    /// The remedy.
    fix: Option<String>,
    /// Whether a permission is missing.
    is_denied: bool,
}

impl Row {
    /// Creates a finding without a problem.
    fn ok(subject: &str, text: String) -> Self {
        Self { subject: subject.to_owned(), state: State::Ok, text, fix: None, is_denied: false }
    }

    /// Creates a warning.
    fn warn(subject: &str, text: String, fix: Option<String>) -> Self {
        Self { state: State::Warn, fix, ..Self::ok(subject, text) }
    }

    /// Creates a failure.
    fn fail(subject: &str, text: String, fix: Option<String>) -> Self {
        Self { state: State::Fail, fix, ..Self::ok(subject, text) }
    }

    /// Creates the failure of a missing permission.
    fn denied(subject: &str, text: String, fix: String) -> Self {
        Self { is_denied: true, ..Self::fail(subject, text, Some(fix)) }
    }

    /// Creates the finding for a failed request to the cluster.
    fn cluster_error(subject: &str, cluster_error: &ClusterError) -> Self {
        let fix = match cluster_error {
            ClusterError::Denied(denied) => Some(denied.remedy()),
            ClusterError::Identity(_) | ClusterError::Unavailable(_) => None,
        };
        let is_denied = !matches!(cluster_error, ClusterError::Unavailable(_));
        Self { is_denied, ..Self::fail(subject, cluster_error.to_string(), fix) }
    }

    /// Formats the finding for a table, in one line, with a second line for the remedy.
    fn lines(&self, width: usize) -> String {
        let line = format!("{}  {:<5}  {}", filled(&self.subject, width), self.state.name(), self.text);
        match &self.fix {
            Some(fix) => format!("{line}\n{:<width$}         fix: {fix}", ""),
            None => line,
        }
    }

    fn json(&self) -> Value {
        json!({"subject": self.subject, "state": self.state.name(), "text": self.text, "fix": self.fix})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_its_remedy_another_one_below_the_text() {
        let row = Row::fail("a", "topic does not exist".to_owned(), Some("dupgate topics create --execute".to_owned()));
        let expected = "a         FAIL   topic does not exist\n                 fix: dupgate topics create --execute";
        assert_eq!(row.lines(8), expected);
    }

    #[test]
    fn the_command_that_is_named_reads_the_files_that_were_named() {
        let report = Report::new(Format::Json, &[], " -c a.yaml".to_owned());
        assert_eq!(report.create(), "dupgate topics create -c a.yaml --execute");
    }
}
