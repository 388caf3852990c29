//! Replays of pages that a live deployment has judged, with the program as run by a user.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use dupgate::crawl::{Crawl, CrawlSettings};
use dupgate::record::Source;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::accounting::{Ledger, Outcome};
use crate::broker::{Broker, wait};
use crate::cluster::records::{Page, PageProducer, Record, TopicReader};
use crate::cluster::{Cluster, Shape};
use crate::several_instances::Team;

/// Writes a generated crawl evenly to the partitions of the input.
pub(crate) fn crawl(broker: &Broker, cluster: &Cluster<'_>, pages: usize, partitions: u64) {
    crawl_part(broker, cluster, 0..pages, partitions);
}

/// Writes a part of that crawl.
pub(crate) fn crawl_part(broker: &Broker, cluster: &Cluster<'_>, pages: Range<usize>, partitions: u64) {
    let settings = CrawlSettings { seed: 17, topics: 1, bytes: 200..=900, ..CrawlSettings::default() };
    let producer = PageProducer::new(broker);
    for planted in Crawl::new(settings).unwrap().take(pages.end).skip(pages.start) {
        let page = Page {
            key: planted.key,
            value: Some(planted.value),
            timestamp: Some(planted.timestamp.millis()),
            ..Page::default()
        };
        producer.write(&cluster.inputs()[0], i32::try_from(planted.number % partitions).unwrap(), &page);
    }
    producer.flush();
}

pub(crate) fn cluster(broker: &Broker, partitions: i32) -> Cluster<'_> {
    let shape = Shape { topics: 1, partitions, input_settings: &[], output_settings: &[], config: json!({}) };
    Cluster::new(broker, shape)
}

/// Runs the program to its end.
pub(crate) fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().expect("the program starts")
}

/// Runs the program, which must succeed, and reads its last line of output as JSON.
pub(crate) fn ask(cluster: &Cluster<'_>, arguments: &[&str]) -> Value {
    let output = run(cluster.command(&[arguments, &["-o", "jsonl"]].concat()));
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {errors}");
    let last = text.lines().last().unwrap_or_else(|| panic!("{arguments:?} prints nothing: {errors}"));
    serde_json::from_str(last).unwrap_or_else(|why| panic!("{arguments:?}: {why}: {last}"))
}

/// Runs the program, which must end with this code, and returns its messages.
pub(crate) fn refused(cluster: &Cluster<'_>, arguments: &[&str], code: i32) -> String {
    let output = run(cluster.command(arguments));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    errors
}

/// Records of the shadow topics of a replay, by topic and partition, without their positions.
pub(crate) fn shadow(cluster: &Cluster<'_>, id: &str) -> BTreeMap<(String, i32), Vec<Record>> {
    let names = [cluster.unique(), cluster.duplicate(), cluster.dead()];
    let mut found: BTreeMap<(String, i32), Vec<Record>> = BTreeMap::new();
    for name in names {
        let topic = format!("{name}.replay.{id}");
        for mut record in TopicReader::open(cluster.broker(), &[&topic]).read_to_end() {
            let partition = record.source.partition.number;
            // Offsets include transaction markers, whose places are not part of the outcome.
            record.source = record.source.partition.at(0);
            record.source.partition.topic = name.into();
            found.entry((name.to_owned(), partition)).or_default().push(record);
        }
    }
    found
}

/// The verdicts of a replay's shadow topics by page.
pub(crate) fn verdicts_by_page(
    records: &BTreeMap<(String, i32), Vec<Record>>,
) -> BTreeMap<Source, (String, Option<String>)> {
    let mut verdicts = BTreeMap::new();
    for record in records.values().flatten() {
        let Some(source) = record.header("dupgate.source") else { continue };
        let verdict = record.header("dupgate.verdict").expect("a verdict").to_owned();
        let before =
            verdicts.insert(source.parse().unwrap(), (verdict, record.header("dupgate.match").map(str::to_owned)));
        assert_eq!(before, None, "{source} came out twice");
    }
    verdicts
}

pub(crate) fn expected_verdicts(outcomes: &BTreeMap<Source, Outcome>) -> BTreeMap<Source, (String, Option<String>)> {
    let judged = outcomes.iter().filter(|(_, outcome)| outcome.output_kind != crate::accounting::OutputKind::Dead);
    judged
        .map(|(source, outcome)| {
            let (word, matched) = outcome.verdict();
            (source.clone(), (word.to_owned(), matched.map(ToString::to_string)))
        })
        .collect()
}

