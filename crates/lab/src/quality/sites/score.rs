//! Verdicts on a stream of sites against the truth: what is counted together, and what it has to reach.

use serde::Serialize;

use super::super::Count;
use super::layout::Form;
use super::{SiteStream, SiteTruth};

/// What kind of pages a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// Unlike articles in the repeated text of their sites.
    Unlike,
    /// Edited copies on other sites, as `eval` plants them.
    Ordinary,
    /// Edited copies on the site of their original: what the strict rule for pages of one site costs.
    OneSite,
    /// Articles on fifty sites, each in the repeated text of its own.
    Published,
    /// Pages that have other views.
    Viewed,
    /// The article without what the site puts around it.
    Print,
    /// The same page under an address with a session id.
    Session,
    /// The same page under an address with a session id, and with another time of day.
    SessionTime,
    /// The article in another frame, which names the address of the page.
    Amp,
    /// Edited copies of posts of fewer than forty characters.
    ShortPosts,
    /// Posts inside navigation.
    Navigation,
}

/// Floors of a row: least share found of the copies, most share lost of the unique pages, inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Goal {
    /// Most unique pages that may be lost.
    pub lost: Option<f64>,
    /// Least copies that must be found.
    pub found: Option<f64>,
}

/// One row: how its pages were made, and what they have to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What kind of pages.
    pub kind: RowKind,
    /// As what they were fetched.
    pub form: Form,
    /// Whether they have addresses.
    pub addressed: bool,
    /// Repeated text, in hundredths of a page's characters.
    pub share: Option<usize>,
    /// Pages of a site.
    pub site_pages: Option<usize>,
    /// What it has to reach.
    pub goal: Goal,
}

impl RowKind {
    /// Returns the name used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unlike => "unlike",
            Self::Ordinary => "ordinary",
            Self::OneSite => "one_site",
            Self::Published => "published",
            Self::Viewed => "viewed",
            Self::Print => "print",
            Self::Session => "session",
            Self::SessionTime => "session_time",
            Self::Amp => "amp",
            Self::ShortPosts => "short_posts",
            Self::Navigation => "navigation",
        }
    }
}

impl Goal {
    /// Nothing is asked for.
    pub const NONE: Self = Self { lost: None, found: None };

    /// Returns what pages of this share of repeated text may lose: one in a thousand up to 40 %, one in a hundred up to
    /// half.
    pub(super) const fn of_share(share: usize) -> Self {
        let lost = match share {
            0..=40 => Some(0.001),
            41..=50 => Some(0.01),
            _ => None,
        };
        Self { lost, found: None }
    }
}

/// Counts of the pages of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SiteCounts {
    /// Unique pages, and those of them that were called duplicates.
    pub lost: Count,
    /// Those that were called duplicates of a page of their own site.
    pub lost_within: u64,
    /// Copies, and those of them that were called duplicates of a page with their article.
    pub found: Count,
    /// Copies that were called duplicates of a page with another article.
    pub strayed: u64,
}

/// Counts page after page, in the order of the stream.
#[derive(Debug)]
pub struct SiteScorer {
    truths: Vec<SiteTruth>,
    counts: Vec<SiteCounts>,
}

impl SiteScorer {
    /// Begins before the first page.
    #[must_use]
    pub fn new(stream: &SiteStream<'_>) -> Self {
        let counts = vec![SiteCounts::default(); stream.rows().len()];
        Self { truths: Vec::with_capacity(stream.pages()), counts }
    }

    /// Notes the next page, and the number of the page that it was called a duplicate of.
    pub fn note(&mut self, truth: SiteTruth, matched: Option<usize>) {
        let of = matched.and_then(|matched| self.truths.get(matched)).copied();
        self.truths.push(truth);
        let Some(counts) = self.counts.get_mut(truth.row) else { return };
        let is_own = of.is_some_and(|of| of.family == truth.family);
        if truth.is_copy {
            counts.found.note(is_own);
            counts.strayed += u64::from(of.is_some() && !is_own);
        } else {
            counts.lost.note(of.is_some());
            counts.lost_within += u64::from(of.is_some_and(|of| of.site == truth.site));
        }
    }

    /// Returns what became of each row, in the order of the stream's rows.
    #[must_use]
    pub fn counts(&self) -> &[SiteCounts] {
        &self.counts
    }
}

impl SiteCounts {
    /// Returns the unique pages that were called duplicates of a page of another site.
    #[must_use]
    pub const fn lost_across(&self) -> u64 {
        self.lost.found - self.lost_within
    }
}

impl super::Goal {
    /// Returns whether a row with these counts has reached it. What has no pages has.
    #[must_use]
    pub fn is_met(self, counts: &SiteCounts) -> bool {
        let lost = self.lost.is_none_or(|most| counts.lost.share() <= most);
        lost && self.found.is_none_or(|least| counts.found.planted == 0 || counts.found.share() >= least)
    }
}
