//! Formats one verdict, as `tap` and `verdicts show` print it.

use std::fmt;

use serde_json::{Value, json};

use super::output::{self, age, extend};
use crate::fingerprint::SketchForm;
use crate::protocol::{Answer, Match, MatchedBy, PageVerdict, VerdictKind};
use crate::record::Source;

/// The form of the scheme's sketches, if any: it converts a distance to a similarity.
pub(super) type Form = Option<SketchForm>;

/// Names the stage that matched a page: `, by stage minhash (containment)`.
pub(super) fn by_stage(by: MatchedBy) -> String {
    let how = if by.contained().is_some() { " (containment)" } else { "" };
    format!(", by stage {}{how}", by.stage().name())
}

/// Distance of a page to its match, in the measure of the stage.
pub(super) enum Measure {
    /// Differing bits.
    Bits(u8),
    /// Estimated Jaccard index.
    Similarity(f64),
    /// Share of the smaller page in the other, which is why both match; and the estimated Jaccard index, if it is
    /// known.
    Containment(f64, Option<f64>),
    /// The form of the sketches is not known here.
    Unknown,
}

impl Measure {
    /// Measures a match.
    pub(super) fn of(of: &Match, form: Form) -> Self {
        let (slots, contained) = match of.by {
            MatchedBy::Exact => return Self::Bits(0),
            MatchedBy::SimHash { bits } => return Self::Bits(bits),
            MatchedBy::MinHash { slots, contained } => (slots, contained),
        };
        let similarity = form.map(|form| form.similarity(slots).share());
        match (contained, similarity) {
            (Some(contained), similarity) => Self::Containment(contained.share(), similarity),
            (None, Some(similarity)) => Self::Similarity(similarity),
            (None, None) => Self::Unknown,
        }
    }

    /// `2 bits differ`, `similarity 0.953`.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Bits(0) => "no bit differs".to_owned(),
            Self::Bits(1) => "1 bit differs".to_owned(),
            Self::Bits(bits) => format!("{bits} bits differ"),
            Self::Similarity(similarity) => format!("similarity {similarity}"),
            Self::Containment(share, _) => format!("{share} of the smaller page is in the other"),
            Self::Unknown => "sketches of another form".to_owned(),
        }
    }
}

impl fmt::Display for Measure {
    /// `d=2`, `s=0.953`, `c=0.93`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits(bits) => write!(f, "d={bits}"),
            Self::Similarity(similarity) => write!(f, "s={similarity}"),
            Self::Containment(share, _) => write!(f, "c={share}"),
            Self::Unknown => f.write_str("s=?"),
        }
    }
}

/// Returns the verdict as a JSON object; the caller adds ids.
pub(super) fn object(page: &PageVerdict, form: Form) -> Value {
    let mut object = page.decision.matched().map_or_else(|| json!({}), |of| matched(of, form));
    let (source, verdict) = (page.source.to_string(), page.decision.kind().name());
    extend(&mut object, json!({"source": source, "verdict": verdict, "event_time_ms": page.event_time.millis()}));
    if let Some(simhash) = page.decision.original().and_then(|original| original.fingerprints.simhash) {
        extend(&mut object, json!({"fp": simhash.to_string()}));
    }
    object
}

/// Returns the match of a page and their distance as a JSON object.
pub(super) fn matched(of: &Match, form: Form) -> Value {
    let mut object = json!({
        "stage": of.by.stage().name(), "match": of.source.to_string(), "age_ms": of.age_ms,
        "cluster": of.cluster.to_string(),
    });
    let measure = match Measure::of(of, form) {
        Measure::Bits(bits) => json!({"distance": bits}),
        Measure::Similarity(similarity) => json!({"similarity": similarity}),
        Measure::Containment(share, Some(similarity)) => json!({"containment": share, "similarity": similarity}),
        Measure::Containment(share, None) => json!({"containment": share}),
        Measure::Unknown => json!({}),
    };
    extend(&mut object, measure);
    object
}

