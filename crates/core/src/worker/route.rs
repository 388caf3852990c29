//! Where a page goes: which outputs, and which partition there.

use super::{OutputKind, PageOutcome};
use crate::protocol::{Answer, Decision};
use crate::record::Source;

/// What is produced (`mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Unique and duplicate pages go to two topics.
    #[default]
    Route,
    /// Every page goes to the unique topic, with its verdict in the headers.
    Tag,
    /// Nothing is produced.
    Observe,
}

impl Mode {
    /// Returns the name used in the configuration and in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Tag => "tag",
            Self::Observe => "observe",
        }
    }
}

/// What the names of the group and logs of `mode: observe` end in.
pub const OBSERVED: &str = ".observe";

impl Mode {
    /// Returns the group, or the first part of the names of the logs, that this mode works under.
    ///
    /// A page seen while observing is delivered nowhere. Under the names of a mode that delivers, copies of it would be
    /// called duplicates of a page that was not delivered (law L8). Tagging delivers every page as unique, so it shares
    /// the names of routing.
    #[must_use]
    pub fn own_name(self, configured: &str) -> String {
        match self {
            Self::Observe => format!("{configured}{OBSERVED}"),
            Self::Route | Self::Tag => configured.to_owned(),
        }
    }
}

/// What happens to null values (`input.tombstones`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tombstones {
    /// To both outputs, untouched: both may be compacted.
    #[default]
    Forward,
    /// Nowhere.
    Drop,
}

/// What happens to pages without a verdict (`processing.on_bad_record`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BadRecords {
    /// To the dead letter topic.
    #[default]
    DeadLetter,
    /// Drop the page and count it.
    Skip,
    /// The program stops before the record's offset is committed.
    Stop,
}

/// Which partition of an output a page goes to (`output.partition`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Partitioning {
    /// The number it came from when both topics have as many partitions, else by key.
    #[default]
    Same,
    /// By key, as Java clients have it; without a key spread.
    Key,
    /// Evenly, whatever the key.
    Spread,
}

/// What decides where pages go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Routing {
    /// What is produced.
    pub mode: Mode,
    /// What happens to null values.
    pub tombstones: Tombstones,
    /// What happens to pages without a verdict.
    pub bad_records: BadRecords,
    /// Which partition they go to.
    pub partitioning: Partitioning,
}

impl Routing {
    /// Returns the outputs that a page with this end goes to, in the order in which they are written.
    #[must_use]
    pub fn output_kinds(&self, outcome: &PageOutcome) -> &'static [OutputKind] {
        if self.mode == Mode::Observe {
            return &[];
        }
        match outcome {
            PageOutcome::Judged(verdict) => match (&verdict.answer, self.mode) {
                (Answer::Page(page), Mode::Route) if matches!(page.decision, Decision::Duplicate { .. }) => {
                    &[OutputKind::Duplicate]
                }
                (Answer::Page(_), _) => &[OutputKind::Unique],
                // Such a verdict ends no page: it comes here as a dead letter.
                (
                    Answer::Withdrawn { .. } | Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. },
                    _,
                ) => &[],
            },
            PageOutcome::DeadLetter(_) => match self.bad_records {
                BadRecords::DeadLetter | BadRecords::Stop => &[OutputKind::DeadLetter],
                BadRecords::Skip => &[],
            },
            PageOutcome::Tombstone => match (self.tombstones, self.mode) {
                (Tombstones::Drop, _) | (_, Mode::Observe) => &[],
                (Tombstones::Forward, Mode::Route) => &[OutputKind::Unique, OutputKind::Duplicate],
                (Tombstones::Forward, Mode::Tag) => &[OutputKind::Unique],
            },
        }
    }

    /// Returns the partition of an output with `count` partitions, for a record from a topic with `source_count`.
    ///
    /// The same record always goes to the same partition, so that a record read again keeps its place.
    #[must_use]
    pub fn partition(&self, source: &Source, source_count: usize, key: Option<&[u8]>, count: usize) -> i32 {
        let number = usize::try_from(source.partition.number).unwrap_or(0);
        let spread =
            || number.wrapping_add(usize::try_from(source.offset).unwrap_or(0)).checked_rem(count).unwrap_or(0);
        let keyed = || key.map_or_else(spread, |key| by_key(key, count));
        let partition = match self.partitioning {
            Partitioning::Same if source_count == count => number,
            Partitioning::Same | Partitioning::Key => keyed(),
            Partitioning::Spread => spread(),
        };
        i32::try_from(partition).unwrap_or(0)
    }
}

