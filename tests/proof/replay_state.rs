//! The state that a replay needs to continue, and its messages without it; its limits; and replays beside a service.

use dupgate::crawl::{Crawl, CrawlSettings};
use dupgate_testkit::ports::free_address;
use serde_json::{Value, json};

use crate::accounting::Ledger;
use crate::broker::{Broker, wait};
use crate::cluster::http;
use crate::cluster::records::{Page, PageProducer, TopicReader};
use crate::cluster::{Cluster, Shape};
use crate::replay::{Running, ask, by_time, cluster, crawl, refused, run, shadow, status, values, verdicts_by_page};
use crate::several_instances::Team;

/// A rate at which a replay of some hundred pages takes minutes.
const SLOW: [&str; 2] = ["--rate", "4/s"];

/// Runs a replay by time that is killed once it has committed something.
fn begin(cluster: &Cluster<'_>, id: &str) {
    let mut killed = Running::start(cluster.command(&[&by_time(id)[..], &SLOW].concat()));
    killed.wait_for_commit(cluster, id, 0);
    killed.kill();
}

#[test]
fn a_replay_whose_offsets_have_expired_is_not_started_again() {
    const PAGES: usize = 400;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 2);
    crawl(broker, &cluster, PAGES, 2);
    let group = |id: &str| format!("{}.replay.{id}", cluster.group());

    let whole = ask(&cluster, &by_time("whole"));
    let written = shadow(&cluster, "whole");
    broker.delete_group(&group("whole"));
    let known = status(&cluster, "whole");
    assert_eq!((&known["state"], &known["counts"]["pages"]), (&json!("done"), &json!(PAGES)), "{known}");
    assert_eq!(known["digests"], whole["digests"]);
    let resumed = run(cluster.command(&["replay", "resume", "whole"]));
    assert!(String::from_utf8_lossy(&resumed.stderr).contains("is done already") && resumed.status.success());
    assert_eq!(shadow(&cluster, "whole"), written, "nothing was written again");

    begin(&cluster, "killed");
    broker.delete_group(&group("killed"));
    assert_eq!(status(&cluster, "killed")["state"], "expired");
    let before = shadow(&cluster, "killed");
    let message = refused(&cluster, &["replay", "resume", "killed"], 74);
    assert!(
        message.contains("offsets.retention.minutes") && message.contains("replay clean killed --execute"),
        "{message}"
    );
    assert_eq!(shadow(&cluster, "killed"), before, "nothing was written again");
    ask(&cluster, &["replay", "clean", "killed", "--execute"]);
    assert_eq!(ask(&cluster, &by_time("again"))["digests"], whole["digests"]);
}

#[test]
fn a_replay_whose_topics_are_deleted_is_not_resumed_into_empty_ones() {
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 2);
    crawl(broker, &cluster, 400, 2);
    for (id, kind) in [("output", format!("{}.replay.", cluster.unique())), ("log", ".verdicts.".to_owned())] {
        begin(&cluster, id);
        let topic = topic_of(&cluster, id, &kind);
        broker.delete_topic(&topic);
        wait::until("the topic to be gone", || {
            let message = run(cluster.command(&["replay", "resume", id]));
            let message = (message.status.code(), String::from_utf8_lossy(&message.stderr).into_owned());
            assert_ne!(message.0, Some(0), "{}", message.1);
            let is_reported = message.1.contains(&format!("topic `{topic}` of replay `{id}` no longer exists"));
            (message.0 == Some(74) && is_reported).then_some(())
        });
        ask(&cluster, &["replay", "clean", id, "--execute"]);
    }
}

/// The topic of a replay whose name contains `kind`.
fn topic_of(cluster: &Cluster<'_>, id: &str, kind: &str) -> String {
    let named = run(cluster.command(&["replay", "clean", id, "-o", "jsonl"]));
    let named = String::from_utf8(named.stdout).expect("text");
    let mut topics = named.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["name"].clone());
    let topic = topics.find_map(|name| name.as_str().filter(|name| name.contains(kind)).map(str::to_owned));
    topic.expect("a topic of the replay")
}

#[test]
fn a_replay_whose_outputs_are_deleted_while_it_runs_names_them_and_ends() {
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 2);
    crawl(broker, &cluster, 3_000, 2);
    let start = ["replay", "run", "--from", "start", "--order", "time", "--id", "gone", "--execute", "--rate", "20/s"];
    let mut running = Running::start_silent(cluster.command(&start));
    running.wait_for_commit(&cluster, "gone", 0);
    let topic = topic_of(&cluster, "gone", &format!("{}.replay.", cluster.unique()));
    broker.delete_topic(&topic);
    let ended = wait::until("the replay to end", || running.ended());
    let message = running.errors();
    assert_eq!(ended.code(), Some(74), "{message}");
    assert!(message.contains(&format!("topic `{topic}` of replay `gone` no longer exists")), "{message}");
    assert!(message.contains("`dupgate replay clean gone --execute`"), "{message}");
    ask(&cluster, &["replay", "clean", "gone", "--execute"]);
}

