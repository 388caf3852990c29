//! Sends operator requests to the judges, waits for their answers in the verdict log, and counts what they affect: the
//! originals that a request forgets, and the positions that it reopens.
//!
//! The answer in the verdict log names only the target. The log before it, read from its start, contains every live
//! original, and so shows what the request affected. Only originals and positions that the requests name are kept in
//! memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};

use super::verdicts::{LogExtent, read};
use crate::clock::{Clock, random_id};
use crate::config::settings::Settings;
use crate::error::{Fatal, fatal};
use crate::fatal::failure;
use crate::kafka::admin::{Admin, Brokers, LogNames};
use crate::kafka::budget::ByteBudget;
use crate::kafka::fingerprint_log::{Appended, NotAppended, RequestLog};
use crate::kafka::offsets::Offsets;
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, FollowSettings, Follower};
use crate::protocol::{
    Answer, Decision, ExpiryWatermarks, ForgetTarget, Judged, LogPartition, PageVerdict, Request, RequestBody,
    RequestId, Stage, VerdictOffset, VerdictRecord,
};
use crate::record::{PartitionId, Source, Timestamp};
use crate::topics::{ensure_logs, topic_error};
use crate::{context, fatal};

/// How long to wait for an event before the deadline is checked.
const STEP: Duration = Duration::from_millis(100);

/// How long the verdict log may be silent while there is something to read.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The answer of one judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The log partition of the judge.
    pub log: LogPartition,
    /// The offset of the record in the verdict log.
    pub offset: VerdictOffset,
    /// Index of the verdict in that record.
    pub number: usize,
    pub asked: RequestBody,
    pub answer: Answer,
    /// What the request found, once [`count_found`] has determined it.
    pub found: Option<Found>,
}

impl Answered {
    /// Returns the part of the requested range that was not reopened: its first page may still be on its way to the
    /// outputs.
    #[must_use]
    pub fn left_out(&self) -> Option<(&PartitionId, Range<i64>)> {
        match (&self.asked, &self.answer) {
            (RequestBody::Reopen { to, .. }, Answer::Reopened { partition, to: done, .. }) if done < to => {
                Some((partition, *done..*to))
            }
            _ => None,
        }
    }
}

/// Sends the requests to the judges of every log partition, and waits at most `timeout` for all answers. Reads only the
/// end of the verdict log.
///
/// # Errors
///
/// The cluster or a judge does not answer in time.
pub fn send_and_wait(settings: &Settings, bodies: &[RequestBody], timeout: Duration) -> Result<Vec<Answered>, Fatal> {
    submit_to(settings, Brokers::Cluster, bodies, timeout)
}

/// Does the same as [`send_and_wait`], with brokers of this kind.
///
/// # Errors
///
/// As [`send_and_wait`].
pub fn submit_to(
    settings: &Settings,
    brokers: Brokers,
    bodies: &[RequestBody],
    timeout: Duration,
) -> Result<Vec<Answered>, Fatal> {
    if let Some(previous) = &settings.previous {
        submit_unanswered(previous, bodies, timeout)?;
    }
    let connection = context::connection(&settings.kafka);
    let admin = Admin::of(&connection.admin(), brokers).map_err(topic_error)?;
    ensure_logs(&admin, &log_names(settings), settings).map_err(topic_error)?;

    let clock = Clock::start();
    let offsets = Offsets::new(&connection.query(&settings.input.group), timeout).map_err(failure)?;
    // All answers follow the records that are committed now.
    let end = |log: &PartitionId| offsets.range(log).map(|kept| Some(VerdictOffset(kept.end))).map_err(unknown_end);
    let reading = LogReading::start(settings, end)?;
    let mut sent = Sent::to_judges(settings, bodies)?;
    let mut answers = Vec::new();
    while !sent.pending.is_empty() {
        if clock.now() > timeout {
            let logs: Vec<String> = sent.pending.values().map(|(log, _)| log.to_string()).collect();
            return Err(fatal!(
                Unavailable,
                "no answer from the judge of log partition {} within {timeout:?}; the request is in the log and will be answered",
                logs.join(", ")
            ));
        }
        while let Ok(appended) = sent.appended.try_recv() {
            sent.is_in_log(&appended)?;
        }
        let Some((log, offset, record)) = reading.next()? else { continue };
        let VerdictRecord::Verdicts(batch) = record else { continue };
        for (number, verdict) in batch.verdicts.into_iter().enumerate() {
            if let Some((_, body)) = sent.pending.remove(&verdict.request) {
                let asked = body.clone();
                answers.push(Answered { log, offset, number, asked, answer: verdict.answer, found: None });
            }
        }
    }
    answers.sort_by_key(|answered| (answered.log, answered.offset));
    Ok(answers)
}

