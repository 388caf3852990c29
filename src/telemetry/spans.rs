//! OpenTelemetry spans for sampled records. Only this module knows the names of attributes.
//!
//! Each sampled record becomes a separate trace: `process <topic>` lasts from the poll to the acknowledgement, and
//! contains `judge` (from sending the request to reading its verdict) and `send <topic>` for each record written. The
//! headers `traceparent` and `tracestate` of the input are copied unchanged. They name the creation context of the
//! message, to which the trace links.
//!
//! Names follow the semantic conventions for messaging, whose status is "development".

use std::time::{Duration, UNIX_EPOCH};

use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use xxhash_rust::xxh3::xxh3_64;

use crate::record::Source;

/// Chooses records by their position, so that every instance and every replay chooses the same records.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    /// Records whose hash is below this number are chosen.
    below: u128,
}

impl Sampler {
    /// Creates a sampler of this share of all records, 0 to 1.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the numbers of 64 bits, cut to 0..=2^64"
    )]
    pub fn new(ratio: f64) -> Self {
        Self { below: (ratio.clamp(0.0, 1.0) * 2_f64.powi(64)) as u128 }
    }

    /// Returns whether a record is chosen.
    #[must_use]
    pub fn takes(&self, source: &Source) -> bool {
        self.below > 0 && u128::from(xxh3_64(source.to_string().as_bytes())) < self.below
    }
}

/// One step in the processing of one record.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The trace it belongs to; never 0.
    pub trace: TraceId,
    /// Its own id; never 0.
    pub id: SpanId,
    /// The span that it is a part of.
    pub parent: Option<SpanId>,
    /// The operation.
    pub name: String,
    /// The kind of the span.
    pub kind: SpanKind,
    /// Begin and end, since 1970.
    pub time: (Duration, Duration),
    /// The attributes.
    pub attributes: Vec<KeyValue>,
    /// The creation context of the message.
    pub link: Option<SpanContext>,
    /// Why it failed.
    pub error: Option<String>,
}

impl From<Span> for SpanData {
    fn from(span: Span) -> Self {
        let mut links = SpanLinks::default();
        links.links.extend(span.link.map(Link::with_context));
        // Only chosen records have spans.
        let sampled = TraceFlags::SAMPLED;
        Self {
            span_context: SpanContext::new(span.trace, span.id, sampled, false, TraceState::default()),
            parent_span_id: span.parent.unwrap_or(SpanId::INVALID),
            parent_span_is_remote: false,
            span_kind: span.kind,
            name: span.name.into(),
            start_time: UNIX_EPOCH + span.time.0,
            end_time: UNIX_EPOCH + span.time.1,
            attributes: span.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links,
            status: span.error.map_or(Status::Unset, Status::error),
            instrumentation_scope: InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        }
    }
}

/// Names of attributes.
pub mod names {
    /// Always `kafka`.
    pub const SYSTEM: &str = "messaging.system";
    /// The operation, from a closed list.
    pub const OPERATION_TYPE: &str = "messaging.operation.type";
    /// The operation, as named by the client library.
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
    /// The verdict on the page.
    pub const VERDICT: &str = "dupgate.verdict";
    /// Position of the page that it is a duplicate of.
    pub const MATCH: &str = "dupgate.match";
    /// Differing bits.
    pub const DISTANCE: &str = "dupgate.distance";
    /// Why a page is a dead letter.
    pub const REASON: &str = "dupgate.error.reason";
}

/// Returns the context that a `traceparent` header names, if it is one.
#[must_use]
pub fn traceparent(header: &[u8]) -> Option<SpanContext> {
    let text = std::str::from_utf8(header).ok()?;
    let mut parts = text.split('-');
    let version = parts.next()?;
    let (trace, span) = (parts.next()?, parts.next()?);
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    if !hex(version, 2) || version == "ff" || !hex(trace, 32) || !hex(span, 16) {
        return None;
    }
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let context = SpanContext::new(trace, span, TraceFlags::default(), true, TraceState::default());
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PartitionId;

    #[test]
    fn the_sampled_share_is_the_ratio() {
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
        let known = |context: Option<SpanContext>| {
            let context = context.unwrap();
            assert_eq!((context.trace_id().to_string(), context.span_id().to_string()), (trace.into(), span.into()));
        };
        known(of(&format!("00-{trace}-{span}-01")));
        // Later versions may have more.
        known(of(&format!("cc-{trace}-{span}-01-more")));
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
}