/// Arguments that replay the whole input in the order of time.
pub(crate) const fn by_time(id: &str) -> [&str; 9] {
    ["replay", "run", "--from", "start", "--order", "time", "--id", id, "--execute"]
}

/// A replay that runs beside the test.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: Command) -> Self {
        Self::start_to(command, Stdio::inherit())
    }

    /// Starts it with the text that [`Running::errors`] returns.
    pub(crate) fn start_silent(command: Command) -> Self {
        Self::start_to(command, Stdio::piped())
    }

    fn start_to(mut command: Command, errors: Stdio) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().expect("it starts"))
    }

    /// Returns what an ended process has written to its standard error.
    pub(crate) fn errors(&mut self) -> String {
        std::io::read_to_string(self.0.stderr.take().expect("a pipe")).expect("text")
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().expect("it is killed");
        self.0.wait().expect("it has ended");
    }

    /// The processor time that the process has taken so far.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("a process");
        let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
        // Fields 14 and 15 of the file are user and system time in ticks; the name is the second.
        let ticks = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number"));
        Duration::from_millis(ticks.sum::<u64>() * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// Waits until the replay has committed more than `before` pages, and returns how many. It has to run until then.
    pub(crate) fn wait_for_commit(&mut self, cluster: &Cluster<'_>, id: &str, before: u64) -> u64 {
        wait::until("a commit", || {
            assert!(!self.has_ended(), "replay {id} was over before it was seen to commit more than {before} pages");
            status(cluster, id)["counts"]["pages"].as_u64().filter(|pages| *pages > before)
        })
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.ended().is_some()
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("a status")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status of a replay; null if there is none yet.
pub(crate) fn status(cluster: &Cluster<'_>, id: &str) -> Value {
    let output = run(cluster.command(&["replay", "status", id, "-o", "json"]));
    serde_json::from_slice::<Value>(&output.stdout).map_or(Value::Null, |status| status[0].clone())
}

/// Runs a replay of this many pages that is repeatedly killed after a commit and resumed, and then runs to its end.
/// Returns its status. Each attempt is slow enough (a minute for the rest) to be killed in time even on a busy
/// machine.
pub(crate) fn run_with_kills(cluster: &Cluster<'_>, first: &[&str], id: &str, pages: usize, kills: usize) -> Value {
    let attempt = |arguments: &[&str], done: u64| {
        let rate = (pages as u64).saturating_sub(done).div_ceil(60).max(1);
        Running::start(cluster.command(&[arguments, &["--rate", &format!("{rate}/s")]].concat()))
    };
    let mut running = attempt(first, 0);
    let mut done = 0;
    for _ in 0..kills {
        done = running.wait_for_commit(cluster, id, done);
        running.kill();
        running = attempt(&["replay", "resume", id], done);
    }
    drop(running);
    let ended = run(cluster.command(&["replay", "resume", id]));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let status = ask(cluster, &["replay", "status", id]);
    assert_eq!(status["state"], "done");
    status
}

/// Splits a crawl into parts that are written one by one while the pages before them are delivered.
pub(crate) fn parts(pages: usize) -> impl Iterator<Item = Range<usize>> {
    const PARTS: usize = 20;
    (0..PARTS).map(move |part| pages * part / PARTS..pages * (part + 1) / PARTS)
}

/// Runs two instances on a generated crawl, kills a judge in the middle, then a worker, and returns the outcome of each
/// page.
fn live(cluster: &Cluster<'_>, pages: usize) -> BTreeMap<Source, Outcome> {
    let broker = cluster.broker();
    let mut team = Team::new(cluster);
    ["one", "two"].into_iter().for_each(|name| team.join(name));
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    for (number, part) in parts(pages).enumerate() {
        crawl_part(broker, cluster, part.clone(), 4);
        match number {
            5 => {
                let judge = team.judge();
                team.kill(&judge);
                team.judge_other_than(&judge);
                team.join(&judge);
            }
            10 => {
                let worker = team.plain_worker();
                team.kill(&worker);
                team.join(&worker);
            }
            _ => {}
        }
        team.deliver(&mut out, part.start);
    }
    team.deliver(&mut out, pages);
    team.disband();
    Ledger::read(cluster).outcomes(1).unwrap()
}

#[test]
fn a_replay_in_log_order_gives_the_live_verdicts_and_changes_nothing_live() {
    const PAGES: usize = 4_000;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 4);
    let live = live(&cluster, PAGES);

    let before = (cluster.committed(), live_logs(&cluster), Ledger::read(&cluster).outcomes(1).unwrap());
    let first = ask(&cluster, &["replay", "run", "--from", "start", "--order", "log", "--id", "one", "--execute"]);
    assert_eq!(
        verdicts_by_page(&shadow(&cluster, "one")),
        expected_verdicts(&live),
        "the live verdicts, page for page"
    );
    assert_eq!(first["variants"][0]["counts"]["changed"], json!({}));
    assert_eq!(first["variants"][0]["counts"]["pages"], PAGES);
    assert_eq!((cluster.committed(), live_logs(&cluster), Ledger::read(&cluster).outcomes(1).unwrap()), before);

    // The same plan under another name: the same bytes.
    let second = ask(&cluster, &["replay", "run", "--from", "start", "--order", "log", "--id", "two", "--execute"]);
    assert_eq!(first["digests"], second["digests"]);
    assert_eq!(shadow(&cluster, "one"), shadow(&cluster, "two"));

    let by_log = ["replay", "run", "--from", "start", "--order", "log", "--id", "killed", "--execute"];
    assert_eq!(run_with_kills(&cluster, &by_log, "killed", PAGES, 2)["digests"], first["digests"]);
    ask(&cluster, &["replay", "clean", "killed", "--execute"]);

    // Other settings find other duplicates, and the report counts the changed verdicts.
    let strict = ["replay", "run", "--from", "start", "--id", "strict", "--into", "verdicts", "--execute"];
    let strict = ask(&cluster, &[&strict[..], &["-s", "match.minhash.min_similarity=0.95"]].concat());
    let changed = &strict["variants"][0]["counts"]["changed"];
    assert!(changed["near -> unique"].as_u64() > Some(50), "{strict}");

    judges_kept_fingerprints(&cluster, &first, changed);

    // Comparing both logs page by page agrees with the replay's report; two replays with the same settings do not
    // differ.
    let differ = ask(&cluster, &["replay", "diff", "strict", "--page", "diff.html", "--examples", "3"]);
    assert_eq!(differ["changed"], *changed);
    // Dead letters that never reached a judge have no verdict in either log.
    let judged = expected_verdicts(&live).len() as u64;
    let all: u64 = changed.as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!((&differ["pages"], &differ["same"]), (&json!(judged), &json!(judged - all)));
    assert_eq!((&differ["only_in_against"], &differ["only_in_replay"]), (&json!({}), &json!({})));
    shows_examples(&cluster, &differ, &live);
    let same = ["replay", "diff", "two", "--against", "one", "--no-page", "--exit-code"];
    for same in [&same[..], &["replay", "diff", "two", "--no-page", "--exit-code"]] {
        let same = ask(&cluster, same);
        assert_eq!((&same["same"], &same["changed"], &same["pages"]), (&json!(judged), &json!({}), &json!(judged)));
    }
    let differ = ["replay", "diff", "two", "--against", "strict", "--no-page", "--exit-code"];
    assert!(refused(&cluster, &differ, 1).contains("verdicts differ"));
    assert!(!cluster.disk("none").with_file_name("replay-two-diff.html").exists(), "no page was requested");

    let listed = run(cluster.command(&["replay", "list", "-o", "jsonl"]));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let states: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(states.iter().map(|one| &one["replay"]).collect::<Vec<_>>(), ["one", "strict", "two"]);
    assert!(states.iter().all(|one| one["state"] == "done"), "{listed}");
    ask(&cluster, &["replay", "clean", "one", "--execute"]);
    let gone = refused(&cluster, &["replay", "status", "one"], 66);
    assert!(gone.contains("there are strict, two"), "{gone}");
}

#[test]
#[ignore = "takes minutes; make test-failover runs it"]
fn a_replay_of_fifty_thousand_pages_gives_the_live_verdicts() {
    const PAGES: usize = 50_000;
    let _turn = crate::turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 4);
    let live = live(&cluster, PAGES);
    let replay = ask(&cluster, &["replay", "run", "--from", "start", "--order", "log", "--id", "one", "--execute"]);
    assert_eq!(replay["variants"][0]["counts"]["pages"], PAGES);
    assert_eq!(replay["variants"][0]["counts"]["changed"], json!({}));
    assert_eq!(
        verdicts_by_page(&shadow(&cluster, "one")),
        expected_verdicts(&live),
        "the live verdicts, page for page"
    );
}

