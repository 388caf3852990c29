//! A rolling upgrade of the chart's judges and workers, while pages flow all the time.
//!
//! The command lines, variables, files, probes and grace periods are those that helm renders ([`crate::kubernetes`]). This
//! test measures; it takes a minute or two and is run by `make test-failover`.
#![expect(clippy::disallowed_methods, reason = "the test measures time")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::broker::{Broker, wait};
use crate::cluster::instance::Instance;
use crate::cluster::{Cluster, Shape};
use crate::flow::{Consumed, Feed, each_page_came_out_once, printed};
use crate::kubernetes::chart::Release;
use crate::kubernetes::deployment::Deployment;
use crate::kubernetes::pod::{Node, Pod};
use crate::kubernetes::stateful_set::{Replacement, StatefulSet};
use crate::take_over::{SLACK, STOPPED, rounds};

/// The value file that is rendered.
const VALUES: &str = "production-values.yaml";

/// Partitions of the input: more than pods.
const PARTITIONS: i32 = 6;

/// Minimum number of upgrades.
const UPGRADES: usize = 5;

/// Tolerance of a hand-over beyond `judge.session_timeout`.
const TOLERANCE: Duration = Duration::from_secs(1);

/// What a user adds to the value file: names, sizes for this machine, and what each version of the release changes,
/// which are rules and operational settings of the configuration, and the image.
fn values(cluster: &Cluster<'_>, version: usize) -> Value {
    let (hours, distance, mebibytes) = if version.is_multiple_of(2) { (72, 3, 256) } else { (48, 2, 192) };
    json!({
        "image": { "tag": format!("upgrade-{version}") },
        "config": {
            "kafka": { "brokers": [cluster.broker().address()] },
            "input": { "topics": cluster.inputs(), "group": cluster.group() },
            "output": {
                "unique": { "topic": cluster.unique() },
                "duplicate": { "topic": cluster.duplicate() },
                "dead_letter": { "topic": cluster.dead() },
                "commit_interval": format!("{}ms", 200 + version),
            },
            "window": { "size": format!("{hours}h") },
            "match": { "simhash": { "max_distance": distance } },
            "index": { "max_memory": format!("{mebibytes}MiB") },
        },
        "inputPartitions": PARTITIONS,
        // Shorter than the default: the next pod is replaced sooner after the one before.
        "judges": { "minReadySeconds": 1 },
        "workers": { "replicas": 2, "minReadySeconds": 1 },
    })
}

/// The configuration series of an instance, without the instance's name.
fn configuration(instance: &Instance) -> String {
    let series = || instance.metrics().lines().find(|line| line.starts_with("dupgate_config_info")).map(str::to_owned);
    wait::until("dupgate_config_info", series)
}

/// The templates of both kinds of pods.
fn templates(release: &Release) -> [&Value; 2] {
    ["StatefulSet", "Deployment"].map(|kind| &release.the(kind)["spec"]["template"])
}

/// Checks that an upgrade replaces all pods, for another configuration and another image.
fn differ(before: &Release, after: &Release) {
    for (before, after) in templates(before).into_iter().zip(templates(after)) {
        let checksum = |pod: &Value| pod["metadata"]["annotations"]["checksum/config"].to_string();
        let image = |pod: &Value| pod["spec"]["containers"][0]["image"].to_string();
        assert_ne!(checksum(before), checksum(after), "the configuration changes the annotation");
        assert_ne!(image(before), image(after), "the tag changes the image");
    }
}

/// One upgrade: when it began and ended, and what was replaced.
struct Upgrade {
    begun: Instant,
    ended: Instant,
    judges: Vec<Replacement>,
}

