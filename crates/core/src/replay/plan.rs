//! A replay plan: ranges, order and settings, fixed in advance. Plan files are human-readable but must not be edited.
//! Settings to try in a replay come as assignments `key=value`, some with several values ([`variants`]).

#[cfg(test)]
mod tests;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::Counts;
use crate::protocol::VerdictOffset;
use crate::record::{PartitionId, Source};

/// In which order pages are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// As in the live verdict log.
    Log,
    /// Partitions merged by event time.
    Time,
    /// Files in the order of the plan, line by line.
    Files,
}

impl Order {
    /// Returns the name, as in a plan file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Time => "time",
            Self::Files => "files",
        }
    }
}

/// What is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reads {
    /// Pages of the input.
    #[default]
    Pages,
    /// Fingerprints that the live service made of them, as far as its fingerprint log keeps them.
    Fingerprints,
}

/// Where the outcome goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// Pages to topics of the replay, verdicts to a log of its own.
    #[default]
    Shadow,
    /// Verdicts to a log of the replay; no pages.
    Verdicts,
    /// To the live outputs, only pages whose verdict is another than the live one; verdicts to a log of the replay.
    Live,
    /// Nowhere: only the report tells.
    None,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 4] = [Self::Shadow, Self::Verdicts, Self::Live, Self::None];

    /// Returns the name, as in a plan file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shadow => "shadow",
            Self::Verdicts => "verdicts",
            Self::Live => "live",
            Self::None => "none",
        }
    }

    /// Returns whether anything is written to the cluster.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::None
    }

    /// Returns whether pages are written.
    #[must_use]
    pub fn has_pages(self) -> bool {
        matches!(self, Self::Shadow | Self::Live)
    }
}

/// Names of all that the replay writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shadow {
    /// Unique pages.
    pub unique: Option<String>,
    /// Duplicates.
    pub duplicate: Option<String>,
    /// Dead letters.
    pub dead_letter: Option<String>,
}

impl Shadow {
    /// Lists the topics.
    pub fn topics(&self) -> impl Iterator<Item = &String> {
        [&self.unique, &self.duplicate, &self.dead_letter].into_iter().flatten()
    }
}

/// What a replay does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Layout of this file.
    pub version: u32,
    /// Names the replay: part of the names of its topics and group.
    pub id: String,
    /// When it was made, in milliseconds since 1970: bounds the event times of pages.
    pub created_ms: i64,
    /// The cluster's own name.
    pub cluster: String,
    /// The group of the live service.
    pub group: String,
    /// First part of the names of the live logs, and so of the replay's.
    pub logs: String,
    /// The order.
    pub order: Order,
    /// What is judged.
    pub reads: Reads,
    /// Where the outcome goes.
    pub into: Target,
    /// Settings that differ from the live ones, `key=value`; several values of a key are judged in one pass.
    pub set: Vec<String>,
    /// Scheme of the live service.
    pub live_scheme: String,
    /// Scheme of the replay.
    pub scheme: String,
    /// Digest of the rules of each variant.
    pub rules: Vec<String>,
    /// What is read; empty when files are.
    pub input: Vec<InputRange>,
    /// Files of pages that are read instead of the input topics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ArchiveFile>,
    /// What gives the order, when it is that of the log.
    pub verdict_log: Vec<LogRange>,
    /// What is written.
    pub output: Shadow,
    /// Offsets of the range; 0 for files, whose lines are not counted.
    pub records: u64,
    /// Offsets of the warm-up.
    pub warm_up_records: u64,
    /// What deserves attention.
    pub warnings: Vec<String>,
    /// Digest of what decides how pages are written; empty if none is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub writes: String,
    /// Replication factor of the topics that are created for pages; 0 when none is.
    #[serde(rename = "copies", default, skip_serializing_if = "is_zero")]
    pub replication_factor: u32,
    /// Digest of all the above.
    #[serde(default)]
    pub hash: String,
}