/// The fingerprints in the live log lead to the live verdicts, and with other settings to those of the pages.
fn judges_kept_fingerprints(cluster: &Cluster<'_>, by_pages: &Value, changed: &Value) {
    let kept = ["replay", "run", "--from", "start", "--from-fingerprints", "--into", "none", "--execute"];
    let judged = ["unique", "update", "template", "exact", "near"];
    let same = ask(cluster, &kept);
    assert_eq!(judged.map(|name| count(&same, 0, name)), judged.map(|name| count(by_pages, 0, name)));
    assert_eq!(
        (&same["variants"][0]["counts"]["changed"], &same["variants"][0]["counts"]["gone"]),
        (&json!({}), &json!(0))
    );
    let sweep = ask(cluster, &[&kept[..], &["-s", "match.minhash.min_similarity=0.95,0.3"]].concat());
    assert_eq!(sweep["variants"][0]["counts"]["changed"], *changed);
    let pages =
        ["replay", "run", "--from", "start", "--into", "none", "--execute", "-s", "match.minhash.min_similarity=0.3"];
    let pages = ask(cluster, &pages);
    assert_eq!(judged.map(|name| count(&sweep, 1, name)), judged.map(|name| count(&pages, 0, name)));
    let shadow = refused(cluster, &["replay", "plan", "--from", "start", "--from-fingerprints"], 2);
    assert!(shadow.contains("it needs --into none"), "{shadow}");
    let other = refused(cluster, &[&kept[..], &["-s", "match.simhash.bits=128"]].concat(), 66);
    assert!(other.contains("make other fingerprints"), "{other}");
}

