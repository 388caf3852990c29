//! `topics create`: creates the topics that dupgate writes to, with settings that fit the input.
//!
//! Which topics are needed, and with which settings, is derived from the input without I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use super::output::print_list;
use super::{Global, note};
use crate::config::Purpose;
use crate::config::settings::{Settings, Topics};
use crate::error::{Fatal, fatal};
use crate::kafka::admin::LogNames;
use crate::kafka::admin::{LogKind, log_settings, replication_factor};
use crate::kafka::inspector::{ClusterError, ClusterInspector, TopicPlan, TopicView};
use crate::topics::connect_error;
use crate::{context, fatal};

/// Time-out for one request to the cluster.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum TopicsCommand {
    /// Create missing topics: outputs with the settings of the input, and both logs; without --execute, only print them
    #[command(
        after_help = "Examples:\n  dupgate topics create -c dupgate.yaml\n  dupgate topics create -c dupgate.yaml --execute"
    )]
    Create(CreateArgs),
}

/// Arguments of `topics create`.
#[derive(Clone, Debug, Default, Args)]
pub struct CreateArgs {
    /// Apply the change; without it, only print what would be done
    #[arg(long)]
    pub execute: bool,
    /// Create the input topics as well
    #[arg(long)]
    pub with_input: bool,
    /// Partitions of input and output topics [default: those of the input]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub partitions: Option<u32>,
    /// Replication factor [default: that of the input]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub replication_factor: Option<u32>,
}

/// Creates what is missing, or prints what it would create.
///
/// # Errors
///
/// Any failure of the command.
pub fn topics(command: &TopicsCommand, global: &Global) -> Result<(), Fatal> {
    let TopicsCommand::Create(args) = command;
    let settings = global.start(Purpose::Run)?.settings;
    let inspector = inspector(&settings)?;
    let brokers = brokers(&settings, &inspector).map_err(|cluster_error| match cluster_error {
        ClusterError::Unavailable(_) => {
            let why = no_answer(&settings, &cluster_error);
            fatal!(Unavailable, "{why} ({CONNECTION_HINT})")
        }
        ClusterError::Identity(_) | ClusterError::Denied(_) => fatal::cluster_error(cluster_error),
    })?;
    let input = input(&inspector, &settings)?;
    let missing: Vec<&String> = input.iter().filter(|(_, view)| view.is_none()).map(|(name, _)| name).collect();
    if let (Some(name), false) = (missing.first(), args.with_input) {
        return Err(fatal!(
            Config,
            "input topic `{name}` does not exist, so nothing can be derived from it: create it, or add --with-input --partitions NUMBER"
        ));
    }
    let plans = wanted(&settings, &input, args, default_replication_factor(&inspector, brokers.keys()));
    let (mut shown, mut outcome) = (Vec::new(), Ok(()));
    for plan in plans {
        let there = inspector.topic(&plan.name).map_err(fatal::cluster_error)?;
        let state = if there.is_some() {
            "exists"
        } else if args.execute {
            // After a failure, still report the topics that were created before it.
            outcome = inspector.create(&plan).map_err(|cluster_error| about(&plan.name, cluster_error));
            if outcome.is_err() {
                break;
            }
            "created"
        } else {
            "missing"
        };
        let detail = there.as_ref().map_or_else(|| describe(&plan), |view| format!("{} partitions", view.partitions));
        shown.push((state, plan, detail));
    }
    // Wait until the new topics exist, because the service may be started next.
    for (_, plan, _) in shown.iter().filter(|(state, ..)| *state == "created") {
        inspector.await_topic(&plan.name).map_err(|cluster_error| about(&plan.name, cluster_error))?;
    }
    let json = |(state, plan, _): &(&str, TopicPlan, String)| {
        json!({
            "topic": plan.name, "state": state, "partitions": plan.partitions, "replicas": plan.replicas,
            "settings": plan.settings
        })
    };
    let row =
        |(state, plan, detail): &(&str, TopicPlan, String)| [(*state).to_owned(), plan.name.clone(), detail.clone()];
    print_list(global.format(), &["STATE", "TOPIC", "SETTINGS"], &shown, row, json)?;
    if !args.execute {
        note("nothing was done: add --execute to create what is missing");
    }
    outcome
}