/// Sends the requests to the judges of the earlier scheme, which may decide still, or may be gone.
fn submit_unanswered(previous: &Settings, bodies: &[RequestBody], timeout: Duration) -> Result<(), Fatal> {
    let clock = Clock::start();
    let mut sent = Sent::to_judges(previous, bodies)?;
    while !sent.pending.is_empty() {
        let Ok(appended) = sent.appended.recv_timeout(timeout.saturating_sub(clock.now())) else {
            return Err(fatal!(Unavailable, "the log of the scheme before took no request within {timeout:?}"));
        };
        if sent.is_in_log(&appended)? {
            sent.pending.remove(&appended.request);
        }
    }
    Ok(())
}

/// Requests on their way to the judges of every log partition.
struct Sent<'b> {
    fingerprints: Arc<str>,
    requests: RequestLog,
    /// What became of them.
    appended: Receiver<Appended>,
    pending: BTreeMap<RequestId, (LogPartition, &'b RequestBody)>,
}

impl<'b> Sent<'b> {
    fn to_judges(settings: &Settings, bodies: &'b [RequestBody]) -> Result<Self, Fatal> {
        let (names, logs) = (log_names(settings), settings.log_partitions().get());
        let config = context::connection(&settings.kafka).request_producer();
        let (sender, appended) = unbounded();
        let report = move |appended| {
            // The receiver is gone once nothing is waited for any more.
            let _ = sender.send(appended);
        };
        let requests =
            RequestLog::open(&config, names.fingerprints.to_string(), logs, Arc::default(), report).map_err(failure)?;
        let pairs = LogPartition::first(logs).flat_map(|log| bodies.iter().map(move |body| (log, body)));
        let pending: BTreeMap<_, _> = pairs.map(|pair| (RequestId(random_id()), pair)).collect();
        let mut sent = Self { fingerprints: names.fingerprints, requests, appended, pending };
        let ids: Vec<RequestId> = sent.pending.keys().copied().collect();
        ids.into_iter().for_each(|id| sent.append(id));
        sent.requests.send();
        Ok(sent)
    }

    fn append(&mut self, id: RequestId) {
        if let Some(&(log, body)) = self.pending.get(&id) {
            self.requests.append(log, Request { id, body: body.clone() });
        }
    }

    /// Returns whether a request is in the log. Sends it again if that is uncertain: it is applied once, even if the log
    /// holds it several times.
    fn is_in_log(&mut self, appended: &Appended) -> Result<bool, Fatal> {
        match appended.offset {
            Ok(_) => Ok(true),
            Err(NotAppended::Denied) => Err(fatal::append_denied(&self.fingerprints)),
            Err(NotAppended::Uncertain) => {
                self.append(appended.request);
                self.requests.send();
                Ok(false)
            }
        }
    }
}

/// Determines what each answered request found, by reading the kept verdict log up to the answers. Stops after `limit`,
/// if one is given; requests whose answer was not reached by then keep `found: None`.
///
/// # Errors
///
/// The verdict log cannot be read.
pub fn count_found(
    settings: &Settings,
    bodies: &[RequestBody],
    answers: &mut [Answered],
    limit: Option<Duration>,
) -> Result<(), Fatal> {
    let clock = Clock::start();
    let mut last: BTreeMap<LogPartition, VerdictOffset> = BTreeMap::new();
    for Answered { log, offset, .. } in &*answers {
        last.entry(*log).and_modify(|last| *last = *offset.max(last)).or_insert(*offset);
    }
    let mut logs: BTreeMap<LogPartition, RequestImpact> = BTreeMap::new();
    let reading = LogReading::start(settings, |_| Ok(None))?;
    let mut heard = clock.now();
    while !last.is_empty() && limit.is_none_or(|limit| clock.now() <= limit) {
        let Some((log, offset, record)) = reading.next()? else {
            if clock.now().saturating_sub(heard) > IDLE_TIMEOUT {
                return Err(fatal!(
                    Unavailable,
                    "the verdict log could not be read: no record arrived within {} s: is a broker of it down?",
                    IDLE_TIMEOUT.as_secs()
                ));
            }
            continue;
        };
        heard = clock.now();
        logs.entry(log).or_insert_with(|| RequestImpact::by(bodies)).follow(&record, |number, found, judged| {
            let is_it = |one: &&mut Answered| (one.log, one.offset, one.number) == (log, offset, number);
            if let Some(answered) = answers.iter_mut().find(is_it) {
                let left_out = answered.left_out().and_then(|(_, range)| Some(judged?.count(range.start, range.end)));
                answered.found = Some(Found { left_out: left_out.unwrap_or(0), ..found });
            }
        });
        if last.get(&log).is_some_and(|last| *last <= offset) {
            last.remove(&log);
        }
    }
    Ok(())
}

