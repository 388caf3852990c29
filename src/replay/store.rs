//! The state of a replay in the cluster: its plan, verdicts, outputs and progress.
//!
//! The plan is the only record of a separate topic, so that every machine with access to the cluster can show, resume,
//! compare and remove a replay.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use dupgate_core::replay::{CommitMetadata, Mark, Marks, Plan, Target, Total, own_name, plan_topic};

use super::{QUERY_TIMEOUT, TRANSACTION};
use crate::config::settings::{Settings, Topics};
use crate::context;
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::fatal::{self, ended, failure, unavailable};
use crate::kafka::client::{ConnectionSettings, ProducerSettings};
use crate::kafka::inspector::{ClusterError, ClusterInspector, TopicPlan, end_open_transaction};
use crate::kafka::offsets::{Committed, Offsets};
use crate::kafka::pages::Pages;
use crate::kafka::pages::{Page, PageProducer};
use crate::protocol::LogPartition;
use crate::record::PartitionId;
use crate::snapshot::{LockState, ProcessLock};
use crate::transaction::CallError;

/// Header of the record in the topic of a plan that holds the result of the replay.
const DONE: &str = "done";

/// Largest plan, in bytes.
const PLAN_BYTES: &str = "8388608";

/// The replays of one service.
pub struct Store {
    connection: ConnectionSettings,
    inspector: ClusterInspector,
    group: String,
    logs: String,
    /// The folder of the locks of replays that this machine runs.
    locks: PathBuf,
}

/// A replay as stored in the cluster.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its plan.
    pub plan: Plan,
    /// Its committed totals.
    pub total: Option<Arc<Total>>,
    /// Next offset of each partition, and its read position.
    pub marks: Marks,
    /// Its progress.
    pub state: ReplayState,
}

/// Progress of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayState {
    /// Nothing of it is committed.
    Planned,
    /// Some of it is committed.
    Begun,
    /// A process of this machine runs it: this one, if its id is known.
    Running(Option<u32>),
    /// The process of this machine that ran it ended before the replay did.
    Interrupted,
    /// All of it is committed.
    Done,
    /// Some of it is committed, and its group has no offsets: brokers delete those of a group that is idle for
    /// `offsets.retention.minutes`, 7 days by default. Where it stopped is unknown.
    Expired,
}

impl ReplayState {
    /// Adds what this machine knows to what is committed.
    const fn on_this_machine(self, lock: LockState) -> Self {
        match (self, lock) {
            (Self::Planned | Self::Begun | Self::Expired, LockState::Held(process)) => Self::Running(process),
            (Self::Planned | Self::Begun, LockState::Released) => Self::Interrupted,
            (state, _) => state,
        }
    }
}

impl Stored {
    /// Returns a replay without commits.
    #[must_use]
    pub const fn planned(plan: Plan) -> Self {
        Self { plan, total: None, marks: Marks::new(), state: ReplayState::Planned }
    }

    /// Checks that the position where the replay stopped is known; otherwise it would write everything a second time.
    ///
    /// # Errors
    ///
    /// [`Reason::State`].
    pub fn expect_place(&self) -> Result<(), Fatal> {
        if self.state != ReplayState::Expired {
            return Ok(());
        }
        let (id, group) = (&self.plan.id, self.plan.own_group());
        Err(fatal!(
            State,
            "replay `{id}` cannot continue: the offsets of group `{group}` are gone (brokers delete those of a group that was not \
             used for offsets.retention.minutes), and it would write all pages again; `dupgate replay clean {id} --execute` \
             removes what it has written, then it can be run from its plan"
        ))
    }
}