/// Returns the replication factor of topics for which none is configured.
pub(super) fn default_replication_factor<'b>(
    inspector: &ClusterInspector,
    mut brokers: impl ExactSizeIterator<Item = &'b i32>,
) -> usize {
    let count = brokers.len();
    let default = brokers.next().and_then(|id| inspector.broker_setting(*id, "default.replication.factor"));
    let factor = replication_factor(None, default.and_then(|text| text.parse().ok()), count);
    usize::try_from(factor).unwrap_or(1)
}

/// Advice if no broker answers.
pub(super) const CONNECTION_HINT: &str = "check kafka.brokers, kafka.security.protocol and the network";

/// Returns which brokers do not answer, and why.
pub(super) fn no_answer(settings: &Settings, cluster_error: &ClusterError) -> String {
    let (named, why) = (&settings.kafka.brokers, cluster_error.to_string());
    if named.iter().any(|broker| why.contains(broker.as_str())) {
        format!("no broker answers: {why}")
    } else {
        format!("no answer from {}: {why}", named.join(", "))
    }
}

/// Returns the addresses of the brokers, by id. Tests the connection first, because the client would retry a refused
/// connection until its time-out.
pub(super) fn brokers(
    settings: &Settings,
    inspector: &ClusterInspector,
) -> Result<BTreeMap<i32, String>, ClusterError> {
    connect_error(&settings.kafka.brokers)
        .map_or_else(|| inspector.brokers(), |why| Err(ClusterError::Unavailable(why)))
}

/// Creates the clients that inspect the cluster.
pub(super) fn inspector(settings: &Settings) -> Result<ClusterInspector, Fatal> {
    ClusterInspector::new(&context::connection(&settings.kafka), &settings.input.group, REQUEST_TIMEOUT)
        .map_err(fatal::cluster_error)
}

/// Describes the input topics, including named topics that do not exist.
fn input(inspector: &ClusterInspector, settings: &Settings) -> Result<BTreeMap<String, Option<TopicView>>, Fatal> {
    let names = inspector.named(&input_names(settings)).map_err(fatal::cluster_error)?;
    names.into_iter().map(|name| Ok((name.clone(), inspector.topic(&name).map_err(fatal::cluster_error)?))).collect()
}

/// Returns the names and patterns of the input topics.
pub(super) fn input_names(settings: &Settings) -> Vec<String> {
    match &settings.input.topics {
        Topics::Names(names) => names.clone(),
        Topics::Pattern(pattern) => vec![pattern.clone()],
    }
}

fn about(topic: &str, cluster_error: ClusterError) -> Fatal {
    let fatal = fatal::cluster_error(cluster_error);
    Fatal { cause: fatal.cause.context(format!("topic `{topic}` is not created")), ..fatal }
}

/// Upper bound of the bytes that our headers and the batch add to a record.
pub(super) const HEADROOM: i64 = 64 << 10;

/// Defaults of a broker for message size and retention.
const DEFAULT_BYTES: i64 = 1_048_588;
const DEFAULT_RETENTION: i64 = 604_800_000;

/// Settings that the outputs inherit from the input topics: the largest of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inherited {
    /// Largest number of partitions.
    pub(super) partitions: usize,
    /// Largest replication factor.
    pub(super) replication_factor: usize,
    /// Largest batch, in bytes.
    pub(super) max_bytes: i64,
    /// Longest retention, in milliseconds; -1 is unlimited.
    pub(super) retention: i64,
    /// Whether an input topic keeps the last record of each key.
    pub(super) is_compacted: bool,
}

/// Returns what the outputs inherit; `None` without a single input topic.
pub(super) fn inherit(input: &[&TopicView]) -> Option<Inherited> {
    let retentions = input.iter().map(|view| view.number("retention.ms").unwrap_or(DEFAULT_RETENTION));
    let is_compacted = |view: &&TopicView| view.setting("cleanup.policy").is_some_and(|text| text.contains("compact"));
    Some(Inherited {
        partitions: input.iter().map(|view| view.partitions).max()?,
        replication_factor: input.iter().map(|view| view.replicas).max()?,
        max_bytes: input.iter().map(|view| view.number("max.message.bytes").unwrap_or(DEFAULT_BYTES)).max()?,
        retention: if retentions.clone().any(|retention| retention < 0) { -1 } else { retentions.max()? },
        is_compacted: input.iter().any(is_compacted),
    })
}

