//! `demo`: a generated crawl with known duplicates, judged in this process or fed to a cluster and scored.
//!
//! Without a subcommand, the whole service runs over an in-process broker (or over `--brokers`), with topics of its
//! own. One thread feeds it; another reads its outputs back and compares them with the truth.

mod watcher;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;
use std::time::Duration;

use clap::{Args, Subcommand};
use crossbeam_channel::{Receiver, Sender, after, bounded, never, tick, unbounded};

use self::watcher::Watcher;
use super::Global;
use super::output::{print, print_report};
use super::progress_bar::ProgressDisplay;
use crate::clock::random_id;
use crate::config::Purpose;
use crate::config::settings::{Settings, Topics};
use crate::context;
use crate::crawl::score::{Found, LEGEND, Scorer};
use crate::crawl::{Crawl, CrawlSettings, Summary, Truth};
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::fatal::unavailable;
use crate::kafka::admin::{Admin, Brokers, LogNames};
use crate::kafka::client::{BATCH_BYTES, ClientSettings, ProducerSettings};
use crate::kafka::demo::{InProcessBroker, Step, Tail, Written};
use crate::kafka::pages::{Page, PageProducer};
use crate::protocol::VerdictKind;
use crate::record::{Reject, Source};
use crate::service;

/// Arguments of `demo`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Example:\n  dupgate demo --for 30s")]
pub struct DemoArgs {
    /// Stop after this time, e.g. 30s [default: run until Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", value_parser = super::duration)]
    pub duration: Option<Duration>,
    /// Use these brokers (host:port, comma-separated) and topics made for the demo [default: a broker in this process]
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT")]
    pub brokers: Vec<String>,
    /// Contents of the crawl
    #[command(flatten)]
    pub crawl: CrawlArgs,
    /// Without a subcommand: the whole service with an in-process broker
    #[command(subcommand)]
    pub command: Option<DemoCommand>,
}

/// What the generated crawl looks like. Equal arguments give equal crawls.
#[derive(Clone, Debug, Args)]
pub struct CrawlArgs {
    /// Seed of the generated crawl
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Share of pages that are edited copies of an earlier page
    #[arg(long, default_value_t = 0.2, value_parser = share, value_name = "SHARE")]
    pub near: f64,
    /// Share of pages that are exact copies of an earlier page
    #[arg(long, default_value_t = 0.1, value_parser = share, value_name = "SHARE")]
    pub exact: f64,
    /// Share of records that hold no readable page
    #[arg(long, default_value_t = 0.01, value_parser = share, value_name = "SHARE")]
    pub broken: f64,
    /// Share of Chinese pages; the others are English
    #[arg(long, default_value_t = 0.5, value_parser = share, value_name = "SHARE")]
    pub zh: f64,
}

/// Subcommands that use a cluster.
#[derive(Clone, Debug, Subcommand)]
pub enum DemoCommand {
    /// Produce the generated crawl to a cluster, with the expected verdict in a header
    #[command(
        after_help = "Example:\n  dupgate demo produce --brokers localhost:9092 --topic crawl.pages --rate 200/s"
    )]
    Produce(ProduceArgs),
    /// Read the outputs back and print precision and recall
    #[command(after_help = "Example:\n  dupgate demo score -c dupgate.yaml -o json")]
    Score {
        /// Brokers, host:port, comma-separated [default: those of the configuration]
        #[arg(long, value_delimiter = ',', value_name = "HOST:PORT")]
        brokers: Vec<String>,
    },
}

/// Arguments of `demo produce`.
#[derive(Clone, Debug, Args)]
pub struct ProduceArgs {
    /// Brokers, host:port, comma-separated [default: those of the configuration]
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT")]
    pub brokers: Vec<String>,
    /// Topics to write to, comma-separated [default: input.topics]
    #[arg(long, value_delimiter = ',')]
    pub topic: Vec<String>,
    /// Pages per second, e.g. 200/s; 0 for no limit
    #[arg(long, default_value = "200/s", value_parser = rate, value_name = "RATE")]
    pub rate: f64,
    /// Total number of pages [default: until Ctrl-C]
    #[arg(long, value_name = "PAGES")]
    pub count: Option<u64>,
    /// Contents of the crawl
    #[command(flatten)]
    pub crawl: CrawlArgs,
}

/// Runs the demo, or the subcommand.
///
/// # Errors
///
/// Any failure of the service or of the cluster.
pub fn demo(args: &DemoArgs, global: &Global) -> Result<(), Fatal> {
    match &args.command {
        None => play(args, global),
        Some(DemoCommand::Produce(args)) => produce(args, global),
        Some(DemoCommand::Score { brokers }) => score(brokers, global),
    }
}

