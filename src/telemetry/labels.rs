//! Labels, and the closed sets of their values. Apart from these, only topics and partitions are labels: URLs, sites and
//! ids never are.

use dupgate_core::worker::OutputKind;

use crate::protocol::VerdictKind;

/// One value of a closed label set.
pub trait LabelValue: Copy + 'static {
    /// Name of the label.
    const LABEL: &'static str;
    /// Every value, in the order of [`LabelValue::index`].
    const ALL: &'static [Self];
    /// The values as written, in the same order.
    const NAMES: &'static [&'static str];

    /// Returns the label with this value.
    fn pair(self) -> (&'static str, &'static str) {
        (Self::LABEL, self.name())
    }

    /// Returns the index of the value in its set.
    fn index(self) -> usize;

    /// Returns the value as written.
    fn name(self) -> &'static str {
        Self::NAMES.get(self.index()).copied().unwrap_or_default()
    }
}

/// One label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// All values are known; each series exists from the start.
    Closed(&'static str, &'static [&'static str]),
    /// Topics, partitions, versions: the values are known at run time.
    Open(&'static str),
}

impl Label {
    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Closed(name, _) | Self::Open(name) => name,
        }
    }

    /// Returns the label of a closed set.
    #[must_use]
    pub const fn of<L: LabelValue>() -> Self {
        Self::Closed(L::LABEL, L::NAMES)
    }
}