/// The readers of all partitions of the verdict log.
struct LogReading {
    events: Receiver<(LogPartition, FollowEvent)>,
    /// Dropping them ends the reading.
    _followers: Vec<Follower>,
}

impl LogReading {
    /// Starts one reader for each partition, at the offset that `from` returns for it.
    fn start(
        settings: &Settings,
        from: impl Fn(&PartitionId) -> Result<Option<VerdictOffset>, Fatal>,
    ) -> Result<Self, Fatal> {
        let (connection, names) = (context::connection(&settings.kafka), log_names(settings));
        let (sender, events) = unbounded();
        let budget = ByteBudget::new(16 << 20);
        let mut followers = Vec::new();
        for log in LogPartition::first(settings.log_partitions().get()) {
            let partition = PartitionId::new(Arc::clone(&names.verdicts), log.number());
            let from = from(&partition)?;
            let sender_of_log = sender.clone();
            let sink = move |event| drop(sender_of_log.send((log, event)));
            let config = connection.follower(&settings.input.group);
            let partition = FollowSettings::new(partition, sink);
            let follower = Follower::start(&config, partition, &budget, format!("answers-{log}"));
            let follower = follower.map_err(failure)?;
            follower.command(FollowCommand::From(from, 1));
            followers.push(follower);
        }
        Ok(Self { events, _followers: followers })
    }

    /// Returns the next record of any partition; `None` if none arrives within [`STEP`].
    fn next(&self) -> Result<Option<(LogPartition, VerdictOffset, VerdictRecord)>, Fatal> {
        match self.events.recv_timeout(STEP) {
            Err(_) | Ok((_, FollowEvent { kind: FollowEventKind::End(_), .. })) => Ok(None),
            Ok((log, FollowEvent { kind: FollowEventKind::Record { offset, record, .. }, .. })) => {
                Ok(Some((log, offset, record)))
            }
            Ok((log, FollowEvent { kind: FollowEventKind::Moved(why), .. })) => {
                Err(fatal!(State, "verdict log {log}: {why}"))
            }
        }
    }
}

fn log_names(settings: &Settings) -> LogNames {
    LogNames::new(&settings.logs.prefix, &settings.scheme().to_string())
}

fn unknown_end(error: impl fmt::Display) -> Fatal {
    fatal!(Unavailable, "cannot read the end of the verdict log: {error}")
}

/// Returns what the requests would find, in the order of the requests, without sending them.
///
/// # Errors
///
/// The verdict log cannot be read.
pub fn would_find(settings: &Settings, bodies: &[RequestBody]) -> Result<Vec<Found>, Fatal> {
    let mut logs: BTreeMap<LogPartition, RequestImpact> = BTreeMap::new();
    read(settings, LogExtent::Kept, |message| {
        if let Some(message) = message {
            let affected = logs.entry(message.log).or_insert_with(|| RequestImpact::by(bodies));
            affected.follow(&message.record, |_, _, _| {});
        }
        ControlFlow::Continue(())
    })?;
    let of = |body: &RequestBody| {
        logs.values().map(|affected| affected.would_find(body)).fold(Found::default(), |mut sum, found| {
            sum.originals.extend(found.originals);
            // Each log partition reopens the positions that its own judge has judged.
            sum.positions += found.positions;
            sum
        })
    };
    Ok(bodies.iter().map(of).collect())
}

