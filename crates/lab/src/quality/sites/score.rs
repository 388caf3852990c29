//! Verdicts on a stream of sites against the truth.

use serde::Serialize;

use super::super::Count;
use super::{SiteStream, SiteTruth};

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
