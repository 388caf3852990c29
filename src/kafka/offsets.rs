//! Queries offsets: what a group has committed, where a partition begins and ends, and the first records after an
//! offset. No query joins the group.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::after;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{ClientConfig, Offset};

use super::client::LoggingContext;
use super::group_consumer::{ConsumedRecord, Start, detach, share_of};
use super::partition_list::{Begin, fetch_begins, list_at, list_of};
use super::renewed_client::close_in_background;
use crate::record::{PartitionId, Timestamp};

/// More uncommitted offsets than this are records and not only markers of transactions.
const MANY_MARKERS: u64 = 16;

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(50);

/// Maximum bytes fetched from a partition at a time; a single record may be larger.
const FETCH_BYTES: &str = "65536";

/// A client that queries on behalf of one group without joining it.
pub struct Offsets {
    stable: ClientPool,
    /// Reads committed offsets without waiting for open transactions. Its first client is created on demand.
    read_uncommitted: ClientPool,
    timeout: Duration,
}

/// A pool of clients of one kind: one for each concurrent query, so that none waits for another.
struct ClientPool {
    config: ClientConfig,
    /// A query takes a client and puts it back after success. A client whose query failed is closed: it may have lost
    /// its brokers for good.
    idle: Mutex<Vec<BaseConsumer<LoggingContext>>>,
}

/// What a group committed for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The next offset to read.
    pub offset: i64,
    pub metadata: String,
}

/// The committed offset, or why there is no answer for the partition.
type CommittedOrErrors = BTreeMap<PartitionId, Result<Option<Committed>, KafkaError>>;

impl ClientPool {
    fn idle(&self) -> MutexGuard<'_, Vec<BaseConsumer<LoggingContext>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<T>(
        &self,
        request: impl FnOnce(&BaseConsumer<LoggingContext>) -> Result<T, KafkaError>,
    ) -> Result<T, KafkaError> {
        let idle = self.idle().pop();
        let consumer = match idle {
            Some(consumer) => consumer,
            None => self.config.create_with_context(LoggingContext(()))?,
        };
        match request(&consumer) {
            Ok(answer) => {
                self.idle().push(consumer);
                Ok(answer)
            }
            Err(error) => {
                close_in_background(consumer);
                Err(error)
            }
        }
    }
}

