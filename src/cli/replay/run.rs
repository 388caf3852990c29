//! `replay run` and `replay resume` with their progress and their result, and `status`, `list` and `clean` of what they
//! left.

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use crossbeam_channel::tick;
use dupgate_core::replay::{Counts, Plan, Reads, Target, Total, own_name, variants};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{Both, CleanArgs, PaceArgs, ResumeArgs, RunArgs, StatusArgs, plan};
use crate::cli::output::{self, Format, clear_screen, columns, print, print_json, print_list, table};
use crate::cli::progress_bar::ProgressDisplay;
use crate::cli::{Global, note};
use crate::clock::Clock;
use crate::error::{Fatal, Reason};
use crate::protocol::VerdictKind;
use crate::replay::{self, Options, Outcome, Phase, Rate, ReplayState, Report, Store, Stored};
use crate::service;
use crate::snapshot::ProcessLock;
use crate::telemetry::Metrics;

/// Runs a plan, or creates one and shows it.
pub(super) fn run(args: &RunArgs, global: &Global) -> Result<(), Fatal> {
    let given = args.plan.as_deref().map(read).transpose()?;
    let both = match &given {
        Some(plan) => super::of_plan(global, plan)?,
        None => super::read(global)?,
    };
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
    expect_rate_of_pages(&plan, args.pace.rate)?;
    expect_writable(args.pace.report.as_deref())?;
    announce(&plan, args.plan.as_deref(), global)?;
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
pub(super) fn resume(args: &ResumeArgs, global: &Global) -> Result<(), Fatal> {
    let base = super::read(global)?;
    let store = Store::open(&base.live)?;
    let seen = store.look(&args.id)?;
    let both = super::of_plan(global, &seen.plan)?;
    replay::check(&seen.plan, &store, &both.live, &both.tried)?;
    if seen.state == ReplayState::Done {
        store.ensure_finished(&seen)?;
        note(&format!("replay {} is done already", args.id));
        let Some(total) = &seen.total else { return Ok(()) };
        let (total, variants) = (Total::clone(total), vec![total.counts.clone()]);
        let outcome = Outcome { total, variants, elapsed_ms: 0 };
        return print_outcome(&seen.plan, &outcome, args.pace.report.as_deref(), global);
    }
    expect_writable(args.pace.report.as_deref())?;
    let lock = store.lock(&args.id)?;
    let stored = store.take_over(seen.plan)?;
    stored.expect_place()?;
    // The run ended before it had written everything.
    store.begin_again(&stored, both.tried.first().unwrap_or(&both.live))?;
    go(&store, stored, Some(lock), &both, &args.pace, global)
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
    let metrics = Metrics::new(&of_metrics).map_err(|error| Reason::Bug.because(error))?;
    let _server = args.listen.map(|listen| service::serve_replay(&both.live, listen, &metrics)).transpose()?;
    let options = Options { rate: args.rate, yield_to_lag: args.yield_to_lag, max_dead_letters: args.max_dead_letters };
    let mut progress = Progress::new(&plan);
    let outcome =
        replay::run(stored, &both.live, &both.tried, &options, &metrics, &signals, |report| progress.show(report));
    progress.end();
    let outcome = outcome?;
    if plan.into.writes() {
        store.finish(&plan, &outcome.total)?;
    }
    print_outcome(&plan, &outcome, args.report.as_deref(), global)
}

/// A replay of fingerprints reads no pages, so that their bytes cannot limit it.
fn expect_rate_of_pages(plan: &Plan, rate: Option<Rate>) -> Result<(), Fatal> {
    match rate {
        Some(rate @ Rate::Bytes(_)) if plan.reads == Reads::Fingerprints => {
            let why = anyhow::anyhow!(
                "--rate {rate}: a replay of fingerprints does not read the bytes of pages; give pages per second, such as \
                 --rate 5000/s"
            );
            Err(Reason::Usage.because(why))
        }
        _ => Ok(()),
    }
}

/// Shows what is about to be done: the plan, or only its warnings if the plan was shown when it was created or if
/// standard output is for the report.
fn announce(plan: &Plan, from_file: Option<&Path>, global: &Global) -> Result<(), Fatal> {
    if from_file.is_none() && Format::or_usual(global.output) == Format::Table {
        return plan::show(plan, None, global);
    }
    plan.warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
    Ok(())
}

fn read(path: &Path) -> Result<Plan, Fatal> {
    let unreadable = |why: String| Reason::Input.because(anyhow::anyhow!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    Plan::read(&text).map_err(|error| unreadable(error.to_string()))
}

/// Asks for confirmation before anything is written to the live outputs.
fn confirm(plan: &Plan, given: Option<&str>) -> Result<(), Fatal> {
    if plan.into != Target::Live {
        return Ok(());
    }
    let topic = plan.output.unique.clone().unwrap_or_default();
    let answer = match given {
        Some(given) => given.to_owned(),
        None if std::io::stdin().is_terminal() => {
            let mut err = std::io::stderr().lock();
            // Without a terminal the question cannot be answered.
            let _ = write!(
                err,
                "pages go to the live topic {topic}, where consumers get them a second time. Type its name to continue: "
            );
            let mut line = String::new();
            let _ = std::io::stdin().lock().read_line(&mut line);
            line.trim().to_owned()
        }
        None => String::new(),
    };
    if answer == topic && !topic.is_empty() {
        return Ok(());
    }
    let why = anyhow::anyhow!("a replay into the live outputs is confirmed by --confirm-live {topic}");
    Err(Reason::Usage.because(why))
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
            let (each_second, left) = (pace.each_second, pace.left.map(output::span));
            if self.plan.is_of_files() {
                let pages = report.counts.pages;
                tracing::info!(
                    target: "dupgate::replay",
                    phase,
                    pages,
                    bytes = done,
                    of = total,
                    percent,
                    bytes_per_second = each_second,
                    left,
                    duplicates,
                    yielding,
                    "replaying"
                );
            } else {
                tracing::info!(
                    target: "dupgate::replay",
                    phase,
                    pages = done,
                    of = total,
                    percent,
                    pages_per_second = each_second,
                    left,
                    duplicates,
                    yielding,
                    "replaying"
                );
            }
        };
        self.display.show(draw, log);
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        self.display.finish();
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
    match Format::or_usual(global.output) {
        Format::Table => print(&text(plan, outcome)),
        format @ (Format::Json | Format::Jsonl) => print_json(&document, format),
    }
}

/// Checks that the file of a report, if there is to be one, can be written, before the replay begins. It is created if it
/// does not exist.
pub(super) fn expect_writable(file: Option<&Path>) -> Result<(), Fatal> {
    let Some(file) = file else { return Ok(()) };
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).map_err(|error| unwritten(file, &error))
}

