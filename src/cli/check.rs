//! `check`: connect, and say what would go wrong, each with the command that mends it.

mod machine;
mod permits;
mod rows;
mod topics;

use std::collections::BTreeSet;

use clap::Args;
use serde_json::json;

use self::rows::{Row, State};
use super::Global;
use super::output::{Format, columns, print, print_json};
use super::report::count;
use super::topics::{PATIENCE, input_names, plan, survey};
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::kafka::admin::LogKind;
use crate::kafka::survey::{Survey, TopicPlan, TopicView, Trouble};
use crate::record::{PartitionId, Timestamp};
use crate::runtime::clock::{Clock, wall_time};

/// Arguments of `check`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "Example:\n  dupgate check -c dupgate.yaml\n\n\
    It changes nothing, but for transactional ids of its own that the coordinator notes and forgets after a week.\n    \
    Permissions are tried by requests that the brokers refuse from anybody for another reason.")]
pub struct CheckArgs {
    /// Fail on warnings as well
    #[arg(long)]
    pub strict: bool,
}

/// Checks everything and prints one row a finding.
///
/// # Errors
///
/// With the code of "unavailable" when a check failed, of "not authorized" when only permissions are missing.
pub fn check(args: &CheckArgs, global: &Global) -> Result<(), Fatal> {
    let loaded = global.start(Purpose::Run)?;
    let rows = rows(&loaded.settings);
    let format = Format::or_usual(global.output);
    match format {
        Format::Table => print(&columns(&rows.iter().flat_map(Row::cells).collect::<Vec<_>>()))?,
        Format::Json => print_json(&rows.iter().map(Row::json).collect(), format)?,
        Format::Jsonl => rows.iter().try_for_each(|row| print_json(&row.json(), format))?,
    }
    let number = |state| rows.iter().filter(|row| row.state == state).count();
    let (warnings, failures) = (number(State::Warn), number(State::Fail));
    let sum = format!("{}, {}", count(warnings, "warning"), count(failures, "failure"));
    if failures == 0 && (warnings == 0 || !args.strict) {
        super::note(&sum);
        return Ok(());
    }
    let only_denied = rows.iter().filter(|row| row.state == State::Fail).all(|row| row.is_denied) && failures > 0;
    let reason = if only_denied { Reason::Denied } else { Reason::Unavailable };
    Err(reason.because(anyhow::anyhow!("{sum}")))
}

fn rows(settings: &Settings) -> Vec<Row> {
    let mut rows = match survey(settings) {
        Ok(survey) => of_cluster(settings, &survey),
        Err(fatal) => vec![Row::fail("brokers", fatal.to_string(), None)],
    };
    if settings.roles.judge {
        rows.extend(machine::disk(&settings.index));
    }
    rows.extend(machine::memory(settings));
    rows
}

fn of_cluster(settings: &Settings, survey: &Survey) -> Vec<Row> {
    let brokers = match survey.brokers() {
        Ok(brokers) => brokers,
        Err(trouble) => {
            let named = settings.kafka.brokers.join(", ");
            let (text, fix) = match &trouble {
                Trouble::Identity(_) => (
                    format!("{named} refuse the identity: {trouble}"),
                    "check kafka.security.sasl: mechanism, username and password".to_owned(),
                ),
                Trouble::Denied(denied) => (trouble.to_string(), denied.remedy()),
                Trouble::Away(_) => (
                    format!("{named} give no answer within {}: {trouble}", humantime::format_duration(PATIENCE)),
                    "check kafka.brokers, kafka.security.protocol and the network".to_owned(),
                ),
            };
            let is_denied = !matches!(trouble, Trouble::Away(_));
            return vec![Row { is_denied, ..Row::fail("brokers", text, Some(fix)) }];
        }
    };
    let clock = Clock::start();
    let before = clock.now();
    let again = survey.brokers();
    let took = clock.now().saturating_sub(before);
    drop(again);
    let broker_count = brokers.len();
    let mut rows = vec![Row::ok("brokers", format!("{}, rtt {} ms", count(broker_count, "broker"), took.as_millis()))];

    let names = match survey.named(&input_names(settings)) {
        Ok(names) => names,
        Err(trouble) => {
            rows.push(Row::trouble("input", &trouble));
            return rows;
        }
    };
    if names.is_empty() {
        rows.push(Row::warn("input", "no topic matches the pattern yet".to_owned(), None));
    }
    let mut input: Vec<TopicView> = Vec::new();
    let mut oldest: Option<Timestamp> = None;
    let mut pages_a_second = 0.0;
    for name in &names {
        match survey.topic(name) {
            Ok(Some(view)) => {
                let ends = survey.ends(name, view.partitions);
                if let Ok(ends) = &ends {
                    oldest = oldest.into_iter().chain(ends.oldest).min();
                    pages_a_second += machine::rate(ends);
                }
                rows.extend(topics::input(&view, &ends, wall_time(), settings));
                input.push(view);
            }
            Ok(None) => rows.push(Row::fail(
                name,
                "topic does not exist".to_owned(),
                Some("dupgate topics create --execute --with-input --partitions NUMBER".to_owned()),
            )),
            Err(trouble) => rows.push(Row::trouble(name, &trouble)),
        }
    }
    if settings.roles.judge {
        rows.extend(machine::window(pages_a_second, settings));
    }
    rows.extend(permits::with(vec![group(settings, survey, &input)], permits::groups(settings, survey, &input)));
    if settings.roles.worker {
        rows.extend(outputs(settings, survey, &input, oldest));
    }
    rows.extend(logs(settings, survey, &brokers.keys().copied().collect::<Vec<_>>()));
    rows.extend(transactions(settings, survey));
    rows
}

