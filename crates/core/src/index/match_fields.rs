//! The fields of an original that a probe compares.

use crate::fingerprint::{ExactHash, IdHash, ScopeHash, SiteHash, TitleHash};
use crate::record::Timestamp;

/// The fields of an original that a probe compares.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatchFields {
    pub(super) sequence: u64,
    pub(super) event_time: Timestamp,
    pub(super) exact: ExactHash,
    pub(super) id: Option<IdHash>,
    pub(super) scope: Option<ScopeHash>,
    pub(super) site: Option<SiteHash>,
    pub(super) title: Option<TitleHash>,
}
