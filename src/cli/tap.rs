//! `tap`: prints verdicts as they happen, with the ids of both pages.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::Global;
use super::help::one_of;
use super::instance::{Instance, in_query};
use super::output::{Format, StreamedTable, age, extend, member, print};
use super::verdict::{HEADS, cells, nearness, object, other};
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::context;
use crate::error::{Fatal, fatal};
use crate::fatal::failure;
use crate::kafka::pages::{PageBytes, Pages};
use crate::operators::verdicts::{LogExtent, Read, read};
use crate::protocol::{Answer, PageVerdict, VerdictKind, VerdictRecord};
use crate::record::{Decoder, Source, Timestamp};

/// Time-out for fetching the pages of one verdict.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Arguments of `tap`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "Examples:\n  dupgate tap -c dupgate.yaml --verdict near --limit 3\n  \
                  dupgate tap -c dupgate.yaml --running --verdict near\n\n\
                  NEARNESS is d=differing bits of the SimHash, s=estimated similarity, or c=share of the smaller page in the other.")]
pub struct TapArgs {
    /// Only these verdicts; --running has exact and near only
    #[arg(
        long,
        value_parser = one_of(&VerdictKind::ALL, VerdictKind::name, verdict_help),
        value_name = "VERDICT",
        value_delimiter = ','
    )]
    pub verdict: Vec<VerdictKind>,
    /// Stop after this many
    #[arg(long, value_name = "NUMBER")]
    pub limit: Option<u64>,
    /// Print what the log holds instead of new verdicts
    #[arg(long)]
    pub kept: bool,
    /// Print positions only, without fetching the pages: faster
    #[arg(long)]
    pub no_ids: bool,
    /// The instance to ask instead of the cluster: it reports duplicates only, and a sample if there are many.
    #[command(flatten)]
    pub instance: Instance,
}

const fn verdict_help(verdict: VerdictKind) -> &'static str {
    match verdict {
        VerdictKind::Unique => "Nothing near it is remembered",
        VerdictKind::Update => "A known page with changed text",
        VerdictKind::Template => "Near text with other numbers",
        VerdictKind::Exact => "Identical text",
        VerdictKind::Near => "Near text",
        VerdictKind::Withdrawn => "Dead letters whose verdict was requested before; unreadable records have no request",
    }
}

