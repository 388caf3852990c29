//! Hands spans to a collector: OTLP as JSON over HTTP or HTTPS, on a thread of the OpenTelemetry SDK.
//!
//! Nothing waits for it. What a collector that is slow or away does not take is dropped, counted
//! (`dupgate_errors_total{component="traces"}`) and logged once a minute. Headers, which `OTEL_EXPORTER_OTLP_HEADERS`
//! may name for a collector that asks for a key, are never logged.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use axum::http::{Request, Response};
use hyper::body::Bytes;
use opentelemetry::KeyValue;
use opentelemetry_http::HttpError;
use opentelemetry_otlp::{Protocol, RetryPolicy, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor as _};

use super::Metrics;
use super::http_client::HttpClient;
use super::labels::{Component, ErrorKind};
use super::spans::Span;
use crate::config::Endpoint;

/// Spans that wait at most.
const MAX_WAITING: usize = 4096;

/// Spans in one request.
const BATCH: usize = 512;

/// How long spans are gathered.
const GATHER: Duration = Duration::from_secs(1);

/// How long a collector may be silent.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the last spans may take to be sent when the service stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it is logged that spans are dropped.
const WARN_INTERVAL: Duration = Duration::from_mins(1);

/// Most bytes of an answer that are read.
const MAX_ANSWER_BYTES: u64 = 1 << 16;

/// The end that spans are handed to. When it is dropped, what waits is sent first.
pub struct Traces {
    processor: BatchSpanProcessor,
    /// Spans that the exporter was not given yet.
    waiting: Arc<AtomicUsize>,
    metrics: Metrics,
}

impl Traces {
    /// Starts the exporter. `resource` names the service that the spans are of.
    ///
    /// # Errors
    ///
    /// When an https endpoint is named and the system trusts no certificate, or a variable of OpenTelemetry's in the
    /// environment (`OTEL_EXPORTER_OTLP_COMPRESSION`) asks for what the exporter does not know.
    pub fn start(
        endpoint: Endpoint,
        resource: Vec<(&'static str, String)>,
        metrics: Metrics,
        now: impl Fn() -> Instant + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let client = if endpoint.is_https() { HttpClient::trusting_system() } else { HttpClient::without_tls() };
        Self::start_with(client?, endpoint, resource, metrics, now)
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
            // An unreachable collector costs the spans of the moment and not those that wait after them.
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

    /// Hands a span over; drops it when too many wait.
    pub fn offer(&self, span: Span) {
        // The processor would drop it, too, but does not say so.
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
        // Why the collector does not take spans was logged.
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
    /// Shows no header: it may be a key.
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
                endpoint = %self.endpoint, spans, error, "spans are dropped: the collector does not take them"
            );
        }
    }
}

/// Sends what the exporter encodes. The exporter keeps the cause of a failure to itself ("network error").
#[derive(Debug)]
struct Collector {
    client: HttpClient,
    failure: Mutex<Option<String>>,
}

#[async_trait]
impl opentelemetry_http::HttpClient for Collector {
    /// Blocks: the thread of the processor has nothing else to do.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.send(request).map_err(|error| {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            error.into()
        })
    }
}

impl Collector {
    fn send(&self, request: Request<Bytes>) -> io::Result<Response<Bytes>> {
        let answer = self.client.call(request.map(Into::into), REQUEST_TIMEOUT)?;
        let mut response = Response::builder().status(answer.status);
        if let Some(headers) = response.headers_mut() {
            headers.clone_from(&answer.headers);
        }
        response.body(answer.text(MAX_ANSWER_BYTES)?.into()).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests;
