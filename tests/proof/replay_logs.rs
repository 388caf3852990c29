//! Replays in the order of special logs: of several judges, trimmed, under changing rules.

use std::collections::BTreeSet;
use std::ops::Range;

use dupgate::crawl::{Crawl, CrawlSettings};
use dupgate::protocol::VerdictRecord;
use dupgate::record::Source;
use serde_json::{Value, json};

use crate::accounting::Ledger;
use crate::broker::{Broker, wait};
use crate::cluster::records::{Page, PageProducer, TopicReader};
use crate::cluster::{Cluster, Shape};
use crate::judge_alone::decode_verdicts;
use crate::replay::{Running, ask, expected_verdicts, refused, run_with_kills, shadow, status, verdicts_by_page};
use crate::restore;
use crate::several_instances::Team;

/// Writes pages of a generated crawl that belong to five tenants in turn, evenly over the partitions.
fn crawl_of_tenants(cluster: &Cluster<'_>, pages: Range<usize>, partitions: u64) {
    let settings = CrawlSettings { seed: 29, topics: 1, html: 0.0, bytes: 200..=900, ..CrawlSettings::default() };
    let producer = PageProducer::new(cluster.broker());
    for planted in Crawl::new(settings).unwrap().take(pages.end).skip(pages.start) {
        let mut value = planted.value;
        if let Ok(Value::Object(mut page)) = serde_json::from_slice(&value) {
            page.insert("tenant".to_owned(), json!(format!("t{}", planted.number / 7 % 5)));
            value = Value::Object(page).to_string().into_bytes();
        }
        let (value, timestamp) = (Some(value), Some(planted.timestamp.millis()));
        let partition = i32::try_from(planted.number % partitions).unwrap();
        producer.write(
            &cluster.inputs()[0],
            partition,
            &Page { key: planted.key, value, timestamp, ..Page::default() },
        );
    }
    producer.flush();
}

#[test]
fn a_killed_replay_of_three_judges_ends_like_an_uninterrupted_one() {
    const PAGES: usize = 3_000;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let config = json!({ "judge": { "partitions": 3 }, "input": { "fields": { "scope": "/tenant" } } });
    let cluster =
        Cluster::new(broker, Shape { topics: 1, partitions: 2, input_settings: &[], output_settings: &[], config });
    let mut team = Team::new(&cluster);
    ["one", "two"].into_iter().for_each(|name| team.join(name));
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    crawl_of_tenants(&cluster, 0..PAGES, 2);
    team.deliver(&mut out, PAGES);
    team.disband();
    let live = Ledger::read(&cluster).outcomes(1).unwrap();

    let by_log = |id: &'static str| ["replay", "run", "--from", "start", "--order", "log", "--id", id, "--execute"];
    let whole = ask(&cluster, &by_log("whole"));
    assert_eq!(whole["variants"][0]["counts"]["changed"], json!({}));
    assert_eq!(
        verdicts_by_page(&shadow(&cluster, "whole")),
        expected_verdicts(&live),
        "the live verdicts, page for page"
    );
    let killed = run_with_kills(&cluster, &by_log("killed"), "killed", PAGES, 6);
    assert_eq!(shadow(&cluster, "killed"), shadow(&cluster, "whole"));
    assert_eq!(killed["digests"], whole["digests"]);
    assert_eq!(killed["counts"], whole["variants"][0]["counts"]);

    // Pages of the warm-up are judged even if another judge is ahead: with the live settings given explicitly, the
    // second half has the live verdicts.
    let from = format!("offset:{}", PAGES / 4);
    let spelt = ["replay", "run", "--from", &from, "--order", "log", "--id", "half", "--execute"];
    let half = ask(&cluster, &[&spelt[..], &["-s", "match.same_id=update"]].concat());
    assert_eq!(half["variants"][0]["counts"]["changed"], json!({}), "{half}");
    let again = verdicts_by_page(&shadow(&cluster, "half"));
    assert!(again.len() > PAGES / 3);
    let live = expected_verdicts(&live);
    assert!(again.iter().all(|(source, verdict)| live[source] == *verdict), "the live verdicts of the second half");
}

