//! The first start on a long backlog: one slow worker and two fast ones find the same duplicates as a run in order.

use std::collections::BTreeMap;

use serde_json::json;

use crate::accounting::{Ledger, OutputKind, originals_are_delivered};
use crate::broker::{Broker, wait};
use crate::cluster::records::{Page, PageProducer, TopicReader};
use crate::cluster::{Cluster, Shape};
use crate::several_instances::Team;

const PARTITIONS: usize = 24;
const PAGES: usize = 8_400;
const HOUR: i64 = 3_600_000;
const WINDOW: i64 = HOUR;
/// Seven windows, long ago.
const BEGIN: i64 = 1_700_000_000_000;
const STEP: i64 = 7 * WINDOW / 8_400;

/// The slow worker is stopped except for one of this many checks of the outputs.
const PULSE: usize = 4;

/// Numbers that are the same in every run (Knuth's multiplier).
fn draw(number: usize, salt: u64) -> usize {
    let mixed = (number as u64 + 1)
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(salt.wrapping_mul(1_442_695_040_888_963_407));
    usize::try_from((mixed ^ (mixed >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34).unwrap()
}

/// The part of the backlog in a partition: of unequal density, some begin late, some end early.
fn partition_of(number: usize) -> usize {
    let window = number * 7 / PAGES;
    let is_there = |at: &usize| match at % 6 {
        4 => window < 3,
        5 => window >= 5,
        _ => true,
    };
    let places = (0..PARTITIONS).filter(is_there).flat_map(|at| std::iter::repeat_n(at, 1 + at % 8));
    let places: Vec<usize> = places.collect();
    places[draw(number, 1) % places.len()]
}

/// The text of each page, by the number of the first page with it: half of the pages are copies of some page within the
/// window.
fn texts() -> Vec<usize> {
    let age = usize::try_from(WINDOW / STEP).unwrap();
    let mut texts: Vec<usize> = Vec::new();
    for number in 0..PAGES {
        let copied = number.checked_sub(1 + draw(number, 2) % age).filter(|_| draw(number, 3).is_multiple_of(2));
        texts.push(copied.map_or(number, |copied| texts[copied]));
    }
    texts
}

/// Number of duplicates that a run in order finds: pages within the window of the latest original of their text.
fn duplicates_in_order(texts: &[usize]) -> usize {
    let mut originals: BTreeMap<usize, i64> = BTreeMap::new();
    let mut duplicates = 0;
    for (number, text) in texts.iter().enumerate() {
        let time = time(number);
        match originals.get(text) {
            Some(original) if time - original <= WINDOW => duplicates += 1,
            _ => drop(originals.insert(*text, time)),
        }
    }
    duplicates
}

fn time(number: usize) -> i64 {
    BEGIN + i64::try_from(number).unwrap() * STEP
}

fn page(number: usize, text: usize) -> Page {
    let words: Vec<String> = (0..60).map(|word| format!("w{text}x{word}")).collect();
    let value = json!({ "url": format!("https://site.example/{number}"), "text": words.join(" ") });
    let value = Some(value.to_string().into_bytes());
    Page { key: number.to_string(), value, timestamp: Some(time(number)), ..Page::default() }
}

#[test]
fn a_backlog_of_seven_windows_is_judged_in_order_by_workers_of_unequal_speed() {
    let _turn = crate::half_turn();
    let Some(broker) = Broker::shared() else { return };
    let config = json!({
        // Members keep their partitions while they are stopped, and while one is stopped.
        "kafka": { "consumer_properties": { "session.timeout.ms": 45_000 }, "producer_properties": { "transaction.timeout.ms": 20_000 } },
        "window": { "size": "1h", "allowed_lateness": "30m" },
    });
    let partitions = i32::try_from(PARTITIONS).unwrap();
    let shape = Shape { topics: 1, partitions, input_settings: &[], output_settings: &[], config };
    let cluster = Cluster::new(broker, shape);
    let join = |team: &mut Team<'_>| {
        team.join_as("slow", json!({ "roles": ["worker"], "input": { "instance_id": "slow" } }));
        ["fast-1", "fast-2"].into_iter().for_each(|name| team.join(name));
        team.wait_ready();
    };
    // Each has a third of the partitions before there is a page.
    let mut team = Team::new(&cluster);
    join(&mut team);
    let third = f64::from(partitions) / 3.0;
    let have_a_third = |team: &Team<'_>| team.members().all(|member| (member.partitions() - third).abs() < 0.5);
    wait::until("a third of the partitions for each worker", || have_a_third(&team).then_some(()));
    team.disband();

    let (producer, texts) = (PageProducer::new(broker), texts());
    for (number, text) in texts.iter().enumerate() {
        let partition = i32::try_from(partition_of(number)).unwrap();
        producer.write(&cluster.inputs()[0], partition, &page(number, *text));
    }
    producer.flush();

    let mut team = Team::new(&cluster);
    join(&mut team);
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    let mut checks = 0;
    out.wait_while(PAGES, || {
        let slow = team.member("slow");
        if checks % PULSE == 0 {
            slow.thaw();
        } else {
            slow.freeze();
        }
        checks += 1;
    });
    team.member("slow").thaw();
    let slow = team.member("slow").metric("dupgate_records_consumed_total", &[]);
    let fast = team.member("fast-1").metric("dupgate_records_consumed_total", &[]);
    team.disband();

    let outcomes = Ledger::read(&cluster).outcomes(1).unwrap();
    originals_are_delivered(&outcomes).unwrap();
    let found = outcomes.values().filter(|outcome| outcome.output_kind == OutputKind::Duplicate).count();
    let expected = duplicates_in_order(&texts);
    eprintln!("{found} of {expected} duplicates; the slow worker read {slow} pages, a fast one {fast}");
    assert!(slow > 0.0 && expected > PAGES / 3, "too few to prove anything: {expected} duplicates, {slow} pages read");
    assert!(found * 100 >= expected * 99, "{found} of {expected} duplicates");
}
