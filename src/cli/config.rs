//! `config`: prints the effective settings, files to start from, the schema, and the cost of a change.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::slice::from_ref;

use clap::Subcommand;
use serde_json::{Value, json};

use super::Global;
use super::output::{self, Format, print, print_json, print_list, print_report, table};
use crate::config::settings::{ColdStart, Mode};
use crate::config::{
    ByteSize, ChangeImpact, Layers, Purpose, Refused, SAMPLE, SECRET_SLOTS, Settings, Shown, gather, schema,
};
use crate::error::{Fatal, OrFatal, Reason};
use crate::fingerprint::SchemeId;
use crate::protocol::{DualPeriod, Rules};
use crate::record::Timestamp;
use crate::replay::warm::fits;

/// The minimal configuration of a service.
pub const MINIMAL: &str = include_str!("../../config/minimal.yaml");

/// What to do with the configuration.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the effective settings, secrets redacted
    #[command(after_help = "Example:\n  dupgate config show -c dupgate.yaml --origin")]
    Show {
        /// List every key with the source of its value and what it decides: the scheme (fingerprints), the rules
        /// (verdicts), the state (group and logs), or only the work
        #[arg(long)]
        origin: bool,
    },
    /// Print a configuration file to start from
    #[command(after_help = "Example:\n  dupgate config init > dupgate.yaml")]
    Init {
        /// Print every setting with its default and meaning
        #[arg(long)]
        full: bool,
    },
    /// Print the JSON Schema of configuration files
    #[command(after_help = "Example:\n  dupgate config schema > dupgate.schema.json")]
    Schema,
    /// Show what a change of the configuration affects and costs
    #[command(
        after_help = "Examples:\n  dupgate config diff running.yaml new.yaml\n  dupgate config diff running.yaml -s match.simhash.max_distance=4"
    )]
    Diff {
        /// Running configuration
        #[arg(value_name = "RUNNING")]
        running: PathBuf,
        /// New configuration [default: the running one with --set applied]
        #[arg(value_name = "NEW")]
        new: Option<PathBuf>,
    },
}

