//! Where and when a record arrived: timestamps, partitions, positions, and the record as it came off the wire.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// A point in event time, in milliseconds since 1970-01-01T00:00Z, as Kafka counts them.
///
/// It is never read from the machine's clock: it comes with the record or with the broker's append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Earlier than every other timestamp.
    pub const MIN: Self = Self(i64::MIN);

    /// From here on, a number that is a time counts milliseconds rather than seconds.
    pub(super) const LEAST_IN_MILLIS: u64 = 100_000_000_000;

    /// From here on, it counts nanoseconds.
    pub(super) const LEAST_IN_NANOS: u64 = Self::LEAST_IN_MILLIS * 1_000_000;

    /// Reads a number since the epoch whose unit is not known. Its size shows the unit: less than 10¹¹ are seconds (up to
    /// the year 5138), less than 10¹⁴ milliseconds (from 1973 on), less than 10¹⁷ microseconds, all others nanoseconds.
    #[must_use]
    pub const fn by_size(number: i64) -> Self {
        let size = number.unsigned_abs();
        Self(if size < Self::LEAST_IN_MILLIS {
            number * 1000
        } else if size < Self::LEAST_IN_MILLIS * 1000 {
            number
        } else if size < Self::LEAST_IN_NANOS {
            number.div_euclid(1000)
        } else {
            number.div_euclid(1_000_000)
        })
    }

    /// Wraps milliseconds since the epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns milliseconds since the epoch.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Returns the time `span` later, at most `i64::MAX` milliseconds.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis_of(span)))
    }

    /// Returns the time `span` earlier, at least [`Timestamp::MIN`].
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(millis_of(span)))
    }

    /// Returns the gap between two times, in milliseconds, whichever is earlier.
    #[must_use]
    pub const fn gap_millis(self, other: Self) -> u64 {
        self.0.abs_diff(other.0)
    }

    /// Writes the time as `2026-09-01T00:00:00Z`; `None` if it is outside the calendar.
    #[must_use]
    pub fn rfc3339(self) -> Option<String> {
        jiff::Timestamp::from_millisecond(self.0).ok().map(|time| time.to_string())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn millis_of(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// One partition of one topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    /// Name of the topic; shared, because millions of positions name few topics.
    pub topic: Arc<str>,
    /// Number of the partition within the topic, from 0.
    pub number: i32,
}

impl PartitionId {
    /// Names partition `number` of `topic`.
    #[must_use]
    pub fn new(topic: impl Into<Arc<str>>, number: i32) -> Self {
        Self { topic: topic.into(), number }
    }

    /// Names one record of this partition.
    #[must_use]
    pub fn at(&self, offset: i64) -> Source {
        Source { partition: self.clone(), offset }
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.topic, self.number)
    }
}

/// The position of one record: topic, partition and offset. Written `topic:partition:offset` (topic names cannot
/// contain a colon).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The partition that holds the record.
    pub partition: PartitionId,
    /// The record's number within the partition.
    pub offset: i64,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.offset)
    }
}

/// Why a text does not name a [`Source`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no record: expected topic:partition:offset")]
pub struct ParseSourceError(String);

impl FromStr for Source {
    type Err = ParseSourceError;

    fn from_str(text: &str) -> Result<Self, ParseSourceError> {
        let refuse = || ParseSourceError(text.to_owned());
        let mut parts = text.rsplitn(3, ':');
        let offset = parts.next().and_then(|part| part.parse().ok()).ok_or_else(refuse)?;
        let number = parts.next().and_then(|part| part.parse().ok()).ok_or_else(refuse)?;
        let topic = parts.next().filter(|topic| !topic.is_empty() && !topic.contains(':')).ok_or_else(refuse)?;
        Ok(PartitionId::new(topic, number).at(offset))
    }
}

/// One record, borrowed from its owner.
#[derive(Clone, Copy)]
pub struct RawRecord<'r> {
    /// The record's key.
    pub key: Option<&'r [u8]>,
    /// The record's value. Tombstones are handled before this module; one that comes here has no text.
    pub value: Option<&'r [u8]>,
    /// The record's headers.
    pub headers: &'r (dyn Headers + 'r),
}

/// Headers looked up by name.
pub trait Headers {
    /// Returns the value of the last header whose name is the one that is meant.
    fn last_where(&self, is_meant: &dyn Fn(&str) -> bool) -> Option<&[u8]>;

    /// Returns the value of the last header of this name, as Kafka's own clients do.
    fn last(&self, name: &str) -> Option<&[u8]> {
        self.last_where(&|known| known == name)
    }
}

/// No headers.
impl Headers for () {
    fn last_where(&self, _is_meant: &dyn Fn(&str) -> bool) -> Option<&[u8]> {
        None
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for [(N, V)] {
    fn last_where(&self, is_meant: &dyn Fn(&str) -> bool) -> Option<&[u8]> {
        self.iter().rev().find(|(name, _)| is_meant(name.as_ref())).map(|(_, value)| value.as_ref())
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for Vec<(N, V)> {
    fn last_where(&self, is_meant: &dyn Fn(&str) -> bool) -> Option<&[u8]> {
        self.as_slice().last_where(is_meant)
    }
}
