//! Judges streams of sites as the service would: with addresses, which reveal the site, and without.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{EvalArgs, planted, print_report};
use crate::cli::output::{Format as OutputFormat, columns};
use crate::cli::progress_bar::PageProgress;
use crate::config::settings::Settings;
use crate::deduplicator::{Deduplicator, DeduplicatorSettings, Route};
use crate::error::{Fatal, Reason};
use crate::fingerprint::{Fingerprinter, Scratch};
use crate::quality::sites::{
    Form, Row, RowKind, SHARES, SiteCounts, SiteScorer, SiteSettings, SiteStream, SiteTexts, streams,
};
use crate::record::{EventTime, Fields, Format, InputSettings, PartitionId, RawRecord, Timestamp};

/// Pages that a thread judges before it reports progress.
const PROGRESS_STEP: usize = 256;

/// A row and the counts of its pages.
type Counted = (Row, SiteCounts);

/// Parses a percentage of repeated text; only some percentages have streams.
pub(super) fn share(given: &str) -> Result<usize, String> {
    let known = given.parse().ok().filter(|share| SHARES.contains(share));
    known.ok_or_else(|| format!("expected one of {}", SHARES.map(|share| share.to_string()).join(", ")))
}

/// Judges all streams, each by a separate judge; prints tables that mark rows that miss their goal, or JSON.
///
/// # Errors
///
/// [`Reason::Failure`] if a goal is missed and `--check` is given.
pub(super) fn sites(
    args: &EvalArgs,
    found: Vec<super::Named>,
    settings: &Settings,
    format: OutputFormat,
) -> Result<(), Fatal> {
    // The generated records have the default fields. All other settings of records are those of the service, including
    // those of addresses.
    let input = InputSettings {
        format: Format::Json,
        fields: Fields { fetched_at: None, scope: None, ..Fields::default() },
        event_time: EventTime::Record,
        ..settings.record.clone()
    };
    let reader = Fingerprinter::new(&input, &settings.text, &settings.fingerprint, NonZeroUsize::MIN)
        .map_err(|error| Reason::Config.because(error))?;
    let ordinary = super::without_names(found);
    let plain = planted(&ordinary, args);
    let articles =
        if args.base.is_empty() { SiteTexts::generated(args.seed) } else { SiteTexts::given(args.seed, &ordinary) };
    let mut streams = streams(&articles, &ordinary, &plain, SiteSettings { seed: args.seed, pages: args.pages });
    let is_wanted =
        |row: &Row| row.kind == RowKind::Unlike && row.share.is_some_and(|share| args.shares.contains(&share));
    streams.retain(|stream| args.shares.is_empty() || stream.rows().iter().all(is_wanted));
    let counted = judged(&streams, &reader, settings)?;
    let pages: usize = streams.iter().map(SiteStream::pages).sum();
    let rows: Vec<Value> = counted.iter().map(json_of).collect();
    let missed = missed(&counted);
    let report = json!({ "pages": pages, "missed": missed, "sites": rows });
    print_report(&tables(&counted), &report, format)?;
    if args.check && missed > 0 {
        return Err(Reason::Failure.because(anyhow::anyhow!("{missed} of {} rows miss their goal", counted.len())));
    }
    Ok(())
}

/// Judges the streams, as many at a time as there are cores. The results do not depend on the number of cores.
fn judged(streams: &[SiteStream<'_>], reader: &Fingerprinter, settings: &Settings) -> Result<Vec<Counted>, Fatal> {
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(streams.len());
    let next = AtomicUsize::new(0);
    let progress = PageProgress::new(streams.iter().map(|stream| stream.pages() as u64).sum());
    let work = || {
        let mut done = Vec::new();
        while let Some((number, stream)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            streams.get(number).map(|stream| (number, stream))
        } {
            done.push((number, counts_of(stream, reader, settings, &progress)));
        }
        done
    };
    let mut all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let done = threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        done.collect::<Vec<_>>()
    });
    progress.finish();
    all.sort_by_key(|(number, _)| *number);
    let counted: Result<Vec<Vec<Counted>>, Fatal> = all.into_iter().map(|(_, counted)| counted).collect();
    Ok(counted?.concat())
}

