//! When the judges trim their logs, as brokers show it: the first record of a log moves on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::MetadataTopic;

use crate::broker::Broker;
use crate::cluster::Cluster;

/// The logs of a scheme: names of their topics without what all have in common.
const KINDS: [&str; 2] = ["fingerprints", "verdicts"];

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time-out of a broker: one may be stalled.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What is known of a log.
#[derive(Clone, Copy)]
struct Log {
    /// Offset of its first record.
    first: i64,
    /// When it was seen to be trimmed last, or when it was seen first.
    since: Instant,
}

/// The trims of both logs of the newest scheme.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trims {
    /// Number of times that a log was trimmed.
    pub(super) times: u32,
    /// The longest time that a log was not trimmed, or, at its beginning, has existed without.
    pub(super) longest: Duration,
    /// The same at the end of the watch: the age of the last trim.
    pub(super) last: Duration,
}

/// Looks at the logs until it is ended.
pub(super) struct TrimWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Trims>>,
}

impl TrimWatch {
    pub(super) fn start(broker: &Broker, cluster: &Cluster<'_>) -> Self {
        let client: BaseConsumer = broker.client().create().expect("a client");
        let (prefixes, stop) = (KINDS.map(|kind| cluster.log_prefix(kind)), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = prefixes.map(|prefix| Seen { prefix, names: BTreeSet::new(), newest: None });
            let mut trims = Trims::default();
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(INTERVAL);
                seen.iter_mut().for_each(|log| log.look(&client, &mut trims));
            }
            let ages = seen.iter().filter_map(|log| Some(log.newest.as_ref()?.1.since.elapsed()));
            Trims { last: ages.max().unwrap_or_default(), ..trims }
        });
        Self { stop, thread: Some(thread) }
    }

    pub(super) fn end(mut self) -> Trims {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("a thread");
        thread.thread().unpark();
        thread.join().expect("the watch ends well")
    }
}

impl Drop for TrimWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The logs of a kind, one for each scheme; the newest is watched.
struct Seen {
    prefix: String,
    names: BTreeSet<String>,
    newest: Option<(String, Log)>,
}

impl Seen {
    fn look(&mut self, client: &BaseConsumer, trims: &mut Trims) {
        let Ok(metadata) = client.fetch_metadata(None, TIMEOUT) else { return };
        let names = metadata.topics().iter().map(MetadataTopic::name).filter(|name| name.starts_with(&self.prefix));
        let now = Instant::now();
        for name in names {
            if self.names.insert(name.to_owned()) {
                self.newest = Some((name.to_owned(), Log { first: 0, since: now }));
            }
        }
        let Some((name, log)) = &mut self.newest else { return };
        // It may be deleted at the moment, or its leader stalled.
        let Ok((first, _)) = client.fetch_watermarks(name, 0, TIMEOUT) else { return };
        trims.longest = trims.longest.max(log.since.elapsed());
        if first > log.first {
            trims.times += 1;
        }
        if first != log.first {
            *log = Log { first, since: Instant::now() };
        }
    }
}
