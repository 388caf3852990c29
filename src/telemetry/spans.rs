//! OpenTelemetry spans for sampled records. The only place that knows attribute names.
//!
//! A record that is chosen becomes a trace of its own: `process <topic>` from poll to acknowledgement, in it `judge` (from
//! asking about the page to reading its verdict) and `send <topic>` for each record written. The headers `traceparent` and
//! `tracestate` of the input are copied untouched, as the message's creation context; the trace links to it.
//!
//! Names follow the semantic conventions for messaging, whose status is "development".

use std::time::Duration;

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use crate::record::Source;

/// Chooses records by their position: the same ones in every instance, and again in a replay.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    /// Hashes below it are chosen; beyond the largest hash all are.
    below: u128,
}

impl Sampler {
    /// Chooses this share of all records, 0 to 1.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the numbers of 64 bits, cut to 0..=2^64"
    )]
    pub fn new(ratio: f64) -> Self {
        Self { below: (ratio.clamp(0.0, 1.0) * 2_f64.powi(64)) as u128 }
    }

    /// Says whether a record is chosen.
    #[must_use]
    pub fn takes(&self, source: &Source) -> bool {
        self.below > 0 && u128::from(xxh3_64(source.to_string().as_bytes())) < self.below
    }
}

/// What a step is to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Work inside.
    Internal,
    /// Something is sent.
    Producer,
    /// Something that was received is worked on.
    Consumer,
}

impl Kind {
    const fn number(self) -> u8 {
        match self {
            Self::Internal => 1,
            Self::Producer => 4,
            Self::Consumer => 5,
        }
    }
}

/// What an attribute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

/// One step of the way of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace it belongs to; never 0.
    pub trace: u128,
    /// Its own number; never 0.
    pub id: u64,
    /// The step that it is a part of.
    pub parent: Option<u64>,
    /// What is done.
    pub name: String,
    /// What it is to others.
    pub kind: Kind,
    /// Begin and end, since 1970.
    pub time: (Duration, Duration),
    /// What is known about it, by name.
    pub attributes: Vec<(&'static str, Said)>,
    /// The creation context of the message: trace and span.
    pub link: Option<(String, String)>,
    /// Why it failed.
    pub error: Option<String>,
}

/// Names of attributes.
pub mod names {
    /// Always `kafka`.
    pub const SYSTEM: &str = "messaging.system";
    /// What is done, of a closed list.
    pub const OPERATION_TYPE: &str = "messaging.operation.type";
    /// What is done, as the client library calls it.
    pub const OPERATION_NAME: &str = "messaging.operation.name";
    /// The topic.
    pub const DESTINATION: &str = "messaging.destination.name";
    /// The partition.
    pub const PARTITION: &str = "messaging.destination.partition.id";
    /// The offset.
    pub const OFFSET: &str = "messaging.kafka.offset";
    /// The group of the consumer.
    pub const GROUP: &str = "messaging.consumer.group.name";
    /// Bytes of the value.
    pub const BODY_SIZE: &str = "messaging.message.body.size";
    /// What was decided about the page.
    pub const VERDICT: &str = "dupgate.verdict";
    /// Position of the page that it is a duplicate of.
    pub const MATCH: &str = "dupgate.match";
    /// Differing bits.
    pub const DISTANCE: &str = "dupgate.distance";
    /// Why a page is a dead letter.
    pub const REASON: &str = "dupgate.error.reason";
}

/// Returns trace and span of a `traceparent` header, if it is one.
#[must_use]
pub fn traceparent(header: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(header).ok()?;
    let mut parts = text.split('-');
    let version = parts.next()?;
    let (trace, span) = (parts.next()?, parts.next()?);
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_something = |part: &str| part.bytes().any(|byte| byte != b'0');
    let legal = hex(version, 2) && version != "ff" && hex(trace, 32) && hex(span, 16);
    (legal && is_something(trace) && is_something(span)).then(|| (trace.to_owned(), span.to_owned()))
}

/// Spells spans out as a request of OTLP in JSON; `resource` says who speaks.
#[must_use]
pub fn request(resource: &[(&'static str, String)], spans: &[Span]) -> Value {
    let resource: Vec<Value> = resource.iter().map(|(key, value)| attribute(key, &Said::Text(value.clone()))).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{
            "scope": {"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")},
            "spans": spans.iter().map(spelled).collect::<Vec<_>>(),
        }],
    }]})
}

