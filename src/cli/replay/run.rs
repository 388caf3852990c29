//! `replay run` and `replay resume` with their progress and their result, and `status`, `list` and `clean` of what they
//! left.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use crossbeam_channel::tick;
use dupgate_core::replay::{Counts, Plan, Reads, Target, Total, own_name, variants};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{Both, PaceArgs, RunArgs, StatusArgs, plan};
use crate::cli::output::{self, Format, NamedRows, clear_screen, print_list, print_report, table};
use crate::cli::progress_bar::ProgressDisplay;
use crate::cli::{Global, note};
use crate::clock::Clock;
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::protocol::VerdictKind;
use crate::replay::{self, Options, Outcome, Phase, Rate, ReplayState, Report, Store, Stored};
use crate::service;
use crate::snapshot::ProcessLock;
use crate::telemetry::Metrics;

/// Runs a plan, or creates one and shows it.
pub(super) fn run(args: &RunArgs, global: &Global) -> Result<(), Fatal> {
    let given = args.plan.as_deref().map(read).transpose()?;
    let both = super::read(global, given.as_ref())?;
    let store = Store::open(&both.live)?;
    let plan = match given {
        Some(plan) => {
            plan::expect_new(&store, &plan.id, plan.into)?;
            plan
        }
        None => plan::draft(&store, &both, &args.range)?.plan,
    };
    replay::check(&plan, &store, &both.live, &both.tried)?;
    if !args.execute {
        plan::show(&plan, plan::sample(&plan, &both)?, global)?;
        note("nothing was done: add --execute to run it");
        return Ok(());
    }
    if let (Reads::Fingerprints, Some(rate @ Rate::Bytes(_))) = (plan.reads, args.pace.rate) {
        return Err(fatal!(
            Usage,
            "--rate {rate}: a replay of fingerprints does not read the bytes of pages; give pages per second, such as \
             --rate 5000/s"
        ));
    }
    expect_writable(args.pace.report.as_deref())?;
    // The plan was shown when it was created, or standard output is for the report.
    if args.plan.is_none() && global.format() == Format::Table {
        plan::show(&plan, None, global)?;
    } else {
        plan.warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
    }
    confirm(&plan, args.confirm_live.as_deref())?;
    replay::expect_log(&plan, &both.live)?;
    let (stored, lock) = if plan.into.writes() {
        let lock = store.lock(&plan.id)?;
        // Another run may have begun and ended while this one asked for confirmation.
        store.expect_new(&plan.id)?;
        store.begin(&plan, both.tried.first().unwrap_or(&both.live))?;
        (store.progress(plan)?, Some(lock))
    } else {
        (Stored::planned(plan), None)
    };
    stored.expect_place()?;
    go(&store, stored, lock, &both, &args.pace, global)
}

/// Continues a replay.
pub(super) fn resume(id: &str, pace: &PaceArgs, global: &Global) -> Result<(), Fatal> {
    let store = Store::open(&super::read(global, None)?.live)?;
    let seen = store.look(id)?;
    let both = super::read(global, Some(&seen.plan))?;
    replay::check(&seen.plan, &store, &both.live, &both.tried)?;
    if seen.state == ReplayState::Done {
        store.ensure_finished(&seen)?;
        note(&format!("replay {id} is done already"));
        let Some(total) = &seen.total else { return Ok(()) };
        let (total, variants) = (Total::clone(total), vec![total.counts.clone()]);
        let outcome = Outcome { total, variants, elapsed_ms: 0 };
        return print_outcome(&seen.plan, &outcome, pace.report.as_deref(), global);
    }
    expect_writable(pace.report.as_deref())?;
    let lock = store.lock(id)?;
    let stored = store.take_over(seen.plan)?;
    stored.expect_place()?;
    // The run ended before it had written everything.
    store.begin_again(&stored, both.tried.first().unwrap_or(&both.live))?;
    go(&store, stored, Some(lock), &both, pace, global)
}

