//! A replay that is killed at drawn moments, the first of them before it has written anything.

use std::time::Duration;

use dupgate_testkit::rng::Rng;

use crate::broker::{Broker, wait};
use crate::cluster::Cluster;
use crate::replay::{Running, ask, by_time, cluster, crawl, run, shadow};

/// Kills. The seed of their moments: `DUPGATE_KILL_SEED`, or this one.
const KILLS: usize = 10;
const SEED: u64 = 20;

/// The processor time after which a replay is killed: at first while it starts, later at any time. Processor time,
/// because it does not depend on what else the machine does.
fn moment(rng: &mut Rng, kill: usize) -> Duration {
    let most = if kill < KILLS / 2 { 400 } else { 1_500 };
    Duration::from_millis(rng.below(most) as u64)
}

/// Returns the arguments that begin the replay, or that continue it where it is known.
fn next<'a>(cluster: &Cluster<'_>, first: &'a [&'a str], id: &'a str) -> Vec<&'a str> {
    let is_known = run(cluster.command(&["replay", "status", id])).status.success();
    if is_known { vec!["replay", "resume", id] } else { first.to_vec() }
}

#[test]
fn a_replay_killed_at_drawn_moments_ends_with_the_outputs_of_one_that_was_not() {
    const PAGES: usize = 8_000;
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let cluster = cluster(broker, 6);
    crawl(broker, &cluster, PAGES, 6);
    let whole = ask(&cluster, &by_time("whole"));

    let seed = std::env::var("DUPGATE_KILL_SEED").ok().map_or(SEED, |seed| seed.parse().expect("a number"));
    let mut rng = Rng::new(seed);
    let first = by_time("killed");
    let (mut kills, mut before_its_plan) = (0, 0);
    for kill in 0..KILLS {
        let arguments = next(&cluster, &first, "killed");
        before_its_plan += usize::from(arguments[1] == "run");
        let most = moment(&mut rng, kill);
        let mut running = Running::start(cluster.command(&arguments));
        let ended = wait::until("the moment of the kill", || {
            if let Some(status) = running.ended() {
                return Some(Some(status));
            }
            (running.processor_time() >= most).then_some(None)
        });
        if let Some(status) = ended {
            assert!(status.success(), "seed {seed}, kill {kill}: {status}");
            break;
        }
        running.kill();
        kills += 1;
    }
    assert!(kills >= KILLS / 2 && before_its_plan > 0, "seed {seed}: {kills} kills, {before_its_plan} before its plan");
    let last = run(cluster.command(&next(&cluster, &first, "killed")));
    assert!(last.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&last.stderr));

    let status = ask(&cluster, &["replay", "status", "killed"]);
    assert_eq!(status["state"], "done", "seed {seed}: {status}");
    assert_eq!(status["digests"], whole["digests"], "seed {seed}");
    assert_eq!(shadow(&cluster, "killed"), shadow(&cluster, "whole"), "seed {seed}");
}