/// How many pages were judged when each record of the only verdict log ended.
fn ends_of_records(cluster: &Cluster<'_>) -> BTreeSet<u64> {
    let records = TopicReader::open(cluster.broker(), &[&cluster.log_topic("verdicts")]).read_to_end();
    let mut judged = 0;
    let ends = decode_verdicts(&records).into_iter().map(|(_, record)| {
        if let VerdictRecord::Verdicts(batch) = record {
            judged += batch.verdicts.len() as u64;
        }
        judged
    });
    ends.collect()
}

/// A record may hold the verdicts on more pages than slow brokers take in one transaction.
#[test]
fn a_replay_killed_between_the_verdicts_of_one_record_ends_like_an_uninterrupted_one() {
    const PAGES: usize = 1_000;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = crate::replay::cluster(broker, 2);
    crawl_of_tenants(&cluster, 0..PAGES, 2);
    let mut team = Team::new(&cluster);
    team.join("one");
    team.deliver(&mut TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]), PAGES);
    team.disband();
    let by_log = |id: &'static str| ["replay", "run", "--from", "start", "--order", "log", "--id", id, "--execute"];
    let whole = ask(&cluster, &by_log("whole"));

    let ends = ends_of_records(&cluster);
    let mut killed = Running::start(cluster.command(&[&by_log("killed")[..], &["--rate", "40/s"]].concat()));
    wait::until("a commit between the verdicts of a record", || {
        assert!(!killed.has_ended(), "the replay was over before");
        let counts = status(&cluster, "killed")["counts"].clone();
        let dead_letters = counts["verdicts"]["dead_letter"].as_u64().unwrap_or(0);
        let judged = counts["pages"].as_u64()?.checked_sub(dead_letters)?;
        (judged > 0 && !ends.contains(&judged)).then_some(())
    });
    killed.kill();
    ask(&cluster, &["replay", "resume", "killed"]);
    let ended = status(&cluster, "killed");
    assert_eq!((&ended["digests"], &ended["counts"]), (&whole["digests"], &whole["variants"][0]["counts"]));
    assert_eq!(shadow(&cluster, "killed"), shadow(&cluster, "whole"));
}

/// Pages on which the verdict log has verdicts after its first checkpoint, by offset.
fn first_kept(cluster: &Cluster<'_>) -> i64 {
    let records = TopicReader::open(cluster.broker(), &[&cluster.log_topic("verdicts")]).read_to_end();
    let mut has_begun = false;
    for (_, record) in decode_verdicts(&records) {
        match record {
            VerdictRecord::Checkpoint(_) => has_begun = true,
            VerdictRecord::Verdicts(batch) if has_begun => {
                if let Some(first) = batch.verdicts.iter().find_map(|verdict| verdict.answer.judged_source()) {
                    return first.offset;
                }
            }
            VerdictRecord::Verdicts(_) | VerdictRecord::Rules(_) => {}
        }
    }
    panic!("the log holds no verdict after a checkpoint");
}

