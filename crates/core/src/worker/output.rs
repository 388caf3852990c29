//! Output records: where a page goes, in which partition there, and with which headers.
//!
//! All values of headers are text and a function of the record and its verdict: no clock, no host, no instance. Headers
//! that came with the record keep their order and their repeats; those that an earlier pass of ours left are replaced.

use super::PageOutcome;
use crate::fingerprint::{SimHash, SketchForm};
use crate::protocol::{Answer, Decision, Match, MatchedBy, Verdict};
use crate::record::{Reject, Source, Timestamp};

/// One header of a record: a name, and bytes or null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name; names may repeat.
    pub name: String,
    /// Its value.
    pub value: Option<Vec<u8>>,
}

impl Header {
    fn text(prefix: &str, name: &str, value: impl Into<String>) -> Self {
        Self { name: format!("{prefix}{name}"), value: Some(value.into().into_bytes()) }
    }

    /// Returns the bytes of name and value.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.name.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// An output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutputKind {
    /// Unique pages.
    Unique,
    /// Duplicates.
    Duplicate,
    /// Pages without a verdict.
    DeadLetter,
}

impl OutputKind {
    /// Every output.
    pub const ALL: [Self; 3] = [Self::Unique, Self::Duplicate, Self::DeadLetter];

    /// Returns the metric label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unique => "unique",
            Self::Duplicate => "duplicate",
            Self::DeadLetter => Reject::DEAD_LETTER,
        }
    }
}

/// How headers are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderSettings {
    /// What our names begin with (`output.headers.prefix`).
    pub prefix: String,
    /// Names of input headers that are not passed on (`output.headers.drop`).
    pub drop: Vec<String>,
    /// The scheme that the fingerprints were made by.
    pub scheme: String,
    /// The form of the scheme's sketches: with it a distance becomes a similarity.
    pub sketch: Option<SketchForm>,
    /// The input group.
    pub group: String,
    /// Names the replay that the pages come from, if they do.
    pub replay: Option<String>,
}

/// Bytes that our own headers take at most.
pub const MAX_HEADER_BYTES: usize = 2048;

impl HeaderSettings {
    /// Returns the input headers that are passed on.
    pub fn foreign<'a>(&'a self, headers: &'a [Header]) -> impl Iterator<Item = &'a Header> {
        headers.iter().filter(|header| !header.name.starts_with(&self.prefix) && !self.drop.contains(&header.name))
    }

    /// Returns our headers for a page with this verdict.
    #[must_use]
    pub fn of_verdict(&self, verdict: &Verdict, source: &Source, simhash: Option<SimHash>) -> Vec<Header> {
        let mut ours = Vec::with_capacity(10);
        let mut say = |name: &str, value: String| ours.push(Header::text(&self.prefix, name, value));
        if let Answer::Page(page) = &verdict.answer {
            say("verdict", page.decision.kind().name().to_owned());
            if let Some(simhash) = simhash {
                say("fp", simhash.to_string());
            }
            say("scheme", self.scheme.clone());
            if let Decision::Duplicate { of } | Decision::Template { of, .. } = &page.decision {
                let Match { by, source, age_ms, cluster } = of;
                say("match", source.to_string());
                say("match.age_ms", age_ms.to_string());
                match (by, self.sketch) {
                    (MatchedBy::SimHash { bits }, _) => say("distance", bits.to_string()),
                    (MatchedBy::MinHash { slots, .. }, Some(form)) => {
                        say("similarity", form.similarity(*slots).to_string());
                    }
                    (MatchedBy::Exact, _) | (MatchedBy::MinHash { .. }, None) => {}
                }
                if let Some(contained) = by.contained() {
                    say("containment", contained.to_string());
                }
                // A template begins a cluster of its own.
                if matches!(page.decision, Decision::Duplicate { .. }) {
                    say("cluster", cluster.to_string());
                }
            }
        }
        say("source", source.to_string());
        if let Some(replay) = &self.replay {
            say("replay", replay.clone());
        }
        ours
    }

