//! One run of a plan: from its current state to its end, a signal, or a failure.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;
use dupgate_core::replay::{
    Counts, FilePlace, InputRange, Mark, Marks, Order, Part, Plan, Ranges, Reads, Rejudge, Total,
};
use dupgate_core::worker::{Output, PageOutcome};
use serde::Serialize;

use super::TRANSACTION;
use super::feed::Feed;
use super::feed::{self, extents, outputs, start_of, still_there};
use super::meter::Meter;
use super::pace::{Pace, Rate};
use super::store::{Stored, output_is_gone};
use super::verdict_digest::VerdictDigest;
use super::walk::{self, LogStream};
use super::writer::{BATCH_BYTES, Batch, Committed, MAX_PAGES, Writer, WriterSettings};
use crate::clock::Clock;
use crate::config::settings::Settings;
use crate::context;
use crate::error::{Fatal, fatal};
use crate::fatal::{self, failure, unavailable};
use crate::kafka::client::ProducerSettings;
use crate::kafka::inspector::ClusterError;
use crate::kafka::offsets::Offsets;
use crate::kafka::output::PagePayload;
use crate::protocol::{Answer, LogIdentity, LogPartition, VerdictOffset, VerdictRecord};
use crate::record::{PartitionId, Reject, Source};
use crate::telemetry::Metrics;
use crate::telemetry::labels::BypassReason;
use crate::threads::BackgroundTasks;

/// Longest time that a batch stays open, while there is something to commit.
const BATCH_TIME: Duration = Duration::from_millis(500);

/// Interval between two progress reports.
const SHOW: Duration = Duration::from_millis(200);

/// Time that a transaction may take before the existence of the input is checked.
const SLOW_COMMIT: Duration = Duration::from_secs(10);

/// Interval of checks of the live service's lag.
const LAG_INTERVAL: Duration = Duration::from_secs(5);

/// Minimum number of pages before the share of dead letters counts.
const ENOUGH: u64 = 1000;

/// Options of a run that do not affect verdicts.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The rate limit.
    pub rate: Option<Rate>,
    /// Lag of the live service above which the replay waits.
    pub yield_to_lag: Option<u64>,
    /// Share of dead letters above which it stops, at most 1.
    pub max_dead_letters: Option<f64>,
}

/// What a replay is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Following what it had committed before an interruption, or the log before the range.
    Following,
    /// Judging pages before the range.
    WarmUp,
    /// Judging the range.
    Range,
    /// Waiting for the live service, which lags by this many records.
    Yielding(u64),
}

/// Progress of a running replay.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// What it is doing.
    pub phase: Phase,
    /// The totals so far.
    pub counts: &'a Counts,
    /// Where it is in the files, if files are read.
    pub place: Option<FilePlace>,
}

/// The result of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// What is committed.
    pub total: Total,
    /// Totals of each variant of the settings, in the order of the plan.
    pub variants: Vec<Counts>,
    /// Milliseconds that this run took.
    pub elapsed_ms: u64,
}

/// Runs a plan to its end. `settings` holds one set of settings for each variant; `from` is the state of the replay.
///
/// # Errors
///
/// [`Reason::Unfinished`](crate::error::Reason::Unfinished) after a signal; a failure of the cluster; a plan that does
/// not match the settings or the cluster.
pub fn run(
    from: Stored,
    live: &Settings,
    settings: &[Settings],
    options: &Options,
    metrics: &Metrics,
    signals: &Receiver<i32>,
    see: impl FnMut(&Report<'_>),
) -> Result<Outcome, Fatal> {
    let clock = Clock::start();
    let mut run = Run::build(from, live, settings, options, metrics, signals, clock, see)?;
    run.measure();
    match (run.plan.reads, run.plan.order) {
        (Reads::Fingerprints, _) => run.by_fingerprints()?,
        (Reads::Pages, Order::Time) => run.by_time()?,
        (Reads::Pages, Order::Log) => run.by_log()?,
        (Reads::Pages, Order::Files) => run.by_files()?,
    }
    run.finish()
}

pub(super) struct Run<'a, S> {
    pub(super) plan: Plan,
    pub(super) ranges: Ranges,
    pub(super) live: &'a Settings,
    pub(super) settings: &'a [Settings],
    pub(super) options: &'a Options,
    pub(super) signals: &'a Receiver<i32>,
    pub(super) see: S,
    pub(super) clock: Clock,
    pub(super) shown: Duration,
    pub(super) pace: Pace,
    /// When the lag of the live service was last below the limit.
    pub(super) lag_seen: Option<Duration>,
    pub(super) offsets: Offsets,
    pub(super) metrics: Metrics,
    /// The pages; none if fingerprints are read.
    feed: Option<Feed>,
    pub(super) writer: Option<Writer>,
    /// The open batch.
    pub(super) batch: Batch,
    /// When the last batch was closed, and after how many pages.
    flushed: Duration,
    flushed_pages: u64,
    /// When the topics of a slow transaction were last looked for.
    topics_checked: Duration,
    /// Totals of each variant.
    pub(super) counts: Vec<Counts>,
    pub(super) verdicts: VerdictDigest,
    pub(super) batches: u64,
    /// What is committed.
    pub(super) total: Total,
    pub(super) worked_before: u64,
    pub(super) phase: Phase,
    /// Where it is in the files, if files are read.
    pub(super) place: Option<FilePlace>,
    /// The state of the replay when this run began.
    pub(super) marks: Marks,
    pub(super) withdrawn: Vec<(Source, Reject)>,
    /// For the metrics.
    pub(super) meter: Meter,
    /// Runs the maintenance tasks of the indexes.
    maintenance: BackgroundTasks,
}