/// Runs a replay to its end. The lock is held until then; a replay that writes nothing needs none.
fn go(
    store: &Store,
    stored: Stored,
    _lock: Option<ProcessLock>,
    both: &Both,
    args: &PaceArgs,
    global: &Global,
) -> Result<(), Fatal> {
    let plan = stored.plan.clone();
    let signals = service::signals()?;
    let mut of_metrics = both.live.metrics.clone();
    of_metrics.labels.insert("replay".to_owned(), plan.id.clone());
    let metrics = Metrics::new(&of_metrics).or_fatal(Reason::Bug)?;
    let _server = args.listen.map(|listen| service::serve_replay(&both.live, listen, &metrics)).transpose()?;
    let options = Options { rate: args.rate, yield_to_lag: args.yield_to_lag, max_dead_letters: args.max_dead_letters };
    let mut progress = Progress::new(&plan);
    let outcome =
        replay::run(stored, &both.live, &both.tried, &options, &metrics, &signals, |report| progress.show(report));
    progress.display.finish();
    let outcome = outcome?;
    if plan.into.writes() {
        store.finish(&plan, &outcome.total)?;
    }
    print_outcome(&plan, &outcome, args.report.as_deref(), global)
}

fn read(path: &Path) -> Result<Plan, Fatal> {
    let unreadable = |why: String| fatal!(Input, "{}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    Plan::read(&text).map_err(|error| unreadable(error.to_string()))
}

/// Asks for confirmation before anything is written to the live outputs.
fn confirm(plan: &Plan, given: Option<&str>) -> Result<(), Fatal> {
    if plan.into != Target::Live {
        return Ok(());
    }
    let topic = plan.output.unique.clone().unwrap_or_default();
    let mut answer = given.unwrap_or_default().to_owned();
    if given.is_none() && std::io::stdin().is_terminal() {
        // Without a terminal the question cannot be answered.
        let _ = write!(
            std::io::stderr().lock(),
            "pages go to the live topic {topic}, where consumers get them a second time. Type its name to continue: "
        );
        let _ = std::io::stdin().lock().read_line(&mut answer);
        answer = answer.trim().to_owned();
    }
    if answer == topic && !topic.is_empty() {
        return Ok(());
    }
    Err(fatal!(Usage, "a replay into the live outputs is confirmed by --confirm-live {topic}"))
}

/// Shows the progress of a replay.
pub(super) struct Progress {
    plan: Plan,
    display: ProgressDisplay,
    /// What was done before this run began.
    before: Option<u64>,
    /// Start of this run.
    clock: Clock,
}

/// Rate of a run, and the remaining time at that rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    each_second: u64,
    /// `None` while nothing is done.
    left: Option<Duration>,
}

impl Pace {
    fn of(done: u64, left: u64, elapsed: Duration) -> Self {
        let millis = elapsed.as_millis().max(1);
        let each_second = u64::try_from(u128::from(done) * 1000 / millis).unwrap_or(u64::MAX);
        let takes = (u128::from(left) * millis).checked_div(u128::from(done));
        Self {
            each_second,
            left: takes.map(|takes| Duration::from_secs(u64::try_from(takes / 1000).unwrap_or(u64::MAX))),
        }
    }
}

impl Progress {
    pub(super) fn new(plan: &Plan) -> Self {
        let (_, total) = plan.done(&Counts::default(), None);
        let template = if plan.is_of_files() {
            "{prefix:8} {wide_bar} {percent:>3} %  {bytes} / {total_bytes}  {bytes_per_sec}  {msg}  left {eta}"
        } else {
            "{prefix:8} {wide_bar} {percent:>3} %  {human_pos} / {human_len}  {per_sec}  {msg}  left {eta}"
        };
        let display = ProgressDisplay::new(Some(total), template);
        Self { plan: plan.clone(), display, before: None, clock: Clock::start() }
    }

