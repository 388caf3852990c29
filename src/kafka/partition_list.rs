//! The client library's lists of partitions, and the question that is asked with them: where readers begin.

use std::borrow::Borrow;

use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use super::group_consumer::Start;
use crate::record::PartitionId;

/// Number of partitions in one question for offsets. The client looks for each answer among all partitions of the
/// question: a single question about 5,000 takes 0.3 s of CPU time, and twenty take 0.02 s.
pub(super) const MANY_ANSWERS: usize = 256;

/// The offset at which a reader of a partition begins, or why its leader does not answer. `None` if nothing is as new as
/// the wanted time.
pub(super) type Begin = (PartitionId, KafkaResult<Option<i64>>);

pub(super) fn list_of(partitions: impl IntoIterator<Item = impl Borrow<PartitionId>>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        let PartitionId { topic, number } = partition.borrow();
        list.add_partition(topic, *number);
    }
    list
}

pub(super) fn list_at(
    offsets: impl IntoIterator<Item = (impl Borrow<PartitionId>, Offset)>,
) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        let PartitionId { topic, number } = partition.borrow();
        list.add_partition(topic, *number).set_offset(offset)?;
    }
    Ok(list)
}

/// Returns where readers begin with these starts. `ask` puts one question to the leaders of its partitions; there are
/// several if there are more than [`MANY_ANSWERS`].
pub(super) fn fetch_begins<'p>(
    starts: impl IntoIterator<Item = (&'p PartitionId, Start)>,
    ask: impl Fn(TopicPartitionList) -> KafkaResult<TopicPartitionList>,
) -> KafkaResult<Vec<Begin>> {
    let (mut begins, mut asked) = (Vec::new(), Vec::new());
    for (partition, start) in starts {
        match start {
            Start::Offset(offset) => begins.push((partition.clone(), Ok(Some(offset)))),
            Start::Earliest => asked.push((partition, Offset::Beginning)),
            Start::Latest => asked.push((partition, Offset::End)),
            Start::At(time) => asked.push((partition, Offset::Offset(time.millis().max(0)))),
        }
    }
    for part in asked.chunks(MANY_ANSWERS) {
        let answer = ask(list_at(part.iter().copied())?)?;
        begins.extend(answer.elements().iter().map(|element| {
            let offset = if let Offset::Offset(offset) = element.offset() { Some(offset) } else { None };
            (PartitionId::new(element.topic(), element.partition()), element.error().map(|()| offset))
        }));
    }
    Ok(begins)
}
