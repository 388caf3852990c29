//! The client's position in a partition, and the partition's end.

#![expect(unsafe_code, reason = "the client library's binding asks this only of all partitions, or of the broker")]

use std::ffi::CString;

use rdkafka::TopicPartitionList;
use rdkafka::bindings::{rd_kafka_get_watermark_offsets, rd_kafka_position};
use rdkafka::client::{Client, ClientContext};
use rdkafka::types::RDKafkaRespErr;

use crate::record::PartitionId;

/// Returns the offset after everything that was handed over: `next`, after the last record, or the offset after
/// transaction markers that follow it.
pub(super) fn read_up_to<C: ClientContext>(client: &Client<C>, partition: &PartitionId, next: i64) -> i64 {
    position(client, partition).map_or(next, |position| position.max(next))
}

/// Returns the end of the partition as of the latest fetch response. Sends no request.
pub(super) fn known_end<C: ClientContext>(client: &Client<C>, partition: &PartitionId) -> Option<i64> {
    let topic = CString::new(&*partition.topic).ok()?;
    let (mut first, mut end) = (-1, -1);
    // SAFETY: the client lives as long as it is borrowed, and may be called from any thread; the name is NUL-terminated
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

/// Returns the offset after the last record or transaction marker. `None` if nothing was handed over since the last
/// seek.
fn position<C: ClientContext>(client: &Client<C>, partition: &PartitionId) -> Option<i64> {
    let mut list = TopicPartitionList::new();
    list.add_partition(&partition.topic, partition.number);
    // SAFETY: the client lives as long as it is borrowed, and may be called from any thread; the list is ours alone.
    let answer = unsafe { rd_kafka_position(client.native_ptr(), list.ptr()) };
    if answer != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return None;
    }
    list.elements().first()?.offset().to_raw().filter(|offset| *offset >= 0)
}