/// The findings of one request in one partition of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Originals, with the number of their duplicates in the kept log.
    pub originals: Vec<(Source, u64)>,
    /// Number of judged positions, if the request names a range.
    pub positions: u64,
    /// Number of judged positions of the requested range that the judge left out, because they, or one before them, may
    /// still be on their way to the outputs.
    pub left_out: u64,
}

impl Found {
    /// Returns whether there was nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.originals.is_empty() && self.positions == 0
    }
}

/// Follows one partition of the verdict log and tracks what some requests affect.
#[derive(Debug, Default)]
pub(crate) struct RequestImpact {
    sources: BTreeSet<Source>,
    ids: BTreeSet<crate::fingerprint::IdHash>,
    ranges: Vec<(PartitionId, Range<i64>)>,
    originals: BTreeMap<Source, LiveOriginal>,
    judged: BTreeMap<PartitionId, Judged>,
    next_sequence: Option<u64>,
    watermarks: Option<ExpiryWatermarks>,
}

#[derive(Debug)]
struct LiveOriginal {
    /// `None` until the first rules or checkpoint.
    sequence: Option<u64>,
    event_time: Timestamp,
    id: Option<crate::fingerprint::IdHash>,
    duplicates: u64,
}

impl RequestImpact {
    /// Starts before the first record of the log.
    pub(crate) fn by(bodies: &[RequestBody]) -> Self {
        let mut affected = Self::default();
        for body in bodies {
            match body {
                RequestBody::Forget(ForgetTarget::Source(source)) => drop(affected.sources.insert(source.clone())),
                RequestBody::Forget(ForgetTarget::Id(id)) => drop(affected.ids.insert(*id)),
                RequestBody::Reopen { partition, from, to } => affected.ranges.push((partition.clone(), *from..*to)),
                RequestBody::Page(_) | RequestBody::Withdraw { .. } | RequestBody::SetTime(_) => {}
            }
        }
        affected
    }

    /// Follows a record. For each answer to an operator's request in it, in order, calls `visit` with the index of the
    /// verdict, what the request found, and the judged positions of the partition that it reopened.
    pub(crate) fn follow(&mut self, record: &VerdictRecord, mut visit: impl FnMut(usize, Found, Option<&Judged>)) {
        match record {
            // A log begins with its rules, a trimmed one with a checkpoint.
            VerdictRecord::Rules(_) => {
                self.next_sequence.get_or_insert(0);
            }
            VerdictRecord::Checkpoint(checkpoint) => {
                self.next_sequence = Some(checkpoint.next_sequence);
                self.watermarks = Some(checkpoint.watermarks);
                // A checkpoint lists everything judged before it.
                let known = |(partition, _): &(PartitionId, Range<i64>)| {
                    Some((partition.clone(), checkpoint.partitions.get(partition)?.judged.clone()))
                };
                self.judged = self.ranges.iter().filter_map(known).collect();
            }
            VerdictRecord::Verdicts(batch) => {
                for (number, verdict) in batch.verdicts.iter().enumerate() {
                    match &verdict.answer {
                        Answer::Page(page) => self.page(page),
                        Answer::Withdrawn { source, .. } => {
                            self.close(source);
                            self.originals.remove(source);
                        }
                        answer @ Answer::Forgotten(_) => visit(number, self.take(answer), None),
                        answer @ Answer::Reopened { partition, .. } => {
                            let found = self.take(answer);
                            visit(number, found, self.judged.get(partition));
                        }
                        Answer::TimeSet { .. } => self.drop_expired(),
                    }
                }
                self.watermarks = Some(batch.watermarks);
            }
        }
    }

    /// Returns what a request would find now.
    pub(crate) fn would_find(&self, body: &RequestBody) -> Found {
        match body {
            RequestBody::Forget(target) => self.found(&Answer::Forgotten(target.clone())),
            RequestBody::Reopen { partition, from, to } => {
                self.found(&Answer::Reopened { partition: partition.clone(), from: *from, to: *to })
            }
            RequestBody::Page(_) | RequestBody::Withdraw { .. } | RequestBody::SetTime(_) => Found::default(),
        }
    }

