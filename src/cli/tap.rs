//! `tap`: verdicts as they happen, with the ids of both pages.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::Global;
use super::ask::{Instance, in_query};
use super::output::{Format, print};
use super::ruling::{Form, age, line, object, other};
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::kafka::pages::Pages;
use crate::log::{Answer, PageRuling, VerdictRecord};
use crate::record::{Decoder, Source};
use crate::runtime::clock::wall_time;
use crate::runtime::verdicts::{Extent, read};
use crate::runtime::wiring::{self, failure};
use crate::worker::verdict;

/// How long the pages of one ruling may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Arguments of `tap`.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = "Example:\n  dupgate tap -c dupgate.yaml --verdict near --limit 3\n  dupgate tap -c dupgate.yaml --running --verdict near"
)]
pub struct TapArgs {
    /// Only these verdicts; --running has exact and near only
    #[arg(long, value_enum, value_name = "VERDICT", value_delimiter = ',')]
    pub verdict: Vec<Wanted>,
    /// Stop after this many
    #[arg(long, value_name = "NUMBER")]
    pub limit: Option<u64>,
    /// Print what the log holds instead of new verdicts
    #[arg(long)]
    pub kept: bool,
    /// Print positions only, without fetching the pages: faster
    #[arg(long)]
    pub no_ids: bool,
    /// Whom to ask, instead of the cluster: it tells of duplicates only, and of a sample when there are many.
    #[command(flatten)]
    pub instance: Instance,
}

/// A verdict to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wanted {
    /// Nothing near it is remembered
    Unique,
    /// A known page with changed text
    Update,
    /// Near text with other numbers
    Template,
    /// Identical text
    Exact,
    /// Near text
    Near,
    /// Dead letters whose verdict was requested before; unreadable records have no request
    Dead,
}

impl Wanted {
    const fn name(self) -> &'static str {
        match self {
            Self::Unique => "unique",
            Self::Update => "update",
            Self::Template => "template",
            Self::Exact => "exact",
            Self::Near => "near",
            Self::Dead => "dead",
        }
    }
}

