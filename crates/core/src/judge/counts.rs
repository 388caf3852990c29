//! Counters of a judge, for metrics. No verdict depends on them.

/// Totals since the state was restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests of pages that were judged before.
    pub repeats: u64,
    /// Pages before every expiry watermark when they were judged: delivered, not remembered if unique.
    pub late: u64,
    /// Event times that ran ahead of the brokers' clock, bounded.
    pub clamped: u64,
    /// Originals that expired.
    pub expired: u64,
    /// Originals that were evicted because there were too many.
    pub evicted: u64,
    /// Keys by which a new original is not found, because as many others are found by them as may be.
    pub full_keys: u64,
    /// Originals that are found through the head of their family.
    pub family_members: u64,
    /// Originals withdrawn, replaced, taken down or reopened.
    pub forgotten: u64,
    /// Verdicts read from the log whose page had one already: they count for nothing.
    pub second_verdicts: u64,
}