/// Defines closed sets of values, each with the name of its label.
macro_rules! labels {
    ($($(#[$meta:meta])* $set:ident = $label:literal { $($(#[$value_meta:meta])* $value:ident = $name:expr,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $set { $($(#[$value_meta])* $value,)* }

        impl LabelValue for $set {
            const LABEL: &'static str = $label;
            const ALL: &'static [Self] = &[$(Self::$value,)*];
            const NAMES: &'static [&'static str] = &[$($name,)*];

            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}

labels! {
    /// How a page was judged.
    VerdictLabel = "verdict" {
        /// No original is similar.
        Unique = VerdictKind::Unique.name(),
        /// A known page with changed text.
        Update = VerdictKind::Update.name(),
        /// Equal text.
        Exact = VerdictKind::Exact.name(),
        /// Near text.
        Near = VerdictKind::Near.name(),
        /// Near text with other numbers.
        Template = VerdictKind::Template.name(),
        /// Passed on without being judged.
        Bypass = "bypass",
    }
    /// How a duplicate was found.
    Duplicate = "verdict" {
        /// Equal text.
        Exact = VerdictKind::Exact.name(),
        /// Near text.
        Near = VerdictKind::Near.name(),
    }
    /// Why a page was passed on without being judged.
    BypassReason = "reason" {
        /// A null value.
        Tombstone = "tombstone",
    }
    /// The component of an error.
    Component = "component" {
        /// A consumer.
        Consumer = "consumer",
        /// The producer of a worker.
        Producer = "producer",
        /// The producer of a judge.
        Judge = "judge",
        /// One of the two logs.
        Log = "log",
        /// Snapshots.
        Snapshot = "snapshot",
        /// The admin client.
        Admin = "admin",
        /// Spans for a collector.
        Traces = "traces",
    }
    /// The kind of an error, by its consequence.
    ErrorKind = "kind" {
        /// It is retried.
        Retriable = "retriable",
        /// The transaction was aborted.
        Abortable = "abortable",
        /// Another process took over.
        Fenced = "fenced",
        /// The process ends.
        Fatal = "fatal",
        /// A disk, a file, a connection.
        Io = "io",
        /// Corrupt bytes.
        Corrupt = "corrupt",
        /// Records that were there are not there any more.
        Lost = "lost",
    }
    /// A step of the work on one page.
    Step = "stage" {
        /// Bytes to document.
        Decode = "decode",
        /// Body to normalised text.
        Extract = "extract",
        /// Text to words.
        Tokenize = "tokenize",
        /// Words to fingerprints.
        Fingerprint = "fingerprint",
        /// Fingerprints to verdict, in the index.
        Lookup = "lookup",
        /// From the producer to the brokers' acknowledgement.
        Produce = "produce",
    }
    /// The segmenter of a text.
    Segmenter = "segmenter" {
        /// jieba.
        Jieba = "jieba",
        /// Unicode word breaks.
        Unicode = "unicode",
    }
    /// The extraction of a page.
    Extraction = "extraction" {
        /// It was plain text.
        Text = "text",
        /// The article without navigation.
        Main = "main",
        /// All visible text.
        All = "all",
        /// All visible text, because no article was found.
        AllFallback = "all_fallback",
        /// All text between the tags, because there are too many for a tree.
        Stripped = "stripped",
    }
    /// The encoding of a page.
    Encoding = "encoding" {
        /// UTF-8.
        Utf8 = "utf-8",
        /// UTF-16.
        Utf16 = "utf-16",
        /// GB 18030, GBK, GB 2312.
        Gb18030 = "gb18030",
        /// Big5.
        Big5 = "big5",
        /// Shift JIS.
        ShiftJis = "shift_jis",
        /// EUC-JP and ISO-2022-JP.
        OtherJapanese = "euc-jp",
        /// EUC-KR.
        EucKr = "euc-kr",
        /// Windows-1250 to 1258.
        Windows = "windows-125x",
        /// Any other.
        Other = "other",
    }
    /// How a commit ended.
    CommitResult = "result" {
        /// Succeeded.
        Ok = "ok",
        /// Failed, or of unknown outcome.
        Error = "error",
    }
    /// How a transaction ended.
    TransactionResult = "result" {
        /// Committed.
        Committed = "committed",
        /// Aborted.
        Aborted = "aborted",
    }
    /// What a rebalance did.
    Rebalance = "kind" {
        /// Partitions were assigned.
        Assign = "assign",
        /// Partitions were revoked.
        Revoke = "revoke",
        /// Partitions were lost some time ago.
        Lost = "lost",
    }
    /// Why a partition is blocked.
    Blocked = "reason" {
        /// A verdict can no longer be read back.
        VerdictLost = "verdict_lost",
        /// The page is not the one that was judged there.
        ForeignPage = "record_mismatch",
        /// Positions are judged, and the group has no offset.
        NoOffset = "no_offset",
        /// The partition does not hold the next offset.
        OutOfRange = "out_of_range",
        /// The brokers do not let us read the topic.
        Denied = "denied",
    }
    /// Why the input is paused.
    Pause = "reason" {
        /// Enough pages are in flight.
        Backpressure = "backpressure",
        /// The next pages of a partition are much later than those of a slower one.
        Pacing = "pacing",
        /// Old verdicts are read back.
        Restore = "restore",
        /// Too many dead letters.
        Breaker = "breaker",
        /// An operator has paused it.
        Manual = "manual",
    }
    /// The use of the index's memory.
    MemoryPart = "part" {
        /// The originals: codes, sketches, positions, times.
        Fingerprints = "fingerprints",
        /// The tables of `SimHash` codes and `MinHash` bands.
        Buckets = "buckets",
        /// The tables by id and by source.
        Refs = "refs",
        /// The table of exact hashes.
        Exact = "exact",
    }
    /// Why an original was removed.
    Eviction = "reason" {
        /// Its window ended.
        Expired = "expired",
        /// The index was full.
        Capacity = "capacity",
        /// It was withdrawn, forgotten or reopened.
        Forgotten = "forgotten",
    }
    /// Why an index started without one full window of history.
    ColdStart = "reason" {
        /// A scheme without any verdict.
        NewScheme = "new_scheme",
        /// The verdict log does not reach back.
        LogTruncated = "log_truncated",
    }
    /// One of the two logs.
    Log = "log" {
        /// The fingerprint log.
        Fingerprints = "fingerprints",
        /// The verdict log.
        Verdicts = "verdicts",
    }
    /// The source of a restored state.
    RestoreSource = "source" {
        /// A snapshot.
        Snapshot = "snapshot",
        /// The verdict log.
        Log = "log",
    }
    /// The operation on a snapshot.
    SnapshotOperation = "operation" {
        /// It was written.
        Write = "write",
        /// It was read.
        Restore = "restore",
    }
    /// An internal queue that is bounded in records.
    LimitedQueue = "queue" {
        /// Pages in the current transaction.
        Commit = "commit",
    }
    /// An internal queue.
    Queue = "queue" {
        /// Records waiting for text work.
        Work = "work",
        /// Pages waiting for their verdict or their transaction.
        Produce = "produce",
        /// Pages in the current transaction.
        Commit = "commit",
    }
    /// The purpose of a record in a replay.
    ReplayPhase = "phase" {
        /// Restoring the state of an interrupted replay.
        Follow = "follow",
        /// The state at the beginning of the range.
        WarmUp = "warm_up",
        /// The outcome.
        Range = "range",
    }
}

impl VerdictLabel {
    /// Returns the label of a verdict; `None` for a page that was withdrawn, which counts as a dead letter.
    #[must_use]
    pub const fn of(kind: VerdictKind) -> Option<Self> {
        match kind {
            VerdictKind::Unique => Some(Self::Unique),
            VerdictKind::Update => Some(Self::Update),
            VerdictKind::Template => Some(Self::Template),
            VerdictKind::Exact => Some(Self::Exact),
            VerdictKind::Near => Some(Self::Near),
            VerdictKind::Withdrawn => None,
        }
    }

    /// Returns the labels of duplicates.
    pub fn duplicates() -> impl Iterator<Item = Self> {
        VerdictKind::ALL.into_iter().filter(|kind| kind.is_duplicate()).filter_map(Self::of)
    }
}

impl Duplicate {
    /// Returns the label of a verdict, if it is that of a duplicate.
    #[must_use]
    pub const fn of(kind: VerdictKind) -> Option<Self> {
        match kind {
            VerdictKind::Exact => Some(Self::Exact),
            VerdictKind::Near => Some(Self::Near),
            VerdictKind::Unique | VerdictKind::Update | VerdictKind::Template | VerdictKind::Withdrawn => None,
        }
    }
}

/// The output of a record.
impl LabelValue for OutputKind {
    const LABEL: &'static str = "output";
    const ALL: &'static [Self] = &Self::ALL;
    const NAMES: &'static [&'static str] = &[Self::Unique.name(), Self::Duplicate.name(), Self::DeadLetter.name()];

    fn index(self) -> usize {
        self as usize
    }
}

impl Component {
    /// Returns the kinds of errors of this component.
    #[must_use]
    pub const fn kinds(self) -> &'static [ErrorKind] {
        match self {
            Self::Consumer => &[ErrorKind::Fatal],
            Self::Producer | Self::Judge => {
                &[ErrorKind::Retriable, ErrorKind::Abortable, ErrorKind::Fenced, ErrorKind::Fatal]
            }
            Self::Log => &[ErrorKind::Corrupt, ErrorKind::Lost],
            Self::Snapshot => &[ErrorKind::Io, ErrorKind::Corrupt],
            Self::Admin => &[ErrorKind::Retriable],
            Self::Traces => &[ErrorKind::Io],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_lists_of_duplicates_agree() {
        assert_eq!(VerdictLabel::duplicates().map(VerdictLabel::name).collect::<Vec<_>>(), Duplicate::NAMES);
    }

    #[test]
    fn every_output_is_labelled_with_its_name() {
        let labels = OutputKind::ALL.map(|output| OutputKind::NAMES[output.index()]);
        assert_eq!(labels, ["unique", "duplicate", "dead_letter"]);
        assert_eq!(labels, OutputKind::ALL.map(OutputKind::name));
    }
}