    /// Returns our header for a page of HTML: what of it was compared.
    #[must_use]
    pub fn of_extraction(&self, extraction: &str) -> Header {
        Header::text(&self.prefix, "extraction", extraction)
    }

    /// Returns our headers for a dead letter. `why` is one line without page text; defaults to the message of `reason`.
    #[must_use]
    pub fn of_reject(
        &self,
        reason: Reject,
        why: Option<&str>,
        source: &Source,
        timestamp: Option<Timestamp>,
    ) -> Vec<Header> {
        let mut ours = Vec::with_capacity(9);
        let mut say = |name: &str, value: String| ours.push(Header::text(&self.prefix, name, value));
        say("error.stage", reason.stage().to_owned());
        say("error.reason", reason.name().to_owned());
        say("error.message", why.unwrap_or_else(|| message(reason)).to_owned());
        say("error.topic", source.partition.topic.to_string());
        say("error.partition", source.partition.number.to_string());
        say("error.offset", source.offset.to_string());
        if let Some(timestamp) = timestamp {
            say("error.timestamp", timestamp.to_string());
        }
        say("error.group", self.group.clone());
        say("error.attempts", "1".to_owned());
        ours
    }

    /// Returns our header for a dead letter that does not hold the whole record: the length that its value had.
    #[must_use]
    pub fn of_cut(&self, value_bytes: u64) -> Header {
        Header::text(&self.prefix, "error.cut_from_bytes", value_bytes.to_string())
    }
}

