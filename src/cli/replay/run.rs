//! `replay run` and `replay resume`.

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;

use dupgate_core::replay::{Plan, Reads, Target, Total};

use super::progress::Progress;
use super::settings::{self, Both};
use super::{PaceArgs, ResumeArgs, RunArgs, plan, report};
use crate::cli::output::Format;
use crate::cli::{Global, note};
use crate::error::{Fatal, Reason};
use crate::replay::{self, Options, Outcome, Rate, ReplayState, Store, Stored};
use crate::runtime::process_lock::ProcessLock;
use crate::service;
use crate::telemetry::Metrics;

/// Runs a plan, or creates one and shows it.
pub(super) fn run(args: &RunArgs, global: &Global) -> Result<(), Fatal> {
    let given = args.plan.as_deref().map(read).transpose()?;
    let both = match &given {
        Some(plan) => settings::of_plan(global, plan)?,
        None => settings::read(global)?,
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
    report::expect_writable(args.pace.report.as_deref())?;
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
    let base = settings::read(global)?;
    let store = Store::open(&base.live)?;
    let seen = store.look(&args.id)?;
    let both = settings::of_plan(global, &seen.plan)?;
    replay::check(&seen.plan, &store, &both.live, &both.tried)?;
    if seen.state == ReplayState::Done {
        store.ensure_finished(&seen)?;
        note(&format!("replay {} is done already", args.id));
        let Some(total) = &seen.total else { return Ok(()) };
        let (total, variants) = (Total::clone(total), vec![total.counts.clone()]);
        let outcome = Outcome { total, variants, elapsed_ms: 0 };
        return report::print_outcome(&seen.plan, &outcome, args.pace.report.as_deref(), global);
    }
    report::expect_writable(args.pace.report.as_deref())?;
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
    of_metrics.labels.push(("replay".to_owned(), plan.id.clone()));
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
    report::print_outcome(&plan, &outcome, args.report.as_deref(), global)
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