fn group(settings: &Settings, survey: &Survey, input: &[TopicView]) -> Row {
    let partitions: BTreeSet<PartitionId> = input
        .iter()
        .flat_map(|view| {
            let numbers = (0..view.partitions).filter_map(|number| i32::try_from(number).ok());
            numbers.map(|number| PartitionId::new(view.name.as_str(), number))
        })
        .collect();
    let group = &settings.input.group;
    match survey.lag(&partitions) {
        Ok(Some(lag)) => Row::ok("group", format!("may use \"{group}\"; lag {lag}")),
        Ok(None) => Row::ok("group", format!("\"{group}\" is new here and begins at input.start")),
        Err(trouble) => Row::trouble("group", &trouble),
    }
}

fn outputs(settings: &Settings, survey: &Survey, input: &[TopicView], oldest: Option<Timestamp>) -> Vec<Row> {
    let output = &settings.output;
    let names = [&output.unique, &output.duplicate, &output.dead_letter].into_iter().flatten();
    let of_input = plan::inherit(&input.iter().collect::<Vec<_>>());
    let look = |name: &String| match survey.topic(name) {
        Ok(Some(view)) => {
            let rows = topics::output(&view, of_input, oldest, wall_time(), settings);
            permits::with(rows, permits::write(survey, name))
        }
        Ok(None) => vec![topics::missing(name)],
        Err(trouble) => vec![Row::trouble(name, &trouble)],
    };
    names.flat_map(look).collect()
}

fn logs(settings: &Settings, survey: &Survey, brokers: &[i32]) -> Vec<Row> {
    let default = brokers.first().and_then(|id| survey.broker_setting(*id, "default.replication.factor"));
    let default = default.and_then(|text| text.parse().ok()).unwrap_or(1);
    let look = |(kind, plan): (LogKind, TopicPlan)| match survey.topic(&plan.name) {
        Ok(view) => {
            let rows = topics::log(&plan, view.as_ref(), brokers.len(), settings);
            permits::with(rows, permits::log(settings, survey, kind, &plan, view.as_ref()))
        }
        Err(trouble) => vec![Row::trouble(&plan.name, &trouble)],
    };
    let kinds = [LogKind::Fingerprints, LogKind::Verdicts];
    kinds.into_iter().zip(plan::logs(settings, default)).flat_map(look).collect()
}

fn transactions(settings: &Settings, survey: &Survey) -> Vec<Row> {
    let group = &settings.input.group;
    let worker = settings.roles.worker && settings.output.delivery == crate::config::settings::Delivery::ExactlyOnce;
    let ids = [
        worker.then(|| format!("{group}.worker.check")),
        settings.roles.judge.then(|| format!("{group}.judge.{}.check", settings.scheme())),
    ];
    let try_id = |id: String| match survey.transact(&id) {
        Ok(()) => Row::ok("transactions", format!("may use transactional ids like {id}")),
        Err(Trouble::Denied(denied)) => {
            let prefix = id.strip_suffix("check").unwrap_or(&id);
            let fix = denied.remedy().replace(&id, prefix) + " --resource-pattern-type prefixed";
            let row =
                Row::fail("transactions", format!("not authorized: Write on transactional-id {prefix}*"), Some(fix));
            Row { is_denied: true, ..row }
        }
        Err(trouble) => Row::trouble("transactions", &trouble),
    };
    ids.into_iter().flatten().map(try_id).collect()
}

impl Row {
    fn json(&self) -> serde_json::Value {
        json!({"subject": self.subject, "state": self.state.name(), "text": self.text, "fix": self.fix})
    }
}