    /// Shows the latest numbers.
    pub(super) fn show(&mut self, report: &Report<'_>) {
        let (done, total) = self.plan.done(report.counts, report.place.as_ref());
        let before = *self.before.get_or_insert(done);
        let (phase, more) = match report.phase {
            Phase::Following => ("follow", String::new()),
            Phase::WarmUp => ("warm-up", String::new()),
            Phase::Range => ("replay", String::new()),
            Phase::Yielding(lag) => ("replay", format!("  (yielding: the service lags by {})", output::count(lag))),
        };
        let duplicates = share(report.counts);
        let draw = |bar: &ProgressBar| {
            if bar.position() == 0 && before > 0 {
                bar.reset_eta();
            }
            bar.set_prefix(phase);
            bar.set_position(done.min(total));
            bar.set_message(format!("duplicates {duplicates:.1} %{more}"));
        };
        let log = || {
            let percent = percent(done, total);
            let yielding = if let Phase::Yielding(lag) = report.phase { Some(lag) } else { None };
            let pace = Pace::of(done - before.min(done), total - done.min(total), self.clock.now());
            let (pages, bytes) = if self.plan.is_of_files() { (report.counts.pages, Some(done)) } else { (done, None) };
            tracing::info!(
                target: "dupgate::replay",
                phase,
                pages,
                bytes,
                of = total,
                percent,
                bytes_per_second = bytes.map(|_| pace.each_second),
                pages_per_second = bytes.is_none().then_some(pace.each_second),
                left = pace.left.map(output::span),
                duplicates,
                yielding,
                "replaying"
            );
        };
        self.display.show(draw, log);
    }
}

/// Returns the progress in per cent, without overflow for terabytes.
pub(super) fn percent(done: u64, of: u64) -> u64 {
    let percent = u128::from(done) * 100 / u128::from(of.max(1));
    u64::try_from(percent).unwrap_or(100).min(100)
}

/// Returns the percentage of duplicates.
#[expect(clippy::cast_precision_loss, reason = "a share")]
pub(super) fn share(counts: &Counts) -> f64 {
    let judged = counts.pages.max(1) as f64;
    (counts.duplicates() as f64 / judged * 1000.0).round() / 10.0
}

/// Width of a bar of the chart, in columns.
const BAR: usize = 40;

/// Prints the report, and writes it to a file.
pub(super) fn print_outcome(plan: &Plan, outcome: &Outcome, file: Option<&Path>, global: &Global) -> Result<(), Fatal> {
    let document = document(plan, outcome);
    if let Some(file) = file {
        std::fs::write(file, format!("{document:#}\n")).map_err(|error| unwritten(file, &error))?;
    }
    print_report(global.format(), &document, || text(plan, outcome))
}

/// Checks that the file of a report, if there is to be one, can be written, before the replay begins. It is created if it
/// does not exist.
pub(super) fn expect_writable(file: Option<&Path>) -> Result<(), Fatal> {
    let Some(file) = file else { return Ok(()) };
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).map_err(|error| unwritten(file, &error))
}

fn unwritten(file: &Path, error: &std::io::Error) -> Fatal {
    fatal!(State, "the report is not written to {}: {error} (--report)", file.display())
}

fn document(plan: &Plan, outcome: &Outcome) -> Value {
    let variants: Value = variants(&plan.set)
        .unwrap_or_default()
        .into_iter()
        .zip(&outcome.variants)
        .map(|(set, counts)| json!({"set": set, "counts": counts, "duplicate_percent": share(counts)}))
        .collect();
    json!({
        "replay": plan.id, "plan": plan.hash, "order": plan.order, "into": plan.into, "scheme": plan.scheme,
        "records": plan.records, "warm_up_records": plan.warm_up_records, "files": plan.files,
        "elapsed_ms": outcome.elapsed_ms, "worked_ms": outcome.total.worked_ms,
        "digests": {"verdicts": outcome.total.verdicts, "outputs": outcome.total.outputs},
        "variants": variants, "warnings": plan.warnings,
    })
}

fn text(plan: &Plan, outcome: &Outcome) -> String {
    let counts = &outcome.total.counts;
    let mut rows = NamedRows::default();
    rows.add("pages", pages(counts, outcome));
    rows.add("verdicts", numbered(&counts.verdicts));
    if !counts.dead_letters.is_empty() {
        rows.add("dead", numbered(&counts.dead_letters));
    }
    if !plan.verdict_log.is_empty() {
        rows.add("changed", if counts.changed.is_empty() { "none".to_owned() } else { numbered(&counts.changed) });
    }
    for (name, many, what) in [
        ("taken over", counts.taken_over, "live verdicts, whose originals are older than the log"),
        ("skipped", counts.second_verdicts, "live verdicts, whose pages had one already: the first counts"),
        ("reopened", counts.reopened, "live verdicts on pages that were judged again: their first verdict counts"),
        ("gone", counts.gone, "pages that the input does not hold any more"),
    ] {
        if many > 0 {
            rows.add(name, format!("{} {what}", output::count(many)));
        }
    }
    let outputs = if plan.into.has_pages() { format!("  outputs {}", outcome.total.outputs) } else { String::new() };
    rows.add("digest", format!("verdicts {}{outputs}", outcome.total.verdicts));
    let text = rows.below(&format!("replay {} is done", plan.id));
    if outcome.variants.len() > 1 {
        format!("{text}\n\n{}", chart(&variants(&plan.set).unwrap_or_default(), &outcome.variants))
    } else {
        text
    }
}