#[test]
fn a_replay_of_a_trimmed_log_gives_the_live_verdicts_or_reports_what_is_gone() {
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let shape =
        Shape { topics: 1, partitions: 1, input_settings: &[], output_settings: &[], config: restore::config() };
    let cluster = Cluster::new(broker, shape);
    let mut writer = restore::Writer::new(&cluster);
    let mut instance = cluster.start("one");
    instance.wait_ready();
    writer.write(200);
    let log = cluster.log_topic("verdicts");
    let plan = cluster.disk("plan.json");
    let plan = plan.to_str().unwrap();
    ask(
        &cluster,
        &["replay", "plan", "--from", "start", "--order", "log", "--id", "old", "--no-sample", "--plan-out", plan],
    );

    // A plan whose verdicts are trimmed is refused; its pages are not judged as pages without a verdict.
    restore::write_until_trimmed(&mut writer, &log, 1);
    let message = refused(&cluster, &["replay", "run", plan, "--execute"], 74);
    assert!(message.contains("trimmed since; make a new plan"), "{message}");
    let message = refused(&cluster, &["replay", "plan", "--from", "start", "--order", "log"], 66);
    assert!(message.contains("does not reach back to the beginning"), "{message}");
    let by_time = ask(&cluster, &["replay", "plan", "--from", "start", "--no-sample", "--plan-out", plan]);
    assert_eq!(by_time["plan"]["order"], "time");
    assert!(by_time["plan"]["warnings"].to_string().contains("pages are judged in the order of time"), "{by_time}");

    writer.write(160);
    // Nobody trims the log further while it is replayed.
    instance.stop();
    // The kept part has the live verdicts; the originals of its first duplicates are older than the log.
    let live = expected_verdicts(&Ledger::read(&cluster).outcomes(1).unwrap());
    let first = first_kept(&cluster);
    let from = format!("offset:{first}");
    let by_log = ["replay", "run", "--from", &from, "--order", "log", "--execute", "--id"];
    let kept = ask(&cluster, &[&by_log[..], &["kept"]].concat());
    let counts = &kept["variants"][0]["counts"];
    assert_eq!(counts["changed"], json!({}), "{counts}");
    let is_older = |original: &Option<String>| {
        original.as_ref().is_some_and(|original| original.parse::<Source>().unwrap().offset < first)
    };
    let again = verdicts_by_page(&shadow(&cluster, "kept"));
    assert_eq!(counts["taken_over"], again.values().filter(|(_, original)| is_older(original)).count(), "{counts}");
    assert!(again.len() > 20 && again.iter().all(|(source, verdict)| live[source] == *verdict), "the live verdicts");

    // An interrupted replay whose first verdicts are then trimmed reports it. It takes two minutes if it is not killed.
    let pages = counts["pages"].as_u64().expect("a number of pages");
    let rate = format!("{}/s", pages.div_ceil(120));
    let mut killed = Running::start(cluster.command(&[&by_log[..], &["killed", "--rate", &rate]].concat()));
    killed.wait_for_commit(&cluster, "killed", 0);
    killed.kill();
    let mut instance = cluster.start("one");
    instance.wait_ready();
    restore::write_until_trimmed(&mut writer, &log, 1);
    let message = refused(&cluster, &["replay", "resume", "killed"], 74);
    assert!(message.contains("trimmed since"), "{message}");
    instance.stop();
}

#[test]
fn a_replay_across_a_change_of_rules_judges_each_page_by_the_rules_of_its_time() {
    const PAGES: usize = 2_000;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = crate::replay::cluster(broker, 2);
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    let strict = json!({ "match": { "minhash": { "min_similarity": 0.95 } } });
    for (half, rules) in [json!({}), strict].into_iter().enumerate() {
        crawl_of_tenants(&cluster, half * PAGES / 2..(half + 1) * PAGES / 2, 2);
        let mut team = Team::new(&cluster);
        team.join_as("one", rules);
        team.deliver(&mut out, (half + 1) * PAGES / 2);
        team.disband();
    }
    let live = expected_verdicts(&Ledger::read(&cluster).outcomes(1).unwrap());
    for (id, from) in [("all", "start".to_owned()), ("half", format!("offset:{}", PAGES / 4))] {
        let by_log = ["replay", "run", "--from", &from, "--order", "log", "--id", id, "--execute"];
        let report = ask(&cluster, &by_log);
        let counts = &report["variants"][0]["counts"];
        assert_eq!((&counts["changed"], &counts["taken_over"]), (&json!({}), &json!(0)), "{counts}");
        let again = verdicts_by_page(&shadow(&cluster, id));
        assert!(again.len() > PAGES / 3 && again.iter().all(|(source, verdict)| live[source] == *verdict), "{id}");
    }
    // The rules of either time alone give different verdicts.
    let spelt = ["replay", "run", "--from", "start", "--order", "log", "--into", "none", "--execute"];
    let strict = ask(&cluster, &[&spelt[..], &["-s", "match.minhash.min_similarity=0.95"]].concat());
    assert_ne!(strict["variants"][0]["counts"]["changed"], json!({}), "{strict}");
}
