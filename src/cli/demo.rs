//! `demo`: a generated crawl with known duplicates, judged in this process or fed to a cluster and scored.
//!
//! Without a subcommand, the whole service runs over an in-process broker (or over `--brokers`), with topics of its
//! own. One thread feeds it; another reads its outputs back and compares them with the truth.

mod deployment;
mod watcher;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use crossbeam_channel::{Receiver, Sender, tick};

use super::Global;
use super::output::{Format, print, print_json};
use super::progress_bar::ProgressDisplay;
use crate::config::Purpose;
use crate::config::settings::Topics;
use crate::context;
use crate::crawl::score::{Found, LEGEND, Scorer};
use crate::crawl::{Crawl, CrawlSettings, Truth};
use crate::error::{Fatal, Reason};
use crate::fatal::unavailable;
use crate::kafka::client::{BATCH_BYTES, ClientSettings, ProducerSettings};
use crate::kafka::demo::{Step, Tail, Written};
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
    Score(ScoreArgs),
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

/// Arguments of `demo score`.
#[derive(Clone, Debug, Args)]
pub struct ScoreArgs {
    /// Brokers, host:port, comma-separated [default: those of the configuration]
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT")]
    pub brokers: Vec<String>,
}

/// Runs the demo, or the subcommand.
///
/// # Errors
///
/// Any failure of the service or of the cluster.
pub fn demo(args: &DemoArgs, global: &Global) -> Result<(), Fatal> {
    match &args.command {
        None => deployment::play(args, global),
        Some(DemoCommand::Produce(args)) => produce(args, global),
        Some(DemoCommand::Score(args)) => score(args, global),
    }
}

impl CrawlArgs {
    /// Starts the crawl, spread over this many topics.
    fn crawl(&self, topics: usize) -> Result<Crawl, Fatal> {
        let Self { seed, zh, exact, near, broken } = *self;
        let settings = CrawlSettings { seed, zh, exact, near, broken, topics, ..CrawlSettings::default() };
        Crawl::new(settings).map_err(|error| Reason::Usage.because(error))
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
        return Err(Reason::Usage.because(anyhow::anyhow!("no brokers: set --brokers or kafka.brokers")));
    }
    let topics = match &settings.input.topics {
        _ if !args.topic.is_empty() => args.topic.clone(),
        Topics::Names(names) if !names.is_empty() => names.clone(),
        Topics::Names(_) | Topics::Pattern(_) => {
            return Err(Reason::Usage.because(anyhow::anyhow!("no topic: set --topic or input.topics")));
        }
    };
    let failed = Arc::new(AtomicU64::new(0));
    let count_failed = Arc::clone(&failed);
    let producer = ProducerSettings {
        compression: "zstd".to_owned(),
        max_record_bytes: 1 << 20,
        max_batch_bytes: BATCH_BYTES,
        transaction_timeout: settings.kafka.transaction_timeout,
    };
    let config = context::connection(&settings.kafka).output_producer(&producer);
    let producer = PageProducer::open(&config, move |(key, place)| {
        if let Err(error) = place {
            count_failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(target: "dupgate::cli", key, %error, "a page could not be written");
        }
    })
    .map_err(unavailable)?;

    // If the process is PID 1 of a container, a signal without a handler would not end it.
    let signals = service::signals()?;
    let progress = ProgressDisplay::new(args.count, template(args.count));
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
        return Err(Reason::Failure.because(anyhow::anyhow!("{failed} of {written} pages could not be written")));
    }
    Ok(())
}

/// Returns the template of the progress bar. It shows the pages written and, if their number is known, the time left.
const fn template(count: Option<u64>) -> &'static str {
    match count {
        Some(_) => "produce {bar:28} {percent:>3} %  {human_pos} pages  {per_sec}  left {eta}",
        None => "produce {spinner} {human_pos} pages  {per_sec}",
    }
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
fn score(args: &ScoreArgs, global: &Global) -> Result<(), Fatal> {
    let settings = global.with(Vec::new(), &args.brokers).start(Purpose::Run)?.settings;
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
    match Format::or_usual(global.output) {
        Format::Table => print(&format!("{report}\n{LEGEND}")),
        format @ (Format::Json | Format::Jsonl) => print_json(&report.to_json(), format),
    }
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
    .map_err(|error| Reason::Failure.because(error))?;
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
        producer.write(record).map_err(|error| Reason::Failure.because(error))?;
        shared.fed.fetch_add(1, Ordering::Relaxed);
    }
    producer.flush().map_err(|error| Reason::Failure.because(error))
}

#[cfg(test)]
mod tests {
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
}
