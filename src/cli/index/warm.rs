//! `index warm`: fills the logs of a new scheme beside the running one.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::cli::output::{self, NamedRows, print_report};
use crate::cli::progress_bar::ProgressDisplay;
use crate::cli::replay::range_bound;
use crate::cli::{Global, note};
use crate::config::{ByteSize, Purpose, load};
use crate::error::Fatal;
use crate::record::Timestamp;
use crate::replay::warm::{Draft, Judging, Options, Outcome, Phase, Report, Until, draft, run};
use crate::replay::{RangeBound, Rate};
use crate::service::signals;

/// Arguments of `index warm`.
#[derive(Clone, Debug, Args)]
pub struct WarmArgs {
    /// Configuration file of the running service
    #[arg(long, value_name = "FILE")]
    pub running: PathBuf,
    /// First event time: start, a time or an age [default: window and lateness before the newest page]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true, value_parser = range_bound)]
    pub from: Option<RangeBound>,
    /// Maximum number of pages or bytes per second: 5000/s, 20MiB/s
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Wait while the running service lags by more records than this, until it has caught up
    #[arg(long, value_name = "RECORDS")]
    pub yield_to_lag: Option<u64>,
    /// Judge in this process; false when instances with the new configuration judge already
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub judge: bool,
    /// End when it has caught up, instead of following the running service
    #[arg(long)]
    pub once: bool,
    /// Apply the change; without it, only print what would be done
    #[arg(long)]
    pub execute: bool,
}

/// Fills the logs of the new configuration, or prints what it would do.
pub(super) fn warm(args: &WarmArgs, global: &Global) -> Result<(), Fatal> {
    let new = global.start(Purpose::Run)?.settings;
    let mut sources = global.sources();
    sources.files = vec![args.running.clone()];
    sources.default_file = None;
    // `--set` applies to the new configuration.
    sources.set.clear();
    let running = load(&sources, Purpose::Run).map_err(Fatal::from);
    let running = running.map_err(|fatal| fatal.in_part(&args.running.display().to_string()))?.settings;
    let format = global.format();
    if !args.execute {
        let draft = draft(&running, &new, args.from)?;
        print_report(format, &document(&draft), || table(&draft, args, new.memory_of_all_indexes()))?;
        note("nothing was done: add --execute to do it");
        return Ok(());
    }
    let options = Options {
        from: args.from,
        rate: args.rate,
        yield_to_lag: args.yield_to_lag,
        judging: if args.judge { Judging::Here } else { Judging::Elsewhere },
        until: if args.once { Until::CaughtUp } else { Until::Stopped },
    };
    let template = "{prefix:8} {bar:28} {percent:>3} %  {msg}  left {eta}";
    let mut progress = Progress { display: ProgressDisplay::new(Some(1), template), shown: None };
    let outcome = run(&running, new, &options, &signals()?, |report| progress.show(report));
    progress.display.finish();
    let outcome = outcome?;
    print_report(format, &outcome, || result(&outcome))
}

fn table(draft: &Draft, args: &WarmArgs, max_memory: u64) -> String {
    let mut rows = NamedRows::default();
    for (name, is_there) in &draft.topics {
        rows.add("topic", format!("{name} ({})", if *is_there { "exists" } else { "missing, is created" }));
    }
    let newest =
        draft.newest.map_or_else(|| "nothing was judged yet".to_owned(), |time| format!("newest page: {}", date(time)));
    rows.add("from", format!("{} ({newest})", date(draft.from)));
    for (partition, Range { start, end }) in &draft.log {
        rows.add("log", format!("{partition}, offsets {start} to {end}, and later ones"));
    }
    let (partitions, records) = (draft.input.0, output::count(draft.input.1));
    rows.add("input", format!("{partitions} partitions: at most {records} records to read"));
    let judge = if args.judge {
        let memory = ByteSize(max_memory);
        format!("in this process, which holds an index of up to {memory} (index.max_memory, for all partitions)")
    } else {
        "instances of the new configuration that run already".to_owned()
    };
    rows.add("judge", judge);
    draft.warnings.iter().for_each(|warning| rows.add("warning", warning));
    rows.below(&format!("warm {} -> {}", draft.running, draft.scheme))
}

fn document(draft: &Draft) -> Value {
    let topics = draft.topics.iter().map(|(name, is_there)| json!({"topic": name, "exists": is_there}));
    let log = draft.log.iter().map(
        |(partition, Range { start, end })| json!({"partition": partition.to_string(), "from": start.0, "end": end.0}),
    );
    json!({
        "running_scheme": draft.running, "scheme": draft.scheme, "from_ms": draft.from.millis(),
        "newest_ms": draft.newest.map(Timestamp::millis), "log": log.collect::<Vec<_>>(),
        "topics": topics.collect::<Vec<_>>(), "input_partitions": draft.input.0, "input_records": draft.input.1,
        "warnings": draft.warnings, "done": false,
    })
}