    fn found(&self, answer: &Answer) -> Found {
        let mut found = Found::default();
        for (source, held) in &self.originals {
            if self.is_alive(held) && is_target(answer, source, held) {
                found.originals.push((source.clone(), held.duplicates));
            }
        }
        if let Answer::Reopened { partition, from, to } = answer {
            found.positions = self.judged.get(partition).map_or(0, |judged| judged.count(*from, *to));
        }
        found
    }

    fn take(&mut self, answer: &Answer) -> Found {
        let found = self.found(answer);
        self.originals.retain(|source, held| !is_target(answer, source, held));
        if let Answer::Reopened { partition, from, to } = answer
            && let Some(judged) = self.judged.get_mut(partition)
        {
            judged.reopen(*from, *to);
        }
        found
    }

    fn page(&mut self, page: &PageVerdict) {
        self.close(&page.source);
        if let Decision::Update { of, original: Some(_) } = &page.decision {
            self.originals.remove(&of.source);
        }
        if let Decision::Duplicate { of } = &page.decision
            && let Some(held) = self.originals.get_mut(&of.source)
        {
            held.duplicates += 1;
        }
        let Some(original) = page.decision.original() else { return };
        let sequence = self.next_sequence;
        self.next_sequence = sequence.map(|sequence| sequence + 1);
        let is_wanted = self.sources.contains(&page.source)
            || original.id.is_some_and(|id| self.ids.contains(&id))
            || self.is_in_range(&page.source);
        if is_wanted {
            let held = LiveOriginal { sequence, event_time: page.event_time, id: original.id, duplicates: 0 };
            self.originals.insert(page.source.clone(), held);
        }
    }

    /// Drops what has expired before the stream time is set back: it does not come back.
    fn drop_expired(&mut self) {
        let mut originals = std::mem::take(&mut self.originals);
        originals.retain(|_, held| self.is_alive(held));
        self.originals = originals;
    }

    fn close(&mut self, source: &Source) {
        if self.is_in_range(source) {
            self.judged.entry(source.partition.clone()).or_default().insert(source.offset);
        }
    }

    fn is_in_range(&self, source: &Source) -> bool {
        self.ranges
            .iter()
            .any(|(partition, offsets)| *partition == source.partition && offsets.contains(&source.offset))
    }

    /// Returns whether the index still holds an original: those that have expired or were evicted do not count.
    fn is_alive(&self, held: &LiveOriginal) -> bool {
        let Some(watermarks) = &self.watermarks else { return true };
        let in_time = Stage::ALL.into_iter().any(|stage| held.event_time >= watermarks.times.of(stage));
        in_time && held.sequence.is_none_or(|sequence| sequence >= watermarks.first_sequence)
    }
}

