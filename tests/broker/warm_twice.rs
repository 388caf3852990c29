//! `index warm` beside another one.

use std::process::Stdio;

use super::broker::{Broker, wait};
use super::process::Process;
use super::run::instance::Site;
use super::run::text;
use super::run::topics::{committed, page, produce};

#[test]
fn a_second_warm_up_of_the_same_scheme_is_refused() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let instance = site.start("one");
    produce(broker, &site.input, 0, &[page(&text(1)), page(&text(2))]);
    committed(broker, &site.unique, 2);
    let file = site.operator_file();
    let running = file.to_str().expect("a path");
    let warm = |seed: &str| {
        let set = format!("match.seed={seed}");
        let arguments = ["index", "warm", "--running", running, "--execute", "--once", "-s", &set];
        let mut command = site.command(&arguments);
        command.stdin(Stdio::null());
        command
    };
    let mut first = site.command(&["index", "warm", "--running", running, "--execute", "-s", "match.seed=first"]);
    let mut first = Process::start(first.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    let verdict_logs =
        || site.topics().iter().filter(|name| name.starts_with(&format!("{}.verdicts.", site.group))).count();
    wait::until("the logs of the new scheme", || (verdict_logs() == 2).then_some(()));

    let second = warm("first").output().expect("the program");
    let message = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(78), "{message}");
    let process = format!("is already running on this machine as process {}", first.id());
    assert!(message.contains("the warm-up of scheme") && message.contains(&process), "{message}");
    assert!(message.contains("stop that process"), "{message}");
    let other = warm("second").output().expect("the program");
    assert!(other.status.success(), "of another scheme: {}", String::from_utf8_lossy(&other.stderr));

    // What a killed one leaves does not block the next one.
    first.kill().expect("a running warm-up");
    first.wait().expect("its end");
    let next = warm("first").output().expect("the program");
    assert!(next.status.success(), "{}", String::from_utf8_lossy(&next.stderr));
    instance.stop();
}