fn date(time: Timestamp) -> String {
    let known = jiff::Timestamp::from_millisecond(time.millis()).ok();
    known.map_or_else(|| "the beginning".to_owned(), |time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn result(outcome: &Outcome) -> String {
    let (filled, count) = (&outcome.filled, output::count);
    let [changes, duplicates, older, known] =
        [filled.verdicts.changes, filled.verdicts.duplicates, filled.verdicts.older, filled.verdicts.known].map(count);
    let elapsed = output::span(Duration::from_millis(outcome.elapsed_ms));
    let mut rows = NamedRows::default();
    rows.add("pages", format!("{} requested in {elapsed}", count(filled.asked)));
    rows.add("changes", format!("{changes} withdrawals, forgotten originals and reopened ranges"));
    rows.add("left out", format!("{duplicates} duplicates, {older} older, {known} known already"));
    let (gone, refused) = (count(filled.gone), count(filled.refused));
    rows.add("missing", format!("{gone} gone from the input, {refused} not readable by the new scheme"));
    rows.below(&match (outcome.caught_up, outcome.waiting) {
        (false, _) => "stopped before it had caught up: the same command continues".to_owned(),
        (true, 0) => "caught up".to_owned(),
        (true, waiting) => format!("caught up once; {} verdicts were left when it was stopped", count(waiting)),
    })
}

/// Shows the progress, as a bar on a terminal and as log lines elsewhere, and the operator's next step when it changes.
struct Progress {
    display: ProgressDisplay,
    shown: Option<Phase>,
}

impl Progress {
    fn show(&mut self, report: &Report<'_>) {
        let before = self.shown.replace(report.phase);
        let (read, total) = report.read;
        let (phase, lag) = match report.phase {
            Phase::Starting => ("start", None),
            Phase::CatchingUp => ("warm", None),
            Phase::Yielding(lag) => ("yield", Some(lag)),
            Phase::Following => ("follow", None),
            Phase::Quiet => ("quiet", None),
        };
        if phase == "follow" && !matches!(before, Some(Phase::Following | Phase::Quiet)) {
            note(
                "caught up, and follows the running service. Next: stop the old instances cleanly, and wait until this \
                 command reports that nothing new is judged",
            );
        } else if phase == "quiet" && before != Some(Phase::Quiet) {
            note(
                "nothing new is judged, and everything is filled in. Once the old instances are stopped: start the new \
                 ones, then stop this command (SIGTERM or Ctrl-C)",
            );
        }
        let (asked, waiting) = (report.filled.asked, report.waiting);
        let draw = |bar: &ProgressBar| {
            bar.set_length(total.max(1));
            bar.set_position(read.min(total));
            bar.set_prefix(phase);
            bar.set_message(format!("pages {}  waiting {}", output::count(asked), output::count(waiting)));
        };
        let log = || {
            let percent = (read * 100 / total.max(1)).min(100);
            tracing::info!(
                target: "dupgate::replay",
                phase, pages = asked, percent, waiting, service_lag = lag, "warming"
            );
        };
        self.display.show(draw, log);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::protocol::VerdictOffset;
    use crate::record::PartitionId;

    #[test]
    fn the_plan_names_both_schemes_the_range_and_the_warnings() {
        let args = WarmArgs {
            running: "old.yaml".into(),
            from: None,
            rate: None,
            yield_to_lag: None,
            judge: true,
            once: false,
            execute: false,
        };
        let draft = Draft {
            running: "sh64-a".to_owned(),
            scheme: "sh64-b".to_owned(),
            from: Timestamp::from_millis(1_788_220_800_000),
            newest: Some(Timestamp::from_millis(1_788_307_200_000)),
            log: BTreeMap::from([(
                PartitionId::new("dupgate.verdicts.sh64-a", 0),
                VerdictOffset(5)..VerdictOffset(905),
            )]),
            topics: vec![
                ("dupgate.fingerprints.sh64-b".to_owned(), true),
                ("dupgate.verdicts.sh64-b".to_owned(), false),
            ],
            input: (6, 20_000),
            warnings: vec!["retention".to_owned()],
        };
        let text = table(&draft, &args, 1 << 30);
        for part in [
            "warm sh64-a -> sh64-b\n",
            "dupgate.fingerprints.sh64-b (exists)",
            "dupgate.verdicts.sh64-b (missing, is created)",
            "2026-09-01T00:00:00Z (newest page: 2026-09-02T00:00:00Z)",
            "dupgate.verdicts.sh64-a:0, offsets 5 to 905",
            "6 partitions: at most 20,000 records",
            "an index of up to 1GiB",
            "warning  retention",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(table(&draft, &WarmArgs { judge: false, ..args }, 0).contains("instances of the new configuration"));
        assert_eq!(draft.offsets(), 900);
        assert_eq!(date(Timestamp::MIN), "the beginning");
    }
}