fn pages(counts: &Counts, outcome: &Outcome) -> String {
    let elapsed = output::span(Duration::from_millis(outcome.total.worked_ms));
    let [pages, warm_up, each_second] =
        [counts.pages, counts.warm_up, (counts.pages + counts.warm_up) * 1000 / outcome.total.worked_ms.max(1)]
            .map(output::count);
    let warm = if counts.warm_up > 0 { format!(" and {warm_up} of the warm-up") } else { String::new() };
    format!("{pages}{warm} in {elapsed}, {each_second} a second")
}

fn numbered(counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(name, count)| format!("{name} {}", output::count(*count))).collect::<Vec<_>>().join("  ")
}

/// Draws the duplicates that each variant finds.
fn chart(names: &[Vec<String>], variants: &[Counts]) -> String {
    let max = variants.iter().map(Counts::duplicates).max().unwrap_or(0).max(1);
    let rows: Vec<Vec<String>> = names
        .iter()
        .zip(variants)
        .map(|(set, counts)| {
            let duplicates = counts.duplicates();
            let length = usize::try_from(duplicates * BAR as u64 / max).unwrap_or(BAR);
            let keys: Vec<&str> = set.iter().map(String::as_str).collect();
            vec![
                keys.join(" "),
                output::count(counts.of(VerdictKind::Exact.name())),
                output::count(counts.of(VerdictKind::Near.name())),
                format!("{:.1} %", share(counts)),
                "█".repeat(length),
            ]
        })
        .collect();
    table(&["SETTINGS", "EXACT", "NEAR", "SHARE", "DUPLICATES"], &rows)
}

/// Refresh interval.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

const HEADS: [&str; 7] = ["REPLAY", "STATE", "DONE", "PAGES", "DUPLICATES", "INTO", "SETTINGS"];

/// Shows one replay, or all.
pub(super) fn status(args: &StatusArgs, global: &Global) -> Result<(), Fatal> {
    let store = Store::open(&super::read(global, None)?.live)?;
    let format = global.format();
    let is_screen = args.watch && format == Format::Table && std::io::stdout().is_terminal();
    let ticks = tick(REFRESH_INTERVAL);
    loop {
        let seen = match &args.id {
            Some(id) => vec![Row::of(&store.look(id)?)],
            None => rows(&store)?,
        };
        if is_screen {
            clear_screen();
        }
        print_list(format, &HEADS, &seen, |row| row.cells.clone(), |row| row.object.clone())?;
        if !args.watch || !seen.iter().any(|row| row.may_run) {
            seen.iter().filter_map(|row| row.hint.as_deref()).for_each(note);
            return Ok(());
        }
        // The ticker lives as long as this.
        let _ = ticks.recv();
    }
}

/// A replay as it is shown.
struct Row {
    object: Value,
    cells: [String; 7],
    /// Whether it runs, as far as is known here.
    may_run: bool,
    /// What is to be done next, for people.
    hint: Option<String>,
}

fn rows(store: &Store) -> Result<Vec<Row>, Fatal> {
    let row = |id: String| match store.look(&id) {
        Ok(stored) => Row::of(&stored),
        Err(fatal) => {
            let why = fatal.to_string();
            let cells = [id.as_str(), "unreadable", "-", "-", "-", "-", &why].map(str::to_owned);
            let object = json!({"replay": id, "state": "unreadable", "why": why});
            Row { object, cells, may_run: false, hint: None }
        }
    };
    Ok(store.ids()?.into_iter().map(row).collect())
}

