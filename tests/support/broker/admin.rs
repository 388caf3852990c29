//! Administrative requests of the harness.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::wait;

/// An administrator's client.
pub(super) fn client(config: &ClientConfig) -> AdminClient<DefaultClientContext> {
    config.create().expect("an admin client")
}

/// Creates a topic and waits until the broker knows it.
pub(super) fn create_topic(config: &ClientConfig, name: &str, partitions: i32, settings: &[(&str, &str)]) {
    let created = try_create_topic(config, name, partitions, settings);
    created.unwrap_or_else(|code| panic!("topic {name} was not created: {code}"));
}

/// Creates a topic, on at most three brokers, and waits until the cluster knows it, or returns why it refuses it.
pub(super) fn try_create_topic(
    config: &ClientConfig,
    name: &str,
    partitions: i32,
    settings: &[(&str, &str)],
) -> Result<(), RDKafkaErrorCode> {
    let client = client(config);
    let brokers = client.inner().fetch_metadata(None, Duration::from_secs(30)).map_or(1, |all| all.brokers().len());
    let replicas = i32::try_from(brokers.clamp(1, 3)).expect("a number below 4");
    let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(replicas));
    for (key, value) in settings {
        topic = topic.set(key, value);
    }
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
    let results = block_on(client.create_topics([&topic], &options)).expect("an answer to CreateTopics");
    results.into_iter().try_for_each(|result| result.map(drop).map_err(|(_, code)| code))?;
    // The controller answers before the broker has heard of it.
    wait::until("the broker to know the topic", || {
        let metadata = client.inner().fetch_metadata(Some(name), Duration::from_secs(10)).ok()?;
        let known = metadata.topics().iter().find(|topic| topic.name() == name && topic.error().is_none())?;
        known.partitions().iter().all(|partition| partition.leader() >= 0).then_some(())
    });
    Ok(())
}

/// Adds partitions to a topic, up to this number.
pub(super) fn grow_topic(config: &ClientConfig, name: &str, partitions: usize) {
    let (client, wanted) = (client(config), NewPartitions::new(name, partitions));
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
    let answer = block_on(client.create_partitions(&[wanted], &options)).expect("an answer to CreatePartitions");
    for result in answer {
        result.unwrap_or_else(|(topic, code)| panic!("{topic} has not grown: {code}"));
    }
}

/// Sets a topic's settings and waits until the broker knows them; all others go back to the cluster's defaults.
pub(super) fn alter_topic(config: &ClientConfig, name: &str, settings: &[(&str, &str)]) {
    let altered = settings
        .iter()
        .fold(AlterConfig::new(ResourceSpecifier::Topic(name)), |altered, (key, value)| altered.set(key, value));
    let client = client(config);
    let answer = block_on(client.alter_configs([&altered], &AdminOptions::new())).expect("an answer to AlterConfigs");
    for result in answer {
        result.unwrap_or_else(|(topic, code)| panic!("{topic:?} was not altered: {code}"));
    }
    // The controller answers before the broker has heard of it.
    wait::until("the broker to know the settings", || {
        let known = block_on(client.describe_configs([&ResourceSpecifier::Topic(name)], &AdminOptions::new())).ok()?;
        let known = known.into_iter().next()?.ok()?;
        let is_known =
            |key: &str, value: &str| known.get(key).is_some_and(|entry| entry.value.as_deref() == Some(value));
        settings.iter().all(|(key, value)| is_known(key, value)).then_some(())
    });
}

/// Returns the settings of a topic, those of the brokers included, and the smallest number of replicas of a partition;
/// `None` if there is no such topic.
pub(super) fn describe(config: &ClientConfig, name: &str) -> Option<(BTreeMap<String, String>, usize)> {
    let client = client(config);
    let metadata = client.inner().fetch_metadata(Some(name), Duration::from_secs(30)).expect("metadata");
    let topic = metadata.topics().iter().find(|topic| topic.name() == name && topic.error().is_none())?;
    let replicas = topic.partitions().iter().map(|partition| partition.replicas().len()).min()?;
    let answer = block_on(client.describe_configs([&ResourceSpecifier::Topic(name)], &AdminOptions::new()));
    let found = answer.expect("an answer to DescribeConfigs").into_iter().next()?.expect("settings");
    Some((found.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect(), replicas))
}

/// Deletes the records of a partition before an offset.
pub(super) fn delete_before(config: &ClientConfig, topic: &str, partition: i32, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("an offset");
    block_on(client(config).delete_records(&list, &AdminOptions::new())).expect("records are deleted");
}

/// Deletes a topic.
pub(super) fn delete_topic(config: &ClientConfig, name: &str) {
    let answer =
        block_on(client(config).delete_topics(&[name], &AdminOptions::new())).expect("an answer to DeleteTopics");
    for result in answer {
        result.unwrap_or_else(|(topic, code)| panic!("topic {topic} was not deleted: {code}"));
    }
}

/// Deletes a group, once its members have left, and so its offsets.
pub(super) fn delete_group(config: &ClientConfig, name: &str) {
    let client = client(config);
    wait::until("the group to be deleted", || {
        let answers = block_on(client.delete_groups(&[name], &AdminOptions::new())).expect("an answer to DeleteGroups");
        answers.iter().all(Result::is_ok).then_some(())
    });
}

/// Returns the leader of the partition that keeps the state of a group or transactional id, which is its coordinator.
/// Brokers choose the partition by the hash of the name, as Java defines it.
pub(super) fn coordinator(config: &ClientConfig, topic: &str, name: &str) -> i32 {
    let client = client(config);
    let hash = name.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    wait::until("the coordinator to be known", || {
        let metadata = client.inner().fetch_metadata(Some(topic), Duration::from_secs(10)).ok()?;
        let partitions = metadata.topics().first()?.partitions();
        let count = i32::try_from(partitions.len()).ok().filter(|count| *count > 0)?;
        let number = (hash & i32::MAX) % count;
        let leader = partitions.iter().find(|partition| partition.id() == number)?.leader();
        (leader >= 0).then_some(leader)
    })
}

/// Runs a future of the admin client to its end.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}
