//! `validate`: prints all problems of a configuration.

mod curve;

use std::path::PathBuf;

use clap::Args;
use curve::{ChanceMatches, Curve};

use super::output::{Format, columns, print, print_json};
use super::{Global, human, report};
use crate::config::settings::Settings;
use crate::config::{Problem, Purpose, load};
use crate::error::{Fatal, Reason};
use crate::protocol::Stage;
use crate::runtime::context;
use crate::text::{SettingsError, UnusedWords};

/// Arguments of `validate`.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = "Examples:\n  dupgate validate dupgate.yaml\n  dupgate validate -c dupgate.yaml -s window.size=24h -o json\n  \
                  dupgate validate dupgate.yaml --matching"
)]
pub struct ValidateArgs {
    /// Further configuration files, over those of --config
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Refuse warnings as well
    #[arg(long)]
    pub strict: bool,
    /// Show which share of similar texts the stages find, and how many texts they take for similar by chance
    #[arg(long)]
    pub matching: bool,
}

/// Prints every problem and every warning: to standard error for people, to standard output as JSON. For a valid
/// configuration, prints the requirements of each stage; with `--matching` also matches by chance, and recall and cost
/// of the bands.
///
/// # Errors
///
/// The configuration is refused; the problems are printed by then.
pub fn validate(args: &ValidateArgs, global: &Global) -> Result<(), Fatal> {
    let mut sources = global.sources();
    sources.files.extend(args.files.iter().cloned());
    let (mut problems, mut warnings, settings) = match load(&sources, Purpose::Run) {
        // What is valid starts: the library is asked about properties that do not go together.
        Ok(loaded) => match context::refused_client(&loaded.settings) {
            None => (Vec::new(), loaded.warnings, Some(loaded.settings)),
            Some(why) => {
                let problem = Problem { path: "kafka".to_owned(), message: why, ..Problem::default() };
                (vec![problem], loaded.warnings, None)
            }
        },
        Err(refused) => (refused.problems, refused.warnings, None),
    };
    match settings.as_ref().map(unused_words).transpose() {
        Ok(unused) => warnings.extend(unused.into_iter().flatten()),
        Err(refused) => problems.push(refused),
    }
    let stages = settings.as_ref().map(stages).unwrap_or_default();
    let shown = settings.as_ref().filter(|_| args.matching);
    let (chance_matches, curve) = (shown.and_then(ChanceMatches::of), shown.and_then(Curve::of));
    match global.output {
        Some(format @ (Format::Json | Format::Jsonl)) => {
            let mut report_json = report::as_json(&problems, &warnings);
            if let Some(report_json) = report_json.as_object_mut() {
                report_json.extend(chance_matches.map(|chance_matches| ("simhash".to_owned(), chance_matches.json())));
                report_json.extend(curve.map(|curve| ("minhash".to_owned(), curve.json())));
            }
            print_json(&report_json, format)?;
        }
        Some(Format::Table) | None => {
            // Standard error may be closed: the exit code still reports it.
            let _ = report::print_findings(
                &mut std::io::stderr().lock(),
                &global.color.of_excerpts(),
                &problems,
                &warnings,
            );
            let report_json: Vec<String> = chance_matches
                .map(|chance_matches| chance_matches.line())
                .into_iter()
                .chain(curve.map(|curve| curve.table()))
                .collect();
            if args.matching && !report_json.is_empty() {
                print(&report_json.join("\n\n"))?;
            } else if !stages.is_empty() {
                print(&columns(&stages))?;
            }
        }
    }
    let sum = report::sum(&problems, &warnings);
    if problems.is_empty() && (warnings.is_empty() || !args.strict) {
        super::note(&format!("the configuration is valid ({sum})"));
        return Ok(());
    }
    Err(Reason::Config.because(anyhow::anyhow!("the configuration is refused ({sum})")))
}

/// Maximum number of words that a warning names.
const NAMED_WORDS: usize = 5;

/// Returns a warning for each list that has words which no text is cut into.
///
/// # Errors
///
/// The problem of a list that cannot be used.
fn unused_words(settings: &Settings) -> Result<Vec<Problem>, Problem> {
    let refused =
        |error: SettingsError| Problem { path: "text".to_owned(), message: error.to_string(), ..Problem::default() };
    let UnusedWords { stopwords, dictionary } = UnusedWords::of(&settings.text).map_err(refused)?;
    let warning = |path: &str, words: &[String]| {
        let named: Vec<String> = words.iter().take(NAMED_WORDS).map(|word| format!("`{word}`")).collect();
        let more = if words.len() > NAMED_WORDS { ", ..." } else { "" };
        let message = format!(
            "{} of its words are never used, because text.segmenter never cuts a text into them: {}{more}",
            words.len(),
            named.join(", ")
        );
        (!words.is_empty()).then(|| Problem { path: path.to_owned(), message, ..Problem::default() })
    };
    let found = [warning("text.stopwords", &stopwords), warning("text.jieba.user_dict", &dictionary)];
    Ok(found.into_iter().flatten().collect())
}

/// Returns one line for each stage in use: what two texts must have in common, and the window.
fn stages(settings: &Settings) -> Vec<Vec<String>> {
    let rules = &settings.rules;
    let asks = |stage: Stage| match stage {
        Stage::Exact => "equal text".to_owned(),
        Stage::SimHash => {
            format!("at most {} of {} bits differ", rules.max_distance, settings.fingerprint.simhash.bits.bits())
        }
        Stage::MinHash => rules.minhash.map_or_else(String::new, |minhash| {
            let (bands, min) = (minhash.banding.bands(), minhash.min_similarity);
            format!("{} of {bands} bands shared, estimated similarity {min} or more", minhash.min_shared_bands)
        }),
    };
    let window = |stage: Stage| match stage {
        Stage::Exact => rules.windows.exact,
        Stage::SimHash => rules.windows.simhash,
        Stage::MinHash => rules.windows.minhash,
    };
    let used = Stage::ALL.into_iter().filter(|stage| rules.stages.contains(stage));
    used.map(|stage| vec![stage.name().to_owned(), asks(stage), format!("within {}", human::span(window(stage)))])
        .collect()
}
