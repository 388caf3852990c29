//! Verdict lines: one JSON object for each page.

use serde::Serialize;

use super::{LineVerdict, MatchedOriginal, PageResult};
use crate::fingerprint::PerMille;
use crate::record::Source;

/// Returns a position in the form in which people look for it in a file: `pages.jsonl:17`.
#[must_use]
pub fn place_of(source: &Source) -> String {
    format!("{}:{}", source.partition.topic, source.offset)
}

/// The members of a verdict line, in this order.
#[derive(Debug, Default, Serialize)]
struct Line<'a> {
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<&'static str>,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matched: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    match_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    containment: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl PageResult {
    /// Returns the verdict line, without its line break. A page without an id has no member `id`. Only a match has
    /// `stage`, `match`, `match_id` and `distance` (or `similarity`), and only a match by containment has
    /// `containment`. Only a dead letter has `reason` and `message`.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = Line {
            source: place_of(&self.source),
            id: self.id.as_deref(),
            verdict: self.verdict.name(),
            ..Line::default()
        };
        if let Some(MatchedOriginal { by, similarity, source, id }) = self.verdict.original() {
            line.stage = Some(by.stage().name());
            line.distance = Some(by.distance()).filter(|_| similarity.is_none());
            line.similarity = similarity.map(PerMille::share);
            line.containment = by.contained().map(PerMille::share);
            line.matched = Some(place_of(source));
            line.match_id = id.as_deref();
        }
        if let LineVerdict::Dead(rejection) = &self.verdict {
            line.reason = Some(rejection.reason().name());
            line.message = Some(rejection.message());
        }
        // The line holds only strings and numbers, so it can always be written.
        serde_json::to_string(&line).unwrap_or_default()
    }
}
