//! Handing spans to a collector: OTLP as JSON over plain HTTP, on a thread of its own.
//!
//! Nothing waits for it. What a collector that is slow or away does not take is dropped, counted
//! (`dupgate_errors_total{component="traces"}`) and told once a minute.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::http::{Request, header};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::Metrics;
use super::http_client::call;
use super::labels::{Component, ErrorKind};
use super::spans::{Span, request};
use crate::config::Endpoint;

/// Spans that wait at the most.
const MAX_WAITING: usize = 4096;

/// Spans in one request.
const BATCH: usize = 512;

/// How long spans are gathered.
const GATHER: Duration = Duration::from_secs(1);

/// How long a collector may be silent.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it is told that spans are dropped.
const WARN_INTERVAL: Duration = Duration::from_mins(1);

/// The end that spans are handed to. When it is dropped, what waits is sent first.
pub struct Traces {
    spans: Option<Sender<Span>>,
    thread: Option<JoinHandle<()>>,
    metrics: Metrics,
}

impl Traces {
    /// Starts the thread. `resource` says who speaks.
    ///
    /// # Errors
    ///
    /// When there is no thread to be had.
    pub fn start(
        endpoint: Endpoint,
        resource: Vec<(&'static str, String)>,
        metrics: Metrics,
        now: impl Fn() -> Instant + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, spans) = bounded(MAX_WAITING);
        let mut exporter = Exporter { endpoint, resource, metrics: metrics.clone(), complained: None, now };
        let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(move || exporter.run(&spans))?;
        Ok(Self { spans: Some(sender), thread: Some(thread), metrics })
    }

    /// Hands a span over; drops it when too many wait.
    pub fn offer(&self, span: Span) {
        if self.spans.as_ref().is_some_and(|spans| spans.try_send(span).is_err()) {
            self.metrics.error(Component::Traces, ErrorKind::Io);
        }
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        drop(self.spans.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Exporter<N> {
    endpoint: Endpoint,
    resource: Vec<(&'static str, String)>,
    metrics: Metrics,
    complained: Option<Instant>,
    now: N,
}

impl<N: Fn() -> Instant> Exporter<N> {
    fn run(&mut self, spans: &Receiver<Span>) {
        while let Ok(first) = spans.recv() {
            let mut batch = vec![first];
            let until = (self.now)() + GATHER;
            while batch.len() < BATCH {
                match spans.recv_deadline(until) {
                    Ok(span) => batch.push(span),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                }
            }
            if let Err(error) = self.send(&batch) {
                self.dropped(batch.len(), &error);
            }
        }
    }

    fn dropped(&mut self, spans: usize, error: &io::Error) {
        (0..spans).for_each(|_| self.metrics.error(Component::Traces, ErrorKind::Io));
        let now = (self.now)();
        if self.complained.is_none_or(|before| now.saturating_duration_since(before) > WARN_INTERVAL) {
            self.complained = Some(now);
            tracing::warn!(endpoint = %self.endpoint, spans, %error, "spans are dropped: the collector does not take them");
        }
    }

    fn send(&self, spans: &[Span]) -> io::Result<()> {
        let Endpoint { host, port, path } = &self.endpoint;
        let body = request(&self.resource, spans).to_string();
        let posted = Request::post(path).header(header::CONTENT_TYPE, "application/json").body(body);
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match call(bare, *port, posted.map_err(io::Error::other)?, REQUEST_TIMEOUT)?.status {
            200..300 => Ok(()),
            status => Err(io::Error::other(format!("it answers {status}"))),
        }
    }
}

#[cfg(test)]
mod tests;
