//! Positions in the two logs, and the identity of a verdict log. Offsets of the input stay plain numbers: they are
//! always next to the name of their partition (`Source`, a range, a map by partition), and with a type for each log, no
//! other offset can be taken for one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a partition of both logs, from 0. Requests in a partition of the fingerprint log are answered in the
/// partition of the verdict log with the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPartition(pub u32);

/// Offset of a record of the fingerprint log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestOffset(pub i64);

/// Offset of a record of the verdict log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VerdictOffset(pub i64);

impl LogPartition {
    /// Returns the first `count` partitions, in order.
    pub fn first(count: usize) -> impl Iterator<Item = Self> + Clone {
        (0..u32::try_from(count).unwrap_or(u32::MAX)).map(Self)
    }

    /// Returns the partition at this index of a list of all partitions.
    #[must_use]
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Returns the partition with this number in Kafka; `None` for a negative number.
    #[must_use]
    pub fn numbered(number: i32) -> Option<Self> {
        u32::try_from(number).ok().map(Self)
    }

    /// Returns its index in a list of all partitions.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns its number as Kafka has it.
    #[must_use]
    pub fn number(self) -> i32 {
        i32::try_from(self.0).unwrap_or(i32::MAX)
    }
}

impl RequestOffset {
    /// Returns the offset after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns how many offsets there are from `start` up to this one, exclusive; 0 when it is not after `start`.
    #[must_use]
    pub fn since(self, start: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(start.0)).unwrap_or(0)
    }
}

impl VerdictOffset {
    /// Returns the offset after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns how many offsets there are from `start` up to this one, exclusive; 0 when it is not after `start`.
    #[must_use]
    pub fn since(self, start: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(start.0)).unwrap_or(0)
    }
}

impl fmt::Display for LogPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for RequestOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for VerdictOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Drawn once when a verdict log is created; distinguishes it from another log under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogIdentity(pub u64);