/// The examples of a stricter threshold: why each page is now unique, and the HTML page of both texts.
fn shows_examples(cluster: &Cluster<'_>, differ: &Value, live: &BTreeMap<Source, Outcome>) {
    let examples = differ["examples"].as_array().unwrap();
    let lost: Vec<&Value> = examples.iter().filter(|example| example["change"] == "near -> unique").collect();
    assert_eq!(lost.len(), 3, "{differ}");
    let html = std::fs::read_to_string(cluster.disk("none").with_file_name("diff.html")).expect("the page");
    assert_eq!(html.matches("<section").count(), examples.len());
    for example in lost {
        let source = example["source"].as_str().unwrap();
        let (word, matched) = live[&source.parse().unwrap()].verdict();
        assert_eq!((word, matched.map(ToString::to_string).as_deref()), ("near", example["against"]["match"].as_str()));
        let similarity = example["against"]["similarity"].as_f64().unwrap();
        assert!(similarity < 0.95, "{example}");
        let why = example["why"].as_str().unwrap();
        assert!(why.starts_with(&format!("similarity {similarity}: live needs ")), "{why}");
        assert!(why.ends_with(", replay strict needs 0.95"), "{why}");
        assert!(html.contains(&format!("<section id=\"{source}\"")) && html.contains(why), "{source}");
    }
    assert!(html.contains("<del>") && html.contains("<ins>"), "both texts with what differs");
    assert!(!html.contains("does not hold this page"), "the input holds all of them");
}

/// Values of the records of a topic with their positions, in the order of each partition.
pub(crate) fn values(cluster: &Cluster<'_>, topic: &str) -> Vec<(String, Option<Vec<u8>>)> {
    let records = TopicReader::open(cluster.broker(), &[topic]).read_to_end();
    records.into_iter().map(|Record { source, value, .. }| (source.to_string(), value)).collect()
}

/// The content of the live logs.
fn live_logs(cluster: &Cluster<'_>) -> [Vec<(String, Option<Vec<u8>>)>; 2] {
    ["fingerprints", "verdicts"].map(|log| values(cluster, &cluster.log_topic(log)))
}

