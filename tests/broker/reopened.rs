//! Replays of a range that operators had judged again.

use serde_json::{Value, json};

use super::broker::Broker;
use super::broker::wait;
use super::run::instance::Site;
use super::run::text;
use super::run::topics::{committed, page, produce};

/// Runs a replay in the order of the log, and returns its counts.
fn replay(site: &Site, id: &str, more: &[&str]) -> Value {
    let run = ["replay", "run", "--from", "start", "--order", "log", "--id", id, "--execute", "-o", "jsonl"];
    let report = site.ask(&[&run[..], more].concat());
    let report: Value = serde_json::from_str(report.lines().last().expect("a report")).expect("JSON");
    report.pointer("/variants/0/counts").expect("the counts").clone()
}

#[test]
fn a_page_that_was_judged_again_is_counted_once() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let mut instance = site.start("one");
    produce(broker, &site.input, 0, &[page(&text(1)), page(&text(1)), page(&text(2))]);
    committed(broker, &site.unique, 2);
    committed(broker, &site.duplicate, 1);
    // Without its original, the copy becomes an original.
    site.ask(&["index", "forget", "--source", &format!("{}:0:0", site.input), "--execute"]);
    site.ask(&["verdicts", "reopen", &format!("{}:0:1-2", site.input), "--execute"]);
    wait::until("the range to be reopened", || {
        site.log("one").contains("an operator request reopened a range").then_some(())
    });
    instance.stop();
    site.rewind(&[1]);
    instance = site.start("one");
    committed(broker, &site.unique, 4);
    produce(broker, &site.input, 0, &[page(&text(1))]);
    let duplicates = committed(broker, &site.duplicate, 2);
    instance.stop();
    assert_eq!(duplicates.last().expect("the last copy").header("dupgate.match"), [format!("{}:0:1", site.input)]);

    let expected = json!({"unique": 2, "exact": 2});
    for (id, more) in
        [("shadow", &[][..]), ("none", &["--into", "none"]), ("kept", &["--into", "none", "--from-fingerprints"])]
    {
        let counts = replay(&site, id, more);
        assert_eq!((&counts["pages"], &counts["verdicts"]), (&json!(4), &expected), "{id}: {counts}");
        let others = ["gone", "taken_over", "second_verdicts", "reopened"].map(|name| counts[name].as_u64());
        assert_eq!(others, [Some(0), Some(0), Some(0), Some(1)], "{id}: {counts}");
        assert_eq!(counts["changed"], json!({}), "{id}: {counts}");
    }
    let again = committed(broker, &format!("{}.replay.shadow", site.duplicate), 2);
    let matched: Vec<String> = again.iter().map(|record| record.header("dupgate.match").concat()).collect();
    assert_eq!(matched, [0, 1].map(|offset| format!("{}:0:{offset}", site.input)));
}