fn unwritten(file: &Path, error: &std::io::Error) -> Fatal {
    Reason::State.because(anyhow::anyhow!("the report is not written to {}: {error} (--report)", file.display()))
}

fn document(plan: &Plan, outcome: &Outcome) -> Value {
    let variants: Vec<Value> = names(plan)
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

fn names(plan: &Plan) -> Vec<Vec<String>> {
    variants(&plan.set).unwrap_or_default()
}

fn text(plan: &Plan, outcome: &Outcome) -> String {
    let counts = &outcome.total.counts;
    let mut rows = vec![
        vec!["pages".to_owned(), pages(counts, outcome)],
        vec!["verdicts".to_owned(), numbered(counts.verdicts.iter())],
    ];
    if !counts.dead_letters.is_empty() {
        rows.push(vec!["dead".to_owned(), numbered(counts.dead_letters.iter())]);
    }
    if !plan.verdict_log.is_empty() {
        let changed = if counts.changed.is_empty() { "none".to_owned() } else { numbered(counts.changed.iter()) };
        rows.push(vec!["changed".to_owned(), changed]);
    }
    if counts.taken_over > 0 {
        let many = output::count(counts.taken_over);
        rows.push(vec![
            "taken over".to_owned(),
            format!("{many} live verdicts, whose originals are older than the log"),
        ]);
    }
    if counts.second_verdicts > 0 {
        let many = output::count(counts.second_verdicts);
        rows.push(vec![
            "skipped".to_owned(),
            format!("{many} live verdicts, whose pages had one already: the first counts"),
        ]);
    }
    if counts.reopened > 0 {
        let many = output::count(counts.reopened);
        rows.push(vec![
            "reopened".to_owned(),
            format!("{many} live verdicts on pages that were judged again: their first verdict counts"),
        ]);
    }
    if counts.gone > 0 {
        let many = output::count(counts.gone);
        rows.push(vec!["gone".to_owned(), format!("{many} pages that the input does not hold any more")]);
    }
    let outputs = if plan.into.has_pages() { format!("  outputs {}", outcome.total.outputs) } else { String::new() };
    rows.push(vec!["digest".to_owned(), format!("verdicts {}{outputs}", outcome.total.verdicts)]);
    let mut text = format!("replay {} is done\n{}", plan.id, columns(&indented(rows)));
    if outcome.variants.len() > 1 {
        text += "\n\n";
        text += &chart(&names(plan), &outcome.variants);
    }
    text
}

fn indented(rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.into_iter().map(|row| [vec![String::new()], row].concat()).collect()
}

fn pages(counts: &Counts, outcome: &Outcome) -> String {
    let elapsed = std::time::Duration::from_millis(outcome.total.worked_ms);
    let each_second = (counts.pages + counts.warm_up) * 1000 / outcome.total.worked_ms.max(1);
    let warm = if counts.warm_up > 0 {
        format!(" and {} of the warm-up", output::count(counts.warm_up))
    } else {
        String::new()
    };
    format!(
        "{}{warm} in {}, {} a second",
        output::count(counts.pages),
        output::span(elapsed),
        output::count(each_second)
    )
}

fn numbered<'a>(counts: impl Iterator<Item = (&'a String, &'a u64)>) -> String {
    counts.map(|(name, count)| format!("{name} {}", output::count(*count))).collect::<Vec<_>>().join("  ")
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
    let store = Store::open(&super::read(global)?.live)?;
    let format = Format::or_usual(global.output);
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
        print_rows(&seen, format)?;
        if !args.watch || !seen.iter().any(|row| row.may_run) {
            hint(&seen);
            return Ok(());
        }
        // The ticker lives as long as this.
        let _ = ticks.recv();
    }
}

