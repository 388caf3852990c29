//! `demo produce`: writes the generated crawl to the topics of a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::tick;

use super::ProduceArgs;
use crate::cli::Global;
use crate::cli::progress_bar::ProgressDisplay;
use crate::config::Purpose;
use crate::config::settings::Topics;
use crate::crawl::Truth;
use crate::error::{Fatal, Reason};
use crate::kafka::client::{BATCH_BYTES, ProducerSettings};
use crate::kafka::page_producer::{Page, PageProducer};
use crate::runtime::context;
use crate::service;

/// Interval between two bursts of pages.
const BURST: Duration = Duration::from_millis(20);
const BURSTS_A_SECOND: f64 = 50.0;

/// Writes the requested number of pages at the requested rate.
pub(super) fn produce(args: &ProduceArgs, global: &Global) -> Result<(), Fatal> {
    let settings = global.with(Vec::new(), &args.brokers).start(Purpose::Sieve)?.settings;
    if settings.kafka.brokers.is_empty() {
        return Err(Reason::Usage.because(anyhow::anyhow!("no brokers: set --brokers or kafka.brokers")));
    }
    let topics = match &settings.input.topics {
        _ if !args.topic.is_empty() => args.topic.clone(),
        Topics::Names(names) if !names.is_empty() => names.clone(),
        Topics::Names(_) | Topics::Pattern(_) => {
            return Err(Reason::Usage.because(anyhow::anyhow!("no topic: set --topic or input.topics")));
        }
    };
    let failed = Arc::new(AtomicU64::new(0));
    let count_failed = Arc::clone(&failed);
    let producer = ProducerSettings {
        compression: "zstd".to_owned(),
        max_record_bytes: 1 << 20,
        max_batch_bytes: BATCH_BYTES,
        transaction_timeout: settings.kafka.transaction_timeout,
    };
    let config = context::connection(&settings.kafka).output_producer(&producer);
    let producer = PageProducer::open(&config, move |(key, place)| {
        if let Err(error) = place {
            count_failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(target: "dupgate::cli", key, %error, "a page could not be written");
        }
    })
    .map_err(|error| Reason::Unavailable.because(error))?;

    // If the process is PID 1 of a container, a signal without a handler would not end it.
    let signals = service::signals()?;
    let progress = ProgressDisplay::new(args.count, template(args.count));
    let bursts = tick(BURST);
    let (mut credit, mut written) = (0.0, 0_u64);
    let count = args.count.unwrap_or(u64::MAX);
    let crawl = args.crawl.crawl(topics.len())?;
    for page in crawl.take(usize::try_from(count).unwrap_or(usize::MAX)) {
        if signals.try_recv().is_ok() {
            break;
        }
        while args.rate > 0.0 && credit < 1.0 {
            // The ticker lives as long as this loop.
            let _ = bursts.recv();
            credit += args.rate / BURSTS_A_SECOND;
        }
        credit -= 1.0;
        let Some(topic) = topics.get(page.topic) else { continue };
        let truth = page.truth.to_string();
        let record = Page { topic, key: &page.key, value: &page.value, header: (Truth::HEADER, &truth) };
        producer.write(record).map_err(|error| Reason::Unavailable.because(error))?;
        written += 1;
        if let Some(bar) = progress.bar() {
            bar.set_position(written);
        }
    }
    progress.finish();
    producer.flush().map_err(|error| Reason::Unavailable.because(error))?;
    let failed = failed.load(Ordering::Relaxed);
    tracing::info!(target: "dupgate::cli", written, failed, "crawl written");
    if failed > 0 {
        return Err(Reason::Failure.because(anyhow::anyhow!("{failed} of {written} pages could not be written")));
    }
    Ok(())
}

/// Returns the template of the progress bar. It shows the pages written and, if their number is known, the time left.
const fn template(count: Option<u64>) -> &'static str {
    match count {
        Some(_) => "produce {bar:28} {percent:>3} %  {human_pos} pages  {per_sec}  left {eta}",
        None => "produce {spinner} {human_pos} pages  {per_sec}",
    }
}
