//! The demo itself: a broker, topics, the service, and the threads around it.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Builder;

use crossbeam_channel::{after, bounded, never, unbounded};

use super::watcher::Watcher;
use super::{DemoArgs, Shared};
use crate::cli::Global;
use crate::cli::output::print;
use crate::clock::random_id;
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::context;
use crate::crawl::Summary;
use crate::error::{Fatal, Reason};
use crate::fatal::unavailable;
use crate::kafka::admin::{Admin, Brokers, LogNames};
use crate::kafka::client::{BATCH_BYTES, ProducerSettings};
use crate::kafka::demo::InProcessBroker;
use crate::kafka::demo::Tail;
use crate::service;

/// Names of the input topics, after the run's own name.
const INPUTS: [&str; 3] = ["news", "blogs", "forums"];
const PARTITIONS: u8 = 2;
/// Maximum bytes that are fed and not delivered yet. An in-process broker keeps no more than 5 MB of a partition.
const AHEAD_IN_PROCESS: u64 = 2_000_000;
/// The same for a cluster: so few that a slow machine can judge them while the demo waits for its last verdicts.
const AHEAD: u64 = 8_000_000;

/// Runs the demo until its time is over or Ctrl-C ends it; then prints the results.
pub(super) fn play(args: &DemoArgs, global: &Global) -> Result<(), Fatal> {
    let broker = if args.brokers.is_empty() {
        print_line(
            "This runs over a broker inside this process: it shows how pages are judged. It cannot show the effect \
             of crashes on delivery.",
        )?;
        Some(InProcessBroker::start().map_err(|error| Reason::Failure.because(error))?)
    } else {
        None
    };
    let brokers = broker.as_ref().map_or_else(|| args.brokers.clone(), |broker| vec![broker.address()]);
    let name = if broker.is_some() { "demo".to_owned() } else { format!("demo-{:08x}", random_id() >> 32) };
    let topics: Vec<String> = INPUTS.iter().map(|input| format!("{name}.{input}")).collect();
    let folder = Folder(std::env::temp_dir().join(format!("dupgate-{name}-{}", std::process::id())));
    let settings = global.with(own_settings(&name, &topics, &folder.0), &brokers).start(Purpose::Run)?.settings;
    make_topics(broker.as_ref(), &settings, &topics)?;
    if let Some(admin) = &settings.http.admin {
        print_line(&format!(
            "overview on http://{}/ui/   duplicates, and what differs, on its page Pairs",
            admin.listen
        ))?;
    }
    print_line(&format!("topics {name}.*   metrics on http://{}/metrics", settings.http.listen))?;

    let kind = if broker.is_some() { Brokers::InProcess } else { Brokers::Cluster };
    let summary = run(args, settings, &topics, kind)?;
    for line in summary.screen() {
        print_line(&line)?;
    }
    // Let the broker live until the process ends: clients that are still closing would log errors without it.
    std::mem::forget(broker);
    Ok(())
}

/// Returns settings for topics, group and state that belong to this run alone. The user's settings override them.
fn own_settings(name: &str, topics: &[String], folder: &std::path::Path) -> Vec<String> {
    vec![
        format!("input.topics={}", topics.join(",")),
        format!("input.group={name}"),
        format!("input.instance_id={name}"),
        format!("output.unique.topic={name}.unique"),
        format!("output.duplicate.topic={name}.duplicate"),
        format!("output.dead_letter.topic={name}.dead"),
        format!("index.path={}", folder.display()),
        "index.max_memory=256MiB".to_owned(),
        format!("http.listen=127.0.0.1:{}", free_port(9464)),
        format!("http.admin.listen=127.0.0.1:{}", free_port(9465)),
        "logging.level=error".to_owned(),
    ]
}

/// Returns this port of the loopback address, or another one if it is in use.
fn free_port(usual: u16) -> u16 {
    let port = |wanted: u16| {
        let bound = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, wanted)).ok()?;
        bound.local_addr().ok().map(|address| address.port())
    };
    port(usual).or_else(|| port(0)).unwrap_or(usual)
}

