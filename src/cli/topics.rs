//! `topics create`: creates the topics that dupgate writes to, with settings that fit the input.

pub(super) mod plan;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use self::plan::{Wanted, describe, wanted};
use super::output::{Format, print_list};
use super::{Global, note};
use crate::config::Purpose;
use crate::config::settings::{Settings, Topics};
use crate::error::{Fatal, Reason};
use crate::kafka::inspector::{ClusterError, ClusterInspector, TopicView};
use crate::kafka::log_topic::replication_factor;
use crate::runtime::topics::connect_error;
use crate::runtime::{context, fatal};

/// Time-out for one request to the cluster.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Arguments of `topics`.
#[derive(Clone, Debug, Args)]
pub struct TopicsArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub command: TopicsCommand,
}

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
pub fn topics(args: &TopicsArgs, global: &Global) -> Result<(), Fatal> {
    let TopicsCommand::Create(args) = &args.command;
    let settings = global.start(Purpose::Run)?.settings;
    let inspector = inspector(&settings)?;
    let brokers = brokers(&settings, &inspector).map_err(|cluster_error| match cluster_error {
        ClusterError::Unavailable(_) => {
            let why = no_answer(&settings, &cluster_error);
            Reason::Unavailable.because(anyhow::anyhow!("{why} ({CONNECTION_HINT})"))
        }
        ClusterError::Identity(_) | ClusterError::Denied(_) => fatal::cluster_error(cluster_error),
    })?;
    let input = input(&inspector, &settings)?;
    let missing: Vec<&String> = input.iter().filter(|(_, view)| view.is_none()).map(|(name, _)| name).collect();
    if let (Some(name), false) = (missing.first(), args.with_input) {
        let why = anyhow::anyhow!(
            "input topic `{name}` does not exist, so nothing can be derived from it: create it, or add --with-input --partitions NUMBER"
        );
        return Err(Reason::Config.because(why));
    }
    let plans = wanted(&Wanted {
        settings: &settings,
        input: &input,
        partitions: args.partitions.map(|number| number as usize),
        replication_factor: args.replication_factor.map(|number| number as usize),
        default_replication_factor: default_replication_factor(&inspector, brokers.keys()),
    });
    let (mut rows, mut objects) = (Vec::new(), Vec::new());
    let mut outcome = Ok(());
    for plan in plans {
        let there = inspector.topic(&plan.name).map_err(fatal::cluster_error)?;
        let done = if there.is_some() {
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
        rows.push(vec![done.to_owned(), plan.name.clone(), detail]);
        objects.push(json!({
            "topic": plan.name, "state": done, "partitions": plan.partitions, "replicas": plan.replicas,
            "settings": plan.settings
        }));
    }
    // Wait until the new topics exist, because the service may be started next.
    for row in rows.iter().filter(|row| row.first().is_some_and(|state| state == "created")) {
        if let Some(name) = row.get(1) {
            inspector.await_topic(name).map_err(|cluster_error| about(name, cluster_error))?;
        }
    }
    print_list(Format::or_usual(global.output), &["STATE", "TOPIC", "SETTINGS"], &rows, objects)?;
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