impl Row {
    fn of(stored: &Stored) -> Self {
        let Stored { plan, total, .. } = stored;
        let counts = total.as_ref().map(|total| total.counts.clone()).unwrap_or_default();
        let (state, process) = match stored.state {
            ReplayState::Planned => ("planned", None),
            ReplayState::Begun => ("begun", None),
            ReplayState::Running(process) => ("running", process),
            ReplayState::Interrupted => ("interrupted", None),
            ReplayState::Done => ("done", None),
            ReplayState::Expired => ("expired", None),
        };
        let (done, of) = plan.done(&counts, total.as_ref().and_then(|total| total.place.as_ref()));
        let percent = if state == "done" { 100 } else { percent(done, of) };
        let set = if plan.set.is_empty() { "live".to_owned() } else { plan.set.join(" ") };
        let next = (stored.state == ReplayState::Interrupted).then(|| format!("dupgate replay resume {}", plan.id));
        let cells = [
            plan.id.clone(),
            state.to_owned(),
            format!("{percent} %"),
            output::count(counts.pages),
            format!("{:.1} %", share(&counts)),
            plan.into.name().to_owned(),
            set,
        ];
        let object = json!({
            "replay": plan.id, "state": state, "process": process, "next": next, "percent": percent,
            "order": plan.order, "into": plan.into, "set": plan.set, "records": plan.records,
            "warm_up_records": plan.warm_up_records, "files": plan.files.len(), "file_bytes": plan.file_bytes(),
            "counts": counts,
            "digests": total.as_ref().map(|total| json!({"verdicts": total.verdicts, "outputs": total.outputs})),
        });
        let may_run = matches!(stored.state, ReplayState::Planned | ReplayState::Begun | ReplayState::Running(_));
        let hint = next.map(|next| format!("replay {} is interrupted: `{next}` continues it", plan.id));
        Self { object, cells, may_run, hint }
    }
}

/// Deletes the topics and the group of a replay, or names them.
pub(super) fn clean(id: &str, execute: bool, global: &Global) -> Result<(), Fatal> {
    let live = super::read(global, None)?.live;
    let store = Store::open(&live)?;
    let topics = store.left(id)?;
    let group = own_name(&live.input.group, id);
    if topics.is_empty() {
        return Err(fatal!(Input, "nothing is left of a replay `{}` of group `{}`", id, live.input.group));
    }
    let done = if execute { "deleted" } else { "would be deleted" };
    if execute {
        // The lock keeps a running replay's topics from being deleted.
        let lock = store.lock(id)?;
        store.remove(id, &topics)?;
        lock.remove()?;
    }
    let state = if execute { "deleted" } else { "kept" };
    let named: Vec<[&str; 2]> = topics.iter().map(|name| ["topic", name]).chain([["group", &group]]).collect();
    print_list(
        global.format(),
        &["STATE", "KIND", "NAME"],
        &named,
        |[kind, name]| [done, kind, name].map(str::to_owned),
        |[kind, name]| json!({"state": state, "kind": kind, "name": name}),
    )?;
    if !execute {
        note("nothing was done: add --execute to delete them");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_the_part_done() {
        let pace = Pace::of(2_000, 6_000, Duration::from_secs(10));
        assert_eq!(pace, Pace { each_second: 200, left: Some(Duration::from_secs(30)) });
        assert_eq!(Pace::of(0, 6_000, Duration::from_secs(10)), Pace { each_second: 0, left: None });
        assert_eq!(Pace::of(u64::MAX, 0, Duration::ZERO).left, Some(Duration::ZERO));
    }

    #[test]
    fn the_chart_draws_each_variant_to_scale() {
        let counts = |near: u64| Counts {
            pages: 100,
            verdicts: [("near".to_owned(), near), ("unique".to_owned(), 100 - near)].into(),
            ..Counts::default()
        };
        let names = [vec!["m=0.3".to_owned()], vec!["m=0.5".to_owned()]];
        let drawn = chart(&names, &[counts(40), counts(10)]);
        let lines: Vec<&str> = drawn.lines().collect();
        assert!(lines[1].starts_with("m=0.3") && lines[1].ends_with(&"█".repeat(40)), "{drawn}");
        assert!(lines[2].contains("10.0 %") && lines[2].ends_with(&format!(" {}", "█".repeat(10))), "{drawn}");
    }
}
