//! Two kinds of settings: those of the live service, and those that a replay tries instead.

use serde_json::Value;

use crate::cli::Global;
use crate::config::settings::Settings;
use crate::config::{ChangeImpact, Purpose, RawSecret, SECRET_SLOTS, decides, load};
use crate::error::{Fatal, Reason};
use crate::replay::{Plan, variants};

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
    let (set, base): (Vec<String>, Vec<String>) = global.set.iter().cloned().partition(|text| is_tried(text));
    set.iter().try_for_each(|assignment| without_secret(assignment))?;
    of(global, base, set)
}

/// Reads the configuration of a replay that has a plan.
pub(super) fn of_plan(global: &Global, plan: &Plan) -> Result<Both, Fatal> {
    let (set, base): (Vec<String>, Vec<String>) = global.set.iter().cloned().partition(|text| is_tried(text));
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

fn is_tried(assignment: &str) -> bool {
    let key = assignment.split('=').next().unwrap_or_default().trim();
    matches!(decides(key), ChangeImpact::Scheme | ChangeImpact::Rules)
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
