//! OpenTelemetry spans for sampled records, and sending them to a collector. Only this module knows the names of
//! attributes.
//!
//! Each sampled record becomes a separate trace: `process <topic>` lasts from the poll to the acknowledgement, and
//! contains `judge` (from sending the request to reading its verdict) and `send <topic>` for each record written. The
//! headers `traceparent` and `tracestate` of the input are copied unchanged. They name the creation context of the
//! message, to which the trace links. Names follow the semantic conventions for messaging, whose status is "development".
//!
//! Spans go to the collector as OTLP: JSON over HTTP or HTTPS, on a thread of the OpenTelemetry SDK. The service never
//! waits for the collector. Spans that a slow or unreachable collector does not accept are dropped, counted
//! (`dupgate_errors_total{component="traces"}`) and logged once a minute. Headers, which `OTEL_EXPORTER_OTLP_HEADERS`
//! may set for a collector that requires a key, are never logged.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};
use std::{fmt, io};

use async_trait::async_trait;
use axum::body::Bytes;
use axum::http::{Request, Response};
use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::HttpError;
use opentelemetry_otlp::{Protocol, RetryPolicy, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanExporter, SpanLinks, SpanProcessor as _,
};
use xxhash_rust::xxh3::xxh3_64;

use super::Metrics;
use super::http_client::HttpClient;
use super::labels::{Component, ErrorKind};
use crate::config::Endpoint;
use crate::record::Source;

/// Maximum number of waiting spans.
const MAX_WAITING: usize = 4096;

/// Maximum number of spans in one request.
const BATCH: usize = 512;

/// How long spans are gathered into a batch.
const GATHER: Duration = Duration::from_secs(1);

/// Time-out of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Time-out for sending the last spans when the service stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of log lines about dropped spans.
const WARN_INTERVAL: Duration = Duration::from_mins(1);

/// Maximum number of bytes that are read of an answer.
const MAX_ANSWER_BYTES: u64 = 1 << 16;

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
    pub name: String,
    pub kind: SpanKind,
    /// Begin and end, since 1970.
    pub time: (Duration, Duration),
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

pub mod names {
    /// Always `kafka`.
    pub const SYSTEM: &str = "messaging.system";
    /// The operation, from a closed list.
    pub const OPERATION_TYPE: &str = "messaging.operation.type";
    /// The operation, as named by the client library.
    pub const OPERATION_NAME: &str = "messaging.operation.name";
    pub const DESTINATION: &str = "messaging.destination.name";
    pub const PARTITION: &str = "messaging.destination.partition.id";
    pub const OFFSET: &str = "messaging.kafka.offset";
    pub const GROUP: &str = "messaging.consumer.group.name";
    /// Bytes of the value.
    pub const BODY_SIZE: &str = "messaging.message.body.size";
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

/// Accepts spans. Dropping it sends the waiting ones first.
pub struct Traces {
    processor: BatchSpanProcessor,
    /// Number of spans that the exporter has not received yet.
    waiting: Arc<AtomicUsize>,
    metrics: Metrics,
}

impl Traces {
    /// Starts the exporter. `resource` names the service of the spans.
    ///
    /// # Errors
    ///
    /// The endpoint is https and the system trusts no certificate, or an OpenTelemetry variable of the environment
    /// (`OTEL_EXPORTER_OTLP_COMPRESSION`) has an unknown value.
    pub fn start(
        endpoint: Endpoint,
        resource: Vec<(&'static str, String)>,
        metrics: Metrics,
        now: impl Fn() -> Instant + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let client = if endpoint.is_https() { HttpClient::trusting_system()? } else { HttpClient::without_tls() };
        Self::start_with(client, endpoint, resource, metrics, now)
    }

    fn start_with(
        client: HttpClient,
        endpoint: Endpoint,
        resource: Vec<(&'static str, String)>,
        metrics: Metrics,
        now: impl Fn() -> Instant + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let collector = Arc::new(Collector { client, failure: Mutex::new(None) });
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_shared_http_client(Arc::clone(&collector) as Arc<dyn opentelemetry_http::HttpClient>)
            .with_endpoint(endpoint.url())
            .with_protocol(Protocol::HttpJson)
            .with_timeout(REQUEST_TIMEOUT)
            // Retries would hold up the queue: without them, an unreachable collector loses only the spans of the
            // current request, not those that wait.
            .with_retry_policy(RetryPolicy::disabled())
            .build()
            .map_err(io::Error::other)?;
        let waiting = Arc::new(AtomicUsize::new(0));
        let counting = CountingExporter {
            exporter,
            collector,
            endpoint,
            waiting: Arc::clone(&waiting),
            metrics: metrics.clone(),
            warned: Mutex::new(None),
            now,
        };
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_WAITING)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(GATHER)
            .build();
        let mut processor = BatchSpanProcessor::new(counting, config);
        let resource = resource.into_iter().map(|(key, value)| KeyValue::new(key, value));
        processor.set_resource(&Resource::builder_empty().with_attributes(resource).build());
        Ok(Self { processor, waiting, metrics })
    }

    /// Hands over a span, or drops it if too many are waiting.
    pub fn offer(&self, span: Span) {
        // The processor would drop it, too, without reporting it.
        if self.waiting.fetch_add(1, Ordering::Relaxed) < MAX_WAITING {
            self.processor.on_end(span.into());
        } else {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.metrics.error(Component::Traces, ErrorKind::Io);
        }
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // The reason of a failure has been logged.
        drop(self.processor.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
    }
}

/// Counts the spans that the exporter drops, and logs why.
struct CountingExporter<N> {
    exporter: opentelemetry_otlp::SpanExporter,
    collector: Arc<Collector>,
    endpoint: Endpoint,
    waiting: Arc<AtomicUsize>,
    metrics: Metrics,
    warned: Mutex<Option<Instant>>,
    now: N,
}

impl<N> fmt::Debug for CountingExporter<N> {
    /// Hides the headers: they may hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountingExporter").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl<N: Fn() -> Instant + Send + Sync> SpanExporter for CountingExporter<N> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
        let exported = self.exporter.export(batch).await;
        if let Err(error) = &exported {
            let failure = self.collector.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
            self.dropped(spans, &failure.unwrap_or_else(|| error.to_string()));
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<N: Fn() -> Instant> CountingExporter<N> {
    fn dropped(&self, spans: usize, error: &str) {
        (0..spans).for_each(|_| self.metrics.error(Component::Traces, ErrorKind::Io));
        let now = (self.now)();
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|before| now.saturating_duration_since(before) > WARN_INTERVAL) {
            *warned = Some(now);
            tracing::warn!(
                target: "dupgate::telemetry",
                endpoint = %self.endpoint, spans, error, "dropping spans: the collector does not accept them"
            );
        }
    }
}

/// Sends the exporter's requests and stores why one failed, because the exporter itself reports only "network error".
#[derive(Debug)]
struct Collector {
    client: HttpClient,
    failure: Mutex<Option<String>>,
}

#[async_trait]
impl opentelemetry_http::HttpClient for Collector {
    /// Blocks the thread, which belongs to the processor and has nothing else to do.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.send(request).map_err(|error| {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            error.into()
        })
    }
}

impl Collector {
    fn send(&self, request: Request<Bytes>) -> io::Result<Response<Bytes>> {
        let answer = self.client.call(request.map(|body| body.to_vec()), REQUEST_TIMEOUT)?;
        let mut response = Response::builder().status(answer.status);
        if let Some(headers) = response.headers_mut() {
            headers.clone_from(&answer.headers);
        }
        response.body(answer.text(MAX_ANSWER_BYTES)?.into()).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests;
