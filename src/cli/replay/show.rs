//! `replay status` and `replay list`: existing replays and their progress.

use std::time::Duration;

use crossbeam_channel::tick;
use serde_json::{Value, json};

use super::progress::{percent, share};
use super::{StatusArgs, settings};
use crate::cli::output::{Format, print_list};
use crate::cli::{Global, human};
use crate::error::Fatal;
use crate::runtime::replay::{ReplayState, Store, Stored};

/// Refresh interval.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

const HEADS: [&str; 7] = ["REPLAY", "STATE", "DONE", "PAGES", "DUPLICATES", "INTO", "SETTINGS"];

/// Shows one replay, or all.
pub(super) fn status(args: &StatusArgs, global: &Global) -> Result<(), Fatal> {
    let Some(id) = &args.id else { return list(global) };
    let store = Store::open(&settings::read(global)?.live)?;
    let ticks = tick(REFRESH_INTERVAL);
    loop {
        let stored = store.look(id)?;
        let is_done = matches!(stored.state, ReplayState::Done | ReplayState::Expired);
        let (row, object) = shown(&stored);
        print_list(Format::or_usual(global.output), &HEADS, &[row], vec![object])?;
        if is_done || !args.watch {
            return Ok(());
        }
        // The ticker lives as long as this.
        let _ = ticks.recv();
    }
}

/// Lists all replays.
pub(super) fn list(global: &Global) -> Result<(), Fatal> {
    let store = Store::open(&settings::read(global)?.live)?;
    let (mut rows, mut objects) = (Vec::new(), Vec::new());
    for id in store.ids()? {
        let (row, object) = match store.look(&id) {
            Ok(stored) => shown(&stored),
            Err(fatal) => {
                let why = fatal.to_string();
                let row = [id.as_str(), "unreadable", "-", "-", "-", "-", &why].map(str::to_owned).to_vec();
                (row, json!({"replay": id, "state": "unreadable", "why": why}))
            }
        };
        rows.push(row);
        objects.push(object);
    }
    print_list(Format::or_usual(global.output), &HEADS, &rows, objects)
}

fn shown(stored: &Stored) -> (Vec<String>, Value) {
    let Stored { plan, total, .. } = stored;
    let counts = total.as_ref().map(|total| total.counts.clone()).unwrap_or_default();
    let state = match stored.state {
        ReplayState::Planned => "planned",
        ReplayState::Begun => "begun",
        ReplayState::Done => "done",
        ReplayState::Expired => "expired",
    };
    let (done, of) = plan.done(&counts, total.as_ref().and_then(|total| total.place.as_ref()));
    let percent = if state == "done" { 100 } else { percent(done, of) };
    let set = if plan.set.is_empty() { "live".to_owned() } else { plan.set.join(" ") };
    let row = vec![
        plan.id.clone(),
        state.to_owned(),
        format!("{percent} %"),
        human::count(counts.pages),
        format!("{:.1} %", share(&counts)),
        plan.into.name().to_owned(),
        set,
    ];
    let object = json!({
        "replay": plan.id, "state": state, "percent": percent, "order": plan.order, "into": plan.into, "set": plan.set,
        "records": plan.records, "warm_up_records": plan.warm_up_records, "files": plan.files.len(),
        "file_bytes": plan.file_bytes(), "counts": counts,
        "digests": total.as_ref().map(|total| json!({"verdicts": total.verdicts, "outputs": total.outputs})),
    });
    (row, object)
}
