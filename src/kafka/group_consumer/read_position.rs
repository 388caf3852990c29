//! How far the client has handed a partition over, and where that ends.

#![expect(unsafe_code, reason = "the client library's binding asks this only of all partitions, or of the broker")]

use std::ffi::CString;

use rdkafka::TopicPartitionList;
use rdkafka::bindings::{rd_kafka_get_watermark_offsets, rd_kafka_position};
use rdkafka::client::{Client, ClientContext};
use rdkafka::types::RDKafkaRespErr;

use crate::record::PartitionId;

/// Returns the offset behind everything that was handed over: behind the last record, where `next` is, or behind
/// markers of transactions that follow it.
pub(super) fn read_up_to<C: ClientContext>(client: &Client<C>, partition: &PartitionId, next: i64) -> i64 {
    position(client, partition).map_or(next, |position| position.max(next))
}

/// Returns the end of the partition as the latest answer to a fetch told it. No broker is asked.
pub(super) fn known_end<C: ClientContext>(client: &Client<C>, partition: &PartitionId) -> Option<i64> {
    let topic = CString::new(&*partition.topic).ok()?;
    let (mut first, mut end) = (-1, -1);
    // SAFETY: the client lives as long as it is borrowed, and may be asked from any thread; the name ends with a zero
    // and both places outlive the call.
    let answer = unsafe {
        rd_kafka_get_watermark_offsets(
            client.native_ptr(),
            topic.as_ptr(),
            partition.number,
            &raw mut first,
            &raw mut end,
        )
    };
    (answer == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR && end >= 0).then_some(end)
}

/// Returns what comes next, markers of transactions included. `None` when nothing was handed over since the last seek.
fn position<C: ClientContext>(client: &Client<C>, partition: &PartitionId) -> Option<i64> {
    let mut list = TopicPartitionList::new();
    list.add_partition(&partition.topic, partition.number);
    // SAFETY: the client lives as long as it is borrowed, and may be asked from any thread; the list is ours alone.
    let answer = unsafe { rd_kafka_position(client.native_ptr(), list.ptr()) };
    if answer != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return None;
    }
    list.elements().first()?.offset().to_raw().filter(|offset| *offset >= 0)
}