/// Returns the distance to the match in a JSON object, as [`Measure`] is displayed.
pub(super) fn nearness(object: &Value) -> Option<String> {
    let measures = [("c", "containment"), ("d", "distance"), ("s", "similarity")];
    measures.into_iter().find_map(|(sign, name)| Some(format!("{sign}={}", object[name].as_f64()?)))
}

/// Returns any other answer as a JSON object.
pub(super) fn other(answer: &Answer, form: Form) -> Value {
    match answer {
        Answer::Page(page) => object(page, form),
        Answer::Withdrawn { source, reason } => {
            json!({"source": source.to_string(), "verdict": VerdictKind::Withdrawn.name(), "reason": reason.name()})
        }
        Answer::Forgotten(_) => json!({"verdict": "forgotten"}),
        Answer::Reopened { partition, from, to } => {
            json!({"verdict": "reopened", "range": format!("{partition}:{from}-{to}")})
        }
        Answer::TimeSet { before, after } => {
            json!({"verdict": "time set", "before": output::time(*before), "after": output::time(*after)})
        }
    }
}

/// Headings of [`cells`].
pub(super) const HEADS: [&str; 7] = ["VERDICT", "NEARNESS", "AGE", "PAGE", "ORIGINAL", "ID", "ORIGINAL ID"];

/// Returns the verdict as one row: `near  d=2  1 d 7 h  a:3:1  a:9:2  ID  ID`.
pub(super) fn cells(page: &PageVerdict, form: Form, id: impl Fn(&Source) -> Option<String>) -> Vec<String> {
    let of = page.decision.matched();
    [
        Some(page.decision.kind().name().to_owned()),
        of.map(|of| Measure::of(of, form).to_string()),
        of.map(|of| age(of.age_ms)),
        Some(page.source.to_string()),
        of.map(|of| of.source.to_string()),
        id(&page.source),
        of.and_then(|of| id(&of.source)),
    ]
    .map(|cell| cell.unwrap_or_else(|| "-".to_owned()))
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::PerMille;

    #[test]
    fn a_match_is_measured_as_its_stage_measures() {
        let source = crate::record::PartitionId::new("a", 0).at(1);
        let of = |by| Match { by, source: source.clone(), age_ms: 0, cluster: source.clone() };
        let sketch = |contained| MatchedBy::MinHash { slots: 4, contained };
        let page = |by| PageVerdict {
            source: source.clone(),
            event_time: crate::record::Timestamp::default(),
            digest: crate::fingerprint::PageDigest(0),
            decision: crate::protocol::Decision::Duplicate { of: of(by) },
        };
        let form = crate::config::Layers::default()
            .resolve(&crate::config::ExternalInputs::default(), crate::config::Purpose::Sieve)
            .unwrap_or_else(|refused| panic!("{refused}"))
            .0
            .fingerprint
            .minhash
            .form;
        let by_bits = object(&page(MatchedBy::SimHash { bits: 4 }), form);
        assert_eq!((by_bits.get("distance"), by_bits.get("similarity")), (Some(&json!(4)), None));
        // 4 of 128 slots of 8 bits.
        let by_sketch = object(&page(sketch(None)), form);
        assert_eq!((by_sketch.get("distance"), by_sketch.get("similarity")), (None, Some(&json!(0.968))));
        let line = |page: &PageVerdict, form| cells(page, form, |_| None).join(" ");
        assert_eq!(line(&page(sketch(None)), form), "near s=0.968 0 ms a:0:1 a:0:1 - -");
        assert_eq!(line(&page(sketch(None)), None), "near s=? 0 ms a:0:1 a:0:1 - -");
        let held = page(sketch(Some(PerMille(875))));
        let by_share = object(&held, form);
        assert_eq!(
            (by_share.get("containment"), by_share.get("similarity")),
            (Some(&json!(0.875)), Some(&json!(0.968)))
        );
        assert_eq!(line(&held, form), "near c=0.875 0 ms a:0:1 a:0:1 - -");
    }
}