/// Why a plan cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// It is no plan.
    #[error("not a plan: {0}")]
    NotAPlan(String),
    /// Another layout.
    #[error("the plan has version {found}; this release reads version {}", Plan::VERSION)]
    Version {
        /// Its version.
        found: u32,
    },
    /// It is not as it was made.
    #[error(
        "the plan was changed after it was made (hash {hash}, but its contents have {found}): make a new one by `dupgate replay plan`"
    )]
    Changed {
        /// What it says.
        hash: String,
        /// What it is.
        found: String,
    },
}

impl Plan {
    /// The layout of plans that this release writes and reads.
    pub const VERSION: u32 = 1;

    /// Returns the plan with its hash.
    #[must_use]
    pub fn sealed(self) -> Self {
        Self { hash: self.digest(), ..self }
    }

    fn digest(&self) -> String {
        let plain = Self { hash: String::new(), ..self.clone() };
        // A plan of strings and numbers is always written.
        let text = serde_json::to_string(&plain).unwrap_or_default();
        format!("{:032x}", xxh3_128(text.as_bytes()))
    }

    /// Reads a plan.
    ///
    /// # Errors
    ///
    /// [`PlanError`] when it is none, or not as it was made.
    pub fn read(text: &str) -> Result<Self, PlanError> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| PlanError::NotAPlan(error.to_string()))?;
        let found = value.get("version").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if found != u64::from(Self::VERSION) {
            return Err(PlanError::Version { found: u32::try_from(found).unwrap_or(u32::MAX) });
        }
        let plan: Self = serde_json::from_value(value).map_err(|error| PlanError::NotAPlan(error.to_string()))?;
        let found = plan.digest();
        if plan.hash == found { Ok(plan) } else { Err(PlanError::Changed { hash: plan.hash, found }) }
    }

    /// Writes the plan as a file.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Returns what all names of the replay begin with: its group, its transactional id.
    #[must_use]
    pub fn own_group(&self) -> String {
        own_name(&self.group, &self.id)
    }

    /// Returns the prefix of the replay's own logs.
    #[must_use]
    pub(crate) fn own_logs(&self) -> String {
        own_name(&self.logs, &self.id)
    }

    /// Returns the topic that holds the plan.
    #[must_use]
    pub fn plan_topic(&self) -> String {
        plan_topic(&self.logs, &self.id)
    }

    /// Returns the topic of the replay's own verdicts.
    #[must_use]
    pub fn own_verdicts(&self) -> String {
        format!("{}.verdicts.{}", self.own_logs(), self.scheme)
    }

    /// Returns whether settings differ from the live ones.
    #[must_use]
    pub fn is_what_if(&self) -> bool {
        !self.set.is_empty()
    }

    /// Returns the offsets of the range. All lines of files are in it.
    #[must_use]
    pub fn ranges(&self) -> Ranges {
        self.input.iter().cloned().chain(self.files.iter().enumerate().map(ArchiveFile::range)).collect()
    }

    /// Returns whether pages are read from files, not from the input topics.
    #[must_use]
    pub const fn is_of_files(&self) -> bool {
        matches!(self.order, Order::Files)
    }

    /// Returns the bytes of all files.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns how many bytes of the files were read when the replay came to a place in them.
    #[must_use]
    pub fn file_bytes_before(&self, place: &FilePlace) -> u64 {
        let before: u64 = self.files.iter().take(place.file).map(|file| file.bytes).sum();
        before + self.files.get(place.file).map_or(0, |file| place.packed.min(file.bytes))
    }

    /// Returns how much is done, and of how much: bytes of files, records of topics.
    #[must_use]
    pub fn done(&self, counts: &Counts, place: Option<&FilePlace>) -> (u64, u64) {
        if self.is_of_files() {
            return (place.map_or(0, |place| self.file_bytes_before(place)), self.file_bytes());
        }
        (counts.pages + counts.warm_up + counts.gone, self.records + self.warm_up_records)
    }

    /// Returns the partition whose committed offset carries the totals. Files have no offsets to commit: their place is
    /// kept with the replay's own verdict log.
    #[must_use]
    pub fn total_at(&self) -> PartitionId {
        self.input.first().map_or_else(|| PartitionId::new(self.own_verdicts(), 0), InputRange::id)
    }

    /// Lists the partitions whose committed offsets say how far the replay is.
    #[must_use]
    pub fn committed_at(&self) -> BTreeSet<PartitionId> {
        let committed = self.input.iter().map(InputRange::id).chain(self.verdict_log.iter().map(LogRange::id));
        committed.chain([self.total_at()]).collect()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Returns what names of a replay begin with: `crawl.replay.7c1f`.
#[must_use]
pub fn own_name(of_service: &str, id: &str) -> String {
    format!("{of_service}.replay.{id}")
}

/// Returns the topic that holds the plan of a replay.
#[must_use]
pub fn plan_topic(logs: &str, id: &str) -> String {
    format!("{}.plan", own_name(logs, id))
}

/// The offsets of a replay by partition.
#[derive(Clone, Debug, Default)]
pub struct Ranges(BTreeMap<PartitionId, InputRange>);

/// The part of a replay that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In no part of it.
    Outside,
    /// Judged, not produced.
    WarmUp,
    /// Judged and produced.
    Range,
}

