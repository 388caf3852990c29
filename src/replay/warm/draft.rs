//! Plans a warm-up: the part of the running scheme's log to follow, and warnings.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::config::settings::{Settings, Topics};
use crate::context;
use crate::error::{Fatal, fatal};
use crate::fatal::{self, failure, unavailable};
use crate::kafka::admin::LogNames;
use crate::kafka::inspector::{ClusterError, ClusterInspector};
use crate::kafka::offsets::Offsets;
use crate::protocol::{LogPartition, VerdictOffset, VerdictRecord};
use crate::record::{PartitionId, Timestamp};
use crate::replay::RangeBound;
use crate::replay::walk::{LogStream, partition};

/// Time-out of a request to the cluster.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of offsets at the end of the log to search first for the newest page.
const LAST: i64 = 2_000;

/// How far the clocks of judges and brokers may be apart.
const CLOCKS: Duration = Duration::from_mins(5);

/// The plan of a warm-up.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The running scheme.
    pub running: String,
    /// The scheme whose logs are filled.
    pub scheme: String,
    /// Pages before this event time are left out.
    pub from: Timestamp,
    /// Event time of the newest page that the running scheme has judged; `None` if it has judged nothing.
    pub newest: Option<Timestamp>,
    /// The part of the running scheme's verdict log that is read: its first offset, and its end when the plan is made.
    pub log: BTreeMap<PartitionId, Range<VerdictOffset>>,
    /// The logs of the new scheme, and whether they exist.
    pub topics: Vec<(String, bool)>,
    /// Partitions of the input, and records in them from [`Draft::from`] on.
    pub input: (usize, u64),
    /// Warnings.
    pub warnings: Vec<String>,
}

impl Draft {
    /// Returns the number of offsets of the running scheme's log to read.
    #[must_use]
    pub fn offsets(&self) -> u64 {
        self.log.values().map(|range| range.end.since(range.start)).sum()
    }
}

/// Checks that the logs of the new configuration can be filled while the running one is in use.
///
/// # Errors
///
/// The reason why they cannot.
pub fn fits(running: &Settings, new: &Settings) -> Result<(), String> {
    if running.scheme() == new.scheme() {
        return Err(format!(
            "both configurations have the scheme {}: its logs are in use, and there is nothing to fill",
            new.scheme()
        ));
    }
    let topics = |settings: &Settings| match &settings.input.topics {
        Topics::Names(names) => names.iter().cloned().collect::<BTreeSet<String>>(),
        Topics::Pattern(pattern) => BTreeSet::from([pattern.clone()]),
    };
    let (was, will) = (topics(running), topics(new));
    let differ = |key: &str, was: &str, will: &str| {
        Err(format!("{key} differs ({was} -> {will}): pages of the running service are not those of the new one"))
    };
    if running.input.group != new.input.group {
        return differ("input.group", &running.input.group, &new.input.group);
    }
    if running.logs.prefix != new.logs.prefix {
        return differ("logs.prefix", &running.logs.prefix, &new.logs.prefix);
    }
    if was != will {
        let listed = |topics: &BTreeSet<String>| topics.iter().cloned().collect::<Vec<_>>().join(" ");
        return differ("input.topics", &listed(&was), &listed(&will));
    }
    Ok(())
}

