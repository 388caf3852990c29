//! A judge with slow lookups gets more requests at once than it can judge within its transaction's timeout.
#![expect(clippy::disallowed_methods, reason = "the test measures time")]

use std::time::{Duration, Instant};

use dupgate::record::PartitionId;
use serde_json::json;

use crate::accounting::Ledger;
use crate::broker::{Broker, wait};
use crate::cluster::records::{Page, PageProducer};
use crate::cluster::{Cluster, Shape};

/// Pages that wait when the instance starts.
const PAGES: usize = 60_000;

/// Originals that the index holds. Every lookup compares with all of them, which makes it slow.
const ORIGINALS: usize = 2_500;

/// Minimum duration of a lookup for the test to prove anything.
const SLOW: Duration = Duration::from_millis(1);

/// One template with other numbers on every page: all pages share most keys, and each one is an original.
fn page(number: usize) -> Page {
    let numbers: Vec<String> = (0..8).map(|column| (number * 8 + column + 10_000).to_string()).collect();
    let text = format!(
        "The county publishes the readings of its eight gauges every hour of the day and asks readers to compare them with \
         the long table in the annual report: {} Readings above the line are printed in bold letters, readings that are \
         missing are marked with a star, and all of them may be corrected later by the office.",
        numbers.join(" ")
    );
    let value = json!({ "url": format!("https://gauges.example/{number}"), "text": text });
    Page { key: number.to_string(), value: Some(value.to_string().into()), ..Page::default() }
}

/// The upper bounds of a histogram's buckets, in ascending order, with the number of values up to each.
fn buckets(exposition: &str, name: &str) -> Vec<(f64, f64)> {
    let prefix = format!("{name}_bucket{{");
    let lines = exposition.lines().filter_map(|line| line.strip_prefix(&prefix));
    let bucket = |line: &str| {
        let (labels, count) = line.rsplit_once(' ').expect("a value");
        let bound = labels.split_once("le=\"").and_then(|(_, rest)| rest.split_once('"')).expect("a bound").0;
        (bound.parse().expect("a number or +Inf"), count.parse().expect("a number"))
    };
    lines.map(bucket).collect()
}

/// The bounds of the bucket that holds a quantile.
fn quantile(buckets: &[(f64, f64)], share: f64) -> (f64, f64) {
    let rank = buckets.last().expect("buckets").1 * share;
    let at = buckets.iter().position(|(_, count)| *count >= rank).expect("the last bucket holds all");
    (at.checked_sub(1).map_or(0.0, |below| buckets[below].0), buckets[at].0)
}

#[test]
fn a_quantile_is_in_the_first_bucket_that_reaches_its_rank() {
    let text = "a_bucket{le=\"0.5\"} 1\na_bucket{le=\"1\"} 98\na_bucket{le=\"+Inf\"} 100\nb_bucket{le=\"1\"} 7\n";
    let buckets = buckets(text, "a");
    assert_eq!(buckets, [(0.5, 1.0), (1.0, 98.0), (f64::INFINITY, 100.0)]);
    assert_eq!(
        [0.01, 0.5, 0.99].map(|share| quantile(&buckets, share)),
        [(0.0, 0.5), (0.5, 1.0), (1.0, f64::INFINITY)]
    );
}

#[test]
#[ignore = "takes minutes; make test-failover runs it"]
fn a_slow_judge_survives_a_burst_without_being_fenced() {
    let _turn = crate::turn();
    let Some(broker) = Broker::private() else { return };
    let config = json!({
        "index": { "max_entries": ORIGINALS },
        // No limit: a family of n pages costs n comparisons.
        "match": { "same_site": null, "minhash": { "max_bucket": 0 } },
        "processing": { "max_in_flight_bytes": "1GiB" },
    });
    let cluster =
        Cluster::new(&broker, Shape { topics: 1, partitions: 2, input_settings: &[], output_settings: &[], config });
    let producer = PageProducer::new(&broker);
    for number in 0..PAGES {
        producer.write(&cluster.inputs()[0], i32::from(number % 2 == 1), &page(number));
        if number % 10_000 == 0 {
            producer.flush();
        }
    }
    producer.flush();

    let mut instance = cluster.start("one");
    let began = Instant::now();
    instance.wait_ready();
    let is_done = || {
        assert!(instance.metric("dupgate_judge_takeovers_total", &[]) <= 1.0, "{}", instance.log());
        (cluster.lag() == 0).then_some(())
    };
    wait::within(Duration::from_mins(30), "all pages to be judged", is_done);
    let burst = began.elapsed();

    let lookups = instance.metric("dupgate_stage_duration_seconds_count", &["stage=\"lookup\""]);
    let spent = instance.metric("dupgate_stage_duration_seconds_sum", &["stage=\"lookup\""]);
    let mean = Duration::from_secs_f64(spent / lookups);
    let judged = instance.metric("dupgate_judge_wait_seconds_count", &[]);
    let waited = Duration::from_secs_f64(instance.metric("dupgate_judge_wait_seconds_sum", &[]) / judged);
    let buckets = buckets(&instance.metrics(), "dupgate_judge_wait_seconds");
    let p99 = quantile(&buckets, 0.99);
    eprintln!(
        "{lookups} lookups of {mean:.2?} each in {burst:.0?}; a request waited {waited:.1?} for the judge in the mean, 99 % \
         of them at least {p99:?} s"
    );
    // A request that is read twice is judged once and waits twice.
    assert!(judged >= f64::from(u32::try_from(PAGES).expect("few pages")), "{judged} requests have waited");
    assert!(waited > mean && waited < burst, "{waited:?} of {burst:?}");
    assert!(p99.0 < burst.as_secs_f64() && waited.as_secs_f64() < p99.1, "{p99:?}: {buckets:?}");
    assert!(mean >= SLOW, "a lookup took {mean:?} only: this proves nothing");
    let takeovers = instance.metric("dupgate_judge_takeovers_total", &[]);
    assert!((takeovers - 1.0).abs() < 0.5, "the judge took over {takeovers} times");
    for kind in ["fenced", "abortable", "fatal"] {
        let label = format!("kind=\"{kind}\"");
        assert!(instance.metric("dupgate_errors_total", &[&label]) < 0.5, "{kind}: {}", instance.log());
    }
    instance.stop();
    let outcomes = Ledger::read(&cluster).outcomes(1).expect("each page comes out once (L1)");
    let last = PartitionId::new(cluster.inputs()[0].as_str(), 1).at(i64::try_from(PAGES / 2 - 1).expect("few pages"));
    assert!(outcomes.contains_key(&last));
}