impl Ranges {
    /// Returns the part that a page belongs to.
    #[must_use]
    pub fn part(&self, source: &Source) -> Part {
        match self.0.get(&source.partition) {
            Some(range) if range.range().contains(&source.offset) => Part::Range,
            Some(range) if range.warm_up().contains(&source.offset) => Part::WarmUp,
            Some(_) | None => Part::Outside,
        }
    }

    /// Lists the partitions with their offsets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&PartitionId, &InputRange)> {
        self.0.iter()
    }

    /// Returns the offsets that are in the range of both replays. Those of either warm-up stay a warm-up.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let common = |(partition, one): (&PartitionId, &InputRange)| {
            let other = other.0.get(partition)?;
            let (from, to) = (one.from.max(other.from), one.to.min(other.to));
            let warm_from = one.warm_from.min(other.warm_from);
            (from < to).then(|| InputRange { warm_from, from, to, ..one.clone() })
        };
        self.0.iter().filter_map(common).collect()
    }

    /// Returns how many offsets are in the range.
    #[must_use]
    pub fn records(&self) -> u64 {
        let length = |range: &InputRange| u64::try_from(range.to.saturating_sub(range.from)).unwrap_or(0);
        self.0.values().map(length).fold(0, u64::saturating_add)
    }
}

impl FromIterator<InputRange> for Ranges {
    fn from_iter<T: IntoIterator<Item = InputRange>>(ranges: T) -> Self {
        Self(ranges.into_iter().map(|range| (range.id(), range)).collect())
    }
}

/// What the replay has committed, in the metadata of its offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommitMetadata {
    /// Hash of the plan.
    pub plan: String,
    /// Pages of the partition below this offset were read when the offset was committed.
    pub read_to: i64,
    /// What all of it came to; with the first partition only.
    pub total: Option<Arc<Total>>,
}

/// The progress of a replay at one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Total {
    /// Batches committed.
    pub batches: u64,
    /// Digest of the verdicts in the order of judging.
    pub verdicts: String,
    /// Digest of the pages written, in the order of writing.
    pub outputs: String,
    /// Milliseconds worked.
    pub worked_ms: u64,
    /// Whether everything was judged and delivered.
    pub is_done: bool,
    /// Totals.
    pub counts: Counts,
    /// The place in the files up to which all was judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<FilePlace>,
}

impl CommitMetadata {
    /// Writes it as metadata of an offset.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads it; the default for what was not written by a replay.
    #[must_use]
    pub fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// The offsets of one input partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRange {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// First offset of the warm-up; `from` when there is none.
    pub warm_from: i64,
    /// First offset of the range.
    pub from: i64,
    /// After the last offset of the range.
    pub to: i64,
}

impl InputRange {
    /// Returns the partition.
    #[must_use]
    pub fn id(&self) -> PartitionId {
        PartitionId::new(self.topic.as_str(), self.partition)
    }

    /// Returns the offsets whose pages are judged and produced.
    #[must_use]
    pub const fn range(&self) -> Range<i64> {
        self.from..self.to
    }