/// Lists all replays.
pub(super) fn list(global: &Global) -> Result<(), Fatal> {
    let seen = rows(&Store::open(&super::read(global)?.live)?)?;
    print_rows(&seen, Format::or_usual(global.output))?;
    hint(&seen);
    Ok(())
}

/// A replay as it is shown.
struct Row {
    cells: Vec<String>,
    object: Value,
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
            let cells = [id.as_str(), "unreadable", "-", "-", "-", "-", &why].map(str::to_owned).to_vec();
            let object = json!({"replay": id, "state": "unreadable", "why": why});
            Row { cells, object, may_run: false, hint: None }
        }
    };
    Ok(store.ids()?.into_iter().map(row).collect())
}

fn print_rows(rows: &[Row], format: Format) -> Result<(), Fatal> {
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.cells.clone()).collect();
    print_list(format, &HEADS, &cells, rows.iter().map(|row| row.object.clone()).collect())
}

fn hint(rows: &[Row]) {
    rows.iter().filter_map(|row| row.hint.as_deref()).for_each(note);
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
        let cells = vec![
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
        Self { cells, object, may_run, hint }
    }
}

/// Deletes the topics and the group of a replay, or names them.
pub(super) fn clean(args: &CleanArgs, global: &Global) -> Result<(), Fatal> {
    let live = super::read(global)?.live;
    let store = Store::open(&live)?;
    let topics = store.left(&args.id)?;
    let group = own_name(&live.input.group, &args.id);
    if topics.is_empty() {
        let why = anyhow::anyhow!("nothing is left of a replay `{}` of group `{}`", args.id, live.input.group);
        return Err(Reason::Input.because(why));
    }
    let done = if args.execute { "deleted" } else { "would be deleted" };
    if args.execute {
        // The lock keeps a running replay's topics from being deleted.
        let lock = store.lock(&args.id)?;
        store.remove(&args.id, &topics)?;
        lock.remove()?;
    }
    let named = topics.iter().map(|name| ("topic", name.as_str())).chain([("group", group.as_str())]);
    let (rows, objects): (Vec<Vec<String>>, Vec<_>) = named
        .map(|(kind, name)| {
            let row = [done, kind, name].map(str::to_owned).to_vec();
            (row, json!({"state": if args.execute { "deleted" } else { "kept" }, "kind": kind, "name": name}))
        })
        .unzip();
    print_list(Format::or_usual(global.output), &["STATE", "KIND", "NAME"], &rows, objects)?;
    if !args.execute {
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
