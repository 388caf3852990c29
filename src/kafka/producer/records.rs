//! The records of one `Produce`: where they come from, and the form in which the session takes them.

use std::borrow::Cow;
use std::sync::Arc;

use crate::transaction::CallError;

/// Name and value of a header; a value may be null.
pub type HeaderField<'a> = (Cow<'a, str>, Option<Cow<'a, [u8]>>);

/// One outgoing record. Borrowed: the client copies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutgoingRecord<'a> {
    /// Topic.
    pub topic: &'a str,
    /// Partition; `None` leaves it to the key (murmur2, as in Java clients).
    pub partition: Option<i32>,
    /// Key bytes.
    pub key: Option<&'a [u8]>,
    /// Value bytes; `None` is a tombstone.
    pub value: Option<Cow<'a, [u8]>>,
    /// Headers, in order.
    pub headers: Vec<HeaderField<'a>>,
    /// Timestamp in milliseconds; `None` means the time of sending.
    pub timestamp: Option<i64>,
    /// How far the timestamp is from the wall clock: decides which record of a refused batch is to blame for it.
    pub skew_ms: u64,
}

impl OutgoingRecord<'_> {
    /// Returns the size of the record in bytes: key, value, headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let header = |(name, value): &HeaderField<'_>| name.len() + value.as_ref().map_or(0, |value| value.len());
        let headers = self.headers.iter().map(header).sum::<usize>();
        self.key.map_or(0, <[u8]>::len) + self.value.as_ref().map_or(0, |value| value.len()) + headers
    }
}

/// Takes one record: the index of the item that it belongs to, and the record.
pub type RecordSink<'a> = dyn FnMut(usize, OutgoingRecord<'_>) -> Result<(), CallError> + 'a;

/// The data of one `Produce`.
pub trait RecordSource: Send {
    /// Number of items that the owner handed over. One may become any number of records, or none.
    fn len(&self) -> usize;

    /// Returns whether there are no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands every record to `load`, in order, with the index of the item that it belongs to.
    ///
    /// # Errors
    ///
    /// The first error of `load`.
    fn write_records(&self, load: &mut RecordSink<'_>) -> Result<(), CallError>;
}

/// Encoded records, all for one partition.
pub struct EncodedBatch {
    /// Topic of all its records.
    pub topic: Arc<str>,
    /// Partition of all its records.
    pub partition: i32,
    /// The values of each item's records.
    pub values: Vec<Vec<Vec<u8>>>,
}

impl RecordSource for EncodedBatch {
    fn len(&self) -> usize {
        self.values.len()
    }

    fn write_records(&self, load: &mut RecordSink<'_>) -> Result<(), CallError> {
        for (index, parts) in self.values.iter().enumerate() {
            for part in parts {
                load(
                    index,
                    OutgoingRecord {
                        topic: &self.topic,
                        partition: Some(self.partition),
                        value: Some(Cow::Borrowed(part)),
                        ..OutgoingRecord::default()
                    },
                )?;
            }
        }
        Ok(())
    }
}