impl CrawlArgs {
    /// Starts the crawl, spread over this many topics.
    fn crawl(&self, topics: usize) -> Result<Crawl, Fatal> {
        let Self { seed, zh, exact, near, broken } = *self;
        let settings = CrawlSettings { seed, zh, exact, near, broken, topics, ..CrawlSettings::default() };
        Crawl::new(settings).or_fatal(Reason::Usage)
    }
}

impl Global {
    /// Returns the options with settings that `--set` overrides and, if any are named, with brokers that override
    /// `--set`.
    fn with(&self, below: Vec<String>, brokers: &[String]) -> Self {
        let named = (!brokers.is_empty()).then(|| format!("kafka.brokers={}", brokers.join(",")));
        let set = below.into_iter().chain(self.set.clone()).chain(named).collect();
        Self { set, ..self.clone() }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is not a share from 0 to 1"))
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let rate = number.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
    rate.ok_or_else(|| format!("`{text}` is not a rate: expected pages per second, such as 200/s"))
}

/// Interval between two bursts of pages.
const BURST: Duration = Duration::from_millis(20);
const BURSTS_A_SECOND: f64 = 50.0;

/// Writes the requested number of pages at the requested rate.
fn produce(args: &ProduceArgs, global: &Global) -> Result<(), Fatal> {
    let settings = global.with(Vec::new(), &args.brokers).start(Purpose::Sieve)?.settings;
    if settings.kafka.brokers.is_empty() {
        return Err(fatal!(Usage, "no brokers: set --brokers or kafka.brokers"));
    }
    let topics = match &settings.input.topics {
        _ if !args.topic.is_empty() => args.topic.clone(),
        Topics::Names(names) if !names.is_empty() => names.clone(),
        Topics::Names(_) | Topics::Pattern(_) => return Err(fatal!(Usage, "no topic: set --topic or input.topics")),
    };
    let failed = Arc::new(AtomicU64::new(0));
    let count_failed = Arc::clone(&failed);
    let producer = PageProducer::open(&producer_config(&settings, "zstd"), move |(key, place)| {
        if let Err(error) = place {
            count_failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(target: "dupgate::cli", key, %error, "a page could not be written");
        }
    })
    .map_err(unavailable)?;

    // If the process is PID 1 of a container, a signal without a handler would not end it.
    let signals = service::signals()?;
    // The pages written and, if their number is known, the time left.
    let template = match args.count {
        Some(_) => "produce {bar:28} {percent:>3} %  {human_pos} pages  {per_sec}  left {eta}",
        None => "produce {spinner} {human_pos} pages  {per_sec}",
    };
    let progress = ProgressDisplay::new(args.count, template);
    let bursts = tick(BURST);
    let (mut credit, mut written) = (0.0, 0_u64);
    let count = args.count.unwrap_or(u64::MAX);
    let crawl = args.crawl.crawl(topics.len())?;
    for page in crawl.take(usize::try_from(count).unwrap_or(usize::MAX)) {
        if signals.try_recv().is_ok() {
            break;
        }
        while args.rate > 0.0 && credit < 1.0 {
            // The ticker lives as long as this loop.
            let _ = bursts.recv();
            credit += args.rate / BURSTS_A_SECOND;
        }
        credit -= 1.0;
        let Some(topic) = topics.get(page.topic) else { continue };
        let truth = page.truth.to_string();
        let record = Page { topic, key: &page.key, value: &page.value, header: (Truth::HEADER, &truth) };
        producer.write(record).map_err(unavailable)?;
        written += 1;
        if let Some(bar) = progress.bar() {
            bar.set_position(written);
        }
    }
    progress.finish();
    producer.flush().map_err(unavailable)?;
    let failed = failed.load(Ordering::Relaxed);
    tracing::info!(target: "dupgate::cli", written, failed, "crawl written");
    if failed > 0 {
        return Err(fatal!(Failure, "{failed} of {written} pages could not be written"));
    }
    Ok(())
}

/// Returns the settings of a client that writes pages.
fn producer_config(settings: &Settings, compression: &str) -> ClientSettings {
    let producer = ProducerSettings {
        compression: compression.to_owned(),
        max_record_bytes: 1 << 20,
        max_batch_bytes: BATCH_BYTES,
        transaction_timeout: settings.kafka.transaction_timeout,
    };
    context::connection(&settings.kafka).output_producer(&producer)
}

/// Time-out of one wait for an output.
const WAIT: Duration = Duration::from_millis(200);

/// A page of the crawl, as one output record shows it.
#[derive(Clone, Debug)]
struct JudgedPage {
    /// Key of the page.
    key: String,
    /// The truth about it.
    truth: Truth,
    /// Its verdict.
    found: Found,
    /// Place of the page that it was judged a duplicate of.
    matched: Option<String>,
}

/// Reads the headers of an output record; `None` if it is not of the generated crawl.
fn judged_page(written: &Written, prefix: &str) -> Option<JudgedPage> {
    let ours = |name: &str| written.header(&format!("{prefix}{name}"));
    let found = match ours("verdict") {
        Some(name) => Found::of(VerdictKind::named(name)?)?,
        None => Found::Dead(Reject::ALL.into_iter().find(|reason| Some(reason.name()) == ours("error.reason"))?),
    };
    let truth = written.header(Truth::HEADER)?.parse().ok()?;
    Some(JudgedPage { key: written.key.clone()?, truth, found, matched: ours("match").map(str::to_owned) })
}

/// Reads all outputs as they are now, and prints precision and recall by kind of edit.
fn score(brokers: &[String], global: &Global) -> Result<(), Fatal> {
    let settings = global.with(Vec::new(), brokers).start(Purpose::Run)?.settings;
    let config = context::connection(&settings.kafka).follower(&settings.input.group);
    let prefix = &settings.output.header_prefix;
    let (mut uniques, mut pages, mut keys, mut others) = (Vec::new(), Vec::new(), HashMap::new(), 0_u64);
    let output = &settings.output;
    // Originals are delivered before their duplicates, so the unique topic is read last.
    for topic in [&output.duplicate, &output.dead_letter, &output.unique].into_iter().flatten() {
        let of_topic = if Some(topic) == output.unique.as_ref() { &mut uniques } else { &mut pages };
        let failed =
            |error| Reason::Unavailable.because(anyhow::Error::from(error).context(format!("reading {topic}")));
        let mut tail = Tail::open(&config, &[topic]).map_err(failed)?;
        loop {
            match tail.next(WAIT).map_err(failed)? {
                Step::Record(written) => match judged_page(&written, prefix) {
                    Some(page) => {
                        if let Some(source) = written.header(&format!("{prefix}source")) {
                            keys.insert(source.to_owned(), page.key.clone());
                        }
                        of_topic.push(page);
                    }
                    None => others += 1,
                },
                Step::Nothing => {}
                Step::End => break,
            }
        }
    }
    let pages: Vec<JudgedPage> = uniques.into_iter().chain(pages).collect();
    let mut scorer = Scorer::new(usize::MAX);
    pages.iter().for_each(|page| scorer.plant(&page.key, &page.truth));
    for page in &pages {
        let matched = page.matched.as_ref().map(|source| keys.get(source).unwrap_or(source).as_str());
        scorer.note(&page.key, &page.truth, page.found, matched);
    }
    let report = scorer.report();
    if others > 0 {
        tracing::warn!(target: "dupgate::cli", others, "outputs that are not of a generated crawl were left out");
    }
    print_report(global.format(), &report.to_json(), || format!("{report}\n{LEGEND}"))
}

/// A message from the feeder to the watcher.
enum Fed {
    /// A page is about to be written: its key and its truth.
    Planted(String, Truth),
    /// A page was written: its key and its position.
    Written(String, Source),
    /// A page could not be written.
    Failed(String),
}

/// Shared state of the threads of the demo.
#[derive(Debug, Default)]
struct Shared {
    /// Whether feeding should stop.
    stop: AtomicBool,
    /// Pages written.
    fed: AtomicU64,
}

impl Shared {
    /// Returns whether the feeder is to stop.
    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks the feeder to stop.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// How long the feeder waits for outputs before it checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Writes page after page, at most `ahead` bytes ahead of the outputs seen, until it is asked to stop.
fn feed(
    crawl: Crawl,
    topics: &[String],
    config: &ClientSettings,
    ahead: u64,
    shared: &Arc<Shared>,
    fed_sender: &Sender<Fed>,
    seen: &Receiver<u64>,
) -> Result<(), Fatal> {
    let sink = fed_sender.clone();
    let producer = PageProducer::open(config, move |(key, place)| {
        let fed = match place {
            Ok(source) => Fed::Written(key, source),
            Err(error) => Fed::Failed(format!("{key}: {error}")),
        };
        // The watcher ends last. Once it has, the message is not needed.
        let _ = sink.send(fed);
    })
    .or_fatal(Reason::Failure)?;
    let mut on_their_way = 0_u64;
    for page in crawl {
        on_their_way = seen.try_iter().fold(on_their_way, u64::saturating_sub);
        while on_their_way > ahead && !shared.is_stopping() {
            on_their_way = on_their_way.saturating_sub(seen.recv_timeout(POLL_INTERVAL).unwrap_or(0));
        }
        if shared.is_stopping() {
            break;
        }
        let Some(topic) = topics.get(page.topic) else { continue };
        let truth = page.truth.to_string();
        let _ = fed_sender.send(Fed::Planted(page.key.clone(), page.truth));
        on_their_way += u64::try_from(page.value.len()).unwrap_or(0);
        let record = Page { topic, key: &page.key, value: &page.value, header: (Truth::HEADER, &truth) };
        producer.write(record).or_fatal(Reason::Failure)?;
        shared.fed.fetch_add(1, Ordering::Relaxed);
    }
    producer.flush().or_fatal(Reason::Failure)
}

/// Names of the input topics, after the run's own name.
const INPUTS: [&str; 3] = ["news", "blogs", "forums"];
const PARTITIONS: u8 = 2;
/// Maximum bytes that are fed and not delivered yet. An in-process broker keeps no more than 5 MB of a partition.
const AHEAD_IN_PROCESS: u64 = 2_000_000;
/// The same for a cluster: so few that a slow machine can judge them while the demo waits for its last verdicts.
const AHEAD: u64 = 8_000_000;

/// Runs the demo until its time is over or Ctrl-C ends it; then prints the results.
fn play(args: &DemoArgs, global: &Global) -> Result<(), Fatal> {
    let broker = if args.brokers.is_empty() {
        print(
            "This runs over a broker inside this process: it shows how pages are judged. It cannot show the effect \
             of crashes on delivery.",
        )?;
        Some(InProcessBroker::start().or_fatal(Reason::Failure)?)
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
        print(&format!("overview on http://{}/ui/   duplicates, and what differs, on its page Pairs", admin.listen))?;
    }
    print(&format!("topics {name}.*   metrics on http://{}/metrics", settings.http.listen))?;

    let kind = if broker.is_some() { Brokers::InProcess } else { Brokers::Cluster };
    let summary = run(args, settings, &topics, kind)?;
    summary.screen().iter().try_for_each(|line| print(line))?;
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
    let output = &settings.output;
    let outputs: Vec<&str> =
        [&output.unique, &output.duplicate, &output.dead_letter].into_iter().flatten().map(String::as_str).collect();
    let follower = context::connection(&settings.kafka).follower("demo-watcher");
    let (fed_sender, fed_receiver) = unbounded();
    let (seen, seen_receiver) = unbounded();
    let (metrics_sender, metrics) = bounded(1);
    let (service_end, service_ended) = bounded(1);
    let shared = Arc::new(Shared::default());
    let watcher = Watcher {
        tail: Tail::open(&follower, &outputs).or_fatal(Reason::Failure)?,
        prefix: output.header_prefix.clone(),
        fed_receiver,
        seen,
        metrics,
        shared: Arc::clone(&shared),
        end: args.duration.map_or_else(never, after),
        service_ended,
    };
    let config = producer_config(&settings, "none");
    let (crawl, topics) = (args.crawl.crawl(topics.len())?, topics.to_vec());

    let watching = Builder::new().name("watcher".to_owned()).spawn(move || watcher.watch());
    let watching = watching.or_fatal(Reason::Failure)?;
    let of_feeder = Arc::clone(&shared);
    let feeding = Builder::new()
        .name("feeder".to_owned())
        .spawn(move || feed(crawl, &topics, &config, ahead, &of_feeder, &fed_sender, &seen_receiver));
    let feeding = feeding.or_fatal(Reason::Failure)?;
    let served = service::run_watched(settings, brokers, |its| drop(metrics_sender.send(its.clone())));
    shared.stop();
    let _ = service_end.send(());
    let panicked = |_| fatal!(Bug, "a thread of the demo panicked");
    let fed = feeding.join().map_err(panicked)?;
    let summary = watching.join().map_err(panicked)?;
    served.and(fed).and(summary)
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
    fn shares_and_rates_are_checked() {
        assert_eq!(share("0.2"), Ok(0.2));
        assert!(share("1.1").is_err() && share("-0.1").is_err() && share("NaN").is_err() && share("x").is_err());
        assert_eq!(rate("200/s"), Ok(200.0));
        assert_eq!(rate("0"), Ok(0.0));
        assert!(rate("-1").is_err() && rate("inf").is_err() && rate("200/m").is_err());
    }

    #[test]
    fn brokers_named_win_over_everything_and_the_users_settings_over_the_demos() {
        let global = Global { set: vec!["window.size=1h".to_owned()], ..Global::default() };
        let with = global.with(vec!["window.size=2h".to_owned()], &["a:1".to_owned(), "b:2".to_owned()]);
        assert_eq!(with.set, ["window.size=2h", "window.size=1h", "kafka.brokers=a:1,b:2"]);
    }

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
