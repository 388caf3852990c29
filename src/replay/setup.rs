//! The inputs of a run, its pages, and their conversion to output records.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use dupgate_core::replay::{FilePlace, InputRange, Mark, Marks, Plan, Reads, Shadow, Target};

use super::feed::{Extents, Feed};
use crate::clock::Clock;
use crate::config::settings::{Settings, Topics};
use crate::error::{Fatal, Reason};
use crate::fingerprint::Fingerprinter;
use crate::kafka::admin::{Admin, Brokers};
use crate::kafka::client::ClientSettings;
use crate::kafka::offsets::Offsets;
use crate::kafka::output::Outputs;
use crate::processing::schema_registry;
use crate::processing::text_pool::RecordProcessor;
use crate::processing::text_pool::TreeBudget;
use crate::record::{PartitionId, Timestamp};
use crate::telemetry::Metrics;
use crate::{context, topics};

/// The start of a replay in a partition.
pub(super) fn start_of(plan: &Plan, partition: &PartitionId) -> Mark {
    let range = plan.input.iter().find(|range| range.id() == *partition);
    Mark::at(range.map_or(0, |range| range.warm_from))
}

/// Returns the range to read of each partition, after the committed offsets; none if fingerprints are read.
pub(super) fn extents(plan: &Plan, marks: &Marks) -> Extents {
    if plan.reads == Reads::Fingerprints {
        return Extents::new();
    }
    let extent = |range: &InputRange| {
        let from = marks.get(&range.id()).map_or(range.warm_from, |mark| mark.offset);
        (range.id(), from..range.to.max(from))
    };
    plan.input.iter().map(extent).collect()
}

/// Checks that the input still holds the range.
pub(super) fn still_there(offsets: &Offsets, extents: &Extents) -> Result<(), Fatal> {
    for (partition, extent) in extents {
        if extent.is_empty() {
            continue;
        }
        let Range { start: from, end: to } = *extent;
        let Range { start: first, end } =
            offsets.range(partition).map_err(|error| Reason::Unavailable.because(error))?;
        if end < to {
            let why = anyhow::anyhow!(
                "{partition} ends at offset {end}, before the end of the range ({to}): the topic was recreated after the plan was made"
            );
            return Err(Reason::State.because(why));
        }
        if first > from {
            let why = anyhow::anyhow!(
                "{partition} begins at offset {first}: retention has deleted {} records of the range since; make a new plan",
                first - from
            );
            return Err(Reason::State.because(why));
        }
    }
    Ok(())
}

/// Converts pages to records of the plan's topics.
pub(super) fn outputs(plan: &Plan, settings: &Settings) -> Result<Outputs, Fatal> {
    let mut settings = settings.clone();
    let output = if plan.into.has_pages() { plan.output.clone() } else { Shadow::default() };
    settings.output.unique = output.unique;
    settings.output.duplicate = output.duplicate;
    settings.output.dead_letter = output.dead_letter;
    settings.roles.worker = true;
    if plan.is_of_files() {
        // The topics of the pages may be gone.
        settings.input.topics = Topics::Names(Vec::new());
    }
    let admin =
        Admin::of(&context::connection(&settings.kafka).admin(), Brokers::Cluster).map_err(topics::unavailable)?;
    let mut outputs = topics::outputs(&admin, &settings, plan.scheme.clone()).map_err(topics::unavailable)?;
    // For a pattern, the plan lists the topics.
    for topic in plan.input.iter().map(|range| &range.topic).collect::<BTreeSet<_>>() {
        let partitions = admin.expect_topic(topic).map_err(topics::unavailable)?;
        outputs.partition_counts.learn(Arc::from(topic.as_str()), partitions);
    }
    if plan.into == Target::Live {
        outputs.headers.replay = Some(plan.id.clone());
    }
    Ok(outputs)
}

/// Starts reading the pages of a plan: these offsets of its topics, or its files after a place.
pub(super) fn feed(
    plan: &Plan,
    settings: &Settings,
    (extents, place): (&Extents, Option<FilePlace>),
    outputs: Arc<Outputs>,
    (config, metrics, clock): (&ClientSettings, &Metrics, Clock),
) -> Result<Feed, Fatal> {
    let mut settings = settings.clone();
    schema_registry::connect_waiting(&mut settings, metrics, None, clock)?;
    let fingerprinter =
        Fingerprinter::new(&settings.record, &settings.text, &settings.fingerprint, settings.log_partitions())
            .map_err(|error| Reason::Config.because(error))?;
    let memory = settings.processing.max_in_flight_bytes;
    let processor = RecordProcessor {
        fingerprinter,
        outputs,
        clock,
        metrics: metrics.clone(),
        trees: TreeBudget::new(memory, settings.record.format),
        untimed: if plan.is_of_files() { super::UNTIMED } else { Timestamp::default() },
        max_future_skew: settings.rules.max_future_skew,
    };
    let cpus = || std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let threads = settings.processing.threads.unwrap_or_else(cpus);
    match place {
        Some(place) => {
            let max_document = settings.record.max_document;
            Feed::of_files(&plan.files, place, max_document, processor, threads, memory, clock)
        }
        None => Feed::of_topics(config, extents, processor, threads, memory, clock),
    }
}
