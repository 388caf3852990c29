//! Compares two verdict logs, verdict by verdict, and fetches the pages whose verdicts differ.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::replay::{Changes, Side, Sides};

use super::QUERY_TIMEOUT;
use super::walk::{self, LogStream};
use crate::config::settings::Settings;
use crate::context;
use crate::error::{Fatal, fatal};
use crate::fatal::{self, failure, unavailable};
use crate::kafka::client::ClientSettings;
use crate::kafka::inspector::ClusterInspector;
use crate::kafka::offsets::Offsets;
use crate::kafka::pages::{PageBytes, Pages};
use crate::protocol::{LogPartition, Rules, RulesNumber, VerdictOffset, VerdictRecord};
use crate::record::{PartitionId, Source};

/// Time-out for pages that the input should hold.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the verdict logs of both runs to their ends. Reports the number of verdicts periodically.
///
/// # Errors
///
/// A log does not exist or cannot be read, or the cluster does not answer.
pub fn compare(
    settings: &Settings,
    topics: &Sides<String>,
    changes: &mut Changes,
    mut see: impl FnMut(u64),
) -> Result<(), Fatal> {
    let connection = context::connection(&settings.kafka);
    let group = &settings.input.group;
    let inspector = ClusterInspector::new(&connection, group, QUERY_TIMEOUT).map_err(fatal::cluster_error)?;
    let offsets = Offsets::new(&connection.query(group), QUERY_TIMEOUT).map_err(failure)?;
    let config = connection.bounded_follower(group);
    let open = |topic: &str| Log::open(&inspector, &offsets, &config, topic);
    let mut logs = Sides { before: open(&topics.before)?, after: open(&topics.after)? };
    let mut read = 0;
    loop {
        // Read the log that lags, so that few positions wait for it.
        let lagging = changes.behind();
        let side = if logs.of(lagging).is_over() { lagging.other() } else { lagging };
        if logs.of(side).is_over() {
            return Ok(());
        }
        read += logs.of_mut(side).step(side, changes)?;
        see(read);
    }
}

/// The verdict log of one run: its partitions in turn, record by record.
struct Log {
    open: VecDeque<Partition>,
}

struct Partition {
    stream: LogStream,
    rules: HashMap<RulesNumber, Arc<Rules>>,
}

impl Log {
    fn open(
        inspector: &ClusterInspector,
        offsets: &Offsets,
        config: &ClientSettings,
        topic: &str,
    ) -> Result<Self, Fatal> {
        let Some(view) = inspector.topic(topic).map_err(fatal::cluster_error)? else {
            return Err(fatal!(Input, "topic `{topic}`, which has the verdicts, does not exist"));
        };
        let topic: Arc<str> = Arc::from(topic);
        let mut open = VecDeque::new();
        for log in LogPartition::first(view.partitions) {
            let partition = walk::partition(&topic, log);
            let kept = offsets.range(&partition).map_err(unavailable)?;
            open.push_back(Partition {
                stream: LogStream::open(config, partition, VerdictOffset(kept.end))?,
                rules: HashMap::new(),
            });
        }
        Ok(Self { open })
    }

    fn is_over(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes the next record of the next partition; returns how many verdicts it has.
    fn step(&mut self, side: Side, changes: &mut Changes) -> Result<u64, Fatal> {
        let Some(mut partition) = self.open.pop_front() else { return Ok(0) };
        let Some(request) = partition.stream.next()? else { return Ok(0) };
        let count = partition.take(request.record, side, changes);
        self.open.push_back(partition);
        Ok(count)
    }
}

impl Partition {
    fn take(&mut self, record: VerdictRecord, side: Side, changes: &mut Changes) -> u64 {
        match record {
            VerdictRecord::Rules(record) => self.learn(record.number, record.rules),
            VerdictRecord::Checkpoint(checkpoint) => self.learn(checkpoint.rules_number, checkpoint.rules),
            VerdictRecord::Verdicts(batch) => {
                let rules = self.rules.get(&batch.rules);
                batch.verdicts.iter().for_each(|verdict| changes.push(side, verdict, rules));
                return batch.verdicts.len() as u64;
            }
        }
        0
    }

    fn learn(&mut self, number: RulesNumber, rules: Rules) {
        self.rules.entry(number).or_insert_with(|| Arc::new(rules));
    }
}

/// Fetches the pages whose verdicts differ between two runs.
pub struct Texts {
    pages: Pages,
    offsets: Offsets,
    kept: HashMap<PartitionId, Range<i64>>,
}

impl Texts {
    /// Creates the clients.
    ///
    /// # Errors
    ///
    /// They cannot be created from these settings.
    pub fn open(settings: &Settings) -> Result<Self, Fatal> {
        let connection = context::connection(&settings.kafka);
        let group = &settings.input.group;
        let pages = Pages::open(&connection.follower(group), FETCH_TIMEOUT).map_err(failure)?;
        Ok(Self {
            pages,
            offsets: Offsets::new(&connection.query(group), QUERY_TIMEOUT).map_err(failure)?,
            kept: HashMap::new(),
        })
    }

    /// Fetches these pages; those that the input no longer holds are missing in the answer.
    ///
    /// # Errors
    ///
    /// The client rejects the positions.
    pub fn fetch(&mut self, sources: &[&Source]) -> Result<BTreeMap<Source, PageBytes>, Fatal> {
        let there: Vec<&Source> = sources.iter().copied().filter(|source| self.is_kept(source)).collect();
        self.pages.fetch(&there).map_err(unavailable)
    }

    /// Returns whether the input holds this offset, to avoid waiting for deleted records.
    fn is_kept(&mut self, source: &Source) -> bool {
        let partition = &source.partition;
        if !self.kept.contains_key(partition) {
            // A deleted topic holds nothing.
            let kept = self.offsets.range(partition).unwrap_or_default();
            self.kept.insert(partition.clone(), kept);
        }
        self.kept.get(partition).is_some_and(|kept| kept.contains(&source.offset))
    }
}