#[test]
fn a_killed_and_resumed_replay_ends_like_an_uninterrupted_one() {
    const PAGES: usize = 3_000;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 6);
    crawl(broker, &cluster, PAGES, 6);
    let whole = ask(&cluster, &by_time("whole"));
    assert_eq!(whole["variants"][0]["counts"]["pages"], PAGES);

    let killed = run_with_kills(&cluster, &by_time("killed"), "killed", PAGES, 10);
    assert_eq!(killed["digests"], whole["digests"]);
    assert_eq!(shadow(&cluster, "killed"), shadow(&cluster, "whole"));

    let twice = refused(&cluster, &by_time("killed"), 78);
    assert!(twice.contains("exists already"), "{twice}");
}

/// Leaves the state of a replay killed between its offsets and its commit: an open transaction with input offsets of
/// its group.
fn leave_a_transaction_open(cluster: &Cluster<'_>, id: &str) {
    let group = format!("{}.replay.{id}", cluster.group());
    let producer: BaseProducer = cluster.broker().client().set("transactional.id", &group).create().unwrap();
    producer.init_transactions(wait::LIMIT).unwrap();
    producer.begin_transaction().unwrap();
    let consumer: BaseConsumer = cluster.broker().client().set("group.id", &group).create().unwrap();
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(&cluster.inputs()[0], 0, Offset::Offset(7)).unwrap();
    producer.send_offsets_to_transaction(&offsets, &consumer.group_metadata().unwrap(), wait::LIMIT).unwrap();
    // Dropping a client does not abort its transaction.
}

#[test]
fn an_open_transaction_of_a_killed_replay_blocks_nothing() {
    const PAGES: usize = 600;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 2);
    crawl(broker, &cluster, PAGES, 2);
    let by_time = |id: &'static str| ["replay", "run", "--from", "start", "--id", id, "--execute"];
    let whole = ask(&cluster, &by_time("whole"));
    let mut killed = Running::start(cluster.command(&[&by_time("open")[..], &["--rate", "5/s"]].concat()));
    killed.wait_for_commit(&cluster, "open", 0);
    killed.kill();
    leave_a_transaction_open(&cluster, "open");

    let differ = ask(&cluster, &["replay", "diff", "open", "--against", "whole", "--no-page"]);
    assert!(differ["same"].as_u64() > Some(0), "compared as far as it got: {differ}");
    let left = run(cluster.command(&["replay", "clean", "open"]));
    let left = String::from_utf8_lossy(&left.stdout).into_owned();
    assert!(left.contains(&format!("{}.replay.open", cluster.unique())), "its outputs would go, too: {left}");
    let resumed = ask(&cluster, &["replay", "resume", "open"]);
    assert_eq!(resumed["digests"], whole["digests"]);
}

/// Numbers of pages by verdict in a replay's report, for one variant.
fn count(report: &Value, variant: usize, verdict: &str) -> u64 {
    report["variants"][variant]["counts"]["verdicts"][verdict].as_u64().unwrap_or(0)
}

