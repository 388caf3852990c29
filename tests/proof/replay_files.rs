//! Replays of files, for archives that are no longer in topics, with the program as run by a user.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use dupgate::crawl::{Crawl, CrawlSettings};
use dupgate::record::Source;
use serde_json::{Value, json};

use crate::broker::{Broker, wait};
use crate::cluster::records::Record;
use crate::cluster::{Cluster, Shape};
use crate::replay::{Running, ask, cluster, refused, run, run_with_kills, status, verdicts_by_page};

/// A plain file, one compressed with gzip and one with zstd.
const FILES: [&str; 3] = ["pages-1.jsonl", "pages-2.jsonl.gz", "pages-3.jsonl.zst"];

/// A line that is not a page, and a blank one.
const BROKEN: &str = "{\"url\":\"https://broken.example/1\",\"text\":\"cut of\n \n";

fn path(cluster: &Cluster<'_>, name: &str) -> PathBuf {
    cluster.disk("none").with_file_name(name)
}

/// Writes a generated crawl to the files. Returns how many pages they hold.
fn archive(cluster: &Cluster<'_>, pages: usize) -> usize {
    let settings = CrawlSettings { seed: 23, topics: 1, bytes: 200..=900, ..CrawlSettings::default() };
    let lines: Vec<Vec<u8>> =
        Crawl::new(settings).unwrap().take(pages).map(|page| [page.value, b"\n".to_vec()].concat()).collect();
    let third = pages.div_ceil(FILES.len());
    for (name, lines) in FILES.into_iter().zip(lines.chunks(third)) {
        let text = [BROKEN.as_bytes(), &lines.concat()].concat();
        let bytes = match name.rsplit('.').next() {
            Some("gz") => {
                let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                packed.write_all(&text).unwrap();
                packed.finish().unwrap()
            }
            Some("zst") => zstd::encode_all(&*text, 1).unwrap(),
            _ => text,
        };
        std::fs::write(path(cluster, name), bytes).unwrap();
    }
    pages + FILES.len()
}

