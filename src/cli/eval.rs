//! `eval`: how good the verdicts are on texts of one's own, or on generated ones.

mod table;
mod texts;

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Global;
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::fingerprint::{Reader, Scratch};
use crate::quality::{Crowd, Half, PlantSettings, Planted, Role, Scorer, plant};
use crate::record::{EventTime, Fields, Format, InputSettings, PartitionId, RawRecord, Timestamp};
use crate::sieve::{Route, Sieve, SieveSettings};

/// Size of the index for which the chance candidates of a probe are estimated.
const ORIGINALS: u64 = 10_000_000;

/// Arguments of `eval`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  dupgate eval\n  dupgate eval pages.jsonl --pairs pairs.txt")]
pub struct EvalArgs {
    /// files of JSON lines with `text` (and `id`) [default: a generated crawl]
    #[arg(value_name = "FILE")]
    pub base: Vec<PathBuf>,
    /// pairs of ids that are duplicates, two a line: judge the texts as they are, plant nothing
    #[arg(long, value_name = "FILE", requires = "base")]
    pub pairs: Option<PathBuf>,
    /// which of the texts are used: one half to choose settings by, the other to report on
    #[arg(long, value_enum, default_value_t = HalfArg::Report)]
    pub half: HalfArg,
    /// edited copies of each text
    #[arg(long, default_value_t = 2)]
    pub copies: usize,
    /// chooses one of many streams
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// texts that are generated when no file is named
    #[arg(long, default_value_t = 2000, conflicts_with = "base")]
    pub texts: usize,
    /// leave out shorter texts
    #[arg(long, value_name = "CHARACTERS", default_value_t = 0)]
    pub least: usize,
    /// leave out longer texts
    #[arg(long, value_name = "CHARACTERS", default_value_t = usize::MAX, hide_default_value = true)]
    pub most: usize,
    /// leave out texts of which so much stands in an earlier one: natural copies would count as mistakes
    #[arg(long, value_name = "SHARE", default_value_t = 0.3)]
    pub clean: f64,
    /// print the JSON line alone
    #[arg(long)]
    pub json: bool,
}

/// Half of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HalfArg {
    /// The first, third, fifth...
    Tune,
    /// The others.
    Report,
    /// All.
    Both,
}

/// Plants, judges, scores; prints one table and one line of JSON.
///
/// # Errors
///
/// A configuration that is refused, a file that cannot be read.
pub fn eval(args: &EvalArgs, global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Sieve)?.settings;
    // Texts stand alone: no ids that could make an update, no scope, no times.
    let input = InputSettings {
        format: Format::Text,
        fields: Fields { id: None, text: None, html: None, fetched_at: None, scope: None },
        event_time: EventTime::Record,
        ..settings.record.clone()
    };
    let reader = Reader::new(&input, &settings.text, &settings.fingerprint, NonZeroUsize::MIN)
        .map_err(|error| Reason::Config.because(error))?;
    let found = texts::gather(args, &reader).map_err(|error| Reason::State.because(error))?;
    let crowd = settings.rules.minhash.map(|minhash| {
        let shingles = settings.fingerprint.minhash.shingle;
        let crowd = Crowd::of(&texts::sets(&found, &reader, shingles));
        let candidates = [1, minhash.agree].map(|agree| crowd.candidates(minhash.banding, agree, ORIGINALS));
        (candidates, crowd.histogram())
    });
    let stream = if let Some(pairs) = &args.pairs {
        texts::labelled(&found, pairs).map_err(|error| Reason::State.because(error))?
    } else {
        let texts: Vec<String> = found.into_iter().map(|text| text.text).collect();
        plant(&texts, PlantSettings { seed: args.seed, copies: args.copies })
    };
    let report = judge(&stream, &reader, &settings)?.report();
    let mut out = std::io::stdout().lock();
    let (candidates, likeness) = crowd.unzip();
    let written = if args.json { Ok(()) } else { out.write_all(table::table(&report, candidates).as_bytes()) };
    // Nobody reads what is left to say.
    drop(written.and_then(|()| writeln!(out, "{}", table::json(&report, candidates, likeness.as_deref()))));
    Ok(())
}

/// Judges the stream as `sieve` would.
fn judge(stream: &[Planted], reader: &Reader, settings: &Settings) -> Result<Scorer, Fatal> {
    let mut sieve = Sieve::new(SieveSettings {
        rules: settings.rules.clone(),
        event_time: EventTime::Record,
        partitions: NonZeroUsize::MIN,
        clock: Timestamp::from_millis(i64::MAX / 2),
    });
    let (mut scorer, mut scratch) = (Scorer::default(), Scratch::default());
    let place = PartitionId::new("stream", 0);
    for (number, page) in (0..).zip(stream) {
        let record = RawRecord { key: None, value: Some(page.text.as_bytes()), headers: &() };
        let sifted = sieve.judge(place.at(number), reader.read(&record, &mut scratch));
        let sifted = sifted.map_err(|error| Reason::Bug.because(error))?;
        let duplicate = sifted.verdict.original().filter(|_| sifted.verdict.route() == Route::Duplicate);
        let matched = duplicate.and_then(|original| usize::try_from(original.source.offset).ok());
        scorer.note(page.family, page.role, matched);
    }
    Ok(scorer)
}

impl HalfArg {
    const fn half(self) -> Half {
        match self {
            Self::Tune => Half::Tune,
            Self::Report => Half::Report,
            Self::Both => Half::Both,
        }
    }
}

/// A page that nothing was done to.
fn original(family: usize, text: String) -> Planted {
    Planted { family, role: Role::Original, text }
}
