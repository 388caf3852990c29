//! What is decided about a page, and what the log must hold about a page that became an original.
//!
//! A [`Decision`] is what the judge decided and what follows from it. Its [`VerdictKind`] is all that headers, metrics and
//! reports name. A [`Placement`] says which tables of the index hold an original.

use super::Stage;
use crate::fingerprint::{AddressHash, Fingerprints, IdHash, PerMille, ScopeHash, SiteHash, TitleHash};
use crate::record::Source;

/// The kinds of verdicts. This is the one place that names them, for headers, metrics and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VerdictKind {
    /// No original is near it.
    Unique,
    /// A known page with changed text.
    Update,
    /// Near an original, but with other numbers.
    Template,
    /// Equal to the text of an original.
    Exact,
    /// Near an original.
    Near,
    /// Not delivered as judged.
    Withdrawn,
}

impl VerdictKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [Self::Unique, Self::Update, Self::Template, Self::Exact, Self::Near, Self::Withdrawn];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unique => "unique",
            Self::Update => "update",
            Self::Template => "template",
            Self::Exact => "exact",
            Self::Near => "near",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Returns the kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns whether the page is a duplicate of another one.
    #[must_use]
    pub const fn is_duplicate(self) -> bool {
        matches!(self, Self::Exact | Self::Near)
    }
}

/// The verdict on one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No original is near it.
    Unique {
        /// Absent when the page was before the expiry watermarks: it is delivered, but not remembered.
        original: Option<NewOriginal>,
    },
    /// A known page with changed text.
    Update {
        /// The original that it is a new text of.
        of: Match,
        /// Present when the new text replaces the original (it is not older).
        original: Option<NewOriginal>,
    },
    /// Near an original, but with other numbers: the same template, not the same page. Delivered like a unique page.
    Template {
        /// The original that it is near to.
        of: Match,
        /// Absent when the page was before the expiry watermarks.
        original: Option<NewOriginal>,
    },
    /// A duplicate of an original.
    Duplicate {
        /// The original.
        of: Match,
    },
}

impl Decision {
    /// Returns the kind of verdict.
    #[must_use]
    pub const fn kind(&self) -> VerdictKind {
        match self {
            Self::Unique { .. } => VerdictKind::Unique,
            Self::Update { .. } => VerdictKind::Update,
            Self::Template { .. } => VerdictKind::Template,
            Self::Duplicate { of } => match of.by.stage() {
                Stage::Exact => VerdictKind::Exact,
                Stage::SimHash | Stage::MinHash => VerdictKind::Near,
            },
        }
    }

    /// Returns a copy without the new original.
    #[must_use]
    pub fn without_original(&self) -> Self {
        match self {
            Self::Unique { .. } => Self::Unique { original: None },
            Self::Update { of, .. } => Self::Update { of: of.clone(), original: None },
            Self::Template { of, .. } => Self::Template { of: of.clone(), original: None },
            Self::Duplicate { of } => Self::Duplicate { of: of.clone() },
        }
    }

    /// Returns what the page was matched with.
    #[must_use]
    pub const fn matched(&self) -> Option<&Match> {
        match self {
            Self::Unique { .. } => None,
            Self::Update { of, .. } | Self::Template { of, .. } | Self::Duplicate { of } => Some(of),
        }
    }

    /// Returns the original that the page became.
    #[must_use]
    pub const fn original(&self) -> Option<&NewOriginal> {
        match self {
            Self::Unique { original } | Self::Update { original, .. } | Self::Template { original, .. } => {
                original.as_ref()
            }
            Self::Duplicate { .. } => None,
        }
    }
}

/// The stage by which two pages match, with their distance in its measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchedBy {
    /// Their normalised texts are equal.
    Exact,
    /// Their `SimHash`es are near.
    SimHash {
        /// Differing bits.
        bits: u8,
    },
    /// Their sketches are similar.
    MinHash {
        /// Differing slots, in the scale of [`SketchForm::similarity`](crate::fingerprint::SketchForm::similarity).
        slots: u8,
        /// Share of the smaller page that is in the other one, if the pages match only because of it: as a whole, they
        /// are not near.
        contained: Option<PerMille>,
    },
}

impl MatchedBy {
    /// Returns the stage.
    #[must_use]
    pub const fn stage(self) -> Stage {
        match self {
            Self::Exact => Stage::Exact,
            Self::SimHash { .. } => Stage::SimHash,
            Self::MinHash { .. } => Stage::MinHash,
        }
    }

    /// Returns the distance as a bare number, to be compared only with those of the same stage: 0 in the exact stage.
    #[must_use]
    pub const fn distance(self) -> u8 {
        match self {
            Self::Exact => 0,
            Self::SimHash { bits } => bits,
            Self::MinHash { slots, .. } => slots,
        }
    }

    /// Returns the share of the smaller page that is in the other one, if the pages match by that.
    #[must_use]
    pub const fn contained(self) -> Option<PerMille> {
        match self {
            Self::Exact | Self::SimHash { .. } => None,
            Self::MinHash { contained, .. } => contained,
        }
    }
}

/// An original that a page was matched with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The stage by which it matched, with the distance in its measure.
    pub by: MatchedBy,
    /// Position of the original.
    pub source: Source,
    /// Event time of the page minus that of the original, in milliseconds; negative when the page is older.
    pub age_ms: i64,
    /// Position of the first page of the original's cluster.
    pub cluster: Source,
}

/// What the log must hold about a new original, so that the index can be rebuilt from the log alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOriginal {
    /// Its fingerprints.
    pub fingerprints: Fingerprints,
    /// Hash of its id.
    pub id: Option<IdHash>,
    /// Hash of its scope.
    pub scope: Option<ScopeHash>,
    /// Hash of its site.
    pub site: Option<SiteHash>,
    /// Hash of its own address, if that does not follow from its id.
    pub address: Option<AddressHash>,
    /// Hash of its title.
    pub title: Option<TitleHash>,
    /// Which tables hold it.
    pub placement: Placement,
    /// First page of its cluster, when that is not the page itself.
    pub cluster: Option<Source>,
}

/// Which tables hold an original. The judge decides this once and writes it into the verdict, so that all followers
/// hold the same tables (law L5).
///
/// An original is found by the key of each of its bands, except keys that find too many originals already, because a
/// page would have too many candidates ([`MinHashRules::max_bucket`](super::MinHashRules::max_bucket)). One that is
/// nearly the same as an earlier original, without being its duplicate (another page of the same template or site), is
/// found through that original. One whose text many pages of its site have, under other titles, is found by text and
/// title.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placement {
    /// The bands (or, in a family, the keys of its differences) whose table does not hold it, one bit each; from 128
    /// on, a band shares the bit of the band 128 before it.
    pub skipped: u128,
    /// The sequence number of the head of the family that it belongs to: the original through which it is found.
    pub family: Option<u64>,
    /// Whether the table of exact hashes holds it by its text, site and title, instead of by its text alone.
    pub by_title: bool,
}

impl Placement {
    /// An original in the table of every band.
    pub const EVERYWHERE: Self = Self { skipped: 0, family: None, by_title: false };

    /// Returns whether the table of this band, from 0, holds it.
    #[must_use]
    pub(crate) const fn holds(self, band: usize) -> bool {
        self.skipped >> (band % 128) & 1 == 0
    }

    /// Leaves out the table of this band.
    pub(crate) const fn skip(&mut self, band: usize) {
        self.skipped |= 1 << (band % 128);
    }
}
