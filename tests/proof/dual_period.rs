//! A change of the scheme in the middle of a crawl, instance by instance: no duplicate is missed, in no quarter of the
//! window after it, nor when the new scheme decides alone.

use std::time::Duration;

use dupgate::crawl::{Crawl, CrawlSettings};
use serde_json::{Value, json};

use crate::accounting::{Ledger, OutputKind, originals_are_delivered};
use crate::broker::Broker;
use crate::cluster::records::{PageProducer, TopicReader};
use crate::cluster::{Cluster, Shape};
use crate::several_instances::Team;
use crate::warm::{PARTITIONS, number, output_kinds, schemes, write};

/// Most pages between an original and its copy.
const REACH: u64 = 1_100;

/// Pages in a window: one has passed a second after the other.
const WINDOW: u64 = 2_400;

/// Pages before the change.
const BEFORE: u64 = 2_000;

/// Pages that the new scheme judges alone before the end.
const ALONE: u64 = 900;

fn pages() -> Crawl {
    let settings = CrawlSettings {
        seed: 29,
        html: 0.0,
        exact: 0.35,
        near: 0.05,
        topics: 1,
        bytes: 200..=900,
        reach: REACH,
        step: Duration::from_secs(1),
        ..CrawlSettings::default()
    };
    Crawl::new(settings).unwrap()
}

/// The schemes differ in the width of codes.
fn scheme(bits: u32) -> Value {
    json!({ "match": { "simhash": { "bits": bits } } })
}

/// Writes the crawl, as fast as it is delivered.
struct Feed<'b> {
    producer: PageProducer,
    topic: &'b str,
    pages: Crawl,
    written: u64,
}

impl Feed<'_> {
    fn write(&mut self, count: u64) {
        for planted in (self.written..self.written + count).map(|number| self.pages.page(number)) {
            write(&self.producer, self.topic, planted);
        }
        self.producer.flush();
        self.written += count;
    }

    fn deliver(&mut self, count: u64, team: &mut Team<'_>, out: &mut TopicReader) {
        self.write(count);
        team.deliver(out, usize::try_from(self.written).unwrap());
    }
}

#[test]
fn a_change_of_the_scheme_misses_no_duplicate_in_the_dual_period_nor_after_it() {
    let _turn = crate::half_turn();
    let Some(broker) = Broker::shared() else { return };
    let config = json!({
        "window": { "size": format!("{WINDOW}s"), "allowed_lateness": "2m", "max_future_skew": "1m" },
        "judge": { "checkpoint_interval_records": 200 },
    });
    let shape = Shape { topics: 1, partitions: PARTITIONS, input_settings: &[], output_settings: &[], config };
    let cluster = Cluster::new(broker, shape);
    let mut team = Team::new(&cluster);
    ["old-a", "old-b"].iter().for_each(|name| team.join_as(name, scheme(64)));
    team.wait_ready();
    let mut feed =
        Feed { producer: PageProducer::new(broker), topic: &cluster.inputs()[0], pages: pages(), written: 0 };
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    feed.deliver(BEFORE, &mut team, &mut out);
    // The judge is replaced last: meanwhile pages are judged by both schemes, or by the old one alone.
    let judge = team.judge();
    let other = if judge == "old-a" { "old-b" } else { "old-a" };
    let mut changed = scheme(128);
    changed["previous"] = scheme(64);
    for (new, old) in [("new-a", other), ("new-b", judge.as_str())] {
        feed.write(100);
        team.join_as(new, changed.clone());
        feed.write(100);
        team.wait_until_ready(new);
        feed.write(100);
        team.leave(old);
    }
    let over = |team: &Team<'_>, name| team.member(name).log().contains("the dual period is over");
    while !(over(&team, "new-a") && over(&team, "new-b")) {
        assert!(feed.written < BEFORE + 3 * WINDOW, "the dual period has no end");
        feed.deliver(200, &mut team, &mut out);
    }
    let alone_from = feed.written;
    feed.deliver(ALONE, &mut team, &mut out);
    let written = feed.written;
    team.disband();

    // Nothing is lost, nothing arrives twice, and every duplicate points to a page in the unique topic.
    let ledger = Ledger::read(&cluster);
    let outcomes = ledger.outcomes(1).unwrap();
    originals_are_delivered(&outcomes).unwrap();
    let schemes = schemes(&cluster);
    assert_eq!(schemes.len(), 2, "{schemes:?}");
    let first = schemes.values().map(|numbers| numbers.start).max().unwrap();
    let output_kinds = output_kinds(&ledger, &outcomes);
    // Found and planted copies: before, in the quarters of the window after the change, in the rest of the period, alone.
    let mut found = [(0_u32, 0_u32); 7];
    let crawl = pages();
    for (&at, &output_kind) in &output_kinds {
        let planted = crawl.page(at);
        let Some(original) = planted.truth.original().filter(|_| at >= REACH) else { continue };
        let part = match at.checked_sub(first) {
            None => 0,
            Some(_) if at >= alone_from => 6,
            Some(since) => 1 + usize::try_from(since * 4 / WINDOW).unwrap().min(4),
        };
        // Partitions are read in parallel: if the copy comes first, its original is the duplicate.
        let is_swapped = output_kinds[&number(Some(original.as_bytes()))] == OutputKind::Duplicate;
        found[part].0 += u32::from(output_kind == OutputKind::Duplicate || is_swapped);
        found[part].1 += 1;
    }
    let shares = found.map(|(found, planted)| f64::from(found) / f64::from(planted.max(1)));
    eprintln!("{written} pages, {schemes:?}, alone from {alone_from}: {found:?}, {shares:.3?}");
    assert!(found.iter().all(|(_, planted)| *planted > 80), "too few to prove anything: {found:?}");
    assert!(shares[0] > 0.95, "{shares:?}");
    assert!(shares.iter().all(|share| *share >= 0.99 * shares[0]), "{shares:?}");
}