/// Inspects the cluster. Writes nothing.
///
/// # Errors
///
/// The configurations do not fit each other, the running scheme has no log, or the cluster does not answer.
pub fn draft(running: &Settings, new: &Settings, from: Option<RangeBound>) -> Result<Draft, Fatal> {
    fits(running, new).map_err(|why| fatal!(Config, why))?;
    let connection = context::connection(&running.kafka);
    let group = &running.input.group;
    let inspector = ClusterInspector::new(&connection, group, QUERY_TIMEOUT).map_err(fatal::cluster_error)?;
    inspector.brokers().map_err(fatal::cluster_error)?;
    let names = |settings: &Settings| LogNames::new(&settings.logs.prefix, &settings.scheme().to_string());
    let (old_names, new_names) = (names(running), names(new));
    if inspector.topic(&old_names.verdicts).map_err(fatal::cluster_error)?.is_none() {
        return Err(fatal!(
            Config,
            "topic `{}` does not exist: nothing was judged under the running scheme, and there is nothing to fill from",
            old_names.verdicts
        ));
    }
    let is_there = |name: &Arc<str>| -> Result<(String, bool), Fatal> {
        Ok((name.to_string(), inspector.topic(name).map_err(fatal::cluster_error)?.is_some()))
    };
    let topics = vec![is_there(&new_names.fingerprints)?, is_there(&new_names.verdicts)?];

    let offsets = Offsets::new(&connection.query(group), QUERY_TIMEOUT).map_err(failure)?;
    let logs = LogPartition::first(running.log_partitions().get()).map(|log| partition(&old_names.verdicts, log));
    let logs: BTreeSet<PartitionId> = logs.collect();
    let config = connection.bounded_follower(group);
    let mut held: BTreeMap<PartitionId, Range<VerdictOffset>> = BTreeMap::new();
    let mut newest: Option<Timestamp> = None;
    for log in &logs {
        let kept = offsets.range(log).map_err(unavailable)?;
        let kept = VerdictOffset(kept.start)..VerdictOffset(kept.end);
        newest = newest.max(newest_in(&config, log, &kept)?);
        held.insert(log.clone(), kept);
    }

    let mut warnings = Vec::new();
    let span = new.rules.windows.max() + new.rules.lateness;
    let now = crate::clock::wall_time();
    let from = match from {
        None => newest.unwrap_or(now).minus(span),
        Some(RangeBound::Start) => Timestamp::MIN,
        Some(RangeBound::End) => now,
        Some(RangeBound::At(time)) => time,
        Some(RangeBound::Offset(_)) => {
            return Err(fatal!(
                Usage,
                "a warm-up begins at a time, not at an offset, because offsets differ between partitions"
            ));
        }
    };
    // An event time exceeds the time of its verdict by at most this much, so verdicts written earlier are not needed.
    let written = from.minus(running.rules.max_future_skew + CLOCKS);
    let starts = offsets.at_time(&logs, written).map_err(unavailable)?;
    let mut log = BTreeMap::new();
    for (partition, Range { start: first, end }) in held {
        let start = starts.get(&partition).copied().map_or(first, VerdictOffset).clamp(first, end);
        if start == first && first > VerdictOffset(0) {
            warnings
                .push(format!("{partition} is kept from offset {first} on: pages judged before it are not filled in"));
        }
        log.insert(partition, start..end);
    }
    let read = new.input.topics.list();
    let denied = |error| fatal::cluster_error(ClusterError::of_topics(&error, &read));
    let input = offsets.partitions(&read).map_err(denied)?;
    let starts = offsets.at_time(&input, from).map_err(unavailable)?;
    let (mut records, mut cut) = (0, Vec::new());
    for partition in &input {
        let Range { start: first, end } = offsets.range(partition).map_err(unavailable)?;
        let start = starts.get(partition).copied().unwrap_or(first).clamp(first, end);
        records += u64::try_from(end - start).unwrap_or(0);
        if start == first && first > 0 && first < end {
            cut.push(partition.to_string());
        }
    }
    if !cut.is_empty() {
        warnings.push(format!(
            "the input does not hold everything since then ({}): pages that retention has deleted are counted and left out",
            cut.join(", ")
        ));
    }
    Ok(Draft {
        running: running.scheme().to_string(),
        scheme: new.scheme().to_string(),
        from,
        newest,
        log,
        topics,
        input: (input.len(), records),
        warnings,
    })
}

/// Returns the newest event time at the end of a log; `None` if the log has no verdict.
fn newest_in(
    config: &crate::kafka::client::ClientSettings,
    log: &PartitionId,
    kept: &Range<VerdictOffset>,
) -> Result<Option<Timestamp>, Fatal> {
    let mut back = LAST;
    loop {
        let from = VerdictOffset(kept.end.0.saturating_sub(back)).max(kept.start);
        let mut stream = LogStream::open_at(config, log.clone(), Some(from), kept.end)?;
        let mut newest = None;
        while let Some(request) = stream.next()? {
            newest = newest.max(newest_of(&request.record));
        }
        if newest.is_some() || from == kept.start {
            return Ok(newest);
        }
        back = back.saturating_mul(8);
    }
}

fn newest_of(record: &VerdictRecord) -> Option<Timestamp> {
    match record {
        VerdictRecord::Checkpoint(checkpoint) => Some(checkpoint.stream_time).filter(|newest| *newest > Timestamp::MIN),
        VerdictRecord::Rules(_) => None,
        VerdictRecord::Verdicts(batch) => {
            let pages = batch.verdicts.iter().filter_map(|verdict| verdict.answer.page());
            pages.map(|page| page.event_time).max()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ExternalInputs, Layers, Purpose};

    fn settings() -> Settings {
        let resolved = Layers::default().resolve(&ExternalInputs::default(), Purpose::Sieve);
        resolved.unwrap_or_else(|refused| panic!("{refused}")).0
    }

    #[test]
    fn only_another_scheme_of_the_same_group_and_input_is_filled() {
        let (running, mut new) = (settings(), settings());
        let refused = |new: &Settings| fits(&running, new).unwrap_err();
        assert!(refused(&new).contains("both configurations have the scheme sh64-"), "{}", refused(&new));
        new.judge.partitions = 2;
        assert_eq!(fits(&running, &new), Ok(()));
        let with = |change: fn(&mut Settings)| {
            let mut other = new.clone();
            change(&mut other);
            refused(&other)
        };
        assert!(with(|new| new.input.group = "other".to_owned()).starts_with("input.group differs (dupgate -> other)"));
        assert!(with(|new| new.logs.prefix = "other".to_owned()).starts_with("logs.prefix differs (dupgate -> other)"));
        let other = with(|new| new.input.topics = Topics::Names(vec!["b".to_owned(), "a".to_owned()]));
        assert!(other.starts_with("input.topics differs (") && other.contains("-> a b)"), "{other}");
    }
}
