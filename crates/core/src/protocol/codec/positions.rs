//! Positions: a record holds each topic name once, and offsets as differences.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::CodecError;
use super::bytes::{Reader, Write};
use crate::record::{PartitionId, Source, Timestamp};

/// The partitions that a record names. The table is collected while the body is written, and precedes it. Also
/// remembers what writer and reader need to encode offsets and times as steps.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    partitions: Vec<Position>,
    numbers: BTreeMap<PartitionId, usize>,
    first_time: Option<i64>,
}

#[derive(Debug)]
struct Position {
    partition: PartitionId,
    /// Offset of the latest page of this partition, 0 before the first.
    latest: i64,
}

impl Positions {
    /// Writes the table of topics and partitions.
    pub(crate) fn write_table(&self, out: &mut Vec<u8>) {
        let mut topics: Vec<&Arc<str>> = Vec::new();
        let mut rows = Vec::new();
        for Position { partition, .. } in &self.partitions {
            let known = topics.iter().position(|&topic| *topic == partition.topic);
            rows.varint(known.unwrap_or(topics.len()) as u64);
            rows.signed(i64::from(partition.number));
            if known.is_none() {
                topics.push(&partition.topic);
            }
        }
        out.varint(topics.len() as u64);
        for topic in &topics {
            out.run(topic.as_bytes());
        }
        out.varint(self.partitions.len() as u64);
        out.append(&mut rows);
    }

    /// Reads the table.
    pub(crate) fn read_table(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mut topics: Vec<Arc<str>> = Vec::new();
        for _ in 0..from.count(1, "topics")? {
            let name = std::str::from_utf8(from.run("topic")?).map_err(|_| CodecError::NotText { what: "topic" })?;
            topics.push(Arc::from(name));
        }
        let mut places = Self::default();
        for _ in 0..from.count(2, "partitions")? {
            let number: u64 = from.varint("topic number")?;
            let topic = usize::try_from(number).ok().and_then(|number| topics.get(number));
            let topic = topic.ok_or(CodecError::BadValue { what: "topic number", value: number })?;
            let number = from.signed("partition")?;
            let number = i32::try_from(number)
                .map_err(|_| CodecError::BadValue { what: "partition", value: number.cast_unsigned() })?;
            let partition = PartitionId { topic: Arc::clone(topic), number };
            places.partitions.push(Position { partition, latest: 0 });
        }
        Ok(places)
    }

    /// Writes a partition.
    pub(crate) fn write_partition(&mut self, out: &mut Vec<u8>, partition: &PartitionId) {
        self.number(out, partition);
    }

    /// Reads a partition.
    pub(crate) fn read_partition(&self, from: &mut Reader<'_>) -> Result<PartitionId, CodecError> {
        let number = from.varint("partition number")?;
        Ok(self.place(number)?.partition.clone())
    }

    /// Writes the position of a page; the next position of this partition is written as the step from it.
    pub(crate) fn write_page(&mut self, out: &mut Vec<u8>, source: &Source) {
        let number = self.number(out, &source.partition);
        if let Some(place) = self.partitions.get_mut(number) {
            out.signed(source.offset.wrapping_sub(place.latest));
            place.latest = source.offset;
        }
    }

    /// Reads the position of a page.
    pub(crate) fn read_page(&mut self, from: &mut Reader<'_>) -> Result<Source, CodecError> {
        let number = from.varint("partition number")?;
        let step = from.signed("offset")?;
        let at = usize::try_from(number).ok().and_then(|number| self.partitions.get_mut(number));
        let place = at.ok_or(CodecError::BadValue { what: "partition number", value: number })?;
        place.latest = place.latest.wrapping_add(step);
        Ok(place.partition.at(place.latest))
    }

    /// Writes a position that is only referred to: as the step from the partition's latest page, which does not change.
    pub(crate) fn write_reference(&mut self, out: &mut Vec<u8>, source: &Source) {
        let number = self.number(out, &source.partition);
        if let Some(place) = self.partitions.get(number) {
            out.signed(source.offset.wrapping_sub(place.latest));
        }
    }

    /// Reads a position that is only referred to.
    pub(crate) fn read_reference(&self, from: &mut Reader<'_>) -> Result<Source, CodecError> {
        let number = from.varint("partition number")?;
        let step = from.signed("offset")?;
        let place = self.place(number)?;
        Ok(place.partition.at(place.latest.wrapping_add(step)))
    }

    /// Writes a page's event time: the first as it is, later ones as the distance from the first.
    pub(crate) fn write_time(&mut self, out: &mut Vec<u8>, time: Timestamp) {
        out.signed(time.millis().wrapping_sub(self.first_time.unwrap_or(0)));
        self.first_time.get_or_insert(time.millis());
    }

    /// Reads a page's event time.
    pub(crate) fn read_time(&mut self, from: &mut Reader<'_>) -> Result<Timestamp, CodecError> {
        let millis = self.first_time.unwrap_or(0).wrapping_add(from.signed("event time")?);
        self.first_time.get_or_insert(millis);
        Ok(Timestamp::from_millis(millis))
    }

    fn number(&mut self, out: &mut Vec<u8>, partition: &PartitionId) -> usize {
        let number = self.numbers.get(partition).copied().unwrap_or_else(|| {
            self.partitions.push(Position { partition: partition.clone(), latest: 0 });
            self.numbers.insert(partition.clone(), self.partitions.len() - 1);
            self.partitions.len() - 1
        });
        out.varint(number as u64);
        number
    }

    fn place(&self, number: u64) -> Result<&Position, CodecError> {
        let place = usize::try_from(number).ok().and_then(|number| self.partitions.get(number));
        place.ok_or(CodecError::BadValue { what: "partition number", value: number })
    }
}
