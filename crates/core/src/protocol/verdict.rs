//! Records of the verdict log: verdicts, rules and checkpoints.
//!
//! A [`Verdict`] is an [`Answer`] with the request that it answers. Most answers are about a page: a [`PageVerdict`] is
//! the page's position, time and digest with the [`Decision`]. A [`Checkpoint`] is the state, except the originals.

use std::collections::BTreeMap;

use super::{
    Decision, Delivered, ExpiryWatermarks, ForgetTarget, Judged, LogIdentity, RequestId, RequestOffset, Rules,
    RulesNumber, VerdictKind, VerdictOffset,
};
use crate::fingerprint::PageDigest;
use crate::record::{PartitionId, Reject, Source, Timestamp};

/// One record of the verdict log.
#[derive(Clone, Debug, PartialEq)]
pub enum VerdictRecord {
    /// Answers to consecutive requests.
    Verdicts(VerdictBatch),
    /// From here on these rules are in force.
    Rules(RulesRecord),
    /// The state at this place, except the originals.
    Checkpoint(Box<Checkpoint>),
}

impl VerdictRecord {
    /// Returns the identity of the log that this record was written to.
    #[must_use]
    pub(crate) fn log(&self) -> LogIdentity {
        match self {
            Self::Verdicts(batch) => batch.log,
            Self::Rules(record) => record.log,
            Self::Checkpoint(checkpoint) => checkpoint.log,
        }
    }

    /// Returns whether this is the checkpoint that a log begins with.
    #[must_use]
    pub(crate) fn begins_log(&self) -> bool {
        matches!(self, Self::Checkpoint(checkpoint) if checkpoint.previous.is_none())
    }

    /// Returns whether this is a checkpoint of another log, for a reader that has read everything from `first` on and no
    /// checkpoint yet: the one before it would be among that. A judge has written it after its log was deleted and created
    /// again, and before it noticed, so the verdicts on what it calls judged are gone.
    #[must_use]
    pub(crate) fn is_of_deleted_log(&self, first: VerdictOffset) -> bool {
        matches!(self, Self::Checkpoint(checkpoint) if checkpoint.previous.is_some_and(|previous| previous >= first))
    }
}

/// The answers to consecutive requests of the fingerprint log. Empty when all of them were repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictBatch {
    /// The log this was written to.
    pub log: LogIdentity,
    /// The rules all its verdicts were made under.
    pub rules: RulesNumber,
    /// The watermarks after the last verdict, absolute.
    pub watermarks: ExpiryWatermarks,
    /// Offset of the next request to judge.
    pub next_request: RequestOffset,
    /// The verdicts, in the order of their requests.
    pub verdicts: Vec<Verdict>,
}

/// New rules, with their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesRecord {
    /// The log this was written to.
    pub log: LogIdentity,
    /// One more than the previous number.
    pub number: RulesNumber,
    /// The rules, spelled out.
    pub rules: Rules,
}

/// The answer to one request. It is final: it is read back from the log, never computed again (law L4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The request that it answers.
    pub request: RequestId,
    /// The answer.
    pub answer: Answer,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly every answer is that of a page")]
pub enum Answer {
    /// A page was judged.
    Page(PageVerdict),
    /// A page counts as judged, is not delivered as judged, and is no longer an original.
    Withdrawn {
        /// The page's position.
        source: Source,
        /// Why it cannot be delivered.
        reason: Reject,
    },
    /// Originals are not matched any more.
    Forgotten(ForgetTarget),
    /// A range may be judged again; verdicts on it before this one are void.
    Reopened {
        /// The input partition.
        partition: PartitionId,
        /// First offset of the range.
        from: i64,
        /// First offset after the range.
        to: i64,
    },
    /// The stream time was set back. What had expired before is no original any more.
    TimeSet {
        /// The stream time before.
        before: Timestamp,
        /// The stream time from here on: never later.
        after: Timestamp,
    },
}