/// Prints verdicts until the limit is reached or the command is stopped.
///
/// # Errors
///
/// The verdict log cannot be read.
pub fn tap(args: &TapArgs, global: &Global) -> Result<(), Fatal> {
    if args.instance.running.is_some() {
        return tap_running(args, global);
    }
    let settings = global.start(Purpose::Run)?.settings;
    let names = if args.no_ids { None } else { Some(Names::open(&settings)?) };
    let extent = if args.kept { LogExtent::Kept } else { LogExtent::New };
    let mut lines = Lines::begin(global.format(), extent, names.is_some())?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut outcome = Ok(());
    read(&settings, extent, |news| {
        let Some(Read { record: VerdictRecord::Verdicts(batch), time, .. }) = news else {
            return ControlFlow::Continue(());
        };
        let time = time.map(|time| shown_time(time, extent)).unwrap_or_default();
        for verdict in batch.verdicts {
            let Some(kind) = verdict.answer.kind() else { continue };
            let by_default = args.verdict.is_empty() && kind != VerdictKind::Withdrawn;
            if !by_default && !args.verdict.contains(&kind) {
                continue;
            }
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            let form = settings.fingerprint.minhash.form;
            outcome = match &verdict.answer {
                Answer::Page(page) => {
                    let ids = names.as_ref().map(|names| names.of(page)).unwrap_or_default();
                    let id = |source: &Source| ids.get(source).cloned();
                    lines.print(&time, &cells(page, form, id), || {
                        let mut object = object(page, form);
                        if let Some(id) = id(&page.source) {
                            extend(&mut object, json!({"id": id}));
                        }
                        if let Some(id) = page.decision.matched().and_then(|of| id(&of.source)) {
                            extend(&mut object, json!({"match_id": id}));
                        }
                        object
                    })
                }
                Answer::Withdrawn { source, reason } => {
                    let why = format!("({})", reason.name());
                    let cells = [kind.name(), "-", "-", &source.to_string(), &why, "-", "-"].map(str::to_owned);
                    lines.print(&time, &cells, || other(&verdict.answer, form))
                }
                Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. } => Ok(()),
            };
            if outcome.is_err() || left == 0 {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    outcome
}

/// Prints the duplicates that a running instance reports.
fn tap_running(args: &TapArgs, global: &Global) -> Result<(), Fatal> {
    if let Some(verdict) = args.verdict.iter().find(|verdict| !verdict.is_duplicate()) {
        return Err(fatal!(
            Usage,
            "--running offers duplicates only (exact, near), not `{}`: without it tap reads the verdict log",
            verdict.name()
        ));
    }
    let settings = global.start(Purpose::Sieve)?.settings;
    let Some(running) = args.instance.of(&settings)? else { return Ok(()) };
    let mut lines = Lines::begin(global.format(), LogExtent::New, true)?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(());
    }
    let wanted = args.verdict.iter().map(|verdict| verdict.name()).collect::<Vec<_>>().join(",");
    let query = format!("pairs/stream?verdict={}", in_query(&wanted));
    running.listen(&query, |pair| {
        let time = shown_time(Timestamp::from_millis(pair["at_ms"].as_i64().unwrap_or(0)), LogExtent::New);
        lines.print(&time, &pair_cells(pair), || pair_object(pair))?;
        left -= 1;
        Ok(left > 0)
    })
}

/// Returns the same row for a pair as [`cells`] returns for a verdict.
fn pair_cells(pair: &Value) -> [String; 7] {
    let text = |name: &str| member(pair, name);
    let measure = nearness(pair).unwrap_or_else(|| "s=?".to_owned());
    let age = age(pair["age_ms"].as_i64().unwrap_or(0));
    [text("verdict"), measure, age, text("source"), text("match"), text("id"), text("match_id")]
}

/// Returns the same object for a pair as [`object`] returns for a verdict, so that one reader handles both, and the
/// differences.
fn pair_object(pair: &Value) -> Value {
    const SAME: &str = "source verdict stage distance similarity containment match age_ms cluster id match_id differs";
    let mut object = json!({"delivered_at_ms": pair["at_ms"]});
    let other_measure = if pair["stage"] == "minhash" { "distance" } else { "similarity" };
    for name in SAME.split(' ').filter(|name| *name != other_measure && !pair[*name].is_null()) {
        extend(&mut object, json!({name: pair[name]}));
    }
    object
}

/// Formats the time of a verdict, in UTC: the time of day for new verdicts, date and time for those that the log holds.
fn shown_time(time: Timestamp, extent: LogExtent) -> String {
    let format = match extent {
        LogExtent::New => "%H:%M:%S",
        LogExtent::Kept => "%Y-%m-%d %H:%M:%S",
    };
    jiff::Timestamp::from_millisecond(time.millis()).map(|at| at.strftime(format).to_string()).unwrap_or_default()
}

/// Prints verdicts: rows below headings for people, objects for programs.
struct Lines {
    /// Absent for output to programs.
    table: Option<StreamedTable>,
}

impl Lines {
    fn begin(format: Format, extent: LogExtent, has_ids: bool) -> Result<Self, Fatal> {
        if format != Format::Table {
            return Ok(Self { table: None });
        }
        // Ids may have any length, so only the last column may grow.
        let [verdict, nearness, age, page, original, id, original_id] = HEADS;
        let time = shown_time(Timestamp::from_millis(0), extent).len();
        let mut columns = vec![("TIME", time), (verdict, 9), (nearness, 8), (age, 12), (page, 0), (original, 0)];
        if has_ids {
            columns.extend([(id, 0), (original_id, 0)]);
        }
        Ok(Self { table: Some(StreamedTable::begin(&columns)?) })
    }

    fn print(&mut self, time: &str, cells: &[String], object: impl FnOnce() -> Value) -> Result<(), Fatal> {
        let Some(table) = &mut self.table else { return print(&object().to_string()) };
        let row: Vec<String> = std::iter::once(time.to_owned()).chain(cells.iter().cloned()).collect();
        print(&table.line(&row))
    }
}

/// Finds the ids of pages by reading them.
pub(super) struct Names {
    pages: Pages,
    decoder: Decoder,
}

impl Names {
    /// Creates the client.
    pub(super) fn open(settings: &Settings) -> Result<Self, Fatal> {
        let config = context::connection(&settings.kafka).follower(&settings.input.group);
        let decoder = Decoder::new(&settings.record, settings.text.max_nesting).map_err(failure)?;
        Ok(Self { pages: Pages::open(&config, REQUEST_TIMEOUT).map_err(failure)?, decoder })
    }

    /// Returns the ids of the page and of the page that it matched, as far as they can be read.
    pub(super) fn of(&self, page: &PageVerdict) -> BTreeMap<Source, String> {
        let sources: Vec<&Source> =
            std::iter::once(&page.source).chain(page.decision.matched().map(|of| &of.source)).collect();
        let found = self.pages.fetch(&sources).unwrap_or_default();
        found.into_iter().filter_map(|(source, bytes)| Some((source, id(&self.decoder, &bytes)?))).collect()
    }
}

/// Returns the id of a page, in one line.
pub(super) fn id(decoder: &Decoder, page: &PageBytes) -> Option<String> {
    let id = decoder.decode(&page.record()).ok()?.id?;
    Some(id.chars().filter(|c| !c.is_control()).take(256).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_that_the_log_holds_has_its_date() {
        let time = Timestamp::from_millis(1_788_220_800_000 + 3_723_000);
        assert_eq!(shown_time(time, LogExtent::New), "01:02:03");
        assert_eq!(shown_time(time, LogExtent::Kept), "2026-09-01 01:02:03");
    }

    #[test]
    fn a_pair_of_a_running_instance_reads_like_a_verdict() {
        let pair = json!({
            "number": 7, "at_ms": 5, "source": "a:0:2", "match": "a:0:1", "cluster": "a:0:1", "verdict": "near",
            "stage": "minhash", "distance": null, "similarity": 0.8, "age_ms": 2000, "bits": 9, "id": "x", "match_id": "y",
        });
        assert_eq!(pair_cells(&pair).join(" "), "near s=0.8 2 s a:0:2 a:0:1 x y");
        assert_eq!(
            pair_object(&pair),
            json!({
                "source": "a:0:2", "verdict": "near", "stage": "minhash", "similarity": 0.8, "match": "a:0:1", "age_ms": 2000,
                "cluster": "a:0:1", "id": "x", "match_id": "y", "delivered_at_ms": 5
            })
        );
    }
}