/// The result of `sieve` for each line: verdict and original, by position.
fn sieved(cluster: &Cluster<'_>) -> BTreeMap<String, (String, Option<String>)> {
    let output = run(cluster.command(&[&["sieve"][..], &FILES].concat()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |line: &Value, key: &str| line[key].as_str().map(str::to_owned);
    lines
        .map(|line| (text(&line, "source").unwrap(), (text(&line, "verdict").unwrap(), text(&line, "match"))))
        .collect()
}

/// Records of the shadow topics. Dead letters have no event time: theirs is the time of writing.
fn shadow(cluster: &Cluster<'_>, id: &str) -> BTreeMap<(String, i32), Vec<Record>> {
    let mut found = crate::replay::shadow(cluster, id);
    let dead = found.iter_mut().filter(|((topic, _), _)| topic == cluster.dead());
    dead.flat_map(|(_, records)| records).for_each(|record| record.timestamp = None);
    found
}

/// Names a line as `sieve` does.
fn place(source: &Source) -> String {
    let number = usize::try_from(source.partition.number).unwrap();
    assert_eq!(&*source.partition.topic, FILES[number], "the partition is the file's place among the files");
    dupgate::deduplicator::place_of(source)
}

#[test]
fn a_replay_of_files_gives_the_verdicts_of_sieve_despite_kills() {
    const PAGES: usize = 1_800;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let config =
        json!({ "window": { "timestamp_source": "field" }, "input": { "fields": { "fetched_at": "/fetched_at" } } });
    let shape = Shape { topics: 1, partitions: 2, input_settings: &[], output_settings: &[], config };
    let cluster = Cluster::new(broker, shape);
    let pages = archive(&cluster, PAGES);
    let of_files =
        |id: &'static str| [&["replay", "run", "--id", id, "--execute", "--from-files"][..], &FILES].concat();

    let first = ask(&cluster, &of_files("one"));
    let sieved = sieved(&cluster);
    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    for (verdict, _) in sieved.values() {
        *expected.entry(verdict.as_str()).or_default() += 1;
    }
    assert!(["unique", "exact", "near", "dead_letter"].iter().all(|verdict| expected.contains_key(verdict)), "{first}");
    let counts = &first["variants"][0]["counts"];
    assert_eq!((&counts["pages"], &counts["verdicts"]), (&json!(pages), &json!(expected)));
    let shadows = shadow(&cluster, "one");
    let replayed: BTreeMap<String, (String, Option<String>)> = verdicts_by_page(&shadows)
        .into_iter()
        .map(|(source, (verdict, of))| (place(&source), (verdict, of.map(|of| place(&of.parse().unwrap())))))
        .collect();
    let mut judged = sieved;
    judged.retain(|_, (verdict, _)| verdict != "dead_letter");
    assert_eq!(replayed, judged, "line for line");
    let dead = shadows.iter().filter(|((topic, _), _)| topic == cluster.dead()).flat_map(|(_, records)| records);
    let cut_off = BROKEN.lines().next().map(str::as_bytes);
    assert_eq!(dead.filter(|record| record.value.as_deref() == cut_off).count(), FILES.len(), "unchanged");

    let delivered = shadows.iter().filter(|((topic, _), _)| topic == cluster.unique()).flat_map(|(_, records)| records);
    let begin = "2026-09-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
    let times: Vec<i64> = delivered.filter_map(|record| record.timestamp).collect();
    assert!(times.iter().all(|time| (begin..begin + 600_000).contains(time)), "the times of the pages: {times:?}");

    // The same again, and killed and resumed: the same bytes.
    let second = ask(&cluster, &of_files("two"));
    assert_eq!(second["digests"], first["digests"]);
    assert!(shadow(&cluster, "two") == shadows, "other records");
    let killed = run_with_kills(&cluster, &of_files("killed"), "killed", pages, 3);
    assert_eq!((&killed["digests"], &killed["percent"]), (&first["digests"], &json!(100)));
    assert!(shadow(&cluster, "killed") == shadows, "other records");

    // Compared with each other, not with the service, which has judged no line.
    let same = ask(&cluster, &["replay", "diff", "two", "--against", "one", "--no-page", "--exit-code"]);
    assert_eq!((&same["same"], &same["changed"]), (&json!(judged.len()), &json!({})));
    assert!(refused(&cluster, &["replay", "diff", "two"], 2).contains("the service has not judged"));
    let strict = [&of_files("strict")[..], &["--into", "verdicts", "-s", "match.minhash.min_similarity=0.95"]].concat();
    ask(&cluster, &strict);
    let differ = ask(&cluster, &["replay", "diff", "strict", "--against", "one", "--page", "diff.html"]);
    assert!(differ["changed"]["near -> unique"].as_u64() > Some(10), "{differ}");
    let html = std::fs::read_to_string(path(&cluster, "diff.html")).unwrap();
    assert!(html.contains("<del>") && !html.contains("does not hold this page"), "the files hold all of them");

    // Several settings in one pass; then clean up.
    let sweep = ["--into", "none", "-s", "match.minhash.min_similarity=0.5,0.95"];
    let swept = ask(&cluster, &[&of_files("sweep")[..], &sweep].concat());
    let near = |variant: usize| swept["variants"][variant]["counts"]["verdicts"]["near"].as_u64().unwrap_or(0);
    assert!(near(0) > near(1), "{swept}");
    ask(&cluster, &["replay", "clean", "killed", "--execute"]);
    assert!(refused(&cluster, &["replay", "status", "killed"], 66).contains("there are one, strict, two"));
}

#[test]
fn a_file_that_has_changed_since_the_plan_is_refused_and_nothing_is_lost() {
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 1);
    archive(&cluster, 1_200);
    let plan = ["replay", "plan", "--id", "x", "--plan-out", "plan.json", "--from-files"];
    let planned = ask(&cluster, &[&plan[..], &FILES].concat());
    assert_eq!(planned["plan"]["files"].as_array().map(Vec::len), Some(FILES.len()));
    assert!(planned["estimate"]["seconds"].is_u64(), "{planned}");
    let (changed, good) = (path(&cluster, FILES[1]), std::fs::read(path(&cluster, FILES[1])).unwrap());
    let change = || std::fs::write(&changed, [&good[..], &good[..]].concat()).unwrap();

    change();
    let why = refused(&cluster, &["replay", "run", "plan.json", "--execute"], 74);
    assert!(why.contains(FILES[1]) && why.contains("has changed since the plan was made"), "{why}");
    let live = [&["replay", "run", "--into", "live", "--from-files"][..], &FILES].concat();
    assert!(refused(&cluster, &live, 2).contains("no live verdict to differ from"));

    // If the file changes in the middle, the verdicts are kept, and the replay continues once the file is restored.
    std::fs::write(&changed, &good).unwrap();
    let mut running = Running::start(cluster.command(&["replay", "run", "plan.json", "--execute", "--rate", "10/s"]));
    wait::until("progress", || {
        assert!(!running.has_ended(), "it was over before it was killed");
        (status(&cluster, "x")["percent"].as_u64()? > 0).then_some(())
    });
    running.kill();
    change();
    assert!(refused(&cluster, &["replay", "resume", "x"], 74).contains("has changed since the plan was made"));
    std::fs::write(&changed, &good).unwrap();
    assert!(run(cluster.command(&["replay", "resume", "x"])).status.success());
    let whole = [&["replay", "run", "--id", "y", "--execute", "--from-files"][..], &FILES].concat();
    assert_eq!(ask(&cluster, &["replay", "status", "x"])["digests"], ask(&cluster, &whole)["digests"]);
}
