//! Sends operator requests to the judges and waits for their answers in the verdict log.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};

use super::clock::Clock;
use super::fatal::{self, failure};
use super::random::draw;
use super::request_impact::{Found, RequestImpact};
use super::service_context;
use super::topics::{ensure_logs, unavailable};
use super::verdicts::{Extent, read};
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::kafka::admin::{Admin, Brokers, LogNames};
use crate::kafka::budget::ByteBudget;
use crate::kafka::fingerprint_log::{Appended, NotAppended, RequestLog};
use crate::kafka::offsets::Offsets;
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, Follower};
use crate::protocol::{Answer, LogPartition, Request, RequestBody, RequestId, VerdictOffset, VerdictRecord};
use crate::record::PartitionId;

/// How long one step may stay silent before the deadline is looked at.
const STEP: Duration = Duration::from_millis(100);

/// How long the verdict log may be silent while there is something to read.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What one judge answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Whose answer.
    pub log: LogPartition,
    /// The offset of its record.
    pub offset: VerdictOffset,
    /// Which verdict of that record it is.
    pub number: usize,
    /// The answer.
    pub answer: Answer,
    /// What there was to do, once [`count_found`] has worked it out.
    pub found: Option<Found>,
}

/// Asks the judges of every partition of the logs, and waits at most `timeout` for all of their answers. However long
/// the verdict log is, only its end is read.
///
/// # Errors
///
/// When the cluster or a judge does not answer in time.
pub fn send_and_wait(settings: &Settings, bodies: &[RequestBody], timeout: Duration) -> Result<Vec<Answered>, Fatal> {
    submit_to(settings, Brokers::Cluster, bodies, timeout)
}

/// The same over brokers of this kind.
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
    let logs = settings.log_partitions().get();
    let cluster = service_context::cluster(&settings.kafka);
    let names = log_names(settings);
    let admin = Admin::of(&cluster.admin(), brokers).map_err(unavailable)?;
    ensure_logs(&admin, &names, settings).map_err(unavailable)?;

    let clock = Clock::start();
    let offsets = Offsets::new(&cluster.query(&settings.input.group), timeout).map_err(failure)?;
    // No answer stands before what is committed now.
    let end = |log: &PartitionId| offsets.range(log).map(|(_, end)| Some(VerdictOffset(end))).map_err(unknown_end);
    let reading = LogReading::start(settings, end)?;
    let (sender, appended) = unbounded();
    let fingerprints = names.fingerprints.to_string();
    let mut requests =
        RequestLog::open(&cluster.request_producer(), fingerprints, logs, Arc::default(), move |appended| {
            // Whoever has all answers needs no more.
            let _ = sender.send(appended);
        })
        .map_err(failure)?;

    let pairs = LogPartition::first(logs).flat_map(|log| bodies.iter().map(move |body| (log, body)));
    let mut asked: BTreeMap<RequestId, (LogPartition, &RequestBody)> = BTreeMap::new();
    for (log, body) in pairs {
        let request = RequestId(draw());
        asked.insert(request, (log, body));
        requests.append(log, Request { id: request, body: body.clone() });
    }
    requests.send();
    let mut answers = Vec::new();
    while !asked.is_empty() {
        if clock.now() > timeout {
            let logs: Vec<String> = asked.values().map(|(log, _)| log.to_string()).collect();
            let why = anyhow::anyhow!(
                "no answer from the judge of log partition {} within {timeout:?}; it stands in the log and will be answered",
                logs.join(", ")
            );
            return Err(Reason::Unavailable.because(why));
        }
        for Appended { request, offset } in appended.try_iter() {
            match offset {
                Ok(_) => {}
                Err(NotAppended::Denied) => return Err(fatal::append_denied(&names.fingerprints)),
                // A request is applied once, however often it stands in the log.
                Err(NotAppended::Uncertain) => {
                    if let Some(&(log, body)) = asked.get(&request) {
                        requests.append(log, Request { id: request, body: body.clone() });
                        requests.send();
                    }
                }
            }
        }
        let Some((log, offset, record)) = reading.next()? else { continue };
        let VerdictRecord::Verdicts(batch) = record else { continue };
        for (number, verdict) in batch.verdicts.into_iter().enumerate() {
            if asked.remove(&verdict.request).is_some() {
                answers.push(Answered { log, offset, number, answer: verdict.answer, found: None });
            }
        }
    }
    answers.sort_by_key(|answered| (answered.log, answered.offset));
    Ok(answers)
}