fn by_key(key: &[u8], count: usize) -> usize {
    let positive = usize::try_from(murmur2(key) & 0x7fff_ffff).unwrap_or(0);
    positive.checked_rem(count).unwrap_or(0)
}

/// Murmur2 with the seed that Kafka's Java clients use (Appleby, 2008; `org.apache.kafka.common.utils.Utils`).
#[must_use]
pub fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut hash = SEED ^ length;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fingerprint::PageDigest;
    use crate::protocol::{Match, MatchedBy, PageVerdict, RequestId, Verdict};
    use crate::record::{PartitionId, Reject, Timestamp};

    const ONE: OutputKind = OutputKind::Unique;
    const TWO: OutputKind = OutputKind::Duplicate;
    const DEAD: OutputKind = OutputKind::DeadLetter;

    fn judged(decision: Decision) -> PageOutcome {
        let source = PartitionId::new("pages", 1).at(9);
        let page = PageVerdict { source, event_time: Timestamp::default(), digest: PageDigest(0), decision };
        PageOutcome::Judged(Arc::new(Verdict { request: RequestId(1), answer: Answer::Page(page) }))
    }

    fn original() -> Match {
        let source = PartitionId::new("pages", 0).at(3);
        Match { by: MatchedBy::Exact, cluster: source.clone(), source, age_ms: 5 }
    }

    /// The vectors of Kafka's own `UtilsTest`.
    #[test]
    fn keys_hash_as_they_do_in_java() {
        let vectors: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
        ];
        for (key, hash) in vectors {
            assert_eq!(murmur2(key).cast_signed(), hash, "{key:?}");
        }
    }

    #[test]
    fn partition_is_kept_when_counts_are_equal_and_follows_the_key_otherwise() {
        let routing = Routing::default();
        let source = PartitionId::new("pages", 5).at(100);
        assert_eq!(routing.partition(&source, 6, Some(b"foobar"), 6), 5);
        assert_eq!(routing.partition(&source, 6, Some(b"foobar"), 4), 1_357_151_166 % 4);
        assert_eq!(routing.partition(&source, 6, None, 4), 1);
        let spread = Routing { partitioning: Partitioning::Spread, ..routing };
        assert_eq!(spread.partition(&source, 6, Some(b"foobar"), 6), 3);
    }

    #[test]
    fn each_end_goes_where_the_mode_says() {
        let unique = judged(Decision::Unique { original: None });
        let update = judged(Decision::Update { of: original(), original: None });
        let template = judged(Decision::Template { of: original(), original: None });
        let duplicate = judged(Decision::Duplicate { of: original() });
        let dead = PageOutcome::DeadLetter(Reject::NoText);
        let stone = PageOutcome::Tombstone;
        let route = Routing::default();
        let output_kinds = |routing: &Routing| {
            [&unique, &update, &template, &duplicate, &dead, &stone].map(|end| routing.output_kinds(end))
        };
        assert_eq!(output_kinds(&route), [&[ONE][..], &[ONE], &[ONE], &[TWO], &[DEAD], &[ONE, TWO]]);
        let tag = Routing { mode: Mode::Tag, ..route };
        assert_eq!(output_kinds(&tag), [&[ONE][..], &[ONE], &[ONE], &[ONE], &[DEAD], &[ONE]]);
        let observe = Routing { mode: Mode::Observe, ..route };
        assert_eq!(output_kinds(&observe), [&[][..]; 6]);
        let strict = Routing { tombstones: Tombstones::Drop, bad_records: BadRecords::Skip, ..route };
        assert_eq!(output_kinds(&strict), [&[ONE][..], &[ONE], &[ONE], &[TWO], &[], &[]]);
    }
}