#[test]
fn ranges_warm_ups_sweeps_and_targets_follow_the_plan() {
    const PAGES: u64 = 3_000;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 2);
    crawl(broker, &cluster, usize::try_from(PAGES).unwrap(), 2);
    let mut team = Team::new(&cluster);
    team.join_as("one", json!({}));
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    team.deliver(&mut out, usize::try_from(PAGES).unwrap());
    team.disband();

    // The second half as part of the whole, after a warm-up, and without one.
    let by_time = ["replay", "run", "--order", "time", "--execute"];
    let replay = |more: &[&str]| ask(&cluster, &[&by_time[..], more].concat());
    replay(&["--from", "start", "--id", "all"]);
    let half = (PAGES / 4).to_string();
    let from = format!("offset:{half}");
    let warm = replay(&["--from", &from, "--id", "warm"]);
    assert_eq!(warm["variants"][0]["counts"]["warm_up"], PAGES / 2);
    let cold = replay(&["--from", &from, "--id", "cold", "--warm", "none"]);
    let (all, warm, cold_verdicts) = (
        verdicts_by_page(&shadow(&cluster, "all")),
        verdicts_by_page(&shadow(&cluster, "warm")),
        verdicts_by_page(&shadow(&cluster, "cold")),
    );
    assert!(warm.len() > 1_000 && warm.iter().all(|(source, verdict)| all.get(source) == Some(verdict)));
    let missed = cold_verdicts.iter().filter(|(source, verdict)| all.get(source) != Some(verdict)).count();
    assert!(missed > 20, "without a warm-up {missed} verdicts differ");
    assert!(count(&cold, 0, "unique") > 0);

    // Several thresholds in one pass give the same results as each alone.
    let sweep = ["--from", "start", "--into", "none", "-s", "match.minhash.min_similarity=0.3,0.5,0.95"];
    let swept = replay(&sweep);
    let near = [0, 1, 2].map(|variant| count(&swept, variant, "near"));
    assert!(near[0] >= near[1] && near[1] > near[2], "{near:?}");
    let alone = replay(&["--from", "start", "--into", "none", "-s", "match.minhash.min_similarity=0.95"]);
    assert_eq!(count(&alone, 0, "near"), near[2]);
    assert_eq!(count(&alone, 0, "unique"), count(&swept, 2, "unique"));

    // Only pages whose verdict differs go to the live outputs.
    let live =
        ["replay", "run", "--from", "start", "--into", "live", "-s", "match.minhash.min_similarity=0.95", "--execute"];
    let refusal = refused(&cluster, &[&live[..], &["--confirm-live", "another"]].concat(), 2);
    assert!(refusal.contains(&format!("--confirm-live {}", cluster.unique())), "{refusal}");
    let before = out.advance();
    let report = ask(&cluster, &[&live[..], &["--id", "again", "--confirm-live", cluster.unique()]].concat());
    let changed = report["variants"][0]["counts"]["changed"].as_object().unwrap();
    let changed: u64 = changed.values().map(|count| count.as_u64().unwrap()).sum();
    assert!(changed > 10);
    out.wait_for(before + usize::try_from(changed).unwrap());
    let unique = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate()]).read_to_end();
    let again: Vec<&Record> = unique.iter().filter(|record| record.header("dupgate.replay").is_some()).collect();
    assert_eq!(again.len(), usize::try_from(changed).unwrap());
    assert!(again.iter().all(|record| record.header("dupgate.replay") == Some("again")));
}

#[test]
fn a_mismatching_plan_is_refused_and_a_deleted_input_ends_the_run() {
    const PAGES: usize = 3_000;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 2);
    crawl(broker, &cluster, PAGES, 2);
    let file = cluster.disk("plan.json");
    let (file, folder) = (file.to_str().unwrap(), file.parent().unwrap());
    let planned =
        ["replay", "plan", "--from", "start", "--order", "time", "--id", "x", "--no-sample", "--plan-out", file];
    let planned = ask(&cluster, &planned);
    assert_eq!(planned["plan"]["records"], PAGES);
    assert_eq!(planned["plan"]["order"], "time");

    let text = std::fs::read_to_string(file).unwrap();
    let edited = folder.join("edited.json");
    std::fs::write(&edited, text.replace("\"warm_from\": 0", "\"warm_from\": 1")).unwrap();
    let run = |file: &str, more: &[&str], code| {
        refused(&cluster, &[&["replay", "run", file, "--execute"], more].concat(), code)
    };
    assert!(run(edited.to_str().unwrap(), &[], 66).contains("was changed after it was made"));
    let plan = dupgate_core::replay::Plan::read(&text).unwrap();
    std::fs::write(
        &edited,
        dupgate_core::replay::Plan { cluster: "another".to_owned(), ..plan.clone() }.sealed().text(),
    )
    .unwrap();
    assert!(run(edited.to_str().unwrap(), &[], 78).contains("the plan is of cluster `another`"));
    std::fs::write(&edited, dupgate_core::replay::Plan { rules: vec!["x".to_owned()], ..plan }.sealed().text())
        .unwrap();
    assert!(run(edited.to_str().unwrap(), &[], 78).contains("settings that decide verdicts have changed"));
    assert!(run(file, &["-s", "match.same_id=duplicate"], 2).contains("--set cannot change them"));
    assert!(run("no-such-file.json", &[], 66).contains("no-such-file.json"));
    let empty = refused(&cluster, &["replay", "plan", "--from", "end"], 66);
    let holds = format!("{}:0 offsets 0 to ", cluster.inputs()[0]);
    assert!(empty.contains("is empty: no record is between") && empty.contains(&holds), "{empty}");
    let unknown = refused(&cluster, &["replay", "plan", "--from", "start", "--partitions", "77"], 66);
    assert!(unknown.contains("has no partition 77 (--partitions)"), "{unknown}");
    let unknown = refused(&cluster, &["replay", "resume", "never"], 66);
    assert!(unknown.contains("no replay `never`"), "{unknown}");

    // A second run is refused while it runs; deleting the input ends it with a message, and its work is kept.
    let mut running = Running::start(cluster.command(&["replay", "run", file, "--execute", "--rate", "20/s"]));
    wait::until("its first commit", || {
        let status = status(&cluster, "x");
        (status["state"] == "running" && status["counts"]["pages"].as_u64() > Some(0)).then_some(())
    });
    assert!(run(file, &[], 78).contains("exists already"));
    let second = refused(&cluster, &["replay", "resume", "x"], 78);
    assert!(second.contains("is already running"), "{second}");
    broker.delete_topic(&cluster.inputs()[0]);
    let code = wait::until("the replay to end", || running.0.try_wait().expect("a status")).code();
    assert_eq!(code, Some(74));
    assert!(!shadow(&cluster, "x").is_empty());
}