fn spelled(span: &Span) -> Value {
    let attributes: Vec<Value> = span.attributes.iter().map(|(key, said)| attribute(key, said)).collect();
    let nanos = |time: Duration| time.as_nanos().to_string();
    let mut value = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": span.kind.number(),
        "startTimeUnixNano": nanos(span.time.0),
        "endTimeUnixNano": nanos(span.time.1),
        "attributes": attributes,
    });
    if let Value::Object(object) = &mut value {
        if let Some(parent) = span.parent {
            object.insert("parentSpanId".to_owned(), format!("{parent:016x}").into());
        }
        if let Some((trace, span)) = &span.link {
            object.insert("links".to_owned(), json!([{"traceId": trace, "spanId": span}]));
        }
        if let Some(error) = &span.error {
            object.insert("status".to_owned(), json!({"code": 2, "message": error}));
        }
    }
    value
}

/// Numbers of 64 bits are texts in JSON as OTLP has it.
fn attribute(key: &str, said: &Said) -> Value {
    match said {
        Said::Text(text) => json!({"key": key, "value": {"stringValue": text}}),
        Said::Number(number) => json!({"key": key, "value": {"intValue": number.to_string()}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PartitionId;

    #[test]
    fn the_share_that_is_chosen_is_the_ratio() {
        let partition = PartitionId::new("pages", 3);
        let chosen = |ratio: f64| {
            let sampler = Sampler::new(ratio);
            (0..20_000).filter(|offset| sampler.takes(&partition.at(*offset))).count()
        };
        assert_eq!((chosen(0.0), chosen(1.0), chosen(7.0)), (0, 20_000, 20_000));
        let tenth = chosen(0.1);
        assert!((1800..2200).contains(&tenth), "{tenth}");
    }

    #[test]
    fn only_a_traceparent_is_linked_to() {
        let of = |text: &str| traceparent(text.as_bytes());
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let known = Some((trace.to_owned(), span.to_owned()));
        assert_eq!(of(&format!("00-{trace}-{span}-01")), known);
        assert_eq!(of(&format!("cc-{trace}-{span}-01-more")), known, "versions to come may say more");
        for wrong in [
            "",
            "00",
            "\u{fc}",
            &format!("ff-{trace}-{span}-01"),
            &format!("00-{}-{span}-01", "0".repeat(32)),
            &format!("00-{trace}-{}-01", "0".repeat(16)),
            &format!("00-{}-{span}-01", trace.to_uppercase()),
            &format!("00-{trace}-{span}0-01"),
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn spans_are_spelled_as_otlp_has_them() {
        let span = Span {
            trace: 0xabc,
            id: 1,
            parent: Some(2),
            name: "process pages".to_owned(),
            kind: Kind::Consumer,
            time: (Duration::from_nanos(1_760_000_000_000_000_001), Duration::from_secs(1_760_000_001)),
            attributes: vec![(names::SYSTEM, Said::Text("kafka".to_owned())), (names::OFFSET, Said::Number(7))],
            link: Some(("t".to_owned(), "s".to_owned())),
            error: Some("undecodable".to_owned()),
        };
        let resource = [("service.name", "dupgate".to_owned())];
        let request = request(&resource, std::slice::from_ref(&span));
        assert_eq!(
            request["resourceSpans"][0]["resource"]["attributes"],
            json!([{"key": "service.name", "value": {"stringValue": "dupgate"}}])
        );
        assert_eq!(
            request["resourceSpans"][0]["scopeSpans"][0]["spans"][0],
            json!({
                "traceId": "00000000000000000000000000000abc", "spanId": "0000000000000001",
                "parentSpanId": "0000000000000002", "name": "process pages", "kind": 5,
                "startTimeUnixNano": "1760000000000000001", "endTimeUnixNano": "1760000001000000000",
                "attributes": [
                    {"key": "messaging.system", "value": {"stringValue": "kafka"}},
                    {"key": "messaging.kafka.offset", "value": {"intValue": "7"}},
                ],
                "links": [{"traceId": "t", "spanId": "s"}],
                "status": {"code": 2, "message": "undecodable"},
            })
        );
    }
}
