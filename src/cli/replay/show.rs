//! `replay status` and `replay list`: existing replays and their progress.

use std::io::IsTerminal;
use std::time::Duration;

use crossbeam_channel::tick;
use dupgate_core::replay::own_name;
use serde_json::{Value, json};

use super::progress::{percent, share};
use super::{CleanArgs, StatusArgs, settings};
use crate::cli::output::{Format, clear_screen, print_list};
use crate::cli::{Global, human, note};
use crate::error::{Fatal, Reason};
use crate::replay::{ReplayState, Store, Stored};

/// Refresh interval.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

const HEADS: [&str; 7] = ["REPLAY", "STATE", "DONE", "PAGES", "DUPLICATES", "INTO", "SETTINGS"];

/// Shows one replay, or all.
pub(super) fn status(args: &StatusArgs, global: &Global) -> Result<(), Fatal> {
    let store = Store::open(&settings::read(global)?.live)?;
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
    let seen = rows(&Store::open(&settings::read(global)?.live)?)?;
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
            human::count(counts.pages),
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
    let live = settings::read(global)?.live;
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
