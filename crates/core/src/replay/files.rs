//! Files of pages that a replay reads instead of topics, and its place in them.

use serde::{Deserialize, Serialize};

use super::InputRange;
use crate::record::PartitionId;

/// One file, as it was when the plan was made. Its pages are its lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveFile {
    /// Its name as it was given: a relative one counts from the folder of the process. Sources of pages begin with it.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Digest of its bytes, or of samples of them where it is large.
    pub digest: String,
}

impl ArchiveFile {
    /// Names what holds its lines, by its place among the files of the plan: the partition of `dupgate sieve`.
    #[must_use]
    pub fn partition(&self, place: usize) -> PartitionId {
        PartitionId::new(self.path.as_str(), i32::try_from(place).unwrap_or(i32::MAX))
    }

    /// Returns its lines as offsets. How many there are is not known before they are read.
    pub(super) fn range((place, file): (usize, &Self)) -> InputRange {
        let PartitionId { number: partition, .. } = file.partition(place);
        InputRange { topic: file.path.clone(), partition, warm_from: 1, from: 1, to: i64::MAX }
    }
}

/// A place between two lines. The greater one comes later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct FilePlace {
    /// Number of the file in the plan, from 0.
    pub file: usize,
    /// Lines of it that were judged.
    pub line: i64,
    /// Their bytes, unpacked.
    pub bytes: u64,
    /// Bytes of the file that were read for them.
    pub packed: u64,
    /// Event time of the last page, which counts for a page that names none.
    pub latest_ms: i64,
}
