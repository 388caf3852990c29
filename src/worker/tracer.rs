//! Creates spans for sampled records.

use std::collections::HashMap;
use std::time::Duration;

use dupgate_core::worker::{Output, PageOutcome};
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, SpanKind, TraceId};

use crate::clock::{random_id, wall_clock};
use crate::context::ServiceContext;
use crate::error::Fatal;
use crate::fatal;
use crate::kafka::output::{Outputs, PagePayload};
use crate::protocol::{Answer, RequestId, Stage, Verdict};
use crate::telemetry::labels::{LabelValue, VerdictLabel};
use crate::telemetry::spans::{Sampler, Span, Traces, names, traceparent};

/// Maximum number of verdicts whose times are kept until their pages are delivered.
const MAX_JUDGED: usize = 1 << 16;

/// State for creating spans of sampled records.
pub(crate) struct Tracer {
    traces: Traces,
    sampler: Sampler,
    group: String,
    /// Times of the request and of the verdict, for sampled pages that are not delivered yet.
    judged: HashMap<RequestId, (Duration, Duration)>,
    /// When the transaction in progress, or the last one, began to send.
    sent_since: Option<Duration>,
}

impl Tracer {
    /// Starts tracing, if it is configured.
    pub(crate) fn start(context: &ServiceContext) -> Result<Option<Self>, Fatal> {
        let Some(tracing) = &context.settings.tracing else { return Ok(None) };
        let instance = context.settings.input.instance_id.clone();
        let resource = vec![
            ("service.name", env!("CARGO_PKG_NAME").to_owned()),
            ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("service.instance.id", instance.unwrap_or_else(|| context.transactional_id.clone())),
        ];
        let clock = context.clock;
        let traces =
            Traces::start(tracing.endpoint.clone(), resource, context.metrics.clone(), move || clock.instant());
        Ok(Some(Self {
            traces: traces.map_err(fatal::failure)?,
            sampler: Sampler::new(tracing.sample_ratio),
            group: context.settings.input.group.clone(),
            judged: HashMap::new(),
            sent_since: None,
        }))
    }

    /// Notes that a verdict was read that was requested at `since`.
    pub(crate) fn judged(&mut self, verdict: &Verdict, since: Duration, now: Duration) {
        let is_chosen = verdict.answer.judged_source().is_some_and(|source| self.sampler.takes(source));
        if is_chosen && self.judged.len() < MAX_JUDGED {
            self.judged.insert(verdict.request, (since, now));
        }
    }

    /// Notes that the worker begins to send outputs.
    pub(crate) fn sends(&mut self, now: Duration) {
        self.sent_since = Some(now);
    }

    /// Creates the spans of a delivered page, if it is sampled.
    pub(crate) fn delivered(&mut self, output: &Output<PagePayload>, outputs: &Outputs, now: Duration) {
        if !self.sampler.takes(&output.page.source) {
            return;
        }
        let judged = match &output.outcome {
            PageOutcome::Judged(verdict) => self.judged.remove(&verdict.request),
            PageOutcome::DeadLetter(_) | PageOutcome::Tombstone => None,
        };
        let wall = wall_clock();
        let at = |moment: Duration| wall.saturating_sub(now.saturating_sub(moment));
        let process = self.process(output, (at(output.page.payload.read_at), wall));
        let part = |name: String, kind, time, attributes| Span {
            trace: process.trace,
            id: span_id(),
            parent: Some(process.id),
            name,
            kind,
            time,
            attributes,
            link: None,
            error: None,
        };
        if let Some((since, until)) = judged {
            self.traces.offer(part("judge".to_owned(), SpanKind::Internal, (at(since), at(until)), Vec::new()));
        }
        if let Some(since) = self.sent_since {
            for output_kind in outputs.routing.output_kinds(&output.outcome) {
                let Some(topic) = outputs.topics.get(output_kind) else { continue };
                let attributes = vec![
                    text(names::SYSTEM, "kafka"),
                    text(names::OPERATION_TYPE, "send"),
                    text(names::OPERATION_NAME, "send"),
                    text(names::DESTINATION, &topic.name),
                ];
                let name = format!("send {}", topic.name);
                self.traces.offer(part(name, SpanKind::Producer, (at(since), wall), attributes));
            }
        }
        self.traces.offer(process);
    }

    fn process(&self, output: &Output<PagePayload>, time: (Duration, Duration)) -> Span {
        let page = &output.page;
        let (record, partition) = (&page.payload.record, &page.source.partition);
        let mut attributes = vec![
            text(names::SYSTEM, "kafka"),
            text(names::OPERATION_TYPE, "process"),
            text(names::OPERATION_NAME, "process"),
            text(names::DESTINATION, &partition.topic),
            text(names::PARTITION, &partition.number.to_string()),
            KeyValue::new(names::OFFSET, page.source.offset),
            text(names::GROUP, &self.group),
        ];
        let size = record.value.as_ref().and_then(|value| i64::try_from(value.len()).ok());
        attributes.extend(size.map(|size| KeyValue::new(names::BODY_SIZE, size)));
        let mut error = None;
        match &output.outcome {
            PageOutcome::Judged(verdict) => {
                if let Answer::Page(judged) = &verdict.answer {
                    attributes.push(text(names::VERDICT, judged.decision.kind().name()));
                    if let Some(of) = judged.decision.matched() {
                        attributes.push(text(names::MATCH, &of.source.to_string()));
                        if of.by.stage() != Stage::MinHash {
                            attributes.push(KeyValue::new(names::DISTANCE, i64::from(of.by.distance())));
                        }
                    }
                }
            }
            PageOutcome::DeadLetter(reason) => {
                attributes.push(text(names::REASON, reason.name()));
                error = Some(reason.name().to_owned());
            }
            PageOutcome::Tombstone => attributes.push(text(names::VERDICT, VerdictLabel::Bypass.name())),
        }
        let link = record.headers.iter().rev().find(|header| header.name == "traceparent");
        Span {
            trace: TraceId::from(u128::from(number()) << 64 | u128::from(number())),
            id: span_id(),
            parent: None,
            name: format!("process {}", partition.topic),
            kind: SpanKind::Consumer,
            time,
            attributes,
            link: link.and_then(|header| traceparent(header.value.as_deref()?)),
            error,
        }
    }
}

fn text(name: &'static str, text: &str) -> KeyValue {
    KeyValue::new(name, text.to_owned())
}

fn span_id() -> SpanId {
    SpanId::from(number())
}

/// Returns a random span id, or half of a trace id. It is never 0, which would mean that there is none.
fn number() -> u64 {
    random_id().max(1)
}