impl Store {
    /// Connects to the cluster.
    ///
    /// # Errors
    ///
    /// No broker answers.
    pub fn open(settings: &Settings) -> Result<Self, Fatal> {
        let connection = context::connection(&settings.kafka);
        let group = settings.input.group.clone();
        let inspector = ClusterInspector::new(&connection, &group, QUERY_TIMEOUT).map_err(fatal::cluster_error)?;
        if let Some(why) = crate::topics::connect_error(&settings.kafka.brokers) {
            return Err(fatal!(Unavailable, "no broker answers: {why} (kafka.brokers)"));
        }
        inspector.brokers().map_err(fatal::cluster_error)?;
        let (logs, locks) = (settings.logs.prefix.clone(), settings.index.path.join("replays"));
        Ok(Self { connection, inspector, group, logs, locks })
    }

    /// Takes the lock of a replay, which is held while it runs or is removed.
    ///
    /// # Errors
    ///
    /// Another process of this machine holds it, or the folder of the state cannot be written.
    pub fn lock(&self, id: &str) -> Result<ProcessLock, Fatal> {
        let way_on = format!("`dupgate replay status {id} --watch` follows it");
        ProcessLock::take(self.lock_path(id), &format!("replay `{id}`"), &way_on)
    }

    fn lock_path(&self, id: &str) -> PathBuf {
        self.locks.join(format!("{}.lock", own_name(&self.logs, id)))
    }

    /// Returns the inspection clients.
    #[must_use]
    pub const fn inspector(&self) -> &ClusterInspector {
        &self.inspector
    }

    /// Lists the ids of all replays, in order.
    ///
    /// # Errors
    ///
    /// No broker answers.
    pub fn ids(&self) -> Result<Vec<String>, Fatal> {
        let (prefix, suffix) = (own_name(&self.logs, ""), ".plan");
        let names = self.inspector.topic_names().map_err(fatal::cluster_error)?;
        let id = |name: &String| Some(name.strip_prefix(&prefix)?.strip_suffix(suffix)?.to_owned());
        Ok(names.iter().filter_map(id).collect())
    }

    /// Returns the state of a replay for the process that resumes it. Ends a transaction that a killed run has left
    /// open, because the offsets could not be read before its timeout. A run on another machine is fenced.
    ///
    /// # Errors
    ///
    /// A request that the brokers refuse.
    pub fn take_over(&self, plan: Plan) -> Result<Stored, Fatal> {
        if plan.into.writes() {
            let group = plan.own_group();
            let settings = ProducerSettings { transaction_timeout: TRANSACTION, ..ProducerSettings::of_judge() };
            let producer = self.connection.transactional_producer(&group, &settings);
            end_open_transaction(&producer, QUERY_TIMEOUT).map_err(|error| {
                let otherwise =
                    if matches!(error, CallError::Fatal(_)) { Reason::Failure } else { Reason::Unavailable };
                ended(otherwise, error, &group)
            })?;
        }
        self.progress(plan)
    }

    /// Reads a replay, its progress at the latest commit, and whether this machine runs it. Does not wait for it.
    ///
    /// # Errors
    ///
    /// There is no replay with this id, or it cannot be read.
    pub fn look(&self, id: &str) -> Result<Stored, Fatal> {
        let plan = self.plan(id)?;
        // Read first, because the replay may end meanwhile: then its last commit decides.
        let lock = ProcessLock::state(&self.lock_path(id));
        let known = self.offsets(&plan)?.last_committed(&plan.committed_at());
        let stored = self.judged(stored(plan, known.map_err(unavailable)?)?)?;
        Ok(Stored { state: stored.state.on_this_machine(lock), ..stored })
    }

    /// Reads the plan of a replay.
    ///
    /// # Errors
    ///
    /// There is no replay with this id, or it cannot be read.
    pub fn plan(&self, id: &str) -> Result<Plan, Fatal> {
        let topic = plan_topic(&self.logs, id);
        let there = self.inspector.topic(&topic).map_err(fatal::cluster_error)?;
        if there.is_none() {
            let known = self.ids()?.join(", ");
            let known = if known.is_empty() { "there are none".to_owned() } else { format!("there are {known}") };
            return Err(fatal!(Input, "no replay `{id}` of group `{}`: {known}", self.group));
        }
        let text = self.plan_text(&topic)?.ok_or_else(|| {
            fatal!(State, "topic `{topic}` holds no plan: `dupgate replay run` starts it again, `dupgate replay clean {id} --execute` removes it")
        })?;
        Plan::read(&text).or_fatal(Reason::State)
    }

