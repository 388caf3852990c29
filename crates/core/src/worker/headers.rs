//! Headers of output records.
//!
//! All values are text and a function of the record and its verdict: no clock, no host, no instance. Headers that came
//! with the record keep their order and their repeats; those that an earlier pass of ours left are replaced.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::PageDigest;
    use crate::fingerprint::PerMille;
    use crate::protocol::PageVerdict;
    use crate::protocol::RequestId;
    use crate::record::PartitionId;

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
}
