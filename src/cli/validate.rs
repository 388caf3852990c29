//! `validate`: prints all problems of a configuration, and what its bands find, also by chance.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::Global;
use super::check::machine::{MemoryPlan, gib};
use super::output::{self, Format, columns, expected, print, print_json, table};
use crate::config::settings::Settings;
use crate::config::{Problem, Purpose, load};
use crate::context;
use crate::error::{Fatal, fatal};
use crate::fingerprint::LowConfidence;
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
    let shown = settings.as_ref().filter(|_| args.matching);
    let (chance_matches, curve) = (shown.and_then(ChanceMatches::of), shown.and_then(Curve::of));
    let format = global.report_format();
    if format == Format::Table {
        // Standard error may be closed: the exit code still reports it.
        let renderer = global.color.of_excerpts();
        let _ = output::print_findings(&mut std::io::stderr().lock(), &renderer, &problems, &warnings);
        let matching: Vec<String> =
            chance_matches.iter().map(ChanceMatches::line).chain(curve.iter().map(Curve::table)).collect();
        if !matching.is_empty() {
            print(&matching.join("\n\n"))?;
        } else if let Some(settings) = &settings {
            let rows: Vec<[String; 3]> = stages(settings).into_iter().chain([memory(settings)]).collect();
            print(&columns(&rows))?;
        }
    } else {
        let mut report = output::as_json(&problems, &warnings);
        if let Some(settings) = &settings {
            output::extend(&mut report, json!({"memory_bytes": MemoryPlan::of(settings).bytes()}));
        }
        if let Some(chance_matches) = &chance_matches {
            output::extend(&mut report, json!({"simhash": chance_matches}));
        }
        if let Some(curve) = &curve {
            output::extend(&mut report, json!({"minhash": curve.json()}));
        }
        print_json(&report, format)?;
    }
    let sum = output::sum(&problems, &warnings);
    if problems.is_empty() && (warnings.is_empty() || !args.strict) {
        super::note(&format!("the configuration is valid ({sum})"));
        return Ok(());
    }
    Err(fatal!(Config, "the configuration is refused ({sum})"))
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
fn stages(settings: &Settings) -> Vec<[String; 3]> {
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
    let row = |stage: Stage| {
        [stage.name().to_owned(), asks(stage), format!("within {}", output::span(rules.windows.of(stage)))]
    };
    Stage::ALL.into_iter().filter(|stage| rules.stages.contains(stage)).map(row).collect()
}

/// Returns the line about the memory that the process may take.
fn memory(settings: &Settings) -> [String; 3] {
    let both = settings.previous.is_some();
    let of =
        if both { "until the dual period is over; text work and requests are those of both schemes, too" } else { "" };
    ["memory".to_owned(), format!("about {} in all", gib(MemoryPlan::of(settings).bytes())), of.to_owned()]
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
        let MinHashRules { form, banding, min_shared_bands, one_band_below, min_similarity, containment, .. } =
            self.minhash;
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
        let chance = |chance: &Chance| {
            let microseconds = chance.nanoseconds(banding) / 1e3;
            let [found, compared] = [chance.found, chance.compared].map(|count| format!("{count:.0}"));
            [chance.kind.to_owned(), found, compared, format!("about {microseconds:.0} us a page")]
        };
        let heading = format!("by chance among {originals}");
        let by_chance = if self.chances.is_empty() {
            format!("{heading}: not known for word shingles; `dupgate eval` measures it on your texts")
        } else {
            let chances: Vec<_> = self.chances.iter().map(chance).collect();
            table(&[&heading, "share a key", "compared", "judge"], &chances)
        };
        let fewer = if min_shared_bands > 1 && one_band_below > 0 {
            format!(" (one, where the later has fewer than {one_band_below} shingles)")
        } else {
            String::new()
        };
        let bottom = form.bottom().map_or_else(String::new, |k| format!(" by the {k} smallest hashes"));
        let LowConfidence { below, containment: needed, max_distance, .. } = self.minhash.low_confidence;
        let low = if below > min_similarity {
            format!(" (below {below} only with {needed} of the smaller in the other, or within {max_distance} bits)")
        } else {
            String::new()
        };
        let contained = containment.map_or_else(String::new, |min| {
            format!(", or when they share one band and {min} of the smaller\nis estimated to be in the other")
        });
        format!(
            "minhash: {} bands of {} rows out of {slots} slots of {bits} bits; two texts match when they share \
             {min_shared_bands} bands{fewer} and their\nsimilarity is estimated at {min_similarity} or more\
             {bottom}{low}{contained}\n\n{}\n\n{by_chance}",
            banding.bands(),
            banding.rows(),
            columns(&curve)
        )
    }

    fn json(&self) -> Value {
        let MinHashRules { banding, min_shared_bands, one_band_below, .. } = self.minhash;
        let min = self.minhash.least_keys(None);
        let point = |hundredths: &u8| {
            let [share_a_key, compared] = [1, min].map(|min| self.recall(*hundredths, min));
            json!({"jaccard": f64::from(*hundredths) / 100.0, "share_a_key": share_a_key, "compared": compared})
        };
        let chance = |chance: &Chance| {
            json!({
                "kind": chance.kind, "share_a_key": chance.found, "compared": chance.compared,
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

/// Expected matches by chance, and the settings that decide them.
#[derive(Serialize)]
struct ChanceMatches {
    bits: u32,
    max_distance: u8,
    max_entries: u64,
    by_chance: f64,
}

impl ChanceMatches {
    /// Computes them from the settings; `None` if the stage is not in use.
    fn of(settings: &Settings) -> Option<Self> {
        let (rules, width) = (&settings.rules, settings.fingerprint.simhash.bits);
        let (max_distance, max_entries) = (rules.max_distance, rules.max_entries);
        let by_chance = width.expected_chance_matches(max_distance, max_entries);
        let matches = Self { bits: width.bits(), max_distance, max_entries, by_chance };
        rules.stages.contains(&Stage::SimHash).then_some(matches)
    }

    fn line(&self) -> String {
        let Self { bits, max_distance, max_entries, by_chance } = *self;
        format!(
            "simhash: two texts match when at most {max_distance} of {bits} bits differ; by chance a page matches {} of \
             {max_entries} originals\n(assuming random codes; codes of real texts are closer)",
            expected(by_chance)
        )
    }
}
