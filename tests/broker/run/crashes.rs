//! Workers and judges die and come back in the middle: every page ends once, and no page is a duplicate of itself.

use std::collections::{BTreeMap, BTreeSet};

use super::super::broker::{Broker, wait};
use super::instance::Site;
use super::text;
use super::topics::{Given, Got, committed, count, page, produce};

const PARTITIONS: i32 = 3;
const PAGES: u32 = 3000;

/// Every third page is a copy of an earlier one, most often from another partition.
fn pages(part: u32) -> Vec<Given> {
    let range = (part * PAGES)..((part + 1) * PAGES);
    range.map(|number| page(&text(if number % 3 == 2 { number / 2 } else { number }))).collect()
}

fn produce_all(site: &Site, part: u32) {
    for (number, chunk) in (0..PARTITIONS).zip(pages(part).chunks(1 + PAGES as usize / PARTITIONS as usize)) {
        produce(site.broker, &site.input, number, chunk);
    }
}

#[test]
fn every_page_ends_once_despite_crashes() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, PARTITIONS);
    let done = || count(broker, &site.unique) + count(broker, &site.duplicate);
    produce_all(&site, 0);
    let mut one = site.start("one");
    wait::until("the first pages", || (done() > 300).then_some(()));
    let mut two = site.start("two");
    wait::until("half of the pages", || (done() > 1500).then_some(()));
    one.kill();
    produce_all(&site, 1);
    wait::until("the first part and more", || (done() > 3300).then_some(()));
    let three = site.start("three");
    let one = site.start("one");
    wait::until("most pages", || (done() > 4500).then_some(()));
    two.kill();
    let all = 2 * PAGES as usize;
    // Ends of partitions include markers, so the records are read.
    let read_all = || {
        let read = (committed(broker, &site.unique, 1), committed(broker, &site.duplicate, 1));
        (read.0.len() + read.1.len() >= all).then_some(read)
    };
    wait::until("all pages", || (done() >= all).then(read_all).flatten());
    one.stop();
    three.stop();
    let (unique, duplicate) = wait::until("all pages once more", read_all);
    check(&site, &unique, &duplicate, all);
}

/// Laws L1, L3, L4 and L8, as seen by a reader of the outputs.
fn check(site: &Site, unique: &[Got], duplicate: &[Got], all: usize) {
    let source = |record: &Got| record.header("dupgate.source").concat();
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for record in unique.iter().chain(duplicate) {
        *ends.entry(source(record)).or_default() += 1;
    }
    let twice: Vec<_> = ends.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "ended more than once: {twice:?}");
    assert_eq!(ends.len(), all, "pages are missing in {}", site.input);
    let delivered: BTreeSet<String> = unique.iter().map(source).collect();
    for record in duplicate {
        let original = record.header("dupgate.match").concat();
        assert_ne!(original, source(record));
        assert!(delivered.contains(&original), "{original} is not delivered, but {} points to it", source(record));
    }
    let texts: BTreeSet<_> = unique.iter().map(|record| record.value.clone()).collect();
    assert_eq!(texts.len(), unique.len(), "two unique pages have the same text");
}
