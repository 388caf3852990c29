//! How much of what a crawl holds.

use std::ops::RangeInclusive;
use std::time::Duration;

use dupgate_core::record::Timestamp;

/// Shape of a generated crawl. Equal settings, equal bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct CrawlSettings {
    /// Chooses one of 2^64 crawls of this shape.
    pub seed: u64,
    /// Share of the articles that are Chinese, 0 to 1; the others are English.
    pub zh: f64,
    /// Share of the articles that come as HTML, 0 to 1; the others come as ready text.
    pub html: f64,
    /// Share of the pages that are exact copies.
    pub exact: f64,
    /// Share of the pages that are edited copies, each kind of edit as often as any other.
    pub near: f64,
    /// Share of the pages that are broken records.
    pub broken: f64,
    /// Number of topics that the pages are spread over.
    pub topics: usize,
    /// Number of sites.
    pub sites: u64,
    /// Least and most bytes of an article's text, inclusive, but for the end of its last sentence.
    pub bytes: RangeInclusive<usize>,
    /// Largest distance, in pages, of a copy from its original: less than what the index holds.
    pub reach: u64,
    /// Time of the first page.
    pub start: Timestamp,
    /// Time from a page to the next.
    pub step: Duration,
}

impl Default for CrawlSettings {
    /// Half Chinese, a fifth HTML, a quarter copies, 1 % broken, about 2 KB a page, from 2026-09-01T00:00Z.
    fn default() -> Self {
        Self {
            seed: 1,
            zh: 0.5,
            html: 0.2,
            exact: 0.10,
            near: 0.15,
            broken: 0.01,
            topics: 3,
            sites: 200,
            bytes: 600..=4500,
            reach: 5000,
            start: Timestamp::from_millis(1_788_220_800_000),
            step: Duration::from_millis(20),
        }
    }
}

/// Why there is no such crawl.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CrawlError {
    /// A share is not a share.
    #[error("{name} is {value}: a share is between 0 and 1")]
    NotAShare {
        /// Name of the setting.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// Nothing is left for the pages that the copies are of.
    #[error("exact, near and broken take {taken} of the pages: at most 0.95, or copies find no originals")]
    NoUniques {
        /// Their sum.
        taken: f64,
    },
    /// A number that must not be 0 is.
    #[error("{name} is 0: at least 1")]
    Zero {
        /// Name of the setting.
        name: &'static str,
    },
    /// The least is more than the most.
    #[error("bytes {least} to {most}: the least is more than the most")]
    EmptyBand {
        /// Least bytes of a text.
        least: usize,
        /// Most bytes of a text.
        most: usize,
    },
}

impl CrawlSettings {
    /// Refuses settings that contradict themselves.
    pub(super) fn check(&self) -> Result<(), CrawlError> {
        let Self { zh, html, exact, near, broken, .. } = *self;
        let shares = [("zh", zh), ("html", html), ("exact", exact), ("near", near), ("broken", broken)];
        if let Some((name, value)) = shares.into_iter().find(|(_, value)| !(0.0..=1.0).contains(value)) {
            return Err(CrawlError::NotAShare { name, value });
        }
        let taken = exact + near + broken;
        if taken > 0.95 {
            return Err(CrawlError::NoUniques { taken });
        }
        if self.topics == 0 || self.sites == 0 {
            return Err(CrawlError::Zero { name: if self.topics == 0 { "topics" } else { "sites" } });
        }
        if self.bytes.is_empty() {
            return Err(CrawlError::EmptyBand { least: *self.bytes.start(), most: *self.bytes.end() });
        }
        Ok(())
    }
}