    /// Reads the first record of a plan's topic.
    fn plan_text(&self, topic: &str) -> Result<Option<String>, Fatal> {
        let first = PartitionId::new(topic, 0).at(0);
        let pages = Pages::open(&self.connection.follower(&self.group), QUERY_TIMEOUT).map_err(failure)?;
        let found = pages
            .fetch(&[&first])
            .map_err(|error| fatal::cluster_error(ClusterError::of_topic(&error, topic, "Read")))?;
        let value = found.into_values().next().and_then(|page| page.value);
        Ok(value.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// Checks that no replay with this id was started: its plan would be in the cluster.
    ///
    /// # Errors
    ///
    /// There is one, or it cannot be read.
    pub fn expect_new(&self, id: &str) -> Result<(), Fatal> {
        let topic = plan_topic(&self.logs, id);
        // The list leaves out topics that must not be described, so that a plan needs no permission for its own.
        let names = self.inspector.topic_names().map_err(fatal::cluster_error)?;
        if !names.contains(&topic) || self.plan_text(&topic)?.is_none() {
            return Ok(());
        }
        Err(fatal!(
            Config,
            "replay `{id}` exists already: `dupgate replay resume {id}` continues it, `dupgate replay clean {id} --execute` \
             removes it; a new one needs another --id"
        ))
    }

    /// Queries the progress of a replay.
    ///
    /// # Errors
    ///
    /// No coordinator answers.
    pub fn progress(&self, plan: Plan) -> Result<Stored, Fatal> {
        let known = self.offsets(&plan)?.committed(&plan.committed_at());
        self.judged(stored(plan, known.map_err(unavailable)?)?)
    }

    /// If the group has no offsets, the written records show whether it ever had any.
    fn judged(&self, stored: Stored) -> Result<Stored, Fatal> {
        if stored.state != ReplayState::Planned || !stored.plan.into.writes() {
            return Ok(stored);
        }
        if let Some(total) = self.done(&stored.plan)? {
            return Ok(Stored { total: Some(Arc::new(total)), state: ReplayState::Done, ..stored });
        }
        let state = if self.has_written(&stored.plan)? { ReplayState::Expired } else { ReplayState::Planned };
        Ok(Stored { state, ..stored })
    }

    /// Returns whether anything that a replay has written is committed.
    fn has_written(&self, plan: &Plan) -> Result<bool, Fatal> {
        let offsets = self.offsets(plan)?;
        let own = [plan.own_verdicts()].into_iter().chain(match plan.into {
            Target::Shadow => plan.output.topics().cloned().collect(),
            Target::Verdicts | Target::Live | Target::None => Vec::new(),
        });
        for name in own {
            let Some(view) = self.inspector.topic(&name).map_err(fatal::cluster_error)? else { continue };
            for log in LogPartition::first(view.partitions) {
                let partition = PartitionId::new(name.as_str(), log.number());
                let kept = offsets.range(&partition).map_err(unavailable)?;
                if kept.end == 0 {
                    continue;
                }
                // Uncommitted records of a killed run are not visible.
                match self.inspector.first_at(&partition, 0) {
                    Ok(Some(_)) => return Ok(true),
                    // A replay has no permission to read its outputs, and its own log is sufficient.
                    Ok(None) | Err(ClusterError::Denied(_)) => {}
                    Err(error) => return Err(fatal::cluster_error(error)),
                }
            }
        }
        Ok(false)
    }

    /// Reads the result of a finished replay from the topic of its plan.
    fn done(&self, plan: &Plan) -> Result<Option<Total>, Fatal> {
        let partition = PartitionId::new(plan.plan_topic().as_str(), 0);
        let Some(kept) = self.offsets(plan)?.range(&partition).ok().filter(|kept| kept.end > 1) else {
            return Ok(None);
        };
        let pages = Pages::open(&self.connection.follower(&self.group), QUERY_TIMEOUT).map_err(failure)?;
        for offset in (1..kept.end).rev() {
            let place = partition.at(offset);
            let found = pages.fetch(&[&place]).map_err(unavailable)?;
            let Some(page) = found.into_values().next() else { continue };
            let is_of_plan = page.headers.iter().any(|(name, of)| name == DONE && of == plan.hash.as_bytes());
            if let (true, Some(value)) = (is_of_plan, page.value) {
                return Ok(serde_json::from_slice(&value).ok());
            }
        }
        Ok(None)
    }

    /// Stores the result of a finished replay, because the offsets of its group expire.
    ///
    /// # Errors
    ///
    /// It is not acknowledged.
    pub fn finish(&self, plan: &Plan, total: &Total) -> Result<(), Fatal> {
        let text = serde_json::to_string(total).unwrap_or_default();
        self.write(plan, text.as_bytes(), (DONE, &plan.hash))
    }

    /// Writes the result of a finished replay, unless it is written: the run may have ended between its last commit and
    /// this record, without which the result is unknown once the group's offsets have expired.
    ///
    /// # Errors
    ///
    /// The topic of the plan cannot be read or written.
    pub fn ensure_finished(&self, stored: &Stored) -> Result<(), Fatal> {
        match &stored.total {
            Some(total) if self.done(&stored.plan)?.is_none() => self.finish(&stored.plan, total),
            _ => Ok(()),
        }
    }

    fn offsets(&self, plan: &Plan) -> Result<Offsets, Fatal> {
        Offsets::new(&self.connection.query(&plan.own_group()), QUERY_TIMEOUT).map_err(failure)
    }

    /// Creates the missing topics of a replay: a run may have ended before it had created all. Once it has committed
    /// anything, all must exist.
    ///
    /// # Errors
    ///
    /// The brokers refuse a topic, or one was deleted.
    pub fn begin_again(&self, stored: &Stored, settings: &Settings) -> Result<(), Fatal> {
        let topics = self.topics(&stored.plan, settings)?;
        if stored.marks.is_empty() {
            self.expect_own(&stored.plan)?;
            return self.create(&topics);
        }
        for topic in &topics {
            if self.inspector.topic(&topic.name).map_err(fatal::cluster_error)?.is_none() {
                return Err(output_is_gone(&topic.name, &stored.plan.id));
            }
        }
        Ok(())
    }

    /// Creates the missing topics, and waits until all have leaders.
    fn create(&self, topics: &[TopicPlan]) -> Result<(), Fatal> {
        for topic in topics {
            if self.inspector.topic(&topic.name).map_err(fatal::cluster_error)?.is_none() {
                self.inspector.create(topic).map_err(fatal::cluster_error)?;
            }
        }
        topics.iter().try_for_each(|topic| self.inspector.await_topic(&topic.name).map_err(fatal::cluster_error))
    }

    /// Stores the plan of a replay and creates its topics. The plan comes first: whatever happens afterwards, it shows
    /// how to continue, and what to remove.
    ///
    /// # Errors
    ///
    /// The brokers refuse a topic, or the plan is not acknowledged.
    pub fn begin(&self, plan: &Plan, settings: &Settings) -> Result<(), Fatal> {
        self.expect_own(plan)?;
        let topics = self.topics(plan, settings)?;
        let (of_plan, others): (Vec<_>, Vec<_>) = topics.into_iter().partition(|topic| topic.name == plan.plan_topic());
        self.create(&of_plan)?;
        self.write(plan, plan.text().as_bytes(), ("hash", &plan.hash))?;
        self.create(&others)
    }

    /// Checks that the shadow topics of a replay are its own, if they exist. Their names do not tell the group, and a
    /// replay of another group may have the same id. The log of a replay's verdicts is created before its shadow topics.
    fn expect_own(&self, plan: &Plan) -> Result<(), Fatal> {
        let names = self.inspector.topic_names().map_err(fatal::cluster_error)?;
        if plan.into != Target::Shadow || names.contains(&plan.own_verdicts()) {
            return Ok(());
        }
        for name in plan.output.topics() {
            if names.contains(name) {
                return Err(fatal!(
                    Config,
                    "topic `{name}` exists and is not of this replay: another group has a replay `{}` with the same \
                     outputs; choose another --id",
                    plan.id
                ));
            }
        }
        Ok(())
    }

    /// Writes to the topic of a plan.
    fn write(&self, plan: &Plan, value: &[u8], header: (&str, &str)) -> Result<(), Fatal> {
        let topic = plan.plan_topic();
        let refused: Arc<Mutex<Option<ClusterError>>> = Arc::default();
        let (heard, to) = (Arc::clone(&refused), topic.clone());
        let producer = PageProducer::open(&self.connection.request_producer(), move |(_, place)| {
            if let Err(error) = place {
                let error = ClusterError::of_topic(&error, &to, "Write");
                *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        });
        let producer = producer.map_err(failure)?;
        let page = Page { topic: &topic, key: &plan.id, value, header };
        let written = producer.write(page).and_then(|()| producer.flush());
        let written = written.map_err(|error| ClusterError::of_topic(&error, &topic, "Write"));
        let refused = refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        written.and(refused.map_or(Ok(()), Err)).map_err(|error| match error {
            ClusterError::Unavailable(why) => {
                fatal!(Unavailable, "topic `{topic}` is not written: {why}")
            }
            error @ (ClusterError::Denied(_) | ClusterError::Identity(_)) => fatal::cluster_error(error),
        })
    }

    /// Lists the topics that a replay needs, with their settings.
    ///
    /// # Errors
    ///
    /// The input cannot be described.
    pub fn topics(&self, plan: &Plan, settings: &Settings) -> Result<Vec<TopicPlan>, Fatal> {
        let mut names: BTreeSet<&String> = plan.input.iter().map(|range| &range.topic).collect();
        // Pages of compressed batches can be larger than the limit of their topic.
        let largest = i64::try_from(settings.record.max_document).unwrap_or(i64::MAX);
        let (mut partitions, mut replicas, mut bytes) = (1, 1, largest.max(1_048_588));
        if plan.is_of_files() {
            // Files have no partitions or replicas: use those of the live topics, if they exist.
            let output = &settings.output;
            names.extend([&output.unique, &output.duplicate, &output.dead_letter].into_iter().flatten());
            if let Topics::Names(inputs) = &settings.input.topics {
                names.extend(inputs);
            }
        }
        for name in names {
            let Some(view) = self.inspector.topic(name).map_err(fatal::cluster_error)? else { continue };
            partitions = partitions.max(view.partitions);
            replicas = replicas.max(view.replicas);
            bytes = bytes.max(view.number("max.message.bytes").unwrap_or(0));
        }
        let text = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let kept = [("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1")];
        let of = |name: String, partitions, settings| TopicPlan {
            name,
            partitions,
            replicas,
            is_configured: false,
            settings,
        };
        let mut plan_settings = text(&kept);
        plan_settings.insert("max.message.bytes".to_owned(), PLAN_BYTES.to_owned());
        let mut topics = vec![
            of(plan.own_verdicts(), settings.log_partitions().get(), text(&kept)),
            of(plan.plan_topic(), 1, plan_settings),
        ];
        if plan.into == Target::Shadow {
            // Accept every page, whatever its age and headers.
            let limit = bytes.saturating_add(64 << 10).min(i64::from(i32::MAX)).to_string();
            let ever = i64::MAX.to_string();
            let mut settings = text(&kept);
            settings.insert("message.timestamp.type".to_owned(), "CreateTime".to_owned());
            settings.insert("message.timestamp.before.max.ms".to_owned(), ever.clone());
            settings.insert("message.timestamp.after.max.ms".to_owned(), ever);
            settings.insert("max.message.bytes".to_owned(), limit);
            topics.extend(plan.output.topics().map(|name| of(name.clone(), partitions, settings.clone())));
        }
        Ok(topics)
    }

    /// Lists the remaining topics of a replay. Shadow topics are its own only if it has a log of verdicts: see
    /// [`Store::begin`].
    ///
    /// # Errors
    ///
    /// No broker answers.
    pub fn left(&self, id: &str) -> Result<Vec<String>, Fatal> {
        let names = self.inspector.topic_names().map_err(fatal::cluster_error)?;
        let own = own_name(&self.logs, id) + ".";
        let plan =
            self.plan(id).ok().filter(|plan| plan.into == Target::Shadow && names.contains(&plan.own_verdicts()));
        let shadow: BTreeSet<String> =
            plan.into_iter().flat_map(|plan| plan.output.topics().cloned().collect::<Vec<_>>()).collect();
        Ok(names.into_iter().filter(|name| name.starts_with(&own) || shadow.contains(name)).collect())
    }

    /// Removes topics and the replay's group. Shadow topics are the first and the topic with the plan is the last to go,
    /// so that what is left after a failure can still be found.
    ///
    /// # Errors
    ///
    /// A request that the brokers refuse.
    pub fn remove(&self, id: &str, topics: &[String]) -> Result<(), Fatal> {
        let (plan, own) = (plan_topic(&self.logs, id), own_name(&self.logs, id) + ".");
        let delete = |is_wanted: &dyn Fn(&str) -> bool| {
            let names: Vec<&str> = topics.iter().map(String::as_str).filter(|name| is_wanted(name)).collect();
            self.inspector.delete_topics(&names).map_err(fatal::cluster_error)
        };
        delete(&|name| !name.starts_with(&own))?;
        delete(&|name| name.starts_with(&own) && name != plan)?;
        // Delete the group last: without its offsets, a replay with some topics gone would look like one that was never
        // started.
        self.inspector.delete_group(&own_name(&self.group, id)).map_err(fatal::cluster_error)?;
        delete(&|name| name == plan)
    }
}

/// A topic that the replay has written to was deleted.
pub(super) fn output_is_gone(topic: &str, id: &str) -> Fatal {
    fatal!(
        State,
        "topic `{topic}` of replay `{id}` no longer exists, and its content is lost: `dupgate replay clean {id} \
         --execute` removes the rest, then it can be run from its plan"
    )
}

/// Parses the commits of a replay.
fn stored(plan: Plan, known: BTreeMap<PartitionId, Option<Committed>>) -> Result<Stored, Fatal> {
    let (mut total, mut marks) = (None, Marks::new());
    for (partition, committed) in known {
        let Some(Committed { offset, metadata }) = committed else { continue };
        let progress = CommitMetadata::read(&metadata);
        if progress.plan != plan.hash {
            let group = plan.own_group();
            return Err(fatal!(
                Config,
                "group `{group}` has offsets of another plan: `dupgate replay clean {} --execute` removes them",
                plan.id
            ));
        }
        total = progress.total.or(total);
        marks.insert(partition, Mark { offset, read_to: progress.read_to });
    }
    let state = match &total {
        Some(total) if total.is_done => ReplayState::Done,
        Some(_) => ReplayState::Begun,
        // The totals are committed with every other offset.
        None if marks.is_empty() => ReplayState::Planned,
        None => ReplayState::Expired,
    };
    Ok(Stored { plan, total, marks, state })
}
