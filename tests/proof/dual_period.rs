//! A change of the scheme in the middle of a crawl, by a release with new text code and another setting, instance by
//! instance: no duplicate is missed, in no quarter of the window after it, nor when the new scheme decides alone, nor after a
//! change back.

use std::time::Duration;

use dupgate::crawl::{Crawl, CrawlSettings};
use dupgate::text;
use serde_json::{Value, json};

use crate::accounting::{Ledger, OutputKind, originals_are_delivered};
use crate::broker::Broker;
use crate::cluster::records::{PageProducer, TopicReader};
use crate::cluster::{Cluster, Shape};
use crate::several_instances::Team;
use crate::warm::{PARTITIONS, number, output_kinds, write};

/// Most pages between an original and its copy.
const REACH: u64 = 1_100;

/// Pages in a window: one has passed a second after the other.
const WINDOW: u64 = 2_400;

/// Pages before the change.
const BEFORE: u64 = 2_000;

/// Pages written before the next ones wait for their delivery: fewer seconds than pages may be late.
const STEP: u64 = 100;

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

/// The settings of a release before this one, and of this one: codes are wider, too.
fn schemes() -> [Value; 2] {
    let before = json!({ "text": { "version": text::VERSIONS.start() }, "match": { "simhash": { "bits": 64 } } });
    let now = json!({ "match": { "simhash": { "bits": 128 } }, "previous": &before });
    [before, now]
}

/// A crawl through a fleet whose instances change.
struct Change<'c> {
    cluster: &'c Cluster<'c>,
    team: Team<'c>,
    out: TopicReader,
    producer: PageProducer,
    pages: Crawl,
    written: u64,
}

impl<'c> Change<'c> {
    /// Two instances deliver the first pages.
    fn start(cluster: &'c Cluster<'c>, scheme: &Value) -> Self {
        let mut team = Team::new(cluster);
        ["a-1", "b-1"].iter().for_each(|name| team.join_as(name, scheme.clone()));
        team.wait_ready();
        let (out, producer) = (outputs(cluster), PageProducer::new(cluster.broker()));
        let mut change = Self { cluster, team, out, producer, pages: pages(), written: 0 };
        change.deliver(BEFORE);
        change
    }

    /// Writes pages as fast as they are delivered.
    fn write(&mut self, count: u64) {
        for planted in (self.written..self.written + count).map(|number| self.pages.page(number)) {
            write(&self.producer, &self.cluster.inputs()[0], planted);
        }
        self.producer.flush();
        self.written += count;
    }

    /// Writes pages, and waits until they are delivered, a few at a time: partitions that no instance reads for a moment must
    /// not come after a whole window of the others.
    fn deliver(&mut self, count: u64) {
        for _ in 0..count / STEP {
            self.write(STEP);
            self.team.deliver(&mut self.out, usize::try_from(self.written).unwrap());
        }
    }

    /// Replaces both instances, the judge last: meanwhile pages are judged by both schemes, or by the old one alone.
    fn replace(&mut self, [from, to]: [u32; 2], scheme: &Value) {
        let judge = self.team.judge();
        let mut names = ["a", "b"];
        names.sort_by_key(|name| judge.starts_with(name));
        for name in names {
            let new = format!("{name}-{to}");
            self.write(100);
            self.team.join_as(&new, scheme.clone());
            self.write(100);
            self.team.wait_until_ready(&new);
            self.write(100);
            self.team.leave(&format!("{name}-{from}"));
        }
    }