fn counts_of(
    stream: &SiteStream<'_>,
    reader: &Fingerprinter,
    settings: &Settings,
    progress: &PageProgress,
) -> Result<Vec<Counted>, Fatal> {
    // Size the tables for this stream, not for millions of originals.
    let originals = u64::try_from(stream.pages()).unwrap_or(u64::MAX).max(16);
    let mut rules = settings.rules.clone();
    rules.max_entries = rules.max_entries.min(originals);
    let mut sieve = Deduplicator::new(DeduplicatorSettings {
        rules,
        event_time: EventTime::Record,
        partitions: NonZeroUsize::MIN,
        clock: Timestamp::from_millis(i64::MAX / 2),
    });
    let (mut scorer, mut scratch) = (SiteScorer::new(stream), Scratch::default());
    let place = PartitionId::new("stream", 0);
    for (offset, number) in (0..).zip(0..stream.pages()) {
        let Some(page) = stream.page(number) else { break };
        let value = page.to_json();
        let record = RawRecord { key: None, value: Some(&value), headers: &() };
        let sifted = sieve.judge(place.at(offset), reader.read(&record, &mut scratch));
        let verdict = sifted.map_err(|error| Reason::Bug.because(error))?.verdict;
        let matched = verdict.original().filter(|_| verdict.route() == Route::Duplicate);
        scorer.note(page.truth, matched.and_then(|of| usize::try_from(of.source.offset).ok()));
        if (number + 1).is_multiple_of(PROGRESS_STEP) {
            progress.add(PROGRESS_STEP as u64);
        }
    }
    progress.add((stream.pages() % PROGRESS_STEP) as u64);
    Ok(stream.rows().iter().copied().zip(scorer.counts().iter().copied()).collect())
}

fn missed(counted: &[Counted]) -> usize {
    counted.iter().filter(|(row, counts)| !row.goal.is_met(counts)).count()
}

fn json_of((row, counts): &Counted) -> Value {
    json!({
        "kind": row.kind, "form": row.form, "addressed": row.addressed, "share": row.share,
        "site_pages": row.site_pages, "lost": counts.lost, "lost_share": counts.lost.share(),
        "lost_within": counts.lost_within, "lost_across": counts.lost_across(), "found": counts.found,
        "found_share": counts.found.share(), "strayed": counts.strayed, "goal": row.goal,
        "met": row.goal.is_met(counts),
    })
}

/// Writes one table of the pages that are unlike, and one of all others. Rows that miss their goal are marked.
fn tables(counted: &[Counted]) -> String {
    let unlike = unlike(counted);
    let mut others =
        vec![["pages", "form", "address", "copies found", "", "uniques lost", "", "goal"].map(str::to_owned).to_vec()];
    for (row, counts) in counted.iter().filter(|(row, _)| row.kind != RowKind::Unlike) {
        let share = |count: crate::quality::Count| {
            let percent = format!("{:.2} %", count.share() * 100.0);
            if count.planted == 0 {
                [String::new(), String::new()]
            } else {
                [percent, format!("{} of {}", count.found, count.planted)]
            }
        };
        let mark = if row.goal.is_met(counts) { "" } else { " !" };
        let mut line = vec![row.kind.name().to_owned(), row.form.name().to_owned(), yes(row.addressed).to_owned()];
        line.extend(share(counts.found));
        line.extend(share(counts.lost));
        line.push(format!("{}{mark}", goal(row)));
        others.push(line);
    }
    if others.len() == 1 {
        others.clear();
    }
    let missed = missed(counted);
    format!(
        "unique pages called duplicates, by the share of text that their site repeats, and by pages of a site\n\n{}\n\n{}\n\n\
         {missed} of {} rows miss their goal (marked !)\n\n",
        columns(&unlike),
        columns(&others),
        counted.len()
    )
}

/// Returns one row for each share, form and kind of address, with a column for each size of site.
fn unlike(counted: &[Counted]) -> Vec<Vec<String>> {
    let of = |row: &&Counted| row.0.kind == RowKind::Unlike;
    let mut sizes: Vec<usize> = counted.iter().filter(of).filter_map(|(row, _)| row.site_pages).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut head = ["form", "address", "share"].map(str::to_owned).to_vec();
    head.extend(sizes.iter().map(|size| format!("{size} pages")));
    head.extend(["within", "across", "goal"].map(str::to_owned));
    let mut lines = vec![head];
    for form in Form::ALL {
        for addressed in [true, false] {
            for share in SHARES {
                let same =
                    |(row, _): &&Counted| row.form == form && row.addressed == addressed && row.share == Some(share);
                let cells: Vec<&Counted> = counted.iter().filter(of).filter(same).collect();
                let Some((first, _)) = cells.first() else { continue };
                let mut line = vec![form.name().to_owned(), yes(addressed).to_owned(), format!("{share} %")];
                line.extend(cells.iter().map(|(row, counts)| {
                    let mark = if row.goal.is_met(counts) { "" } else { " !" };
                    format!("{:.2} %{mark}", counts.lost.share() * 100.0)
                }));
                let sum =
                    |of: fn(&SiteCounts) -> u64| cells.iter().map(|(_, counts)| of(counts)).sum::<u64>().to_string();
                line.extend([sum(|counts| counts.lost_within), sum(SiteCounts::lost_across), goal(first)]);
                lines.push(line);
            }
        }
    }
    lines
}

fn yes(addressed: bool) -> &'static str {
    if addressed { "yes" } else { "no" }
}

fn goal(row: &Row) -> String {
    let percent = |share: f64| format!("{} %", (share * 100_000.0).round() / 1000.0);
    let found = row.goal.found.map(|min| format!(">= {}", percent(min)));
    let lost = row.goal.lost.map(|max| format!("<= {}", percent(max)));
    found.into_iter().chain(lost).collect::<Vec<_>>().join(", ")
}