#[test]
#[ignore = "measures for minutes; make test-failover runs it"]
fn a_rolling_upgrade_of_the_chart_loses_nothing_and_hands_over_the_judge() {
    let _turn = crate::turn();
    let Some(broker) = Broker::private() else { return };
    let shape =
        Shape { topics: 1, partitions: PARTITIONS, input_settings: &[], output_settings: &[], config: json!({}) };
    let cluster = Cluster::new(&broker, shape);
    let feed = Feed::start(&broker, &cluster.inputs()[0], PARTITIONS);

    let node = Node::new(cluster.folder());
    let mut release = Release::render(VALUES, &values(&cluster, 0));
    node.apply(&release);
    let mut workers = Deployment::create(&node, release.the("Deployment"));
    let mut judges = StatefulSet::create(&node, release.the("StatefulSet"));
    workers.wait_until_available();
    judges.wait_until_available();
    let limit = judges.pods()[0].settings().judge.session_timeout + TOLERANCE;
    let outputs = Consumed::start(&broker, &[cluster.unique(), cluster.duplicate()]);
    let verdicts = Consumed::start(&broker, &[&cluster.log_topic("verdicts")]);
    outputs.wait_for_a_steady_flow();

    // Pods are replaced from the last one on: the first upgrade begins with a standby, the others with the judge.
    let last = judges.pods().len() - 1;
    if judges.judge() == last {
        judges.replace(last);
        outputs.wait_for_a_steady_flow();
    }
    let mut upgrades = Vec::new();
    for version in 1..=rounds().max(UPGRADES) {
        let next = Release::render(VALUES, &values(&cluster, version));
        differ(&release, &next);
        release = next;
        let begun = Instant::now();
        node.apply(&release);
        // Both controllers act at the same time.
        let judges = std::thread::scope(|scope| {
            let workers = scope.spawn(|| workers.update(release.the("Deployment")));
            let judges = judges.update(release.the("StatefulSet"));
            workers.join().expect("the workers are replaced");
            judges
        });
        upgrades.push(Upgrade { begun, ended: Instant::now(), judges });
        outputs.wait_for_a_steady_flow();
        verdicts.wait_for_a_steady_flow();
    }

    let (mut handed_over, mut whole) = (Vec::new(), Vec::new());
    for (number, Upgrade { begun, ended, judges }) in upgrades.iter().enumerate() {
        let pause =
            |from, until| outputs.longest_pause_between(from, until).max(verdicts.longest_pause_between(from, until));
        for Replacement { pod, judged, deleted, replaced, available } in judges {
            let (pause, stopped, started) = (pause(*deleted, *available), *replaced - *deleted, *available - *replaced);
            let role = if *judged { "the judge" } else { "a standby" };
            eprintln!(
                "upgrade {number}: {pod}, {role}: pause {pause:.2?}, stopped in {stopped:.2?}, available in {started:.2?}"
            );
            if *judged {
                handed_over.push(pause);
            }
        }
        assert!(judges.iter().any(|replaced| replaced.judged), "upgrade {number} replaces the judge");
        whole.push(pause(*begun, *ended));
    }
    let pods = judges.pods().iter().chain(workers.pods());
    let hashes: BTreeSet<String> = pods.map(Pod::instance).map(configuration).collect();
    assert_eq!(hashes.len(), 1, "the newest configuration has reached all pods: {hashes:?}");
    feed.end();
    wait::until("every page to be committed", || (cluster.lag() == 0).then_some(()));
    workers.scale_to_zero();
    judges.scale_to_zero();
    each_page_came_out_once(&cluster);

    let after_a_standby = handed_over.first().copied().expect("the first upgrade replaces the judge");
    let (median, longest) = printed("hand-over of the judge in a rolling upgrade of the chart", handed_over, limit);
    assert!(longest <= limit, "a hand-over took {longest:?}");
    // A judge that stops leaves its group: its standby does not wait for the end of a session.
    assert!(median <= STOPPED, "hand-overs took {median:?}");
    // Nor does the group wait for a standby that has stopped before.
    assert!(after_a_standby <= STOPPED + SLACK, "the hand-over after a standby was replaced took {after_a_standby:?}");
    let (_, longest) =
        printed("rolling upgrade of the chart's judges and workers, longest pause of each", whole, limit);
    assert!(longest <= limit, "outputs paused for {longest:?}");
}