impl Offsets {
    /// Creates the client. Each query waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn new(config: &ClientConfig, timeout: Duration) -> Result<Self, KafkaError> {
        let stable = ClientPool {
            config: config.clone(),
            idle: Mutex::new(vec![config.create_with_context(LoggingContext(()))?]),
        };
        let mut read_uncommitted = config.clone();
        read_uncommitted.set("isolation.level", "read_uncommitted");
        Ok(Self { stable, read_uncommitted: ClientPool { config: read_uncommitted, idle: Mutex::default() }, timeout })
    }

    fn ask<T>(
        &self,
        request: impl FnOnce(&BaseConsumer<LoggingContext>) -> Result<T, KafkaError>,
    ) -> Result<T, KafkaError> {
        self.stable.ask(request)
    }

    /// Closes the clients that no query uses, on separate threads: closing one takes a tenth of a second. A later query
    /// creates another.
    pub fn close_idle(&self) {
        for pool in [&self.stable, &self.read_uncommitted] {
            pool.idle().drain(..).for_each(close_in_background);
        }
    }

    /// Returns what the group has committed for these partitions. Waits until no open transaction holds offsets of any
    /// of them, so that the answer is final. Only the owner of the partitions should call it: the transaction of their
    /// former owner ends soon, but among the partitions of many busy workers, some transaction is always open.
    ///
    /// # Errors
    ///
    /// The coordinator did not answer in time, or not for each of them.
    pub fn committed(
        &self,
        partitions: &BTreeSet<PartitionId>,
    ) -> Result<BTreeMap<PartitionId, Option<Committed>>, KafkaError> {
        let answers = self.fetch(&self.stable, partitions)?;
        answers.into_iter().map(|(partition, known)| Ok((partition, known?))).collect()
    }

    /// Returns the committed offsets of these partitions without waiting for open transactions, so they are never
    /// higher than those of [`Offsets::committed`]. Partitions without an answer are left out.
    ///
    /// # Errors
    ///
    /// The coordinator did not answer in time.
    pub fn last_committed(
        &self,
        partitions: &BTreeSet<PartitionId>,
    ) -> Result<BTreeMap<PartitionId, Option<Committed>>, KafkaError> {
        let answers = self.fetch(&self.read_uncommitted, partitions)?;
        Ok(answers.into_iter().filter_map(|(partition, known)| Some((partition, known.ok()?))).collect())
    }

    fn fetch(&self, pool: &ClientPool, partitions: &BTreeSet<PartitionId>) -> Result<CommittedOrErrors, KafkaError> {
        if partitions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let answer = pool.ask(|consumer| consumer.committed_offsets(list_of(partitions), self.timeout))?;
        let known = |element: &TopicPartitionListElem<'_>| match element.offset() {
            Offset::Offset(offset) => Some(Committed { offset, metadata: element.metadata().to_owned() }),
            Offset::Beginning | Offset::End | Offset::Stored | Offset::Invalid | Offset::OffsetTail(_) => None,
        };
        let elements = answer.elements();
        let answers = elements.iter().map(|element| {
            let partition = PartitionId::new(element.topic(), element.partition());
            (partition, element.error().map(|()| known(element)))
        });
        Ok(answers.collect())
    }

    /// Returns the offsets from the first one that is kept to the end of the committed records: a reader of committed
    /// records sees nothing at or after the end.
    ///
    /// # Errors
    ///
    /// The partition's leader did not answer in time.
    pub fn range(&self, partition: &PartitionId) -> Result<Range<i64>, KafkaError> {
        let (first, end) =
            self.ask(|consumer| consumer.fetch_watermarks(&partition.topic, partition.number, self.timeout))?;
        Ok(first..end)
    }

    /// Returns the end of the committed records, as [`Offsets::range`] does, for many partitions by the same
    /// requests. A partition whose leader does not answer is left out.
    ///
    /// # Errors
    ///
    /// No broker answered in time.
    pub fn ends(&self, partitions: &BTreeSet<PartitionId>) -> Result<BTreeMap<PartitionId, i64>, KafkaError> {
        self.starts(partitions, Start::Latest)
    }

    /// Returns how many offsets of these partitions the group has not committed. A partition without a committed offset,
    /// or whose leader does not answer, is left out.
    ///
    /// # Errors
    ///
    /// No broker answered in time.
    pub fn lag(&self, partitions: &BTreeSet<PartitionId>) -> Result<u64, KafkaError> {
        Ok(self.uncommitted(partitions)?.values().map(length).sum())
    }

    /// Like [`Offsets::lag`], but a partition in which only a few markers of transactions are left has no lag: readers
    /// skip them, and a group that has read everything may never commit the offset after them.
    ///
    /// # Errors
    ///
    /// No broker answered in time.
    pub fn lag_in_records(&self, partitions: &BTreeSet<PartitionId>) -> Result<u64, KafkaError> {
        let left = self.uncommitted(partitions)?;
        let (few, many): (BTreeMap<_, _>, BTreeMap<_, _>) =
            left.into_iter().partition(|(_, left)| length(left) <= MANY_MARKERS);
        let heads =
            few.iter().filter(|(_, left)| !left.is_empty()).map(|(partition, left)| (partition.clone(), left.start));
        let records = first_records(&self.stable.config, &heads.collect(), 1, self.timeout)?;
        let has_record = |partition: &PartitionId| records.get(partition).is_none_or(|records| !records.is_empty());
        let few = few.into_iter().filter(|(partition, _)| has_record(partition));
        Ok(few.chain(many).map(|(_, left)| length(&left)).sum())
    }

    fn uncommitted(&self, partitions: &BTreeSet<PartitionId>) -> Result<BTreeMap<PartitionId, Range<i64>>, KafkaError> {
        let committed = self.last_committed(partitions)?;
        let left = |(partition, end): (PartitionId, i64)| {
            let next = committed.get(&partition)?.as_ref()?.offset;
            (next <= end).then_some((partition, next..end))
        };
        Ok(self.ends(partitions)?.into_iter().filter_map(left).collect())
    }

    /// Returns the first offset for a reader that begins at `start`, for many partitions by the same requests.
    /// A partition whose leader does not answer is left out, as is one that holds nothing from the wanted time on.
    ///
    /// # Errors
    ///
    /// No broker answered in time.
    pub fn starts(
        &self,
        partitions: &BTreeSet<PartitionId>,
        start: Start,
    ) -> Result<BTreeMap<PartitionId, i64>, KafkaError> {
        let begins = self.fetch_begins(partitions, start)?;
        Ok(begins.into_iter().filter_map(|(partition, offset)| Some((partition, offset.ok()??))).collect())
    }

    fn fetch_begins(&self, partitions: &BTreeSet<PartitionId>, start: Start) -> Result<Vec<Begin>, KafkaError> {
        let ask = |list| self.ask(|consumer| consumer.offsets_for_times(list, self.timeout));
        fetch_begins(partitions.iter().map(|partition| (partition, start)), ask)
    }

    /// Returns the offset of the first record of each partition with this timestamp or a later one; the end of the
    /// partition if there is none.
    ///
    /// # Errors
    ///
    /// A partition's leader did not answer in time.
    pub fn at_time(
        &self,
        partitions: &BTreeSet<PartitionId>,
        time: Timestamp,
    ) -> Result<BTreeMap<PartitionId, i64>, KafkaError> {
        let known = |(partition, offset): Begin| {
            let offset = offset?.map_or_else(|| self.range(&partition).map(|range| range.end), Ok)?;
            Ok((partition, offset))
        };
        self.fetch_begins(partitions, Start::At(time))?.into_iter().map(known).collect()
    }

    /// Returns the partitions of each member of the group; `None` while the group is not stable.
    ///
    /// # Errors
    ///
    /// A broker did not answer in time.
    pub fn shares(&self) -> Result<Option<Vec<BTreeSet<PartitionId>>>, KafkaError> {
        let name = self.stable.config.get("group.id").unwrap_or_default();
        let list = self.ask(|consumer| consumer.fetch_group_list(Some(name), self.timeout))?;
        let group = list.groups().iter().find(|group| group.name() == name && group.state() == "Stable");
        Ok(group.and_then(|group| {
            group.members().iter().map(|member| share_of(member.assignment().unwrap_or_default())).collect()
        }))
    }

    /// Returns every partition of the topics that exist; a pattern (`^...`) means all topics that it matches.
    ///
    /// # Errors
    ///
    /// No broker answered in time, the brokers reported an error for a topic that may exist, or the pattern is not a
    /// valid regular expression.
    pub fn partitions(&self, topics: &[String]) -> Result<BTreeSet<PartitionId>, KafkaError> {
        // The client can request one topic by name; for several, and for a pattern, request all.
        let one =
            if let [topic] = topics { Some(topic.as_str()).filter(|topic| !topic.starts_with('^')) } else { None };
        let metadata = self.ask(|consumer| consumer.fetch_metadata(one, self.timeout))?;
        let patterns = topics.iter().filter(|topic| topic.starts_with('^')).map(|pattern| regex::Regex::new(pattern));
        let patterns =
            patterns.collect::<Result<Vec<_>, _>>().map_err(|error| KafkaError::Subscription(error.to_string()))?;
        let wanted = |name: &str| {
            topics.iter().any(|topic| topic == name) || patterns.iter().any(|pattern| pattern.is_match(name))
        };
        let mut found = BTreeSet::new();
        for topic in metadata.topics().iter().filter(|topic| wanted(topic.name())) {
            // A topic with another error may still exist.
            if let Some(error) = topic.error().map(RDKafkaErrorCode::from) {
                if error != RDKafkaErrorCode::UnknownTopicOrPartition {
                    return Err(KafkaError::MetadataFetch(error));
                }
            } else {
                found.extend(topic.partitions().iter().map(|part| PartitionId::new(topic.name(), part.id())));
            }
        }
        Ok(found)
    }
}

