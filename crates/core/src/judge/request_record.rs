//! One record of the fingerprint log, judged in steps, so that the driver can look at messages and the clock in
//! between.

use std::ops::Range;

use crate::index::Index;
use crate::protocol::{Request, RequestBody, RequestId, RequestOffset};
use crate::record::{PartitionId, Timestamp};

/// A record of requests and how far it is judged.
#[derive(Debug)]
pub(super) struct RequestRecord {
    offset: RequestOffset,
    append_time: Timestamp,
    requests: Vec<Request>,
    judged: usize,
    /// Whether a checkpoint has to come first, because the verdict depends on how far the input group has committed.
    waits: bool,
}

impl RequestRecord {
    pub(super) fn new(offset: RequestOffset, append_time: Timestamp, requests: Vec<Request>) -> Self {
        Self { offset, append_time, requests, judged: 0, waits: false }
    }

    pub(super) fn offset(&self) -> RequestOffset {
        self.offset
    }

    pub(super) fn append_time(&self) -> Timestamp {
        self.append_time
    }

    /// Takes the next request.
    pub(super) fn next(&mut self) -> Option<&Request> {
        let request = self.requests.get(self.judged)?;
        self.judged += 1;
        Some(request)
    }

    /// Returns whether some of its requests are judged.
    pub(super) fn is_begun(&self) -> bool {
        self.judged > 0
    }

    /// Returns whether all of its requests are judged.
    pub(super) fn is_done(&self) -> bool {
        self.judged >= self.requests.len()
    }

    // ---- waiting

    /// Holds the record back until a checkpoint is written.
    pub(super) fn wait(&mut self) {
        self.waits = true;
    }

    /// Releases the record: the checkpoint is written.
    pub(super) fn go_on(&mut self) {
        self.waits = false;
    }

    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// Returns the request, the partition and the range if the record reopens one. Such a request is alone in its
    /// record.
    pub(super) fn reopens(&self) -> Option<(RequestId, &PartitionId, Range<i64>)> {
        let request = self.requests.first()?;
        if let RequestBody::Reopen { partition, from, to } = &request.body {
            Some((request.id, partition, *from..*to))
        } else {
            None
        }
    }

    // ---- memory

    /// Prefetches what the requests after the next one will read.
    pub(super) fn prefetch_upcoming(&self, index: &Index) {
        index.prefetch_upcoming(|ahead| self.requests.get(self.judged.saturating_add(ahead)));
    }
}