/// Says in one line what is wrong with a page. Holds nothing of its text.
#[must_use]
pub const fn message(reason: Reject) -> &'static str {
    match reason {
        Reject::Undecodable => "the value is not what input.format says",
        Reject::WrongType => "a field holds another type than the configuration says",
        Reject::MissingField => "none of the fields that may hold the text is there",
        Reject::NoText => "no text is left in the page",
        Reject::TooDeep => "the JSON is nested deeper than the limit",
        Reject::TooLarge => "the value is larger than input.max_document",
        Reject::TooLargeForOutput => "with its headers the record is larger than an output topic takes",
        Reject::TextPanic => "the text work failed on this page",
        Reject::TextTimeout => "the text work took too long on this page",
        Reject::Refused => "the brokers refuse the record",
        Reject::TimestampRefused => "the brokers refuse the record's timestamp",
        Reject::Gone => "the input does not hold the record any more",
    }
}

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
fn murmur2(bytes: &[u8]) -> u32 {
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
    use crate::fingerprint::{PageDigest, PerMille};
    use crate::protocol::{Match, MatchedBy, PageVerdict, RequestId, Verdict};
    use crate::record::{PartitionId, Reject, Timestamp};

    fn settings() -> HeaderSettings {
        HeaderSettings {
            prefix: "dupgate.".to_owned(),
            drop: vec!["secret".to_owned()],
            scheme: "sh64-9b1f2c".to_owned(),
            sketch: SketchForm::new(128, crate::fingerprint::SlotBits::B8).ok(),
            group: "crawl".to_owned(),
            replay: None,
        }
    }

    fn lines(headers: &[Header]) -> Vec<String> {
        let text = |header: &Header| String::from_utf8(header.value.clone().unwrap()).unwrap();
        headers.iter().map(|header| format!("{}={}", header.name, text(header))).collect()
    }

    fn verdict(decision: Decision) -> Verdict {
        let source = PartitionId::new("pages", 9).at(190_112);
        let page = PageVerdict { source, event_time: Timestamp::default(), digest: PageDigest(0), decision };
        Verdict { request: RequestId(1), answer: Answer::Page(page) }
    }

    #[test]
    fn near_duplicate_says_what_it_is_near_to() {
        let original = PartitionId::new("pages", 3).at(184_467);
        let first = PartitionId::new("pages", 3).at(5);
        let of = Match { by: MatchedBy::SimHash { bits: 2 }, source: original, age_ms: 111_600_000, cluster: first };
        let source = PartitionId::new("pages", 9).at(190_112);
        let ours = settings().of_verdict(
            &verdict(Decision::Duplicate { of }),
            &source,
            Some(SimHash::B64(0x9f3c_2a10_e4b7_d855)),
        );
        assert_eq!(
            lines(&ours),
            [
                "dupgate.verdict=near",
                "dupgate.fp=9f3c2a10e4b7d855",
                "dupgate.scheme=sh64-9b1f2c",
                "dupgate.match=pages:3:184467",
                "dupgate.match.age_ms=111600000",
                "dupgate.distance=2",
                "dupgate.cluster=pages:3:5",
                "dupgate.source=pages:9:190112",
            ]
        );
        assert!(ours.iter().map(Header::bytes).sum::<usize>() < MAX_HEADER_BYTES);
    }

    #[test]
    fn a_template_says_what_it_is_like_and_belongs_to_no_cluster() {
        let original = PartitionId::new("pages", 3).at(184_467);
        let of = Match {
            by: MatchedBy::MinHash { slots: 2, contained: None },
            source: original.clone(),
            age_ms: 5,
            cluster: original,
        };
        let source = PartitionId::new("pages", 9).at(190_112);
        let ours = settings().of_verdict(&verdict(Decision::Template { of, original: None }), &source, None);
        assert_eq!(
            lines(&ours),
            [
                "dupgate.verdict=template",
                "dupgate.scheme=sh64-9b1f2c",
                "dupgate.match=pages:3:184467",
                "dupgate.match.age_ms=5",
                "dupgate.similarity=0.984",
                "dupgate.source=pages:9:190112",
            ]
        );
    }

    #[test]
    fn a_page_that_holds_a_known_one_says_by_how_much() {
        let original = PartitionId::new("pages", 3).at(184_467);
        let of = Match {
            by: MatchedBy::MinHash { slots: 100, contained: Some(PerMille(930)) },
            source: original.clone(),
            age_ms: 5,
            cluster: original,
        };
        let source = PartitionId::new("pages", 9).at(190_112);
        let ours = lines(&settings().of_verdict(&verdict(Decision::Duplicate { of }), &source, None));
        assert_eq!(ours[0], "dupgate.verdict=near");
        let said = ["dupgate.similarity=0.215", "dupgate.containment=0.93", "dupgate.cluster=pages:3:184467"];
        assert_eq!(ours[4..7], said);
    }

    #[test]
    fn unique_page_without_simhash_names_verdict_scheme_and_source() {
        let source = PartitionId::new("pages", 9).at(190_112);
        let ours = settings().of_verdict(&verdict(Decision::Unique { original: None }), &source, None);
        assert_eq!(
            lines(&ours),
            ["dupgate.verdict=unique", "dupgate.scheme=sh64-9b1f2c", "dupgate.source=pages:9:190112"]
        );
    }

    #[test]
    fn dead_letter_says_what_failed_and_where_it_stood() {
        let source = PartitionId::new("pages", 9).at(7);
        let ours = settings().of_reject(Reject::NoText, None, &source, Some(Timestamp::from_millis(12)));
        assert_eq!(
            lines(&ours),
            [
                "dupgate.error.stage=extract",
                "dupgate.error.reason=no_text",
                "dupgate.error.message=no text is left in the page",
                "dupgate.error.topic=pages",
                "dupgate.error.partition=9",
                "dupgate.error.offset=7",
                "dupgate.error.timestamp=12",
                "dupgate.error.group=crawl",
                "dupgate.error.attempts=1",
            ]
        );
    }

    #[test]
    fn foreign_headers_keep_order_and_repeats_and_our_own_are_replaced() {
        let header =
            |name: &str, value: Option<&[u8]>| Header { name: name.to_owned(), value: value.map(<[u8]>::to_vec) };
        let came = [
            header("trace", Some(b"1")),
            header("dupgate.verdict", Some(b"near")),
            header("trace", Some(b"\xff")),
            header("secret", Some(b"x")),
            header("empty", None),
        ];
        let settings = settings();
        let passed: Vec<&Header> = settings.foreign(&came).collect();
        assert_eq!(passed, [&came[0], &came[2], &came[4]]);
    }

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
