//! Two kinds of settings: those of the live service, and those that a replay tries instead.

use dupgate_core::replay::{Plan, variants};
use serde_json::Value;

use crate::cli::Global;
use crate::config::settings::Settings;
use crate::config::{ChangeImpact, Purpose, RawSecret, SECRET_SLOTS, decides, load};
use crate::error::{Fatal, Reason};

/// The settings of one replay.
pub(super) struct Both {
    /// Of the live service.
    pub(super) live: Settings,
    /// Settings to try, one for each variant; the live ones if none are given.
    pub(super) tried: Vec<Settings>,
    /// The assignments that differ.
    pub(super) set: Vec<String>,
}

/// Reads the configuration. Assignments of the command line that decide verdicts apply to the replay only, all others
/// to both.
pub(super) fn read(global: &Global) -> Result<Both, Fatal> {
    let (set, base) = split(&global.set)?;
    set.iter().try_for_each(|assignment| without_secret(assignment))?;
    of(global, base, set)
}

/// Reads the configuration of a replay that has a plan.
pub(super) fn of_plan(global: &Global, plan: &Plan) -> Result<Both, Fatal> {
    let (set, base) = split(&global.set)?;
    set.iter().chain(&plan.set).try_for_each(|assignment| without_secret(assignment))?;
    if !set.is_empty() && set != plan.set {
        let why = anyhow::anyhow!("the plan has its own settings ({}); --set cannot change them", plan.set.join(" "));
        return Err(Reason::Usage.because(why));
    }
    of(global, base, plan.set.clone())
}

fn of(global: &Global, base: Vec<String>, set: Vec<String>) -> Result<Both, Fatal> {
    let global = Global { set: base, ..global.clone() };
    let live = global.start(Purpose::Run)?.settings;
    let made = variants(&set).map_err(|error| Reason::Usage.because(error))?;
    let mut tried = Vec::new();
    for variant in made {
        let mut sources = global.sources();
        sources.set.extend(variant);
        tried.push(load(&sources, Purpose::Run)?.settings);
    }
    if let Some(other) = tried.iter().find(|one| tried.first().is_some_and(|first| first.scheme() != one.scheme())) {
        let why = anyhow::anyhow!(
            "the values lead to several schemes (one is {}), but a replay reads pages by one: replay them one by one",
            other.scheme()
        );
        return Err(Reason::Usage.because(why));
    }
    Ok(Both { live, tried, set })
}

/// Splits assignments into those that the replay tries and those of both sides.
fn split(assignments: &[String]) -> Result<(Vec<String>, Vec<String>), Fatal> {
    let (mut tried, mut both) = (Vec::new(), Vec::new());
    for assignment in assignments {
        let side = if is_tried(assignment)? { &mut tried } else { &mut both };
        side.push(assignment.clone());
    }
    Ok((tried, both))
}

/// Returns whether an assignment decides verdicts. The value may be a map of several keys, which must agree.
fn is_tried(assignment: &str) -> Result<bool, Fatal> {
    let (key, value) = assignment.split_once('=').unwrap_or((assignment, ""));
    let mut keys = Vec::new();
    collect_keys(key.trim(), &serde_saphyr::from_str(value).unwrap_or(Value::Null), &mut keys);
    let decides_verdicts = |key: &String| matches!(decides(key), ChangeImpact::Scheme | ChangeImpact::Rules);
    let Some(tried) = keys.iter().find(|key| decides_verdicts(key)) else { return Ok(false) };
    let Some(both) = keys.iter().find(|key| !decides_verdicts(key)) else { return Ok(true) };
    let why = anyhow::anyhow!(
        "--set '{}=...' mixes {tried}, which the replay tries, with {both}, which is the service's: set them one by one",
        key.trim()
    );
    Err(Reason::Usage.because(why))
}

/// Collects the keys that a value assigns: one for each leaf of a map.
fn collect_keys(key: &str, value: &Value, keys: &mut Vec<String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(name, value)| collect_keys(&format!("{key}.{name}"), value, keys));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            keys.push(key.to_owned());
        }
    }
}

/// Plans are stored and shown: they may name the source of a secret, not its text.
fn without_secret(assignment: &str) -> Result<(), Fatal> {
    let (key, value) = assignment.split_once('=').unwrap_or((assignment, ""));
    let key = key.trim();
    let given = |slot: &str| -> Option<Option<Value>> {
        let value = || serde_saphyr::from_str::<Value>(value).ok();
        if slot == key {
            return Some(value());
        }
        let below = slot.strip_prefix(key)?.strip_prefix('.')?;
        value()?.pointer(&format!("/{}", below.replace('.', "/"))).cloned().map(Some)
    };
    let is_reference = |value: Option<Value>| {
        let read = value.and_then(|value| serde_json::from_value::<RawSecret>(value).ok());
        matches!(read, Some(RawSecret::File(_) | RawSecret::Env(_)))
    };
    let Some(slot) = SECRET_SLOTS.iter().find(|slot| given(slot).is_some_and(|value| !is_reference(value))) else {
        return Ok(());
    };
    let why = anyhow::anyhow!(
        "{slot} is a secret, and a plan is kept and shown: name where it is kept, --set '{slot}={{file: PATH}}' or \
         --set '{slot}={{env: NAME}}'"
    );
    Err(Reason::Usage.because(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_settings_is_tried_if_its_keys_decide_verdicts() {
        for tried in [
            "window={size: 24h}",
            "window.size=24h",
            "match={minhash: {min_similarity: 0.4}}",
            "index={max_entries: 9}",
        ] {
            assert!(is_tried(tried).unwrap(), "{tried}");
        }
        for both in ["index={snapshot: {keep: 3}}", "processing={threads: 2}", "index.path=/x", "input={topics: [a]}"] {
            assert!(!is_tried(both).unwrap(), "{both}");
        }
        let why = is_tried("index={max_memory: 1GiB, path: /x}").unwrap_err().to_string();
        assert!(why.contains("index.max_memory") && why.contains("index.path") && why.contains("one by one"), "{why}");
    }

    #[test]
    fn the_text_of_a_secret_never_gets_into_a_plan() {
        for refused in [
            "match.seed=hunter2",
            "match.seed=a,b",
            " match.seed =x",
            "match={seed: hunter2, max_distance: 3}",
            "match.seed=",
        ] {
            let why = without_secret(refused).unwrap_err().to_string();
            assert!(why.starts_with("match.seed is a secret") && !why.contains("hunter2"), "{why}");
        }
        for kept in [
            "match.seed={file: /run/seed}",
            "match.seed={env: SEED}",
            "match={same_id: update}",
            "match={seed: {env: SEED}}",
            "match.minhash.min_similarity=0.3,0.4",
        ] {
            without_secret(kept).unwrap();
        }
    }
}
