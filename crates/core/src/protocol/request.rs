//! Requests in the fingerprint log.

use std::fmt;

use super::Decision;
use crate::fingerprint::{
    AddressHash, FingerprintedPage, Fingerprints, IdHash, PageDigest, ScopeHash, SiteHash, TitleHash,
};
use crate::record::{PartitionId, Reject, Source, Timestamp};

/// Identifies a request. A request that is sent again carries the same id and is applied once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One request in the fingerprint log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Id of the request; its verdict repeats it.
    pub id: RequestId,
    /// What the request asks for.
    pub body: RequestBody,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// From a worker: judge this page.
    Page(PageRequest),
    /// From a worker: this page cannot be delivered as judged. Its position counts as judged, and its original is
    /// removed.
    Withdraw {
        /// The page's position.
        source: Source,
        /// Why it cannot be delivered.
        reason: Reject,
    },
    /// From an operator: never match these originals again. Their positions stay judged.
    Forget(ForgetTarget),
    /// From an operator: judge the offsets `from <= offset < to` of a partition again and forget their originals.
    Reopen {
        /// The input partition.
        partition: PartitionId,
        /// First offset of the range.
        from: i64,
        /// First offset after the range.
        to: i64,
    },
    /// From an operator: set the stream time back to this time, unless it is earlier.
    SetTime(Timestamp),
}

impl RequestBody {
    /// Returns the page, if one is to be judged.
    #[must_use]
    pub(crate) const fn page(&self) -> Option<&PageRequest> {
        match self {
            Self::Page(page) => Some(page),
            Self::Withdraw { .. } | Self::Forget(_) | Self::Reopen { .. } | Self::SetTime(_) => None,
        }
    }
}

/// Which originals a `forget` removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgetTarget {
    /// The original from this position.
    Source(Source),
    /// Every live original with this id.
    Id(IdHash),
}

impl fmt::Display for ForgetTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(source) => write!(f, "{source}"),
            Self::Id(IdHash(hash)) => write!(f, "id hash {hash:016x}"),
        }
    }
}

/// One page to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The page's position in the input.
    pub source: Source,
    /// Event time as read from the record, not yet bounded by the brokers' clock.
    pub event_time: Timestamp,
    /// Hash of the page's id, when it has one.
    pub id: Option<IdHash>,
    /// Hash of the page's scope, when a scope is configured.
    pub scope: Option<ScopeHash>,
    /// Hash of the site that the page's address belongs to, when it has an address.
    pub site: Option<SiteHash>,
    /// Hash of the page's own address, if it has one that does not follow from the id.
    pub address: Option<AddressHash>,
    /// Hash of the page's title, when it has one.
    pub title: Option<TitleHash>,
    /// Whether the id is another page's address, which this page names as its canonical one. Then it is a rendering of
    /// that page, not a new text of it.
    pub is_variant: bool,
    /// Fingerprints of all stages of the scheme.
    pub fingerprints: Fingerprints,
    /// Digest of the record's bytes.
    pub digest: PageDigest,
    /// What the log of the earlier scheme decided about the page, without the new original. Present only in the dual
    /// period.
    pub earlier: Option<Box<Decision>>,
}

impl PageRequest {
    /// Creates the request for a page that was read, at this position and event time.
    #[must_use]
    pub fn of(reading: FingerprintedPage, source: Source, event_time: Timestamp) -> Self {
        Self {
            source,
            event_time,
            id: reading.id,
            scope: reading.scope,
            site: reading.site,
            address: reading.address,
            title: reading.title,
            is_variant: reading.canonical.is_some(),
            fingerprints: reading.fingerprints,
            digest: reading.digest,
            earlier: None,
        }
    }
}