/// Works out what each of the answered requests found: reads the kept verdict log up to the answers, for at most
/// `limit` if there is one. What was not read by then is not known.
///
/// # Errors
///
/// When the verdict log cannot be read.
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
                let why = anyhow::anyhow!("the verdict log could not be read: nothing came for {IDLE_TIMEOUT:?}");
                return Err(Reason::Unavailable.because(why));
            }
            continue;
        };
        heard = clock.now();
        logs.entry(log).or_insert_with(|| RequestImpact::by(bodies)).follow(&record, |number, found| {
            let is_it = |one: &&mut Answered| (one.log, one.offset, one.number) == (log, offset, number);
            if let Some(answered) = answers.iter_mut().find(is_it) {
                answered.found = Some(found);
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
    /// They read until they are dropped.
    _followers: Vec<Follower>,
}

impl LogReading {
    /// Begins in each partition where `from` says.
    fn start(
        settings: &Settings,
        from: impl Fn(&PartitionId) -> Result<Option<VerdictOffset>, Fatal>,
    ) -> Result<Self, Fatal> {
        let (cluster, names) = (service_context::cluster(&settings.kafka), log_names(settings));
        let (sender, events) = unbounded();
        let budget = ByteBudget::new(16 << 20);
        let mut followers = Vec::new();
        for log in LogPartition::first(settings.log_partitions().get()) {
            let partition = PartitionId::new(Arc::clone(&names.verdicts), log.number());
            let from = from(&partition)?;
            let told = sender.clone();
            let sink = move |event| drop(told.send((log, event)));
            let config = cluster.follower(&settings.input.group);
            let follower = Follower::start(&config, partition, Arc::clone(&budget), format!("answers-{log}"), sink);
            let follower = follower.map_err(failure)?;
            follower.command(FollowCommand::From(from, 1));
            followers.push(follower);
        }
        Ok(Self { events, _followers: followers })
    }

    /// Returns the next record of any partition; `None` when none comes for a while.
    fn next(&self) -> Result<Option<(LogPartition, VerdictOffset, VerdictRecord)>, Fatal> {
        match self.events.recv_timeout(STEP) {
            Err(_) | Ok((_, FollowEvent { kind: FollowEventKind::End(_), .. })) => Ok(None),
            Ok((log, FollowEvent { kind: FollowEventKind::Record { offset, record, .. }, .. })) => {
                Ok(Some((log, offset, record)))
            }
            Ok((log, FollowEvent { kind: FollowEventKind::Moved(why), .. })) => {
                Err(Reason::State.because(anyhow::anyhow!("verdict log {log}: {why}")))
            }
        }
    }
}

fn log_names(settings: &Settings) -> LogNames {
    LogNames::new(&settings.logs.prefix, &settings.scheme().to_string())
}

fn unknown_end(error: impl fmt::Display) -> Fatal {
    Reason::Unavailable.because(anyhow::anyhow!("the end of the verdict log is not known: {error}"))
}

/// Returns what the requests would find, in the order of the requests, and does nothing.
///
/// # Errors
///
/// When the verdict log cannot be read.
pub fn would_find(settings: &Settings, bodies: &[RequestBody]) -> Result<Vec<Found>, Fatal> {
    let mut logs: BTreeMap<LogPartition, RequestImpact> = BTreeMap::new();
    read(settings, Extent::Kept, |message| {
        if let Some(message) = message {
            let affected = logs.entry(message.log).or_insert_with(|| RequestImpact::by(bodies));
            affected.follow(&message.record, |_, _| {});
        }
        ControlFlow::Continue(())
    })?;
    let of = |body: &RequestBody| {
        logs.values().map(|affected| affected.would_find(body)).fold(Found::default(), |mut sum, found| {
            sum.originals.extend(found.originals);
            // Each log opens what it judged.
            sum.positions += found.positions;
            sum
        })
    };
    Ok(bodies.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use rdkafka::ClientConfig;
    use rdkafka::consumer::{BaseConsumer, Consumer as _};
    use rdkafka::message::Message as _;
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
    use rdkafka::{Offset, TopicPartitionList};

    use super::*;
    use crate::kafka::mock::InProcessBroker;
    use crate::protocol::{
        ExpiryWatermarks, ForgetTarget, LogIdentity, RequestOffset, RulesNumber, Verdict, VerdictBatch,
        decode_requests, encode_verdict,
    };

    const LIMIT: Duration = Duration::from_mins(1);

    fn settings(broker: &InProcessBroker) -> Settings {
        let loaded = crate::config::load(&crate::config::Sources::default(), crate::config::Purpose::Sieve);
        let mut settings = loaded.unwrap_or_else(|refused| panic!("{refused}")).settings;
        settings.kafka.brokers = vec![broker.address()];
        settings
    }

    /// Answers the first request that is made, as a judge does.
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
    fn an_answer_is_found_at_the_end_of_the_log_whatever_stands_before() {
        let broker = InProcessBroker::start().unwrap();
        let settings = settings(&broker);
        let names = log_names(&settings);
        for topic in [&names.fingerprints, &names.verdicts] {
            broker.create_topic(topic, 1).unwrap();
        }
        // Of a later release: who reads it cannot go on.
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
}