/// Returns the number of offsets in a range.
fn length(range: &Range<i64>) -> u64 {
    u64::try_from(range.end - range.start).unwrap_or(0)
}

/// Returns at most `max` committed records of each partition, from its offset on; none if no record follows.
/// Partitions that do not answer within `timeout` are left out.
///
/// # Errors
///
/// The client cannot be created from these settings, which are those of [`super::client::ConnectionSettings::query`].
pub fn first_records(
    config: &ClientConfig,
    from: &BTreeMap<PartitionId, i64>,
    max: usize,
    timeout: Duration,
) -> Result<BTreeMap<PartitionId, Vec<ConsumedRecord>>, KafkaError> {
    let mut config = config.clone();
    config.set("fetch.message.max.bytes", FETCH_BYTES).set("fetch.wait.max.ms", "100");
    let mut found = BTreeMap::new();
    if from.is_empty() {
        return Ok(found);
    }
    let consumer: BaseConsumer<LoggingContext> = config.create_with_context(LoggingContext(()))?;
    let mut topics: BTreeMap<&str, BTreeMap<i32, i64>> = BTreeMap::new();
    for (partition, offset) in from {
        topics.entry(&*partition.topic).or_default().insert(partition.number, *offset);
    }
    let over = after(timeout);
    // The client names only the number of a partition that ends, so read one topic after the other.
    for (topic, offsets) in topics {
        let at = |(number, offset): (&i32, &i64)| (PartitionId::new(topic, *number), Offset::Offset(*offset));
        consumer.assign(&list_at(offsets.iter().map(at))?)?;
        let mut open: BTreeMap<i32, Vec<ConsumedRecord>> = offsets.keys().map(|number| (*number, Vec::new())).collect();
        while !open.is_empty() && over.try_recv().is_err() {
            let ended = match consumer.poll(POLL) {
                Some(Ok(message)) => open.get_mut(&message.partition()).and_then(|records| {
                    records.push(detach(&message));
                    (records.len() >= max).then(|| message.partition())
                }),
                Some(Err(KafkaError::PartitionEOF(number))) => Some(number),
                // Partitions that do not answer are left out.
                Some(Err(_)) | None => None,
            };
            let Some(number) = ended else { continue };
            let Some(records) = open.remove(&number) else { continue };
            let partition = PartitionId::new(topic, number);
            consumer.pause(&list_of([&partition]))?;
            found.insert(partition, records);
        }
    }
    close_in_background(consumer);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;
    use rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED as NOT_AUTHORIZED;

    use super::*;
    use crate::kafka::partition_list::MANY_ANSWERS;

    #[test]
    fn a_topic_without_an_answer_is_not_considered_gone() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("pages", 2, 1).unwrap();
        cluster.create_topic("others", 1, 1).unwrap();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap_servers());
        let offsets = Offsets::new(&config, Duration::from_secs(30)).unwrap();
        let partitions = |topics: &[&str]| {
            let topics: Vec<String> = topics.iter().map(|topic| (*topic).to_owned()).collect();
            offsets.partitions(&topics).map(|found| found.len())
        };
        let all: [&[&str]; 3] = [&["pages"], &["pages", "gone"], &["^pa.*"]];
        for topics in all {
            assert_eq!(partitions(topics).unwrap(), 2, "{topics:?}");
        }
        cluster.topic_error("pages", NOT_AUTHORIZED).unwrap();
        for topics in all {
            let error = KafkaError::MetadataFetch(RDKafkaErrorCode::TopicAuthorizationFailed);
            assert_eq!(partitions(topics).unwrap_err(), error, "{topics:?}");
        }
        assert_eq!(partitions(&["others"]).unwrap(), 1);
    }

    #[test]
    fn the_offsets_of_more_partitions_than_one_question_has_are_found() {
        let count = i32::try_from(MANY_ANSWERS).unwrap() + 1;
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("pages", count, 1).unwrap();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap_servers());
        let offsets = Offsets::new(&config, Duration::from_secs(30)).unwrap();
        let all: BTreeSet<PartitionId> = (0..count).map(|number| PartitionId::new("pages", number)).collect();
        for found in [offsets.ends(&all), offsets.at_time(&all, Timestamp::default())] {
            assert_eq!(found.unwrap().into_keys().collect::<BTreeSet<_>>(), all);
        }
    }

    #[test]
    fn queries_do_not_wait_for_each_other() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("pages", 1, 1).unwrap();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap_servers()).set("group.id", "readers");
        let offsets = Offsets::new(&config, Duration::from_secs(10)).unwrap();
        let pages = BTreeSet::from([PartitionId::new("pages", 0)]);
        std::thread::scope(|scope| {
            let (asks, requested) = crossbeam_channel::bounded(0);
            let (answer, answered) = crossbeam_channel::bounded::<()>(0);
            let offsets = &offsets;
            // While a former owner's transaction is open.
            scope.spawn(move || {
                offsets.ask(|_| {
                    asks.send(()).unwrap();
                    let _: Result<(), _> = answered.recv();
                    Ok(())
                })
            });
            requested.recv().unwrap();
            let (error, ends) = crossbeam_channel::bounded(1);
            scope.spawn(move || error.send(offsets.ends(&pages).unwrap()));
            let found = ends.recv_timeout(Duration::from_secs(30));
            drop(answer);
            assert_eq!(found.map(|ends| ends.len()), Ok(1), "the lag of an input is known meanwhile");
        });
    }
}
