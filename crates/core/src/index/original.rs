//! What the index holds, the probe that it answers, and the candidates that it returns.

use std::time::Duration;

use super::refusal::Refusal;
use crate::fingerprint::{
    AddressHash, ExactHash, Fingerprints, IdHash, Numbers, PerMille, SameSite, ScopeHash, SiteHash, TitleHash,
};
use crate::protocol::{ExpiryWatermarks, MatchedBy, PerStage, Placement, Stage};
use crate::record::{Source, Timestamp};

/// A page that later pages can be duplicates of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// Its unique number in log order.
    pub sequence: u64,
    /// Its position in the input.
    pub source: Source,
    /// Its event time as judged. It does not rise with the sequence number, because partitions lag.
    pub event_time: Timestamp,
    /// Its fingerprints.
    pub fingerprints: Fingerprints,
    /// Hash of its id, when it has one.
    pub id: Option<IdHash>,
    /// Hash of its scope, when there is one.
    pub scope: Option<ScopeHash>,
    /// Hash of its site, when it has an address.
    pub site: Option<SiteHash>,
    /// Hash of its own address, if that does not follow from its id.
    pub address: Option<AddressHash>,
    /// Hash of its title, when it has one.
    pub title: Option<TitleHash>,
    /// Which tables hold it.
    pub placement: Placement,
    /// First page of its cluster: its own position if it began the cluster.
    pub cluster: Source,
}

/// A query for the originals that are near one page.
#[derive(Clone, Debug)]
pub(crate) struct Probe<'a> {
    /// The page's fingerprints.
    pub fingerprints: &'a Fingerprints,
    /// Hash of its id. The page is compared with the originals of this id whatever their keys, and the id shows which
    /// candidates are earlier texts of the page.
    pub id: Option<IdHash>,
    /// Hash of its scope: only originals of the same scope match. Pages without a scope form a scope of their own.
    pub scope: Option<ScopeHash>,
    /// Hash of its site: originals of the same site match by stricter rules.
    pub site: Option<SiteHash>,
    /// Hash of its own address, if that does not follow from its id.
    pub address: Option<AddressHash>,
    /// Hash of its title: originals of the same site with another title do not match.
    pub title: Option<TitleHash>,
    /// Whether the page's id is that of another page, which it names as its canonical one.
    pub is_variant: bool,
    /// Its event time as judged.
    pub event_time: Timestamp,
    /// The expiry watermarks for this page, moved on by the page's own time.
    pub watermarks: ExpiryWatermarks,
    /// How far apart page and original may be in event time, inclusive, in whole milliseconds.
    pub windows: PerStage<Duration>,
    /// The stages in use.
    pub stages: &'a [Stage],
    /// Largest Hamming distance of a `SimHash` match, inclusive.
    pub max_distance: u8,
    /// Lowest share of numbers that a near original has to have in common with the page. Numbers do not matter if
    /// absent.
    pub number_guard: Option<PerMille>,
    /// Lowest estimated Jaccard index of a `SimHash` match if both have a sketch. Sketches do not matter if absent.
    pub simhash_similarity: Option<PerMille>,
    /// What pages of one site need in order to match. If absent, they match like any others.
    pub same_site: Option<SameSite>,
}

impl Probe<'_> {
    /// Returns the strongest stage, other than `MinHash`, in which an original matches, with the distance there. `bits`
    /// is the distance of the codes, if it is known to be small.
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

    /// Returns whether a near original has other numbers than the page.
    pub(super) fn are_other_numbers(&self, by: MatchedBy, original: impl FnOnce() -> Option<Numbers>) -> bool {
        let own = &self.fingerprints.numbers;
        let Some(least) = self.number_guard.filter(|_| by != MatchedBy::Exact && !own.is_empty()) else { return false };
        original().is_some_and(|numbers| own.differ(&numbers, least))
    }

    /// Returns a refusal if an original is another page of the site, whatever the stage: both pages have a title, and
    /// the titles differ.
    pub(super) fn other_title(&self, original: &MatchFields, relation: Relation) -> Option<Refusal> {
        let is_of_site = self.same_site.is_some() && self.site.is_some() && self.site == original.site;
        let differs = self.title.zip(original.title).is_some_and(|(page, original)| page != original);
        (is_of_site && differs && relation == Relation::Unrelated).then_some(Refusal::Titles)
    }

    /// Returns whether page and original have the same title.
    pub(super) fn has_title_of(&self, original: &MatchFields) -> bool {
        self.title.is_some() && self.title == original.title
    }

    /// Returns whether scope, event time and watermarks permit a match by the sketch.
    pub(super) fn may_match_by_sketch(&self, original: &MatchFields) -> bool {
        original.scope == self.scope
            && original.sequence >= self.watermarks.first_sequence
            && self.in_time(Stage::MinHash, original.event_time)
    }

    /// Returns whether the stage is in use, its watermark has not passed that time, and its window reaches that far.
    fn in_time(&self, stage: Stage, event_time: Timestamp) -> bool {
        self.stages.contains(&stage)
            && event_time >= self.watermarks.times.of(stage)
            && u128::from(self.event_time.gap_millis(event_time)) <= self.windows.of(stage).as_millis()
    }
}

/// The role of an original in a family of nearly identical pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FamilyRole {
    /// The head of a family.
    Head,
    /// A head that replaced an earlier text of its page and will soon be replaced itself.
    Replacement,
    /// A member of another head's family.
    Member,
}

/// An original that matches a probe. Each is shown at most once, with its strongest stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Which original: see [`super::Index::get`].
    pub sequence: u64,
    /// Its event time as judged.
    pub event_time: Timestamp,
    /// Its role in a family.
    pub family_role: FamilyRole,
    /// The strongest stage in which it matches, and how near it is there.
    pub by: MatchedBy,
    /// Number of slots in which the sketches differ, if both pages have one. Not measured in the exact stage.
    pub slots: Option<u8>,
    /// What the ids and addresses of page and original say about the two.
    pub relation: Relation,
    /// Whether its numbers differ from those of the page; never in the exact stage.
    pub other_numbers: bool,
    /// Why it must not be taken for the same page although it is near: it is of the same site and has another title or
    /// is not similar enough for that, or only its `SimHash` is near. In the exact stage, only the title can refuse it.
    pub refused_by: Option<Refusal>,
}

/// How many originals were dropped from memory, by reason. Forgotten ones count as neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Originals before the expiry watermark of every stage.
    pub expired: u64,
    /// Originals that were not expired, but exceeded the capacity.
    pub evicted: u64,
}

/// Statistics of one probe, for monitoring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeStats {
    /// Originals that were compared one by one, in all stages.
    pub compared: u32,
    /// Originals that match in some stage, among which the judge chooses; without members of families.
    pub matching: u32,
    /// Members of families that share a key with the page but were not compared, because enough others share more keys.
    /// The number is approximate: tables may show a few that share none.
    pub left_out: u32,
    /// Smallest `SimHash` distance among the originals that a stage found, whether scope and time permit a match or
    /// not. An original that was found by its sketch may be farther away than the `SimHash` stage reaches.
    pub nearest: Option<u8>,
}

impl ProbeStats {
    pub(super) fn note(&mut self, distance: u8) {
        self.nearest = Some(self.nearest.map_or(distance, |nearest| nearest.min(distance)));
    }
}

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

/// What the ids and addresses of a page and an original say about the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// Nothing.
    Unrelated,
    /// They are renderings of one page: one names the other, or both name a third, as the canonical page.
    Renderings,
    /// They are the same page at two times.
    SamePage,
    /// They are the same page at two times, and fetched from the same address as far as is known.
    SameAddress,
}
