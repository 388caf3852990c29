//! Two kinds of settings: those of the live service, and those that a replay tries instead.

use crate::cli::Global;
use crate::config::settings::Settings;
use crate::config::{ChangeImpact, Purpose, decides, load};
use crate::error::{Fatal, Reason};
use crate::replay::{Plan, variants};

/// The settings of one replay.
pub(super) struct Both {
    /// Of the live service.
    pub(super) live: Settings,
    /// What is tried, one for each variant; the live ones when nothing is.
    pub(super) tried: Vec<Settings>,
    /// The assignments that make the difference.
    pub(super) set: Vec<String>,
}

/// Reads the configuration. Assignments of the command line that decide verdicts are tried by the replay, all others hold
/// for both.
pub(super) fn read(global: &Global) -> Result<Both, Fatal> {
    let (set, base): (Vec<String>, Vec<String>) = global.set.iter().cloned().partition(|text| is_tried(text));
    of(global, base, set)
}

/// Reads the configuration of a replay that has a plan.
pub(super) fn of_plan(global: &Global, plan: &Plan) -> Result<Both, Fatal> {
    let (set, base): (Vec<String>, Vec<String>) = global.set.iter().cloned().partition(|text| is_tried(text));
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
            "the values lead to several schemes (one is {}), and pages are read by one only: replay them one by one",
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