/// Returns the `max.message.bytes` that an output needs if this is the largest of the inputs.
///
/// A topic limits compressed batches, and the outputs check records before they are compressed: a page of
/// `input.max_document` can come from a topic with a smaller limit.
pub(super) fn output_bytes(of_input: i64, settings: &Settings) -> i64 {
    of_input.max(max_document(settings)).saturating_add(HEADROOM).min(i64::from(i32::MAX))
}

/// Returns `input.max_document` in bytes.
pub(super) fn max_document(settings: &Settings) -> i64 {
    i64::try_from(settings.record.max_document).unwrap_or(i64::MAX)
}

/// Lists the topics that are needed, input first, logs last. `input` holds the input topics by name; `None` if it does
/// not exist.
fn wanted(
    settings: &Settings,
    input: &BTreeMap<String, Option<TopicView>>,
    args: &CreateArgs,
    default_replication_factor: usize,
) -> Vec<TopicPlan> {
    let of_input = inherit(&input.values().flatten().collect::<Vec<_>>()).unwrap_or(Inherited {
        partitions: 1,
        replication_factor: default_replication_factor,
        max_bytes: DEFAULT_BYTES,
        retention: DEFAULT_RETENTION,
        is_compacted: false,
    });
    let partitions = args.partitions.map_or(of_input.partitions, |number| number as usize);
    let replication_factor = args.replication_factor.map_or(of_input.replication_factor, |number| number as usize);
    let plan = |name: &str, settings: BTreeMap<String, String>| TopicPlan {
        name: name.to_owned(),
        partitions,
        replicas: replication_factor,
        is_configured: args.replication_factor.is_some(),
        settings,
    };
    let missing = input.iter().filter(|(_, view)| view.is_none());
    let mut plans: Vec<TopicPlan> = missing.map(|(name, _)| plan(name, BTreeMap::new())).collect();
    let output = &settings.output;
    for name in [&output.unique, &output.duplicate, &output.dead_letter].into_iter().flatten() {
        let mut of_output = BTreeMap::from([
            ("max.message.bytes", output_bytes(of_input.max_bytes, settings).to_string()),
            ("retention.ms", of_input.retention.to_string()),
            ("message.timestamp.type", "CreateTime".to_owned()),
        ]);
        // Dead letters are never compacted, because those of one key must not replace each other.
        let is_dead = Some(name) == output.dead_letter.as_ref();
        let policy = if of_input.is_compacted && !is_dead { "compact" } else { "delete" };
        of_output.insert("cleanup.policy", policy.to_owned());
        if replication_factor >= 3 {
            of_output.insert("min.insync.replicas", "2".to_owned());
        }
        plans.push(plan(name, of_output.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()));
    }
    plans.extend(logs(settings, default_replication_factor));
    plans
}

