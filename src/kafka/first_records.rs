//! Reads the first records after given offsets, outside the consumer group.

use std::collections::BTreeMap;
use std::time::Duration;

use crossbeam_channel::after;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::client::LoggingContext;
use super::group_consumer::{ConsumedRecord, detach};
use super::watchdog::close_in_background;
use crate::record::PartitionId;

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(50);

/// Maximum bytes fetched from a partition at a time; a single record may be larger.
const FETCH_BYTES: &str = "65536";

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
        let mut list = TopicPartitionList::new();
        for (number, offset) in &offsets {
            list.add_partition_offset(topic, *number, Offset::Offset(*offset))?;
        }
        consumer.assign(&list)?;
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
            found.insert(PartitionId::new(topic, number), records);
            let mut done = TopicPartitionList::new();
            done.add_partition(topic, number);
            consumer.pause(&done)?;
        }
    }
    close_in_background(consumer);
    Ok(found)
}