fn make_topics(broker: Option<&InProcessBroker>, settings: &Settings, inputs: &[String]) -> Result<(), Fatal> {
    let output = &settings.output;
    let outputs = [&output.unique, &output.duplicate, &output.dead_letter].into_iter().flatten();
    let data: Vec<&String> = inputs.iter().chain(outputs).collect();
    let Some(broker) = broker else {
        let admin = Admin::new(&context::connection(&settings.kafka).admin()).map_err(unavailable)?;
        return data
            .into_iter()
            .try_for_each(|topic| admin.ensure_topic(topic, usize::from(PARTITIONS)))
            .map_err(unavailable);
    };
    // The in-process broker does not create topics at a client's request, so create the logs here, too.
    let names = LogNames::new(&settings.logs.prefix, &settings.scheme().to_string());
    let logs = i32::try_from(settings.log_partitions().get()).unwrap_or(i32::MAX);
    let made = data.into_iter().map(|topic| (topic.as_str(), i32::from(PARTITIONS)));
    made.chain([(&*names.fingerprints, logs), (&*names.verdicts, logs)])
        .try_for_each(|(topic, partitions)| broker.create_topic(topic, partitions))
        .map_err(unavailable)
}

fn run(args: &DemoArgs, settings: Settings, topics: &[String], brokers: Brokers) -> Result<Summary, Fatal> {
    let ahead = match brokers {
        Brokers::InProcess => AHEAD_IN_PROCESS,
        Brokers::Cluster => AHEAD,
    };
    let failure = |error: anyhow::Error| Reason::Failure.because(error);
    let connection = context::connection(&settings.kafka);
    let output = &settings.output;
    let outputs: Vec<&str> =
        [&output.unique, &output.duplicate, &output.dead_letter].into_iter().flatten().map(String::as_str).collect();
    let tail = Tail::open(&connection.follower("demo-watcher"), &outputs).map_err(|error| failure(error.into()))?;
    let (fed_sender, fed_receiver) = unbounded();
    let (seen, seen_receiver) = unbounded();
    let (metrics_sender, metrics) = bounded(1);
    let (service_end, service_ended) = bounded(1);
    let shared = Arc::new(Shared::default());
    let watcher = Watcher {
        tail,
        prefix: output.header_prefix.clone(),
        fed_receiver,
        seen,
        metrics,
        shared: Arc::clone(&shared),
        end: args.duration.map_or_else(never, after),
        service_ended,
    };
    let producer = ProducerSettings {
        compression: "none".to_owned(),
        max_record_bytes: 1 << 20,
        max_batch_bytes: BATCH_BYTES,
        transaction_timeout: settings.kafka.transaction_timeout,
    };
    let config = connection.output_producer(&producer);
    let (crawl, topics) = (args.crawl.crawl(topics.len())?, topics.to_vec());

    let watching = Builder::new().name("watcher".to_owned()).spawn(move || watcher.watch());
    let watching = watching.map_err(|error| failure(error.into()))?;
    let feeding = {
        let shared = Arc::clone(&shared);
        Builder::new()
            .name("feeder".to_owned())
            .spawn(move || super::feed(crawl, &topics, &config, ahead, &shared, &fed_sender, &seen_receiver))
            .map_err(|error| failure(error.into()))?
    };
    let served = service::run_watched(settings, brokers, |its| drop(metrics_sender.send(its.clone())));
    shared.stop();
    let _ = service_end.send(());
    let panicked = |_| Reason::Bug.because(anyhow::anyhow!("a thread of the demo panicked"));
    let fed = feeding.join().map_err(panicked)?;
    let summary = watching.join().map_err(panicked)?;
    served.and(fed).and(summary)
}

/// Writes one line to standard output.
fn print_line(line: &str) -> Result<(), Fatal> {
    print(line)
}

/// A folder for snapshots that is deleted with the demo.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // The folder does not exist if nothing was written.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn two_demos_listen_on_different_ports_and_only_on_loopback() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, taken)).unwrap();
        let other = free_port(taken);
        assert_ne!(other, taken);
        TcpListener::bind((Ipv4Addr::LOCALHOST, other)).unwrap();
        drop(held);
        assert_eq!(free_port(taken), taken, "the default port, if it is free");

        let settings = own_settings("demo", &["demo.news".to_owned()], std::path::Path::new("folder"));
        let listeners: Vec<&String> = settings.iter().filter(|line| line.contains("listen=")).collect();
        assert_eq!(listeners.len(), 2);
        assert!(listeners.iter().all(|line| line.contains("listen=127.0.0.1:")), "{listeners:?}");
    }
}