#[test]
fn the_limits_of_a_replay_hold() {
    const PAGES: usize = 1_200;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 1);
    let producer = PageProducer::new(broker);
    for number in 0..PAGES {
        // Every tenth page is broken.
        let words: Vec<String> = (0..40).map(|word| format!("w{number}x{word}")).collect();
        let value = json!({ "url": format!("https://a.example/{number}"), "text": words.join(" ") }).to_string();
        let value = if number % 10 == 3 { value.replace('}', "") } else { value };
        producer.write(
            &cluster.inputs()[0],
            0,
            &Page { key: number.to_string(), value: Some(value.into()), ..Page::default() },
        );
    }
    producer.flush();

    // A tenth is more than the limit: it stops when that is detected, and continues on request.
    let few = ["replay", "run", "--from", "start", "--id", "few", "--execute", "--max-dead-letters", "5%"];
    let message = refused(&cluster, &few, 1);
    assert!(
        message.contains("more than --max-dead-letters allows") && message.contains("`dupgate replay resume few`"),
        "{message}"
    );
    assert_eq!(
        ask(&cluster, &["replay", "resume", "few"])["variants"][0]["counts"]["verdicts"]["dead_letter"],
        PAGES / 10
    );
    ask(&cluster, &["replay", "run", "--from", "start", "--id", "many", "--execute", "--max-dead-letters", "20%"]);

    // The rate limit holds.
    let slow =
        ["replay", "run", "--from", "start", "--into", "none", "--max-records", "300", "--execute", "--rate", "100/s"];
    let slow = ask(&cluster, &slow);
    assert_eq!(slow["variants"][0]["counts"]["pages"], 300);
    assert!(slow["elapsed_ms"].as_u64() >= Some(2_900), "{slow}");
    let warned = slow["warnings"].to_string();
    assert!(warned.contains("pages are judged in the order of time, not in the live order"), "{warned}");

    // It waits while the service lags; each line shows why, and its progress.
    let mut team = Team::new(&cluster);
    team.join_as("one", json!({}));
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    team.deliver(&mut out, PAGES);
    team.disband();
    crawl(broker, &cluster, 100, 1);
    let log = cluster.disk("yielding").with_extension("log");
    let polite =
        ["replay", "run", "--from", "start", "--order", "time", "--into", "none", "--execute", "--yield-to-lag", "50"];
    let address = free_address();
    let mut command = cluster.command(&polite);
    command.arg("--listen").arg(address.to_string());
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    command.stderr(std::fs::File::create(&log).expect("a file"));
    let mut running = command.spawn().expect("it starts");
    let line = wait::until("a line of progress", || {
        assert_eq!(running.try_wait().expect("a status"), None, "it did not wait");
        let text = std::fs::read_to_string(&log).expect("its log");
        text.lines().find(|line| line.contains("replaying") && line.contains("yielding")).map(str::to_owned)
    });
    let fields = line.replace('"', "").replace(':', "=");
    for field in ["yielding=100", "pages=0", "pages_per_second=0"] {
        assert!(fields.contains(field), "{line}");
    }
    let (_, text) = wait::until("metrics of the replay", || http::get(address, "/metrics"));
    let shown = |name: &str| http::sum(&text, name, &[]);
    assert_eq!(shown("dupgate_replay_yielding"), Some(1.0), "{text}");
    assert_eq!(shown("dupgate_replay_records_total"), Some(0.0), "{text}");
    assert_eq!(shown("dupgate_replay_progress_ratio"), Some(0.0), "{text}");
    let left = shown("dupgate_replay_remaining_records").map(|left| left.to_string());
    assert_eq!(left, Some((PAGES + 100).to_string()), "{text}");
    let mut team = Team::new(&cluster);
    team.join_as("one", json!({}));
    team.deliver(&mut out, PAGES + 100);
    team.disband();
    let status = wait::until("the replay to end", || running.try_wait().expect("a status"));
    assert!(status.success(), "{}", std::fs::read_to_string(&log).expect("its log"));
}

