//! Room 5: what near it was seen within the window?
use crate::fingerprint::*;
use crate::log::*;
use crate::record::*;
use std::time::Duration;
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    pub sequence: u64,
    pub source: Source,
    pub event_time: Timestamp,
    pub fingerprints: Fingerprints,
    pub id: Option<IdHash>,
    pub scope: Option<ScopeHash>,
    pub cluster: Source,
}
pub struct Probe<'a> {
    pub fingerprints: &'a Fingerprints,
    pub id: Option<IdHash>,
    pub scope: Option<ScopeHash>,
    pub event_time: Timestamp,
    pub tails: Tails,
    pub windows: Windows<Duration>,
    pub stages: &'a [Stage],
    pub max_distance: u8,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub sequence: u64,
    pub stage: Stage,
    pub distance: u8,
    pub same_id: bool,
}
#[derive(Debug)]
pub struct Index;
pub struct Gone;
impl Index {
    pub fn new(_: u8) -> Self {
        Index
    }
    pub fn set_max_distance(&mut self, _: u8) {}
    pub fn insert(&mut self, _: Original) {}
    pub fn candidates(&self, _: &Probe<'_>, _: impl FnMut(Candidate)) {}
    pub fn get(&self, _: u64) -> Option<&Original> {
        None
    }
    pub fn forget_source(&mut self, _: &Source) -> u64 {
        0
    }
    pub fn forget_id(&mut self, _: IdHash, _: &Tails) -> u64 {
        0
    }
    pub fn forget_range(&mut self, _: &PartitionId, _: i64, _: i64) -> u64 {
        0
    }
    pub fn advance(&mut self, _: &Tails) -> Gone {
        Gone
    }
    pub fn live<'a>(&'a self, _: &'a Tails) -> impl Iterator<Item = &'a Original> + 'a {
        std::iter::empty()
    }
}