    /// Returns the offsets before the range whose pages are judged and not produced.
    #[must_use]
    pub(crate) const fn warm_up(&self) -> Range<i64> {
        self.warm_from..self.from
    }
}

/// The part of one partition of the live verdict log that gives the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRange {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// First offset.
    pub first: VerdictOffset,
    /// After the last offset.
    pub end: VerdictOffset,
}

impl LogRange {
    /// Returns the partition.
    #[must_use]
    pub fn id(&self) -> PartitionId {
        PartitionId::new(self.topic.as_str(), self.partition)
    }
}

/// How far a replay is in a partition of the input, or of the live verdict log, as it is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Everything before this offset was judged and delivered.
    pub offset: i64,
    /// Everything before this offset was read. In a verdict log, whose records hold many verdicts: this is beyond `offset`
    /// by the number of verdicts of the next record that are done, too.
    pub read_to: i64,
}

impl Mark {
    /// Marks a place before which everything that was read has been delivered, too.
    #[must_use]
    pub const fn at(offset: i64) -> Self {
        Self { offset, read_to: offset }
    }
}

/// How far a replay is in each partition.
pub type Marks = BTreeMap<PartitionId, Mark>;

/// One file, as it was when the plan was made. Its pages are its lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveFile {
    /// Its name as it was given: a relative one counts from the folder of the process. Sources of pages begin with it.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Digest of its bytes, or of samples of them where it is large.
    pub digest: String,
}

impl ArchiveFile {
    /// Names what holds its lines, by its place among the files of the plan: the partition of `dupgate sieve`.
    #[must_use]
    pub fn partition(&self, place: usize) -> PartitionId {
        PartitionId::new(self.path.as_str(), i32::try_from(place).unwrap_or(i32::MAX))
    }

    /// Returns its lines as offsets. How many there are is not known before they are read.
    pub(super) fn range((place, file): (usize, &Self)) -> InputRange {
        let PartitionId { number: partition, .. } = file.partition(place);
        InputRange { topic: file.path.clone(), partition, warm_from: 1, from: 1, to: i64::MAX }
    }
}

/// A place between two lines. The greater one comes later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct FilePlace {
    /// Number of the file in the plan, from 0.
    pub file: usize,
    /// Lines of it that were judged.
    pub line: i64,
    /// Their bytes, unpacked.
    pub bytes: u64,
    /// Bytes of the file that were read for them.
    pub packed: u64,
    /// Event time of the last page, which counts for a page that names none.
    pub latest_ms: i64,
}

/// Most combinations of values that are judged in one pass.
pub(crate) const MAX_VARIANTS: usize = 32;

/// More combinations than can be judged in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the values make {0} combinations; at most {MAX_VARIANTS} are judged in one pass: try fewer values")]
pub struct TooManyVariants(usize);

/// Returns every combination of values, in the order of the values: `["a=1,2", "b=x"]` yields `["a=1", "b=x"]` and
/// `["a=2", "b=x"]`. A value in brackets or braces is one value.
///
/// # Errors
///
/// [`TooManyVariants`].
pub fn variants(assignments: &[String]) -> Result<Vec<Vec<String>>, TooManyVariants> {
    let choices: Vec<Vec<String>> = assignments.iter().map(|assignment| values(assignment)).collect();
    let count = choices.iter().fold(1_usize, |count, values| count.saturating_mul(values.len()));
    if count > MAX_VARIANTS {
        return Err(TooManyVariants(count));
    }
    let mut made: Vec<Vec<String>> = vec![Vec::new()];
    for values in &choices {
        let longer = |start: &Vec<String>| {
            let with = |value: &String| [start.as_slice(), std::slice::from_ref(value)].concat();
            values.iter().map(with).collect::<Vec<_>>()
        };
        made = made.iter().flat_map(longer).collect();
    }
    Ok(made)
}

fn values(assignment: &str) -> Vec<String> {
    match assignment.split_once('=') {
        Some((key, value)) if value.contains(',') && !value.trim_start().starts_with(['[', '{', '"']) => {
            value.split(',').map(|value| format!("{key}={}", value.trim())).collect()
        }
        _ => vec![assignment.to_owned()],
    }
}