#[test]
fn two_replays_beside_a_running_service_do_not_affect_it() {
    const PAGES: usize = 3_000;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 3);
    let settings = CrawlSettings { seed: 31, topics: 1, html: 0.0, bytes: 200..=900, ..CrawlSettings::default() };
    let pages: Vec<_> = Crawl::new(settings).unwrap().take(PAGES).collect();
    let (input, producer) = (cluster.inputs()[0].clone(), PageProducer::new(broker));
    let write = |from: usize, to: usize| {
        for planted in &pages[from..to] {
            let (value, timestamp) = (Some(planted.value.clone()), Some(planted.timestamp.millis()));
            let page = Page { key: planted.key.clone(), value, timestamp, ..Page::default() };
            producer.write(&input, i32::try_from(planted.number % 3).unwrap(), &page);
        }
        producer.flush();
    };
    write(0, PAGES / 2);
    let mut team = Team::new(&cluster);
    ["one", "two"].into_iter().for_each(|name| team.join(name));
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    team.deliver(&mut out, PAGES / 2);
    let logs = [cluster.log_topic("fingerprints"), cluster.log_topic("verdicts")];
    let before: Vec<_> = logs.iter().map(|log| values(&cluster, log)).collect();

    // Pages keep arriving, and are judged and delivered while both replays are planned and run.
    let address = free_address();
    let by_log =
        ["replay", "run", "--from", "start", "--order", "log", "--into", "verdicts", "--id", "log", "--execute"];
    let listen = address.to_string();
    let by_time =
        ["replay", "run", "--from", "start", "--order", "time", "--id", "time", "--execute", "--listen", &listen];
    write(PAGES / 2, PAGES * 3 / 5);
    let mut one = Running::start(cluster.command(&[&by_log[..], &["--rate", "100/s"]].concat()));
    let mut two = Running::start(cluster.command(&[&by_time[..], &["--rate", "100/s"]].concat()));
    let served = wait::until("metrics of the replay", || {
        let (_, text) = http::get(address, "/metrics")?;
        http::sum(&text, "dupgate_documents_total", &["replay=\"time\""]).filter(|pages| *pages > 0.0)?;
        Some(text)
    });
    let series = served.lines().filter(|line| line.starts_with("dupgate_") && line.contains(' '));
    assert!(series.clone().count() > 0 && series.clone().all(|line| line.contains("replay=\"time\"")), "{served}");
    let measured = wait::until("metrics with the progress of the replay", || {
        let (_, text) = http::get(address, "/metrics")?;
        let shown = |name: &str, labels: &[&str]| http::sum(&text, name, labels);
        let done = shown("dupgate_replay_records_total", &["phase=\"range\""])?;
        let share = shown("dupgate_replay_progress_ratio", &["replay=\"time\""])?;
        let all = done + shown("dupgate_replay_remaining_records", &[])?;
        // They are set one after the other: a scrape may come between them.
        let is_reported = (share - done / all).abs() < 1e-6;
        (share > 0.0 && share < 1.0 && is_reported && shown("dupgate_replay_yielding", &[]) == Some(0.0)).then_some(all)
    });
    assert_eq!(status(&cluster, "time")["records"].as_f64(), Some(measured), "the number of records of its plan");
    for (at, from) in (PAGES * 3 / 5..PAGES).step_by(PAGES / 10).enumerate() {
        write(from, from + PAGES / 10);
        out.wait_for(PAGES * 3 / 5 + at * PAGES / 10);
    }
    team.deliver(&mut out, PAGES);
    for (name, replay) in [("by log", &mut one), ("by time", &mut two)] {
        assert!(wait::until(name, || replay.ended()).success(), "{name}");
    }

    // Metrics and outputs of the service are as without them.
    let mut judged = 0;
    for member in team.members() {
        let text = member.metrics();
        assert!(!text.contains("replay=\""), "a series of the service is of a replay");
        let counted = http::sum(&text, "dupgate_documents_total", &[]).unwrap_or(0.0);
        judged += format!("{counted:.0}").parse::<usize>().unwrap();
    }
    let outcomes = Ledger::read(&cluster).outcomes(1).unwrap();
    assert_eq!(outcomes.len(), PAGES, "each page came out once");
    let dead = outcomes.values().filter(|outcome| outcome.output_kind == crate::accounting::OutputKind::Dead).count();
    assert_eq!(judged, PAGES - dead, "each page was counted once");
    for (log, before) in logs.iter().zip(&before) {
        assert!(values(&cluster, log).starts_with(before), "{log} was changed before its end");
    }
    team.disband();
    let committed = cluster.committed();
    let differ = ask(&cluster, &["replay", "diff", "log", "--no-page", "--exit-code"]);
    assert!(differ["same"].as_u64() > Some(PAGES as u64 / 3), "{differ}");
    assert_eq!((&differ["changed"], &differ["only_in_replay"]), (&json!({}), &json!({})));
    assert_eq!(status(&cluster, "log")["counts"]["changed"], json!({}));
    assert!(verdicts_by_page(&shadow(&cluster, "time")).len() > PAGES / 3);
    assert_eq!(cluster.committed(), committed);
}

