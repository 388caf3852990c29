//! What the index holds, what it is asked, and what it answers.

use std::time::Duration;

use super::match_fields::MatchFields;
use super::refusal::Refusal;
use super::relation::Relation;
use crate::fingerprint::{
    AddressHash, Fingerprints, IdHash, Numbers, PerMille, SameSite, ScopeHash, SiteHash, TitleHash,
};
use crate::protocol::{ExpiryWatermarks, MatchedBy, PerStage, Placement, Stage};
use crate::record::{Source, Timestamp};

/// A page that later pages can be duplicates of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// Its number in the order of the log; no two originals share one.
    pub sequence: u64,
    /// Its position in the input.
    pub source: Source,
    /// Its event time as judged. Not monotone in the sequence: partitions lag.
    pub event_time: Timestamp,
    /// Its fingerprints.
    pub fingerprints: Fingerprints,
    /// Hash of its id, when it has one.
    pub id: Option<IdHash>,
    /// Hash of its scope, when there is one.
    pub scope: Option<ScopeHash>,
    /// Hash of its site, when it has an address.
    pub site: Option<SiteHash>,
    /// Hash of its own address, where its id does not say it.
    pub address: Option<AddressHash>,
    /// Hash of its title, when it has one.
    pub title: Option<TitleHash>,
    /// Which tables hold it.
    pub placement: Placement,
    /// First page of its cluster; its own position when it began the cluster.
    pub cluster: Source,
}

/// One page's question: which originals are near?
#[derive(Clone, Debug)]
pub struct Probe<'a> {
    /// The page's fingerprints.
    pub fingerprints: &'a Fingerprints,
    /// Hash of its id; tells which candidates are earlier texts of the same page, and what it is compared with whatever
    /// their keys.
    pub id: Option<IdHash>,
    /// Hash of its scope: only originals of the same scope match, `None` being a scope of its own.
    pub scope: Option<ScopeHash>,
    /// Hash of its site: originals of the same site match by stricter rules.
    pub site: Option<SiteHash>,
    /// Hash of its own address, where its id does not say it.
    pub address: Option<AddressHash>,
    /// Hash of its title: originals of the same site with another title do not match.
    pub title: Option<TitleHash>,
    /// Whether it names the page of its id as its canonical one: it is compared with that page whatever their keys.
    pub is_variant: bool,
    /// Its event time as judged.
    pub event_time: Timestamp,
    /// The expiry watermarks for this page, moved on by the page's own time.
    pub watermarks: ExpiryWatermarks,
    /// How far page and original may lie apart in event time, inclusive, in whole milliseconds.
    pub windows: PerStage<Duration>,
    /// The stages in use.
    pub stages: &'a [Stage],
    /// Largest Hamming distance of a `SimHash` match, inclusive.
    pub max_distance: u8,
    /// Least share of numbers that a near original has in common with the page; no matter when absent.
    pub number_guard: Option<PerMille>,
    /// Least estimated Jaccard index of a `SimHash` match where both have a sketch; no matter when absent.
    pub simhash_similarity: Option<PerMille>,
    /// What pages of one site have to be to match; like any others when absent.
    pub same_site: Option<SameSite>,
}

impl Probe<'_> {
    /// Returns the strongest stage in which an original matches, with the distance there; `bits` is that of the codes,
    /// as far as it is known to be small.
    pub(super) fn verify(&self, original: &MatchFields, bits: Option<u8>) -> Option<MatchedBy> {
        if original.scope != self.scope || original.sequence < self.watermarks.first_sequence {
            return None;
        }
        if original.exact == self.fingerprints.exact && self.in_time(Stage::Exact, original.event_time) {
            return Some(MatchedBy::Exact);
        }
        let bits = bits.filter(|&bits| bits <= self.max_distance)?;
        self.in_time(Stage::SimHash, original.event_time).then_some(MatchedBy::SimHash { bits })
    }

    /// Returns whether an original with these numbers is a near one with others.
    pub(super) fn are_other_numbers(&self, by: MatchedBy, original: impl FnOnce() -> Option<Numbers>) -> bool {
        let own = &self.fingerprints.numbers;
        let Some(least) = self.number_guard.filter(|_| by != MatchedBy::Exact && !own.is_empty()) else { return false };
        original().is_some_and(|numbers| own.differ(&numbers, least))
    }

    /// Returns what says that an original is another page of the site, whatever the stage: both have a title, and not
    /// the same.
    pub(super) fn other_title(&self, original: &MatchFields, relation: Relation) -> Option<Refusal> {
        let is_of_site = self.same_site.is_some() && self.site.is_some() && self.site == original.site;
        let differs = self.title.zip(original.title).is_some_and(|(page, original)| page != original);
        (is_of_site && differs && relation == Relation::Unrelated).then_some(Refusal::Titles)
    }

    /// Returns whether an original may be matched by its sketch: scope, age and watermarks.
    pub(super) fn may_match_by_sketch(&self, original: &MatchFields) -> bool {
        original.scope == self.scope
            && original.sequence >= self.watermarks.first_sequence
            && self.in_time(Stage::MinHash, original.event_time)
    }

    /// Returns whether the stage is in use, remembers that time, and reaches so far.
    fn in_time(&self, stage: Stage, event_time: Timestamp) -> bool {
        self.stages.contains(&stage)
            && event_time >= self.watermarks.times.of(stage)
            && u128::from(self.event_time.gap_millis(event_time)) <= self.windows.of(stage).as_millis()
    }
}

/// The role of an original in a family: pages that are nearly the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FamilyRole {
    /// The head of their family.
    Head,
    /// The same, but it replaced an earlier text of its page and will be replaced itself before long.
    Replacement,
    /// A member of another head's family.
    Member,
}

/// An original that matches a probe. Each comes at most once, with its strongest stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which original: see [`super::Index::get`].
    pub sequence: u64,
    /// Its event time as judged.
    pub event_time: Timestamp,
    /// Its role in a family.
    pub family_role: FamilyRole,
    /// The strongest stage in which it matches, and how near it is there.
    pub by: MatchedBy,
    /// In how many slots the sketches differ, where both have one. Not measured in the exact stage.
    pub slots: Option<u8>,
    /// What the ids and addresses of page and original say of the two.
    pub relation: Relation,
    /// Whether its numbers are others than those of the page; never in the exact stage.
    pub other_numbers: bool,
    /// Why it is not to be taken for the same page although it is near: of the same site with another title, or not
    /// enough alike for that, or near by its `SimHash` alone. In the exact stage only for its title.
    pub refused_by: Option<Refusal>,
}

/// How many originals left the memory, by reason. Those that were forgotten by name count as neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Before the expiry watermark of every stage.
    pub expired: u64,
    /// Not expired, but too old to be held by number.
    pub evicted: u64,
}

/// Statistics of one probe, for monitoring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeStats {
    /// Originals that were compared one by one, in all stages.
    pub compared: u32,
    /// Members of families that share a key with the page and were not compared, because enough others share more keys:
    /// an approximate number, because tables may show a few that share none.
    pub left_out: u32,
    /// Smallest `SimHash` distance among the originals that a stage found, whether they match in scope and time or
    /// not. One that was found by its sketch may be farther than the `SimHash` stage reaches.
    pub nearest: Option<u8>,
}

impl ProbeStats {
    pub(super) fn note(&mut self, distance: u8) {
        self.nearest = Some(self.nearest.map_or(distance, |nearest| nearest.min(distance)));
    }
}
