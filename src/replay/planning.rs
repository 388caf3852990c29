//! Creates a plan from a request: offsets of times, the part of the log that gives the order, the warm-up, warnings, and
//! how long it takes, measured on the first pages that it would read.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::replay::{
    ArchiveFile, FilePlace, InputRange, LogRange, Order, Plan, Reads, Shadow, Target, own_name,
};
use dupgate_core::worker::HeaderSettings;

use super::feed::{Extents, FeedEvent};
use super::store::Store;
use super::verdict_digest::{rules_digest, writes_digest};
use super::walk::{expect_kept, first_checkpoint, is_judged_before};
use super::{QUERY_TIMEOUT, feed, files};
use crate::clock::{Clock, wall_time};
use crate::config::settings::Settings;
use crate::error::{Fatal, fatal};
use crate::fatal::{self, failure, unavailable};
use crate::kafka::admin::LogNames;
use crate::kafka::inspector::ClusterError;
use crate::kafka::offsets::Offsets;
use crate::kafka::output::{Outputs, PartitionCounts};
use crate::processing::lines;
use crate::protocol::{Checkpoint, LogPartition, RequestOffset, VerdictOffset};
use crate::record::{EventTime, PartitionId, Timestamp};
use crate::telemetry::Metrics;
use crate::{context, topics};

/// A place in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeBound {
    /// The oldest record.
    Start,
    /// The end of the records that are committed now.
    End,
    /// The first record of this time or a later one.
    At(Timestamp),
    /// This offset.
    Offset(i64),
}

/// What to replay.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Names the replay.
    pub id: String,
    /// Where the range begins.
    pub from: RangeBound,
    /// End of the range (exclusive).
    pub to: RangeBound,
    /// Partitions of every input topic; all if empty.
    pub partitions: BTreeSet<i32>,
    /// Files of pages, instead of any range.
    pub files: Vec<PathBuf>,
    /// Ranges by partition, instead of the two above.
    pub ranges: BTreeMap<PartitionId, Range<i64>>,
    /// How far before the range pages are judged; `None`: one window and the lateness, if needed.
    pub warm: Option<Duration>,
    /// The order; `None`: that of the log if it reaches back.
    pub order: Option<Order>,
    /// What to judge.
    pub reads: Reads,
    /// The target of the outcome.
    pub into: Target,
    /// Maximum number of records of the range.
    pub max_records: Option<u64>,
    /// Settings that differ from the live ones.
    pub set: Vec<String>,
}

/// A plan, and what is not part of it.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The plan.
    pub plan: Plan,
    /// Times of the range, as far as known: of its first record, and of the first of the warm-up.
    pub begins: Option<Timestamp>,
}

/// Creates a plan.
///
/// # Errors
///
/// The cluster does not answer, or the requested range is not available.
pub fn make(store: &Store, live: &Settings, variants: &[Settings], wanted: Wanted) -> Result<Draft, Fatal> {
    let first = variants.first().unwrap_or(live);
    let connection = context::connection(&live.kafka);
    let offsets = Offsets::new(&connection.query(&live.input.group), QUERY_TIMEOUT).map_err(failure)?;
    let mut planning = Planning { store, live, offsets, warnings: Vec::new(), log_begins: Vec::new() };
    let Scope { order, input, verdict_log, files, begins } =
        if wanted.files.is_empty() { planning.topics(&wanted, first)? } else { planning.files(&wanted)? };
    let output = planning.outputs(&wanted, first, &input)?;
    let sum = |of: fn(&InputRange) -> i64| input.iter().map(|range| u64::try_from(of(range)).unwrap_or(0)).sum();
    let plan = Plan {
        version: Plan::VERSION,
        id: wanted.id,
        created_ms: wall_time().millis(),
        cluster: store.inspector().cluster_id(),
        group: live.input.group.clone(),
        logs: live.logs.prefix.clone(),
        order,
        reads: wanted.reads,
        into: wanted.into,
        set: wanted.set,
        live_scheme: live.scheme().to_string(),
        scheme: first.scheme().to_string(),
        rules: variants.iter().map(rules_digest).collect(),
        records: sum(|range| range.to - range.from),
        warm_up_records: sum(|range| range.from - range.warm_from),
        input,
        files,
        verdict_log,
        output,
        warnings: planning.warnings,
        writes: String::new(),
        replication_factor: 0,
        hash: String::new(),
    };
    let writes = if plan.into.has_pages() { writes_digest(&plan, store, first)? } else { String::new() };
    let replication_factor = if plan.into == Target::Shadow { replication_factor(&plan, store, first)? } else { 0 };
    Ok(Draft { plan: Plan { writes, replication_factor, ..plan }.sealed(), begins })
}

