//! The walkthrough of a new user: the commands of the documentation, in its order, and their output as printed there.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use crate::broker::Broker;
use crate::cluster::Cluster;
use crate::cluster::records::TopicReader;
use crate::replay::{Running, cluster, crawl_part, parts, run};
use crate::several_instances::Team;

const PAGES: usize = 2_000;

/// Runs a command as documented and returns the output of both streams, with the names of the documentation.
fn type_in(cluster: &Cluster<'_>, command: &str) -> String {
    // As on a terminal; elsewhere it is JSON.
    let words: Vec<&str> = command.split(' ').chain(["-o", "table"]).collect();
    let output = run(cluster.command(&words));
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(output.status.success(), "{command}: {text}");
    // The last argument is the file with the configuration.
    let asked = cluster.command(&[]);
    let file = asked.get_args().last().unwrap().to_str().unwrap();
    let scheme = cluster.log_topic("verdicts");
    let scheme = scheme.split_once(".verdicts.").unwrap().1;
    text.replace(file, "dupgate.yaml")
        .replace(cluster.unique(), "crawl.pages.unique")
        .replace(cluster.duplicate(), "crawl.pages.duplicate")
        .replace(cluster.dead(), "crawl.pages.dead")
        .replace(&cluster.inputs()[0], "crawl.pages")
        .replace(cluster.group(), "crawl")
        .replace(scheme, "SCHEME")
}

/// Masks parts that depend on the pages and the machine: numbers, times, sizes, digests and the set of verdicts.
fn shape(text: &str) -> Vec<String> {
    let is_count = |word: &str| word.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | '.'));
    let masked = |word: &str| {
        let bare = word.trim_start_matches('(').trim_end_matches([')', ':']);
        let number = bare.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let is_hash = bare.len() == 32 && bare.chars().all(|c| c.is_ascii_hexdigit());
        if is_hash || (!number.is_empty() && is_count(number)) {
            return word.replace(bare, "N");
        }
        match bare.split_once(".verdicts.") {
            Some((log, _)) => format!("{log}.verdicts.SCHEME"),
            None => word.to_owned(),
        }
    };
    let line = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(masked).collect();
        match words.first().map(String::as_str) {
            Some(head @ ("verdicts" | "dead" | "changed" | "estimate" | "pages" | "same")) => head.to_owned(),
            _ => words.join(" "),
        }
    };
    // Drop log lines, which are JSON in this configuration.
    text.lines().filter(|text| !text.starts_with("{\"ts\"")).map(line).filter(|line| !line.is_empty()).collect()
}

/// The documented output of a command, without the option for the configuration.
fn documented(file: &str, command: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let requested = format!("$ dupgate {command} -c dupgate.yaml");
    let mut lines = text.lines().skip_while(|line| *line != requested);
    lines.next()?;
    let output: Vec<&str> = lines.take_while(|line| !line.starts_with("$ ") && !line.starts_with("```")).collect();
    Some(output.join("\n"))
}

/// Compares the documentation with the program's output.
fn is_documented(cluster: &Cluster<'_>, command: &str, file: &str) -> String {
    let output = type_in(cluster, command);
    let shown = documented(file, command).unwrap_or_else(|| panic!("{file} does not show `{command}`"));
    // Tables are in the order of names, which are random here.
    let (shown, found): (BTreeSet<_>, BTreeSet<_>) =
        (shape(&shown).into_iter().collect(), shape(&output).into_iter().collect());
    assert_eq!(shown, found, "{file} shows other output of `{command}` than it has:\n{output}");
    output
}

#[test]
fn a_new_user_plans_runs_kills_resumes_compares_and_cleans_up_as_documented() {
    const MANUAL: &str = "docs/REPLAY.md";
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 6);
    let mut team = Team::new(&cluster);
    team.join_as("one", json!({}));
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    for part in parts(PAGES) {
        crawl_part(broker, &cluster, part.clone(), 6);
        team.deliver(&mut out, part.start);
    }
    team.deliver(&mut out, PAGES);
    team.disband();

    let plan = "replay plan --from start -s match.minhash.min_similarity=0.8 --id strict --plan-out plan.json";
    let printed = is_documented(&cluster, plan, MANUAL);
    let next = printed.split_once("run it by `dupgate ").expect("what to type next").1.split_once('`').unwrap().0;
    assert_eq!(next, "replay run plan.json -c dupgate.yaml --execute");

    // It is killed in the middle; the status shows its progress.
    let words = next.split(' ').filter(|word| !["-c", "dupgate.yaml"].contains(word));
    let words: Vec<&str> = words.chain(["--rate", "10/s"]).collect();
    let mut killed = Running::start(cluster.command(&words));
    killed.wait_for_commit(&cluster, "strict", 0);
    killed.kill();
    let printed = is_documented(&cluster, "replay resume strict", MANUAL);
    assert!(printed.contains("pages     2,000 in"), "{printed}");
    is_documented(&cluster, "replay list", MANUAL);
    is_documented(&cluster, "replay diff strict", MANUAL);
    is_documented(&cluster, "replay clean strict", MANUAL);
    let printed = type_in(&cluster, "replay clean strict --execute");
    assert!(printed.contains("deleted") && !printed.contains("would be"), "{printed}");
    let printed = run(cluster.command(&["replay", "list", "-o", "jsonl"]));
    assert_eq!(String::from_utf8_lossy(&printed.stdout).trim(), "", "nothing is left");
}
