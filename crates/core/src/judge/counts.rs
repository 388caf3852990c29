//! Counters of a judge, for metrics. No verdict depends on them.

/// Totals since the state was restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were already answered: their page was judged, or they were applied.
    pub repeats: u64,
    /// Pages that were before every expiry watermark when they were judged. They are delivered; a unique one is not
    /// remembered.
    pub late: u64,
    /// Pages whose event time was too far ahead of the brokers' clock and was capped.
    pub clamped: u64,
    /// Originals that expired.
    pub expired: u64,
    /// Originals that were evicted because there were too many.
    pub evicted: u64,
    /// Keys under which a new original was not stored, because each already finds as many originals as it may.
    pub full_keys: u64,
    /// Originals that are found through the head of their family.
    pub family_members: u64,
    /// Originals that were withdrawn, replaced, forgotten on request, or reopened.
    pub forgotten: u64,
    /// Verdicts in the log whose page already had one; they are ignored.
    pub second_verdicts: u64,
}
