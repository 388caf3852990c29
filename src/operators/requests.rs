//! Sends operator requests to the judges and waits for their answers in the verdict log.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};

use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::kafka::admin::{Admin, Brokers, LogNames};
use crate::kafka::budget::ByteBudget;
use crate::kafka::fingerprint_log::{Appended, NotAppended, RequestLog};
use crate::kafka::offsets::Offsets;
use crate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, Follower};
use crate::operators::impact::{Found, RequestImpact};
use crate::operators::verdicts::{LogExtent, read};
use crate::protocol::{Answer, LogPartition, Request, RequestBody, RequestId, VerdictOffset, VerdictRecord};
use crate::record::PartitionId;
use crate::runtime::clock::{Clock, random_id};
use crate::runtime::context;
use crate::runtime::fatal::{self, failure};
use crate::runtime::topics::{ensure_logs, unavailable};

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
    /// The request.
    pub asked: RequestBody,
    /// The answer.
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
    let logs = settings.log_partitions().get();
    let connection = context::connection(&settings.kafka);
    let names = log_names(settings);
    let admin = Admin::of(&connection.admin(), brokers).map_err(unavailable)?;
    ensure_logs(&admin, &names, settings).map_err(unavailable)?;

    let clock = Clock::start();
    let offsets = Offsets::new(&connection.query(&settings.input.group), timeout).map_err(failure)?;
    // All answers follow the records that are committed now.
    let end = |log: &PartitionId| offsets.range(log).map(|kept| Some(VerdictOffset(kept.end))).map_err(unknown_end);
    let reading = LogReading::start(settings, end)?;
    let (sender, appended) = unbounded();
    let fingerprints = names.fingerprints.to_string();
    let mut requests =
        RequestLog::open(&connection.request_producer(), fingerprints, logs, Arc::default(), move |appended| {
            // The receiver is gone once it has all answers.
            let _ = sender.send(appended);
        })
        .map_err(failure)?;

    let pairs = LogPartition::first(logs).flat_map(|log| bodies.iter().map(move |body| (log, body)));
    let mut pending: BTreeMap<RequestId, (LogPartition, &RequestBody)> = BTreeMap::new();
    for (log, body) in pairs {
        let request = RequestId(random_id());
        pending.insert(request, (log, body));
        requests.append(log, Request { id: request, body: body.clone() });
    }
    requests.send();
    let mut answers = Vec::new();
    while !pending.is_empty() {
        if clock.now() > timeout {
            let logs: Vec<String> = pending.values().map(|(log, _)| log.to_string()).collect();
            let why = anyhow::anyhow!(
                "no answer from the judge of log partition {} within {timeout:?}; the request is in the log and will be answered",
                logs.join(", ")
            );
            return Err(Reason::Unavailable.because(why));
        }
        for Appended { request, offset } in appended.try_iter() {
            match offset {
                Ok(_) => {}
                Err(NotAppended::Denied) => return Err(fatal::append_denied(&names.fingerprints)),
                // A request is applied once, even if the log holds it several times.
                Err(NotAppended::Uncertain) => {
                    if let Some(&(log, body)) = pending.get(&request) {
                        requests.append(log, Request { id: request, body: body.clone() });
                        requests.send();
                    }
                }
            }
        }
        let Some((log, offset, record)) = reading.next()? else { continue };
        let VerdictRecord::Verdicts(batch) = record else { continue };
        for (number, verdict) in batch.verdicts.into_iter().enumerate() {
            if let Some((_, body)) = pending.remove(&verdict.request) {
                let asked = body.clone();
                answers.push(Answered { log, offset, number, asked, answer: verdict.answer, found: None });
            }
        }
    }
    answers.sort_by_key(|answered| (answered.log, answered.offset));
    Ok(answers)
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
                let why = anyhow::anyhow!(
                    "the verdict log could not be read: no record arrived within {} s: is a broker of it down?",
                    IDLE_TIMEOUT.as_secs()
                );
                return Err(Reason::Unavailable.because(why));
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
            let follower = Follower::start(&config, partition, Arc::clone(&budget), format!("answers-{log}"), sink);
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
                Err(Reason::State.because(anyhow::anyhow!("verdict log {log}: {why}")))
            }
        }
    }
}

fn log_names(settings: &Settings) -> LogNames {
    LogNames::new(&settings.logs.prefix, &settings.scheme().to_string())
}

fn unknown_end(error: impl fmt::Display) -> Fatal {
    Reason::Unavailable.because(anyhow::anyhow!("cannot read the end of the verdict log: {error}"))
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
}