/// Checks that settings, cluster and files are those that a plan was made with.
///
/// # Errors
///
/// What differs.
pub fn check(plan: &Plan, store: &Store, live: &Settings, variants: &[Settings]) -> Result<(), Fatal> {
    let refuse = |why: String| Err(fatal!(Config, "{why}; make a new plan"));
    let cluster = store.inspector().cluster_id();
    if plan.cluster != cluster {
        return refuse(format!("the plan is of cluster `{}`, this one is `{cluster}`", plan.cluster));
    }
    if plan.group != live.input.group || plan.logs != live.logs.prefix {
        return refuse(format!("the plan is of group `{}`, the configuration of `{}`", plan.group, live.input.group));
    }
    let scheme = variants.first().map(|settings| settings.scheme().to_string());
    if scheme.as_deref() != Some(&plan.scheme) {
        return refuse("settings that decide fingerprints have changed since the plan was made".to_owned());
    }
    if variants.iter().map(rules_digest).ne(plan.rules.iter().cloned()) {
        return refuse("settings that decide verdicts have changed since the plan was made".to_owned());
    }
    if let Some(first) = variants.first().filter(|_| !plan.writes.is_empty())
        && writes_digest(plan, store, first)? != plan.writes
    {
        let what = "settings of the output, or the number of partitions of a topic";
        return refuse(format!("the way pages are written has changed since the plan was made ({what})"));
    }
    plan.files.iter().try_for_each(files::verify)
}

/// Checks that the live verdict log still holds what a plan that has not started needs.
///
/// # Errors
///
/// [`Reason::State`](crate::error::Reason::State) if it was trimmed since.
pub fn expect_log(plan: &Plan, live: &Settings) -> Result<(), Fatal> {
    let connection = context::connection(&live.kafka);
    let offsets = Offsets::new(&connection.query(&live.input.group), QUERY_TIMEOUT).map_err(failure)?;
    expect_kept(plan, &offsets, &connection.follower(&plan.own_group()), &BTreeMap::new())
}

/// Returns the replication factor of a shadow topic.
fn replication_factor(plan: &Plan, store: &Store, settings: &Settings) -> Result<u32, Fatal> {
    let topics = store.topics(plan, settings)?;
    let topics = topics.iter().filter(|topic| plan.output.topics().any(|name| *name == topic.name));
    Ok(topics.map(|topic| u32::try_from(topic.replicas).unwrap_or(1)).max().unwrap_or(0))
}

struct Planning<'a> {
    store: &'a Store,
    live: &'a Settings,
    offsets: Offsets,
    warnings: Vec<String>,
    /// The first checkpoint of each partition of the live verdict log, if it gives the order.
    log_begins: Vec<Checkpoint>,
}

/// The records to judge, and their order.
struct Scope {
    order: Order,
    input: Vec<InputRange>,
    verdict_log: Vec<LogRange>,
    files: Vec<ArchiveFile>,
    begins: Option<Timestamp>,
}