fn is_target(answer: &Answer, source: &Source, held: &LiveOriginal) -> bool {
    match answer {
        Answer::Forgotten(ForgetTarget::Source(wanted)) => wanted == source,
        Answer::Forgotten(ForgetTarget::Id(wanted)) => held.id == Some(*wanted),
        Answer::Reopened { partition, from, to } => {
            *partition == source.partition && (*from..*to).contains(&source.offset)
        }
        Answer::Page(_) | Answer::Withdrawn { .. } | Answer::TimeSet { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use dupgate_core::judge::State;
    use rdkafka::consumer::{BaseConsumer, Consumer as _};
    use rdkafka::message::Message as _;
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
    use rdkafka::{ClientConfig, Offset, TopicPartitionList};

    use super::*;
    use crate::config::{ExternalInputs, Layers, Purpose};
    use crate::fingerprint::{ExactHash, Fingerprints, IdHash, Numbers, PageDigest};
    use crate::kafka::demo::InProcessBroker;
    use crate::protocol::{
        Checkpoint, Delivered, ExpiryWatermarks, ForgetTarget, LogIdentity, Match, MatchedBy, NewOriginal,
        PartitionCheckpoint, PerStage, Placement, RequestId, RequestOffset, Rules, RulesNumber, Verdict, VerdictBatch,
        decode_requests, encode_verdict,
    };
    use crate::record::Reject;

    const LIMIT: Duration = Duration::from_mins(1);

    fn settings(broker: &InProcessBroker) -> Settings {
        let loaded = crate::config::load(&crate::config::Sources::default(), crate::config::Purpose::Sieve);
        let mut settings = loaded.unwrap_or_else(|refused| panic!("{refused}")).settings;
        settings.kafka.brokers = vec![broker.address()];
        settings
    }

    /// Answers the first request, as a judge does.
    fn judge(broker: &str, names: &LogNames) {
        let consumer: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", broker).set("group.id", "judge").create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&names.fingerprints, 0, Offset::Beginning).unwrap();
        consumer.assign(&list).unwrap();
        let message = consumer.poll(LIMIT).unwrap().unwrap();
        let request = decode_requests(message.payload().unwrap()).unwrap().remove(0);
        let RequestBody::Forget(target) = request.body else { panic!("{request:?}") };
        let verdicts = vec![Verdict { request: request.id, answer: Answer::Forgotten(target) }];
        let (log, rules) = (LogIdentity(1), RulesNumber(1));
        let next_request = RequestOffset(message.offset() + 1);
        let batch = VerdictBatch { log, rules, watermarks: ExpiryWatermarks::START, next_request, verdicts };
        write(broker, &names.verdicts, &encode_verdict(&VerdictRecord::Verdicts(batch), 1 << 20).remove(0));
    }

    fn write(broker: &str, topic: &str, bytes: &[u8]) {
        let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", broker).create().unwrap();
        producer.send(BaseRecord::<str, _>::to(topic).partition(0).payload(bytes)).unwrap();
        producer.flush(LIMIT).unwrap();
    }

    #[test]
    fn an_answer_is_found_at_the_end_of_the_log_whatever_comes_before() {
        let broker = InProcessBroker::start().unwrap();
        let settings = settings(&broker);
        let names = log_names(&settings);
        for topic in [&names.fingerprints, &names.verdicts] {
            broker.create_topic(topic, 1).unwrap();
        }
        // A record of a later release: a reader cannot continue after it.
        write(&broker.address(), &names.verdicts, b"dg\xff\x02later");
        let body = RequestBody::Forget(ForgetTarget::Source(PartitionId::new("pages", 0).at(7)));
        std::thread::scope(|scope| {
            let (address, names) = (broker.address(), &names);
            scope.spawn(move || judge(&address, names));
            let bodies = [body];
            let mut answers = submit_to(&settings, Brokers::InProcess, &bodies, LIMIT).unwrap();
            let places: Vec<_> = answers.iter().map(|answered| (answered.offset, &answered.found)).collect();
            assert_eq!(places, [(VerdictOffset(1), &None)]);
            count_found(&settings, &bodies, &mut answers, None).unwrap_err();
            assert_eq!(answers.first().and_then(|answered| answered.found.as_ref()), None, "it is not known");
        });
    }

    fn at(offset: i64) -> Source {
        PartitionId::new("pages", 0).at(offset)
    }

    fn unique(offset: i64, id: u64, millis: i64) -> Answer {
        let fingerprints =
            Fingerprints { exact: ExactHash(id.into()), simhash: None, sketch: None, numbers: Numbers::default() };
        let original = NewOriginal {
            fingerprints,
            id: Some(IdHash(id)),
            scope: None,
            site: None,
            address: None,
            title: None,
            placement: Placement::default(),
            cluster: None,
        };
        page(offset, millis, Decision::Unique { original: Some(original) })
    }

    fn duplicate(offset: i64, of: i64) -> Answer {
        let of = Match { by: MatchedBy::Exact, source: at(of), age_ms: 0, cluster: at(of) };
        page(offset, 0, Decision::Duplicate { of })
    }

    fn page(offset: i64, millis: i64, decision: Decision) -> Answer {
        let event_time = Timestamp::from_millis(millis);
        Answer::Page(PageVerdict { source: at(offset), event_time, digest: PageDigest(0), decision })
    }

    fn batch(tail: i64, first_sequence: u64, answers: Vec<Answer>) -> VerdictRecord {
        let watermarks = ExpiryWatermarks { times: PerStage::all(Timestamp::from_millis(tail)), first_sequence };
        let verdict = |answer| Verdict { request: RequestId(1), answer };
        VerdictRecord::Verdicts(VerdictBatch {
            log: LogIdentity(1),
            rules: RulesNumber(1),
            watermarks,
            next_request: RequestOffset(0),
            verdicts: answers.into_iter().map(verdict).collect(),
        })
    }

    #[test]
    fn a_request_finds_the_originals_that_are_alive_and_the_positions_that_are_judged() {
        let by_source = RequestBody::Forget(ForgetTarget::Source(at(1)));
        let by_id = RequestBody::Forget(ForgetTarget::Id(IdHash(7)));
        let range = RequestBody::Reopen { partition: PartitionId::new("pages", 0), from: 1, to: 4 };
        let bodies = [by_source.clone(), by_id.clone(), range.clone()];
        let mut affected = RequestImpact::by(&bodies);
        assert!(bodies.iter().all(|body| affected.would_find(body).is_empty()));
        affected.next_sequence = Some(0);
        let nothing = |_, found, _: Option<&Judged>| panic!("{found:?}");
        let record = batch(0, 0, vec![unique(1, 5, 10), unique(2, 7, 20), unique(9, 7, 5), duplicate(3, 1)]);
        affected.follow(&record, nothing);
        let originals = |body: &RequestBody| affected.would_find(body).originals;
        assert_eq!(originals(&by_source), [(at(1), 1)]);
        assert_eq!(originals(&by_id), [(at(2), 0), (at(9), 0)]);
        assert_eq!(
            affected.would_find(&range),
            Found { originals: vec![(at(1), 1), (at(2), 0)], positions: 3, left_out: 0 }
        );
        // One is forgotten by time, another by capacity.
        affected.follow(&batch(8, 0, Vec::new()), nothing);
        assert_eq!(affected.would_find(&by_id).originals, [(at(2), 0)]);
        affected.follow(&batch(8, 1, Vec::new()), nothing);
        assert!(affected.would_find(&by_source).is_empty());
        // A forgotten original is not found again; a withdrawn page is not an original.
        let mut reported = Vec::new();
        let forgotten = || Answer::Forgotten(ForgetTarget::Id(IdHash(7)));
        affected
            .follow(&batch(8, 1, vec![forgotten(), forgotten()]), |number, found, _| reported.push((number, found)));
        assert_eq!(
            reported.iter().map(|(number, found)| (*number, found.originals.len())).collect::<Vec<_>>(),
            [(0, 1), (1, 0)]
        );
        affected.follow(&batch(8, 1, vec![unique(1, 7, 30)]), nothing);
        affected.follow(&batch(8, 1, vec![Answer::Withdrawn { source: at(1), reason: Reject::Refused }]), nothing);
        assert!(affected.would_find(&by_source).is_empty() && affected.would_find(&by_id).is_empty());
        // What was asked to be reopened and was not is still judged.
        let reopened = Answer::Reopened { partition: PartitionId::new("pages", 0), from: 1, to: 2 };
        let mut left = Vec::new();
        affected.follow(&batch(8, 1, vec![reopened]), |_, found, judged| {
            left.push((found.positions, judged.map(|judged| judged.count(2, 4))));
        });
        assert_eq!(left, [(1, Some(2))]);
    }

    #[test]
    fn a_range_without_an_end_is_counted_and_never_walked() {
        let partition = PartitionId::new("pages", 0);
        let range = RequestBody::Reopen { partition: partition.clone(), from: 5, to: i64::MAX };
        let mut affected = RequestImpact::by(std::slice::from_ref(&range));
        let mut judged = Judged::default();
        judged.raise_low_watermark(1_000_000_000);
        judged.insert(1_000_000_007);
        let output = PartitionCheckpoint {
            judged,
            low_watermark: 0,
            delivered: Delivered { end: i64::MAX, ..Delivered::default() },
        };
        let Some(checkpoint) = State::begin(LogIdentity(1), rules(), RequestOffset(0)).checkpoint(None, |_| 0) else {
            panic!("rules are in force")
        };
        let checkpoint = Checkpoint { partitions: BTreeMap::from([(partition, output)]), ..checkpoint };
        affected.follow(&VerdictRecord::Checkpoint(Box::new(checkpoint)), |_, found, _| panic!("{found:?}"));
        affected.follow(&batch(0, 0, vec![duplicate(1_000_000_009, 1), duplicate(2, 1)]), |_, found, _| {
            panic!("{found:?}")
        });
        assert_eq!(affected.would_find(&range).positions, 1_000_000_000 - 5 + 2);
    }

    fn rules() -> Rules {
        let resolved = Layers::default().resolve(&ExternalInputs::default(), Purpose::Sieve);
        resolved.unwrap_or_else(|refused| panic!("{refused}")).0.rules
    }
}
