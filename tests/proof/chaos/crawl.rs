//! The crawl: pages, copies and hostile records, written all the time.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use dupgate::clock::wall_time;

use super::{PARTITIONS, TOPICS};
use crate::bad_input::hostile_records;
use crate::broker::wait;
use crate::cluster::Cluster;
use crate::cluster::records::PageProducer;
use crate::flow::page;

/// Time between two pages, over all partitions.
const BEAT: Duration = Duration::from_millis(20);

/// One page in this many is a copy, and one in this many is hostile.
const COPIES: u32 = 7;
const HOSTILE: u32 = 11;

/// A copy has the text of the page this many before it, which is in the same partition and so judged before it. 6 s: most
/// copies and originals are judged by different judges.
const COPIED: u32 = 18 * 17;

/// How far a crawler's clock is ahead: brokers accept an hour.
const AHEAD: Duration = Duration::from_mins(50);

/// The crawl: writes a page every [`BEAT`], to the partitions of all topics in turn.
#[derive(Default)]
pub(super) struct Crawl {
    is_over: AtomicBool,
    /// Whether nothing is to be written for now, and whether the writer has stored everything and waits.
    is_held: AtomicBool,
    is_still: AtomicBool,
    /// Whether the last topic is gone.
    is_dropped: AtomicBool,
    /// Whether the clock is ahead.
    is_ahead: AtomicBool,
    written: AtomicU32,
}

impl Crawl {
    pub(super) fn write(&self, cluster: &Cluster<'_>) {
        let mut producer = PageProducer::new(cluster.broker());
        let hostile = hostile_records();
        let (start, mut held) = (Instant::now(), Duration::ZERO);
        for number in 0_u32.. {
            if self.is_over.load(Ordering::SeqCst) {
                break;
            }
            if self.is_held.load(Ordering::SeqCst) {
                let since = Instant::now();
                producer.flush();
                self.is_still.store(true, Ordering::SeqCst);
                wait::until("the crawl to go on", || (!self.is_held.load(Ordering::SeqCst)).then_some(()));
                self.is_still.store(false, Ordering::SeqCst);
                // A client may ask the former leaders of a topic that was created again (librdkafka issue 4898).
                producer = PageProducer::new(cluster.broker());
                held += since.elapsed();
            }
            let places = u32::try_from(PARTITIONS).unwrap() * u32::try_from(TOPICS).unwrap();
            let place = usize::try_from(number % places).unwrap();
            let (topic, partition) = (place % TOPICS, i32::try_from(place / TOPICS).unwrap());
            if topic == TOPICS - 1 && self.is_dropped.load(Ordering::SeqCst) {
                continue;
            }
            let mut page = if number % HOSTILE == 0 {
                let kind = usize::try_from(number / HOSTILE).unwrap() % hostile.len();
                hostile[kind].clone()
            } else {
                page(number, COPIES, COPIED)
            };
            if self.is_ahead.load(Ordering::SeqCst) {
                page.timestamp = Some(wall_time().plus(AHEAD).millis());
            }
            producer.write(&cluster.inputs()[topic], partition, &page);
            self.written.fetch_add(1, Ordering::SeqCst);
            std::thread::park_timeout((start + held + BEAT * number).saturating_duration_since(Instant::now()));
        }
        producer.flush();
    }

    /// Number of pages written so far.
    pub(super) fn written(&self) -> usize {
        usize::try_from(self.written.load(Ordering::SeqCst)).unwrap()
    }

    /// Ends the crawl.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.go_on();
    }

    /// Waits until everything is stored; then nothing is written until [`Crawl::go_on`].
    pub(super) fn hold(&self) {
        self.is_held.store(true, Ordering::SeqCst);
        wait::until("the crawl to pause", || self.is_still.load(Ordering::SeqCst).then_some(()));
    }

    pub(super) fn go_on(&self) {
        self.is_held.store(false, Ordering::SeqCst);
    }

    /// From now on, nothing is written to the last topic.
    pub(super) fn drop_the_last_topic(&self) {
        self.is_dropped.store(true, Ordering::SeqCst);
    }

    /// Sets the clock [`AHEAD`], or right again.
    pub(super) fn set_ahead(&self, is_ahead: bool) {
        self.is_ahead.store(is_ahead, Ordering::SeqCst);
    }
}