impl Planning<'_> {
    /// Plans to read files.
    fn files(&mut self, wanted: &Wanted) -> Result<Scope, Fatal> {
        let files = files::describe(&wanted.files)?;
        lines::hold(self.live.record.format)?;
        if files.iter().all(|file| file.bytes == 0) {
            return Err(fatal!(Input, "the files are empty"));
        }
        if self.live.record.event_time == EventTime::Record {
            self.warnings.push(
                "lines have no timestamp: each counts as a millisecond younger than the one before it, as in `dupgate sieve`; \
                 window.timestamp_source: field takes the time from the page"
                    .to_owned(),
            );
        }
        Ok(Scope { order: Order::Files, input: Vec::new(), verdict_log: Vec::new(), files, begins: None })
    }

    /// Plans to read partitions of the input.
    fn topics(&mut self, wanted: &Wanted, first: &Settings) -> Result<Scope, Fatal> {
        let partitions = self.partitions(wanted)?;
        let mut held = BTreeMap::new();
        for partition in &partitions {
            held.insert(partition.clone(), self.offsets.range(partition).map_err(unavailable)?);
        }
        let mut ranges = self.ranges(wanted, &held)?;
        let are_all_empty = held.values().all(Range::is_empty);
        let is_what_if = !wanted.set.is_empty();
        if wanted.reads == Reads::Fingerprints && first.scheme() != self.live.scheme() {
            return Err(fatal!(
                Input,
                "these settings make other fingerprints (scheme {}) than the live service has written ({}): without \
                 --from-fingerprints the pages are read",
                first.scheme(),
                self.live.scheme()
            ));
        }
        let log = self.order(wanted, &mut ranges, is_what_if, first.log_partitions())?;
        cut(&mut ranges, wanted.max_records);
        ranges.retain(|_, range| !range.is_empty());
        if ranges.is_empty() {
            let why = if are_all_empty {
                "it holds no records".to_owned()
            } else if wanted.max_records == Some(0) {
                "--max-records is 0".to_owned()
            } else {
                format!("no record is between --from and --to; it holds {}", listed(&held))
            };
            return Err(fatal!(Input, "the range of {} is empty: {why}", names(&partitions)));
        }
        let begins = self.begins(wanted, &ranges)?;
        let is_warm = is_what_if || log.is_none();
        let warm = wanted.warm.unwrap_or(first.rules.windows.max() + first.rules.lateness);
        let mut warm_from = if is_warm { self.warm_from(&ranges, &held, begins, warm)? } else { BTreeMap::new() };
        if log.is_some() {
            self.cut_warm_up(&ranges, &mut warm_from);
        }
        let input = ranges.iter().map(|(partition, range)| InputRange {
            topic: partition.topic.to_string(),
            partition: partition.number,
            warm_from: warm_from.get(partition).copied().unwrap_or(range.start),
            from: range.start,
            to: range.end,
        });
        let order = if log.is_some() { Order::Log } else { Order::Time };
        Ok(Scope { order, input: input.collect(), verdict_log: log.unwrap_or_default(), files: Vec::new(), begins })
    }

    fn partitions(&self, wanted: &Wanted) -> Result<BTreeSet<PartitionId>, Fatal> {
        let topics = self.live.input.topics.list();
        let denied = |error| fatal::cluster_error(ClusterError::of_topics(&error, &topics));
        let all = self.offsets.partitions(&topics).map_err(denied)?;
        if !wanted.ranges.is_empty() {
            return match wanted.ranges.keys().find(|partition| !all.contains(partition)) {
                Some(unknown) => {
                    Err(fatal!(Input, "{unknown} is not a partition of the input ({})", topics.join(", ")))
                }
                None => Ok(wanted.ranges.keys().cloned().collect()),
            };
        }
        let chosen =
            |partition: &PartitionId| wanted.partitions.is_empty() || wanted.partitions.contains(&partition.number);
        let (is_there, partitions) = (!all.is_empty(), all.len());
        let found: BTreeSet<PartitionId> = all.into_iter().filter(chosen).collect();
        if found.is_empty() {
            let topics = topics.join(", ");
            if !is_there {
                return Err(fatal!(Input, "the input topic {topics} does not exist (input.topics)"));
            }
            let wanted: Vec<String> = wanted.partitions.iter().map(ToString::to_string).collect();
            let wanted = wanted.join(", ");
            return Err(fatal!(
                Input,
                "{topics} has no partition {wanted} (--partitions): it has {partitions}, from 0 on"
            ));
        }
        Ok(found)
    }

    fn ranges(&mut self, wanted: &Wanted, held: &Ranges) -> Result<Ranges, Fatal> {
        let partitions: BTreeSet<PartitionId> = held.keys().cloned().collect();
        let (from, to) = (self.place(wanted.from, held, &partitions)?, self.place(wanted.to, held, &partitions)?);
        let mut ranges = Ranges::new();
        for (partition, &Range { start: first, end }) in held {
            let wanted_range = wanted.ranges.get(partition).cloned();
            let place = |places: &BTreeMap<PartitionId, i64>| places.get(partition).copied().unwrap_or(first);
            let Range { start: from, end: to } = wanted_range.unwrap_or_else(|| place(&from)..place(&to));
            if from < first {
                self.warnings.push(format!(
                    "{partition}: the first {} records of the range are deleted already (it begins at offset {first})",
                    first - from
                ));
            }
            if to > end {
                self.warnings.push(format!("{partition}: the range ends at offset {end}, where the partition does"));
            }
            ranges.insert(partition.clone(), from.clamp(first, end)..to.clamp(first, end));
        }
        if let RangeBound::At(time) = wanted.from {
            self.warn_of_retention(time, &ranges, held)?;
        }
        Ok(ranges)
    }

    /// If the time is before the oldest record, earlier records are gone, unless the topic is younger.
    fn warn_of_retention(&mut self, time: Timestamp, ranges: &Ranges, held: &Ranges) -> Result<(), Fatal> {
        for (partition, range) in ranges {
            let begins_here = |held: &&Range<i64>| held.start == range.start && held.start > 0 && !held.is_empty();
            let Some(held) = held.get(partition).filter(begins_here) else { continue };
            let oldest = self.store.inspector().first_at(partition, held.start).map_err(fatal::cluster_error)?;
            if let Some((_, Some(oldest))) = oldest.filter(|(_, oldest)| oldest.is_some_and(|oldest| oldest > time)) {
                self.warnings.push(format!(
                    "{partition}: the beginning of the range is deleted already; its oldest record is of {}",
                    written(oldest)
                ));
            }
        }
        Ok(())
    }

    fn place(
        &self,
        bound: RangeBound,
        held: &Ranges,
        partitions: &BTreeSet<PartitionId>,
    ) -> Result<BTreeMap<PartitionId, i64>, Fatal> {
        let each = |of: &dyn Fn(&Range<i64>) -> i64| held.iter().map(|(id, range)| (id.clone(), of(range))).collect();
        Ok(match bound {
            RangeBound::Start => each(&|held| held.start),
            RangeBound::End => each(&|held| held.end),
            RangeBound::Offset(offset) => each(&|_| offset),
            RangeBound::At(time) => self.offsets.at_time(partitions, time).map_err(unavailable)?,
        })
    }

    /// Returns the part of the live verdict log that gives the order; `None` for the order of time.
    fn order(
        &mut self,
        wanted: &Wanted,
        ranges: &mut Ranges,
        is_what_if: bool,
        partitions: NonZeroUsize,
    ) -> Result<Option<Vec<LogRange>>, Fatal> {
        if wanted.order == Some(Order::Time) {
            return Ok(None);
        }
        let found = if partitions == self.live.log_partitions() {
            self.log(ranges, wanted.reads, is_what_if)?
        } else {
            Err("judge.partitions differs, so that pages of one judge go to several".to_owned())
        };
        match found {
            Ok(found) => Ok(Some(found)),
            Err(why) if wanted.order == Some(Order::Log) || wanted.into == Target::Live => {
                Err(fatal!(Input, "the order of the log is not available: {why}; --order time does not need it"))
            }
            Err(why) => {
                self.warnings.push(format!("pages are judged in the order of time, not in the live order: {why}"));
                Ok(None)
            }
        }
    }

    /// Checks whether the live verdict log holds a verdict on every page of the range. Pages after what the service has
    /// committed are left out: they have none yet.
    fn log(
        &mut self,
        ranges: &mut Ranges,
        reads: Reads,
        is_what_if: bool,
    ) -> Result<Result<Vec<LogRange>, String>, Fatal> {
        let scheme = self.live.scheme().to_string();
        let names = LogNames::new(&self.live.logs.prefix, &scheme);
        let view = self.store.inspector().topic(&names.verdicts).map_err(fatal::cluster_error)?;
        let Some(view) = view else { return Ok(Err(format!("topic `{}` does not exist", names.verdicts))) };
        // Queried before the ends of the log: the verdicts on delivered pages are before those ends.
        let committed = self.offsets.last_committed(&ranges.keys().cloned().collect()).map_err(unavailable)?;
        let mut found = Vec::new();
        let mut begins: Vec<Checkpoint> = Vec::new();
        let config = context::connection(&self.live.kafka).follower(&self.live.input.group);
        for log in LogPartition::first(view.partitions) {
            let partition = super::walk::partition(&names.verdicts, log);
            let kept = self.offsets.range(&partition).map_err(unavailable)?;
            let (first, end) = (VerdictOffset(kept.start), VerdictOffset(kept.end));
            found.push(LogRange { topic: names.verdicts.to_string(), partition: partition.number, first, end });
            if first >= end {
                continue;
            }
            begins.extend(first_checkpoint(&config, partition, end)?);
        }
        if begins.is_empty() {
            return Ok(Err(format!("nothing was judged in `{}` yet", names.verdicts)));
        }
        if reads == Reads::Fingerprints {
            self.warn_of_trimmed_requests(&names, &begins)?;
        }
        for (partition, range) in ranges.iter_mut() {
            if begins.iter().any(|checkpoint| is_judged_before(checkpoint, partition, range.clone())) {
                return Ok(Err(format!("`{}` does not reach back to the beginning of {partition}", names.verdicts)));
            }
            let delivered = committed.get(partition).and_then(Option::as_ref).map_or(range.start, |known| known.offset);
            if delivered < range.end {
                range.end = delivered.max(range.start);
                self.warnings
                    .push(format!("{partition}: the range ends at offset {}, where the service is now", range.end));
            }
        }
        if !is_what_if && begins.iter().any(|checkpoint| checkpoint.next_sequence > 0) {
            self.warnings.push(
                "the verdict log is trimmed: a verdict whose original is older than the log is taken over, not judged"
                    .to_owned(),
            );
        }
        self.log_begins = begins;
        Ok(Ok(found))
    }

    /// In the order of the log, pages are judged in the order of their verdicts, so the warm-up begins where the log
    /// does.
    fn cut_warm_up(&mut self, ranges: &Ranges, warm_from: &mut BTreeMap<PartitionId, i64>) {
        for (partition, range) in ranges {
            let Some(begin) = warm_from.get_mut(partition) else { continue };
            if self.log_begins.iter().any(|log| is_judged_before(log, partition, *begin..range.start)) {
                self.warnings.push(format!(
                    "{partition}: the verdict log does not reach back to the beginning of the warm-up: duplicates of pages before it \
                     are called unique"
                ));
            }
            let log_starts = self.log_begins.iter().filter_map(|log| log.partitions.get(partition));
            let kept = log_starts.map(|log_starts| log_starts.low_watermark).max().unwrap_or(*begin);
            *begin = kept.clamp(*begin, range.start);
        }
    }

    /// Both logs are trimmed together; an operator may have trimmed one further.
    fn warn_of_trimmed_requests(&mut self, names: &LogNames, begins: &[Checkpoint]) -> Result<(), Fatal> {
        for (number, checkpoint) in (0..).zip(begins) {
            let partition = PartitionId::new(Arc::clone(&names.fingerprints), number);
            let kept = self.offsets.range(&partition).map_err(unavailable)?;
            let first = RequestOffset(kept.start);
            if first > checkpoint.next_request {
                self.warnings.push(format!(
                    "{partition} begins at offset {first}, after the first verdicts: pages before it are not judged again"
                ));
            }
        }
        Ok(())
    }

    /// Returns the time of the range's first record.
    fn begins(&self, wanted: &Wanted, ranges: &Ranges) -> Result<Option<Timestamp>, Fatal> {
        if let (RangeBound::At(time), true) = (wanted.from, wanted.ranges.is_empty()) {
            return Ok(Some(time));
        }
        let mut begins: Option<Timestamp> = None;
        for (partition, range) in ranges {
            let first = self.store.inspector().first_at(partition, range.start).map_err(fatal::cluster_error)?;
            if let Some((_, Some(time))) = first {
                begins = Some(begins.map_or(time, |begins| begins.min(time)));
            }
        }
        Ok(begins)
    }

    fn warm_from(
        &mut self,
        ranges: &Ranges,
        held: &Ranges,
        begins: Option<Timestamp>,
        warm: Duration,
    ) -> Result<BTreeMap<PartitionId, i64>, Fatal> {
        let Some(begins) = begins.filter(|_| warm > Duration::ZERO) else {
            if warm == Duration::ZERO {
                self.warnings
                    .push("there is no warm-up: a page whose original is before the range is called unique".to_owned());
            }
            return Ok(BTreeMap::new());
        };
        let time = begins.minus(warm);
        let partitions: BTreeSet<PartitionId> = ranges.keys().cloned().collect();
        let places = self.offsets.at_time(&partitions, time).map_err(unavailable)?;
        let mut warm_from = BTreeMap::new();
        for (partition, range) in ranges {
            let first = held.get(partition).map_or(0, |held| held.start);
            let place = places.get(partition).copied().unwrap_or(first).clamp(first, range.start);
            if place == first && first > 0 {
                let oldest = self.store.inspector().first_at(partition, first).map_err(fatal::cluster_error)?;
                if let Some((_, Some(oldest))) = oldest.filter(|(_, oldest)| oldest.is_some_and(|oldest| oldest > time))
                {
                    self.warnings.push(format!(
                        "{partition}: the warm-up begins at {}, because earlier records are deleted: duplicates of older pages \
                         are called unique",
                        written(oldest)
                    ));
                }
            }
            warm_from.insert(partition.clone(), place);
        }
        Ok(warm_from)
    }

    fn outputs(&mut self, wanted: &Wanted, settings: &Settings, input: &[InputRange]) -> Result<Shadow, Fatal> {
        let output = &settings.output;
        let all = [&output.unique, &output.duplicate, &output.dead_letter];
        if wanted.into.has_pages() && all.iter().all(|name| name.is_none()) {
            return Err(fatal!(
                Config,
                "the configuration names no output (mode: observe): --into verdicts or --into none needs none"
            ));
        }
        match wanted.into {
            Target::None | Target::Verdicts => Ok(Shadow::default()),
            Target::Shadow => {
                self.warnings.push(
                    "consumers of the shadow topics see pages of aborted transactions unless they read with \
                     isolation.level=read_committed; the topics are kept until `dupgate replay clean`"
                        .to_owned(),
                );
                let [unique, duplicate, dead_letter] =
                    all.map(|name| name.as_ref().map(|name| own_name(name, &wanted.id)));
                Ok(Shadow { unique, duplicate, dead_letter })
            }
            Target::Live => {
                self.warn_of_live_outputs(&all, input)?;
                let [unique, duplicate, dead_letter] = all.map(Clone::clone);
                Ok(Shadow { unique, duplicate, dead_letter })
            }
        }
    }

    fn warn_of_live_outputs(&mut self, names: &[&Option<String>], input: &[InputRange]) -> Result<(), Fatal> {
        let mut limit = 0;
        let topics: BTreeSet<&str> = input.iter().map(|range| range.topic.as_str()).collect();
        for topic in topics {
            let view = self.store.inspector().topic(topic).map_err(fatal::cluster_error)?;
            limit = limit.max(view.and_then(|view| view.number("max.message.bytes")).unwrap_or(0));
        }
        for name in names.iter().copied().flatten() {
            let Some(view) = self.store.inspector().topic(name).map_err(fatal::cluster_error)? else {
                continue;
            };
            if view.number("max.message.bytes").is_some_and(|bytes| bytes < limit) {
                self.warnings
                    .push(format!("topic `{name}` takes smaller records than the input: large pages are dead letters"));
            }
            if let Some(kept) = view.number("retention.ms").filter(|kept| *kept >= 0) {
                self.warnings.push(format!(
                    "topic `{name}` keeps records for {} of their own time: older pages may be deleted on arrival",
                    crate::config::Span(Duration::from_millis(kept.unsigned_abs()))
                ));
            }
        }
        self.warnings
            .push("pages whose verdict is the live one are left out; the others arrive a second time".to_owned());
        Ok(())
    }
}