impl<'a, S: FnMut(&Report<'_>)> Run<'a, S> {
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of `run`")]
    fn build(
        from: Stored,
        live: &'a Settings,
        settings: &'a [Settings],
        options: &'a Options,
        metrics: &Metrics,
        signals: &'a Receiver<i32>,
        clock: Clock,
        see: S,
    ) -> Result<Self, Fatal> {
        let Stored { plan, total, marks, .. } = from;
        let Some(first) = settings.first() else {
            return Err(fatal!(Bug, "a replay without settings"));
        };
        let connection = context::connection(&live.kafka);
        let offsets = Offsets::new(&connection.query(&live.input.group), super::QUERY_TIMEOUT).map_err(failure)?;
        let ranges = plan.ranges();
        let extents = extents(&plan, &marks);
        still_there(&offsets, &extents)?;
        let group = plan.own_group();
        let total = total.map_or_else(Total::default, |total| (*total).clone());
        let place = plan.is_of_files().then(|| total.place.unwrap_or_default());
        let is_of_pages = plan.reads == Reads::Pages;
        let outputs = (is_of_pages || plan.into.writes()).then(|| outputs(&plan, first)).transpose()?.map(Arc::new);
        let feed = outputs.as_ref().filter(|_| is_of_pages).map(|outputs| {
            let (read, edge) = ((&extents, place), (&connection.follower(&group), metrics, clock));
            feed::feed(&plan, first, read, Arc::clone(outputs), edge)
        });
        let writer = outputs.filter(|_| plan.into.writes()).map(|outputs| {
            let producer = ProducerSettings {
                compression: "zstd".to_owned(),
                max_record_bytes: outputs.topics.values().map(|topic| topic.max_bytes).max().unwrap_or(2_000_000),
                max_batch_bytes: crate::kafka::client::BATCH_BYTES,
                transaction_timeout: TRANSACTION,
            };
            let names = WriterSettings {
                producer: connection.transactional_producer(&group, &producer),
                group: connection.query(&group),
                topics: plan.output.topics().cloned().chain([plan.own_verdicts()]).collect(),
                own_group: group,
                outputs,
                verdicts: Arc::from(plan.own_verdicts()),
                plan: plan.hash.clone(),
                total_at: plan.total_at(),
            };
            Writer::start(names, total.outputs.parse().unwrap_or_default(), clock)
        });
        let now = clock.now();
        let mut counts = vec![Counts::default(); settings.len()];
        if let Some(first) = counts.first_mut() {
            first.clone_from(&total.counts);
        }
        let meter = Meter::start(&total.counts);
        Ok(Self {
            ranges,
            live,
            settings,
            options,
            signals,
            see,
            clock,
            shown: now,
            pace: Pace::new(options.rate, now),
            lag_seen: None,
            offsets,
            metrics: metrics.clone(),
            feed: feed.transpose()?,
            writer: writer.transpose()?,
            batch: Batch::default(),
            flushed: now,
            flushed_pages: judged(&total.counts),
            topics_checked: now,
            counts,
            verdicts: VerdictDigest::going_on(&total.verdicts),
            batches: total.batches,
            worked_before: total.worked_ms,
            total,
            phase: Phase::Following,
            place,
            marks,
            withdrawn: Vec::new(),
            meter,
            maintenance: BackgroundTasks::start("maintenance".to_owned()).map_err(failure)?,
            plan,
        })
    }

    /// Returns the pages.
    pub(super) fn feed(&mut self) -> Result<&mut Feed, Fatal> {
        self.feed.as_mut().ok_or_else(|| fatal!(Bug, "pages of a replay of fingerprints"))
    }

    /// Hands the deferred maintenance of the judges' indexes to its thread.
    pub(super) fn maintain<'j>(&self, judges: impl IntoIterator<Item = &'j mut Rejudge>) {
        judges.into_iter().for_each(|judge| judge.maintenance(&mut |task| self.maintenance.run_once(task)));
    }

    /// Counts a decided page for each variant.
    pub(super) fn note(&mut self, part: Part, source: &Source, bytes: usize, ends: &[PageOutcome]) {
        for (counts, end) in self.counts.iter_mut().zip(ends) {
            if part == Part::Range {
                counts.note(bytes, end);
            } else {
                counts.warm_up += 1;
            }
        }
        if let Some(end) = ends.first() {
            if part == Part::Range {
                self.note_in_metrics(source, bytes, end);
            }
            self.verdicts.add(source, end);
        }
    }

    /// Counts the verdict on a page that was judged again because its range was reopened. The page counts, and is
    /// delivered, with its first verdict.
    pub(super) fn note_reopened(&mut self, part: Part, source: &Source, ends: &[PageOutcome]) {
        if part == Part::Range {
            self.counts.iter_mut().for_each(|counts| counts.reopened += 1);
        }
        if let Some(end) = ends.first() {
            self.verdicts.add(source, end);
        }
    }

    fn note_in_metrics(&mut self, source: &Source, bytes: usize, end: &PageOutcome) {
        self.meter.consume(&source.partition.topic, bytes);
        match end {
            PageOutcome::Judged(verdict) => {
                if let Answer::Page(page) = &verdict.answer {
                    self.metrics.judged(page.decision.kind());
                }
            }
            PageOutcome::DeadLetter(reason) => self.metrics.dead_letter(*reason),
            PageOutcome::Tombstone => self.metrics.bypassed(BypassReason::Tombstone),
        }
    }

    /// Hands a page of the range to the open batch.
    pub(super) fn deliver(&mut self, output: Output<PagePayload>) {
        self.batch.bytes += output.page.payload.record.bytes();
        if self.plan.into.has_pages() {
            self.batch.pages.push(Arc::new(output));
        }
    }

    /// Notes that everything before an offset was read, judged and delivered.
    pub(super) fn mark(&mut self, partition: &PartitionId, offset: i64) {
        self.batch.marks.insert(partition.clone(), Mark::at(offset));
    }

    /// Returns whether the open batch is to be closed.
    pub(super) fn is_full(&self) -> bool {
        let open = self.counts.first().map_or(0, judged).saturating_sub(self.flushed_pages);
        let is_due = self.clock.now().saturating_sub(self.flushed) >= BATCH_TIME;
        let max_bytes = self.writer.as_ref().map_or(BATCH_BYTES, Writer::max_batch_bytes);
        (is_due && open > 0) || open >= MAX_PAGES as u64 || self.batch.bytes >= max_bytes
    }

    /// Closes the open batch, to be committed. Waits while as much is waiting as one transaction may carry.
    pub(super) fn flush(&mut self, records: Vec<(LogPartition, Vec<VerdictRecord>)>) -> Result<(), Fatal> {
        self.flushed = self.clock.now();
        self.batches += 1;
        let total = Total {
            batches: self.batches,
            verdicts: self.verdicts.to_string(),
            outputs: String::new(),
            worked_ms: self.worked_before + millis(self.clock.now()),
            is_done: false,
            counts: self.counts.first().cloned().unwrap_or_default(),
            place: self.place,
        };
        let first = self.plan.total_at();
        let mut batch = mem::take(&mut self.batch);
        let place = self.marks.get(&first).copied().unwrap_or_else(|| start_of(&self.plan, &first));
        batch.marks.entry(first).or_insert(place);
        self.marks.extend(mem::take(&mut batch.marks));
        // Commit the offsets of all partitions, so that brokers do not expire some of them early.
        batch.marks.clone_from(&self.marks);
        self.flushed_pages = judged(&total.counts);
        let Some(writer) = &mut self.writer else {
            self.total = total;
            return self.check_dead_letters();
        };
        writer.add(Batch { records, total, ..batch });
        self.commit_while(Writer::is_full)
    }

    /// Waits until everything that was judged is committed.
    pub(super) fn settle(&mut self) -> Result<(), Fatal> {
        self.commit_while(Writer::has_uncommitted)
    }

    fn commit_while(&mut self, condition: fn(&Writer) -> bool) -> Result<(), Fatal> {
        while let Some(writer) = self.writer.as_mut().filter(|writer| condition(writer)) {
            if writer.is_busy() {
                self.look_at_writer(true)?;
            } else {
                writer.send();
            }
        }
        Ok(())
    }

    fn look_at_writer(&mut self, wait: bool) -> Result<(), Fatal> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let Some(Committed { total, withdrawn }) = writer.step(wait)? else {
            // Offsets of a deleted topic are never accepted, and the client retries for minutes.
            let now = self.clock.now();
            let since = writer.begun_at().max(self.topics_checked);
            if writer.is_busy() && now.saturating_sub(since) >= SLOW_COMMIT {
                self.topics_checked = now;
                self.topics_are_there()?;
            }
            return Ok(());
        };
        self.total = (*total).clone();
        for page in withdrawn {
            if let Some(counts) = self.counts.first_mut() {
                counts.note_refused(page.was, page.reason);
            }
            self.withdrawn.push((page.source, page.reason));
        }
        self.check_dead_letters()
    }

    fn topics_are_there(&self) -> Result<(), Fatal> {
        let needed = self.plan.committed_at();
        let topics: BTreeSet<String> = needed.iter().map(|partition| partition.topic.to_string()).collect();
        let topics: Vec<String> = topics.into_iter().collect();
        // Unreachable brokers are not a reason to stop: they may come back.
        let Ok(found) = self.offsets.partitions(&topics) else { return Ok(()) };
        if let Some(partition) = needed.iter().find(|partition| !found.contains(partition)) {
            return Err(fatal!(State, "{partition} no longer exists; what was judged before is committed"));
        }
        let written: Vec<String> = self.plan.output.topics().cloned().chain([self.plan.own_verdicts()]).collect();
        let Ok(found) = self.offsets.partitions(&written) else { return Ok(()) };
        match written.iter().find(|name| !found.iter().any(|partition| *partition.topic == ***name)) {
            Some(name) => Err(output_is_gone(name, &self.plan.id)),
            None => Ok(()),
        }
    }

    fn check_dead_letters(&self) -> Result<(), Fatal> {
        let Some(limit) = self.options.max_dead_letters else { return Ok(()) };
        let counts = &self.total.counts;
        let dead = counts.of(Reject::DEAD_LETTER);
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = dead as f64 / counts.pages.max(1) as f64;
        if counts.pages < ENOUGH || share <= limit {
            return Ok(());
        }
        let reasons: Vec<String> =
            counts.dead_letters.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        Err(fatal!(
            Failure,
            "{dead} of {} pages are dead letters ({}), more than --max-dead-letters allows: {}",
            counts.pages,
            reasons.join(", "),
            self.way_on()
        ))
    }

    /// Shows progress, handles answers of the brokers and signals.
    pub(super) fn housekeeping(&mut self) -> Result<(), Fatal> {
        self.look_at_writer(false)?;
        let now = self.clock.now();
        if now.saturating_sub(self.shown) >= SHOW {
            self.shown = now;
            self.metrics.upkeep();
            self.measure();
            if let Some(counts) = self.counts.first() {
                (self.see)(&Report { phase: self.phase, counts, place: self.place });
            }
        }
        if self.signals.try_recv().is_err() {
            return Ok(());
        }
        self.settle()?;
        Err(fatal!(Unfinished, "stopped: {}", self.way_on()))
    }

    /// Says how to continue once this run has ended early.
    fn way_on(&self) -> String {
        if self.plan.into.writes() {
            format!("what was judged is committed, `dupgate replay resume {}` continues", self.plan.id)
        } else {
            "a replay with --into none keeps no state: run it again".to_owned()
        }
    }

    /// Sets the progress in the metrics.
    fn measure(&mut self) {
        let is_yielding = matches!(self.phase, Phase::Yielding(_));
        if let Some(counts) = self.counts.first() {
            self.meter.show(&self.metrics, &self.plan, counts, self.place.as_ref(), is_yielding);
        }
    }

    /// Waits before the next page as long as the rate and the live service require.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Fatal> {
        // Without a limit, reading the clock would be a tenth of what a kept fingerprint costs.
        if self.pace.is_limited() {
            self.pace.note(bytes, self.clock.now());
            while self.pace.wait(self.clock.now()) > Duration::ZERO {
                let wait = self.pace.wait(self.clock.now()).min(SHOW);
                self.rest(wait)?;
            }
        }
        let Some(limit) = self.options.yield_to_lag else { return Ok(()) };
        let phase = self.phase;
        while self.lag_seen.is_none_or(|seen| self.clock.now().saturating_sub(seen) >= LAG_INTERVAL) {
            match self.live_lag() {
                Ok(lag) if lag <= limit => {
                    self.lag_seen = Some(self.clock.now());
                    break;
                }
                Ok(lag) => self.phase = Phase::Yielding(lag),
                // Once it was readable: the brokers may come back.
                Err(error) if self.lag_seen.is_some() => {
                    tracing::warn!(target: "dupgate::replay", %error, "lag of the service is unknown, waiting");
                }
                Err(error) => return Err(error),
            }
            self.rest(LAG_INTERVAL / 5)?;
        }
        self.phase = phase;
        Ok(())
    }

    fn rest(&mut self, wait: Duration) -> Result<(), Fatal> {
        let over = crossbeam_channel::after(wait);
        // Receiving from a channel without messages is a sleep.
        let _ = over.recv();
        self.housekeeping()
    }

    fn live_lag(&self) -> Result<u64, Fatal> {
        let mut partitions: BTreeSet<PartitionId> = self.plan.input.iter().map(InputRange::id).collect();
        if self.plan.is_of_files() {
            let topics = self.live.input.topics.list();
            partitions = self
                .offsets
                .partitions(&topics)
                .map_err(|error| fatal::cluster_error(ClusterError::of_topics(&error, &topics)))?;
        }
        self.offsets.lag_in_records(&partitions).map_err(unavailable)
    }

    /// Returns how many variants, from the first on, write their verdicts: one or none.
    pub(super) fn written_variants(&self) -> usize {
        usize::from(self.plan.into.writes())
    }

    pub(super) fn logs(&self) -> usize {
        self.settings.first().map_or(1, |settings| settings.log_partitions().get())
    }

    pub(super) fn identity(&self) -> LogIdentity {
        LogIdentity(xxhash_rust::xxh3::xxh3_64(self.plan.hash.as_bytes()))
    }

    /// Opens the replay's own verdict log up to its end.
    pub(super) fn own_log(&self, log: LogPartition) -> Result<Option<LogStream>, Fatal> {
        if !self.plan.into.writes() {
            return Ok(None);
        }
        let partition = walk::partition(&Arc::from(self.plan.own_verdicts()), log);
        let kept = self.offsets.range(&partition).map_err(unavailable)?;
        let config = context::connection(&self.live.kafka).bounded_follower(&self.plan.own_group());
        LogStream::open(&config, partition, VerdictOffset(kept.end)).map(Some)
    }

    fn finish(mut self) -> Result<Outcome, Fatal> {
        self.settle()?;
        self.batch.marks.clone_from(&self.marks);
        self.batch.marks.extend(self.plan.input.iter().map(|range| (range.id(), Mark::at(range.to))));
        self.batches += 1;
        let total = Total {
            batches: self.batches,
            verdicts: self.verdicts.to_string(),
            outputs: self.writer.as_ref().map(|writer| writer.digest().to_string()).unwrap_or_default(),
            worked_ms: self.worked_before + millis(self.clock.now()),
            is_done: true,
            counts: self.counts.first().cloned().unwrap_or_default(),
            place: self.place,
        };
        let batch = mem::take(&mut self.batch);
        if let Some(writer) = &mut self.writer {
            writer.add(Batch { total: total.clone(), ..batch });
        }
        self.settle()?;
        if let Some(counts) = self.counts.first() {
            self.meter.show_end(&self.metrics, &self.plan, counts);
        }
        Ok(Outcome { total, variants: self.counts, elapsed_ms: millis(self.clock.now()) })
    }
}

/// Returns how many pages were judged, in the range and before it.
const fn judged(counts: &Counts) -> u64 {
    counts.pages + counts.warm_up + counts.reopened
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
