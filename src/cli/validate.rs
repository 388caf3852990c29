//! `validate`: prints all problems of a configuration, and what its bands find, also by chance.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::Global;
use super::check::machine::MemoryPlan;
use super::output::{self, Format, columns, expected, print, print_json};
use crate::config::settings::Settings;
use crate::config::{Problem, Purpose, load};
use crate::context;
use crate::error::{Fatal, Reason};
use crate::fingerprint::{LowConfidence, Width};
use crate::protocol::{MinHashRules, Stage};
use crate::quality::{Chance, chances};
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
            let mut report_json = output::as_json(&problems, &warnings);
            if let Some(report_json) = report_json.as_object_mut() {
                let memory = settings.as_ref().map(|settings| MemoryPlan::of(settings).bytes());
                report_json.extend(memory.map(|bytes| ("memory_bytes".to_owned(), bytes.into())));
                report_json.extend(chance_matches.map(|chance_matches| ("simhash".to_owned(), chance_matches.json())));
                report_json.extend(curve.map(|curve| ("minhash".to_owned(), curve.json())));
            }
            print_json(&report_json, format)?;
        }
        Some(Format::Table) | None => {
            // Standard error may be closed: the exit code still reports it.
            let _ = output::print_findings(
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
    let sum = output::sum(&problems, &warnings);
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
    used.map(|stage| vec![stage.name().to_owned(), asks(stage), format!("within {}", output::span(window(stage)))])
        .collect()
}

/// The Jaccard indices of the curve, in hundredths.
const HUNDREDTHS: [u8; 9] = [10, 20, 30, 40, 50, 60, 70, 80, 90];

/// The bands in use, with their expected matches.
struct Curve {
    minhash: MinHashRules,
    max_entries: u64,
    chances: Vec<Chance>,
}

impl Curve {
    /// Computes the curve from the settings; `None` if the stage is not in use.
    fn of(settings: &Settings) -> Option<Self> {
        let rules = &settings.rules;
        let minhash = rules.minhash.filter(|_| rules.stages.contains(&Stage::MinHash))?;
        let shingle = settings.fingerprint.minhash.shingle;
        let chances = chances(shingle, minhash.banding, minhash.least_keys(None), rules.max_entries);
        Some(Self { minhash, max_entries: rules.max_entries, chances })
    }

    fn recall(&self, hundredths: u8, min: u8) -> f64 {
        self.minhash.banding.recall(f64::from(hundredths) / 100.0, min)
    }

    fn table(&self) -> String {
        let MinHashRules {
            form,
            banding,
            min_shared_bands,
            one_band_below,
            min_similarity,
            containment,
            low_confidence,
            ..
        } = self.minhash;
        let (slots, bits) = (form.slots(), form.bits().count());
        let row = |name: &str, cells: [String; 9]| std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>();
        let sharing = |min: u8| HUNDREDTHS.map(|hundredths| format!("{:.3}", self.recall(hundredths, min)));
        let mut curve = vec![
            row("jaccard", HUNDREDTHS.map(|hundredths| format!("{:.1}", f64::from(hundredths) / 100.0))),
            row(if containment.is_some() { "share 1, compared" } else { "share a key" }, sharing(1)),
        ];
        if min_shared_bands > 1 {
            let compared = if containment.is_some() { "" } else { ", compared" };
            curve.push(row(&format!("share {min_shared_bands}{compared}"), sharing(min_shared_bands)));
        }
        let originals = self.max_entries;
        let head = [format!("by chance among {originals}"), "share a key".into(), "compared".into(), "judge".into()];
        let chance = |chance: &Chance| {
            let microseconds = chance.nanoseconds(banding) / 1e3;
            let [found, compared] = [chance.found, chance.compared].map(|count| format!("{count:.0}"));
            vec![chance.kind.to_owned(), found, compared, format!("about {microseconds:.0} us a page")]
        };
        let chances = std::iter::once(head.to_vec()).chain(self.chances.iter().map(chance)).collect::<Vec<_>>();
        let by_chance = if self.chances.is_empty() {
            format!(
                "by chance among {originals}: not known for word shingles; `dupgate eval` measures it on your texts"
            )
        } else {
            columns(&chances)
        };
        format!(
            "minhash: {} bands of {} rows out of {slots} slots of {bits} bits; two texts match when they share {min_shared_bands} bands{} \
             and their\nsimilarity is estimated at {} or more{}{}{}\n\n{}\n\n{}",
            banding.bands(),
            banding.rows(),
            if min_shared_bands > 1 && one_band_below > 0 {
                format!(" (one, where the later has fewer than {one_band_below} shingles)")
            } else {
                String::new()
            },
            min_similarity,
            form.bottom().map_or_else(String::new, |k| format!(" by the {k} smallest hashes")),
            if low_confidence.below > min_similarity {
                let LowConfidence { below, containment, .. } = low_confidence;
                format!(
                    " (below {below} only with {containment} of the smaller in the other, or within {} bits)",
                    low_confidence.max_distance
                )
            } else {
                String::new()
            },
            containment.map_or_else(String::new, |min| {
                format!(", or when they share one band and {min} of the smaller\nis estimated to be in the other")
            }),
            columns(&curve),
            by_chance
        )
    }

    fn json(&self) -> Value {
        let MinHashRules { banding, min_shared_bands, one_band_below, .. } = self.minhash;
        let min = self.minhash.least_keys(None);
        let point = |hundredths: &u8| {
            json!({
                "jaccard": f64::from(*hundredths) / 100.0,
                "share_a_key": self.recall(*hundredths, 1),
                "compared": self.recall(*hundredths, min),
            })
        };
        let chance = |chance: &Chance| {
            json!({
                "kind": chance.kind,
                "share_a_key": chance.found,
                "compared": chance.compared,
                "nanoseconds": chance.nanoseconds(banding),
            })
        };
        json!({
            "bands": banding.bands(), "rows": banding.rows(), "min_shared_bands": min_shared_bands,
            "one_band_below": one_band_below, "max_entries": self.max_entries,
            "curve": HUNDREDTHS.iter().map(point).collect::<Vec<_>>(),
            "by_chance": (!self.chances.is_empty()).then(|| self.chances.iter().map(chance).collect::<Vec<_>>()),
        })
    }
}

/// The settings that decide the expected matches by chance.
struct ChanceMatches {
    width: Width,
    max_distance: u8,
    max_entries: u64,
}

impl ChanceMatches {
    /// Takes them from the settings; `None` if the stage is not in use.
    fn of(settings: &Settings) -> Option<Self> {
        let rules = &settings.rules;
        let chance_matches = Self {
            width: settings.fingerprint.simhash.bits,
            max_distance: rules.max_distance,
            max_entries: rules.max_entries,
        };
        rules.stages.contains(&Stage::SimHash).then_some(chance_matches)
    }

    fn by_chance(&self) -> f64 {
        self.width.expected_chance_matches(self.max_distance, self.max_entries)
    }

    fn line(&self) -> String {
        format!(
            "simhash: two texts match when at most {} of {} bits differ; by chance a page matches {} of {} originals\n\
             (assuming random codes; codes of real texts are closer)",
            self.max_distance,
            self.width.bits(),
            expected(self.by_chance()),
            self.max_entries
        )
    }

    fn json(&self) -> Value {
        json!({
            "bits": self.width.bits(), "max_distance": self.max_distance, "max_entries": self.max_entries,
            "by_chance": self.by_chance(),
        })
    }
}