    /// Ends the crawl. Nothing is lost, nothing arrives twice, every duplicate points to a page in the unique topic, and of
    /// the copies as large a share is found in each part of the crawl as in the first. `ends` has the ends of the parts but
    /// the last.
    fn check(self, ends: &[u64]) {
        self.team.disband();
        let ledger = Ledger::read(self.cluster);
        let outcomes = ledger.outcomes(1).unwrap();
        originals_are_delivered(&outcomes).unwrap();
        assert_eq!(crate::warm::schemes(self.cluster).len(), 2);
        let output_kinds = output_kinds(&ledger, &outcomes);
        let mut found = vec![(0_u32, 0_u32); ends.len() + 1];
        for (&at, &output_kind) in &output_kinds {
            let planted = self.pages.page(at);
            let Some(original) = planted.truth.original().filter(|_| at >= REACH) else { continue };
            let part = &mut found[ends.partition_point(|end| *end <= at)];
            // Partitions are read in parallel: if the copy comes first, its original is the duplicate.
            let is_swapped = output_kinds[&number(Some(original.as_bytes()))] == OutputKind::Duplicate;
            part.0 += u32::from(output_kind == OutputKind::Duplicate || is_swapped);
            part.1 += 1;
        }
        let shares: Vec<f64> =
            found.iter().map(|(found, planted)| f64::from(*found) / f64::from(*planted.max(&1))).collect();
        eprintln!("{} pages, parts end at {ends:?}: {found:?}, {shares:.3?}", self.written);
        assert!(found.iter().all(|(_, planted)| *planted > 80), "too few to prove anything: {found:?}");
        assert!(shares[0] > 0.95, "{shares:?}");
        assert!(shares.iter().all(|share| *share >= 0.99 * shares[0]), "{shares:?}");
    }
}

fn outputs(cluster: &Cluster<'_>) -> TopicReader {
    TopicReader::open(cluster.broker(), &[cluster.unique(), cluster.duplicate(), cluster.dead()])
}

fn shape() -> Shape<'static> {
    let config = json!({
        "window": { "size": format!("{WINDOW}s"), "allowed_lateness": "2m", "max_future_skew": "1m" },
        "judge": { "checkpoint_interval_records": 200 },
    });
    Shape { topics: 1, partitions: PARTITIONS, input_settings: &[], output_settings: &[], config }
}

/// The ends of the quarters of the window that begins at a page.
fn quarters(first: u64) -> [u64; 4] {
    [1, 2, 3, 4].map(|quarter| first + WINDOW * quarter / 4)
}

/// Takes a crawl through the change to the scheme of now, and what `after` does then; that returns the ends of the parts of
/// the crawl that follow, but the last. In no part may duplicates be missed.
fn through_a_change(after: impl FnOnce(&mut Change<'_>, &Value, u64) -> Vec<u64>) {
    let _turn = crate::half_turn();
    let Some(broker) = Broker::shared() else { return };
    let (cluster, [before, now]) = (Cluster::new(broker, shape()), schemes());
    let mut change = Change::start(&cluster, &before);
    let changed = change.written;
    change.replace([1, 2], &now);
    let ends = after(&mut change, &before, changed);
    change.check(&[vec![changed], ends].concat());
}

#[test]
fn a_change_of_the_scheme_misses_no_duplicate_in_the_dual_period_nor_after_it() {
    through_a_change(|change, _, changed| {
        let names = ["a-2", "b-2"];
        let remaining = |change: &Change<'_>| {
            names.map(|name| change.team.member(name).metric("dupgate_dual_period_remaining_seconds", &[]))
        };
        assert!(remaining(change).iter().all(|seconds| *seconds > 0.0));
        let is_over = |change: &Change<'_>| {
            names.iter().all(|name| change.team.member(name).log().contains("the dual period is over"))
        };
        while !is_over(change) {
            assert!(change.written < BEFORE + 3 * WINDOW, "the dual period has no end");
            change.deliver(2 * STEP);
        }
        let alone_from = change.written;
        change.deliver(ALONE);
        assert!(remaining(change).iter().all(|seconds| *seconds == 0.0));
        [&quarters(changed)[..], &[alone_from]].concat()
    });
}

#[test]
fn a_change_back_in_the_dual_period_misses_no_duplicate() {
    through_a_change(|change, before, _| {
        change.deliver(WINDOW / 4);
        let back = change.written;
        change.replace([2, 3], before);
        change.deliver(WINDOW);
        [&[back], &quarters(back)[..3]].concat()
    });
}