/// Runs the command.
///
/// # Errors
///
/// A configuration that is refused.
pub fn config(command: &ConfigCommand, global: &Global) -> Result<(), Fatal> {
    match command {
        ConfigCommand::Show { origin } => show(*origin, global),
        ConfigCommand::Init { full } => print(if *full { SAMPLE } else { MINIMAL }.trim_end()),
        ConfigCommand::Schema => print_json(&schema(), Format::Json),
        ConfigCommand::Diff { running, new } => diff(running, new.as_ref().unwrap_or(running), global),
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

fn show(origin: bool, global: &Global) -> Result<(), Fatal> {
    let read = read(global, &[], true)?;
    let format = global.report_format();
    if origin {
        let row = |Shown { path, value, origin, decides, .. }: &Shown| {
            [path.clone(), value.to_string(), decides.to_string(), origin.to_string()]
        };
        let json = |Shown { path, value, origin, decides, .. }: &Shown| json!({"key": path, "value": value, "origin": origin.to_string(), "decides": decides.name()});
        return print_list(format, &["KEY", "VALUE", "DECIDES", "FROM"], &read.shown, row, json);
    }
    if format != Format::Table {
        return print_json(&read.tree, format);
    }
    let yaml = serde_saphyr::to_string(&read.tree).or_fatal(Reason::Failure)?;
    let settings = &read.settings;
    print(&format!(
        "# hash {}, scheme {}, group {}\n{}",
        settings.hash,
        settings.scheme(),
        settings.input.group,
        yaml.trim_end()
    ))
}

/// Reads both configurations and prints the differences. Environment variables apply to both, `--set` only to the new
/// one.
fn diff(running: &PathBuf, new_file: &PathBuf, global: &Global) -> Result<(), Fatal> {
    let of = |file: &PathBuf| file.display().to_string();
    let old = read(global, from_ref(running), false).map_err(|fatal| fatal.in_part(&of(running)))?;
    let new = read(global, from_ref(new_file), true).map_err(|fatal| fatal.in_part(&of(new_file)))?;
    let changes = changes(&old, &new);
    let costs = costs(&old, &new, &changes);
    let is_bridged = new.settings.previous.is_some();
    let steps = if fits(&old.settings, &new.settings).is_ok() && !is_bridged {
        warm_steps(&of(running), &of(new_file), &global.set)
    } else {
        Vec::new()
    };
    let document = document(&old, &new, &changes, &costs, &steps);
    print_report(global.report_format(), &document, || text(&changes, &costs, &steps))
}

/// Returns the steps that change the scheme without missing duplicates.
fn warm_steps(running: &str, new: &str, set: &[String]) -> Vec<String> {
    let set: Vec<String> = set.iter().map(|assignment| format!(" -s {}", in_shell(assignment))).collect();
    let (running, new, set) = (in_shell(running), in_shell(new), set.concat());
    vec![
        format!("dupgate index warm -c {new} --running {running}{set} --execute"),
        "when it reports that it has caught up: stop every old instance cleanly".to_owned(),
        "when it reports that nothing new is judged: start the new instances, then stop it (SIGTERM)".to_owned(),
    ]
}

/// Quotes a word for a shell.
fn in_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// One key whose value differs.
struct Change {
    path: String,
    old: Value,
    new: Value,
    decides: ChangeImpact,
}

fn changes(old: &Read, new: &Read) -> Vec<Change> {
    let value = |list: &[Shown], path: &str| {
        list.iter().find(|shown| shown.path == path).map(|shown| shown.value.clone()).unwrap_or_default()
    };
    let mut paths: Vec<(ChangeImpact, String)> =
        old.shown.iter().chain(&new.shown).map(|shown| (shown.decides, shown.path.clone())).collect();
    paths.sort_unstable();
    paths.dedup();
    let change = |(decides, path): (ChangeImpact, String)| {
        let (old, new) = (value(&old.shown, &path), value(&new.shown, &path));
        (old != new).then_some(Change { path, old, new, decides })
    };
    paths.into_iter().filter_map(change).collect()
}

/// Returns what the changes cost, by impact.
fn costs(old: &Read, new: &Read, changes: &[Change]) -> Vec<(ChangeImpact, String)> {
    let (was, will) = (&old.settings, &new.settings);
    let mut costs = Vec::new();
    let mut add = |decides, cost: String| costs.push((decides, cost));
    let (old_scheme, new_scheme) = (was.scheme(), will.scheme());
    let span = output::span;
    let state = was.logs.prefix != will.logs.prefix || was.input.group != will.input.group;
    if was.input.group != will.input.group {
        let start = new.shown.iter().find(|shown| shown.path == "input.start");
        let start = start.and_then(|shown| shown.value.as_str()).unwrap_or_default();
        let (old_group, group) = (&was.input.group, &will.input.group);
        let meaning = match (was.mode, will.mode) {
            (Mode::Observe, Mode::Observe) => String::new(),
            (Mode::Observe, Mode::Route | Mode::Tag) => {
                format!(", and starts without originals: what {old_group} saw was not delivered")
            }
            (Mode::Route | Mode::Tag, Mode::Observe) => {
                format!(", and nothing is delivered any more: {old_group} keeps its offsets for a change back")
            }
            (Mode::Route | Mode::Tag, Mode::Route | Mode::Tag) => {
                format!(", and pages that {old_group} has delivered are delivered again")
            }
        };
        let begins = format!("{group} begins at input.start ({start}) unless it has an offset");
        add(ChangeImpact::State, format!("another group: {begins}{meaning}"));
    }
    let same_group = match (was.mode, will.mode) {
        (Mode::Tag, Mode::Route) => {
            "every page that was tagged went to unique, so originals are there; duplicates go to the duplicate topic from \
             now on"
        }
        (Mode::Route, Mode::Tag) => "duplicates go to unique from now on, earlier ones stay in the duplicate topic",
        (Mode::Route | Mode::Tag | Mode::Observe, Mode::Route | Mode::Tag | Mode::Observe) => "",
    };
    if !same_group.is_empty() {
        add(ChangeImpact::State, format!("the same group and index: {same_group}"));
    }
    let bridge = will.previous.as_ref().filter(|previous| !state && previous.scheme() == old_scheme);
    if let Some(previous) = bridge {
        add(ChangeImpact::Scheme, dual_period(&old_scheme, &new_scheme, previous, will));
        if was.previous.is_some() {
            let text = "the old configuration names an earlier scheme, too: wait until its dual period is over \
                        (dupgate_dual_period_remaining_seconds is 0), or duplicates of pages before it are missed";
            add(ChangeImpact::Scheme, text.to_owned());
        }
    } else if state || old_scheme != new_scheme {
        let mut text = String::new();
        if old_scheme != new_scheme {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "new scheme {old_scheme} -> {new_scheme}: fingerprints of both do not compare; ");
        }
        let _ = write!(
            text,
            "starts a new index in {0}.fingerprints.{1} and {0}.verdicts.{1}: a duplicate whose original came before the \
             change is called unique; that is all of the window at first, and none of it once one window ({2}) has passed",
            will.logs.prefix,
            new_scheme,
            span(will.rules.windows.max())
        );
        if will.index.cold_start == ColdStart::Stop {
            text.push_str(
                "; index.cold_start is stop, so instances refuse to start until `index warm` has filled the new index",
            );
        }
        add(if state { ChangeImpact::State } else { ChangeImpact::Scheme }, text);
        if was.mode == will.mode || will.mode != Mode::Observe && was.mode != Mode::Observe {
            if let Some(before) = (!state).then(|| before(changes)).flatten() {
                let text = "to miss no duplicate, and to replace the instances one by one instead, add to the new \
                            configuration: previous: ";
                add(ChangeImpact::Scheme, format!("{text}{before}"));
            } else if !state && old_scheme != new_scheme {
                let text = "previous cannot bridge the change of a secret (match.seed): to miss no duplicate, fill the new index \
                            with `dupgate index warm`";
                add(ChangeImpact::Scheme, text.to_owned());
            }
            let text =
                "stop every old instance cleanly before the first new one starts: a page is judged once in each scheme";
            add(ChangeImpact::Scheme, text.to_owned());
        }
    } else if was.text != will.text || changes.iter().any(|change| change.decides == ChangeImpact::Scheme) {
        add(ChangeImpact::Scheme, format!("the scheme stays {new_scheme}: fingerprints are the same"));
    }
    if was.rules != will.rules {
        let text = "other rules: they apply from the first verdict of a judge that has them; earlier verdicts are unchanged, \
                    the index stays";
        add(ChangeImpact::Rules, text.to_owned());
        let [before, after] = [&was.rules, &will.rules].map(|rules| rules.windows.max() + rules.lateness);
        if let Some(longer) = after.checked_sub(before).filter(|longer| !longer.is_zero()) {
            let [before, after, longer] = [before, after, longer].map(span);
            add(
                ChangeImpact::Rules,
                format!(
                    "remembers longer ({after} instead of {before}): forgotten originals do not come back, so the full span \
                     is reached in {longer}"
                ),
            );
        }
        let [before, after] = [&was.rules, &will.rules].map(|rules| rules.max_entries);
        if after < before {
            let fate = "the oldest above the limit are forgotten at once";
            add(ChangeImpact::Rules, format!("fewer originals ({after} instead of {before}): {fate}"));
        }
    }
    if !changes.is_empty() {
        add(ChangeImpact::Work, "takes a restart of each instance".to_owned());
    }
    costs
}

/// Says what a change of the scheme takes that `previous` bridges.
fn dual_period(old: &SchemeId, new: &SchemeId, previous: &Settings, will: &Settings) -> String {
    let rules = &will.rules;
    let period = Rules { dual: Some(DualPeriod::Begun), ..rules.clone() }.left_of_dual_period(Timestamp::MIN);
    // A fleet has as long to change as the period is longer than what is kept.
    let to_change = period.saturating_sub(rules.windows.max() + rules.lateness);
    let memory = ByteSize(will.index.max_memory.saturating_add(previous.index.max_memory));
    format!(
        "new scheme {old} -> {new}, bridged by previous: {old} decides until the new index knows a window, after about {} of \
         event time, and no duplicate is missed; until then text work and requests are those of both, and judges hold two \
         indexes (up to {memory}). Replace all instances within {}, in any order",
        output::span(period),
        output::span(to_change)
    )
}

/// Returns the settings before a change of the scheme as the value of `previous`; `None` if they cannot be named there.
fn before(changes: &[Change]) -> Option<Value> {
    let mut before = json!({});
    for change in changes.iter().filter(|change| change.decides == ChangeImpact::Scheme) {
        if SECRET_SLOTS.contains(&change.path.as_str()) {
            return None;
        }
        let place = change.path.split('.').fold(&mut before, |place, key| &mut place[key]);
        *place = change.old.clone();
    }
    before.as_object().is_some_and(|before| !before.is_empty()).then_some(before)
}

fn text(changes: &[Change], costs: &[(ChangeImpact, String)], steps: &[String]) -> String {
    if changes.is_empty() {
        return "no difference".to_owned();
    }
    let row = |change: &Change| {
        vec![change.decides.to_string(), change.path.clone(), format!("{} -> {}", change.old, change.new)]
    };
    let mut costs: Vec<String> = costs.iter().map(|(_, cost)| format!("* {cost}")).collect();
    if !steps.is_empty() {
        costs.push("\nto miss no duplicates, fill the new index beside the running service first:".to_owned());
        costs.extend(steps.iter().enumerate().map(|(at, step)| format!("{}. {step}", at + 1)));
    }
    let rows: Vec<Vec<String>> = changes.iter().map(row).collect();
    format!("{}\n\n{}", table(&["DECIDES", "KEY", "CHANGE"], &rows), costs.join("\n"))
}

fn document(old: &Read, new: &Read, changes: &[Change], costs: &[(ChangeImpact, String)], steps: &[String]) -> Value {
    let change = |Change { path, old, new, decides }: &Change| json!({"key": path, "old": old, "new": new, "decides": decides.name()});
    let cost = |(decides, cost): &(ChangeImpact, String)| json!({"decides": decides.name(), "cost": cost});
    let side = |read: &Read| json!({"hash": read.settings.hash, "scheme": read.settings.scheme().to_string()});
    json!({
        "old": side(old), "new": side(new),
        "rules_change": old.settings.rules != new.settings.rules,
        "changes": changes.iter().map(change).collect::<Value>(), "warm_up": steps,
        "costs": costs.iter().map(cost).collect::<Value>(),
    })
}