#[test]
fn pages_larger_than_a_partitions_share_of_the_memory_do_not_block() {
    const PAGES: i32 = 12;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let config = json!({ "processing": { "max_in_flight_bytes": "1MiB" }, "input": { "max_document": "1MiB" } });
    let shape = Shape { topics: 1, partitions: 2, input_settings: &[], output_settings: &[], config };
    let cluster = Cluster::new(broker, shape);
    let producer = PageProducer::new(broker);
    for number in 0..2 * PAGES {
        let words: Vec<String> = (0..40_000).map(|word| format!("w{number}x{word}")).collect();
        let value = json!({ "url": format!("https://a.example/{number}"), "text": words.join(" ") }).to_string();
        let page = Page { key: number.to_string(), value: Some(value.into()), ..Page::default() };
        producer.write(&cluster.inputs()[0], number % 2, &page);
    }
    producer.flush();
    let replay = ["replay", "run", "--from", "start", "--order", "time", "--into", "none", "--execute"];
    let report = ask(&cluster, &replay);
    assert_eq!(report["variants"][0]["counts"]["pages"], 2 * PAGES);
}

#[test]
fn the_remaining_records_of_a_compacted_range_are_judged() {
    const PAGES: usize = 200;
    const KEYS: usize = 50;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 1);
    let producer = PageProducer::new(broker);
    let write = |number: usize, key: usize| {
        // Every second page is a copy of the one before it.
        let words: Vec<String> = (0..40).map(|word| format!("w{}x{word}", number / 2)).collect();
        let value = json!({ "url": format!("https://a.example/{number}"), "text": words.join(" ") }).to_string();
        let page = Page { key: key.to_string(), value: Some(value.into()), ..Page::default() };
        producer.write(&cluster.inputs()[0], 0, &page);
    };
    (0..PAGES).for_each(|number| write(number, number % KEYS));
    producer.flush();
    let mut team = Team::new(&cluster);
    team.join("one");
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    team.deliver(&mut out, PAGES);
    // Not before the pages are delivered. The newest segment is not compacted, so start another one.
    let compacted = [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.01"), ("segment.ms", "200")];
    broker.alter(&cluster.inputs()[0], &compacted);
    write(PAGES, KEYS);
    producer.flush();
    team.deliver(&mut out, PAGES + 1);
    team.disband();
    let live = verdicts_by_page(&[((String::new(), 0), out.read_to_end())].into());
    let left = wait::until("compaction", || {
        let left = TopicReader::open(broker, &[&cluster.inputs()[0]]).read_to_end().len();
        (left <= KEYS + 1).then_some(left)
    });

    let by_log = ask(&cluster, &["replay", "run", "--from", "start", "--order", "log", "--id", "log", "--execute"]);
    let counts = &by_log["variants"][0]["counts"];
    // Every verdict of the range is followed, including those of deleted pages.
    assert_eq!((&counts["pages"], &counts["gone"]), (&json!(PAGES + 1), &json!(PAGES + 1 - left)), "{counts}");
    let again = verdicts_by_page(&shadow(&cluster, "log"));
    assert_eq!(again.len(), left);
    assert!(again.iter().all(|(source, verdict)| live[source] == *verdict), "the live verdicts of what is left");

    let by_time = ["replay", "run", "--from", "start", "--order", "time", "--into", "none", "--execute"];
    let by_time = ask(&cluster, &by_time);
    assert_eq!(by_time["variants"][0]["counts"]["pages"], left);
}