/// Writes a time as plans do.
pub(super) fn written(time: Timestamp) -> String {
    time.rfc3339().unwrap_or_else(|| time.to_string())
}

pub(super) type Ranges = BTreeMap<PartitionId, Range<i64>>;

/// Lists the topics of partitions.
pub(super) fn names(partitions: &BTreeSet<PartitionId>) -> String {
    let topics: BTreeSet<&str> = partitions.iter().map(|partition| &*partition.topic).collect();
    topics.into_iter().collect::<Vec<_>>().join(", ")
}

/// The most partitions that an error lists.
const MAX_LISTED: usize = 5;

/// Lists what partitions hold: `pages:0 offsets 0 to 99`.
pub(super) fn listed(held: &Ranges) -> String {
    let ranges = held.iter().filter(|(_, range)| !range.is_empty());
    let more = if held.len() > MAX_LISTED { ", ..." } else { "" };
    let listed: Vec<String> = ranges
        .take(MAX_LISTED)
        .map(|(partition, range)| format!("{partition} offsets {} to {}", range.start, range.end - 1))
        .collect();
    listed.join(", ") + more
}

/// Shortens the ranges evenly, so that they hold this many records.
pub(super) fn cut(ranges: &mut Ranges, max_records: Option<u64>) {
    let Some(limit) = max_records else { return };
    let total: u64 = ranges.values().map(|range| u64::try_from(range.end - range.start).unwrap_or(0)).sum();
    if total <= limit || total == 0 {
        return;
    }
    for range in ranges.values_mut() {
        let length = u128::try_from(range.end - range.start).unwrap_or(0) * u128::from(limit) / u128::from(total);
        range.end = range.start + i64::try_from(length).unwrap_or(0);
    }
}

