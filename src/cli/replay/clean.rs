//! `replay clean`: deletes the topics and the group of a replay.

use dupgate_core::replay::own_name;
use serde_json::json;

use super::{CleanArgs, settings};
use crate::cli::output::{Format, print_list};
use crate::cli::{Global, note};
use crate::error::{Fatal, Reason};
use crate::replay::Store;

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
