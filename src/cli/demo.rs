//! `demo`: a generated crawl with known duplicates, judged in this process or fed to a cluster and scored.
//!
//! Without a subcommand, the whole service runs over an in-process broker (or over `--brokers`), with topics of its
//! own. One thread feeds it; another reads its outputs back and compares them with the truth.

mod feeder;
mod produce;
mod score;
mod deployment;
mod watcher;

use std::time::Duration;

use clap::{Args, Subcommand};

use super::Global;
use crate::crawl::{Crawl, CrawlSettings};
use crate::error::{Fatal, Reason};

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
        Some(DemoCommand::Produce(produce)) => produce::produce(produce, global),
        Some(DemoCommand::Score(score)) => score::score(score, global),
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