/// Lists both logs of the configured scheme.
pub(super) fn logs(settings: &Settings, default_replication_factor: usize) -> [TopicPlan; 2] {
    let names = LogNames::new(&settings.logs.prefix, &settings.scheme().to_string());
    let configured =
        settings.logs.replication_factor.and_then(|replication_factor| usize::try_from(replication_factor).ok());
    let replicas = configured.unwrap_or(default_replication_factor);
    [(names.fingerprints, LogKind::Fingerprints), (names.verdicts, LogKind::Verdicts)].map(|(name, kind)| {
        let replication_factor = i32::try_from(replicas).unwrap_or(i32::MAX);
        let of_log = log_settings(kind, replication_factor).into_iter();
        TopicPlan {
            name: name.to_string(),
            partitions: settings.log_partitions().get(),
            replicas,
            is_configured: configured.is_some(),
            settings: of_log.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    })
}

/// Formats a plan on one line.
fn describe(plan: &TopicPlan) -> String {
    let settings = plan.settings.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ");
    format!("{} partitions, replication factor {} {settings}", plan.partitions, plan.replicas).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ExternalInputs, Layers, Purpose};

    fn settings(more: &str) -> Settings {
        let mut layers = Layers::default();
        layers.file("f.yaml", crate::config::SAMPLE);
        layers.file("g.yaml", more);
        layers.resolve(&ExternalInputs::default(), Purpose::Run).unwrap_or_else(|refused| panic!("{refused}")).0
    }

    fn view(name: &str, partitions: usize, settings: &[(&str, &str)]) -> TopicView {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        TopicView { name: name.to_owned(), partitions, replicas: 3, in_sync: 3, settings: Ok(settings) }
    }

    fn plans(settings: &Settings, input: &[TopicView]) -> BTreeMap<String, TopicPlan> {
        let input = input.iter().map(|view| (view.name.clone(), Some(view.clone()))).collect();
        let plans = wanted(settings, &input, &CreateArgs::default(), 2);
        plans.into_iter().map(|plan| (plan.name.clone(), plan)).collect()
    }

    #[test]
    fn outputs_take_what_the_largest_input_gives() {
        let settings = settings("input: {topics: [a, b]}");
        let input = [
            view("a", 24, &[("max.message.bytes", "16777216"), ("retention.ms", "1000")]),
            view("b", 6, &[("max.message.bytes", "1000"), ("retention.ms", "2000")]),
        ];
        let plans = plans(&settings, &input);
        assert_eq!(plans.len(), 5, "three outputs, two logs: {plans:?}");
        let unique = &plans["crawl.pages.unique"];
        assert_eq!((unique.partitions, unique.replicas), (24, 3));
        assert_eq!(unique.settings["max.message.bytes"], "16842752");
        assert_eq!(unique.settings["retention.ms"], "2000");
        assert_eq!(unique.settings["min.insync.replicas"], "2");
        assert_eq!(unique.settings["cleanup.policy"], "delete");
    }

    #[test]
    fn outputs_take_the_largest_page_that_a_compressed_input_holds() {
        let input = [view("crawl.pages", 1, &[("max.message.bytes", "1048588")])];
        let plans = plans(&settings("input: {max_document: 20MiB}\nprocessing: {max_in_flight_bytes: 64MiB}"), &input);
        for name in ["crawl.pages.unique", "crawl.pages.duplicate", "crawl.pages.dead"] {
            assert_eq!(plans[name].settings["max.message.bytes"], ((20 << 20) + (64 << 10)).to_string(), "{name}");
        }
    }

    #[test]
    fn unlimited_retention_and_compaction_are_inherited_but_dead_letters_are_never_compacted() {
        let input =
            [view("crawl.pages", 1, &[("retention.ms", "-1"), ("cleanup.policy", "compact")]), view("b", 1, &[])];
        let plans = plans(&settings(""), &input);
        assert_eq!(plans["crawl.pages.unique"].settings["retention.ms"], "-1");
        assert_eq!(plans["crawl.pages.duplicate"].settings["cleanup.policy"], "compact");
        assert_eq!(plans["crawl.pages.dead"].settings["cleanup.policy"], "delete");
    }

    #[test]
    fn logs_are_kept_until_they_are_trimmed() {
        let settings =
            settings("judge: {partitions: 4}\ninput: {fields: {scope: /site}}\nlogs: {replication_factor: 3}");
        let plans = plans(&settings, &[view("crawl.pages", 24, &[])]);
        let scheme = settings.scheme();
        let fingerprint_plan = &plans[&format!("dupgate.fingerprints.{scheme}")];
        assert_eq!((fingerprint_plan.partitions, fingerprint_plan.replicas), (4, 3));
        assert_eq!(
            (
                fingerprint_plan.settings["retention.ms"].as_str(),
                fingerprint_plan.settings["message.timestamp.type"].as_str()
            ),
            ("-1", "LogAppendTime")
        );
        assert!(!plans[&format!("dupgate.verdicts.{scheme}")].settings.contains_key("message.timestamp.type"));
    }

    #[test]
    fn only_what_the_mode_writes_is_wanted() {
        let observe = plans(&settings("mode: observe"), &[view("crawl.pages", 1, &[])]);
        assert_eq!(observe.len(), 2, "{observe:?}");
    }
}