impl Verdict {
    /// Returns a copy without what only the index needs: the fingerprints and everything else by which a new original
    /// is found.
    #[must_use]
    pub fn without_original(&self) -> Self {
        let answer = match &self.answer {
            Answer::Page(page) => Answer::Page(PageVerdict {
                source: page.source.clone(),
                event_time: page.event_time,
                digest: page.digest,
                decision: page.decision.without_original(),
            }),
            Answer::Withdrawn { .. } | Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. } => {
                self.answer.clone()
            }
        };
        Self { request: self.request, answer }
    }
}

impl Answer {
    /// Returns the verdict on a page, if it is one.
    #[must_use]
    pub const fn page(&self) -> Option<&PageVerdict> {
        match self {
            Self::Page(page) => Some(page),
            Self::Withdrawn { .. } | Self::Forgotten(_) | Self::Reopened { .. } | Self::TimeSet { .. } => None,
        }
    }

    /// Returns the kind of verdict, if the answer is about a single page.
    #[must_use]
    pub const fn kind(&self) -> Option<VerdictKind> {
        match self {
            Self::Page(page) => Some(page.decision.kind()),
            Self::Withdrawn { .. } => Some(VerdictKind::Withdrawn),
            Self::Forgotten(_) | Self::Reopened { .. } | Self::TimeSet { .. } => None,
        }
    }

    /// Returns the position that this answer is the verdict of, if it is about a single one.
    #[must_use]
    pub fn judged_source(&self) -> Option<&Source> {
        match self {
            Self::Page(page) => Some(&page.source),
            Self::Withdrawn { source, .. } => Some(source),
            Self::Forgotten(_) | Self::Reopened { .. } | Self::TimeSet { .. } => None,
        }
    }
}

/// The verdict of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageVerdict {
    /// The page's position.
    pub source: Source,
    /// Event time as judged: bounded by the brokers' clock.
    pub event_time: Timestamp,
    /// Digest of the page's bytes, from the request.
    pub digest: PageDigest,
    /// The verdict.
    pub decision: Decision,
}

/// The state at this place in the log, except the originals. A reader that begins here and follows on holds every
/// original that is still alive, because the log is trimmed only to a checkpoint before the oldest of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The log this was written to.
    pub log: LogIdentity,
    /// Number of the rules in force.
    pub rules_number: RulesNumber,
    /// The rules in force.
    pub rules: Rules,
    /// How far event time has come: the largest that was judged, except those that are further ahead without proof.
    pub stream_time: Timestamp,
    /// The pages that are further ahead than the stream time may step, if there are any.
    pub leap: Option<Leap>,
    /// Which originals are expired or evicted.
    pub watermarks: ExpiryWatermarks,
    /// Sequence number of the next original.
    pub next_sequence: u64,
    /// Offset of the next request to judge.
    pub next_request: RequestOffset,
    /// Offset of the previous checkpoint, if there is one.
    pub previous: Option<VerdictOffset>,
    /// What was judged, by input partition.
    pub partitions: BTreeMap<PartitionId, PartitionCheckpoint>,
    /// The latest requests other than pages that were applied, oldest first.
    pub applied: Vec<RequestId>,
}

/// Pages that are so far ahead of the stream time that it does not follow them before they prove that time has moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leap {
    /// The smallest of their event times.
    pub from: Timestamp,
    /// Number of these pages, less one for each page since then that is not ahead. At least 1.
    pub pages: u64,
}

impl Leap {
    /// Returns what is left of it after a page that is not ahead.
    #[must_use]
    pub(crate) fn refuted(self) -> Option<Self> {
        let pages = self.pages.checked_sub(1).filter(|pages| *pages > 0)?;
        Some(Self { pages, ..self })
    }
}

/// What a checkpoint says about one input partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionCheckpoint {
    /// The judged positions, before the new low watermark applies.
    pub judged: Judged,
    /// From this checkpoint on, every offset below counts as judged. Never above the input group's committed offset.
    pub low_watermark: i64,
    /// The positions that the input group was seen to have committed since they were judged, and since the whole
    /// partition was last reopened: what may be reopened.
    pub delivered: Delivered,
}