/// Maximum number of pages and maximum duration of the sample for an estimate.
const SAMPLE_PAGES: usize = 5000;
const SAMPLE_TIME: Duration = Duration::from_secs(10);

/// Rate and page size of a sample of the range.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Pages of the sample.
    pub pages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their part of the plan: records of topics, or bytes of files.
    pub done: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Reads a sample of the range, text work included, to estimate how long all of it takes.
///
/// # Errors
///
/// The input cannot be read.
pub fn estimate(plan: &Plan, settings: &Settings, metrics: &Metrics) -> Result<Sample, Fatal> {
    let clock = Clock::start();
    let outputs = Outputs {
        routing: topics::routing(settings),
        headers: HeaderSettings::default(),
        topics: BTreeMap::new(),
        partition_counts: PartitionCounts::default(),
        duplicate_value: topics::duplicate_value(settings),
        time: topics::output_time(settings),
        now: wall_time,
    };
    let extents: Extents = plan.input.iter().map(|range| (range.id(), range.range())).collect();
    let config = context::connection(&settings.kafka).follower(&settings.input.group);
    let from = plan.is_of_files().then(FilePlace::default);
    let mut feed = feed::feed(plan, settings, (&extents, from), Arc::new(outputs), (&config, metrics, clock))?;
    let (mut pages, mut bytes, mut since) = (0_u64, 0_u64, None);
    let mut open = extents.len() + plan.files.len();
    let mut place = FilePlace::default();
    while open > 0 && pages < SAMPLE_PAGES as u64 && clock.now() < SAMPLE_TIME {
        match feed.wait()? {
            FeedEvent::Page(partition, _) => {
                since.get_or_insert(clock.now());
                if let Some(page) = feed.take(&partition) {
                    pages += 1;
                    bytes += page.payload.record.bytes() as u64;
                    place = feed.place(&partition).max(place);
                }
            }
            FeedEvent::Ended(_) => open -= 1,
            FeedEvent::Nothing => {}
        }
    }
    let elapsed = clock.now().saturating_sub(since.unwrap_or_default());
    let done = if plan.is_of_files() { plan.file_bytes_before(&place) } else { pages };
    Ok(Sample { pages, bytes, done, elapsed })
}