/// Prints rulings until there are enough of them or somebody stops it.
///
/// # Errors
///
/// When the verdict log cannot be read.
pub fn tap(args: &TapArgs, global: &Global) -> Result<(), Fatal> {
    if args.instance.running.is_some() {
        return tap_running(args, global);
    }
    let settings = global.start(Purpose::Run)?.settings;
    let names = if args.no_ids { None } else { Some(Names::open(&settings)?) };
    let format = Format::or_usual(global.output);
    let extent = if args.kept { Extent::Kept } else { Extent::New };
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut outcome = Ok(());
    read(&settings, extent, |news| {
        let Some(VerdictRecord::Rulings(batch)) = news.map(|news| news.record) else {
            return ControlFlow::Continue(());
        };
        for ruling in batch.rulings {
            let name = match &ruling.answer {
                Answer::Page(page) => verdict(page),
                Answer::Withdrawn { .. } => "dead",
                Answer::Forgotten(_) | Answer::Reopened { .. } => continue,
            };
            let by_default = args.verdict.is_empty() && name != "dead";
            if !by_default && !args.verdict.iter().any(|wanted| wanted.name() == name) {
                continue;
            }
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            let form = settings.fingerprint.minhash.form;
            outcome = match &ruling.answer {
                Answer::Page(page) => {
                    let ids = names.as_ref().map(|names| names.of(page)).unwrap_or_default();
                    show(page, &ids, form, format)
                }
                Answer::Withdrawn { source, reason } if format == Format::Table => {
                    print(&format!("{}  dead    {}  {source}", time_of_day(), reason.name()))
                }
                answer @ (Answer::Withdrawn { .. } | Answer::Forgotten(_) | Answer::Reopened { .. }) => {
                    print(&other(answer, form).to_string())
                }
            };
            if outcome.is_err() || left == 0 {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    outcome
}

/// Prints the duplicates that a running instance tells of.
fn tap_running(args: &TapArgs, global: &Global) -> Result<(), Fatal> {
    if let Some(verdict) = args.verdict.iter().find(|verdict| !matches!(verdict, Wanted::Exact | Wanted::Near)) {
        let why = anyhow::anyhow!(
            "--running offers duplicates only (exact, near), not `{}`: without it tap reads the verdict log",
            verdict.name()
        );
        return Err(Reason::Usage.because(why));
    }
    let settings = global.start(Purpose::Sieve)?.settings;
    let Some(running) = args.instance.of(&settings)? else { return Ok(()) };
    let format = Format::or_usual(global.output);
    let mut left = args.limit.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(());
    }
    let query = format!(
        "pairs/stream?verdict={}",
        in_query(&args.verdict.iter().map(|verdict| verdict.name()).collect::<Vec<_>>().join(","))
    );
    running.listen(&query, |pair| {
        match format {
            Format::Table => print(&pair_line(pair))?,
            Format::Json | Format::Jsonl => print(&pair.to_string())?,
        }
        left -= 1;
        Ok(left > 0)
    })
}

/// As [`line()`] says a ruling: `08:14:02  near  d=2  a:3:1 ~ a:9:2  31h  ID ~ ID`.
fn pair_line(pair: &Value) -> String {
    let text = |key: &str| pair[key].as_str().unwrap_or("-");
    let number = |key: &str| pair[key].as_i64().unwrap_or(0);
    let figure = |key: &str| pair[key].as_f64();
    let measure = match (figure("containment"), figure("distance"), figure("similarity")) {
        (Some(share), ..) => format!("c={share}"),
        (None, Some(bits), _) => format!("d={bits}"),
        (None, None, Some(similarity)) => format!("s={similarity}"),
        (None, None, None) => "s=?".to_owned(),
    };
    let clock = jiff::Timestamp::from_millisecond(number("at_ms")).map(|at| at.strftime("%H:%M:%S").to_string());
    format!(
        "{}  {:<6}  {}  {} ~ {}  {}  {}  ~  {}",
        clock.unwrap_or_default(),
        text("verdict"),
        measure,
        text("source"),
        text("match"),
        age(number("age_ms")),
        text("id"),
        text("match_id")
    )
}

fn time_of_day() -> String {
    let now = jiff::Timestamp::from_millisecond(wall_time().millis());
    now.map(|now| now.strftime("%H:%M:%S").to_string()).unwrap_or_default()
}

fn show(page: &PageRuling, ids: &BTreeMap<Source, String>, form: Form, format: Format) -> Result<(), Fatal> {
    if format == Format::Table {
        return print(&format!("{}  {}", time_of_day(), line(page, form, |source| ids.get(source).cloned())));
    }
    let mut object = object(page, form);
    let mut put = |name: &str, source: Option<&Source>| {
        if let Some(id) = source.and_then(|source| ids.get(source)) {
            object.insert(name.to_owned(), id.as_str().into());
        }
    };
    put("id", Some(&page.source));
    put("match_id", page.decision.matched().map(|of| &of.source));
    print(&Value::Object(object).to_string())
}

/// Finds the ids of pages by reading them.
pub(super) struct Names {
    pages: Pages,
    decoder: Decoder,
}

impl Names {
    /// Makes the client.
    pub(super) fn open(settings: &Settings) -> Result<Self, Fatal> {
        let config = wiring::cluster(&settings.kafka).follower(&settings.input.group);
        let decoder = Decoder::new(&settings.record, settings.text.max_nesting).map_err(failure)?;
        Ok(Self { pages: Pages::open(&config, PATIENCE).map_err(failure)?, decoder })
    }

    /// Returns the ids of the page and of the page that it matched, as far as they can be read.
    pub(super) fn of(&self, page: &PageRuling) -> BTreeMap<Source, String> {
        let sources: Vec<&Source> =
            std::iter::once(&page.source).chain(page.decision.matched().map(|of| &of.source)).collect();
        let found = self.pages.fetch(&sources).unwrap_or_default();
        let id = |(source, bytes): (Source, crate::kafka::pages::PageBytes)| {
            let id = self.decoder.decode(&bytes.record()).ok()?.id?.into_owned();
            // One line, whatever the page calls itself.
            Some((source, id.chars().filter(|c| !c.is_control()).take(256).collect()))
        };
        found.into_iter().filter_map(id).collect()
    }
}