#[test]
fn a_plan_warns_before_harm() {
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let settings = [("max.message.bytes", "20000")];
    let shape = Shape { topics: 1, partitions: 1, input_settings: &[], output_settings: &settings, config: json!({}) };
    let cluster = Cluster::new(broker, shape);
    crawl(broker, &cluster, 50, 1);
    let mut team = Team::new(&cluster);
    team.join_as("one", json!({}));
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    team.deliver(&mut out, 50);
    team.disband();
    broker.alter(cluster.unique(), &[("retention.ms", "86400000")]);
    let shadow = run(cluster.command(&["replay", "plan", "--from", "start", "-o", "table"]));
    let text = String::from_utf8_lossy(&shadow.stdout).into_owned();
    assert!(text.contains("disk") && text.contains("replication factor 1"), "{text}");
    assert!(text.contains("isolation.level=read_committed"), "{text}");

    let live = ["replay", "run", "--from", "start", "--into", "live", "-s", "match.same_id=duplicate", "--execute"];
    let refused = run(cluster.command(&[&live[..], &["--confirm-live", "another", "-o", "table"]].concat()));
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8_lossy(&refused.stdout).into_owned();
    for warning in [
        "takes smaller records than the input",
        "keeps records for 1d of their own time: older pages may be deleted on arrival",
        "the others arrive a second time",
    ] {
        assert!(text.contains(warning), "the plan is shown before any question: {text}");
    }
}

#[test]
fn ranges_rates_and_reports_follow_their_arguments() {
    const PAGES: usize = 200;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 2);
    crawl(broker, &cluster, PAGES, 2);
    let mut team = Team::new(&cluster);
    team.join("one");
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    team.deliver(&mut out, PAGES);
    team.disband();
    let input = cluster.inputs()[0].clone();
    broker.delete_before(&input, 0, 30);

    let plan = |arguments: &[&str]| {
        let output = run(cluster.command(&[&["replay", "run", "-o", "json"], arguments].concat()));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["plan"].clone()
    };
    let cut = plan(&["--from", "offset:10", "--order", "time"]);
    let warnings = cut["warnings"].to_string();
    assert!(
        warnings.contains(&format!("{input}:0: the first 20 records of the range are deleted already")),
        "{warnings}"
    );
    let one = plan(&["--from", "start", "--partitions", "1", "--order", "time"]);
    assert_eq!((&one["input"].as_array().unwrap().len(), &one["records"]), (&1, &json!(100)), "{one}");
    assert_eq!(one["input"][0]["partition"], 1);

    let (ranges, report) = (cluster.disk("ranges.csv"), cluster.disk("report.json"));
    let line = format!("{input},1,10,60\n");
    std::fs::write(&ranges, format!("# topic,partition,from,to\n{line}")).unwrap();
    let [offsets_file, report] = [ranges.to_str().unwrap(), report.to_str().unwrap()];
    let from_file = ["replay", "run", "--offsets-file", offsets_file, "--order", "time", "--warm", "none"];
    let limited = ["--rate", "20KiB/s", "--into", "none", "--report", report, "--execute"];
    ask(&cluster, &[&from_file[..], &limited].concat());
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let counts = &report["variants"][0]["counts"];
    assert_eq!(counts["pages"], 50, "{report}");
    let bytes = counts["bytes"].as_u64().unwrap();
    assert!(bytes > 20_000, "{report}");
    // One second's worth is credit.
    let least = (bytes * 1000 / (20 << 10)).saturating_sub(1000);
    assert!(report["worked_ms"].as_u64().unwrap() >= least, "{report}");

    std::fs::write(&ranges, format!("{line}{line}")).unwrap();
    assert!(refused(&cluster, &from_file, 66).contains("line 2: a second range of"));
    let kept = ["replay", "run", "--from", "start", "--from-fingerprints", "--into", "none", "--execute"];
    let text = refused(&cluster, &[&kept[..], &["--rate", "20MiB/s"]].concat(), 2);
    assert!(text.contains("give pages per second"), "{text}");
}

#[test]
fn a_replay_that_another_machine_continues_ends_on_the_first() {
    const PAGES: usize = 400;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 2);
    crawl(broker, &cluster, PAGES, 2);
    let whole = ask(&cluster, &by_time("whole"));
    let mut first = Running::start(cluster.command(&[&by_time("moved")[..], &SLOW].concat()));
    wait::until("its first commit", || {
        assert!(!first.has_ended(), "it was over before it was taken over");
        status(&cluster, "moved")["counts"]["pages"].as_u64().filter(|pages| *pages > 0)
    });
    let elsewhere = format!("index.path={}", cluster.disk("another-machine").display());
    let moved = ask(&cluster, &["replay", "resume", "moved", "-s", &elsewhere]);
    assert_eq!(moved["digests"], whole["digests"]);
    assert_eq!(shadow(&cluster, "moved"), shadow(&cluster, "whole"));
    assert_eq!(wait::until("the first to end", || first.ended()).code(), Some(78), "it reports that it was taken over");
}
