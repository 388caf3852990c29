//! Feeds the service of the demo, but never far ahead of its outputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};

use crate::crawl::{Crawl, Truth};
use crate::error::{Fatal, Reason};
use crate::kafka::client::ClientSettings;
use crate::kafka::page_producer::{Page, PageProducer};
use crate::record::Source;

/// A message from the feeder to the watcher.
pub(super) enum Fed {
    /// A page is about to be written: its key and its truth.
    Planted(String, Truth),
    /// A page was written: its key and its position.
    Written(String, Source),
    /// A page could not be written.
    Failed(String),
}

/// Shared state of the threads of the demo.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Whether feeding should stop.
    pub(super) stop: AtomicBool,
    /// Pages written.
    pub(super) fed: AtomicU64,
}

impl Shared {
    /// Returns whether the feeder is to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks the feeder to stop.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// How long the feeder waits for outputs before it checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Writes page after page, at most `ahead` bytes ahead of the outputs seen, until it is asked to stop.
pub(super) fn feed(
    crawl: Crawl,
    topics: &[String],
    config: &ClientSettings,
    ahead: u64,
    shared: &Arc<Shared>,
    fed_sender: &Sender<Fed>,
    seen: &Receiver<u64>,
) -> Result<(), Fatal> {
    let sink = fed_sender.clone();
    let producer = PageProducer::open(config, move |(key, place)| {
        let fed = match place {
            Ok(source) => Fed::Written(key, source),
            Err(error) => Fed::Failed(format!("{key}: {error}")),
        };
        // The watcher ends last. Once it has, the message is not needed.
        let _ = sink.send(fed);
    })
    .map_err(|error| Reason::Failure.because(error))?;
    let mut on_their_way = 0_u64;
    for page in crawl {
        on_their_way = seen.try_iter().fold(on_their_way, u64::saturating_sub);
        while on_their_way > ahead && !shared.is_stopping() {
            on_their_way = on_their_way.saturating_sub(seen.recv_timeout(POLL_INTERVAL).unwrap_or(0));
        }
        if shared.is_stopping() {
            break;
        }
        let Some(topic) = topics.get(page.topic) else { continue };
        let truth = page.truth.to_string();
        let _ = fed_sender.send(Fed::Planted(page.key.clone(), page.truth));
        on_their_way += u64::try_from(page.value.len()).unwrap_or(0);
        let record = Page { topic, key: &page.key, value: &page.value, header: (Truth::HEADER, &truth) };
        producer.write(record).map_err(|error| Reason::Failure.because(error))?;
        shared.fed.fetch_add(1, Ordering::Relaxed);
    }
    producer.flush().map_err(|error| Reason::Failure.because(error))
}
